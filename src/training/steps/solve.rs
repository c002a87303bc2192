//! Full-batch training of q at fixed hyper-parameters: natural-gradient steps that never raise the
//! objective.

use super::extrapolation::descend_together;
use super::model::VariationalModel;
use super::{Stepped, Stepping};
use crate::error::Result;
use crate::hyper::{Limits, Monitor, Outcome, StopReason};
use crate::training::failure::failed_start;
use crate::training::row_sums::Sweep;
use crate::training::run::{Job, TakenBack};
use crate::variational::{Family, Guard, QUpdate, RuleOptions, Rules};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Evaluation and rollback counts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(in crate::training) struct UpdateCounts {
    pub(crate) evaluations: usize,
    pub(crate) rollbacks: usize,
}

impl UpdateCounts {
    pub(in crate::training) fn add(&mut self, other: UpdateCounts) {
        self.evaluations += other.evaluations;
        self.rollbacks += other.rollbacks;
    }
}

/// The stopping rule of the optimisation of q.
#[derive(Clone, Copy, Debug)]
pub(in crate::training) struct SolveLimits {
    /// The maximum number of steps.
    pub(crate) steps: usize,
    /// The improvement of the objective, in nats per row, below which steps end: with one function
    /// after three smaller improvements in a row, with several functions as soon as a step would
    /// gain less.
    pub(crate) tolerance: f64,
    /// The time after which no further step begins.
    pub(crate) end: Option<Instant>,
}

impl SolveLimits {
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// Returns the objective on all rows, a sum; it is exact for every estimator of the training.
pub(in crate::training) fn full_objective(svgp: &mut VariationalModel, sweep: Sweep<'_>) -> Result<f64> {
    let trained = svgp.objective();
    svgp.objective = trained.without_samples();
    let value = svgp.evaluate_all(sweep, false, None);
    svgp.objective = trained;
    value
}

/// Moves q by natural-gradient steps on all rows. The first step has size 1, which needs no tuning;
/// a step that raises the objective is rolled back and halved. Returns the objective at the end, a
/// sum; NaN if it cannot be evaluated at all.
///
/// With a `monitor` every step is recorded as an epoch; without, the steps are silent.
///
/// # Errors
///
/// If rows cannot be read; q is then that before or after the current step.
pub(in crate::training) fn solve_q(
    svgp: &mut VariationalModel,
    sweep: Sweep<'_>,
    guard: Guard,
    limits: SolveLimits,
    monitor: Option<&mut Monitor<'_>>,
) -> Result<(f64, UpdateCounts)> {
    // Only q moves, so the features of rows that are evaluated at once can be kept.
    svgp.pass.keep_features(sweep.is_one_part());
    let solved = descend(svgp, sweep, guard, limits, monitor);
    svgp.pass.keep_features(false);
    solved
}

/// Records a step with the objective per row that it ended at, and the end of the optimisation if it has converged.
pub(super) fn record_step(monitor: Option<&mut Monitor<'_>>, value: f64, converged: bool) {
    let Some(monitor) = monitor else { return };
    monitor.record(value, None);
    monitor.look_around(None);
    if converged {
        monitor.stop(StopReason::Converged);
    }
}

/// Takes the steps of [`solve_q`].
fn descend(
    svgp: &mut VariationalModel,
    sweep: Sweep<'_>,
    guard: Guard,
    limits: SolveLimits,
    mut monitor: Option<&mut Monitor<'_>>,
) -> Result<(f64, UpdateCounts)> {
    const SMALLEST_STEP: f64 = 1e-4;
    let n = sweep.count();
    let full_q = svgp.q().family() == Family::Full;
    if svgp.posteriors().len() > 1 && full_q && !svgp.objective().has_own_curvature() {
        return descend_together(svgp, sweep, limits, monitor);
    }
    let mut value = svgp.evaluate_all(sweep, false, None)?;
    let mut counts = UpdateCounts { evaluations: 1, rollbacks: 0 };
    let (mut step, mut small) = (1.0, 0);
    let mut rules = Rules::of_all(&RuleOptions { guard, ..RuleOptions::of(QUpdate::Ngd) }, svgp.posteriors());
    for _ in 0..limits.steps {
        let stopped = monitor.as_ref().is_some_and(|monitor| monitor.stopped().is_some());
        if !value.is_finite() || stopped || limits.is_over() {
            break;
        }
        let before = svgp.posteriors().to_vec();
        let info = svgp.update_all(&mut rules, step);
        counts.rollbacks += info.rollbacks;
        if info.step == 0.0 {
            break;
        }
        let next = svgp.evaluate_all(sweep, false, None)?;
        counts.evaluations += 1;
        let gain = (value - next) / n;
        if next.is_finite() && gain >= 0.0 {
            value = next;
            step = (2.0 * info.step).min(1.0);
            small = if gain < limits.tolerance { small + 1 } else { 0 };
        } else {
            svgp.set_q(before);
            rules.restart(svgp.posteriors());
            // The objective has reached its minimum, up to rounding errors.
            let rounded = next.is_finite() && gain > -f64::EPSILON * (value / n).abs().max(1.0) * 64.0;
            if !rounded {
                // Restores the gradient at the earlier point.
                svgp.evaluate_all(sweep, false, None)?;
                counts.evaluations += 1;
                counts.rollbacks += 1;
                step = 0.5 * info.step;
            }
            if rounded || step < SMALLEST_STEP {
                small = 3;
            }
        }
        record_step(monitor.as_deref_mut(), value / n, small >= 3);
        if small >= 3 {
            break;
        }
    }
    Ok((value, counts))
}

/// Trains q by steps on all rows in memory, with fixed hyper-parameters.
pub(super) fn train(stepping: Stepping, job: &Job<'_>, monitor: &mut Monitor<'_>) -> Result<Stepped> {
    let Stepping { mut svgp, .. } = stepping;
    // The monitor ends the steps, and knows why.
    let Limits { epochs, tolerance, .. } = job.plan.limits;
    let limits = SolveLimits { steps: epochs, tolerance, end: None };
    let all = Sweep::of(job.rows.all(), job.plan.batch_size);
    let (value, counts) = solve_q(&mut svgp, all, job.plan.options.steps.q_guard, limits, Some(monitor))?;
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
    Ok(Stepped { svgp, outcome, taken_back: TakenBack::default() })
}
