//! `demo`: fits models to data sets embedded in the program, compares elbo and dlm-log, and writes a report.

mod co2;
mod list;
mod tumours;
mod visits;

use super::args::DemoArgs;
use super::progress::Progress;
use super::{output, page};
use sparsegp::options::FitOptions;
use sparsegp::{Error, Result};
use sparsegp_reports::{
    Block, Card, Evaluation, Figure, FitReport, Page, PagePart, Section, TableBlock, reproduce,
};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::Table;
use sparsegp_tables::tabular::{FitRequest, TableFit, TableModel, fit_table};
use std::path::Path;

/// One fit of the demo, with its test scores and figures.
struct Run {
    task: &'static str,
    model: TableModel,
    test: Evaluation,
    /// The figures that the report shows in addition to the figures of every fit.
    figures: Vec<Figure>,
}

/// The fits of the demo to one data set.
struct Example {
    /// The name of the data set.
    name: &'static str,
    /// The kind of target.
    task: &'static str,
    /// The purpose of the example in a few words, as `--list` shows it.
    shows: &'static str,
    run: fn(bool) -> Result<Vec<Run>>,
}

/// The examples, in the order in which the demo runs them.
const EXAMPLES: [Example; 4] = [
    Example {
        name: "co2_monthly",
        task: "regression",
        shows: "a forecast of ten years from trend and seasons (vfe)",
        run: co2::monthly,
    },
    Example {
        name: "co2_weekly",
        task: "regression",
        shows: "a series with gaps, by mini-batches (elbo, dlm-log)",
        run: co2::weekly,
    },
    Example {
        name: "breast_cancer",
        task: "classification",
        shows: "probabilities over two measurements (elbo, dlm-log)",
        run: tumours::run,
    },
    Example {
        name: "doctor_visits",
        task: "counts",
        shows: "counts with many zeros (elbo, dlm-log)",
        run: visits::run,
    },
];

/// Runs the command.
pub fn run(args: &DemoArgs) -> Result<()> {
    if args.list {
        return output::print(&list::text(&EXAMPLES));
    }
    let examples = match &args.name {
        None => &EXAMPLES[..],
        Some(name) => find(name)?,
    };
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::data(format!("{}: cannot be created: {error}", folder.display())))?;
        output::check_paths(&[&folder.join("report.html")], &[])?;
    }
    let mut runs = Vec::new();
    for example in examples {
        runs.extend((example.run)(args.quiet)?);
    }
    output::print(&output::table(&summary(&runs)))?;
    match &args.out {
        Some(folder) => write(folder, examples, &runs),
        None => Ok(()),
    }
}

/// Returns the example with this name.
fn find(name: &str) -> Result<&'static [Example]> {
    const ALL: &[Example] = &EXAMPLES;
    let place = ALL.iter().position(|example| example.name == name);
    place.map(|place| &ALL[place..=place]).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|example| example.name).collect();
        Error::usage(format!("the demo has no data set '{name}', expected one of {}", names.join(", ")))
            .hint("sparsegp demo --list describes them")
    })
}

/// Fits a model to a table and holds out a share of its rows as test rows.
fn fit_to(
    table: &Table,
    target: &str,
    options: &FitOptions,
    test_fraction: f64,
    quiet: bool,
) -> Result<TableFit> {
    let columns = SchemaOptions { target: target.to_owned(), ..SchemaOptions::default() };
    let request =
        FitRequest { table, columns: &columns, options, test_fraction, start: None, keep_posterior: false };
    let what = format!("{} by {}", table.source(), options.objective);
    let mut progress = Progress::of_one_of_several(what, quiet);
    let fitted = fit_table(&request, &mut |event| progress.show(event))?;
    progress.end(fitted.model.summary());
    Ok(fitted)
}

/// Returns a run with the scores of the test rows that its fit held out.
fn tested(task: &'static str, fitted: TableFit) -> Result<Run> {
    let part = fitted.test.ok_or_else(|| Error::fit("the demo has no test rows"))?;
    let test = Evaluation::of_part(&fitted.model, &part);
    Ok(Run { task, model: fitted.model, test, figures: Vec::new() })
}

fn summary(runs: &[Run]) -> Vec<Vec<String>> {
    let header = ["task", "objective", "rows", "M", "test NLL", "error", "95 % coverage", "seconds"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Run { task, model, test, .. } in runs {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let report = &test.report;
        let error = match report.error_rate {
            Some(rate) => format!("{:.1} % wrong", 100.0 * rate),
            None => format!("RMSE {}", figure(report.rmse)),
        };
        rows.push(vec![
            (*task).to_owned(),
            model.options().objective.to_string(),
            model.training_rows().to_string(),
            model.q().dim().to_string(),
            figure(report.nll),
            error,
            figure(report.coverage.as_ref().and_then(|coverage| coverage.central_95)),
            format!("{:.1}", model.summary().seconds),
        ]);
    }
    rows
}

/// Writes the report, and each figure as separate files.
fn write(folder: &Path, examples: &[Example], runs: &[Run]) -> Result<()> {
    let titles: Vec<String> =
        runs.iter().map(|run| format!("{}: {}", run.task, run.model.options().objective)).collect();
    let fit = |(run, title): (&'_ Run, &'_ String)| {
        FitReport {
            title,
            model: &run.model,
            test: Some(&run.test),
            rows: None,
            figures: run.figures.clone(),
            say: &output::dashes,
        }
        .part()
    };
    let table = TableBlock { caption: "Test figures of all fits".to_owned(), rows: summary(runs) };
    let section = Section { title: "All fits".to_owned(), blocks: vec![Block::Table(table)] };
    let seconds: f64 = runs.iter().map(|run| run.model.summary().seconds).sum();
    let time = Card {
        name: "training".to_owned(),
        value: output::duration(seconds),
        beside: format!("fits: {}, data sets: {}", runs.len(), examples.len()),
    };
    let (title, lead) = match examples {
        [only] => (only.name, format!("{}: {}.", only.task, only.shows)),
        _ => (
            "regression, classification, counts",
            "Regression, classification and counts on real data, by the evidence lower bound (elbo), on all data at once (vfe) and by direct loss \
             minimisation (dlm-log)."
                .to_owned(),
        ),
    };
    let first = PagePart { title: "Summary".to_owned(), lead, cards: vec![time], sections: vec![section] };
    let page = Page {
        title: format!("sparsegp demo: {title}"),
        lead: String::new(),
        parts: std::iter::once(first).chain(runs.iter().zip(&titles).map(fit)).collect(),
        end: reproduce(&page::command()),
    };
    let path = folder.join("report.html");
    page::write(&page, Some(&path), Some(folder))?;
    output::note(&format!("written: {}", path.display()));
    Ok(())
}
