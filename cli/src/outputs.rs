//! `fit` with several targets: fits a model for each target, and writes their scores and one model file.

use super::args::FitArgs;
use super::cross;
use super::evaluate::evaluate;
use super::fit::{self, Outcome};
use super::fitting;
use super::interruption;
use super::output;
use super::predict::OutputColumns;
use super::progress::Progress;
use sparsegp::hyper::{Event, Session};
use sparsegp::model::Tried;
use sparsegp::options::FitOptions;
use sparsegp::{Error, Result};
use sparsegp_reports::{Evaluation, KeptRows};
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::read_table_with;
use sparsegp_tables::tabular::{
    FitRequest, OutputsFit, OutputsRequest, Sharing, TableModel, TableOutputs, fit_outputs_in,
};
use std::time::Instant;

/// Runs the command.
pub fn run(
    args: &FitArgs,
    mut started: Instant,
    targets: &[String],
    options: &FitOptions,
    start: Option<&TableOutputs>,
) -> Result<()> {
    if let Some(name) = option_of_one(args)? {
        return one_by_one(args, started, targets, options, start, name);
    }
    if args.shuffle_buffer.is_some() && !args.output.quiet {
        output::note(
            "note: targets that share a kernel or processes are fitted together, so all rows are read into memory",
        );
    }
    let table = read_table_with(&args.data, args.columns.delimiter, &args.columns.missing)?;
    let (mut options, mut crossed) = (options.clone(), Vec::new());
    if let Some(count) = args.held_out.cv {
        crossed = cross::validate(args, (&table, targets), count.into(), &options, started)?;
        started = cross::restarted(&mut options, started);
    }
    let options = &options;
    let columns = args.schema_options();
    let request = OutputsRequest {
        table: &table,
        columns: &columns,
        targets,
        options,
        test_fraction: args.test_fraction(),
        sharing: args.sharing(),
        start,
    };
    let mut progress = Progress::of_fit(args.data.display().to_string(), args.output.quiet);
    let mut listener = |event: &Event| progress.show(event);
    let mut session = Session::new(&mut listener)
        .with_interrupt(interruption::flag())
        .with_clock(fitting::clock(options, started));
    let fit = fit_outputs_in(&request, &mut session)?;
    if let Some(last) = fit.models.models().last() {
        progress.end(last.summary());
    }
    if !fit.tried.is_empty() && !args.output.json {
        output::print(&decided(&fit))?;
    }
    // The models are saved first, because reading the test rows may fail.
    if let Some(path) = &args.output.model_out {
        fit.models.save(path)?;
    }
    let mut crossed = crossed.into_iter();
    let outcome = |model| {
        let test = test_figures(args, started, options, &fit, model)?;
        let alone = test.is_none() && args.output.wants_page();
        let mut outcome = Outcome::of(args, model, table.rows(), test);
        outcome.rows = alone.then(|| rows_of(&fit, model)).transpose()?;
        outcome.document = outcome.document.with_config("outputs", fit.sharing.to_string());
        outcome.document.cross_validation = crossed.next();
        Ok(outcome)
    };
    let outcomes = fit.models.models().map(outcome).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.output.predictions {
        let file = args.held_out.test.as_ref();
        let read = file
            .map(|file| read_table_with(file, args.columns.delimiter, &args.columns.missing))
            .transpose()?;
        let columns =
            OutputColumns { row_numbers: read.is_none(), ..OutputColumns::of_test(fit.models.models()) };
        let numbers = fit.test_rows.iter().map(|&row| row as u64);
        let rows = read.or_else(|| fit.test.clone());
        fit::write_predictions(args, &columns, numbers, rows.into_iter().map(Ok), path)?;
    }
    fit::tell(args, &outcomes)
}

/// Returns the line about the automatic choice of `--outputs`, with the held-out losses and the option that repeats the choice.
fn decided(fit: &OutputsFit) -> String {
    let loss =
        |tried: &Tried| format!("{} {}", tried.value, tried.loss.map_or("failed".to_owned(), output::number));
    let tried: Vec<String> = fit.tried.iter().map(loss).collect();
    let (sharing, tried) = (fit.sharing, tried.join(", "));
    format!(
        "outputs  {sharing} by the log loss of held-out rows ({tried}); the same with --outputs {sharing}\n\n"
    )
}

/// Returns an option that is given and applies to the fit of each target by itself.
///
/// # Errors
///
/// Usage errors for options that work for one target only.
fn option_of_one(args: &FitArgs) -> Result<Option<&'static str>> {
    let interruption = &args.interruption;
    if interruption.checkpoint.is_some() || interruption.resume.is_some() {
        let name = if interruption.checkpoint.is_some() { "--checkpoint" } else { "--resume" };
        return Err(Error::usage(format!("{name} is for one --target")).hint("fit the targets one by one"));
    }
    let shares = args.sharing().is_some_and(|sharing| sharing != Sharing::Own);
    let given = [
        ("--betas", args.objective.betas.is_some()),
        ("--shuffle-buffer", args.shuffle_buffer.is_some() && !shares),
    ];
    Ok(given.into_iter().find(|(_, given)| *given).map(|(name, _)| name))
}

/// Fits the targets one by one, each like a single target, and writes one file of their models.
fn one_by_one(
    args: &FitArgs,
    started: Instant,
    targets: &[String],
    options: &FitOptions,
    start: Option<&TableOutputs>,
    name: &str,
) -> Result<()> {
    if args.sharing().is_some_and(|sharing| sharing != Sharing::Own) {
        return Err(Error::usage(format!("{name} fits targets one by one, so they share nothing"))
            .hint("leave --outputs and --mixing out"));
    }
    if args.held_out.cv.is_some() {
        return Err(Error::usage(format!("--cv of several targets cannot be combined with {name}"))
            .hint("give one --target"));
    }
    let predicted = args.output.predictions.as_ref();
    if predicted.is_some() && args.held_out.test.is_none() {
        return Err(Error::usage(format!("--predictions of several targets with {name} needs --test FILE")));
    }
    // Standard input can be read only once.
    let read = || read_table_with(&args.data, args.columns.delimiter, &args.columns.missing);
    let table = if args.shuffle_buffer.is_none() { Some(read()?) } else { None };
    let one = |target: &String| {
        let own = FitArgs { columns: args.columns.of_target(target, targets), ..args.clone() };
        let start = start.map(|start| start.of_target(target)).transpose()?;
        fitting::fit(&own, table.clone(), started, options, start).map(|(fitting, _)| (own, fitting))
    };
    let fits = targets.iter().map(one).collect::<Result<Vec<_>>>()?;
    let models: Vec<&TableModel> = fits.iter().map(|(_, fitting)| fitting.model()).collect();
    // The models are saved first, because reading the test rows may fail.
    if let Some(path) = &args.output.model_out {
        TableOutputs::save_all(&models, path)?;
    }
    let outcomes =
        fits.iter().map(|(own, fitting)| Outcome::of_fitting(own, fitting)).collect::<Result<Vec<_>>>()?;
    if let (Some(path), Some(file)) = (predicted, &args.held_out.test) {
        let columns = OutputColumns::of_test(models);
        let table = read_table_with(file, args.columns.delimiter, &args.columns.missing);
        fit::write_predictions(args, &columns, 0.., [table], path)?;
    }
    fit::tell(args, &outcomes)
}

/// Returns a sample of the training rows, for a report without test rows.
fn rows_of(fit: &OutputsFit, model: &TableModel) -> Result<KeptRows> {
    let mut rows = KeptRows::new(model);
    rows.push_table(model, &fit.train.with_values(model.schema().target_name()), UnseenLevels::New)?;
    Ok(rows)
}

/// Computes the scores of the test rows, if there are any.
fn test_figures(
    args: &FitArgs,
    started: Instant,
    options: &FitOptions,
    fit: &OutputsFit,
    model: &TableModel,
) -> Result<Option<Evaluation>> {
    let columns = SchemaOptions {
        target: model.schema().target_name().to_owned(),
        known: Some(model.schema().clone()),
        ..args.columns.schema_options()
    };
    let request = FitRequest::new(&fit.train, &columns, options);
    let (file, unseen) = (&args.held_out.test, args.held_out.unseen);
    let any = file.is_some() || fit.test.is_some();
    let baselines =
        any.then(|| fitting::baselines(&request, fitting::clock(request.options, started), model)).flatten();
    if let Some(path) = file {
        return evaluate(model, baselines.as_ref(), path, args.columns.delimiter, unseen).map(Some);
    }
    let of_table = |table| Evaluation::of_table(model, baselines.as_ref(), table, unseen);
    fit.test.as_ref().map(of_table).transpose()
}
