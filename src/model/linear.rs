//! The coefficients of a linear layer under q(w): their moments, and q in another basis.

use crate::latent::{LinearLayer, RawFeatures};
use crate::linalg::{dot, matvec};
use crate::variational::{Family, MatrixRef, Normal};
use faer::{Mat, MatRef};

impl LinearLayer {
    /// Means and standard deviations (p each) of the coefficients under q(w).
    pub fn coefficient_moments(&self, q: &Normal) -> (Vec<f64>, Vec<f64>) {
        let moments = (0..self.coefficient_count()).map(|j| self.coefficient(j, q));
        moments.map(|(mean, variance)| (mean, variance.sqrt())).unzip()
    }

    /// Mean and variance of coefficient j. Independent coefficients need no vector of length p.
    fn coefficient(&self, j: usize, q: &Normal) -> (f64, f64) {
        let prior = self.prior_mean[j];
        match (self.prior_deviations(), self.basis()) {
            (Some(d), None) => {
                let variance = match q.cov() {
                    MatrixRef::Full(cov) => cov[(j, j)],
                    MatrixRef::Diagonal(variances) => variances[j],
                };
                (prior + d[j] * q.mean()[j], d[j] * d[j] * variance)
            }
            (Some(d), Some(u)) => {
                let a: Vec<f64> = u.row(j).iter().map(|u| d[j] * u).collect();
                let residual = (d[j] * d[j] - dot(&a, &a)).max(0.0);
                moments(prior, &a, residual, q)
            }
            (None, _) => {
                let unit: Vec<f64> =
                    (0..self.coefficient_count()).map(|i| if i == j { 1.0 } else { 0.0 }).collect();
                self.functional_moments(&unit, q)
            }
        }
    }

    /// Mean (p) and covariance (`p × p`) of the coefficients under q(w).
    pub fn coefficient_posterior(&self, q: &Normal) -> (Vec<f64>, Mat<f64>) {
        let p = self.coefficient_count();
        let mut root = Mat::identity(p, p);
        self.scale(root.as_mut());
        let mut inner = q.cov().to_dense();
        let mut mean = Mat::from_fn(q.dim(), 1, |i, _| q.mean()[i]);
        if let Some(u) = self.basis() {
            // Outside the basis U, q(w) equals the prior: its covariance is I + U (S − I) Uᵀ.
            inner -= Mat::<f64>::identity(q.dim(), q.dim());
            inner = Mat::<f64>::identity(p, p) + u * inner * u.transpose();
            mean = u * mean;
        }
        let mean = root.transpose() * mean;
        let means = (0..p).map(|i| self.prior_mean[i] + mean[(i, 0)]).collect();
        (means, root.transpose() * inner * &root)
    }

    /// Mean and variance of the linear functional `cᵀβ` under q(w).
    pub(crate) fn functional_moments(&self, c: &[f64], q: &Normal) -> (f64, f64) {
        let (offset, a, residual) = self.functional(c);
        moments(offset, &a, residual, q)
    }

    /// Returns this prior in the coordinates that suit the training inputs `x` (`n × D`) and the family of covariances: a basis of n
    /// vectors for full covariances of more than n coefficients, and otherwise the coefficients themselves.
    pub(crate) fn suited_to(&self, x: MatRef<'_, f64>, family: Family) -> LinearLayer {
        let whole = self.clone().whole();
        match family {
            Family::Full => whole.reduced_to(x),
            Family::Diagonal => whole,
        }
    }

    /// Returns the posterior q(w) of this layer in the coordinates of `other`, a layer with the same prior. Outside the basis of this layer
    /// it equals the prior. Returns `None` if the covariance is not positive definite.
    pub fn carry(&self, q: &Normal, other: &LinearLayer) -> Option<Normal> {
        let (from, to) = (q.dim(), other.dim());
        let turn = match (self.basis(), other.basis()) {
            (Some(u), Some(v)) => v.transpose() * u,
            (Some(u), None) => u.to_owned(),
            (None, Some(v)) => v.transpose().to_owned(),
            (None, None) => return Some(q.clone()),
        };
        let change = q.cov().to_dense() - Mat::<f64>::identity(from, from);
        let cov = Mat::<f64>::identity(to, to) + &turn * change * turn.transpose();
        let mut mean = vec![0.0; to];
        matvec(turn.as_ref(), q.mean(), &mut mean);
        Normal::new(mean, cov).ok()
    }
}

/// `o + aᵀm` and `r + aᵀSa`.
fn moments(offset: f64, a: &[f64], residual: f64, q: &Normal) -> (f64, f64) {
    (offset + dot(a, q.mean()), (residual + quadratic(q, a)).max(0.0))
}

/// `aᵀSa`.
fn quadratic(q: &Normal, a: &[f64]) -> f64 {
    match q.cov() {
        MatrixRef::Full(cov) => {
            let mut image = vec![0.0; a.len()];
            matvec(cov, a, &mut image);
            dot(a, &image)
        }
        MatrixRef::Diagonal(variances) => a.iter().zip(variances).map(|(a, s)| a * a * s).sum(),
    }
}
