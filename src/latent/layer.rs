//! The layers a model can have, as one type: inducing points or linear features, with their
//! trainable parameters.

use super::inducing::FactorizationFailure;
use super::{InducingLayer, InducingPrior, Jitter, LatentLayer, LinearLayer};
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

impl<G> Layer<G> {
    /// The inducing points, if it has any.
    pub fn inducing(&self) -> Option<&G> {
        match self {
            Layer::Inducing(layer) => Some(layer),
            Layer::Linear(_) => None,
        }
    }

    /// The linear features, if it has them.
    pub fn linear(&self) -> Option<&LinearLayer> {
        match self {
            Layer::Inducing(_) => None,
            Layer::Linear(layer) => Some(layer),
        }
    }
}

impl<G: AsRef<InducingPrior>> Layer<G> {
    /// The prior of the sparse GP, if it is one.
    pub fn prior(&self) -> Option<&InducingPrior> {
        self.inducing().map(AsRef::as_ref)
    }

    /// The dimension M of the features.
    pub fn dim(&self) -> usize {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().z().nrows(),
            Layer::Linear(layer) => layer.dim(),
        }
    }

    /// The number of columns that inputs have.
    pub(crate) fn input_dims(&self) -> usize {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().z().ncols(),
            Layer::Linear(layer) => layer.input_dims(),
        }
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
        }
    }

    /// The constant mean of a further process; see [`LatentLayer::constant`].
    pub fn constant(&self, process: usize) -> Option<f64> {
        match self {
            Layer::Inducing(layer) => layer.as_ref().as_ref().constant(process),
            Layer::Linear(layer) => layer.constant(process),
        }
    }

    /// Returns the matrix (`n × n`) at the points of `x` (`n × D`) whose diagonal is `base`: the
    /// prior covariance for inducing points and reduced linear layers, 0 for whole linear layers.
    pub fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        match self {
            Layer::Inducing(layer) => {
                let mut out = Mat::zeros(x.nrows(), x.nrows());
                let mut scratch = Scratch::new();
                layer.as_ref().as_ref().kernel().eval(Inputs::Gram(x), out.as_mut(), &mut scratch);
                out
            }
            Layer::Linear(layer) => layer.base_covariance(x),
        }
    }
}

impl Layer<InducingPrior> {
    /// Returns the inducing points, mutably.
    pub fn inducing_mut(&mut self) -> Option<&mut InducingPrior> {
        match self {
            Layer::Inducing(prior) => Some(prior),
            Layer::Linear(_) => None,
        }
    }

    /// Like [`Layer::for_each_parameter`], with mutable access.
    pub fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        if let Layer::Inducing(prior) = self {
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
        })
    }
}

impl Layer {
    /// The layer without its factor.
    pub fn to_prior(&self) -> Layer<InducingPrior> {
        match self {
            Layer::Inducing(layer) => InducingPrior::clone(layer).into(),
            Layer::Linear(layer) => layer.clone().into(),
        }
    }

    /// Fixes the parameters that `which` picks; fixed parameters stay fixed.
    pub(crate) fn fix(&mut self, which: &dyn Fn(&Parameter) -> bool) {
        if let Layer::Inducing(layer) = self {
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
        }
    }
}
