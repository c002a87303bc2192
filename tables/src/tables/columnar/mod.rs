//! Parquet files, and all uses of their crates: rows in, numbers out; no meaning of columns.

mod codec;
mod decimal;
mod parquet;

use self::parquet::{ParquetRows, ParquetWriter};
use super::format::{Opened, RowWriter};
use super::read::unreadable;
use crate::tables::predictions::PredictedTable;
use bytes::Bytes;
use sparsegp::error::Result;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The maximum number of rows of a group, so that sums do not overflow.
const MOST_ROWS: i64 = 1 << 40;

/// Opens a regular file to read the wanted columns. If `groups` is given, the row groups are read in this order, and no block spans two
/// groups.
pub(super) fn open(
    (source, file): (&str, File),
    wanted: &dyn Fn(&str) -> bool,
    groups: Option<&[usize]>,
) -> Result<Opened> {
    ParquetRows::open(source, file, wanted, groups)
}

/// Opens an input that can be read only once, from front to back: the whole of it is kept in memory, since its footer comes last.
pub(super) fn open_pipe(
    (source, mut pipe): (&str, Box<dyn Read + Send>),
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Opened> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).map_err(|error| unreadable(source, &error))?;
    ParquetRows::open(source, Bytes::from(bytes), wanted, None)
}

/// Returns the number of rows of each row group.
pub(super) fn row_groups(source: &str, file: &File) -> Result<Vec<usize>> {
    parquet::row_groups(source, file)
}

/// Creates a Parquet file of these columns.
pub(super) fn writer(path: &Path, columns: &PredictedTable) -> Result<Box<dyn RowWriter>> {
    Ok(Box::new(ParquetWriter::create(path, columns)?))
}
