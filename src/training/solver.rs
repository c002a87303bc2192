//! Passes objectives of all rows to the solver of the plan.

use super::grouped::search_beyond;
use super::place::Place;
use super::run::Job;
use crate::error::Result;
use crate::hyper::{
    AdamOptions, HyperObjective, LbfgsOptions, Monitor, Outcome, StopReason, minimize_adam, minimize_lbfgs,
};
use crate::options::{HyperOptimizer, HyperPlan};

/// An objective of all rows in which q is solved for.
pub(super) trait Solved: HyperObjective {
    /// Returns the current point with its model, and the best point so far.
    fn place(&self) -> &Place;

    /// Moves to `theta`, solves for q, and returns the objective there: a sum, without priors.
    ///
    /// # Errors
    ///
    /// If the objective has no value there, with the cause.
    fn solve_at(&mut self, theta: &[f64]) -> Result<f64>;
}

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
    monitor.check()?;
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
        HyperOptimizer::Adam => minimize_adam(objective, start, n, adam_options(hyper), monitor),
    }
}

pub(super) fn adam_options(hyper: &HyperPlan) -> AdamOptions {
    AdamOptions { rate: hyper.learning_rate, decay_share: 0.5 }
}
