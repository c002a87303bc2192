//! Turns models that a program trained with its own steps into models of tables.

use super::fit::FitRequest;
use super::model::TableModel;
use super::resolve::{check_training_target, find_schema, resolved};
use super::rows::CodedTable;
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use sparsegp::training::Fitted;

/// Returns a table model that wraps a latent model and its posterior. A program must have trained them on the
/// unscaled rows of the table.
///
/// # Errors
///
/// As for [`fit_table`](super::fit_table); a usage error if the model and the table differ in the number of
/// inputs; a data error if the classes or levels of the target are not the codes 0, 1, … of the model.
pub fn table_model(request: &FitRequest<'_>, fitted: Fitted) -> Result<TableModel> {
    let rows: Vec<usize> = (0..request.table.rows()).collect();
    let (mut schema, notes) = find_schema(request.table, request.columns, request.options, &rows)?;
    let table = &*request.table.read(&schema.readings, &|_| true)?;
    schema.settle(table, &rows, false)?;
    let options = schema.options_of(resolved(request.options, &schema, None)?)?;
    let train = CodedTable::of(&schema, table)?.part(rows);
    check_training_target(&schema, table, &train.targets)?;
    let (inputs, expected) = (train.inputs().ncols(), fitted.model.input_dims());
    if inputs != expected {
        return Err(Error::usage(format!("the table has {inputs} inputs, the model has {expected}")));
    }
    let (levels, known) = (schema.encoding().levels(), fitted.model.likelihood.levels());
    let is_coded = |(code, level): (usize, &String)| level.parse() == Ok(code as f64);
    let suits = levels.is_empty() || (levels.len() == known && levels.iter().enumerate().all(is_coded));
    if !suits {
        return Err(Error::data(format!(
            "the target has the values {}, expected rows with each value from 0 to {}",
            levels.join(", "),
            known.saturating_sub(1)
        )));
    }
    let count = train.targets.len();
    Ok(TableModel::of(fitted, schema, Scaling::none(inputs), &options, count, notes))
}
