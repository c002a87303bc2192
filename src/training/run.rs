//! Training from a start by the method of the plan, for rows in memory or on disk, and its outcome; no search for a start.

use super::alternating::Alternating;
use super::batch_training::BatchTraining;
use super::choices::Chosen;
use super::collapsed::CollapsedObjective;
use super::diagnose::{FitFacts, absolute_jitter, diagnose};
use super::failure::{diverged, explained, failed_start, singular_start};
use super::grouped::train_grouped;
use super::inference::InferenceOptions;
use super::neighbours::train_neighbours;
use super::outcome::{TakenBack, Trained};
use super::rows::{BatchSource, TrainingRows};
use super::solve::{SolveLimits, Sweep, full_objective, solve_q};
use super::start::{Start, evidence_start, warm_start};
use super::theorem::with_proven_steps;
use super::variational::VariationalModel;
use crate::collapsed::{CollapsedBound, Dataset};
use crate::error::{Error, Result};
use crate::gradient::Precision;
use crate::hyper::{
    AdamOptions, FreeVector, FullBatch, HyperObjective, LbfgsOptions, Monitor, Outcome, Record, Session,
    StopReason, minimize_adam, minimize_lbfgs,
};
use crate::model::{FitSummary, LatentModel, LatentPrior, Posterior, Score, Search, Warning};
use crate::options::{HyperOptimizer, HyperPlan, LossKind, Part, Plan, StepPlan, Way};
use crate::variational::Parameterization;
use crate::variational::{Family, Normal};

/// The outcome of a fit, on the scale the model sees: model, whitened posterior, predictor and summary.
pub struct Fitted {
    /// Kernel, mean, likelihood, inducing inputs.
    pub model: LatentPrior,
    /// The whitened posterior of every process.
    pub q: Vec<Normal>,
    /// The predictor.
    pub posterior: Posterior,
    /// The summary of the fit.
    pub summary: FitSummary,
    /// The search for the start.
    pub search: Search,
}

impl Fitted {
    /// Adds the choices before the fit, and the reasons for those that were dropped.
    pub fn decided_by(&mut self, chosen: Chosen) {
        let (choices, warning) = chosen.into_record();
        self.summary.warnings.extend(warning);
        let Some(choices) = choices else { return };
        let of_neighbours = choices.parts.iter().any(|choice| choice.part == Part::Neighbours);
        for warning in &mut self.summary.warnings {
            if let Warning::LooseBound { without_neighbours, .. } = warning {
                *without_neighbours = of_neighbours;
            }
        }
        self.search.choices = Some(choices);
    }
}

/// The maximum number of rows for which training at fixed hyper-parameters takes steps on all of them.
const ALL_ROWS_WILL_DO: usize = 20_480;

/// The maximum number of full-batch steps on q for one step on hyper-parameters.
const ALTERNATING_STEPS: usize = 30;

/// The gain of a step on the q of several functions, in nats over all rows, below which steps end.
const KNOWN: f64 = 1e-4;

/// Returns the number of full-batch steps on q at the end of a fit: at most 20, and at most a few passes over large data.
fn polish_steps(n: usize) -> usize {
    (200_000 / n.max(1)).clamp(3, 20)
}

/// Fits from a start; a `fresh` start has used only the scale of the data.
pub(super) fn fit_from(
    rows: &dyn TrainingRows,
    plan: &Plan,
    start: Start,
    fresh: bool,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let sample = rows.start_sample();
    let model = ready(start.model, &plan.hyper, sample)?;
    let at_start = model.to_prior();
    train((model, start.q), fresh, rows, plan, session).map_err(|error| explained(error, &at_start, sample))
}

/// Applies constraints to a model, and factorises it.
pub(super) fn ready(mut model: LatentPrior, hyper: &HyperPlan, train: Dataset<'_>) -> Result<LatentModel> {
    model.constrain(&hyper.constraints, hyper.weak_priors)?;
    model.factorised().map_err(|failure| singular_start(&failure, &model, train))
}

/// Trains from a start that can be evaluated, with its q if it has one.
fn train(
    (mut model, q): (LatentModel, Option<Vec<Normal>>),
    fresh: bool,
    rows: &dyn TrainingRows,
    plan: &Plan,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let mut monitor = session.monitor(plan.limits);
    if plan.loss == LossKind::Square && !matches!(plan.way, Way::Neighbours(_)) {
        if fresh && plan.hyper.trains {
            // Amplitude and β trade off against each other: the evidence sets the amplitude, against noise of 1/β.
            model = evidence_start(model, rows.start_sample(), plan, &mut monitor)?;
        }
        hold_amplitude(&mut model);
        hold_likelihood(&mut model);
    }
    let trained = match &plan.way {
        Way::Collapsed(bound) => train_collapsed(model, rows, *bound, plan, &mut monitor)?,
        Way::Grouped(bound) => train_grouped(model, rows, *bound, plan, &mut monitor)?,
        Way::Neighbours(neighbours) => {
            train_neighbours(model, rows, (plan, neighbours, fresh), &mut monitor)?
        }
        Way::Batches(steps) | Way::Alternating(steps) => {
            train_variational((model, q), fresh, rows, (plan, steps), &mut monitor)?
        }
    };
    monitor.check()?;
    Ok(finish(trained, rows, plan, (monitor.records(), monitor.elapsed().as_secs_f64())))
}

/// Only the ratio of amplitude and β affects the square loss, which falls as the ratio grows, so the amplitude is fixed.
pub(super) fn hold_amplitude(model: &mut LatentModel) {
    model.layers[0].fix(&|p| p.name == "variance");
}

/// Fixes the likelihood, which does not enter.
fn hold_likelihood(model: &mut LatentModel) {
    model.likelihood.for_each_parameter_mut(&mut |p| p.fixed = true);
}

/// Returns the rows of a method that needs all of them at once.
pub(super) fn whole<'a>(rows: &'a dyn TrainingRows, what: &str) -> Result<Dataset<'a>> {
    rows.in_memory().ok_or_else(|| Error::usage(format!("{what} needs all rows in memory")))
}

/// The outcome of a fit of `n` data without anything to minimise, whose objective is `value` at its start.
pub(super) fn evaluated_once(theta: Vec<f64>, value: f64, n: f64, monitor: &mut Monitor<'_>) -> Outcome {
    monitor.record(value / n, None);
    monitor.stop(StopReason::Converged);
    Outcome { theta, value, iterations: 0, evaluations: 1, rollbacks: 0, reason: StopReason::Converged }
}

/// Hyper-parameters on a bound in which q is solved for in closed form.
fn train_collapsed(
    model: LatentModel,
    rows: &dyn TrainingRows,
    bound: CollapsedBound,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let n = rows.all().count() as f64;
    let mut objective = match rows.all().elsewhere() {
        Some(parts) => CollapsedObjective::of_parts(model, parts, bound),
        None => CollapsedObjective::new(model, whole(rows, "a collapsed bound")?, bound),
    };
    if let Some(validation) = rows.validation() {
        objective = objective.with_validation(validation, Score::of(plan.loss));
    }
    let start = objective.start();
    let mut outcome = if !plan.hyper.trains || start.is_empty() {
        let value = solved(&mut objective, &start)?;
        evaluated_once(start, value, n, monitor)
    } else {
        minimize(&mut objective, start, n, &plan.hyper, monitor)
    };
    monitor.check()?;
    if let Some(best) = objective.kept() {
        outcome.theta = best;
    }
    let value = solved(&mut objective, &outcome.theta)?;
    let is_elbo = plan.loss == LossKind::Elbo;
    let upper = is_elbo.then(|| objective.evidence_upper_bound()).flatten();
    let elbo = (is_elbo && plan.beta == 1.0).then_some(-value);
    let (model, q) = objective.into_parts();
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    Ok(Trained {
        model,
        q: vec![q],
        value,
        elbo,
        upper,
        sampling: None,
        outcome,
        taken_back,
        estimated_on: None,
        nearby: None,
        effects: None,
        guarantee: None,
    })
}

/// Returns the bound at `theta`, or the reason why it has no value there.
fn solved(objective: &mut CollapsedObjective<'_>, theta: &[f64]) -> Result<f64> {
    let value = objective.solve(theta);
    match objective.error() {
        Some(error) => Err(error.clone()),
        None => value.ok_or_else(failed_start),
    }
}

/// Minimises an objective of all rows with the requested solver.
pub(super) fn minimize(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    n: f64,
    hyper: &HyperPlan,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    match hyper.solver {
        HyperOptimizer::Lbfgs => minimize_lbfgs(objective, start, n, LbfgsOptions::default(), monitor),
        HyperOptimizer::Adam => {
            minimize_adam(&mut FullBatch::new(objective), start, n, adam_options(hyper), monitor)
        }
    }
}

pub(super) fn adam_options(hyper: &HyperPlan) -> AdamOptions {
    AdamOptions { rate: hyper.learning_rate, decay_share: 0.5 }
}

/// Trains q by gradients, and hyper-parameters with it. The objective is compared before and after: on all rows if they are in memory,
/// otherwise on a sample that did not choose the start.
fn train_variational(
    (model, q): (LatentModel, Option<Vec<Normal>>),
    fresh: bool,
    rows: &dyn TrainingRows,
    (plan, steps): (&Plan, &StepPlan),
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let (n, check, batch) = (rows.all().count(), rows.check_sample(), steps.batch_size);
    let (model, q, counts) = warm_start((model, q), fresh, rows.start_sample(), (plan, steps), monitor)?;
    monitor.check()?;
    let mut svgp = batch_model(model, q, steps, plan.seed);
    if rows.all().elsewhere().is_some() {
        // No rows but the samples are ever here.
        svgp.make_room(batch.min(check.len()));
    }
    let free =
        if plan.hyper.trains { FreeVector::new(&svgp.model.descriptors()) } else { FreeVector::new(&[]) };
    let one_step = steps.polish && solves_in_one_step(&svgp, plan, steps);
    let closed = rows.in_memory().filter(|_| one_step);
    let few = rows.in_memory().filter(|_| free.is_empty() && steps.all_rows_will_do && n <= ALL_ROWS_WILL_DO);
    let inference = InferenceOptions::of(steps, &svgp.model, plan.seed);
    let (inference, proven) = with_proven_steps(inference, &svgp, rows.in_memory(), !free.is_empty())?;
    let sample = Sweep::of(&check, batch).standing_for(n);
    let before = match (few, closed) {
        // Steps on all rows only ever improve.
        (Some(_), _) => None,
        (None, Some(train)) => with_best_q(svgp.model.clone(), train, plan.beta),
        (None, None) => {
            svgp.set_q(inference.rule.admit_all(svgp.posteriors()));
            let value = full_objective(&mut svgp, sample)?;
            Some((svgp.model.clone(), svgp.posteriors().to_vec(), value))
        }
    };
    let (svgp, mut outcome, taken_back) = match (few, &plan.way) {
        (Some(train), _) => {
            let (svgp, outcome) = solve_fixed(svgp, Sweep::of(&train, batch), plan, steps, monitor)?;
            (svgp, outcome, TakenBack::default())
        }
        (None, Way::Alternating(_)) if !free.is_empty() => {
            train_alternating((svgp, free.clone()), rows, (plan, steps), monitor)?
        }
        _ => {
            let source = rows.batches(inference.batches, inference.seed)?;
            let data = (source, rows.validation());
            train_on_batches(
                (svgp.with_precision(steps.precision), free.clone(), inference),
                data,
                &plan.hyper,
                monitor,
            )?
        }
    };
    monitor.check()?;
    let sampled = svgp.objective().estimator().is_sampled();
    let sampling = sampled.then(|| svgp.estimator_counts());
    outcome.rollbacks += counts.rollbacks;
    let guarantee = proven.map(|proven| proven.after(outcome.iterations));
    let ended = if let Some(train) = closed {
        // The closed form removes what is left of the mini-batches' noise.
        let (model, q) = svgp.into_parts();
        Ended::on_all(with_best_q(model.clone(), train, plan.beta).unwrap_or((model, q, f64::NAN)))
    } else if few.is_some() {
        let (model, q) = svgp.into_parts();
        Ended::on_all((model, q, outcome.value))
    } else {
        polished(svgp, rows, (plan, steps, sample), one_step, &mut outcome)?
    };
    // Held-out rows, if there are any, make the final decision.
    let last = ended.at.2;
    let before = before.filter(|_| rows.validation().is_none() || !last.is_finite());
    let (model, q, estimate) = better_of(ended.at, before, (&free, n), &mut outcome);
    // A start that was kept was not summed over all rows, unless the sample is of all.
    let summed = if check.len() == n { Some(estimate) } else { ended.summed.filter(|_| estimate == last) };
    let value = summed.unwrap_or(estimate);
    if !value.is_finite() {
        return Err(diverged(taken_back));
    }
    let has_elbo = plan.beta == 1.0 && plan.loss == LossKind::Elbo;
    Ok(Trained {
        model,
        q,
        value,
        elbo: summed.filter(|_| has_elbo).map(|value| -value),
        upper: None,
        sampling,
        outcome,
        taken_back,
        estimated_on: summed.is_none().then_some(check.len()),
        nearby: None,
        effects: None,
        guarantee,
    })
}

/// The end of training, with the objective on the sample, and on all rows if it was summed over them.
pub(super) struct Ended {
    pub at: Valued,
    summed: Option<f64>,
}

impl Ended {
    fn on_all(at: Valued) -> Ended {
        Ended { summed: Some(at.2), at }
    }
}

/// Ends mini-batch training: takes the steps on all rows that the plan has, and returns the objective.
pub(super) fn polished(
    mut svgp: VariationalModel,
    rows: &dyn TrainingRows,
    (plan, steps, sample): (&Plan, &StepPlan, Sweep<'_>),
    one_step: bool,
    outcome: &mut Outcome,
) -> Result<Ended> {
    let n = rows.all().count();
    let complete = rows.check_sample().len() == n;
    let all = if complete { sample } else { Sweep::of(rows.all(), steps.batch_size) };
    let most = match complete {
        _ if !steps.polish => 0,
        // Nothing is left of a time limit but the step that makes q fit.
        _ if outcome.reason == StopReason::MaxSeconds => usize::from(complete && one_step),
        true => polish_steps(n),
        // Each step takes a pass, after a first one.
        false => {
            let useful = if one_step { 1 } else { polish_steps(n) };
            let epochs = outcome.iterations / n.div_ceil(steps.batch_size);
            useful.min(passes_left(epochs, outcome.reason).saturating_sub(1))
        }
    };
    let mut summed = None;
    if most > 0 {
        let limits = SolveLimits { steps: most, tolerance: 0.1 * plan.limits.tolerance };
        let (value, counts) = solve_q(&mut svgp, all, steps.guard, limits, None)?;
        outcome.rollbacks += counts.rollbacks;
        summed = Some(value);
    }
    let value = match summed.filter(|_| complete) {
        Some(value) => value,
        None => full_objective(&mut svgp, sample)?,
    };
    let (model, q) = svgp.into_parts();
    Ok(Ended { at: (model, q, value), summed })
}

/// Returns the number of passes over a file that may end a fit of this many whole epochs: none if a limit ended it, and at most as many as
/// there were epochs.
fn passes_left(epochs: usize, reason: StopReason) -> usize {
    if matches!(reason, StopReason::MaxSteps | StopReason::MaxSeconds) { 0 } else { epochs }
}

/// Returns a model of Gaussian noise with the q of the best ELBO, which takes one natural-gradient step with ρ = 1 on all rows; `None` if
/// that cannot be evaluated.
pub(super) fn with_best_q(model: LatentModel, train: Dataset<'_>, beta: f64) -> Option<Valued> {
    let mut bound = CollapsedObjective::new(model, train, CollapsedBound::Elbo { beta });
    let theta = bound.start();
    let value = bound.solve(&theta)?;
    let (model, q) = bound.into_parts();
    Some((model, vec![q], value))
}

/// Prepares a model for the batches of the plan.
pub(super) fn batch_model(
    model: LatentModel,
    q: Vec<Normal>,
    steps: &StepPlan,
    seed: u64,
) -> VariationalModel {
    // The direct form's M³ products outweigh what it saves on small batches (docs/mathematics.md#one-step-the-order-of-products).
    let guard = (steps.batch_size >= 2 * model.layer().dim()).then_some(VariationalModel::DIRECT_GUARD);
    VariationalModel::new(model, q, steps.objective, steps.batch_size)
        .with_direct_guard(guard)
        .with_parameterization(if steps.sites { Parameterization::Sites } else { Parameterization::Whitened })
        .with_seed(seed)
}

/// Returns true if one natural-gradient step with ρ = 1 on all rows gives the optimal q, as for an ELBO with Gaussian noise.
pub(super) fn solves_in_one_step(svgp: &VariationalModel, plan: &Plan, steps: &StepPlan) -> bool {
    svgp.model.likelihood.gaussian_noise().is_some()
        && plan.loss == LossKind::Elbo
        && steps.family == Family::Full
}

/// The difference in nats per row below which two fits are equally good.
const NEGLIGIBLE_LOSS: f64 = 0.01;

/// A model, its posteriors and the objective there.
pub(super) type Valued = (LatentModel, Vec<Normal>, f64);

/// Returns the result of training, or its start if that is better including the priors, so that diverged training does no harm.
fn better_of(
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
            // Training that ends close to an already good start is not a failure.
            let loss = (penalised(&after) - penalised(&before)) / n as f64;
            if loss.is_nan() || loss > NEGLIGIBLE_LOSS {
                outcome.reason = StopReason::NoProgress;
            }
            before
        }
        _ => after,
    }
}

/// Trains q by full-batch steps, with fixed hyper-parameters.
fn solve_fixed(
    mut svgp: VariationalModel,
    all: Sweep<'_>,
    plan: &Plan,
    steps: &StepPlan,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome)> {
    let limits = SolveLimits { steps: plan.limits.epochs, tolerance: plan.limits.tolerance };
    let (value, counts) = solve_q(&mut svgp, all, steps.guard, limits, Some(monitor))?;
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

/// Trains hyper-parameters on all rows, with q optimised at every step.
fn train_alternating(
    (svgp, free): (VariationalModel, FreeVector),
    rows: &dyn TrainingRows,
    (plan, steps): (&Plan, &StepPlan),
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome, TakenBack)> {
    let train = rows.all();
    if train.elsewhere().is_none() {
        whole(rows, "solving for q at every step")?;
    }
    let data = (train, rows.validation());
    let mut tolerance = 1e-2 * plan.limits.tolerance;
    if svgp.posteriors().len() > 1 {
        // Of few data the sum is known well enough long before that.
        tolerance = tolerance.max(KNOWN / train.count() as f64);
    }
    let limits = SolveLimits { steps: ALTERNATING_STEPS, tolerance };
    let mut objective = Alternating::new(svgp, free, data, steps.guard, limits);
    let start = objective.start();
    let mut outcome = minimize(&mut objective, start, train.count() as f64, &plan.hyper, monitor);
    if let Some(error) = objective.error() {
        return Err(error.clone());
    }
    monitor.check()?;
    let (svgp, value, counts) = objective.into_best();
    if !value.is_finite() {
        return Err(failed_start());
    }
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    outcome.evaluations = counts.evaluations;
    Ok((svgp, Outcome { value, ..outcome }, taken_back))
}

/// Trains q and hyper-parameters by mini-batches.
///
/// # Errors
///
/// If a batch cannot be read, or not even the start can be evaluated.
fn train_on_batches<'a>(
    (svgp, free, inference): (VariationalModel, FreeVector, InferenceOptions),
    (source, validation): (Box<dyn BatchSource + 'a>, Option<Dataset<'a>>),
    hyper: &HyperPlan,
    monitor: &mut Monitor<'_>,
) -> Result<(VariationalModel, Outcome, TakenBack)> {
    let n = source.all().count() as f64;
    let mut training = BatchTraining::new(svgp, free, (source, validation), inference);
    let start = training.start();
    let mut outcome = minimize_adam(&mut training, start, n, adam_options(hyper), monitor);
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

/// Creates the summary of training.
pub(super) fn finish(
    trained: Trained,
    rows: &dyn TrainingRows,
    plan: &Plan,
    (trace, seconds): (&[Record], f64),
) -> Fitted {
    let n = rows.all().count();
    let Trained { value, elbo, upper, sampling, estimated_on, guarantee, .. } = trained;
    let Trained { model, q, outcome, taken_back, nearby, effects, .. } = trained;
    let mut posterior = Posterior::new(&model, &q);
    if let (Some(nearby), Some(layer)) = (nearby, model.layer().inducing()) {
        posterior = posterior.with_neighbours(layer.clone(), nearby, &q[0]);
    }
    let mut known = None;
    if let Some((effects, summary)) = effects {
        posterior = posterior.with_effects(effects);
        known = Some(summary);
    }
    let finished = FitFacts {
        model: &model,
        posterior: &posterior,
        train: rows.check_sample(),
        validation: rows.validation(),
        plan,
        outcome: &outcome,
        taken_back,
        trace,
        evidence: elbo.zip(upper),
    };
    let warnings = diagnose(&finished);
    let summary = FitSummary {
        objective: value / n as f64,
        objective_sum: value,
        estimated_on,
        elbo_sum: elbo,
        evidence_upper_bound: upper,
        epochs: trace.len(),
        iterations: outcome.iterations,
        evaluations: outcome.evaluations,
        seconds,
        seconds_per_step: seconds / outcome.evaluations.max(1) as f64,
        stop_reason: outcome.reason,
        rollbacks: outcome.rollbacks,
        sampling,
        guarantee,
        mixed: taken_back.mixed,
        jitter: absolute_jitter(&model),
        warnings,
        trace: trace.to_vec(),
        updates: Vec::new(),
        effects: known,
    };
    Fitted { model: model.to_prior(), q, posterior, summary, search: Search::default() }
}
