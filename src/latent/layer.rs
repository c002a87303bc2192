//! The layers a model can have, as one type: inducing points, linear features, or their sum with grouped effects.

use super::inducing::FactorizationFailure;
use super::{InducingLayer, InducingPrior, Jitter, LatentLayer, LinearLayer, SumLayer};
use crate::effects::Effects;
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::{Inputs, Parameter, Scratch};
use std::ops::Deref;

/// The layer that produces the features of a model: a sparse GP with its factor ([`InducingLayer`])
/// or without ([`InducingPrior`]), or a linear model.
#[derive(Clone)]
pub enum Layer<G = InducingLayer> {
    /// A sparse GP.
    Inducing(Box<G>),
    /// A Bayesian linear model.
    Linear(LinearLayer),
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

impl<G: AsRef<InducingPrior>> Layer<G> {
    /// The layer of the function, without grouped effects.
    pub fn function(&self) -> &Layer<G> {
        match self {
            Layer::Sum(sum) => sum.function(),
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
            Layer::Linear(_) => None,
            Layer::Sum(sum) => sum.function_mut().inducing_mut(),
        }
    }

    /// The linear features, if it has them.
    pub fn linear(&self) -> Option<&LinearLayer> {
        match self.function() {
            Layer::Linear(layer) => Some(layer),
            _ => None,
        }
    }

    /// The prior of the sparse GP, if it is one.
    pub fn prior(&self) -> Option<&InducingPrior> {
        self.inducing().map(AsRef::as_ref)
    }

    /// The dimension M of the features.
    pub fn dim(&self) -> usize {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().z().nrows(),
            Layer::Linear(layer) => layer.dim(),
            Layer::Sum(sum) => sum.dim(),
        }
    }

    /// The number of columns that inputs of the function have.
    pub fn input_dims(&self) -> usize {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().z().ncols(),
            Layer::Linear(layer) => layer.input_dims(),
            Layer::Sum(sum) => sum.function().input_dims(),
        }
    }

    /// Returns κ; see [`LatentLayer::kappa`].
    pub(crate) fn kappa(&self) -> f64 {
        self.linear().map_or(1.0, LatentLayer::kappa)
    }

    /// Visits the parameters with their names: first the kernel's, then the constant mean. A linear layer has no parameters.
    pub fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        if let Some(prior) = self.prior() {
            prior.for_each_parameter(visit);
        }
    }

    /// The requested jitter, if the layer uses one.
    pub fn jitter(&self) -> Option<Jitter> {
        self.prior().map(InducingPrior::jitter)
    }

    /// Writes raw features, `base` and offsets of a block; see [`LatentLayer::features`].
    pub fn features(
        &self,
        x: MatRef<'_, f64>,
        k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        scratch: &mut Scratch,
    ) {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().features(x, k, base, offset, scratch),
            Layer::Linear(layer) => layer.features(x, k, base, offset, scratch),
            Layer::Sum(sum) => sum.features(x, k, base, offset, scratch),
        }
    }

    /// The constant mean of a further process; see [`LatentLayer::constant`].
    pub fn constant(&self, process: usize) -> Option<f64> {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().constant(process),
            Layer::Linear(layer) => layer.constant(process),
            Layer::Sum(sum) => sum.function().constant(process),
        }
    }

    /// Returns the matrix (`n × n`) at the points of `x` (`n × D`) whose diagonal is `base`: the
    /// prior covariance for inducing points and reduced linear layers, 0 for whole linear layers. Grouped effects are
    /// not part of it.
    pub fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        match self {
            Layer::Inducing(layer) => {
                let mut out = Mat::zeros(x.nrows(), x.nrows());
                let mut scratch = Scratch::new();
                layer.as_ref().as_ref().kernel().eval(Inputs::Gram(x), out.as_mut(), &mut scratch);
                out
            }
            Layer::Linear(layer) => layer.base_covariance(x),
            Layer::Sum(sum) => sum.function().base_covariance(x),
        }
    }
}

impl Layer<InducingPrior> {
    /// Like [`Layer::for_each_parameter`], with mutable access.
    pub fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        if let Some(prior) = self.inducing_mut() {
            prior.for_each_parameter_mut(visit);
        }
    }

    /// The layer with its factor.
    ///
    /// # Errors
    ///
    /// As for [`InducingPrior::factorised`].
    pub fn factorised(&self) -> Result<Layer, FactorizationFailure> {
        Ok(match self {
            Layer::Inducing(prior) => prior.factorised()?.into(),
            Layer::Linear(layer) => layer.clone().into(),
            Layer::Sum(sum) => sum.function().factorised()?.with_effects(sum.effects().clone()),
        })
    }
}

impl Layer {
    /// The layer of the function without its factor.
    pub fn to_prior(&self) -> Layer<InducingPrior> {
        match self {
            Layer::Inducing(layer) => InducingPrior::clone(layer).into(),
            Layer::Linear(layer) => layer.clone().into(),
            Layer::Sum(sum) => sum.function().to_prior(),
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
    }

    /// An estimate of the condition number of the matrix that is factorised for whitening; 1 without whitening.
    pub fn condition_estimate(&self) -> f64 {
        self.inducing().map_or(1.0, InducingLayer::condition_estimate)
    }

    /// True if that condition number is at most `limit`.
    pub fn condition_is_at_most(&self, limit: f64) -> bool {
        self.inducing().is_none_or(|layer| layer.condition_is_at_most(limit))
    }
}

/// The operations of the layer inside.
impl Deref for Layer {
    type Target = dyn LatentLayer;

    fn deref(&self) -> &(dyn LatentLayer + 'static) {
        match self {
            Layer::Inducing(layer) => layer.as_ref(),
            Layer::Linear(layer) => layer,
            Layer::Sum(sum) => sum.as_ref(),
        }
    }
}
