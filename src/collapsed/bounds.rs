//! The collapsed (β-)ELBO of Titsias 2009, square-loss DLM and an upper bound on the evidence, from sufficient statistics.

use super::sums::{Statistics, StatisticsAdjoint};
use crate::linalg::{self, Factorizer, NotPositiveDefinite, dot, gram_of_inverse, trace};
use crate::variational::{Matrix, Normal};
use faer::Mat;
use std::f64::consts::PI;

/// A bound with everything needed to continue: its value, the optimal q and the derivatives.
#[derive(Clone, Debug)]
pub struct BoundValue {
    /// The value, a sum over the data.
    pub value: f64,
    /// The whitened q that attains the bound.
    pub q: Normal,
    /// Derivatives with respect to the statistics.
    pub adjoint: StatisticsAdjoint,
    /// Derivative with respect to σ² at fixed statistics.
    pub noise_bar: f64,
}

/// `(τ⁻¹Φ + I)⁻¹` and `log|τ⁻¹Φ + I|`.
pub(super) fn shrunk_inverse(gram: &Mat<f64>, tau: f64) -> Result<(Mat<f64>, f64), NotPositiveDefinite> {
    let m = gram.nrows();
    let mut factor = Mat::from_fn(m, m, |i, j| gram[(i, j)] / tau);
    linalg::add_diagonal(factor.as_mut(), 1.0);
    let mut inverse_factor = linalg::spread(m, m);
    Factorizer::new(m).cholesky_with_inverse(factor.as_mut(), inverse_factor.as_mut())?;
    let log_det = linalg::log_det(factor.as_ref());
    gram_of_inverse(inverse_factor.as_ref(), factor.as_mut());
    Ok((factor, log_det))
}

/// The collapsed β-ELBO as a quantity to minimise (the negative of Titsias' bound at β = 1; docs/mathematics.md#closed-forms):
///
/// ```text
/// J = (n/2) log 2πσ² + t/(2σ²) + (β/2) [ log|B| + cᵀc/s − φᵀB⁻¹φ/s² ],   s = βσ², B = I + Φ/s
/// ```
///
/// attained by `S = B⁻¹`, `m = S φ / s`. `statistics` must be unweighted.
pub fn collapsed_elbo(
    statistics: &Statistics,
    noise: f64,
    beta: f64,
) -> Result<BoundValue, NotPositiveDefinite> {
    elbo_of(statistics, &statistics.ac, statistics.cc, noise, beta)
}

/// The bounds of all outputs of some [`Statistics`], each with a separate noise variance.
#[derive(Clone, Debug)]
pub struct OutputBounds {
    /// The sum of their values.
    pub value: f64,
    /// The whitened q of every output.
    pub q: Vec<Normal>,
    /// Derivatives of the sum with respect to the statistics.
    pub adjoint: StatisticsAdjoint,
    /// Derivatives with respect to the σ² of every output at fixed statistics.
    pub noise_bars: Vec<f64>,
}

/// [`collapsed_elbo`] for every output of `statistics`. The outputs share Φ, and with it most of
/// the work and the kernel's part of the gradient.
///
/// # Panics
///
/// If the number of noise variances differs from the number of outputs.
pub fn collapsed_elbos(
    statistics: &Statistics,
    noises: &[f64],
    beta: f64,
) -> Result<OutputBounds, NotPositiveDefinite> {
    assert_eq!(noises.len(), 1 + statistics.further.len(), "noise variances of all outputs");
    let BoundValue { mut value, q, mut adjoint, noise_bar } = collapsed_elbo(statistics, noises[0], beta)?;
    let (mut q, mut noise_bars) = (vec![q], vec![noise_bar]);
    for (output, noise) in statistics.further.iter().zip(&noises[1..]) {
        let bound = elbo_of(statistics, &output.ac, output.cc, *noise, beta)?;
        value += bound.value;
        adjoint.join(bound.adjoint);
        q.push(bound.q);
        noise_bars.push(bound.noise_bar);
    }
    Ok(OutputBounds { value, q, adjoint, noise_bars })
}

/// Returns the bound of the output with these φ and `cᵀc`.
fn elbo_of(
    statistics: &Statistics,
    ac: &[f64],
    cc: f64,
    noise: f64,
    beta: f64,
) -> Result<BoundValue, NotPositiveDefinite> {
    let Statistics { gram, residual, count, .. } = statistics;
    let (m, n, t, s) = (gram.nrows() as f64, *count, *residual, beta * noise);
    let (cov, log_det) = shrunk_inverse(gram, s)?;
    let mut mean = vec![0.0; ac.len()];
    linalg::matvec(cov.as_ref(), ac, &mut mean);
    mean.iter_mut().for_each(|x| *x /= s);
    let fit = dot(ac, &mean);
    let value = 0.5 * n * (2.0 * PI * noise).ln() + 0.5 * t / noise + 0.5 * beta * (log_det + (cc - fit) / s);

    let mut gram_mean = vec![0.0; ac.len()];
    linalg::matvec(gram.as_ref(), &mean, &mut gram_mean);
    let through_s =
        -(m - trace(cov.as_ref())) / s - cc / (s * s) + (2.0 * fit - dot(&mean, &gram_mean)) / (s * s);
    let noise_bar = 0.5 * (n - t / noise) / noise + 0.5 * beta * beta * through_s;

    let half_precision = 0.5 / noise;
    let adjoint = StatisticsAdjoint {
        gram: Mat::from_fn(mean.len(), mean.len(), |i, j| half_precision * (cov[(i, j)] + mean[i] * mean[j])),
        ac: mean.iter().map(|x| -x / noise).collect(),
        cc: half_precision,
        residual: half_precision,
        log_weight: 0.0,
        further: Vec::new(),
    };
    let q = Normal { mean, cov: Matrix::Full(cov), log_det: -log_det };
    Ok(BoundValue { value, q, adjoint, noise_bar })
}

/// The square-loss DLM objective at its minimiser (Wei, Sheth & Khardon 2021; docs/mathematics.md#closed-forms):
///
/// ```text
/// J = ½ Σ w_i (y_i − μ_i)² + (β/2) mᵀm = ½ (cᵀc − φᵀm),   m = (Φ + βI)⁻¹ φ
/// ```
///
/// It does not depend on the covariance of q, which stays that of the prior.
pub fn square_loss(statistics: &Statistics, beta: f64) -> Result<BoundValue, NotPositiveDefinite> {
    let Statistics { gram, ac, cc, .. } = statistics;
    let (inverse, _) = shrunk_inverse(gram, beta)?;
    let mut mean = vec![0.0; ac.len()];
    linalg::matvec(inverse.as_ref(), ac, &mut mean);
    mean.iter_mut().for_each(|x| *x /= beta);
    let adjoint = StatisticsAdjoint {
        gram: Mat::from_fn(mean.len(), mean.len(), |i, j| 0.5 * mean[i] * mean[j]),
        ac: mean.iter().map(|x| -x).collect(),
        cc: 0.5,
        residual: 0.0,
        log_weight: 0.0,
        further: Vec::new(),
    };
    let value = 0.5 * (cc - dot(ac, &mean));
    let q = Normal { cov: Matrix::Full(Mat::identity(mean.len(), mean.len())), log_det: 0.0, mean };
    Ok(BoundValue { value, q, adjoint, noise_bar: 0.0 })
}

/// An upper bound on the log evidence and its derivatives.
#[derive(Clone, Debug)]
pub struct UpperBound {
    /// The value, a sum over the data.
    pub value: f64,
    /// Derivatives with respect to the statistics.
    pub adjoint: StatisticsAdjoint,
    /// Derivative with respect to σ² at fixed statistics.
    pub noise_bar: f64,
}

/// An upper bound on the log evidence (Titsias 2014; docs/mathematics.md#closed-forms), with its derivatives:
///
/// ```text
/// U = −½ log|Q + σ²I| − ½ cᵀ(Q + τI)⁻¹c − (n/2) log 2π,   Q = AᵀA, τ = σ² + t
/// ```
///
/// and `cᵀ(Q + τI)⁻¹c = (cᵀc − φᵀx)/τ` with `x = (Φ + τI)⁻¹φ`. `statistics` must be unweighted.
pub fn upper_bound(statistics: &Statistics, noise: f64) -> Result<UpperBound, NotPositiveDefinite> {
    let Statistics { gram, ac, cc, residual, count, .. } = statistics;
    let (m, n, tau) = (ac.len(), *count, noise + *residual);
    let (cov, log_det) = shrunk_inverse(gram, noise)?;
    let (inverse, _) = shrunk_inverse(gram, tau)?;
    let mut x = vec![0.0; m];
    linalg::matvec(inverse.as_ref(), ac, &mut x);
    x.iter_mut().for_each(|x| *x /= tau);
    let quadratic = (cc - dot(ac, &x)) / tau;
    let value = -0.5 * (n * (2.0 * PI * noise).ln() + log_det + quadratic);

    let tau_bar = -0.5 * (dot(&x, &x) - quadratic) / tau;
    let noise_bar = -0.5 * (n - (m as f64 - trace(cov.as_ref()))) / noise + tau_bar;
    let adjoint = StatisticsAdjoint {
        gram: Mat::from_fn(m, m, |i, j| -0.5 * (cov[(i, j)] / noise + x[i] * x[j] / tau)),
        ac: x.iter().map(|x| x / tau).collect(),
        cc: -0.5 / tau,
        residual: tau_bar,
        log_weight: 0.0,
        further: Vec::new(),
    };
    Ok(UpperBound { value, adjoint, noise_bar })
}
