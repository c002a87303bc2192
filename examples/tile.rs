//! Repeats the rows of a data file until there are so many, as a Parquet file with row groups of 100,000 rows; no model.
//!
//! cargo run --release --example tile -- flights.csv.gz flights.parquet 10000000

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use sparsegp::data::{Column, read_table};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const GROUP_ROWS: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, rows] = arguments.as_slice() else { return Err("expected FROM TO ROWS".into()) };
    let table = read_table(Path::new(from))?;
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for named in table.columns() {
        let column: ArrayRef = match &named.column {
            Column::Number(values) => Arc::new(
                values.iter().map(|value| (!value.is_nan()).then_some(*value)).collect::<Float64Array>(),
            ),
            Column::Text(text) => {
                Arc::new((0..table.rows()).map(|row| text.get(row)).collect::<StringArray>())
            }
            Column::Unsupported { data_type, .. } => {
                return Err(format!("{}: {data_type}", named.name).into());
            }
        };
        let data_type = column.data_type().clone();
        fields.push(Field::new(&named.name, data_type, true));
        columns.push(column);
    }
    let schema = Arc::new(Schema::new(fields));
    let whole = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(to)?, schema, Some(properties))?;
    let mut left: usize = rows.parse()?;
    while left > 0 {
        let part = left.min(whole.num_rows());
        writer.write(&whole.slice(0, part))?;
        left -= part;
    }
    writer.close()?;
    Ok(())
}
