//! Figures of functions of one input with their bands: a forecast with data, and partial
//! dependence.

use super::chart::Point;
use super::{
    Axis, BLUE, COLOURS, Chart, DOT, Drawing, GREY, INK, MOST_POINTS, ORANGE, SIZE, Sample, THICK, THIN,
    draw, legend, legend_height, range,
};

/// A series in one input with its forecast.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The names of the axes.
    pub axes: (String, String),
    /// Observed points.
    pub observed: Vec<(f64, f64)>,
    /// Input, mean, and lower and upper end of the central 95 % interval, ordered by input.
    pub forecast: Vec<(f64, f64, f64, f64)>,
    /// Positions of inducing inputs, marked at the lower edge.
    pub inducing: Vec<f64>,
}

impl Series {
    /// Draws the figure; `None` without points.
    pub fn figure(&self) -> Option<Drawing> {
        let x = range(self.observed.iter().map(|p| p.0).chain(self.forecast.iter().map(|f| f.0)))?;
        let band = self.forecast.iter().flat_map(|f| [f.1, f.2, f.3]);
        let y = range(self.observed.iter().map(|p| p.1).chain(band))?;
        let shown = x.clone();
        Some(draw(SIZE, |area| {
            let chart =
                Chart::new(area, Axis::linear(&self.axes.0, x), Axis::linear(&self.axes.1, y.clone()));
            chart.polygon(outline(&self.forecast), BLUE.faint(0.25));
            chart.line(self.forecast.iter().map(|f| (f.0, f.1)), BLUE, THICK);
            let stride = self.observed.len().div_ceil(MOST_POINTS).max(1);
            let points = self.observed.iter().step_by(stride);
            let finite = points.filter(|point| point.0.is_finite() && point.1.is_finite());
            finite.for_each(|&point| chart.disc(point, DOT - 1, INK.faint(0.6)));
            for place in self.inducing.iter().filter(|place| shown.contains(place)) {
                let (x, bottom) = chart.place((*place, y.start));
                area.line([(x, bottom), (x, bottom - 22)], ORANGE, THIN);
            }
        }))
    }
}

/// Returns the outline between the lower and the upper ends.
fn outline(points: &[(f64, f64, f64, f64)]) -> impl Iterator<Item = Point> {
    let finite = |point: &&(f64, f64, f64, f64)| point.2.is_finite() && point.3.is_finite();
    let upper = points.iter().filter(finite).map(|f| (f.0, f.3));
    let lower = points.iter().rev().filter(finite).map(|f| (f.0, f.2));
    upper.chain(lower)
}

/// A curve with the ends of its intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Band {
    /// The name in the legend; a single curve may have no name.
    pub name: String,
    /// Input, value, and lower and upper end of the interval, ordered by input.
    pub points: Vec<(f64, f64, f64, f64)>,
}

/// Draws curves with their bands, and a mark at the lower edge for each input in `data`; `None` without finite points.
pub(crate) fn bands(axes: (&str, &str), bands: &[Band], data: &[f64]) -> Option<Drawing> {
    let points = || bands.iter().flat_map(|band| &band.points);
    let x = range(points().map(|point| point.0))?;
    let y = range(points().flat_map(|point| [point.1, point.2, point.3]))?;
    let named = |(index, band): (usize, &'_ Band)| (index, band.name.clone());
    let names: Vec<(usize, String)> = bands.iter().enumerate().map(named).collect();
    let names: Vec<(&str, Sample)> = names
        .iter()
        .filter(|(_, name)| !name.is_empty())
        .map(|(index, name)| (name.as_str(), Sample::Line(COLOURS[index % COLOURS.len()])))
        .collect();
    Some(draw((SIZE.0, SIZE.1 + legend_height(&names)), |area| {
        let (upper, lower) = area.split_below(SIZE.1);
        let (shown, bottom) = (x.clone(), y.start);
        let chart = Chart::new(upper, Axis::linear(axes.0, x), Axis::linear(axes.1, y));
        let colour = |index: usize| COLOURS[index % COLOURS.len()];
        for (index, band) in bands.iter().enumerate() {
            chart.polygon(outline(&band.points), colour(index).faint(0.2));
        }
        for (index, band) in bands.iter().enumerate() {
            chart.line(band.points.iter().map(|point| (point.0, point.1)), colour(index), THICK);
        }
        for place in data.iter().filter(|place| shown.contains(place)) {
            let (x, foot) = chart.place((*place, bottom));
            area.line([(x, foot), (x, foot - 14)], GREY.faint(0.6), THIN);
        }
        legend(&lower, &names);
    }))
}
