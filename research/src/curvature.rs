//! Curvature of the negative log joint of linear and logistic models, and its consequences for
//! plain gradient steps.
//!
//! Domke, Gower & Garrigos 2023, for q(w) = N(m, C Cᵀ) and the parameters θ = (m, C), C lower
//! triangular or symmetric, with the Euclidean and Frobenius norms. If β is not 1, pass P/β for P.

use super::{
    cholesky, columns_of, extreme_eigenvalues, prior_precision, require_non_negative, require_positive,
    require_symmetric,
};
use faer::{Accum, Mat, MatRef};
use serde::Serialize;
use sparsegp::linalg::{Operand, Part, product, reflect_lower};
use sparsegp::variational::Schedule;
use sparsegp::{Error, Result};

/// Bounds on the Hessian of the negative log joint: for all weights every eigenvalue is between ϖ and 𝓜.
///
/// The expected negative log joint is then 𝓜-smooth and ϖ-strongly convex in θ = (m, C) too.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Curvature {
    /// The smoothness 𝓜.
    pub smoothness: f64,
    /// The strong convexity ϖ.
    pub strong_convexity: f64,
}

impl Curvature {
    /// Returns the curvature of Bayesian linear regression on inputs `x` (`n × D`, a row per datum)
    /// with prior covariance P (`D × D`) and noise variance σ²: the extreme eigenvalues of
    /// `P⁻¹ + XᵀX/σ²`.
    ///
    /// Returns a usage error if shapes do not match, a number is not finite, P is not positive
    /// definite or σ² not positive.
    pub fn linear(x: MatRef<'_, f64>, prior_cov: MatRef<'_, f64>, noise_variance: f64) -> Result<Self> {
        require_positive("the noise variance", noise_variance)?;
        let hessian = precision_with(x, prior_cov, 1.0 / noise_variance)?;
        let (strong_convexity, smoothness) = extreme_eigenvalues(hessian.as_ref())?;
        Ok(Curvature { smoothness, strong_convexity })
    }

    /// Returns the curvature of Bayesian logistic regression on inputs `x` (`n × D`, a row per
    /// datum) with prior covariance P (`D × D`): `𝓜 = λ_max(P⁻¹ + ¼ XᵀX)`, since a logistic loss
    /// has a second derivative of at most ¼, and `ϖ = λ_min(P⁻¹)`, since that derivative vanishes
    /// far from zero.
    ///
    /// Returns a usage error if shapes do not match, a number is not finite or P is not positive
    /// definite.
    pub fn logistic(x: MatRef<'_, f64>, prior_cov: MatRef<'_, f64>) -> Result<Self> {
        let hessian = precision_with(x, prior_cov, 0.25)?;
        let (_, smoothness) = extreme_eigenvalues(hessian.as_ref())?;
        let (_, largest) = extreme_eigenvalues(prior_cov)?;
        Ok(Curvature { smoothness, strong_convexity: 1.0 / largest })
    }

    /// Returns the curvature of a generalised linear model on inputs `x` (`n × D`, a row per datum)
    /// with prior covariance P (`D × D`), where the negative log density of an observation has
    /// second derivatives between θ_min and θ_max in its linear predictor
    /// ([`OneFunction::loss_curvature`](sparsegp::likelihood::OneFunction::loss_curvature)): Theorem 21
    /// of Domke, Garrigos & Gower 2023, with θ_max in the smoothness. A θ_min below 0 may leave no
    /// convexity, ϖ ≤ 0.
    ///
    /// These constants are for the coefficients; [`Curvature::whitened`] gives those for the w that
    /// update rules move.
    ///
    /// Returns a usage error if shapes do not match, a number is not finite, θ_max is below θ_min
    /// or P is not positive definite.
    pub fn generalized(
        x: MatRef<'_, f64>,
        prior_cov: MatRef<'_, f64>,
        least: f64,
        most: f64,
    ) -> Result<Self> {
        if !(least <= most && least.is_finite() && most.is_finite()) {
            return Err(Error::usage(format!(
                "the second derivatives are between {least} and {most}, expected two finite numbers, the smaller one first"
            )));
        }
        let (low, _) = extreme_eigenvalues(precision_with(x, prior_cov, least)?.as_ref())?;
        let (lowest, high) = extreme_eigenvalues(precision_with(x, prior_cov, most)?.as_ref())?;
        let smoothness = high.abs().max(low.abs()).max(lowest.abs());
        Ok(Curvature { smoothness, strong_convexity: low })
    }

    /// Like [`Curvature::generalized`], in the coordinates w of update rules: coefficients are
    /// `m0 + L w` with `L Lᵀ = P`, so w has the prior N(0, I) and inputs `x L`. For P = I both are
    /// the same; for `P = pI`, a step on w is the step on the coefficients divided by p.
    pub fn whitened(x: MatRef<'_, f64>, prior_cov: MatRef<'_, f64>, least: f64, most: f64) -> Result<Self> {
        let d = x.ncols();
        require_symmetric("the prior covariance", prior_cov, d)?;
        let (factor, _) = cholesky("the prior covariance", prior_cov.to_owned())?;
        let mut inputs = Mat::zeros(x.nrows(), d);
        let lower = Operand::lower(factor.as_ref());
        product(inputs.as_mut(), Part::All, Accum::Replace, Operand::full(x), lower, 1.0);
        Curvature::generalized(inputs.as_ref(), Mat::<f64>::identity(d, d).as_ref(), least, most)
    }

    /// Returns `a = 2(d + 3) 𝓜²` and `b = a ‖θ* − θ̄‖²` for the reparameterised gradient of the expected negative log joint of d weights
    /// from one sample, with `θ̄ = (mode of the joint, 0)`, given the squared distance of θ* from θ̄.
    ///
    /// With `w = m + C u` the gradient is `(r, r uᵀ)`, `‖r‖ ≤ 𝓜 ‖w − mode‖`, so
    /// `E‖g‖² ≤ 𝓜² E[(1 + ‖u‖²) ‖w − mode‖²] = 𝓜² ((d + 1) ‖m − mode‖² + (d + 3) ‖C‖²) ≤ (d + 3) 𝓜² ‖θ − θ̄‖²`.
    pub fn noise_of_energy(&self, d: usize, squared_distance: f64) -> NoiseConstants {
        let constant = 2.0 * (d as f64 + 3.0) * self.smoothness * self.smoothness;
        NoiseConstants { constant, floor: constant * squared_distance }
    }

    /// Returns `a = 4(d + 3) 𝓜²` and `b = a ‖θ* − θ̄‖² + 2 β d 𝓜`: the constants with the entropy's gradient `−β C⁻¹` added, if all
    /// eigenvalues of C are at least [`Curvature::eigenvalue_floor`].
    pub fn noise_of_energy_entropy(&self, d: usize, squared_distance: f64, beta: f64) -> NoiseConstants {
        let constant = 4.0 * (d as f64 + 3.0) * self.smoothness * self.smoothness;
        let floor = constant * squared_distance + 2.0 * beta * d as f64 * self.smoothness;
        NoiseConstants { constant, floor }
    }

    /// Returns `√(β/𝓜)`: no eigenvalue of the optimal C is below it, so projected gradients may
    /// clip there.
    pub fn eigenvalue_floor(&self, beta: f64) -> f64 {
        (beta / self.smoothness).sqrt()
    }

    /// Returns the bound on the distance from the optimum with [`DistanceBound::schedule`].
    ///
    /// `initial` is `‖θ_0 − θ*‖²`, and `noise` has the constants a and b. For proximal gradients (Theorem 6) `gradient` is `‖∇l(θ*)‖²` of
    /// the part l whose gradient is taken; it balances the gradient of the entropy, `β² Σ_i 1/(C*_ii)²`. `None` stands for projected
    /// gradients of the whole objective (Theorem 9).
    ///
    /// Returns a usage error if ϖ or a is not positive, another argument is negative, or `2a < ϖ²`,
    /// which is impossible for such a g.
    pub fn distance_bound(
        &self,
        initial: f64,
        noise: NoiseConstants,
        gradient: Option<f64>,
    ) -> Result<DistanceBound> {
        let NoiseConstants { constant: noise, floor } = noise;
        let strong_convexity = self.strong_convexity;
        require_positive("the strong convexity", strong_convexity)?;
        require_positive("the noise constant a", noise)?;
        require_non_negative("the squared distance at the start", initial)?;
        require_non_negative("the noise constant b", floor)?;
        require_non_negative("the squared gradient at the optimum", gradient.unwrap_or(0.0))?;
        if 2.0 * noise < strong_convexity * strong_convexity {
            return Err(Error::usage(format!(
                "the noise constant {noise} is below half the square of the strong convexity {strong_convexity}"
            )));
        }
        Ok(match gradient {
            Some(gradient) => DistanceBound { strong_convexity, noise, variance: floor + gradient, initial },
            None => DistanceBound {
                strong_convexity: 0.5 * strong_convexity,
                noise: 0.5 * noise,
                variance: 0.5 * floor,
                initial,
            },
        })
    }
}

/// The constants of `E‖g‖² ≤ a ‖θ − θ*‖² + b` for a random gradient g.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseConstants {
    /// The constant a.
    pub constant: f64,
    /// The constant b.
    pub floor: f64,
}

/// A bound on `D_T = E‖θ_T − θ*‖²` for stochastic gradients of the form of Domke, Gower & Garrigos 2023: proximal ones with the steps
/// `γ_t = min{ϖ/(2a), (2t + 1)/(ϖ (t + 1)²)}` (Theorem 6, constants derived here), and projected ones with the steps
/// `γ_t = min{ϖ/(2a), 2(2t + 1)/(ϖ (t + 1)²)}` (Theorem 9).
///
/// Let F = l + h with l ϖ-strongly convex and h convex (`−β log det C`, or the constraint), and g an unbiased estimate
/// of ∇l with `E‖g‖² ≤ a ‖θ − θ*‖² + b`. The step is `θ₊ = prox_γh(θ − γ g)`, and `θ* = prox_γh(θ* − γ ∇l(θ*))`. A
/// proximal map does not expand, `⟨∇l(θ) − ∇l(θ*), θ − θ*⟩ ≥ ϖ ‖θ − θ*‖²`, and `‖g − ∇l*‖² ≤ 2‖g‖² + 2‖∇l*‖²`, so that
///
/// ```text
/// D_{t+1} ≤ (1 − 2γϖ + 2γ²a) D_t + 2γ² V,    V = b + ‖∇l(θ*)‖²
/// ```
///
/// While γ = ϖ/(2a), up to the first t₀ with `(2t₀ + 1)/(t₀ + 1)² ≤ ϖ²/(2a)` (t₀ < 4a/ϖ²), this
/// contracts by `q = 1 − ϖ²/(2a)` to `V/a`. After t₀, because of `2γ²a ≤ γϖ`, the factor is
/// `1 − γϖ = t²/(t + 1)²`, so `t² D_t` grows by at most `2γ²(t + 1)² V ≤ 8V/ϖ²` per step:
///
/// ```text
/// D_T ≤ q^T D_0 + V/a    (T ≤ t₀),        D_T ≤ q^t₀ t₀² D_0/T² + 8 V/(ϖ² T)    (T > t₀)
/// ```
///
/// A projected gradient of the whole objective has `D_{t+1} ≤ (1 − γϖ + γ²a) D_t + γ²b`, because `⟨∇F(θ), θ − θ*⟩ ≥ ½ϖ ‖θ − θ*‖²`. These
/// are the recursion and the steps above for ½ϖ, ½a and ½b in place of ϖ, a and V.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DistanceBound {
    strong_convexity: f64,
    noise: f64,
    /// The constant V.
    variance: f64,
    initial: f64,
}

impl DistanceBound {
    /// Returns the decreasing steps of the theorem.
    pub fn schedule(&self) -> Schedule {
        Schedule::Domke { strong_convexity: self.strong_convexity, noise: self.noise }
    }

    /// Returns the closed bound on `E‖θ_T − θ*‖²` after `steps` steps.
    pub fn at(&self, steps: usize) -> f64 {
        let (w, a, t) = (self.strong_convexity, self.noise, steps as f64);
        let (contraction, last) = (1.0 - w * w / (2.0 * a), self.constant_phase());
        if t <= last {
            return contraction.powf(t) * self.initial + self.variance / a;
        }
        contraction.powf(last) * (last / t).powi(2) * self.initial + 8.0 * self.variance / (w * w * t)
    }

    /// Returns t₀, the number of steps of size ϖ/(2a) before they decrease.
    pub fn constant_phase(&self) -> f64 {
        // With s = t + 1 and r = ϖ²/(2a) ≤ 1 the condition is r s² − 2s + 1 ≥ 0, s beyond the larger root.
        let r = self.strong_convexity * self.strong_convexity / (2.0 * self.noise);
        ((1.0 + (1.0 - r).max(0.0).sqrt()) / r - 1.0).ceil().max(0.0)
    }

    /// Returns the bound for a constant step γ of at most ϖ/(2a): `(1 − γϖ)^T D_0 + 2γV/ϖ` for proximal gradients, like eq. 10 of Domke,
    /// Garrigos & Gower 2023, and their eq. 12, `(1 − ½γϖ)^T D_0 + 2γb/ϖ`, for projected ones. For larger steps it is infinite.
    pub fn with_constant_step(&self, step: f64, steps: usize) -> f64 {
        let w = self.strong_convexity;
        if step > w / (2.0 * self.noise) {
            return f64::INFINITY;
        }
        (1.0 - step * w).powf(steps as f64) * self.initial + 2.0 * step * self.variance / w
    }

    /// Returns the bound from the recursion itself, step by step: it is tighter than the closed
    /// bound, and its cost is linear in `steps`.
    pub fn recursion(&self, steps: usize) -> f64 {
        let (w, a) = (self.strong_convexity, self.noise);
        let schedule = self.schedule();
        (0..steps).fold(self.initial, |distance, t| {
            let step = schedule.at(t);
            (1.0 - 2.0 * step * w + 2.0 * step * step * a) * distance + 2.0 * step * step * self.variance
        })
    }
}

/// Returns `P⁻¹ + weight · XᵀX`, both triangles.
fn precision_with(x: MatRef<'_, f64>, prior_cov: MatRef<'_, f64>, weight: f64) -> Result<Mat<f64>> {
    let columns = columns_of(x)?;
    let x = columns.as_ref();
    let mut hessian = prior_precision(prior_cov, x.nrows())?;
    let right = Operand::full(x.transpose());
    product(hessian.as_mut(), Part::Lower, Accum::Add, Operand::full(x), right, weight);
    reflect_lower(hessian.as_mut());
    Ok(hessian)
}
