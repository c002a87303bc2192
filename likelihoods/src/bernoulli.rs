//! Two classes: class 1 has probability Φ(f) or 1/(1 + e^{−f}).

use super::sums::{Terms, fill};
use super::{
    DensityBounds, Expectation, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction,
    Row,
};
use crate::functions::normal;
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::vector_math::{exp, ln_1p};
use std::f64::consts::PI;

/// +1 for class 1, −1 for class 0.
fn sign(at: Observation) -> f64 {
    if at.y > 0.5 { 1.0 } else { -1.0 }
}

/// `1/(1 + e^{−f})` without overflow.
pub(super) fn logistic(f: f64) -> f64 {
    if f >= 0.0 {
        1.0 / (1.0 + (-f).exp())
    } else {
        let e = f.exp();
        e / (1.0 + e)
    }
}

/// Two classes, by the probability of class 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bernoulli {
    /// `p(y = 1 | f) = Φ(f)`: the predictive density is closed, `Φ(±μ/√(1 + v))`.
    Probit,
    /// `p(y = 1 | f) = 1/(1 + e^{−f})`.
    Logit,
}

impl Bernoulli {
    fn probability(self, f: f64) -> f64 {
        match self {
            Bernoulli::Probit => normal::cdf(f),
            Bernoulli::Logit => logistic(f),
        }
    }
}

impl OneFunction for Bernoulli {
    fn kind(&self) -> LikelihoodKind {
        match self {
            Bernoulli::Probit => LikelihoodKind::BernoulliProbit,
            Bernoulli::Logit => LikelihoodKind::BernoulliLogit,
        }
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        match self {
            Bernoulli::Probit => normal::log_cdf(sign(at), f, value, first),
            Bernoulli::Logit => fill(LogLogistic { sign: sign(at) }, f, value, first),
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        match self {
            Bernoulli::Probit => {
                let x = sign(at) * f;
                let hazard = normal::log_cdf_at(x).1;
                -hazard * (x + hazard)
            }
            Bernoulli::Logit => -logistic(f) * logistic(-f),
        }
    }

    /// Returns the variance of the normal or logistic variable around f whose sign is the class.
    fn observation_variance(&self, _: f64) -> Option<f64> {
        Some(match self {
            Bernoulli::Probit => 1.0,
            Bernoulli::Logit => PI * PI / 3.0,
        })
    }

    /// `−log Φ` has the second derivative `h (f + h)`, where h is the hazard; it is between 0 and 1.
    fn loss_curvature(&self) -> Option<(f64, f64)> {
        Some((0.0, if *self == Bernoulli::Probit { 1.0 } else { 0.25 }))
    }

    fn density_bounds(&self, _: Observation) -> Option<DensityBounds> {
        let slope = 1.0 / (2.0 * PI).sqrt();
        Some(match self {
            Bernoulli::Probit => DensityBounds::symmetric(1.0, slope, slope / 0.5f64.exp()),
            Bernoulli::Logit => DensityBounds::symmetric(1.0, 0.25, 0.25),
        })
    }

    /// The zeros of Φ nearest to the real line are at −1.9 ± 2.8i, the poles of the logistic function at ±iπ.
    fn resolution(&self, _: Observation) -> Resolution {
        let (strip, step) = if *self == Bernoulli::Probit { (2.8, 0.7) } else { (PI, 0.65) };
        Resolution { strip, step, concave: true, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        sign(at) * 40.0
    }

    /// Returns ±2 for the two classes: the probability of the class is then within a few per cent of 1.
    fn working_response(&self, at: Observation) -> f64 {
        2.0 * sign(at)
    }

    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        if *self == Bernoulli::Logit {
            return integrator.expectation(Expectation::LogPredictive, self, row, own);
        }
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        let spread = (1.0 + v).sqrt();
        let s = sign(at);
        let (value, hazard) = normal::log_cdf_at(s * mu / spread);
        Local { value, mean: s * hazard / spread, variance: -0.5 * hazard * s * mu / (spread * (1.0 + v)) }
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        let p = self.probability(f);
        (p, p * (1.0 - p))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        match at.y {
            y if y < 0.0 => 0.0,
            y if y < 1.0 => 1.0 - self.probability(f),
            _ => 1.0,
        }
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        f64::from(u8::from(random.random::<f64>() < self.probability(f)))
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        let p = match self {
            Bernoulli::Probit => normal::cdf(row.marginal.mean / (1.0 + row.marginal.variance).sqrt()),
            Bernoulli::Logit => self.log_predictive(row.with(1.0), &mut [], integrator).value.exp(),
        };
        // Rounding in quadrature may give a number slightly above 1.
        let p = p.clamp(0.0, 1.0);
        (p, p * (1.0 - p))
    }

    /// Returns the f whose probability is the share of class 1, kept away from 0 and 1.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let ones = y.iter().filter(|y| **y > 0.5).count() as f64;
        let share = (ones + 0.5) / (y.len() as f64 + 1.0);
        match self {
            Bernoulli::Probit => normal::quantile(share),
            Bernoulli::Logit => (share / (1.0 - share)).ln(),
        }
    }
}

#[derive(Clone, Copy)]
struct LogLogistic {
    sign: f64,
}

impl Terms<2> for LogLogistic {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let x = self.sign * f;
        let e = exp::<S>(-x.abs());
        let share = 1.0 / (1.0 + e);
        let value = if x < 0.0 { x } else { 0.0 } - ln_1p::<S>(e);
        [value, self.sign * if x < 0.0 { share } else { e * share }]
    }
}
