//! A check, before a fit, that the header of a file of test rows has the columns of the fit.

use std::path::Path;

use crate::schema::{Schema, SchemaOptions};
use crate::tables::table::absent;
use crate::tables::{column_names, large_size, read_table_with};
use sparsegp::error::Result;
use sparsegp::files::check_input;

/// The maximum size, in bytes of numbers, of data that are read to find out if a column that the test rows
/// lack is used.
const MOST_BYTES: u64 = 1 << 28;

/// Checks that a file of test rows has the target and the columns that a fit of `columns` to `data` uses, or that the start model `start`
/// uses. The check ignores files that can be read only once.
///
/// # Errors
///
/// If the file cannot be read, or lacks such a column.
pub fn check_test_file(
    test: &Path,
    data: &Path,
    columns: &SchemaOptions,
    start: Option<&Schema>,
) -> Result<()> {
    let source = test.display().to_string();
    check_input(test, &source)?;
    let Some(names) = column_names(test, columns.delimiter)? else { return Ok(()) };
    let listed = || names.iter().map(String::as_str);
    let has = |name: &str| names.iter().any(|known| known == name);
    let target = start.map_or(columns.target.as_str(), Schema::target_name);
    if !has(target) {
        return Err(absent(&source, "column", target, listed()));
    }
    if let Some(schema) = start {
        return schema.check_columns(&source, listed());
    }
    let weights = columns.weights.as_deref();
    let Some(known) = column_names(data, columns.delimiter)? else { return Ok(()) };
    let used = |name: &&String| columns.uses(name) && weights != Some(name.as_str());
    if known.iter().filter(used).all(|name| has(name))
        || large_size(data, columns.delimiter, &|_| true, MOST_BYTES).is_some()
    {
        return Ok(());
    }
    // Whether a column is left out depends on all of its cells. The fit itself reports problems with the
    // data.
    let table = read_table_with(data, columns.delimiter, &columns.missing);
    match table.and_then(|table| Schema::infer(&table, columns)) {
        Ok((schema, _)) => schema.check_columns(&source, listed()),
        Err(_) => Ok(()),
    }
}
