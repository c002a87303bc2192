//! A fitted model of a table: columns, scaling and posterior together, predicting in original units; no files.

use super::fit::{FitSummary, TrainingData, fit_arrays};
use super::options::FitOptions;
use super::posterior::{Marginals, Posterior};
use super::sparse::SparseModel;
use crate::collapsed::Dataset;
use crate::data::{
    Scaling, Schema, SchemaOptions, Table, TargetKind, Task, UnseenLevels, input_warnings, split,
};
use crate::error::{Error, Result};
use crate::hyper::Record;
use crate::linalg::symmetric_eigen;
use crate::metrics::{RegressionMetrics, RegressionRow, Report};
use crate::variational::FullGaussian;
use faer::Mat;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A sparse GP with everything that is needed to predict from tables like the one it was trained on.
pub struct FittedModel {
    pub(super) schema: Schema,
    pub(super) scaling: Scaling,
    pub(super) options: FitOptions,
    pub(super) model: SparseModel,
    pub(super) q: FullGaussian,
    pub(super) posterior: Posterior,
    pub(super) summary: FitSummary,
    pub(super) rows: usize,
    pub(super) program: String,
}

/// What to fit to: the table, the meaning of its columns, and which part of it is for training.
#[derive(Clone, Copy)]
pub struct FitRequest<'a> {
    /// The data.
    pub table: &'a Table,
    /// Which columns to use; with `start` only the target is looked at, the rest is the start model's.
    pub columns: &'a SchemaOptions,
    /// How to fit.
    pub options: &'a FitOptions,
    /// The share of the rows held out for testing.
    pub test_fraction: f64,
    /// A model to start from: its columns, scaling, kernel, hyper-parameters and inducing inputs.
    pub start: Option<&'a FittedModel>,
}

/// Rows of a table that took no part in training.
pub struct HeldOut {
    /// Which rows, counted from 0.
    pub rows: Vec<usize>,
    /// Their inputs in original units, a column per row.
    pub inputs: Mat<f64>,
    /// Their targets in original units.
    pub targets: Vec<f64>,
}

/// A fitted model with the rows that were held out.
pub struct TableFit {
    /// The model.
    pub model: FittedModel,
    /// The validation rows, where some were asked for.
    pub validation: Option<HeldOut>,
    /// The test rows, where some were asked for.
    pub test: Option<HeldOut>,
}

/// Fits a model to a table. `listener` hears one record per epoch.
///
/// Inputs and target are scaled by the training rows alone.
///
/// # Errors
///
/// Usage errors for options that make no sense, data errors for a table that cannot be learned from (see
/// [`Schema::infer`]) or that lacks a column of the start model, fit errors when not even the start can be evaluated.
pub fn fit_table(request: &FitRequest<'_>, listener: &mut dyn FnMut(&Record)) -> Result<TableFit> {
    let FitRequest { table, options, .. } = *request;
    options.validate()?;
    let (schema, mut warnings) = schema_of(request)?;
    let design = schema.design(table, UnseenLevels::Error)?;
    let target = target_of(&schema, table)?;
    let rows = split(table.rows(), request.test_fraction, options.validation_fraction, options.seed)?;
    let (mut x, mut y) = (columns(&design, &rows.train), gather(&target, &rows.train));
    check_training_target(&schema, table, &y)?;
    warnings.extend(input_warnings(&schema.input_names(), x.as_ref()));
    warnings.extend(two_valued(&schema, &y));
    let scaling = match request.start {
        Some(start) => start.scaling.clone(),
        None if options.standardize => Scaling::standardise(x.as_ref(), &y),
        None => Scaling::none(schema.dims()),
    };
    scaling.scale_inputs(x.as_mut());
    scaling.scale_target(&mut y);
    let held_out = |rows: Vec<usize>| HeldOut::new(&design, &target, rows);
    let (validation, test) = (held_out(rows.validation), held_out(rows.test));
    let scaled = validation.as_ref().map(|part| part.scaled(&scaling));
    let data = TrainingData {
        train: Dataset { x: x.as_ref(), y: &y },
        validation: scaled.as_ref().map(|(x, y)| Dataset { x: x.as_ref(), y }),
    };
    let start = request.start.map(|start| start.start_model(options));
    let mut fitted = fit_arrays(data, options, start.as_ref(), listener)?;
    warnings.append(&mut fitted.summary.warnings);
    fitted.summary.warnings = warnings;
    let model = FittedModel {
        options: as_used(options, &fitted.model),
        schema,
        scaling,
        model: fitted.model,
        q: fitted.q,
        posterior: fitted.posterior,
        summary: fitted.summary,
        rows: y.len(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Ok(TableFit { model, validation, test })
}

/// The columns of the fit: those of the start model, or found in the table.
fn schema_of(request: &FitRequest<'_>) -> Result<(Schema, Vec<String>)> {
    let Some(start) = request.start else { return Schema::infer(request.table, request.columns) };
    let (known, asked) = (start.schema.target_name(), &request.columns.target);
    if known != asked {
        return Err(Error::usage(format!(
            "the start model predicts '{known}', the target asked for is '{asked}'"
        ))
        .hint(format!("say --target {known}, or fit without --from")));
    }
    // The start model's schema was checked against another table: this one's rows and target need checking too.
    start.schema.check_training(request.table)?;
    Ok((start.schema.clone(), Vec::new()))
}

/// The target of every row.
fn target_of(schema: &Schema, table: &Table) -> Result<Vec<f64>> {
    match schema.target(table)? {
        Some(target) => Ok(target),
        None => Err(absent_target(schema, table.source())),
    }
}

fn absent_target(schema: &Schema, source: &str) -> Error {
    Error::data(format!(
        "{source}: there is no column '{}', expected the target to compare with",
        schema.target_name()
    ))
    .hint("use predict for data whose target is not known")
}

/// The whole column varies, or the schema would have been refused; a part of it may not.
fn check_training_target(schema: &Schema, table: &Table, y: &[f64]) -> Result<()> {
    if y.iter().any(|value| Some(value) != y.first()) {
        return Ok(());
    }
    Err(Error::data(format!(
        "{}: the target '{}' is the same in all {} training rows, expected values that vary",
        table.source(),
        schema.target_name(),
        y.len()
    ))
    .hint("hold out fewer rows, or try another --seed"))
}

/// A note when a target that is to be a number looks like two classes.
fn two_valued(schema: &Schema, y: &[f64]) -> Option<String> {
    let first = *y.first()?;
    let other = *y.iter().find(|&&value| value != first)?;
    let two = schema.encoding().kind() == TargetKind::Real
        && y.len() > 2
        && y.iter().all(|&value| value == first || value == other);
    two.then(|| {
        let (low, high) = (first.min(other), first.max(other));
        let name = schema.target_name();
        format!("the target '{name}' takes only the values {low} and {high}; it is treated as a number, not as classes")
    })
}

/// The options with what was left open filled in, as the fit used them.
fn as_used(options: &FitOptions, model: &SparseModel) -> FitOptions {
    FitOptions {
        kernel: model.layer.kernel().expression(),
        inducing: Some(model.layer.z().nrows()),
        q_step: Some(options.q_schedule()),
        hyper: Some(options.hyper_mode()),
        epochs: Some(options.epoch_limit()),
        tolerance: Some(options.stopping_tolerance()),
        jitter: model.layer.jitter(),
        ..options.clone()
    }
}

fn columns(x: &Mat<f64>, rows: &[usize]) -> Mat<f64> {
    Mat::from_fn(x.nrows(), rows.len(), |input, row| x[(input, rows[row])])
}

fn gather(values: &[f64], rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|&row| values[row]).collect()
}

impl HeldOut {
    fn new(design: &Mat<f64>, target: &[f64], rows: Vec<usize>) -> Option<HeldOut> {
        let (inputs, targets) = (columns(design, &rows), gather(target, &rows));
        (!rows.is_empty()).then_some(HeldOut { rows, inputs, targets })
    }

    fn scaled(&self, scaling: &Scaling) -> (Mat<f64>, Vec<f64>) {
        let (mut x, mut y) = (self.inputs.clone(), self.targets.clone());
        scaling.scale_inputs(x.as_mut());
        scaling.scale_target(&mut y);
        (x, y)
    }
}

/// Predictions for the rows of one table; everything is in original units of the target.
pub struct Predictions<'a> {
    scaling: &'a Scaling,
    posterior: &'a Posterior,
    latent: Marginals,
}

/// The moments of one prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The mean of y.
    pub mean: f64,
    /// The variance of y.
    pub variance: f64,
    /// The mean of the latent function.
    pub latent_mean: f64,
    /// The variance of the latent function.
    pub latent_variance: f64,
}

impl Predictions<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.latent.mean.len()
    }

    /// The moments at a row.
    ///
    /// # Panics
    ///
    /// When there is no such row, as for the other methods.
    pub fn row(&self, row: usize) -> Prediction {
        let (mu, v) = self.latent_at(row);
        let (mean, variance) = self.posterior.likelihood().predictive_moments(mu, v);
        Prediction {
            mean: self.scaling.unscale_mean(mean),
            variance: self.scaling.unscale_variance(variance),
            latent_mean: self.scaling.unscale_mean(mu),
            latent_variance: self.scaling.unscale_variance(v),
        }
    }

    /// The value that y is below with probability `p`, for p in (0, 1).
    pub fn quantile(&self, row: usize, p: f64) -> f64 {
        let (mu, v) = self.latent_at(row);
        self.scaling.unscale_mean(self.posterior.likelihood().predictive_quantile(p, mu, v))
    }

    /// The log predictive density of y = `target`.
    pub fn log_density(&self, row: usize, target: f64) -> f64 {
        let (mu, v) = self.latent_at(row);
        let y = self.scaling.target.apply(target);
        self.posterior.likelihood().log_predictive(y, mu, v) + self.scaling.log_density_shift()
    }

    /// What a comparison with the observed target needs.
    pub fn compare(&self, row: usize, target: f64) -> RegressionRow {
        let (mu, v) = self.latent_at(row);
        let y = self.scaling.target.apply(target);
        RegressionRow {
            target,
            mean: self.row(row).mean,
            log_density: self.log_density(row, target),
            pit: self.posterior.likelihood().predictive_cdf(y, mu, v),
            interval_width_95: self.quantile(row, 0.975) - self.quantile(row, 0.025),
        }
    }

    /// Compares every row with its target.
    pub fn report(&self, targets: &[f64]) -> Report {
        let mut metrics = RegressionMetrics::new();
        for (row, &target) in targets.iter().enumerate() {
            metrics.push(&self.compare(row, target));
        }
        metrics.report()
    }

    fn latent_at(&self, row: usize) -> (f64, f64) {
        (self.latent.mean[row], self.latent.variance[row])
    }
}

impl FittedModel {
    /// The most rows that [`FittedModel::samples`] draws at together.
    pub const MOST_JOINT_ROWS: usize = 2000;

    /// The kind of target.
    pub fn task(&self) -> Task {
        Task::Regression
    }

    /// The columns it was trained on.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How it sees inputs and target.
    pub fn scaling(&self) -> &Scaling {
        &self.scaling
    }

    /// The options of the fit, with what was left open filled in as it was used.
    pub fn options(&self) -> &FitOptions {
        &self.options
    }

    /// Kernel, mean, likelihood and inducing inputs.
    pub fn model(&self) -> &SparseModel {
        &self.model
    }

    /// The posterior of the whitened inducing variables.
    pub fn q(&self) -> &FullGaussian {
        &self.q
    }

    /// The predictor on the scale the model sees.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// What the fit did.
    pub fn summary(&self) -> &FitSummary {
        &self.summary
    }

    /// The number of rows it was trained on.
    pub fn training_rows(&self) -> usize {
        self.rows
    }

    /// The version of the program that fitted it.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Hyper-parameters by name, in natural units on the scale the model sees.
    pub fn hyperparameters(&self) -> Vec<(String, f64)> {
        self.model.named_values()
    }

    /// Predicts every row of a table.
    ///
    /// # Errors
    ///
    /// As for [`Schema::design`].
    pub fn predict(&self, table: &Table, unseen: UnseenLevels) -> Result<Predictions<'_>> {
        Ok(self.predict_inputs(self.schema.design(table, unseen)?))
    }

    /// Predicts at inputs in original units (D × N, a column per row of data).
    ///
    /// # Panics
    ///
    /// When `x` does not have one row per input.
    pub fn predict_inputs(&self, mut x: Mat<f64>) -> Predictions<'_> {
        self.scaling.scale_inputs(x.as_mut());
        let latent = self.posterior.marginals(x.as_ref());
        Predictions { scaling: &self.scaling, posterior: &self.posterior, latent }
    }

    /// Predicts a table and compares with its targets, one row at a time.
    ///
    /// # Errors
    ///
    /// As for [`FittedModel::predict`], and when a target is absent, missing or not of its kind (see
    /// [`Schema::target`]).
    pub fn compare(
        &self,
        table: &Table,
        unseen: UnseenLevels,
        visit: &mut dyn FnMut(&RegressionRow),
    ) -> Result<()> {
        let targets = target_of(&self.schema, table)?;
        let predictions = self.predict(table, unseen)?;
        for (row, &target) in targets.iter().enumerate() {
            visit(&predictions.compare(row, target));
        }
        Ok(())
    }

    /// `count` draws of the latent function at all rows of a table together, in original units: one vector per draw.
    ///
    /// Values at different rows of one draw are correlated as the posterior says; that takes the full covariance, so the
    /// number of rows is limited to [`FittedModel::MOST_JOINT_ROWS`]. A seed gives the same draws every time.
    ///
    /// # Errors
    ///
    /// As for [`FittedModel::predict`], and when there are too many rows or the covariance is not finite.
    pub fn samples(
        &self,
        table: &Table,
        unseen: UnseenLevels,
        count: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>> {
        let n = table.rows();
        if n > Self::MOST_JOINT_ROWS {
            return Err(too_many_rows(table.source()));
        }
        let mut x = self.schema.design(table, unseen)?;
        self.scaling.scale_inputs(x.as_mut());
        let mean = self.posterior.means(x.as_ref());
        let root = symmetric_root(&self.posterior.covariance(x.as_ref()))?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let noise: Mat<f64> = Mat::from_fn(n, count, |_, _| StandardNormal.sample(&mut random));
        let deviations = &root * &noise;
        let draw = |k: usize| {
            mean.iter().zip(deviations.col(k).iter()).map(|(m, d)| self.scaling.unscale_mean(m + d)).collect()
        };
        Ok((0..count).map(draw).collect())
    }

    /// The model to start another fit from.
    fn start_model(&self, options: &FitOptions) -> SparseModel {
        SparseModel { fix_inducing: options.fix_inducing, ..self.model.clone() }
    }
}

/// The error for joint draws at too many rows.
fn too_many_rows(source: &str) -> Error {
    let most = FittedModel::MOST_JOINT_ROWS;
    Error::usage(format!("{source}: samples are drawn at all rows together, at most {most} rows"))
        .hint("give fewer rows, or use quantiles, which are per row")
}

/// `R` with `R Rᵀ = cov`; eigenvalues just below zero are rounding.
fn symmetric_root(cov: &Mat<f64>) -> Result<Mat<f64>> {
    let (values, vectors) = symmetric_eigen(cov.as_ref())
        .ok_or_else(|| Error::fit("the covariance of the predictions holds values that are not finite"))?;
    Ok(Mat::from_fn(cov.nrows(), cov.ncols(), |i, j| vectors[(i, j)] * values[j].max(0.0).sqrt()))
}
