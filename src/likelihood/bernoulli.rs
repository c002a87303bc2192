//! Two classes: class 1 has probability Φ(f) or 1/(1 + e^{−f}).

use super::sums::{Terms, fill};
use super::{
    DensityBounds, Expectation, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction,
    Row, TargetKind, named, own_parameters,
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

/// Returns the share of class 1, kept away from 0 and 1.
fn share_of_ones(y: &[f64]) -> f64 {
    let ones = y.iter().filter(|y| **y > 0.5).count() as f64;
    (ones + 0.5) / (y.len() as f64 + 1.0)
}

fn draw(probability: f64, random: &mut ChaCha8Rng) -> f64 {
    f64::from(u8::from(random.random::<f64>() < probability))
}

/// The common part of both links, given the probability of class 1 as a function of f, and its
/// predictive probability.
macro_rules! bernoulli {
    ($kind:expr, $probability:expr, $predictive:expr, $inverse:expr) => {
        own_parameters!();

        named!($kind);

        fn peak(&self, at: Observation) -> f64 {
            sign(at) * 40.0
        }

        /// Returns ±2 for the two classes: the probability of the class is then within a few per
        /// cent of 1.
        fn working_response(&self, at: Observation) -> f64 {
            2.0 * sign(at)
        }

        fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
            let p = $probability(f);
            (p, p * (1.0 - p))
        }

        fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
            match at.y {
                y if y < 0.0 => 0.0,
                y if y < 1.0 => 1.0 - $probability(f),
                _ => 1.0,
            }
        }

        fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
            draw($probability(f), random)
        }

        fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
            // Rounding in quadrature may give a number slightly above 1.
            let p = f64::clamp($predictive(row.marginal, integrator), 0.0, 1.0);
            (p, p * (1.0 - p))
        }

        fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
            $inverse(share_of_ones(y))
        }
    };
}

/// `p(y = 1 | f) = Φ(f)`: the predictive density is closed, `Φ(±μ/√(1 + v))`.
#[derive(Clone, Copy, Debug)]
pub struct BernoulliProbit;

impl OneFunction for BernoulliProbit {
    bernoulli!(
        LikelihoodKind::BernoulliProbit,
        normal::cdf,
        |latent: LatentMarginal, _: &mut Integrator| normal::cdf(
            latent.mean / (1.0 + latent.variance).sqrt()
        ),
        normal::quantile
    );

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        normal::log_cdf(sign(at), f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let x = sign(at) * f;
        let hazard = normal::log_cdf_at(x).1;
        -hazard * (x + hazard)
    }

    /// Returns 1: the class is the sign of a variable `N(f, 1)`.
    fn observation_variance(&self, _: f64) -> Option<f64> {
        Some(1.0)
    }

    /// `−log Φ` has the second derivative `h (f + h)`, where h is the hazard; it is between 0 and 1.
    fn loss_curvature(&self) -> Option<(f64, f64)> {
        Some((0.0, 1.0))
    }

    fn density_bounds(&self, _: Observation) -> Option<DensityBounds> {
        let slope = 1.0 / (2.0 * PI).sqrt();
        Some(DensityBounds::symmetric(1.0, slope, slope / 0.5f64.exp()))
    }

    /// The zeros of Φ nearest to the real line are at −1.9 ± 2.8i.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: 2.8, step: 0.7, concave: true, pole: None }
    }

    fn expectation(
        &self,
        of: Expectation,
        row: LatentRow,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        if of == Expectation::ExpectedLog {
            return integrator.expectation(of, self, row, own);
        }
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        let spread = (1.0 + v).sqrt();
        let s = sign(at);
        let (value, hazard) = normal::log_cdf_at(s * mu / spread);
        Local { value, mean: s * hazard / spread, variance: -0.5 * hazard * s * mu / (spread * (1.0 + v)) }
    }
}

/// `p(y = 1 | f) = 1/(1 + e^{−f})`.
#[derive(Clone, Copy, Debug)]
pub struct BernoulliLogit;

/// `1/(1 + e^{−f})` without overflow.
pub(super) fn logistic(f: f64) -> f64 {
    if f >= 0.0 {
        1.0 / (1.0 + (-f).exp())
    } else {
        let e = f.exp();
        e / (1.0 + e)
    }
}

impl OneFunction for BernoulliLogit {
    bernoulli!(
        LikelihoodKind::BernoulliLogit,
        logistic,
        |latent: LatentMarginal, integrator: &mut Integrator| {
            let row = Row::new(Observation::of(1.0), latent);
            integrator.expectation(Expectation::LogPredictive, &BernoulliLogit, row, &mut []).value.exp()
        },
        |p: f64| (p / (1.0 - p)).ln()
    );

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        fill(LogLogistic { sign: sign(at) }, f, value, first);
    }

    /// Returns π²/3: the class is the sign of a logistic variable around f.
    fn observation_variance(&self, _: f64) -> Option<f64> {
        Some(PI * PI / 3.0)
    }

    fn curvature(&self, _: Observation, f: f64) -> f64 {
        let p = logistic(f);
        -p * logistic(-f)
    }

    fn loss_curvature(&self) -> Option<(f64, f64)> {
        Some((0.0, 0.25))
    }

    fn density_bounds(&self, _: Observation) -> Option<DensityBounds> {
        Some(DensityBounds::symmetric(1.0, 0.25, 0.25))
    }

    /// The poles of the logistic function are at ±iπ.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: PI, step: 0.65, concave: true, pole: None }
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
