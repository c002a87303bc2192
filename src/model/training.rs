//! Joint training of an SVGP on mini-batches: one gradient moves q by its rule and θ, Z by the solver; no solver here.

use super::fit::TrainingData;
use super::options::FitOptions;
use super::posterior::{Posterior, Score};
use super::rows::Rows;
use super::variational::VariationalModel;
use crate::collapsed::Dataset;
use crate::data::split::Batches;
use crate::gradient::Batch;
use crate::hyper::{FreeVector, StochasticObjective};
use crate::variational::{Normal, Schedule, UpdateRule};

/// An SVGP with its data, its q update and the batches it draws.
pub(super) struct BatchTraining<'a> {
    svgp: VariationalModel,
    rule: Box<dyn UpdateRule>,
    schedule: Schedule,
    free: FreeVector,
    natural: Vec<f64>,
    theta: Vec<f64>,
    train: Dataset<'a>,
    validation: Option<Dataset<'a>>,
    batches: Batches,
    order: Vec<usize>,
    ends: Vec<usize>,
    epoch: u64,
    in_epoch: usize,
    steps: usize,
    drawn: Rows,
    q_rollbacks: usize,
    /// The q of the start of the epoch, to go back to when a batch cannot be evaluated, and what q's steps were cut by then.
    safe: Normal,
    shrink: f64,
    best: Option<(Vec<f64>, Normal)>,
}

impl<'a> BatchTraining<'a> {
    pub(super) fn new(
        svgp: VariationalModel,
        rule: Box<dyn UpdateRule>,
        free: FreeVector,
        data: TrainingData<'a>,
        options: &FitOptions,
    ) -> Self {
        let n = data.train.len();
        let batches = Batches::new(n, options.batch_size.min(n), options.seed);
        let (natural, largest) = (svgp.model.natural(), batches.largest());
        BatchTraining {
            theta: free.pack(&natural),
            safe: svgp.q().clone(),
            shrink: 1.0,
            natural,
            svgp,
            rule,
            schedule: options.q_schedule(),
            free,
            train: data.train,
            validation: data.validation,
            batches,
            order: Vec::with_capacity(n),
            ends: Vec::new(),
            epoch: 0,
            in_epoch: 0,
            steps: 0,
            drawn: Rows::new(data.train, largest),
            q_rollbacks: 0,
            best: None,
        }
    }

    /// The free vector to start from.
    pub(super) fn start(&self) -> Vec<f64> {
        self.theta.clone()
    }

    /// How often the q update had to be shrunk or rejected.
    pub(super) fn q_rollbacks(&self) -> usize {
        self.q_rollbacks
    }

    /// The model and q with the best validation score, or the last ones without validation.
    pub(super) fn into_best(mut self) -> VariationalModel {
        if let Some((natural, q)) = self.best.take() {
            self.svgp.set_natural(&natural);
            self.svgp.set_q(q);
        }
        self.svgp
    }

    /// Keeps the q that the batch was evaluated at, as far as it is known to be good.
    fn remember(&mut self) {
        if self.svgp.q().kl().is_finite() {
            self.safe = self.svgp.q().clone();
        }
    }

    /// Copies the next batch out of the data.
    fn draw(&mut self) {
        if self.in_epoch == self.ends.len() {
            self.order.clear();
            self.ends.clear();
            for batch in self.batches.epoch(self.epoch) {
                self.order.extend_from_slice(batch);
                self.ends.push(self.order.len());
            }
            self.epoch += 1;
            self.in_epoch = 0;
        }
        let from = if self.in_epoch == 0 { 0 } else { self.ends[self.in_epoch - 1] };
        self.drawn.take(self.train, &self.order[from..self.ends[self.in_epoch]]);
        self.in_epoch += 1;
    }

    /// Moves the model to `theta`; on failure it stays where it was.
    fn move_to(&mut self, theta: &[f64]) -> bool {
        if theta == self.theta {
            return true;
        }
        self.free.unpack(theta, &mut self.natural);
        let moved = self.natural.iter().all(|x| x.is_finite()) && self.svgp.set_natural(&self.natural);
        if moved {
            self.theta.copy_from_slice(theta);
        } else {
            self.free.unpack(&self.theta, &mut self.natural);
        }
        moved
    }
}

impl StochasticObjective for BatchTraining<'_> {
    fn steps_per_epoch(&self) -> usize {
        self.batches.per_epoch()
    }

    fn step(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        if !self.move_to(theta) {
            return f64::NAN;
        }
        self.draw();
        let train_theta = !self.free.is_empty();
        let part = self.drawn.data();
        let scale = self.train.len() as f64 / part.len() as f64;
        let batch = Batch { x: part.x, targets: part.targets, scale };
        let step = self.shrink * self.schedule.at(self.steps);
        let (value, info) = self.svgp.step(batch, train_theta, self.rule.as_mut(), step);
        self.q_rollbacks += info.rollbacks;
        self.steps += 1;
        if !value.is_finite() {
            self.svgp.set_q(self.safe.clone());
            self.rule.restart(self.svgp.q());
            self.shrink *= 0.5;
            return f64::NAN;
        }
        if self.in_epoch == 1 {
            // The value was that of the q before the step, so it is one epoch old at most when it is needed.
            self.remember();
        }
        let mut penalty = 0.0;
        if train_theta {
            let flat = self.svgp.theta_gradient();
            penalty = self.free.pull_back(&self.natural, flat, gradient);
        }
        value + penalty
    }

    fn end_epoch(&mut self, theta: &[f64]) -> Option<f64> {
        let validation = self.validation?;
        if !self.move_to(theta) {
            return Some(f64::NAN);
        }
        let posterior = Posterior::new(&self.svgp.model, self.svgp.q());
        Some(posterior.score(validation, Score::LogLoss))
    }

    fn keep(&mut self, _theta: &[f64]) {
        if self.validation.is_some() {
            self.best = Some((self.natural.clone(), self.svgp.q().clone()));
        }
    }
}
