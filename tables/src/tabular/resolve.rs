//! What the columns of a table determine about a fit, and what the fit determines about the
//! columns.

use super::model::TableModel;
use super::rows::TableRows;
use crate::schema::{Schema, SchemaOptions, followed};
use crate::tables::Table;
use crate::tabular::survey::constant_target;
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use sparsegp::hyper::Session;
use sparsegp::likelihood::{LikelihoodKind, TargetKind, Task};
use sparsegp::options::{FitOptions, ModelKind};
use sparsegp::training::choices::{Chosen, choose};
use sparsegp::training::{TrainingData, asks_for_warps, scaling_of, suited};

/// Returns the options with the likelihood that the start, the user or the kind of target determines, and the prior of a start.
pub(super) fn resolved(
    options: &FitOptions,
    schema: &Schema,
    start: Option<&TableModel>,
) -> Result<FitOptions> {
    let (task, kind) = (schema.encoding().task(), schema.encoding().kind());
    if let Some(start) = start.filter(|start| start.model_kind() != options.model) {
        let (known, asked) = (start.model_kind(), options.model);
        return Err(Error::usage(format!("the start model is a {known}, but ⟨model⟩ is {asked}"))
            .hint(format!("use ⟨model {known}⟩, or fit without ⟨from⟩")));
    }
    // The fit refuses a likelihood other than that of the start model.
    let known = start.map(|start| LikelihoodKind::of(&*start.latent().likelihood));
    let asked = options.likelihood.map(|asked| asked.for_target(kind));
    let likelihood = asked.or(known).unwrap_or(LikelihoodKind::default_of(kind));
    let prior = start.map_or(options, |start| start.options());
    Ok(FitOptions {
        likelihood: Some(likelihood),
        task: Some(task),
        mean: prior.mean,
        prior_mean: prior.prior_mean,
        prior_variance: prior.prior_variance,
        standardize: prior.standardize,
        constraints: options.constraints.clone().called(&schema.encoding().mean_names()),
        ..options.clone()
    })
}

pub(super) fn levels_of(schema: &Schema) -> usize {
    schema.encoding().levels().len()
}

/// Chooses the unset options by short fits to `rows`, unless the fit continues from a start model.
pub(super) fn chosen_for(
    options: &FitOptions,
    start: Option<&TableModel>,
    schema: &Schema,
    rows: &TableRows,
    session: &mut Session<'_>,
) -> Result<Chosen> {
    match start {
        Some(_) => Ok(Chosen::as_asked(options.clone())),
        None => {
            let data = TrainingData { levels: levels_of(schema), ..TrainingData::of(rows.dataset()) };
            choose(data, options, session)
        }
    }
}

/// Returns the scaling of a fit: that of the start model, warps that `rows` determine, or else the scaling `plain`.
pub(super) fn scaling_for(
    options: &FitOptions,
    start: Option<&TableModel>,
    rows: &TableRows,
    plain: impl FnOnce() -> Scaling,
) -> Result<Scaling> {
    if let Some(start) = start {
        return Ok(start.scaling().clone());
    }
    let plain = plain();
    match asks_for_warps(options) || options.offsets > 0 {
        true => scaling_of(options, rows.inputs(), &rows.targets),
        false => Ok(suited(options, plain)),
    }
}

/// Returns the kind of target that task and likelihood require together, if they do. The target determines the number of classes.
fn asked_kind(options: &FitOptions) -> Result<Option<TargetKind>> {
    let task = options.task.filter(|task| *task != Task::Classification);
    let by_task = task.map(|task| LikelihoodKind::default_for(task).target_kind());
    let Some(likelihood) = options.likelihood else { return Ok(by_task) };
    let kind = likelihood.target_kind();
    match options.task {
        Some(task) if task != kind.task() => {
            Err(Error::usage(format!("⟨likelihood {likelihood}⟩ is for {}, not {task}", kind.task())))
        }
        _ => Ok(Some(kind)),
    }
}

/// Finds the columns of a fit to a table from scratch, with warnings about them. Only training rows decide that a column which looks like
/// an identifier is an input.
pub(crate) fn find_schema(
    table: &Table,
    columns: &SchemaOptions,
    options: &FitOptions,
    train: &[usize],
) -> Result<(Schema, Vec<String>)> {
    let mut columns = schema_options(columns, options)?;
    columns.keep.extend(followed(table, &columns.target, train));
    Schema::infer(table, &columns)
}

/// Returns the options of the schema, completed by the options of the fit.
pub(super) fn schema_options(columns: &SchemaOptions, options: &FitOptions) -> Result<SchemaOptions> {
    let kind = asked_kind(options)?.or(columns.target_kind);
    // Trials make the task count one of successes.
    let counts = options.likelihood.is_none() && kind == Some(TargetKind::Count);
    let kind = match kind {
        Some(TargetKind::Count) if counts && columns.trials.is_some() => Some(TargetKind::Trials),
        Some(TargetKind::Real) if columns.noise_std.is_some() => Some(TargetKind::Measured),
        Some(TargetKind::Real) if columns.censored.is_some() && options.likelihood.is_none() => None,
        Some(kind) if columns.censored.is_some() => {
            let known = kind.with_censoring();
            let suits = |own: LikelihoodKind| own.for_target(known).target_kind() == known;
            Some(if options.likelihood.is_none_or(suits) { known } else { kind })
        }
        kind => kind,
    };
    // The intercept of a linear model represents the first category of every column.
    let drop_first = columns.drop_first || options.model == ModelKind::Glm;
    // Objectives with a closed form of q need Gaussian noise.
    let numbers = columns.numbers || !options.has_own_q();
    let classes = columns.classes || options.task == Some(Task::Classification);
    Ok(SchemaOptions { target_kind: kind, numbers, classes, drop_first, ..columns.clone() })
}

/// Checks that a start model predicts the requested target.
pub(super) fn check_start_target(known: &Schema, columns: &SchemaOptions) -> Result<()> {
    let (known, asked) = (known.target_name(), &columns.target);
    if known == asked {
        return Ok(());
    }
    Err(Error::usage(format!("the start model predicts '{known}', but the requested target is '{asked}'"))
        .hint(format!("use ⟨target {known}⟩, or fit without ⟨from⟩")))
}

/// Checks that the target varies in the training rows. The schema has checked the whole column; a part of it may be constant.
pub(super) fn check_training_target(schema: &Schema, table: &Table, y: &[f64]) -> Result<()> {
    if y.iter().any(|value| Some(value) != y.first()) {
        return Ok(());
    }
    Err(constant_target(table.source(), schema, y.len()))
}

/// Returns the two values of a target, if it has exactly two and more than two rows.
pub(super) fn two_values(y: &[f64]) -> Option<(f64, f64)> {
    let first = *y.first()?;
    let other = *y.iter().find(|&&value| value != first)?;
    let two = y.len() > 2 && y.iter().all(|&value| value == first || value == other);
    two.then_some((first.min(other), first.max(other)))
}

/// The smallest share of targets at one end of their range that is noted, and the smallest number of them.
const SHARE_AT_END: f64 = 0.02;
const FEWEST_AT_END: usize = 10;

/// The smallest number of values of a target that is continuous.
const CONTINUOUS: usize = 30;

/// Returns a note if many targets are exactly the largest one, or the smallest, although nearby values are rare, as if a limit had cut them off.
pub(super) fn cut_off(schema: &Schema, y: &[f64]) -> Option<String> {
    let kind = schema.encoding().kind();
    if !matches!(kind, TargetKind::Real | TargetKind::Positive) {
        return None;
    }
    let mut sorted = y.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let runs: Vec<&[f64]> = sorted.chunk_by(|a, b| a == b).collect();
    if runs.len() < CONTINUOUS {
        return None;
    }
    let typical = y.len() / runs.len() + 1;
    let is_cut = |run: &[f64]| {
        run.len() >= FEWEST_AT_END.max(10 * typical) && run.len() as f64 >= SHARE_AT_END * y.len() as f64
    };
    let ends = [(runs[runs.len() - 1], "largest"), (runs[0], "smallest")];
    let (run, which) =
        ends.into_iter().find(|(run, which)| is_cut(run) && (*which == "largest" || run[0] != 0.0))?;
    let (count, all, name, value) = (run.len(), y.len(), schema.target_name(), run[0]);
    let cap =
        if which == "largest" { format!(", or --cap {value} on the command line") } else { String::new() };
    Some(format!(
        "{count} of {all} targets '{name}' are exactly {value}, the {which}; if it is a limit of what was recorded, use ⟨censored⟩{cap}"
    ))
}

/// Returns a note if a target of the two values `low` and `high` is treated as numbers.
pub(super) fn two_valued(schema: &Schema, low: f64, high: f64) -> Option<String> {
    let name = schema.target_name();
    schema.encoding().kind().is_standardised().then(|| {
        format!("the target '{name}' takes only the values {low} and {high}; it is treated as a number, not as classes")
    })
}
