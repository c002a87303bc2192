//! A distribution that does not depend on inputs, as the posterior of a known intercept.

use super::latent::LatentModel;
use super::posterior::Posterior;
use super::predictions::Predictions;
use crate::data::Scaling;
use crate::latent::LinearLayer;
use crate::likelihood::ObservationModel;
use crate::variational::{Family, Normal};
use faer::Mat;

/// The standard deviation of the latent value, because likelihoods expect one above 0.
const DEVIATION: f64 = 1e-150;

/// A model whose prediction is the same for all inputs.
pub struct ConstantModel {
    scaling: Scaling,
    posterior: Posterior,
}

impl ConstantModel {
    /// Creates the model from a likelihood, its latent values `f` (one per function) and the scaling of the target.
    pub fn new(likelihood: ObservationModel, f: &[f64], scaling: Scaling) -> ConstantModel {
        let layer = |&f: &f64| LinearLayer::with_deviations(vec![f], vec![DEVIATION]).with_intercept().into();
        let model = LatentModel::of_layers(f.iter().map(layer).collect(), likelihood, false);
        let q = vec![Normal::standard(Family::Diagonal, 1); f.len()];
        ConstantModel { scaling, posterior: Posterior::new(&model, &q) }
    }

    /// Predicts this number of rows; `exposure` has their exposures, and is empty if all are 1.
    pub fn predict(&self, rows: usize, exposure: Vec<f64>) -> Predictions<'_> {
        let latent = self.posterior.marginals(Mat::zeros(rows, 0).as_ref());
        let (scaling, posterior) = (&self.scaling, &self.posterior);
        Predictions { scaling, posterior, latent, exposure, mean_only: false }
    }

    /// The name of its likelihood.
    pub fn likelihood(&self) -> &'static str {
        self.posterior.likelihood().name()
    }
}
