//! Columns of numbers to a Parquet file, one row group after the other; no names of outputs.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, Repetition, Type as Physical};
use ::parquet::data_type::DoubleType;
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;

/// Writes columns of 64-bit floats, NaN as null.
#[derive(Debug)]
pub(in crate::tables) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    levels: Vec<i16>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file of columns of these names.
    pub(in crate::tables) fn new(out: W, columns: &[String]) -> Result<ParquetWriter<W>> {
        let field = |name: &String| {
            let field = Type::primitive_type_builder(name, Physical::DOUBLE);
            field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
        Ok(ParquetWriter { file, levels: Vec::new() })
    }

    /// Writes a group of rows, the same number in every column, and empties the columns.
    pub(in crate::tables) fn write_group(&mut self, columns: &mut [Vec<f64>]) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for values in columns {
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

    /// Completes the file.
    pub(in crate::tables) fn finish(self) -> Result<W> {
        self.file.into_inner()
    }
}
