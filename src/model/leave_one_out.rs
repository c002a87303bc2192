//! Leave-one-out predictions: training rows predicted by a posterior without their own contribution.

use super::fitted::Model;
use super::posterior::Marginals;
use super::predictions::Predictions;
use crate::data::check_targets;
use crate::error::{Error, Result};
use crate::latent::{LatentLayer, Layer, whiten};
use crate::objective::{Derivatives, LossInputs, LossScratch, Objective, Targets};
use crate::options::LossKind;
use crate::rows::Rows;
use faer::{Mat, MatRef};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Scratch;

/// The upper limit of the share of a row in the precision of its own function value.
const MOST_KNOWN: f64 = 0.99;

impl Model {
    /// Predicts the training rows, inputs (`n × D`) and targets in original units, each as if it were new, without a fit for each row.
    ///
    /// At the optimum q is the prior times a Gaussian site for every row, with the precision `d_i = 2 ∂ℓ_i/∂v_i / β` and the shift
    /// `d_i μ_i − ∂ℓ_i/∂μ_i / β` (Khan & Lin 2017). Without the site of row i, its linear part of variance s has the variance
    /// `s/(1 − d_i s)`, and its mean moves by that times `∂ℓ_i/∂μ_i / β`. With Gaussian noise this is exact given the hyper-parameters,
    /// which stay (Rasmussen & Williams 2006, eq. 5.12). Models with neighbours keep their rows and leave them out of the neighbours too.
    ///
    /// ```
    /// use faer::Mat;
    /// use sparsegp::prelude::*;
    ///
    /// let x = Mat::from_fn(80, 1, |i, _| i as f64 / 8.0);
    /// let y: Vec<f64> = (0..80).map(|i| (i as f64 / 8.0).sin() + 0.1 * (i as f64 * 7.3).sin()).collect();
    /// let model = Fit::default().fit(&x, &y)?;
    /// let rmse = |of: &Predictions| of.report(&y).rmse.unwrap_or(f64::NAN);
    /// assert!(rmse(&model.leave_one_out(&x, &y)?) > rmse(&model.predict(&x, &[])?));
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Model::predict`], for models that define only a mean, and for other rows than the training rows of a model with neighbours.
    pub fn leave_one_out<'x, 't>(
        &self,
        x: impl Into<Rows<'x>>,
        targets: impl Into<Targets<'t>>,
    ) -> Result<Predictions> {
        self.left_out_rows(x.into().as_ref(), targets.into())
    }

    fn left_out_rows(&self, x: MatRef<'_, f64>, targets: Targets<'_>) -> Result<Predictions> {
        let objective = match self.loss() {
            LossKind::Elbo => Objective::elbo(self.options.beta),
            LossKind::Log => Objective::dlm(self.options.beta),
            LossKind::Fitc => Objective::fitc(),
            LossKind::Square => {
                return Err(Error::usage(
                    "leave-one-out predictions are unavailable for ⟨objective dlm-square⟩, which defines only a mean",
                ));
            }
        };
        let predictions = self.predict(x, targets.exposure)?;
        let (count, weights, likelihood) = (targets.len(), targets.weights.len(), &self.latent.likelihood);
        if count != x.nrows() || !(weights == 0 || weights == count) {
            return Err(Error::data(format!(
                "there are {count} targets and {weights} weights for {} rows, expected one target each, and one weight each or none",
                x.nrows()
            )));
        }
        check_targets(likelihood.target_kind(), "training", targets.y, likelihood.name())?;
        if self.neighbours().is_some() {
            let all: Vec<u32> = (0..x.nrows() as u32).collect();
            let found = self.predict_left_out(&all, x, targets.exposure.to_vec());
            return found.filter(|_| x.nrows() == self.rows).ok_or_else(|| {
                Error::usage("leave-one-out predictions of a model with neighbours need its training rows, and a model that keeps all of them")
            });
        }
        let Targets { y, exposure, weights, other_ends, .. } = targets;
        let (mut y, mut exposure, mut other_ends) = (y.to_vec(), exposure.to_vec(), other_ends.to_vec());
        self.scaling.scale_target(&mut y);
        self.scaling.scale_known(y.len(), &mut exposure, &mut other_ends);
        // The marginals are those of f with its offset, so that losses add none.
        let targets = Targets { exposure: &exposure, weights, other_ends: &other_ends, ..Targets::of(&y) };
        let latent =
            self.cavities(targets, &predictions.predicted.first().latent, &self.on_scale(x), objective)?;
        Ok(Predictions { predicted: predictions.predicted.with_latent(latent), ..predictions })
    }

    /// The marginals of all functions without the site of each row, from the `marginals` at these rows: `on_scale` has a column for each.
    fn cavities(
        &self,
        targets: Targets<'_>,
        marginals: &Marginals,
        on_scale: &Mat<f64>,
        objective: Objective,
    ) -> Result<Marginals> {
        let (n, functions, mut marginals) = (targets.len(), marginals.functions, marginals.clone());
        let residual = self.residual_variances(on_scale.transpose())?;
        let by_function = |values: &[f64]| -> Vec<f64> {
            (0..n * functions).map(|at| values[at % n * functions + at / n]).collect()
        };
        let (mean, all) = (by_function(&marginals.mean), by_function(&marginals.variance));
        let linear: Vec<f64> = all.iter().zip(&residual).map(|(v, r)| (v - r).max(0.0)).collect();
        let zeros = || vec![0.0; n * functions];
        let (mut g, mut h, mut unused, mut curvature) = (zeros(), zeros(), zeros(), zeros());
        let variance = if objective == Objective::fitc() { &linear } else { &all };
        let inputs = LossInputs { targets, mean: &mean, variance, residual: &residual };
        let (residual_bar, own) = (&mut unused[..], &mut [][..]);
        let out = Derivatives {
            mean: &mut g,
            variance: &mut h,
            residual: residual_bar,
            curvature: &mut curvature,
            own,
        };
        let mut random = ChaCha8Rng::seed_from_u64(0);
        objective.losses(
            &self.latent.likelihood,
            1.0,
            inputs,
            out,
            &mut LossScratch::new(&objective),
            &mut random,
        );
        for at in 0..n * functions {
            let (s, place) = (linear[at], at % n * functions + at / n);
            let without = s / (1.0 - (2.0 * h[at] / objective.beta * s).min(MOST_KNOWN));
            marginals.mean[place] += without * g[at] / objective.beta;
            marginals.variance[place] = without + residual[at];
        }
        Ok(marginals)
    }

    /// The residual variances `base − κ aᵀa` of rows on the scale the model sees, n for each function.
    fn residual_variances(&self, x: MatRef<'_, f64>) -> Result<Vec<f64>> {
        let latent = self
            .latent
            .factorised()
            .map_err(|_| Error::fit("the covariance of the inducing inputs has no Cholesky factor"))?;
        let of_layer = |layer: &Layer| -> Vec<f64> {
            let (n, m) = (x.nrows(), layer.dim());
            let (mut k, mut a) = (Mat::zeros(m, n), Mat::zeros(m, n));
            let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
            layer.features(x, k.as_mut(), &mut base, &mut offset, &mut Scratch::new());
            whiten(layer as &dyn LatentLayer, k.as_ref(), a.as_mut());
            let explained = |(base, a): (f64, faer::ColRef<'_, f64>)| {
                (base - layer.kappa() * a.iter().map(|a| a * a).sum::<f64>()).max(0.0)
            };
            base.into_iter().zip(a.col_iter()).map(explained).collect()
        };
        let layers = latent.layers();
        Ok((0..layers.processes()).flat_map(|process| of_layer(layers.get(layers.of(process)))).collect())
    }
}
