//! Figures of named intervals, one below the other, such as those of coefficients.

use super::letters::width;
use super::{
    Area, Axis, BLUE, COLOURS, Chart, Drawing, GREY, GRID, Lettering, SIZE, Sample, TEXT, THICK, THIN, draw,
    fitted, legend, legend_height, marker, range,
};

/// The maximum width of the names; the height of a row for a few intervals, and for many; and the number of
/// intervals that are many.
const NAMES: u32 = 2 * SIZE.0 / 5;
const ROW: u32 = 46;
const NARROW_ROW: u32 = 34;
const MANY: usize = 20;

/// The height of an interval if a row has several.
const STEP: u32 = 18;

/// A number with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Interval {
    /// The name of the number.
    pub name: String,
    /// The number.
    pub middle: f64,
    /// The lower and the upper end of the interval.
    pub ends: (f64, f64),
}

/// Draws intervals from top to bottom, with a line at 0 if the range contains it. `axis` names the numbers; with `from_zero`, a bar from 0
/// shows each number. `None` without intervals, or if one is not finite.
pub(crate) fn intervals(axis: &str, intervals: &[Interval], from_zero: bool) -> Option<Drawing> {
    let zero = from_zero.then_some(0.0);
    let height = if intervals.len() > MANY { NARROW_ROW } else { ROW };
    let rows = Rows::of(axis, intervals.iter().map(|interval| interval.name.as_str()), height)?;
    let x = rows.axis(intervals, zero)?;
    Some(draw((SIZE.0, rows.height()), |area| {
        let chart = rows.frame(area, x);
        for (row, interval) in intervals.iter().enumerate() {
            let level = rows.level(row);
            let (low, high) = interval.ends;
            if from_zero {
                let bar = [(0.0, level - 0.3), (interval.middle, level + 0.3)];
                chart.rectangle(bar, BLUE.faint(0.35));
            }
            chart.line([(low, level), (high, level)], BLUE, THICK);
            chart.disc((interval.middle, level), 8, BLUE);
        }
    }))
}

/// Intervals of one name in every row of a figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IntervalSeries {
    /// The name in the legend.
    pub name: String,
    /// The intervals, with the names of the rows.
    pub intervals: Vec<Interval>,
}

/// Draws several intervals in every row, one of each series, with a legend. All series have the same rows. `None` without intervals, or if
/// one is not finite.
pub(crate) fn grouped(axis: &str, series: &[IntervalSeries]) -> Option<Drawing> {
    let (first, count) = (series.first()?, series.len());
    let height = ROW.max(STEP * (1 + u32::try_from(count).ok()?));
    let rows = Rows::of(axis, first.intervals.iter().map(|interval| interval.name.as_str()), height)?;
    let all: Vec<Interval> = series.iter().flat_map(|series| series.intervals.iter().cloned()).collect();
    let x = rows.axis(&all, None)?;
    let x_ends = (x.range.start, x.range.end);
    let sample = |index: usize| Sample::LineAndMarker(COLOURS[index % COLOURS.len()], index);
    let names: Vec<(&str, Sample)> =
        series.iter().enumerate().map(|(index, series)| (series.name.as_str(), sample(index))).collect();
    Some(draw((SIZE.0, rows.height() + legend_height(&names)), |area| {
        let (upper, lower) = area.split_below(rows.height());
        let chart = rows.frame(upper, x);
        for boundary in 1..first.intervals.len() {
            let level = rows.level(boundary) + 0.5;
            chart.line([(x_ends.0, level), (x_ends.1, level)], GRID, THIN);
        }
        for (index, one) in series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let above = (count as f64 - 1.0) / 2.0 - index as f64;
            for (row, interval) in one.intervals.iter().enumerate() {
                let level = rows.level(row) + above * f64::from(STEP) / f64::from(height);
                chart.line([(interval.ends.0, level), (interval.ends.1, level)], colour, THIN);
                area.polygon(marker(chart.place((interval.middle, level)), index), colour);
            }
        }
        legend(&lower, &names);
    }))
}

/// The named rows of a figure of intervals.
struct Rows<'a> {
    axis: &'a str,
    names: Vec<&'a str>,
    /// The height of a row.
    row: u32,
}

impl<'a> Rows<'a> {
    /// Creates the rows; `None` without names.
    fn of(axis: &'a str, names: impl Iterator<Item = &'a str>, row: u32) -> Option<Rows<'a>> {
        let names: Vec<&str> = names.collect();
        (!names.is_empty()).then_some(Rows { axis, names, row })
    }

    /// Returns the axis of the numbers; `None` if one is not finite.
    fn axis(&self, intervals: &[Interval], zero: Option<f64>) -> Option<Axis<'a>> {
        let numbers = || intervals.iter().flat_map(|i| [i.ends.0, i.middle, i.ends.1]);
        numbers().all(f64::is_finite).then_some(())?;
        Some(Axis::linear(self.axis, range(numbers().chain(zero))?))
    }

    /// Returns the height of the figure without a legend.
    fn height(&self) -> u32 {
        124 + self.row * self.names.len() as u32
    }

    /// Returns the vertical position of a row.
    fn level(&self, row: usize) -> f64 {
        self.names.len() as f64 - row as f64 - 0.5
    }

    /// Draws the axis, the names of the rows, and the line at 0.
    fn frame<'b>(&self, area: Area<'b>, x: Axis<'_>) -> Chart<'b> {
        let names: Vec<String> = self.names.iter().map(|name| fitted(name, NAMES)).collect();
        let beside = names.iter().map(|name| width(name, TEXT)).max().unwrap_or(0) + 30;
        let (shows_zero, count) = (x.range.contains(&0.0), self.names.len() as f64);
        let chart = Chart::of_rows(area, x, 0.0..count, beside);
        if shows_zero {
            chart.line([(0.0, 0.0), (0.0, count)], GREY, THIN);
        }
        for (row, name) in names.iter().enumerate() {
            let (_, place) = chart.place((0.0, self.level(row)));
            area.text(name, (beside as i32, place), Lettering::END);
        }
        chart
    }
}
