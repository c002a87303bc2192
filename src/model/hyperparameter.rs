//! Hyper-parameters of a model in the user's units.

use super::latent::LatentModel;
use crate::data::Scaling;
use crate::hyper::Descriptor;
use crate::latent::AsPrior;
use sparsegp_kernels::{Role, Unit};

/// A hyper-parameter: its name and value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hyperparameter {
    /// The name, which constraints take, for example `kernel.lengthscales.0`.
    pub name: String,
    /// The value in the user's units: lengths in units of their column, variances in squared units of the target. `None` for a value that
    /// belongs to several columns that are scaled differently. Of warped columns it is the value on the scale the model sees.
    pub value: Option<f64>,
    /// The value on the scale the model sees.
    pub scaled: f64,
    /// The purpose of the value.
    pub role: Role,
    /// The inputs, counted from 0, along which the value is a length; empty for other values.
    pub inputs: Vec<usize>,
    /// True if training kept the value.
    pub fixed: bool,
}

impl<G: AsPrior> LatentModel<G> {
    /// Returns the named hyper-parameters of the model, for data of this scaling.
    pub(crate) fn hyperparameters(&self, scaling: &Scaling) -> Vec<Hyperparameter> {
        let (columns, target) = scaling.axes(scaling.dims());
        let told = |((descriptor, scaled), unit): ((Descriptor, f64), Unit)| Hyperparameter {
            value: unit.of_user(scaled, &columns, target),
            scaled,
            role: descriptor.role.0,
            inputs: unit.length(),
            fixed: descriptor.fixed,
            name: descriptor.name,
        };
        let values = self.descriptors().into_iter().zip(self.natural()).zip(self.units());
        values.filter(|((descriptor, _), _)| descriptor.is_named()).map(told).collect()
    }
}
