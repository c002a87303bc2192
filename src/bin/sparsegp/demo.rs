//! `demo`: a forecast and a mini-batch fit of the Mauna Loa CO2 series, embedded in the program; no other data.

use super::args::DemoArgs;
use super::evaluate::Evaluation;
use super::progress::Progress;
use super::{fit, output, page};
use sparsegp::data::column::Column;
use sparsegp::data::{
    AtomicFile, NamedColumn, Scaling, SchemaOptions, Table, TargetKind, UnseenLevels, read_csv,
};
use sparsegp::metrics::RegressionMetrics;
use sparsegp::model::{FitOptions, FitRequest, FittedModel, Objective, fit_table};
use sparsegp::report::{Observed, Section, Series};
use sparsegp::{Error, Result};
use std::path::Path;

const MONTHLY: &str = include_str!("../../../examples/data/co2_monthly.csv");
const WEEKLY: &str = include_str!("../../../examples/data/co2_weekly.csv");

/// The forecast is made from what was known before this year.
const FORECAST_FROM: f64 = 1992.0;

/// The figure of the forecast begins here, so that single seasons can be seen.
const SHOWN_FROM: f64 = 1982.0;

/// Half the width of a central 95 % interval, in standard deviations.
const HALF_95: f64 = 1.959963984540054;

/// One fit of the demo, with what the table and the report show of it.
struct Task {
    name: &'static str,
    model: FittedModel,
    test: Evaluation,
    series: Series,
}

/// Runs the command.
pub fn run(args: &DemoArgs) -> Result<()> {
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::data(format!("{}: cannot be made: {error}", folder.display())))?;
        output::check_paths(&[&folder.join("report.html")], &[])?;
    }
    let tasks = [forecast(args.quiet)?, interpolation(args.quiet)?];
    output::print(&output::table(&summary(&tasks)))?;
    match &args.out {
        Some(folder) => write(folder, &tasks),
        None => Ok(()),
    }
}

/// Trend, seasons that change slowly, and irregularities. The length of a year is known, so it is not trained; on the
/// scale the model sees it is `1 / scale`.
fn base_options(table: &Table) -> Result<FitOptions> {
    let years = table.numbers("year")?;
    let x = faer::MatRef::from_row_major_slice(&years, 1, years.len());
    let year = 1.0 / Scaling::standardise(x, &[]).inputs[0].scale;
    Ok(FitOptions {
        kernel: "linear + rbf + periodic * rbf + rational_quadratic".to_owned(),
        fix: vec![("kernel.periodic.period".to_owned(), year)],
        inducing: Some(200),
        ..FitOptions::default()
    })
}

/// Monthly means: all data at once (vfe), the years from 1992 on forecast.
fn forecast(quiet: bool) -> Result<Task> {
    let table = read_csv("co2_monthly.csv", MONTHLY.as_bytes())?;
    let (before, after) =
        (years(&table, &|year| year < FORECAST_FROM)?, years(&table, &|year| year >= FORECAST_FROM)?);
    let options = FitOptions { objective: Objective::Vfe, ..base_options(&before)? };
    let fitted = fit(&before, &options, 0.0, quiet)?;
    let (mut metrics, mut observed) = (RegressionMetrics::new(), Observed::default());
    fitted.model.compare(&after, UnseenLevels::Error, &mut |row| {
        metrics.push(row);
        observed.push(row);
    })?;
    let test = Evaluation { rows: metrics.rows(), report: metrics.report(), observed };
    let series = series(&fitted.model, &years(&table, &|year| year >= SHOWN_FROM)?)?;
    Ok(Task { name: "CO2 by month, 1992-2001 forecast", model: fitted.model, test, series })
}

/// Weekly means: mini-batches (elbo), a fifth of the weeks left out at random.
fn interpolation(quiet: bool) -> Result<Task> {
    let table = read_csv("co2_weekly.csv", WEEKLY.as_bytes())?;
    let options =
        FitOptions { batch_size: 256, learning_rate: 0.05, fix_inducing: true, ..base_options(&table)? };
    let fitted = fit(&table, &options, 0.2, quiet)?;
    let part = fitted.test.ok_or_else(|| Error::fit("the demo has no test rows"))?;
    let test = fit::evaluate_part(&fitted.model, &part);
    let series = series(&fitted.model, &table)?;
    Ok(Task { name: "CO2 by week, a fifth left out", model: fitted.model, test, series })
}

fn fit(
    table: &Table,
    options: &FitOptions,
    test_fraction: f64,
    quiet: bool,
) -> Result<sparsegp::model::TableFit> {
    let columns = SchemaOptions {
        target: "co2".to_owned(),
        target_kind: Some(TargetKind::Real),
        ..SchemaOptions::default()
    };
    let request = FitRequest { table, columns: &columns, options, test_fraction, start: None };
    let progress = Progress::new(options.epoch_limit(), quiet);
    fit_table(&request, &mut |record| progress.show(record))
}

/// The rows of some years.
fn years(table: &Table, wanted: &dyn Fn(f64) -> bool) -> Result<Table> {
    let keep: Vec<bool> = table.numbers("year")?.iter().map(|&year| wanted(year)).collect();
    let column = |name: &str| -> Result<NamedColumn> {
        let values = table.numbers(name)?;
        let kept = values.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(value, _)| *value);
        Ok(NamedColumn { name: name.to_owned(), column: Column::Number(kept.collect()) })
    };
    Table::new(table.source(), vec![column("year")?, column("co2")?])
}

/// The whole series with its predictions.
fn series(model: &FittedModel, table: &Table) -> Result<Series> {
    let (years, values) = (table.numbers("year")?, table.numbers("co2")?);
    let predictions = model.predict(table, UnseenLevels::Error)?;
    let band = |(row, &year): (usize, &f64)| {
        let prediction = predictions.row(row);
        let half = HALF_95 * prediction.variance.sqrt();
        (year, prediction.mean, prediction.mean - half, prediction.mean + half)
    };
    Ok(Series {
        axes: ("year".to_owned(), "CO2 (ppmv)".to_owned()),
        observed: years.iter().copied().zip(values.iter().copied()).collect(),
        forecast: years.iter().enumerate().map(band).collect(),
    })
}

fn summary(tasks: &[Task]) -> Vec<Vec<String>> {
    let header = ["task", "rows", "M", "objective", "test NLL", "test RMSE", "95 % coverage", "seconds"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Task { name, model, test, .. } in tasks {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        let coverage = test.report.coverage.as_ref().and_then(|coverage| coverage.central_95);
        rows.push(vec![
            (*name).to_owned(),
            model.training_rows().to_string(),
            model.model().layer.z().nrows().to_string(),
            model.options().objective.to_string(),
            figure(test.report.nll),
            figure(test.report.rmse),
            figure(coverage),
            format!("{:.1}", model.summary().seconds),
        ]);
    }
    rows
}

/// Writes the report and each figure by itself.
fn write(folder: &Path, tasks: &[Task]) -> Result<()> {
    let mut sections =
        vec![Section { title: "Summary".to_owned(), table: summary(tasks), ..Section::default() }];
    for (index, task) in tasks.iter().enumerate() {
        let mut section = page::section(task.name, &task.model, Some(&task.test));
        let caption = "Observations (dots), predictive mean and central 95 % interval.".to_owned();
        section.figures.extend(task.series.figure().map(|svg| (svg, caption)));
        for (figure, (svg, _)) in section.figures.iter().enumerate() {
            let path = folder.join(format!("task{}-figure{}.svg", index + 1, figure + 1));
            AtomicFile::write_all_to(&path, svg.as_bytes())?;
        }
        sections.push(section);
    }
    let html = page::page("sparsegp demo: CO2 at Mauna Loa", &sections);
    let path = folder.join("report.html");
    AtomicFile::write_all_to(&path, html.as_bytes())?;
    output::note(&format!("written: {}", path.display()));
    Ok(())
}
