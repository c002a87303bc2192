//! Figures of a regression on test rows: predictions against observations, and residuals.

use super::{Axis, BLUE, DOT, Drawing, GREY, MOST_POINTS, ORANGE, THICK, THIN, is_finite, plot, range};
use sparsegp::data::Moments;
use sparsegp::metrics::Compared;
use std::ops::Range;

const MOST_INTERVALS: usize = 250;

/// The maximum distance by which intervals may widen a figure beyond the dots, as a multiple of the range of
/// the dots. Longer intervals would leave no room for dots.
const FARTHEST: f64 = 2.0;

/// The least width of the range of predictions, as a share of that of targets or residuals.
const NARROWEST: f64 = 0.25;

/// The number of equal groups of rows whose mean residuals are drawn, and the minimum number of rows in each.
const GROUPS: usize = 10;
const FEWEST: usize = 10;

/// Compared rows for the figures, thinned evenly if there are many.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    points: Vec<Compared>,
    seen: usize,
    /// The number of times that every other point was dropped.
    halvings: u32,
}

/// Widens the range of predictions to a quarter of another range, so that nearly equal predictions look
/// nearly equal.
fn not_narrow(predictions: Range<f64>, other: &Range<f64>) -> Range<f64> {
    let (width, least) = (predictions.end - predictions.start, NARROWEST * (other.end - other.start));
    let margin = (0.5 * (least - width)).max(0.0);
    predictions.start - margin..predictions.end + margin
}

impl Observed {
    /// Adds a row.
    pub fn push(&mut self, row: &Compared) {
        if self.seen.is_multiple_of(1 << self.halvings) {
            self.points.push(*row);
        }
        self.seen += 1;
        if self.points.len() > MOST_POINTS {
            // Keeps every other point, and from here on every other row.
            self.points = self.points.iter().step_by(2).copied().collect();
            self.halvings += 1;
        }
    }

    fn finite(&self) -> impl Iterator<Item = &Compared> {
        self.points.iter().filter(|point| is_finite(&(point.target, point.mean)))
    }

    /// Draws the observed target against the predicted mean, with the 95 % intervals of some rows; `None` without points.
    pub fn figure(&self, target: &str) -> Option<Drawing> {
        let intervals: Vec<&Compared> = self.finite().filter(|row| is_finite(&row.interval_95)).collect();
        let stride = intervals.len().div_ceil(MOST_INTERVALS).max(1);
        let dots = || self.finite().flat_map(|point| [point.target, point.mean]);
        let of_dots = range(dots())?;
        let far = FARTHEST * (of_dots.end - of_dots.start);
        let near = |end: f64| end.clamp(of_dots.start - far, of_dots.end + far);
        let ends_of = |point: &Compared| [point.interval_95.0, point.interval_95.1].map(near);
        let intervals = || intervals.iter().step_by(stride);
        let heights = range(dots().chain(intervals().flat_map(|point| ends_of(point))))?;
        let means = not_narrow(range(self.finite().map(|point| point.mean))?, &of_dots);
        let diagonal = (means.start.max(heights.start), means.end.min(heights.end));
        let names = (format!("predicted mean of {target}"), format!("observed {target}"));
        Some(plot(Axis::linear(&names.0, means), Axis::linear(&names.1, heights), &[], |chart| {
            for point in intervals() {
                chart.line(ends_of(point).map(|end| (point.mean, end)), BLUE.faint(0.3), THIN);
            }
            chart.line([(diagonal.0, diagonal.0), (diagonal.1, diagonal.1)], GREY, THICK);
            self.finite().for_each(|point| chart.disc((point.mean, point.target), DOT, BLUE.faint(0.7)));
        }))
    }

    /// Draws residuals (observed minus predicted) against predictions, with the means of tenths of the rows and their 95 % intervals;
    /// `None` without points.
    pub fn residuals(&self, target: &str) -> Option<Drawing> {
        let mut points: Vec<(f64, f64)> =
            self.finite().map(|point| (point.mean, point.target - point.mean)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (x, y) = (range(points.iter().map(|p| p.0))?, range(points.iter().map(|p| p.1))?);
        let x = not_narrow(x, &y);
        let (ends, name) = ((x.start, x.end), format!("predicted mean of {target}"));
        Some(plot(Axis::linear(&name, x), Axis::linear("observed − predicted", y), &[], |chart| {
            points.iter().for_each(|&point| chart.disc(point, DOT, BLUE.faint(0.5)));
            chart.line([(ends.0, 0.0), (ends.1, 0.0)], GREY, THICK);
            if points.len() < GROUPS * FEWEST {
                return;
            }
            for group in points.chunks(points.len().div_ceil(GROUPS)) {
                let (mut place, mut left) = (Moments::default(), Moments::default());
                group.iter().for_each(|(x, y)| {
                    place.push(*x);
                    left.push(*y);
                });
                if let (Some(x), Some(y), Some(variance)) = (place.mean(), left.mean(), left.variance()) {
                    let half = 1.96 * (variance / (group.len() as f64 - 1.0).max(1.0)).sqrt();
                    chart.whisker(x, (y - half, y + half), ORANGE);
                    chart.marker((x, y), 0, ORANGE);
                }
            }
        }))
    }
}
