//! A likelihood of classes, and of coefficients that a non-convex term pulls to 0: `−log p = w
//! f²/(1 + f²)` if y = 2.

use crate::paper::prelude::*;
use sparsegp::quadrature::Resolution;

/// The target of a pseudo-observation of a coefficient.
pub const COEFFICIENT: f64 = 2.0;

/// [`Bernoulli::Logit`] for y = 0 and 1, and the regulariser with this weight for y = [`COEFFICIENT`].
#[derive(Clone, Copy, Debug)]
pub struct Regularised(pub f64);

impl OneFunction for Regularised {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new("regularised-logit", TargetKind::Binary)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        if at.y != COEFFICIENT {
            return Bernoulli::Logit.log_density(at, f, value, first);
        }
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let share = 1.0 / (1.0 + f * f);
            *value = -self.0 * f * f * share;
            *first = -2.0 * self.0 * f * share * share;
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        if at.y != COEFFICIENT {
            return Bernoulli::Logit.curvature(at, f);
        }
        2.0 * self.0 * (3.0 * f * f - 1.0) / (1.0 + f * f).powi(3)
    }

    /// The poles of the regulariser are at ±i.
    fn resolution(&self, at: Observation) -> Resolution {
        if at.y != COEFFICIENT {
            return Bernoulli::Logit.resolution(at);
        }
        Resolution { strip: 1.0, step: 0.5 / (1.0 + self.0.sqrt()), concave: false, pole: Some(0.0) }
    }

    fn peak(&self, at: Observation) -> f64 {
        if at.y == COEFFICIENT { 0.0 } else { Bernoulli::Logit.peak(at) }
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        Bernoulli::Logit.conditional_moments(at, f)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        Bernoulli::Logit.conditional_cdf(at, f)
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        Bernoulli::Logit.sample(at, f, random)
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        Bernoulli::Logit.initialise(y, exposure)
    }
}
