//! The data that rows are given, for every function of a model: inputs, targets and noise variances, or sites.

use crate::effects::Effects;
use crate::latent::{InducingLayer, RawFeatures};
use crate::model::LatentModel;
use crate::neighbours::{Lists, Predictor, Source, Windows};
use crate::variational::Normal;
use faer::MatRef;
use sparsegp_kernels::Scratch;

/// Data of n rows. Targets and noise variances are n numbers for each function, one function after the other.
pub(super) struct Given<'a> {
    model: &'a LatentModel,
    layers: Vec<(&'a InducingLayer, Effects)>,
    x: MatRef<'a, f64>,
    targets: &'a [f64],
    noise: Option<&'a [f64]>,
    /// The noise variance of all rows without `noise`.
    shared_noise: [f64; 1],
}

impl<'a> Given<'a> {
    /// Creates the view of rows `x` (`n × D`, then the columns of grouped effects); without `noise` they have the noise of the likelihood.
    pub fn new(
        model: &'a LatentModel,
        x: MatRef<'a, f64>,
        targets: &'a [f64],
        noise: Option<&'a [f64]>,
    ) -> Self {
        let layers = model.layers.iter().enumerate();
        let layers = layers.filter_map(|(at, layer)| Some((layer.inducing()?, model.effects.of_layer(at))));
        let (layers, shared) = (layers.collect(), model.likelihood.gaussian_noise().unwrap_or(f64::NAN));
        Given { model, layers, x, targets, noise, shared_noise: [shared] }
    }

    fn functions(&self) -> std::ops::Range<usize> {
        0..self.model.likelihood.functions()
    }

    /// Returns the layer of a function with its grouped effects, and the place of the function in this layer.
    fn layer_of(&self, function: usize) -> (&(&'a InducingLayer, Effects), usize) {
        let layers = self.model.layers();
        (&self.layers[layers.of(function)], layers.place(function))
    }

    /// Returns the targets and noise variances of a function.
    fn data_of(&self, function: usize) -> (&'a [f64], &[f64]) {
        let own = function * self.x.nrows()..(function + 1) * self.x.nrows();
        (&self.targets[own.clone()], self.noise.map_or(&self.shared_noise, |noise| &noise[own]))
    }

    /// Returns the data of every function for a pass.
    pub fn sources(&self) -> Vec<Source<'_>> {
        let of = |function| {
            let ((_, effects), (y, noise)) = (self.layer_of(function).0, self.data_of(function));
            Source { x: self.x, y, noise, queries: None, effects }
        };
        self.functions().map(of).collect()
    }

    /// Returns means and variances of every function at the rows given other rows, as [`Predictor::left_out`] does.
    pub fn left_out(
        &self,
        q: &[Normal],
        order: &[u32],
        lists: &Lists,
        counted: &[f64],
    ) -> (Vec<f64>, Vec<f64>) {
        let (mut means, mut variances) = (Vec::new(), Vec::new());
        for (function, q) in q.iter().enumerate() {
            let ((layer, effects), place) = self.layer_of(function);
            let (y, noise) = self.data_of(function);
            let posterior = (q.mean(), q.cov().full());
            let predictor = Predictor { layer, place, effects, posterior, data: (self.x, y), noise };
            let (mean, variance) = predictor.left_out(order, lists, counted);
            means.extend(mean);
            variances.extend(variance);
        }
        (means, variances)
    }

    /// Returns the prior variances of every function at rows.
    pub fn prior_variances(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        let mut all = Vec::new();
        for function in self.functions() {
            let ((layer, effects), _) = self.layer_of(function);
            let mut variance = vec![0.0; x.nrows()];
            layer.kernel().diag(x.subcols(0, layer.z().ncols()), &mut variance, &mut Scratch::new());
            effects.add_prior_variances(x, &mut variance);
            all.extend(variance);
        }
        all
    }

    /// Returns the maximum number of members of a window: the features of all functions are in memory together.
    pub fn most_members(&self) -> usize {
        Windows::most_members(self.functions().map(|function| self.layer_of(function).0.0.dim()).sum())
    }
}
