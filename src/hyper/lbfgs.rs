//! L-BFGS from argmin, with one evaluation per point, restarts after a failed line search, and our stopping rules.

use super::trace::{Epochs, Iterate, Observer};
use super::{HyperObjective, Monitor, Outcome, StopReason};
use crate::checkpoint::{Archive, MOST};
use argmin::core::observers::ObserverMode;
use argmin::core::{
    CostFunction, Error as ArgminError, Executor, Gradient, KV, Problem, Solver, State, TerminationReason,
    TerminationStatus,
};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::VecDeque;
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

type Search = MoreThuenteLineSearch<Vec<f64>, Vec<f64>, f64>;
type Inner = LBFGS<Search, Vec<f64>, Vec<f64>, f64>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Point {
    theta: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// Where the search is: what outlives argmin's runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Progress {
    /// Where the present run started, and with steps of which length.
    from: Vec<f64>,
    first_step: f64,
    /// The best value before the present run.
    before: Option<f64>,
    restarts: usize,
    iterations: usize,
    scale: f64,
    recent: [Option<Point>; 2],
    best: Option<Point>,
    evaluations: usize,
    failures: usize,
}

impl Progress {
    fn new(start: Vec<f64>, first_step: f64) -> Progress {
        Progress {
            from: start,
            first_step,
            before: None,
            restarts: 0,
            iterations: 0,
            scale: 1.0,
            recent: [None, None],
            best: None,
            evaluations: 0,
            failures: 0,
        }
    }

    /// Whether it is of vectors of `n` numbers.
    fn fits(&self, n: usize) -> bool {
        let mut points = self.recent.iter().chain([&self.best]).flatten();
        let counts = [self.restarts, self.iterations, self.evaluations, self.failures];
        counts.iter().all(|&count| count <= MOST)
            && self.from.len() == n
            && points.all(|point| point.theta.len() == n && point.gradient.len() == n)
    }
}

/// The objective with its progress, behind argmin's back.
struct Memo<'a, 'm> {
    objective: &'a mut dyn HyperObjective,
    monitor: &'a mut Monitor<'m>,
    data_count: f64,
    progress: Progress,
}

/// Passes the whole of a search through an archive, with the run under way if there is one.
fn pass(
    archive: &mut Archive,
    monitor: &mut Monitor<'_>,
    progress: &mut Progress,
    objective: &mut dyn HyperObjective,
    run: &mut Option<(Inner, Iterate)>,
) {
    let n = progress.from.len();
    monitor.archive(archive);
    archive.value(progress);
    if archive.is_reading() && !progress.fits(n) {
        archive.refuse();
        return;
    }
    pass_run(archive, run, n);
    objective.archive(archive);
}

/// argmin's L-BFGS as it is written: the line search, the memory's size, its pairs, two tolerances, and what is for an
/// ℓ₁ penalty.
type Stored =
    (Search, usize, VecDeque<Vec<f64>>, VecDeque<Vec<f64>>, f64, f64, Option<f64>, Option<Vec<f64>>);

/// Passes argmin's run, of vectors of `n` numbers, through an archive.
fn pass_run(archive: &mut Archive, run: &mut Option<(Inner, Iterate)>, n: usize) {
    let mut solver = run.as_ref().and_then(|(inner, _)| postcard::to_allocvec(inner).ok());
    let mut state = run.take().map(|(_, state)| state);
    archive.value(&mut solver);
    archive.value(&mut state);
    if let (true, Some(solver), Some(state)) = (archive.is_reading(), solver, state) {
        match usable(&solver, &state, n) {
            Some(inner) => *run = Some((inner, state)),
            None => archive.refuse(),
        }
    }
}

/// The solver, if it and its state are of vectors of `n` numbers: argmin takes that for granted.
fn usable(solver: &[u8], state: &Iterate, n: usize) -> Option<Inner> {
    let (_, memory, s, y, ..): Stored = postcard::from_bytes(solver).ok()?;
    let vectors = [&state.param, &state.prev_param, &state.best_param, &state.prev_best_param];
    let gradients = [&state.grad, &state.prev_grad];
    let mut all = s.iter().chain(&y).chain(vectors.into_iter().chain(gradients).flatten());
    let fits = s.len() == y.len() && s.len() <= memory && memory <= MOST && state.iter <= MOST as u64;
    if fits && all.all(|vector| vector.len() == n) { postcard::from_bytes(solver).ok() } else { None }
}

impl Memo<'_, '_> {
    /// Value and gradient at `theta`, at most one evaluation a point; `None` where `theta` itself is not finite, or before
    /// any point could be evaluated.
    ///
    /// A point that cannot be evaluated is given a bowl around the best point, `f* + (1 + |f*|)(1 + ‖θ − θ*‖²)`, so that a
    /// line search that strayed there comes back instead of giving up. It is never accepted: it lies above the start.
    fn evaluate(&mut self, theta: &[f64]) -> Option<&Point> {
        let known = self.progress.recent.iter().position(|p| p.as_ref().is_some_and(|p| p.theta == theta));
        if let Some(i) = known {
            return self.progress.recent[i].as_ref();
        }
        if !theta.iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut gradient = vec![0.0; theta.len()];
        let mut value = self.objective.value_and_gradient(theta, &mut gradient);
        self.progress.evaluations += 1;
        let usable = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if !usable {
            self.progress.failures += 1;
            let best = self.progress.best.as_ref()?;
            let weight = 1.0 + best.value.abs();
            let mut distance = 0.0;
            for (g, (x, b)) in gradient.iter_mut().zip(theta.iter().zip(&best.theta)) {
                *g = 2.0 * weight * (x - b);
                distance += (x - b) * (x - b);
            }
            value = best.value + weight * (1.0 + distance);
        }
        let point = Point { theta: theta.to_vec(), value, gradient };
        if usable && self.progress.best.as_ref().is_none_or(|best| value < best.value) {
            self.progress.best = Some(point.clone());
        }
        self.progress.recent.swap(0, 1);
        self.progress.recent[0] = Some(point);
        self.progress.recent[0].as_ref()
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
        let scale = memo.progress.scale;
        memo.evaluate(theta).map(|p| p.value * scale).ok_or_else(unusable)
    }
}

impl Gradient for Shared<'_, '_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, theta: &Vec<f64>) -> Result<Vec<f64>, ArgminError> {
        let mut memo = self.0.borrow_mut();
        let scale = memo.progress.scale;
        let point = memo.evaluate(theta).ok_or_else(unusable)?;
        Ok(point.gradient.iter().map(|g| g * scale).collect())
    }
}

/// argmin's L-BFGS with our stopping rules: every iteration is one epoch for the monitor.
struct Monitored<'a, 'm> {
    inner: Inner,
    memo: Rc<RefCell<Memo<'a, 'm>>>,
    epochs: Epochs,
}

impl Monitored<'_, '_> {
    /// Takes in the iterations since the last call, and looks at what happens outside.
    fn report(&mut self, state: &Iterate) {
        let memo = &mut *self.memo.borrow_mut();
        let (progress, objective) = (&mut memo.progress, &mut *memo.objective);
        for cost in self.epochs.take() {
            progress.iterations += 1;
            let point = state.get_param();
            let validation = point.and_then(|theta| objective.validate(theta));
            let best = memo.monitor.record(cost / progress.scale / memo.data_count, validation);
            if let (Some(theta), Some(_), true) = (point, validation, best) {
                objective.keep(theta);
            }
        }
        memo.monitor.look_around(None);
        memo.monitor.save_if_due(|monitor, archive| {
            let mut run = Some((self.inner.clone(), state.clone()));
            pass(archive, monitor, progress, objective, &mut run);
        });
    }
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
        self.inner.next_iter(problem, state)
    }

    fn terminate(&mut self, state: &Iterate) -> TerminationStatus {
        self.report(state);
        if self.memo.borrow().monitor.stopped().is_some() {
            return TerminationStatus::Terminated(TerminationReason::SolverConverged);
        }
        if state.get_param().is_none() {
            return TerminationStatus::NotTerminated;
        }
        <Inner as Solver<Shared<'a, 'm>, Iterate>>::terminate(&mut self.inner, state)
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
    let mut progress = Progress::new(start.clone(), options.first_step);
    let mut run = None;
    if let Some(mut saved) = monitor.begin_stage() {
        pass(&mut saved, monitor, &mut progress, objective, &mut run);
        if !saved.is_intact() {
            (progress, run) = (Progress::new(start.clone(), options.first_step), None);
        }
        monitor.resumed(&saved);
    }
    let memo = Rc::new(RefCell::new(Memo { objective, monitor, data_count, progress }));
    while !start.is_empty() && memo.borrow().monitor.stopped().is_none() {
        if run.is_none() {
            memo.borrow_mut().rescale();
        }
        // How argmin ended does not matter: what it found is in the memo.
        let _ = search(&memo, options.memory, run.take());
        let memo = &mut *memo.borrow_mut();
        if memo.monitor.stopped().is_some() {
            break;
        }
        if !memo.start_again(options) {
            memo.monitor.stop(StopReason::NoProgress);
        }
    }
    let Memo { objective, monitor, progress, .. } = &mut *memo.borrow_mut();
    monitor.end_stage(|monitor, archive| {
        progress.recent = [None, None];
        pass(archive, monitor, progress, *objective, &mut None);
    });
    let best = progress.best.as_ref();
    Outcome {
        theta: best.map_or(start, |p| p.theta.clone()),
        value: best.map_or(f64::NAN, |p| p.value),
        iterations: progress.iterations,
        evaluations: progress.evaluations,
        rollbacks: progress.failures,
        reason: monitor.stopped().unwrap_or(StopReason::NoProgress),
    }
}

impl Memo<'_, '_> {
    /// Scales the objective so that the first, steepest-descent step has length `first_step` at most.
    fn rescale(&mut self) {
        let from = self.progress.from.clone();
        let norm = self.evaluate(&from).map(|p| p.gradient.iter().map(|g| g * g).sum::<f64>().sqrt());
        if let Some(norm) = norm {
            self.progress.scale = self.progress.first_step / norm.max(f64::MIN_POSITIVE);
        }
        self.progress.before = self.progress.best.as_ref().map(|best| best.value);
    }

    /// Prepares another run from the best point; false when there is nothing to be gained by one.
    fn start_again(&mut self, options: LbfgsOptions) -> bool {
        let progress = &mut self.progress;
        let Some(best) = &progress.best else { return false };
        let improved = progress.before.is_none_or(|b| best.value < b - 1e-12 * b.abs());
        let gradient_norm = best.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        progress.from.clone_from(&best.theta);
        progress.restarts += 1;
        // A run that gained something is resumed at the normal step; one that did not, at a tenth of the last.
        progress.first_step = if improved { options.first_step } else { progress.first_step * 0.1 };
        if gradient_norm <= 1e-9 * self.data_count {
            self.monitor.stop(StopReason::Converged);
        }
        progress.restarts <= options.max_restarts && progress.first_step >= 1e-7
    }
}

/// One run of argmin's L-BFGS, or the rest of one.
fn search<'a, 'm>(
    memo: &Rc<RefCell<Memo<'a, 'm>>>,
    memory: usize,
    resumed: Option<(Inner, Iterate)>,
) -> Result<(), ArgminError> {
    let epochs = Epochs::default();
    let (inner, state) = match resumed {
        Some((inner, state)) => (inner, state),
        None => {
            let search = MoreThuenteLineSearch::new().with_c(1e-4, 0.9)?;
            let inner = LBFGS::new(search, memory).with_tolerance_grad(0.0)?.with_tolerance_cost(0.0)?;
            let from = memo.borrow().progress.from.clone();
            (inner, Iterate::new().param(from).max_iters(u64::MAX))
        }
    };
    let solver = Monitored { inner, memo: Rc::clone(memo), epochs: epochs.clone() };
    Executor::new(Shared(Rc::clone(memo)), solver)
        .configure(|_| state)
        .add_observer(Observer { epochs, every_iteration: true }, ObserverMode::Always)
        .timer(false)
        .run()
        .map(|_| ())
}
