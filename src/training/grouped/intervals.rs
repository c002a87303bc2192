//! 95 % intervals of variance components by the profile likelihood, from the exact gradient of the
//! evidence.
//!
//! An end of the interval of a quantity g(θ) is the extreme of g where the evidence is 1.92 nats below its maximum, half the 95 % quantile of χ²
//! with one degree of freedom (Venzon & Moolgavkar 1988). All other free parameters are maximised over. Inducing inputs are parameters of the
//! approximation and not of the model, and do not move.
//!
//! The search starts at the Wald interval `g ± 1.96 √(aᵀVa)`, where a is the gradient of g and V the inverse of the observed information H in the
//! free parameters (logarithms of standard deviations). From there every evaluation gives a Newton step along `u = Va/(aᵀVa)`, which changes
//! g by 1, and a Newton step with `P = V − Va aᵀV/(aᵀVa)` towards the maximum over all points of the same g.

use super::coordinates::{Coordinates, Row};
use crate::effects::{Components, EffectIntervals, Ends, Quantity, TermIntervals};
use crate::error::Result;
use crate::hyper::Monitor;
use crate::likelihood::functions::normal::HALF_95;
use crate::linalg::{dot, symmetric_eigen};
use crate::training::solver::Solved;
use faer::Mat;
use std::time::{Duration, Instant};

/// The depth of both ends below the maximum, in nats.
const DEPTH: f64 = 0.5 * HALF_95 * HALF_95;

/// The step in a free parameter for central differences, and the largest change of the objective
/// over such a step.
const STEP: f64 = 1e-3;
const MOST_CHANGE: f64 = 1e-3;

/// The curvature, in nats per squared unit of a free parameter, below which a direction counts as
/// flat: along it a positive parameter could change by a factor of e¹⁴⁰ without a noticeable change
/// of the evidence.
const FLAT: f64 = 1e-4;

/// The maximum number of free parameters that intervals maximise over; if there are more, the
/// parameters of the kernel do not move.
const MOST_FREE: usize = 60;

/// An estimate counts as 0 if removing the effect loses less than this, in nats.
const NOTHING: f64 = 1e-3;

/// A fit has intervals only if it is at most this far from the maximum, in nats.
const NEAR: f64 = 0.05;

/// A search ends with a last Newton step once its errors, in standard deviations and in nats, are
/// below `TOLERANCE`. Its steps in the unbounded quantity are at most `LONGEST`, and it takes at
/// most `MOST_EVALUATIONS` evaluations.
const TOLERANCE: f64 = 0.02;
const LONGEST: f64 = 1.5;
const MOST_EVALUATIONS: usize = 40;

/// The logarithm of a standard deviation that represents 0, and the one from which the search for
/// an upper end starts if the estimate is 0.
const ZERO: f64 = -25.0;
const FIRST: f64 = -5.0;

/// The search for all intervals may take at least this long, and otherwise as long as the fit.
const LEAST_TIME: Duration = Duration::from_secs(30);

/// The distance from the estimate in the unbounded quantity beyond which an end counts as infinite.
const BEYOND: f64 = 12.0;

/// Returns the intervals of all variance components of a model at the maximum of its evidence; `None` if nothing is free or the model is not near
/// a maximum.
pub(super) fn effect_intervals(
    objective: &mut dyn Solved,
    target_mean: f64,
    monitor: &mut Monitor<'_>,
) -> Result<Option<EffectIntervals>> {
    let late = until(monitor);
    let Some(mut surface) = Surface::new(objective, target_mean, late) else { return Ok(None) };
    let mut out = EffectIntervals::default();
    let effects = surface.components.effects.clone();
    out.terms = effects.terms().iter().map(|_| TermIntervals::default()).collect();
    for quantity in Quantity::all(&effects) {
        // After that time the remaining intervals stay unknown.
        let ends = if Instant::now() >= late { None } else { surface.interval(quantity) };
        monitor.session.check()?;
        match quantity {
            Quantity::Sd { term, .. } => out.terms[term].sd.push(ends),
            Quantity::Correlation { term, .. } => out.terms[term].correlations.push(ends),
            Quantity::Share { term } => out.terms[term].share = ends,
            Quantity::Noise => out.noise = ends,
        }
    }
    Ok(Some(out))
}

/// Returns the time at which the search ends: at the time limit of the fit, and after at most as long as the fit took.
fn until(monitor: &Monitor<'_>) -> Instant {
    let (now, spent) = (Instant::now(), monitor.elapsed());
    let limit = monitor.limits.seconds.map(|seconds| now + whole(seconds - spent.as_secs_f64()));
    let ends = [limit, monitor.session.end(), Some(now + spent.max(LEAST_TIME))];
    ends.into_iter().flatten().min().unwrap_or(now)
}

/// Returns a number of seconds as a duration of at most a year; 0 if it is negative.
fn whole(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 3.2e7))
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

/// Minus the log evidence around its minimum, as a function of some free parameters.
struct Surface<'a> {
    objective: &'a mut dyn Solved,
    components: Components,
    coordinates: Coordinates,
    /// The minimum, with its value by a quadratic approximation.
    best: Point,
    /// V: the inverse of the second derivatives at the minimum, 0 along flat directions.
    inverse: Mat<f64>,
    /// The loss in nats of removing an effect at fixed other parameters, by term and effect; it is
    /// an upper bound on the profile's loss.
    losses: Vec<Vec<Option<f64>>>,
    /// The time after which nothing is evaluated.
    late: Instant,
}

impl<'a> Surface<'a> {
    /// Creates the surface around the start of `objective`, with its curvature and the losses of
    /// removing effects.
    fn new(objective: &'a mut dyn Solved, target_mean: f64, late: Instant) -> Option<Self> {
        let model = &objective.place().model;
        let components =
            Components { effects: model.effects.clone(), likelihood: model.likelihood.clone(), target_mean };
        let coordinates = Coordinates::new(objective.place(), MOST_FREE);
        let at = coordinates.start().to_vec();
        let inverse = Mat::zeros(at.len(), at.len());
        let best = Point { at: at.clone(), value: 0.0, gradient: Vec::new() };
        let losses = Vec::new();
        let mut surface = Surface { objective, components, coordinates, best, inverse, losses, late };
        surface.best = surface.evaluate(at, None)?;
        surface.remove_effects();
        surface.curve()?;
        let rest = 0.5 * surface.quadratic(&surface.best.gradient);
        surface.best.value -= rest;
        (rest <= NEAR).then_some(surface)
    }

    /// Evaluates the objective; `None` if it is not finite or it is late. See [`Coordinates::theta`] for `own`.
    fn evaluate(&mut self, at: Vec<f64>, own: Option<Row>) -> Option<Point> {
        if Instant::now() >= self.late {
            return None;
        }
        let theta = self.coordinates.theta(&at, own);
        let mut slopes = vec![0.0; theta.len()];
        let value = self.objective.value_and_gradient(&theta, &mut slopes);
        let gradient = self.coordinates.pull_back(&at, own, &slopes);
        let finite = value.is_finite() && gradient.iter().all(|slope| slope.is_finite());
        finite.then_some(Point { at, value, gradient })
    }

    /// Measures the loss of removing every effect whose standard deviation is free.
    fn remove_effects(&mut self) {
        let effects = self.components.effects.clone();
        for (term, of) in effects.terms().iter().enumerate() {
            let losses = (0..of.width()).map(|effect| {
                let row = Row { term, effect };
                let mut at = self.best.at.clone();
                at[self.coordinates.place(row)?] = ZERO;
                Some(self.evaluate(at, Some(row))?.value - self.best.value)
            });
            let losses = losses.collect();
            self.losses.push(losses);
        }
    }

    /// Returns true if the user's 0 of a term's slopes is not the 0 of its factor.
    fn is_moved(&self, term: usize) -> bool {
        self.components.effects.terms()[term].moved_origins().is_some()
    }

    /// Returns the loss of removing the intercepts at the user's 0 of a term's slopes, if all effects of the term are free.
    fn loss_at_origin(&mut self, term: usize) -> Option<f64> {
        let (theta, place) = (self.coordinates.theta(&self.best.at, None), self.objective.place());
        let mut effects = place.effects_at(&theta);
        let mut all = 0..effects.terms()[term].width();
        let are_free = all.all(|effect| self.coordinates.place(Row { term, effect }).is_some());
        effects.remove_intercept_at_origin(term);
        let theta = place.with_effects(&theta, &effects);
        let value = self.objective.value_and_gradient(&theta, &mut vec![0.0; theta.len()]);
        (are_free && value.is_finite()).then_some(value - self.best.value)
    }

    /// Returns the coordinates of effects whose estimate is 0.
    fn gone(&self) -> Vec<usize> {
        let rows = self.losses.iter().enumerate().flat_map(|(term, losses)| {
            losses.iter().enumerate().map(move |(effect, loss)| (Row { term, effect }, *loss))
        });
        let gone = rows.filter(|(_, loss)| loss.is_some_and(|loss| loss < NOTHING));
        gone.flat_map(|(row, _)| self.coordinates.places(row)).collect()
    }

    /// Finds V by central differences of the gradient. Effects whose estimate is 0 do not move.
    fn curve(&mut self) -> Option<()> {
        let count = self.best.at.len();
        let gone = self.gone();
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

    /// Returns the derivatives of the gradient in one coordinate. Steps that change the objective
    /// much are too long for central differences.
    fn column(&mut self, column: usize) -> Option<Vec<f64>> {
        let mut step = STEP;
        loop {
            let mut shifted = |step: f64| {
                let mut at = self.best.at.clone();
                at[column] += step;
                self.evaluate(at, None)
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

    /// Returns `xᵀVx`.
    fn quadratic(&self, x: &[f64]) -> f64 {
        dot(x, &times(&self.inverse, x))
    }

    /// Returns the interval of a quantity, if its parameters are free and it has one.
    fn interval(&mut self, quantity: Quantity) -> Option<Ends> {
        let row = row_of(quantity);
        let moved = row.filter(|row| row.effect == 0 && self.is_moved(row.term));
        let loss = match moved {
            Some(Row { term, .. }) => self.loss_at_origin(term),
            None => row.and_then(|row| self.losses[row.term][row.effect]),
        };
        let loss = loss.unwrap_or(f64::INFINITY);
        // The intercept at the user's 0 depends on several rows of the factor, all of which move linearly.
        let own = row.filter(|_| moved.is_none() || loss < NOTHING);
        let from = Start { at: self.best.at.clone(), inverse: self.inverse.clone(), own };
        if let Some(row) = own.filter(|_| loss < NOTHING) {
            return self.above_zero(quantity, row, from);
        }
        let middle = self.value(quantity, &from.at, own)?;
        if matches!(quantity, Quantity::Correlation { .. }) && middle.tanh().abs() > 0.999 {
            return None;
        }
        let lower =
            if loss < DEPTH { 0.0 } else { quantity.bounded(self.end(quantity, &from, Side::Lower)?) };
        let upper = quantity.bounded(self.end(quantity, &from, Side::Upper)?);
        Some([lower, upper]).filter(|ends| ends.iter().all(|end| end.is_finite()))
    }

    /// Returns the interval from 0 of a quantity whose estimate is 0.
    fn above_zero(&mut self, quantity: Quantity, row: Row, mut from: Start) -> Option<Ends> {
        let place = self.coordinates.place(row)?;
        from.at[place] = from.at[place].max(FIRST);
        from.inverse[(place, place)] = 1.0;
        let upper = self.end(quantity, &from, Side::Upper)?;
        Some([0.0, quantity.bounded(upper)]).filter(|ends| ends[1].is_finite())
    }

    /// Returns the end of an interval on the whole line. Where one way to move standard deviations fails, the other may succeed.
    fn end(&mut self, quantity: Quantity, from: &Start, side: Side) -> Option<f64> {
        let linear = Start { at: from.at.clone(), inverse: from.inverse.clone(), own: None };
        self.search(quantity, from, side).or_else(|| self.search(quantity, &linear, side))
    }

    /// Searches for an end as [`Start::own`] says.
    fn search(&mut self, quantity: Quantity, from: &Start, side: Side) -> Option<f64> {
        let (start, mut inverse, own) = (&from.at[..], from.inverse.clone(), from.own);
        let (middle, goal) = (self.value(quantity, start, own)?, side.sign() * HALF_95);
        let first = Frame::new(self.gradient(quantity, start, own)?, &inverse)?;
        let length = (HALF_95 * first.variance.sqrt()).min(LONGEST);
        let mut at = moved(start, &first.along, side.sign() * length);
        let mut last: Option<Point> = None;
        for _ in 0..MOST_EVALUATIONS {
            let value = self.value(quantity, &at, own)?;
            if side.sign() * (value - middle) > BEYOND {
                return Some(side.sign() * f64::INFINITY);
            }
            let Some(point) = self.evaluate(at.clone(), own) else {
                at = moved(start, &difference(&at, start), 0.5);
                continue;
            };
            if let Some(last) = &last {
                update(&mut inverse, last, &point);
            }
            let frame = Frame::new(self.gradient(quantity, &at, own)?, &inverse)?;
            let (slope, across) =
                (dot(&point.gradient, &frame.along), frame.across(&point.gradient, &inverse));
            let gain = 0.5 * dot(&point.gradient, &across);
            let depth = (point.value - gain - self.best.value).max(0.0);
            let deviate = side.sign() * (2.0 * depth).sqrt();
            let outward = side.sign() * slope > 0.0 && depth > 0.0;
            let newton = if outward { (goal - deviate) * deviate / slope } else { side.sign() * LONGEST };
            if outward && (goal - deviate).abs() < TOLERANCE && gain < TOLERANCE {
                return Some(value + newton);
            }
            let longest = LONGEST.min(2.0 * frame.variance.sqrt());
            // Beyond a gain of a nat the quadratic approximation no longer holds, so the step is shortened.
            let share = (1.0 / gain.max(1e-300)).sqrt().min(1.0);
            at = moved(&at, &frame.along, newton.clamp(-longest, longest));
            at = moved(&at, &across, -share);
            last = Some(point);
        }
        None
    }

    /// Returns a quantity on the whole line at a point.
    fn value(&mut self, quantity: Quantity, at: &[f64], own: Option<Row>) -> Option<f64> {
        let natural = self.objective.place().natural_at(&self.coordinates.theta(at, own));
        let (components, model) = (&mut self.components, &self.objective.place().model);
        model.read_components(&natural, &mut components.likelihood, &mut components.effects);
        components.value(quantity)
    }

    /// Returns the gradient of a quantity by central differences, which cost no evaluation of the
    /// objective.
    fn gradient(&mut self, quantity: Quantity, at: &[f64], own: Option<Row>) -> Option<Vec<f64>> {
        let slope = |place: usize| {
            let mut shifted = |step: f64| {
                let mut at = at.to_vec();
                at[place] += step;
                self.value(quantity, &at, own)
            };
            Some((shifted(1e-5)? - shifted(-1e-5)?) / 2e-5)
        };
        (0..at.len()).map(slope).collect()
    }
}

/// Returns the row of the factor that is 0 if the quantity is 0.
fn row_of(quantity: Quantity) -> Option<Row> {
    match quantity {
        Quantity::Sd { term, effect } => Some(Row { term, effect }),
        Quantity::Share { term } => Some(Row { term, effect: 0 }),
        Quantity::Correlation { .. } | Quantity::Noise => None,
    }
}

struct Start {
    at: Vec<f64>,
    /// The inverse curvature V at that point.
    inverse: Mat<f64>,
    /// The row whose standard deviation is moved by its logarithm.
    own: Option<Row>,
}

/// The gradient a of a quantity, and the direction u that changes the quantity by 1.
struct Frame {
    gradient: Vec<f64>,
    /// `aᵀVa`.
    variance: f64,
    /// `u = Va/(aᵀVa)`.
    along: Vec<f64>,
}

impl Frame {
    /// Creates the frame; `None` if the quantity does not depend on the coordinates.
    fn new(gradient: Vec<f64>, inverse: &Mat<f64>) -> Option<Frame> {
        let changed = times(inverse, &gradient);
        let variance = dot(&gradient, &changed);
        let along = changed.iter().map(|x| x / variance).collect();
        (variance > 0.0 && variance.is_finite()).then_some(Frame { gradient, variance, along })
    }

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

/// Returns `x + length · direction`.
fn moved(x: &[f64], direction: &[f64], length: f64) -> Vec<f64> {
    x.iter().zip(direction).map(|(x, d)| x + length * d).collect()
}

fn difference(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x - y).collect()
}
