//! Inducing points: the whitened features a = L⁻¹ k_u(x) of a sparse GP and their adjoint.

use super::{FeaturesAdjoint, LatentLayer, LayerGradient, LayerScratch, RawFeatures};
use crate::error::{Error, Result};
use crate::linalg::{self, Factorizer, Operand, add_diagonal, trace};
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Mat, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Gradient, Inputs, Kernel, Parameter, Scratch, Transform};
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

/// The amount added to the diagonal of `K_uu` before it is factorised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Jitter {
    /// This amount (zero is allowed).
    #[doc(hidden)]
    Absolute(f64),
    /// This factor times the mean diagonal of `K_uu`; it changes with the kernel and enters the
    /// gradient.
    #[doc(hidden)]
    Relative(f64),
}

impl Jitter {
    /// The default for fitting. It bounds the condition number of `K_uu` by about `M·10⁶`, so that the stable form
    /// keeps some nine digits; larger values visibly cost accuracy on low-noise data.
    pub const DEFAULT: Jitter = Jitter::Relative(1e-6);

    /// The default if the inducing inputs are all distinct inputs of an exact GP, whose q then loses no more than rounding to the jitter.
    #[doc(hidden)]
    pub const EXACT: Jitter = Jitter::Relative(1e-14);

    /// The relative jitter below which features solve systems with L instead of being products with `L⁻¹`.
    const SOLVED: f64 = 1e-9;

    /// The first relative jitter that is tried if there was none.
    const FIRST: f64 = 1e-10;

    /// The maximum relative jitter, if factorisation needs more than the requested jitter.
    const CEILING: f64 = 1e-4;
}

impl FromStr for Jitter {
    type Err = Error;

    /// Reads a relative jitter as a number, and an absolute one as `abs:` and a number.
    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        let jitter = match text.strip_prefix("abs:") {
            Some(text) => number(text).map(Jitter::Absolute),
            None => number(text).map(Jitter::Relative),
        };
        jitter.ok_or_else(|| {
            Error::usage(format!("jitter {text} is neither a finite number nor text such as abs:1e-6"))
        })
    }
}

impl fmt::Display for Jitter {
    /// Writes a relative jitter as a number, and an absolute one as `abs:` and a number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Jitter::Relative(value) => write!(f, "{value:e}"),
            Jitter::Absolute(value) => write!(f, "abs:{value:e}"),
        }
    }
}

/// `K_uu` could not be factorised even with the largest jitter.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub struct FactorizationFailure {
    /// The largest jitter tried, relative to the mean diagonal.
    pub(crate) jitter: f64,
    /// True if `K_uu` itself holds numbers that are not finite.
    pub(crate) not_finite: bool,
}

/// The prior of a sparse GP: a kernel, inducing inputs `Z` (`M × D`), a constant mean for each process that shares them, and the jitter
/// of `K_uu`.
///
/// The prior can be edited and stored. [`InducingPrior::factorised`] adds the factor of `K_uu`.
#[derive(Clone)]
pub struct InducingPrior {
    kernel: Box<dyn Kernel>,
    mean: Parameter,
    z: Mat<f64>,
    jitter: Jitter,
}

/// The prior of a sparse GP with the factor `L` of its `K_uu = k(Z, Z) + jitter·I`.
///
/// The factor always fits the prior: only [`InducingPrior::factorised`] makes a layer, and a change
/// of the prior ([`LatentModel::set_natural`](crate::model::LatentModel::set_natural)) factorises
/// again.
#[doc(hidden)]
pub struct InducingLayer {
    prior: InducingPrior,
    /// The jitter of the factor; larger than the requested jitter if that was too small.
    pub(crate) used_jitter: Jitter,
    k_uu: Mat<f64>,
    l: Mat<f64>,
    linv: Mat<f64>,
    factorizer: Factorizer,
    scratch: Scratch,
}

impl Clone for InducingLayer {
    fn clone(&self) -> Self {
        InducingLayer {
            prior: self.prior.clone(),
            used_jitter: self.used_jitter,
            k_uu: linalg::spread_copy(self.k_uu.as_ref()),
            l: linalg::spread_copy(self.l.as_ref()),
            linv: linalg::spread_copy(self.linv.as_ref()),
            factorizer: Factorizer::new(self.z.nrows()),
            scratch: Scratch::new(),
        }
    }
}

impl Deref for InducingLayer {
    type Target = InducingPrior;

    fn deref(&self) -> &InducingPrior {
        &self.prior
    }
}

impl AsRef<InducingPrior> for InducingPrior {
    fn as_ref(&self) -> &InducingPrior {
        self
    }
}

impl AsRef<InducingPrior> for InducingLayer {
    fn as_ref(&self) -> &InducingPrior {
        &self.prior
    }
}

/// A sparse GP with its factor or without.
#[doc(hidden)]
pub trait AsPrior: AsRef<InducingPrior> + Send + Sync + 'static {}

impl<T: AsRef<InducingPrior> + Send + Sync + 'static> AsPrior for T {}

impl InducingPrior {
    /// Creates a prior with a mean that stays zero.
    ///
    /// Without inducing inputs (`0 × D`) all information comes from neighbours. Returns an error if
    /// `Z` has no columns or fewer than the kernel needs, or is not finite.
    pub fn new(kernel: Box<dyn Kernel>, z: Mat<f64>, jitter: Jitter) -> Result<Self> {
        let (m, d) = z.shape();
        if d == 0 {
            return Err(Error::usage(format!(
                "the inducing inputs are {m} × {d}, expected at least one column"
            )));
        }
        if d < kernel.min_dims() {
            return Err(Error::usage(format!(
                "kernel {} needs {} input columns, the data have {d}",
                kernel.expression(),
                kernel.min_dims()
            )));
        }
        if !linalg::all_finite(z.as_ref()) {
            return Err(Error::usage("the inducing inputs hold a value that is not finite"));
        }
        let mut mean = Parameter::new("constant", vec![0.0], Transform::Identity);
        mean.fixed = true;
        Ok(InducingPrior { kernel, mean, jitter, z })
    }

    /// Returns the prior with a constant mean, trained unless `fixed`.
    #[doc(hidden)]
    pub fn with_mean(self, constant: f64, fixed: bool) -> Self {
        self.with_means(vec![constant], fixed)
    }

    /// Returns the prior with a constant mean for each of the processes that share it, trained unless `fixed`.
    ///
    /// # Panics
    ///
    /// If `constants` is empty.
    #[doc(hidden)]
    pub fn with_means(mut self, constants: Vec<f64>, fixed: bool) -> Self {
        assert!(!constants.is_empty(), "a layer has at least one process");
        self.mean.values = constants;
        self.mean.fixed = fixed;
        self
    }

    /// Returns the prior with more inducing inputs (rows) at the end.
    ///
    /// # Panics
    ///
    /// If the number of columns of `more` differs.
    pub(crate) fn extended(&self, more: MatRef<'_, f64>) -> Self {
        let ((old, d), m) = (self.z.shape(), self.z.nrows() + more.nrows());
        assert_eq!(more.ncols(), d, "number of columns of the inducing inputs");
        InducingPrior {
            kernel: self.kernel.clone(),
            mean: self.mean.clone(),
            z: Mat::from_fn(m, d, |i, j| if i < old { self.z[(i, j)] } else { more[(i - old, j)] }),
            jitter: self.jitter,
        }
    }

    /// The covariance function.
    #[doc(hidden)]
    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// The covariance function, to change its parameters.
    #[doc(hidden)]
    pub fn kernel_mut(&mut self) -> &mut dyn Kernel {
        self.kernel.as_mut()
    }

    /// The constant means, one for each process that shares the layer.
    #[doc(hidden)]
    pub fn mean(&self) -> &Parameter {
        &self.mean
    }

    pub(crate) fn mean_mut(&mut self) -> &mut Parameter {
        &mut self.mean
    }

    /// The inducing inputs, `M × D`.
    #[doc(hidden)]
    pub fn z(&self) -> MatRef<'_, f64> {
        self.z.as_ref()
    }

    /// The inducing inputs, to move them.
    #[doc(hidden)]
    pub fn z_mut(&mut self) -> MatMut<'_, f64> {
        self.z.as_mut()
    }

    /// The requested jitter.
    #[doc(hidden)]
    pub fn jitter(&self) -> Jitter {
        self.jitter
    }

    pub(crate) fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.kernel.for_each_parameter_mut(visit);
        visit(&mut self.mean);
    }

    /// Computes `K_uu` and its factor.
    ///
    /// If `K_uu` has no factor, the jitter climbs ×10 up to 10⁻⁴ of the mean diagonal.
    ///
    /// # Errors
    ///
    /// If `K_uu` has no factor with that jitter either, or is not finite.
    pub fn factorised(&self) -> std::result::Result<InducingLayer, FactorizationFailure> {
        let m = self.z.nrows();
        let mut layer = InducingLayer {
            prior: self.clone(),
            used_jitter: self.jitter,
            k_uu: linalg::spread(m, m),
            l: linalg::spread(m, m),
            linv: linalg::spread(m, m),
            factorizer: Factorizer::new(m),
            scratch: Scratch::new(),
        };
        layer.factorise()?;
        Ok(layer)
    }
}

impl RawFeatures for InducingPrior {
    fn dim(&self) -> usize {
        self.z.nrows()
    }

    fn input_dims(&self) -> usize {
        self.z.ncols()
    }

    fn kappa(&self) -> f64 {
        1.0
    }

    fn mean(&self) -> Option<&Parameter> {
        Some(&self.mean)
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.kernel.for_each_parameter(visit);
        visit(&self.mean);
    }

    fn features(
        &self,
        x: MatRef<'_, f64>,
        k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let x = x.subcols(0, self.z.ncols());
        self.kernel.eval(Inputs::Cross { left: self.z.as_ref(), right: x }, k, scratch);
        self.kernel.diag(x, base, scratch);
        offset.fill(self.mean.values[0]);
    }

    fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let mut out = Mat::zeros(x.nrows(), x.nrows());
        self.kernel.eval(Inputs::Gram(x), out.as_mut(), &mut Scratch::new());
        out
    }
}

impl InducingLayer {
    pub(crate) fn zero_gradient(&self) -> LayerGradient {
        LayerGradient::zeros(&self.prior, self.z.as_ref())
    }

    /// The lower Cholesky factor `L` of `K_uu`.
    pub fn factor(&self) -> MatRef<'_, f64> {
        self.l.as_ref()
    }

    /// The inverse of `L`.
    pub fn inverse_factor(&self) -> MatRef<'_, f64> {
        self.linv.as_ref()
    }

    /// Returns the jitter of the factor, relative to the mean diagonal of `K_uu`.
    pub fn relative_jitter(&self) -> f64 {
        match self.used_jitter {
            Jitter::Relative(ratio) => ratio,
            Jitter::Absolute(value) => value * self.z.nrows() as f64 / trace(self.k_uu.as_ref()),
        }
    }

    /// Returns the jitter of the factor as it was added to the diagonal of `K_uu`.
    pub(crate) fn absolute_jitter(&self) -> f64 {
        match self.used_jitter {
            Jitter::Relative(ratio) => ratio * trace(self.k_uu.as_ref()) / self.z.nrows().max(1) as f64,
            Jitter::Absolute(value) => value,
        }
    }

    /// An estimate of the condition number `‖K_uu‖₂ ‖K_uu⁻¹‖₂` by power iteration, usually within a factor of two.
    pub fn condition_estimate(&self) -> f64 {
        linalg::gram_norm(self.l.transpose()) * linalg::gram_norm(self.linv.as_ref())
    }

    /// True if cond(K_uu) is at most `limit`. This is certain if the jitter j is large enough, since `λ_max ≤ tr K_uu` and `λ_min ≥ j`;
    /// otherwise [`InducingLayer::condition_estimate`] decides.
    pub fn condition_is_at_most(&self, limit: f64) -> bool {
        1.0 + self.z.nrows() as f64 / self.relative_jitter() <= limit || self.condition_estimate() <= limit
    }

    /// Returns the mean of the prior variances at the inducing inputs.
    pub(crate) fn mean_prior_variance(&self) -> f64 {
        self.l.as_ref().squared_norm_l2() / self.z.nrows() as f64
    }

    /// Replaces the constant means, which `K_uu` does not depend on.
    pub(crate) fn set_mean(&mut self, mean: Parameter) {
        self.prior.mean = mean;
    }

    /// Fixes the parameters that `which` picks; fixed parameters stay fixed.
    pub(crate) fn fix(&mut self, which: &dyn Fn(&Parameter) -> bool) {
        self.prior.for_each_parameter_mut(&mut |p| p.fixed |= which(p));
    }

    /// Changes the prior and factorises again in the same buffers. After a failure the factor is
    /// NaN, so that no number computed with it can be mistaken for a result of the prior.
    pub(crate) fn change(
        &mut self,
        edit: impl FnOnce(&mut InducingPrior),
    ) -> std::result::Result<(), FactorizationFailure> {
        edit(&mut self.prior);
        let factorised = self.factorise();
        if factorised.is_err() {
            self.l.as_mut().fill(f64::NAN);
            self.linv.as_mut().fill(f64::NAN);
        }
        factorised
    }

    fn factorise(&mut self) -> std::result::Result<(), FactorizationFailure> {
        let InducingPrior { kernel, z, jitter, .. } = &self.prior;
        let m = z.nrows() as f64;
        if m == 0.0 {
            return Ok(());
        }
        kernel.eval(Inputs::Gram(z.as_ref()), self.k_uu.as_mut(), &mut self.scratch);
        let mean_diag = trace(self.k_uu.as_ref()) / m;
        if !mean_diag.is_finite() || mean_diag <= 0.0 {
            return Err(FactorizationFailure { jitter: 0.0, not_finite: true });
        }
        let mut attempt = *jitter;
        loop {
            let (absolute, relative) = match attempt {
                Jitter::Absolute(value) => (value, value / mean_diag),
                Jitter::Relative(ratio) => (ratio * mean_diag, ratio),
            };
            linalg::copy_lower(self.k_uu.as_ref(), self.l.as_mut());
            add_diagonal(self.l.as_mut(), absolute);
            if self.factorizer.cholesky_with_inverse(self.l.as_mut(), self.linv.as_mut()).is_ok() {
                self.used_jitter = attempt;
                return Ok(());
            }
            if relative >= Jitter::CEILING {
                return Err(FactorizationFailure { jitter: relative, not_finite: false });
            }
            let more = if relative > 0.0 { 10.0 * relative } else { Jitter::FIRST };
            attempt = Jitter::Relative(more.min(Jitter::CEILING));
        }
    }
}

impl LatentLayer for InducingLayer {
    fn whitening(&self) -> Option<Operand<'_>> {
        Some(Operand::lower(self.linv.as_ref()))
    }

    fn ill_conditioned(&self) -> Option<MatRef<'_, f64>> {
        (self.relative_jitter() < Jitter::SOLVED).then_some(self.l.as_ref())
    }

    fn features_adjoint(&self, by: FeaturesAdjoint<'_>, grad: &mut LayerGradient, scratch: &mut Scratch) {
        let FeaturesAdjoint { x, features, features_bar, base_bar, offset_bar } = by;
        let x = x.subcols(0, self.z.ncols());
        let target = Gradient { parameters: &mut grad.kernel, left: Some(grad.z.as_mut()), right: None };
        let inputs = Inputs::Cross { left: self.z.as_ref(), right: x };
        self.kernel.adjoint(inputs.evaluated(features, features_bar), target, scratch);
        let target = Gradient { parameters: &mut grad.kernel, left: None, right: None };
        self.kernel.diag_adjoint(x, base_bar, target, scratch);
        grad.mean[0] += offset_bar.iter().sum::<f64>();
    }

    fn whitening_adjoint(
        &self,
        mut g: MatMut<'_, f64>,
        grad: &mut LayerGradient,
        scratch: &mut LayerScratch,
    ) {
        // K̄_uu = −½ L⁻ᵀ Γ L⁻¹ with Γ = N + Nᵀ the reflected lower triangle of G; since K_uu is symmetric −L⁻ᵀ N L⁻¹ alone
        // carries the same derivative.
        let whitening = Operand::upper(self.linv.transpose());
        let m = self.z.nrows();
        let product = scratch.product.as_mut().submatrix_mut(0, 0, m, m);
        match self.ill_conditioned() {
            Some(l) => {
                // N has half of the diagonal of Γ.
                linalg::clear_upper(g.as_mut());
                (0..m).for_each(|i| g[(i, i)] *= 0.5);
                solve_upper_triangular_in_place(l.transpose(), g.as_mut(), Par::Seq);
                solve_upper_triangular_in_place(l.transpose(), g.as_mut().transpose_mut(), Par::Seq);
                g *= faer::Scale(-1.0);
            }
            None => linalg::half_congruence(whitening, g.as_mut(), product, -1.0),
        }

        let target = Gradient { parameters: &mut grad.kernel, left: Some(grad.z.as_mut()), right: None };
        let inputs = Inputs::Gram(self.z.as_ref());
        let (k, kbar) = (self.k_uu.as_ref(), g.as_ref());
        self.kernel.adjoint(inputs.evaluated(k, kbar), target, &mut scratch.kernel);
        if let Jitter::Relative(ratio) = self.used_jitter {
            // The jitter is ratio · mean(diag k(Z, Z)), so it carries tr K̄_uu back to the diagonal.
            let share = ratio * trace(kbar) / self.z.nrows() as f64;
            let mut bar = scratch.kernel.take(self.z.nrows());
            bar.fill(share);
            let target = Gradient { parameters: &mut grad.kernel, left: Some(grad.z.as_mut()), right: None };
            self.kernel.diag_adjoint(self.z.as_ref(), &bar, target, &mut scratch.kernel);
            scratch.kernel.give(bar);
        }
    }
}
