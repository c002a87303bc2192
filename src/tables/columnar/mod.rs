//! Parquet and Arrow files, and all that needs their crates: which of the two a file is, rows in, numbers out; no meaning.

mod arrow;
mod codec;
mod decimal;
mod parquet;

pub(super) use arrow::{ArrowRows, Input, count_rows};
pub(super) use parquet::{ParquetRows, ParquetWriter, row_groups};

/// No group or batch has more rows than this, so that sums of them do not overflow.
const MOST_ROWS: i64 = 1 << 40;

/// The formats whose files are told by their first bytes.
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
        if first.starts_with(parquet::MAGIC) {
            Some(Format::Parquet)
        } else if first.starts_with(arrow::FILE_MAGIC) || first.starts_with(&arrow::CONTINUATION) {
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
