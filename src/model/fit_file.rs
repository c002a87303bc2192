//! Fits to files that stay on disk: what is kept in memory, training through a shuffle buffer, and how it ends; no tables.

use super::failure::failed_start;
use super::fit::{
    Fitted, Start, Trained, TrainingData, Valued, batch_model, better_of, finish, free_parameters, limits,
    polish_steps, ready, solves_in_one_step, train_on_batches,
};
use super::fitted::{
    Columns, FittedModel, HeldOut, check_start_target, resolved, schema_options, standardised, two_valued,
};
use super::latent::LatentModel;
use super::options::{FitOptions, Hyper, ModelKind, ObjectiveKind};
use super::solve::{SolveLimits, Sweep, full_objective, solve_q};
use super::start::{WARM_ROWS, initial_model, warm_start};
use super::streamed::{DataFile, FileBatches, FileRows};
use crate::collapsed::Dataset;
use crate::data::statistics::{Sample, Survey, Surveyed, survey};
use crate::data::{Ahead, Role, Roles, SchemaOptions};
use crate::error::{Error, Result};
use crate::hyper::{Session, StopReason};
use crate::latent::Layer;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the rows in a shuffle buffer whose size was not given.
const BUFFER_BYTES: usize = 256 << 20;

/// Training rows in memory that the objective is estimated on.
const CHECK_ROWS: usize = 20_480;

/// Validation rows in memory at most.
const VALIDATION_ROWS: usize = 20_480;

/// Rows in memory for each inducing input that is chosen among them.
const ROWS_PER_INDUCING: usize = 20;

/// What to fit to: a file whose training rows are read again in every epoch.
#[derive(Clone, Copy)]
pub struct FileFitRequest<'a> {
    /// The file, not standard input.
    pub path: &'a Path,
    /// Which columns to use; with `start` only the target is looked at, the rest is the start model's.
    pub columns: &'a SchemaOptions,
    /// How to fit.
    pub options: &'a FitOptions,
    /// The share of the rows held out for testing.
    pub test_fraction: f64,
    /// A model to start from: its columns, scaling, kernel, hyper-parameters and inducing inputs.
    pub start: Option<&'a FittedModel>,
    /// Rows that are shuffled in memory; 256 MiB of them when absent.
    pub buffer_rows: Option<usize>,
}

/// What training from a file keeps in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Rows of the file that are trained on.
    pub training_rows: usize,
    /// Rows of the shuffle buffer.
    pub buffer_rows: usize,
    /// The most rows in memory at a time: the buffer, blocks being read, batches under way and samples.
    pub most_rows: usize,
    /// The most bytes that the numbers of all these rows take.
    pub most_bytes: usize,
}

/// A fitted model, with the way to the rows of the file that were held out.
pub struct FileFit {
    /// The model.
    pub model: FittedModel,
    /// The validation rows, where some were asked for: a sample of them if they are more than 20,480.
    pub validation: Option<HeldOut>,
    /// The number of rows of the file.
    pub rows: usize,
    /// What was kept in memory.
    pub plan: MemoryPlan,
    file: Arc<DataFile>,
}

impl FileFit {
    /// The test rows, read again block by block.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened again; items are errors when it cannot be read to its end or has changed.
    pub fn test_parts(&self) -> Result<impl Iterator<Item = Result<HeldOut>> + use<>> {
        let mut parts = self.file.parts(Role::Test, None)?;
        Ahead::new(1, move || parts.next())
    }
}

/// Refuses a file that cannot be read in every epoch, a buffer without rows, and what cannot be fitted without all rows in
/// memory.
///
/// # Errors
///
/// Usage errors that name the option; data errors when the file cannot be looked at.
pub fn check_file_fit(path: &Path, options: &FitOptions, buffer_rows: Option<usize>) -> Result<()> {
    if buffer_rows == Some(0) {
        return Err(Error::usage("--shuffle-buffer is 0, expected at least 1 row"));
    }
    check_without_table(options)?;
    check_readable_twice(path)
}

/// Refuses what cannot be fitted without all rows in memory.
fn check_without_table(options: &FitOptions) -> Result<()> {
    if options.is_collapsed() {
        let asked = match options.hyper {
            Some(hyper) if options.has_own_q() => format!("--hyper {hyper}"),
            _ => format!("--objective {}", options.objective),
        };
        return Err(Error::usage(format!(
            "{asked} needs all rows in memory and cannot be trained through --shuffle-buffer"
        ))
        .hint("use --objective elbo or dlm-log with --hyper joint"));
    }
    let whole = [
        ("--hyper alternating", options.hyper == Some(Hyper::Alternating)),
        ("--inducing auto", options.growth.is_some()),
        ("--restarts", options.restarts > 1),
    ];
    if let Some((name, _)) = whole.into_iter().find(|(_, asked)| *asked) {
        return Err(Error::usage(format!(
            "{name} needs all rows in memory and cannot be used with --shuffle-buffer"
        ))
        .hint("find what it finds on a part of the rows, and start from that model with --from"));
    }
    if options.batch_schedule.is_some() {
        return Err(Error::usage(
            "--batch-schedule needs all rows in memory: batches read through --shuffle-buffer have one size",
        )
        .hint("give --batch-size instead"));
    }
    Ok(())
}

/// Fits a model to a file without holding its rows in memory. `planned` hears what will be in memory before training
/// starts, `session` one record per epoch.
///
/// One pass finds columns and scaling, checks every row and draws samples: one to choose inducing inputs and
/// hyper-parameters to start from, one of 20,480 rows to estimate the objective on. Test and validation rows are chosen
/// by a hash of the seed and their place. Training then reads the file once an epoch.
///
/// # Errors
///
/// As for [`fit_table`](super::fit_table), and when reading fails or the file changes on the way.
pub fn fit_file(
    request: &FileFitRequest<'_>,
    planned: &mut dyn FnMut(&MemoryPlan),
    session: &mut Session<'_>,
) -> Result<FileFit> {
    check_file_fit(request.path, request.options, request.buffer_rows)?;
    let surveyed = survey_for(request)?;
    let options = &options_for(request, &surveyed)?;
    options.validate()?;
    let levels = surveyed.schema.encoding().levels().len();
    let Surveyed { schema, mut warnings, two_values, rows, train, validation, groups, .. } = surveyed;
    warnings.extend(two_values.and_then(|values| two_valued(&schema, values)));
    let scaling = match request.start {
        Some(start) => start.scaling.clone(),
        None => standardised(options, surveyed.scaling),
    };
    let part = |sample: Sample| -> Result<HeldOut> {
        let mut part = Columns::of(&schema, &sample.table)?.part((0..sample.rows.len()).collect());
        part.rows = sample.rows;
        Ok(part)
    };
    let (mut start_rows, mut check_rows) = (part(surveyed.start)?, part(surveyed.check)?);
    start_rows.scale(&scaling);
    check_rows.scale(&scaling);
    let held_out = surveyed.validation_sample.map(part).transpose()?;
    let scaled = held_out.as_ref().map(|part| part.scaled(&scaling));
    if held_out.as_ref().is_some_and(|part| part.targets.len() < validation) {
        warnings.push(format!("of {validation} validation rows, {VALIDATION_ROWS} random ones are scored"));
    }
    let roles = roles_for(request)?;
    let path = request.path.to_owned();
    let file = Arc::new(DataFile { path, schema, scaling, roles, groups, rows, train });
    let samples = Samples {
        start: start_rows.dataset(),
        check: check_rows.dataset(),
        validation: scaled.as_ref().map(HeldOut::dataset),
        levels,
    };
    let plan = plan_memory(&file, &samples, request.buffer_rows, options);
    planned(&plan);
    let fitted = train_on_file((&file, &samples), plan.buffer_rows, options, request.start, session)?;
    let columns = (file.schema.clone(), file.scaling.clone());
    let model = FittedModel::of(fitted, columns, options, train, warnings);
    Ok(FileFit { model, validation: held_out, rows, plan, file })
}

/// Refuses what ends after one reading.
fn check_readable_twice(path: &Path) -> Result<()> {
    let source = path.display();
    if path == Path::new("-") {
        return Err(Error::usage(
            "standard input cannot be read again in every epoch: --shuffle-buffer needs a file",
        ));
    }
    let metadata = path.metadata();
    let metadata = metadata.map_err(|error| Error::data(format!("{source}: cannot be read: {error}")))?;
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{source}: is no ordinary file, which --shuffle-buffer reads again in every epoch"
    )))
}

fn roles_for(request: &FileFitRequest<'_>) -> Result<Roles> {
    Roles::new(request.test_fraction, request.options.validation_fraction, request.options.seed)
}

fn survey_for(request: &FileFitRequest<'_>) -> Result<Surveyed> {
    if let Some(start) = request.start {
        check_start_target(&start.schema, request.columns)?;
    }
    let inducing = request.options.inducing.unwrap_or_default();
    survey(
        request.path,
        &Survey {
            columns: &schema_options(request.columns, request.options)?,
            known: request.start.map(|start| &start.schema),
            roles: roles_for(request)?,
            start_rows: WARM_ROWS.max(inducing.saturating_mul(ROWS_PER_INDUCING)),
            check_rows: CHECK_ROWS,
            validation_rows: VALIDATION_ROWS,
            seed: request.options.seed,
        },
    )
}

/// The options with what follows from the target and the number of rows.
fn options_for(request: &FileFitRequest<'_>, surveyed: &Surveyed) -> Result<FitOptions> {
    let options = resolved(request.options, &surveyed.schema, request.start)?;
    let sparse = options.model == ModelKind::Gp;
    let inducing = if sparse { Some(options.inducing_for(surveyed.train)) } else { options.inducing };
    Ok(FitOptions { inducing, ..options }.by_batches())
}

/// The rows in memory, on the scale the model sees.
struct Samples<'a> {
    /// Training rows to find a start on.
    start: Dataset<'a>,
    /// Training rows to estimate the objective on; all of them if they are no more than 20,480.
    check: Dataset<'a>,
    validation: Option<Dataset<'a>>,
    levels: usize,
}

fn plan_memory(
    file: &DataFile,
    samples: &Samples<'_>,
    buffer_rows: Option<usize>,
    options: &FitOptions,
) -> MemoryPlan {
    let row_bytes = file.row_width() * size_of::<f64>();
    let buffer = buffer_rows.unwrap_or((BUFFER_BYTES / row_bytes).max(1)).min(file.train);
    let batch = options.batch_size.min(file.train);
    // Validation rows are kept in their own units too.
    let validation = 2 * samples.validation.map_or(0, |rows| rows.len());
    let kept = samples.start.len() + samples.check.len() + validation;
    let most_rows = DataFile::most_rows(buffer, batch) + kept;
    MemoryPlan {
        training_rows: file.train,
        buffer_rows: buffer,
        most_rows,
        most_bytes: most_rows * row_bytes,
    }
}

fn train_on_file(
    (file, samples): (&Arc<DataFile>, &Samples<'_>),
    buffer: usize,
    options: &FitOptions,
    from: Option<&FittedModel>,
    session: &mut Session<'_>,
) -> Result<Fitted> {
    let model = match from {
        Some(from) => from.start(options, None, false).model,
        None => whole(initial_model(samples.start, options, samples.levels)?),
    };
    let start = Start { model: ready(model, options, samples.start)?, q: None };
    let mut monitor = session.monitor(limits(options));
    let (model, q, counts) = warm_start(start, from.is_none(), samples.start, options, &mut monitor)?;
    monitor.check()?;
    let (n, batch) = (file.train, options.batch_size.min(file.train));
    let mut svgp = batch_model(model, q, options, batch);
    let free = free_parameters(&svgp, options);
    let plan = options.inference(n, &svgp.model);
    // Of a large file, the objective is compared before and after training on the same sample, which no start was found on.
    let check = Sweep::of(&samples.check, batch).standing_for(n);
    svgp.set_q(plan.rule.admit(svgp.q().clone()));
    let first = full_objective(&mut svgp, check)?;
    let before: Valued = (svgp.model.clone(), svgp.q().clone(), first);
    let source = Box::new(FileBatches::new(Arc::clone(file), batch, buffer, plan.seed)?);
    let source = (source as Box<_>, samples.validation);
    let (mut svgp, mut outcome, taken_back) =
        train_on_batches((svgp, free.clone(), plan), source, options, &mut monitor)?;
    let sampling = svgp.objective().estimator().is_sampled().then(|| svgp.estimator_counts());
    let rows = FileRows(Arc::clone(file));
    let complete = samples.check.len() == n;
    let passes = match complete {
        true => usize::MAX,
        false => passes_left(outcome.iterations / n.div_ceil(batch), outcome.reason),
    };
    let useful = if solves_in_one_step(&svgp, options) { 1 } else { polish_steps(n) };
    // Each step takes a pass, after a first one.
    let steps = if options.polishes() { useful.min(passes.saturating_sub(1)) } else { 0 };
    let mut exact = None;
    if steps > 0 {
        let all = if complete { Sweep::of(&samples.check, batch) } else { Sweep::of(&rows, batch) };
        let limits = SolveLimits { steps, tolerance: 0.1 * options.stopping_tolerance() };
        let (value, solved) = solve_q(&mut svgp, all, options.q_guard, limits, None)?;
        outcome.rollbacks += solved.rollbacks;
        exact = Some(value);
    }
    let last = full_objective(&mut svgp, check)?;
    let (model, q) = svgp.into_parts();
    let (model, q, estimate) = better_of((model, q, last), Some(before), (&free, n), &mut outcome);
    // A start that was kept was not summed over all rows.
    let exact = if complete { Some(estimate) } else { exact.filter(|_| estimate == last) };
    let value = exact.unwrap_or(estimate);
    if !value.is_finite() {
        return Err(failed_start());
    }
    outcome.rollbacks += counts.rollbacks;
    let has_elbo = options.beta == 1.0 && options.objective == ObjectiveKind::Elbo;
    let trained = Trained {
        model,
        q,
        value,
        elbo: exact.filter(|_| has_elbo).map(|value| -value),
        upper: None,
        sampling,
        outcome,
        taken_back,
        estimated_on: exact.is_none().then_some(samples.check.len()),
    };
    let data = TrainingData { train: samples.check, validation: samples.validation, levels: samples.levels };
    Ok(finish(trained, data, n, options, &monitor))
}

/// A linear model of the dimension of its coefficients: a sample does not span what all rows do.
fn whole(model: LatentModel) -> LatentModel {
    match model.layer {
        Layer::Linear(layer) => LatentModel { layer: layer.whole().into(), ..model },
        _ => model,
    }
}

/// The passes over the file that may end a fit of so many whole epochs: none where a limit ended it, and no more than there
/// were epochs.
fn passes_left(epochs: usize, reason: StopReason) -> usize {
    if matches!(reason, StopReason::MaxSteps | StopReason::MaxSeconds) { 0 } else { epochs }
}
