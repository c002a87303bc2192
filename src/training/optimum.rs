//! The minimisation of objectives in which q is solved for.

use super::grouped::boundaries::search_beyond;
use super::job::Job;
use super::solver::{Solved, minimize};
use crate::error::Result;
use crate::hyper::{Monitor, Outcome, StopReason};

/// Minimises an objective in θ and Z, if they are trained, and leaves it at the best point; the outcome has the value there.
pub(super) fn minimize_solved(
    objective: &mut dyn Solved,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Outcome> {
    let (n, start) = (job.rows.all().count() as f64, objective.place().start());
    let mut outcome = if job.plan.hyper.trains && !start.is_empty() {
        let effects = objective.place().model.effects.clone();
        let mut found = minimize(objective, start, n, &job.plan.hyper, monitor);
        // With validation rows the best of all iterations counts.
        if objective.place().kept().is_none() {
            search_beyond(objective, &effects, &mut found, (n, &job.plan.hyper), monitor);
        }
        found
    } else {
        let value = objective.solve_at(&start)?;
        evaluated_once(start, value, n, monitor)
    };
    monitor.session.check()?;
    if let Some(best) = objective.place().kept() {
        outcome.theta = best;
    }
    outcome.value = objective.solve_at(&outcome.theta)?;
    Ok(outcome)
}

/// Returns the outcome of a fit of `n` data without anything to minimise, whose objective is
/// `value` at its start.
fn evaluated_once(theta: Vec<f64>, value: f64, n: f64, monitor: &mut Monitor<'_>) -> Outcome {
    monitor.record(value / n, None);
    monitor.stop(StopReason::Converged);
    Outcome { theta, value, iterations: 0, evaluations: 1, rollbacks: 0, reason: StopReason::Converged }
}
