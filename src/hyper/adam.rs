//! Adam (Kingma & Ba 2015) as an argmin solver for objectives whose value and gradient come from one mini-batch.

use super::{Monitor, Outcome, StopReason};
use crate::moments::Moments;
use argmin::core::{
    Error as ArgminError, Executor, Gradient, IterState, KV, Problem, Solver, State, TerminationReason,
    TerminationStatus,
};
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
}

type Iterate = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;

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

/// The solver; roll-backs go to the last point that could be evaluated, at half the rate.
struct Adam<'a, 'm> {
    options: AdamOptions,
    moments: Moments,
    shared: Rc<RefCell<Shared<'a>>>,
    monitor: Rc<RefCell<&'a mut Monitor<'m>>>,
    last_good: Option<Vec<f64>>,
    failures_in_a_row: usize,
    rollbacks: Rc<RefCell<usize>>,
    shrink: f64,
    data_count: f64,
    steps_per_epoch: usize,
    step: usize,
    epoch_sum: f64,
    epoch_count: usize,
}

impl Adam<'_, '_> {
    /// After this many failures in a row the fit has nowhere to go.
    const MAX_FAILURES: usize = 20;

    /// What a plateau multiplies the rate by.
    const PLATEAU_CUT: f64 = 0.3;

    /// The rate at the current step.
    fn rate(&self) -> f64 {
        let plateaus = self.monitor.borrow().plateaus();
        let limits = *self.monitor.borrow().limits();
        let total = limits.epochs.saturating_mul(self.steps_per_epoch);
        let total = total.min(limits.steps.unwrap_or(total)) as f64;
        let left = 1.0 - self.step as f64 / total.max(1.0);
        let decay = if self.options.decay_share > 0.0 {
            (left / self.options.decay_share).clamp(0.01, 1.0)
        } else {
            1.0
        };
        self.options.rate * self.shrink * decay * Self::PLATEAU_CUT.powi(plateaus as i32)
    }

    /// Ends the fit between two epochs if a limit says so; what there was of the epoch counts as one.
    fn check_limits(&mut self, theta: &[f64]) {
        let limits = *self.monitor.borrow().limits();
        let reason = if limits.steps.is_some_and(|most| self.step >= most) {
            StopReason::MaxSteps
        } else if self.monitor.borrow().out_of_time() {
            StopReason::MaxSeconds
        } else {
            return;
        };
        self.monitor.borrow_mut().stop(reason);
        if self.epoch_count > 0 {
            self.end_epoch(theta);
        }
    }

    fn end_epoch(&mut self, theta: &[f64]) {
        let mean = self.epoch_sum / self.epoch_count.max(1) as f64 / self.data_count;
        let validation = self.shared.borrow_mut().objective.end_epoch(theta);
        if self.monitor.borrow_mut().record(mean, validation) {
            self.shared.borrow_mut().objective.keep(theta);
        }
        (self.epoch_sum, self.epoch_count) = (0.0, 0);
    }
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
        let mut theta = state.take_param().unwrap_or_default();
        let gradient = problem.gradient(&theta)?;
        if self.shared.borrow().objective.exhausted() {
            self.monitor.borrow_mut().stop(StopReason::NoProgress);
            return Ok((state.param(theta), None));
        }
        let value = self.shared.borrow().value;
        if value.is_finite() && gradient.iter().all(|g| g.is_finite()) {
            self.failures_in_a_row = 0;
            self.epoch_sum += value;
            self.epoch_count += 1;
            match &mut self.last_good {
                Some(good) => good.copy_from_slice(&theta),
                none => *none = Some(theta.clone()),
            }
            let rate = self.rate();
            self.moments.step(&mut theta, &gradient, rate);
        } else {
            self.failures_in_a_row += 1;
            *self.rollbacks.borrow_mut() += 1;
            self.shrink *= 0.5;
            self.moments.reset();
            if let Some(good) = &self.last_good {
                theta.copy_from_slice(good);
            }
            if self.failures_in_a_row > Self::MAX_FAILURES || self.last_good.is_none() {
                self.monitor.borrow_mut().stop(StopReason::NoProgress);
            }
        }
        self.step += 1;
        if self.step.is_multiple_of(self.steps_per_epoch) {
            self.end_epoch(&theta);
        }
        if self.monitor.borrow().stopped().is_none() {
            self.check_limits(&theta);
        }
        Ok((state.param(theta).cost(value), None))
    }

    fn terminate(&mut self, _state: &Iterate) -> TerminationStatus {
        match self.monitor.borrow().stopped() {
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
    let shared = Rc::new(RefCell::new(Shared { objective, value: f64::NAN }));
    let monitor = Rc::new(RefCell::new(monitor));
    let rollbacks = Rc::new(RefCell::new(0));
    let solver = Adam {
        options,
        moments: Moments::new(start.len()),
        shared: Rc::clone(&shared),
        monitor: Rc::clone(&monitor),
        last_good: None,
        failures_in_a_row: 0,
        rollbacks: Rc::clone(&rollbacks),
        shrink: 1.0,
        data_count,
        steps_per_epoch,
        step: 0,
        epoch_sum: 0.0,
        epoch_count: 0,
    };
    let result = Executor::new(Stochastic(shared), solver)
        .configure(|state| state.param(start.clone()).max_iters(u64::MAX))
        .timer(false)
        .run();
    let monitor = monitor.borrow();
    let per_epoch = monitor.records().last().map_or(f64::NAN, |r| r.objective * data_count);
    let (theta, iterations) = match result {
        Ok(done) => (done.state.get_param().cloned().unwrap_or(start), done.state.get_iter() as usize),
        Err(_) => (start, 0),
    };
    Outcome {
        theta,
        value: per_epoch,
        iterations,
        evaluations: iterations,
        rollbacks: *rollbacks.borrow(),
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
    }
}
