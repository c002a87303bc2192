//! Figures of curves: the trace of a fit, and several named series with error bars and a legend.

use super::chart::Point;
use super::{Axis, Drawing, GREY, Ink, MARKERS, Sample, THICK, colour, is_finite, named, plot, range};
use sparsegp::hyper::Record;

/// The maximum number of points of a series with markers; more would hide the line.
const MOST_MARKED: usize = 200;

/// Draws the objective against time; `None` without a finite value.
pub fn trace(records: &[Record]) -> Option<Drawing> {
    let points = records.iter().map(|record| (record.seconds, record.objective));
    curves(&Curves::line(("seconds of training", "objective per row (nats)"), points))
}

/// Several series in the same axes.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// The names of the axes.
    pub axes: (String, String),
    /// True if the horizontal axis is logarithmic; points that are not positive are left out then.
    pub log_x: bool,
    /// True if the vertical axis is logarithmic; points that are not positive are left out then, and bars that reach to 0 or below end at
    /// the edge of the figure.
    pub log_y: bool,
    /// True if a grey line shows where both coordinates are equal.
    pub diagonal: bool,
    /// True if points have no markers.
    pub unmarked: bool,
    /// The series. The index in this list sets colour and marker; a single series without a name has no legend.
    pub series: Vec<CurveSeries>,
}

/// One of the series of a figure.
#[derive(Clone, Debug, Default)]
pub struct CurveSeries {
    /// The name in the legend.
    pub name: String,
    /// Position, mean and standard error, in the order of the line; NaN as standard error draws no bar. More than 200 points are a line
    /// without markers.
    pub points: Vec<(f64, f64, f64)>,
}

/// A series as it is drawn, in the units of the axes, which are logarithms to base 10 if the axis is logarithmic.
struct Shown<'a> {
    name: &'a str,
    colour: Ink,
    /// The index of the marker; `None` for a series of many points.
    marker: Option<usize>,
    points: Vec<Point>,
    /// For each point the ends of its bar, unless the standard error is 0 or unknown; −∞ is beyond the figure.
    bars: Vec<Option<(f64, f64)>>,
}

/// Draws the series with bars of one standard error to either side and a legend below; `None` without points.
pub fn curves(curves: &Curves) -> Option<Drawing> {
    let all = curves.series.iter().enumerate().map(|(index, series)| curves.shown(index, series));
    let series: Vec<Shown<'_>> = all.filter(|series| !series.points.is_empty()).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let bars = series.iter().flat_map(|series| &series.bars).flatten().flat_map(|&(low, high)| [low, high]);
    let (x, y) = (range(points().map(|point| point.0))?, range(points().map(|point| point.1).chain(bars))?);
    let (bottom, ends) = (y.start, (x.start.max(y.start), x.end.min(y.end)));
    let x = Axis { name: &curves.axes.0, range: x, logarithmic: curves.log_x };
    let y = Axis { name: &curves.axes.1, range: y, logarithmic: curves.log_y };
    let sample = |series: &Shown<'_>| Sample::Line(series.colour, series.marker);
    let names = named(series.iter().map(|series| (series.name, sample(series))));
    Some(plot(x, y, &names, |chart| {
        if curves.diagonal && ends.0 < ends.1 {
            chart.line([(ends.0, ends.0), (ends.1, ends.1)], GREY, THICK);
        }
        for Shown { colour, marker, points, bars, .. } in &series {
            chart.line(points.iter().copied(), *colour, THICK);
            for (&point, bar) in points.iter().zip(bars) {
                if let Some((low, high)) = bar {
                    chart.whisker(point.0, (low.max(bottom), high.max(bottom)), *colour);
                }
                if let Some(which) = marker {
                    chart.marker(point, *which, *colour);
                }
            }
        }
    }))
}

impl Curves {
    /// Creates a single line without a name, in linear axes of these names.
    pub(crate) fn line(axes: (&str, &str), points: impl Iterator<Item = (f64, f64)>) -> Curves {
        let points = points.map(|(x, y)| (x, y, f64::NAN)).collect();
        let series = vec![CurveSeries { name: String::new(), points }];
        Curves { axes: (axes.0.to_owned(), axes.1.to_owned()), series, ..Curves::default() }
    }

    /// Leaves out points that are not finite, such as the logarithm of a number that is not positive.
    fn shown<'a>(&self, index: usize, series: &'a CurveSeries) -> Shown<'a> {
        let height = |y: f64| if self.log_y { y.max(0.0).log10() } else { y };
        let place = |&(x, y, error): &(f64, f64, f64)| {
            let bar = (error > 0.0 && error.is_finite()).then(|| (height(y - error), height(y + error)));
            let point = (if self.log_x { x.log10() } else { x }, height(y));
            is_finite(&point).then_some((point, bar))
        };
        let (points, bars): (Vec<_>, Vec<_>) = series.points.iter().filter_map(place).unzip();
        let marked = points.len() <= MOST_MARKED && !self.unmarked;
        let marker = marked.then_some(index % MARKERS.len());
        Shown { name: &series.name, colour: colour(index), marker, points, bars }
    }
}
