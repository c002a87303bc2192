//! The latent layer, which produces the features a_i, residual variances and offsets of the latent
//! linear model.

mod embedding;
mod feature_layer;
#[doc(hidden)]
pub mod inducing;
#[doc(hidden)]
pub mod init;
mod layer;
#[doc(hidden)]
pub mod linear;
mod pivots;
mod sum;

pub(crate) use embedding::Embedding;
pub use feature_layer::{FeatureBar, FeatureLayer, FeatureMap};
#[doc(inline)]
pub use inducing::{AsPrior, InducingLayer, InducingPrior, Jitter};
#[doc(inline)]
pub use init::{InducingInit, choose_inducing, more_inducing};
pub use layer::{Layer, Layers};
#[doc(inline)]
pub use linear::LinearLayer;
pub use sum::SumLayer;

use crate::linalg::{self, Operand, block_product};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Parameter, Scratch};

/// Gradient of an objective with respect to everything a layer can train, in natural units.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[doc(hidden)]
pub struct LayerGradient {
    /// One entry per kernel parameter value.
    pub kernel: Vec<f64>,
    /// The constant means, one for each process that has one.
    pub mean: Vec<f64>,
    /// The inducing inputs, `M × D`.
    #[serde(with = "crate::linalg::stored")]
    pub z: Mat<f64>,
    /// The values of the factors of grouped effects, if they are part of the layer.
    pub(crate) effects: Vec<f64>,
}

impl LayerGradient {
    /// Creates zeros for the parameters of a layer without grouped effects, and inducing inputs of the shape of `z` (`M × D`).
    pub(crate) fn zeros(layer: &dyn RawFeatures, z: MatRef<'_, f64>) -> Self {
        let (mut values, means) = (0, layer.mean().map_or(0, |mean| mean.values.len()));
        layer.for_each_parameter(&mut |parameter| values += parameter.values.len());
        LayerGradient {
            kernel: vec![0.0; values - means],
            mean: vec![0.0; means],
            z: Mat::zeros(z.nrows(), z.ncols()),
            effects: Vec::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.kernel.fill(0.0);
        self.mean.fill(0.0);
        self.z.as_mut().fill(0.0);
        self.effects.fill(0.0);
    }

    /// Returns true if both gradients are for layers of the same shape.
    pub(crate) fn is_like(&self, other: &LayerGradient) -> bool {
        let shape = |of: &LayerGradient| (of.kernel.len(), of.mean.len(), of.z.shape(), of.effects.len());
        shape(self) == shape(other)
    }

    pub(crate) fn add(&mut self, other: &LayerGradient) {
        self.kernel.iter_mut().zip(&other.kernel).for_each(|(a, b)| *a += b);
        self.mean.iter_mut().zip(&other.mean).for_each(|(a, b)| *a += b);
        self.z += &other.z;
        self.effects.iter_mut().zip(&other.effects).for_each(|(a, b)| *a += b);
    }
}

/// The derivatives of an objective with respect to what [`RawFeatures::features`] writes for a block of c rows.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct FeaturesAdjoint<'a> {
    /// The rows, `c × D`.
    pub x: MatRef<'a, f64>,
    /// The raw features k, `M × c`.
    pub features: MatRef<'a, f64>,
    /// `∂F/∂k`, `M × c`.
    pub features_bar: MatRef<'a, f64>,
    /// The derivatives with respect to `base`, c.
    pub base_bar: &'a [f64],
    /// The derivatives with respect to the offsets of process 0, c.
    pub offset_bar: &'a [f64],
}

/// The raw features of rows: `(a_i, r_i, o_i)` ([docs/mathematics.md#the-latent-linear-model](crate::book::mathematics#the-latent-linear-model)) before whitening, which predictions need.
///
/// For a datum `x`, raw features `k(x)` (dimension M) become `a = W k` with `w ~ N(0, I)`, and under `q(w) = N(m, S)`
///
/// ```text
/// μ = o + aᵀm,   v = base + aᵀ(S − κI)a
/// ```
///
/// with `W = L⁻¹`, `base = k(x, x)`, `κ = 1` for inducing points, and `W = I`, `a = L_Pᵀ x`,
/// `base = 0`, `κ = 0` for a linear model with prior covariance `L_P L_Pᵀ`. Data arrive as `c × D`
/// blocks, a row per datum, in any strides; columns after the first D belong to grouped effects.
#[doc(hidden)]
pub trait RawFeatures: Send + Sync {
    /// The dimension M of `w`.
    fn dim(&self) -> usize;

    /// The number of columns that inputs of the function have.
    fn input_dims(&self) -> usize;

    /// Returns κ: 1 if `base` is the prior variance, from which `aᵀa` has to be subtracted;
    /// otherwise 0.
    fn kappa(&self) -> f64;

    /// The constant means, one for each process that shares the layer, if it has them.
    fn mean(&self) -> Option<&Parameter> {
        None
    }

    /// Returns the constant mean of a process; `None` if it has the offset of process 0, which [`features`](Self::features) writes.
    fn constant(&self, process: usize) -> Option<f64> {
        self.mean()?.values.get(process).copied()
    }

    /// Visits the parameters of the features, then the means.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter));

    /// Writes the raw features (`M × c`), `base` and the offsets of process 0 of a block `x` (`c × D`).
    fn features(
        &self,
        x: MatRef<'_, f64>,
        k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        scratch: &mut Scratch,
    );

    /// Returns the matrix (`n × n`) at the points of `x` (`n × D`) whose diagonal is `base`: the
    /// prior covariance for inducing points and reduced linear layers, 0 for whole linear layers, the residual variances for other
    /// features. Grouped effects are not part of it.
    fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64>;
}

/// How features are whitened, and the adjoint of everything that a layer computes.
#[doc(hidden)]
pub trait LatentLayer {
    /// The whitening matrix `W` (`M × M`) and its triangle; `None` for the identity, if the layer has no
    /// parameters to train and only its offset has a gradient.
    fn whitening(&self) -> Option<Operand<'_>>;

    /// The factor `L` of `W = L⁻¹`, if products with W would lose digits that systems with L keep.
    fn ill_conditioned(&self) -> Option<MatRef<'_, f64>> {
        None
    }

    /// Adds the gradient that flows through the features, `base` and the offsets of one block.
    fn features_adjoint(&self, by: FeaturesAdjoint<'_>, grad: &mut LayerGradient, scratch: &mut Scratch);

    /// Adds the gradient that flows through the whitening, given the lower triangle of `G = Ā Aᵀ` (`M × M`).
    ///
    /// For `W = L⁻¹`, `L Lᵀ = K_uu`: `K̄_uu = −½ L⁻ᵀ Γ L⁻¹`, Γ the lower triangle of `G` reflected.
    fn whitening_adjoint(&self, g: MatMut<'_, f64>, grad: &mut LayerGradient, scratch: &mut LayerScratch) {
        let _ = (g, grad, scratch);
    }
}

/// Computes `A = W K`; does nothing if features are whitened by construction.
#[doc(hidden)]
pub fn whiten(layer: &dyn LatentLayer, k: MatRef<'_, f64>, mut a: MatMut<'_, f64>) {
    match (layer.ill_conditioned(), layer.whitening()) {
        (None, Some(whitening)) => block_product(a, Accum::Replace, whitening, k, 1.0),
        (factor, _) => {
            a.copy_from(k);
            factor.inspect(|l| solve_lower_triangular_in_place(*l, a, Par::Seq));
        }
    }
}

/// `K̄ = Wᵀ Ā`.
pub(crate) fn whiten_adjoint(layer: &dyn LatentLayer, bar: MatRef<'_, f64>, mut out: MatMut<'_, f64>) {
    match (layer.ill_conditioned(), layer.whitening()) {
        (None, Some(whitening)) => block_product(out, Accum::Replace, whitening.transposed(), bar, 1.0),
        (factor, _) => {
            out.copy_from(bar);
            factor.inspect(|l| solve_upper_triangular_in_place(l.transpose(), out, Par::Seq));
        }
    }
}

/// Returns `WᵀC` for columns C that are multiplied by whitened features `a = W k`: `kᵀWᵀC = aᵀC`, so raw features k give the same products.
pub(crate) fn of_raw_features(layer: &dyn LatentLayer, columns: MatRef<'_, f64>) -> Mat<f64> {
    let mut raw = Mat::zeros(columns.nrows(), columns.ncols());
    whiten_adjoint(layer, columns, raw.as_mut());
    raw
}

/// Buffers of the once-per-step part of a layer's adjoint.
#[doc(hidden)]
pub struct LayerScratch {
    pub(crate) product: Mat<f64>,
    pub(crate) kernel: Scratch,
}

impl LayerScratch {
    /// Creates buffers for a layer of dimension `m`.
    pub fn new(m: usize) -> Self {
        LayerScratch { product: linalg::spread(m, m), kernel: Scratch::new() }
    }
}
