//! The seasons of a series: from the calendar, from its autocorrelation, or from the options.

use super::series::{OneSeries, Step};
use crate::tables::instant::DAY;

/// The seasons to model.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seasons {
    /// Day, week and year for dates; for numbers, the length with the highest autocorrelation.
    #[default]
    Auto,
    /// These lengths in steps; may be empty.
    Steps(Vec<f64>),
}

const DAYS_OF_YEAR: f64 = 365.2425;

/// The seasons and the unit of time of a series, on the scale of [`OneSeries::number`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeScale {
    /// The lengths of the seasons.
    pub periods: Vec<f64>,
    /// The length on which the priors of lengthscales are defined: the longest season, or a year.
    pub unit: f64,
    /// The mean length of a step.
    pub step: f64,
}

impl TimeScale {
    pub fn of(series: &OneSeries, seasons: &Seasons) -> TimeScale {
        let step = series.step_length();
        let number = |time: &f64| series.number(*time);
        let span = series.times.last().map_or(0.0, number) - series.times.first().map_or(0.0, number);
        let periods = match seasons {
            Seasons::Steps(steps) => steps.iter().map(|steps| steps * step).collect(),
            Seasons::Auto if series.dates => calendar_periods(series, step, span),
            Seasons::Auto => {
                autocorrelated(&series.regular()).map(|steps| steps as f64 * step).into_iter().collect()
            }
        };
        let periods: Vec<f64> = periods;
        let longest = periods.iter().copied().fold(0.0, f64::max);
        let year = match series.step {
            Step::Months { .. } => 1.0,
            Step::Length(_) => DAYS_OF_YEAR * DAY,
        };
        let unit = match longest > 0.0 {
            true => longest,
            false if series.dates && span >= 2.0 * year => year,
            false => (span / 10.0).max(step),
        };
        TimeScale { periods, unit, step }
    }

    /// Returns the length in steps of the season that scores and baselines use: the longest one of at most half of the values.
    pub fn season_steps(&self, values: usize) -> usize {
        let steps = self.periods.iter().map(|period| (period / self.step).round() as usize);
        steps.filter(|&steps| 2 * steps < values).max().unwrap_or(1).max(1)
    }
}

/// Returns the seasons that dates can show: at least three steps of a season, and two seasons of dates.
fn calendar_periods(series: &OneSeries, step: f64, span: f64) -> Vec<f64> {
    if matches!(series.step, Step::Months { .. }) {
        return if step < 0.6 && span >= 2.0 { vec![1.0] } else { Vec::new() };
    }
    let known = [(DAY, 3.0), (7.0 * DAY, 3.0), (DAYS_OF_YEAR * DAY, 1.9)];
    let shown = known.into_iter().filter(|(period, least)| period / step > *least && span >= 2.0 * period);
    shown.map(|(period, _)| period).collect()
}

/// Returns the lag with the highest autocorrelation of the changes, if it stands out from chance.
fn autocorrelated(values: &[f64]) -> Option<usize> {
    const LONGEST: usize = 400;
    const LEAST: f64 = 0.3;
    let changes: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let n = changes.len();
    let mean = changes.iter().sum::<f64>() / n as f64;
    let squares: f64 = changes.iter().map(|change| (change - mean).powi(2)).sum();
    let at = |lag: usize| {
        let products = changes.iter().zip(&changes[lag..]).map(|(a, b)| (a - mean) * (b - mean));
        products.sum::<f64>() / squares * n as f64 / (n - lag) as f64
    };
    let lags = 2..(n / 2).min(LONGEST);
    let best = lags.map(|lag| (lag, at(lag))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    (best.1 > LEAST.max(3.0 / (n as f64).sqrt())).then(|| shortest(best, &at))
}

/// Returns the shortest length of which the best lag is a multiple and whose autocorrelation is nearly as high.
fn shortest((lag, best): (usize, f64), at: &dyn Fn(usize) -> f64) -> usize {
    (2..lag).find(|&part| lag.is_multiple_of(part) && at(part) > 0.8 * best).unwrap_or(lag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_season_of_numbers_is_found() {
        let values: Vec<f64> =
            (0..90).map(|i| 0.3 * f64::from(i) + [0.0, 5.0, 1.0, -3.0, 2.0, 8.0][i as usize % 6]).collect();
        assert_eq!(autocorrelated(&values), Some(6));
        let noise: Vec<f64> = (0..90).map(|i| (f64::from(i * i) * 1.7).sin()).collect();
        assert_eq!(autocorrelated(&noise), None);
    }
}
