//! The mixing steps that keep the factor of a square-root variational Newton step positive; the step itself is elsewhere.
//!
//! With S = C Cᵀ, C lower triangular, `C₊ = C − (ρ/β) C tril½(Cᵀ Ĝ C)` (Kumar, Möllenhoff, Khan &
//! Lucchi 2025; Tan 2025). The diagonal of a product of lower triangular matrices is the product of
//! their diagonals, so that `C₊_ii = C_ii (1 − ½ (ρ/β) (Cᵀ Ĝ C)_ii)`, which stays positive for
//! every i exactly when `½ (ρ/β) max_i (Cᵀ Ĝ C)_ii < 1`.

use super::require_positive;
use faer::MatRef;
use sparsegp::{Error, Result};

/// Returns the bound on the mixing steps ρ that keep `diag(C₊)` positive: `2β / max_i (Cᵀ Ĝ C)_ii`,
/// or infinite if no diagonal entry is positive. Any ρ ≤ 1 below it may be taken.
///
/// `whitened` is `Cᵀ Ĝ C` (`M × M`; only its diagonal is read), `Ĝ = H − β S⁻¹`.
///
/// Returns a usage error if `whitened` is not square, its diagonal is not finite, or β is not
/// positive.
pub fn square_root_step(whitened: MatRef<'_, f64>, beta: f64) -> Result<f64> {
    require_positive("beta", beta)?;
    let (rows, cols) = whitened.shape();
    if rows != cols {
        return Err(Error::usage(format!("the whitened gradient is {rows} × {cols}, not square")));
    }
    if (0..rows).any(|i| !whitened[(i, i)].is_finite()) {
        return Err(Error::usage("the whitened gradient is not finite"));
    }
    let largest = (0..rows).map(|i| whitened[(i, i)]).fold(0.0, f64::max);
    Ok(2.0 * beta / largest)
}

/// Returns a bound on the mixing steps ρ that holds for every gradient: each ρ below
/// `2β / (𝓜 λ_max(S) − β)` keeps `diag(C₊)` positive. If `𝓜 λ_max(S) ≤ β`, every ρ does, and the
/// bound is infinite.
///
/// `smoothness` is 𝓜 with `H ⪯ 𝓜 I`, where H holds β times the prior's precision and the data's part scaled like the
/// gradient's; `largest_variance` is λ_max(S). Then `(Cᵀ Ĝ C)_ii = (Cᵀ H C)_ii − β ≤ 𝓜 ‖C e_i‖² − β ≤ 𝓜 λ_max(S) − β`.
///
/// Returns a usage error if an argument is not positive.
pub fn square_root_step_bound(smoothness: f64, largest_variance: f64, beta: f64) -> Result<f64> {
    require_positive("the smoothness", smoothness)?;
    require_positive("the largest variance", largest_variance)?;
    require_positive("beta", beta)?;
    Ok(2.0 * beta / (smoothness * largest_variance - beta).max(0.0))
}
