//! What a format of files is: how it is recognised, and what reads and writes rows in it; no reading.

use super::column::{Column, ColumnBuilder};
use super::table::Lines;
use sparsegp::error::Result;
use sparsegp::files::AtomicFile;

/// The first bytes of a file compressed by gzip.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];

/// The first and last bytes of a Parquet file.
pub(super) const PARQUET: &[u8] = b"PAR1";

/// The first and last bytes of an Arrow file, whose messages are found from its footer; most writers put a stream, which
/// can be read from front to back, after eight bytes.
pub(super) const ARROW: &[u8] = b"ARROW1";

/// What every Arrow message begins with, so a stream too.
pub(super) const ARROW_MESSAGE: [u8; 4] = [0xff; 4];

/// Bytes that tell every format from the others.
pub(super) const FIRST_BYTES: u64 = 8;

/// The formats besides text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Columns in row groups, listed in a footer: read from a file only.
    Parquet,
    /// Record batches one after the other, as a file or as a stream: read from front to back.
    Arrow,
}

impl Format {
    /// The format of a file with these first bytes, eight of them where it has so many.
    pub(super) fn of(first: &[u8]) -> Option<Format> {
        if first.starts_with(PARQUET) {
            Some(Format::Parquet)
        } else if first.starts_with(ARROW) || first.starts_with(&ARROW_MESSAGE) {
            Some(Format::Arrow)
        } else {
            None
        }
    }

    /// The format that the ending of a file's name stands for.
    pub(super) fn of_ending(ending: &str) -> Option<Format> {
        match ending.to_ascii_lowercase().as_str() {
            "parquet" => Some(Format::Parquet),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
            _ => None,
        }
    }

    /// The format as messages call it, with its article.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Parquet => "a Parquet",
            Format::Arrow => "an Arrow",
        }
    }
}

/// The rows of a file, and a builder for each column that is wanted.
pub(super) type Opened = (Box<dyn RowSource>, Vec<Option<ColumnBuilder>>);

/// The rows of a file, read once.
pub(super) trait RowSource: Send {
    /// The names of the columns, in order.
    fn names(&self) -> &[String];

    /// The row of the file, counted from 0, after the last one that was read.
    fn row(&self) -> usize;

    /// The type of a column that has no meaning here, as the file names it; its builder stays empty.
    fn unsupported(&self, _column: usize) -> Option<&str> {
        None
    }

    /// Whether the numbers of a column are instants, in seconds since 1970.
    fn is_time(&self, _column: usize) -> bool {
        false
    }

    /// A cell that shows decimal commas, where the file is a text that has them.
    fn decimal_comma(&self) -> Option<&str> {
        None
    }

    /// What is to be told about how the rows so far were read.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Reads up to `most` rows into the builders (`None` for a column nobody wants), and where text has lines those too;
    /// returns how many rows there were, none at the end of the file only.
    fn fill(
        &mut self,
        builders: &mut [Option<ColumnBuilder>],
        lines: &mut Lines,
        most: usize,
    ) -> Result<usize>;
}

/// A format to write rows in.
pub(super) trait RowWriter: std::fmt::Debug + Send {
    /// Adds rows: columns of text or numbers that come first, and the numbers of the others row after row.
    fn write_rows(&mut self, leading: &[Column], numbers: &[f64], rows: usize) -> Result<()>;

    /// Completes the contents of the file, which then wants its name.
    fn finish(self: Box<Self>) -> Result<AtomicFile>;
}
