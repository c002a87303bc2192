//! Rows of numbers to a Parquet file, one row group after the other; no names of outputs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, Repetition, Type as Physical};
use ::parquet::data_type::DoubleType;
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;

use crate::error::Result;
use crate::files::{AtomicFile, write_error};
use crate::tables::format::RowWriter;

/// Rows that are encoded together.
const GROUP_ROWS: usize = 1 << 17;

/// Writes columns of 64-bit floats, NaN as null.
#[derive(Debug)]
pub(in crate::tables::columnar) struct ParquetWriter {
    path: PathBuf,
    file: SerializedFileWriter<AtomicFile>,
    /// The rows of the group at hand, by columns.
    values: Vec<Vec<f64>>,
    levels: Vec<i16>,
}

impl ParquetWriter {
    /// Begins a file of columns of these names.
    pub(in crate::tables::columnar) fn create(path: &Path, columns: &[String]) -> Result<ParquetWriter> {
        let file = begin(AtomicFile::create(path)?, columns).map_err(|error| write_error(path, &error))?;
        Ok(ParquetWriter {
            path: path.to_owned(),
            file,
            values: vec![Vec::new(); columns.len()],
            levels: Vec::new(),
        })
    }

    /// Writes the collected rows as a group.
    fn write_group(&mut self) -> ParquetResult<()> {
        if self.values.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for values in &mut self.values {
            let Some(mut column) = group.next_column()? else { break };
            self.levels.clear();
            self.levels.extend(values.iter().map(|value| i16::from(!value.is_nan())));
            values.retain(|value| !value.is_nan());
            column.typed::<DoubleType>().write_batch(values, Some(&self.levels), None)?;
            column.close()?;
            values.clear();
        }
        group.close()?;
        Ok(())
    }
}

impl RowWriter for ParquetWriter {
    fn write_row(&mut self, values: &[f64]) -> Result<()> {
        for (column, &value) in self.values.iter_mut().zip(values) {
            column.push(value);
        }
        if self.values.first().is_some_and(|column| column.len() >= GROUP_ROWS) {
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

fn begin(out: AtomicFile, columns: &[String]) -> ParquetResult<SerializedFileWriter<AtomicFile>> {
    let field = |name: &String| {
        let field = Type::primitive_type_builder(name, Physical::DOUBLE);
        field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<ParquetResult<Vec<_>>>()?;
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
}
