//! The rows that a fit can learn from, and their roles: held out at random, by whole groups or by
//! time, for tables in memory and files alike.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use super::survey::BLOCK_ROWS;
use crate::schema::facts::{ColumnFacts, Demand};
use crate::schema::{SchemaOptions, SplitBy, label};
use crate::tables::read::How;
use crate::tables::table::shown;
use crate::tables::{Column, Reading, Table, TableBlocks};
use sparsegp::data::{Roles, Split};
use sparsegp::error::{Error, Result};
use sparsegp::options::FitOptions;

/// The shares of rows held out for testing and for validation, and the seed of the random choice.
#[derive(Clone, Copy)]
pub(crate) struct Shares {
    pub test: f64,
    pub validation: f64,
    pub seed: u64,
}

impl Shares {
    pub(super) fn of(test: f64, options: &FitOptions) -> Shares {
        Shares { test, validation: options.validation_fraction, seed: options.seed }
    }
}

/// A function that passes all blocks of a table to a callback, from the first one at every call.
pub(crate) type EachBlock<'a> = dyn Fn(&mut dyn FnMut(&Table) -> Result<()>) -> Result<()> + 'a;

/// Splits the rows of a table, all of which have a target, by their roles.
pub(crate) fn split_table(table: &Table, by: Option<&SplitBy>, shares: Shares) -> Result<Split> {
    let Shares { test, validation, seed } = shares;
    let roles = match by {
        None => Roles::new(table.rows(), test, validation, seed)?,
        Some(by) => roles_by(&|take| take(table), by, shares)?,
    };
    Ok(roles.split(table.rows()))
}

/// Returns the training rows of a table whose columns are not known yet. If the rows cannot be split, returns
/// all rows with a target; the fit then reports the error.
pub(crate) fn training_rows(table: &Table, columns: &SchemaOptions, shares: Shares) -> Vec<usize> {
    let lacking = table.column(&columns.target).map(Column::lacking);
    let is_known = |row: &usize| lacking.as_ref().is_none_or(|lacking| !lacking(*row));
    let known: Vec<usize> = (0..table.rows()).filter(is_known).collect();
    let split = split_table(&table.with_values(&columns.target), columns.split.as_ref(), shares);
    match split {
        Ok(split) => split.train.into_iter().filter_map(|row| known.get(row).copied()).collect(),
        Err(_) => known,
    }
}

/// Returns the roles of the rows of a file that have a target, the same as those of [`split_table`].
pub(super) fn roles_of_file(path: &Path, columns: &SchemaOptions, shares: Shares) -> Result<Roles> {
    let (target, by) = (columns.target.as_str(), columns.split.as_ref());
    let interval = columns.interval();
    let how = How { delimiter: columns.delimiter, missing: &columns.missing, interval, ..How::default() };
    let wanted = |name: &str| name == target || by.is_some_and(|by| by.column() == name);
    let blocks = || TableBlocks::new(path, BLOCK_ROWS, &wanted, how);
    let (mut labelled, mut rows): (Vec<u32>, usize) = Default::default();
    for block in blocks()? {
        let block = block?;
        let lacking = block.column(target).map(Column::lacking);
        let is_known = |row: &usize| lacking.as_ref().is_none_or(|lacking| !lacking(*row));
        // Too many rows for `u32` are refused when roles are drawn.
        let number = |row: usize| u32::try_from(rows + row).unwrap_or(u32::MAX);
        labelled.extend((0..block.rows()).filter(is_known).map(number));
        rows += block.rows();
    }
    if labelled.is_empty() {
        // The next reader of the file reports the problem.
        return Ok(Roles::default());
    }
    let each = |take: &mut dyn FnMut(&Table) -> Result<()>| -> Result<()> {
        blocks()?.try_for_each(|block| take(&block?.with_values(target)))
    };
    let roles = match by {
        Some(by) => roles_by(&each, by, shares)?,
        None => Roles::new(labelled.len(), shares.test, shares.validation, shares.seed)?,
    };
    Ok(roles.among(&labelled, rows))
}

/// Returns the roles of all rows by their groups or times.
fn roles_by(each: &EachBlock<'_>, by: &SplitBy, shares: Shares) -> Result<Roles> {
    let Shares { test, validation, seed } = shares;
    match by {
        SplitBy::Group(name) => {
            let named = |error: Error| {
                error.hint(format!("make the fractions larger, or leave out ⟨split_by {name}⟩"))
            };
            Roles::of_groups(&groups_in(each, name)?, test, validation, seed).map_err(named)
        }
        SplitBy::Time(name) => Roles::of_times(&times_in(each, name)?, test, validation),
    }
}

/// Returns the groups of the rows, numbered in the order of their first rows.
pub(super) fn groups_in(each: &EachBlock<'_>, name: &str) -> Result<Vec<u32>> {
    let (mut known, mut rows): (HashMap<String, u32>, Vec<u32>) = Default::default();
    each(&mut |block| {
        let column = block.supported(name)?;
        for row in 0..block.rows() {
            if column.is_missing(row) {
                return Err(block.missing(row, name));
            }
            let (label, next) = (label(column, row), known.len() as u32);
            rows.push(match known.get(&*label) {
                Some(&group) => group,
                None => *known.entry(label.into_owned()).or_insert(next),
            });
        }
        Ok(())
    })?;
    Ok(rows)
}

/// Returns the times of the rows in a column of dates or numbers.
pub(crate) fn times_in(each: &EachBlock<'_>, name: &str) -> Result<Vec<f64>> {
    let mut facts = ColumnFacts::new(Demand::None);
    each(&mut |block| {
        facts.push(block, name, block.supported(name)?, None);
        Ok(())
    })?;
    let (reading, mut times) = (facts.reading().map(|(reading, _)| reading), Vec::new());
    each(&mut |block| push_times(block, name, reading.as_ref(), &mut times))?;
    Ok(times)
}

fn push_times(block: &Table, name: &str, reading: Option<&Reading>, times: &mut Vec<f64>) -> Result<()> {
    let column = block.supported(name)?;
    let found = |row| shown(column.text(row).unwrap_or_default());
    let no_time = |row: usize| block.unfit(row, name, &found(row), "a date or a number to split by");
    let read = match reading {
        Some(reading) => reading.read(column).map_err(no_time)?,
        None => column.clone(),
    };
    let values = match &read {
        Column::Number(values) | Column::Time(values) => values.into(),
        Column::Text(text) => read.numbers().ok_or_else(|| no_time(text.first_text))?,
        Column::Unsupported { .. } => Cow::default(),
    };
    if let Some(row) = values.iter().position(|value| value.is_nan()) {
        return Err(block.missing(row, name));
    }
    times.extend(values.iter());
    Ok(())
}
