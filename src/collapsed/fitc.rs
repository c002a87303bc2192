//! FITC (Snelson & Ghahramani 2006): the evidence under independent residuals, and its posterior over w.

use super::sums::Statistics;
use crate::linalg::{self, Factorizer, NotPositiveDefinite, dot, gram_of_inverse};
use crate::variational::{Matrix, Normal};
use std::f64::consts::PI;

/// FITC's negative log evidence and its posterior.
#[derive(Clone, Debug)]
pub struct FitcValue {
    /// `−log N(c; 0, AᵀA + Λ)`, a sum over the data.
    pub value: f64,
    /// `S⁻¹ = I + AΛ⁻¹Aᵀ`, `m = S A Λ⁻¹ c`: predicts through the same code as any q.
    pub q: Normal,
}

/// FITC from statistics weighted by `Λ⁻¹ = 1/(r + σ²)` ([`super::Weighting::Residual`]).
pub fn fitc(statistics: &Statistics) -> Result<FitcValue, NotPositiveDefinite> {
    let Statistics { gram, ac, cc, log_weight, count, .. } = statistics;
    let m = ac.len();
    let mut factor = gram.clone();
    linalg::add_diagonal(factor.as_mut(), 1.0);
    let mut inverse_factor = linalg::spread(m, m);
    Factorizer::new(m).cholesky_with_inverse(factor.as_mut(), inverse_factor.as_mut())?;
    let log_det = linalg::log_det(factor.as_ref());
    let mut cov = factor;
    gram_of_inverse(inverse_factor.as_ref(), cov.as_mut());
    let mut mean = vec![0.0; m];
    linalg::matvec(cov.as_ref(), ac, &mut mean);
    let value = 0.5 * (count * (2.0 * PI).ln() - log_weight + log_det + cc - dot(ac, &mean));
    Ok(FitcValue { value, q: Normal { mean, cov: Matrix::Full(cov), log_det: -log_det } })
}
