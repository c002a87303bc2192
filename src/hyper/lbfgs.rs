//! L-BFGS from argmin, with one evaluation per point, restarts after a failed line search, and our stopping rules.

use super::{HyperObjective, Monitor, Outcome, StopReason};
use argmin::core::{
    CostFunction, Error as ArgminError, Executor, Gradient, IterState, KV, Problem, Solver, State,
    TerminationReason, TerminationStatus,
};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use std::cell::RefCell;
use std::rc::Rc;

/// Settings of L-BFGS.
#[derive(Clone, Copy, Debug)]
pub struct LbfgsOptions {
    /// How many past steps shape the inverse Hessian.
    pub memory: usize,
    /// The length of the first step (2-norm in the unconstrained space), before curvature is known.
    pub first_step: f64,
    /// How often to restart after a failed line search before giving up.
    pub max_restarts: usize,
}

impl Default for LbfgsOptions {
    fn default() -> Self {
        LbfgsOptions { memory: 50, first_step: 1.0, max_restarts: 12 }
    }
}

type Iterate = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;
type Search = MoreThuenteLineSearch<Vec<f64>, Vec<f64>, f64>;

#[derive(Clone)]
struct Point {
    theta: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// What outlives argmin's runs: the objective, the last evaluations, the best point.
struct Memo<'a, 'm> {
    objective: &'a mut dyn HyperObjective,
    monitor: &'a mut Monitor<'m>,
    data_count: f64,
    scale: f64,
    recent: [Option<Point>; 2],
    best: Option<Point>,
    evaluations: usize,
    failures: usize,
}

impl Memo<'_, '_> {
    /// Value and gradient at `theta`, at most one evaluation a point; `None` where `theta` itself is not finite, or before
    /// any point could be evaluated.
    ///
    /// A point that cannot be evaluated is given a bowl around the best point, `f* + (1 + |f*|)(1 + ‖θ − θ*‖²)`, so that a
    /// line search that strayed there comes back instead of giving up. It is never accepted: it lies above the start.
    fn evaluate(&mut self, theta: &[f64]) -> Option<&Point> {
        let known = self.recent.iter().position(|p| p.as_ref().is_some_and(|p| p.theta == theta));
        if let Some(i) = known {
            return self.recent[i].as_ref();
        }
        if !theta.iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut gradient = vec![0.0; theta.len()];
        let mut value = self.objective.value_and_gradient(theta, &mut gradient);
        self.evaluations += 1;
        let usable = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if !usable {
            self.failures += 1;
            let best = self.best.as_ref()?;
            let weight = 1.0 + best.value.abs();
            let mut distance = 0.0;
            for (g, (x, b)) in gradient.iter_mut().zip(theta.iter().zip(&best.theta)) {
                *g = 2.0 * weight * (x - b);
                distance += (x - b) * (x - b);
            }
            value = best.value + weight * (1.0 + distance);
        }
        let point = Point { theta: theta.to_vec(), value, gradient };
        if usable && self.best.as_ref().is_none_or(|best| value < best.value) {
            self.best = Some(point.clone());
        }
        self.recent.swap(0, 1);
        self.recent[0] = Some(point);
        self.recent[0].as_ref()
    }
}

/// argmin's view: a handle that survives when argmin drops its problem after an error inside a line search.
struct Shared<'a, 'm>(Rc<RefCell<Memo<'a, 'm>>>);

fn unusable() -> ArgminError {
    ArgminError::msg("the objective is not finite at a trial point")
}

impl CostFunction for Shared<'_, '_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, theta: &Vec<f64>) -> Result<f64, ArgminError> {
        let mut memo = self.0.borrow_mut();
        let scale = memo.scale;
        memo.evaluate(theta).map(|p| p.value * scale).ok_or_else(unusable)
    }
}

impl Gradient for Shared<'_, '_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, theta: &Vec<f64>) -> Result<Vec<f64>, ArgminError> {
        let mut memo = self.0.borrow_mut();
        let scale = memo.scale;
        let point = memo.evaluate(theta).ok_or_else(unusable)?;
        Ok(point.gradient.iter().map(|g| g * scale).collect())
    }
}

/// argmin's L-BFGS with our stopping rules: every iteration is one epoch for the monitor.
struct Monitored<'a, 'm> {
    inner: LBFGS<Search, Vec<f64>, Vec<f64>, f64>,
    memo: Rc<RefCell<Memo<'a, 'm>>>,
    iterations: Rc<RefCell<usize>>,
}

impl<'a, 'm> Solver<Shared<'a, 'm>, Iterate> for Monitored<'a, 'm> {
    fn name(&self) -> &str {
        "L-BFGS"
    }

    fn init(
        &mut self,
        problem: &mut Problem<Shared<'a, 'm>>,
        state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        self.inner.init(problem, state)
    }

    fn next_iter(
        &mut self,
        problem: &mut Problem<Shared<'a, 'm>>,
        state: Iterate,
    ) -> Result<(Iterate, Option<KV>), ArgminError> {
        let (state, kv) = self.inner.next_iter(problem, state)?;
        // A failed line search comes back without a point: not an iteration.
        if state.get_param().is_some() {
            *self.iterations.borrow_mut() += 1;
            let mut memo = self.memo.borrow_mut();
            let per_datum = state.get_cost() / memo.scale / memo.data_count;
            memo.monitor.record(per_datum, None);
        }
        Ok((state, kv))
    }

    fn terminate(&mut self, state: &Iterate) -> TerminationStatus {
        if self.memo.borrow().monitor.stopped().is_some() {
            return TerminationStatus::Terminated(TerminationReason::SolverConverged);
        }
        if state.get_param().is_none() {
            return TerminationStatus::NotTerminated;
        }
        <LBFGS<_, _, _, _> as Solver<Shared<'a, 'm>, Iterate>>::terminate(&mut self.inner, state)
    }
}

/// Minimises `objective` from `start`. `data_count` turns its values into per-datum ones for the monitor.
///
/// When a line search fails, as it does once rounding stops all progress, the search starts afresh from the best point
/// with empty memory and a shorter first step, a limited number of times.
pub fn minimize_lbfgs(
    objective: &mut dyn HyperObjective,
    start: Vec<f64>,
    data_count: f64,
    options: LbfgsOptions,
    monitor: &mut Monitor<'_>,
) -> Outcome {
    let memo = Rc::new(RefCell::new(Memo {
        objective,
        monitor,
        data_count,
        scale: 1.0,
        recent: [None, None],
        best: None,
        evaluations: 0,
        failures: 0,
    }));
    let iterations = Rc::new(RefCell::new(0));
    let mut restarts = 0;
    let mut first_step = options.first_step;
    let mut from = start.clone();
    while memo.borrow_mut().evaluate(&from).is_some() && !from.is_empty() {
        let before = memo.borrow().best.as_ref().map(|p| p.value);
        rescale(&mut memo.borrow_mut(), &from, first_step);
        // How argmin ended does not matter: what it found is in the memo.
        let _ = run(&memo, &iterations, from, options.memory);
        let state = memo.borrow();
        if state.monitor.stopped().is_some() {
            break;
        }
        let Some(best) = state.best.as_ref() else { break };
        let improved = before.is_none_or(|b| best.value < b - 1e-12 * b.abs());
        from = best.theta.clone();
        let gradient_norm = best.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        drop(state);
        restarts += 1;
        // A run that gained something is resumed at the normal step; one that did not, at a tenth of the last.
        first_step = if improved { options.first_step } else { first_step * 0.1 };
        if gradient_norm <= 1e-9 * data_count {
            memo.borrow_mut().monitor.stop(StopReason::Converged);
            break;
        }
        if restarts > options.max_restarts || first_step < 1e-7 {
            memo.borrow_mut().monitor.stop(StopReason::NoProgress);
            break;
        }
    }
    let state = memo.borrow();
    let iterations = *iterations.borrow();
    let best = state.best.as_ref();
    Outcome {
        theta: best.map_or(start, |p| p.theta.clone()),
        value: best.map_or(f64::NAN, |p| p.value),
        iterations,
        evaluations: state.evaluations,
        rollbacks: state.failures,
        reason: state.monitor.stopped().unwrap_or(StopReason::NoProgress),
    }
}

/// Scales the objective so that the first, steepest-descent step has length `first_step` at most.
fn rescale(memo: &mut Memo<'_, '_>, from: &[f64], first_step: f64) {
    if let Some(point) = memo.evaluate(from) {
        let norm = point.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        memo.scale = first_step / norm.max(f64::MIN_POSITIVE);
    }
}

fn run<'a, 'm>(
    memo: &Rc<RefCell<Memo<'a, 'm>>>,
    iterations: &Rc<RefCell<usize>>,
    from: Vec<f64>,
    memory: usize,
) -> Result<(), ArgminError> {
    let search = MoreThuenteLineSearch::new().with_c(1e-4, 0.9)?;
    let inner = LBFGS::new(search, memory).with_tolerance_grad(0.0)?.with_tolerance_cost(0.0)?;
    let solver = Monitored { inner, memo: Rc::clone(memo), iterations: Rc::clone(iterations) };
    Executor::new(Shared(Rc::clone(memo)), solver)
        .configure(|state| state.param(from).max_iters(u64::MAX))
        .timer(false)
        .run()
        .map(|_| ())
}
