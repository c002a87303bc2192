//! A table of named columns that knows where each row came from.

use std::borrow::Cow;
use std::collections::HashMap;

use super::column::{Column, TextColumn};
use super::marker::numbers_of;
use super::reading::Readings;
use crate::readable::few;
use sha2::{Digest, Sha256};
use sparsegp::error::{Error, Result};
use sparsegp::files::hexadecimal;
use std::sync::Arc;

/// The minimum similarity (Jaro–Winkler, 1 is equal) of a name that a hint suggests for an absent name.
const CLOSE: f64 = 0.75;

/// Returns the name of a target without a column of its own, whose interval the columns of its lower and upper ends say.
pub fn interval_name([lower, upper]: [&str; 2]) -> String {
    format!("{lower}..{upper}")
}

/// A column and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedColumn {
    /// The name in the header.
    pub name: String,
    /// The values, one per row.
    pub column: Column,
}

/// Named columns of equal length, read from one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<NamedColumn>,
    /// The index of each column, by name.
    places: HashMap<String, usize>,
    rows: usize,
    /// Unchanged columns of the file, for copying.
    copies: Vec<NamedColumn>,
    origin: Origin,
}

/// The origin of the rows of a table, for messages.
#[derive(Clone, Debug, Default, PartialEq)]
struct Origin {
    source: String,
    first_row: usize,
    lines: Lines,
    /// The rows of the block that this table contains, if some were left out.
    kept: Option<Vec<usize>>,
    /// A cell that shows the decimal commas of the text that was read.
    decimal_comma: Option<String>,
    notes: Vec<String>,
    row_names: RowNames,
}

/// The names of the rows of a table in messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowNames {
    /// Numbers from 1, as in a file.
    #[default]
    FromOne,
    /// Numbers from 0, as in an array.
    FromZero,
    /// A label for each row.
    Labels(Arc<[String]>),
}

impl Table {
    /// Creates a table of columns in memory; messages call it `source`.
    ///
    /// # Errors
    ///
    /// If two columns share a name, or the columns differ in length.
    pub fn new(source: impl Into<String>, columns: Vec<NamedColumn>) -> Result<Table> {
        let source = source.into();
        check_names(&source, columns.iter().map(|named| named.name.as_str()))?;
        let rows = columns.first().map_or(0, |named| named.column.len());
        if let Some(odd) = columns.iter().find(|named| named.column.len() != rows) {
            return Err(Error::data(format!(
                "{source}: column {} has {} rows, expected {rows} as in the first column",
                quoted(&odd.name),
                odd.column.len()
            )));
        }
        Ok(Table::from_block(source, columns, rows, 0, Lines::default()))
    }

    /// Creates a block of a file. The names of the columns must be distinct and their lengths equal.
    pub(crate) fn from_block(
        source: String,
        columns: Vec<NamedColumn>,
        rows: usize,
        first_row: usize,
        lines: Lines,
    ) -> Table {
        Table::with_origin(columns, rows, Origin { source, first_row, lines, ..Origin::default() })
    }

    /// Creates a table of these rows of a file.
    pub(crate) fn of_rows(source: String, columns: Vec<NamedColumn>, rows: Vec<usize>) -> Table {
        Table::with_origin(columns, rows.len(), Origin { source, kept: Some(rows), ..Origin::default() })
    }

    fn with_origin(columns: Vec<NamedColumn>, rows: usize, origin: Origin) -> Table {
        let places = columns.iter().enumerate().map(|(place, named)| (named.name.clone(), place)).collect();
        Table { places, columns, rows, copies: Vec::new(), origin }
    }

    /// Adds notes about the reading of the file, and a cell that shows the decimal commas of its text, if it has them.
    pub(crate) fn with_notes(mut self, decimal_comma: Option<&str>, notes: &[String]) -> Table {
        (self.origin.decimal_comma, self.origin.notes) = (decimal_comma.map(str::to_owned), notes.to_vec());
        self
    }

    /// Returns notes about the reading of the file so far: its encoding, invented names.
    pub fn notes(&self) -> &[String] {
        &self.origin.notes
    }

    /// Adds columns that predictions copy unchanged.
    pub fn with_copies(self, copies: Vec<NamedColumn>) -> Table {
        Table { copies, ..self }
    }

    /// Returns the requested unchanged columns of the file, in the order of the request.
    pub fn copies(&self) -> &[NamedColumn] {
        &self.copies
    }

    /// Returns a cell that shows decimal commas, if the text has them.
    pub(crate) fn decimal_comma(&self) -> Option<&str> {
        self.origin.decimal_comma.as_deref()
    }

    /// Adds the column of a target that only the two ends of its interval say: the lower end, or the upper one where there is no lower one.
    /// Ends that are not numbers take its place, so that messages about the target show them. Without either column, the table stays as it is.
    #[must_use]
    pub fn with_interval(mut self, ends: Option<[&str; 2]>) -> Table {
        let Some([lower, upper]) = ends else { return self };
        let name = interval_name([lower, upper]);
        let (Some(low), Some(high), None) = (self.column(lower), self.column(upper), self.column(&name))
        else {
            return self;
        };
        let column = match (self.numbers(lower), self.numbers(upper)) {
            (Err(_), _) => low.clone(),
            (_, Err(_)) => high.clone(),
            (Ok(low), Ok(high)) => {
                let end = |(&low, &high): (&f64, &f64)| if low.is_finite() { low } else { high };
                Column::Number(low.iter().zip(high.iter()).map(end).collect())
            }
        };
        self.places.insert(name.clone(), self.columns.len());
        self.columns.push(NamedColumn { name, column });
        self
    }

    /// Returns a table of the wanted columns, each converted by its reading.
    pub(crate) fn read(&self, readings: &Readings, wanted: &dyn Fn(&str) -> bool) -> Result<Cow<'_, Table>> {
        let text = |named: &NamedColumn| {
            readings.contains_key(&named.name)
                && matches!(named.column, Column::Text(_))
                && wanted(&named.name)
        };
        if !self.columns.iter().any(text) {
            return Ok(Cow::Borrowed(self));
        }
        let read = |NamedColumn { name, column }: &NamedColumn| {
            let Some(reading) = readings.get(name) else { return Ok(column.clone()) };
            let found = |row| shown(column.text(row).unwrap_or_default());
            reading.read(column).map_err(|row| self.unfit(row, name, &found(row), &reading.to_string()))
        };
        let wanted = self.columns.iter().filter(|named| wanted(&named.name));
        let columns = wanted.map(|named| Ok(NamedColumn { name: named.name.clone(), column: read(named)? }));
        let columns = columns.collect::<Result<_>>()?;
        Ok(Cow::Owned(Table::with_origin(columns, self.rows, self.origin.clone())))
    }

    /// Replaces the names of the rows in messages.
    pub fn with_row_names(mut self, row_names: RowNames) -> Table {
        self.origin.row_names = row_names;
        self
    }

    /// Replaces the name of the table in messages.
    pub fn called(mut self, source: &str) -> Table {
        self.origin.source = source.to_owned();
        self
    }

    /// Returns the names of the rows in messages.
    pub fn row_names(&self) -> &RowNames {
        &self.origin.row_names
    }

    /// Marks the table as a part of a larger table, after the first `first_row` rows.
    pub fn from_row(mut self, first_row: usize) -> Table {
        self.origin.first_row = first_row;
        self
    }

    /// Returns the name of the table in messages: the path of the file, as given.
    pub fn source(&self) -> &str {
        &self.origin.source
    }

    /// Returns the columns, in the order of the file.
    pub fn columns(&self) -> &[NamedColumn] {
        &self.columns
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns a digest (SHA-256, hexadecimal) of names and values; tables with equal digests hold the same data.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let text = |hash: &mut Sha256, text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        for NamedColumn { name, column } in &self.columns {
            text(&mut hash, name);
            match column {
                // All bytes at once, because each call of `update` has a fixed cost.
                Column::Number(values) | Column::Time(values) => {
                    hash.update(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
                }
                Column::Text(column) => {
                    column.levels().iter().for_each(|level| text(&mut hash, level));
                    let codes = column.codes().map(|code| code.map_or(u64::MAX, |code| code as u64));
                    hash.update(codes.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
                }
                Column::Unsupported { data_type, .. } => text(&mut hash, data_type),
            }
        }
        hash.update((self.rows as u64).to_le_bytes());
        hexadecimal(hash)
    }

    /// Returns the number of rows of the file before this table; 0 unless it is a later block of a stream.
    pub fn first_row(&self) -> usize {
        self.origin.first_row
    }

    /// Returns a table of these rows, in this order. Messages count its rows within the new table.
    ///
    /// # Panics
    ///
    /// If a row is out of range.
    pub fn take(&self, rows: &[usize]) -> Table {
        let Origin { source, decimal_comma, notes, row_names, .. } = &self.origin;
        let origin = Origin {
            source: source.clone(),
            decimal_comma: decimal_comma.clone(),
            notes: notes.clone(),
            row_names: match row_names {
                RowNames::Labels(labels) => RowNames::Labels(
                    rows.iter().map(|&row| labels.get(row).cloned().unwrap_or_default()).collect(),
                ),
                numbers => numbers.clone(),
            },
            ..Origin::default()
        };
        self.at_rows(rows, |column| column, origin)
    }

    /// Returns these rows of every column, changed by `change`.
    fn at_rows(&self, rows: &[usize], change: fn(Column) -> Column, origin: Origin) -> Table {
        let column = |NamedColumn { name, column }: &NamedColumn| NamedColumn {
            name: name.clone(),
            column: change(column.take(rows)),
        };
        Table::with_origin(self.columns.iter().map(column).collect(), rows.len(), origin)
    }

    /// Returns the rows that have a value in a column, or all rows if there is no such column. Markers of missing cells are not values.
    /// Messages count the rows within the whole table.
    pub fn with_values(&self, name: &str) -> Cow<'_, Table> {
        self.with_any_value(&[name])
    }

    /// Returns the rows that have a value in one of the columns with these names; see [`Table::with_values`].
    pub fn with_any_value(&self, names: &[impl AsRef<str>]) -> Cow<'_, Table> {
        let columns = names.iter().filter_map(|name| self.column(name.as_ref()));
        let lacking: Vec<_> = columns.map(Column::lacking).collect();
        let missing = |row| !lacking.is_empty() && lacking.iter().all(|lacks| lacks(row));
        if !(0..self.rows).any(&missing) {
            return Cow::Borrowed(self);
        }
        let rows: Vec<usize> = (0..self.rows).filter(|&row| !missing(row)).collect();
        let kept = rows.iter().map(|&row| self.within(row)).collect();
        Cow::Owned(self.at_rows(&rows, Column::typed, Origin { kept: Some(kept), ..self.origin.clone() }))
    }

    /// Returns the index of a row in the block that was read.
    fn within(&self, row: usize) -> usize {
        self.origin.kept.as_ref().and_then(|kept| kept.get(row)).copied().unwrap_or(row)
    }

    /// Returns the row of the file, counted from 0, for a row of the table.
    pub(crate) fn row(&self, row: usize) -> usize {
        self.origin.first_row + self.within(row)
    }

    /// Returns the column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.places.get(name).map(|&place| &self.columns[place].column)
    }

    pub(crate) fn require(&self, name: &str) -> Result<&Column> {
        self.column(name).ok_or_else(|| {
            absent(&self.origin.source, "column", name, self.columns.iter().map(|named| named.name.as_str()))
        })
    }

    /// Returns a column of a supported type.
    pub(crate) fn supported(&self, name: &str) -> Result<&Column> {
        match self.require(name)? {
            Column::Unsupported { data_type, .. } => Err(self.unsupported(name, data_type)),
            column => Ok(column),
        }
    }

    /// Returns the values of a column as numbers, with NaN for missing cells and their markers, 1 for `true` and 0 for `false`.
    ///
    /// # Errors
    ///
    /// If the column is absent, has an unsupported type, or holds text; the message names the first such cell.
    pub fn numbers(&self, name: &str) -> Result<Cow<'_, [f64]>> {
        match self.require(name)? {
            Column::Number(values) => Ok(Cow::Borrowed(values)),
            Column::Text(text) => {
                let Some(values) = numbers_of(text.levels()) else {
                    return Err(self.not_a_number(name, text));
                };
                let value = |code: Option<usize>| code.map_or(f64::NAN, |code| values[code]);
                Ok(Cow::Owned(text.codes().map(value).collect()))
            }
            Column::Time(_) => Err(self.unsupported(name, "date")),
            Column::Unsupported { data_type, .. } => Err(self.unsupported(name, data_type)),
        }
    }

    /// Creates the error for a column that must hold numbers but holds text; it names the first text.
    pub(crate) fn not_a_number(&self, name: &str, text: &TextColumn) -> Error {
        let row = text.first_text;
        self.unfit(row, name, &shown(text.get(row).unwrap_or_default()), "a number")
    }

    pub(crate) fn unsupported(&self, name: &str, data_type: &str) -> Error {
        Error::data(format!(
            "{}: column {} has type {data_type}, expected numbers, text or true/false",
            self.origin.source,
            quoted(name)
        ))
        .hint(format!("convert the column to a number, or leave it out with ⟨exclude {name}⟩"))
    }

    /// Creates the error for a cell that does not suit its column.
    pub(crate) fn unfit(&self, row: usize, name: &str, found: &str, expected: &str) -> Error {
        Error::data(format!("{}: found {found}, expected {expected}", self.place(row, name)))
    }

    /// Creates the error for a missing value in a column that is used.
    pub(crate) fn missing(&self, row: usize, name: &str) -> Error {
        Error::data(format!("{}: the value is missing, expected one in every row", self.place(row, name)))
            .hint("fill in or remove the rows with missing values, or leave the column out with ⟨exclude⟩")
    }

    /// Checks that a value in use is neither missing nor infinite.
    pub(crate) fn finite(&self, row: usize, name: &str, value: f64) -> Result<f64> {
        if value.is_finite() {
            Ok(value)
        } else if value.is_nan() {
            Err(self.missing(row, name))
        } else {
            Err(self
                .unfit(row, name, &value.to_string(), "a finite number")
                .hint("remove the row or replace the infinite value"))
        }
    }

    /// Returns the position of a cell for messages, as in "file: row 3 (line 4), column 'x'"; `row` counts from 0 within this table.
    pub fn place(&self, row: usize, column: &str) -> String {
        format!("{}: {}", self.origin.source, self.cell(row, column))
    }

    /// Returns the position of a cell in the table, as in "row 3 (line 4), column 'x'"; `row` counts from 0 within this table.
    pub(crate) fn cell(&self, row: usize, column: &str) -> String {
        let line = self
            .origin
            .lines
            .line(self.within(row))
            .map_or_else(String::new, |line| format!(" (line {line})"));
        let at = self.row(row);
        let name = match &self.origin.row_names {
            RowNames::FromOne => (at + 1).to_string(),
            RowNames::FromZero => at.to_string(),
            RowNames::Labels(labels) => labels.get(at).map_or_else(|| at.to_string(), |label| quoted(label)),
        };
        format!("row {name}{line}, column {}", quoted(column))
    }
}

/// The line of a text file on which each row begins, stored only for rows whose line does not follow from their number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lines {
    breaks: Vec<(usize, u64)>,
    rows: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, line: u64) {
        let row = self.rows;
        self.rows += 1;
        let expected = self.breaks.last().map(|&(start, first)| first + (row - start) as u64);
        if expected != Some(line) {
            self.breaks.push((row, line));
        }
    }

    fn line(&self, row: usize) -> Option<u64> {
        let after = self.breaks.partition_point(|&(start, _)| start <= row);
        let (start, first) = *self.breaks.get(after.checked_sub(1)?)?;
        Some(first + (row - start) as u64)
    }
}

/// Formats a name for a message, in single quotes and on one line.
pub(crate) fn quoted(name: &str) -> String {
    format!("'{}'", name.escape_debug())
}

/// Formats a value for a message, in double quotes, on one line and shortened.
pub(crate) fn shown(value: &str) -> String {
    const LONGEST: usize = 40;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}

pub(crate) fn check_names<'a>(source: &str, names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashMap::new();
    for (index, name) in names.enumerate() {
        if name.is_empty() {
            return Err(Error::data(format!("{source}: column {} has no name in the header", index + 1))
                .hint("name it, or remove it (it is often a row index that was saved by accident)"));
        }
        if let Some(first) = seen.insert(name, index) {
            return Err(Error::data(format!(
                "{source}: columns {} and {} are both named {}, expected distinct names",
                first + 1,
                index + 1,
                quoted(name)
            )));
        }
    }
    Ok(())
}

/// Creates the error for an absent name; the hint lists similar names.
pub(crate) fn absent<'a>(
    source: &str,
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Error {
    let error = Error::data(format!("{source}: there is no {what} named {}", quoted(name)));
    if names.clone().count() > 0 && names.clone().all(|name| name.parse::<f64>().is_ok()) {
        return error.hint("the first row of the file holds numbers; it must hold the names of the columns");
    }
    match alike(name, names.clone()) {
        close if close.is_empty() => error.hint(format!("the columns are {}", listed(names))),
        close => error.hint(format!("did you mean {}?", listed(close.into_iter()))),
    }
}

/// Returns the similar names, the most similar one first.
pub(crate) fn alike<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let score = |other: &'a str| (strsim::jaro_winkler(&wanted, &other.to_lowercase()), other);
    let mut close: Vec<_> = names.map(score).filter(|&(score, _)| score >= CLOSE).collect();
    close.sort_by(|a, b| b.0.total_cmp(&a.0));
    close.into_iter().map(|(_, name)| name).collect()
}

/// Lists up to ten names for a message.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    few(names.map(quoted), 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_where_they_part_from_rows() {
        let mut lines = Lines::default();
        for line in [2, 3, 7, 8, 9, 20] {
            lines.push(line);
        }
        assert_eq!(lines.breaks.len(), 3);
        let read: Vec<_> = (0..6).map(|row| lines.line(row)).collect();
        assert_eq!(read, [2, 3, 7, 8, 9, 20].map(Some));
        assert_eq!(Lines::default().line(0), None);
    }

    #[test]
    fn messages_stay_on_one_line() {
        assert_eq!(shown("a\nb"), "\"a\\nb\"");
        assert_eq!(shown(&"é".repeat(100)).chars().count(), 43);
        assert_eq!(quoted("a\nb"), "'a\\nb'");
    }
}
