//! Parquet and Arrow files, and all uses of their crates: rows in, numbers out; no meaning of columns.

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

/// The maximum number of rows of a group or batch, so that sums do not overflow.
const MOST_ROWS: i64 = 1 << 40;

/// Opens a regular file to read the wanted columns. If `groups` is given, the row groups of a Parquet file are read in this order, and no
/// block spans two groups.
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

/// Opens an input that can be read only once, from front to back.
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

/// Returns the number of rows of each row group, if the file can be read group by group; otherwise `None`.
pub(super) fn row_groups(source: &str, file: &File, format: Format) -> Result<Option<Vec<usize>>> {
    match format {
        Format::Parquet => parquet::row_groups(source, file).map(Some),
        Format::Arrow => Ok(None),
    }
}

/// Returns the number of rows that the file states.
pub(super) fn count_rows(source: &str, file: File, format: Format) -> Result<u64> {
    match format {
        Format::Parquet => Ok(parquet::row_groups(source, &file)?.iter().map(|&rows| rows as u64).sum()),
        Format::Arrow => arrow::count_rows(source, file),
    }
}

/// Creates a Parquet file of these columns.
pub(super) fn writer(path: &Path, columns: &PredictedTable) -> Result<Box<dyn RowWriter>> {
    Ok(Box::new(ParquetWriter::create(path, columns)?))
}
