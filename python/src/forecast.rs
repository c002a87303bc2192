//! Forecasts of the series of a table.

use crate::convert::raised;
use crate::host;
use crate::table::Table;
use pyo3::prelude::*;
use sparsegp_tables::forecast::{
    Distribution, ForecastOptions, Forecasts, OriginScores, Seasons, SeriesForecast, StepScore,
    forecast as forecast_table,
};
use std::collections::BTreeMap;

/// The options of a forecast, as Python passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    time: String,
    target: String,
    by: Option<String>,
    horizon: usize,
    known: Vec<String>,
    holidays: Option<String>,
    seasons: Option<Vec<f64>>,
    counts: bool,
    origins: usize,
    window: usize,
    draws: usize,
    seed: u64,
}

impl From<Settings> for ForecastOptions {
    fn from(given: Settings) -> ForecastOptions {
        ForecastOptions {
            time: given.time,
            target: given.target,
            by: given.by,
            horizon: given.horizon,
            known: given.known,
            holidays: given.holidays,
            seasons: given.seasons.map_or(Seasons::Auto, Seasons::Steps),
            counts: given.counts,
            origins: given.origins,
            window: given.window,
            draws: given.draws,
            seed: given.seed,
        }
    }
}

/// A forecast of a series: its name, whether times are dates, the times, and a row of numbers for each time: mean, median, the ends of the
/// 95 % interval, the quantiles and the draws.
type Forecast = (Option<String>, bool, Vec<f64>, Vec<Vec<f64>>);

/// The scores of a method by its name: for each number of steps ahead MASE, sMAPE, CRPS, coverage and the number of forecasts.
type Scores = BTreeMap<&'static str, Vec<[f64; 5]>>;

/// Forecasts every series of a table, and scores forecasts from earlier times over all series.
#[pyfunction]
#[pyo3(signature = (table, settings, quantiles, *, threads=None))]
pub fn forecast(
    py: Python<'_>,
    table: &Table,
    settings: Settings,
    quantiles: Vec<f64>,
    threads: Option<usize>,
) -> PyResult<(Vec<Forecast>, Scores, Vec<String>)> {
    let options = ForecastOptions::from(settings);
    let work = |host: host::Host<'_>| forecast_table(&table.0, &options, host.interrupted);
    let Forecasts { series: forecasts, notes } = host::run(py, threads, None, work)?.map_err(raised)?;
    let scores = scores(&forecasts);
    Ok((forecasts.into_iter().map(|forecast| numbers(forecast, &quantiles)).collect(), scores, notes))
}

fn numbers(forecast: SeriesForecast, quantiles: &[f64]) -> Forecast {
    let row = |(index, step): (usize, &Distribution)| {
        let mut row = vec![step.mean(), step.median(), step.quantile(0.025), step.quantile(0.975)];
        row.extend(quantiles.iter().map(|&p| step.quantile(p)));
        row.extend(forecast.draws.iter().map(|draw| draw[index]));
        row
    };
    let rows = forecast.steps.iter().enumerate().map(row).collect();
    (forecast.name, forecast.dates, forecast.times, rows)
}

fn scores(forecasts: &[SeriesForecast]) -> Scores {
    let of_method = |method: OriginScores| {
        let step = |step: &StepScore| [step.mase(), step.smape(), step.crps(), step.coverage(), step.count()];
        (method.name, method.scored().map(step).collect())
    };
    let sums = OriginScores::together(forecasts.iter().map(|forecast| &forecast.scores[..]));
    sums.into_iter().map(of_method).collect()
}
