//! Square-root variational Newton: the mixing steps that keep the factor of S positive, the linear rate with constant steps, and the bias
//! that errors in the gradients cause.
//!
//! With S = C Cᵀ, C lower triangular, `C₊ = C − (ρ/β) C tril½(Cᵀ Ĝ C)` (Kumar, Möllenhoff, Khan &
//! Lucchi 2025; Tan 2025). The diagonal of a product of lower triangular matrices is the product of
//! their diagonals, so that `C₊_ii = C_ii (1 − ½ (ρ/β) (Cᵀ Ĝ C)_ii)`, which stays positive for
//! every i exactly when `½ (ρ/β) max_i (Cᵀ Ĝ C)_ii < 1`.

use super::{Curvature, require_non_negative, require_positive};
use faer::MatRef;
use serde::Serialize;
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

/// Convergence of SR-VN with exact gradients and a constant mixing step ρ, in the manner of Theorems 2 and 3 of Kumar, Möllenhoff, Khan &
/// Lucchi 2025; derived here, since the constants differ.
///
/// Let the negative log joint be ϖ-strongly convex and 𝓜-smooth, and let the eigenvalues of every S
/// along the way lie in [λ, Λ]. F(m, C) is then ϖ-strongly convex, and L-smooth with `L = 𝓜 + β/λ`,
/// since `C_ii ≥ √λ`. With the symmetric `X = Cᵀ Ĝ C` and γ = ρ/β, a step moves m by `−γ S ĝ` and C
/// by `−γ C T`, `T = tril½ X`. From `⟨X, T⟩ = ½‖X‖² ≥ ‖T‖²` it follows, for `D = ĝᵀSĝ + ½‖X‖²`,
/// that
///
/// ```text
/// D ≥ ½ λ ‖∇F‖² ≥ λϖ (F − F*),    ‖(Sĝ, C T)‖² ≤ Λ D,    F₊ ≤ F − γ (1 − ½ LΛγ) D
/// ```
///
/// The first inequality is the Polyak–Łojasiewicz inequality in the natural geometry; the last one
/// is smoothness. Errors in ĝ and Ĝ with norms of at most e and E move `(S^½ĝ, X/√2)` by at most
/// `ε² = Λe² + ½Λ²E²`, and for `γ ≤ 1/(LΛ)` `F₊ − F* ≤ (1 − ½ γλϖ)(F − F*) + ½ γ ε²`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SquareRootRate {
    curvature: Curvature,
    /// λ and Λ.
    variances: (f64, f64),
    beta: f64,
}

impl SquareRootRate {
    /// Creates the rate from bounds on the curvature and on the eigenvalues of S along the way.
    ///
    /// # Errors
    ///
    /// Usage errors for constants that are not positive, or an upper bound below the lower one.
    pub fn new(curvature: Curvature, smallest: f64, largest: f64, beta: f64) -> Result<Self> {
        require_positive("the strong convexity", curvature.strong_convexity)?;
        require_positive("the smoothness", curvature.smoothness)?;
        require_positive("the smallest variance", smallest)?;
        require_positive("the largest variance", largest)?;
        require_positive("beta", beta)?;
        if largest < smallest {
            return Err(Error::usage(format!(
                "the largest variance {} is below the smallest one, {}",
                largest, smallest
            )));
        }
        Ok(SquareRootRate { curvature, variances: (smallest, largest), beta })
    }

    /// Returns L, the smoothness of F in (m, C) along the way.
    pub fn smoothness(&self) -> f64 {
        self.curvature.smoothness + self.beta / self.variances.0
    }

    /// Returns λϖ, the Polyak–Łojasiewicz constant: `D ≥ λϖ (F − F*)`.
    pub fn pl_constant(&self) -> f64 {
        self.variances.0 * self.curvature.strong_convexity
    }

    /// Returns the mixing step with the best rate, `ρ = β/(LΛ)`.
    pub fn best_step(&self) -> f64 {
        self.beta / (self.smoothness() * self.variances.1)
    }

    /// Returns the bound `2β/(LΛ)` on mixing steps: every smaller step lowers F.
    pub fn largest_step(&self) -> f64 {
        2.0 * self.best_step()
    }

    /// Returns an upper bound on the factor by which a step ρ multiplies F − F*:
    /// `1 − γ(1 − ½LΛγ) λϖ`.
    pub fn contraction(&self, step: f64) -> f64 {
        let gamma = step / self.beta;
        1.0 - gamma * (1.0 - 0.5 * step / self.best_step()) * self.pl_constant()
    }

    /// Returns the number of steps ρ after which F − F* is at most `share` times its initial value;
    /// infinite if the steps do not contract.
    pub fn steps_to(&self, step: f64, share: f64) -> f64 {
        let contraction = self.contraction(step);
        if contraction >= 1.0 { f64::INFINITY } else { (share.ln() / contraction.ln()).ceil().max(0.0) }
    }

    /// Returns the largest limit of F − F*, in nats, for steps of at most
    /// [`SquareRootRate::best_step`] with errors of norms at most e in ĝ and E (Frobenius) in Ĝ:
    /// `(Λe² + ½Λ²E²)/(λϖ)`.
    ///
    /// # Errors
    ///
    /// Usage errors for negative errors.
    pub fn bias(&self, gradient_error: f64, hessian_error: f64) -> Result<f64> {
        require_non_negative("the error of the gradient", gradient_error)?;
        require_non_negative("the error of the Hessian", hessian_error)?;
        let largest = self.variances.1;
        let square = largest * gradient_error.powi(2) + 0.5 * (largest * hessian_error).powi(2);
        Ok(square / self.pl_constant())
    }
}
