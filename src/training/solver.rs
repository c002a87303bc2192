//! Objectives of all rows in which q is solved for, and their minimisation.

use super::failure::failed_start;
use super::grouped::boundaries::search_beyond;
use super::grouped::sites::SiteValues;
use super::place::Place;
use super::run::Job;
use crate::checkpoint::{decode, encode};
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::{
    AdamOptions, HyperObjective, LbfgsOptions, Monitor, Outcome, StopReason, minimize_adam, minimize_lbfgs,
};
use crate::model::{Posterior, Score};
use crate::options::{HyperOptimizer, HyperPlan};

/// An objective of all rows in which q is solved for.
pub(super) trait Solved: HyperObjective {
    /// Returns the current point with its model, and the best point so far.
    fn place(&self) -> &Place;

    /// Returns the current point, to move it.
    fn place_mut(&mut self) -> &mut Place;

    /// Solves for q at the current parameters; returns the objective there (a sum, without priors), or `None` if that failed.
    fn value(&mut self) -> Option<f64>;

    /// Like [`value`](Self::value); leaves the flat natural gradient in the place.
    fn value_with_gradient(&mut self) -> Option<f64>;

    /// Returns the posterior of the last solution, if there is one.
    fn posterior(&self) -> Option<Posterior> {
        None
    }

    /// Returns the held-out rows that score every iteration, so that the best one can be kept.
    fn validation(&self) -> Option<(Dataset<'_>, Score)> {
        None
    }

    /// Returns the sites from which the next solution starts, if there are any.
    fn sites(&self) -> Option<SiteValues> {
        None
    }

    /// Replaces the sites by those of a checkpoint.
    fn set_sites(&mut self, _sites: Option<SiteValues>) {}

    /// Returns the error of a point without a value.
    fn failure(&self) -> Error {
        failed_start()
    }

    /// Moves to `theta`, solves for q, and returns the objective there: a sum, without priors.
    ///
    /// # Errors
    ///
    /// If the objective has no value there, with the cause.
    fn solve_at(&mut self, theta: &[f64]) -> Result<f64> {
        let value = self.place_mut().move_to(theta).and_then(|()| self.value());
        match &self.place().error {
            Some(error) => Err(error.clone()),
            None => value.ok_or_else(|| self.failure()),
        }
    }
}

impl<S: Solved> HyperObjective for S {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let found = self.place_mut().move_to(theta).and_then(|()| self.value_with_gradient());
        found.map_or(f64::NAN, |value| value + self.place().pull_back(gradient))
    }

    fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.place().prior_terms(theta)
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        self.validation()?;
        let solved = self.place_mut().move_to(theta).and_then(|()| self.value());
        let (rows, score) = self.validation()?;
        let posterior = solved.and_then(|_| self.posterior());
        Some(posterior.map_or(f64::NAN, |posterior| posterior.score(rows, score)))
    }

    fn keep(&mut self, theta: &[f64]) {
        self.place_mut().kept = Some(theta.to_vec());
    }

    fn exhausted(&self) -> bool {
        self.place().error.is_some()
    }

    fn state(&mut self) -> Vec<u8> {
        encode(&(&self.place().kept, self.sites()))
    }

    fn restore(&mut self, state: &[u8]) -> bool {
        let Some((kept, sites)) = decode(state) else { return false };
        self.set_sites(sites);
        self.place_mut().kept = kept;
        true
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
        HyperOptimizer::Adam => minimize_adam(objective, start, n, adam_options(hyper), monitor),
    }
}

pub(super) fn adam_options(hyper: &HyperPlan) -> AdamOptions {
    AdamOptions { rate: hyper.learning_rate, decay_share: 0.5 }
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
        if objective.place().kept.is_none() {
            search_beyond(objective, &effects, &mut found, (n, &job.plan.hyper), monitor);
        }
        found
    } else {
        // There is nothing to minimise.
        let (theta, value) = (start.clone(), objective.solve_at(&start)?);
        let reason = StopReason::Converged;
        monitor.record(value / n, None);
        monitor.stop(reason);
        Outcome { theta, value, iterations: 0, evaluations: 1, rollbacks: 0, reason }
    };
    monitor.session.check()?;
    if let Some(best) = &objective.place().kept {
        outcome.theta.clone_from(best);
    }
    outcome.value = objective.solve_at(&outcome.theta)?;
    Ok(outcome)
}
