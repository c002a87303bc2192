//! Counts of successes in n trials: binomial, with a probability of success of `1/(1 + e^{−f})`, and beta-binomial, with a probability
//! that varies around it.
//!
//! The number of trials n is the exposure of the row.

use super::bernoulli::logistic;
use super::beta::{Link, Logit, log_odds, newton_peak};
use super::poisson::strip_of_width;
use super::sums::{LogRate, Terms, fill, weighted_sums};
use super::threshold::Threshold;
use super::{LatentMarginal, LatentRow, LikelihoodKind, Observation, OneFunction, Row, own_parameters};
use crate::functions::gamma::{beta_cdf, ln_gamma_ratio, trigamma_1p};
use crate::quadrature::{Integrator, Resolution};
use pulp::{Scalar, Simd};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use sparsegp_kernels::Parameter;
use sparsegp_kernels::vector_math::{exp, ln_1p};
use std::f64::consts::PI;

/// The f near the suprema of densities that grow without a peak.
const FAR: f64 = 40.0;

/// The number of trials above which `P(Y ≤ y)` of beta-binomial counts is an integral instead of a sum.
const MOST_SUMMED: f64 = 4096.0;

/// The strip of averages of `1/(1 + e^{−f})`, which has its poles at ±iπ.
const STRIP: f64 = PI;

/// `log C(n, y)`; −∞ for impossible y.
fn ln_choose(trials: f64, y: f64) -> f64 {
    if (0.0..=trials).contains(&y) {
        ln_gamma_ratio::<Scalar>(y, trials - y).0 - ln_gamma_ratio::<Scalar>(0.0, trials - y).0
    } else {
        f64::NEG_INFINITY
    }
}

/// Returns the log odds of a share of successes, with half a success and half a failure added.
fn response(at: Observation) -> f64 {
    ((at.y + 0.5) / (at.exposure - at.y + 0.5)).ln()
}

/// Returns mean and variance of the count: with p = 1/(1 + e^{−f}) and the overdispersion d, `Var y = n d E p (1 − p) + n² Var p`.
fn moments(likelihood: &impl Trials, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
    let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
    let mean = integrator.average(mu, v, STRIP, &mut |f| logistic(f)).clamp(0.0, 1.0);
    let spread = integrator.average(mu, v, STRIP, &mut |f| (logistic(f) - mean).powi(2));
    let inner = integrator.average(mu, v, STRIP, &mut |f| logistic(f) * logistic(-f));
    let n = at.exposure;
    (n * mean, n * likelihood.overdispersion(n) * inner + n * n * spread)
}

/// The families of counts of successes.
trait Trials: OneFunction {
    /// The variance of a count of n trials, given f, as a multiple of that of a binomial count.
    fn overdispersion(&self, trials: f64) -> f64;
}

/// Returns the log odds of the share of successes in all rows, kept away from 0 and 1.
fn start(y: &[f64], exposure: &[f64]) -> f64 {
    let trials = if exposure.is_empty() { y.len() as f64 } else { exposure.iter().sum() };
    let successes: f64 = y.iter().sum();
    let odds = (successes + 0.5) / (trials - successes + 0.5);
    if odds.is_finite() && odds > 0.0 { odds.ln() } else { 0.0 }
}

/// `y ~ Binomial(n, 1/(1 + e^{−f}))`, n the exposure.
///
/// The detail `probability` is that of success, E 1/(1 + e^{−f}).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binomial;

impl Trials for Binomial {
    fn overdispersion(&self, _: f64) -> f64 {
        1.0
    }
}

impl Binomial {
    /// `P(Y ≤ k)` for any k above −1, by a beta distribution.
    fn smooth_cdf(at: Observation, f: f64) -> f64 {
        let Observation { y: k, exposure: n, .. } = at;
        if k >= n { 1.0 } else { beta_cdf(n - k, k + 1.0, logistic(-f), logistic(f)) }
    }
}

impl OneFunction for Binomial {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Binomial
    }

    /// `y f − n log(1 + e^f) + log C(n, y)`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let Observation { y, exposure: trials, .. } = at;
        fill(LogBinomial { y, trials, constant: ln_choose(trials, y) }, f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        -at.exposure * logistic(f) * logistic(-f)
    }

    /// `log(1 + e^f)` is singular at ±iπ. Near 0 successes or failures the density resembles that of Poisson counts.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: PI, ..LogRate::RESOLUTION }
    }

    fn peak(&self, at: Observation) -> f64 {
        log_odds(at.y / at.exposure).clamp(-FAR, FAR)
    }

    fn working_response(&self, at: Observation) -> f64 {
        response(at)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let (p, rest) = (logistic(f), logistic(-f));
        (at.exposure * p, at.exposure * p * rest)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        if at.y < 0.0 { 0.0 } else { Self::smooth_cdf(at.with(at.y.floor()), f) }
    }

    /// The standard deviation of the share of successes as a change of its log odds.
    fn cdf_strip(&self, at: Observation) -> f64 {
        strip_of_width(share_width(at.exposure, at))
    }

    /// `Y ≤ k` if f is at most the log odds of a beta variable of shapes k + 1 and n − k.
    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let Row { at, marginal: latent } = row;
        let Observation { y: k, exposure: n, .. } = at;
        if k < 0.0 || k >= n {
            return if k < 0.0 { 0.0 } else { 1.0 };
        }
        let quick = Threshold::LogOdds(k + 1.0, n - k).average(|u| u, |_| 1.0, latent, integrator);
        quick.unwrap_or_else(|| {
            let LatentMarginal { mean: mu, variance: v } = latent;
            integrator.average(mu, v, self.cdf_strip(at), &mut |f| Self::smooth_cdf(at, f))
        })
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        draw(at.exposure, logistic(f), random)
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        moments(self, row, integrator)
    }

    fn details(&self) -> &'static [&'static str] {
        &["probability"]
    }

    fn detail(&self, _: usize, row: LatentRow, integrator: &mut Integrator) -> f64 {
        self.predictive_moments(row, integrator).0 / row.at.exposure
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        start(y, exposure)
    }
}

/// The standard deviation of a share of `trials` trials as a change of its log odds, with half a success and half a failure added.
fn share_width(trials: f64, at: Observation) -> f64 {
    let share = ((at.y.max(0.0) + 0.5) / (at.exposure + 1.0)).min(1.0 - 0.5 / (at.exposure + 1.0));
    (trials * share * (1.0 - share)).sqrt().recip()
}

/// Returns a number of successes.
fn draw(trials: f64, p: f64, random: &mut ChaCha8Rng) -> f64 {
    if trials.is_nan() || p.is_nan() {
        return f64::NAN;
    }
    rand_distr::Binomial::new(trials as u64, p.clamp(0.0, 1.0)).map_or(f64::NAN, |d| d.sample(random) as f64)
}

#[derive(Clone, Copy)]
struct LogBinomial {
    y: f64,
    trials: f64,
    constant: f64,
}

impl Terms<2> for LogBinomial {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let LogBinomial { y, trials, constant } = *self;
        let e = exp::<S>(-f.abs());
        let share = 1.0 / (1.0 + e);
        // For f > 0, log(1 + e^f) is f plus the bend, and the terms in f are combined.
        let line = if f > 0.0 { (y - trials) * f } else { y * f };
        let p = if f > 0.0 { share } else { e * share };
        [line - trials * ln_1p::<S>(e) + constant, y - trials * p]
    }
}

/// `y ~ BetaBinomial(n, s m, s (1 − m))` with `m = 1/(1 + e^{−f})`: a binomial count whose probability of success has a beta distribution of
/// mean m and variance `m (1 − m)/(s + 1)`. n is the exposure, and the precision s is the own parameter.
///
/// The detail `probability` is that of success, E m.
#[derive(Clone, Debug)]
pub struct BetaBinomial {
    precision: Parameter,
}

impl BetaBinomial {
    /// Creates the likelihood with the precision s, the sum of the shapes, which must be positive.
    pub fn new(precision: f64) -> Self {
        BetaBinomial { precision: Parameter::positive("precision", vec![precision]).as_given() }
    }

    fn precision(&self) -> f64 {
        self.precision.values[0]
    }

    fn terms(&self, at: Observation) -> BetaBinomialTerms {
        let (s, Observation { y, exposure: trials, .. }) = (self.precision(), at);
        let (successes, failures) = (Side::new(y), Side::new(trials - y));
        let factors = (successes.some + failures.some - 1.0) * s.ln();
        let constant = ln_choose(trials, y) + factors - ln_gamma_ratio::<Scalar>(s, trials - 1.0).0;
        BetaBinomialTerms { s, successes, failures, constant }
    }

    fn first_and_curvature(&self, at: Observation, f: f64) -> (f64, f64) {
        let s = self.precision();
        let (m, rest) = (logistic(f), logistic(-f));
        let (successes, failures) = (Side::new(at.y), Side::new(at.exposure - at.y));
        let second = |side: Side, shape: f64| trigamma_1p(shape + side.more) - trigamma_1p(shape);
        let (a, b) = (s * m, s * rest);
        let slope = a * rest;
        let score =
            ln_gamma_ratio::<Scalar>(a, successes.more).1 - ln_gamma_ratio::<Scalar>(b, failures.more).1;
        let first = successes.some * rest - failures.some * m + slope * score;
        let bend = second(successes, a) + second(failures, b);
        let curvature =
            -m * rest * (successes.some + failures.some) + slope * (rest - m) * score + slope * slope * bend;
        (first, curvature)
    }

    /// `P(Y ≤ y)` for a whole y below n by an integral: the probability of success, which has shapes a and b, is at most a beta variable of shapes
    /// y + 1 and n − y. The distribution function of the wider variable is averaged over the narrower one.
    fn below(&self, y: f64, n: f64, f: f64) -> f64 {
        let (a, b) = (self.precision() * logistic(f), self.precision() * logistic(-f));
        if a == 0.0 || b == 0.0 {
            return if a == 0.0 { 1.0 } else { 0.0 };
        }
        let (own, limit) = (Threshold::LogOdds(a, b), Threshold::LogOdds(y + 1.0, n - y));
        if own.width() >= limit.width() {
            return limit.expectation(&mut |u| beta_cdf(a, b, logistic(u), logistic(-u)));
        }
        1.0 - own.expectation(&mut |u| beta_cdf(y + 1.0, n - y, logistic(u), logistic(-u)))
    }

    /// `P(Y ≤ y)` for a whole y below n: the sum of the probabilities on the side of y that is farther from the mean. Each is a multiple of
    /// its neighbour's: `p(k)/p(k − 1) = (n − k + 1)(a + k − 1)/(k (b + n − k))`.
    fn tail(&self, at: Observation, f: f64) -> f64 {
        let (s, n, y) = (self.precision(), at.exposure, at.y);
        let (a, b) = (s * logistic(f), s * logistic(-f));
        let upper = y > n * logistic(f);
        // The upper tail is the lower one of failures.
        let (a, b, from) = if upper { (b, a, n - y - 1.0) } else { (a, b, y) };
        let mirrored = if upper { Observation::exposed(y + 1.0, n) } else { at };
        let mut term = self.value_and_slope(mirrored, f).0.exp();
        let (mut total, mut k) = (0.0, from);
        while k >= 0.0 {
            total += term;
            let ratio = k * (b + n - k) / ((n - k + 1.0) * (a + k - 1.0));
            if k == 0.0 || a >= 1.0 && ratio < 1.0 && term < 1e-17 * total {
                break;
            }
            // With a = 0 all mass is at 0.
            term *= if ratio.is_finite() { ratio } else { 1.0 };
            k -= 1.0;
        }
        if upper { 1.0 - total } else { total }
    }
}

impl Trials for BetaBinomial {
    fn overdispersion(&self, trials: f64) -> f64 {
        1.0 + (trials - 1.0) / (self.precision() + 1.0)
    }
}

impl OneFunction for BetaBinomial {
    own_parameters!(precision);

    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::BetaBinomial
    }

    /// With shapes a and b: `log C(n, y) + log B(y + a, n − y + b)/B(a, b)`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        fill(self.terms(at), f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        self.first_and_curvature(at, f).1
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let terms = self.terms(at);
        let [sum, ..] = weighted_sums(terms, f, weights);
        let all = ln_gamma_ratio::<Scalar>(terms.s, at.exposure - 1.0).1;
        let constant = (terms.successes.some + terms.failures.some - 1.0) / terms.s - all;
        own[0] += weights.iter().sum::<f64>() * constant + sum;
    }

    /// As for beta variables, the shapes are 0, −1, … only on the lines ±iπ. The density is as narrow as that of as many independent trials
    /// as the overdispersed ones are worth.
    fn resolution(&self, at: Observation) -> Resolution {
        let trials = at.exposure / self.overdispersion(at.exposure);
        Resolution { strip: 0.9 * PI, step: 0.28 / (1.0 + 0.25 * trials).sqrt(), concave: false, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        if at.y <= 0.0 || at.y >= at.exposure {
            return if at.y <= 0.0 { -FAR } else { FAR };
        }
        newton_peak(log_odds(at.y / at.exposure), &mut |f| self.first_and_curvature(at, f))
    }

    fn working_response(&self, at: Observation) -> f64 {
        response(at)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let (p, rest) = (logistic(f), logistic(-f));
        (at.exposure * p, at.exposure * self.overdispersion(at.exposure) * p * rest)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        let n = at.exposure;
        if at.y < 0.0 || at.y >= n {
            return if at.y < 0.0 { 0.0 } else { 1.0 };
        }
        let y = at.y.floor();
        if n <= MOST_SUMMED {
            return self.tail(at.with(y), f).clamp(0.0, 1.0);
        }
        self.below(y, n, f)
    }

    fn cdf_strip(&self, at: Observation) -> f64 {
        strip_of_width(share_width(at.exposure / self.overdispersion(at.exposure), at))
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let (s, m) = (self.precision(), logistic(f));
        // If a shape is too small for the sampler, all mass is at the ends.
        let p = rand_distr::Beta::new(s * m, s * logistic(-f)).map_or(f64::NAN, |d| d.sample(random));
        draw(at.exposure, if p.is_nan() { m.round() } else { p }, random)
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        moments(self, row, integrator)
    }

    fn details(&self) -> &'static [&'static str] {
        Binomial.details()
    }

    fn detail(&self, which: usize, row: LatentRow, integrator: &mut Integrator) -> f64 {
        Binomial.detail(which, row, integrator)
    }

    /// Chooses s such that half of the variance of the shares beyond that of binomial counts is left to f.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let centre = start(y, exposure);
        let (p, rest) = (logistic(centre), logistic(-centre));
        let (mut excess, mut pairs) = (0.0, 0.0);
        for (i, y) in y.iter().enumerate() {
            let n = exposure.get(i).copied().unwrap_or(1.0);
            excess += (y - n * p).powi(2) - n * p * rest;
            pairs += n * (n - 1.0) * p * rest;
        }
        let precision = pairs / (0.5 * excess) - 1.0;
        self.precision.start(|_| match precision {
            precision if precision.is_nan() => 10.0,
            // Shares that vary less than binomial ones.
            precision if precision < -1.0 => 1000.0,
            precision => precision.clamp(1.0, 1000.0),
        });
        centre
    }
}

/// The successes or the failures of a row: `Γ(k + a)/Γ(a)` is `a Γ(k + a)/Γ(1 + a)` if there are any, otherwise 1.
#[derive(Clone, Copy)]
struct Side {
    /// 1 if there are any, otherwise 0.
    some: f64,
    /// The number of further ones after the first.
    more: f64,
}

impl Side {
    fn new(count: f64) -> Side {
        Side { some: if count > 0.0 { 1.0 } else { 0.0 }, more: (count - 1.0).max(0.0) }
    }
}

/// The log density, and its derivative in s without the terms that f does not change.
#[derive(Clone, Copy)]
struct BetaBinomialTerms {
    s: f64,
    successes: Side,
    failures: Side,
    constant: f64,
}

impl Terms<2> for BetaBinomialTerms {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let BetaBinomialTerms { s, successes, failures, constant } = *self;
        let [log, log_rest, rest, m] = Logit::terms::<S>(f);
        let (a, b) = (s * m, s * rest);
        let (grown, slope) = ln_gamma_ratio::<S>(a, successes.more);
        let (grown_rest, slope_rest) = ln_gamma_ratio::<S>(b, failures.more);
        let value = constant + successes.some * log + failures.some * log_rest + grown + grown_rest;
        [value, successes.some * rest - failures.some * m + a * rest * (slope - slope_rest)]
    }
}

impl Terms<3> for BetaBinomialTerms {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 3] {
        let [.., rest, m] = Logit::terms::<S>(f);
        let slope = ln_gamma_ratio::<S>(self.s * m, self.successes.more).1;
        [m * slope + rest * ln_gamma_ratio::<S>(self.s * rest, self.failures.more).1, 0.0, 0.0]
    }
}
