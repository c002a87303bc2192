//! The facts of all columns of a table, gathered block by block and merged part by part; no facts of single cells.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::facts::{ColumnFacts, Demand};
use super::places::{PlaceFacts, Places};
use crate::tables::table::{Table, absent};
use sparsegp::error::{Error, Result};

/// What is known of the columns of a table or file, or of some of its rows.
///
/// Facts of parts are those of the whole once they are merged in the order of the rows, and written by serde in between in formats
/// that hold every `f64`. What they say of rows counts from the beginning of the file: blocks know where they are in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableFacts {
    source: String,
    rows: usize,
    columns: Vec<(String, Option<ColumnFacts>)>,
    /// The place of each column among them, by name, once one was asked for.
    #[serde(skip)]
    places: OnceLock<HashMap<String, usize>>,
    /// A cell that shows decimal commas, where the text has them.
    decimal_comma: Option<String>,
    /// Facts about the places, if two columns hold them.
    place: Option<PlaceFacts>,
    /// What is to be told about how the table was read.
    notes: Vec<String>,
}

impl TableFacts {
    /// Of no rows yet. `demand` says what is asked of a column, `None` of one that nobody looks at.
    pub(crate) fn new<'a>(
        source: &str,
        names: impl Iterator<Item = &'a str>,
        demand: &dyn Fn(&str) -> Option<Demand>,
    ) -> TableFacts {
        let columns = names.map(|name| (name.to_owned(), demand(name).map(ColumnFacts::new)));
        TableFacts {
            source: source.to_owned(),
            rows: 0,
            columns: columns.collect(),
            places: OnceLock::new(),
            decimal_comma: None,
            place: None,
            notes: Vec::new(),
        }
    }

    /// Declares that two columns hold places.
    pub(crate) fn with_places(self, places: Option<&Places>) -> TableFacts {
        TableFacts { place: places.map(PlaceFacts::new), ..self }
    }

    /// Returns the facts about places.
    ///
    /// # Errors
    ///
    /// If no columns were declared to hold them.
    pub(super) fn require_place(&self) -> Result<&PlaceFacts> {
        let undeclared = || Error::data(format!("{}: no columns are declared as places", self.source));
        self.place.as_ref().ok_or_else(undeclared)
    }

    /// Takes in the next rows, whose columns are in the order of the file; those that nobody looks at may be absent.
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

    /// Takes in what is known of later rows.
    ///
    /// # Errors
    ///
    /// When they have other columns, or others are looked at or asked for something else; nothing has changed then.
    pub(crate) fn merge(&mut self, later: TableFacts) -> Result<()> {
        let demands = |facts: &TableFacts| -> Vec<(String, Option<Demand>)> {
            let demand = |facts: &Option<ColumnFacts>| facts.as_ref().map(|facts| facts.demand.clone());
            facts.columns.iter().map(|(name, facts)| (name.clone(), demand(facts))).collect()
        };
        if demands(self) != demands(&later) {
            return Err(Error::data(format!(
                "{} and {} differ in their columns, expected parts of one table",
                self.source, later.source
            )));
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

    /// What is to be told about how the table was read.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A cell that shows decimal commas, where the text has them.
    pub(crate) fn decimal_comma(&self) -> Option<&str> {
        self.decimal_comma.as_deref()
    }

    /// What messages call the table.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The names of all columns, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.columns.iter().map(|(name, _)| name.as_str())
    }

    /// Checks that there is a column of this name.
    pub(crate) fn require_name(&self, name: &str) -> Result<()> {
        if self.find(name).is_some() {
            Ok(())
        } else {
            Err(absent(&self.source, "column", name, self.names()))
        }
    }

    /// What is known of a column.
    pub(crate) fn require(&self, name: &str) -> Result<&ColumnFacts> {
        self.find(name)
            .and_then(|(_, facts)| facts.as_ref())
            .ok_or_else(|| absent(&self.source, "column", name, self.names()))
    }

    fn find(&self, name: &str) -> Option<&(String, Option<ColumnFacts>)> {
        let places = self.places.get_or_init(|| {
            self.columns.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect()
        });
        places.get(name).map(|&place| &self.columns[place])
    }
}
