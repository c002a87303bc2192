//! Predictions of a fitted model at some rows, in original units of the target, and a distribution that does not depend on inputs.

use super::averaged::{Averaged, Given};
use super::conformal::RowScores;
use super::latent::LatentModel;
use super::posterior::Posterior;
use super::survival::integrated_brier_score;
use crate::data::Scaling;
use crate::latent::LinearLayer;
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Observation, ObservationModel, TargetKind, Task, continuous_crps};
use crate::metrics::{ClassScores, Compared, Metrics, Report};
use crate::parallel::*;
use crate::variational::{Family, Normal};
use faer::Mat;
use rand_chacha::ChaCha8Rng;

/// The detail of a prediction that is in units of the target.
const NOISE_SD: &str = "noise_sd";

/// Predictions for the rows of one table; everything is in original units of the target.
///
/// Of two classes, 1 is the positive one and 0 the other. Ordered levels are 0, 1, …. The mean of a count is for the exposure, or the number of
/// trials, of its row.
///
/// ```
/// use faer::{Mat, mat};
/// use sparsegp::prelude::*;
///
/// let x = Mat::from_fn(120, 1, |i, _| i as f64 / 12.0);
/// let y: Vec<f64> = (0..120).map(|i| f64::from(i > 60)).collect();
/// let options = FitOptions { likelihood: Some("bernoulli-probit".parse()?), ..FitOptions::default() };
/// let model = Fit::of(options).fit(x.as_ref(), &y)?;
///
/// let predictions = model.predict(mat![[1.0], [9.0]].as_ref(), &[])?;
/// // For two classes the mean is the probability of class 1.
/// assert!(predictions.row(0).mean < 0.1 && predictions.row(1).mean > 0.9);
/// assert_eq!(predictions.most_probable(1), Some(1));
/// assert_eq!(predictions.means(), [predictions.row(0).mean, predictions.row(1).mean]);
/// // Metrics for observed targets, and the log density of one target.
/// let report = predictions.report(&[0.0, 1.0]);
/// assert_eq!(report.error_rate, Some(0.0));
/// assert!(predictions.log_density(0, 1.0) < predictions.log_density(0, 0.0));
/// # Ok::<(), sparsegp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predictions {
    /// The scaling of the target.
    pub(super) scaling: Scaling,
    /// The predictive distributions on the scale the model sees.
    pub(super) predicted: Averaged,
    /// Exposures, or empty if all are 1.
    pub(super) exposure: Vec<f64>,
    /// The other ends of the intervals of censored targets, NaN for known ones, or empty.
    pub(super) other_ends: Vec<f64>,
    /// True if the model defines a mean but no distribution (square-loss training).
    pub(super) mean_only: bool,
    /// The scores of held-out rows by which quantiles are calibrated, if there are any.
    pub(super) conformal: Option<RowScores>,
}

/// The moments of one prediction; a variance that the model does not define is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The mean of y; the probability of the positive class.
    pub mean: f64,
    /// The variance of y.
    pub variance: f64,
    /// The mean of the latent function, or of the first of several, in units of the target.
    pub latent_mean: f64,
    /// The variance of the same latent function, in squared units of the target.
    pub latent_variance: f64,
}

impl Predictions {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.predicted.first().latent.rows()
    }

    /// The moments at a row.
    ///
    /// # Panics
    ///
    /// If `row` is not below [`rows`](Self::rows), as for all methods that take a row.
    pub fn row(&self, row: usize) -> Prediction {
        self.moments(row, &mut Integrator::default())
    }

    /// The moments of all rows.
    pub fn iter(&self) -> impl Iterator<Item = Prediction> {
        let mut tools = Integrator::default();
        (0..self.rows()).map(move |row| self.moments(row, &mut tools))
    }

    /// The means of all rows.
    pub fn means(&self) -> Vec<f64> {
        self.iter().map(|row| row.mean).collect()
    }

    /// The variances of y of all rows.
    pub fn variances(&self) -> Vec<f64> {
        self.iter().map(|row| row.variance).collect()
    }

    /// The quantiles of y of all rows; see [`quantile`](Self::quantile).
    pub fn quantiles(&self, p: f64) -> Vec<f64> {
        let mut tools = Integrator::default();
        (0..self.rows()).map(|row| self.quantile_with(row, p, &mut tools)).collect()
    }

    /// The quantile of y for `p` in (0, 1): the smallest t with P(y ≤ t) ≥ p, in units of the
    /// target; with conformal calibration, the end of an interval of the scores of held-out rows. NaN for models that define only a mean.
    pub fn quantile(&self, row: usize, p: f64) -> f64 {
        self.quantile_with(row, p, &mut Integrator::default())
    }

    /// The log predictive density (or probability) of y = `target`.
    pub fn log_density(&self, row: usize, target: f64) -> f64 {
        self.log_density_with(row, target, &mut Integrator::default())
    }

    /// The continuous ranked probability score of y = `target`, in units of the target (Gneiting &
    /// Raftery 2007, eq. 20); NaN for models that define only a mean.
    pub fn crps(&self, row: usize, target: f64) -> f64 {
        self.crps_with(row, target, &mut Integrator::default())
    }

    /// The probability of every class or level at a row, in the order of the target's levels; empty for other targets.
    pub fn probabilities(&self, row: usize) -> Vec<f64> {
        self.probabilities_with(row, &mut Integrator::default())
    }

    /// The index of the most probable class or level at a row among the target's levels; `None` for other targets.
    pub fn most_probable(&self, row: usize) -> Option<usize> {
        let tools = &mut Integrator::default();
        let place = match self.kind() {
            TargetKind::Binary => f64::from(u8::from(self.moments(row, tools).mean > 0.5)),
            TargetKind::Class => self.class_scores(row, f64::NAN, tools).0,
            TargetKind::Ordinal => self.most_probable_level(row, tools),
            _ => f64::NAN,
        };
        (place >= 0.0).then_some(place as usize)
    }

    /// Mean and variance of a latent function at a row, on the scale the model sees.
    ///
    /// # Panics
    ///
    /// If `function` is not below the number of functions.
    pub fn latent(&self, row: usize, function: usize) -> (f64, f64) {
        self.predicted.latent((row, function), |own| own)
    }

    /// Further quantities that the likelihood predicts at a row, such as the noise; [`detail_names`](Self::detail_names) names them in this
    /// order.
    pub fn details(&self, row: usize) -> Vec<f64> {
        let (at, mut tools) = (self.at(row, 1.0), Integrator::default());
        let scale =
            |value: f64, name: &str| if name == NOISE_SD { value * self.scaling.target.scale } else { value };
        let names = self.detail_names().iter().enumerate();
        names.map(|(which, name)| scale(self.predicted.detail(which, (row, at), &mut tools), name)).collect()
    }

    /// The names of the quantities that [`details`](Self::details) returns.
    pub fn detail_names(&self) -> &'static [&'static str] {
        self.likelihood().details()
    }

    /// A draw of y at a row: first the latent functions are drawn, then y given their values. NaN
    /// for models that define only a mean.
    pub fn draw(&self, row: usize, random: &mut ChaCha8Rng) -> f64 {
        self.defined(self.scaling.unscaled_target(self.predicted.draw(row, self.at(row, 1.0), random)))
    }

    /// A draw of every latent function at a row, on the scale the model sees, given the hyper-parameters of the model.
    #[doc(hidden)]
    pub fn draw_functions(&self, row: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
        self.predicted.first().draw_functions(row, random)
    }

    /// A draw of y at a row given the latent functions there and the hyper-parameters of the model.
    #[doc(hidden)]
    pub fn draw_given(&self, row: usize, functions: &[f64], random: &mut ChaCha8Rng) -> f64 {
        let y = self.likelihood().sample(self.at(row, 1.0), functions, random);
        self.defined(self.scaling.unscaled_target(y))
    }

    /// Compares each row with its observed target.
    ///
    /// # Panics
    ///
    /// If the numbers of targets and rows differ.
    #[doc(hidden)]
    pub fn compare(&self, targets: &[f64]) -> Vec<Compared> {
        assert_eq!(targets.len(), self.rows(), "one target per row");
        let compare = |tools: &mut Integrator, row: usize| self.compared(row, targets[row], tools);
        (0..self.rows()).into_par_iter().map_init(Integrator::default, compare).collect()
    }

    /// The log density and the squared error of every target. For classes, the error is 1 minus the probability of the observed class.
    #[doc(hidden)]
    pub fn losses(&self, targets: &[f64]) -> Vec<(f64, f64)> {
        let loss = |tools: &mut Integrator, row: usize| {
            let log_density = self.log_density_with(row, targets[row], tools);
            let distance = match self.kind() {
                TargetKind::Class => 1.0 - log_density.exp(),
                _ if self.is_censored(row) => 0.0,
                _ => targets[row] - self.moments(row, tools).mean,
            };
            (log_density, distance * distance)
        };
        (0..self.rows()).into_par_iter().map_init(Integrator::default, loss).collect()
    }

    /// Returns the metrics of all rows against their targets.
    ///
    /// # Panics
    ///
    /// If the numbers of targets and rows differ.
    pub fn report(&self, targets: &[f64]) -> Report {
        let mut metrics = Metrics::new(self.kind().task());
        self.compare(targets).iter().for_each(|row| metrics.push(row));
        let integrated_brier = integrated_brier_score(&[(self, targets)]);
        Report { integrated_brier, ..metrics.report() }
    }

    /// Returns the predictions with `by` added to the mean of one latent function at every row, on the scale the model sees.
    #[doc(hidden)]
    pub fn raised(&self, function: usize, by: f64) -> Predictions {
        let mut predicted = self.predicted.clone();
        predicted.raise(function, by);
        Predictions { predicted, ..self.clone() }
    }

    /// Says which targets that predictions are compared with are censored: `other_ends` has the other end of the interval of every target, NaN
    /// for a known one; it is empty if all are known. Log densities of censored targets are log probabilities of their intervals, and count
    /// no errors.
    #[must_use]
    pub fn with_other_ends(self, other_ends: &[f64]) -> Predictions {
        Predictions { other_ends: other_ends.to_vec(), ..self }
    }

    /// Returns what one set of hyper-parameters predicts.
    pub(super) fn of_point(&self, index: usize) -> &Given {
        self.predicted.of(index)
    }

    /// Returns the predictions for one set of hyper-parameters.
    pub(super) fn given_point(&self, index: usize) -> Predictions {
        Predictions { predicted: self.predicted.alone(index), ..self.clone() }
    }

    pub(super) fn has_other_ends(&self) -> bool {
        !self.other_ends.is_empty()
    }

    pub(super) fn other_end(&self, row: usize) -> f64 {
        self.other_ends.get(row).copied().unwrap_or(f64::NAN)
    }

    fn is_censored(&self, row: usize) -> bool {
        !self.other_end(row).is_nan()
    }

    fn probabilities_with(&self, row: usize, tools: &mut Integrator) -> Vec<f64> {
        let number = self.likelihood().levels();
        if self.kind() == TargetKind::Ordinal {
            let levels = (0..number).map(|level| level as f64);
            return levels.map(|level| self.log_density_with(row, level, tools).exp()).collect();
        }
        let classes = matches!(self.kind(), TargetKind::Binary | TargetKind::Class);
        let mut all = vec![f64::NAN; if classes { number } else { 0 }];
        if !self.mean_only {
            self.predicted.probabilities(row, tools, &mut all);
        }
        all
    }

    pub(crate) fn kind(&self) -> TargetKind {
        self.likelihood().target_kind()
    }

    pub(super) fn likelihood(&self) -> &ObservationModel {
        &self.predicted.first().likelihood
    }

    /// Returns a target of a row on the scale of the model, with its exposure; any number if the target is unknown.
    pub(super) fn at(&self, row: usize, y: f64) -> Observation<'_> {
        let exposure = self.exposure.get(row).copied().unwrap_or(self.kind().usual_exposure());
        Observation::exposed(y, self.scaling.scaled_exposure(exposure))
    }

    fn defined(&self, value: f64) -> f64 {
        if self.mean_only { f64::NAN } else { value }
    }

    fn moments(&self, row: usize, tools: &mut Integrator) -> Prediction {
        let scaling = &self.scaling;
        let (latent_mean, latent_variance) = self
            .predicted
            .latent((row, 0), |(mean, variance)| scaling.unscale_moments(mean, variance, tools));
        let (mean, variance) =
            self.predicted.moments((row, self.at(row, 1.0)), tools, |(mean, variance), tools| {
                scaling.unscale_moments(mean, variance, tools)
            });
        Prediction {
            mean,
            variance: self.defined(variance),
            latent_mean,
            latent_variance: self.defined(latent_variance),
        }
    }

    fn quantile_with(&self, row: usize, p: f64, tools: &mut Integrator) -> f64 {
        if self.mean_only {
            return f64::NAN;
        }
        if let Some(scores) = &self.conformal {
            return self.conformal_quantile(scores, row, p, tools);
        }
        let quantile = self.predicted.quantile((row, p), self.at(row, 1.0), tools);
        self.scaling.unscaled_target(quantile)
    }

    fn log_density_with(&self, row: usize, target: f64, tools: &mut Integrator) -> f64 {
        if self.mean_only || target.is_nan() {
            return f64::NAN;
        }
        self.log_density_of(row, (target, self.other_end(row)), tools)
    }

    /// Returns the log density of a target, or the log probability of the interval between it and another end.
    fn log_density_of(&self, row: usize, (target, other_end): (f64, f64), tools: &mut Integrator) -> f64 {
        let mut at = self.at(row, self.scaling.scaled_target(target));
        if !other_end.is_nan() {
            at.other_end = self.scaling.scaled_target(other_end);
            return self.predicted.log_density(row, at, tools);
        }
        self.predicted.log_density(row, at, tools) + self.scaling.log_density_shift(target)
    }

    pub(super) fn known_log_density(&self, row: usize, target: f64) -> f64 {
        self.log_density_of(row, (target, f64::NAN), &mut Integrator::default())
    }

    /// Returns the log probability at a row of a target that is censored on the right at t, for censored kinds of targets.
    pub(super) fn log_survival(&self, row: usize, t: f64) -> f64 {
        self.log_density_of(row, (t, f64::INFINITY), &mut Integrator::default())
    }

    /// Returns `P(Y ≤ y)` at a row.
    pub(super) fn distribution(&self, row: usize, y: f64) -> f64 {
        self.cdf(row, y, &mut Integrator::default())
    }

    fn crps_with(&self, row: usize, target: f64, tools: &mut Integrator) -> f64 {
        if self.mean_only || target.is_nan() {
            return f64::NAN;
        }
        if !self.scaling.target_map().is_none() {
            return continuous_crps(self.kind(), target, &mut |y| self.cdf(row, y, tools));
        }
        let at = self.at(row, self.scaling.scaled_target(target));
        self.predicted.crps(row, at, tools) * self.scaling.target.scale
    }

    /// Returns `P(Y ≤ y)` at a row.
    pub(crate) fn cdf(&self, row: usize, y: f64, tools: &mut Integrator) -> f64 {
        self.predicted.cdf(row, self.at(row, self.scaling.scaled_target(y)), tools)
    }

    fn compared(&self, row: usize, target: f64, tools: &mut Integrator) -> Compared {
        let kind = self.kind();
        let mean = self.moments(row, tools).mean;
        let (mut pit, mut interval_95) = ((f64::NAN, f64::NAN), (f64::NAN, f64::NAN));
        let (most_probable, classes) = match kind {
            TargetKind::Class => self.class_scores(row, target, tools),
            _ => (f64::NAN, None),
        };
        if !self.mean_only && !matches!(kind, TargetKind::Binary | TargetKind::Class) {
            pit = self.transforms(row, target, tools);
            interval_95 = (self.quantile_with(row, 0.025, tools), self.quantile_with(row, 0.975, tools));
        }
        Compared {
            target,
            other_end: self.kind().is_censored().then(|| self.other_end(row)),
            mean,
            log_density: self.log_density_with(row, target, tools),
            pit,
            interval_95,
            crps: self.crps_with(row, target, tools),
            deviance: self.likelihood().unit_deviance(target, mean),
            classes,
            most_probable: match kind.task() {
                Task::Classification if kind == TargetKind::Class => most_probable,
                Task::Classification => f64::from(u8::from(mean > 0.5)),
                Task::Ordinal => self.most_probable_level(row, tools),
                Task::Regression | Task::Count => f64::NAN,
            },
        }
    }

    /// Returns the most probable of several classes, and the scores of the probabilities against
    /// the target.
    fn class_scores(&self, row: usize, target: f64, tools: &mut Integrator) -> (f64, Option<ClassScores>) {
        let all = self.probabilities_with(row, tools);
        let (mut best, mut confidence, mut brier) = (f64::NAN, f64::NEG_INFINITY, 0.0);
        for (class, p) in all.into_iter().enumerate() {
            if p > confidence {
                (best, confidence) = (class as f64, p);
            }
            brier += (p - f64::from(u8::from(class as f64 == target))).powi(2);
        }
        (best, Some(ClassScores { brier, confidence }))
    }

    fn most_probable_level(&self, row: usize, tools: &mut Integrator) -> f64 {
        let (mut best, mut most, mut below) = (f64::NAN, f64::NEG_INFINITY, 0.0);
        for level in 0..self.likelihood().levels() {
            let at = self.cdf(row, level as f64, tools);
            if at - below > most {
                (best, most) = (level as f64, at - below);
            }
            below = at;
        }
        best
    }
}

/// The standard deviation of the latent value, because likelihoods expect one above 0.
const DEVIATION: f64 = 1e-150;

/// A model whose prediction is the same for all inputs.
#[doc(hidden)]
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
    pub fn predict(&self, rows: usize, exposure: Vec<f64>) -> Predictions {
        let latent = self.posterior.marginals(Mat::zeros(rows, 0).as_ref());
        let (scaling, likelihood) = (self.scaling.of_target(), self.posterior.likelihood().clone());
        let (predicted, other_ends) = (Averaged::new(likelihood, latent, Vec::new()), Vec::new());
        Predictions { scaling, predicted, exposure, other_ends, mean_only: false, conformal: None }
    }

    /// The name of its likelihood.
    pub fn likelihood(&self) -> &'static str {
        self.posterior.likelihood().name()
    }
}
