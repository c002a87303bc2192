//! The layers a model can have, as one type: inducing points, linear features, any other features, or their sum with grouped effects; and
//! the layers of the processes of a model.

use super::inducing::FactorizationFailure;
use super::{
    AsPrior, FeatureLayer, FeaturesAdjoint, InducingLayer, InducingPrior, Jitter, LatentLayer, LayerGradient,
    LayerScratch, LinearLayer, RawFeatures, SumLayer,
};
use crate::effects::Effects;
use crate::linalg::Operand;
use faer::{MatMut, MatRef};
use sparsegp_kernels::{Parameter, Scratch};
use std::ops::{Deref, Range};

/// The layer that produces the features of a model: a sparse GP with its factor ([`InducingLayer`])
/// or without ([`InducingPrior`]), or a linear model.
#[derive(Clone)]
#[doc(hidden)]
pub enum Layer<G = InducingLayer> {
    /// A sparse GP.
    Inducing(Box<G>),
    /// A Bayesian linear model.
    Linear(LinearLayer),
    /// Features of another approximation.
    Features(Box<FeatureLayer>),
    /// One of these, and grouped effects.
    Sum(Box<SumLayer<G>>),
}

impl From<InducingLayer> for Layer {
    fn from(layer: InducingLayer) -> Self {
        Layer::Inducing(Box::new(layer))
    }
}

impl From<InducingPrior> for Layer<InducingPrior> {
    fn from(prior: InducingPrior) -> Self {
        Layer::Inducing(Box::new(prior))
    }
}

impl<G> From<LinearLayer> for Layer<G> {
    fn from(layer: LinearLayer) -> Self {
        Layer::Linear(layer)
    }
}

impl<G> From<FeatureLayer> for Layer<G> {
    fn from(layer: FeatureLayer) -> Self {
        Layer::Features(Box::new(layer))
    }
}

impl<G: AsPrior> Layer<G> {
    /// The layer of the function, without grouped effects.
    pub(crate) fn function(&self) -> &Layer<G> {
        match self {
            Layer::Sum(sum) => &sum.function,
            _ => self,
        }
    }

    /// The inducing points, if it has any.
    pub fn inducing(&self) -> Option<&G> {
        match self.function() {
            Layer::Inducing(layer) => Some(layer),
            _ => None,
        }
    }

    /// The inducing points, mutably.
    pub fn inducing_mut(&mut self) -> Option<&mut G> {
        match self {
            Layer::Inducing(layer) => Some(layer),
            Layer::Linear(_) | Layer::Features(_) => None,
            Layer::Sum(sum) => sum.function.inducing_mut(),
        }
    }

    /// The linear features, if it has them.
    pub fn linear(&self) -> Option<&LinearLayer> {
        match self.function() {
            Layer::Linear(layer) => Some(layer),
            _ => None,
        }
    }

    pub(crate) fn feature_layer(&self) -> Option<&FeatureLayer> {
        match self.function() {
            Layer::Features(layer) => Some(layer),
            _ => None,
        }
    }

    pub(crate) fn feature_layer_mut(&mut self) -> Option<&mut FeatureLayer> {
        match self {
            Layer::Features(layer) => Some(layer),
            Layer::Sum(sum) => sum.function.feature_layer_mut(),
            Layer::Inducing(_) | Layer::Linear(_) => None,
        }
    }

    /// The prior of the sparse GP, if it is one.
    pub fn prior(&self) -> Option<&InducingPrior> {
        self.inducing().map(AsRef::as_ref)
    }

    pub(crate) fn jitter(&self) -> Option<Jitter> {
        self.prior().map(InducingPrior::jitter)
    }
}

impl Layer<InducingPrior> {
    /// Like [`RawFeatures::for_each_parameter`], with mutable access.
    pub(crate) fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        match self {
            Layer::Features(layer) => layer.for_each_parameter_mut(visit),
            layer => layer.inducing_mut().into_iter().for_each(|prior| prior.for_each_parameter_mut(visit)),
        }
    }

    /// The layer with its factor.
    ///
    /// # Errors
    ///
    /// As for [`InducingPrior::factorised`].
    pub(crate) fn factorised(&self) -> Result<Layer, FactorizationFailure> {
        Ok(match self {
            Layer::Inducing(prior) => prior.factorised()?.into(),
            Layer::Linear(layer) => layer.clone().into(),
            Layer::Features(layer) => Layer::Features(layer.clone()),
            Layer::Sum(sum) => sum.function.factorised()?.with_effects(sum.effects.clone()),
        })
    }
}

impl Layer {
    /// The layer of the function without its factor.
    pub(crate) fn to_prior(&self) -> Layer<InducingPrior> {
        match self {
            Layer::Inducing(layer) => InducingPrior::clone(layer).into(),
            Layer::Linear(layer) => layer.clone().into(),
            Layer::Features(layer) => Layer::Features(layer.clone()),
            Layer::Sum(sum) => sum.function.to_prior(),
        }
    }

    /// The sum of this function and grouped effects.
    pub(crate) fn with_effects(self, effects: Effects) -> Layer {
        Layer::Sum(Box::new(SumLayer::new(self, effects)))
    }

    /// Fixes the parameters that `which` picks; fixed parameters stay fixed.
    pub(crate) fn fix(&mut self, which: &dyn Fn(&Parameter) -> bool) {
        if let Some(layer) = self.inducing_mut() {
            layer.fix(which);
        }
        if let Some(layer) = self.feature_layer_mut() {
            layer.for_each_parameter_mut(&mut |p| p.fixed |= which(p));
        }
    }

    /// An estimate of the condition number of the matrix that is factorised for whitening; 1 without whitening.
    pub fn condition_estimate(&self) -> f64 {
        self.inducing().map_or(1.0, InducingLayer::condition_estimate)
    }

    /// True if that condition number is at most `limit`.
    pub(crate) fn condition_is_at_most(&self, limit: f64) -> bool {
        self.inducing().is_none_or(|layer| layer.condition_is_at_most(limit))
    }
}

/// The features of the layer inside.
impl<G: AsPrior> Deref for Layer<G> {
    type Target = dyn RawFeatures;

    fn deref(&self) -> &(dyn RawFeatures + 'static) {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref(),
            Layer::Linear(layer) => layer,
            Layer::Features(layer) => layer.as_ref(),
            Layer::Sum(sum) => sum.as_ref(),
        }
    }
}

impl Layer {
    /// Returns a zero gradient of this layer's shape.
    pub fn zero_gradient(&self) -> LayerGradient {
        match self {
            Layer::Inducing(layer) => layer.zero_gradient(),
            Layer::Linear(_) | Layer::Features(_) => {
                LayerGradient::zeros(&**self, MatRef::from_row_major_slice(&[], 0, 0))
            }
            Layer::Sum(sum) => {
                let effects = vec![0.0; sum.effects.parameter_count()];
                LayerGradient { effects, ..sum.function.zero_gradient() }
            }
        }
    }

    fn inside(&self) -> &dyn LatentLayer {
        match self {
            Layer::Inducing(layer) => layer.as_ref(),
            Layer::Linear(layer) => layer,
            Layer::Features(layer) => layer.as_ref(),
            Layer::Sum(sum) => sum.as_ref(),
        }
    }
}

impl LatentLayer for Layer {
    fn whitening(&self) -> Option<Operand<'_>> {
        self.inside().whitening()
    }

    fn ill_conditioned(&self) -> Option<MatRef<'_, f64>> {
        self.inside().ill_conditioned()
    }

    fn features_adjoint(&self, by: FeaturesAdjoint<'_>, grad: &mut LayerGradient, scratch: &mut Scratch) {
        self.inside().features_adjoint(by, grad, scratch);
    }

    fn whitening_adjoint(&self, g: MatMut<'_, f64>, grad: &mut LayerGradient, scratch: &mut LayerScratch) {
        self.inside().whitening_adjoint(g, grad, scratch);
    }
}

/// The layers of P latent processes: one layer that all of them share, or one for each process.
///
/// Processes that share a layer have the same features but separate posteriors. The matrices of all
/// layers, or of all processes, are stacked one below the other.
#[doc(hidden)]
pub struct Layers<'a, G = InducingLayer> {
    all: &'a [Layer<G>],
    processes: usize,
}

impl<G> Clone for Layers<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Layers<'_, G> {}

impl<'a, G> Layers<'a, G> {
    /// Creates the view for this number of processes, with one layer for all of them or one layer for each.
    ///
    /// # Panics
    ///
    /// For any other number of layers.
    pub(crate) fn new(all: &'a [Layer<G>], processes: usize) -> Self {
        assert!(all.len() == 1 || all.len() == processes, "one layer, or one for each process");
        Layers { all, processes }
    }

    /// Creates the view of the layer of a single process.
    pub fn one(layer: &'a Layer<G>) -> Self {
        Layers { all: std::slice::from_ref(layer), processes: 1 }
    }

    pub(crate) fn processes(self) -> usize {
        self.processes
    }

    pub(crate) fn count(self) -> usize {
        self.all.len()
    }

    /// A layer.
    pub fn get(self, layer: usize) -> &'a Layer<G> {
        &self.all[layer]
    }

    pub(crate) fn iter(self) -> std::slice::Iter<'a, Layer<G>> {
        self.all.iter()
    }

    /// The layer that makes the features of a process.
    pub fn of(self, process: usize) -> usize {
        if self.all.len() == 1 { 0 } else { process }
    }

    /// The place of a process among the processes that share its layer.
    pub(crate) fn place(self, process: usize) -> usize {
        process - self.members(self.of(process)).start
    }

    /// The processes that share a layer.
    pub(crate) fn members(self, layer: usize) -> Range<usize> {
        if self.all.len() == 1 { 0..self.processes } else { layer..layer + 1 }
    }
}

impl<G: AsPrior> Layers<'_, G> {
    pub(crate) fn dim(self) -> usize {
        self.all.iter().map(|layer| layer.dim()).sum()
    }

    /// True if features are whitened, which holds for all layers or for none.
    pub(crate) fn whitens(self) -> bool {
        !matches!(self.all[0], Layer::Linear(_))
    }
}
