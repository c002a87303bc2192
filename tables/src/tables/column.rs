//! A typed column, and the rule that finds the type from text cells.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use super::instant::exact;
use super::marker::{are_markers, code_digits, long_whole, plain_number};

/// The code of a missing cell in a [`TextColumn`].
const MISSING: usize = usize::MAX;

/// The values of one column, one per row.
///
/// A column is `Number` when every cell that is not missing reads as a number, and `Text` otherwise. Whole
/// numbers with a leading zero (`01002`) are text. Whole numbers beyond 2⁵³ are kept as text too, so that identifiers stay distinct; a
/// column of numbers that holds such a cell is `Text`, and is still read as numbers where numbers are needed. Missing cells (empty, `NA`, `NaN`, `null`, `?`, in any
/// case) are kept: NaN in a `Number` column, which holds NaN for no other reason, and `None` in a `Text`
/// column. Other markers of missing cells stay text here; the schema interprets them.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Column {
    /// Numbers; NaN is a missing cell, infinities are kept as read.
    Number(Vec<f64>),
    /// Text, with at least one cell that is not a number or is a whole number beyond 2⁵³.
    Text(TextColumn),
    /// Instants, in seconds since the beginning of 1970 in UTC; NaN is a missing cell.
    Time(Vec<f64>),
    /// A column of an unsupported type (a list, a duration); using it is an error.
    Unsupported {
        /// The name of the type in the file.
        data_type: String,
        /// The number of rows.
        rows: usize,
    },
}

impl Column {
    /// Creates a column from text cells (`None` is a missing cell); the type is found as in a CSV file.
    pub fn from_text<'a>(cells: impl IntoIterator<Item = Option<&'a str>>) -> Column {
        Column::of_cells(cells.into_iter().map(|cell| read_cell(cell.unwrap_or(""))))
    }

    /// Creates a column from cells; the type is found as in a CSV file.
    pub(crate) fn of_cells<'a>(cells: impl Iterator<Item = Cell<'a>>) -> Column {
        let mut typed = TypedCells::default();
        cells.for_each(|cell| typed.push(cell));
        typed.finish()
    }

    /// Creates a column whose rows hold the labels with these indices, or nothing.
    ///
    /// # Panics
    ///
    /// If an index is out of range.
    pub fn of_labels(labels: &[String], rows: impl IntoIterator<Item = Option<usize>>) -> Column {
        let check =
            |code: &Option<usize>| assert!(code.is_none_or(|code| code < labels.len()), "no such label");
        Column::Text(TextColumn::of_codes(labels.to_vec(), rows.into_iter().inspect(check)))
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Number(values) | Column::Time(values) => values.len(),
            Column::Text(text) => text.codes.len(),
            Column::Unsupported { rows, .. } => *rows,
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_missing(&self, row: usize) -> bool {
        match self {
            Column::Number(values) | Column::Time(values) => values[row].is_nan(),
            Column::Text(text) => text.code(row).is_none(),
            Column::Unsupported { .. } => false,
        }
    }

    /// Returns a predicate that is true for rows without a value: the cell is missing or holds a marker of missing cells.
    pub(crate) fn lacking(&self) -> impl Fn(usize) -> bool + '_ {
        let markers = match self {
            Column::Text(text) => are_markers(&text.levels),
            _ => Vec::new(),
        };
        move |row| match self {
            Column::Text(text) => text.code(row).is_none_or(|code| markers[code]),
            _ => self.is_missing(row),
        }
    }

    /// Returns a cell in the spelling that all formats of files share; `None` if it is missing.
    pub(crate) fn spelling(&self, row: usize) -> Option<Cow<'_, str>> {
        match self {
            Column::Number(values) if !values[row].is_nan() => Some(number_text(values[row])),
            Column::Time(values) if !values[row].is_nan() => Some(Cow::Owned(exact(values[row]))),
            _ => self.text(row).map(Cow::Borrowed),
        }
    }

    pub(crate) fn text(&self, row: usize) -> Option<&str> {
        match self {
            Column::Text(text) => text.get(row),
            _ => None,
        }
    }

    pub(crate) fn into_time(self) -> Column {
        match self {
            Column::Number(values) => Column::Time(values),
            other => other,
        }
    }

    /// Returns the values of a column of numbers, rounded to 64-bit floats, with NaN for missing cells; `None` for other columns.
    pub(crate) fn numbers(&self) -> Option<Cow<'_, [f64]>> {
        match self {
            Column::Number(values) => Some(Cow::Borrowed(values)),
            Column::Text(text) if text.are_numbers() => {
                let values: Vec<f64> =
                    text.levels.iter().map(|level| level.parse().unwrap_or(f64::NAN)).collect();
                let value = |&code: &usize| values.get(code).copied().unwrap_or(f64::NAN);
                Some(Cow::Owned(text.codes.iter().map(value).collect()))
            }
            _ => None,
        }
    }

    /// Converts a text column without any remaining text to numbers, unless it holds whole numbers beyond 2⁵³.
    pub(crate) fn typed(self) -> Column {
        match (&self, self.numbers()) {
            (Column::Text(text), Some(values))
                if !text.levels.iter().any(|level| long_whole(level).is_some()) =>
            {
                Column::Number(values.into_owned())
            }
            _ => self,
        }
    }

    /// Returns the values at these rows, in this order. A text column keeps all its distinct values.
    ///
    /// # Panics
    ///
    /// If a row is out of range.
    pub(crate) fn take(&self, rows: &[usize]) -> Column {
        match self {
            Column::Number(values) => Column::Number(rows.iter().map(|&row| values[row]).collect()),
            Column::Time(values) => Column::Time(rows.iter().map(|&row| values[row]).collect()),
            Column::Text(text) => {
                Column::Text(text.with_codes(rows.iter().map(|&row| text.codes[row]).collect()))
            }
            Column::Unsupported { data_type, .. } => {
                Column::Unsupported { data_type: data_type.clone(), rows: rows.len() }
            }
        }
    }
}

/// A column of text, stored as codes into its distinct values.
///
/// Cells that read as numbers have one spelling ("1.0", "01" and "1" are all "1"), so that a category from a
/// file of text equals the same category from a file of numbers. Whole numbers beyond 2⁵³ keep their digits.
#[derive(Clone, Debug, PartialEq)]
pub struct TextColumn {
    levels: Vec<String>,
    codes: Vec<usize>,
    numbers: usize,
    /// The first row (from 0) whose value does not read as a number.
    pub(crate) first_text: usize,
}

impl TextColumn {
    /// Creates a column from distinct values and one code per row; `None` is a missing cell.
    pub(crate) fn of_codes(levels: Vec<String>, codes: impl IntoIterator<Item = Option<usize>>) -> Self {
        let codes = codes.into_iter().map(|code| code.unwrap_or(MISSING)).collect();
        TextColumn { levels, codes, numbers: 0, first_text: 0 }
    }

    /// Returns the distinct values, in the order of their first rows.
    pub fn levels(&self) -> &[String] {
        &self.levels
    }

    /// Returns the index in [`levels`](Self::levels) of each row's value; `None` for a missing cell.
    pub(crate) fn codes(&self) -> impl ExactSizeIterator<Item = Option<usize>> + '_ {
        self.codes.iter().map(|&code| (code != MISSING).then_some(code))
    }

    /// Returns the value at a row; `None` if the cell is missing or the row is out of range.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.code(row).and_then(|code| self.levels.get(code)).map(String::as_str)
    }

    /// Returns true if every value reads as a number.
    pub(crate) fn are_numbers(&self) -> bool {
        self.numbers == self.codes().flatten().count()
    }

    /// Returns the column with some of its distinct values turned into missing cells.
    pub(super) fn without(&self, missing: &[bool]) -> TextColumn {
        let kept = |&code: &usize| {
            missing.get(code).map_or(MISSING, |&missing| if missing { MISSING } else { code })
        };
        self.with_codes(self.codes.iter().map(kept).collect())
    }

    /// Returns a column with the same distinct values and other codes. Labels such as `1` remain labels.
    fn with_codes(&self, codes: Vec<usize>) -> TextColumn {
        let are_labels = self.numbers == 0;
        let is_number = |level: &String| !are_labels && plain_number(level).is_some();
        let is_number: Vec<bool> = self.levels.iter().map(is_number).collect();
        let number = |code: usize| is_number.get(code).copied();
        TextColumn {
            levels: self.levels.clone(),
            numbers: codes.iter().filter(|&&code| number(code) == Some(true)).count(),
            first_text: codes.iter().position(|&code| number(code) == Some(false)).unwrap_or(0),
            codes,
        }
    }

    pub(crate) fn code(&self, row: usize) -> Option<usize> {
        self.codes.get(row).copied().filter(|&code| code != MISSING)
    }
}

/// Returns 1 for "true" and 0 for "false", in any case.
pub(crate) fn boolean(text: &str) -> Option<f64> {
    let words = [("true", 1.0), ("false", 0.0)];
    words.into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, value)| value)
}

pub(crate) enum Cell<'a> {
    Missing,
    Number(f64),
    /// A whole number beyond 2⁵³, by its digits.
    Long(&'a str),
    Text(&'a str),
}

/// Reads one text cell, ignoring white space around it.
pub(crate) fn read_cell(field: &str) -> Cell<'_> {
    let text = field.trim();
    let missing = text.is_empty()
        || text == "?"
        || (text.len() <= 4 && ["na", "nan", "null"].iter().any(|token| text.eq_ignore_ascii_case(token)));
    if missing {
        return Cell::Missing;
    }
    if let Some(digits) = long_whole(text) {
        return Cell::Long(digits);
    }
    match text.parse::<f64>() {
        Ok(value) if value.is_nan() => Cell::Missing,
        Ok(_) if code_digits(text).is_some() => Cell::Text(text),
        Ok(value) => Cell::Number(value),
        Err(_) => Cell::Text(text),
    }
}

/// Returns the shortest text that reads back as this number, without a trailing ".0" and without a negative zero.
pub fn number_text(value: f64) -> Cow<'static, str> {
    if value == 0.0 {
        return Cow::Borrowed("0");
    }
    let mut text = format!("{value:?}");
    if text.ends_with(".0") {
        text.truncate(text.len() - 2);
    }
    Cow::Owned(text)
}

/// Compares numbers by value and text by characters; numbers come before text.
pub(crate) fn level_order(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        // Different whole numbers beyond 2^53 may be one float.
        (Ok(x), Ok(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// Collects the cells of a column: as values of a type, unchanged for a copy, or both.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    /// The values; `None` for a column that is only copied.
    values: Option<TypedCells>,
    is_copied: bool,
    /// The copy, if there are any cells: numbers if the file stores numbers, otherwise text.
    copy: Option<TypedCells>,
}

impl ColumnBuilder {
    /// Creates the builder of a column that is used, copied or both.
    pub(crate) fn new(used: bool, is_copied: bool) -> ColumnBuilder {
        ColumnBuilder { values: used.then(TypedCells::default), is_copied, copy: None }
    }

    /// Adds a cell with one text to copy and another text to read. In a copy, only an empty cell is missing.
    pub(crate) fn push_text_as(&mut self, written: &str, read: &str) {
        if self.is_copied {
            let copy = self.copy.get_or_insert_with(|| TypedCells::Text(TextBuilder::of_numbers(&[])));
            copy.push(if written.is_empty() { Cell::Missing } else { Cell::Text(written) });
        }
        if let Some(values) = &mut self.values {
            values.push(read_cell(read));
        }
    }

    pub(crate) fn push_text(&mut self, field: &str) {
        self.push_text_as(field, field);
    }

    /// Adds a number; NaN is a missing cell.
    #[cfg(feature = "parquet")]
    pub(crate) fn push_number(&mut self, value: f64) {
        if self.is_copied {
            self.copy.get_or_insert_default().push(number_cell(value));
        }
        if let Some(values) = &mut self.values {
            values.push(number_cell(value));
        }
    }

    /// Returns the column so far, and prepares the builder for the next block of the file; `None` for a column that is only copied.
    pub(crate) fn finish(&mut self) -> Option<Column> {
        self.values.as_mut().map(|values| std::mem::take(values).finish())
    }

    /// Returns the copy of the column so far, if it is a copied column.
    pub(crate) fn finish_copy(&mut self) -> Option<Column> {
        let none = || Column::Text(TextColumn::of_codes(Vec::new(), []));
        self.is_copied.then(|| self.copy.take().map_or_else(none, TypedCells::finish))
    }
}

/// Cells that are numbers until the first text.
#[derive(Debug)]
enum TypedCells {
    Number(Vec<f64>),
    Text(TextBuilder),
}

impl Default for TypedCells {
    fn default() -> Self {
        TypedCells::Number(Vec::new())
    }
}

impl TypedCells {
    fn push(&mut self, cell: Cell<'_>) {
        match (&mut *self, cell) {
            (TypedCells::Number(values), Cell::Missing) => values.push(f64::NAN),
            (TypedCells::Number(values), Cell::Number(value)) => values.push(value),
            (TypedCells::Number(values), cell @ (Cell::Text(_) | Cell::Long(_))) => {
                let mut builder = TextBuilder::of_numbers(values);
                builder.push(cell);
                *self = TypedCells::Text(builder);
            }
            (TypedCells::Text(builder), cell) => builder.push(cell),
        }
    }

    fn finish(self) -> Column {
        match self {
            TypedCells::Number(values) => Column::Number(values),
            TypedCells::Text(builder) => Column::Text(builder.column),
        }
    }
}

/// Returns the cell of a number; NaN is a missing cell.
pub(crate) fn number_cell(value: f64) -> Cell<'static> {
    if value.is_nan() { Cell::Missing } else { Cell::Number(value) }
}

/// Collects text cells into codes and distinct values.
#[derive(Debug)]
pub(crate) struct TextBuilder {
    column: TextColumn,
    index: HashMap<String, usize>,
}

impl TextBuilder {
    /// Creates a builder from a column that held only numbers so far.
    fn of_numbers(values: &[f64]) -> TextBuilder {
        let column = TextColumn { levels: Vec::new(), codes: Vec::new(), numbers: 0, first_text: usize::MAX };
        let mut builder = TextBuilder { column, index: HashMap::new() };
        for &value in values {
            builder.push(number_cell(value));
        }
        builder
    }

    fn push(&mut self, cell: Cell<'_>) {
        let code = match cell {
            Cell::Missing => MISSING,
            Cell::Number(value) => {
                self.column.numbers += 1;
                self.intern(&number_text(value))
            }
            Cell::Long(digits) => {
                self.column.numbers += 1;
                self.intern(digits)
            }
            Cell::Text(text) => {
                self.column.first_text = self.column.first_text.min(self.column.codes.len());
                self.intern(text)
            }
        };
        self.column.codes.push(code);
    }

    fn intern(&mut self, level: &str) -> usize {
        if let Some(&code) = self.index.get(level) {
            return code;
        }
        let code = self.column.levels.len();
        self.column.levels.push(level.to_owned());
        self.index.insert(level.to_owned(), code);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[&str]) -> Column {
        Column::from_text(cells.iter().map(|&cell| Some(cell)))
    }

    #[test]
    fn every_missing_token_in_any_case_is_missing_and_nothing_else_is() {
        let Column::Number(values) = column(&["", " ", "NA", "na", "NaN", "-nan", "Null", "NULL", "?", "7"])
        else {
            panic!("not a column of numbers");
        };
        assert!(values[..9].iter().all(|value| value.is_nan()));
        assert_eq!(values[9], 7.0);
        let Column::Text(text) = column(&["nano", "none", "NA", "??"]) else { panic!("not text") };
        assert_eq!(text.codes().collect::<Vec<_>>(), [Some(0), Some(1), None, Some(2)]);
    }

    #[test]
    fn numbers_read_in_every_common_form() {
        let read = column(&["1", " 2.5 ", "-3e2", "+4", ".5", "6.", "inf", "-Infinity", "1e400"]);
        let expected = [1.0, 2.5, -300.0, 4.0, 0.5, 6.0, f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY];
        assert_eq!(read, Column::Number(expected.to_vec()));
    }

    #[test]
    fn a_late_text_turns_the_column_to_text_with_one_spelling_per_number() {
        let Column::Text(text) = column(&["1.0", "-0", "", "1e0", "0.0", "red", "1", "01"]) else {
            panic!("not text")
        };
        assert_eq!(text.levels(), ["1", "0", "red", "01"]);
        assert_eq!(text.get(3), Some("1"));
        assert_eq!(text.get(2), None);
        assert_eq!(text.get(99), None);
        assert_eq!((text.numbers, text.first_text), (5, 5));
    }

    #[test]
    fn some_rows_keep_their_values_and_the_distinct_ones_of_all() {
        let whole = column(&["1.0", "red", "", "blue", "2"]);
        let Column::Text(text) = whole.take(&[4, 2, 3, 3]) else { panic!("not text") };
        assert_eq!([0, 1, 2, 3].map(|row| text.get(row)), [Some("2"), None, Some("blue"), Some("blue")]);
        assert_eq!(text.levels(), ["1", "red", "blue", "2"]);
        assert_eq!((text.numbers, text.first_text), (1, 2));
        assert_eq!(column(&["1", "2", "3"]).take(&[2, 0]), Column::Number(vec![3.0, 1.0]));
        let labels = Column::of_labels(&["1".into(), "2".into()], [Some(0), None, Some(1)]);
        assert!(labels.numbers().is_none() && labels.take(&[2, 0]).numbers().is_none());
    }

    #[test]
    fn number_text_reads_back() {
        for value in [1.0, 0.1, 1e300, -1e-300, 5e-324, 123456789.125, f64::MAX] {
            assert_eq!(number_text(value).parse::<f64>(), Ok(value));
        }
        assert_eq!((number_text(3.0), number_text(-0.0)), ("3".into(), "0".into()));
    }
}
