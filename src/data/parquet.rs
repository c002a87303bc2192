//! Rows of a Parquet file, read one record batch at a time into column builders; no types beyond number and text.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use ::parquet::basic::Compression;
use ::parquet::file::metadata::ParquetMetaData;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use super::column::ColumnBuilder;
use super::table::{check_names, quoted};
use crate::error::{Error, Result};

/// The most rows decoded at once, so that a whole-file read does not decode the file twice over in memory.
const BATCH_ROWS: usize = 1 << 16;

/// A Parquet file, read once: from front to back, or one row group after the other in a given order.
pub(crate) struct ParquetRows {
    source: String,
    file: File,
    footer: ArrowReaderMetadata,
    mask: ProjectionMask,
    batch_rows: usize,
    batches: ParquetRecordBatchReader,
    /// The row groups that are still to be read, the next one last.
    groups: Vec<usize>,
    pending: Option<RecordBatch>,
    names: Vec<String>,
    /// For each column of a batch, its place among the columns of the file.
    decoded: Vec<usize>,
    row: usize,
}

/// How a column of a file is read.
enum Kind {
    Number,
    Text,
    Unsupported,
}

fn kind(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Boolean | DataType::Null => Kind::Number,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Dictionary(_, values) => kind(values),
        other if other.is_numeric() => Kind::Number,
        _ => Kind::Unsupported,
    }
}

impl ParquetRows {
    /// Reads the footer; returns the rows and one builder for each column that is wanted. Row groups are read in the order
    /// of `groups`, where it is given; a block then never has rows of two of them.
    pub(crate) fn open(
        source: &str,
        file: File,
        block_rows: usize,
        wanted: &dyn Fn(&str) -> bool,
        groups: Option<&[usize]>,
    ) -> Result<(ParquetRows, Vec<Option<ColumnBuilder>>)> {
        let length = file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        let footer = read_footer(source, &file)?;
        let fields = footer.schema().fields().clone();
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        if names.is_empty() {
            return Err(Error::data(format!("{source}: the file has no columns")));
        }
        check_names(source, names.iter().map(String::as_str))?;
        let mut builders = Vec::with_capacity(fields.len());
        let mut decoded = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            builders.push(wanted(field.name()).then(|| match kind(field.data_type()) {
                Kind::Number | Kind::Text => {
                    decoded.push(index);
                    ColumnBuilder::default()
                }
                Kind::Unsupported => {
                    ColumnBuilder::Unsupported { data_type: field.data_type().to_string(), rows: 0 }
                }
            }));
        }
        check_chunks(source, footer.metadata(), length, &names, &decoded)?;
        let mask = ProjectionMask::roots(footer.parquet_schema(), decoded.iter().copied());
        let batch_rows = block_rows.min(BATCH_ROWS);
        // Groups that are not there are those of another file of the name.
        let mut order: Vec<usize> = groups.unwrap_or_default().iter().rev().copied().collect();
        order.retain(|&group| group < footer.metadata().num_row_groups());
        let first = groups.map(|_| order.pop().into_iter().collect::<Vec<_>>());
        let row = first.iter().flatten().next().map_or(0, |&group| first_row(footer.metadata(), group));
        let batches = reader(source, &file, &footer, &mask, batch_rows, first)?;
        let source = source.to_owned();
        let groups = order;
        let rows = ParquetRows {
            source,
            file,
            footer,
            mask,
            batch_rows,
            batches,
            groups,
            pending: None,
            names,
            decoded,
            row,
        };
        Ok((rows, builders))
    }

    /// The names of the columns, in order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The row of the file, counted from 0, after the last one that was read.
    pub(crate) fn row(&self) -> usize {
        self.row
    }

    /// Goes on to the next row group; `false` when there is none.
    fn next_group(&mut self) -> Result<bool> {
        let Some(group) = self.groups.pop() else { return Ok(false) };
        self.row = first_row(self.footer.metadata(), group);
        let (footer, mask) = (&self.footer, &self.mask);
        self.batches = reader(&self.source, &self.file, footer, mask, self.batch_rows, Some(vec![group]))?;
        Ok(true)
    }

    /// Reads up to `most` rows into the builders; returns how many there were.
    pub(crate) fn fill(&mut self, builders: &mut [Option<ColumnBuilder>], most: usize) -> Result<usize> {
        let mut rows = 0;
        while rows < most {
            let Some(mut batch) = self.next_batch()? else {
                if rows == 0 && self.next_group()? {
                    continue;
                }
                break;
            };
            let room = most - rows;
            if batch.num_rows() > room {
                self.pending = Some(batch.slice(room, batch.num_rows() - room));
                batch = batch.slice(0, room);
            }
            self.push(&batch, builders)?;
            rows += batch.num_rows();
            self.row += batch.num_rows();
        }
        Ok(rows)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.pending.take() {
            return Ok(Some(batch));
        }
        let batch = undamaged(&self.source, || self.batches.next())?;
        batch.transpose().map_err(|error| self.damaged(&error))
    }

    fn damaged(&self, error: &dyn std::fmt::Display) -> Error {
        Error::data(format!("{}: reading failed after row {}: {error}", self.source, self.row))
    }

    fn push(&self, batch: &RecordBatch, builders: &mut [Option<ColumnBuilder>]) -> Result<()> {
        for (array, &index) in batch.columns().iter().zip(&self.decoded) {
            let Some(Some(builder)) = builders.get_mut(index) else { continue };
            let text = matches!(kind(array.data_type()), Kind::Text);
            let target = if text { DataType::Utf8 } else { DataType::Float64 };
            let array = cast(array, &target).map_err(|error| self.damaged(&error))?;
            if text {
                array.as_string::<i32>().iter().for_each(|cell| builder.push_text(cell.unwrap_or("")));
            } else {
                let cells = array.as_primitive::<Float64Type>();
                cells.iter().for_each(|cell| builder.push_number(cell.unwrap_or(f64::NAN)));
            }
        }
        builders.iter_mut().flatten().for_each(|builder| builder.skip_rows(batch.num_rows()));
        Ok(())
    }
}

fn read_footer(source: &str, file: &File) -> Result<ArrowReaderMetadata> {
    undamaged(source, || ArrowReaderMetadata::load(file, ArrowReaderOptions::default()))?
        .map_err(|error| Error::data(format!("{source}: not a readable Parquet file: {error}")))
}

/// The number of rows of each row group.
pub(crate) fn row_groups(source: &str, file: &File) -> Result<Vec<usize>> {
    let footer = read_footer(source, file)?;
    Ok(footer.metadata().row_groups().iter().map(|group| group.num_rows().max(0) as usize).collect())
}

/// The row of the file at which a row group begins.
fn first_row(metadata: &ParquetMetaData, group: usize) -> usize {
    metadata.row_groups().iter().take(group).map(|group| group.num_rows().max(0) as usize).sum()
}

/// The batches of some row groups, or of all.
fn reader(
    source: &str,
    file: &File,
    footer: &ArrowReaderMetadata,
    mask: &ProjectionMask,
    batch_rows: usize,
    groups: Option<Vec<usize>>,
) -> Result<ParquetRecordBatchReader> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::data(format!("{source}: not a readable Parquet file: {error}"))
    };
    let file = file.try_clone().map_err(|error| unreadable(&error))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone())
        .with_projection(mask.clone())
        .with_batch_size(batch_rows);
    let builder = match groups {
        Some(groups) => builder.with_row_groups(groups),
        None => builder,
    };
    undamaged(source, || builder.build())?.map_err(|error| unreadable(&error))
}

/// Runs the decoder, which panics on some damaged files where it should return an error.
fn undamaged<T>(source: &str, decode: impl FnOnce() -> T) -> Result<T> {
    // A reader that panicked is never used again: every caller stops at the error.
    catch_unwind(AssertUnwindSafe(decode))
        .map_err(|_| Error::data(format!("{source}: not a readable Parquet file: its data are damaged")))
}

/// Refuses what the decoder would answer with a panic or a less clear message: places outside the file, and Zstandard,
/// whose only decoder would need a C compiler.
fn check_chunks(
    source: &str,
    metadata: &ParquetMetaData,
    length: u64,
    names: &[String],
    decoded: &[usize],
) -> Result<()> {
    let schema = metadata.file_metadata().schema_descr();
    for group in metadata.row_groups() {
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let root = schema.get_column_root_idx(leaf);
            let name = names.get(root).map_or("", String::as_str);
            let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
            let end = start.checked_add(chunk.compressed_size());
            let inside = start >= 0 && end.is_some_and(|end| end >= start && end.unsigned_abs() <= length);
            if !inside || group.num_rows() < 0 {
                return Err(Error::data(format!(
                    "{source}: not a readable Parquet file: column {} lies outside it",
                    quoted(name)
                )));
            }
            if decoded.contains(&root) && matches!(chunk.compression(), Compression::ZSTD(_)) {
                return Err(Error::data(format!(
                    "{source}: column {} is compressed with zstd, expected snappy, gzip, lz4, brotli or none",
                    quoted(name)
                ))
                .hint("write the file again with snappy compression"));
            }
        }
    }
    Ok(())
}
