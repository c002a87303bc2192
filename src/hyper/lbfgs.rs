//! argmin's L-BFGS (Nocedal & Wright 2006, algorithm 7.5) with restarts after a failed line search and our stopping rules, on objectives that
//! need not be finite everywhere.

use super::{HyperObjective, Monitor, Outcome, Reached, StopReason};
use crate::checkpoint::MOST;
use argmin::core::{
    CostFunction, Error as ArgminError, Executor, Gradient, IterState, KV, Problem, Solver, State as _,
    TerminationReason,
};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// The constants of sufficient decrease and curvature in the strong Wolfe conditions (Nocedal & Wright 2006, p. 142).
const WOLFE: (f64, f64) = (1e-4, 0.9);

/// The number of evaluated points that are stored between line searches: a search starts at the end of the last one.
const LATEST: usize = 2;

/// The gradient, per row, at which the objective counts as minimised if rounding ends all line searches: with curvatures near 1 per row, the
/// rest of the descent is below 1e-10 nats per row.
const FLAT: f64 = 1e-5;

/// Settings of L-BFGS.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
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

type Lbfgs = LBFGS<MoreThuenteLineSearch<Vec<f64>, Vec<f64>, f64>, Vec<f64>, Vec<f64>, f64>;

type Iterate = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;

/// A point with its value and gradient.
#[derive(Clone, Serialize, Deserialize)]
struct Point {
    theta: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// The state between two iterations, except that of argmin's solver.
#[derive(Serialize, Deserialize)]
struct State {
    /// The start of the current run, and the length of its first step.
    from: Vec<f64>,
    first_step: f64,
    /// The best value before the current run.
    before: Option<f64>,
    /// The points that were evaluated last: argmin requests values and gradients separately.
    latest: Vec<Point>,
    best: Option<Point>,
    evaluations: usize,
    /// The number of points without a finite value and gradient.
    failures: usize,
    restarts: usize,
    iterations: usize,
}

/// A run of argmin's solver between two iterations. Value and gradient of its point are the objective's times `scale`.
#[derive(Clone, Serialize, Deserialize)]
struct Run {
    scale: f64,
    at: Point,
    iteration: u64,
    solver: Lbfgs,
}

impl State {
    fn new(start: Vec<f64>, options: LbfgsOptions) -> State {
        State {
            from: start,
            first_step: options.first_step,
            before: None,
            latest: Vec::new(),
            best: None,
            evaluations: 0,
            failures: 0,
            restarts: 0,
            iterations: 0,
        }
    }

    /// Returns true if a state that was read has vectors of `n` numbers and possible counts.
    fn suits(&self, n: usize) -> bool {
        let counts = [self.evaluations, self.failures, self.restarts, self.iterations];
        counts.iter().all(|&count| count <= MOST)
            && self.from.len() == n
            && self.latest.iter().chain(&self.best).all(|point| point.suits(n))
    }
}

impl Point {
    fn suits(&self, n: usize) -> bool {
        self.theta.len() == n && self.gradient.len() == n
    }
}

impl Run {
    /// Returns true if a run that was read has vectors of `n` numbers, and at most `memory` stored steps.
    fn suits(&self, n: usize, memory: usize) -> bool {
        // argmin's fields are private, so they are read from their stored form.
        let stored = serde_json::to_value(&self.solver).unwrap_or_default();
        let lengths = |name: &str| -> Option<Vec<usize>> {
            stored[name].as_array()?.iter().map(|vector| vector.as_array().map(Vec::len)).collect()
        };
        let (Some(s), Some(y)) = (lengths("s"), lengths("y")) else { return false };
        self.at.suits(n) && s == y && s.len() <= memory.max(1) && s.iter().all(|&length| length == n)
    }
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
    /// Returns value and gradient at `theta`, with at most one evaluation per point; `None` if `theta` is not finite, or before any point
    /// could be evaluated.
    ///
    /// A point that cannot be evaluated gets a bowl around the best point, `f* + (1 + |f*|)(1 + ‖θ − θ*‖²)`, so that a line search that
    /// strayed there returns instead of giving up. Such a point is never accepted, because it lies above the start.
    fn evaluate(&mut self, theta: &[f64]) -> Option<&Point> {
        if let Some(known) = self.state.latest.iter().rposition(|point| point.theta == theta) {
            return self.state.latest.get(known);
        }
        if !theta.iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut gradient = vec![0.0; theta.len()];
        let mut value = self.objective.value_and_gradient(theta, &mut gradient);
        if self.objective.exhausted() {
            self.monitor.stop(StopReason::Interrupted);
            return None;
        }
        let state = &mut self.state;
        state.evaluations += 1;
        let usable = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if !usable {
            state.failures += 1;
            value = bowl(state.best.as_ref()?, theta, &mut gradient);
        }
        let point = Point { theta: theta.to_vec(), value, gradient };
        if usable && state.best.as_ref().is_none_or(|best| value < best.value) {
            state.best = Some(point.clone());
        }
        state.latest.push(point);
        state.latest.last()
    }

    /// Returns true, and ends the minimisation, if the user wants it to end before `theta` is evaluated.
    fn is_interrupted_at(&mut self, theta: &[f64]) -> bool {
        let known = self.state.latest.iter().any(|point| point.theta == theta);
        let interrupted = !known && self.monitor.session.is_interrupted();
        if interrupted {
            self.monitor.stop(StopReason::Interrupted);
        }
        interrupted
    }

    /// Forgets all but the latest points.
    fn forget(&mut self) {
        let known = self.state.latest.len();
        self.state.latest.drain(..known.saturating_sub(LATEST));
    }

    /// Begins a run at the point of the state; `None` if that point cannot be evaluated. The objective is scaled so that the first step, of
    /// steepest descent, has a length of at most `first_step`.
    fn begin(&mut self) -> Option<Run> {
        let from = self.state.from.clone();
        let start = self.evaluate(&from).cloned();
        self.forget();
        self.state.before = self.state.best.as_ref().map(|best| best.value);
        let Point { theta, value, gradient } = start?;
        let scale = self.state.first_step / norm(&gradient).max(f64::MIN_POSITIVE);
        let gradient = gradient.iter().map(|g| g * scale).collect();
        let search = MoreThuenteLineSearch::new().with_c(WOLFE.0, WOLFE.1).ok()?;
        let solver = LBFGS::new(search, self.options.memory);
        Some(Run { scale, at: Point { theta, value: value * scale, gradient }, iteration: 0, solver })
    }

    /// Records the point at the end of an iteration, which is an epoch for the monitor.
    fn record(&mut self, theta: &[f64], value: f64) {
        self.forget();
        self.state.iterations += 1;
        let validation = self.objective.validate(theta);
        if self.objective.exhausted() {
            self.monitor.stop(StopReason::NoProgress);
        }
        let (n, prior_terms) = (self.data_count, self.objective.prior_terms(theta));
        let best =
            self.monitor.record(Reached { value: value / n, prior_terms: prior_terms / n }, validation);
        if best && validation.is_some() {
            self.objective.keep(theta);
        }
    }

    /// Checks limits before an iteration, and saves the state if it is due. An exhausted objective has not scored its last point, so its
    /// state would differ from that of an uninterrupted fit.
    fn look_around(&mut self, run: impl FnOnce() -> Run) {
        self.monitor.look_around(None);
        let Descent { objective, monitor, state, .. } = self;
        if !objective.exhausted() {
            monitor.save_if_due(|| ((&*state, Some(run())), objective.state()));
        }
    }

    /// Prepares another run from the best point, or ends the minimisation if another run cannot help.
    fn start_again(&mut self) {
        self.forget();
        let state = &mut self.state;
        let Some(best) = &state.best else { return self.monitor.stop(StopReason::NoProgress) };
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
}

/// Computes the bowl around the best point, at `theta`: its value, and its gradient into `gradient`.
fn bowl(best: &Point, theta: &[f64], gradient: &mut [f64]) -> f64 {
    let weight = 1.0 + best.value.abs();
    let mut distance = 0.0;
    for (g, (x, b)) in gradient.iter_mut().zip(theta.iter().zip(&best.theta)) {
        *g = 2.0 * weight * (x - b);
        distance += (x - b) * (x - b);
    }
    best.value + weight * (1.0 + distance)
}

/// The objective times `scale`, as argmin sees it. argmin drops its problem if a line search fails, so the problem only borrows.
#[derive(Clone, Copy)]
struct Scaled<'c, 'a, 'm> {
    descent: &'c RefCell<Descent<'a, 'm>>,
    scale: f64,
}

impl Scaled<'_, '_, '_> {
    fn at<T>(&self, theta: &[f64], read: impl FnOnce(&Point) -> T) -> Result<T, ArgminError> {
        let mut descent = self.descent.borrow_mut();
        let point = descent.evaluate(theta).map(read);
        point.ok_or_else(|| ArgminError::msg("the objective is not finite at a trial point"))
    }
}

impl CostFunction for Scaled<'_, '_, '_> {
    type Param = Vec<f64>;
    type Output = f64;

    /// argmin asks for the cost of a trial point first, so interruptions are noticed here.
    fn cost(&self, theta: &Vec<f64>) -> Result<f64, ArgminError> {
        if self.descent.borrow_mut().is_interrupted_at(theta) {
            return Err(ArgminError::msg("interrupted"));
        }
        self.at(theta, |point| point.value * self.scale)
    }
}

impl Gradient for Scaled<'_, '_, '_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, theta: &Vec<f64>) -> Result<Vec<f64>, ArgminError> {
        self.at(theta, |point| point.gradient.iter().map(|g| g * self.scale).collect())
    }
}

/// argmin's solver, whose iterations are recorded, limited and saved. (argmin's observers cannot borrow, and cannot end a run.)
struct Watched<'c, 'a, 'm> {
    solver: Lbfgs,
    problem: Scaled<'c, 'a, 'm>,
}

impl<'c, 'a, 'm> Solver<Scaled<'c, 'a, 'm>, Iterate> for Watched<'c, 'a, 'm> {
    fn name(&self) -> &str {
        "L-BFGS"
    }

    fn next_iter(
        &mut self,
        problem: &mut Problem<Scaled<'c, 'a, 'm>>,
        state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        let Watched { solver, problem: Scaled { descent, scale } } = self;
        descent.borrow_mut().look_around(|| {
            let [theta, gradient] =
                [state.get_param(), state.get_gradient()].map(|v| v.cloned().unwrap_or_default());
            let at = Point { theta, value: state.get_cost(), gradient };
            Run { scale: *scale, at, iteration: state.get_iter(), solver: solver.clone() }
        });
        if descent.borrow().monitor.stopped().is_some() {
            return Ok((state.terminate_with(TerminationReason::Interrupt), None));
        }
        let (state, told) = solver.next_iter(problem, state)?;
        if let (false, Some(theta)) = (state.terminated(), state.get_param()) {
            descent.borrow_mut().record(theta, state.get_cost() / *scale);
        }
        Ok((state, told))
    }
}

/// Minimises `objective` from `start`. `data_count` converts its values to per-row values for the monitor.
///
/// A line search fails once rounding stops all progress. The search then restarts from the best point with empty memory and a shorter
/// first step, a limited number of times.
#[doc(hidden)]
pub fn minimize_lbfgs(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    data_count: f64,
    options: LbfgsOptions,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    let (mut state, mut saved) = (State::new(start.clone(), options), None);
    monitor.begin_stage(|(found, run): (State, Option<Run>), rest| {
        let n = start.len();
        let suits = found.suits(n) && run.as_ref().is_none_or(|run| run.suits(n, options.memory));
        if suits {
            (state, saved) = (found, run);
        }
        suits && objective.restore(rest)
    });
    let descent = RefCell::new(Descent { objective, monitor, options, data_count, state });
    while !start.is_empty() && descent.borrow().monitor.stopped().is_none() {
        let run = saved.take().or_else(|| descent.borrow_mut().begin());
        if let Some(Run { scale, at: Point { theta, value, gradient }, iteration, solver }) = run {
            let problem = Scaled { descent: &descent, scale };
            let from = |state: Iterate| {
                let mut state = state.param(theta).cost(value).gradient(gradient);
                state.iter = iteration;
                state
            };
            // A failed line search ends the run.
            let _ = Executor::new(problem, Watched { solver, problem }).configure(from).ctrlc(false).run();
        }
        let mut descent = descent.borrow_mut();
        if descent.monitor.stopped().is_none() {
            descent.start_again();
        }
    }
    let Descent { objective, monitor, mut state, .. } = descent.into_inner();
    monitor.end_stage(|| {
        state.latest.clear();
        ((&state, None::<Run>), objective.state())
    });
    Outcome {
        value: state.best.as_ref().map_or(f64::NAN, |best| best.value),
        theta: state.best.map_or(start, |best| best.theta),
        iterations: state.iterations,
        evaluations: state.evaluations,
        rollbacks: state.failures,
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
    }
}
