//! Figures of named intervals, one below the other, such as those of coefficients.

use super::{
    Axis, BLUE, Chart, Drawing, GREY, GRID, Lettering, SIZE, Sample, TEXT, THICK, THIN, colour, draw, fitted,
    legend, legend_height, named, range, width,
};

/// The maximum width of the names; the height of a row for a few intervals, and for many; and the number of
/// intervals that are many.
const NAMES: u32 = 2 * SIZE.0 / 5;
const ROW: u32 = 46;
const NARROW_ROW: u32 = 34;
const MANY: usize = 20;

const STEP: u32 = 18;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interval {
    pub name: String,
    pub middle: f64,
    pub ends: (f64, f64),
}

impl Interval {
    /// Creates the interval that extends `half` to either side of a number.
    pub fn around(name: String, middle: f64, half: f64) -> Interval {
        Interval { name, middle, ends: (middle - half, middle + half) }
    }
}

/// Draws intervals from top to bottom, with a line at 0 if the range contains it. `axis` names the numbers; with `from_zero`, a bar from 0
/// shows each number. `None` without intervals, or if one is not finite.
pub(crate) fn intervals(axis: &str, intervals: &[Interval], from_zero: bool) -> Option<Drawing> {
    let height = if intervals.len() > MANY { NARROW_ROW } else { ROW };
    rows(axis, &[("", intervals)], from_zero.then_some(0.0), height, |chart, _, level, interval| {
        if from_zero {
            chart.rectangle([(0.0, level - 0.3), (interval.middle, level + 0.3)], BLUE.faint(0.35));
        }
        chart.line([(interval.ends.0, level), (interval.ends.1, level)], BLUE, THICK);
        chart.disc((interval.middle, level), 8, BLUE);
    })
}

/// Draws several intervals in every row, one of each series, with a legend. A series has a name, and intervals with the names of the rows;
/// all series have the same rows. `None` without intervals, or if one is not finite.
pub(crate) fn grouped(axis: &str, series: &[(String, Vec<Interval>)]) -> Option<Drawing> {
    let height = ROW.max(STEP * (1 + u32::try_from(series.len()).ok()?));
    let series: Vec<(&str, &[Interval])> = series.iter().map(|(name, all)| (&name[..], &all[..])).collect();
    let middle = (series.len() as f64 - 1.0) / 2.0;
    rows(axis, &series, None, height, |chart, index, level, interval| {
        let level = level + (middle - index as f64) * f64::from(STEP) / f64::from(height);
        chart.line([(interval.ends.0, level), (interval.ends.1, level)], colour(index), THIN);
        chart.marker((interval.middle, level), index, colour(index));
    })
}

/// Draws rows of one height, with their names and the line at 0. `paint` draws an interval, given the index of its series and the vertical
/// position of its row.
fn rows(
    axis: &str,
    series: &[(&str, &[Interval])],
    zero: Option<f64>,
    height: u32,
    paint: impl Fn(&Chart<'_>, usize, f64, &Interval),
) -> Option<Drawing> {
    let rows = series.first().filter(|(_, rows)| !rows.is_empty())?.1;
    let all = series.iter().flat_map(|(_, intervals)| *intervals);
    let numbers: Vec<f64> = all.flat_map(|i| [i.ends.0, i.middle, i.ends.1]).collect();
    let x = range(numbers.iter().copied().chain(zero)).filter(|_| numbers.iter().all(|n| n.is_finite()))?;
    let (low, high, count) = (x.start, x.end, rows.len() as f64);
    let titles: Vec<String> = rows.iter().map(|row| fitted(&row.name, NAMES)).collect();
    let beside = titles.iter().map(|title| width(title, TEXT)).max().unwrap_or(0) + 30;
    let sample = |index: usize| Sample::Line(colour(index), Some(index));
    let names = named(series.iter().enumerate().map(|(index, (name, _))| (*name, sample(index))));
    // The height of the figure without a legend.
    let above = 124 + height * rows.len() as u32;
    Some(draw((SIZE.0, above + legend_height(&names)), |area| {
        let (upper, lower) = area.split_below(above);
        let chart = Chart::of_rows(upper, Axis::linear(axis, x), 0.0..count, beside);
        let level = |row: usize| count - row as f64 - 0.5;
        if (low..high).contains(&0.0) {
            chart.line([(0.0, 0.0), (0.0, count)], GREY, THIN);
        }
        for (row, title) in titles.iter().enumerate() {
            let (_, place) = chart.place((0.0, level(row)));
            area.text(title, (beside as i32, place), Lettering::END);
        }
        for boundary in (1..rows.len()).filter(|_| series.len() > 1) {
            let level = level(boundary) + 0.5;
            chart.line([(low, level), (high, level)], GRID, THIN);
        }
        for (index, (_, intervals)) in series.iter().enumerate() {
            for (row, interval) in intervals.iter().enumerate() {
                paint(&chart, index, level(row), interval);
            }
        }
        legend(&lower, &names);
    }))
}
