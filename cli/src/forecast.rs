//! `forecast`: forecasts of the series of a data file, with scores of forecasts from earlier times.

use super::args::ForecastArgs;
use super::predict::check_quantiles;
use super::{interruption, output, page};
use serde_json::{Value, json};
use sparsegp::{Error, Result};
use sparsegp_reports::{
    Band, Block, CurveSeries, Curves, Figure, Page, PagePart, Section, Series, TableBlock, curves, reproduce,
};
use sparsegp_tables::forecast::{Forecasts, OriginScores, SeriesForecast, StepScore, forecast, spelled_time};
use sparsegp_tables::tables::{Column, PredictedRows, PredictedTable, PredictionWriter, read_table_with};
use std::ops::Range;
use std::path::Path;

/// The most rows of the table of scores; longer horizons are grouped.
const MOST_ROWS: usize = 6;

/// The number of seconds in a mean year.
const YEAR: f64 = 365.2425 * 86_400.0;

/// The most series with a figure in a report.
const MOST_FIGURES: usize = 20;

pub fn run(args: &ForecastArgs) -> Result<()> {
    check(args)?;
    let table = read_table_with(&args.data, args.delimiter, &args.missing)?;
    let Forecasts { series: forecasts, notes } = forecast(&table, &args.options(), interruption::flag())?;
    for note in notes {
        output::note(&format!("warning: {}: {note}", args.data.display()));
    }
    if let Some(path) = &args.out {
        write(args, &forecasts, path)?;
    }
    let scores = OriginScores::together(forecasts.iter().map(|forecast| &forecast.scores[..]));
    show(args, &forecasts, &scores)?;
    if args.report.is_some() || args.plots.is_some() {
        let page = report(args, &forecasts, &scores);
        page::write(&page, args.report.as_deref(), args.plots.as_deref())?;
    }
    Ok(())
}

/// Validates the arguments before the data are read.
fn check(args: &ForecastArgs) -> Result<()> {
    check_quantiles(&args.quantiles, "--quantiles")?;
    if args.out.is_none() && (args.draws > 0 || !args.quantiles.is_empty()) {
        let name = if args.draws > 0 { "--draws" } else { "--quantiles" };
        return Err(Error::usage(format!("{name} has no effect without --out")));
    }
    let stream = Path::new("-");
    if args.json && args.out.as_deref() == Some(stream) {
        return Err(Error::usage("--json and --out - both write to standard output: give --out a file"));
    }
    args.plots.as_deref().map(page::check_folder).transpose()?;
    let file = args.out.as_deref().filter(|path| *path != stream);
    file.map_or(Ok(()), |path| output::check_predictions_name(path, ".csv or .parquet"))?;
    let files: Vec<&Path> = file.into_iter().chain(args.report.as_deref()).collect();
    output::check_paths(&files, &[&args.data])
}

/// Writes the forecasts, one row per series and time.
fn write(args: &ForecastArgs, forecasts: &[SeriesForecast], path: &Path) -> Result<()> {
    let mut numbers: Vec<String> = ["mean", "median", "lower", "upper"].map(str::to_owned).into();
    numbers.extend(args.quantiles.iter().map(|p| format!("q{p}")));
    numbers.extend((0..args.draws).map(|draw| format!("draw{draw}")));
    let dates = forecasts.first().is_some_and(|forecast| forecast.dates);
    let series = args.by.iter().map(|by| (by.clone(), true));
    let leading = series.chain([(args.time.clone(), dates)]).collect();
    let columns = PredictedTable { leading, numbers, csv_safe: args.csv_safe };
    let mut writer = match path == Path::new("-") {
        true => PredictionWriter::stream("standard output", Box::new(output::StandardOutput), columns)?,
        false => PredictionWriter::create(path, columns)?,
    };
    for forecast in forecasts {
        writer.write_rows(&rows_of(args, forecast))?;
    }
    writer.finish()
}

fn rows_of(args: &ForecastArgs, forecast: &SeriesForecast) -> PredictedRows {
    let rows = forecast.times.len();
    let mut leading = Vec::new();
    if args.by.is_some() {
        let names = [forecast.name.clone().unwrap_or_default()];
        leading.push(Column::of_labels(&names, (0..rows).map(|_| Some(0))));
    }
    leading.push(match forecast.dates {
        true => {
            let words: Vec<String> = forecast.times.iter().map(|&time| spelled_time(time, true)).collect();
            Column::of_labels(&words, (0..rows).map(Some))
        }
        false => Column::Number(forecast.times.clone()),
    });
    let mut numbers = Vec::new();
    for (row, step) in forecast.steps.iter().enumerate() {
        numbers.extend([step.mean(), step.median(), step.quantile(0.025), step.quantile(0.975)]);
        numbers.extend(args.quantiles.iter().map(|&p| step.quantile(p)));
        numbers.extend(forecast.draws.iter().map(|draw| draw[row]));
    }
    PredictedRows { leading, numbers, rows }
}

/// Returns the ranges of horizons of the table, counted from 0, that have scores.
fn ranges(scores: &[OriginScores]) -> Vec<Range<usize>> {
    let Some(own) = scores.first() else { return Vec::new() };
    let scored = own.scored().count();
    let width = scored.div_ceil(MOST_ROWS).max(1);
    (0..scored).step_by(width).map(|start| start..(start + width).min(scored)).collect()
}

/// Returns the table of scores by horizon.
fn score_rows(scores: &[OriginScores]) -> Vec<Vec<String>> {
    let names = scores.iter().map(|method| format!("MASE {}", method.name));
    let own = ["sMAPE", "CRPS", "coverage", "forecasts"].map(str::to_owned);
    let mut rows = vec![std::iter::once("steps ahead".to_owned()).chain(names).chain(own).collect()];
    let all = ranges(scores);
    let whole = all.first().zip(all.last()).map(|(first, last)| first.start..last.end);
    for range in all.iter().cloned().chain(whole.filter(|_| all.len() > 1)) {
        let own = scores[0].over(range.clone());
        let mut row = vec![match range.len() {
            1 => range.end.to_string(),
            _ => format!("{}–{}", range.start + 1, range.end),
        }];
        row.extend(scores.iter().map(|method| output::number(method.over(range.clone()).mase())));
        row.extend([own.smape(), own.crps(), own.coverage()].map(output::number));
        row.push(output::number(own.count()));
        rows.push(row);
    }
    rows
}

fn show(args: &ForecastArgs, forecasts: &[SeriesForecast], scores: &[OriginScores]) -> Result<()> {
    if let Some(long) = forecasts.iter().find(|forecast| forecast.seen < forecast.observed.len()) {
        output::note(&format!(
            "note: the models see {} of {} values: the last {}, and a sample of the earlier ones; --window sets the number",
            long.seen,
            long.observed.len(),
            long.seen - long.seen / 2
        ));
    }
    if args.json {
        return output::print(&format!("{}\n", document(args, forecasts, scores)));
    }
    if args.out.as_deref() == Some(Path::new("-")) {
        return Ok(());
    }
    let rows = score_rows(scores);
    let text = match rows.len() {
        0 | 1 => "no scores: the series are too short to forecast them from earlier times\n".to_owned(),
        _ => output::table(&rows),
    };
    output::print(&format!("{}{text}", output::table(&about(args, forecasts))))
}

/// Returns the lines about the series and their seasons.
fn about(args: &ForecastArgs, forecasts: &[SeriesForecast]) -> Vec<Vec<String>> {
    let values: usize = forecasts.iter().map(|forecast| forecast.observed.len()).sum();
    let seconds: f64 = forecasts.iter().map(|forecast| forecast.seconds).sum();
    let mut seasons: Vec<String> = Vec::new();
    for forecast in forecasts {
        let lengths: Vec<String> = forecast.seasons.iter().map(|&steps| output::number(steps)).collect();
        let words =
            if lengths.is_empty() { "none".to_owned() } else { format!("{} steps", lengths.join(", ")) };
        if !seasons.contains(&words) {
            seasons.push(words);
        }
    }
    let steps = if args.horizon == 1 { "step" } else { "steps" };
    let row = |name: &str, words: String| vec![name.to_owned(), words];
    let count = forecasts.len();
    vec![
        row(
            "forecast",
            format!("{} {steps} of '{}', {count} series, {values} values", args.horizon, args.target),
        ),
        row("seasons", output::few(seasons.into_iter(), 3)),
        row("time", format!("{} per series", output::duration(seconds / count.max(1) as f64))),
    ]
}

/// Returns the JSON document of the scores.
fn document(args: &ForecastArgs, forecasts: &[SeriesForecast], scores: &[OriginScores]) -> Value {
    let steps = |method: &OriginScores| -> Vec<Value> {
        let step = |(index, step): (usize, &StepScore)| {
            json!({
                "steps_ahead": index + 1, "mase": step.mase(), "smape": step.smape(), "crps": step.crps(),
                "coverage": step.coverage(), "forecasts": step.count(),
            })
        };
        method.scored().enumerate().map(step).collect()
    };
    let methods = scores.iter().map(|method| (method.name.to_owned(), steps(method).into()));
    json!({
        "command": "forecast",
        "version": env!("CARGO_PKG_VERSION"),
        "horizon": args.horizon,
        "series": forecasts.len(),
        "seconds": forecasts.iter().map(|forecast| forecast.seconds).sum::<f64>(),
        "scores": Value::Object(methods.collect()),
    })
}

/// Returns the report: scores, coverage by horizon, and a fan for each of the first series.
fn report(args: &ForecastArgs, forecasts: &[SeriesForecast], scores: &[OriginScores]) -> Page {
    let mut sections = Vec::new();
    let rows = score_rows(scores);
    if rows.len() > 1 {
        let caption =
            "Forecasts from earlier times; MASE and CRPS in units of the mean absolute change over a season";
        let mut blocks = vec![Block::Table(TableBlock::new(caption, rows))];
        blocks.extend(coverage(scores).map(|figure| Block::Figures(vec![figure])));
        sections.push(Section::new("Scores", blocks));
    }
    let fans = forecasts.iter().take(MOST_FIGURES).filter_map(|forecast| fan(args, forecast));
    sections.push(Section::new("Forecasts", vec![Block::Figures(fans.collect())]));
    let title = format!("Forecasts of {} from {}", args.target, args.data.display());
    let part = PagePart { sections, ..PagePart::default() };
    Page { title, parts: vec![part], end: reproduce(&page::command()) }
}

/// Draws the coverage of 95 % intervals by horizon.
fn coverage(scores: &[OriginScores]) -> Option<Figure> {
    let series = scores.iter().map(|method| {
        let point = |(index, step): (usize, &StepScore)| ((index + 1) as f64, step.coverage(), f64::NAN);
        let points = method.scored().enumerate().map(point).collect();
        CurveSeries { name: method.name.to_owned(), points }
    });
    let axes = ("steps ahead".to_owned(), "share of values within 95 % intervals".to_owned());
    let drawing = curves(&Curves { axes, series: series.collect(), ..Curves::default() });
    Figure::of(
        "coverage",
        "Coverage by horizon",
        "Exact intervals contain 95 % of the values at every horizon.",
        drawing,
    )
}

/// Draws the last values of a series and its forecast.
fn fan(args: &ForecastArgs, forecast: &SeriesForecast) -> Option<Figure> {
    // Dates are drawn as years.
    let number = |time: f64| if forecast.dates { 1970.0 + time / YEAR } else { time };
    let shown = 4 * forecast.times.len().max(12);
    let skipped = forecast.observed.len().saturating_sub(shown);
    let points = forecast.times.iter().zip(&forecast.steps);
    let points =
        points.map(|(&time, step)| (number(time), step.median(), step.quantile(0.025), step.quantile(0.975)));
    let axes = (if forecast.dates { "year".to_owned() } else { args.time.clone() }, args.target.clone());
    let series = Series {
        axes,
        bands: vec![Band { name: String::new(), points: points.collect() }],
        observed: forecast.observed[skipped..].iter().map(|&(time, value)| (number(time), value)).collect(),
        ..Series::default()
    };
    let name = forecast.name.as_deref().unwrap_or(&args.target);
    let caption = "Dots: observed values. Line: median. Band: 95 % interval.";
    Figure::of(&format!("forecast-{name}"), name, caption, series.figure())
}
