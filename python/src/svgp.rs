//! A stochastic variational GP that a program trains with its own loop: the objective of a batch,
//! its gradients, steps.

use crate::convert::{Matrix, Rows, Vector, raised};
use crate::custom::Custom;
use crate::fit::{Columns, options_of};
use crate::host;
use crate::model::Model;
use crate::table::Table;
use faer::Mat;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use sparsegp::collapsed::Dataset;
use sparsegp::data::check_exposure;
use sparsegp::gradient::Batch;
use sparsegp::hyper::FreeVector;
use sparsegp::latent::InducingPrior;
use sparsegp::likelihood::{LikelihoodKind, TargetKind};
use sparsegp::model::{LatentModel, Posterior, Score};
use sparsegp::objective::Targets;
use sparsegp::options::{FitOptions, MeanKind};
use sparsegp::training::{Fitted, VariationalModel};
use sparsegp::variational::{MatrixRef, Normal, RuleOptions, Rules};
use sparsegp_tables::tabular::{FitRequest, table_model};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of rows that buffers are made for; larger batches make new buffers.
const BATCH: usize = 256;

/// A model with its posterior, for inputs and targets without scaling.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Svgp {
    state: Mutex<State>,
    threads: Option<usize>,
    custom: Custom,
}

struct State {
    model: VariationalModel,
    rules: Rules,
    options: RuleOptions,
    inputs: usize,
    /// The options that it was made with.
    given: FitOptions,
    /// The free parameters, in units of their starting values, so that the vector keeps its meaning when the
    /// model changes.
    free: FreeVector,
    /// True if the gradients stored in the model are up to date, and true if they include the
    /// hyper-parameters.
    evaluated: (bool, bool),
}

/// The inputs and targets of a batch, and its optional exposures (or numbers of trials) and offsets.
#[derive(FromPyObject)]
struct Observed(Matrix, Vector, Option<Vector>, Option<Matrix>);

/// The checked rows of a batch.
struct Checked {
    x: Mat<f64>,
    y: Vec<f64>,
    exposure: Vec<f64>,
    /// `n × C`; empty without offsets.
    offsets: Mat<f64>,
}

impl Checked {
    fn targets(&self) -> Targets<'_> {
        Targets { exposure: &self.exposure, offsets: self.offsets.as_ref(), ..Targets::of(&self.y) }
    }

    fn dataset(&self) -> Dataset<'_> {
        Dataset { x: self.x.as_ref(), targets: self.targets() }
    }
}

/// A covariance, or its diagonal.
#[derive(FromPyObject, IntoPyObject)]
enum Covariance {
    Full(Matrix),
    Diagonal(Vector),
}

fn pair(mean: &[f64], covariance: MatrixRef<'_>) -> (Vector, Covariance) {
    let covariance = match covariance {
        MatrixRef::Full(all) => Covariance::Full(Matrix(all.to_owned())),
        MatrixRef::Diagonal(diagonal) => Covariance::Diagonal(Vector(diagonal.to_vec())),
    };
    (Vector(mean.to_vec()), covariance)
}

impl State {
    /// Creates the initial state of a model, with q = the prior.
    fn new(options: &FitOptions, z: Mat<f64>, levels: usize) -> PyResult<State> {
        options.check_no_trees("needs an estimator, which boosts trees before the fit").map_err(raised)?;
        let registry = &options.registry;
        let inputs = z.ncols();
        let kernel = options.kernel_of(inputs).map_err(raised)?;
        let likelihood = registry.likelihood(options.likelihood_kind(), levels).map_err(raised)?;
        let functions = likelihood.functions();
        let layer = InducingPrior::new(kernel, z, options.jitter).map_err(raised)?;
        let layer = layer.with_means(vec![0.0; functions], options.mean == MeanKind::Zero);
        let mut model = LatentModel::new(layer.into(), likelihood, options.fix_inducing);
        model.start_at(&options.constraints).map_err(raised)?;
        model.constrain(&options.constraints, false).map_err(raised)?;
        let model = model.factorised().map_err(|_| {
            PyValueError::new_err("the covariance of the inducing inputs has no Cholesky factor")
        })?;
        let m = model.layer().dim();
        let q: Vec<Normal> = (0..functions).map(|_| Normal::standard(options.steps.family, m)).collect();
        let rule = options.steps.rule();
        let rules = Rules::of_all(&rule, &q);
        let free = FreeVector::new(&model.descriptors());
        let model =
            VariationalModel::new(model, q, options.mini_batch_objective(), BATCH).with_seed(options.seed);
        let given = FitOptions { standardize: false, ..options.clone() };
        Ok(State { model, rules, options: rule, inputs, given, free, evaluated: (false, false) })
    }

    /// Computes the objective at a batch, without the priors of hyper-parameters, and stores its gradients.
    fn evaluate(&mut self, rows: &Checked, scale: f64, hyper: bool) -> f64 {
        self.model.reserve(rows.x.nrows());
        let Dataset { x, targets } = rows.dataset();
        let batch = Batch { x, targets, scale };
        let value = self.model.evaluate_under(batch, hyper, self.rules.factor());
        self.evaluated = (value.is_finite(), hyper);
        value
    }

    fn check(&self, x: &Mat<f64>) -> PyResult<()> {
        if x.ncols() != self.inputs {
            let (found, expected) = (x.ncols(), self.inputs);
            return Err(PyValueError::new_err(format!("X has {found} columns, expected {expected}")));
        }
        if x.nrows() == 0 || !x.col_iter().all(|column| column.iter().all(|value| value.is_finite())) {
            return Err(PyValueError::new_err("X must have rows and only finite numbers"));
        }
        Ok(())
    }

    /// Checks the rows of a batch.
    fn checked(&self, Observed(x, y, exposure, offsets): Observed) -> PyResult<Checked> {
        let (x, y, exposure) = (x.0, y.0, exposure.map_or_else(Vec::new, |exposure| exposure.0));
        self.check(&x)?;
        let offsets = offsets.map_or_else(Mat::new, |offsets| offsets.0);
        let (found, expected) = (offsets.shape(), (x.nrows(), self.model.posteriors().len()));
        if offsets.ncols() > 0 && found != expected {
            return Err(PyValueError::new_err(format!(
                "offset has shape {found:?}, expected {expected:?}: a column for each latent function"
            )));
        }
        for (name, values) in [("y", &y), ("exposure", &exposure)] {
            if !values.is_empty() && values.len() != x.nrows() {
                let (found, expected) = (values.len(), x.nrows());
                return Err(PyValueError::new_err(format!(
                    "{name} has {found} numbers, X has {expected} rows"
                )));
            }
        }
        let likelihood = &self.model.model.likelihood;
        let (kind, levels) = (likelihood.target_kind(), likelihood.levels());
        let is_coded = matches!(kind, TargetKind::Binary | TargetKind::Ordinal | TargetKind::Class);
        let admits = |y: f64| kind.admits(y) && (!is_coded || y < levels as f64);
        if let Some(odd) = y.iter().find(|&&y| !admits(y)) {
            return Err(PyValueError::new_err(format!("y has {odd}, expected {}", kind.values())));
        }
        check_exposure(LikelihoodKind::of(&**likelihood), "batch", &exposure).map_err(raised)?;
        let trials = |row: usize| exposure.get(row).copied().unwrap_or(1.0);
        if let Some(row) = (0..y.len()).find(|&row| !kind.admits_with(y[row], trials(row))) {
            let (found, most) = (y[row], trials(row));
            return Err(PyValueError::new_err(format!(
                "y has {found}, expected at most the {most} trials of its row"
            )));
        }
        Ok(Checked { x, y, exposure, offsets })
    }

    fn need(&self, hyper: bool) -> PyResult<()> {
        if self.evaluated.0 && (!hyper || self.evaluated.1) {
            return Ok(());
        }
        let how = if hyper { "loss(X, y, hyper=True)" } else { "loss(X, y)" };
        Err(PyRuntimeError::new_err(format!(
            "the model has changed since the last gradient: call {how} first"
        )))
    }

    fn posterior(&self) -> Posterior {
        Posterior::new(&self.model.model, self.model.posteriors())
    }
}

impl Svgp {
    /// Locks the state. The interpreter is released while another thread has the lock, because that thread
    /// may wait for the interpreter.
    fn state(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        self.state.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` on the model while other threads can use the interpreter.
    fn work<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> T + Send) -> PyResult<T> {
        let locked = |_: host::Host<'_>| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut state)
        };
        self.custom.watch(py, || host::run(py, self.threads, None, locked))
    }
}

#[pymethods]
impl Svgp {
    /// Creates a model with q = the prior, from options of a fit by name (as JSON text), inducing inputs (M ×
    /// D), and the number of classes or levels.
    #[new]
    #[pyo3(signature = (options, inducing, levels, *, custom=None, threads=None))]
    fn new(
        py: Python<'_>,
        options: &str,
        inducing: Matrix,
        levels: usize,
        custom: Option<Custom>,
        threads: Option<usize>,
    ) -> PyResult<Svgp> {
        let custom = custom.unwrap_or_default();
        let state =
            custom.watch(py, || State::new(&options_of(options, &[], &custom)?, inducing.0, levels))?;
        Ok(Svgp { state: Mutex::new(state), threads, custom })
    }

    /// Computes the objective at a batch, `scale·Σ ℓ_i + β KL − Σ log p(θ)` with the priors of
    /// hyper-parameters, and stores its gradients.
    fn loss(&self, py: Python<'_>, rows: Observed, scale: f64, hyper: bool) -> PyResult<f64> {
        let rows = self.state(py).checked(rows)?;
        self.work(py, |state| {
            let value = state.evaluate(&rows, scale, hyper);
            value + state.free.penalty(&state.model.model.natural())
        })
    }

    /// Returns the model and its posterior as a model of a table. The table has the training rows, which are
    /// also `rows`.
    fn table_model(
        &self,
        py: Python<'_>,
        table: &Table,
        columns: Columns,
        rows: Observed,
    ) -> PyResult<Model> {
        let rows = self.state(py).checked(rows)?;
        let columns = columns.options().map_err(raised)?;
        let model = self.work(py, |state| {
            let (objective, count) = (state.evaluate(&rows, 1.0, false), rows.y.len());
            let fitted = Fitted::by_hand(&state.model.model, state.model.posteriors(), objective, count);
            table_model(&FitRequest::new(&table.0, &columns, &state.given), fitted)
        })?;
        Ok(Model::new(Arc::new(model.map_err(raised)?), self.custom.clone()))
    }

    /// Moves every q along the stored gradient. Returns the size of the step, and the number of times that it
    /// was shrunk.
    fn step(&self, py: Python<'_>, size: f64) -> PyResult<(f64, usize)> {
        self.state(py).need(false)?;
        let info = self.work(py, |state| {
            state.evaluated.0 = false;
            state.model.update_all(&mut state.rules, size)
        })?;
        Ok((info.step, info.rollbacks))
    }

    /// Returns the stored gradient of the data term in m and S of every function.
    fn gradients(&self, py: Python<'_>) -> PyResult<Vec<(Vector, Covariance)>> {
        let state = self.state(py);
        state.need(false)?;
        let of = |process: usize| {
            let gradient = state.model.q_gradient_of(process);
            pair(gradient.mean, gradient.cov)
        };
        Ok((0..state.model.posteriors().len()).map(of).collect())
    }

    /// Returns m and S of every function.
    fn posteriors(&self, py: Python<'_>) -> Vec<(Vector, Covariance)> {
        self.state(py).model.posteriors().iter().map(|q| pair(q.mean(), q.cov())).collect()
    }

    /// Replaces m and S of every function.
    fn set_posteriors(&self, py: Python<'_>, given: Vec<(Vector, Covariance)>) -> PyResult<()> {
        let mut state = self.state(py);
        let (m, count) = (state.model.q().dim(), state.model.posteriors().len());
        let family = state.model.q().family();
        let normal = |(mean, covariance): (Vector, Covariance)| match covariance {
            Covariance::Full(covariance) => Normal::new(mean.0, covariance.0).map_err(raised),
            Covariance::Diagonal(variances) => Normal::diagonal(mean.0, variances.0).map_err(raised),
        };
        let q = given.into_iter().map(normal).collect::<PyResult<Vec<_>>>()?;
        if q.len() != count || q.iter().any(|q| q.dim() != m || q.family() != family) {
            return Err(PyValueError::new_err(format!(
                "expected a mean and a covariance of dimension {m} for each of {count} functions, {family} as before"
            )));
        }
        state.rules = Rules::of_all(&state.options, &q);
        state.model.set_q(q);
        state.evaluated = (false, false);
        Ok(())
    }

    /// Returns the sum of `KL(q ‖ p)` over all functions.
    fn kl(&self, py: Python<'_>) -> f64 {
        self.state(py).model.kl()
    }

    /// Returns the means and variances of the functions at inputs, a row for each input.
    fn marginals(&self, py: Python<'_>, x: Matrix) -> PyResult<(Rows, Rows)> {
        self.state(py).check(&x.0)?;
        let found = self.work(py, |state| state.posterior().marginals(x.0.as_ref()))?;
        Ok((Rows(found.mean, found.functions), Rows(found.variance, found.functions)))
    }

    /// Returns the covariance of a function at inputs.
    fn covariance(&self, py: Python<'_>, x: Matrix, function: usize) -> PyResult<Matrix> {
        self.state(py).check(&x.0)?;
        let functions = self.state(py).model.posteriors().len();
        if function >= functions {
            return Err(PyValueError::new_err(format!(
                "function is {function}, expected a number below {functions}"
            )));
        }
        self.work(py, |state| state.posterior().covariance_of(function, x.0.as_ref())).map(Matrix)
    }

    /// Returns the log predictive density of every target.
    fn log_density(&self, py: Python<'_>, rows: Observed) -> PyResult<Vector> {
        let rows = self.state(py).checked(rows)?;
        let losses = self.work(py, |state| state.posterior().losses(rows.dataset(), Score::LogLoss))?;
        Ok(Vector(losses.into_iter().map(|loss| -loss).collect()))
    }

    /// Returns the names and values of the hyper-parameters, without the inducing inputs.
    fn hyperparameters(&self, py: Python<'_>) -> Vec<(String, f64)> {
        self.state(py).model.model.named_values()
    }

    /// Returns the unconstrained vector of hyper-parameters and inducing inputs.
    fn theta(&self, py: Python<'_>) -> Vector {
        let state = self.state(py);
        Vector(state.free.pack(&state.model.model.natural()))
    }

    /// Returns the name of every entry of the vector `theta`: hyper-parameters, and `inducing.i.d` for column
    /// d of inducing input i.
    fn theta_names(&self, py: Python<'_>) -> Vec<String> {
        let state = self.state(py);
        let all = state.model.model.descriptors();
        state.free.indices().map(|index| all[index].name.clone()).collect()
    }

    /// Returns the stored gradient in the vector `theta`.
    fn theta_gradient(&self, py: Python<'_>) -> PyResult<Vector> {
        let mut state = self.state(py);
        state.need(true)?;
        let state = &mut *state;
        let (free, natural) = (&state.free, state.model.model.natural());
        let mut out = vec![0.0; free.len()];
        free.pull_back(&natural, state.model.theta_gradient(), &mut out);
        Ok(Vector(out))
    }

    /// Sets hyper-parameters and inducing inputs; the whitened q stays the same. If the model cannot be
    /// evaluated there, returns false and changes nothing.
    fn move_to(&self, py: Python<'_>, theta: Vector) -> PyResult<bool> {
        let theta = theta.0;
        let expected = self.state(py).free.len();
        if theta.len() != expected || theta.iter().any(|x| !x.is_finite()) {
            return Err(PyValueError::new_err(format!("theta must be {expected} finite numbers")));
        }
        self.work(py, |state| {
            let mut natural = state.model.model.natural();
            state.free.unpack(&theta, &mut natural);
            state.evaluated = (false, false);
            natural.iter().all(|x| x.is_finite()) && state.model.set_natural(&natural)
        })
    }

    /// Returns the inducing inputs.
    fn inducing_points(&self, py: Python<'_>) -> Option<Matrix> {
        self.state(py).model.model.layer().inducing().map(|layer| Matrix(layer.z().to_owned()))
    }
}
