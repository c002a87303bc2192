//! q of several functions optimised on all rows: natural-gradient steps, which treat one function
//! at a time, are extrapolated jointly.
//!
//! A full natural-gradient step moves the posterior of every function to the sites of its gradient, as if the other functions were fixed.
//! If functions are coupled, like the scores of classes, simultaneous steps overshoot, or creep along directions that only the sum of the
//! functions determines. The fixed point is extrapolated from the last few steps (Pulay 1980; Anderson 1965): among all weights with `Σ α_j
//! = 1`, it takes those with the smallest residual `Σ α_j r_j` in the metric of Fisher information. In this metric `½ β ‖r‖²` is also the
//! gain of a step to second order.

use super::model::VariationalModel;
use super::solve::{SolveLimits, UpdateCounts, record_step};
use crate::error::Result;
use crate::hyper::Monitor;
use crate::linalg::{self, Operand, Part, dot, product};
use crate::training::row_sums::Sweep;
use crate::variational::{DataGradient, Evidence, Matrix, Normal};
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, Side};
use std::collections::VecDeque;

/// The number of steps in an extrapolation.
const DEPTH: usize = 5;

/// The gain of a step, in nats per row, below which extrapolations begin; the metric is that of this point.
const NEAR: f64 = 0.02;

const SMALLEST_STEP: f64 = 1e-4;

type Sites = Vec<Evidence>;

/// Returns `a + weight · b`.
fn plus(a: &[Evidence], b: &[Evidence], weight: f64) -> Sites {
    let mut sum = a.to_vec();
    add(&mut sum, b, weight);
    sum
}

fn add(sum: &mut [Evidence], term: &[Evidence], weight: f64) {
    let terms = sum.iter_mut().zip(term);
    terms.for_each(|(sum, term)| sum.add(term, weight));
}

/// Returns the posteriors of sites; `None` if one of them is invalid.
fn posteriors(sites: &[Evidence]) -> Option<Vec<Normal>> {
    sites.iter().map(Evidence::posterior).collect()
}

/// Returns the sites `Λ = 2∇_S/β`, `λ = Λm − ∇_m/β` that a full step leads to.
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
    /// Returns the image of a change, which a product takes as its second factor.
    fn image(&self, change: &[Evidence]) -> Sites {
        let of_one = |(q, change): (&Normal, &Evidence)| {
            let (m, cov, all) = (q.dim(), q.cov().full(), full(&change.precision));
            let (mut half, mut image) = (linalg::spread(m, m), linalg::spread(m, m));
            product(half.as_mut(), Part::All, Accum::Replace, Operand::full(cov), Operand::full(all), 0.5);
            product(
                image.as_mut(),
                Part::All,
                Accum::Replace,
                Operand::full(half.as_ref()),
                Operand::full(cov),
                1.0,
            );
            let mut shift = vec![0.0; m];
            linalg::matvec(cov, &Self::force(q, change), &mut shift);
            Evidence { precision: Matrix::Full(image), shift }
        };
        self.0.iter().zip(change).map(of_one).collect()
    }

    /// Returns the product of a change with another one, given the image of the other.
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

/// The last steps near the fixed point.
#[derive(Default)]
struct History {
    /// The posteriors at which the metric is taken.
    near: Vec<Normal>,
    /// For each step: its goal, its residual, and the products of the residual with earlier ones and itself.
    steps: VecDeque<(Sites, Sites, Vec<f64>)>,
}

impl History {
    /// Adds the goal and the residual of a step from `q`; returns the squared length of the residual.
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

    /// Returns the combination of the last goals that estimates the fixed point; `None` for a single step.
    fn extrapolated(&self) -> Option<Sites> {
        let count = self.steps.len();
        if count < 2 {
            return None;
        }
        let products = |i: usize, j: usize| self.steps[i.max(j)].2[i.min(j)];
        let length = |i: usize| products(i, i).sqrt();
        // Rounding errors of nearly parallel residuals do not define a direction.
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

struct Descent {
    /// The sites of the current posteriors, and the objective there, a sum.
    at: Sites,
    value: f64,
    history: History,
    /// The share of a full step that is taken if nothing is extrapolated.
    share: f64,
    counts: UpdateCounts,
}

impl Descent {
    /// Moves the posteriors to the extrapolated sites or by a share of a full step, `residual`, whichever first does not raise the
    /// objective. Returns true if no move helps.
    fn step(&mut self, svgp: &mut VariationalModel, sweep: Sweep<'_>, residual: &[Evidence]) -> Result<bool> {
        loop {
            let further = self.history.extrapolated().and_then(|sites| Some((posteriors(&sites)?, sites)));
            let extrapolates = further.is_some();
            let plain = || {
                let sites = plus(&self.at, residual, self.share);
                Some((posteriors(&sites)?, sites))
            };
            let candidate = further.or_else(plain);
            let before = svgp.posteriors().to_vec();
            let next = match &candidate {
                Some((q, _)) => {
                    svgp.set_q(q.clone());
                    self.counts.evaluations += 1;
                    svgp.evaluate_all(sweep, false, None)?
                }
                None => f64::NAN,
            };
            if let Some((_, sites)) = candidate.filter(|_| next <= self.value) {
                (self.value, self.at) = (next, sites);
                self.share = f64::min(1.0, 2.0 * self.share);
                return Ok(false);
            }
            svgp.set_q(before);
            self.counts.rollbacks += 1;
            // The objective has reached its minimum, up to rounding errors.
            let mut ends = next - self.value <= f64::EPSILON * self.value.abs().max(sweep.count()) * 64.0;
            if extrapolates {
                self.history.steps.clear();
            } else {
                self.share *= 0.5;
                ends |= self.share < SMALLEST_STEP;
            }
            if ends {
                return Ok(true);
            }
        }
    }
}

/// Moves the posteriors of all processes on all rows until a step gains less than the tolerance; see [`solve_q`](super::solve::solve_q).
pub(in crate::training) fn descend_together(
    svgp: &mut VariationalModel,
    sweep: Sweep<'_>,
    limits: SolveLimits,
    mut monitor: Option<&mut Monitor<'_>>,
) -> Result<(f64, UpdateCounts)> {
    let (beta, n) = (svgp.objective().beta, sweep.count());
    let value = svgp.evaluate_all(sweep, false, None)?;
    let counts = UpdateCounts { evaluations: 1, rollbacks: 0 };
    let Some(at) = svgp.posteriors().iter().map(Evidence::of).collect::<Option<Sites>>() else {
        return Ok((value, counts));
    };
    let mut descent = Descent { at, value, history: History::default(), share: 1.0, counts };
    let mut gain = f64::INFINITY;
    for _ in 0..limits.steps {
        let stopped = monitor.as_ref().is_some_and(|monitor| monitor.stopped().is_some());
        if !descent.value.is_finite() || stopped || limits.is_over() {
            break;
        }
        if gain > NEAR {
            descent.history.steps.clear();
        }
        let posteriors = svgp.posteriors().iter().enumerate();
        let goal: Sites =
            posteriors.map(|(process, q)| asked_for(q, svgp.q_gradient_of(process), beta)).collect();
        let residual = plus(&goal, &descent.at, -1.0);
        gain = 0.5 * beta * descent.history.learn(svgp.posteriors(), goal, residual.clone()) / n;
        let ends = gain < limits.tolerance || gain.is_nan() || descent.step(svgp, sweep, &residual)?;
        record_step(monitor.as_deref_mut(), descent.value / n, ends);
        if ends {
            break;
        }
    }
    Ok((descent.value, descent.counts))
}
