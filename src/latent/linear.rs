//! Linear features: the Bayesian linear model `f = xᵀβ`, `β ~ N(0, P)`, as a whitened latent layer; no kernels.

use super::{LatentLayer, LayerGradient, LayerScratch};
use crate::error::{Error, Result};
use crate::linalg::{Factorizer, Shape};
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::Scratch;

/// `f = xᵀβ` with `β = L_P w`, `P = L_P L_Pᵀ` and `w ~ N(0, I)`, so that `a = L_Pᵀ x` and nothing is left over.
#[derive(Clone, Debug)]
pub struct LinearLayer {
    upper: Mat<f64>,
}

impl LinearLayer {
    /// A layer from the prior covariance `P` (`D × D`); an error when it is not positive definite.
    pub fn new(prior: MatRef<'_, f64>) -> Result<Self> {
        if prior.nrows() != prior.ncols() {
            let (r, c) = prior.shape();
            return Err(Error::usage(format!("the prior covariance is {r} × {c}, expected a square matrix")));
        }
        let mut factor = prior.to_owned();
        Factorizer::new(prior.nrows()).cholesky(factor.as_mut()).map_err(|e| {
            Error::usage(format!("the prior covariance is not positive definite (pivot {})", e.pivot))
        })?;
        Ok(LinearLayer { upper: factor.transpose().to_owned() })
    }

    /// Coefficients `β = L_P w` and their covariance `L_P S L_Pᵀ` from the whitened posterior `N(m, S)`.
    pub fn coefficients(&self, mean: &[f64], cov: MatRef<'_, f64>) -> (Vec<f64>, Mat<f64>) {
        let lower = self.upper.transpose();
        let mean = faer::ColRef::from_slice(mean);
        let beta = lower * mean;
        ((0..beta.nrows()).map(|i| beta[i]).collect(), lower * cov * &self.upper)
    }
}

impl LatentLayer for LinearLayer {
    fn dim(&self) -> usize {
        self.upper.nrows()
    }

    fn whitening(&self) -> (MatRef<'_, f64>, Shape) {
        (self.upper.as_ref(), Shape::Upper)
    }

    fn prior_share(&self) -> f64 {
        0.0
    }

    fn features(
        &self,
        x: MatRef<'_, f64>,
        mut k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        _scratch: &mut Scratch,
    ) {
        k.copy_from(x);
        base.fill(0.0);
        offset.fill(0.0);
    }

    fn zero_gradient(&self) -> LayerGradient {
        LayerGradient::zeros(0, 0, 0)
    }

    fn features_adjoint(
        &self,
        _x: MatRef<'_, f64>,
        _features: (MatRef<'_, f64>, MatRef<'_, f64>),
        _base_bar: &[f64],
        offset_bar: &[f64],
        grad: &mut LayerGradient,
        _scratch: &mut Scratch,
    ) {
        grad.mean += offset_bar.iter().sum::<f64>();
    }

    // The prior covariance is given, not trained, so nothing flows through the whitening.
    fn whitening_adjoint(&self, _g: MatMut<'_, f64>, _grad: &mut LayerGradient, _scratch: &mut LayerScratch) {
    }
}
