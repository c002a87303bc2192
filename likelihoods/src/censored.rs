//! Families of one function whose targets may be known only to lie in an interval.
//!
//! `P(Y > y|f)` of the families here rises with f, with the slope `q = p(y|f)` for a location, `q = y p(y|f)` for positive numbers, and
//! `q = (y + 1) p(y + 1|f)` for counts, both with the logarithm as their link. So an interval has the derivatives
//! `∂_f P(a < Y ≤ b) = q(a) − q(b)`, and the log density and the tails of a family are all that is needed. Both ends of an interval of counts
//! belong to it: a count that is censored on the right at y is y or more.

use super::functions::gamma::Tail;
use super::{LatentRow, LikelihoodKind, Local, Observation, OneFunction};
use crate::quadrature::{Expectation, Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;

/// A family with accurate tails.
pub trait Tails: OneFunction + Clone + 'static {
    /// A tail of `P(Y ≤ at.y|f)`, divided by the slope of `P(Y > at.y|f)` in f, whose logarithm is given.
    fn tail(&self, at: Observation, f: f64, log_slope: f64) -> Tail;
}

/// The family F for targets that are known or [in an interval](Observation::other_end).
#[derive(Clone, Debug)]
pub struct Censored<F> {
    family: F,
}

/// The relative distance of the values of a parameter by which log probabilities are differentiated, in widths of the density of f of at least
/// [`NARROW`], and the weights at so many distances.
const APART: f64 = 1e-3;
const NARROW: f64 = 0.01;
const STENCIL: [(f64, f64); 4] =
    [(-2.0, 1.0 / 12.0), (-1.0, -2.0 / 3.0), (1.0, 2.0 / 3.0), (2.0, -1.0 / 12.0)];

/// The number of widths of the density from a censored target to the f where its probability is practically 1.
const FAR: f64 = 40.0;

/// One end of an interval.
#[derive(Clone, Copy)]
struct End {
    /// `log P(Y ≤ y)` and `log P(Y > y)`.
    below: f64,
    above: f64,
    /// The slope of `P(Y > y)` in f, divided by each of these.
    by_below: f64,
    by_above: f64,
    /// The derivative of the logarithm of the slope.
    bend: f64,
}

impl End {
    const LOWEST: End = End { below: f64::NEG_INFINITY, above: 0.0, by_below: 0.0, by_above: 0.0, bend: 0.0 };
    const HIGHEST: End = End { below: 0.0, above: f64::NEG_INFINITY, ..End::LOWEST };

    fn of(tail: Tail, log_slope: f64, bend: f64) -> End {
        let both = |ratio: f64| {
            let own = if log_slope == f64::NEG_INFINITY { log_slope } else { (log_slope + ratio).min(0.0) };
            let other = ln_1m_exp(-own);
            (own, other, (-ratio).exp(), (log_slope - other).exp())
        };
        match tail {
            Tail::Below(ratio) => {
                let (below, above, by_below, by_above) = both(ratio);
                End { below, above, by_below, by_above, bend }
            }
            Tail::Above(ratio) => {
                let (above, below, by_above, by_below) = both(ratio);
                End { below, above, by_below, by_above, bend }
            }
        }
    }
}

/// `log (1 − e^{−d})` for `d ≥ 0`.
fn ln_1m_exp(d: f64) -> f64 {
    if d > std::f64::consts::LN_2 { (-(-d).exp()).ln_1p() } else { (-(-d).exp_m1()).ln() }
}

impl<F: Tails> Censored<F> {
    /// Creates the likelihood from the family of known targets.
    pub fn new(family: F) -> Self {
        Censored { family }
    }

    fn counts(&self) -> bool {
        self.family.target_kind().is_of_counts()
    }

    /// Returns the interval of a censored target.
    fn interval(at: Observation) -> Option<(f64, f64)> {
        let is_known = at.other_end.is_nan() || at.other_end == at.y;
        (!is_known).then(|| (at.y.min(at.other_end), at.y.max(at.other_end)))
    }

    /// Returns `P(Y ≤ y)` and the rest.
    fn end(&self, at: Observation, y: f64, f: f64) -> End {
        let is_location = self.family.scales_target();
        if y == f64::INFINITY {
            return End::HIGHEST;
        }
        if y == f64::NEG_INFINITY || !is_location && (y < 0.0 || y == 0.0 && !self.counts()) {
            return End::LOWEST;
        }
        let next = if self.counts() { y + 1.0 } else { y };
        let (log, bend) = self.family.value_and_slope(at.with(next), f);
        let log_slope = if is_location { log } else { log + next.ln() };
        End::of(self.family.tail(at.with(y), f, log_slope), log_slope, bend)
    }

    /// Returns the log probability of an interval with its first and second derivative in f, from the side where the tails are small.
    fn terms(&self, at: Observation, (low, high): (f64, f64), f: f64) -> [f64; 3] {
        let low = self.end(at, if self.counts() { low - 1.0 } else { low }, f);
        let high = self.end(at, high, f);
        // The derivatives of the larger and of the smaller tail, divided by each.
        let (log, d, near, far, sign) = if low.above <= high.below {
            (low.above, low.above - high.above, (low.by_above, low.bend), (high.by_above, high.bend), 1.0)
        } else {
            (high.below, high.below - low.below, (high.by_below, high.bend), (low.by_below, low.bend), -1.0)
        };
        // Floats do not resolve smaller differences of the logarithms.
        let d = if log == f64::NEG_INFINITY { f64::INFINITY } else { d.max(f64::EPSILON * log.abs()) };
        let share = ln_1m_exp(d);
        let near_slope = near.0 * (-share).exp();
        let far_slope = if d == f64::INFINITY { 0.0 } else { far.0 * (-d - share).exp() };
        let bent = |slope: f64, bend: f64| if slope == 0.0 { 0.0 } else { slope * bend };
        let first = near_slope - far_slope;
        let second = sign * (bent(near_slope, near.1) - bent(far_slope, far.1)) - first * first;
        [log + share, sign * first, second]
    }

    /// Returns a copy with another value of an own parameter.
    fn with_own(&self, which: usize, value: f64) -> Self {
        let (mut copy, mut at) = (self.clone(), 0);
        copy.family.for_each_parameter_mut(&mut |parameter| {
            for slot in &mut parameter.values {
                if at == which {
                    *slot = value;
                }
                at += 1;
            }
        });
        copy
    }

    /// Returns a value of f that explains the target y, and the width of its density there, at most 1.
    fn response(&self, at: Observation) -> (f64, f64) {
        let f = self.family.working_response(at);
        let width = (-self.family.curvature(at, f)).sqrt().recip();
        (f, if width < 1.0 { width } else { 1.0 })
    }

    fn integrate(
        &self,
        of: Expectation,
        row: LatentRow,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        integrator.careful(of, self, row, own, &mut |f| self.value_and_slope(row.at, f))
    }
}

impl<F: Tails> OneFunction for Censored<F> {
    fn kind(&self) -> LikelihoodKind {
        let own = self.family.kind();
        own.for_target(own.target_kind().with_censoring())
    }

    fn observation_variance(&self, mean: f64) -> Option<f64> {
        self.family.observation_variance(mean)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let Some(interval) = Self::interval(at) else {
            return self.family.log_density(at, f, value, first);
        };
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            [*value, *first, _] = self.terms(at, interval, *f);
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let Some(interval) = Self::interval(at) else { return self.family.curvature(at, f) };
        let second = self.terms(at, interval, f)[2];
        // An average of a log-concave density over an interval is log-concave.
        if self.family.resolution(at).concave { second.min(0.0) } else { second }
    }

    /// Differentiates log probabilities of intervals by differences of fourth order, with errors of about 1e-8.
    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let Some(interval) = Self::interval(at) else {
            return self.family.own_gradient(at, f, weights, own);
        };
        let (mut values, apart) = (Vec::new(), APART * self.response(at).1.max(NARROW));
        self.family.for_each_parameter(&mut |parameter| values.extend_from_slice(&parameter.values));
        for (which, (own, value)) in own.iter_mut().zip(values).enumerate() {
            for (step, weight) in STENCIL {
                let moved = self.with_own(which, value * (1.0 + step * apart));
                let nodes = f.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
                let sum: f64 = nodes.map(|(f, weight)| weight * moved.terms(at, interval, *f)[0]).sum();
                *own += weight * sum / (apart * value);
            }
        }
    }

    fn resolution(&self, at: Observation) -> Resolution {
        let own = self.family.resolution(at);
        if Self::interval(at).is_some() { Resolution { pole: None, ..own } } else { own }
    }

    fn peak(&self, at: Observation) -> f64 {
        let Some((low, high)) = Self::interval(at) else { return self.family.peak(at) };
        let (f, width) = self.response(at);
        match (low.is_finite(), high.is_finite()) {
            (true, false) => f + FAR * width,
            (false, true) => f - FAR * width,
            _ => super::one_function::climb(&mut |f| self.terms(at, (low, high), f)[1]),
        }
    }

    /// Returns the response to the middle of an interval, or one width beyond a target that is censored on one side.
    fn working_response(&self, at: Observation) -> f64 {
        let Some((low, high)) = Self::interval(at) else { return self.family.working_response(at) };
        if low.is_finite() && high.is_finite() {
            return self.family.working_response(at.with(0.5 * (low + high)));
        }
        let (f, width) = self.response(at);
        if low.is_finite() { f + width } else { f - width }
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        match Self::interval(row.at) {
            None => self.family.expected_log(row, own, integrator),
            Some(_) => self.integrate(Expectation::ExpectedLog, row, own, integrator),
        }
    }

    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        match Self::interval(row.at) {
            None => self.family.log_predictive(row, own, integrator),
            Some(_) => self.integrate(Expectation::LogPredictive, row, own, integrator),
        }
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        self.family.conditional_moments(at, f)
    }

    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        self.family.unit_deviance(y, mean)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.family.conditional_cdf(at, f)
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        self.family.sample(at, f, random)
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        self.family.predictive_moments(row, integrator)
    }

    fn predictive_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.family.predictive_cdf(row, integrator)
    }

    fn cdf_strip(&self, at: Observation) -> f64 {
        self.family.cdf_strip(at)
    }

    fn predictive_quantile(&self, p: f64, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.family.predictive_quantile(p, row, integrator)
    }

    fn crps(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.family.crps(row, integrator)
    }

    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.family.smooth_count_cdf(row, integrator)
    }

    /// Starts with censored targets as if they were known.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        self.family.initialise(y, exposure)
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.family.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.family.for_each_parameter_mut(visit);
    }
}
