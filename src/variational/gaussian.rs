//! The full-covariance Gaussian family: q(w) = N(m, S) with its KL divergence to the standard normal.

use crate::error::{Error, Result};
use crate::linalg::{self, Factorizer, dot, trace};
use faer::{Mat, MatRef};

/// `q(w) = N(m, S)` with `log|S|` kept beside it, since every update rule knows it for free.
#[derive(Clone, Debug)]
pub struct FullGaussian {
    pub(crate) mean: Vec<f64>,
    pub(crate) cov: Mat<f64>,
    pub(crate) log_det: f64,
}

impl FullGaussian {
    /// The prior `N(0, I)` of dimension `m`.
    pub fn standard(m: usize) -> Self {
        FullGaussian { mean: vec![0.0; m], cov: Mat::identity(m, m), log_det: 0.0 }
    }

    /// `N(mean, cov)`; an error when the shapes differ or `cov` is not positive definite.
    pub fn new(mean: Vec<f64>, cov: Mat<f64>) -> Result<Self> {
        let m = mean.len();
        if cov.shape() != (m, m) {
            let (r, c) = cov.shape();
            return Err(Error::usage(format!(
                "the covariance is {r} × {c}, expected {m} × {m} like the mean"
            )));
        }
        let mut factor = cov.clone();
        Factorizer::new(m).cholesky(factor.as_mut()).map_err(|e| {
            Error::usage(format!("the covariance of q is not positive definite (pivot {})", e.pivot))
        })?;
        Ok(FullGaussian { mean, cov, log_det: linalg::log_det(factor.as_ref()) })
    }

    /// Dimension M.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// The mean m.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The covariance S, both triangles.
    pub fn cov(&self) -> MatRef<'_, f64> {
        self.cov.as_ref()
    }

    /// `log |S|`.
    pub fn log_det(&self) -> f64 {
        self.log_det
    }

    /// `KL(N(m, S) ‖ N(0, I)) = ½ (tr S + mᵀm − M − log|S|)`.
    pub fn kl(&self) -> f64 {
        let m = self.dim() as f64;
        0.5 * (trace(self.cov.as_ref()) + dot(&self.mean, &self.mean) - m - self.log_det)
    }
}
