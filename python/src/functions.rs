//! Drawn functions and gradients of predictions for Python: arrays in, arrays out.

use crate::convert::{Matrix, Rows, Vector, check_room, raised};
use crate::custom::Custom;
use crate::host::Host;
use crate::model::Model;
use crate::table::Table;
use faer::Mat;
use pyo3::prelude::*;
use sparsegp::ErrorKind;
use sparsegp::hyper::stem;
use sparsegp::model::{FunctionDraws, Hyperparameter};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tabular::TableModel;
use std::sync::Arc;

/// Functions drawn from a posterior, which can be evaluated anywhere.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Functions {
    draws: Arc<FunctionDraws>,
    custom: Custom,
}

#[pymethods]
impl Functions {
    /// Returns the values at rows of inputs in original units: a row for each row of inputs, a column for
    /// each function.
    #[pyo3(signature = (x, *, threads=None))]
    fn values(&self, py: Python<'_>, x: Matrix, threads: Option<usize>) -> PyResult<Rows> {
        let work = |host: Host<'_>| self.draws.values_unless(x.0.as_ref(), &host.stopped());
        Ok(by_row(&self.custom.run(py, threads, None, work)?, x.0.nrows()))
    }

    /// Returns the gradients in the inputs at rows of inputs, an array for every function.
    #[pyo3(signature = (x, *, threads=None))]
    fn gradients(&self, py: Python<'_>, x: Matrix, threads: Option<usize>) -> PyResult<Vec<Matrix>> {
        let work = |host: Host<'_>| self.draws.gradients_unless(x.0.as_ref(), &host.stopped());
        Ok(self.custom.run(py, threads, None, work)?.into_iter().map(Matrix).collect())
    }
}

/// Returns draws at this number of rows as a matrix with a column for each draw.
fn by_row(draws: &[Vec<f64>], rows: usize) -> Rows {
    let numbers = (0..rows).flat_map(|row| draws.iter().map(move |draw| draw[row])).collect();
    Rows(numbers, draws.len())
}

/// Returns the inputs of a table in original units, categories as codes: a row for each row of the table.
#[pyfunction]
pub fn design(model: &Model, table: &Table) -> PyResult<Matrix> {
    model.model.schema().design(&table.0, UnseenLevels::New).map(Matrix).map_err(raised)
}

/// Draws functions from the posterior. Returns `None` if the library cannot draw functions of the model.
#[pyfunction]
#[pyo3(signature = (model, count, seed, output=0, *, threads=None))]
pub fn functions(
    py: Python<'_>,
    model: &Model,
    count: usize,
    seed: u64,
    output: u64,
    threads: Option<usize>,
) -> PyResult<Option<Functions>> {
    let work = |_: Host<'_>| match model.model.function_draws(count, seed, output) {
        Ok(draws) => Ok(Some(draws)),
        Err(error) if error.kind() == ErrorKind::Usage => Ok(None),
        Err(error) => Err(error),
    };
    let draws = model.run(py, threads, work)?;
    Ok(draws.map(|draws| Functions { draws: Arc::new(draws), custom: model.custom.clone() }))
}

/// Returns all hyper-parameters by name in units of columns and target; names of lengths end with their columns in brackets. Values without
/// such units stay on the scale the model sees.
#[pyfunction]
pub fn hyperparameters(model: &Model) -> Vec<(String, f64, Option<[f64; 2]>)> {
    let named = |(of, columns): (Hyperparameter, Vec<String>)| {
        let name = match columns.is_empty() {
            true => of.name,
            false => format!("{}[{}]", stem(&of.name).unwrap_or(&of.name), columns.join(", ")),
        };
        (name, of.value.unwrap_or(of.scaled), of.interval)
    };
    model.model.in_units().into_iter().map(named).collect()
}

/// Returns the mean and covariance of the function, or of a process on the scale that the model sees, at rows
/// of inputs as returned by [`design`].
#[pyfunction]
#[pyo3(signature = (model, x, *, process=None, threads=None))]
pub fn joint_at(
    py: Python<'_>,
    model: &Model,
    x: Matrix,
    process: Option<usize>,
    threads: Option<usize>,
) -> PyResult<(Vector, Matrix)> {
    let (x, engine) = (x.0.as_ref(), &model.model);
    let (mean, covariance) = model.run(py, threads, |_| match process {
        None => engine.model().joint(x),
        Some(process) => engine.model().joint_of_process(x, process),
    })?;
    Ok((Vector(mean), Matrix(covariance)))
}

fn inputs_of(engine: &TableModel, table: &Table) -> sparsegp::Result<(Mat<f64>, Vec<f64>)> {
    let exposure = engine.schema().exposure(&table.0)?.unwrap_or_default();
    Ok((engine.schema().design(&table.0, UnseenLevels::New)?, exposure))
}

/// Returns the joint covariance of the targets at all rows of a table.
#[pyfunction]
#[pyo3(signature = (model, table, *, threads=None))]
pub fn target_covariance(
    py: Python<'_>,
    model: &Model,
    table: &Table,
    threads: Option<usize>,
) -> PyResult<Matrix> {
    let engine = &model.model;
    let work = |_: Host<'_>| {
        let (x, exposure) = inputs_of(engine, table)?;
        engine.target_joint(x.as_ref(), &exposure)
    };
    Ok(Matrix(model.run(py, threads, work)?.1))
}

/// Draws targets jointly at all rows of a table: a row for each row of the table, a column for each draw.
#[pyfunction]
#[pyo3(signature = (model, table, count, seed, *, threads=None))]
pub fn draws_together(
    py: Python<'_>,
    model: &Model,
    table: &Table,
    count: usize,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<Rows> {
    check_room(table.0.rows(), count)?;
    let engine = &model.model;
    let work = |_: Host<'_>| {
        let (x, exposure) = inputs_of(engine, table)?;
        engine.target_draws(x.as_ref(), &exposure, count, seed)
    };
    Ok(by_row(&model.run(py, threads, work)?, table.0.rows()))
}

/// Returns the gradients of predictions in the inputs at the rows of a table: of mean and variance of the
/// target, then of mean and variance of the function.
#[pyfunction]
#[pyo3(signature = (model, table, *, threads=None))]
pub fn slopes(py: Python<'_>, model: &Model, table: &Table, threads: Option<usize>) -> PyResult<[Matrix; 4]> {
    let engine = &model.model;
    let work = |_: Host<'_>| {
        let (x, exposure) = inputs_of(engine, table)?;
        engine.slopes(x.as_ref(), &exposure)
    };
    let found = model.run(py, threads, work)?;
    // The last columns are the slopes of offsets.
    let inputs = engine.schema().offset_inputs().start;
    let of_inputs = |slopes: Mat<f64>| Matrix(slopes.subcols(0, inputs.min(slopes.ncols())).to_owned());
    Ok([found.mean, found.variance, found.latent_mean, found.latent_variance].map(of_inputs))
}
