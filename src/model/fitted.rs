//! A fitted model of a table: columns, scaling and posterior together, predicting in original units; no files.

use super::fit::{Fitted, Start, TrainingData, fit_arrays_in};
use super::latent::LatentModel;
use super::options::{FitOptions, ModelKind, ObjectiveKind};
use super::posterior::Posterior;
use super::predictions::Predictions;
use super::search::Search;
use super::select::BetaCurve;
use super::start::with_likelihood_of;
use super::summary::FitSummary;
use super::warning::Warning;
use crate::collapsed::Dataset;
use crate::data::statistics::constant_target;
use crate::data::{
    Scaling, Schema, SchemaOptions, Table, TargetKind, Task, UnseenLevels, input_warnings, split,
};
use crate::error::{Error, Result};
use crate::hyper::{Record, Session};
use crate::latent::Layer;
use crate::likelihood::LikelihoodKind;
use crate::linalg::symmetric_eigen;
use crate::metrics::Compared;
use crate::objective::Targets;
use crate::variational::{Family, Normal};
use faer::{Mat, MatRef};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// A model with everything that is needed to predict from tables like the one it was trained on.
pub struct FittedModel {
    pub(super) schema: Schema,
    pub(super) scaling: Scaling,
    pub(super) options: FitOptions,
    pub(super) model: LatentModel,
    pub(super) q: Normal,
    pub(super) posterior: Posterior,
    pub(super) summary: FitSummary,
    pub(super) rows: usize,
    pub(super) program: String,
    pub(super) beta_curve: Option<BetaCurve>,
    pub(super) search: Search,
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
    /// Whether the start model's posterior is gone on with too; otherwise one is solved for.
    pub keep_posterior: bool,
}

/// Rows of a table that took no part in training.
#[derive(Clone)]
pub struct HeldOut {
    /// Which rows, counted from 0.
    pub rows: Vec<usize>,
    /// Their inputs in original units, a column per row.
    pub inputs: Mat<f64>,
    /// Their targets in original units, coded as the schema says.
    pub targets: Vec<f64>,
    /// Their exposures, or empty when all are 1.
    pub exposure: Vec<f64>,
    /// Their sample weights, or empty when all are 1.
    pub weights: Vec<f64>,
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
    fit_table_in(request, &mut Session::new(listener))
}

/// Fits a model to a table within a session, which may interrupt the fit and keeps its state.
///
/// # Errors
///
/// As for [`fit_table`]; `Interrupted` when the session was, `Data` when its checkpoint does not fit.
pub fn fit_table_in(request: &FitRequest<'_>, session: &mut Session<'_>) -> Result<TableFit> {
    let FitRequest { table, options, .. } = *request;
    let (schema, mut notes) = schema_of(request)?;
    let options = resolved(options, &schema, request.start)?;
    options.validate()?;
    let rows = split(table.rows(), request.test_fraction, options.validation_fraction, options.seed)?;
    let options = &options.settled(rows.train.len());
    let data = Columns::of(&schema, table)?;
    let mut train = data.part(rows.train);
    check_training_target(&schema, table, &train.targets)?;
    notes.extend(input_warnings(&schema.input_names(), train.inputs.as_ref()));
    notes.extend(two_values(&train.targets).and_then(|values| two_valued(&schema, values)));
    let scaling = match request.start {
        Some(start) => start.scaling.clone(),
        None => scaling_for(options, &train),
    };
    train.scale(&scaling);
    let held_out = |rows: Vec<usize>| (!rows.is_empty()).then(|| data.part(rows));
    let (validation, test) = (held_out(rows.validation), held_out(rows.test));
    let mark = session.checkpoint().map(|checkpoint| checkpoint.mark());
    if let Some((found, path)) =
        session.checkpoint().and_then(|c| Some((c.finished_fit()?, c.path().display().to_string())))
    {
        return Ok(TableFit { model: FittedModel::from_bytes(&path, &found)?, validation, test });
    }
    let scaled = validation.as_ref().map(|part| part.scaled(&scaling));
    let training = TrainingData {
        train: train.dataset(),
        validation: scaled.as_ref().map(HeldOut::dataset),
        levels: schema.encoding().levels().len(),
    };
    let start =
        request.start.map(|start| start.start(options, Some(train.inputs.as_ref()), request.keep_posterior));
    let mut fitted = fit_arrays_in(training, options, start.as_ref(), session)?;
    // A fit that goes on with another one's posterior owes its start to that one's search.
    if let Some(start) = request.start.filter(|_| request.keep_posterior) {
        fitted.search = start.search.clone();
    }
    let model = FittedModel::of(fitted, (schema, scaling), options, train.targets.len(), notes);
    if let (Some(mark), Some(checkpoint)) = (mark, session.checkpoint()) {
        checkpoint.finish_fit(mark, model.to_bytes()?);
    }
    Ok(TableFit { model, validation, test })
}

/// The columns a model sees, with every row of a table.
pub(super) struct Columns {
    design: Mat<f64>,
    target: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
}

impl Columns {
    pub(super) fn of(schema: &Schema, table: &Table) -> Result<Columns> {
        Ok(Columns {
            design: schema.design(table, UnseenLevels::Error)?,
            target: target_of(schema, table)?,
            exposure: schema.exposure(table)?.unwrap_or_default(),
            weights: schema.weights(table)?.unwrap_or_default(),
        })
    }

    pub(super) fn part(&self, rows: Vec<usize>) -> HeldOut {
        let gather = |values: &[f64]| match values {
            [] => Vec::new(),
            values => rows.iter().map(|&row| values[row]).collect(),
        };
        HeldOut {
            inputs: Mat::from_fn(self.design.nrows(), rows.len(), |input, row| {
                self.design[(input, rows[row])]
            }),
            targets: gather(&self.target),
            exposure: gather(&self.exposure),
            weights: gather(&self.weights),
            rows,
        }
    }
}

/// The options with the likelihood that the start, the user or the kind of target decides, and the prior of a start.
pub(super) fn resolved(
    options: &FitOptions,
    schema: &Schema,
    start: Option<&FittedModel>,
) -> Result<FitOptions> {
    let task = schema.encoding().task();
    if let Some(start) = start.filter(|start| start.model_kind() != options.model) {
        let (known, asked) = (start.model_kind(), options.model);
        return Err(Error::usage(format!("the start model is a {known}, the model asked for is a {asked}"))
            .hint(format!("say --model {known}, or fit without --from")));
    }
    let likelihood = match start {
        Some(start) => with_likelihood_of(&start.model, options)?.likelihood_kind(),
        None => options.likelihood.unwrap_or(LikelihoodKind::default_for(task)),
    };
    let prior = start.map_or(options, |start| &start.options);
    Ok(FitOptions {
        likelihood: Some(likelihood),
        task: Some(task),
        mean: prior.mean,
        prior_mean: prior.prior_mean,
        prior_variance: prior.prior_variance,
        standardize: prior.standardize,
        ..options.clone()
    })
}

/// Inputs are standardised, and targets where location and scale mean nothing to the likelihood.
fn scaling_for(options: &FitOptions, train: &HeldOut) -> Scaling {
    standardised(options, Scaling::standardise(train.inputs.as_ref(), &train.targets))
}

/// The scaling of a fit, `scaling` being what standardises everything.
pub(super) fn standardised(options: &FitOptions, scaling: Scaling) -> Scaling {
    if !options.standardize {
        return Scaling::none(scaling.dims());
    }
    if options.likelihood_kind().scales_target() { scaling } else { scaling.with_original_target() }
}

/// The kind of target that task and likelihood ask for together, if they say anything.
fn asked_kind(options: &FitOptions) -> Result<Option<TargetKind>> {
    let by_task = options.task.map(|task| LikelihoodKind::default_for(task).target_kind());
    let Some(likelihood) = options.likelihood else { return Ok(by_task) };
    let kind = likelihood.target_kind();
    match options.task {
        Some(task) if task != kind.task() => {
            Err(Error::usage(format!("--likelihood {likelihood} is for {}, not {task}", kind.task())))
        }
        _ => Ok(Some(kind)),
    }
}

/// The columns of a fit to a table from scratch, and warnings about them.
pub(crate) fn find_schema(
    table: &Table,
    columns: &SchemaOptions,
    options: &FitOptions,
) -> Result<(Schema, Vec<String>)> {
    Schema::infer(table, &schema_options(columns, options)?)
}

/// Which columns a fit uses and how, with what follows from how it is fitted.
pub(super) fn schema_options(columns: &SchemaOptions, options: &FitOptions) -> Result<SchemaOptions> {
    let kind = asked_kind(options)?.or(columns.target_kind);
    // An exposure makes sense for counts alone, so it says what the target is.
    let kind = kind.or(columns.exposure.as_ref().map(|_| TargetKind::Count));
    // The intercept of a linear model stands for the first category of every column.
    let drop_first = columns.drop_first || options.model == ModelKind::Glm;
    Ok(SchemaOptions { target_kind: kind, drop_first, ..columns.clone() })
}

/// The columns of the fit: those of the start model, or found in the table.
fn schema_of(request: &FitRequest<'_>) -> Result<(Schema, Vec<String>)> {
    let Some(start) = request.start else {
        return find_schema(request.table, request.columns, request.options);
    };
    check_start_target(&start.schema, request.columns)?;
    // The start model's schema was checked against another table: this one's rows and target need checking too.
    start.schema.check_training(request.table)?;
    Ok((start.schema.clone(), Vec::new()))
}

/// Checks that a model to start from predicts what is asked for.
pub(super) fn check_start_target(known: &Schema, columns: &SchemaOptions) -> Result<()> {
    let (known, asked) = (known.target_name(), &columns.target);
    if known == asked {
        return Ok(());
    }
    Err(Error::usage(format!("the start model predicts '{known}', the target asked for is '{asked}'"))
        .hint(format!("say --target {known}, or fit without --from")))
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
    Err(constant_target(table.source(), schema, y.len()))
}

/// The two values of more than two numbers that have no others.
fn two_values(y: &[f64]) -> Option<(f64, f64)> {
    let first = *y.first()?;
    let other = *y.iter().find(|&&value| value != first)?;
    let two = y.len() > 2 && y.iter().all(|&value| value == first || value == other);
    two.then_some((first.min(other), first.max(other)))
}

/// A note when a target of two values is taken for numbers.
pub(super) fn two_valued(schema: &Schema, (low, high): (f64, f64)) -> Option<String> {
    let name = schema.target_name();
    (schema.encoding().kind() == TargetKind::Real).then(|| {
        format!("the target '{name}' takes only the values {low} and {high}; it is treated as a number, not as classes")
    })
}

/// The options with what was left open filled in, as the fit used them.
pub(super) fn as_used(options: &FitOptions, model: &LatentModel) -> FitOptions {
    FitOptions {
        kernel: model.layer.inducing().map_or_else(String::new, |layer| layer.kernel().expression()),
        inducing: model.layer.inducing().map(|layer| layer.z().nrows()),
        q_step: if options.is_collapsed() { options.q_step } else { Some(options.q_schedule()) },
        hyper: Some(options.hyper_mode()),
        epochs: Some(options.epoch_limit()),
        tolerance: Some(options.stopping_tolerance()),
        jitter: model.layer.jitter().unwrap_or(options.jitter),
        ..options.clone()
    }
}

impl HeldOut {
    pub(super) fn scale(&mut self, scaling: &Scaling) {
        scaling.scale_inputs(self.inputs.as_mut());
        scaling.scale_target(&mut self.targets);
    }

    pub(super) fn scaled(&self, scaling: &Scaling) -> HeldOut {
        let mut scaled = self.clone();
        scaled.scale(scaling);
        scaled
    }

    pub(super) fn dataset(&self) -> Dataset<'_> {
        let targets = Targets { y: &self.targets, exposure: &self.exposure, weights: &self.weights };
        Dataset { x: self.inputs.as_ref(), targets }
    }
}

impl FittedModel {
    /// The most rows that [`FittedModel::samples`] draws at together.
    pub const MOST_JOINT_ROWS: usize = 2000;

    /// What was fitted to so many rows of these columns; warnings call inputs by their names, the data's own coming first.
    pub(super) fn of(
        mut fitted: Fitted,
        (schema, scaling): (Schema, Scaling),
        options: &FitOptions,
        rows: usize,
        notes: Vec<String>,
    ) -> FittedModel {
        let names = schema.input_names();
        let warnings = &mut fitted.summary.warnings;
        warnings.iter_mut().for_each(|warning| warning.name_inputs(&names));
        warnings.splice(..0, notes.into_iter().map(Warning::from));
        FittedModel {
            options: as_used(options, &fitted.model),
            schema,
            scaling,
            model: fitted.model,
            q: fitted.q,
            posterior: fitted.posterior,
            summary: fitted.summary,
            rows,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            beta_curve: None,
            search: fitted.search,
        }
    }

    /// The kind of target.
    pub fn task(&self) -> Task {
        self.schema.encoding().task()
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
    pub fn model(&self) -> &LatentModel {
        &self.model
    }

    /// The posterior of the whitened inducing variables.
    pub fn q(&self) -> &Normal {
        &self.q
    }

    /// The predictor on the scale the model sees.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// What f is.
    pub fn model_kind(&self) -> ModelKind {
        match self.model.layer {
            Layer::Inducing(_) => ModelKind::Gp,
            Layer::Linear(_) => ModelKind::Glm,
        }
    }

    /// What the fit did.
    pub fn summary(&self) -> &FitSummary {
        &self.summary
    }

    /// The number of rows it was trained on.
    pub fn training_rows(&self) -> usize {
        self.rows
    }

    /// What β was chosen by, if it was.
    pub fn beta_curve(&self) -> Option<&BetaCurve> {
        self.beta_curve.as_ref()
    }

    /// How the start of the fit was found: inducing inputs that were added until there were enough, or restarts.
    pub fn search(&self) -> &Search {
        &self.search
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
        let exposure = self.schema.exposure(table)?.unwrap_or_default();
        Ok(self.predict_inputs(self.schema.design(table, unseen)?, exposure))
    }

    /// Predicts at inputs in original units (D × N, a column per row of data), with the rows' exposures, or none when all
    /// are 1.
    ///
    /// # Panics
    ///
    /// When `x` does not have one row per input.
    pub fn predict_inputs(&self, mut x: Mat<f64>, exposure: Vec<f64>) -> Predictions<'_> {
        self.scaling.scale_inputs(x.as_mut());
        let latent = self.posterior.marginals(x.as_ref());
        let (scaling, posterior) = (&self.scaling, &self.posterior);
        Predictions { scaling, posterior, latent, exposure, mean_only: self.mean_only() }
    }

    /// Predicts held-out rows.
    pub fn predict_part(&self, part: &HeldOut) -> Predictions<'_> {
        self.predict_inputs(part.inputs.clone(), part.exposure.clone())
    }

    /// Whether it defines a predictive mean but no distribution: square-loss training leaves the covariance of q and the
    /// noise undefined, so log densities, quantiles and coverage are too.
    pub fn mean_only(&self) -> bool {
        self.options.objective == ObjectiveKind::DlmSquare
    }

    /// Predicts a table and compares with its targets, one row at a time.
    ///
    /// # Errors
    ///
    /// As for [`FittedModel::predict`], and when a target is absent, missing, infinite or text.
    pub fn compare(
        &self,
        table: &Table,
        unseen: UnseenLevels,
        visit: &mut dyn FnMut(&Compared),
    ) -> Result<()> {
        let targets = target_of(&self.schema, table)?;
        let predictions = self.predict(table, unseen)?;
        predictions.compare(&targets).iter().for_each(visit);
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

    /// The model to start another fit from, on the scaled inputs `x`, or on more than can be listed.
    pub(super) fn start(
        &self,
        options: &FitOptions,
        x: Option<MatRef<'_, f64>>,
        keep_posterior: bool,
    ) -> Start {
        let mut model = LatentModel { fix_inducing: options.fix_inducing, ..self.model.clone() };
        let mut q = keep_posterior.then(|| self.q.clone());
        if let Layer::Linear(layer) = &self.model.layer {
            // Other rows have another span, which the layer has to be reduced to.
            let other = match x {
                Some(x) => layer.suited_to(x, options.family),
                None => layer.clone().whole(),
            };
            q = q.and_then(|q| layer.carry(&q, &other));
            model.layer = other.into();
        }
        let q = q.and_then(|q| match (q.family(), options.family) {
            (Family::Full, Family::Diagonal) => Some(q.mean_field()),
            (Family::Diagonal, Family::Full) => Normal::new(q.mean().to_vec(), q.cov().to_dense()).ok(),
            _ => Some(q),
        });
        Start { model, q }
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
