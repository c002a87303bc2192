//! Bounds on stochastic gradients of convex, not strongly convex, objectives (Domke, Garrigos &
//! Gower 2023).

use super::{NoiseConstants, Theorem, require_non_negative, require_positive};
use serde::Serialize;
use sparsegp::Result;

/// Bounds on `E F(θ̄) − F*` for a constant step γ over T steps and the weighted average θ̄ of the iterates in (m, C), from constants
/// (a, b) of `E‖g‖² ≤ a‖θ − θ*‖² + b` and `‖θ_0 − θ*‖²` (Theorems 7 and 10).
///
/// The paper takes γ = 1/(𝓜√T) for proximal gradients (Theorem 7, Corollary 11) and γ = 1/√T for projected ones (Theorem 10, Corollary
/// 12), which any γ suits; γ = 1/(𝓜√T) has the right unit for both. Its closed forms for these steps have a/T in place of a, because
/// Lemma 28 uses `1 − θ^T ≥ T(1 − θ)`, the reverse of Bernoulli's inequality. `1/(1 − θ^T) ≤ 1 + θ/(T(1 − θ))` holds instead, and gives a.
/// The numbers here follow from the general forms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConvexBound {
    noise: f64,
    floor: f64,
    initial: f64,
}

impl ConvexBound {
    /// Creates the bound for the noise of gradients and the squared distance at the start.
    ///
    /// # Errors
    ///
    /// Usage errors for an a that is not positive, and negative other arguments.
    pub fn new(noise: NoiseConstants, initial: f64) -> Result<Self> {
        let NoiseConstants { constant: noise, floor } = noise;
        require_positive("the noise constant a", noise)?;
        require_non_negative("the noise constant b", floor)?;
        require_non_negative("the squared distance at the start", initial)?;
        Ok(ConvexBound { noise, floor, initial })
    }

    /// Returns the bound `γ (a‖θ_0 − θ*‖²/(1 − θ^T) + b)` for proximal gradients and γ ≤ 1/𝓜 (Theorem 7), or half of it for projected ones
    /// (Theorem 10), θ being [`ConvexBound::decay`].
    pub fn at(&self, theorem: Theorem, step: f64, steps: usize) -> f64 {
        let share = self.noise * self.initial / (1.0 - self.decay(theorem, step).powf(steps as f64));
        match theorem {
            Theorem::Proximal => step * (share + self.floor),
            Theorem::Projected => 0.5 * step * (share + self.floor),
        }
    }

    /// Returns the factor θ by which the weights fall from iterate to iterate in the average. For proximal gradients it is 1/(1 + 2aγ²), and
    /// iterate t = 1, …, T has the weight θ^{t+1}; for projected ones it is 1/(1 + aγ²), and t = 0, …, T − 1.
    pub fn decay(&self, theorem: Theorem, step: f64) -> f64 {
        let factor = if theorem == Theorem::Proximal { 2.0 } else { 1.0 };
        1.0 / (1.0 + factor * self.noise * step * step)
    }
}
