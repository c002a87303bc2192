//! Counts and amounts with additional zeros: zero inflation and hurdles, for any family of counts with one
//! function, and hurdles for families of positive amounts.
//!
//! With `w = 1/(1 + e^{−f_2})` and the counts' own `p(y|f_1)`:
//!
//! - zero inflation, `P(0) = w + (1 − w) p(0|f_1)`, `P(y) = (1 − w) p(y|f_1)` for y > 0;
//! - hurdle, `P(0) = w`, `P(y) = (1 − w) p(y|f_1)/(1 − p(0|f_1))`.
//!
//! All expectations except one are sums or products of expectations over one function. The
//! exception is `E log P(0)` of zero inflation: with `t = −log p(0|f_1)`,
//! `log P(0) = log(1 + e^{−f_2}·e^{−t}) − log(1 + e^{−f_2})`, so that it is `A(μ_2) − E A(μ_2 + t)`
//! for `A(m) = E log 1/(1 + e^{−f})`, f ~ N(m, v_2): an expectation over f_1 of one over f_2.
//!
//! The counts of a hurdle are [`Truncated`]: `p(y|f)/(1 − p(0|f))` for y = 1, 2, …. Positive amounts are never 0, so their family needs no
//! truncation.

use super::amounts::LogNormal;
use super::bernoulli::logistic;
use super::truncated::Truncated;
use super::{
    Bernoulli, Expectation, Gamma, LatentMarginal, Likelihood, LikelihoodKind, Local, NegativeBinomial,
    Observation, OneFunction, Poisson, Row, Slopes, TargetKind, crps,
};
use crate::quadrature::{Integrator, Point};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;

/// The presence of an additional zero as a class.
const GATE: &dyn OneFunction = &Bernoulli::Logit;

/// The origin of zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Zeros {
    /// From a separate cause, or from the counts.
    Inflated,
    /// From a separate cause only.
    Hurdle,
}

/// Counts or amounts with additional zeros: `rate` or `amount` f_1 of the counts or the positive amounts, and `zero` f_2, the log odds of an
/// additional zero.
///
/// The detail `probability_of_zero` is P(y = 0) given the exposure. Zero inflation also has `probability_of_excess_zero`, which is E w,
/// the probability of an additional zero; for a hurdle both are equal. The unit deviance is that of the counts without additional zeros:
/// its mean is smallest at the true mean, for every distribution.
#[derive(Clone, Debug)]
pub struct ZeroAltered {
    kind: LikelihoodKind,
    zeros: Zeros,
    /// The counts, those above 0 of a hurdle, or the positive amounts.
    counts: Box<dyn OneFunction>,
    /// The f_1 at which a zero amount, which says nothing about f_1, counts in the regressions for a start.
    centre: f64,
}

impl ZeroAltered {
    /// Creates a likelihood of Poisson counts with rate `e·e^{f_1}`, where e is the exposure, and additional zeros.
    pub fn inflated_poisson() -> Self {
        Self::inflated(LikelihoodKind::ZeroInflatedPoisson, Box::new(Poisson::Exp))
    }

    /// Creates a likelihood of negative binomial counts with mean `m = e·e^{f_1}`, variance `m + αm²` (α > 0 is the own parameter) and
    /// additional zeros.
    pub fn inflated_negative_binomial(alpha: f64) -> Self {
        Self::inflated(LikelihoodKind::ZeroInflatedNegativeBinomial, Box::new(NegativeBinomial::new(alpha)))
    }

    /// Creates a likelihood of zeros, and of Poisson counts with rate `e·e^{f_1}` given that they are not 0.
    pub fn hurdle_poisson() -> Self {
        Self::hurdle(LikelihoodKind::HurdlePoisson, Box::new(Poisson::Exp), true)
    }

    /// Creates a likelihood of zeros, and of negative binomial counts with mean `e·e^{f_1}` and own parameter α > 0 given that they are not 0.
    pub fn hurdle_negative_binomial(alpha: f64) -> Self {
        Self::hurdle(LikelihoodKind::HurdleNegativeBinomial, Box::new(NegativeBinomial::new(alpha)), false)
    }

    /// Creates a likelihood of zeros, and of positive amounts with a gamma distribution of shape k > 0, the own parameter, and scale `e^{f_1}`.
    pub fn hurdle_gamma(shape: f64) -> Self {
        Self::of_amounts(LikelihoodKind::HurdleGamma, Box::new(Gamma::new(shape)))
    }

    /// Creates a likelihood of zeros, and of positive amounts whose logarithm is `f_1` plus normal noise of variance σ² > 0, the own parameter.
    pub fn hurdle_log_normal(noise: f64) -> Self {
        Self::of_amounts(LikelihoodKind::HurdleLogNormal, Box::new(LogNormal::new(noise)))
    }

    fn of_amounts(kind: LikelihoodKind, amounts: Box<dyn OneFunction>) -> Self {
        ZeroAltered { kind, zeros: Zeros::Hurdle, counts: amounts, centre: 0.0 }
    }

    fn inflated(kind: LikelihoodKind, counts: Box<dyn OneFunction>) -> Self {
        ZeroAltered { kind, zeros: Zeros::Inflated, counts, centre: 0.0 }
    }

    fn hurdle(kind: LikelihoodKind, counts: Box<dyn OneFunction>, concave: bool) -> Self {
        let counts = Box::new(Truncated { counts, concave });
        ZeroAltered { kind, zeros: Zeros::Hurdle, counts, centre: 0.0 }
    }

    fn is_of_amounts(&self) -> bool {
        self.kind.target_kind() == TargetKind::Amount
    }

    /// Returns true if a zero also gives information about f_1.
    fn mixes(&self, at: Observation) -> bool {
        at.y == 0.0 && self.zeros == Zeros::Inflated
    }

    /// Returns the log probability of an inflated zero, and the share of it that comes from the counts.
    fn mixed(log_zero: f64, f2: f64) -> (f64, f64) {
        // log(e^{f_2} + p(0)) − log(1 + e^{f_2}).
        let (more, less) = (f2.max(log_zero), f2.min(log_zero));
        let value = more + (less - more).exp().ln_1p() - (f2.max(0.0) + (-f2.abs()).exp().ln_1p());
        (value, logistic(log_zero - f2))
    }

    /// Returns `E log P(0)` of zero inflation; adds the derivatives in own parameters.
    fn expected_mixed(&self, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        let Row { at, marginal } = row;
        let gate = marginal.of(1);
        let alone = log_chance(gate, integrator);
        let wanted = !slopes.own.is_empty();
        let mut given = |f1: f64, integrator: &mut Integrator| {
            let (log_zero, slope) = self.counts.value_and_slope(at, f1);
            let local = log_chance(LatentMarginal { mean: gate.mean - log_zero, ..gate }, integrator);
            let mut own = [0.0];
            if wanted {
                self.counts.own_gradient(at, &[f1], &[local.mean], &mut own);
            }
            // If the rate has overflowed, nothing depends on it.
            let first = if local.mean == 0.0 { 0.0 } else { local.mean * slope };
            let value = alone.value - local.value;
            Point { value, first, rest: [alone.mean - local.mean, alone.variance - local.variance, own[0]] }
        };
        let average = integrator.nested_expectation(Expectation::ExpectedLog, marginal.of(0), &mut given);
        let [mean, variance, own] = average.rest;
        slopes.set([(average.mean, average.variance), (mean, variance)]);
        if let Some(slot) = slopes.own.first_mut() {
            *slot += own;
        }
        average.value
    }

    /// `log E P(0)` of zero inflation.
    fn predicted_mixed(&self, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        const OF: Expectation = Expectation::LogPredictive;
        let [gate, counts] = [1.0, 0.0].map(|y| GATE.expectation(OF, row.with(y).of(1), &mut [], integrator));
        let mut own = [0.0];
        let bar = if slopes.own.is_empty() { &mut [][..] } else { &mut own[..] };
        let zero = self.counts.expectation(OF, row.of(0), bar, integrator);
        let both = counts.value + zero.value;
        let (more, less) = (gate.value.max(both), gate.value.min(both));
        let value = (more + (less - more).exp().ln_1p()).min(0.0);
        let share = logistic(both - gate.value);
        let mix = |gate: f64, counts: f64| (1.0 - share) * gate + share * counts;
        // If the counts cannot be zero, the slopes of their share are 0.
        let of_counts = |slope: f64| if share == 0.0 { 0.0 } else { share * slope };
        slopes.set([
            (of_counts(zero.mean), of_counts(zero.variance)),
            (mix(gate.mean, counts.mean), mix(gate.variance, counts.variance)),
        ]);
        if let Some(slot) = slopes.own.first_mut() {
            *slot += of_counts(own[0]);
        }
        value
    }

    /// Returns the separate terms of f_2 and f_1 for an observation: a zero of a hurdle, or a positive count.
    fn separate(&self, of: Expectation, row: Row, mut slopes: Slopes, integrator: &mut Integrator) -> f64 {
        let counted = row.at.y != 0.0;
        let gate = row.with(f64::from(u8::from(!counted))).of(1);
        let gate = GATE.expectation(of, gate, &mut [], integrator);
        let count = if counted {
            self.counts.expectation(of, row.of(0), slopes.own, integrator)
        } else {
            Local::default()
        };
        slopes.set([(count.mean, count.variance), (gate.mean, gate.variance)]);
        gate.value + count.value
    }

    /// `log p(y|f)` and its slopes.
    fn density(&self, at: Observation, [f1, f2]: [f64; 2]) -> (f64, [f64; 2]) {
        if self.mixes(at) {
            let (log_zero, first) = self.counts.value_and_slope(at, f1);
            let (value, share) = Self::mixed(log_zero, f2);
            let of_count = if share == 0.0 { 0.0 } else { share * first };
            (value, [of_count, logistic(f2 - log_zero) - logistic(f2)])
        } else {
            let zero = at.y == 0.0;
            let sign = if zero { 1.0 } else { -1.0 };
            let gate = (sign * f2).min(0.0) - (-f2.abs()).exp().ln_1p();
            let (count, first) = if zero { (0.0, 0.0) } else { self.counts.value_and_slope(at, f1) };
            (gate + count, [first, sign * logistic(-sign * f2)])
        }
    }

    /// The curvatures of `log p(y|f)`.
    fn bend(&self, at: Observation, [f1, f2]: [f64; 2]) -> [f64; 2] {
        let gate = -logistic(f2) * logistic(-f2);
        if self.mixes(at) {
            let (log_zero, first) = self.counts.value_and_slope(at, f1);
            let (share, rest) = (logistic(log_zero - f2), logistic(f2 - log_zero));
            let count = if share == 0.0 {
                0.0
            } else {
                share * (self.counts.curvature(at, f1) + rest * first * first)
            };
            [count, share * rest + gate]
        } else {
            [if at.y == 0.0 { 0.0 } else { self.counts.curvature(at, f1) }, gate]
        }
    }

    /// `log E w` and `log E (1 − w)`.
    fn log_shares(row: Row, integrator: &mut Integrator) -> [f64; 2] {
        let chance = |y| GATE.expectation(Expectation::LogPredictive, row.with(y).of(1), &mut [], integrator);
        [1.0, 0.0].map(chance).map(|chance| chance.value)
    }

    /// Returns `P(Y ≤ y)`, given `P(Y ≤ y)` of the counts.
    fn below(shares: [f64; 2], y: f64, counts: f64) -> f64 {
        if y < 0.0 { 0.0 } else { (shares[0].exp() + shares[1].exp() * counts).clamp(0.0, 1.0) }
    }
}

/// `E log 1/(1 + e^{−f})` under N(m, v).
fn log_chance(latent: LatentMarginal, integrator: &mut Integrator) -> Local {
    // Far to the right it is about −e^{v/2 − m}.
    if latent.mean > 45.0 + 45.0 * latent.variance.max(0.0).sqrt() {
        return Local::default();
    }
    GATE.expectation(Expectation::ExpectedLog, Row::new(Observation::of(1.0), latent), &mut [], integrator)
}

impl Likelihood for ZeroAltered {
    fn kind(&self) -> LikelihoodKind {
        self.kind
    }

    fn function_names(&self) -> Vec<String> {
        let first = if self.is_of_amounts() { "amount" } else { "rate" };
        vec![first.into(), "zero".into()]
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]) {
        for ((f, value), slope) in f.as_chunks().0.iter().zip(value).zip(slope.as_chunks_mut().0) {
            (*value, *slope) = self.density(at, *f);
        }
    }

    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]) {
        f.as_chunks().0.iter().zip(out.as_chunks_mut().0).for_each(|(f, out)| *out = self.bend(at, *f));
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        for (&[f1, f2], weight) in f.as_chunks().0.iter().zip(weights) {
            let share = if self.mixes(at) {
                logistic(self.counts.value_and_slope(at, f1).0 - f2)
            } else {
                f64::from(u8::from(at.y != 0.0))
            };
            if share > 0.0 {
                self.counts.own_gradient(at, &[f1], &[share * weight], own);
            }
        }
    }

    /// Returns 0 for a zero, which an additional zero explains with probability 1; for other
    /// counts, the peak of their density without additional zeros.
    fn highest(&self, at: Observation) -> Option<f64> {
        Some(if at.y == 0.0 { 0.0 } else { self.counts.value_and_slope(at, self.counts.peak(at)).0 })
    }

    fn expectation(&self, of: Expectation, row: Row, slopes: Slopes, integrator: &mut Integrator) -> f64 {
        match of {
            _ if !self.mixes(row.at) => self.separate(of, row, slopes, integrator),
            Expectation::ExpectedLog => self.expected_mixed(row, slopes, integrator),
            Expectation::LogPredictive => self.predicted_mixed(row, slopes, integrator),
        }
    }

    /// Mean and variance are `(1 − w) m` and `(1 − w) (s² + w m²)`, with the mean m and variance s²
    /// of the counts and the average of w.
    fn predictive_moments(&self, row: Row, integrator: &mut Integrator) -> (f64, f64) {
        let [zero, count] = Self::log_shares(row, integrator).map(f64::exp);
        let (mean, variance) = self.counts.predictive_moments(row.of(0), integrator);
        // 0 times an infinite rate counts as 0.
        let times = |share: f64, x: f64| if share == 0.0 { 0.0 } else { share * x };
        (times(count, mean), times(count, variance + times(zero, mean * mean)))
    }

    fn predictive_cdf(&self, row: Row, integrator: &mut Integrator) -> f64 {
        let shares = Self::log_shares(row, integrator);
        Self::below(shares, row.at.y, self.counts.predictive_cdf(row.of(0), integrator))
    }

    fn crps(&self, row: Row, integrator: &mut Integrator) -> f64 {
        if !row.is_finite() {
            return f64::NAN;
        }
        if self.is_of_amounts() {
            return crps::of(self, row, integrator);
        }
        let shares = Self::log_shares(row, integrator);
        crps::counts(row.at.y, &mut |k| {
            Self::below(shares, k, self.counts.smooth_count_cdf(row.with(k).of(0), integrator))
        })
    }

    fn details(&self) -> &'static [&'static str] {
        match self.zeros {
            Zeros::Inflated => &["probability_of_zero", "probability_of_excess_zero"],
            Zeros::Hurdle => &["probability_of_zero"],
        }
    }

    fn detail(&self, which: usize, row: Row, integrator: &mut Integrator) -> f64 {
        match (which, self.zeros) {
            (0, Zeros::Inflated) => self.predicted_mixed(row.with(0.0), Slopes::none(), integrator).exp(),
            _ => Self::log_shares(row, integrator)[0].exp(),
        }
    }

    fn sample(&self, at: Observation, f: &[f64], random: &mut ChaCha8Rng) -> f64 {
        let u: f64 = random.random();
        if u < logistic(f[1]) { 0.0 } else { self.counts.sample(at, f[0], random) }
    }

    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        self.counts.unit_deviance(y, mean)
    }

    /// Returns odds of 3 for or against an additional zero, and the response of the counts.
    fn working_response(&self, at: Observation, out: &mut [f64]) {
        let odds = 3f64.ln();
        let (zero, amounts) = (at.y == 0.0, self.is_of_amounts());
        let first = if zero && amounts { self.centre } else { self.counts.working_response(at) };
        let response = [first, if zero { odds } else { -odds }];
        out.iter_mut().zip(response).for_each(|(out, value)| *out = value);
    }

    /// Starts at the rate of the counts above 0, and at the odds of the zeros that this rate does
    /// not explain.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64> {
        let exposed = |i: usize| exposure.get(i).copied().unwrap_or(1.0);
        let positive: Vec<usize> = (0..y.len()).filter(|&i| y[i] > 0.0).collect();
        let (counted, exposures): (Vec<f64>, Vec<f64>) = positive.iter().map(|&i| (y[i], exposed(i))).unzip();
        let zeros = (y.len() - positive.len()) as f64;
        let mut rate = 0.0;
        let mut explained = 0.0;
        if self.zeros == Zeros::Inflated {
            let mut above = Truncated { counts: self.counts.boxed_clone(), concave: false };
            rate = OneFunction::initialise(&mut above, &counted, &exposures);
            self.counts = above.counts;
            explained = (0..y.len())
                .map(|i| self.counts.value_and_slope(Observation::exposed(0.0, exposed(i)), rate).0.exp())
                .sum();
        } else if !counted.is_empty() {
            rate = self.counts.initialise(&counted, &exposures);
        }
        let n = y.len() as f64;
        let share = ((zeros - explained).max(0.0) + 0.5) / ((n - explained).max(0.0) + 1.0);
        let share = share.clamp(0.02, 0.98);
        self.centre = rate;
        vec![rate, (share / (1.0 - share)).ln()]
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.counts.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.counts.for_each_parameter_mut(visit);
    }
}
