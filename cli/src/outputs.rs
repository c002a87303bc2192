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
use sparsegp_tables::tabular::{FitRequest, OutputsFit, OutputsRequest, TableModel, fit_outputs_in};
use std::time::Instant;

/// Runs the command.
pub fn run(args: &FitArgs, mut started: Instant, targets: &[String], options: &FitOptions) -> Result<()> {
    check(args)?;
    let table = read_table_with(&args.data, &args.columns.read_options())?;
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
        let read = file.map(|file| read_table_with(file, &args.columns.read_options())).transpose()?;
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

/// Refuses options that work for one target only.
fn check(args: &FitArgs) -> Result<()> {
    let given = [
        ("--from", args.objective.from.is_some()),
        ("--betas", args.objective.betas.is_some()),
        ("--shuffle-buffer", args.shuffle_buffer.is_some()),
        ("--checkpoint", args.interruption.checkpoint.is_some()),
        ("--resume", args.interruption.resume.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            Err(Error::usage(format!("{name} is for one --target")).hint("fit the targets one by one"))
        }
        None => Ok(()),
    }
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
