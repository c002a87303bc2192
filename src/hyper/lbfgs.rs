//! L-BFGS (Nocedal & Wright 2006, algorithm 7.5) with restarts after a failed line search and our stopping rules; the directions and the
//! line search are in other files.

use super::curvature::InverseHessian;
use super::line_search::{Evaluations, Evaluator};
use super::trials::{Point, Trials};
use super::{HyperObjective, Monitor, Outcome, Reached, StopReason};
use crate::checkpoint::{Archive, MOST};
use serde::{Deserialize, Serialize};

/// The gradient, per row, at which the objective counts as minimised if rounding ends all line searches: with curvatures near 1 per row, the
/// rest of the descent is below 1e-10 nats per row.
const FLAT: f64 = 1e-5;

/// Settings of L-BFGS.
#[derive(Clone, Copy, Debug)]
pub struct LbfgsOptions {
    /// The number of past steps that shape the inverse Hessian.
    pub memory: usize,
    /// The length of the first step (2-norm in the unconstrained space), before curvature is known.
    pub first_step: f64,
    /// The number of restarts after failed line searches before giving up.
    pub max_restarts: usize,
}

impl Default for LbfgsOptions {
    fn default() -> Self {
        LbfgsOptions { memory: 50, first_step: 1.0, max_restarts: 12 }
    }
}

/// The state between two restarts. Values and gradients in it are the objective's times `scale`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Run {
    scale: f64,
    at: Point,
    inverse_hessian: InverseHessian,
}

impl Run {
    fn suits(&self, n: usize, memory: usize) -> bool {
        self.at.suits(n) && self.inverse_hessian.suits(n, memory)
    }
}

/// The state of a minimisation, between two iterations or within the line search of one; a checkpoint stores it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    /// The start of the current run, and the length of its first step.
    from: Vec<f64>,
    first_step: f64,
    /// The best value before the current run.
    before: Option<f64>,
    run: Option<Run>,
    known: Evaluations,
    restarts: usize,
    iterations: usize,
}

impl State {
    fn new(start: Vec<f64>, options: LbfgsOptions) -> State {
        State {
            from: start,
            first_step: options.first_step,
            before: None,
            run: None,
            known: Evaluations::default(),
            restarts: 0,
            iterations: 0,
        }
    }

    /// Returns true if the state has vectors of `n` numbers, and at most `memory` stored steps.
    fn suits(&self, n: usize, memory: usize) -> bool {
        self.restarts <= MOST
            && self.iterations <= MOST
            && self.from.len() == n
            && self.run.as_ref().is_none_or(|run| run.suits(n, memory))
            && self.known.suits(n)
    }
}

/// Writes the whole state of a minimisation to a checkpoint, or reads it from there.
fn pass(
    archive: &mut Archive,
    monitor: &mut Monitor<'_>,
    state: &mut State,
    memory: usize,
    objective: &mut dyn HyperObjective,
) {
    let n = state.from.len();
    monitor.archive(archive);
    archive.value(state);
    if archive.is_reading() && !state.suits(n, memory) {
        archive.refuse();
        return;
    }
    objective.archive(archive);
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// A minimisation under way.
struct Descent<'a, 'm> {
    objective: &'a mut dyn HyperObjective,
    monitor: &'a mut Monitor<'m>,
    options: LbfgsOptions,
    data_count: f64,
    state: State,
}

impl Descent<'_, '_> {
    /// Runs one iteration, or starts another run; returns true if there is more to do.
    fn advance(&mut self) -> bool {
        if self.state.run.is_none() && !self.begin_run() {
            self.start_again();
            return self.monitor.stopped().is_none();
        }
        self.monitor.look_around(None);
        self.save_if_due();
        if self.monitor.stopped().is_some() {
            return false;
        }
        if self.iterate() {
            self.record();
            return true;
        }
        if self.monitor.stopped().is_none() {
            self.start_again();
        } else {
            self.save_if_due();
        }
        self.monitor.stopped().is_none()
    }

    /// Begins a run at the point of the state; returns false if that point cannot be evaluated. The objective is scaled so that the first
    /// step, of steepest descent, has a length of at most `first_step`.
    fn begin_run(&mut self) -> bool {
        let state = &mut self.state;
        let mut evaluator =
            Evaluator { objective: self.objective, monitor: self.monitor, known: &mut state.known };
        let start = evaluator.evaluate(&state.from).cloned();
        state.known.trials.end_search();
        state.before = state.known.best.as_ref().map(|best| best.value);
        state.run = start.map(|Point { theta, value, gradient }| {
            let scale = state.first_step / norm(&gradient).max(f64::MIN_POSITIVE);
            let gradient = gradient.iter().map(|g| g * scale).collect();
            let at = Point { theta, value: value * scale, gradient };
            Run { scale, at, inverse_hessian: InverseHessian::identity() }
        });
        state.run.is_some()
    }

    /// Takes a step; returns false if the line search failed or was interrupted (the monitor knows which).
    fn iterate(&mut self) -> bool {
        let State { run: Some(run), known, .. } = &mut self.state else { return false };
        let direction = run.inverse_hessian.descent(&run.at.gradient);
        let mut evaluator = Evaluator { objective: self.objective, monitor: self.monitor, known };
        let Some(next) = evaluator.search(&run.at, direction, run.scale) else { return false };
        run.inverse_hessian.learn(&run.at, &next, self.options.memory);
        run.at = next;
        true
    }

    /// Records a step, which is an epoch for the monitor.
    fn record(&mut self) {
        let Some(Run { scale, at, .. }) = &self.state.run else { return };
        self.state.iterations += 1;
        let validation = self.objective.validate(&at.theta);
        if self.objective.exhausted() {
            self.monitor.stop(StopReason::NoProgress);
        }
        let (n, prior_terms) = (self.data_count, self.objective.prior_terms(&at.theta));
        let reached = Reached { value: at.value / scale / n, prior_terms: prior_terms / n };
        let best = self.monitor.record(reached, validation);
        if best && validation.is_some() {
            self.objective.keep(&at.theta);
        }
    }

    /// Prepares another run from the best point, or ends the minimisation if another run cannot help.
    fn start_again(&mut self) {
        let state = &mut self.state;
        state.run = None;
        let Some(best) = &state.known.best else { return self.monitor.stop(StopReason::NoProgress) };
        let improved = state.before.is_none_or(|b| best.value < b - 1e-12 * b.abs());
        state.from.clone_from(&best.theta);
        state.restarts += 1;
        // After a run that improved the objective the next run starts with the normal step;
        // otherwise with a tenth of the last one.
        state.first_step = if improved { self.options.first_step } else { state.first_step * 0.1 };
        let slope = norm(&best.gradient) / self.data_count;
        let ended = state.restarts > self.options.max_restarts || state.first_step < 1e-7;
        if slope <= 1e-9 || (ended && slope <= FLAT) {
            self.monitor.stop(StopReason::Converged);
        } else if ended {
            self.monitor.stop(StopReason::NoProgress);
        }
    }

    fn save_if_due(&mut self) {
        let Descent { objective, monitor, options, state, .. } = self;
        // An exhausted objective has not scored its last point, so the state would differ from that
        // of an uninterrupted fit.
        if objective.exhausted() && monitor.stopped() != Some(StopReason::Interrupted) {
            return;
        }
        monitor.save_if_due(|monitor, archive| pass(archive, monitor, state, options.memory, *objective));
    }
}

/// Minimises `objective` from `start`. `data_count` converts its values to per-row values for the monitor.
///
/// A line search fails once rounding stops all progress. The search then restarts from the best point with empty memory and a shorter
/// first step, a limited number of times.
pub fn minimize_lbfgs(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    data_count: f64,
    options: LbfgsOptions,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    let mut state = State::new(start.clone(), options);
    if let Some(mut saved) = monitor.begin_stage() {
        pass(&mut saved, monitor, &mut state, options.memory, objective);
        if !saved.is_intact() {
            state = State::new(start.clone(), options);
        }
        monitor.resumed(&saved);
    }
    let mut search = Descent { objective, monitor, options, data_count, state };
    let mut going = !start.is_empty() && search.monitor.stopped().is_none();
    while going {
        going = search.advance();
    }
    let Descent { objective, monitor, mut state, .. } = search;
    monitor.end_stage(|monitor, archive| {
        (state.run, state.known.trials) = (None, Trials::default());
        pass(archive, monitor, &mut state, options.memory, objective);
    });
    let best = state.known.best;
    Outcome {
        value: best.as_ref().map_or(f64::NAN, |best| best.value),
        theta: best.map_or(start, |best| best.theta),
        iterations: state.iterations,
        evaluations: state.known.count,
        rollbacks: state.known.failures,
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
    }
}
