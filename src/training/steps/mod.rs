//! Training by steps on q: the start, the kind of steps, final steps on all rows, and the better of
//! start and end.

mod alternating;
mod batches;
mod extrapolation;
mod inference;
pub(super) mod model;
pub(super) mod solve;
mod together;

use super::collapsed::CollapsedObjective;
use super::failure::diverged;
use super::row_sums::Sweep;
use super::run::{Job, TakenBack, Trained};
use super::warm_start::warm_start;
use crate::collapsed::Dataset;
use crate::error::Result;
use crate::hyper::{FreeVector, Monitor, Outcome, StopReason};
use crate::model::LatentModel;
use crate::objective::Objective;
use crate::options::{LossKind, Plan, Way};
use crate::variational::{Family, Normal, Parameterization};

pub(super) use alternating::Alternating;
pub(super) use batches::BatchTraining;
pub use inference::{Inference, InferenceOptions};
pub use model::VariationalModel;
pub(super) use solve::{SolveLimits, solve_q};

/// The maximum number of rows for which training at fixed hyper-parameters takes steps on all of them.
const ALL_ROWS_WILL_DO: usize = 20_480;

/// The difference in nats per row below which two fits are equally good.
const NEGLIGIBLE_LOSS: f64 = 0.01;

/// A model with its posteriors, and the objective there, a sum.
pub(super) struct Valued {
    pub model: LatentModel,
    pub q: Vec<Normal>,
    pub value: f64,
}

/// Trains q by gradients, and hyper-parameters with it. The objective is compared before and after: on all rows if they are in memory,
/// otherwise on a sample that did not choose the start.
pub(super) fn train(
    model: LatentModel,
    q: Option<Vec<Normal>>,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Trained> {
    let Job { rows, plan, .. } = *job;
    let (n, check) = (rows.all().count(), rows.check_sample());
    let sample = Sweep::of(&check, plan.batch_size).standing_for(n);
    let (model, q, warm) = warm_start(model, q, job, monitor)?;
    monitor.session.check()?;
    let mut svgp = batch_model(model, q, plan);
    if rows.all().elsewhere().is_some() {
        // Only the rows of the samples are ever in memory.
        svgp.make_room(plan.batch_size.min(check.len()));
    }
    let free = trained_values(&svgp, plan);
    let closed = rows.in_memory().filter(|_| plan.options.polishes() && solves_in_one_step(&svgp, plan));
    let on_all_rows = free.is_empty()
        && plan.options.all_rows_will_do()
        && n <= ALL_ROWS_WILL_DO
        && rows.in_memory().is_some();
    let inference = InferenceOptions::of(plan, &svgp.model);
    let before = match closed {
        // Steps on all rows never raise the objective, and a fit whose time is over takes none.
        _ if on_all_rows || monitor.session.is_late() => None,
        Some(train) => with_best_q(svgp.model.clone(), train, plan.options.beta),
        None => Some(admitted(&mut svgp, &inference, sample)?),
    };
    let stepping = Stepping { svgp, free: free.clone(), inference };
    let Stepped { svgp, mut outcome, taken_back } = stepping.train(job, on_all_rows, monitor)?;
    monitor.session.check()?;
    outcome.rollbacks += warm.rollbacks;
    let sampling = svgp.objective().estimator().is_sampled().then_some(svgp.pass.counts);
    let on_all = |at: Valued| (Some(at.value), at);
    let (ended_on_all, ended) = match closed {
        _ if on_all_rows && closed.is_none() => on_all(valued(svgp, outcome.value)),
        // The closed form removes the remaining noise of the mini-batches.
        Some(train) => {
            let best = with_best_q(svgp.model.clone(), train, plan.options.beta);
            on_all(best.unwrap_or_else(|| valued(svgp, f64::NAN)))
        }
        None => polished(svgp, job, sample, &mut outcome)?,
    };
    // Held-out rows, if there are any, make the final decision.
    let last = ended.value;
    let before = before.filter(|_| rows.validation().is_none() || !last.is_finite());
    let Valued { model, q, value: estimate } = better_of(ended, before, &free, n, &mut outcome);
    // If the start was kept, its objective is that of the sample; it is exact only if the sample has all rows.
    let summed = if check.len() == n { Some(estimate) } else { ended_on_all.filter(|_| estimate == last) };
    let value = summed.unwrap_or(estimate);
    if !value.is_finite() {
        return Err(diverged(taken_back));
    }
    let elbo = summed.filter(|_| plan.options.beta == 1.0 && plan.loss == LossKind::Elbo).map(|value| -value);
    let estimated_on = summed.is_none().then_some(check.len());
    let trained = Trained::at(model, q, value, outcome);
    Ok(Trained { elbo, sampling, taken_back, estimated_on, ..trained })
}

impl Stepping {
    /// Takes the kind of steps that the plan requires.
    fn train(self, job: &Job<'_>, on_all_rows: bool, monitor: &mut Monitor<'_>) -> Result<Stepped> {
        match &job.plan.way {
            _ if on_all_rows => solve::train(self, job, monitor),
            Way::Alternating if !self.free.is_empty() => alternating::train(self, job, monitor),
            Way::Together if job.plan.options.steps.family == Family::Full => {
                together::train(self, job, monitor)
            }
            _ => batches::train(self, job, monitor),
        }
    }
}

/// Moves q to a point from which the rule can start, and returns this model with its objective on a sample.
fn admitted(svgp: &mut VariationalModel, inference: &InferenceOptions, sample: Sweep<'_>) -> Result<Valued> {
    svgp.set_q(inference.rule.admit_all(svgp.posteriors()));
    let value = solve::full_objective(svgp, sample)?;
    Ok(Valued { model: svgp.model.clone(), q: svgp.posteriors().to_vec(), value })
}

/// Returns the number of full-batch steps on q at the end of a fit: at most 20, and at most a few passes over large data.
fn polish_steps(n: usize) -> usize {
    (200_000 / n.max(1)).clamp(3, 20)
}

/// Ends mini-batch training: takes the steps on all rows that the plan allows. Returns the objective on all rows, if it was summed over them,
/// and the end with the objective on the sample.
pub(super) fn polished(
    mut svgp: VariationalModel,
    job: &Job<'_>,
    sample: Sweep<'_>,
    outcome: &mut Outcome,
) -> Result<(Option<f64>, Valued)> {
    let Job { rows, plan, .. } = *job;
    let (n, one_step) = (rows.all().count(), solves_in_one_step(&svgp, plan));
    let complete = rows.check_sample().len() == n;
    let all = if complete { sample } else { Sweep::of(rows.all(), plan.batch_size) };
    let most = match complete {
        _ if !plan.options.polishes() => 0,
        // After a time limit, only the step that makes q fit the hyper-parameters is still allowed.
        _ if outcome.reason == StopReason::MaxSeconds => usize::from(complete && one_step),
        true => polish_steps(n),
        // Each step takes a pass, after a first one.
        false => {
            let useful = if one_step { 1 } else { polish_steps(n) };
            let epochs = outcome.iterations / n.div_ceil(plan.batch_size);
            useful.min(passes_left(epochs, outcome.reason).saturating_sub(1))
        }
    };
    let mut summed = None;
    if most > 0 {
        let limits = SolveLimits { steps: most, tolerance: 0.1 * plan.limits.tolerance, end: None };
        let (value, counts) = solve_q(&mut svgp, all, plan.options.steps.q_guard, limits, None)?;
        outcome.rollbacks += counts.rollbacks;
        summed = Some(value);
    }
    let value = match summed.filter(|_| complete) {
        Some(value) => value,
        None => solve::full_objective(&mut svgp, sample)?,
    };
    Ok((summed, valued(svgp, value)))
}

/// Returns the number of passes over a file that may end a fit of this many whole epochs: none if a limit ended it, and at most as many as
/// there were epochs.
fn passes_left(epochs: usize, reason: StopReason) -> usize {
    if matches!(reason, StopReason::MaxSteps | StopReason::MaxSeconds) { 0 } else { epochs }
}

/// Returns a model of Gaussian noise with the q of the best ELBO, which takes one natural-gradient step with ρ = 1 on all rows; `None` if
/// that cannot be evaluated.
pub(super) fn with_best_q(model: LatentModel, train: Dataset<'_>, beta: f64) -> Option<Valued> {
    let mut bound = CollapsedObjective::new(model, train, Objective::elbo(beta));
    let theta = bound.start();
    let value = bound.solve(&theta)?;
    let (model, q) = bound.into_parts();
    Some(Valued { model, q: vec![q], value })
}

fn valued(svgp: VariationalModel, value: f64) -> Valued {
    let (model, q) = svgp.into_parts();
    Valued { model, q, value }
}

pub(super) fn trained_values(svgp: &VariationalModel, plan: &Plan) -> FreeVector {
    if plan.trains { FreeVector::new(&svgp.model.descriptors()) } else { FreeVector::new(&[]) }
}

pub(super) fn batch_model(model: LatentModel, q: Vec<Normal>, plan: &Plan) -> VariationalModel {
    let (options, batch) = (&plan.options, plan.batch_size);
    // The direct form's M³ products outweigh what it saves on small batches (docs/mathematics.md#one-step-the-order-of-products).
    let guard = (batch >= 2 * model.layer().dim()).then_some(VariationalModel::DIRECT_GUARD);
    let kept = if options.keeps_sites() { Parameterization::Sites } else { Parameterization::Whitened };
    VariationalModel::new(model, q, options.mini_batch_objective(), batch)
        .with_direct_guard(guard)
        .with_parameterization(kept)
        .with_seed(options.seed)
}

/// Returns true if one natural-gradient step with ρ = 1 on all rows gives the optimal q, as for an ELBO with Gaussian noise.
pub(super) fn solves_in_one_step(svgp: &VariationalModel, plan: &Plan) -> bool {
    svgp.model.likelihood.gaussian_noise().is_some()
        && plan.loss == LossKind::Elbo
        && plan.options.steps.family == Family::Full
}

/// Returns the result of training, or its start if that is better including the priors, so that diverged training does no harm.
fn better_of(
    after: Valued,
    before: Option<Valued>,
    free: &FreeVector,
    n: usize,
    outcome: &mut Outcome,
) -> Valued {
    let penalised = |at: &Valued| at.value + free.penalty(&at.model.natural());
    match before {
        Some(before)
            if before.value.is_finite()
                && (!after.value.is_finite() || penalised(&after) > penalised(&before)) =>
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

/// A model that is about to be trained by steps on q.
pub(super) struct Stepping {
    pub svgp: VariationalModel,
    /// The parameters in θ and Z that are trained.
    pub free: FreeVector,
    pub inference: InferenceOptions,
}

/// The model after its steps.
pub(super) struct Stepped {
    pub svgp: VariationalModel,
    pub outcome: Outcome,
    pub taken_back: TakenBack,
}
