//! Objectives of rows that are conditioned on neighbours, with q in closed form, from sums over
//! rows.
//!
//! A row is `y_i | y_N, w ~ N(y_i − c̃ + ãᵀw, D)`: given its neighbours N it has the centred target c̃, the features ã and the variance D
//! (see [`crate::neighbours`]). With weights `ω = 1/D` and sums φ, Φ of these rows in [`Statistics`] the β-ELBO
//!
//! ```text
//! J = ½ [ n log 2π − Σ log ω + Σ ω c̃² − φᵀm + β log|B| ],   B = I + Φ/β, S = B⁻¹, m = S φ / β
//! ```
//!
//! is the negative log evidence at β = 1. Direct loss minimization uses the same q, but minimises
//! the loss of predictions.

use super::bounds::{BoundValue, shrunk_inverse};
use super::sums::{Statistics, StatisticsAdjoint};
use crate::linalg::{self, NotPositiveDefinite, Operand, congruence, dot, trace};
use crate::variational::{Matrix, Normal};
use faer::Mat;
use std::f64::consts::PI;

/// Returns the β-ELBO of rows conditioned on neighbours, at its q.
pub fn conditional_elbo(statistics: &Statistics, beta: f64) -> Result<BoundValue, NotPositiveDefinite> {
    let Statistics { gram, ac, cc, log_weight, count, .. } = statistics;
    let (cov, log_det) = shrunk_inverse(gram, beta)?;
    let mut mean = vec![0.0; ac.len()];
    linalg::matvec(cov.as_ref(), ac, &mut mean);
    mean.iter_mut().for_each(|x| *x /= beta);
    let value = 0.5 * (count * (2.0 * PI).ln() - log_weight + beta * log_det + cc - dot(ac, &mean));
    let adjoint = StatisticsAdjoint {
        gram: Mat::from_fn(mean.len(), mean.len(), |i, j| 0.5 * (cov[(i, j)] + mean[i] * mean[j])),
        ac: mean.iter().map(|x| -x).collect(),
        cc: 0.5,
        residual: 0.0,
        log_weight: -0.5,
        further: Vec::new(),
    };
    let q = Normal { mean, cov: Matrix::Full(cov), log_det: -log_det };
    Ok(BoundValue { value, q, adjoint, noise_bar: 0.0 })
}

/// The loss of predictions of rows, from their errors `e = c̃ − ãᵀm` and variances `V = D + ãᵀSã`, which include the rows' noise.
pub trait RowLoss: Sync {
    /// Returns the sum of the losses of these rows of the data. Replaces e and V by the derivatives
    /// `ē` and `V̄`, and adds the derivatives in the parameters of the loss to `own`.
    fn add(&self, rows: &[u32], e: &mut [f64], v: &mut [f64], own: &mut [f64]) -> f64;

    /// The number of parameters of the loss itself.
    fn own_len(&self) -> usize {
        0
    }
}

/// The loss `−log N(e; 0, V)` of Gaussian targets, whose variance V includes the noise.
#[derive(Clone, Copy, Debug)]
pub struct GaussianLoss;

impl RowLoss for GaussianLoss {
    fn add(&self, _: &[u32], e: &mut [f64], v: &mut [f64], _: &mut [f64]) -> f64 {
        let mut value = 0.0;
        for (e, v) in e.iter_mut().zip(v) {
            let square = *e * *e / *v;
            value += 0.5 * ((2.0 * PI * *v).ln() + square);
            (*e, *v) = (*e / *v, 0.5 * (1.0 - square) / *v);
        }
        value
    }
}

/// The loss of predictions of rows under q(w) = N(m, S), a sum, and its derivatives.
#[derive(Clone, Debug)]
pub struct PredictiveLoss {
    /// The sum.
    pub value: f64,
    /// The derivatives in the parameters of the loss.
    pub own: Vec<f64>,
    /// The derivative in m, M.
    pub mean: Vec<f64>,
    /// The derivative in S, `M × M`, symmetric.
    pub cov: Mat<f64>,
}

impl PredictiveLoss {
    /// Scales the loss of a share of the data to the whole.
    pub fn scale(&mut self, factor: f64) {
        self.value *= factor;
        self.own.iter_mut().for_each(|x| *x *= factor);
        self.mean.iter_mut().for_each(|x| *x *= factor);
        self.cov *= faer::Scale(factor);
    }
}

/// Returns `F = loss + β KL(q, p)` for the q of [`conditional_elbo`], and its derivatives through q
/// with respect to the statistics. The direct dependence of the loss on the rows is not included.
pub fn conditional_dlm(
    statistics: &Statistics,
    q: &Normal,
    beta: f64,
    loss: &PredictiveLoss,
) -> (f64, StatisticsAdjoint) {
    let (m, mean, cov) = (q.dim(), q.mean(), q.cov().full());
    let kl = 0.5 * (trace(cov) + dot(mean, mean) - m as f64 - q.log_det);
    // ∂/∂S; for β KL it is (β/2) (I − S⁻¹) = −Φ/2.
    let mut inner = Mat::from_fn(m, m, |i, j| loss.cov[(i, j)] - 0.5 * statistics.gram[(i, j)]);
    let mean_bar: Vec<f64> = loss.mean.iter().zip(mean).map(|(bar, m)| bar + beta * m).collect();
    let mut u = vec![0.0; m];
    linalg::matvec(cov, &mean_bar, &mut u);
    congruence(Operand::full(cov), inner.as_mut(), Mat::zeros(m, m).as_mut());
    // dS = −S dΦ S / β, dm = (S dφ − S dΦ m) / β.
    let gram = |i: usize, j: usize| -(inner[(i, j)] + 0.5 * (u[i] * mean[j] + mean[i] * u[j])) / beta;
    let adjoint = StatisticsAdjoint {
        gram: Mat::from_fn(m, m, gram),
        ac: u.iter().map(|u| u / beta).collect(),
        cc: 0.0,
        residual: 0.0,
        log_weight: 0.0,
        further: Vec::new(),
    };
    (loss.value + beta * kl, adjoint)
}
