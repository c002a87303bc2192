//! Features of any approximation as a layer: the trait for maps from outside the crate, and the layer around one.

use super::{FeaturesAdjoint, LatentLayer, LayerGradient, RawFeatures};
use crate::linalg::Operand;
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::{Parameter, Scratch, Transform};

/// The derivatives of an objective with respect to what [`FeatureMap::features`] writes for c rows.
#[derive(Clone, Copy)]
pub struct FeatureBar<'a> {
    /// The derivatives with respect to the features, `M × c`.
    pub features: MatRef<'a, f64>,
    /// The derivatives with respect to the residual variances, c.
    pub residual: &'a [f64],
}

/// An approximation of a Gaussian process with zero mean by M features: `f(x) = a(x)ᵀw + e`, `w ~ N(0, I)`, `e ~ N(0, r(x))`.
///
/// Inputs are on the scale the model sees (standardised, unless an option says otherwise), a row per datum. The constant mean of f is added
/// outside. [docs/extending.md](crate::book::extending) writes a map from its formula to a model file.
pub trait FeatureMap: Send + Sync {
    /// The name by which a registry builds the map again when a model file is read.
    fn name(&self) -> &str;

    /// The number M of features.
    fn count(&self) -> usize;

    /// The number D of inputs.
    fn inputs(&self) -> usize;

    /// Writes the features (`M × c`) of rows `x` (`c × D`) and their residual variances (c, 0 before the call).
    fn features(&self, x: MatRef<'_, f64>, features: MatMut<'_, f64>, residual: &mut [f64]);

    /// Adds the derivatives with respect to the values of all parameters, in their order, to `gradient`.
    fn adjoint(&self, x: MatRef<'_, f64>, bar: FeatureBar<'_>, gradient: &mut [f64]);

    /// Visits the parameters that training moves.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter));

    /// Visits the parameters, to change them.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter));

    /// Sets starting values from the spread of every input and the variance of f ([`Parameter::start`]).
    fn initialise(&mut self, spread: &[f64], variance: f64);

    /// Everything that is not a parameter, such as random frequencies, as matrices that a model file stores.
    fn constants(&self) -> Vec<Mat<f64>> {
        Vec::new()
    }

    /// Returns a copy in a box.
    fn boxed_clone(&self) -> Box<dyn FeatureMap>;
}

impl Clone for Box<dyn FeatureMap> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// A feature map with a constant mean for each process that shares it.
#[derive(Clone)]
#[doc(hidden)]
pub struct FeatureLayer {
    pub(crate) map: Box<dyn FeatureMap>,
    mean: Parameter,
    identity: Mat<f64>,
}

impl FeatureLayer {
    /// Creates a layer with these means, one for each process that shares it, trained unless `fixed`.
    pub fn new(map: Box<dyn FeatureMap>, means: Vec<f64>, fixed: bool) -> FeatureLayer {
        let mut mean = Parameter::new("constant", means, Transform::Identity);
        mean.fixed = fixed;
        FeatureLayer { identity: Mat::identity(map.count(), map.count()), map, mean }
    }

    /// Visits the parameters of the map, then the means, to change them.
    pub(crate) fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.map.for_each_parameter_mut(visit);
        visit(&mut self.mean);
    }
}

impl RawFeatures for FeatureLayer {
    fn dim(&self) -> usize {
        self.map.count()
    }

    fn input_dims(&self) -> usize {
        self.map.inputs()
    }

    fn kappa(&self) -> f64 {
        0.0
    }

    fn mean(&self) -> Option<&Parameter> {
        Some(&self.mean)
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.map.for_each_parameter(visit);
        visit(&self.mean);
    }

    fn features(
        &self,
        x: MatRef<'_, f64>,
        k: MatMut<'_, f64>,
        base: &mut [f64],
        offset: &mut [f64],
        _scratch: &mut Scratch,
    ) {
        base.fill(0.0);
        self.map.features(x.subcols(0, self.map.inputs()), k, base);
        offset.fill(self.mean.values[0]);
    }

    fn base_covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let mut residual = vec![0.0; x.nrows()];
        self.map.features(x, Mat::zeros(self.map.count(), x.nrows()).as_mut(), &mut residual);
        Mat::from_fn(x.nrows(), x.nrows(), |i, j| if i == j { residual[i] } else { 0.0 })
    }
}

impl LatentLayer for FeatureLayer {
    // With an identity as whitening, passes take the path of trained features.
    fn whitening(&self) -> Option<Operand<'_>> {
        Some(Operand::lower(self.identity.as_ref()))
    }

    fn features_adjoint(&self, by: FeaturesAdjoint<'_>, grad: &mut LayerGradient, _scratch: &mut Scratch) {
        let bar = FeatureBar { features: by.features_bar, residual: by.base_bar };
        self.map.adjoint(by.x.subcols(0, self.map.inputs()), bar, &mut grad.kernel);
        grad.mean[0] += by.offset_bar.iter().sum::<f64>();
    }
}
