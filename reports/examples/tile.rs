//! Repeats the rows of a data file up to a given number, and writes them as a Parquet file with row
//! groups of 100,000 rows.
//!
//! cargo run --release --example tile -- flights.csv.gz flights.parquet 10000000

use parquet::basic::{Compression, LogicalType, Type as Physical};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::Type;
use sparsegp_tables::tables::{Column, read_table};
use sparsegp_testkit::parquet::Cells;
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
    let mut columns = Vec::new();
    for named in table.columns() {
        let (physical, logical, cells) = match &named.column {
            Column::Number(values) => {
                let cells = values.iter().map(|value| (!value.is_nan()).then_some(*value));
                (Physical::DOUBLE, None, Cells::Double(cells.collect()))
            }
            Column::Text(text) => {
                let cells = Cells::text((0..table.rows()).map(|row| text.get(row)));
                (Physical::BYTE_ARRAY, Some(LogicalType::String), cells)
            }
            _ => return Err(format!("{}: holds neither numbers nor text", named.name).into()),
        };
        let field = Type::primitive_type_builder(&named.name, physical).with_logical_type(logical);
        fields.push(Arc::new(field.build()?));
        columns.push(cells);
    }
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    sparsegp_testkit::parquet::write(
        File::create(to)?,
        schema,
        &columns,
        (rows.parse()?, GROUP_ROWS),
        properties,
    )?;
    Ok(())
}
