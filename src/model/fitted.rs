//! A fitted model that predicts from arrays in the user's units, with the record of its fit.

use super::Warning;
use super::averaged::{Averaged, Given};
use super::conformal::Conformal;
use super::hyper_posterior::HyperPoint;
use super::latent::{Hyperparameter, LatentModel, LatentPrior};
use super::nearby::Nearby;
use super::posterior::{Marginals, Posterior};
use super::predictions::Predictions;
use super::summary::{BetaCurve, FitSummary, Search, Update};
use crate::data::{Scaling, check_exposure, offset_at};
use crate::error::{Error, Result};
use crate::likelihood::LikelihoodKind;
use crate::linalg::symmetric_eigen;
use crate::options::{FitOptions, LossKind, ModelKind};
use crate::rows::Rows;
use crate::variational::Normal;
use faer::{Mat, MatRef, Scale};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use std::fmt;
use std::sync::Arc;

/// A fitted model with its scaling: kernel, inducing inputs, posterior, likelihood, and the record of the fit.
///
/// ```
/// use faer::Mat;
/// use sparsegp::{model::Model, training::Fit};
///
/// let x = Mat::from_fn(80, 2, |i, d| ((3 * i + 7 * d) % 20) as f64);
/// let y: Vec<f64> = (0..80).map(|i| 100.0 + x[(i, 0)] - 0.5 * x[(i, 1)]).collect();
/// let model = Fit::default().fit(x.as_ref(), &y)?;
///
/// let folder = tempfile::tempdir().expect("a folder");
/// let path = folder.path().join("line.safetensors");
/// model.save(&path)?;
/// let again = Model::load(&path)?;
/// let new = Mat::from_fn(3, 2, |i, _| 2.0 * i as f64);
/// let (a, b) = (model.predict(new.as_ref(), &[])?, again.predict(new.as_ref(), &[])?);
/// assert_eq!(a.row(2), b.row(2));
/// // Draws of the latent function at the three rows together.
/// assert_eq!(again.samples(new.as_ref(), 5, 0)?.len(), 5);
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    pub(crate) latent: LatentPrior,
    /// The posterior of every latent process.
    pub(crate) q: Vec<Normal>,
    pub(crate) posterior: Posterior,
    pub(crate) scaling: Scaling,
    pub(crate) options: FitOptions,
    pub(crate) summary: FitSummary,
    pub(crate) rows: usize,
    pub(crate) program: String,
    pub(crate) beta_curve: Option<BetaCurve>,
    pub(crate) search: Search,
    /// Other hyper-parameters, over which predictions are averaged.
    pub(crate) hyper_points: Arc<Vec<HyperPoint>>,
    pub(crate) conformal: Option<Arc<Conformal>>,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("likelihood", &LikelihoodKind::of(&*self.latent.likelihood))
            .field("hyperparameters", &self.latent.named_values())
            .field("training_rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl Model {
    /// The maximum number of rows for [`Model::samples`].
    #[doc(hidden)]
    pub const MOST_JOINT_ROWS: usize = 2000;

    /// Adds warnings before the warnings of the fit.
    #[doc(hidden)]
    pub fn warn_first(&mut self, warnings: impl IntoIterator<Item = Warning>) {
        self.summary.warnings.splice(..0, warnings);
    }

    /// Returns the model after an update, with other posteriors and, if it has neighbours, other rows. The bounds on the evidence no longer
    /// hold and are dropped.
    pub(crate) fn with_more(
        &self,
        latent: LatentModel,
        q: Vec<Normal>,
        nearby: Option<Arc<Nearby>>,
        update: Update,
    ) -> Model {
        let mut summary = self.summary.clone();
        summary.updates.push(update);
        (summary.elbo_sum, summary.evidence_upper_bound) = (None, None);
        let (latent, q, effects) = latent.split(&q);
        let posterior = Posterior::new(&latent, &q).with_mean_variance(self.posterior.mean_variance);
        let posterior = posterior.with_effects(effects).with_neighbours(&latent, nearby, &q);
        Model {
            posterior,
            latent: latent.to_prior(),
            q,
            scaling: self.scaling.clone(),
            options: self.options.clone(),
            summary,
            rows: self.rows + update.rows,
            program: self.program.clone(),
            beta_curve: self.beta_curve.clone(),
            search: self.search.clone(),
            // They know nothing of the new rows.
            hyper_points: Arc::default(),
            // Scores are in units of the predicted deviations, which the update changes together with the errors.
            conformal: self.conformal.clone(),
        }
    }

    /// The lower and the upper bound on the log evidence of the training rows, if they are known: log densities of the target in its own
    /// units.
    pub fn log_evidence(&self) -> (Option<f64>, Option<f64>) {
        let FitSummary { elbo_sum, evidence_upper_bound, log_unit, .. } = self.summary;
        let unit = log_unit.unwrap_or_else(|| -(self.rows as f64) * self.scaling.target.scale.ln());
        (elbo_sum.map(|sum| sum + unit), evidence_upper_bound.map(|sum| sum + unit))
    }

    /// The number of inputs D.
    pub fn inputs(&self) -> usize {
        self.scaling.dims()
    }

    /// The scaling of inputs and target.
    #[doc(hidden)]
    pub fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// The options of the fit; unset options have the values that were used.
    pub fn options(&self) -> &FitOptions {
        &self.options
    }

    /// Kernel, mean, likelihood and inducing inputs, on the scale the model sees.
    #[doc(hidden)]
    pub fn latent(&self) -> &LatentPrior {
        &self.latent
    }

    /// The posterior of the whitened inducing variables of the only latent process, or of the first.
    #[doc(hidden)]
    pub fn q(&self) -> &Normal {
        &self.q[0]
    }

    /// The posteriors of the whitened inducing variables of all latent processes.
    #[doc(hidden)]
    pub fn posteriors(&self) -> &[Normal] {
        &self.q
    }

    /// The predictor on the scale the model sees.
    #[doc(hidden)]
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// The training rows in which predictions search neighbours, if the model has them.
    #[doc(hidden)]
    pub fn neighbours(&self) -> Option<&Nearby> {
        self.posterior.neighbours().map(|nearby| &**nearby)
    }

    /// The kind of model, which says how f depends on the inputs.
    #[doc(hidden)]
    pub fn model_kind(&self) -> ModelKind {
        if self.latent.layer().linear().is_some() { ModelKind::Glm } else { ModelKind::Gp }
    }

    /// The record of the fit.
    pub fn summary(&self) -> &FitSummary {
        &self.summary
    }

    /// The number of rows it was trained on.
    pub fn training_rows(&self) -> usize {
        self.rows
    }

    /// The scores of a grid of β, if β was chosen from one.
    #[doc(hidden)]
    pub fn beta_curve(&self) -> Option<&BetaCurve> {
        self.beta_curve.as_ref()
    }

    /// Stores the scores of the grid from which β was chosen.
    #[doc(hidden)]
    pub fn set_beta_curve(&mut self, curve: BetaCurve) {
        self.beta_curve = Some(curve);
    }

    /// The searches before the fit: for the number of inducing inputs, for a start, and for unset options.
    #[doc(hidden)]
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// The version of the program that fitted it.
    #[doc(hidden)]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Returns the hyper-parameters in the user's units.
    ///
    /// ```
    /// use faer::Mat;
    /// use sparsegp::kernels::{Role, Stationary};
    /// use sparsegp::likelihood::Gaussian;
    /// use sparsegp::prelude::*;
    ///
    /// let x = Mat::from_fn(60, 1, |i, _| 1000.0 * i as f64);
    /// let y: Vec<f64> = (0..60).map(|i| 20.0 + (i as f64 / 5.0).sin()).collect();
    /// let gp = Inducing::new(Stationary::rbf(1.0, &[5000.0]));
    /// let model = Fit::new(gp, Gaussian::new(0.01)).with(|options| options.hyper = Some(Hyper::Fixed)).fit(x.as_ref(), &y)?;
    /// for parameter in model.hyperparameters() {
    ///     let given = match parameter.role {
    ///         Role::Variance => 1.0,
    ///         Role::Lengthscale => 5000.0,
    ///         Role::Noise => 0.01,
    ///         _ => continue,
    ///     };
    ///     assert!((parameter.value.unwrap() / given - 1.0).abs() < 1e-9, "{parameter:?}");
    /// }
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    pub fn hyperparameters(&self) -> Vec<Hyperparameter> {
        self.latent.hyperparameters(&self.scaling, self.hyper_summary())
    }

    /// The loss it was trained for.
    #[doc(hidden)]
    pub fn loss(&self) -> LossKind {
        self.options.objective.loss()
    }

    /// Returns true if the model has a predictive mean but no distribution. Square-loss training leaves the covariance of q and the noise
    /// undefined, and therefore also log densities, quantiles and coverage.
    #[doc(hidden)]
    pub fn mean_only(&self) -> bool {
        self.loss() == LossKind::Square
    }

    /// Predicts at inputs in original units (`n × D`, a row per datum), with the exposures of the rows; `exposure` is empty if all are 1.
    ///
    /// # Errors
    ///
    /// Data errors if the number of columns differs from the number of inputs, if inputs are not finite, or if there are exposures but not
    /// one per row.
    pub fn predict<'x>(&self, x: impl Into<Rows<'x>>, exposure: &[f64]) -> Result<Predictions> {
        let x = x.into();
        let x = x.as_ref();
        self.check_inputs(x)?;
        if !exposure.is_empty() && exposure.len() != x.nrows() {
            return Err(Error::data(format!(
                "there are {} exposures for {} rows, expected one each, or none at all",
                exposure.len(),
                x.nrows()
            )));
        }
        check_exposure(LikelihoodKind::of(&**self.posterior.likelihood()), "new", exposure)?;
        Ok(self.predict_rows(x, exposure.to_owned()))
    }

    /// Like [`predict`](Self::predict), but does not check the inputs (`n × D`, a row per datum, in original units) and the exposures.
    #[doc(hidden)]
    pub fn predict_rows(&self, x: MatRef<'_, f64>, exposure: Vec<f64>) -> Predictions {
        let rows = self.placed(x);
        let latent = self.posterior.marginals(rows.x.transpose()).with_offsets(rows.offsets.as_ref());
        self.predictions((latent, self.given_others(&rows)), x, exposure)
    }

    /// Like [`predict_rows`](Self::predict_rows), with another posterior on the same scale.
    pub(crate) fn predict_by(
        &self,
        posterior: &Posterior,
        x: MatRef<'_, f64>,
        exposure: Vec<f64>,
    ) -> Predictions {
        let rows = self.placed(x);
        let latent = posterior.marginals(rows.x.transpose()).with_offsets(rows.offsets.as_ref());
        self.predictions((latent, Vec::new()), x, exposure)
    }

    /// Predicts training rows (counted from 0) as if each were new: from its nearest other rows, and a q without the contribution of the
    /// row. `x` has these rows in original units, for their offsets, and `exposure` their exposures; it is empty if all are 1. Returns `None` if
    /// the model has no neighbours, does not keep all training rows, has no distribution, or has no such rows.
    #[doc(hidden)]
    pub fn predict_left_out(
        &self,
        rows: &[u32],
        x: MatRef<'_, f64>,
        exposure: Vec<f64>,
    ) -> Option<Predictions> {
        let kept = self.neighbours()?.len();
        let known = rows.iter().all(|&row| (row as usize) < kept);
        let exposed = exposure.is_empty() || exposure.len() == rows.len();
        if kept != self.rows || self.mean_only() || !known || !exposed {
            return None;
        }
        let latent = self.posterior.left_out(rows, self.options.beta)?;
        let latent = latent.with_offsets(self.placed(x).offsets.as_ref());
        Some(self.predictions((latent, Vec::new()), x, exposure))
    }

    /// Returns `count` draws of the latent function in original units, one vector per draw, each joint over all rows of `x` (`n × D`,
    /// original units).
    ///
    /// Values of one draw at different rows have the correlations of the posterior. This needs the full covariance, so the number of rows
    /// is limited to [`Model::MOST_JOINT_ROWS`]. A seed gives the same draws every time.
    ///
    /// # Errors
    ///
    /// As for [`Model::predict`], and when there are too many rows or the covariance is not finite.
    pub fn samples<'x>(&self, x: impl Into<Rows<'x>>, count: usize, seed: u64) -> Result<Vec<Vec<f64>>> {
        self.output_samples(x.into().as_ref(), count, seed, 0)
    }

    /// Draws like [`samples`](Self::samples) for one of several outputs, given by its index. Outputs that mix processes share the draws of
    /// the processes; any other output has separate random numbers.
    ///
    /// # Errors
    ///
    /// As for [`samples`](Self::samples).
    #[doc(hidden)]
    pub fn output_samples(
        &self,
        x: MatRef<'_, f64>,
        count: usize,
        seed: u64,
        output: u64,
    ) -> Result<Vec<Vec<f64>>> {
        self.check_joint(x)?;
        let rows = self.placed(x);
        let mut all: Mat<f64> = Mat::zeros(x.nrows(), count);
        for (process, weight) in self.parts() {
            let stream = if self.mixed().is_some() { process as u64 } else { output };
            let own = self.process_samples(&rows, count, seed, process, stream)?;
            all += own * Scale(weight);
        }
        let offset = self.mixed().map_or(0.0, |(_, offset)| offset);
        let draw = |k: usize| all.col(k).iter().map(|f| self.scaling.unscaled_target(f + offset)).collect();
        Ok((0..count).map(draw).collect())
    }

    /// Returns `count` draws of a latent process on the scale the model sees, one vector per draw, each joint over all rows of `x`.
    pub(super) fn latent_samples(
        &self,
        x: MatRef<'_, f64>,
        count: usize,
        seed: u64,
        process: usize,
    ) -> Result<Vec<Vec<f64>>> {
        self.check_joint(x)?;
        let all = self.process_samples(&self.placed(x), count, seed, process, process as u64)?;
        Ok(all.col_iter().map(|draw| draw.iter().copied().collect()).collect())
    }

    /// Returns `count` draws of one process at n rows as an `n × count` matrix, on the scale the model sees. `seed` and `stream`
    /// determine the random numbers.
    fn process_samples(
        &self,
        rows: &Placed,
        count: usize,
        seed: u64,
        process: usize,
        stream: u64,
    ) -> Result<Mat<f64>> {
        let n = rows.x.ncols();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        let noise: Mat<f64> = Mat::from_fn(n, count, |_, _| StandardNormal.sample(&mut random));
        let mut all = Mat::zeros(n, count);
        for (posterior, draws) in self.draws_of_points(count, seed) {
            let (mean, covariance) = self.joint_given(posterior, process, rows);
            let own = Mat::from_fn(n, draws.len(), |row, of| noise[(row, draws[of])]);
            let deviations = symmetric_root(&covariance)? * own;
            for (of, &draw) in draws.iter().enumerate() {
                (0..n).for_each(|row| all[(row, draw)] = mean[row] + deviations[(row, of)]);
            }
        }
        Ok(all)
    }

    /// Returns mean (n) and covariance (`n × n`) of the function at all rows of `x` (`n × D`, original units), in units of the target. The
    /// function of an output that mixes processes is their combination; in other models of several functions, the first function is used.
    ///
    /// # Errors
    ///
    /// As for [`Model::predict`], and when there are more than [`Model::MOST_JOINT_ROWS`] rows.
    pub fn joint<'x>(&self, x: impl Into<Rows<'x>>) -> Result<(Vec<f64>, Mat<f64>)> {
        let (means, covariance) = self.joint_on_scale(x.into().as_ref())?;
        if !self.scaling.target_map().is_none() {
            return Ok(self.unwarped(&means, &covariance));
        }
        let means = means.into_iter().map(|mean| self.scaling.unscale_mean(mean)).collect();
        let unit = self.scaling.unscale_variance(1.0);
        Ok((means, covariance * Scale(unit)))
    }

    /// Returns mean and covariance like [`Model::joint`], on the scale the model sees.
    pub(super) fn joint_on_scale(&self, x: MatRef<'_, f64>) -> Result<(Vec<f64>, Mat<f64>)> {
        self.check_joint(x)?;
        let rows = self.placed(x);
        let offset = self.mixed().map_or(0.0, |(_, offset)| offset);
        let (mut means, mut covariance) = (vec![offset; x.nrows()], Mat::zeros(x.nrows(), x.nrows()));
        for (process, weight) in self.parts() {
            let (mean, own) = self.joint_of(process, &rows);
            means.iter_mut().zip(mean).for_each(|(sum, mean)| *sum += weight * mean);
            covariance += own * Scale(weight * weight);
        }
        Ok((means, covariance))
    }

    /// Mean (n) and covariance (`n × n`) of a latent process at all rows of `x` (`n × D`, original units) together, on the scale the model
    /// sees.
    ///
    /// # Errors
    ///
    /// As for [`Model::joint`], and when there is no such process.
    #[doc(hidden)]
    pub fn joint_of_process(&self, x: MatRef<'_, f64>, process: usize) -> Result<(Vec<f64>, Mat<f64>)> {
        self.check_joint(x)?;
        let processes = self.latent.processes();
        if process >= processes {
            return Err(Error::usage(format!(
                "the model has no process {process}, expected a number below {processes}"
            )));
        }
        Ok(self.joint_of(process, &self.placed(x)))
    }

    /// Returns the weight of every latent process in the function of the target, and an offset, in units of the target. Returns `None`
    /// unless the target is one of several that mix processes.
    #[doc(hidden)]
    pub fn mixing(&self) -> Option<(Vec<f64>, f64)> {
        let (weights, offset) = self.mixed()?;
        let scale = self.scaling.target.scale;
        let weights = weights.into_iter().map(|weight| scale * weight).collect();
        Some((weights, self.scaling.unscale_mean(offset)))
    }

    /// The weights of the processes and the offset of an output that mixes processes.
    pub(super) fn mixed(&self) -> Option<(Vec<f64>, f64)> {
        let likelihood = &self.latent.likelihood;
        let output = likelihood.output(0).filter(|_| likelihood.mixing().is_some())?;
        Some((output.weights().to_vec(), output.offset()))
    }

    /// Returns the processes whose weighted sum is the function of the target, with their weights.
    fn parts(&self) -> Vec<(usize, f64)> {
        self.mixed().map_or(vec![(0, 1.0)], |(weights, _)| weights.into_iter().enumerate().collect())
    }

    /// Predictions from latent marginals with offsets, averaged with `others`; `x` has the inputs in original units.
    fn predictions(
        &self,
        (latent, others): (Marginals, Vec<Given>),
        x: MatRef<'_, f64>,
        exposure: Vec<f64>,
    ) -> Predictions {
        let (scaling, likelihood) = (self.scaling.of_target(), self.posterior.likelihood().clone());
        let (mean_only, conformal) = (self.mean_only(), self.row_scores(x));
        let predicted = Averaged::new(likelihood, latent, others);
        Predictions { scaling, predicted, exposure, other_ends: Vec::new(), mean_only, conformal }
    }

    /// Mean and covariance of a process with its offsets, for one set of hyper-parameters.
    pub(super) fn joint_given(
        &self,
        posterior: &Posterior,
        process: usize,
        rows: &Placed,
    ) -> (Vec<f64>, Mat<f64>) {
        let means = self.with_offsets(posterior, process, rows);
        (means, posterior.covariance_of(process, rows.x.transpose()))
    }

    /// The means of a process with its offsets.
    pub(super) fn with_offsets(&self, posterior: &Posterior, process: usize, rows: &Placed) -> Vec<f64> {
        let means = posterior.means_of(process, rows.x.transpose()).into_iter().enumerate();
        means.map(|(row, mean)| mean + offset_at(rows.offsets.as_ref(), row, process)).collect()
    }

    /// The means of the only latent function, or of the first, at rows in original units (`n × D`), on the scale the model sees.
    #[doc(hidden)]
    pub fn latent_means(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        self.with_offsets(&self.posterior, 0, &self.placed(x))
    }

    /// Inputs on the scale the model sees without offsets, a column per row of `x`.
    #[doc(hidden)]
    pub fn on_scale(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        self.placed(x).x
    }

    /// Rows in original units on the scale the model sees.
    pub(super) fn placed(&self, x: MatRef<'_, f64>) -> Placed {
        let mut on_scale = x.transpose().to_owned();
        self.scaling.scale_inputs(on_scale.as_mut().transpose_mut());
        let (inputs, offsets) = self.scaling.offsets().split_all(on_scale.transpose());
        let offsets = offsets.to_owned();
        let dims = inputs.ncols();
        on_scale.truncate(dims, x.nrows());
        Placed { x: on_scale, offsets }
    }

    /// Refuses unusable inputs, and more rows than [`Model::MOST_JOINT_ROWS`].
    fn check_joint(&self, x: MatRef<'_, f64>) -> Result<()> {
        self.check_inputs(x)?;
        let (n, most) = (x.nrows(), Self::MOST_JOINT_ROWS);
        if n > most {
            return Err(Error::usage(format!(
                "found {n} rows, expected at most {most}: the covariance has an entry for every pair of rows"
            ))
            .hint("give fewer rows, or use quantiles, which need no covariance"));
        }
        Ok(())
    }

    /// Refuses inputs that the model cannot be evaluated at.
    fn check_inputs(&self, x: MatRef<'_, f64>) -> Result<()> {
        check_columns(x, self.inputs())?;
        for (column, values) in x.col_iter().enumerate() {
            if let Some(row) = values.iter().position(|value| !value.is_finite()) {
                let found = values[row];
                return Err(Error::data(format!(
                    "the inputs have {found} in row {row}, column {column}, both counted from 0, expected a finite number"
                )));
            }
        }
        Ok(())
    }
}

/// Rows on the scale the model sees.
pub(super) struct Placed {
    /// The inputs and the columns of grouped effects, a column for each row.
    pub x: Mat<f64>,
    /// The offsets of every function, a row for each row; no columns without offsets.
    pub offsets: Mat<f64>,
}

/// Refuses inputs whose number of columns differs from that of the model.
pub(super) fn check_columns(x: MatRef<'_, f64>, expected: usize) -> Result<()> {
    let found = x.ncols();
    if found == expected {
        return Ok(());
    }
    Err(Error::data(format!("the inputs have {found} columns, expected {expected}, one per input")))
}

/// `R` with `R Rᵀ = cov`; eigenvalues just below zero are rounding.
fn symmetric_root(cov: &Mat<f64>) -> Result<Mat<f64>> {
    let (values, vectors) = symmetric_eigen(cov.as_ref())
        .ok_or_else(|| Error::fit("the covariance of the predictions holds values that are not finite"))?;
    Ok(Mat::from_fn(cov.nrows(), cov.ncols(), |i, j| vectors[(i, j)] * values[j].max(0.0).sqrt()))
}
