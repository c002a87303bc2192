//! A function with grouped effects as one layer: features stack, residual variances and offsets add.

use super::{
    AsPrior, FeaturesAdjoint, InducingLayer, LatentLayer, Layer, LayerGradient, LayerScratch, RawFeatures,
    of_raw_features,
};
use crate::columns;
use crate::effects::{EffectFeatures, EffectPosterior, Effects, Moments};
use crate::linalg::Operand;
use crate::variational::{MatrixRef, Normal};
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::{Parameter, Scratch};

/// The sum of a function and of the grouped effects of a row, `f + Σ zᵀb` with `b = F u`, `u ~ N(0, I)`.
///
/// The features of the function come first. A row has the features `Fᵀz` at the coefficients u of its levels. Levels that training did not see
/// have no coefficients: their effects are residual variance.
#[derive(Clone)]
#[doc(hidden)]
pub struct SumLayer<G = InducingLayer> {
    /// The layer of the function; the number of its features must stay.
    pub(crate) function: Layer<G>,
    pub(crate) effects: Effects,
    /// The whitening of the function beside the identity.
    whitening: Mat<f64>,
}

impl<G: AsPrior> SumLayer<G> {
    fn effect_features(&self, x: MatRef<'_, f64>) -> EffectFeatures {
        let mut features = EffectFeatures::default();
        features.reset(&self.effects);
        x.row_iter().for_each(|row| features.push(&self.effects, row));
        features
    }
}

impl<G: AsPrior> RawFeatures for SumLayer<G> {
    fn dim(&self) -> usize {
        self.function.dim() + self.effects.coefficients()
    }

    fn input_dims(&self) -> usize {
        self.function.input_dims()
    }

    fn kappa(&self) -> f64 {
        self.function.kappa()
    }

    fn mean(&self) -> Option<&Parameter> {
        self.function.mean()
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.function.for_each_parameter(visit);
    }

    fn features(
        &self,
        x: MatRef<'_, f64>,
        k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let (function, mut effects) = k.split_at_row_mut(self.function.dim());
        self.function.features(x, function, base, offset, scratch);
        effects.fill(0.0);
        let features = self.effect_features(x);
        for row in 0..x.nrows() {
            features.add(row, 1.0, columns::column_mut(&mut effects, row));
        }
        if self.function.kappa() > 0.0 {
            self.effects.add_prior_variances(x, base);
        } else {
            base.iter_mut().zip(x.row_iter()).for_each(|(base, x)| *base += self.effects.new_variance(x));
        }
    }

    fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        self.function.base_covariance(x)
    }
}

impl SumLayer {
    /// Creates the sum of a function and grouped effects, which have the factors of one layer.
    pub(crate) fn new(function: Layer, effects: Effects) -> Self {
        let all = function.dim() + effects.coefficients();
        let mut layer = SumLayer { function, effects, whitening: Mat::identity(all, all) };
        layer.copy_whitening();
        layer
    }

    /// Takes over the factors that effects have for a layer, and the present factor of the function.
    pub(crate) fn refresh(&mut self, effects: &Effects, layer: usize) {
        self.effects.copy_layer(0, (effects, layer));
        self.copy_whitening();
    }

    fn copy_whitening(&mut self) {
        let m = self.function.dim();
        if let Some(Operand { matrix, .. }) = self.function.whitening() {
            self.whitening.as_mut().submatrix_mut(0, 0, m, m).copy_from(matrix);
        }
    }
}

impl EffectPosterior {
    /// Creates the posterior of `effects` in a model with the latent function of `layer`.
    pub(crate) fn new(effects: Effects, moments: Moments, layer: &Layer) -> Self {
        let raw_cross = of_raw_features(layer, moments.cross.as_ref());
        EffectPosterior::with_cross(effects, moments, raw_cross)
    }

    /// Splits the joint posterior of the weights of the function of `layer` and of the whitened effects into both.
    pub(crate) fn split(effects: &Effects, q: &Normal, layer: &Layer) -> (Normal, EffectPosterior) {
        let (moments, m) = (Moments::of_joint(effects, q, layer.dim()), layer.dim());
        let own = match q.cov() {
            MatrixRef::Full(_) => None,
            MatrixRef::Diagonal(variances) => {
                Normal::diagonal(q.mean()[..m].to_vec(), variances[..m].to_vec()).ok()
            }
        };
        (own.unwrap_or_else(|| moments.of_weights()), EffectPosterior::new(effects.clone(), moments, layer))
    }
}

impl LatentLayer for SumLayer {
    fn whitening(&self) -> Option<Operand<'_>> {
        Some(Operand::lower(self.whitening.as_ref()))
    }

    fn features_adjoint(&self, by: FeaturesAdjoint<'_>, grad: &mut LayerGradient, scratch: &mut Scratch) {
        let FeaturesAdjoint { x, features, features_bar, base_bar, .. } = by;
        let (of_function, of_effects) = features.split_at_row(self.function.dim());
        let (function_bar, effects_bar) = features_bar.split_at_row(self.function.dim());
        let by = FeaturesAdjoint { features: of_function, features_bar: function_bar, ..by };
        self.function.features_adjoint(by, grad, scratch);
        let rows = self.effect_features(x);
        let mut factors: Vec<Mat<f64>> =
            self.effects.terms().iter().map(|term| Mat::zeros(term.width(), term.width())).collect();
        for (row, base_bar) in base_bar.iter().enumerate() {
            rows.adjoint(row, 1.0, columns::column(&effects_bar, row), &mut factors);
            // The prior variance of the effects of known levels is |Fᵀz|².
            let by_base = 2.0 * self.function.kappa() * base_bar;
            rows.adjoint(row, by_base, columns::column(&of_effects, row), &mut factors);
        }
        let mut flat = Vec::with_capacity(grad.effects.len());
        factors
            .iter()
            .enumerate()
            .for_each(|(term, bar)| self.effects.flatten(term, bar.as_ref(), &mut flat));
        grad.effects.iter_mut().zip(flat).for_each(|(sum, bar)| *sum += bar);
    }

    fn whitening_adjoint(&self, g: MatMut<'_, f64>, grad: &mut LayerGradient, scratch: &mut LayerScratch) {
        let m = self.function.dim();
        self.function.whitening_adjoint(g.submatrix_mut(0, 0, m, m), grad, scratch);
    }
}
