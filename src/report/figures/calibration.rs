//! Figures of calibration: the histogram of integral transforms and the reliability curve; no point forecasts.

use super::{Axis, BLUE_LINE, GREY, SIZE, draw, frame};
use crate::metrics::Report;
use plotters::prelude::*;

/// The histogram of probability integral transforms, flat when the predictions are calibrated.
pub fn calibration(report: &Report) -> Option<String> {
    let bins = report.pit?;
    let top = bins.iter().fold(0.2f64, |top, &share| top.max(share));
    draw(SIZE, |area| {
        let x = Axis::linear("predicted probability of a smaller value", 0.0..1.0);
        let mut chart = frame(area, x, Axis::linear("share of rows", 0.0..1.05 * top))?;
        let width = 1.0 / bins.len() as f64;
        let bars = bins.iter().enumerate().map(|(bin, &share)| {
            let left = bin as f64 * width;
            Rectangle::new([(left, 0.0), (left + 0.95 * width, share)], BLUE_LINE.mix(0.6).filled())
        });
        chart.draw_series(bars)?;
        chart.draw_series(LineSeries::new([(0.0, width), (1.0, width)], GREY)).map(|_| ())
    })
}

/// Observed shares of positives against mean predicted probabilities, on the diagonal when the predictions are calibrated.
///
/// A point is a predicted probability, an observed share and a number of rows, as [`Metrics::reliability`] has them in
/// order; points of many rows are larger. `None` without points.
///
/// [`Metrics::reliability`]: crate::metrics::Metrics::reliability
pub fn reliability(points: &[(f64, f64, u64)]) -> Option<String> {
    let points: Vec<_> = points.iter().filter(|(x, y, _)| x.is_finite() && y.is_finite()).collect();
    let most = points.iter().map(|point| point.2).max()?.max(1);
    // A little more than [0, 1], so that points at the ends are whole.
    let axis = |name| Axis::linear(name, -0.04..1.04);
    draw(SIZE, |area| {
        let names = ("predicted probability", "observed share");
        let mut chart = frame(area, axis(names.0), axis(names.1))?;
        chart.draw_series(LineSeries::new([(0.0, 0.0), (1.0, 1.0)], GREY))?;
        chart.draw_series(LineSeries::new(points.iter().map(|point| (point.0, point.1)), BLUE_LINE))?;
        let circles = points.iter().map(|&&(x, y, rows)| {
            // The area is in proportion to the rows, on top of a smallest size.
            let radius = 2.0 + 4.0 * (rows as f64 / most as f64).sqrt();
            Circle::new((x, y), radius.round() as i32, BLUE_LINE.filled())
        });
        chart.draw_series(circles).map(|_| ())
    })
}

#[cfg(test)]
mod tests {
    use super::super::checked;
    use super::*;

    #[test]
    fn a_histogram_has_a_bar_per_bin() {
        assert_eq!(calibration(&Report::default()), None);
        let svg = checked(calibration(&Report { pit: Some([0.1; 10]), ..Report::default() }));
        assert!(svg.contains("share of rows"));
        // The background is a rectangle too.
        assert_eq!(svg.matches("<rect").count(), 11);
    }

    #[test]
    fn a_reliability_curve_has_a_point_per_bin_and_the_diagonal() {
        assert_eq!(reliability(&[]), None);
        assert_eq!(reliability(&[(f64::NAN, 0.5, 3)]), None);
        let svg = checked(reliability(&[(0.05, 0.0, 40), (0.5, 0.6, 10), (f64::NAN, 1.0, 2), (1.0, 1.0, 0)]));
        assert!(svg.contains("predicted probability") && svg.contains("observed share"));
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("r=\"6\"") && svg.contains("r=\"4\"") && svg.contains("r=\"2\""));
    }
}
