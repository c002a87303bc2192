//! Figures of functions of one input, with bands, data and inducing inputs.

use super::chart::Point;
use super::{
    Axis, DOT, Drawing, GREY, INK, MOST_POINTS, ORANGE, Sample, THICK, colour, is_finite, named, plot, range,
};

/// Functions of one input, such as the forecast of a series.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The names of the axes.
    pub axes: (String, String),
    /// The functions.
    pub bands: Vec<Band>,
    /// Observed points.
    pub observed: Vec<(f64, f64)>,
    /// Inputs of rows, marked at the lower edge.
    pub rows: Vec<f64>,
    /// Inducing inputs, marked at the lower edge.
    pub inducing: Vec<f64>,
}

/// A curve with the ends of its intervals.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// The name in the legend; a single curve may have no name.
    pub name: String,
    /// Input, value, and lower and upper end of the interval, ordered by input.
    pub points: Vec<(f64, f64, f64, f64)>,
}

impl Series {
    /// Draws the figure; `None` without finite points.
    pub fn figure(&self) -> Option<Drawing> {
        let points = || self.bands.iter().flat_map(|band| &band.points);
        let x = range(self.observed.iter().map(|p| p.0).chain(points().map(|p| p.0)))?;
        let y = range(self.observed.iter().map(|p| p.1).chain(points().flat_map(|p| [p.1, p.2, p.3])))?;
        let (x, y) = (Axis::linear(&self.axes.0, x), Axis::linear(&self.axes.1, y));
        let bands = || self.bands.iter().enumerate();
        let names =
            named(bands().map(|(index, band)| (band.name.as_str(), Sample::Line(colour(index), None))));
        // Dots are easier to see on a stronger band.
        let opacity = if self.observed.is_empty() { 0.2 } else { 0.25 };
        Some(plot(x, y, &names, |chart| {
            bands().for_each(|(index, band)| chart.polygon(band.outline(), colour(index).faint(opacity)));
            for (index, band) in bands() {
                chart.line(band.points.iter().map(|point| (point.0, point.1)), colour(index), THICK);
            }
            let stride = self.observed.len().div_ceil(MOST_POINTS).max(1);
            let points = self.observed.iter().step_by(stride).filter(|point| is_finite(point));
            points.for_each(|&point| chart.disc(point, DOT - 1, INK.faint(0.6)));
            chart.marks(&self.rows, 14, GREY.faint(0.6));
            chart.marks(&self.inducing, 22, ORANGE);
        }))
    }
}

impl Band {
    fn outline(&self) -> impl Iterator<Item = Point> {
        let ends = || self.points.iter().filter(|point| is_finite(&(point.2, point.3)));
        ends().map(|point| (point.0, point.3)).chain(ends().rev().map(|point| (point.0, point.2)))
    }
}
