//! θ, Z and q as one vector, whose objective on all rows L-BFGS minimises.

use super::model::VariationalModel;
use super::{Stepped, Stepping};
use crate::collapsed::Dataset;
use crate::error::Result;
use crate::gradient::Batch;
use crate::hyper::{FreeVector, HyperObjective, Monitor, Outcome};
use crate::model::{Posterior, Score};
use crate::training::failure::failed_start;
use crate::training::rows::whole;
use crate::training::run::{Job, TakenBack};
use crate::training::solver::minimize;
use crate::variational::{Coordinates, Normal};

/// A model as a function of its free parameters, followed by the coordinates of the posterior of every process.
///
/// The best q of a direct loss has no closed form, and steps on q between steps on θ cost more than steps on both.
struct Together<'a> {
    model: VariationalModel,
    free: FreeVector,
    natural: Vec<f64>,
    coordinates: Vec<Coordinates>,
    train: Dataset<'a>,
    validation: Option<Dataset<'a>>,
    /// The point with the best validation score.
    kept: Option<Vec<f64>>,
}

impl<'a> Together<'a> {
    fn new(
        model: VariationalModel,
        free: FreeVector,
        train: Dataset<'a>,
        validation: Option<Dataset<'a>>,
    ) -> Self {
        let (natural, posteriors) = (model.model.natural(), model.posteriors());
        let coordinates = posteriors.iter().map(|q| Coordinates::new(q.dim())).collect();
        Together { natural, coordinates, model, free, train, validation, kept: None }
    }

    /// Returns the vector of the current point.
    fn start(&mut self) -> Vec<f64> {
        let mut start = self.free.pack(&self.natural);
        for (coordinates, q) in self.coordinates.iter_mut().zip(self.model.posteriors()) {
            let from = start.len();
            start.resize(from + Coordinates::count(q.dim()), 0.0);
            coordinates.pack(q, &mut start[from..]);
        }
        start
    }

    /// Moves the model to a point; returns false if it cannot be evaluated there.
    fn move_to(&mut self, point: &[f64]) -> bool {
        let (theta, mut rest) = point.split_at(self.free.len());
        self.free.unpack(theta, &mut self.natural);
        if !(self.natural.iter().all(|x| x.is_finite()) && self.model.set_natural(&self.natural)) {
            return false;
        }
        let mut posteriors: Vec<Normal> = self.model.posteriors().to_vec();
        for (coordinates, q) in self.coordinates.iter_mut().zip(&mut posteriors) {
            let own;
            (own, rest) = rest.split_at(Coordinates::count(q.dim()));
            coordinates.unpack(own, q);
        }
        self.model.set_q(posteriors);
        true
    }
}

impl HyperObjective for Together<'_> {
    fn value_and_gradient(&mut self, point: &[f64], gradient: &mut [f64]) -> f64 {
        if !self.move_to(point) {
            return f64::NAN;
        }
        let Dataset { x, targets } = self.train;
        let value = self.model.evaluate(Batch { x, targets, scale: 1.0 }, !self.free.is_empty());
        if !value.is_finite() {
            return f64::NAN;
        }
        let (of_theta, mut rest) = gradient.split_at_mut(self.free.len());
        let mut penalty = 0.0;
        if !self.free.is_empty() {
            penalty = self.free.pull_back(&self.natural, self.model.theta_gradient(), of_theta);
        }
        let beta = self.model.objective().beta;
        for (process, (coordinates, q)) in
            self.coordinates.iter_mut().zip(self.model.posteriors()).enumerate()
        {
            let own;
            (own, rest) = rest.split_at_mut(Coordinates::count(q.dim()));
            if !coordinates.gradient(&self.model.q_gradient_of(process), q, beta, own) {
                return f64::NAN;
            }
        }
        value + penalty
    }

    fn prior_terms(&self, point: &[f64]) -> f64 {
        self.free.penalty_at(&point[..self.free.len()], &self.natural)
    }

    fn validate(&mut self, point: &[f64]) -> Option<f64> {
        let validation = self.validation?;
        if !self.move_to(point) {
            return Some(f64::NAN);
        }
        Some(Posterior::new(&self.model.model, self.model.posteriors()).score(validation, Score::LogLoss))
    }

    fn keep(&mut self, point: &[f64]) {
        self.kept = Some(point.to_vec());
    }

    fn state(&mut self) -> Vec<u8> {
        crate::checkpoint::encode(&self.kept)
    }

    fn restore(&mut self, state: &[u8]) -> bool {
        let Some(kept) = crate::checkpoint::decode::<Option<Vec<f64>>>(state) else { return false };
        self.kept = kept;
        let length = self.start().len();
        self.kept.as_ref().is_none_or(|kept| kept.len() == length)
    }
}

/// Trains q and hyper-parameters together on all rows, which have to be in memory.
pub(super) fn train(stepping: Stepping, job: &Job<'_>, monitor: &mut Monitor<'_>) -> Result<Stepped> {
    let train = whole(job.rows, "training q and hyper-parameters by L-BFGS")?;
    let Stepping { svgp, free, .. } = stepping;
    let mut objective = Together::new(svgp, free, train, job.rows.validation());
    let start = objective.start();
    let outcome = minimize(&mut objective, start, train.len() as f64, job.plan, monitor);
    monitor.session.check()?;
    let best = objective.kept.take().unwrap_or_else(|| outcome.theta.clone());
    if !objective.move_to(&best) || !outcome.value.is_finite() {
        return Err(failed_start());
    }
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    let outcome = Outcome { theta: Vec::new(), ..outcome };
    Ok(Stepped { svgp: objective.model, outcome, taken_back })
}
