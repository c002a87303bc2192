//! File formats: their recognition, and the traits that read and write rows; no reading.

use super::column::{Column, ColumnBuilder};
use super::table::Lines;
use sparsegp::error::Result;
use sparsegp::files::AtomicFile;

/// The first bytes of a file compressed by gzip.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];

/// The first and last bytes of a Parquet file.
pub(super) const PARQUET: &[u8] = b"PAR1";

/// The first and last bytes of an Arrow file, whose footer lists its messages. Most writers store a stream, which can be read from front
/// to back, after the first eight bytes.
pub(super) const ARROW: &[u8] = b"ARROW1";

/// The first bytes of every Arrow message, and so of a stream.
pub(super) const ARROW_MESSAGE: [u8; 4] = [0xff; 4];

/// The number of bytes that distinguish all formats.
pub(super) const FIRST_BYTES: u64 = 8;

/// The formats other than text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Columns in row groups, listed in a footer; needs a regular file.
    Parquet,
    /// A sequence of record batches, as a file or as a stream; read from front to back.
    Arrow,
}

impl Format {
    /// Returns the format of a file with these first bytes (eight, if it has as many).
    pub(super) fn of(first: &[u8]) -> Option<Format> {
        if first.starts_with(PARQUET) {
            Some(Format::Parquet)
        } else if first.starts_with(ARROW) || first.starts_with(&ARROW_MESSAGE) {
            Some(Format::Arrow)
        } else {
            None
        }
    }

    /// Returns the format that the extension of a file name stands for.
    pub(super) fn of_ending(ending: &str) -> Option<Format> {
        match ending.to_ascii_lowercase().as_str() {
            "parquet" => Some(Format::Parquet),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
            _ => None,
        }
    }

    /// Returns the name of the format in messages, with its article.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Parquet => "a Parquet",
            Format::Arrow => "an Arrow",
        }
    }
}

/// The rows of a file, and a builder for each wanted column.
pub(super) type Opened = (Box<dyn RowSource>, Vec<Option<ColumnBuilder>>);

/// The rows of a file, read once.
pub(super) trait RowSource: Send {
    /// Returns the names of the columns, in order.
    fn names(&self) -> &[String];

    /// Returns the row of the file, counted from 0, after the last row read.
    fn row(&self) -> usize;

    /// Returns the type of an unsupported column, as the file names it; its builder stays empty.
    fn unsupported(&self, _column: usize) -> Option<&str> {
        None
    }

    /// Returns true if the numbers of a column are instants, in seconds since 1970.
    fn is_time(&self, _column: usize) -> bool {
        false
    }

    /// Returns a cell that shows decimal commas, if the file is a text that has them.
    fn decimal_comma(&self) -> Option<&str> {
        None
    }

    /// Returns notes about the reading of the rows so far.
    fn notes(&self) -> &[String] {
        &[]
    }

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
pub(super) trait RowWriter: std::fmt::Debug + Send {
    /// Adds rows: the leading columns of text or numbers, and the numbers of the other columns row by row.
    fn write_rows(&mut self, leading: &[Column], numbers: &[f64], rows: usize) -> Result<()>;

    /// Completes the contents of the file, which does not have its name yet.
    fn finish(self: Box<Self>) -> Result<AtomicFile>;
}
