//! `fit` with several targets: fits a model for each target, and writes their scores and one model file.

use super::args::FitArgs;
use super::evaluate::evaluate;
use super::fit::{self, Outcome};
use super::predict::OutputColumns;
use super::progress::Progress;
use super::{cross, fitting, interruption, output};
use sparsegp::hyper::{Event, Session};
use sparsegp::model::Tried;
use sparsegp::options::FitOptions;
use sparsegp::{Error, Result};
use sparsegp_reports::Evaluation;
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tabular::{
    FitRequest, OutputsFit, OutputsRequest, Sharing, TableModel, TableOutputs, fit_outputs_in,
};
use std::time::Instant;

pub fn run(
    args: &FitArgs,
    mut started: Instant,
    targets: &[String],
    mut options: FitOptions,
    start: Option<&TableOutputs>,
) -> Result<()> {
    if args.shuffle_buffer.is_some() && !args.quiet {
        output::note(
            "note: targets that share a kernel or processes are fitted together, so all rows are read into memory",
        );
    }
    let (table, mut crossed) = (args.columns.read(&args.data)?, Vec::new());
    if let Some(count) = args.cv {
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
    let mut progress = Progress::of_fit(args.data.display().to_string(), args.quiet);
    let mut listener = |event: &Event| progress.show(event);
    let mut session = Session::new(&mut listener)
        .with_interrupt(interruption::flag())
        .with_clock(fitting::clock(options, started));
    let fit = fit_outputs_in(&request, &mut session)?;
    if let Some(last) = fit.models.models().last() {
        progress.end(last.summary());
    }
    if !fit.tried.is_empty() && !args.json {
        output::print(&decided(&fit))?;
    }
    // The models are saved first, because reading the test rows may fail.
    if let Some(path) = &args.model_out {
        fit.models.save(path)?;
    }
    let mut crossed = crossed.into_iter();
    let scores = |model: &TableModel| {
        let (target, known) = (model.schema().target_name().to_owned(), Some(model.schema().clone()));
        let columns = SchemaOptions { target, known, ..args.columns.schema_options() };
        let request = FitRequest::new(&fit.train, &columns, options);
        let baselines = || fitting::baselines(&request, fitting::clock(options, started), model);
        if let Some(path) = &args.test {
            let baselines = baselines();
            return evaluate(model, baselines.as_ref(), path, args.columns.delimiter, args.unseen).map(Some);
        }
        let of_table = |table| Evaluation::of_table(model, baselines().as_ref(), table, args.unseen);
        fit.test.as_ref().map(of_table).transpose()
    };
    let outcome = |model| {
        let test = scores(model)?;
        let alone = test.is_none() && args.wants_page();
        let mut outcome = Outcome::of(args, model, table.rows(), test);
        outcome.rows = alone.then(|| fitting::sample(model, &fit.train)).transpose()?;
        outcome.document = outcome.document.with_config("outputs", fit.sharing.to_string());
        outcome.document.cross_validation = crossed.next();
        Ok(outcome)
    };
    let outcomes = fit.models.models().map(outcome).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.predictions {
        let read = args.test.as_ref().map(|file| args.columns.read(file)).transpose()?;
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

/// Returns an option that is given and applies to the fit of each target by itself; refuses options that work for one target only.
pub fn option_of_one(args: &FitArgs) -> Result<Option<&'static str>> {
    let refused = [("--checkpoint", args.checkpoint.is_some()), ("--resume", args.resume.is_some())];
    if let Some((name, _)) = refused.into_iter().find(|(_, given)| *given) {
        return Err(Error::usage(format!("{name} is for one --target")).hint("fit the targets one by one"));
    }
    let shares = args.sharing().is_some_and(|sharing| sharing != Sharing::Own);
    let given =
        [("--betas", args.betas.is_some()), ("--shuffle-buffer", args.shuffle_buffer.is_some() && !shares)];
    Ok(given.into_iter().find(|(_, given)| *given).map(|(name, _)| name))
}

/// Refuses arguments that cannot be combined with the option `name`, for which several targets are fitted one by one.
pub fn check_one_by_one(args: &FitArgs, name: &str) -> Result<()> {
    if args.sharing().is_some_and(|sharing| sharing != Sharing::Own) {
        return Err(Error::usage(format!("{name} fits targets one by one, so they share nothing"))
            .hint("leave --outputs and --mixing out"));
    }
    if args.cv.is_some() {
        return Err(Error::usage(format!("--cv of several targets cannot be combined with {name}"))
            .hint("give one --target"));
    }
    if args.predictions.is_some() && args.test.is_none() {
        return Err(Error::usage(format!("--predictions of several targets with {name} needs --test FILE")));
    }
    Ok(())
}
