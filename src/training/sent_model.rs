//! A model as a description and values, for machines that hold rows.

use crate::effects::Effects;
use crate::error::{Error, Result};
use crate::latent::{InducingPrior, Jitter, Layer};
use crate::model::{LatentModel, LatentPrior};
use crate::registry::Registry;
use faer::Mat;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::Dimension;

/// Creates the error for unreadable bytes of a question to a part, or of its answer.
pub fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::data(format!("a message between the client and a machine that holds rows cannot be read: {why}"))
        .hint("install the same version of sparsegp on all machines")
}

/// A model as a short description and its flat natural vector.
#[derive(Serialize, Deserialize)]
pub(super) struct ModelAt {
    layers: Vec<LayerShape>,
    effects: Effects,
    /// True if the effects are features of the layers.
    summed: bool,
    likelihood: String,
    levels: usize,
    natural: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct LayerShape {
    kernel: String,
    /// M and D.
    inducing: (usize, usize),
    means: usize,
    jitter: Jitter,
    dimensions: Vec<Dimension>,
}

impl ModelAt {
    pub(super) fn of(model: &LatentModel) -> Result<ModelAt> {
        let shape = |layer: &Layer| {
            let layer = layer.inducing().ok_or_else(|| {
                Error::usage("only models with inducing inputs can be trained on rows in parts")
                    .hint("use ⟨model gp⟩")
            })?;
            let (kernel, inducing) = (layer.kernel().expression(), layer.z().shape());
            let (means, jitter) = (layer.mean().values.len(), layer.jitter());
            let dimensions = layer.kernel().dimensions().to_vec();
            Ok(LayerShape { kernel, inducing, means, jitter, dimensions })
        };
        Ok(ModelAt {
            layers: model.layers.iter().map(shape).collect::<Result<_>>()?,
            effects: model.effects.clone(),
            summed: model.sums_effects(),
            likelihood: model.likelihood.name().to_owned(),
            levels: model.likelihood.levels(),
            natural: model.natural(),
        })
    }

    /// Builds the model and factorises it.
    pub(super) fn build(self) -> Result<LatentModel> {
        let registry = Registry::default();
        let name = &self.likelihood;
        let kind = registry.likelihood_kind(name).ok_or_else(|| {
            Error::usage(format!(
                "the machines that hold the rows do not know the likelihood '{name}', expected a built-in likelihood"
            ))
        })?;
        let likelihood = registry.likelihood(kind, self.levels)?;
        let layer = |shape: LayerShape| {
            let (m, d) = shape.inducing;
            let mut kernel = registry.kernel(&shape.kernel, d)?;
            kernel.set_dimensions(&shape.dimensions).map_err(|error| unreadable(&error))?;
            let layer = InducingPrior::new(kernel, Mat::zeros(m, d), shape.jitter)?;
            Ok(Layer::from(layer.with_means(vec![0.0; shape.means], false)))
        };
        let layers = self.layers.into_iter().map(layer).collect::<Result<Vec<_>>>()?;
        if !(layers.len() == 1 || layers.len() == likelihood.functions()) {
            return Err(unreadable(&"its layers do not match its likelihood"));
        }
        if !self.effects.is_consistent(self.effects.columns(), layers.len()) {
            return Err(unreadable(&"its grouped effects contradict each other"));
        }
        let mut model = LatentPrior::of_layers(layers, likelihood, false);
        model.effects = self.effects;
        if model.natural().len() != self.natural.len() {
            return Err(unreadable(&"its values do not match its model"));
        }
        model.set_natural(&self.natural);
        let model = model.factorised().map_err(|_| {
            Error::fit("the covariance of the inducing inputs has a Cholesky factor on the client, but not on a machine that holds rows")
                .hint("use machines with processors of one kind")
        })?;
        Ok(if self.summed { model.with_summed_effects() } else { model })
    }
}
