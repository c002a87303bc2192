//! Figures of a regression on test rows: predictions against observations, and residuals.

use super::{
    Axis, BLUE, Chart, DOT, Drawing, GREY, MOST_POINTS, ORANGE, SIZE, THICK, THIN, draw, marker, range,
    whisker,
};
use sparsegp::data::Moments;
use sparsegp::metrics::Compared;
use std::ops::Range;

/// The maximum number of rows with drawn intervals.
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
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.halvings += 1;
        }
    }

    fn finite(&self) -> impl Iterator<Item = &Compared> {
        self.points.iter().filter(|point| point.target.is_finite() && point.mean.is_finite())
    }

    /// Draws the observed target against the predicted mean, with the 95 % intervals of some rows; `None` without points.
    pub fn figure(&self, target: &str) -> Option<Drawing> {
        let with_interval = |row: &&Compared| row.interval_95.0.is_finite() && row.interval_95.1.is_finite();
        let intervals: Vec<&Compared> = self.finite().filter(with_interval).collect();
        let stride = intervals.len().div_ceil(MOST_INTERVALS).max(1);
        let intervals: Vec<&Compared> = intervals.into_iter().step_by(stride).collect();
        let dots = || self.finite().flat_map(|point| [point.target, point.mean]);
        let of_dots = range(dots())?;
        let far = FARTHEST * (of_dots.end - of_dots.start);
        let near = |end: f64| end.clamp(of_dots.start - far, of_dots.end + far);
        let ends = intervals.iter().flat_map(|point| [near(point.interval_95.0), near(point.interval_95.1)]);
        let heights = range(dots().chain(ends))?;
        let means = not_narrow(range(self.finite().map(|point| point.mean))?, &of_dots);
        let diagonal = (means.start.max(heights.start), means.end.min(heights.end));
        Some(draw(SIZE, |area| {
            let names = (format!("predicted mean of {target}"), format!("observed {target}"));
            let chart = Chart::new(area, Axis::linear(&names.0, means), Axis::linear(&names.1, heights));
            for point in intervals {
                let ends = [point.interval_95.0, point.interval_95.1].map(|end| (point.mean, near(end)));
                chart.line(ends, BLUE.faint(0.3), THIN);
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
        Some(draw(SIZE, |area| {
            let name = format!("predicted mean of {target}");
            let ends = (x.start, x.end);
            let chart = Chart::new(area, Axis::linear(&name, x), Axis::linear("observed − predicted", y));
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
                let (Some(x), Some(middle), Some(variance)) = (place.mean(), left.mean(), left.variance())
                else {
                    continue;
                };
                let half = 1.96 * (variance / (group.len() as f64 - 1.0).max(1.0)).sqrt();
                let at = |y: f64| chart.place((x, y));
                whisker(&area, at(middle - half), at(middle + half), ORANGE);
                area.polygon(marker(at(middle), 0), ORANGE);
            }
        }))
    }
}
