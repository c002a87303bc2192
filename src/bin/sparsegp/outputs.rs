//! `fit` with several targets: a model for each, their figures and one file; no maths.

use super::args::FitArgs;
use super::evaluate::{Evaluation, documents_text, evaluate};
use super::interruption;
use super::output;
use super::predict::OutputColumns;
use super::progress::Progress;
use super::{page, summary};
use sparsegp::error::spoken;
use sparsegp::files::AtomicFile;
use sparsegp::hyper::{Event, Session};
use sparsegp::options::FitOptions;
use sparsegp::report::{self, BesideModel, DataSummary, Document, Facts};
use sparsegp::tables::{PredictionWriter, read_table_with};
use sparsegp::tabular::{Baselines, FitRequest, OutputsFit, OutputsRequest, TableModel, fit_outputs_in};
use sparsegp::{Error, Result};

/// Runs the command.
pub fn run(args: &FitArgs, targets: &[String], options: &FitOptions) -> Result<()> {
    check(args)?;
    let table = read_table_with(&args.data, args.columns.delimiter)?;
    let columns = args.columns.schema_options();
    let request = OutputsRequest {
        table: &table,
        columns: &columns,
        targets,
        options,
        test_fraction: args.test_fraction(),
        mixing: args.mixing,
    };
    let mut progress = Progress::of_fit(args.data.display().to_string(), args.output.quiet);
    let mut listener = |event: &Event| progress.show(event);
    let mut session = Session::new(&mut listener).with_interrupt(interruption::listen()?);
    let fit = fit_outputs_in(&request, &mut session)?;
    if let Some(last) = fit.models.models().last() {
        progress.end(last.summary());
    }
    let mut fitted = Vec::new();
    for model in fit.models.models() {
        fitted.push(Output::of(args, (options, table.rows()), &fit, model)?);
    }
    write_files(args, &fit, &fitted)?;
    show(args, &fitted)
}

/// Refuses what is about one target.
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

/// One output with its figures.
struct Output<'a> {
    model: &'a TableModel,
    test: Option<Evaluation>,
    document: Document,
}

impl<'a> Output<'a> {
    fn of(
        args: &FitArgs,
        (options, rows): (&FitOptions, usize),
        fit: &OutputsFit,
        model: &'a TableModel,
    ) -> Result<Output<'a>> {
        let test = test_figures(args, options, fit, model)?;
        let data = DataSummary {
            rows: rows as u64,
            train: model.training_rows() as u64,
            test: test.as_ref().map_or(0, |test| test.rows),
            features: model.schema().dims(),
            target: model.schema().target_name().to_owned(),
        };
        let mut document = Document::new("fit", model, data, &output::dashes)
            .with_config("data", args.data.display().to_string())
            .with_config("mixing", args.mixing)
            .with_config("test_fraction", args.test_fraction());
        if let Some(test) = &test {
            let (train, baselines) = (test.train.clone(), test.baselines.clone());
            let facts = Facts::of(model, &test.metrics, (train.clone(), baselines.clone()));
            document.next = report::next(&facts).iter().map(|line| spoken(line, &output::dashes)).collect();
            (document.test, document.train, document.baselines) =
                (Some(test.report.clone()), train, baselines);
        }
        Ok(Output { model, test, document })
    }

    fn name(&self) -> &str {
        self.model.schema().target_name()
    }
}

/// The figures of test rows beside those of baselines.
fn test_figures(
    args: &FitArgs,
    options: &FitOptions,
    fit: &OutputsFit,
    model: &TableModel,
) -> Result<Option<Evaluation>> {
    if args.held_out.test.is_none() && fit.test.is_none() {
        return Ok(None);
    }
    let target = model.schema().target_name();
    let columns = sparsegp::schema::SchemaOptions {
        target: target.to_owned(),
        known: Some(model.schema().clone()),
        ..args.columns.schema_options()
    };
    let request = FitRequest {
        table: &fit.train,
        columns: &columns,
        options,
        test_fraction: 0.0,
        start: None,
        keep_posterior: false,
    };
    let mut quiet = |_: &Event| {};
    let mut session = Session::new(&mut quiet).with_interrupt(interruption::wanted());
    // Baselines are a help: nothing ends because there is none.
    let baselines = Baselines::of(&request, model, &mut session).ok();
    if let Some(path) = &args.held_out.test {
        let data = (path.as_path(), args.columns.delimiter);
        return evaluate(model, baselines.as_ref(), data, args.held_out.unseen).map(Some);
    }
    let Some(table) = &fit.test else { return Ok(None) };
    let table = table.with_values(target);
    let mut beside = baselines.as_ref().map(|baselines| BesideModel::new(model, baselines));
    let test = Evaluation::of(model, |push| {
        let mut own = Vec::with_capacity(table.rows());
        model.compare(&table, args.held_out.unseen, &mut |row| own.push(*row))?;
        own.iter().for_each(&mut *push);
        match &mut beside {
            Some(beside) => beside.push_table(&own, &table, args.held_out.unseen),
            None => Ok(()),
        }
    })?;
    Ok(Some(test.beside(baselines.as_ref(), beside)))
}

/// The metrics document with that of every output under its name.
fn document(fitted: &[Output<'_>]) -> String {
    documents_text("fit", &fitted.iter().map(|output| &output.document).collect::<Vec<_>>())
}

fn write_files(args: &FitArgs, fit: &OutputsFit, fitted: &[Output<'_>]) -> Result<()> {
    let files = &args.output;
    if let Some(path) = &files.model_out {
        fit.models.save(path)?;
    }
    if let Some(path) = &files.predictions {
        let file = args.held_out.test.as_ref();
        let read = file.map(|file| read_table_with(file, args.columns.delimiter)).transpose()?;
        let columns = OutputColumns::of_test(fit.models.models());
        let mut writer = PredictionWriter::create(path, columns.table(&[]))?;
        if let Some(table) = read.as_ref().or(fit.test.as_ref()) {
            writer.write_rows(&columns.rows((table, 0), args.held_out.unseen, &[])?)?;
        }
        writer.finish()?;
    }
    if let Some(path) = &files.report {
        let name = args.data.display().to_string();
        let where_all = super::fit::where_all(files);
        let section = |output: &Output<'_>| {
            page::section(output.name(), output.model, output.test.as_ref(), &where_all)
        };
        let sections: Vec<_> = fitted.iter().map(section).collect();
        AtomicFile::write_all_to(path, page::page(&name, &sections).as_bytes())?;
    }
    match &files.metrics {
        Some(path) => AtomicFile::write_all_to(path, document(fitted).as_bytes()),
        None => Ok(()),
    }
}

/// Prints the outcome: the document, or a summary of every output with the warnings on standard error.
fn show(args: &FitArgs, fitted: &[Output<'_>]) -> Result<()> {
    if args.output.json {
        return output::print(&document(fitted));
    }
    let where_all = super::fit::where_all(&args.output);
    for output in fitted {
        for warning in &output.model.summary().warnings {
            let words = warning.words_with(&output::dashes);
            output::note(&format!("warning: {}: {words}", output.name()));
        }
        let text = summary::text(output.model, output.test.as_ref(), &output.document.next, &where_all);
        output::print(&format!("{text}\n"))?;
    }
    Ok(())
}
