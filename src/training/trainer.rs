//! Mini-batch training one step at a time, in a loop of the caller: steps, epochs, state, and a model in the end.

use super::arrays::Origin;
use super::check::{check_alike, check_data};
use super::fit::Prepared;
use super::row_sums::Sweep;
use super::rows::{MemoryBatches, RowBuffer, TrainingData};
use super::run::{Job, TakenBack, Trained, finish, ready};
use super::solver::adam_options;
use super::start::initial_model;
use super::steps::{
    BatchTraining, InferenceOptions, Valued, batch_model, polished, solves_in_one_step, trained_values,
    with_best_q,
};
use super::warm_start::warm_start;
use crate::checkpoint::{decode, encode};
use crate::collapsed::Dataset;
use crate::data::Scaling;
use crate::error::{Error, Result};
use crate::hyper::{
    Adam, EpochMean, Event, HyperObjective, Outcome, Pace, Record, Session, StopReason, Taken,
};
use crate::likelihood::ObservationModel;
use crate::model::{Hyperparameter, Model, Posterior, Score};
use crate::objective::Targets;
use crate::options::{FitOptions, LossKind, Plan, Way};
use crate::rows::Rows;
use std::sync::Arc;
use std::time::Instant;

/// A model in training on rows that it owns.
/// [`Fit::trainer`](super::Fit::trainer) creates a trainer, after a warm start.
///
/// A step moves q by its rule, and hyper-parameters and inducing inputs by Adam, along one gradient
/// of a mini-batch. The caller decides when to stop. The learning rate is constant, unless the
/// options set the number of epochs or steps.
///
/// ```
/// use faer::Mat;
/// use sparsegp::options::{FitOptions, ObjectiveKind};
/// use sparsegp::training::Fit;
///
/// let x = Mat::from_fn(200, 1, |i, _| i as f64 / 20.0);
/// let y: Vec<f64> = (0..200).map(|i| (i as f64 / 20.0).sin()).collect();
/// let options = FitOptions { objective: ObjectiveKind::DlmLog, inducing: Some(20), ..FitOptions::default() };
/// let mut trainer = Fit::of(options).trainer(x.as_ref(), &y)?;
/// for _ in 0..5 {
///     trainer.epoch()?;
/// }
/// // The state as bytes; a trainer with the same options and data continues from it bit for bit.
/// let state = trainer.state();
/// trainer.step(x.subrows(0, 50), &y[..50])?;
/// trainer.restore(&state)?;
/// let model = trainer.finish()?;
/// assert!(model.predict(x.as_ref(), &[])?.report(&y).rmse.is_some_and(|rmse| rmse < 0.1));
/// # Ok::<(), sparsegp::Error>(())
/// ```
pub struct Trainer {
    training: BatchTraining<'static>,
    adam: Adam,
    gradient: Vec<f64>,
    mean: EpochMean,
    trace: Vec<Record>,
    /// The total number of steps, for a decaying learning rate.
    total_steps: Option<usize>,
    started: Instant,
    train: Arc<RowBuffer>,
    validation: Option<RowBuffer>,
    likelihood: ObservationModel,
    scaling: Scaling,
    options: FitOptions,
    plan: Plan,
}

impl Trainer {
    pub(super) fn new(prepared: Prepared) -> Result<Trainer> {
        let Prepared { origin, options, scaling, train, validation } = prepared;
        let n = train.y.len();
        let options = if options.has_own_q() { options.by_batches() } else { options };
        let plan = Plan::new(&options, origin.likelihood(), n)?;
        if !matches!(plan.way, Way::Batches) {
            return Err(Error::usage(
                "a trainer takes steps on mini-batches, but this objective or mode does not use mini-batches",
            )
            .hint("use the objectives elbo or dlm-log, with hyper-parameters joint, dual or fixed"));
        }
        let rows = TrainingData::of_buffers(&train, validation.as_ref());
        let (likelihood, fresh) = (origin.likelihood().clone(), matches!(origin, Origin::Prototype(_)));
        let model = match origin {
            Origin::Start(start) => start.model,
            Origin::Prototype(prototype) => initial_model(rows.train, &plan, &prototype)?,
        };
        let model = ready(model, &plan, rows.train)?;
        let model = if plan.sums_effects() { model.with_summed_effects() } else { model };
        let job = Job { rows: &rows, plan: &plan, fresh };
        let mut ignore = |_: &Event| {};
        let mut session = Session::new(&mut ignore);
        let mut monitor = session.monitor(plan.limits);
        let (model, q, _) = warm_start(model, None, &job, &mut monitor)?;
        let mut svgp = batch_model(model, q, &plan);
        let free = trained_values(&svgp, &plan);
        let inference = InferenceOptions::of(&plan, &svgp.model);
        svgp.set_q(inference.rule.admit_all(svgp.posteriors()));
        let source = MemoryBatches::new(Arc::clone(&train), inference.batches, inference.seed);
        let training = BatchTraining::new(svgp, free, Box::new(source), None, inference);
        let start = training.theta.clone();
        let per_epoch = training.steps_per_epoch();
        let epochs = options.epochs.map(|epochs| epochs.saturating_mul(per_epoch));
        Ok(Trainer {
            gradient: vec![0.0; start.len()],
            adam: Adam::new(start, adam_options(&plan)),
            mean: EpochMean::default(),
            trace: Vec::new(),
            total_steps: [epochs, options.max_steps].into_iter().flatten().min(),
            started: Instant::now(),
            training,
            train,
            validation,
            likelihood,
            scaling,
            options,
            plan,
        })
    }

    /// Takes a step on a batch of rows in the user's units: inputs `b × D`, one row per datum, and targets, or [`Targets`] with exposures
    /// and weights. The batch represents all rows of the trainer, and its rows need not be among them.
    ///
    /// Returns the objective per row, estimated on the batch before the step; it is not finite if it could not be evaluated and the step
    /// was rolled back.
    ///
    /// # Errors
    ///
    /// Data errors for arrays that do not match, and for rows without the exposures or weights that the rows of the trainer have; fit errors
    /// if no further step is possible.
    pub fn step<'x, 't>(&mut self, x: impl Into<Rows<'x>>, targets: impl Into<Targets<'t>>) -> Result<f64> {
        let x = x.into();
        self.step_on(RowBuffer::of(Dataset { x: x.as_ref(), targets: targets.into() }))
    }

    fn step_on(&mut self, mut batch: RowBuffer) -> Result<f64> {
        check_data(&TrainingData::of(batch.data()), Some(self.scaling.dims()), &self.likelihood)?;
        check_alike("batch", batch.data().targets, self.train.data().targets)?;
        batch.scale(&self.scaling);
        self.take(|training, theta, gradient| training.step_on(batch.data(), theta, gradient))
    }

    /// Takes the steps of one epoch on the trainer's own rows; returns the mean of their objectives per row.
    ///
    /// # Errors
    ///
    /// Fit errors if no further step is possible.
    pub fn epoch(&mut self) -> Result<Record> {
        for _ in 0..self.training.steps_per_epoch() {
            self.take(|training, theta, gradient| training.value_and_gradient(theta, gradient))?;
        }
        let validation_nll = self.validate();
        let (epoch, seconds) = (self.trace.len() + 1, self.started.elapsed().as_secs_f64());
        let reached = self.mean.take(self.train.y.len() as f64);
        let record = Record::of(epoch, seconds, reached, validation_nll);
        self.trace.push(record);
        Ok(record)
    }

    /// Returns the number of steps taken.
    pub fn steps(&self) -> usize {
        self.adam.steps()
    }

    /// Returns one record per epoch.
    pub fn trace(&self) -> &[Record] {
        &self.trace
    }

    /// Returns the hyper-parameters as of the step before the last.
    pub fn hyperparameters(&self) -> Vec<Hyperparameter> {
        self.training.model().hyperparameters(&self.scaling, None)
    }

    /// Serialises everything that determines the further training.
    pub fn state(&mut self) -> Vec<u8> {
        encode(&(&self.adam, &self.mean, &self.trace, self.training.state()))
    }

    /// Continues from the state of a trainer with the same options and data, bit for bit.
    ///
    /// # Errors
    ///
    /// A data error if the bytes are not such a state; the trainer is unusable then.
    pub fn restore(&mut self, state: &[u8]) -> Result<()> {
        let (n, options) = (self.adam.theta().len(), self.adam.options);
        let found = decode::<(Adam, EpochMean, Vec<Record>, Vec<u8>)>(state)
            .filter(|(adam, .., training)| adam.suits(n, options) && self.training.restore(training));
        let Some((adam, mean, trace, _)) = found else {
            return Err(Error::data(
                "the state is damaged, or comes from a trainer with other options or data",
            ));
        };
        (self.adam, self.mean, self.trace) = (adam, mean, trace);
        Ok(())
    }

    /// Ends training, and applies the final steps on q that the options require, on all rows unless polishing is off.
    ///
    /// # Errors
    ///
    /// A fit error if the objective is not finite at the end.
    pub fn finish(self) -> Result<Model> {
        let Trainer { training, adam, train, validation, plan, options, scaling, trace, started, .. } = self;
        let mut outcome = Outcome {
            theta: Vec::new(),
            value: f64::NAN,
            iterations: adam.steps(),
            evaluations: adam.steps(),
            rollbacks: adam.rollbacks,
            reason: StopReason::MaxSteps,
        };
        let (svgp, q) = training.into_best();
        let taken_back = TakenBack { hyper: adam.rollbacks, q };
        let sampled = svgp.objective().estimator().is_sampled();
        let sampling = sampled.then_some(svgp.pass.counts);
        let rows = TrainingData::of_buffers(&train, validation.as_ref());
        let job = Job { rows: &rows, plan: &plan, fresh: false };
        let one_step = plan.options.polishes() && solves_in_one_step(&svgp, &plan);
        let closed =
            if one_step { with_best_q(svgp.model.clone(), rows.train, plan.options.beta) } else { None };
        let Valued { model, q, value } = match closed {
            Some(best) => best,
            None => polished(svgp, &job, Sweep::of(&rows.train, plan.batch_size), &mut outcome)?.1,
        };
        if !value.is_finite() {
            return Err(Error::fit("training ended where the objective is not finite")
                .hint("try a smaller learning rate, or go back to an earlier state"));
        }
        outcome.value = value;
        let has_elbo = plan.options.beta == 1.0 && plan.loss == LossKind::Elbo;
        let elbo = has_elbo.then_some(-value);
        let trained = Trained { elbo, sampling, taken_back, ..Trained::at(model, q, value, outcome) };
        let n = rows.train.len();
        let fitted = finish(trained, &job, &trace, started.elapsed().as_secs_f64());
        Ok(fitted.into_model(scaling, &options.decided_for(n), n))
    }

    /// Takes a step with a function that evaluates a batch.
    fn take(
        &mut self,
        evaluate: impl FnOnce(&mut BatchTraining<'static>, &[f64], &mut [f64]) -> f64,
    ) -> Result<f64> {
        self.gradient.fill(0.0);
        let value = evaluate(&mut self.training, self.adam.theta(), &mut self.gradient);
        let prior_terms = self.training.prior_terms(self.adam.theta());
        // Without a total number of steps the learning rate is constant.
        let total_steps = self.total_steps.unwrap_or(usize::MAX);
        match self.adam.take(value, &self.gradient, Pace { total_steps, plateaus: 0 }) {
            Taken::Descended => self.mean.add(value, prior_terms),
            Taken::RolledBack => {}
            Taken::Stuck => {
                return Err(Error::fit("no step on the hyper-parameters has a finite objective")
                    .hint("try a smaller learning rate, or go back to an earlier state"));
            }
        }
        Ok(value / self.train.y.len() as f64)
    }

    /// Returns the current validation score, if there are validation rows.
    fn validate(&mut self) -> Option<f64> {
        let validation = self.validation.as_ref()?.data();
        let posterior = Posterior::new(self.training.model(), self.training.q());
        Some(posterior.score(validation, Score::of(self.plan.loss)))
    }
}
