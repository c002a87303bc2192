//! Adam on objectives of all data or of one mini-batch at a time: the loop over steps and epochs.

use super::adam::{Adam, AdamOptions, Pace, Taken};
use super::{HyperObjective, Monitor, Outcome, Reached, StopReason};
use crate::checkpoint::MOST;
use argmin::core::{
    Error as ArgminError, Executor, IterState, KV, Problem, Solver, State as _, TerminationReason,
};
use serde::{Deserialize, Serialize};

/// The mean of an objective over the steps of an epoch, while it lasts.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct EpochMean {
    sum: f64,
    prior_terms: f64,
    count: usize,
}

impl EpochMean {
    /// Adds the value of a step, a sum over the data, and the part of it that comes from priors.
    pub fn add(&mut self, value: f64, prior_terms: f64) {
        self.sum += value;
        self.prior_terms += prior_terms;
        self.count += 1;
    }

    /// Returns true if no step of the epoch had a value.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the means per row since the last call (zero without steps), and begins the next epoch.
    pub fn take(&mut self, data_count: f64) -> Reached {
        let EpochMean { sum, prior_terms, count } = std::mem::take(self);
        let mean = |sum: f64| sum / count.max(1) as f64 / data_count;
        Reached { value: mean(sum), prior_terms: mean(prior_terms) }
    }
}

/// A minimisation by Adam, between two steps.
struct Run<'a, 'm> {
    adam: Adam,
    mean: EpochMean,
    objective: &'a mut dyn HyperObjective,
    monitor: &'a mut Monitor<'m>,
    data_count: f64,
    steps_per_epoch: usize,
    gradient: Vec<f64>,
}

impl Run<'_, '_> {
    /// Takes a step, and ends the epoch that it completes.
    fn step(&mut self) {
        self.gradient.fill(0.0);
        let value = self.objective.value_and_gradient(self.adam.theta(), &mut self.gradient);
        let prior_terms = self.objective.prior_terms(self.adam.theta());
        if self.objective.exhausted() {
            // A state within a step is not saved; the checkpoint has the state of an earlier step.
            self.monitor.stop(StopReason::Interrupted);
            return;
        }
        if self.objective.is_stuck() {
            self.monitor.stop(StopReason::NoProgress);
            if !self.mean.is_empty() {
                self.end_epoch();
            }
            return;
        }
        match self.adam.take(value, &self.gradient, self.monitor.pace(self.steps_per_epoch)) {
            Taken::Descended => self.mean.add(value, prior_terms),
            Taken::RolledBack => {}
            Taken::Stuck => self.monitor.stop(StopReason::NoProgress),
        }
        if self.adam.steps().is_multiple_of(self.steps_per_epoch) {
            self.end_epoch();
        }
    }

    fn end_epoch(&mut self) {
        let validation = self.objective.validate(self.adam.theta());
        if self.monitor.record(self.mean.take(self.data_count), validation) {
            self.objective.keep(self.adam.theta());
        }
    }

    /// Checks if the minimisation ends here, and saves the state if one is due.
    fn look_around(&mut self) {
        self.monitor.look_around(Some(self.adam.steps()));
        let limited = matches!(self.monitor.stopped(), Some(StopReason::MaxSteps | StopReason::MaxSeconds));
        if limited && !self.mean.is_empty() {
            // An unfinished epoch counts as one.
            self.end_epoch();
        }
        let Run { adam, mean, objective, monitor, .. } = self;
        if !objective.exhausted() {
            monitor.save_if_due(|| ((&*adam, &*mean), objective.state()));
        }
    }
}

/// The state that argmin keeps of a minimisation: [`Run`] has the point and the limits.
type Iterate = IterState<(), (), (), (), (), f64>;

impl Solver<(), Iterate> for &mut Run<'_, '_> {
    fn name(&self) -> &str {
        "Adam"
    }

    fn next_iter(
        &mut self,
        _: &mut Problem<()>,
        state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        if self.monitor.stopped().is_none() {
            self.step();
            self.look_around();
        }
        let ended = self.monitor.stopped().is_some();
        Ok((if ended { state.terminate_with(TerminationReason::Interrupt) } else { state }, None))
    }
}

impl Monitor<'_> {
    /// Returns the inputs of the learning-rate schedule of the next step.
    pub(crate) fn pace(&self, steps_per_epoch: usize) -> Pace {
        let total = self.limits.epochs.saturating_mul(steps_per_epoch);
        Pace { total_steps: total.min(self.limits.steps.unwrap_or(total)), plateaus: self.plateaus() }
    }
}

/// Minimises an objective from `start`; `data_count` converts its values to per-row values.
///
/// The point of the outcome is the last one; the objective itself keeps the best one by validation.
#[doc(hidden)]
pub fn minimize_adam(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    data_count: f64,
    options: AdamOptions,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    let steps_per_epoch = objective.steps_per_epoch().max(1);
    let (n, gradient) = (start.len(), vec![0.0; start.len()]);
    let (mut adam, mut mean) = (Adam::new(start, options), EpochMean::default());
    monitor.begin_stage(|(found, part): (Adam, EpochMean), rest| {
        let suits = found.suits(n, options) && part.count <= MOST && objective.restore(rest);
        if suits {
            (adam, mean) = (found, part);
        }
        suits
    });
    let mut run = Run { adam, mean, objective, monitor, data_count, steps_per_epoch, gradient };
    run.look_around();
    // No step fails in argmin's sense.
    let _ = Executor::new((), &mut run).ctrlc(false).run();
    let Run { adam, mean, objective, monitor, .. } = run;
    monitor.end_stage(|| ((&adam, &mean), objective.state()));
    Outcome {
        value: monitor.records().last().map_or(f64::NAN, |r| r.objective * data_count),
        iterations: adam.steps(),
        evaluations: adam.steps(),
        rollbacks: adam.rollbacks,
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
        theta: adam.theta,
    }
}
