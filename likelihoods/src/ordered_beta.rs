//! Shares from 0 to 1 that may be exactly 0 or exactly 1: ordered beta regression (Kubinec 2022, <https://doi.org/10.1017/pan.2022.20>).

use super::bernoulli::logistic;
use super::beta::log_odds;
use super::sums::{Terms, fill, weighted_sums};
use super::{BetaLogit, LatentRow, LikelihoodKind, Observation, OneFunction};
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::vector_math::{exp, ln_1p};
use sparsegp_kernels::{Parameter, Transform};
use std::f64::consts::PI;

/// With `g(x) = 1/(1 + e^{−x})` and cut points `k_1 < k_2`: `P(0) = 1 − g(f − k_1)`, `P(1) = g(f − k_2)`, and between them a beta variable of
/// mean `g(f)` and of shapes that sum to the precision.
///
/// The own parameters are the precision, `k_1` and `k_2 − k_1`. The details `probability_of_zero` and `probability_of_one` are those of the
/// two ends. Densities are with respect to a length between the ends, and a unit mass at each end.
#[derive(Clone, Debug)]
pub struct OrderedBeta {
    inner: BetaLogit,
    first_cut: Parameter,
    gap: Parameter,
}

/// The f near the suprema of densities that grow without a peak, relative to a cut point.
const FAR: f64 = 40.0;

impl OrderedBeta {
    /// Creates the likelihood with the lower cut point, the distance of the upper one, and the precision; the latter two must be positive.
    pub fn new(first_cut: f64, gap: f64, precision: f64) -> Self {
        OrderedBeta {
            inner: BetaLogit::part(precision),
            first_cut: Parameter::new("first_cut", vec![first_cut], Transform::Identity).as_given(),
            gap: Parameter::positive("gap", vec![gap]).as_given(),
        }
    }

    /// `k_1` and `k_2`.
    fn cuts(&self) -> (f64, f64) {
        let first = self.first_cut.values[0];
        (first, first + self.gap.values[0])
    }

    /// The log probability of the part of the range that y is in: an end, or the numbers between the ends.
    fn cut_terms(&self, y: f64) -> CutTerms {
        let (low, high) = self.cuts();
        let (above, below) = (y > 0.0, y < 1.0);
        let inside = above && below;
        let constant = if inside { (-(-self.gap.values[0]).exp_m1()).ln() } else { 0.0 };
        let sign = |up: bool| if up { 1.0 } else { -1.0 };
        // Above the lower cut if y > 0, but y = 1 depends on the upper cut only; the reverse for 0.
        let lower = if above && !below { 0.0 } else { sign(above) };
        let upper = if below && !above { 0.0 } else { sign(!below) };
        CutTerms { cuts: [low, high], signs: [lower, upper], constant }
    }

    /// The probabilities of 0, of numbers between the ends, and of 1.
    fn shares(&self, f: f64) -> [f64; 3] {
        let (low, high) = self.cuts();
        let inside = logistic(f - low) * logistic(high - f) * -(-self.gap.values[0]).exp_m1();
        [logistic(low - f), inside, logistic(f - high)]
    }
}

impl OneFunction for OrderedBeta {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::OrderedBeta
    }

    /// `g(f − k_1) − g(f − k_2) = g(f − k_1) g(k_2 − f) (1 − e^{k_1 − k_2})`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let terms = self.cut_terms(at.y);
        if terms.is_inside() {
            self.inner.log_density(at, f, value, first);
            for ((f, value), first) in f.iter().zip(value).zip(first) {
                let [log, slope] = terms.at::<pulp::Scalar>(*f);
                *value += log;
                *first += slope;
            }
        } else {
            fill(terms, f, value, first);
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let terms = self.cut_terms(at.y);
        let bend = |(cut, sign): (&f64, &f64)| sign * sign * logistic(f - cut) * logistic(cut - f);
        let own = -terms.cuts.iter().zip(&terms.signs).map(bend).sum::<f64>();
        if terms.is_inside() { own + self.inner.curvature(at, f) } else { own }
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let [precision, first_cut, gap] = own else { return };
        let terms = self.cut_terms(at.y);
        let [lower, upper, _] = weighted_sums(terms, f, weights);
        *first_cut -= lower + upper;
        *gap -= upper;
        if terms.is_inside() {
            *gap += weights.iter().sum::<f64>() / self.gap.values[0].exp_m1();
            self.inner.own_gradient(at, f, weights, std::slice::from_mut(precision));
        }
    }

    /// The probabilities of the ends are singular at ±iπ.
    fn resolution(&self, at: Observation) -> Resolution {
        if self.cut_terms(at.y).is_inside() {
            self.inner.resolution(at)
        } else {
            Resolution { strip: PI, step: 0.65, concave: true, pole: None }
        }
    }

    /// Returns a point far beyond the cut for the ends, and otherwise the zero of the slope, which falls where the curvature of the beta
    /// density does.
    fn peak(&self, at: Observation) -> f64 {
        let (low, high) = self.cuts();
        match at.y {
            y if y <= 0.0 => low - FAR,
            y if y >= 1.0 => high + FAR,
            y => super::beta::newton_peak(log_odds(y), &mut |f| {
                (self.value_and_slope(at, f).1, OneFunction::curvature(self, at, f))
            }),
        }
    }

    /// Returns the log odds of a number between the ends, and points two units beyond the cuts for the ends.
    fn working_response(&self, at: Observation) -> f64 {
        let (low, high) = self.cuts();
        match at.y {
            y if y <= 0.0 => low - 2.0,
            y if y >= 1.0 => high + 2.0,
            y => log_odds(y).clamp(-30.0, 30.0),
        }
    }

    /// With the shares p, q and r of 0, of numbers between the ends and of 1: mean `q m + r` and mean square `q (m² + s²) + r`.
    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let [_, inside, one] = self.shares(f);
        let (m, spread) = self.inner.conditional_moments(at, f);
        let mean = (inside * m + one).clamp(0.0, 1.0);
        // In this form nothing cancels.
        let zero = 1.0 - inside - one;
        let variance = inside * spread
            + inside * (m - mean).powi(2)
            + one * (1.0 - mean).powi(2)
            + zero.max(0.0) * mean * mean;
        (mean, variance)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        let [zero, inside, one] = self.shares(f);
        match at.y {
            y if y < 0.0 => 0.0,
            y if y >= 1.0 => 1.0,
            0.0 => zero,
            y if y < 0.5 => zero + inside * self.inner.conditional_cdf(at, f),
            // Next to 1 the complement has more digits.
            _ => 1.0 - one - inside * (1.0 - self.inner.conditional_cdf(at, f)),
        }
    }

    fn cdf_strip(&self, at: Observation) -> f64 {
        if at.y > 0.0 && at.y < 1.0 { self.inner.cdf_strip(at).min(PI) } else { PI }
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let [zero, inside, _] = self.shares(f);
        match random.random::<f64>() {
            _ if f.is_nan() => f64::NAN,
            u if u < zero => 0.0,
            u if u < zero + inside => self.inner.sample(at, f, random),
            _ => 1.0,
        }
    }

    fn details(&self) -> &'static [&'static str] {
        &["probability_of_zero", "probability_of_one"]
    }

    fn detail(&self, which: usize, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let (mu, v) = (row.marginal.mean, row.marginal.variance);
        integrator.average(mu, v, PI, &mut |f| self.shares(f)[2 * which]).clamp(0.0, 1.0)
    }

    /// Starts the inner part as a beta likelihood of the numbers between the ends, and the cuts where they give the shares of the ends at its
    /// centre, after adding half a row to each part.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let inside: Vec<f64> = y.iter().copied().filter(|y| *y > 0.0 && *y < 1.0).collect();
        let centre = if inside.is_empty() { 0.0 } else { self.inner.initialise(&inside, exposure) };
        let n = y.len() as f64 + 1.5;
        let part = |end: f64| (y.iter().filter(|y| **y == end).count() as f64 + 0.5) / n;
        let low = centre + log_odds(part(0.0));
        let high = centre - log_odds(part(1.0));
        self.first_cut.start(|_| low);
        self.gap.start(|_| (high - low).max(0.1));
        centre
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.inner.for_each_parameter(visit);
        visit(&self.first_cut);
        visit(&self.gap);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.inner.for_each_parameter_mut(visit);
        visit(&mut self.first_cut);
        visit(&mut self.gap);
    }
}

/// `Σ log g(sign (f − k)) + constant` over the cuts with a sign other than 0.
#[derive(Clone, Copy)]
struct CutTerms {
    cuts: [f64; 2],
    signs: [f64; 2],
    constant: f64,
}

impl CutTerms {
    /// True if y lies between the ends, where both cuts matter.
    fn is_inside(&self) -> bool {
        self.signs[0] * self.signs[1] != 0.0
    }

    /// `log g(sign (f − k))` and its slope in f, 0 for a sign of 0.
    #[inline(always)]
    fn term<S: Simd>(f: f64, cut: f64, sign: f64) -> (f64, f64) {
        let x = sign * (f - cut);
        let e = exp::<S>(-x.abs());
        let share = 1.0 / (1.0 + e);
        let value = if x < 0.0 { x } else { 0.0 } - ln_1p::<S>(e);
        (sign * sign * value, sign * if x < 0.0 { share } else { e * share })
    }
}

impl Terms<2> for CutTerms {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let CutTerms { cuts, signs, constant } = *self;
        let (lower, slope) = Self::term::<S>(f, cuts[0], signs[0]);
        let (upper, upper_slope) = Self::term::<S>(f, cuts[1], signs[1]);
        [lower + upper + constant, slope + upper_slope]
    }
}

/// The slopes of both cuts, which are minus the derivatives in them.
impl Terms<3> for CutTerms {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 3] {
        let CutTerms { cuts, signs, .. } = *self;
        [Self::term::<S>(f, cuts[0], signs[0]).1, Self::term::<S>(f, cuts[1], signs[1]).1, 0.0]
    }
}
