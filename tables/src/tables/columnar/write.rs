//! Rows of numbers and text to a Parquet file, one row group after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType};
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::Type;

use crate::tables::column::Column;
use crate::tables::format::{PredictedTable, RowWriter};
use sparsegp::error::{Error, Result};
use sparsegp::files::{AtomicFile, write_error};

/// The number of rows that are encoded together.
const GROUP_ROWS: usize = 1 << 17;

/// Writes columns of 64-bit floats, NaN as null, and of text.
#[derive(Debug)]
pub(super) struct ParquetWriter {
    path: PathBuf,
    file: SerializedFileWriter<AtomicFile>,
    /// The rows of the current group, by columns.
    columns: Vec<Cells>,
    rows: usize,
}

#[derive(Debug)]
enum Cells {
    Numbers(Vec<f64>),
    /// Empty text is a missing cell.
    Text(Vec<ByteArray>),
}

/// Creates a Parquet file of these columns.
pub(in crate::tables) fn writer(path: &Path, table: &PredictedTable) -> Result<Box<dyn RowWriter>> {
    let text = table.leading.iter().map(|(name, text)| (name, *text));
    let columns: Vec<(&String, bool)> = text.chain(table.numbers.iter().map(|name| (name, false))).collect();
    let file = begin(AtomicFile::create(path)?, &columns).map_err(|error| write_error(path, &error))?;
    let empty = |&(_, text): &(&String, bool)| {
        if text { Cells::Text(Vec::new()) } else { Cells::Numbers(Vec::new()) }
    };
    let columns = columns.iter().map(empty).collect();
    Ok(Box::new(ParquetWriter { path: path.to_owned(), file, columns, rows: 0 }))
}

impl ParquetWriter {
    /// Writes the collected rows as a group.
    fn write_group(&mut self) -> ParquetResult<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for cells in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            match cells {
                Cells::Numbers(values) => write::<DoubleType>(&mut column, values, |value| value.is_nan())?,
                Cells::Text(values) => write::<ByteArrayType>(&mut column, values, ByteArray::is_empty)?,
            }
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

/// Writes the cells of a column, and clears them.
fn write<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: &mut Vec<T::T>,
    is_missing: impl Fn(&T::T) -> bool,
) -> ParquetResult<()> {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(!is_missing(cell))).collect();
    cells.retain(|cell| !is_missing(cell));
    column.typed::<T>().write_batch(cells, Some(&levels), None)?;
    cells.clear();
    Ok(())
}

impl Cells {
    /// Adds rows of a leading column. Returns false if the column began with numbers and now holds text.
    fn extend(&mut self, column: &Column, rows: usize) -> bool {
        match (self, column) {
            (Cells::Numbers(cells), Column::Number(values)) => cells.extend_from_slice(values),
            (Cells::Numbers(_), Column::Text(_)) => return false,
            (Cells::Numbers(cells), _) => cells.extend((0..rows).map(|_| f64::NAN)),
            (Cells::Text(cells), column) => {
                let text = |row| column.spelling(row).unwrap_or_default().as_bytes().to_vec();
                cells.extend((0..rows).map(|row| ByteArray::from(text(row))));
            }
        }
        true
    }
}

impl RowWriter for ParquetWriter {
    fn write_rows(&mut self, leading: &[Column], numbers: &[f64], rows: usize) -> Result<()> {
        let (first, others) = self.columns.split_at_mut(leading.len());
        // Numbers of a copied column are text from the block on that has the first whole number beyond 2^53.
        if !first.iter_mut().zip(leading).all(|(cells, column)| cells.extend(column, rows)) {
            return Err(Error::data(format!(
                "{}: a copied column holds small numbers first and whole numbers beyond 2^53 later, which Parquet's doubles cannot hold",
                self.path.display()
            ))
            .hint("write .csv, or leave the column out of the copied ones"));
        }
        for row in numbers.chunks_exact(others.len().max(1)) {
            for (cells, &value) in others.iter_mut().zip(row) {
                if let Cells::Numbers(cells) = cells {
                    cells.push(value);
                }
            }
        }
        self.rows += rows;
        if self.rows >= GROUP_ROWS {
            self.write_group().map_err(|error| write_error(&self.path, &error))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<AtomicFile> {
        let written = self.write_group();
        let ParquetWriter { path, file, .. } = *self;
        written.and_then(|()| file.into_inner()).map_err(|error| write_error(&path, &error))
    }
}

fn begin(out: AtomicFile, columns: &[(&String, bool)]) -> ParquetResult<SerializedFileWriter<AtomicFile>> {
    let field = |&(name, text): &(&String, bool)| {
        let field = match text {
            true => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String)),
            false => Type::primitive_type_builder(name, Physical::DOUBLE),
        };
        field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<ParquetResult<Vec<_>>>()?;
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
}
