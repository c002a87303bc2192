//! Parquet and Arrow files, and all that needs their crates: rows in, numbers out; no meaning.

mod arrow;
mod codec;
mod decimal;
mod parquet;

use self::arrow::{ArrowRows, Input};
use self::parquet::{ParquetRows, ParquetWriter};
use super::format::{Format, Opened, RowWriter};
use crate::tables::predictions::PredictedTable;
use sparsegp::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// No group or batch has more rows than this, so that sums of them do not overflow.
const MOST_ROWS: i64 = 1 << 40;

/// Opens a regular file of a format to read the columns that are wanted. The row groups of a Parquet file are read in the
/// order of `groups`, where it is given; a block then never has rows of two of them.
pub(super) fn open(
    (source, file): (&str, File),
    format: Format,
    wanted: &dyn Fn(&str) -> bool,
    groups: Option<&[usize]>,
) -> Result<Opened> {
    match format {
        Format::Parquet => ParquetRows::open(source, file, wanted, groups),
        Format::Arrow => ArrowRows::open(source, Input::File(file), wanted),
    }
}

/// Opens what can be read once only, from front to back.
pub(super) fn open_pipe(
    (source, pipe): (&str, Box<dyn Read + Send>),
    format: Format,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Opened> {
    match format {
        Format::Parquet => Err(Error::data(format!("{source}: found Parquet, expected CSV text or Arrow"))
            .hint("save it to a file and give the file's name")),
        Format::Arrow => ArrowRows::open(source, Input::Pipe(pipe), wanted),
    }
}

/// The number of rows of each row group of a file that can be read group by group; `None` for one that has a single order.
pub(super) fn row_groups(source: &str, file: &File, format: Format) -> Result<Option<Vec<usize>>> {
    match format {
        Format::Parquet => parquet::row_groups(source, file).map(Some),
        Format::Arrow => Ok(None),
    }
}

/// The number of rows that a file says it has.
pub(super) fn count_rows(source: &str, file: File, format: Format) -> Result<u64> {
    match format {
        Format::Parquet => Ok(parquet::row_groups(source, &file)?.iter().map(|&rows| rows as u64).sum()),
        Format::Arrow => arrow::count_rows(source, file),
    }
}

/// Begins a Parquet file of these columns.
pub(super) fn writer(path: &Path, columns: &PredictedTable) -> Result<Box<dyn RowWriter>> {
    Ok(Box::new(ParquetWriter::create(path, columns)?))
}
