//! Writes Parquet files of any flat schema for tests and examples, with the low-level writer.

use std::io::Write;
use std::sync::Arc;

use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType,
    FloatType, Int32Type, Int64Type,
};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

/// The cells of a column, by their physical type; `None` is a null.
pub enum Cells {
    Boolean(Vec<Option<bool>>),
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Float(Vec<Option<f32>>),
    Double(Vec<Option<f64>>),
    Bytes(Vec<Option<ByteArray>>),
    Fixed(Vec<Option<FixedLenByteArray>>),
}

impl Cells {
    /// Returns a column of text.
    pub fn text<'a>(cells: impl IntoIterator<Item = Option<&'a str>>) -> Cells {
        Cells::Bytes(cells.into_iter().map(|cell| cell.map(ByteArray::from)).collect())
    }

    /// Writes some rows of the column; after its last row it starts again at the first one.
    fn write(&self, column: &mut SerializedColumnWriter<'_>, from: usize, count: usize) -> Result<()> {
        match self {
            Cells::Boolean(cells) => put::<BoolType>(column, cells, from, count),
            Cells::Int32(cells) => put::<Int32Type>(column, cells, from, count),
            Cells::Int64(cells) => put::<Int64Type>(column, cells, from, count),
            Cells::Float(cells) => put::<FloatType>(column, cells, from, count),
            Cells::Double(cells) => put::<DoubleType>(column, cells, from, count),
            Cells::Bytes(cells) => put::<ByteArrayType>(column, cells, from, count),
            Cells::Fixed(cells) => put::<FixedLenByteArrayType>(column, cells, from, count),
        }
    }
}

fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: &[Option<T::T>],
    from: usize,
    count: usize,
) -> Result<()> {
    let rows = || cells.iter().cycle().skip(from % cells.len().max(1)).take(count);
    let values: Vec<T::T> = rows().flatten().cloned().collect();
    let levels: Vec<i16> = rows().map(|cell| i16::from(cell.is_some())).collect();
    column.typed::<T>().write_batch(&values, Some(&levels), None).map(|_| ())
}

/// Returns a file with these fields, in the notation of Parquet's schemas, and columns; the
/// arguments are otherwise those of [`write`].
pub fn file(fields: &str, columns: &[Cells], rows: (usize, usize)) -> Vec<u8> {
    let schema = parse_message_type(&format!("message m {{ {fields} }}")).expect("a schema");
    write(Vec::new(), schema, columns, rows, WriterProperties::default()).expect("a file")
}

/// Writes `rows` rows in groups of at most `group_rows`; columns that are shorter are repeated.
pub fn write<W: Write + Send>(
    out: W,
    schema: Type,
    columns: &[Cells],
    (rows, group_rows): (usize, usize),
    properties: WriterProperties,
) -> Result<W> {
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    for from in (0..rows).step_by(group_rows) {
        let mut group = file.next_row_group()?;
        for cells in columns {
            let Some(mut column) = group.next_column()? else { break };
            cells.write(&mut column, from, group_rows.min(rows - from))?;
            column.close()?;
        }
        group.close()?;
    }
    file.into_inner()
}
