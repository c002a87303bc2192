//! Figures of curves: the trace of a fit, and several named series with error bars and a legend.

use super::{
    Axis, COLOURS, Chart, Drawing, GREY, Ink, MARKERS, SIZE, Sample, THICK, draw, legend, legend_height,
    marker, range, whisker,
};
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

/// A series as it is drawn.
struct Shown<'a> {
    name: &'a str,
    colour: Ink,
    /// The index of the marker; `None` for a series of many points.
    marker: Option<usize>,
    points: Vec<Point>,
}

/// A point in the units of the axes, which are logarithms to base 10 if the axis is logarithmic.
struct Point {
    x: f64,
    y: f64,
    /// The ends of the bar, unless the standard error is 0 or unknown; −∞ is beyond the figure.
    bar: Option<(f64, f64)>,
}

/// Draws the series with bars of one standard error to either side and a legend below; `None` without points.
pub fn curves(curves: &Curves) -> Option<Drawing> {
    let all = curves.series.iter().enumerate().map(|(index, series)| curves.shown(index, series));
    let series: Vec<Shown<'_>> = all.filter(|series| !series.points.is_empty()).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let heights =
        points().flat_map(|point| [Some(point.y), point.bar.map(|bar| bar.0), point.bar.map(|bar| bar.1)]);
    let (x, y) = (range(points().map(|point| point.x))?, range(heights.flatten())?);
    let (bottom, ends) = (y.start, (x.start.max(y.start), x.end.min(y.end)));
    let x = Axis { name: &curves.axes.0, range: x, logarithmic: curves.log_x };
    let y = Axis { name: &curves.axes.1, range: y, logarithmic: curves.log_y };
    let mut names: Vec<(&str, Sample)> = series.iter().map(Shown::sample).collect();
    names.retain(|(name, _)| !name.is_empty());
    Some(draw((SIZE.0, SIZE.1 + legend_height(&names)), |area| {
        let (upper, lower) = area.split_below(SIZE.1);
        let chart = Chart::new(upper, x, y);
        if curves.diagonal && ends.0 < ends.1 {
            chart.line([(ends.0, ends.0), (ends.1, ends.1)], GREY, THICK);
        }
        for series in &series {
            chart.line(series.points.iter().map(|point| (point.x, point.y)), series.colour, THICK);
            for point in &series.points {
                let place = |y: f64| chart.place((point.x, y.max(bottom)));
                if let Some((low, high)) = point.bar {
                    whisker(&area, place(low), place(high), series.colour);
                }
                if let Some(which) = series.marker {
                    area.polygon(marker(place(point.y), which), series.colour);
                }
            }
        }
        legend(&lower, &names);
    }))
}

impl Curves {
    /// Creates a single line without a name, in linear axes of these names.
    pub(crate) fn line(axes: (&str, &str), points: impl Iterator<Item = (f64, f64)>) -> Curves {
        let points = points.map(|(x, y)| (x, y, f64::NAN)).collect();
        let series = vec![CurveSeries { name: String::new(), points }];
        Curves { axes: (axes.0.to_owned(), axes.1.to_owned()), series, ..Curves::default() }
    }

    fn shown<'a>(&self, index: usize, series: &'a CurveSeries) -> Shown<'a> {
        let points: Vec<Point> = series.points.iter().filter_map(|point| self.point(point)).collect();
        let marked = points.len() <= MOST_MARKED && !self.unmarked;
        let marker = marked.then_some(index % MARKERS.len());
        Shown { name: &series.name, colour: COLOURS[index % COLOURS.len()], marker, points }
    }

    /// Returns `None` for a point that is not finite, such as the logarithm of a number that is not positive.
    fn point(&self, &(x, y, error): &(f64, f64, f64)) -> Option<Point> {
        let height = |y: f64| if self.log_y { y.max(0.0).log10() } else { y };
        let x = if self.log_x { x.log10() } else { x };
        let bar = (error > 0.0 && error.is_finite()).then(|| (height(y - error), height(y + error)));
        let y = height(y);
        (x.is_finite() && y.is_finite()).then_some(Point { x, y, bar })
    }
}

impl Shown<'_> {
    fn sample(&self) -> (&str, Sample) {
        let sample = match self.marker {
            Some(marker) => Sample::LineAndMarker(self.colour, marker),
            None => Sample::Line(self.colour),
        };
        (self.name, sample)
    }
}
