//! The fit loop: training by the chosen objective from a start, and its summary; no files, no tables.

use super::collapsed::{CollapsedBound, CollapsedObjective};
use super::diagnose::{Finished, absolute_jitter, diagnose};
use super::failure::{diverged, explained, failed_start, singular_start};
use super::inference::InferenceOptions;
use super::latent::LatentModel;
use super::options::{FitOptions, Hyper, ObjectiveKind};
use super::posterior::Posterior;
use super::solve::{SolveLimits, full_objective, solve_q};
use super::start::{evidence_start, initial_model, warm_start};
use super::training::BatchTraining;
use super::variational::VariationalModel;
use super::warning::{Warning, read_warnings};
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::{
    AdamOptions, FreeVector, LbfgsOptions, Limits, Monitor, Outcome, Record, StopReason, minimize_adam,
    minimize_lbfgs,
};
use crate::likelihood::LikelihoodKind;
use crate::objective::EstimatorCounts;
use crate::variational::{Family, Normal, QUpdate};
use serde::{Deserialize, Serialize};

/// Inputs (`D × n`, one column per datum) and targets on the scale the model sees.
#[derive(Clone, Copy)]
pub struct TrainingData<'a> {
    /// The training part.
    pub train: Dataset<'a>,
    /// The validation part, if any.
    pub validation: Option<Dataset<'a>>,
    /// The number of ordered levels of the target, for ordinal targets.
    pub levels: usize,
}

impl<'a> TrainingData<'a> {
    /// Training data alone.
    pub fn of(train: Dataset<'a>) -> Self {
        TrainingData { train, validation: None, levels: 0 }
    }
}

/// What a fit starts from instead of the data.
#[derive(Clone)]
pub struct Start {
    /// Kernel, mean, likelihood and inducing inputs.
    pub model: LatentModel,
    /// The whitened posterior to go on with; solved for when absent.
    pub q: Option<Normal>,
}

/// How much work updates were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpdateCounts {
    pub evaluations: usize,
    pub rollbacks: usize,
}

impl UpdateCounts {
    pub(super) fn add(&mut self, other: UpdateCounts) {
        self.evaluations += other.evaluations;
        self.rollbacks += other.rollbacks;
    }
}

/// What a fit did, in numbers and words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// The minimised objective per datum (without priors), on the scale the model sees.
    pub objective: f64,
    /// Its sum over the data.
    pub objective_sum: f64,
    /// The evidence lower bound (a sum), where the objective has one: β = 1 ELBO of the returned q.
    pub elbo_sum: Option<f64>,
    /// An upper bound on the log evidence at the final parameters, where it applies (full batch).
    pub evidence_upper_bound: Option<f64>,
    /// Passes over the data, or iterations of L-BFGS.
    pub epochs: usize,
    /// Steps of the solver.
    pub iterations: usize,
    /// Evaluations of value and gradient.
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds per evaluation.
    pub seconds_per_step: f64,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Steps that were taken back or shrunk.
    pub rollbacks: usize,
    /// What a sampling estimator did (dlm-log with bmc, smooth-bmc or ups).
    #[serde(default)]
    pub sampling: Option<EstimatorCounts>,
    /// The absolute jitter in use at the end.
    pub jitter: f64,
    /// What a user should know.
    #[serde(deserialize_with = "read_warnings")]
    pub warnings: Vec<Warning>,
    /// One record per epoch.
    pub trace: Vec<Record>,
}

/// A fitted model of arrays: model, whitened posterior, predictor and summary.
pub struct Fitted {
    /// Kernel, mean, likelihood, inducing inputs.
    pub model: LatentModel,
    /// The whitened posterior.
    pub q: Normal,
    /// The predictor.
    pub posterior: Posterior,
    /// What the fit did.
    pub summary: FitSummary,
}

/// Fits a model. `listener` hears one record per epoch.
///
/// Errors: `Usage` for options that make no sense (before any work), `Data` for shapes that do not match, `Fit` when
/// not even the starting point can be evaluated.
pub fn fit_arrays(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    listener: &mut dyn FnMut(&Record),
) -> Result<Fitted> {
    options.validate()?;
    let options = &options.settled();
    check_shapes(data, start)?;
    if options.objective == ObjectiveKind::Fitc && !data.train.targets.weights.is_empty() {
        return Err(Error::usage("--objective fitc takes no sample weights")
            .hint("vfe, elbo, dlm-log and dlm-square do"));
    }
    let Start { mut model, q } = match start {
        Some(start) => start.clone(),
        None => Start { model: initial_model(data.train, options, data.levels)?, q: None },
    };
    model.constrain(&options.constraints, options.default_priors && options.standardize)?;
    model.refresh().map_err(|failure| singular_start(&failure, &model, data.train))?;
    let at_start = model.clone();
    train(Start { model, q }, start.is_none(), data, options, listener)
        .map_err(|error| explained(error, &at_start, data.train))
}

/// Training from a start that is refreshed; `fresh` when it came from the data.
fn train(
    Start { mut model, q }: Start,
    fresh: bool,
    data: TrainingData<'_>,
    options: &FitOptions,
    listener: &mut dyn FnMut(&Record),
) -> Result<Fitted> {
    let limits = Limits {
        epochs: options.epoch_limit(),
        seconds: options.max_seconds,
        tolerance: options.stopping_tolerance(),
        window: 10,
        plateaus: if options.is_collapsed() { 0 } else { 2 },
        patience: options.patience,
    };
    let mut monitor = Monitor::new(limits, listener);
    if options.objective == ObjectiveKind::DlmSquare {
        if fresh && options.hyper_mode() != Hyper::Fixed {
            // Amplitude and β trade off against each other: the evidence sets the amplitude, against noise of 1/β.
            model = evidence_start(model, data.train, options, &monitor)?;
        }
        hold_amplitude(&mut model);
    }
    let trained = if options.is_collapsed() {
        train_collapsed(model, data.train, options, &mut monitor)?
    } else {
        train_svgp(Start { model, q }, fresh, data, options, &mut monitor)?
    };
    Ok(finish(trained, data, options, &monitor))
}

fn check_shapes(data: TrainingData<'_>, start: Option<&Start>) -> Result<()> {
    let (n, d) = (data.train.len(), data.train.x.nrows());
    if data.train.x.ncols() != n || n == 0 || d == 0 {
        return Err(Error::data(format!(
            "the training inputs are {} rows × {d} columns for {n} targets, expected at least one of each and as many rows",
            data.train.x.ncols()
        )));
    }
    let started = start.map(|start| start.model.layer.input_dims());
    let mut others = data.validation.map(|part| part.x.nrows()).into_iter().chain(started);
    if let Some(other) = others.find(|&other| other != d) {
        return Err(Error::data(format!(
            "the training inputs have {d} columns, the validation inputs or the start model {other}, expected as many"
        )));
    }
    Ok(())
}

/// Only the ratio of amplitude and β matters to the square loss, which falls as it grows: the amplitude stays where it is,
/// and so does the likelihood, which does not enter.
fn hold_amplitude(model: &mut LatentModel) {
    model.layer.for_each_parameter_mut(&mut |p| p.fixed |= p.name == "variance");
    model.likelihood.for_each_parameter_mut(&mut |p| p.fixed = true);
}

/// The result of a training loop, before diagnosis.
struct Trained {
    model: LatentModel,
    q: Normal,
    value: f64,
    elbo: Option<f64>,
    upper: Option<f64>,
    sampling: Option<EstimatorCounts>,
    outcome: Outcome,
    taken_back: TakenBack,
}

/// Steps of training itself that were taken back or shrunk; those of warm starts and final steps on q, whose sizes are a
/// search, are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenBack {
    /// On hyper-parameters.
    pub hyper: usize,
    /// On q.
    pub q: usize,
}

fn train_collapsed(
    model: LatentModel,
    train: Dataset<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let bound = match options.objective {
        ObjectiveKind::Fitc => CollapsedBound::Fitc,
        ObjectiveKind::DlmSquare => CollapsedBound::Square { beta: options.beta },
        _ => CollapsedBound::Elbo { beta: options.beta },
    };
    let n = train.len() as f64;
    let mut objective = CollapsedObjective::new(model, train, bound);
    let start = objective.start();
    let outcome = if options.hyper_mode() == Hyper::Fixed || start.is_empty() {
        let value = objective.solve(&start).ok_or_else(failed_start)?;
        monitor.record(value / n, None);
        monitor.stop(StopReason::Converged);
        Outcome {
            theta: start,
            value,
            iterations: 0,
            evaluations: 1,
            rollbacks: 0,
            reason: StopReason::Converged,
        }
    } else {
        minimize_lbfgs(&mut objective, start, n, LbfgsOptions::default(), monitor)
    };
    let value = objective.solve(&outcome.theta).ok_or_else(failed_start)?;
    let upper = (options.objective == ObjectiveKind::Vfe).then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (options.objective == ObjectiveKind::Vfe && options.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    let taken_back = TakenBack { hyper: outcome.rollbacks, q: 0 };
    Ok(Trained { model, q, value, elbo, upper, sampling: None, outcome, taken_back })
}

/// The most rows that training at fixed hyper-parameters takes through full-batch steps.
const FULL_BATCH_ROWS: usize = 20_480;

/// The full-batch steps on q that end a fit: at most 20, and no more than some passes over a large data set are worth.
fn polish_steps(n: usize) -> usize {
    (200_000 / n.max(1)).clamp(3, 20)
}

fn train_svgp(
    start: Start,
    fresh: bool,
    data: TrainingData<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let n = data.train.len();
    let batch = options.batch_size.min(n);
    let (model, q, mut counts) = warm_start(start, fresh, data.train, options, monitor)?;
    // The direct form's M³ products outweigh what it saves on small batches (MATH, section 3).
    let guard = (batch >= 2 * model.layer.dim()).then_some(VariationalModel::DIRECT_GUARD);
    let mut svgp = VariationalModel::new(model, q, options.mini_batch_objective(), batch)
        .with_direct_guard(guard)
        .with_seed(options.seed);
    let sampled = svgp.objective().estimator().is_sampled();
    let polishes = options.polishes();
    let gaussian_elbo = polishes
        && svgp.model.likelihood.kind() == LikelihoodKind::Gaussian
        && options.objective == ObjectiveKind::Elbo
        && options.family == Family::Full;
    let free = match options.hyper_mode() {
        Hyper::Fixed => FreeVector::new(&[]),
        _ => FreeVector::new(&svgp.model.descriptors()),
    };
    let full_batch = free.is_empty()
        && polishes
        && !options.asks_for_batches()
        && n <= FULL_BATCH_ROWS
        && options.q_update == QUpdate::Ngd
        && options.q_step.is_none();
    let plan = options.inference(n, &svgp.model);
    // What mini-batches have to improve on, unless the end is exact anyway; full-batch steps only ever improve.
    let before = (!gaussian_elbo && !full_batch).then(|| {
        svgp.set_q(plan.rule.admit(svgp.q().clone()));
        let value = full_objective(&mut svgp, (data.train, batch));
        (svgp.model.clone(), svgp.q().clone(), value)
    });
    let (mut svgp, mut outcome, taken_back) = if full_batch {
        let (svgp, outcome) = solve_fixed(svgp, (data.train, batch), options, monitor)?;
        (svgp, outcome, TakenBack::default())
    } else {
        train_on_batches((svgp, free.clone(), plan), data, options, monitor)?
    };
    let sampling = sampled.then(|| svgp.estimator_counts());
    let (model, q, value) = if gaussian_elbo {
        // With Gaussian noise the optimal q at the final parameters is one natural-gradient step with ρ = 1 on the full
        // batch away: it removes what is left of the mini-batches' noise.
        let bound = CollapsedBound::Elbo { beta: options.beta };
        let mut polish = CollapsedObjective::new(svgp.model, data.train, bound);
        let theta = polish.start();
        let value = polish.solve(&theta).ok_or_else(|| diverged(taken_back))?;
        let (model, q) = polish.into_parts();
        (model, q, value)
    } else {
        let value = if full_batch {
            outcome.value
        } else if !polishes {
            full_objective(&mut svgp, (data.train, batch))
        } else {
            let limits =
                SolveLimits { steps: polish_steps(n), tolerance: 0.1 * options.stopping_tolerance() };
            let (value, polished) = solve_q(&mut svgp, (data.train, batch), options.q_guard, limits, None);
            counts.add(polished);
            value
        };
        let (model, q) = svgp.into_parts();
        better_of((model, q, value), before, &free, &mut outcome)
    };
    if !value.is_finite() {
        return Err(diverged(taken_back));
    }
    outcome.rollbacks += counts.rollbacks;
    let elbo = (options.beta == 1.0 && options.objective == ObjectiveKind::Elbo).then_some(-value);
    Ok(Trained { model, q, value, elbo, upper: None, sampling, outcome, taken_back })
}

/// A model, its posterior and the objective there.
type Valued = (LatentModel, Normal, f64);

/// What training ended with, or what it started from if that is better with the priors: training that diverged does no harm.
fn better_of(after: Valued, before: Option<Valued>, free: &FreeVector, outcome: &mut Outcome) -> Valued {
    let penalised = |(model, _, value): &Valued| value + free.penalty(&model.natural());
    match before {
        Some(before)
            if before.2.is_finite() && (!after.2.is_finite() || penalised(&after) > penalised(&before)) =>
        {
            outcome.reason = StopReason::NoProgress;
            before
        }
        _ => after,
    }
}

/// q by full-batch steps, hyper-parameters as they are.
fn solve_fixed(
    mut svgp: VariationalModel,
    (train, batch): (Dataset<'_>, usize),
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome)> {
    let limits = SolveLimits { steps: options.epoch_limit(), tolerance: options.stopping_tolerance() };
    let (value, counts) = solve_q(&mut svgp, (train, batch), options.q_guard, limits, Some(monitor));
    if !value.is_finite() {
        return Err(failed_start());
    }
    let outcome = Outcome {
        theta: Vec::new(),
        value,
        iterations: monitor.records().len(),
        evaluations: counts.evaluations,
        rollbacks: counts.rollbacks,
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
    };
    Ok((svgp, outcome))
}

/// q and hyper-parameters by mini-batches.
fn train_on_batches(
    (svgp, free, plan): (VariationalModel, FreeVector, InferenceOptions),
    data: TrainingData<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome, TakenBack)> {
    let mut training = BatchTraining::new(svgp, free, data, plan);
    let start = training.start();
    let adam = AdamOptions { rate: options.learning_rate, decay_share: 0.5 };
    let mut outcome = minimize_adam(&mut training, start, data.train.len() as f64, adam, monitor);
    let taken_back = TakenBack { hyper: outcome.rollbacks, q: training.q_rollbacks() };
    outcome.rollbacks += taken_back.q;
    if outcome.value.is_nan() && monitor.records().is_empty() && outcome.reason == StopReason::NoProgress {
        return Err(failed_start());
    }
    Ok((training.into_best(), outcome, taken_back))
}

fn finish(trained: Trained, data: TrainingData<'_>, options: &FitOptions, monitor: &Monitor<'_>) -> Fitted {
    let Trained { model, q, value, elbo, upper, sampling, outcome, taken_back } = trained;
    let seconds = monitor.elapsed().as_secs_f64();
    let posterior = Posterior::new(&model, &q);
    let finished =
        Finished { model: &model, posterior: &posterior, data, options, outcome: &outcome, taken_back };
    let warnings = diagnose(&finished);
    let summary = FitSummary {
        objective: value / data.train.len() as f64,
        objective_sum: value,
        elbo_sum: elbo,
        evidence_upper_bound: upper,
        epochs: monitor.records().len(),
        iterations: outcome.iterations,
        evaluations: outcome.evaluations,
        seconds,
        seconds_per_step: seconds / outcome.evaluations.max(1) as f64,
        stop_reason: outcome.reason,
        rollbacks: outcome.rollbacks,
        sampling,
        jitter: absolute_jitter(&model),
        warnings,
        trace: monitor.records().to_vec(),
    };
    Fitted { model, q, posterior, summary }
}
