//! `demo`: fits models to data sets embedded in the program, compares elbo and dlm-log, and writes a report.
//!
//! For CO2 at Mauna Loa a collapsed bound (vfe) forecasts monthly means; elbo and dlm-log fill gaps in weekly means.

use super::args::DemoArgs;
use super::progress::Progress;
use super::{output, page};
use sparsegp::data::Scaling;
use sparsegp::functions::normal::HALF_95;
use sparsegp::hyper::Constraints;
use sparsegp::options::{FitOptions, ObjectiveKind, StepOptions};
use sparsegp::{Error, Result};
use sparsegp_data::{BREAST_CANCER, CO2_MONTHLY, CO2_WEEKLY, DATA_SETS, DOCTOR_VISITS};
use sparsegp_reports::{
    Band, Block, Card, Evaluation, Figure, FitReport, Page, PagePart, Section, Series, TableBlock, reproduce,
};
use sparsegp_tables::schema::{SchemaOptions, UnseenLevels};
use sparsegp_tables::tables::{Table, read_csv};
use sparsegp_tables::tabular::{FitRequest, TableFit, TableModel, fit_table};
use std::path::Path;

struct Run {
    task: &'static str,
    model: TableModel,
    test: Evaluation,
    /// The figures that the report shows in addition to the figures of every fit.
    figures: Vec<Figure>,
}

struct Example {
    name: &'static str,
    task: &'static str,
    /// The purpose of the example in a few words, as `--list` shows it.
    shows: &'static str,
    run: fn(bool) -> Result<Vec<Run>>,
}

const EXAMPLES: [Example; 4] = [
    Example {
        name: "co2_monthly",
        task: "regression",
        shows: "a forecast of ten years from trend and seasons (vfe)",
        run: co2_monthly,
    },
    Example {
        name: "co2_weekly",
        task: "regression",
        shows: "a series with gaps, by mini-batches (elbo, dlm-log)",
        run: co2_weekly,
    },
    Example {
        name: "breast_cancer",
        task: "classification",
        shows: "probabilities over two measurements (elbo, dlm-log)",
        run: |quiet| {
            let table = read_csv("breast_cancer.csv", BREAST_CANCER.as_bytes())?;
            let (task, options) = ("tumours, malignant or benign", FitOptions::default());
            both(task, &table, "diagnosis", options, 1.0 / 3.0, quiet)
        },
    },
    Example {
        name: "doctor_visits",
        task: "counts",
        shows: "counts with many zeros (elbo, dlm-log)",
        run: |quiet| {
            let table = read_csv("doctor_visits.csv", DOCTOR_VISITS.as_bytes())?;
            let options = FitOptions { inducing: Some(100), ..FitOptions::default() };
            both("visits to a doctor in a year", &table, "visits", options, 0.2, quiet)
        },
    },
];

pub fn run(args: &DemoArgs) -> Result<()> {
    if args.list {
        return output::print(&list());
    }
    let is_wanted = |example: &&Example| args.name.as_ref().is_none_or(|name| name == example.name);
    let examples: Vec<&Example> = EXAMPLES.iter().filter(is_wanted).collect();
    if let ([], Some(name)) = (&examples[..], &args.name) {
        let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        let names = names.join(", ");
        return Err(Error::usage(format!("the demo has no data set '{name}', expected one of {names}"))
            .hint("sparsegp demo --list describes them"));
    }
    if let Some(folder) = &args.out {
        page::check_folder(folder)?;
        output::check_paths(&[&folder.join("report.html")], &[])?;
    }
    let mut runs = Vec::new();
    for example in &examples {
        runs.extend((example.run)(args.quiet)?);
    }
    output::print(&output::table(&summary(&runs)))?;
    match &args.out {
        Some(folder) => write(folder, &examples, &runs),
        None => Ok(()),
    }
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
    let request = FitRequest { test_fraction, ..FitRequest::new(table, &columns, options) };
    let what = format!("{} by {}", table.source(), options.objective);
    let mut progress = Progress::of_one_of_several(what, quiet);
    let fitted = fit_table(&request, &mut |event| progress.show(event))?;
    progress.end(fitted.model.summary());
    Ok(fitted)
}

/// Fits a table with elbo and with dlm-log, and scores both fits on a random share of its rows.
fn both(
    task: &'static str,
    table: &Table,
    target: &str,
    options: FitOptions,
    test_fraction: f64,
    quiet: bool,
) -> Result<Vec<Run>> {
    let run = |objective| {
        let options = FitOptions { objective, ..options.clone() };
        let TableFit { model, test, .. } = fit_to(table, target, &options, test_fraction, quiet)?;
        let part = test.ok_or_else(|| Error::fit("the demo has no test rows"))?;
        let test = Evaluation::of_part(&model, &part);
        Ok(Run { task, model, test, figures: Vec::new() })
    };
    [ObjectiveKind::Elbo, ObjectiveKind::DlmLog].into_iter().map(run).collect()
}

/// The first year of the forecast. Earlier rows are the training set.
const FORECAST_FROM: f64 = 1992.0;

/// The first year in the figure of the forecast. A short range shows single seasons.
const SHOWN_FROM: f64 = 1982.0;

/// Returns options with a kernel for a trend, seasons that change slowly, and irregularities. The period is fixed at a year, which is
/// `1 / scale` on the standardised scale.
fn base_options(table: &Table) -> Result<FitOptions> {
    let years = table.numbers("year")?;
    let x = faer::MatRef::from_row_major_slice(&years, years.len(), 1);
    let year = 1.0 / Scaling::standardise(x, &[]).inputs[0].scale;
    Ok(FitOptions {
        kernel: "linear + rbf + periodic * rbf + rational_quadratic".to_owned(),
        constraints: Constraints::fixing([("kernel.periodic.period", year)])?,
        inducing: Some(200),
        ..FitOptions::default()
    })
}

/// Fits monthly means before 1992 on all rows at once (vfe), and forecasts the later years.
fn co2_monthly(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("co2_monthly.csv", CO2_MONTHLY.as_bytes())?;
    let (before, after) =
        (years(&table, &|year| year < FORECAST_FROM)?, years(&table, &|year| year >= FORECAST_FROM)?);
    let options = FitOptions { objective: ObjectiveKind::Vfe, ..base_options(&before)? };
    let model = fit_to(&before, "co2", &options, 0.0, quiet)?.model;
    let test = Evaluation::of_table(&model, None, &after, UnseenLevels::Error)?;
    let figures = series(&model, &years(&table, &|year| year >= SHOWN_FROM)?)?;
    Ok(vec![Run { task: "CO2 by month, 1992-2001 forecast", model, test, figures }])
}

/// Fills gaps in weekly means by fits with both objectives on mini-batches, without a random fifth of the weeks.
fn co2_weekly(quiet: bool) -> Result<Vec<Run>> {
    let table = read_csv("co2_weekly.csv", CO2_WEEKLY.as_bytes())?;
    let options = FitOptions {
        learning_rate: 0.05,
        fix_inducing: true,
        steps: StepOptions { batch_size: 256, ..StepOptions::default() },
        ..base_options(&table)?
    };
    let mut runs = both("CO2 by week, a fifth left out", &table, "co2", options, 0.2, quiet)?;
    for run in &mut runs {
        run.figures = series(&run.model, &table)?;
    }
    Ok(runs)
}

fn years(table: &Table, wanted: &dyn Fn(f64) -> bool) -> Result<Table> {
    let years = table.numbers("year")?;
    let kept: Vec<usize> = (0..years.len()).filter(|&row| wanted(years[row])).collect();
    Ok(table.take(&kept))
}

fn series(model: &TableModel, table: &Table) -> Result<Vec<Figure>> {
    let (years, values) = (table.numbers("year")?, table.numbers("co2")?);
    let predictions = model.predict(table, UnseenLevels::Error)?;
    let band = |(row, &year): (usize, &f64)| {
        let prediction = predictions.row(row);
        let half = HALF_95 * prediction.variance.sqrt();
        (year, prediction.mean, prediction.mean - half, prediction.mean + half)
    };
    let series = Series {
        axes: ("year".to_owned(), "CO2 (ppmv)".to_owned()),
        bands: vec![Band { name: String::new(), points: years.iter().enumerate().map(band).collect() }],
        observed: years.iter().copied().zip(values.iter().copied()).collect(),
        ..Series::default()
    };
    let caption = "Observations (dots), predictive mean and central 95 % interval, which is wider where the forecast is less certain.";
    Ok(Figure::of("series", "The series", caption, series.figure()).into_iter().collect())
}

fn summary(runs: &[Run]) -> Vec<Vec<String>> {
    let header = ["task", "objective", "rows", "M", "test NLL", "error", "95 % coverage", "seconds"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Run { task, model, test, .. } in runs {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let report = &test.report;
        let wrong = report.error_rate.map(|rate| format!("{:.1} % wrong", 100.0 * rate));
        rows.push(vec![
            (*task).to_owned(),
            model.options().objective.to_string(),
            model.training_rows().to_string(),
            model.q().dim().to_string(),
            figure(report.nll),
            wrong.unwrap_or_else(|| format!("RMSE {}", figure(report.rmse))),
            figure(report.coverage.as_ref().and_then(|coverage| coverage.central_95)),
            format!("{:.1}", model.summary().seconds),
        ]);
    }
    rows
}

fn write(folder: &Path, examples: &[&Example], runs: &[Run]) -> Result<()> {
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
    let table = TableBlock::new("Test figures of all fits", summary(runs));
    let section = Section::new("All fits", vec![Block::Table(table)]);
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
        parts: std::iter::once(first).chain(runs.iter().zip(&titles).map(fit)).collect(),
        end: reproduce(&page::command()),
    };
    let path = folder.join("report.html");
    page::write(&page, Some(&path), Some(folder))?;
    output::note(&format!("written: {}", path.display()));
    Ok(())
}

/// Returns a table of the data sets, and a table of their sources and licences.
fn list() -> String {
    let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let mut about = vec![row(&["name", "rows × columns", "task", "shows"])];
    let mut origins = vec![row(&["name", "licence", "source"])];
    for example in &EXAMPLES {
        let Some(set) = DATA_SETS.iter().find(|set| set.name == example.name) else { continue };
        let (rows, columns) = set.shape();
        about.push(row(&[set.name, &format!("{rows} × {columns}"), example.task, example.shows]));
        origins.push(row(&[set.name, set.licence, set.source]));
    }
    let (about, origins) = (output::table(&about), output::table(&origins));
    format!("{about}\n{origins}\nsparsegp demo NAME fits one of them, sparsegp demo all of them\n")
}
