//! Passes objectives of all rows to the solver of the plan.

use super::place::Place;
use crate::error::Result;
use crate::hyper::{
    AdamOptions, HyperObjective, LbfgsOptions, Monitor, Outcome, minimize_adam, minimize_lbfgs,
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
