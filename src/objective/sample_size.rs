//! Numbers of samples with which biased gradients of the log predictive density converge (Wei,
//! Sheth & Khardon 2021).

use crate::error::{Error, Result};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{DensityBounds, Expectation, LatentRow, Local, OneFunction};
use serde::Serialize;

/// `E φ`, `E φ′` and `E φ″` under N(f; μ, v), φ being p(y|f) of one observation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[doc(hidden)]
pub struct DensityMoments {
    /// `E φ`.
    pub density: f64,
    /// `E φ′`.
    pub slope: f64,
    /// `E φ″`.
    pub curvature: f64,
}

impl DensityMoments {
    /// The moments under the latent marginal N(μ, v), by quadrature: `E φ′ = E φ · ∂_μ log E φ` and `E φ″ = 2 E φ · ∂_v log E φ`.
    pub fn at(likelihood: &dyn OneFunction, row: LatentRow, integrator: &mut Integrator) -> Self {
        let of = Expectation::LogPredictive;
        let Local { value, mean, variance } = likelihood.expectation(of, row, &mut [], integrator);
        let density = value.exp();
        DensityMoments { density, slope: density * mean, curvature: 2.0 * density * variance }
    }

    /// `M = max{B²/(E φ)², (B′ − b′)²/P², (B″ − b″)²/Q²}` (eq. 10): P is |E φ′| and Q is |E φ″|, or 1 where those are 0.
    pub fn ratio(&self, bounds: &DensityBounds) -> f64 {
        let or_one = |size: f64| if size == 0.0 { 1.0 } else { size };
        let width = |(low, high): (f64, f64)| high - low;
        let terms = [
            bounds.density / self.density,
            width(bounds.slope) / or_one(self.slope),
            width(bounds.curvature) / or_one(self.curvature),
        ];
        terms.iter().fold(0.0, |largest: f64, term| largest.max(term * term))
    }
}

/// Returns the minimum number of samples per row at a step γ of a run on `rows` rows: the smallest integer above `M log(6n/δ)/(2γ²)` (eq.
/// 9), infinite if there is no bound. `failure` is the probability δ_t that this step may fail, `ratio` the largest M of the data.
///
/// The proof needs γ ≤ ½. With `Σ δ_t = δ` biased Monte Carlo gradients converge with probability 1 − δ (Corollary 5; for example
/// [`failure_at`]). With `δ_t = γ_t⁴` and the smoothing `ν_t = γ_t ζ` they converge with probability 1 (Corollary 9), where ζ > 0 is a
/// lower bound on all E φ.
///
/// # Errors
///
/// Usage errors for a ratio, a step or a probability that is not positive, and for steps above ½.
#[doc(hidden)]
pub fn samples_for_step(ratio: f64, rows: usize, step: f64, failure: f64) -> Result<f64> {
    for (what, value) in [("the ratio M", ratio), ("the step", step), ("the probability of failure", failure)]
    {
        if value <= 0.0 || value.is_nan() {
            return Err(Error::usage(format!("{what} is {value}, expected a positive number")));
        }
    }
    if step > 0.5 {
        return Err(Error::usage(format!("the step is {step}, expected at most 0.5, as the bound needs")));
    }
    Ok((ratio * (6.0 * rows as f64 / failure).ln() / (2.0 * step * step)).floor() + 1.0)
}

/// `δ_t = 6δ/(π² (t + 1)²)` at iteration t = 0, 1, …: probabilities that sum to `failure`.
#[doc(hidden)]
pub fn failure_at(failure: f64, t: usize) -> f64 {
    6.0 * failure / (std::f64::consts::PI * (t as f64 + 1.0)).powi(2)
}
