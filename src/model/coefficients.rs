//! The coefficients of a linear model in original units, with their uncertainty.

use super::fitted::Model;
use crate::latent::{LinearLayer, RawFeatures};
use crate::likelihood::functions::normal::HALF_95;
use faer::Mat;
use serde::Serialize;

/// A coefficient of a linear model under the posterior.
///
/// Slopes are per unit of the original input. Gaussian and Student-t targets are in their original units too; other
/// likelihoods have coefficients on the scale of their link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// `intercept`, the name of a column, or `column=category`.
    pub name: String,
    /// The posterior mean.
    pub mean: f64,
    /// The posterior standard deviation; absent if the objective leaves it undefined (dlm-square).
    pub sd: Option<f64>,
    /// The lower end of the central 95 % interval.
    pub lower: Option<f64>,
    /// The upper end of the central 95 % interval.
    pub upper: Option<f64>,
}

impl Model {
    /// Returns the coefficients of a linear model whose inputs have these names, or `None` for
    /// another model. The intercept, the value of f where all inputs are 0, comes first. It is
    /// omitted if f is 0 at the origin of the original units.
    pub fn coefficients(&self, names: &[String]) -> Option<Vec<Coefficient>> {
        let layer = self.latent().layer().linear()?;
        let scale = self.scaling().target.scale;
        let (means, deviations) = layer.coefficient_moments(self.q());
        let inputs = &self.scaling().inputs[..layer.input_dims()];
        let slopes = names.iter().zip(inputs).enumerate().map(|(j, (name, input))| {
            let unit = scale / input.scale;
            self.coefficient(name.clone(), unit * means[j], unit * deviations[j])
        });
        Some(self.intercept(layer).into_iter().chain(slopes).collect())
    }

    /// The covariance of the coefficients of a linear model, in the order and the units of
    /// [`Model::coefficients`]; `None` for another model, or if the objective leaves it undefined
    /// (dlm-square).
    pub fn coefficient_covariance(&self) -> Option<Mat<f64>> {
        let layer = self.latent().layer().linear().filter(|_| !self.mean_only())?;
        let (_, own) = layer.coefficient_posterior(self.q());
        let (p, scaling) = (layer.coefficient_count(), self.scaling());
        let mut rows = Vec::with_capacity(p + 1);
        rows.extend(self.intercept_functional(layer));
        rows.extend(scaling.inputs[..layer.input_dims()].iter().enumerate().map(|(j, input)| {
            let mut slope = vec![0.0; p];
            slope[j] = 1.0 / input.scale;
            slope
        }));
        let unit = scaling.target.scale;
        let change = Mat::from_fn(rows.len(), p, |i, j| unit * rows[i][j]);
        Some(&change * own * change.transpose())
    }

    /// Returns f where all inputs are 0. It is a linear functional of all coefficients, because the
    /// model centres the inputs.
    fn intercept(&self, layer: &LinearLayer) -> Option<Coefficient> {
        let (scaling, functional) = (self.scaling(), self.intercept_functional(layer)?);
        let (mean, variance) = layer.functional_moments(&functional, self.q());
        let name = "intercept".to_owned();
        Some(self.coefficient(name, scaling.unscale_mean(mean), scaling.unscale_variance(variance).sqrt()))
    }

    /// Returns the intercept as a linear functional of the coefficients on the scale the model sees; `None` without an intercept.
    fn intercept_functional(&self, layer: &LinearLayer) -> Option<Vec<f64>> {
        let scaling = self.scaling();
        let inputs = &scaling.inputs[..layer.input_dims()];
        let centred = inputs.iter().any(|input| input.shift != 0.0);
        if !(layer.has_intercept() || centred || scaling.target.shift != 0.0) {
            return None;
        }
        let mut functional: Vec<f64> = inputs.iter().map(|input| -input.shift / input.scale).collect();
        functional.resize(layer.coefficient_count(), 1.0);
        Some(functional)
    }

    fn coefficient(&self, name: String, mean: f64, sd: f64) -> Coefficient {
        let sd = (!self.mean_only()).then_some(sd);
        let end = |sign: f64| sd.map(|sd| mean + sign * HALF_95 * sd);
        Coefficient { name, mean, sd, lower: end(-1.0), upper: end(1.0) }
    }
}
