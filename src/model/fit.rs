//! The fit loop: training by the chosen objective from a start, and its summary; no files, no tables.

use super::alternating::Alternating;
use super::collapsed::{CollapsedBound, CollapsedObjective};
use super::diagnose::{Finished, absolute_jitter, diagnose};
use super::failure::{diverged, explained, failed_start, singular_start};
use super::inference::InferenceOptions;
use super::latent::LatentModel;
use super::mixed::MixedUse;
use super::options::{FitOptions, Hyper, HyperOptimizer, ObjectiveKind};
use super::posterior::Posterior;
use super::search::{Search, fit_grown, fit_restarted};
use super::select::score_of;
use super::solve::{SolveLimits, Sweep, full_objective, solve_q};
use super::source::{BatchSource, MemoryBatches};
use super::start::{evidence_start, initial_model, warm_start, with_likelihood_of};
use super::summary::FitSummary;
use super::training::BatchTraining;
use super::variational::VariationalModel;
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::gradient::Precision;
use crate::hyper::{
    AdamOptions, FreeVector, FullBatch, HyperObjective, LbfgsOptions, Limits, Monitor, Outcome, Record,
    Session, StopReason, minimize_adam, minimize_lbfgs,
};
use crate::objective::EstimatorCounts;
use crate::variational::{Family, Normal, QUpdate};

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
    /// How its start was found.
    pub search: Search,
}

/// Fits a model. `listener` hears one record per epoch.
///
/// Errors: `Usage` for options that make no sense (before any work), or that name another likelihood than the start has, `Data` for shapes that do not match, `Fit` when
/// not even the starting point can be evaluated.
pub fn fit_arrays(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    listener: &mut dyn FnMut(&Record),
) -> Result<Fitted> {
    fit_arrays_in(data, options, start, &mut Session::new(listener))
}

/// Fits a model within a session, which may interrupt it and keeps its state.
///
/// Errors: as for [`fit_arrays`]; `Interrupted` when the session was, `Data` when its checkpoint does not fit.
pub fn fit_arrays_in(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Option<&Start>,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let options = match start {
        Some(start) => &with_likelihood_of(&start.model, options)?,
        None => options,
    };
    options.validate()?;
    let options = &options.settled(data.train.len());
    check_shapes(data, start)?;
    if options.objective == ObjectiveKind::Fitc && !data.train.targets.weights.is_empty() {
        return Err(Error::usage("--objective fitc takes no sample weights")
            .hint("vfe, elbo, dlm-log and dlm-square do"));
    }
    match start {
        Some(start) => fit_prepared(data, options, start.clone(), false, session),
        None if options.growth.is_some() => fit_grown(data, options, session),
        None if options.restarts > 1 => fit_restarted(data, options, session),
        None => {
            let model = initial_model(data.train, options, data.levels)?;
            fit_prepared(data, options, Start { model, q: None }, true, session)
        }
    }
}

/// The fit proper, of settled options from a start; a `fresh` one has yet to see more of the data than their scale.
pub(super) fn fit_prepared(
    data: TrainingData<'_>,
    options: &FitOptions,
    start: Start,
    fresh: bool,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let Start { model, q } = start;
    let model = ready(model, options, data.train)?;
    let at_start = model.clone();
    train(Start { model, q }, fresh, data, options, session)
        .map_err(|error| explained(error, &at_start, data.train))
}

/// A model with constraints as asked for, which can be evaluated.
pub(super) fn ready(mut model: LatentModel, options: &FitOptions, train: Dataset<'_>) -> Result<LatentModel> {
    model.constrain(&options.constraints, options.has_default_priors())?;
    model.refresh().map_err(|failure| singular_start(&failure, &model, train))?;
    Ok(model)
}

/// Training from a start that is refreshed; `fresh` when it came from the data.
fn train(
    Start { mut model, q }: Start,
    fresh: bool,
    data: TrainingData<'_>,
    options: &FitOptions,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let mut monitor = session.monitor(limits(options));
    if options.objective == ObjectiveKind::DlmSquare {
        if fresh && options.hyper_mode() != Hyper::Fixed {
            // Amplitude and β trade off against each other: the evidence sets the amplitude, against noise of 1/β.
            model = evidence_start(model, data.train, options, &mut monitor)?;
        }
        hold_amplitude(&mut model);
    }
    let trained = if options.is_collapsed() {
        train_collapsed(model, data, options, &mut monitor)?
    } else {
        train_svgp(Start { model, q }, fresh, data, options, &mut monitor)?
    };
    monitor.check()?;
    Ok(finish(trained, data, data.train.len(), options, &monitor))
}

/// When training ends.
pub(super) fn limits(options: &FitOptions) -> Limits {
    Limits {
        epochs: options.epoch_limit(),
        steps: options.max_steps,
        seconds: options.max_seconds,
        tolerance: options.stopping_tolerance(),
        window: 10,
        // A solver with a step size cuts it when progress ends.
        plateaus: if options.optimizer() == HyperOptimizer::Adam { 2 } else { 0 },
        patience: options.patience,
        target: options.stop_at,
    }
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
pub(super) struct Trained {
    pub model: LatentModel,
    pub q: Normal,
    pub value: f64,
    pub elbo: Option<f64>,
    pub upper: Option<f64>,
    pub sampling: Option<EstimatorCounts>,
    pub outcome: Outcome,
    pub taken_back: TakenBack,
    pub estimated_on: Option<usize>,
}

/// What training itself took back: steps that were undone or shrunk, and single precision; those of warm starts and final steps on q, whose sizes are a
/// search, are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenBack {
    /// On hyper-parameters.
    pub hyper: usize,
    /// On q.
    pub q: usize,
    /// What single precision did, where it was asked for.
    pub mixed: Option<MixedUse>,
}

fn train_collapsed(
    model: LatentModel,
    data: TrainingData<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let bound = match options.objective {
        ObjectiveKind::Fitc => CollapsedBound::Fitc,
        ObjectiveKind::DlmSquare => CollapsedBound::Square { beta: options.beta },
        _ => CollapsedBound::Elbo { beta: options.beta },
    };
    let n = data.train.len() as f64;
    let mut objective = CollapsedObjective::new(model, data.train, bound);
    if let Some(validation) = data.validation {
        objective = objective.with_validation(validation, score_of(options));
    }
    let start = objective.start();
    let mut outcome = if options.hyper_mode() == Hyper::Fixed || start.is_empty() {
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
        minimize(&mut objective, start, n, options, monitor)
    };
    monitor.check()?;
    if let Some(best) = objective.kept() {
        outcome.theta = best;
    }
    let value = objective.solve(&outcome.theta).ok_or_else(failed_start)?;
    let bounds = matches!(options.objective, ObjectiveKind::Vfe | ObjectiveKind::Elbo);
    let upper = bounds.then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (bounds && options.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    Ok(Trained { model, q, value, elbo, upper, sampling: None, outcome, taken_back, estimated_on: None })
}

/// Minimises an objective of all data with the solver that was asked for.
fn minimize(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    n: f64,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    match options.optimizer() {
        HyperOptimizer::Lbfgs => minimize_lbfgs(objective, start, n, LbfgsOptions::default(), monitor),
        HyperOptimizer::Adam => {
            minimize_adam(&mut FullBatch(objective), start, n, adam_options(options), monitor)
        }
    }
}

fn adam_options(options: &FitOptions) -> AdamOptions {
    AdamOptions { rate: options.learning_rate, decay_share: 0.5 }
}

/// The most rows that training at fixed hyper-parameters takes through full-batch steps.
const FULL_BATCH_ROWS: usize = 20_480;

/// The most full-batch steps on q for one step on hyper-parameters.
const ALTERNATING_STEPS: usize = 30;

/// The full-batch steps on q that end a fit: at most 20, and no more than some passes over a large data set are worth.
pub(super) fn polish_steps(n: usize) -> usize {
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
    monitor.check()?;
    let mut svgp = batch_model(model, q, options, batch);
    let sampled = svgp.objective().estimator().is_sampled();
    let polishes = options.polishes();
    let gaussian_elbo = polishes && solves_in_one_step(&svgp, options);
    let free = free_parameters(&svgp, options);
    let full_batch = free.is_empty()
        && polishes
        && !options.asks_for_batches()
        && n <= FULL_BATCH_ROWS
        && options.q_update == QUpdate::Ngd
        && options.q_step.is_none();
    let plan = options.inference(n, &svgp.model);
    // What training has to improve on; full-batch steps only ever improve.
    let all = Sweep::of(&data.train, batch);
    let before = if full_batch {
        None
    } else if gaussian_elbo {
        with_best_q(svgp.model.clone(), data.train, options)
    } else {
        svgp.set_q(plan.rule.admit(svgp.q().clone()));
        let value = full_objective(&mut svgp, all)?;
        Some((svgp.model.clone(), svgp.q().clone(), value))
    };
    let (mut svgp, mut outcome, taken_back) = if full_batch {
        let (svgp, outcome) = solve_fixed(svgp, all, options, monitor)?;
        (svgp, outcome, TakenBack::default())
    } else if options.hyper_mode() == Hyper::Alternating && !free.is_empty() {
        train_alternating((svgp, free.clone()), data, options, monitor)?
    } else {
        let source = Box::new(MemoryBatches::new(data.train, plan.batches, plan.seed));
        train_on_batches((svgp, free.clone(), plan), (source, data.validation), options, monitor)?
    };
    monitor.check()?;
    let sampling = sampled.then(|| svgp.estimator_counts());
    let after = if gaussian_elbo {
        // It removes what is left of the mini-batches' noise.
        let (model, q) = svgp.into_parts();
        with_best_q(model.clone(), data.train, options).unwrap_or((model, q, f64::NAN))
    } else {
        let value = if full_batch {
            outcome.value
        } else if !polishes {
            full_objective(&mut svgp, all)?
        } else {
            let limits =
                SolveLimits { steps: polish_steps(n), tolerance: 0.1 * options.stopping_tolerance() };
            let (value, polished) = solve_q(&mut svgp, all, options.q_guard, limits, None)?;
            counts.add(polished);
            value
        };
        let (model, q) = svgp.into_parts();
        (model, q, value)
    };
    // Held-out rows have the last word where there are any.
    let before = before.filter(|_| data.validation.is_none() || !after.2.is_finite());
    let (model, q, value) = better_of(after, before, (&free, n), &mut outcome);
    if !value.is_finite() {
        return Err(diverged(taken_back));
    }
    outcome.rollbacks += counts.rollbacks;
    let elbo = (options.beta == 1.0 && options.objective == ObjectiveKind::Elbo).then_some(-value);
    Ok(Trained { model, q, value, elbo, upper: None, sampling, outcome, taken_back, estimated_on: None })
}

/// A model of Gaussian noise with the q of the best ELBO, which is one natural-gradient step with ρ = 1 on the full batch
/// away; `None` where that cannot be evaluated.
fn with_best_q(model: LatentModel, train: Dataset<'_>, options: &FitOptions) -> Option<Valued> {
    let mut bound = CollapsedObjective::new(model, train, CollapsedBound::Elbo { beta: options.beta });
    let theta = bound.start();
    let value = bound.solve(&theta)?;
    let (model, q) = bound.into_parts();
    Some((model, q, value))
}

/// A model that is ready for batches of at most `batch` rows.
pub(super) fn batch_model(
    model: LatentModel,
    q: Normal,
    options: &FitOptions,
    batch: usize,
) -> VariationalModel {
    // The direct form's M³ products outweigh what it saves on small batches (MATH, section 3).
    let guard = (batch >= 2 * model.layer.dim()).then_some(VariationalModel::DIRECT_GUARD);
    VariationalModel::new(model, q, options.mini_batch_objective(), batch)
        .with_direct_guard(guard)
        .with_parameterization(options.parameterization())
        .with_seed(options.seed)
}

/// What is trained besides q.
pub(super) fn free_parameters(svgp: &VariationalModel, options: &FitOptions) -> FreeVector {
    match options.hyper_mode() {
        Hyper::Fixed => FreeVector::new(&[]),
        _ => FreeVector::new(&svgp.model.descriptors()),
    }
}

/// Whether one natural-gradient step with ρ = 1 on all rows leads to the optimal q: of an ELBO with Gaussian noise.
pub(super) fn solves_in_one_step(svgp: &VariationalModel, options: &FitOptions) -> bool {
    svgp.model.likelihood.gaussian_noise().is_some()
        && options.objective == ObjectiveKind::Elbo
        && options.family == Family::Full
}

/// Nats per datum within which two fits are equally good.
const NEGLIGIBLE_LOSS: f64 = 0.01;

/// A model, its posterior and the objective there.
pub(super) type Valued = (LatentModel, Normal, f64);

/// What training ended with, or what it started from if that is better with the priors: training that diverged does no harm.
pub(super) fn better_of(
    after: Valued,
    before: Option<Valued>,
    (free, n): (&FreeVector, usize),
    outcome: &mut Outcome,
) -> Valued {
    let penalised = |(model, _, value): &Valued| value + free.penalty(&model.natural());
    match before {
        Some(before)
            if before.2.is_finite() && (!after.2.is_finite() || penalised(&after) > penalised(&before)) =>
        {
            // Training that ends right beside a start that was good already is no failure.
            let loss = (penalised(&after) - penalised(&before)) / n as f64;
            if loss.is_nan() || loss > NEGLIGIBLE_LOSS {
                outcome.reason = StopReason::NoProgress;
            }
            before
        }
        _ => after,
    }
}

/// q by full-batch steps, hyper-parameters as they are.
fn solve_fixed(
    mut svgp: VariationalModel,
    all: Sweep<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome)> {
    let limits = SolveLimits { steps: options.epoch_limit(), tolerance: options.stopping_tolerance() };
    let (value, counts) = solve_q(&mut svgp, all, options.q_guard, limits, Some(monitor))?;
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

/// Hyper-parameters on all data, q solved for at every step.
fn train_alternating(
    (svgp, free): (VariationalModel, FreeVector),
    data: TrainingData<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome, TakenBack)> {
    let limits = SolveLimits { steps: ALTERNATING_STEPS, tolerance: 1e-2 * options.stopping_tolerance() };
    let mut objective = Alternating::new(svgp, free, data, options.q_guard, limits);
    let start = objective.start();
    let mut outcome = minimize(&mut objective, start, data.train.len() as f64, options, monitor);
    monitor.check()?;
    let (svgp, value, counts) = objective.into_best();
    if !value.is_finite() {
        return Err(failed_start());
    }
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    outcome.evaluations = counts.evaluations;
    Ok((svgp, Outcome { value, ..outcome }, taken_back))
}

/// q and hyper-parameters by mini-batches.
///
/// # Errors
///
/// When a batch cannot be read, or not even the start can be evaluated.
pub(super) fn train_on_batches<'a>(
    (svgp, free, plan): (VariationalModel, FreeVector, InferenceOptions),
    (source, validation): (Box<dyn BatchSource + 'a>, Option<Dataset<'a>>),
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome, TakenBack)> {
    let n = source.rows().count() as f64;
    let svgp = svgp.with_precision(options.precision);
    let mut training = BatchTraining::new(svgp, free, (source, validation), plan);
    let start = training.start();
    let mut outcome = minimize_adam(&mut training, start, n, adam_options(options), monitor);
    if let Some(error) = training.error() {
        return Err(error.clone());
    }
    monitor.check()?;
    if outcome.value.is_nan() && monitor.records().is_empty() && outcome.reason == StopReason::NoProgress {
        return Err(failed_start());
    }
    let (svgp, q) = training.into_best();
    let taken_back = TakenBack { hyper: outcome.rollbacks, q, mixed: svgp.mixed_use() };
    outcome.rollbacks += q;
    Ok((svgp.with_precision(Precision::Double), outcome, taken_back))
}

/// The summary of training on `n` rows, of which `data` are some or all.
pub(super) fn finish(
    trained: Trained,
    data: TrainingData<'_>,
    n: usize,
    options: &FitOptions,
    monitor: &Monitor<'_>,
) -> Fitted {
    let Trained { model, q, value, elbo, upper, sampling, outcome, taken_back, estimated_on } = trained;
    let seconds = monitor.elapsed().as_secs_f64();
    let posterior = Posterior::new(&model, &q);
    let finished =
        Finished { model: &model, posterior: &posterior, data, options, outcome: &outcome, taken_back };
    let warnings = diagnose(&finished);
    let summary = FitSummary {
        objective: value / n as f64,
        objective_sum: value,
        estimated_on,
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
        mixed: taken_back.mixed,
        jitter: absolute_jitter(&model),
        warnings,
        trace: monitor.records().to_vec(),
    };
    Fitted { model, q, posterior, summary, search: Search::default() }
}
