//! The evidence about w from rows that are no longer kept: a Gaussian factor in natural parameters,
//! which multiplies the prior.

use super::{Matrix, MatrixRef, Normal};
use crate::linalg::{self, Factorizer, dot, gram_of_inverse};
use faer::Mat;

/// The factor `t(w) ∝ exp(λᵀw − ½ wᵀΛw)` that turns the prior into a posterior,
/// `q(w) ∝ N(w; 0, I) t(w)`.
///
/// With Gaussian noise the likelihood itself is such a factor, and its parameters add up over rows.
/// With other noise t is the Gaussian that approximates the likelihood best. Later rows are learnt
/// from by `Σ ℓ_i + β KL(q ‖ p t)` (Bui, Nguyen & Turner 2017, with fixed inducing inputs).
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// `Λ = S⁻¹ − I`.
    pub precision: Matrix,
    /// `λ = S⁻¹ m`.
    pub shift: Vec<f64>,
}

impl Evidence {
    /// Returns the factor by which `q` differs from the prior; `None` if S cannot be inverted.
    pub fn of(q: &Normal) -> Option<Evidence> {
        let mut shift = vec![0.0; q.dim()];
        let mut precision = match q.cov() {
            MatrixRef::Diagonal(variances) => {
                shift.iter_mut().zip(q.mean().iter().zip(variances)).for_each(|(l, (m, s))| *l = m / s);
                Matrix::Diagonal(variances.iter().map(|s| 1.0 / s).collect())
            }
            MatrixRef::Full(cov) => {
                let (precision, _) = inverse(cov.to_owned())?;
                linalg::matvec(precision.as_ref(), q.mean(), &mut shift);
                Matrix::Full(precision)
            }
        };
        precision.add_diagonal(-1.0);
        Some(Evidence { precision, shift })
    }

    /// Scales the evidence as if every row counted `factor` times.
    pub fn scale(&mut self, factor: f64) {
        match &mut self.precision {
            Matrix::Full(all) => *all *= faer::Scale(factor),
            Matrix::Diagonal(diagonal) => diagonal.iter_mut().for_each(|x| *x *= factor),
        }
        self.shift.iter_mut().for_each(|x| *x *= factor);
    }

    /// Adds the evidence of `weight` times as many rows.
    pub fn add(&mut self, other: &Evidence, weight: f64) {
        self.precision.add_scaled(other.precision.as_ref(), weight);
        self.shift.iter_mut().zip(&other.shift).for_each(|(own, other)| *own += weight * other);
    }

    /// Adds the factor of rows whose losses are quadratic in μ, under a KL term of weight β, from the gradient in
    /// (m, S) of a pass at the origin.
    pub fn add_sums(&mut self, mean: &[f64], cov: MatrixRef<'_>, beta: f64) {
        self.precision.add_scaled(cov, 2.0 / beta);
        self.shift.iter_mut().zip(mean).for_each(|(shift, g)| *shift -= g / beta);
    }

    /// Returns the posterior, `S = (I + Λ)⁻¹` and `m = Sλ`; `None` if S is not positive definite.
    pub fn posterior(&self) -> Option<Normal> {
        let mut precision = self.precision.clone();
        precision.add_diagonal(1.0);
        match precision {
            Matrix::Full(precision) => {
                let (cov, log_det) = inverse(precision)?;
                let mut mean = vec![0.0; self.shift.len()];
                linalg::matvec(cov.as_ref(), &self.shift, &mut mean);
                Some(Normal { mean, cov: Matrix::Full(cov), log_det: -log_det })
            }
            Matrix::Diagonal(precision) => {
                let variances: Vec<f64> = precision.iter().map(|p| 1.0 / p).collect();
                let mean = variances.iter().zip(&self.shift).map(|(s, l)| s * l).collect();
                Normal::diagonal(mean, variances).ok()
            }
        }
    }

    /// Returns `−E_q log t = ½ (tr ΛS + mᵀΛm) − λᵀm`, and adds its derivatives, times `weight`, to
    /// a gradient: `Λm − λ` in m, `½Λ` in S, and Λ to the Hessian in m.
    pub(crate) fn add_to(
        &self,
        q: &Normal,
        weight: f64,
        mean: &mut [f64],
        cov: &mut Matrix,
        curvature: Option<&mut Matrix>,
    ) -> f64 {
        let mut image = vec![0.0; q.dim()];
        let trace = match (&self.precision, q.cov()) {
            (Matrix::Full(precision), MatrixRef::Full(cov)) => {
                linalg::matvec(precision.as_ref(), q.mean(), &mut image);
                precision.col_iter().zip(cov.col_iter()).map(|(a, b)| a.transpose() * b).sum()
            }
            (precision, cov) => {
                let precision = precision.as_ref().diagonal();
                image.iter_mut().zip(precision.iter().zip(q.mean())).for_each(|(x, (p, m))| *x = p * m);
                dot(precision, cov.diagonal())
            }
        };
        let terms = image.iter().zip(&self.shift);
        mean.iter_mut().zip(terms).for_each(|(g, (x, l))| *g += weight * (x - l));
        cov.add_scaled(self.precision.as_ref(), 0.5 * weight);
        if let Some(curvature) = curvature {
            curvature.add_scaled(self.precision.as_ref(), weight);
        }
        weight * (0.5 * (trace + dot(&image, q.mean())) - dot(&self.shift, q.mean()))
    }
}

/// Returns the inverse of a symmetric positive definite matrix, and the logarithm of its
/// determinant.
fn inverse(mut matrix: Mat<f64>) -> Option<(Mat<f64>, f64)> {
    let m = matrix.nrows();
    let (mut root, mut inverse) = (linalg::spread(m, m), linalg::spread(m, m));
    Factorizer::new(m).cholesky_with_inverse(matrix.as_mut(), root.as_mut()).ok()?;
    let log_det = linalg::log_det(matrix.as_ref());
    gram_of_inverse(root.as_ref(), inverse.as_mut());
    log_det.is_finite().then_some((inverse, log_det))
}
