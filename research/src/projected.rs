//! Bounds on projected stochastic natural gradients of Guilmeau, Hendrikx & Forbes 2026, as
//! numbers.
//!
//! All bounds are on `E KL(q* ‖ q_T)` in nats, where q* is the best q of the family within the
//! constraints. The divergence has this direction, not that of KL(q_T ‖ q*).

use super::{cholesky, extreme_eigenvalues, require_non_negative, require_positive, require_symmetric};
use faer::{Accum, Mat, MatRef};
use serde::Serialize;
use sparsegp::linalg::{Operand, Part, product, symmetric_eigen};
use sparsegp::{Error, Result};

/// The constants of the bounds, which hold for steps that the upper limit of eigenvalues never shortens. The covariances below an upper
/// limit are not a convex set of expectation parameters `(m, S + mmᵀ)`, which the paper assumes (A2): where the limit binds, KL can
/// exceed the bounds by an order of magnitude.
///
/// The bounds are for an objective that is m-strongly convex relative to the mirror map of the family (m = 1 for a
/// target in the family, or that extends it linearly), with gradients from N samples whose variance term is at most V/N.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProjectedBound {
    /// The relative strong convexity m, in (0, 1] for mixing steps.
    pub strong_convexity: f64,
    /// V, in nats.
    pub noise: f64,
    /// `KL(q* ‖ q_0)`, in nats.
    pub initial: f64,
}

impl ProjectedBound {
    /// Creates the bound with these constants.
    ///
    /// # Errors
    ///
    /// Usage errors for m that is not positive, and a negative V or initial divergence.
    pub fn new(strong_convexity: f64, noise: f64, initial: f64) -> Result<Self> {
        require_positive("the relative strong convexity", strong_convexity)?;
        require_non_negative("the noise constant V", noise)?;
        require_non_negative("the divergence at the start", initial)?;
        Ok(ProjectedBound { strong_convexity, noise, initial })
    }

    /// Returns `(1 − mη)^T KL_0 + ηV/(mN)`: constant steps η ≤ 1/m and N samples (Proposition 4,
    /// Corollary 1 (i)).
    pub fn constant(&self, step: f64, samples: f64, steps: usize) -> f64 {
        self.contraction(step, steps as f64) * self.initial
            + step * self.noise / (self.strong_convexity * samples)
    }

    /// Returns `(1 − mη)^T KL_0 + ηV/m ((1 − mη)^{(T+1)/2} + (2/T)^γ)`: constant steps η ≤ 1/m
    /// and (t + 1)^γ samples (Corollary 1 (ii), and the proof of Proposition 4, whose statement has V/(mη)).
    ///
    /// With contraction c = 1 − mη the noise is `η²V Σ_{t<T} c^{T−1−t} (t + 1)^{−γ}`: terms before T/2 sum to at most
    /// `c^{(T+1)/2}/(mη)`, later ones to at most `(2/T)^γ/(mη)`.
    pub fn growing(&self, step: f64, exponent: f64, steps: usize) -> f64 {
        let time = steps as f64;
        let late = self.contraction(step, 0.5 * (time + 1.0)) + (2.0 / time).powf(exponent);
        self.contraction(step, time) * self.initial + step * self.noise / self.strong_convexity * late
    }

    /// Returns `4V/(m² T (T + 1)) Σ_{t<T} 1/N_t`: steps 1/(m(t/2 + 1)), with the numbers of samples
    /// of T ≥ 1 steps (Proposition 5 and Corollary 1 (iii), whose T is one less).
    pub fn decreasing(&self, samples: impl IntoIterator<Item = f64>) -> f64 {
        let (mut steps, mut sum) = (0.0, 0.0);
        for count in samples {
            steps += 1.0;
            sum += 1.0 / count;
        }
        4.0 * self.noise / (self.strong_convexity.powi(2) * steps * (steps + 1.0)) * sum
    }

    fn contraction(&self, step: f64, steps: f64) -> f64 {
        (1.0 - self.strong_convexity * step).max(0.0).powf(steps)
    }
}

/// Returns V for Bonnet–Price gradients of a Gaussian target of precision P, from a
/// start of covariance S₀ (both `d × d`): `½ Σ_i max(1, λ_i)²` with the eigenvalues λ of
/// `P^½ S₀ P^½`, in nats. Proposition 7 states that such a V exists; this one is derived here, for steps whose `limits`, the
/// smallest and largest eigenvalue of a covariance, never bind.
///
/// The Hessian has no noise, and the noise of the mean's gradient has covariance `P S_t P/N`. In
/// natural parameters, in which KL(q* ‖ q) is the Bregman divergence of the log-partition function,
/// a step of size η then costs `½ η² tr(S_{t+1} P S_t P)/N` more than a step without noise. Every
/// S_t⁻¹ is a mixture of S₀⁻¹ and P, so no eigenvalue of `P^½ S_t P^½` exceeds max(1, λ_i).
///
/// # Errors
///
/// Usage errors for matrices that are not symmetric and positive definite, or of different sizes, and for limits that may bind.
pub fn price_noise(
    precision: MatRef<'_, f64>,
    start_cov: MatRef<'_, f64>,
    limits: (f64, f64),
) -> Result<f64> {
    let d = precision.nrows();
    require_symmetric("the precision of the target", precision, d)?;
    require_symmetric("the covariance of the start", start_cov, d)?;
    let (factor, _) = cholesky("the precision of the target", precision.to_owned())?;
    cholesky("the covariance of the start", start_cov.to_owned())?;
    // Every S_t⁻¹ is a mixture of S₀⁻¹ and P, so the eigenvalues of S_t are between the extremes of both.
    let (start, target) = (extreme_eigenvalues(start_cov)?, extreme_eigenvalues(precision)?);
    let (least, most) = (start.0.min(1.0 / target.1), start.1.max(1.0 / target.0));
    if !(limits.0 <= least && limits.1 >= most) {
        return Err(Error::usage(format!(
            "the eigenvalues of the covariance are limited to {} … {}, expected a range that contains {least} … {most}: no bound is \
             known for steps that are cut short at a limit",
            limits.0, limits.1
        )));
    }
    // P^½ S₀ P^½ has the same eigenvalues as Lᵀ S₀ L with L Lᵀ = P.
    let (mut half, mut whole) = (Mat::zeros(d, d), Mat::zeros(d, d));
    let lower = Operand::lower(factor.as_ref());
    product(half.as_mut(), Part::All, Accum::Replace, Operand::full(start_cov), lower, 1.0);
    let upper = Operand::upper(factor.transpose());
    product(whole.as_mut(), Part::All, Accum::Replace, upper, Operand::full(half.as_ref()), 1.0);
    let (values, _) = symmetric_eigen(whole.as_ref()).ok_or_else(|| {
        Error::usage("the eigenvalues are not finite numbers, because the matrices are too large")
    })?;
    Ok(0.5 * values.iter().map(|value| value.max(1.0).powi(2)).sum::<f64>())
}
