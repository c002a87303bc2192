//! Figures of a regression: predictions against observations, and a forecast in one input; no calibration.

use super::{Axis, BLUE_LINE, GREY, MOST_POINTS, SIZE, draw, frame, range};
use crate::metrics::Compared;
use plotters::prelude::*;

/// Compared rows for the figures, thinned evenly once there are many.
#[derive(Clone, Debug)]
pub struct Observed {
    points: Vec<(f64, f64)>,
    seen: usize,
    stride: usize,
}

impl Default for Observed {
    fn default() -> Self {
        Observed { points: Vec::new(), seen: 0, stride: 1 }
    }
}

impl Observed {
    /// Adds a row.
    pub fn push(&mut self, row: &Compared) {
        if self.seen.is_multiple_of(self.stride) {
            self.points.push((row.target, row.mean));
        }
        self.seen += 1;
        if self.points.len() > MOST_POINTS {
            // Every other point stays, and from here on every other row.
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    /// Predicted mean against observed target; `None` without points.
    pub fn figure(&self) -> Option<String> {
        let range = range(self.points.iter().flat_map(|&(y, mean)| [y, mean]))?;
        draw(SIZE, |area| {
            let axis = |name| Axis::linear(name, range.clone());
            let mut chart = frame(area, axis("observed"), axis("predicted mean"))?;
            chart.draw_series(LineSeries::new([(range.start, range.start), (range.end, range.end)], GREY))?;
            let finite = self.points.iter().filter(|(y, mean)| y.is_finite() && mean.is_finite());
            let points = finite.map(|&point| Circle::new(point, 2, BLUE_LINE.mix(0.5).filled()));
            chart.draw_series(points).map(|_| ())
        })
    }
}

/// A series in one input with its forecast.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The names of the axes.
    pub axes: (String, String),
    /// Observed points.
    pub observed: Vec<(f64, f64)>,
    /// Input, mean, lower and upper end of the central 95 % interval, in the order of the input.
    pub forecast: Vec<(f64, f64, f64, f64)>,
}

impl Series {
    /// The figure; `None` without points.
    pub fn figure(&self) -> Option<String> {
        let x = range(self.observed.iter().map(|p| p.0).chain(self.forecast.iter().map(|f| f.0)))?;
        let band = self.forecast.iter().flat_map(|f| [f.2, f.3]);
        let y = range(self.observed.iter().map(|p| p.1).chain(band))?;
        draw(SIZE, |area| {
            let mut chart = frame(area, Axis::linear(&self.axes.0, x), Axis::linear(&self.axes.1, y))?;
            let upper = self.forecast.iter().map(|f| (f.0, f.3));
            let outline = upper.chain(self.forecast.iter().rev().map(|f| (f.0, f.2)));
            chart.draw_series([Polygon::new(outline.collect::<Vec<_>>(), BLUE_LINE.mix(0.25))])?;
            chart.draw_series(LineSeries::new(self.forecast.iter().map(|f| (f.0, f.1)), BLUE_LINE))?;
            let points = self.observed.iter().map(|&point| Circle::new(point, 1, BLACK.filled()));
            chart.draw_series(points).map(|_| ())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::checked;
    use super::*;

    fn observe(pairs: impl Iterator<Item = (f64, f64)>) -> Observed {
        let mut observed = Observed::default();
        let undefined = f64::NAN;
        for (target, mean) in pairs {
            observed.push(&Compared {
                target,
                mean,
                log_density: undefined,
                pit: (undefined, undefined),
                interval_95: (undefined, undefined),
                crps: undefined,
                deviance: undefined,
                most_probable: undefined,
                classes: None,
            });
        }
        observed
    }

    #[test]
    fn predictions_against_observations() {
        assert_eq!(Observed::default().figure(), None);
        let svg = checked(observe([(1.0, 1.5), (2.0, f64::NAN), (3.0, 2.5)].into_iter()).figure());
        assert!(svg.contains("predicted mean") && svg.contains("observed"));
        assert_eq!(svg.matches("<circle").count(), 2);
        let many = observe((0..10 * MOST_POINTS).map(|row| (row as f64, row as f64))).figure();
        let shown = checked(many).matches("<circle").count();
        assert!((MOST_POINTS / 2..=MOST_POINTS).contains(&shown), "{shown}");
    }

    #[test]
    fn a_forecast_has_its_points_and_its_band() {
        assert_eq!(Series::default().figure(), None);
        let series = Series {
            axes: ("year".into(), "ppm & more".into()),
            observed: vec![(0.0, 1.0), (1.0, 2.0)],
            forecast: vec![(0.0, 1.0, 0.5, 1.5), (1.0, 2.0, 1.0, 3.0)],
        };
        let svg = checked(series.figure());
        assert!(svg.contains("year") && svg.contains("ppm &amp; more"));
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polygon").count()), (2, 1));
    }
}
