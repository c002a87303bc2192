//! 95 % intervals of variance components by the profile likelihood, from the exact gradient of the evidence; no estimates.
//!
//! An end of the interval of a quantity g(θ) is the extreme of g where the evidence is 1.92 nats below its maximum, half the 95 % quantile of χ²
//! with one degree of freedom (Venzon & Moolgavkar 1988). All other free parameters are maximised over. Inducing inputs are parameters of the
//! approximation and not of the model, and stay where they are.
//!
//! The search starts at the Wald interval `g ± 1.96 √(aᵀVa)`, where a is the gradient of g and V the inverse of the observed information H in the
//! free parameters (logarithms of standard deviations). From there every evaluation gives a Newton step along `u = Va/(aᵀVa)`, which changes
//! g by 1, and a Newton step with `P = V − Va aᵀV/(aᵀVa)` towards the maximum over all points of the same g.

use super::GroupedObjective;
use crate::effects::{Components, EffectIntervals, Ends, Quantity, TermIntervals};
use crate::error::Result;
use crate::hyper::{HyperObjective, Monitor};
use crate::linalg::{dot, symmetric_eigen};
use faer::Mat;

/// The 97.5 % quantile of the normal distribution, and the depth below the maximum that belongs to it.
const DEVIATE: f64 = 1.959_963_984_540_054;
const DEPTH: f64 = 0.5 * DEVIATE * DEVIATE;

/// The change of a free number in central differences, and the largest change of the objective that they may see.
const STEP: f64 = 1e-3;
const MOST_CHANGE: f64 = 1e-3;

/// The least curvature that counts, in nats for a unit of a free number: a parameter of less could change by a factor of e¹⁴⁰ unnoticed.
const FLAT: f64 = 1e-4;

/// The most free numbers that intervals maximise over; with more, the parameters of the kernel stay where they are.
const MOST_FREE: usize = 60;

/// The loss, in nats, of an effect's removal below which the estimate counts as 0.
const NOTHING: f64 = 1e-3;

/// The largest distance from the maximum, in nats, at which a fit has intervals.
const NEAR: f64 = 0.05;

/// The errors, in standard deviations and nats, at which a last Newton step ends a search, its largest step in the unbounded quantity, and its most evaluations.
const TOLERANCE: f64 = 0.02;
const LONGEST: f64 = 1.5;
const MOST_EVALUATIONS: usize = 40;

/// The logarithms of standard deviations that stand for 0, and from which the search for an upper end starts if the estimate is 0.
const ZERO: f64 = -25.0;
const FIRST: f64 = -5.0;

/// The distance from the estimate in the unbounded quantity beyond which an end counts as infinite.
const BEYOND: f64 = 12.0;

/// Returns the intervals of all variance components of a model at the maximum of its evidence; `None` if nothing is free or the model is not near
/// a maximum.
///
/// # Errors
///
/// If the fit is interrupted.
pub(super) fn effect_intervals(
    objective: &mut GroupedObjective<'_>,
    target_mean: f64,
    monitor: &mut Monitor<'_>,
) -> Result<Option<EffectIntervals>> {
    let Some(mut surface) = Surface::new(objective, target_mean) else { return Ok(None) };
    let mut out = EffectIntervals::default();
    let effects = surface.components.effects.clone();
    out.terms = effects.terms().iter().map(|_| TermIntervals::default()).collect();
    for quantity in Quantity::all(&effects) {
        let ends = surface.interval(quantity);
        monitor.check()?;
        match quantity {
            Quantity::Sd { term, .. } => out.terms[term].sd.push(ends),
            Quantity::Correlation { term, .. } => out.terms[term].correlations.push(ends),
            Quantity::Share { term } => out.terms[term].share = ends,
            Quantity::Noise => out.noise = ends,
        }
    }
    Ok(Some(out))
}

/// The direction of an end.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Lower,
    Upper,
}

impl Side {
    fn sign(self) -> f64 {
        if self == Side::Lower { -1.0 } else { 1.0 }
    }
}

/// The objective at a point, with its derivatives in the coordinates that are moved.
#[derive(Clone)]
struct Point {
    at: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// What removing an effect costs.
struct Removal {
    /// The places of its row of the factor among the moved coordinates; the logarithm of the diagonal entry comes first.
    places: Vec<usize>,
    /// The loss in nats with all other parameters as they are: at least that of the profile.
    loss: f64,
}

/// Minus the log evidence around its minimum, as a function of some free numbers.
struct Surface<'a, 'b> {
    objective: &'a mut GroupedObjective<'b>,
    components: Components,
    /// The free vector of the fit.
    theta: Vec<f64>,
    /// The places in it of the numbers that are moved.
    moved: Vec<usize>,
    /// The minimum, with its value by a quadratic approximation.
    best: Point,
    /// V: the inverse of the second derivatives at the minimum, 0 along flat directions.
    inverse: Mat<f64>,
    removals: Vec<Vec<Option<Removal>>>,
}

impl<'a, 'b> Surface<'a, 'b> {
    /// Finds the shape of the objective around its start.
    fn new(objective: &'a mut GroupedObjective<'b>, target_mean: f64) -> Option<Self> {
        let theta = objective.start();
        let model = &objective.at.model;
        let components = Components {
            effects: model.effects.clone(),
            likelihood: model.likelihood.clone(),
            target_mean,
        };
        let moved = objective.at.named(MOST_FREE);
        let best = Point { at: moved.iter().map(|&place| theta[place]).collect(), value: 0.0, gradient: Vec::new() };
        let inverse = Mat::zeros(moved.len(), moved.len());
        let mut surface = Surface { objective, components, theta, moved, best, inverse, removals: Vec::new() };
        surface.best = surface.evaluate(surface.best.at.clone())?;
        surface.remove_effects();
        surface.curve()?;
        let rest = 0.5 * surface.quadratic(&surface.best.gradient);
        surface.best.value -= rest;
        (rest <= NEAR).then_some(surface)
    }

    /// Evaluates the objective; `None` if it is not finite.
    fn evaluate(&mut self, at: Vec<f64>) -> Option<Point> {
        let mut theta = self.theta.clone();
        self.moved.iter().zip(&at).for_each(|(&place, value)| theta[place] = *value);
        let mut slopes = vec![0.0; theta.len()];
        let value = self.objective.value_and_gradient(&theta, &mut slopes);
        let gradient: Vec<f64> = self.moved.iter().map(|&place| slopes[place]).collect();
        let finite = value.is_finite() && gradient.iter().all(|slope| slope.is_finite());
        finite.then_some(Point { at, value, gradient })
    }

    /// Measures the loss of removing every effect whose standard deviation is free.
    fn remove_effects(&mut self) {
        let effects = self.components.effects.clone();
        let of_factors = self.objective.at.model.natural().len() - effects.parameter_count();
        for (term, of) in effects.terms().iter().enumerate() {
            let rows = (0..of.width()).map(|effect| {
                let places = effects.row_places(term, effect).into_iter();
                let places = places.map(|place| self.objective.at.free_place(of_factors + place));
                let places = places.map(|place| self.moved.iter().position(|moved| Some(*moved) == place));
                let places: Vec<usize> = places.collect::<Option<_>>()?;
                let mut at = self.best.at.clone();
                places.iter().for_each(|&place| at[place] = 0.0);
                at[places[0]] = ZERO;
                let loss = self.evaluate(at)?.value - self.best.value;
                Some(Removal { places, loss })
            });
            let rows = rows.collect();
            self.removals.push(rows);
        }
    }

    /// Finds V by central differences of the gradient. Effects whose estimate is 0 stay where they are.
    fn curve(&mut self) -> Option<()> {
        let count = self.moved.len();
        let gone = self.removals.iter().flatten().flatten().filter(|removal| removal.loss < NOTHING);
        let gone: Vec<usize> = gone.flat_map(|removal| removal.places.clone()).collect();
        let mut hessian: Mat<f64> = Mat::zeros(count, count);
        for column in (0..count).filter(|column| !gone.contains(column)) {
            let slopes = self.column(column)?;
            slopes.into_iter().enumerate().for_each(|(row, slope)| hessian[(row, column)] = slope);
        }
        let symmetric = Mat::from_fn(count, count, |i, j| {
            let known = !gone.contains(&i) && !gone.contains(&j);
            if known { 0.5 * (hessian[(i, j)] + hessian[(j, i)]) } else { 0.0 }
        });
        let (values, vectors) = symmetric_eigen(symmetric.as_ref())?;
        let share = |k: usize| if values[k] > FLAT { 1.0 / values[k] } else { 0.0 };
        self.inverse = Mat::from_fn(count, count, |i, j| {
            (0..count).map(|k| share(k) * vectors[(i, k)] * vectors[(j, k)]).sum()
        });
        Some(())
    }

    /// The derivatives of the gradient in one coordinate. Steps that change the objective much are too long for central differences.
    fn column(&mut self, column: usize) -> Option<Vec<f64>> {
        let mut step = STEP;
        loop {
            let mut shifted = |step: f64| {
                let mut at = self.best.at.clone();
                at[column] += step;
                self.evaluate(at)
            };
            let (above, below) = (shifted(step)?, shifted(-step)?);
            let slopes = above.gradient.iter().zip(&below.gradient);
            let slopes: Vec<f64> = slopes.map(|(above, below)| (above - below) / (2.0 * step)).collect();
            let change = 0.5 * slopes[column].abs() * step * step;
            if change <= MOST_CHANGE || step < 1e-6 {
                return Some(slopes);
            }
            step *= (0.1 * MOST_CHANGE / change).sqrt();
        }
    }

    /// `xᵀVx`.
    fn quadratic(&self, x: &[f64]) -> f64 {
        dot(x, &times(&self.inverse, x))
    }

    /// Returns the interval of a quantity, if its parameters are free and it has one.
    fn interval(&mut self, quantity: Quantity) -> Option<Ends> {
        let (removed, loss) = match self.removal(quantity) {
            Some(removal) if removal.loss < NOTHING => (Some(removal.places.clone()), removal.loss),
            Some(removal) => (None, removal.loss),
            None => (None, f64::INFINITY),
        };
        if let Some(places) = removed {
            return self.above_zero(quantity, places[0]);
        }
        let (best, inverse) = (self.best.at.clone(), self.inverse.clone());
        let middle = self.value(quantity, &best)?;
        if matches!(quantity, Quantity::Correlation { .. }) && middle.tanh().abs() > 0.999 {
            return None;
        }
        let lower = if loss < DEPTH {
            0.0
        } else {
            quantity.bounded(self.end(quantity, (&best, &inverse), Side::Lower)?)
        };
        let upper = quantity.bounded(self.end(quantity, (&best, &inverse), Side::Upper)?);
        Some([lower, upper]).filter(|ends| ends.iter().all(|end| end.is_finite()))
    }

    /// The removal that a quantity of 0 is.
    fn removal(&self, quantity: Quantity) -> Option<&Removal> {
        let (term, effect) = match quantity {
            Quantity::Sd { term, effect } => (term, effect),
            Quantity::Share { term } => (term, 0),
            Quantity::Correlation { .. } | Quantity::Noise => return None,
        };
        self.removals[term][effect].as_ref()
    }

    /// Returns the interval from 0 of a quantity whose estimate is 0; `place` is its logarithm among the coordinates.
    fn above_zero(&mut self, quantity: Quantity, place: usize) -> Option<Ends> {
        let (mut start, mut inverse) = (self.best.at.clone(), self.inverse.clone());
        start[place] = start[place].max(FIRST);
        inverse[(place, place)] = 1.0;
        let upper = self.end(quantity, (&start, &inverse), Side::Upper)?;
        Some([0.0, quantity.bounded(upper)]).filter(|ends| ends[1].is_finite())
    }

    /// Returns the end of an interval on the whole line, from a point with an idea V of the inverse curvature there.
    fn end(&mut self, quantity: Quantity, from: (&[f64], &Mat<f64>), side: Side) -> Option<f64> {
        let (start, mut inverse) = (from.0, from.1.clone());
        let (middle, goal) = (self.value(quantity, start)?, side.sign() * DEVIATE);
        let first = Frame::new(self.gradient(quantity, start)?, &inverse)?;
        let length = (DEVIATE * first.variance.sqrt()).min(LONGEST);
        let mut at = moved(start, &first.along, side.sign() * length);
        let mut last: Option<Point> = None;
        for _ in 0..MOST_EVALUATIONS {
            let value = self.value(quantity, &at)?;
            if side.sign() * (value - middle) > BEYOND {
                return Some(side.sign() * f64::INFINITY);
            }
            let Some(point) = self.evaluate(at.clone()) else {
                at = moved(start, &difference(&at, start), 0.5);
                continue;
            };
            if let Some(last) = &last {
                update(&mut inverse, last, &point);
            }
            let frame = Frame::new(self.gradient(quantity, &at)?, &inverse)?;
            let (slope, across) = (dot(&point.gradient, &frame.along), frame.across(&point.gradient, &inverse));
            let gain = 0.5 * dot(&point.gradient, &across);
            let depth = (point.value - gain - self.best.value).max(0.0);
            let deviate = side.sign() * (2.0 * depth).sqrt();
            let outward = side.sign() * slope > 0.0 && depth > 0.0;
            let newton = if outward { (goal - deviate) * deviate / slope } else { side.sign() * LONGEST };
            if outward && (goal - deviate).abs() < TOLERANCE && gain < TOLERANCE {
                return Some(value + newton);
            }
            let longest = LONGEST.min(2.0 * frame.variance.sqrt());
            // A Newton step across that promises more than a nat is no longer one.
            let share = (1.0 / gain.max(1e-300)).sqrt().min(1.0);
            at = moved(&at, &frame.along, newton.clamp(-longest, longest));
            at = moved(&at, &across, -share);
            last = Some(point);
        }
        None
    }

    /// A quantity on the whole line at a point.
    fn value(&mut self, quantity: Quantity, at: &[f64]) -> Option<f64> {
        let mut theta = self.theta.clone();
        self.moved.iter().zip(at).for_each(|(&place, value)| theta[place] = *value);
        let natural = self.objective.at.natural_at(&theta);
        let (components, model) = (&mut self.components, &self.objective.at.model);
        model.read_components(&natural, &mut components.likelihood, &mut components.effects);
        components.value(quantity)
    }

    /// The gradient of a quantity by central differences, which cost no evaluation of the objective.
    fn gradient(&mut self, quantity: Quantity, at: &[f64]) -> Option<Vec<f64>> {
        let slope = |place: usize| {
            let mut shifted = |step: f64| {
                let mut at = at.to_vec();
                at[place] += step;
                self.value(quantity, &at)
            };
            Some((shifted(1e-5)? - shifted(-1e-5)?) / 2e-5)
        };
        (0..at.len()).map(slope).collect()
    }
}

/// Directions that change a quantity, and others that do not.
struct Frame {
    /// `a`.
    gradient: Vec<f64>,
    /// `aᵀVa`.
    variance: f64,
    /// `u = Va/(aᵀVa)`.
    along: Vec<f64>,
}

impl Frame {
    /// `None` if the quantity does not depend on what is moved.
    fn new(gradient: Vec<f64>, inverse: &Mat<f64>) -> Option<Frame> {
        let changed = times(inverse, &gradient);
        let variance = dot(&gradient, &changed);
        let along = changed.iter().map(|x| x / variance).collect();
        (variance > 0.0 && variance.is_finite()).then_some(Frame { gradient, variance, along })
    }

    /// `Px`.
    fn across(&self, x: &[f64], inverse: &Mat<f64>) -> Vec<f64> {
        let newton = times(inverse, x);
        let change = dot(&self.gradient, &newton);
        moved(&newton, &self.along, -change)
    }
}

/// Adapts the inverse curvature V to the gradients at two points (Broyden, Fletcher, Goldfarb & Shanno 1970).
fn update(inverse: &mut Mat<f64>, before: &Point, after: &Point) {
    let (s, y) = (difference(&after.at, &before.at), difference(&after.gradient, &before.gradient));
    let (curvature, changed) = (dot(&s, &y), times(inverse, &y));
    if curvature <= FLAT * dot(&s, &s) {
        return;
    }
    let share = (1.0 + dot(&y, &changed) / curvature) / curvature;
    *inverse = Mat::from_fn(s.len(), s.len(), |i, j| {
        inverse[(i, j)] + share * s[i] * s[j] - (changed[i] * s[j] + s[i] * changed[j]) / curvature
    });
}

fn times(matrix: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    (0..matrix.nrows()).map(|i| (0..x.len()).map(|j| matrix[(i, j)] * x[j]).sum()).collect()
}

/// `x + length · direction`.
fn moved(x: &[f64], direction: &[f64], length: f64) -> Vec<f64> {
    x.iter().zip(direction).map(|(x, d)| x + length * d).collect()
}

fn difference(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x - y).collect()
}
