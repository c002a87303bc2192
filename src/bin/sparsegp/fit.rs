//! `fit`: a data file to a model, its figures and its files; no maths.

use super::args::{FitArgs, OutputArgs};
use super::evaluate::{Evaluation, evaluate, evaluate_part};
use super::fitting::{self, Fitting};
use super::predict::{BLOCK_ROWS, PredictedColumns, block_rows};
use super::{inspect, interruption, page, summary};
use super::{output, outputs};
use sparsegp::error::spoken;
use sparsegp::files::AtomicFile;
use sparsegp::options::{FitOptions, Hyper};
use sparsegp::report::{self, DataSummary, Document, Facts};
use sparsegp::schema::SplitBy;
use sparsegp::tables::{PredictedRows, PredictionWriter};
use sparsegp::tabular::TableModel;
use sparsegp::{Error, Result};
use std::path::Path;

/// Runs the command.
pub fn run(args: &FitArgs) -> Result<()> {
    let start = args.objective.from.as_deref().map(TableModel::load).transpose()?;
    let options = args.options(start.as_ref().map(|start| start.model_kind()));
    check(args, &options)?;
    set_threads(args.threads)?;
    let targets = args.columns.targets();
    if targets.len() > 1 {
        return outputs::run(args, &targets, &options);
    }
    if args.mixing.is_some() {
        return Err(Error::usage("--mixing is for several targets").hint("name them all: --target a,b"));
    }
    let (fitted, checkpoint) = fitting::fit(args, &options, start.as_ref())?;
    let model = fitted.model();
    let test = match &args.held_out.test {
        Some(path) => {
            Some(evaluate(model, fitted.baselines(), (path, args.columns.delimiter), args.held_out.unseen)?)
        }
        None if args.test_fraction() > 0.0 => Some(fitted.evaluate()?),
        None => None,
    };
    let data = DataSummary {
        rows: fitted.rows() as u64,
        train: model.training_rows() as u64,
        test: test.as_ref().map_or(0, |test| test.rows),
        features: model.schema().dims(),
        target: model.schema().target_name().to_owned(),
    };
    let mut document = Document::new("fit", model, data, &output::dashes);
    for (name, value) in config(args) {
        document = document.with_config(name, value);
    }
    document = document.with_config("shuffle_buffer", fitted.shuffle_buffer());
    if let Some(part) = fitted.validation() {
        document.validation = Some(evaluate_part(model, part)?.report);
    }
    if let Some(test) = &test {
        let (train, baselines) = (test.train.clone(), test.baselines.clone());
        let facts = Facts::of(model, &test.metrics, (train.clone(), baselines.clone()));
        document.next = report::next(&facts).iter().map(|line| spoken(line, &output::dashes)).collect();
        (document.test, document.train, document.baselines) = (Some(test.report.clone()), train, baselines);
    }
    write_files(args, &fitted, &document, test.as_ref())?;
    show(args, model, &document, test.as_ref())?;
    interruption::finish(args, checkpoint);
    Ok(())
}

/// Refuses, before any work, what cannot end well.
fn check(args: &FitArgs, options: &FitOptions) -> Result<()> {
    options.validate()?;
    args.check(options)?;
    fitting::check(args, options)?;
    let output = &args.output;
    if let (true, Some(name)) = (options.is_collapsed(), args.mini_batch_option()) {
        let (objective, hyper) = (options.objective, options.hyper_mode());
        return Err(Error::usage(format!(
            "{name} is for mini-batches and has no effect on --objective {objective} with --hyper {hyper}"
        ))
        .hint(format!("leave {name} out, or use --objective elbo or dlm-log with --hyper joint")));
    }
    if options.hyper == Some(Hyper::Fixed) && options.hyper_optimizer.is_some() {
        return Err(Error::usage("--hyper-optimizer has no effect with --hyper fixed"));
    }
    if let (Some(Hyper::Fixed), Some(name)) = (options.hyper, options.constraints.about_training()) {
        return Err(Error::usage(format!(
            "{name} is about hyper-parameters in training and has no effect with --hyper fixed"
        ))
        .hint("--fix NAME=VALUE sets one; leave --hyper out to train the others"));
    }
    if let Some(path) = &output.predictions {
        if args.held_out.test.is_none() && args.test_fraction() == 0.0 {
            return Err(Error::usage(
                "--predictions are of test rows: add --test FILE or --test-fraction SHARE",
            ));
        }
        if args.held_out.test.as_deref() == Some(Path::new("-")) {
            return Err(Error::usage(
                "--predictions read the test rows again: give --test a file, not standard input",
            ));
        }
        output::check_predictions_name(path)?;
    }
    if let Some(path) = args.held_out.test.as_deref().filter(|path| *path != Path::new("-")) {
        // Its contents need the schema of the fit; that it is there can be said before.
        std::fs::File::open(path)
            .map_err(|error| Error::data(format!("{}: cannot be read: {error}", path.display())))?;
    }
    if args.data == Path::new("-") && args.held_out.test.as_deref() == Some(Path::new("-")) {
        return Err(Error::usage("standard input can be the data or the test rows, not both"));
    }
    if let Some(by) = args.columns.split()
        && args.test_fraction() == 0.0
        && args.held_out.validation_fraction.unwrap_or_default() == 0.0
        && args.objective.betas.is_none()
    {
        let name = if matches!(by, SplitBy::Group(_)) { "--split-by" } else { "--split-time" };
        return Err(Error::usage(format!("{name} has no effect where no rows are held out"))
            .hint("add --test-fraction or --validation-fraction"));
    }
    interruption::check(args)?;
    let outputs = [
        &output.model_out,
        &output.metrics,
        &output.predictions,
        &output.report,
        &args.interruption.checkpoint,
    ];
    let outputs: Vec<&Path> = outputs.into_iter().flatten().map(|path| path.as_path()).collect();
    let inputs = [Some(&args.data), args.held_out.test.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(|path| path.as_path()).collect();
    output::check_paths(&outputs, &inputs)
}

/// Refuses to work on no thread.
pub fn check_threads(threads: usize) -> Result<()> {
    if threads == 0 { Err(Error::usage("--threads is 0, expected at least 1")) } else { Ok(()) }
}

fn set_threads(threads: Option<usize>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    check_threads(threads)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|error| Error::usage(format!("--threads {threads}: {error}")))
}

/// Options that are not the fit's own.
fn config(args: &FitArgs) -> Vec<(&'static str, serde_json::Value)> {
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string()).into();
    vec![
        ("data", args.data.display().to_string().into()),
        ("test", path(&args.held_out.test)),
        ("test_fraction", args.test_fraction().into()),
        ("split_by", args.columns.split_by.clone().into()),
        ("split_time", args.columns.split_time.clone().into()),
        ("from", path(&args.objective.from)),
        ("betas", args.objective.betas.as_ref().map(ToString::to_string).into()),
        ("threads", rayon::current_num_threads().into()),
    ]
}

fn write_files(
    args: &FitArgs,
    fitted: &Fitting,
    document: &Document,
    test: Option<&Evaluation>,
) -> Result<()> {
    let (output, model) = (&args.output, fitted.model());
    if let Some(path) = &output.model_out {
        model.save(path)?;
    }
    if let Some(path) = &output.predictions {
        match &args.held_out.test {
            Some(test) => write_file_predictions(args, model, test, path)?,
            None => write_test_predictions(fitted, path)?,
        }
    }
    if let Some(path) = &output.report {
        let name = args.data.display().to_string();
        let html = page::page(&name, &[page::section(&name, model, test, &where_all(output))]);
        AtomicFile::write_all_to(path, html.as_bytes())?;
    }
    match &output.metrics {
        Some(path) => AtomicFile::write_all_to(path, document.to_json().as_bytes()),
        None => Ok(()),
    }
}

/// The columns of predictions of test rows, which are numbered where they are some rows of the data.
fn test_columns(model: &TableModel, row_numbers: bool) -> PredictedColumns<'_> {
    let columns = PredictedColumns::of(model);
    PredictedColumns { row_numbers, latent: true, log_density: true, ..columns }
}

/// Predictions of the rows of the data that were held out, with the row (counted from 1) that each is of.
fn write_test_predictions(fitted: &Fitting, path: &Path) -> Result<()> {
    let model = fitted.model();
    let columns = test_columns(model, true);
    let mut writer = PredictionWriter::create(path, columns.table(&[]))?;
    fitted.for_each_test(&mut |part| {
        let predictions = model.predict_part(part);
        let mut numbers = Vec::new();
        for (index, &target) in part.targets.iter().enumerate() {
            columns.values(&predictions, index, target, &mut numbers);
        }
        let leading = columns.leading(&predictions, part.rows.iter().map(|&row| row as u64), &[]);
        writer.write_rows(&PredictedRows { leading, numbers, rows: part.targets.len() })
    })?;
    writer.finish()
}

fn write_file_predictions(args: &FitArgs, model: &TableModel, test: &Path, path: &Path) -> Result<()> {
    let columns = test_columns(model, false);
    let mut writer = PredictionWriter::create(path, columns.table(&[]))?.behind()?;
    let how = (args.columns.delimiter, &[][..]);
    for block in model.schema().open_with(test, BLOCK_ROWS, how)?.ahead()? {
        let rows = block_rows((&block?, 0), args.held_out.unseen, &columns, &[])?;
        writer = writer.write_rows(rows)?;
    }
    writer.finish()
}

/// Where all parameters of a fit are to be seen.
pub fn where_all(output: &OutputArgs) -> String {
    match (&output.model_out, &output.metrics) {
        (Some(model), _) => inspect::where_all(model),
        (None, Some(metrics)) => format!("all: {}", metrics.display()),
        (None, None) => "all: with --metrics FILE".to_owned(),
    }
}

/// Prints the outcome: the document, or a summary with the warnings on standard error.
fn show(args: &FitArgs, model: &TableModel, document: &Document, test: Option<&Evaluation>) -> Result<()> {
    if args.output.json {
        return output::print(&document.to_json());
    }
    for warning in &model.summary().warnings {
        output::note(&format!("warning: {}", warning.words_with(&output::dashes)));
    }
    output::print(&summary::text(model, test, &document.next, &where_all(&args.output)))
}
