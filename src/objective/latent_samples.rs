//! log E p(y|f) and its derivatives from samples of f for each datum (Wei, Sheth & Khardon 2021).

use super::facts::{Draws, EstimatorFacts};
use super::rejection::ProductSampler;
use super::{Gain, LossScratch};
use crate::likelihood::{LatentMarginal, Likelihood, Observation};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

pub(super) const BIASED: EstimatorFacts =
    EstimatorFacts { usage: "bmc:L", draws: Draws::LatentValues, ..EstimatorFacts::EXACT };

pub(super) const BIASED_PRICE: EstimatorFacts = EstimatorFacts { usage: "bmc-price:L", ..BIASED };

pub(super) const SMOOTHED: EstimatorFacts =
    EstimatorFacts { usage: "smooth-bmc:L:NU or smooth-bmc:L:NU/t", ..BIASED };

pub(super) const PRODUCT: EstimatorFacts = EstimatorFacts { usage: "ups:L", ..BIASED };

/// A datum whose log predictive density is computed, with derivatives in the first `wanted` own
/// parameters of the likelihood.
pub(super) struct LatentDatum<'a> {
    pub likelihood: &'a dyn Likelihood,
    pub at: Observation<'a>,
    pub latent: LatentMarginal,
    pub wanted: usize,
}

/// The form of `∂/∂v` from samples `f = μ + √v ε`, where φ is p(y|f) (eq. 6 of the paper, whose two
/// forms agree in expectation).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VarianceSlope {
    /// From `E φ′ ε/(2√v)`: the derivative of the samples' average itself.
    Path,
    /// From `½ E φ″`.
    Price,
}

/// The settings of an average of densities over samples.
#[derive(Clone, Copy)]
pub(super) struct Averaging {
    pub samples: usize,
    /// The addition ν to the average.
    pub nu: f64,
    pub slope: VarianceSlope,
}

impl Averaging {
    /// Settings of bMC along the samples.
    pub fn path(samples: usize) -> Self {
        Averaging { samples, nu: 0.0, slope: VarianceSlope::Path }
    }

    /// Settings of bMC with second derivatives.
    pub fn price(samples: usize) -> Self {
        Averaging { slope: VarianceSlope::Price, ..Averaging::path(samples) }
    }

    /// Turns log densities of samples into their weights `φ_l/(Σ φ + Lν)`; returns
    /// `log (ν + mean φ)`, or `None` if no density is a positive number.
    pub(crate) fn weigh(self, log_densities: &mut [f64]) -> Option<f64> {
        // The largest term is taken out first, so that no ratio is 0/0.
        let top = log_densities.iter().copied().fold(self.nu.ln(), f64::max);
        if !top.is_finite() {
            return None;
        }
        log_densities.iter_mut().for_each(|l| *l = (*l - top).exp());
        let count = self.samples as f64;
        let smoothing = count * (self.nu.ln() - top).exp();
        let total = log_densities.iter().sum::<f64>() + smoothing;
        log_densities.iter_mut().for_each(|w| *w /= total);
        Some(top + (total / count).ln())
    }

    /// Returns the contribution of a sample f to `∂/∂v`, given `(log φ)′` and `φ″/φ` at f.
    pub(crate) fn variance_slope(self, f: f64, latent: LatentMarginal, slope: f64, second: f64) -> f64 {
        let LatentMarginal { mean: mu, variance: v } = latent;
        match self.slope {
            // For v = 0 all samples are at μ, where both forms have the same limit.
            VarianceSlope::Path if v > 0.0 => 0.5 * slope * (f - mu) / v,
            _ => 0.5 * second,
        }
    }
}

impl LatentDatum<'_> {
    /// bMC and smooth-bMC: `log (ν + mean φ)` over samples of N(f; μ, v) with its derivatives.
    pub fn averaged(&self, averaging: Averaging, scratch: &mut LossScratch, random: &mut ChaCha8Rng) -> Gain {
        let LatentDatum { likelihood, at, latent, wanted } = *self;
        let LatentMarginal { mean: mu, variance: v } = latent;
        let (count, sd) = (averaging.samples, v.max(0.0).sqrt());
        let LossScratch { own, samples: f, value, first, .. } = scratch;
        f.clear();
        f.extend((0..count).map(|_| {
            let z: f64 = StandardNormal.sample(random);
            mu + sd * z
        }));
        value.resize(count, 0.0);
        first.resize(count, 0.0);
        likelihood.log_density(at, f, value, first);
        let Some(log_average) = averaging.weigh(value) else {
            return Gain { value: f64::NAN, mean: f64::NAN, variance: f64::NAN, curvature: f64::NAN };
        };
        let (mut mean, mut variance, mut second_moment) = (0.0, 0.0, 0.0);
        for ((w, slope), f) in value.iter().zip(&*first).zip(&*f) {
            // A sample of weight 0 may have derivatives that overflow.
            if *w > 0.0 {
                // φ″/φ = (log φ)″ + ((log φ)′)².
                let second = likelihood.curvature(at, *f) + slope * slope;
                mean += w * slope;
                second_moment += w * second;
                variance += w * averaging.variance_slope(*f, latent, *slope, second);
            }
        }
        if wanted > 0 {
            likelihood.own_gradient(at, f, value, &mut own[..wanted]);
        }
        Gain { value: log_average, mean, variance, curvature: second_moment - mean * mean }
    }

    /// uPS: `E (f − μ)/v` and `½ E ((f − μ)²/v − 1)/v` over samples of the product `N(f; μ, v) p(y|f)`; the value is the log of the average
    /// acceptance, which estimates `E p(y|f)` without bias.
    pub(crate) fn of_product(
        &self,
        samples: usize,
        scratch: &mut LossScratch,
        random: &mut ChaCha8Rng,
    ) -> Gain {
        let LatentDatum { likelihood, at, latent, wanted } = *self;
        let LatentMarginal { mean: mu, variance: v } = latent;
        let LossScratch { own, samples: f, value, counts, integrator, .. } = scratch;
        let sampler = ProductSampler::new(likelihood, at, latent);
        let log_average = sampler.draw(samples, f, counts, integrator, random);
        let share = 1.0 / samples as f64;
        let (mut mean, mut variance) = (0.0, 0.0);
        for f in f.iter() {
            let d = f - mu;
            mean += share * d / v;
            variance += share * 0.5 * (d * d / v - 1.0) / v;
        }
        if wanted > 0 {
            value.clear();
            value.resize(samples, share);
            likelihood.own_gradient(at, f, value, &mut own[..wanted]);
        }
        Gain { value: log_average, mean, variance, curvature: 2.0 * variance - mean * mean }
    }
}
