//! `fit`: fits a model to a data file, scores it, and writes its files.

use super::args::FitArgs;
use super::evaluate::{documents_text, evaluate};
use super::fitting::{self, Fitting, Job};
use super::predict::{BLOCK_ROWS, OutputColumns};
use super::{cross, inspect, interruption, output, outputs, page, summary};
use sparsegp::files::AtomicFile;
use sparsegp::options::{FitOptions, check_threads};
use sparsegp::{Error, Result};
use sparsegp_reports::{DataSummary, Document, Evaluation, FitReport, KeptRows, fit_page};
use sparsegp_tables::schema::SplitBy;
use sparsegp_tables::tables::{PredictionWriter, Table};
use sparsegp_tables::tabular::{FitRequest, TableModel, TableOutputs, check_conformal, check_test_file};
use std::path::Path;
use std::time::Instant;

pub fn run(args: &FitArgs) -> Result<()> {
    let started = Instant::now();
    // Before a model to start from is read, which uses the threads.
    set_threads(args.threads)?;
    let start = args.from.as_deref().map(TableOutputs::load).transpose()?;
    let kind = start.as_ref().and_then(|start| start.models().next()).map(|model| model.model_kind());
    let options = args.options(kind)?;
    check(args, &options)?;
    let targets = args.columns.targets(&args.data)?;
    if args.conformal && targets.len() > 1 {
        return Err(Error::usage(format!("--conformal is for one --target, found {}", targets.len()))
            .hint("fit the targets one by one"));
    }
    check_test_columns(args, &targets, start.as_ref())?;
    if targets.len() > 1 {
        match outputs::option_of_one(args)? {
            Some(name) => outputs::check_one_by_one(args, name)?,
            None => return outputs::run(args, started, &targets, options, start.as_ref()),
        }
    } else if args.sharing().is_some() {
        let name = if args.mixing.is_some() { "--mixing" } else { "--outputs" };
        return Err(
            Error::usage(format!("{name} is for several targets")).hint("name them all: --target a,b")
        );
    }
    fit_each(args, started, &targets, options, start.as_ref())
}

/// Checks that the file of test rows has the columns that each target needs, if it can be read twice.
fn check_test_columns(args: &FitArgs, targets: &[String], start: Option<&TableOutputs>) -> Result<()> {
    let Some(test) = args.test.as_deref().filter(|test| *test != Path::new("-")) else {
        return Ok(());
    };
    for target in targets {
        let own = FitArgs { columns: args.columns.of_target(target, targets), ..args.clone() };
        let start = start.map(|start| start.of_target(target)).transpose()?;
        check_test_file(test, &args.data, &own.schema_options(), start.map(TableModel::schema))?;
    }
    Ok(())
}

fn fit_each(
    args: &FitArgs,
    mut started: Instant,
    targets: &[String],
    mut options: FitOptions,
    start: Option<&TableOutputs>,
) -> Result<()> {
    let (cv, several) = (args.cv, targets.len() > 1);
    // A fit reads the data itself, unless they are needed again: standard input can be read only once.
    let again = cv.is_some() || (several && args.shuffle_buffer.is_none());
    let mut table = if again { Some(args.columns.read(&args.data)?) } else { None };
    let mut cross_validation = None;
    if let (Some(count), Some(table)) = (cv, &table) {
        if args.conformal {
            check_conformal(&FitRequest::new(table, &args.schema_options(), &options))?;
        }
        cross_validation = cross::validate(args, (table, targets), count.into(), &options, started)?.pop();
        started = cross::restarted(&mut options, started);
    }
    let fit = |target: &String| {
        let own = FitArgs { columns: args.columns.of_target(target, targets), ..args.clone() };
        let start = start.map(|start| start.of_target(target)).transpose()?;
        let table = if several { table.clone() } else { table.take() };
        let job = Job { args: &own, options: &options, start, started };
        let (fitting, checkpoint) = fitting::fit(job, table)?;
        Ok(((own, fitting), checkpoint))
    };
    let fits = targets.iter().map(fit).collect::<Result<Vec<_>>>()?;
    let (fits, checkpoints): (Vec<_>, Vec<_>) = fits.into_iter().unzip();
    let models: Vec<&TableModel> = fits.iter().map(|(_, fitting)| fitting.model()).collect();
    // The models are saved first, because reading the test rows may fail.
    if let Some(path) = &args.model_out {
        TableOutputs::save_all(&models, path)?;
    }
    let outcomes = fits.iter().map(|(own, fitting)| Outcome::of_fitting(own, fitting));
    let mut outcomes = outcomes.collect::<Result<Vec<_>>>()?;
    if let [only] = &mut outcomes[..] {
        only.document.cross_validation = cross_validation;
    }
    match (&args.predictions, &args.test, &models[..]) {
        (Some(path), Some(test), [model]) => {
            let blocks = model.schema().open_with(test, BLOCK_ROWS, args.columns.delimiter, &[])?;
            write_predictions(args, &OutputColumns::of_test([*model]), 0.., blocks.ahead()?, path)?;
        }
        (Some(path), Some(test), _) => {
            write_predictions(args, &OutputColumns::of_test(models), 0.., [args.columns.read(test)], path)?;
        }
        (Some(path), None, _) => write_test_predictions(args, &fits[0].1, path)?,
        (None, ..) => {}
    }
    checkpoints.into_iter().for_each(|checkpoint| interruption::finish(args, checkpoint));
    tell(args, &outcomes)
}

pub struct Outcome<'a> {
    model: &'a TableModel,
    test: Option<Evaluation>,
    pub document: Document<'a>,
    /// A sample of the rows, with which a report explains the model if there are no test rows.
    pub rows: Option<KeptRows>,
}

impl<'a> Outcome<'a> {
    fn target(&self) -> &str {
        self.model.schema().target_name()
    }

    /// Creates the outcome of a fit of one target, with the scores of its test rows.
    pub fn of_fitting(args: &FitArgs, fitted: &'a Fitting) -> Result<Self> {
        let model = fitted.model();
        let test = match &args.test {
            Some(path) => {
                let (delimiter, unseen) = (args.columns.delimiter, args.unseen);
                Some(evaluate(model, fitted.baselines.as_ref(), path, delimiter, unseen)?)
            }
            None if args.test_fraction() > 0.0 => Some(fitted.evaluate()?),
            None => None,
        };
        let mut outcome = Outcome::of(args, model, fitted.rows, test);
        outcome.rows = fitted.kept.clone();
        outcome.document = outcome.document.with_config("shuffle_buffer", fitted.shuffle_buffer());
        outcome.document.validation = fitted.evaluate_validation().map(|validation| validation.report);
        Ok(outcome)
    }

    pub fn of(args: &FitArgs, model: &'a TableModel, rows: usize, test: Option<Evaluation>) -> Self {
        let test_rows = test.as_ref().map_or(0, |test| test.rows);
        let data = DataSummary { rows: rows as u64, test: test_rows, ..DataSummary::of(model) };
        let mut document = Document::new("fit", model, data, &output::dashes);
        for (name, value) in config(args) {
            document = document.with_config(name, value);
        }
        if let Some(test) = &test {
            document.next = test.next(model, &output::dashes).into_iter().map(|next| next.text).collect();
            (document.test, document.train, document.baselines) =
                (Some(test.report.clone()), test.train.clone(), test.baselines.clone());
        }
        Outcome { model, test, document, rows: None }
    }
}

/// Validates the options of a fit, and refuses options without an effect.
fn check_options(args: &FitArgs, options: &FitOptions) -> Result<()> {
    options.validate()?;
    args.check(options)?;
    fitting::check(args, options)?;
    args.given.check_training(options)
}

/// Validates the arguments before any work.
fn check(args: &FitArgs, options: &FitOptions) -> Result<()> {
    check_options(args, options)?;
    for contender in &args.contenders {
        check_options(&contender.args, &contender.args.options(None)?)?;
    }
    let from_input = args.test.as_deref() == Some(Path::new("-"));
    if let Some(path) = &args.predictions {
        if args.test.is_none() && args.test_fraction() == 0.0 {
            return Err(Error::usage(
                "--predictions saves predictions of test rows: add --test FILE or --test-fraction SHARE",
            ));
        }
        if from_input {
            return Err(Error::usage(
                "--predictions reads the test rows again: give --test a file, not standard input",
            ));
        }
        output::check_predictions_name(path, ".csv or .parquet")?;
    }
    if args.data == Path::new("-") && from_input {
        return Err(Error::usage("standard input can be the data or the test rows, not both"));
    }
    if let Some(by) = args.columns.split()
        && args.test_fraction() == 0.0
        && args.cv.is_none()
        && !args.conformal
        && options.validation_fraction == 0.0
        && args.betas.is_none()
    {
        let name = if matches!(by, SplitBy::Group(_)) { "--split-by" } else { "--split-time" };
        return Err(Error::usage(format!("{name} has no effect if no rows are held out"))
            .hint("add --test-fraction, --validation-fraction, --cv or --conformal"));
    }
    interruption::check(args)?;
    let outputs = [&args.model_out, &args.metrics, &args.predictions, &args.report, &args.checkpoint];
    args.plots.as_deref().map(page::check_folder).transpose()?;
    let outputs: Vec<_> = outputs.into_iter().flatten().collect();
    let inputs: Vec<&Path> = std::iter::once(args.data.as_path()).chain(args.test.as_deref()).collect();
    output::check_paths(&outputs, &inputs)
}

fn set_threads(threads: Option<usize>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    check_threads(threads)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
    pool.map_err(|error| Error::usage(format!("--threads {threads}: {error}")))
}

/// Returns the arguments that the metrics document records in addition to `FitOptions`.
fn config(args: &FitArgs) -> Vec<(&'static str, serde_json::Value)> {
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string()).into();
    vec![
        ("data", args.data.display().to_string().into()),
        ("test", path(&args.test)),
        ("test_fraction", args.test_fraction().into()),
        ("split_by", args.columns.split_by.clone().into()),
        ("split_time", args.columns.split_time.clone().into()),
        ("from", path(&args.from)),
        ("betas", args.betas.as_ref().map(ToString::to_string).into()),
        ("mixing", args.mixing.into()),
        ("conformal", args.conformal.into()),
        ("threads", rayon::current_num_threads().into()),
    ]
}

/// Writes the metrics document, prints the summary, and writes the report. The report comes last because it takes the longest; Ctrl-C skips
/// it.
pub fn tell(args: &FitArgs, outcomes: &[Outcome<'_>]) -> Result<()> {
    if let Some(path) = &args.metrics {
        AtomicFile::write_all_to(path, json(outcomes).as_bytes())?;
    }
    show(args, outcomes)?;
    if !args.wants_page() {
        return Ok(());
    }
    args.note("report: explaining predictions and drawing figures; Ctrl-C skips it");
    let of_outcome = |outcome| FitReport {
        title: Outcome::target(outcome),
        model: outcome.model,
        test: outcome.test.as_ref(),
        rows: outcome.rows.as_ref(),
        figures: Vec::new(),
        say: &output::dashes,
    };
    let fits: Vec<FitReport<'_>> = outcomes.iter().map(of_outcome).collect();
    let targets: Vec<&str> = outcomes.iter().map(Outcome::target).collect();
    let title = format!("{} from {}", targets.join(", "), args.data.display());
    let page = fit_page(&title, &fits, &page::command());
    page::write(&page, args.report.as_deref(), args.plots.as_deref())
}

fn json(outcomes: &[Outcome<'_>]) -> String {
    documents_text("fit", &outcomes.iter().map(|outcome| &outcome.document).collect::<Vec<_>>())
}

/// Writes the predictions of the held-out rows, with the number of each row in the data, counted from 1.
fn write_test_predictions(args: &FitArgs, fitted: &Fitting, path: &Path) -> Result<()> {
    let model = fitted.model();
    let columns = OutputColumns { row_numbers: true, ..OutputColumns::of_test([model]) };
    let mut writer = PredictionWriter::create(path, columns.table(&[]).csv_safe(args.csv_safe))?;
    fitted.for_each_test(&mut |part| {
        let rows = columns.outputs[0].rows(&model.predict_part(part), Some(&part.targets), &[]);
        writer.write_rows(&columns.joined(vec![rows], part.rows.iter().map(|&row| row as u64), &[]))
    })?;
    writer.finish()
}

/// Writes the predictions of test rows, block by block. `numbers` has the indices of the rows, from 0.
pub fn write_predictions(
    args: &FitArgs,
    columns: &OutputColumns<'_>,
    mut numbers: impl Iterator<Item = u64>,
    blocks: impl IntoIterator<Item = Result<Table>>,
    path: &Path,
) -> Result<()> {
    let mut writer = PredictionWriter::create(path, columns.table(&[]).csv_safe(args.csv_safe))?.behind()?;
    for block in blocks {
        writer = writer.write_rows(columns.rows(&block?, &mut numbers, args.unseen, &[])?)?;
    }
    writer.finish()
}

/// Returns a note on where to find the parameters that the summary leaves out.
fn where_all(args: &FitArgs) -> String {
    match (&args.model_out, &args.metrics) {
        (Some(model), _) => inspect::where_all(model),
        (None, Some(metrics)) => format!("all: {}", metrics.display()),
        (None, None) => "all: with --metrics FILE".to_owned(),
    }
}

/// Prints the outcome: the document, or a summary of every output with the warnings on standard error.
fn show(args: &FitArgs, outcomes: &[Outcome<'_>]) -> Result<()> {
    if args.json {
        return output::print(&json(outcomes));
    }
    let several = outcomes.len() > 1;
    for Outcome { model, test, document, .. } in outcomes {
        output::warn(&model.summary().warnings, model.schema().target_name(), several);
        let end = if several { "\n" } else { "" };
        output::print(&(summary::text(model, document, test.as_ref(), &where_all(args)) + end))?;
    }
    Ok(())
}
