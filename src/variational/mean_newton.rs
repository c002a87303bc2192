//! Newton's step in m for losses whose Hessian in m is not the precision of q (predictive log
//! loss).
//!
//! ```text
//! P₊ = (1 − ρ) P + ρ (I + A diag(∂²ℓ/∂μ²) Aᵀ/β),    m₊ = m − (ρ/β) P₊⁻¹ ĝ
//! ```
//!
//! The columns of A are the features of the rows; other symbols are those of
//! [`variational`](crate::variational). If the step in m were preconditioned by S instead, it would be too
//! long by the ratio of P to S⁻¹; see [`natural`](super::natural).

use super::carried::{Carried, Whole};
use super::{DataGradient, MatrixRef, Normal, is_sane_matrix, move_mean};
use crate::checkpoint::{decode, encode};
use crate::linalg::{self, Factorizer};
use faer::Mat;

/// The matrix P, averaged over the steps, with the buffers of a step.
pub(super) struct MeanNewton {
    /// The lower triangle of P, once a gradient had its own curvature.
    hessian: Option<Mat<f64>>,
    factor: Mat<f64>,
    direction: Vec<f64>,
    factorizer: Factorizer,
}

impl MeanNewton {
    /// Creates the state before the first curvature, in dimension `m`.
    pub fn new(m: usize) -> Self {
        MeanNewton {
            hessian: None,
            factor: Mat::zeros(0, 0),
            direction: vec![0.0; m],
            factorizer: Factorizer::new(m),
        }
    }

    /// Mixes the separate curvature of a gradient, if it has one, into P; returns false if the curvature is not finite.
    pub fn take(&mut self, gradient: &DataGradient<'_>, beta: f64, rho: f64) -> bool {
        let Some(curvature) = gradient.curvature.map(MatrixRef::full) else { return true };
        if !is_sane_matrix(curvature) {
            return false;
        }
        let m = curvature.nrows();
        let Some(hessian) = &mut self.hessian else {
            // The average starts with the curvature of this batch, because S⁻¹ may be far smaller.
            let identity = |i, j| if i == j { 1.0 } else { 0.0 };
            self.hessian = Some(Mat::from_fn(m, m, |i, j| curvature[(i, j)] / beta + identity(i, j)));
            self.factor = linalg::spread(m, m);
            return true;
        };
        for j in 0..m {
            let data = curvature.col(j).iter().skip(j);
            for (p, data) in hessian.col_mut(j).iter_mut().skip(j).zip(data) {
                *p = (1.0 - rho) * *p + rho / beta * data;
            }
            hessian[(j, j)] += rho;
        }
        true
    }

    /// Moves m by `scale · P⁻¹ ĝ`. Returns false, and leaves m unchanged, if P is not positive
    /// definite, which only rounding can cause.
    pub(crate) fn move_mean(&mut self, q: &mut Normal, gradient: &[f64], scale: f64) -> bool {
        let Some(hessian) = &self.hessian else { return false };
        linalg::copy_lower(hessian.as_ref(), self.factor.as_mut());
        if self.factorizer.cholesky(self.factor.as_mut()).is_err() {
            return false;
        }
        self.direction.copy_from_slice(gradient);
        linalg::solve_factored(self.factor.as_ref(), &mut self.direction);
        move_mean(q, &self.direction, scale);
        true
    }

    pub(crate) fn reset(&mut self) {
        self.hessian = None;
    }
}

impl Carried for MeanNewton {
    fn save(&self) -> Vec<u8> {
        encode(&self.hessian.clone().map(Whole))
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        let m = self.direction.len();
        let Some(read) = decode::<Option<Whole>>(bytes) else { return false };
        self.hessian = read.map(|Whole(hessian)| hessian);
        self.factor = linalg::spread(m, m);
        self.hessian.as_ref().is_none_or(|hessian| hessian.shape() == (m, m))
    }
}
