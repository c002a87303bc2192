//! Joint training on mini-batches: one gradient moves q by its rule, and θ and Z by the solver.

use super::inference::{Inference, InferenceOptions, InferenceState};
use super::model::VariationalModel;
use super::{Stepped, Stepping};
use crate::checkpoint::{decode, encode};
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::{FreeVector, HyperObjective, Monitor, StopReason, minimize_adam};
use crate::model::{LatentModel, Posterior, Score};
use crate::threads::on_pool;
use crate::training::failure::failed_start;
use crate::training::rows::BatchSource;
use crate::training::run::{Job, TakenBack};
use crate::training::solver::adam_options;
use crate::variational::Normal;

/// A model whose q, θ and Z are trained together.
pub(in crate::training) struct BatchTraining<'a> {
    inference: Inference<'a>,
    free: FreeVector,
    natural: Vec<f64>,
    pub(in crate::training) theta: Vec<f64>,
    /// The point before the last move.
    theta_before: Vec<f64>,
    prior_terms: f64,
    validation: Option<Dataset<'a>>,
    best: Option<(Vec<f64>, Vec<Normal>)>,
    error: Option<Error>,
}

impl<'a> BatchTraining<'a> {
    pub(in crate::training) fn new(
        model: VariationalModel,
        free: FreeVector,
        source: Box<dyn BatchSource + 'a>,
        validation: Option<Dataset<'a>>,
        options: InferenceOptions,
    ) -> Self {
        let natural = model.model.natural();
        BatchTraining {
            theta: free.pack(&natural),
            theta_before: free.pack(&natural),
            natural,
            prior_terms: 0.0,
            inference: Inference::of(model, source, options),
            free,
            validation,
            best: None,
            error: None,
        }
    }

    pub(in crate::training) fn model(&self) -> &LatentModel {
        &self.inference.model().model
    }

    /// Returns the posteriors of the step before the last, averaged if an average was requested.
    pub(in crate::training) fn q(&self) -> Vec<Normal> {
        self.inference.averaged()
    }

    /// Returns the model and q with the best validation score, and the number of q updates that were shrunk or rejected. Without
    /// validation, they are the last ones, averaged if an average was requested.
    pub(in crate::training) fn into_best(mut self) -> (VariationalModel, usize) {
        self.inference.complete_step();
        let averaged = self.inference.averaged();
        let model = &mut self.inference.model;
        match self.best.take() {
            Some((natural, q)) => {
                model.set_natural(&natural);
                model.set_q(q);
            }
            None => model.set_q(averaged),
        }
        let rollbacks = self.inference.memory.rollbacks;
        (self.inference.model, rollbacks)
    }

    /// Completes the previous step and begins the next one at `theta`, on the given batch or the next batch of the rows.
    fn differentiate(&mut self, theta: &[f64], gradient: &mut [f64], batch: Option<Dataset<'_>>) -> f64 {
        if !self.move_to(theta) {
            return f64::NAN;
        }
        let train_theta = !self.free.is_empty();
        let value = match self.inference.evaluate(batch, train_theta) {
            Ok(value) => value,
            Err(error) => {
                self.error = Some(error);
                return f64::NAN;
            }
        };
        self.prior_terms = 0.0;
        if !value.is_finite() {
            // The inference may have taken back its last step.
            let natural = self.inference.model().model.natural();
            if natural != self.natural {
                self.theta.copy_from_slice(&self.theta_before);
                self.natural = natural;
            }
            return f64::NAN;
        }
        if train_theta {
            let flat = self.inference.model.theta_gradient();
            self.prior_terms = self.free.pull_back(&self.natural, flat, gradient);
        }
        value + self.prior_terms
    }

    /// Takes a step of [`HyperObjective::value_and_gradient`] on a batch of the caller.
    pub(in crate::training) fn step_on(
        &mut self,
        batch: Dataset<'_>,
        theta: &[f64],
        gradient: &mut [f64],
    ) -> f64 {
        let work = self.inference.model().batch_work(batch.len());
        on_pool(work, || self.differentiate(theta, gradient, Some(batch)))
    }

    /// Completes the previous step and moves the model to `theta`; if that fails, the model stays.
    fn move_to(&mut self, theta: &[f64]) -> bool {
        if theta == self.theta {
            self.inference.complete_step();
            return true;
        }
        self.free.unpack(theta, &mut self.natural);
        let moved = if self.natural.iter().all(|x| x.is_finite()) {
            self.inference.complete_step_at(&self.natural)
        } else {
            self.inference.complete_step();
            false
        };
        if moved {
            self.theta_before.copy_from_slice(&self.theta);
            self.theta.copy_from_slice(theta);
        } else {
            self.free.unpack(&self.theta, &mut self.natural);
        }
        moved
    }
}

impl HyperObjective for BatchTraining<'_> {
    fn steps_per_epoch(&self) -> usize {
        self.inference.source.per_epoch()
    }

    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let model = self.inference.model();
        on_pool(model.batch_work(model.capacity), || self.differentiate(theta, gradient, None))
    }

    fn prior_terms(&self, _theta: &[f64]) -> f64 {
        self.prior_terms
    }

    fn exhausted(&self) -> bool {
        self.error.is_some()
    }

    fn is_stuck(&self) -> bool {
        self.inference.is_stuck(!self.free.is_empty())
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let validation = self.validation?;
        if !self.move_to(theta) {
            return Some(f64::NAN);
        }
        let posterior = Posterior::new(&self.inference.model().model, self.inference.averaged());
        Some(posterior.score(validation, Score::LogLoss))
    }

    fn keep(&mut self, _theta: &[f64]) {
        if self.validation.is_some() {
            self.best = Some((self.natural.clone(), self.inference.averaged()));
        }
    }

    fn state(&mut self) -> Vec<u8> {
        encode(&(self.inference.state(), &self.best, &self.theta, &self.theta_before))
    }

    fn restore(&mut self, state: &[u8]) -> bool {
        type State = (InferenceState, Option<(Vec<f64>, Vec<Normal>)>, Vec<f64>, Vec<f64>);
        let Some((inference, best, theta, theta_before)) = decode::<State>(state) else { return false };
        let lengths = theta.len() == self.theta.len() && theta_before.len() == self.theta_before.len();
        let suits = lengths && self.inference.restore(inference);
        // The model may be a step behind the point of the solver.
        self.natural = self.inference.model().model.natural();
        (self.best, self.theta, self.theta_before) = (best, theta, theta_before);
        let q = self.inference.model().posteriors();
        suits
            && self
                .best
                .as_ref()
                .is_none_or(|best| best.0.len() == self.natural.len() && Normal::are_like(q, &best.1))
    }
}

/// Trains q and hyper-parameters by mini-batches.
pub(super) fn train(stepping: Stepping, job: &Job<'_>, monitor: &mut Monitor<'_>) -> Result<Stepped> {
    let Stepping { svgp, free, inference, .. } = stepping;
    let source = job.rows.batches(inference.batches, inference.seed)?;
    let n = source.all().count() as f64;
    let mut training = BatchTraining::new(svgp, free, source, job.rows.validation(), inference);
    let start = training.theta.clone();
    let mut outcome = minimize_adam(&mut training, start, n, adam_options(job.plan), monitor);
    if let Some(error) = training.error {
        return Err(error);
    }
    monitor.session.check()?;
    if outcome.value.is_nan() && monitor.records().is_empty() && outcome.reason == StopReason::NoProgress {
        return Err(failed_start());
    }
    let (svgp, q) = training.into_best();
    let taken_back = TakenBack { hyper: outcome.rollbacks, q };
    outcome.rollbacks += q;
    Ok(Stepped { svgp, outcome, taken_back })
}
