//! The options of `forecast`.

use super::parsers::{MOST_DRAWS, delimiter, positive, whole};
use clap::Args;
use sparsegp_tables::forecast::{ForecastOptions, Seasons, WINDOW};
use std::path::PathBuf;

/// The largest number of origins.
const MOST_ORIGINS: usize = 100;

const FORECAST_EXAMPLES: &str = "Times may be irregular, and target cells may be empty. Known inputs need a row for each time to forecast, \
with an empty target.

Examples:
  sparsegp forecast sales.csv --time month --target sales --horizon 24 --out forecasts.csv
  sparsegp forecast shops.csv --time day --target visitors --by shop --holidays holiday --horizon 28
The forecast of a series is a mixture of two Gaussian processes in time. Forecasts from earlier times weigh them.";

/// Options of `forecast`.
#[derive(Debug, Args)]
#[command(after_help = FORECAST_EXAMPLES)]
pub struct ForecastArgs {
    /// Data file: CSV with a header row, plain or gzipped, or Parquet; '-' reads CSV from standard input
    pub data: PathBuf,
    /// Column of times: dates or numbers
    #[arg(long, value_name = "COL")]
    pub time: String,
    /// Column to forecast
    #[arg(long, value_name = "COL")]
    pub target: String,
    /// Number of steps to forecast
    #[arg(long, value_name = "H", value_parser = positive)]
    pub horizon: usize,
    /// Column that separates several series, which are forecast one by one
    #[arg(long, value_name = "COL")]
    pub by: Option<String>,
    /// Columns whose future values are known, separated by commas; the rows to forecast have an empty target
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    pub known: Vec<String>,
    /// Column with the names of holidays, empty on other days; its future values must be known
    #[arg(long, value_name = "COL")]
    pub holidays: Option<String>,
    /// Lengths of seasons in steps, separated by commas, or none [default: day, week and year for dates; by autocorrelation for numbers]
    #[arg(long, value_name = "LIST|none", value_parser = seasons)]
    pub seasons: Option<Seasons>,
    /// Treat the target as counts, with a negative binomial distribution
    #[arg(long)]
    pub counts: bool,
    /// Number of earlier times from which each series is also forecast, to weigh the models and to score them
    #[arg(long, value_name = "K", default_value_t = ForecastOptions::default().origins, value_parser = |text: &str| whole(text, 0..=MOST_ORIGINS))]
    pub origins: usize,
    /// Maximum number of values of each series that the models see; time grows with its third power
    ///
    /// Of longer series, they see the last values and as many spread over the earlier ones, which show slow seasons and the trend.
    #[arg(long, value_name = "N", default_value_t = WINDOW, value_parser = positive)]
    pub window: usize,
    /// File for the forecasts (.csv or .parquet; '-' for CSV on standard output)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Quantiles to add as columns q0.05, …, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub quantiles: Vec<f64>,
    /// Add K draws of the future as columns draw0, …. Each draw is joint over the times of a series
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = |text: &str| whole(text, 0..=MOST_DRAWS))]
    pub draws: usize,
    /// Random seed of --draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Save a report with figures (one HTML file)
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Save every figure of the report as SVG in this folder (made if absent)
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Print only JSON on standard output: the scores by horizon
    #[arg(long)]
    pub json: bool,
    /// Character between the columns of a CSV file, or tab [default: detected from the first lines]
    #[arg(long, value_name = "C", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Further texts that mark a missing cell, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub missing: Vec<String>,
    /// Put an apostrophe before each text that a spreadsheet would run as a formula because it begins with = + - @ or a tab; numbers are
    /// unchanged
    #[arg(long, requires = "out")]
    pub csv_safe: bool,
}

impl ForecastArgs {
    /// Returns the options of the library.
    pub fn options(&self) -> ForecastOptions {
        ForecastOptions {
            time: self.time.clone(),
            target: self.target.clone(),
            by: self.by.clone(),
            horizon: self.horizon,
            known: self.known.clone(),
            holidays: self.holidays.clone(),
            seasons: self.seasons.clone().unwrap_or_default(),
            counts: self.counts,
            origins: self.origins,
            window: self.window,
            draws: self.draws,
            seed: self.seed,
        }
    }
}

/// Parses lengths of seasons: `7,365.25`, or `none`.
fn seasons(text: &str) -> Result<Seasons, String> {
    if text == "none" {
        return Ok(Seasons::Steps(Vec::new()));
    }
    let steps: Result<Vec<f64>, _> = text.split(',').map(|steps| steps.trim().parse::<f64>()).collect();
    steps.map(Seasons::Steps).map_err(|_| "expected numbers of steps such as '7,365.25', or none".to_owned())
}
