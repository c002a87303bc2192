//! Adam (Kingma & Ba 2015) as an argmin solver for objectives whose value and gradient come from one mini-batch.

use super::trace::{Epochs, Iterate, Observer};
use super::{HyperObjective, Monitor, Outcome, StopReason};
use crate::checkpoint::{Archive, MOST};
use crate::moments::Moments;
use argmin::core::observers::ObserverMode;
use argmin::core::{
    Error as ArgminError, Executor, Gradient, KV, Problem, Solver, TerminationReason, TerminationStatus,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;

/// Settings of Adam.
#[derive(Clone, Copy, Debug)]
pub struct AdamOptions {
    /// The learning rate.
    pub rate: f64,
    /// The share of the epoch limit over which, at the end, the rate falls linearly to a hundredth; 0 for never.
    pub decay_share: f64,
}

/// An objective seen one mini-batch at a time; it may carry state of its own, such as q, from step to step.
pub trait StochasticObjective {
    /// Steps per epoch.
    fn steps_per_epoch(&self) -> usize;

    /// Draws the next batch, writes the gradient at `theta` and returns the value, a sum over the data; not finite, and
    /// own state still valid, when the batch cannot be evaluated at `theta`.
    fn step(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64;

    /// Whether there is no further batch to draw, which ends the minimisation where it is.
    fn exhausted(&self) -> bool {
        false
    }

    /// Called after an epoch, or what there was of the last one; the validation score at `theta`, if there is one.
    fn end_epoch(&mut self, theta: &[f64]) -> Option<f64>;

    /// Called when the epoch just ended has the best validation score so far.
    fn keep(&mut self, theta: &[f64]);

    /// Passes own state through an archive.
    fn archive(&mut self, archive: &mut Archive);
}

/// An objective of all data at once, every step of which is an epoch.
pub struct FullBatch<'a>(pub &'a mut dyn HyperObjective);

impl StochasticObjective for FullBatch<'_> {
    fn steps_per_epoch(&self) -> usize {
        1
    }

    fn step(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        self.0.value_and_gradient(theta, gradient)
    }

    fn end_epoch(&mut self, theta: &[f64]) -> Option<f64> {
        self.0.validate(theta)
    }

    fn keep(&mut self, theta: &[f64]) {
        self.0.keep(theta);
    }

    fn archive(&mut self, archive: &mut Archive) {
        self.0.archive(archive);
    }
}

struct Shared<'a> {
    objective: &'a mut dyn StochasticObjective,
    value: f64,
}

/// argmin's view of the objective.
struct Stochastic<'a>(Rc<RefCell<Shared<'a>>>);

impl Gradient for Stochastic<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, theta: &Vec<f64>) -> Result<Vec<f64>, ArgminError> {
        let mut gradient = vec![0.0; theta.len()];
        let mut shared = self.0.borrow_mut();
        let value = shared.objective.step(theta, &mut gradient);
        shared.value = value;
        Ok(gradient)
    }
}

/// Where a run is; roll-backs go to the last point that could be evaluated, at half the rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Progress {
    theta: Vec<f64>,
    moments: Moments,
    last_good: Option<Vec<f64>>,
    failures_in_a_row: usize,
    rollbacks: usize,
    shrink: f64,
    step: usize,
    epoch_sum: f64,
    epoch_count: usize,
}

impl Progress {
    fn new(start: Vec<f64>) -> Progress {
        Progress {
            moments: Moments::new(start.len()),
            theta: start,
            last_good: None,
            failures_in_a_row: 0,
            rollbacks: 0,
            shrink: 1.0,
            step: 0,
            epoch_sum: 0.0,
            epoch_count: 0,
        }
    }

    /// The objective per datum since the last call, averaged over steps.
    fn mean(&mut self, data_count: f64) -> f64 {
        let mean = self.epoch_sum / self.epoch_count.max(1) as f64 / data_count;
        (self.epoch_sum, self.epoch_count) = (0.0, 0);
        mean
    }

    /// Whether it is of a vector of `n` numbers and `epochs` epochs.
    fn fits(&self, n: usize, epochs: usize, steps_per_epoch: usize) -> bool {
        let counts = [self.failures_in_a_row, self.rollbacks, self.step, self.epoch_count];
        counts.iter().all(|&count| count <= MOST)
            && self.theta.len() == n
            && self.moments.len() == n
            && self.last_good.as_ref().is_none_or(|good| good.len() == n)
            && (self.step / steps_per_epoch == epochs || self.step.div_ceil(steps_per_epoch) == epochs)
    }
}

/// The solver.
struct Adam<'a, 'm> {
    options: AdamOptions,
    progress: Rc<RefCell<Progress>>,
    shared: Rc<RefCell<Shared<'a>>>,
    monitor: Rc<RefCell<&'a mut Monitor<'m>>>,
    epochs: Epochs,
    data_count: f64,
    steps_per_epoch: usize,
}

impl Adam<'_, '_> {
    /// After this many failures in a row the fit has nowhere to go.
    const MAX_FAILURES: usize = 20;

    /// What a plateau multiplies the rate by.
    const PLATEAU_CUT: f64 = 0.3;

    /// The rate at the current step.
    fn rate(&self, progress: &Progress) -> f64 {
        let plateaus = self.monitor.borrow().plateaus();
        let limits = *self.monitor.borrow().limits();
        let total = limits.epochs.saturating_mul(self.steps_per_epoch);
        let total = total.min(limits.steps.unwrap_or(total)) as f64;
        let left = 1.0 - progress.step as f64 / total.max(1.0);
        let decay = if self.options.decay_share > 0.0 {
            (left / self.options.decay_share).clamp(0.01, 1.0)
        } else {
            1.0
        };
        self.options.rate * progress.shrink * decay * Self::PLATEAU_CUT.powi(plateaus as i32)
    }

    /// Moves along a gradient that can be used.
    fn descend(&self, progress: &mut Progress, value: f64, gradient: &[f64]) {
        progress.failures_in_a_row = 0;
        progress.epoch_sum += value;
        progress.epoch_count += 1;
        match &mut progress.last_good {
            Some(good) => good.copy_from_slice(&progress.theta),
            none => *none = Some(progress.theta.clone()),
        }
        let rate = self.rate(progress);
        progress.moments.step(&mut progress.theta, gradient, rate);
    }

    /// Goes back to the last point that could be evaluated.
    fn roll_back(&self, progress: &mut Progress) {
        progress.failures_in_a_row += 1;
        progress.rollbacks += 1;
        progress.shrink *= 0.5;
        progress.moments.reset();
        if let Some(good) = &progress.last_good {
            progress.theta.copy_from_slice(good);
        }
        if progress.failures_in_a_row > Self::MAX_FAILURES || progress.last_good.is_none() {
            self.monitor.borrow_mut().stop(StopReason::NoProgress);
        }
    }
}

/// Passes the whole of a run through an archive.
fn pass(
    archive: &mut Archive,
    monitor: &mut Monitor<'_>,
    progress: &mut Progress,
    objective: &mut dyn StochasticObjective,
) {
    let n = progress.theta.len();
    monitor.archive(archive);
    archive.value(progress);
    let steps_per_epoch = objective.steps_per_epoch().max(1);
    if archive.is_reading() && !progress.fits(n, monitor.records().len(), steps_per_epoch) {
        archive.refuse();
        return;
    }
    objective.archive(archive);
}

impl<'a> Solver<Stochastic<'a>, Iterate> for Adam<'a, '_> {
    fn name(&self) -> &str {
        "Adam"
    }

    fn next_iter(
        &mut self,
        problem: &mut Problem<Stochastic<'a>>,
        mut state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        let progress = &mut *self.progress.borrow_mut();
        let gradient = problem.gradient(&progress.theta)?;
        if self.shared.borrow().objective.exhausted() {
            self.monitor.borrow_mut().stop(StopReason::NoProgress);
            return Ok((state, None));
        }
        let value = self.shared.borrow().value;
        if value.is_finite() && gradient.iter().all(|g| g.is_finite()) {
            self.descend(progress, value, &gradient);
        } else {
            self.roll_back(progress);
        }
        progress.step += 1;
        let mut kv = KV::new();
        if progress.step.is_multiple_of(self.steps_per_epoch) {
            kv.insert(Epochs::KEY, progress.mean(self.data_count).into());
        }
        // argmin's state carries the cost alone: copies of the vector would be made in every step.
        state.cost = value;
        Ok((state, Some(kv)))
    }

    fn terminate(&mut self, _state: &Iterate) -> TerminationStatus {
        let (progress, shared) = (&mut *self.progress.borrow_mut(), &mut *self.shared.borrow_mut());
        let monitor = &mut **self.monitor.borrow_mut();
        let mut end_epoch = |objective: f64, monitor: &mut Monitor<'_>, theta: &[f64]| {
            let validation = shared.objective.end_epoch(theta);
            if monitor.record(objective, validation) {
                shared.objective.keep(theta);
            }
        };
        for objective in self.epochs.take() {
            end_epoch(objective, monitor, &progress.theta);
        }
        monitor.look_around(Some(progress.step));
        let limited = matches!(monitor.stopped(), Some(StopReason::MaxSteps | StopReason::MaxSeconds));
        if limited && progress.epoch_count > 0 {
            // What there was of the epoch counts as one.
            end_epoch(progress.mean(self.data_count), monitor, &progress.theta);
        }
        monitor.save_if_due(|monitor, archive| pass(archive, monitor, progress, shared.objective));
        match monitor.stopped() {
            Some(_) => TerminationStatus::Terminated(TerminationReason::SolverConverged),
            None => TerminationStatus::NotTerminated,
        }
    }
}

/// Minimises a stochastic objective from `start`; `data_count` turns its values into per-datum ones.
///
/// The outcome's point is the last one; the objective keeps the best by validation itself.
pub fn minimize_adam(
    objective: &mut dyn StochasticObjective,
    start: Vec<f64>,
    data_count: f64,
    options: AdamOptions,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    let steps_per_epoch = objective.steps_per_epoch().max(1);
    let mut progress = Progress::new(start.clone());
    if let Some(mut saved) = monitor.begin_stage() {
        pass(&mut saved, monitor, &mut progress, objective);
        if !saved.is_intact() {
            progress = Progress::new(start);
        }
        monitor.resumed(&saved);
    }
    let progress = Rc::new(RefCell::new(progress));
    let shared = Rc::new(RefCell::new(Shared { objective, value: f64::NAN }));
    let monitor = Rc::new(RefCell::new(monitor));
    let epochs = Epochs::default();
    let solver = Adam {
        options,
        progress: Rc::clone(&progress),
        shared: Rc::clone(&shared),
        monitor: Rc::clone(&monitor),
        epochs: epochs.clone(),
        data_count,
        steps_per_epoch,
    };
    // How argmin ended does not matter: where it came to is in the progress.
    let _ = Executor::new(Stochastic(Rc::clone(&shared)), solver)
        .configure(|state| state.max_iters(u64::MAX))
        .add_observer(Observer { epochs, every_iteration: false }, ObserverMode::Always)
        .timer(false)
        .run();
    let (progress, shared) = (&mut *progress.borrow_mut(), &mut *shared.borrow_mut());
    let monitor = &mut **monitor.borrow_mut();
    monitor.end_stage(|monitor, archive| pass(archive, monitor, progress, shared.objective));
    Outcome {
        theta: progress.theta.clone(),
        value: monitor.records().last().map_or(f64::NAN, |r| r.objective * data_count),
        iterations: progress.step,
        evaluations: progress.step,
        rollbacks: progress.rollbacks,
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
    }
}
