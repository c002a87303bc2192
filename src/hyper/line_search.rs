//! One line search of Moré & Thuente (1994), by argmin's implementation, on an objective that need
//! not be finite everywhere.

use super::trials::{Point, Trials};
use super::{HyperObjective, Monitor, StopReason};
use crate::checkpoint::MOST;
use argmin::core::{CostFunction, Error as ArgminError, Executor, Gradient, IterState, LineSearch};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// The constants of sufficient decrease and curvature in the strong Wolfe conditions (Nocedal & Wright 2006, p. 142).
const WOLFE: (f64, f64) = (1e-4, 0.9);

/// The records of evaluations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Evaluations {
    pub trials: Trials,
    pub best: Option<Point>,
    pub count: usize,
    /// The number of points without a finite value and gradient.
    pub failures: usize,
}

impl Evaluations {
    /// Returns true if the points have `n` numbers and the counts are consistent.
    pub(crate) fn suits(&self, n: usize) -> bool {
        self.count <= MOST
            && self.failures <= MOST
            && self.trials.suits(n)
            && self.best.as_ref().is_none_or(|best| best.suits(n))
    }
}

/// An objective with the records of its evaluations.
pub(super) struct Evaluator<'a, 'm> {
    pub objective: &'a mut dyn HyperObjective,
    pub monitor: &'a mut Monitor<'m>,
    pub known: &'a mut Evaluations,
}

impl Evaluator<'_, '_> {
    /// Returns value and gradient at `theta`, with at most one evaluation per point; `None` if `theta` is not finite, or before any point
    /// could be evaluated.
    ///
    /// A point that cannot be evaluated gets a bowl around the best point, `f* + (1 + |f*|)(1 + ‖θ − θ*‖²)`, so that a line search that
    /// strayed there returns instead of giving up. Such a point is never accepted, because it lies above the start.
    pub fn evaluate(&mut self, theta: &[f64]) -> Option<&Point> {
        let index = match self.known.trials.find(theta) {
            Some(index) => index,
            None => self.evaluate_anew(theta)?,
        };
        Some(self.known.trials.get(index))
    }

    fn evaluate_anew(&mut self, theta: &[f64]) -> Option<usize> {
        if !theta.iter().all(|x| x.is_finite()) {
            return None;
        }
        let mut gradient = vec![0.0; theta.len()];
        let mut value = self.objective.value_and_gradient(theta, &mut gradient);
        if self.objective.exhausted() {
            self.monitor.stop(StopReason::Interrupted);
            return None;
        }
        self.known.count += 1;
        let usable = value.is_finite() && gradient.iter().all(|g| g.is_finite());
        if !usable {
            self.known.failures += 1;
            value = bowl(self.known.best.as_ref()?, theta, &mut gradient);
        }
        let point = Point { theta: theta.to_vec(), value, gradient };
        if usable && self.known.best.as_ref().is_none_or(|best| value < best.value) {
            self.known.best = Some(point.clone());
        }
        Some(self.known.trials.push(point))
    }

    /// Returns true if the user wants the fit to end before `theta` is evaluated; the monitor is
    /// then stopped. Known points are not checked, so a repeated search reaches the point where it
    /// was interrupted.
    fn is_interrupted_at(&mut self, theta: &[f64]) -> bool {
        let interrupted = self.known.trials.find(theta).is_none() && self.monitor.is_interrupted();
        if interrupted {
            self.monitor.stop(StopReason::Interrupted);
        }
        interrupted
    }

    /// Searches along `direction` from a point with its scaled value and gradient, on the objective times `scale`. Returns the end point
    /// of the search, with the same scale, or `None` if it failed or the fit was interrupted. After an interruption the monitor has
    /// stopped, and a resumed fit repeats the search from its start.
    pub fn search(&mut self, from: &Point, direction: Vec<f64>, scale: f64) -> Option<Point> {
        self.known.trials.begin_search();
        let found = self.more_thuente(from, direction, scale).ok().flatten();
        if self.monitor.stopped().is_none() {
            self.known.trials.end_search();
        }
        found
    }

    fn more_thuente(
        &mut self,
        from: &Point,
        direction: Vec<f64>,
        scale: f64,
    ) -> Result<Option<Point>, ArgminError> {
        let mut search = MoreThuenteLineSearch::new().with_c(WOLFE.0, WOLFE.1)?;
        search.search_direction(direction);
        let start =
            |state: Iterate| state.param(from.theta.clone()).cost(from.value).gradient(from.gradient.clone());
        // argmin drops its problem if it fails, so it only borrows the evaluator.
        let ray = Scaled { evaluator: RefCell::new(self), scale };
        let mut state = Executor::new(ray, search).configure(start).ctrlc(false).timer(false).run()?.state;
        let (theta, gradient) = (state.take_param(), state.take_gradient());
        Ok(theta.zip(gradient).map(|(theta, gradient)| Point { theta, value: state.cost, gradient }))
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

type Iterate = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;

/// The objective times `scale`, as argmin sees it: its methods take `&self`.
struct Scaled<'e, 'a, 'm> {
    evaluator: RefCell<&'e mut Evaluator<'a, 'm>>,
    scale: f64,
}

impl Scaled<'_, '_, '_> {
    fn at<T>(&self, theta: &[f64], read: impl FnOnce(&Point) -> T) -> Result<T, ArgminError> {
        let mut evaluator = self.evaluator.borrow_mut();
        let point = evaluator.evaluate(theta).map(read);
        point.ok_or_else(|| ArgminError::msg("the objective is not finite at a trial point"))
    }
}

impl CostFunction for Scaled<'_, '_, '_> {
    type Param = Vec<f64>;
    type Output = f64;

    /// argmin asks for the cost of a trial point first.
    fn cost(&self, theta: &Vec<f64>) -> Result<f64, ArgminError> {
        if self.evaluator.borrow_mut().is_interrupted_at(theta) {
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
