//! The facts of all columns of a table, gathered block by block and merged part by part.

use super::facts::{ColumnFacts, Demand};
use super::places::{PlaceFacts, Places};
use crate::tables::table::{Table, absent};
use serde::{Deserialize, Serialize};
use sparsegp::error::{Error, Result};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The facts about the columns of a table or file, or of some of its rows.
///
/// The facts about parts, merged in the order of the rows, equal the facts about the whole. Before they are
/// merged, the facts may be serialized in a format that holds every `f64`. Row numbers count from the
/// beginning of the file, since each block has its position in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TableFacts {
    /// The name of the table in messages.
    pub(crate) source: String,
    pub(crate) rows: usize,
    columns: Vec<(String, Option<ColumnFacts>)>,
    /// The index of each column by name, computed at the first lookup.
    #[serde(skip)]
    places: OnceLock<HashMap<String, usize>>,
    /// An example of a cell with a decimal comma, if the text has decimal commas.
    pub(crate) decimal_comma: Option<String>,
    /// Facts about the places, if two columns hold them.
    place: Option<PlaceFacts>,
    /// Notes for the user about how the table was read.
    pub(crate) notes: Vec<String>,
}

impl TableFacts {
    /// Returns the facts about no rows. `demand` returns what the values of a column must be, or `None` for a column that is not used.
    pub(crate) fn new<'a>(
        source: &str,
        names: impl Iterator<Item = &'a str>,
        demand: &dyn Fn(&str) -> Option<Demand>,
        places: Option<&Places>,
    ) -> TableFacts {
        let columns = names.map(|name| (name.to_owned(), demand(name).map(ColumnFacts::new)));
        let (source, place) = (source.to_owned(), places.map(PlaceFacts::new));
        TableFacts { source, columns: columns.collect(), place, ..TableFacts::default() }
    }

    pub(super) fn require_place(&self) -> Result<&PlaceFacts> {
        let undeclared = || Error::data(format!("{}: no columns are declared as places", self.source));
        self.place.as_ref().ok_or_else(undeclared)
    }

    /// Adds the next rows, whose columns are in the order of the file; unused columns may be absent.
    pub(crate) fn push(&mut self, table: &Table, training: Option<&[bool]>) {
        self.rows += table.rows();
        self.decimal_comma = self.decimal_comma.take().or_else(|| table.decimal_comma().map(str::to_owned));
        self.take_notes(table.notes());
        if let Some(place) = &mut self.place {
            place.push(table, training);
        }
        let mut named = table.columns().iter();
        for (name, facts) in self.columns.iter_mut() {
            let Some(facts) = facts else { continue };
            if let Some(found) = named.find(|named| named.name == *name) {
                facts.push(table, name, &found.column, training);
            }
        }
    }

    /// Merges the facts about later rows.
    ///
    /// Fails if `later` has other columns, or other requirements for their values; `self` is then unchanged.
    pub(crate) fn merge(&mut self, later: TableFacts) -> Result<()> {
        let demands = |facts: &TableFacts| -> Vec<(String, Option<Demand>)> {
            let demand = |facts: &Option<ColumnFacts>| facts.as_ref().map(|facts| facts.demand.clone());
            facts.columns.iter().map(|(name, facts)| (name.clone(), demand(facts))).collect()
        };
        if demands(self) != demands(&later) {
            let differ = format!("{} and {} differ in their columns", self.source, later.source);
            return Err(Error::data(format!("{differ}, expected parts of one table")));
        }
        self.rows += later.rows;
        self.take_notes(&later.notes);
        self.decimal_comma = self.decimal_comma.take().or(later.decimal_comma);
        if let (Some(place), Some(later)) = (&mut self.place, later.place) {
            place.merge(later);
        }
        for ((_, facts), (_, later)) in self.columns.iter_mut().zip(later.columns) {
            if let (Some(facts), Some(later)) = (facts, later) {
                facts.merge(later);
            }
        }
        Ok(())
    }

    fn take_notes(&mut self, notes: &[String]) {
        let new: Vec<String> = notes.iter().filter(|note| !self.notes.contains(note)).cloned().collect();
        self.notes.extend(new);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn require_name(&self, name: &str) -> Result<()> {
        let absent = || absent(&self.source, "column", name, self.names());
        self.find(name).map(|_| ()).ok_or_else(absent)
    }

    /// Returns the facts about a column; an error if it is absent or not used.
    pub(crate) fn require(&self, name: &str) -> Result<&ColumnFacts> {
        self.get(name).ok_or_else(|| absent(&self.source, "column", name, self.names()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ColumnFacts> {
        self.find(name)?.1.as_ref()
    }

    fn find(&self, name: &str) -> Option<&(String, Option<ColumnFacts>)> {
        let places = self.places.get_or_init(|| {
            self.columns.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect()
        });
        places.get(name).map(|&place| &self.columns[place])
    }
}
