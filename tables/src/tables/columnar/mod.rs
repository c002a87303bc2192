//! Parquet files, and all uses of their crates: rows in, numbers out.

mod codec;
mod decimal;
mod parquet;

use self::parquet::ParquetWriter;
pub(super) use self::parquet::{open, row_groups};
use super::format::{Opened, RowWriter};
use super::read::unreadable;
use crate::tables::predictions::PredictedTable;
use bytes::Bytes;
use sparsegp::error::Result;
use std::io::Read;
use std::path::Path;

/// The maximum number of rows of a group, so that sums do not overflow.
const MOST_ROWS: i64 = 1 << 40;

/// Opens an input that can be read only once, from front to back. The whole input is kept in memory, because
/// its footer comes last.
pub(super) fn open_pipe(
    source: &str,
    mut pipe: Box<dyn Read + Send>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Opened> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).map_err(|error| unreadable(source, &error))?;
    open(source, Bytes::from(bytes), wanted, None)
}

/// Creates a Parquet file of these columns.
pub(super) fn writer(path: &Path, columns: &PredictedTable) -> Result<Box<dyn RowWriter>> {
    Ok(Box::new(ParquetWriter::create(path, columns)?))
}
