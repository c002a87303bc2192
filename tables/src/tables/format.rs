//! File formats: their recognition, the traits that read and write rows, and the columns and cells of written files.

use super::column::{Column, ColumnBuilder, number_text};
use super::table::Lines;
use sparsegp::error::{Error, Result};
use sparsegp::files::AtomicFile;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The first bytes of a file compressed by gzip.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];

/// The first and last bytes of a Parquet file.
pub(super) const PARQUET: &[u8] = b"PAR1";

/// The first bytes of an Arrow file, and of every message of an Arrow stream, which are refused by name.
const ARROW: [&[u8]; 2] = [b"ARROW1", &[0xff; 4]];

/// The number of bytes that distinguish all formats.
pub(super) const FIRST_BYTES: u64 = 8;

/// Returns true for a Parquet file with these first bytes (eight, if it has as many).
///
/// Fails with a data error for Arrow files, which are not supported.
pub(super) fn is_parquet(source: &str, first: &[u8]) -> Result<bool> {
    if ARROW.iter().any(|start| first.starts_with(start)) {
        return Err(Error::data(format!("{source}: found an Arrow file, expected CSV or Parquet"))
            .hint("save it as Parquet: in pandas df.to_parquet, in polars df.write_parquet"));
    }
    Ok(first.starts_with(PARQUET))
}

/// What a file tells about its columns and the rows read so far.
#[derive(Default)]
pub(super) struct Head {
    pub names: Vec<String>,
    /// The types of unsupported columns, as the file names them; their builders stay empty.
    pub unsupported: HashMap<usize, &'static str>,
    /// The columns whose numbers are instants, in seconds since 1970.
    pub times: HashSet<usize>,
    /// A cell that shows decimal commas, if the file is a text that has them.
    pub decimal_comma: Option<String>,
    /// Notes about the encoding and the names of columns.
    pub notes: Vec<String>,
    /// The row of the file, counted from 0, after the last row read.
    pub row: usize,
}

/// The rows of a file, read once.
pub(super) trait RowSource: Send {
    fn head(&self) -> &Head;

    /// Reads up to `most` rows into the builders (`None` for an unwanted column), and the line of each row if the file is text. Returns
    /// the number of rows, which is 0 only at the end of the file.
    fn fill(
        &mut self,
        builders: &mut [Option<ColumnBuilder>],
        lines: &mut Lines,
        most: usize,
    ) -> Result<usize>;
}

/// A destination that writes rows in a format.
pub trait RowWriter: std::fmt::Debug + Send {
    /// Adds rows: the leading columns of text or numbers, and the numbers of the other columns row by row.
    ///
    /// # Errors
    ///
    /// If the disk is full.
    fn write_rows(&mut self, leading: &[Column], numbers: &[f64], rows: usize) -> Result<()>;

    /// Completes the contents of the file, which does not have its name yet.
    ///
    /// # Errors
    ///
    /// If the disk is full.
    fn finish(self: Box<Self>) -> Result<AtomicFile>;
}

/// The columns of a file of predictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictedTable {
    /// The leading columns, each with its name and true if it holds text.
    pub leading: Vec<(String, bool)>,
    /// The names of the columns of numbers.
    pub numbers: Vec<String>,
    /// True if an apostrophe precedes text in CSV that a spreadsheet would run as a formula.
    pub csv_safe: bool,
}

impl PredictedTable {
    /// Sets whether text in CSV is protected from spreadsheets.
    pub fn csv_safe(self, csv_safe: bool) -> PredictedTable {
        PredictedTable { csv_safe, ..self }
    }

    /// Returns the names of all columns, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.leading.iter().map(|(name, _)| name).chain(&self.numbers).map(String::as_str)
    }
}

/// Formats a number as a cell; an unknown number is empty.
pub(super) fn cell(value: f64) -> Cow<'static, str> {
    if value.is_nan() { Cow::Borrowed("") } else { number_text(value) }
}

/// Creates the error for a file that cannot be read to its end.
pub(super) fn unreadable(source: &str, error: &std::io::Error) -> Error {
    Error::data(format!("{source}: cannot be read: {error}"))
}
