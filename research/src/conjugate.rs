//! Mini-batch natural gradients on Bayesian linear regression: the proven rate and the sharp one.
//!
//! Data `y_i = x_iᵀ w + ε_i`, ε of variance σ², prior `w ~ N(m0, P)`, posterior `N(m, S)`. A step with mixing weight
//! `2/(t + 2)` moves the natural parameters `(S⁻¹m, S⁻¹)` towards their estimate from a batch of b data, scaled by n/b.

use super::{cholesky, columns_of, extreme_eigenvalues, prior_precision, require_positive, require_targets};
use faer::{Accum, Mat, MatRef};
use serde::Serialize;
use sparsegp::linalg::{Operand, Part, matvec, product};
use sparsegp::variational::Average;
use sparsegp::word_option;
use sparsegp::{Error, Result};

word_option! {
    /// The way in which a batch is drawn from the data, independently of earlier batches.
    Sampling, "sampling of batches" {
        /// Data may be drawn twice.
        WithReplacement = "with-replacement",
        /// No datum is in a batch twice, which lowers the variance of a batch mean by (n − b)/(n − 1).
        WithoutReplacement = "without-replacement",
    }
}

/// The bound `E[KL] ≤ 4 V₂/(n + 1)` on the average in expectation parameters after n ≥ 1 steps 2/(t + 2), for a prior of mean 0 and
/// batches drawn with replacement, with the variance constant V₂ of Wu & Gardner 2024, Lemma 3.
///
/// Their Theorem 1 states V/(n + 1), n being T + 1. Its proof loses the factor 4: with steps γ_t = 2/(t + 2) and D_t the divergence
/// from the optimum, its one-step inequality is
///
/// ```text
/// E ℓ(ω_{t+1}) − ℓ* ≤ ½ t D_t − ½ (t + 2) D_{t+1} + γ_t V
/// ```
///
/// If this is multiplied by t + 1 and summed over t = 0, …, n − 1, the divergences telescope, and
/// `V Σ 2(t + 1)/(t + 2) = 2 V (n + 1 − H_{n+1}) ≤ 2 V n` remains, with the harmonic number H. Division by the sum of the weights,
/// ½ n (n + 1), gives `4V (n + 1 − H_{n+1})/(n (n + 1))`, which is V for n = 1 and at most the 4V/(n + 1) of [`ConjugateBound::at`].
///
/// V bounds the noise at all iterates (their Assumption 1). V/(n + 1) is false under this assumption: if only the first step has
/// noise and all later gradients are exact, V is the noise of the first step, and E KL after this step exceeds ½V (0.0947 against 0.0833
/// for a variance whose batches have the precisions ½ and 3/2). If all steps draw the same batches, V has to cover the iterates that they
/// reach, 0.5 instead of 0.167 in the example, and no counterexample is known.
///
/// ```text
/// V₂ = (ν s₁ + ½ν² s₂ + 2ν² κ √(s₁s₂) n + ν³ κ² s₂ n²) n²/(σ⁴ b)
/// ```
///
/// Their Lemma 9 and Corollary 1 take ‖y_i x_i‖ for κ. The first natural parameter of a batch is `n/(bσ²) Σ y_i x_i`, so κ has to
/// contain 1/σ²; without it the bound is false for σ² < 1.
///
/// The bound is loose by orders of magnitude; [`ConjugateAsymptotic`] gives the actual limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConjugateBound {
    /// `ν = max(1, ‖P‖₂)`.
    pub nu: f64,
    /// `κ = max_i ‖y_i x_i‖/σ²`.
    pub kappa: f64,
    /// `s₁ = mean_i ‖y_i x_i − mean‖²`.
    pub s1: f64,
    /// `s₂ = mean_i ‖x_i x_iᵀ − mean‖²`, Frobenius.
    pub s2: f64,
    /// `‖P‖₂`.
    pub prior_norm: f64,
    /// `V₂`, in nats.
    pub v2: f64,
}

impl ConjugateBound {
    /// Computes the bound for inputs `x` (`n × D`, a row per datum), targets `y` (n), prior
    /// covariance P (`D × D`), noise variance σ² and batches of b rows, in time O(n D²).
    ///
    /// Returns a usage error if shapes do not match, a number is not finite, P is not positive
    /// definite, or σ² or b is not positive.
    pub fn new(
        x: MatRef<'_, f64>,
        y: &[f64],
        prior_cov: MatRef<'_, f64>,
        noise_variance: f64,
        batch: usize,
    ) -> Result<Self> {
        let x = columns_of(x)?;
        let x = x.as_ref();
        require_targets(x, y)?;
        require_positive("the noise variance", noise_variance)?;
        require_positive("the batch size", batch as f64)?;
        prior_precision(prior_cov, x.nrows())?;
        let (_, prior_norm) = extreme_eigenvalues(prior_cov)?;
        let nu = prior_norm.max(1.0);
        let norms = x.col_iter().zip(y).map(|(x, y)| y.abs() * x.norm_l2() / noise_variance);
        let kappa = norms.fold(0.0, f64::max);
        let (s1, s2) = scatter(x, y);
        let n = x.ncols() as f64;
        let noise = nu * s1
            + 0.5 * nu.powi(2) * s2
            + 2.0 * nu.powi(2) * kappa * (s1 * s2).sqrt() * n
            + nu.powi(3) * kappa.powi(2) * s2 * n * n;
        let v2 = noise * n * n / (noise_variance * noise_variance * batch as f64);
        Ok(ConjugateBound { nu, kappa, s1, s2, prior_norm, v2 })
    }

    /// Returns the bound on `E[KL]` after `steps` steps, in nats; infinite before the first one.
    pub fn at(&self, steps: usize) -> f64 {
        if steps == 0 { f64::INFINITY } else { 4.0 * self.v2 / (steps as f64 + 1.0) }
    }
}

/// The limit of `T · E[KL(q_T ‖ p(w|y))]` for steps 2/(t + 2).
///
/// After T steps the natural parameters are the average of T unbiased estimates with weights 2(t+1)/(T(T+1)). The squares of the weights
/// sum to 4/(3T) up to O(T⁻²). With `(δη₁, Δ)` the noise of one estimate of `(S⁻¹m, S⁻¹)`, the mean moves to first order by `S u`, `u =
/// δη₁ − Δ m`, and the covariance by `−SΔS`. The cost in nats, to second order, is
///
/// ```text
/// c = ½ E[uᵀ S u] + ¼ E[tr(Δ S Δ S)],    T · E[KL] → (4/3) c
/// ```
///
/// With `v_i = S^½ x_i`, up to a rotation, and residuals `e_i = y_i − x_iᵀm` this is
/// `c = f n²/(σ⁴ b) · (½ mean ‖v_i e_i − mean‖² + ¼ mean ‖v_i v_iᵀ − mean‖²)`, where f is 1, or (n − b)/(n − 1) without
/// replacement. Derived here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConjugateAsymptotic {
    /// `½ E[uᵀ S u]`: the cost in nats of the noise of one batch in the mean.
    pub mean_cost: f64,
    /// `¼ E[tr(Δ S Δ S)]`: the cost in nats of the noise of one batch in the covariance.
    pub covariance_cost: f64,
}

impl ConjugateAsymptotic {
    /// Computes the limit for inputs `x` (`n × D`, a row per datum), targets `y` (n), prior mean m0
    /// (D) and covariance P (`D × D`), noise variance σ² and batches of b rows drawn according to
    /// `sampling`, in time O(n D² + D³).
    ///
    /// Returns a usage error if shapes do not match, a number is not finite, P is not positive
    /// definite, σ² or b is not positive, or b exceeds n without replacement.
    pub fn new(
        x: MatRef<'_, f64>,
        y: &[f64],
        prior_mean: &[f64],
        prior_cov: MatRef<'_, f64>,
        noise_variance: f64,
        batch: usize,
        sampling: Sampling,
    ) -> Result<Self> {
        let x = columns_of(x)?;
        let x = x.as_ref();
        require_targets(x, y)?;
        require_positive("the noise variance", noise_variance)?;
        let (d, n) = (x.nrows(), x.ncols() as f64);
        if prior_mean.len() != d || !prior_mean.iter().all(|m| m.is_finite()) {
            return Err(Error::usage(format!("the prior mean must be {d} finite numbers")));
        }
        let share = batch_variance(batch, x.ncols(), sampling)?;
        let precision = prior_precision(prior_cov, d)?;
        let (features, residuals) = whiten(x, y, prior_mean, &precision, noise_variance)?;
        let (first, second) = scatter(features.as_ref(), &residuals);
        let scale = share * (n / noise_variance).powi(2);
        Ok(ConjugateAsymptotic { mean_cost: 0.5 * scale * first, covariance_cost: 0.25 * scale * second })
    }

    /// Returns c, the cost in nats of the noise of one batch.
    pub fn cost(&self) -> f64 {
        self.mean_cost + self.covariance_cost
    }

    /// Returns the limit of `T · E[KL]`, in nats, of the last iterate, (4/3) c, or of an average of
    /// iterates.
    ///
    /// The error of iterate t is Σ_{s<t} 2(s+1)/(t(t+1)) times the noises of steps s. With averaging in expectation parameters with
    /// weights 2(t+1)/((T+1)(T+2)), noise s keeps the weight 4s/T² · ln(T/s) approximately, and `(16/T) ∫₀¹ x² ln² x dx = 32/(27 T)`. A
    /// plain average of iterates αT, …, T leaves `2s/((1−α)T)·(1/max(s, αT) − 1/T)`, and the squares sum to 4/(3T) for every α: the
    /// schedule already averages.
    pub fn limit(&self, average: Average) -> f64 {
        let factor = match average {
            Average::Expectation => 32.0 / 27.0,
            _ => 4.0 / 3.0,
        };
        factor * self.cost()
    }

    /// Returns the approximate `E[KL]` in nats after T = `steps` steps: `limit/T`.
    pub fn at(&self, steps: usize, average: Average) -> f64 {
        self.limit(average) / steps as f64
    }
}

/// Returns the variance of the mean of a batch, in units of the variance of one datum.
fn batch_variance(batch: usize, n: usize, sampling: Sampling) -> Result<f64> {
    require_positive("the batch size", batch as f64)?;
    let with = 1.0 / batch as f64;
    match sampling {
        Sampling::WithReplacement => Ok(with),
        Sampling::WithoutReplacement if batch > n => Err(Error::usage(format!(
            "a batch of {batch} rows cannot be drawn without replacement from {n} rows"
        ))),
        // A batch of a single datum is all of the data.
        Sampling::WithoutReplacement if n == 1 => Ok(0.0),
        Sampling::WithoutReplacement => Ok(with * (n - batch) as f64 / (n - 1) as f64),
    }
}

/// Returns `L⁻¹ x_i` with `L Lᵀ = S⁻¹` (so that `‖L⁻¹x‖² = xᵀSx`), and the residuals `y_i − x_iᵀm`,
/// of the exact posterior.
fn whiten(
    x: MatRef<'_, f64>,
    y: &[f64],
    prior_mean: &[f64],
    prior_precision: &Mat<f64>,
    noise_variance: f64,
) -> Result<(Mat<f64>, Vec<f64>)> {
    let (d, n) = x.shape();
    let mut precision = prior_precision.clone();
    let right = Operand::full(x.transpose());
    product(precision.as_mut(), Part::Lower, Accum::Add, Operand::full(x), right, 1.0 / noise_variance);
    let (_, inverse) = cholesky("the precision of the posterior", precision)?;
    let mut mean = vec![0.0; d];
    let mut natural = vec![0.0; d];
    matvec(prior_precision.as_ref(), prior_mean, &mut natural);
    matvec(x, y, &mut mean);
    natural.iter_mut().zip(&mean).for_each(|(eta, xy)| *eta += xy / noise_variance);
    // m = S η₁ = L⁻ᵀ (L⁻¹ η₁).
    let mut half = vec![0.0; d];
    matvec(inverse.as_ref(), &natural, &mut half);
    matvec(inverse.transpose(), &half, &mut mean);
    let mut residuals = vec![0.0; n];
    matvec(x.transpose(), &mean, &mut residuals);
    residuals.iter_mut().zip(y).for_each(|(e, y)| *e = y - *e);
    let mut features = Mat::zeros(d, n);
    let left = Operand::lower(inverse.as_ref());
    product(features.as_mut(), Part::All, Accum::Replace, left, Operand::full(x), 1.0);
    Ok((features, residuals))
}

/// Returns `mean_j ‖w_j x_j − mean‖²` and `mean_j ‖x_j x_jᵀ − mean‖²` over the columns of `x`
/// (`D × n`), in two passes, so that no squares cancel.
fn scatter(x: MatRef<'_, f64>, weights: &[f64]) -> (f64, f64) {
    let (d, n) = (x.nrows(), x.ncols() as f64);
    let mut mean = vec![0.0; d];
    matvec(x, weights, &mut mean);
    let mut gram = Mat::zeros(d, d);
    let right = Operand::full(x.transpose());
    product(gram.as_mut(), Part::Lower, Accum::Replace, Operand::full(x), right, 1.0 / n);
    let (mut first, mut second) = (0.0, 0.0);
    let mut column = vec![0.0; d];
    for (x, w) in x.col_iter().zip(weights) {
        column.iter_mut().zip(x.iter()).for_each(|(c, x)| *c = *x);
        first += column.iter().zip(&mean).map(|(x, sum)| (w * x - sum / n).powi(2)).sum::<f64>();
        for (j, xj) in column.iter().enumerate() {
            let off = |i: usize| column[i] * xj - gram[(i, j)];
            second += off(j).powi(2) + 2.0 * (j + 1..d).map(|i| off(i).powi(2)).sum::<f64>();
        }
    }
    (first / n, second / n)
}
