//! FITC (Snelson & Ghahramani 2006): the evidence under independent residuals, and its posterior over w.

use super::bounds::BoundValue;
use super::conditional::conditional_elbo;
use super::sums::Statistics;
use crate::linalg::NotPositiveDefinite;

/// Returns FITC's negative log evidence `−log N(c; 0, AᵀA + Λ)`, a sum over the data, and its
/// posterior `S⁻¹ = I + AΛ⁻¹Aᵀ`, `m = S A Λ⁻¹ c`, from statistics weighted by `Λ⁻¹ = 1/(r + σ²)`
/// ([`super::Weighting::Residual`]). It equals the conditional β-ELBO at β = 1 for rows without
/// neighbours.
pub fn fitc(statistics: &Statistics) -> Result<BoundValue, NotPositiveDefinite> {
    conditional_elbo(statistics, 1.0)
}
