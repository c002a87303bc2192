//! q of several functions solved for on all rows: natural-gradient steps, which see one function at a time, extrapolated together; no θ.
//!
//! A full natural-gradient step takes every posterior to the sites that its own function's gradient asks for, as if the others stayed
//! where they are. Where functions are coupled, as the scores of classes are, steps of all of them overshoot or creep along what
//! only their sum knows. Their fixed point is extrapolated from the last few of them (Pulay 1980; Anderson 1965): of all weights `Σ α_j = 1` those
//! for which the residual `Σ α_j r_j` is smallest in the metric of Fisher information, in which `½ β ‖r‖²` is also what a step gains
//! to second order.

use super::solve::{FullBatch, SolveLimits, UpdateCounts};
use super::variational::VariationalModel;
use crate::error::Result;
use crate::hyper::{Monitor, StopReason};
use crate::linalg::{self, Part, Shape, dot, product};
use crate::variational::{DataGradient, Evidence, Matrix, Normal};
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, Side};
use std::collections::VecDeque;

/// Steps that an extrapolation is from.
const DEPTH: usize = 5;

/// Nats per datum that a step may gain for extrapolations to begin: the metric is that of the place where they do.
const NEAR: f64 = 0.02;

/// The smallest share of a step.
const SMALLEST_STEP: f64 = 1e-4;

/// The sites of all processes.
type Sites = Vec<Evidence>;

/// `a + weight · b`.
fn plus(a: &[Evidence], b: &[Evidence], weight: f64) -> Sites {
    let mut sum = a.to_vec();
    add(&mut sum, b, weight);
    sum
}

fn add(sum: &mut [Evidence], term: &[Evidence], weight: f64) {
    let terms = sum.iter_mut().zip(term);
    terms.for_each(|(sum, term)| sum.add(term.precision.as_ref(), &term.shift, weight));
}

/// The posteriors of sites; `None` where one of them is none.
fn posteriors(sites: &[Evidence]) -> Option<Vec<Normal>> {
    sites.iter().map(Evidence::posterior).collect()
}

/// The sites `Λ = 2∇_S/β`, `λ = Λm − ∇_m/β` that a full step leads to.
fn asked_for(q: &Normal, gradient: DataGradient<'_>, beta: f64) -> Evidence {
    let all = gradient.cov.full();
    let precision = linalg::spread_copy(all) * faer::Scale(2.0 / beta);
    let mut shift = vec![0.0; q.dim()];
    linalg::matvec(precision.as_ref(), q.mean(), &mut shift);
    shift.iter_mut().zip(gradient.mean).for_each(|(shift, g)| *shift -= g / beta);
    Evidence { precision: Matrix::Full(precision), shift }
}

/// The Fisher information at posteriors as a metric of changes of sites: `eᵀSe + ½ tr(S ΔΛ S ΔΛ)`, `e = ΔΛ m − Δλ`.
struct Metric<'a>(&'a [Normal]);

impl Metric<'_> {
    /// What the product of a change with another one is taken with.
    fn image(&self, change: &[Evidence]) -> Sites {
        let of_one = |(q, change): (&Normal, &Evidence)| {
            let (m, cov, all) = (q.dim(), q.cov().full(), full(&change.precision));
            let (mut half, mut image) = (linalg::spread(m, m), linalg::spread(m, m));
            let square = |matrix| (matrix, Shape::Full);
            product(half.as_mut(), Part::All, Accum::Replace, square(cov), square(all), 0.5);
            product(image.as_mut(), Part::All, Accum::Replace, square(half.as_ref()), square(cov), 1.0);
            let mut shift = vec![0.0; m];
            linalg::matvec(cov, &Self::force(q, change), &mut shift);
            Evidence { precision: Matrix::Full(image), shift }
        };
        self.0.iter().zip(change).map(of_one).collect()
    }

    /// The product of a change with what another one's image is.
    fn product(&self, change: &[Evidence], image: &[Evidence]) -> f64 {
        let of_one = |((q, change), image): ((&Normal, &Evidence), &Evidence)| {
            let columns = full(&change.precision).col_iter().zip(full(&image.precision).col_iter());
            let trace: f64 = columns.map(|(a, b)| a.transpose() * b).sum();
            dot(&Self::force(q, change), &image.shift) + trace
        };
        self.0.iter().zip(change).zip(image).map(of_one).sum()
    }

    fn force(q: &Normal, change: &Evidence) -> Vec<f64> {
        let mut force = vec![0.0; q.dim()];
        linalg::matvec(full(&change.precision), q.mean(), &mut force);
        force.iter_mut().zip(&change.shift).for_each(|(force, shift)| *force -= shift);
        force
    }
}

fn full(matrix: &Matrix) -> faer::MatRef<'_, f64> {
    matrix.as_ref().full()
}

/// The last steps from near the fixed point.
#[derive(Default)]
struct History {
    /// Where the metric is.
    near: Vec<Normal>,
    /// Where steps lead to, how far that is, and the products of that with those before and itself.
    steps: VecDeque<(Sites, Sites, Vec<f64>)>,
}

impl History {
    /// Takes in where a step from `q` leads to and how far that is; its squared length comes back.
    fn learn(&mut self, q: &[Normal], goal: Sites, residual: Sites) -> f64 {
        if self.steps.is_empty() {
            self.near = q.to_vec();
        }
        if self.steps.len() == DEPTH {
            self.steps.pop_front();
            self.steps.iter_mut().for_each(|step| {
                step.2.remove(0);
            });
        }
        let metric = Metric(&self.near);
        let image = metric.image(&residual);
        let length = metric.product(&residual, &image);
        let mut products: Vec<f64> = self.steps.iter().map(|step| metric.product(&step.1, &image)).collect();
        products.push(length);
        self.steps.push_back((goal, residual, products));
        length
    }

    /// The combination of where the last steps lead to that should be the fixed point; `None` of a single one.
    fn extrapolated(&self) -> Option<Sites> {
        let count = self.steps.len();
        if count < 2 {
            return None;
        }
        let products = |i: usize, j: usize| self.steps[i.max(j)].2[i.min(j)];
        let length = |i: usize| products(i, i).sqrt();
        // What rounding leaves of distances that are nearly parallel is no direction.
        const RIDGE: f64 = 1e-12;
        let cosine =
            |i: usize, j: usize| products(i, j) / (length(i) * length(j)) + if i == j { RIDGE } else { 0.0 };
        let right = Mat::from_fn(count, 1, |i, _| 1.0 / length(i));
        let solved = Mat::from_fn(count, count, cosine).llt(Side::Lower).ok()?.solve(&right);
        let weights: Vec<f64> = (0..count).map(|i| solved[(i, 0)] / length(i)).collect();
        let total: f64 = weights.iter().sum();
        let weight = |i: usize| weights[i] / total;
        if !(0..count).all(|i| weight(i).is_finite()) {
            return None;
        }
        let last = count - 1;
        let mut sites = plus(&self.steps[last].0, &self.steps[last].0, weight(last) - 1.0);
        (0..last).for_each(|i| add(&mut sites, &self.steps[i].0, weight(i)));
        Some(sites)
    }
}

/// Moves the posteriors of all processes on all data until a step gains less than the tolerance; see [`solve_q`](super::solve::solve_q).
///
/// # Errors
///
/// When rows cannot be read.
pub(super) fn descend_together(
    svgp: &mut VariationalModel,
    full: &mut FullBatch<'_>,
    (limits, n): (SolveLimits, f64),
    mut monitor: Option<&mut Monitor<'_>>,
) -> Result<(f64, UpdateCounts)> {
    let beta = svgp.objective().beta;
    let mut value = full.evaluate(svgp)?;
    let mut counts = UpdateCounts { evaluations: 1, rollbacks: 0 };
    let Some(mut at) = svgp.posteriors().iter().map(Evidence::of).collect::<Option<Sites>>() else {
        return Ok((value, counts));
    };
    let (mut history, mut share, mut gain) = (History::default(), 1.0, f64::INFINITY);
    for _ in 0..limits.steps {
        if !value.is_finite() || monitor.as_ref().is_some_and(|monitor| monitor.stopped().is_some()) {
            break;
        }
        if gain > NEAR {
            history.steps.clear();
        }
        let goal: Sites =
            full.gradients().zip(svgp.posteriors()).map(|(g, q)| asked_for(q, g, beta)).collect();
        let residual = plus(&goal, &at, -1.0);
        gain = 0.5 * beta * history.learn(svgp.posteriors(), goal, residual.clone()) / n;
        let mut ends = gain < limits.tolerance || gain.is_nan();
        while !ends {
            let further = history.extrapolated().and_then(|sites| Some((posteriors(&sites)?, sites)));
            let extrapolates = further.is_some();
            let plain = || {
                let sites = plus(&at, &residual, share);
                Some((posteriors(&sites)?, sites))
            };
            let candidate = further.or_else(plain);
            let before = svgp.posteriors().to_vec();
            let next = match &candidate {
                Some((q, _)) => {
                    svgp.set_q(q.clone());
                    counts.evaluations += 1;
                    full.evaluate(svgp)?
                }
                None => f64::NAN,
            };
            if let Some((_, sites)) = candidate.filter(|_| next <= value) {
                (value, at) = (next, sites);
                share = f64::min(1.0, 2.0 * share);
                break;
            }
            svgp.set_q(before);
            counts.rollbacks += 1;
            // Within rounding of the best there is.
            ends = next - value <= f64::EPSILON * value.abs().max(n) * 64.0;
            if extrapolates {
                history.steps.clear();
            } else {
                share *= 0.5;
                ends |= share < SMALLEST_STEP;
            }
        }
        if let Some(monitor) = &mut monitor {
            monitor.record(value / n, None);
            monitor.look_around(None);
            if ends {
                monitor.stop(StopReason::Converged);
            }
        }
        if ends {
            break;
        }
    }
    Ok((value, counts))
}
