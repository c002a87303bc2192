//! Linear features: the Bayesian linear model `f = xᵀβ`, `β ~ N(m₀, P)`, as a whitened latent
//! layer.

use super::{FeaturesAdjoint, LatentLayer, LayerGradient, RawFeatures};
use crate::error::{Error, Result};
use crate::linalg::{Factorizer, Operand, block_product, dot, thin_orthonormal};
use faer::{Accum, Mat, MatMut, MatRef};
use sparsegp_kernels::{Parameter, Scratch};

/// The square root of the prior covariance.
#[derive(Clone, Debug)]
enum Root {
    /// Standard deviations of independent coefficients.
    Deviations(Vec<f64>),
    /// `L_Pᵀ`, upper triangular.
    Upper(Mat<f64>),
}

/// `f = x̃ᵀβ` with `β = m₀ + L_P w`, `P = L_P L_Pᵀ` and `w ~ N(0, I)`, so that `a = L_Pᵀ x̃` and `o = x̃ᵀm₀`; x̃ is x, followed by a 1 if
/// there is an intercept.
///
/// With more coefficients than data the posterior differs from the prior only in the span of the
/// data's rows. A [reduced](LinearLayer::reduced_to) layer has an orthonormal basis U of this span
/// and uses `a = Uᵀ L_Pᵀ x̃` of dimension n; the rest of `x̃ᵀP x̃` is residual variance. The
/// posterior is the same, but time and memory are those of dimension n.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct LinearLayer {
    pub(crate) prior_mean: Vec<f64>,
    root: Root,
    intercept: bool,
    basis: Option<Mat<f64>>,
}

impl LinearLayer {
    /// Creates a layer without intercept from the prior covariance `P` (`D × D`), with prior mean 0.
    /// Returns an error if P is not positive definite.
    pub fn new(prior: MatRef<'_, f64>) -> Result<Self> {
        let (rows, columns) = prior.shape();
        if rows != columns || rows == 0 {
            return Err(Error::usage(format!(
                "the prior covariance is {rows} × {columns}, expected a square matrix"
            )));
        }
        let mut factor = prior.to_owned();
        Factorizer::new(rows).cholesky(factor.as_mut()).map_err(|e| {
            Error::usage(format!("the prior covariance is not positive definite (pivot {})", e.pivot))
        })?;
        let root = Root::Upper(factor.transpose().to_owned());
        Ok(LinearLayer { prior_mean: vec![0.0; rows], root, intercept: false, basis: None })
    }

    /// Creates a layer without intercept from the prior means and variances (D each) of independent
    /// coefficients. Returns an error if the lengths differ or are 0, a mean is not finite, or a
    /// variance is not positive.
    pub fn independent(means: &[f64], variances: &[f64]) -> Result<Self> {
        if means.len() != variances.len() || means.is_empty() {
            return Err(Error::usage(format!(
                "there are {} prior means and {} prior variances, expected equal numbers, and at least one of each",
                means.len(),
                variances.len()
            )));
        }
        for (i, (m, v)) in means.iter().zip(variances).enumerate() {
            if !(m.is_finite() && *v > 0.0 && v.is_finite()) {
                return Err(Error::usage(format!(
                    "the prior of coefficient {i} has mean {m} and variance {v}, expected a finite mean and a positive variance"
                )));
            }
        }
        Ok(LinearLayer::with_deviations(means.to_vec(), variances.iter().map(|v| v.sqrt()).collect()))
    }

    /// Like [`LinearLayer::independent`], from standard deviations, which must be positive.
    pub(crate) fn with_deviations(prior_mean: Vec<f64>, deviations: Vec<f64>) -> Self {
        LinearLayer { prior_mean, root: Root::Deviations(deviations), intercept: false, basis: None }
    }

    /// Creates a layer for `d` inputs, whose coefficients all have the prior `N(mean, variance)`.
    pub fn isotropic(d: usize, mean: f64, variance: f64) -> Result<Self> {
        LinearLayer::independent(&vec![mean; d], &vec![variance; d])
    }

    /// Makes the last coefficient the intercept; inputs then have one column less than there are
    /// coefficients.
    pub fn with_intercept(mut self) -> Self {
        self.intercept = true;
        self
    }

    /// Reduces the dimension of the model if the training inputs `x` (`n × D`) have fewer rows than there are coefficients; the predictions
    /// stay the same.
    pub fn reduced_to(mut self, x: MatRef<'_, f64>) -> Self {
        let (p, n) = (self.prior_mean.len(), x.nrows());
        if n < p && n > 0 {
            self.basis = None;
            let mut features = Mat::zeros(p, n);
            self.whitened(x, features.as_mut());
            self.basis = Some(thin_orthonormal(features));
        }
        self
    }

    /// Restores the dimension of the coefficients.
    pub(crate) fn whole(mut self) -> Self {
        self.basis = None;
        self
    }

    /// The number of coefficients p, the intercept included.
    pub fn coefficient_count(&self) -> usize {
        self.prior_mean.len()
    }

    /// True if the last coefficient is an intercept.
    pub fn has_intercept(&self) -> bool {
        self.intercept
    }

    /// The prior standard deviations, if coefficients are independent.
    pub fn prior_deviations(&self) -> Option<&[f64]> {
        match &self.root {
            Root::Deviations(d) => Some(d),
            Root::Upper(_) => None,
        }
    }

    /// The basis U (`p × n`) that the layer was reduced to.
    pub fn basis(&self) -> Option<MatRef<'_, f64>> {
        self.basis.as_ref().map(|u| u.as_ref())
    }

    /// Restores a basis that [`LinearLayer::basis`] returned. Returns an error if it does not have
    /// one row per coefficient.
    pub(crate) fn with_basis(mut self, basis: Mat<f64>) -> Result<Self> {
        if basis.nrows() != self.prior_mean.len() {
            let (rows, p) = (basis.nrows(), self.prior_mean.len());
            return Err(Error::usage(format!("the basis has {rows} rows, expected {p}")));
        }
        self.basis = Some(basis);
        Ok(self)
    }

    /// The offset, features (M) and residual variance of the linear functional `cᵀβ` of the coefficients (c of length p):
    /// under q(w) = N(m, S) it has mean `o + aᵀm` and variance `r + aᵀSa`.
    pub(crate) fn functional(&self, c: &[f64]) -> (f64, Vec<f64>, f64) {
        let p = self.prior_mean.len();
        let mut scaled = Mat::from_fn(p, 1, |i, _| c[i]);
        self.scale(scaled.as_mut());
        let whole: Vec<f64> = (0..p).map(|i| scaled[(i, 0)]).collect();
        let offset = dot(c, &self.prior_mean);
        match &self.basis {
            None => (offset, whole, 0.0),
            Some(u) => {
                let a = u.transpose() * scaled.col(0);
                let a: Vec<f64> = (0..u.ncols()).map(|i| a[i]).collect();
                let residual = (dot(&whole, &whole) - dot(&a, &a)).max(0.0);
                (offset, a, residual)
            }
        }
    }

    /// Returns the smallest weights w for which no coefficient is negative, if coefficients are
    /// independent: `−m₀/d`, where d is the standard deviation, without a limit for the intercept.
    /// Empty for other priors and for a reduced layer, in which a weight does not belong to a
    /// single coefficient.
    pub(crate) fn nonnegative_weights(&self) -> Vec<f64> {
        let Some(deviations) = self.prior_deviations().filter(|_| self.basis.is_none()) else {
            return Vec::new();
        };
        let mut least: Vec<f64> = self.prior_mean.iter().zip(deviations).map(|(m, d)| -m / d).collect();
        if let (true, Some(intercept)) = (self.intercept, least.last_mut()) {
            *intercept = f64::NEG_INFINITY;
        }
        least
    }

    /// Writes `L_Pᵀ x̃`, a column per row of x, into `out` (`p × c`).
    fn whitened(&self, x: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
        let d = x.ncols();
        out.as_mut().subrows_mut(0, d).copy_from(x.transpose());
        if self.intercept {
            out.as_mut().subrows_mut(d, 1).fill(1.0);
        }
        self.scale(out);
    }

    /// Multiplies by `L_Pᵀ` in place.
    pub(crate) fn scale(&self, columns: MatMut<'_, f64>) {
        match &self.root {
            Root::Deviations(deviations) => {
                for column in columns.col_iter_mut() {
                    column.iter_mut().zip(deviations).for_each(|(a, d)| *a *= d);
                }
            }
            Root::Upper(upper) => {
                // Row i of the product needs rows i and below, so going down overwrites nothing still needed.
                for mut column in columns.col_iter_mut() {
                    for i in 0..upper.nrows() {
                        column[i] = (i..upper.ncols()).map(|j| upper[(i, j)] * column[j]).sum();
                    }
                }
            }
        }
    }
}

impl RawFeatures for LinearLayer {
    fn dim(&self) -> usize {
        self.basis.as_ref().map_or(self.prior_mean.len(), Mat::ncols)
    }

    fn input_dims(&self) -> usize {
        self.prior_mean.len() - usize::from(self.intercept)
    }

    fn kappa(&self) -> f64 {
        if self.basis.is_some() { 1.0 } else { 0.0 }
    }

    // The prior is given, not trained.
    fn for_each_parameter<'a>(&'a self, _visit: &mut dyn FnMut(&'a Parameter)) {}

    fn features(
        &self,
        x: MatRef<'_, f64>,
        mut k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        _scratch: &mut Scratch,
    ) {
        let d = self.input_dims();
        let x = x.subcols(0, d);
        let constant = if self.intercept { self.prior_mean[d] } else { 0.0 };
        for (j, o) in offset.iter_mut().enumerate() {
            *o = constant + x.row(j).iter().zip(&self.prior_mean).map(|(x, m)| x * m).sum::<f64>();
        }
        match &self.basis {
            None => {
                self.whitened(x, k);
                base.fill(0.0);
            }
            Some(u) => {
                let mut whole = Mat::zeros(self.prior_mean.len(), x.nrows());
                self.whitened(x, whole.as_mut());
                for (j, base) in base.iter_mut().enumerate() {
                    *base = whole.col(j).iter().map(|a| a * a).sum();
                }
                let left = Operand::full(u.transpose());
                block_product(k.as_mut(), Accum::Replace, left, whole.as_ref(), 1.0);
            }
        }
    }

    /// Returns `x̃ᵀP x̃′` at the rows of x (`n × D`) for a reduced layer, whose features explain a part of it; 0 for a
    /// whole layer, whose features explain everything.
    fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        if self.basis.is_none() {
            return Mat::zeros(x.nrows(), x.nrows());
        }
        let mut whole = Mat::zeros(self.prior_mean.len(), x.nrows());
        self.whitened(x, whole.as_mut());
        whole.transpose() * &whole
    }
}

impl LatentLayer for LinearLayer {
    fn whitening(&self) -> Option<Operand<'_>> {
        None
    }

    fn features_adjoint(&self, _: FeaturesAdjoint<'_>, _: &mut LayerGradient, _: &mut Scratch) {}
}
