//! Counts above 0: `p(y|f)/(1 − p(0|f))` for y = 1, 2, ….

use super::{LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, Row, crps};
use crate::quadrature::{Integrator, Resolution, smallest};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;

/// Positive counts.
#[derive(Clone, Debug)]
pub(super) struct Truncated {
    pub(super) counts: Box<dyn OneFunction>,
    /// True if the logarithm of the truncated density is concave in f, as it is if f is the
    /// natural parameter of the counts.
    pub(super) concave: bool,
}

/// The number up to which probabilities of single counts are summed if 1 − p(0) has few digits.
const SUMMED: f64 = 64.0;

impl Truncated {
    /// `log p(0|f)` and its slope.
    fn log_zero(&self, at: Observation, f: f64) -> (f64, f64) {
        self.counts.value_and_slope(at.with(0.0), f)
    }

    /// `−log(1 − p(0))` and its slopes in `log p(0)`: first `p(0)/(1 − p(0))`, then the second
    /// derivative.
    fn rest(log_zero: f64) -> [f64; 3] {
        let above = -log_zero.exp_m1();
        let odds = log_zero.exp() / above;
        [-above.ln(), odds, odds / above]
    }

    /// Returns `−log(1 − p(0|f))` and its slope; adds the derivative in its own parameters, times `weight`.
    fn log_rest(&self, at: Observation, f: f64, weight: f64, own: &mut [f64]) -> (f64, f64) {
        let (log_zero, slope) = self.log_zero(at, f);
        let [rest, odds, _] = Self::rest(log_zero);
        if !rest.is_finite() {
            // The chance of any count is proportional to the rate before it underflows.
            return (-f - at.exposure.ln(), -1.0);
        }
        if !own.is_empty() && odds > 0.0 {
            self.counts.own_gradient(at.with(0.0), &[f], &[weight * odds], own);
        }
        (rest, if odds == 0.0 { 0.0 } else { odds * slope })
    }

    /// Returns the amounts by which `E Y` and `E Y²` exceed those of counts with zeros, averaged
    /// over f.
    fn beyond(&self, Row { at, marginal }: LatentRow) -> [f64; 2] {
        let beyond = |power: i32| {
            let mut point = |f: f64, _: &mut Integrator| {
                let (mean, variance) = self.counts.conditional_moments(at, f);
                let [_, odds, _] = Self::rest(self.log_zero(at, f).0);
                // The ratio of the rate to the probability of a positive count tends to 1 as both vanish.
                let single = if odds.is_finite() && mean > 0.0 { mean * odds } else { 1.0 };
                let value =
                    if power == 1 || mean == 0.0 { single } else { single * (variance / mean + mean) };
                if odds == 0.0 { 0.0 } else { value }
            };
            Integrator::default().nested_average(marginal, &mut point)
        };
        [beyond(1), beyond(2)]
    }
}

impl OneFunction for Truncated {
    fn kind(&self) -> LikelihoodKind {
        self.counts.kind()
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        self.counts.log_density(at, f, value, first);
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let (rest, slope) = self.log_rest(at, *f, 0.0, &mut []);
            *value += rest;
            *first += slope;
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let (log_zero, slope) = self.log_zero(at, f);
        let [_, odds, again] = Self::rest(log_zero);
        let own = self.counts.curvature(at, f);
        let bend = odds * self.counts.curvature(at.with(0.0), f) + again * slope * slope;
        if bend.is_finite() { own + bend } else { own }
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        self.counts.own_gradient(at, f, weights, own);
        for (f, w) in f.iter().zip(weights) {
            self.log_rest(at, *f, *w, own);
        }
    }

    fn resolution(&self, at: Observation) -> Resolution {
        // 1 − p(0) is 0 where the rate is 2πi: at ±iπ/2 off the line, or a little more.
        let own = self.counts.resolution(at);
        Resolution { strip: own.strip.min(1.5), concave: self.concave, ..own }
    }

    /// The term of the truncation grows like f, while the counts' own term may grow like e^f and have a closed form.
    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        let mut local = self.counts.expected_log(row, own, integrator);
        let sd = smallest(mu, v).sqrt();
        integrator.place(self.resolution(at), mu, sd);
        for ((z, f), w) in integrator.z.iter().zip(&integrator.f).zip(&integrator.weight) {
            let (rest, slope) = self.log_rest(at, *f, *w, own);
            local.value += w * rest;
            local.mean += w * slope;
            local.variance += 0.5 * w * z * slope / sd;
        }
        local
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let (mean, variance) = self.counts.conditional_moments(at, f);
        let above = -self.log_zero(at, f).0.exp_m1();
        if above == 1.0 {
            return (mean, variance);
        }
        if mean == 0.0 || above == 0.0 {
            return (1.0, 0.0);
        }
        let truncated = mean / above;
        (truncated, (truncated * (variance / mean + mean - truncated)).max(0.0))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        if at.y < 1.0 {
            return 0.0;
        }
        let log_zero = self.log_zero(at, f).0;
        let above = -log_zero.exp_m1();
        if above > 1e-4 {
            let below = self.counts.conditional_cdf(at, f);
            return ((below - log_zero.exp()) / above).clamp(0.0, 1.0);
        }
        let mut total = 0.0;
        for k in 1..=at.y.min(SUMMED) as i32 {
            total += self.value_and_slope(at.with(f64::from(k)), f).0.exp();
        }
        if at.y > SUMMED {
            let beyond = self.counts.conditional_cdf(at, f) - self.counts.conditional_cdf(at.with(SUMMED), f);
            total += if above > 0.0 { beyond / above } else { 0.0 };
        }
        total.clamp(0.0, 1.0)
    }

    /// Poisson counts with a non-negligible probability of zero have practically no mass beyond 31.
    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        if self.concave && row.at.y >= crps::SMOOTH {
            return self.counts.smooth_count_cdf(row, integrator);
        }
        crps::between(row.at.y, &mut |y| OneFunction::predictive_cdf(self, row.with(y), integrator))
    }

    fn cdf_strip(&self, at: Observation) -> f64 {
        self.counts.cdf_strip(at).min(1.0)
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        let (mean, variance) = self.counts.predictive_moments(row, integrator);
        let [first, second] = self.beyond(row);
        (mean + first, (variance + second - 2.0 * mean * first - first * first).max(0.0))
    }

    /// Draws counts until one is positive, or by inversion if that would take long.
    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let above = -self.log_zero(at, f).0.exp_m1();
        if above.is_nan() {
            return f64::NAN;
        }
        if above > 0.05 {
            loop {
                let y = self.counts.sample(at, f, random);
                if y != 0.0 {
                    return y;
                }
            }
        }
        let mut left: f64 = random.random();
        let mut y = 1.0;
        loop {
            left -= self.value_and_slope(at.with(y), f).0.exp();
            if left <= 0.0 || left.is_nan() || y > 1e4 {
                return y;
            }
            y += 1.0;
        }
    }

    fn working_response(&self, at: Observation) -> f64 {
        self.counts.working_response(at)
    }

    /// Starts at the rate for which the mean of positive counts is that of the targets.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        self.counts.initialise(y, exposure);
        let total: f64 = y.iter().sum();
        if y.is_empty() || !total.is_finite() {
            return 0.0;
        }
        let expected = |f: f64| -> f64 {
            let exposed = |i: usize| Observation::exposed(0.0, exposure.get(i).copied().unwrap_or(1.0));
            let of = |i: usize| self.conditional_moments(exposed(i), f).0;
            (0..y.len()).map(of).sum()
        };
        let (mut low, mut high) = (-12.0, 12.0);
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if expected(middle) < total { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.counts.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.counts.for_each_parameter_mut(visit);
    }
}
