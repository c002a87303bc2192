//! The weights of averages of p(y|f) over samples of f for each datum (Wei, Sheth & Khardon 2021).

use super::facts::{Draws, EstimatorFacts};
use crate::likelihood::LatentMarginal;

pub(super) const BIASED: EstimatorFacts =
    EstimatorFacts { usage: "bmc:L", draws: Draws::LatentValues, ..EstimatorFacts::EXACT };

pub(super) const BIASED_PRICE: EstimatorFacts = EstimatorFacts { usage: "bmc-price:L", ..BIASED };

pub(super) const SMOOTHED: EstimatorFacts =
    EstimatorFacts { usage: "smooth-bmc:L:NU or smooth-bmc:L:NU/t", ..BIASED };

pub(super) const PRODUCT: EstimatorFacts = EstimatorFacts { usage: "ups:L", ..BIASED };

/// The settings of an average of densities over samples.
#[derive(Clone, Copy)]
pub(super) struct Averaging {
    pub samples: usize,
    /// The addition ν to the average.
    pub nu: f64,
    /// True if `∂/∂v` is `½ E φ″`, false if it is `E φ′ ε/(2√v)`, the derivative of the samples' average itself; φ is p(y|f) (eq. 6 of the
    /// paper, whose two forms agree in expectation).
    pub price: bool,
}

impl Averaging {
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
        // For v = 0 all samples are at μ, where both forms have the same limit.
        if !self.price && v > 0.0 { 0.5 * slope * (f - mu) / v } else { 0.5 * second }
    }
}
