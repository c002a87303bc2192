//! Counts with a negative binomial distribution of mean m = e·e^f, e the exposure, and variance m + αm².

use super::bernoulli::logistic;
use super::censored::Tails;
use super::poisson::{Poisson, log_ratio, mean_rate, poisson_draw, strip_of_width};
use super::sums::{LogRate, Terms, fill, log_normal, weighted_sums};
use super::threshold::Threshold;
use super::{LatentMarginal, LatentRow, LikelihoodKind, Observation, OneFunction, Row, own_parameters};
use crate::functions::gamma::{Tail, beta_cdf, ln_beta_tail, ln_rising};
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};
use sparsegp_kernels::Parameter;
use sparsegp_kernels::vector_math::{exp, ln_1p, mul_add};
use statrs::function::gamma::ln_gamma;
use std::f64::consts::PI;

/// A Poisson count whose rate is gamma distributed around e·e^f with relative variance α.
#[derive(Clone, Debug)]
pub struct NegativeBinomial {
    alpha: Parameter,
}

impl NegativeBinomial {
    /// Creates the likelihood with the relative variance α of the rate, which must be positive.
    pub fn new(alpha: f64) -> Self {
        NegativeBinomial { alpha: Parameter::positive("alpha", vec![alpha]).as_given() }
    }

    /// Returns α, limited from below so that 1/α is finite; the limit is far too small to have an effect.
    fn alpha(&self) -> f64 {
        self.alpha.values[0].max(1e-100)
    }

    /// `P(Y ≤ k)` given log αm, for any k above −1.
    fn smooth_cdf(&self, k: f64, x: f64) -> f64 {
        beta_cdf(1.0 / self.alpha(), k + 1.0, logistic(-x), logistic(x))
    }
}

impl Tails for NegativeBinomial {
    /// `Y > y` if a beta variable of shapes y + 1 and 1/α is at most αm/(1 + αm).
    fn tail(&self, at: Observation, f: f64, _: f64) -> Tail {
        let x = f + at.exposure.ln() + self.alpha().ln();
        ln_beta_tail(at.y + 1.0, 1.0 / self.alpha(), logistic(x), logistic(-x)).reversed()
    }
}

impl OneFunction for NegativeBinomial {
    own_parameters!(alpha);

    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::NegativeBinomial
    }

    /// `Σ_{k<y} log(1 + αk) + y log m − (y + 1/α) log(1 + αm) − log y!`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let alpha = self.alpha();
        let (y, log_exposure) = (at.y, at.exposure.ln());
        let constant = y * log_exposure - ln_gamma(y + 1.0) + ln_rising(y, alpha).0;
        let offset = log_exposure + alpha.ln();
        fill(LogNegativeBinomial { y, failures: 1.0 / alpha, offset, constant }, f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let alpha = self.alpha();
        let x = f + at.exposure.ln() + alpha.ln();
        -(at.y + 1.0 / alpha) * logistic(x) * logistic(-x)
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let alpha = self.alpha();
        let terms = AlphaTerms { y: at.y, alpha, offset: at.exposure.ln() + alpha.ln() };
        let [sum, ..] = weighted_sums(terms, f, weights);
        own[0] += weights.iter().sum::<f64>() * ln_rising(at.y, alpha).1 + sum;
    }

    /// `log(1 + αm)` has singularities at a distance of ±iπ from its bend, like the logistic
    /// function. Below the bend the density resembles that of Poisson counts.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: PI, ..LogRate::RESOLUTION }
    }

    fn peak(&self, at: Observation) -> f64 {
        Poisson::Exp.peak(at)
    }

    fn working_response(&self, at: Observation) -> f64 {
        Poisson::Exp.working_response(at)
    }

    /// `2 (y log(y/m) − (y + 1/α) log((1 + αy)/(1 + αm)))`.
    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        let alpha = self.alpha();
        2.0 * (log_ratio(y, mean) - (y + 1.0 / alpha) * ((alpha * y).ln_1p() - (alpha * mean).ln_1p()))
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let mean = at.exposure * f.exp();
        (mean, mean + self.alpha() * mean * mean)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        if at.y < 0.0 {
            return 0.0;
        }
        self.smooth_cdf(at.y.floor(), f + at.exposure.ln() + self.alpha().ln())
    }

    /// Log counts around y have variance 1/(y + 1) + α.
    fn cdf_strip(&self, at: Observation) -> f64 {
        strip_of_width((1.0 / (at.y.max(0.0) + 1.0) + self.alpha()).sqrt())
    }

    /// `Y ≤ k` if αm is at most the odds of a beta variable of shapes k + 1 and 1/α.
    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let Row { at, marginal: latent } = row;
        let (LatentMarginal { mean: mu, variance: v }, k) = (latent, at.y);
        if k < 0.0 {
            return 0.0;
        }
        let offset = at.exposure.ln() + self.alpha().ln();
        let threshold = Threshold::LogOdds(k + 1.0, 1.0 / self.alpha());
        let quick = threshold.average(|u| u - offset, |_| 1.0, latent, integrator);
        quick.unwrap_or_else(|| {
            integrator.average(mu, v, self.cdf_strip(at), &mut |f| self.smooth_cdf(k, f + offset))
        })
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let (mean, alpha) = (at.exposure * f.exp(), self.alpha());
        let relative = Gamma::new(1.0 / alpha, alpha).map_or(f64::NAN, |d| d.sample(random));
        // Avoids the rate 0·∞.
        poisson_draw(if relative == 0.0 { 0.0 } else { mean * relative }, random)
    }

    /// `Var y = E m + α E m² + Var m`, m log-normal.
    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        let (mean, square, variance) = log_normal(row.marginal);
        let Observation { exposure, .. } = row.at;
        (exposure * mean, exposure * mean + exposure * exposure * (self.alpha() * square + variance))
    }

    /// α explains half of the variance beyond that of Poisson counts with one rate; the other half is left to f.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let rate = mean_rate(y, exposure);
        let (mut excess, mut squares) = (0.0, 0.0);
        for (i, y) in y.iter().enumerate() {
            let mean = rate * exposure.get(i).copied().unwrap_or(1.0);
            excess += (y - mean).powi(2) - mean;
            squares += mean * mean;
        }
        let alpha = 0.5 * excess / squares;
        self.alpha.start(|_| if alpha.is_nan() { 0.1 } else { alpha.clamp(0.01, 10.0) });
        rate.ln()
    }
}

/// Returns `log(1 + e^{−|x|})`, which is `log(1 + e^x) − max(x, 0)`, and `1/(1 + e^{−x})`.
#[inline(always)]
fn bend_and_share<S: Simd>(x: f64) -> (f64, f64) {
    let e = exp::<S>(-x.abs());
    let share = 1.0 / (1.0 + e);
    (ln_1p::<S>(e), if x > 0.0 { share } else { e * share })
}

/// The derivative of `−(y + 1/α) log(1 + αm)` in α: with t = αm/(1 + αm), `(log(1 + αm) − t)/α² − y t/α`.
#[derive(Clone, Copy)]
struct AlphaTerms {
    y: f64,
    alpha: f64,
    offset: f64,
}

impl Terms<3> for AlphaTerms {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 3] {
        let x = f + self.offset;
        let (bend, t) = bend_and_share::<S>(x);
        let softplus = if x > 0.0 { x + bend } else { bend };
        // (−log(1 − t) − t)/t² = ½ + t/3 + t²/4 + … where the two terms cancel.
        let mut series = 0.0;
        for k in (2..18).rev() {
            series = mul_add::<S>(series, t, 1.0 / f64::from(k));
        }
        let bounded = t / self.alpha;
        let difference = (softplus - t) / self.alpha / self.alpha;
        [if t < 0.1 { bounded * bounded * series } else { difference } - self.y * bounded, 0.0, 0.0]
    }
}

#[derive(Clone, Copy)]
struct LogNegativeBinomial {
    y: f64,
    /// 1/α.
    failures: f64,
    offset: f64,
    constant: f64,
}

impl Terms<2> for LogNegativeBinomial {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let LogNegativeBinomial { y, failures, offset, constant } = *self;
        let (trials, beyond, x) = (y + failures, -y * offset, f + offset);
        let (bend, share) = bend_and_share::<S>(x);
        // For x > 0, log(1 + eˣ) is x plus the bend. The term y f then cancels exactly, while a subtraction of floats would leave an
        // error of ε·y·|f|.
        let line = if x > 0.0 { beyond - failures * x } else { y * f };
        [line - trials * bend + constant, y - trials * share]
    }
}
