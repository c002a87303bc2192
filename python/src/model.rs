//! A fitted model for Python: predictions of tables as arrays, descriptions, its file.

use crate::convert::{Matrix, Rows, python, raised, zeros};
use crate::custom::Custom;
use crate::host;
use crate::kernel::named_values;
use crate::table::Table;
use faer::Mat;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::prelude::*;
use sparsegp::Error;
use sparsegp::data::{Purpose, generator};
use sparsegp::files::AtomicFile;
use sparsegp::hyper::Session;
use sparsegp::latent::Layer;
use sparsegp::model::Predictions;
use sparsegp_reports::{DataSummary, Document, Evaluation, FitReport, KeptRows, fit_page};
use sparsegp_tables::schema::{Censoring, UnseenColumn, UnseenLevels};
use sparsegp_tables::tabular::{Baselines, NamedEffect, TableModel, TrainingSample};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of training rows over which figures in notebooks average.
const GLANCE_ROWS: usize = 100;

/// A fitted model.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Model {
    pub model: Arc<TableModel>,
    /// Its custom kernels and likelihoods.
    pub custom: Custom,
    /// Rows of the fit for its report; `None` if the model comes from a file or was updated.
    sample: Option<TrainingSample>,
}

/// The requested parts of predictions.
#[derive(FromPyObject)]
enum Wanted {
    /// A quantile of the target at each of these probabilities.
    Quantiles(Vec<f64>),
    /// A quantity with this name.
    Named(String),
    /// A quantity with this name at each of these times.
    At(String, Vec<f64>),
}

/// The count of numbers per row, and the function that writes the predictions of a row, given its target, to
/// an array.
type Fill<'a> = (usize, Box<dyn Fn(&Predictions, usize, f64, &mut [f64]) + Send + Sync + 'a>);

/// Returns a prediction of `N` numbers per row.
fn fixed<'a, const N: usize>(of: fn(&Predictions, usize, f64) -> [f64; N]) -> Fill<'a> {
    (N, Box::new(move |predictions, row, target, out| out.copy_from_slice(&of(predictions, row, target))))
}

/// The number of rows that are predicted between checks for an interruption.
const BLOCK_ROWS: usize = 1 << 16;

impl Model {
    /// Creates a model, which may have a custom kernel or likelihood.
    pub fn new(model: Arc<TableModel>, custom: Custom) -> Model {
        Model { model, custom, sample: None }
    }

    /// Adds rows of the fit to the model.
    pub fn with_sample(self, sample: Option<TrainingSample>) -> Model {
        Model { sample, ..self }
    }

    /// Does `work` on a pool; returns its result or its error.
    pub fn run<T: Send>(
        &self,
        py: Python<'_>,
        threads: Option<usize>,
        work: impl FnOnce(host::Host<'_>) -> sparsegp::Result<T> + Send,
    ) -> PyResult<T> {
        self.custom.run(py, threads, None, work)
    }

    /// Returns a page about the model, as HTML text.
    fn page(&self, test: Option<&Evaluation>, rows: &KeptRows, again: &str) -> String {
        let title = self.model.schema().target_name();
        let figures = Vec::new();
        let fit = FitReport { title, model: &self.model, test, rows: Some(rows), figures, say: &python };
        fit_page(title, &[fit], again).html()
    }

    /// Returns the function that computes the requested numbers of every row.
    fn fill<'a>(&'a self, wanted: &'a Wanted) -> PyResult<Fill<'a>> {
        let name = match wanted {
            Wanted::Named(name) => name.as_str(),
            Wanted::Quantiles(levels) => {
                let fill = move |predictions: &Predictions, row: usize, _: f64, out: &mut [f64]| {
                    out.iter_mut().zip(levels).for_each(|(out, &p)| *out = predictions.quantile(row, p));
                };
                return Ok((levels.len(), Box::new(fill)));
            }
            Wanted::At(what, times) => {
                let value = match what.as_str() {
                    "survival" => Predictions::survives,
                    "hazard" => Predictions::hazard,
                    _ => return Err(PyValueError::new_err(format!("there is no prediction named '{what}'"))),
                };
                let fill = move |predictions: &Predictions, row: usize, _: f64, out: &mut [f64]| {
                    out.iter_mut().zip(times).for_each(|(out, &t)| *out = value(predictions, row, t));
                };
                return Ok((times.len(), Box::new(fill)));
            }
        };
        let functions = self.model.latent().likelihood.functions();
        Ok(match name {
            "moments" => fixed(|predictions, row, _| {
                let at = predictions.row(row);
                [at.mean, at.variance]
            }),
            "probabilities" => (
                self.model.schema().encoding().levels().len(),
                Box::new(|predictions, row, _, out| out.copy_from_slice(&predictions.probabilities(row))),
            ),
            "label" => fixed(|predictions, row, _| {
                [predictions.most_probable(row).map_or(f64::NAN, |label| label as f64)]
            }),
            // Several functions have no units, so they stay on the scale the model sees.
            "latent" if functions > 1 => (
                2 * functions,
                Box::new(move |predictions, row, _, out| {
                    for function in 0..functions {
                        (out[function], out[functions + function]) = predictions.latent(row, function);
                    }
                }),
            ),
            "latent" => fixed(|predictions, row, _| {
                let at = predictions.row(row);
                [at.latent_mean, at.latent_variance]
            }),
            "log_density" => fixed(|predictions, row, target| [predictions.log_density(row, target)]),
            "crps" => fixed(|predictions, row, target| [predictions.crps(row, target)]),
            _ => return Err(PyValueError::new_err(format!("there is no prediction named '{name}'"))),
        })
    }

    /// Predicts a table block by block, and passes on every block with the number of rows before it. An
    /// interruption is an error.
    fn in_blocks(
        &self,
        table: &Table,
        host: &host::Host<'_>,
        visit: &mut dyn FnMut(usize, &Predictions),
    ) -> sparsegp::Result<()> {
        let rows = table.0.rows();
        let predictions = |block: &sparsegp_tables::tables::Table| -> sparsegp::Result<Predictions> {
            let ends = self.model.schema().other_ends(block)?.unwrap_or_default();
            Ok(self.model.predict(block, UnseenLevels::New)?.with_other_ends(&ends))
        };
        if rows <= BLOCK_ROWS {
            visit(0, &predictions(&table.0)?);
            return Ok(());
        }
        for first in (0..rows).step_by(BLOCK_ROWS) {
            if host.interrupted.load(Ordering::Relaxed) {
                return Err(Error::interrupted("the predictions were interrupted"));
            }
            let block: Vec<usize> = (first..rows.min(first + BLOCK_ROWS)).collect();
            let block = table.0.take(&block).from_row(first);
            visit(first, &predictions(&block)?);
        }
        Ok(())
    }

    fn targets(&self, table: &Table) -> sparsegp::Result<Vec<f64>> {
        Ok(self.model.schema().target(&table.0)?.unwrap_or_default())
    }
}

#[pymethods]
impl Model {
    /// Returns the requested predictions of a table: for each request, a matrix with a row for each row of
    /// the table.
    #[pyo3(signature = (table, wanted, *, threads=None))]
    fn predict(
        &self,
        py: Python<'_>,
        table: &Table,
        wanted: Vec<Wanted>,
        threads: Option<usize>,
    ) -> PyResult<Vec<Rows>> {
        let compares = |wanted: &Wanted| matches!(wanted, Wanted::Named(name) if ["log_density", "crps"].contains(&name.as_str()));
        let targets =
            if wanted.iter().any(compares) { self.targets(table).map_err(raised)? } else { Vec::new() };
        if wanted.iter().any(compares) && targets.len() != table.0.rows() {
            return Err(PyValueError::new_err("the table has no column of targets"));
        }
        let fills = wanted.iter().map(|wanted| self.fill(wanted)).collect::<PyResult<Vec<_>>>()?;
        let mut rooms =
            fills.iter().map(|(width, _)| zeros(table.0.rows(), *width)).collect::<PyResult<Vec<_>>>()?;
        let work = |host: host::Host<'_>| {
            self.in_blocks(table, &host, &mut |first, predictions| {
                for ((width, fill), numbers) in fills.iter().zip(&mut rooms) {
                    let width = (*width).max(1);
                    let block = numbers.get_mut(first * width..).unwrap_or_default();
                    let rows = block.par_chunks_exact_mut(width).take(predictions.rows()).enumerate();
                    rows.for_each(|(row, out)| {
                        let target = targets.get(first + row).copied().unwrap_or(f64::NAN);
                        fill(predictions, row, target, out);
                    });
                }
            })?;
            Ok(rooms.into_iter().zip(&fills).map(|(numbers, fill)| Rows(numbers, fill.0)).collect())
        };
        self.run(py, threads, work)
    }

    /// Returns a one-line note about levels in a table that training did not see, if there are any.
    fn unseen_levels(&self, table: &Table) -> PyResult<Option<String>> {
        let found = self.model.schema().unseen_levels(&table.0).map_err(raised)?;
        Ok(UnseenColumn::told(table.0.source(), &found))
    }

    /// Draws the target independently at every row: a row for each row of the table. The draws of a row
    /// depend only on the seed and the index of the row.
    #[pyo3(signature = (table, count, seed, *, threads=None))]
    fn draws(
        &self,
        py: Python<'_>,
        table: &Table,
        count: usize,
        seed: u64,
        threads: Option<usize>,
    ) -> PyResult<Rows> {
        let mut numbers = zeros(table.0.rows(), count)?;
        let width = count.max(1);
        let work = move |host: host::Host<'_>| {
            self.in_blocks(table, &host, &mut |first, predictions| {
                let block = numbers.get_mut(first * width..).unwrap_or_default();
                let rows = block.par_chunks_exact_mut(width).take(predictions.rows()).enumerate();
                rows.for_each(|(row, out)| {
                    let mut random = generator(seed, Purpose::Prediction, (first + row) as u64);
                    out.iter_mut().for_each(|out| *out = predictions.draw(row, &mut random));
                });
            })?;
            Ok(numbers)
        };
        Ok(Rows(self.run(py, threads, work)?, count))
    }

    /// Returns the weights of the latent processes in the function of the target, and the offset of the
    /// function, in units of the target. Returns `None` if the target mixes no processes.
    fn mixing(&self) -> Option<(Vec<f64>, f64)> {
        self.model.mixing()
    }

    /// Returns the predicted probabilities `P(Y < y)` and `P(Y ≤ y)` for the target y of every row of a
    /// table.
    #[pyo3(signature = (table, *, threads=None))]
    fn pit(&self, py: Python<'_>, table: &Table, threads: Option<usize>) -> PyResult<Rows> {
        let work = |host: host::Host<'_>| {
            let (targets, mut pits) = (self.targets(table)?, Vec::new());
            self.in_blocks(table, &host, &mut |first, predictions| {
                let rows =
                    predictions.compare(targets.get(first..first + predictions.rows()).unwrap_or_default());
                pits.extend(rows.iter().flat_map(|row| [row.pit.0, row.pit.1]));
            })?;
            Ok(pits)
        };
        Ok(Rows(self.run(py, threads, work)?, 2))
    }

    /// Returns the metrics document of the fit, as JSON text.
    fn document(&self) -> String {
        Document::new("fit", &self.model, DataSummary::of(&self.model), &python)
            .with_config("program_version", self.model.program())
            .with_config("input_names", self.model.schema().input_names())
            .to_json()
    }

    /// Returns the columns of the model: the names of features, the target, the exposure, the offsets, the kind
    /// of target and its levels.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (schema, columns) = (self.model.schema(), PyDict::new(py));
        let features: Vec<&String> = schema.features().iter().flat_map(|feature| feature.columns()).collect();
        // Predictions also need the columns of groups and slopes.
        let mut more: Vec<String> = Vec::new();
        for name in schema.group_names() {
            if !features.iter().any(|own| own.as_str() == name) && !more.iter().any(|own| own == name) {
                more.push(name.to_owned());
            }
        }
        columns.set_item("group_columns", more)?;
        columns.set_item("features", features)?;
        let place = schema.place_inputs();
        let place = place.map(|(places, inputs)| (places.columns.to_vec(), inputs.collect::<Vec<usize>>()));
        columns.set_item("place", place)?;
        columns.set_item("target", schema.target_name())?;
        columns.set_item("exposure", schema.exposure_as("exposure"))?;
        columns.set_item("trials", schema.exposure_as("trials"))?;
        columns.set_item("noise_std", schema.exposure_as("noise-std"))?;
        let (censored, lower, upper) = match schema.censored() {
            Some(Censoring::Column(name)) => (Some(name), None, None),
            Some(Censoring::Ends { lower, upper }) => (None, lower.as_ref(), upper.as_ref()),
            Some(Censoring::Cap { .. }) | None => (None, None, None),
        };
        columns.set_item("censored", censored)?;
        columns.set_item("lower", lower)?;
        columns.set_item("upper", upper)?;
        columns.set_item("offset", schema.offset_names())?;
        columns.set_item("weights", schema.weights_name())?;
        columns.set_item("kind", schema.encoding().kind().to_string())?;
        columns.set_item("levels", schema.encoding().levels())?;
        let mut inputs = schema.input_names();
        // The inputs of grouped effects are not inputs of the function.
        inputs.truncate(schema.feature_dims());
        columns.set_item("inputs", inputs)?;
        columns.set_item("groups", schema.groups().iter().map(|group| group.name()).collect::<Vec<_>>())?;
        Ok(columns)
    }

    /// Returns the estimates of grouped effects: group, level and effect by name, estimate and standard
    /// deviation.
    fn effects(&self) -> Vec<(String, String, String, f64, f64)> {
        let row =
            |NamedEffect { group, level, effect, value }| (group, level, effect, value.estimate, value.sd);
        self.model.effects().into_iter().map(row).collect()
    }

    /// Returns the kernel in the text grammar, and its values by name in their order; `None` for a linear
    /// model.
    fn kernel(&self) -> Option<(String, Vec<(String, f64)>)> {
        let layer = self.model.latent().layers.iter().find_map(Layer::inducing)?;
        Some((layer.kernel().expression(), named_values(layer.kernel())))
    }

    /// Returns the inducing inputs in original units, stacked over the latent functions; `None` for a linear
    /// model.
    fn inducing_points(&self) -> Option<Rows> {
        let layers: Vec<_> = self.model.latent().layers.iter().filter_map(Layer::inducing).collect();
        let (mut rows, inputs) = (Vec::new(), layers.first()?.z().ncols());
        for layer in layers {
            // The columns of grouped effects follow; inducing inputs have no such columns.
            let mut z: Mat<f64> = Mat::zeros(layer.z().nrows(), self.model.inputs());
            z.as_mut().subcols_mut(0, inputs).copy_from(layer.z());
            self.model.scaling().unscale_inputs(z.as_mut());
            rows.extend((0..z.nrows()).flat_map(|i| (0..inputs).map(move |j| (i, j))).map(|at| z[at]));
        }
        Some(Rows(rows, inputs))
    }

    /// Returns the noise variance in squared units of the target, if the noise is Gaussian and the target is
    /// not warped.
    fn noise_variance(&self) -> Option<f64> {
        let plain = self.model.scaling().target_map().is_none();
        let noise = self.model.latent().noise_variance().filter(|_| plain);
        noise.map(|noise| self.model.scaling().unscale_variance(noise))
    }

    /// Converts a variance on the scale the model sees to squared units of the target.
    fn unscaled_variance(&self, variance: f64) -> f64 {
        self.model.scaling().unscale_variance(variance)
    }

    /// Returns the covariance of the coefficients of a linear model, in the order of the document.
    fn coefficient_covariance(&self) -> Option<Matrix> {
        self.model.coefficient_covariance().map(Matrix)
    }

    /// Writes a report. If a table of test rows is given, the report has figures for it and shows how
    /// predictions depend on the columns; targets may be missing. `again` is the call that reproduces the
    /// report.
    #[pyo3(signature = (path, again, table=None, *, threads=None))]
    fn report(
        &self,
        py: Python<'_>,
        path: PathBuf,
        again: String,
        table: Option<&Table>,
        threads: Option<usize>,
    ) -> PyResult<()> {
        let (model, target) = (&*self.model, self.model.schema().target_name());
        let work = |host: host::Host<'_>| {
            let labelled = table.filter(|table| table.0.column(target).is_some());
            let poll = || host.interrupted.load(Ordering::Relaxed);
            let mut session = Session::new(host.tell).with_poll(&poll);
            // Figures for comparison are optional: the report omits unavailable ones.
            let beside = labelled.and(self.sample.as_ref());
            let beside = beside.and_then(|sample| Baselines::of(sample, model, &mut session).ok());
            let of_table =
                |table: &Table| Evaluation::of_table(model, beside.as_ref(), &table.0, UnseenLevels::New);
            let test = labelled.map(of_table).transpose()?;
            let mut rows = KeptRows::new(model);
            if let (Some(table), None) = (table, &test) {
                rows.push_table(model, &table.0, UnseenLevels::New)?;
            }
            let page = self.page(test.as_ref(), &rows, &again);
            AtomicFile::write_all_to(&path, page.as_bytes())
        };
        self.run(py, threads, work)
    }

    /// Returns the scores of the rows of a table with targets, as JSON text.
    #[pyo3(signature = (table, *, threads=None))]
    fn scores(&self, py: Python<'_>, table: &Table, threads: Option<usize>) -> PyResult<String> {
        let work = |_: host::Host<'_>| {
            let scored = Evaluation::of_table(&self.model, None, &table.0, UnseenLevels::New)?;
            serde_json::to_string(&scored.report).map_err(|error| Error::data(error.to_string()))
        };
        self.run(py, threads, work)
    }

    /// Returns the report as HTML text without test rows, with figures of the function at some training rows
    /// if the model still has them. `again` is the call that reproduces the fit.
    #[pyo3(signature = (again, *, threads=None))]
    fn glance(&self, py: Python<'_>, again: String, threads: Option<usize>) -> PyResult<String> {
        let work = |_: host::Host<'_>| {
            let mut rows = KeptRows::new(&self.model);
            if let Some(sample) = &self.sample {
                rows.push_inputs(sample.rows(), GLANCE_ROWS);
            }
            Ok(self.page(None, &rows, &again))
        };
        self.run(py, threads, work)
    }

    /// Writes the model file, which appears completely or not at all.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.model.save(&path).map_err(raised)
    }

    /// Reads a model file that the command line or Python wrote.
    #[staticmethod]
    #[pyo3(signature = (path, custom=None))]
    fn load(py: Python<'_>, path: PathBuf, custom: Option<Custom>) -> PyResult<Model> {
        let custom = custom.unwrap_or_default();
        let load = || TableModel::load_with(&path, &custom.registry).map_err(raised);
        let model = custom.watch(py, load)?;
        Ok(Model::new(Arc::new(model), custom))
    }

    /// Returns the contents of a model file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.model.to_bytes().map_err(raised)?))
    }

    /// Reads a model from the contents of a model file.
    #[staticmethod]
    #[pyo3(signature = (bytes, custom=None))]
    fn from_bytes(py: Python<'_>, bytes: &[u8], custom: Option<Custom>) -> PyResult<Model> {
        let custom = custom.unwrap_or_default();
        let read = || TableModel::from_bytes_with("the model", bytes, &custom.registry).map_err(raised);
        let model = custom.watch(py, read)?;
        Ok(Model::new(Arc::new(model), custom))
    }
}
