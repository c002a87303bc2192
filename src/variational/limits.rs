//! What limits a step of natural gradients, whatever the covariance: guards, the trust region, bounds of variances.

use super::{DataGradient, OVERFLOW};
use crate::words::word_option;

word_option! {
    /// What keeps a natural-gradient step positive definite.
    #[non_exhaustive]
    Guard, "guard of the q update" {
        /// No variance grows by more than a factor 2 or falls by more than a third in a step (predictive log loss, and
        /// reparameterised samples, whose curvature is mostly noise); else as backtrack.
        Trust = "trust",
        /// Halve ρ until the new precision is positive definite.
        Backtrack = "backtrack",
        /// `S₊⁻¹ = S⁻¹ + γĜ + ½γ²ĜSĜ` with γ = ρ/β, positive definite whatever Ĝ is (Lin, Schmidt & Khan 2020), for the
        /// steps that would not be without it.
        Retraction = "retraction",
        /// Eigenvalues of the new precision are clipped to [1e-4, 1e8], the prior's being 1.
        Projection = "projection",
    }
}

/// The eigenvalues that a projected precision may have.
pub(super) const PRECISION_RANGE: (f64, f64) = (1e-4, 1e8);

/// The largest relative change of S⁻¹ in a step within the trust region.
pub(super) const TRUST_RADIUS: f64 = 0.5;

/// Whether what a gradient says about the curvature cannot be trusted over a long way: where it is not that of the mean,
/// and where it comes from slopes at few samples.
pub(super) fn needs_trust(gradient: &DataGradient<'_>) -> bool {
    gradient.curvature.is_some() || gradient.path.is_some()
}

/// `s` within the bounds, whatever these are; the upper one wins where they contradict each other.
pub(super) fn clip(s: f64, (low, high): (f64, f64)) -> f64 {
    s.max(low).min(high)
}

/// Bounds of variances that can be computed with.
pub(super) fn usable((low, high): (f64, f64)) -> (f64, f64) {
    let least = 1.0 / OVERFLOW;
    let low = if low > least { low.min(OVERFLOW) } else { least };
    (low, if high >= low { high.min(OVERFLOW) } else { low.max(1.0) })
}
