//! Training of q alone, by steps on all rows.

use super::solve::{SolveLimits, solve_q};
use super::{Stepped, Stepping};
use crate::error::Result;
use crate::hyper::{Limits, Monitor, Outcome, StopReason};
use crate::training::failure::failed_start;
use crate::training::row_sums::Sweep;
use crate::training::run::{Job, TakenBack};

/// Trains q by steps on all rows in memory, with fixed hyper-parameters.
pub(super) fn train(stepping: Stepping<'_>, job: &Job<'_>, monitor: &mut Monitor<'_>) -> Result<Stepped> {
    let Stepping { mut svgp, steps, .. } = stepping;
    // The monitor ends the steps, and knows why.
    let Limits { epochs, tolerance, .. } = job.plan.limits;
    let limits = SolveLimits { steps: epochs, tolerance, end: None };
    let all = Sweep::of(job.rows.all(), steps.batch_size);
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
    Ok(Stepped { svgp, outcome, taken_back: TakenBack::default() })
}
