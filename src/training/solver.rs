//! Objectives of all rows in which q is solved for, and their minimisation.

use super::failure::failed_start;
use super::grouped::boundaries::search_beyond;
use super::grouped::sites::SiteValues;
use super::run::Job;
use crate::checkpoint::{decode, encode};
use crate::collapsed::Dataset;
use crate::effects::Effects;
use crate::error::{Error, Result};
use crate::hyper::{
    AdamOptions, FreeVector, HyperObjective, LbfgsOptions, Monitor, Outcome, StopReason, minimize_adam,
    minimize_lbfgs,
};
use crate::model::{LatentModel, Posterior, Score};
use crate::options::{HyperOptimizer, Plan};

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

    /// Replaces the sites by those of a checkpoint; returns false if they do not suit.
    fn set_sites(&mut self, sites: Option<SiteValues>) -> bool {
        sites.is_none()
    }

    /// Returns the error of a point without a value.
    fn failure(&self) -> Error {
        failed_start()
    }

    /// Moves to `theta`, solves for q, and returns the objective there: a sum, without priors.
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
        self.set_sites(sites) && self.place_mut().restore(kept)
    }
}

/// Minimises an objective of all rows with the requested solver.
pub(super) fn minimize(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    n: f64,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    match plan.solver {
        HyperOptimizer::Lbfgs => minimize_lbfgs(objective, start, n, LbfgsOptions::default(), monitor),
        HyperOptimizer::Adam => minimize_adam(objective, start, n, adam_options(plan), monitor),
    }
}

pub(super) fn adam_options(plan: &Plan) -> AdamOptions {
    AdamOptions { rate: plan.options.learning_rate, decay_share: 0.5 }
}

/// Minimises an objective in θ and Z, if they are trained, and leaves it at the best point; the outcome has the value there.
pub(super) fn minimize_solved(
    objective: &mut dyn Solved,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Outcome> {
    let (n, start) = (job.rows.all().count() as f64, objective.place().start());
    let mut outcome = if job.plan.trains && !start.is_empty() {
        let effects = objective.place().model.effects.clone();
        let mut found = minimize(objective, start, n, job.plan, monitor);
        // With validation rows the best of all iterations counts.
        if objective.place().kept.is_none() {
            search_beyond(objective, &effects, &mut found, (n, job.plan), monitor);
        }
        found
    } else {
        let value = objective.solve_at(&start)?;
        monitor.record(value / n, None);
        monitor.stop(StopReason::Converged);
        Outcome::at(start, value)
    };
    monitor.session.check()?;
    if let Some(best) = &objective.place().kept {
        outcome.theta.clone_from(best);
    }
    outcome.value = objective.solve_at(&outcome.theta)?;
    Ok(outcome)
}

/// A model with its current point in the space of its free parameters.
pub(super) struct Place {
    pub model: LatentModel,
    free: FreeVector,
    natural: Vec<f64>,
    /// The point with the best validation score.
    pub kept: Option<Vec<f64>>,
    /// The flat gradient in natural units that the last evaluation left.
    pub flat: Vec<f64>,
    /// The error of sums over remote rows, if there was one; after an error the objective has no value.
    pub error: Option<Error>,
}

impl Place {
    pub fn new(model: LatentModel) -> Self {
        let (free, natural) = (FreeVector::new(&model.descriptors()), model.natural());
        Place { model, free, natural, kept: None, flat: Vec::new(), error: None }
    }

    /// Returns the free, unconstrained vector of the current parameters.
    pub fn start(&self) -> Vec<f64> {
        self.free.pack(&self.natural)
    }

    /// Returns the free vector of parameters in natural units.
    pub fn pack(&self, natural: &[f64]) -> Vec<f64> {
        self.free.pack(natural)
    }

    /// Returns the indices, in the free vector, of the values that users can name: all except
    /// inducing inputs. If there are more than `most` values, those of kernels and means are left
    /// out too.
    pub fn named(&self, most: usize) -> Vec<usize> {
        let (descriptors, first) = (self.model.descriptors(), self.model.layer_values());
        let all = || self.free.indices().enumerate().filter(|(_, index)| descriptors[*index].is_named());
        let kept = all().count() > most;
        all().filter(|(_, index)| !kept || *index >= first).map(|(place, _)| place).collect()
    }

    /// Returns the index, in the free vector, of the natural value with this index, if it is free.
    pub fn free_place(&self, index: usize) -> Option<usize> {
        self.free.indices().position(|free| free == index)
    }

    /// Returns the natural values at `theta`.
    pub fn natural_at(&self, theta: &[f64]) -> Vec<f64> {
        let mut natural = self.natural.clone();
        self.free.unpack(theta, &mut natural);
        natural
    }

    /// Returns the grouped effects at `theta`.
    pub fn effects_at(&self, theta: &[f64]) -> Effects {
        let (mut likelihood, mut effects) = (self.model.likelihood.clone(), self.model.effects.clone());
        self.model.read_components(&self.natural_at(theta), &mut likelihood, &mut effects);
        effects
    }

    /// Returns `theta` with the values of other factors of grouped effects.
    pub fn with_effects(&self, theta: &[f64], effects: &Effects) -> Vec<f64> {
        let (mut natural, mut values) = (self.natural_at(theta), Vec::new());
        effects.for_each_parameter(&mut |p| values.extend_from_slice(&p.values));
        let first = natural.len() - values.len();
        natural[first..].copy_from_slice(&values);
        self.free.pack(&natural)
    }

    /// Moves to `theta`; returns `None` if the model cannot be evaluated there.
    pub(crate) fn move_to(&mut self, theta: &[f64]) -> Option<()> {
        self.free.unpack(theta, &mut self.natural);
        if !self.natural.iter().all(|x| x.is_finite()) {
            return None;
        }
        self.model.set_natural(&self.natural).ok()
    }

    /// Converts the flat gradient to the free vector, and adds the gradient of the priors; returns their penalty.
    pub fn pull_back(&self, gradient: &mut [f64]) -> f64 {
        self.free.pull_back(&self.natural, &self.flat, gradient)
    }

    /// Returns the penalty of the priors at `theta`.
    pub fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.free.penalty_at(theta, &self.natural)
    }

    /// Stores the best point of a checkpoint, if there is one; returns false if it does not suit the model.
    pub fn restore(&mut self, kept: Option<Vec<f64>>) -> bool {
        self.kept = kept;
        self.kept.as_ref().is_none_or(|kept| kept.len() == self.free.len())
    }
}
