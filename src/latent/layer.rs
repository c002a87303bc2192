//! The layers a model can have, as one type: inducing points or linear features, with what is trained in them; no y.

use super::inducing::FactorizationFailure;
use super::{InducingLayer, Jitter, LatentLayer, LinearLayer};
use faer::{Mat, MatRef};
use sparsegp_kernels::{Inputs, Parameter, Scratch};
use std::ops::Deref;

/// Who produces the features of a model.
#[derive(Clone)]
pub enum Layer {
    /// A sparse GP.
    Inducing(Box<InducingLayer>),
    /// A Bayesian linear model.
    Linear(LinearLayer),
}

impl From<InducingLayer> for Layer {
    fn from(layer: InducingLayer) -> Self {
        Layer::Inducing(Box::new(layer))
    }
}

impl From<LinearLayer> for Layer {
    fn from(layer: LinearLayer) -> Self {
        Layer::Linear(layer)
    }
}

impl Layer {
    /// The inducing points, if it has any.
    pub fn inducing(&self) -> Option<&InducingLayer> {
        match self {
            Layer::Inducing(layer) => Some(layer),
            Layer::Linear(_) => None,
        }
    }

    /// The inducing points, to change them; call [`Layer::refresh`] afterwards.
    pub fn inducing_mut(&mut self) -> Option<&mut InducingLayer> {
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

    /// The number of columns that inputs have.
    pub fn input_dims(&self) -> usize {
        match self {
            Layer::Inducing(layer) => layer.z().ncols(),
            Layer::Linear(layer) => layer.input_dims(),
        }
    }

    /// Visits the parameters with their names: of the kernel, then the constant mean. A linear layer has none.
    pub fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        if let Layer::Inducing(layer) = self {
            layer.kernel().for_each_parameter(visit);
            visit(layer.mean());
        }
    }

    /// The same, mutably; call [`Layer::refresh`] afterwards.
    pub fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        if let Layer::Inducing(layer) = self {
            layer.kernel_mut().for_each_parameter_mut(visit);
            visit(layer.mean_mut());
        }
    }

    /// Takes up changed parameters.
    pub fn refresh(&mut self) -> std::result::Result<(), FactorizationFailure> {
        match self {
            Layer::Inducing(layer) => layer.refresh(),
            Layer::Linear(_) => Ok(()),
        }
    }

    /// An estimate of the condition number of what is factorised for the whitening; 1 where nothing is.
    pub fn condition_estimate(&self) -> f64 {
        self.inducing().map_or(1.0, InducingLayer::condition_estimate)
    }

    /// Whether that condition number is at most `limit`.
    pub fn condition_is_at_most(&self, limit: f64) -> bool {
        self.inducing().is_none_or(|layer| layer.condition_is_at_most(limit))
    }

    /// The jitter that was asked for, where there is one.
    pub fn jitter(&self) -> Option<Jitter> {
        self.inducing().map(InducingLayer::jitter)
    }

    /// The matrix (`n × n`) at the points of `x` (`n × D`) whose diagonal is `base`: the prior covariance for inducing points
    /// and reduced linear layers, 0 for whole ones.
    pub fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        match self {
            Layer::Inducing(layer) => {
                let mut out = Mat::zeros(x.nrows(), x.nrows());
                let mut scratch = Scratch::new();
                layer.kernel().eval(Inputs::Gram(x), out.as_mut(), &mut scratch);
                out
            }
            Layer::Linear(layer) => layer.base_covariance(x),
        }
    }
}

/// What its layer can do.
impl Deref for Layer {
    type Target = dyn LatentLayer;

    fn deref(&self) -> &(dyn LatentLayer + 'static) {
        match self {
            Layer::Inducing(layer) => layer.as_ref(),
            Layer::Linear(layer) => layer,
        }
    }
}
