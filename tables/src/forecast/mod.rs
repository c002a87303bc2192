//! Forecasts of series: mixtures of Gaussian processes in time with weak priors, weighted and checked by forecasts of each series' own past.
//!
//! ```
//! use sparsegp_tables::forecast::{ForecastOptions, forecast};
//! use sparsegp_tables::tables::read_csv;
//! use std::sync::atomic::AtomicBool;
//!
//! let rows: String = (0..48).map(|i| format!("{},{}\n", 2000.0 + i as f64 / 12.0, i as f64 + 5.0 * (i % 12) as f64)).collect();
//! let table = read_csv("sales.csv", std::io::Cursor::new(format!("year,sales\n{rows}")))?;
//! let options = ForecastOptions { time: "year".into(), target: "sales".into(), horizon: 3, ..ForecastOptions::default() };
//! let forecasts = forecast(&table, &options, &AtomicBool::new(false))?;
//! assert!((forecasts.series[0].steps[2].median() - 60.0).abs() < 3.0);
//! # Ok::<(), sparsegp::Error>(())
//! ```

mod baselines;
mod distribution;
mod ensemble;
mod models;
mod scores;
mod seasons;
mod series;

pub use baselines::Baseline;
pub use distribution::Distribution;
pub use scores::{OriginScores, StepScore};
pub use seasons::Seasons;
pub use series::spelled_time;

use crate::schema::folded;
use crate::tables::Table;
use ensemble::Ensemble;
use models::Fitter;
use rayon::prelude::*;
use series::{FEWEST, OneSeries, series_of};
use sparsegp::error::{Error, ErrorKind, Result};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The default maximum number of values in a fit; time grows with its third power.
pub const WINDOW: usize = 600;

/// The columns and the settings of a forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastOptions {
    /// The column of times: dates or numbers.
    pub time: String,
    /// The column to forecast.
    pub target: String,
    /// The column that separates several series.
    pub by: Option<String>,
    /// The number of steps to forecast.
    pub horizon: usize,
    /// Columns whose values are also known in the rows to forecast.
    pub known: Vec<String>,
    /// A column with the names of holidays, empty on other days.
    pub holidays: Option<String>,
    /// The seasons.
    pub seasons: Seasons,
    /// True if the target counts events.
    pub counts: bool,
    /// The number of earlier origins from which each series is forecast to weigh and score the models.
    pub origins: usize,
    /// The number of values of each series that models see: of longer series, the last ones, and as many spread over the earlier ones.
    pub window: usize,
    /// The number of joint draws of the future.
    pub draws: usize,
    /// The random seed of the draws.
    pub seed: u64,
}

impl Default for ForecastOptions {
    fn default() -> Self {
        ForecastOptions {
            time: String::new(),
            target: String::new(),
            by: None,
            horizon: 12,
            known: Vec::new(),
            holidays: None,
            seasons: Seasons::Auto,
            counts: false,
            origins: 3,
            window: WINDOW,
            draws: 0,
            seed: 0,
        }
    }
}

impl ForecastOptions {
    fn known_names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().chain(&self.holidays).map(String::as_str)
    }

    fn has_known(&self) -> bool {
        self.known_names().next().is_some()
    }

    /// Refuses values without a meaning, and columns with two roles.
    fn check(&self) -> Result<()> {
        if self.horizon == 0 {
            return Err(Error::usage("⟨horizon⟩ is 0, expected at least 1"));
        }
        if self.window < FEWEST {
            return Err(Error::usage(format!("⟨window⟩ is {}, expected at least {}", self.window, FEWEST)));
        }
        if let Seasons::Steps(steps) = &self.seasons
            && let Some(odd) = steps.iter().find(|steps| !(steps.is_finite() && **steps > 1.0))
        {
            return Err(Error::usage(format!("⟨seasons⟩ contains {odd}, expected lengths above 1 step")));
        }
        let mut names: Vec<&str> = self.known_names().chain(self.by.as_deref()).collect();
        names.extend([self.time.as_str(), self.target.as_str()]);
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::usage(format!("column '{}' has two roles, expected one", pair[0]))
                .hint("⟨time⟩, ⟨target⟩, ⟨by⟩, ⟨known⟩ and ⟨holidays⟩ name different columns")),
            None => Ok(()),
        }
    }
}

/// The forecast of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesForecast {
    /// The value of the column that separates the series, if there is one.
    pub name: Option<String>,
    /// True if times are instants in seconds since 1970.
    pub dates: bool,
    /// The observed times and values.
    pub observed: Vec<(f64, f64)>,
    /// The forecast times.
    pub times: Vec<f64>,
    /// The distribution at each time.
    pub steps: Vec<Distribution>,
    /// The joint draws, each with a value for each time.
    pub draws: Vec<Vec<f64>>,
    /// The scores at earlier origins: of this forecast, then of the [baselines](Baseline::ALL).
    pub scores: Vec<OriginScores>,
    /// The seasons in steps.
    pub seasons: Vec<f64>,
    /// The number of observed values that the models saw.
    pub seen: usize,
    /// The time that the forecast took.
    pub seconds: f64,
}

/// The forecasts of the series of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecasts {
    /// The forecasts, in the order in which the series begin in the table.
    pub series: Vec<SeriesForecast>,
    /// Notes about series without a forecast: series of fewer than eight values, and series that cannot be fitted.
    pub notes: Vec<String>,
}

/// Forecasts every series of a table. Beside others, series of fewer than eight values and series that cannot be fitted have no forecast.
///
/// # Errors
///
/// Usage errors for options without a meaning; data errors for absent columns, times that are missing or occur twice in a series, tables
/// without a series of eight values; data and fit errors of the first series if none can be fitted, such as missing known inputs;
/// `Interrupted` after `interrupt` became true.
pub fn forecast(table: &Table, options: &ForecastOptions, interrupt: &AtomicBool) -> Result<Forecasts> {
    options.check()?;
    for name in options.known_names() {
        table.supported(name)?;
    }
    let (series, short) = series_of(table, options)?;
    let one = |series: OneSeries| (series.name.clone(), forecast_one(table, options, series, interrupt));
    let found: Vec<_> = series.into_par_iter().map(one).collect();
    let (mut forecasts, mut failed) = (Vec::new(), Vec::new());
    for (name, result) in found {
        match result {
            Ok(forecast) => forecasts.push(forecast),
            Err(error) if matches!(error.kind(), ErrorKind::Data | ErrorKind::Fit) => {
                failed.push((name.unwrap_or_default(), error));
            }
            Err(error) => return Err(error),
        }
    }
    let mut notes = Vec::new();
    if !short.is_empty() {
        let (count, names, target) = (short.len(), folded(short.into_iter()), &options.target);
        notes.push(format!(
            "{count} series with fewer than {FEWEST} values of '{target}' have no forecast: {names}"
        ));
    }
    match failed.first() {
        Some((_, first)) if forecasts.is_empty() => return Err(first.clone()),
        Some((_, first)) => {
            let (count, names) = (failed.len(), folded(failed.iter().map(|(name, _)| name.clone())));
            notes.push(format!(
                "{count} series cannot be fitted and have no forecast: {names}; the first: {first}"
            ));
        }
        None => {}
    }
    Ok(Forecasts { series: forecasts, notes })
}

fn forecast_one(
    table: &Table,
    options: &ForecastOptions,
    series: OneSeries,
    interrupt: &AtomicBool,
) -> Result<SeriesForecast> {
    let started = Instant::now();
    let fitter = Fitter::new(table, options, &series, interrupt);
    let Ensemble { steps, draws, scores } = Ensemble::of(&fitter, &series)?;
    Ok(SeriesForecast {
        dates: series.dates,
        observed: series.times.iter().copied().zip(series.values.iter().copied()).collect(),
        times: series.future,
        steps,
        draws,
        scores,
        seasons: fitter.time.periods.iter().map(|period| period / fitter.time.step).collect(),
        seen: fitter.seen.len(),
        seconds: started.elapsed().as_secs_f64(),
        name: series.name,
    })
}
