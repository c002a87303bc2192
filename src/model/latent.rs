//! The trainable part of a model: kernel, constant mean, likelihood and inducing inputs as one flat
//! vector.

use super::hyper_posterior::HyperSummary;
use crate::data::Scaling;
use crate::effects::{EffectPosterior, Effects};
use crate::hyper::{Descriptor, INDUCING, ValueSettings};
use crate::latent::inducing::FactorizationFailure;
use crate::latent::{AsPrior, InducingLayer, InducingPrior, Layer, LayerGradient, Layers};
use crate::likelihood::ObservationModel;
use crate::variational::Normal;
use faer::MatRef;
use sparsegp_kernels::{Parameter, Role, Transform, Unit};

/// The layers of the latent processes with the likelihood that observes them.
///
/// The flat natural vector holds for each layer the kernel's values and the constant means, then
/// the likelihood's values, each layer's `Z` column by column and, last, the factors of grouped
/// effects. A linear layer has no values in it.
///
/// For training, sparse GPs contain the factors of their `K_uu`. A [`LatentPrior`] has no factors: it can be edited, and is enough for
/// predictions.
#[derive(Clone)]
pub struct LatentModel<G = InducingLayer> {
    /// The layers that produce the features: kernel, means and `Z`, or a prior of coefficients. There is one layer that all processes
    /// share, or one for each process.
    #[doc(hidden)]
    pub layers: Vec<Layer<G>>,
    /// The observation model.
    #[doc(hidden)]
    pub likelihood: ObservationModel,
    /// True if training does not move `Z`.
    #[doc(hidden)]
    pub fix_inducing: bool,
    /// The constraints on single values by name: bounds, priors, fixed and tied values.
    #[doc(hidden)]
    pub settings: ValueSettings,
    /// Grouped effects in addition to the latent function.
    #[doc(hidden)]
    pub effects: Effects,
}

/// A latent model whose sparse GPs are not factorised.
#[doc(hidden)]
pub type LatentPrior = LatentModel<InducingPrior>;

impl<G: AsPrior> LatentModel<G> {
    /// Creates a model without constraints, except those of its parameters.
    pub fn new(layer: Layer<G>, likelihood: impl Into<ObservationModel>, fix_inducing: bool) -> Self {
        LatentModel::of_layers(vec![layer], likelihood.into(), fix_inducing)
    }

    /// Like [`LatentModel::new`], with one layer that all functions share, or one for each.
    ///
    /// # Panics
    ///
    /// If there is any other number of layers.
    #[doc(hidden)]
    pub fn of_layers(layers: Vec<Layer<G>>, likelihood: ObservationModel, fix_inducing: bool) -> Self {
        let (settings, effects) = (ValueSettings::default(), Effects::default());
        let model = LatentModel { layers, likelihood, fix_inducing, settings, effects };
        // Panics if the numbers of layers and functions do not match.
        model.layers();
        model
    }

    /// The only layer, or the first one.
    #[doc(hidden)]
    pub fn layer(&self) -> &Layer<G> {
        &self.layers[0]
    }

    /// The layers with the processes that share them.
    #[doc(hidden)]
    pub fn layers(&self) -> Layers<'_, G> {
        Layers::new(&self.layers, self.processes())
    }

    /// The number of latent processes, each with its own posterior.
    #[doc(hidden)]
    pub fn processes(&self) -> usize {
        self.likelihood.functions()
    }

    /// The number of columns of inputs: the inputs of f, then the columns of grouped effects.
    #[doc(hidden)]
    pub fn input_dims(&self) -> usize {
        self.layers[0].input_dims() + self.effects.columns()
    }

    /// Visits kernel parameters, the means and the likelihood's parameters, in the order of the flat vector.
    pub(crate) fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.layers.iter().for_each(|layer| layer.for_each_parameter(visit));
        self.likelihood.for_each_parameter(visit);
    }

    /// Descriptors in the order of the flat vector: `kernel.…` or `features.…`, `mean.constant`, `likelihood.…`, `inducing.i.d`.
    #[doc(hidden)]
    pub fn descriptors(&self) -> Vec<Descriptor> {
        let mut descriptors = self.own_descriptors();
        self.settings.apply(&mut descriptors);
        descriptors
    }

    pub(super) fn prefixes(&self) -> Vec<String> {
        match &self.layers[..] {
            [_] => vec![String::new()],
            _ => self.likelihood.function_names().iter().map(|name| format!("{name}.")).collect(),
        }
    }

    /// The descriptors without the constraints by name. If every function has its own layer, names begin with the name of the function:
    /// `scale.kernel.variance`.
    pub(super) fn own_descriptors(&self) -> Vec<Descriptor> {
        let prefixes = self.prefixes();
        let mut out = Vec::new();
        for (layer, prefix) in self.layers.iter().zip(&prefixes) {
            if let Some(layer) = layer.feature_layer() {
                let of = |p: &Parameter| Descriptor::of(&format!("{prefix}features"), &p.name, p);
                layer.map.for_each_parameter(&mut |p| out.extend(of(p)));
            }
            if let Some(kernel) = layer.prior().map(InducingPrior::kernel) {
                let mut names = kernel.parameter_names().into_iter();
                kernel.for_each_parameter(&mut |p| {
                    let name = names.next().unwrap_or_default();
                    out.extend(Descriptor::of(&format!("{prefix}kernel"), &name, p));
                });
            }
            let mean = layer.mean().into_iter();
            out.extend(mean.flat_map(|p| Descriptor::of(&format!("{prefix}mean"), "constant", p)));
        }
        self.likelihood.for_each_parameter(&mut |p| out.extend(Descriptor::of("likelihood", &p.name, p)));
        for (layer, prefix) in self.layers.iter().zip(&prefixes) {
            let Some(prior) = layer.prior() else { continue };
            let (z, dimensions) = (prior.z(), prior.kernel().dimensions());
            for j in 0..z.ncols() {
                let unit = inducing_unit(z, j);
                // Training must not change a code, which would then belong to another level.
                let is_code = dimensions.get(j).is_some_and(|dimension| dimension.is_category());
                out.extend((0..z.nrows()).map(|i| Descriptor {
                    name: format!("{prefix}{INDUCING}{i}.{j}"),
                    role: (Role::Other, 0),
                    transform: Transform::Identity,
                    prior: None,
                    fixed: self.fix_inducing || is_code,
                    tie: None,
                    unit,
                }));
            }
        }
        out.extend(self.effects.descriptors(&prefixes));
        out
    }

    /// Returns the unit of every named value of the flat vector, in the order of [`descriptors`](LatentModel::descriptors).
    pub(crate) fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for layer in &self.layers {
            let before = units.len();
            let kernel = layer.prior().map(InducingPrior::kernel);
            units.extend(kernel.into_iter().flat_map(|kernel| kernel.units(layer.input_dims())));
            let (mut values, means) = (0, layer.mean().map_or(0, |mean| mean.values.len()));
            layer.for_each_parameter(&mut |p| values += p.values.len());
            units.resize(before + values - means, Unit::default());
            units.resize(before + values, Unit::level());
        }
        self.likelihood.for_each_parameter(&mut |p| units.resize(units.len() + p.values.len(), unit_of(p)));
        // Coordinates of inducing inputs have no name.
        let inducing =
            self.layers.iter().filter_map(Layer::prior).map(|prior| prior.z().nrows() * prior.z().ncols());
        units.resize(units.len() + inducing.sum::<usize>(), Unit::default());
        units.extend(self.effects.units());
        units
    }

    /// Returns for every value, in the order of [`descriptors`](LatentModel::descriptors), the inputs along which it is a length; empty for
    /// other values.
    pub(crate) fn value_inputs(&self) -> Vec<Vec<usize>> {
        self.units().into_iter().map(Unit::length).collect()
    }

    /// Named values (without `Z`) in natural units.
    #[doc(hidden)]
    pub fn named_values(&self) -> Vec<(String, f64)> {
        let values = self.natural();
        let descriptors = self.descriptors().into_iter().zip(values);
        descriptors.filter(|(d, _)| d.is_named()).map(|(d, v)| (d.name, v)).collect()
    }

    /// The noise variance, with Gaussian noise.
    #[doc(hidden)]
    pub fn noise_variance(&self) -> Option<f64> {
        self.likelihood.gaussian_noise()
    }

    /// The flat natural vector.
    #[doc(hidden)]
    pub fn natural(&self) -> Vec<f64> {
        let mut out = Vec::new();
        self.for_each_parameter(&mut |p| out.extend_from_slice(&p.values));
        for layer in self.layers.iter().filter_map(Layer::prior) {
            (0..layer.z().ncols()).for_each(|j| out.extend(layer.z().col(j).iter()));
        }
        self.effects.for_each_parameter(&mut |p| out.extend_from_slice(&p.values));
        out
    }

    /// The number of values of kernels and means, which come first in the flat vector.
    pub(crate) fn layer_values(&self) -> usize {
        let mut count = 0;
        self.layers.iter().for_each(|layer| layer.for_each_parameter(&mut |p| count += p.values.len()));
        count
    }

    /// Copies the values of the likelihood and of the factors of grouped effects out of a flat natural vector.
    pub(crate) fn read_components(
        &self,
        natural: &[f64],
        likelihood: &mut ObservationModel,
        effects: &mut Effects,
    ) {
        let mut own = natural[self.layer_values()..].iter().copied();
        likelihood.for_each_parameter_mut(&mut |p| fill(p, &mut own));
        let mut factors = natural[natural.len() - effects.parameter_count()..].iter().copied();
        effects.for_each_parameter_mut(&mut |p| fill(p, &mut factors));
    }

    /// Writes the gradients of the layers and of the likelihood in the order of the flat vector. Unless grouped effects are part of the layers,
    /// the caller appends the gradient of their factors.
    #[doc(hidden)]
    pub fn flatten_gradient(&self, layers: &[LayerGradient], likelihood: &[f64], out: &mut Vec<f64>) {
        out.clear();
        for layer in layers {
            out.extend_from_slice(&layer.kernel);
            out.extend_from_slice(&layer.mean);
        }
        out.extend_from_slice(likelihood);
        for layer in layers {
            (0..layer.z.ncols()).for_each(|j| out.extend(layer.z.col(j).iter()));
        }
        layers.iter().for_each(|layer| out.extend_from_slice(&layer.effects));
    }

    /// Returns a model with the likelihood and settings of this one, and other layers.
    pub(crate) fn with_layers<H>(&self, layers: Vec<Layer<H>>) -> LatentModel<H> {
        LatentModel {
            layers,
            likelihood: self.likelihood.clone(),
            fix_inducing: self.fix_inducing,
            settings: self.settings.clone(),
            effects: self.effects.clone(),
        }
    }
}

pub(crate) fn unit_of(parameter: &Parameter) -> Unit {
    match parameter.role() {
        Role::Noise => Unit::of_target(2.0),
        Role::Scale => Unit::of_target(1.0),
        _ => Unit::default(),
    }
}

impl LatentPrior {
    /// Like [`LatentModel::for_each_parameter`], with mutable access.
    pub(crate) fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.layers.iter_mut().for_each(|layer| layer.for_each_parameter_mut(visit));
        self.likelihood.for_each_parameter_mut(visit);
    }

    /// Overwrites all parameters and `Z`.
    ///
    /// # Panics
    ///
    /// If the number of values is not that of the model.
    #[doc(hidden)]
    pub fn set_natural(&mut self, values: &[f64]) {
        assert_eq!(values.len(), self.natural().len(), "number of values of the model");
        let mut values = values.iter().copied();
        self.for_each_parameter_mut(&mut |p| fill(p, &mut values));
        for prior in self.layers.iter_mut().filter_map(Layer::inducing_mut) {
            move_inputs(prior, &mut values);
        }
        self.effects.for_each_parameter_mut(&mut |p| fill(p, &mut values));
    }

    /// Replaces every value by a function of its descriptor and the value.
    pub(crate) fn change_values(&mut self, mut change: impl FnMut(&Descriptor, f64) -> f64) {
        let (descriptors, mut natural) = (self.descriptors(), self.natural());
        natural.iter_mut().zip(&descriptors).for_each(|(value, of)| *value = change(of, *value));
        self.set_natural(&natural);
    }

    /// The model with the factor of every `K_uu`.
    ///
    /// # Errors
    ///
    /// As for [`InducingPrior::factorised`].
    #[doc(hidden)]
    pub fn factorised(&self) -> Result<LatentModel, FactorizationFailure> {
        let layers = self.layers.iter().map(Layer::factorised).collect::<Result<_, _>>()?;
        Ok(self.with_layers(layers))
    }
}

impl LatentModel {
    /// Fixes the amplitude for the square loss. Only the ratio of amplitude and β affects this loss,
    /// which falls as the ratio grows.
    pub(crate) fn hold_amplitude(&mut self) {
        self.layers[0].fix(&|p| p.role() == Role::Variance && p.values.len() == 1);
    }

    /// The model with its grouped effects, if there are any, as a part of each layer.
    #[doc(hidden)]
    pub fn with_summed_effects(mut self) -> LatentModel {
        if self.effects.is_empty() {
            return self;
        }
        let layers = self.layers.into_iter().enumerate();
        self.layers = layers.map(|(index, layer)| layer.with_effects(self.effects.of_layer(index))).collect();
        self
    }

    /// True if grouped effects are a part of the layers.
    pub(crate) fn sums_effects(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::Sum(_)))
    }

    /// Splits the posteriors of a model with grouped effects in its layers: returns the model of the functions, their posteriors, and the
    /// effects of every process.
    pub(crate) fn split(&self, q: &[Normal]) -> (LatentModel, Vec<Normal>, Vec<EffectPosterior>) {
        let layers = self.layers();
        let of_process = |(process, q): (usize, &Normal)| match layers.get(layers.of(process)) {
            Layer::Sum(sum) => {
                let (q, effects) = EffectPosterior::split(&sum.effects, q, &sum.function);
                (q, Some(effects))
            }
            _ => (q.clone(), None),
        };
        let (q, effects): (Vec<Normal>, Vec<_>) = q.iter().enumerate().map(of_process).unzip();
        let functions = self.layers.iter().map(|layer| layer.function().clone()).collect();
        (self.with_layers(functions), q, effects.into_iter().flatten().collect())
    }

    /// The model without factors.
    #[doc(hidden)]
    pub fn to_prior(&self) -> LatentPrior {
        self.with_layers(self.layers.iter().map(Layer::to_prior).collect())
    }

    /// Overwrites all parameters and `Z`, and factorises every `K_uu` again.
    ///
    /// # Errors
    ///
    /// If a `K_uu` has no factor; the model is then unchanged.
    ///
    /// # Panics
    ///
    /// If the number of values is not that of the model.
    #[doc(hidden)]
    pub fn set_natural(&mut self, values: &[f64]) -> Result<(), FactorizationFailure> {
        let before = self.natural();
        assert_eq!(values.len(), before.len(), "number of values of the model");
        let moved = self.move_to(values);
        if moved.is_err() {
            // The earlier parameters had a factor, so they have one now. A kernel that is not a function of its parameters may fail
            // nevertheless; every number computed from the model is then NaN.
            let _ = self.move_to(&before);
        }
        moved
    }

    fn move_to(&mut self, values: &[f64]) -> Result<(), FactorizationFailure> {
        let mut parameters = values.iter().copied();
        let mut of_layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            of_layers.push(parameters.clone());
            layer.for_each_parameter(&mut |p| parameters.by_ref().take(p.values.len()).for_each(drop));
        }
        self.likelihood.for_each_parameter_mut(&mut |p| fill(p, &mut parameters));
        let mut factorised = Ok(());
        for (layer, mut own) in self.layers.iter_mut().zip(of_layers) {
            if let Some(layer) = layer.feature_layer_mut() {
                layer.for_each_parameter_mut(&mut |p| fill(p, &mut own));
            }
            let Some(layer) = layer.inducing_mut() else { continue };
            let moved = layer.change(|prior| {
                prior.for_each_parameter_mut(&mut |p| fill(p, &mut own));
                move_inputs(prior, &mut parameters);
            });
            factorised = factorised.and(moved);
        }
        self.effects.for_each_parameter_mut(&mut |p| fill(p, &mut parameters));
        for (index, layer) in self.layers.iter_mut().enumerate() {
            if let Layer::Sum(sum) = layer {
                sum.refresh(&self.effects, index);
            }
        }
        factorised
    }
}

/// Overwrites a parameter with the next values.
fn fill(parameter: &mut Parameter, values: &mut impl Iterator<Item = f64>) {
    parameter.values.iter_mut().zip(values).for_each(|(old, new)| *old = new);
}

fn move_inputs(prior: &mut InducingPrior, values: &mut impl Iterator<Item = f64>) {
    let mut z = prior.z_mut();
    for j in 0..z.ncols() {
        z.as_mut().col_mut(j).iter_mut().zip(values.by_ref()).for_each(|(old, new)| *old = new);
    }
}

/// Returns the unit in which column `j` of the inducing inputs is trained: twice their spread. A
/// step of one unit then means about as much as a step of one in the logarithm of a lengthscale.
/// Measured over 100 iterations of L-BFGS with M = 200 (1, 2, 3 times the spread): the objective on
/// kin40k 0.215, 0.196, 0.189; on bike −1.81, −1.73, −1.64; on pol −0.400, −0.397, −0.389.
fn inducing_unit(z: MatRef<'_, f64>, j: usize) -> f64 {
    let m = z.nrows() as f64;
    let mean = z.col(j).iter().sum::<f64>() / m;
    let variance = z.col(j).iter().map(|z| (z - mean).powi(2)).sum::<f64>() / m;
    let unit = 2.0 * variance.sqrt();
    if unit > 0.0 && unit.is_finite() { unit } else { 1.0 }
}

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
    /// The ends of its 95 % interval, if the fit has computed the posterior of hyper-parameters: in the unit of `value`, or of `scaled` if
    /// that is `None`.
    pub interval: Option<[f64; 2]>,
}

impl<G: AsPrior> LatentModel<G> {
    /// Returns the named hyper-parameters of the model, for data of this scaling, with their intervals if they are known.
    pub(crate) fn hyperparameters(
        &self,
        scaling: &Scaling,
        known: Option<&HyperSummary>,
    ) -> Vec<Hyperparameter> {
        let (columns, target) = scaling.axes(scaling.dims());
        let in_units = |scaled: f64, unit: &Unit| unit.of_user(scaled, &columns, target);
        let interval = |name: &str, unit: &Unit| {
            Some(known?.interval(name)?.map(|end| in_units(end, unit).unwrap_or(end)))
        };
        let told = |((descriptor, scaled), unit): ((Descriptor, f64), Unit)| Hyperparameter {
            interval: interval(&descriptor.name, &unit),
            value: in_units(scaled, &unit),
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
