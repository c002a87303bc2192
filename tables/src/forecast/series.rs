//! The series of a table: their times, observed values, steps and future times.

use super::ForecastOptions;
use crate::schema::label;
use crate::tables::instant::{DAY, day_of_month, exact, is_last_of_month, month_number, months_after};
use crate::tables::{Column, Table, number_text};
use crate::tabular::times_in;
use sparsegp::error::{Error, Result};
use std::collections::HashMap;

/// The number of seconds in a mean month.
const MONTH: f64 = 365.2425 / 12.0 * DAY;

/// The fewest observed values of a series.
pub(super) const FEWEST: usize = 8;

/// The step between the times of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// A number in the unit of the time column, or in seconds.
    Length(f64),
    /// Calendar months, on the same day or on the last day.
    Months { count: i64, last: bool },
}

/// A series with its times in ascending order.
#[derive(Clone, Debug)]
pub(super) struct OneSeries {
    /// The value of the column that separates the series.
    pub name: Option<String>,
    /// The times of observed values: numbers, or seconds since 1970.
    pub times: Vec<f64>,
    /// The observed values.
    pub values: Vec<f64>,
    /// The rows of the table with the observed values.
    pub rows: Vec<usize>,
    /// The times to forecast.
    pub future: Vec<f64>,
    /// The rows of the table at these times, if known inputs come from there.
    pub future_rows: Vec<usize>,
    /// True if times are instants.
    pub dates: bool,
    pub step: Step,
}

impl OneSeries {
    /// Returns the text before a message about this series.
    pub fn called(&self, table: &Table, options: &ForecastOptions) -> String {
        match (&self.name, &options.by) {
            (Some(name), Some(by)) => format!("{}, {by} '{name}'", table.source()),
            _ => table.source().to_owned(),
        }
    }

    /// Returns the number of whole steps from the first time to each time.
    pub fn grid(&self) -> Vec<i64> {
        let mut places = vec![0];
        for pair in self.times.windows(2) {
            let steps = match self.step {
                Step::Length(length) => ((pair[1] - pair[0]) / length).round() as i64,
                Step::Months { count, .. } => {
                    let months = month_number(pair[1]) - month_number(pair[0]);
                    (months as f64 / count as f64).round() as i64
                }
            };
            places.push(places[places.len() - 1] + steps.max(1));
        }
        places
    }

    /// Returns the values on a regular grid, with linear interpolation between observed values.
    pub fn regular(&self) -> Vec<f64> {
        let mut regular = vec![self.values[0]];
        for (places, values) in self.grid().windows(2).zip(self.values.windows(2)) {
            let steps = places[1] - places[0];
            let at = |step: i64| values[0] + (values[1] - values[0]) * step as f64 / steps as f64;
            regular.extend((1..=steps).map(at));
        }
        regular
    }

    /// Returns a time on a scale of numbers: years for months of a calendar, otherwise the time itself.
    pub fn number(&self, time: f64) -> f64 {
        match self.step {
            Step::Months { .. } => month_number(time) as f64 / 12.0,
            Step::Length(_) => time,
        }
    }

    /// Returns the mean length of a step on the scale of [`number`](Self::number).
    pub fn step_length(&self) -> f64 {
        match self.step {
            Step::Months { count, .. } => count as f64 / 12.0,
            Step::Length(_) => {
                let steps = self.grid()[self.times.len() - 1].max(1);
                (self.times[self.times.len() - 1] - self.times[0]) / steps as f64
            }
        }
    }

    /// Returns true if the first `count` values are equal.
    pub fn is_constant(&self, count: usize) -> bool {
        self.values[..count].iter().all(|&value| value == self.values[0])
    }

    /// Returns the first `count` observed values, and the later ones up to `horizon` as the future.
    pub fn until(&self, count: usize, horizon: usize) -> OneSeries {
        let end = self.times.len().min(count + horizon);
        OneSeries {
            times: self.times[..count].to_vec(),
            values: self.values[..count].to_vec(),
            rows: self.rows[..count].to_vec(),
            future: self.times[count..end].to_vec(),
            future_rows: self.rows[count..end].to_vec(),
            ..self.clone()
        }
    }
}

/// Returns the text of a time, as the output writes it.
pub fn spelled_time(time: f64, dates: bool) -> String {
    match dates {
        true => exact(time).trim_end_matches("T00:00:00").to_owned(),
        false => number_text(time).into_owned(),
    }
}

/// Finds the series of a table, and the names of series that have too few values, unless all have.
pub(super) fn series_of(table: &Table, options: &ForecastOptions) -> Result<(Vec<OneSeries>, Vec<String>)> {
    let times = times_in(&|take| take(table), &options.time)?;
    let column = table.supported(&options.time)?;
    let dates = matches!(column, Column::Time(_)) || (column.numbers().is_none());
    let targets = table.numbers(&options.target)?;
    let mut groups: Vec<(Option<String>, Vec<usize>)> = Vec::new();
    match &options.by {
        None => groups.push((None, (0..table.rows()).collect())),
        Some(by) => {
            let column = table.supported(by)?;
            let mut known = HashMap::new();
            for row in 0..table.rows() {
                if column.is_missing(row) {
                    return Err(table.missing(row, by));
                }
                let name = label(column, row).into_owned();
                let place = *known.entry(name.clone()).or_insert_with(|| {
                    groups.push((Some(name), Vec::new()));
                    groups.len() - 1
                });
                groups[place].1.push(row);
            }
        }
    }
    let one = |(name, mut rows): (Option<String>, Vec<usize>)| {
        rows.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
        one_series(name, &rows, &times, &targets, dates, table, options)
    };
    let is_short = |rows: &[usize]| rows.iter().filter(|&&row| !targets[row].is_nan()).count() < FEWEST;
    let (mut short, long): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(_, rows)| is_short(rows));
    let groups = if long.is_empty() { std::mem::take(&mut short) } else { long };
    let series = groups.into_iter().map(one).collect::<Result<_>>()?;
    Ok((series, short.into_iter().filter_map(|(name, _)| name).collect()))
}

fn one_series(
    name: Option<String>,
    rows: &[usize],
    times: &[f64],
    targets: &[f64],
    dates: bool,
    table: &Table,
    options: &ForecastOptions,
) -> Result<OneSeries> {
    let observed: Vec<usize> = rows.iter().copied().filter(|&row| !targets[row].is_nan()).collect();
    let mut series = OneSeries {
        name,
        times: observed.iter().map(|&row| times[row]).collect(),
        values: observed.iter().map(|&row| targets[row]).collect(),
        rows: observed,
        future: Vec::new(),
        future_rows: Vec::new(),
        dates,
        step: Step::Length(1.0),
    };
    let called = series.called(table, options);
    let found = series.times.len();
    if found < FEWEST {
        return Err(Error::data(format!(
            "{called}: found {found} values of '{}', expected at least {FEWEST} to forecast from",
            options.target
        )));
    }
    let unfit =
        |value: &f64| value.is_infinite() || (options.counts && (*value < 0.0 || value.fract() != 0.0));
    if let Some(place) = series.values.iter().position(unfit) {
        let (found, row) = (number_text(series.values[place]).into_owned(), series.rows[place]);
        let expected = if options.counts { "a count (0, 1, 2, …)" } else { "a finite number" };
        return Err(table.unfit(row, &options.target, &found, expected));
    }
    if let Some(pair) = series.times.windows(2).find(|pair| pair[0] == pair[1]) {
        let hint = if options.by.is_some() {
            "keep one row per time"
        } else {
            "name the column that separates series: ⟨by⟩"
        };
        return Err(Error::data(format!(
            "{called}: found two values at the time {}, expected one",
            spelled_time(pair[0], dates)
        ))
        .hint(hint));
    }
    series.step = step_of(&series);
    add_future(&mut series, rows, times, &called, options)?;
    Ok(series)
}

/// Finds the step: the median distance of two times, or whole months if all dates have the same day of the month.
fn step_of(series: &OneSeries) -> Step {
    let mut gaps: Vec<f64> = series.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let median = gaps[gaps.len() / 2];
    let day = day_of_month(series.times[0]);
    let last = series.times.iter().all(|&time| is_last_of_month(time));
    let monthly = last || series.times.iter().all(|&time| day_of_month(time) == day);
    if series.dates && monthly && median >= 27.0 * DAY {
        return Step::Months { count: ((median / MONTH).round() as i64).max(1), last };
    }
    Step::Length(median)
}

/// Adds the times to forecast: the rows after the last value if there are known inputs, otherwise regular steps.
fn add_future(
    series: &mut OneSeries,
    rows: &[usize],
    times: &[f64],
    called: &str,
    options: &ForecastOptions,
) -> Result<()> {
    let last = series.times[series.times.len() - 1];
    if options.has_known() {
        let later = rows.iter().copied().filter(|&row| times[row] > last).take(options.horizon);
        series.future_rows = later.collect();
        series.future = series.future_rows.iter().map(|&row| times[row]).collect();
        if series.future.is_empty() {
            return Err(Error::data(format!(
                "{called}: found no row after {}, expected rows with known inputs and an empty '{}'",
                spelled_time(last, series.dates),
                options.target
            ))
            .hint("add a row for each time to forecast, or leave out ⟨known⟩ and ⟨holidays⟩"));
        }
        return Ok(());
    }
    let length = series.step_length();
    let at = |step: usize| match series.step {
        Step::Months { count, last: end } => months_after(last, (step + 1) as i64 * count, end),
        Step::Length(_) if series.dates => (last + (step + 1) as f64 * length).round(),
        Step::Length(_) => last + (step + 1) as f64 * length,
    };
    series.future = (0..options.horizon).map(at).collect();
    Ok(())
}
