//! Models of several targets, one for each, fitted together, in one file; the arithmetic is in the engine.

use crate::convert::{Rows, raised, zeros};
use crate::custom::Custom;
use crate::fit::{Columns, hearing, options_of, sample_of};
use crate::host::Host;
use crate::model::Model;
use crate::table::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sparsegp::hyper::Session;
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tabular::{
    DrawRequest, FitRequest, OutputsRequest, Sharing, TableModel, TableOutputs, fit_outputs_in,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fits models of several targets to the rows of a table, which may lack some targets. `sharing` is the
/// structure that they share; if it is None, held-out rows decide. Returns the models in the order of the
/// targets, and the structure that they share.
#[pyfunction]
#[pyo3(signature = (table, columns, targets, options, *, sharing=None, custom=None, listener=None, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn fit_outputs(
    py: Python<'_>,
    table: &Table,
    columns: Columns,
    targets: Vec<String>,
    options: &str,
    sharing: Option<&str>,
    custom: Option<Custom>,
    listener: Option<Py<PyAny>>,
    threads: Option<usize>,
) -> PyResult<(Vec<Model>, String)> {
    let custom = custom.unwrap_or_default();
    let options = options_of(options, &[], &custom)?;
    let sharing: Option<Sharing> = sharing.map(str::parse).transpose().map_err(raised)?;
    let columns = columns.options().map_err(raised)?;
    let work = |host: Host<'_>| {
        let request = OutputsRequest {
            table: &table.0,
            columns: &columns,
            targets: &targets,
            options: &options,
            test_fraction: 0.0,
            sharing,
            start: None,
        };
        let poll = || host.interrupted.load(Ordering::Relaxed) || custom.has_raised();
        let mut session = Session::new(host.tell).with_poll(&poll).with_enough(host.enough);
        let fit = fit_outputs_in(&request, &mut session)?;
        let known = |model: &Arc<TableModel>| SchemaOptions {
            known: Some(model.schema().clone()),
            ..columns.clone()
        };
        let with_sample = |model: Arc<TableModel>| {
            let sample = sample_of(&FitRequest::new(&fit.train, &known(&model), &options), &model);
            (model, sample)
        };
        let models: Vec<_> = fit.models.into_models().into_iter().map(with_sample).collect();
        Ok((models, fit.sharing.to_string()))
    };
    let (models, sharing) = custom.run(py, threads, hearing(listener).as_deref_mut(), work)?;
    let model = |(model, sample)| Model::new(model, custom.clone()).with_sample(sample);
    Ok((models.into_iter().map(model).collect(), sharing))
}

/// Writes models of several targets to one file, which appears completely or not at all.
#[pyfunction]
pub fn save_outputs(models: Vec<PyRef<'_, Model>>, path: PathBuf) -> PyResult<()> {
    together(&models).save(&path).map_err(raised)
}

/// Reads a file of one or several models that the command line or Python wrote.
#[pyfunction]
#[pyo3(signature = (path, custom=None))]
pub fn load_outputs(py: Python<'_>, path: PathBuf, custom: Option<Custom>) -> PyResult<Vec<Model>> {
    let custom = custom.unwrap_or_default();
    let load = || TableOutputs::load_with(&path, &custom.registry).map_err(raised);
    let models = custom.watch(py, load)?.into_models();
    Ok(models.into_iter().map(|model| Model::new(model, custom.clone())).collect())
}

/// Returns models of one or several targets updated with the rows of a table. The share `forget` of the earlier
/// information is forgotten first.
#[pyfunction]
#[pyo3(signature = (models, table, forget, *, threads=None))]
pub fn update_outputs(
    py: Python<'_>,
    models: Vec<PyRef<'_, Model>>,
    table: &Table,
    forget: f64,
    threads: Option<usize>,
) -> PyResult<Vec<Model>> {
    let Some(model) = models.first() else { return Err(PyValueError::new_err("there are no models")) };
    let (outputs, custom) = (together(&models), model.custom.clone());
    let work = |host: Host<'_>| {
        let poll = || host.interrupted.load(Ordering::Relaxed) || custom.has_raised();
        outputs.updated(&table.0, forget, &mut Session::new(host.tell).with_poll(&poll))
    };
    let updated = model.run(py, threads, work)?.into_models();
    Ok(updated
        .into_iter()
        .zip(&models)
        .map(|(model, before)| Model::new(model, before.custom.clone()))
        .collect())
}

/// Returns the means of the functions of P outputs at the rows of a table, a row for each row of the table,
/// and their covariances, a P × P matrix for each row.
#[pyfunction]
#[pyo3(signature = (models, table, *, threads=None))]
pub fn output_functions(
    py: Python<'_>,
    models: Vec<PyRef<'_, Model>>,
    table: &Table,
    threads: Option<usize>,
) -> PyResult<(Rows, Rows)> {
    let outputs = together(&models);
    let width = models.len();
    let work = |_: Host<'_>| {
        let mut means = vec![0.0; table.0.rows() * width];
        for (p, model) in outputs.models().enumerate() {
            let predictions = model.predict(&table.0, UnseenLevels::New)?;
            for row in 0..predictions.rows() {
                let at = predictions.row(row);
                // The noise around a mixture of processes is Gaussian, so the mean of the target is the mean
                // of the function.
                means[row * width + p] = if outputs.are_mixed() { at.mean } else { at.latent_mean };
            }
        }
        Ok((means, outputs.covariances(&table.0, UnseenLevels::New)?))
    };
    let (means, covariances) = first(&models)?.run(py, threads, work)?;
    Ok((Rows(means, width), Rows(covariances, width * width)))
}

/// Draws all outputs at the rows of a table: a row for each row of the table, one output after the other.
/// With `rows_together`, functions are drawn jointly at all rows; otherwise targets are drawn independently
/// at each row.
#[pyfunction]
#[pyo3(signature = (models, table, count, seed, *, rows_together=false, threads=None))]
pub fn output_draws(
    py: Python<'_>,
    models: Vec<PyRef<'_, Model>>,
    table: &Table,
    count: usize,
    seed: u64,
    rows_together: bool,
    threads: Option<usize>,
) -> PyResult<Rows> {
    let outputs = together(&models);
    let (rows, width) = (table.0.rows(), models.len().saturating_mul(count));
    let mut numbers = zeros(rows, width)?;
    let request = DrawRequest { count, seed, first_row: 0, unseen: UnseenLevels::Error };
    let work = move |_: Host<'_>| {
        let draws = match rows_together {
            true => outputs.samples(&table.0, &request)?,
            false => outputs.draws(&table.0, &request)?,
        };
        for (column, draw) in draws.iter().flatten().enumerate() {
            draw.iter().enumerate().for_each(|(row, value)| numbers[row * width + column] = *value);
        }
        Ok(numbers)
    };
    Ok(Rows(first(&models)?.run(py, threads, work)?, width))
}

fn first<'a>(models: &'a [PyRef<'_, Model>]) -> PyResult<&'a Model> {
    models.first().map(|model| &**model).ok_or_else(|| PyValueError::new_err("there are no models"))
}

fn together(models: &[PyRef<'_, Model>]) -> TableOutputs {
    models.iter().map(|model| model.model.clone()).collect::<Vec<_>>().into()
}
