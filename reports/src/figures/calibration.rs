//! Figures of calibration: integral transforms, coverage, reliability and the receiver operating
//! characteristic.

use super::{
    Axis, BLUE, Chart, Curves, Drawing, GREY, INK, Lettering, Sample, TEXT, THICK, THIN, colour, curves,
    ends, is_finite, named, plot,
};
use sparsegp::functions::normal::HALF_95;
use sparsegp::metrics::{Report, SurvivalGroup};

/// Draws the histogram of probability integral transforms of this number of rows. If the predictions are calibrated, it is flat, and 95 %
/// of the bars lie in the band.
pub fn calibration(report: &Report, rows: u64) -> Option<Drawing> {
    let bins = report.pit?;
    let width = 1.0 / bins.len() as f64;
    let half = HALF_95 * (width * (1.0 - width) / rows.max(1) as f64).sqrt();
    let top = bins.iter().fold((width + half).max(0.2), |top, &share| top.max(share));
    let x = Axis::linear("predicted probability of a smaller value", 0.0..1.0);
    Some(plot(x, Axis::linear("share of rows", 0.0..1.05 * top), &[], |chart| {
        let ends = [(width - half).max(0.0), width + half];
        chart.rectangle([(0.0, ends[0]), (1.0, ends[1])], GREY.faint(0.3));
        for (bin, &share) in bins.iter().enumerate() {
            let left = bin as f64 * width;
            chart.rectangle([(left, 0.0), (left + 0.95 * width, share)], BLUE);
        }
        // The bars hide the band, so its ends are lines above them.
        ends.iter().for_each(|&end| chart.line([(0.0, end), (1.0, end)], INK, THIN));
    }))
}

/// Draws the share of rows inside central intervals against the level, with 95 % intervals of the shares.
pub fn coverage(report: &Report, rows: u64) -> Option<Drawing> {
    let coverage = report.coverage.as_ref()?;
    let levels = [
        (0.5, coverage.central_50?),
        (0.8, coverage.central_80?),
        (0.9, coverage.central_90?),
        (0.95, coverage.central_95?),
    ];
    let low = levels.iter().fold(0.4, |low, level| wilson(level.1, rows).0.min(low));
    let x = Axis::linear("level of the predictive interval", 0.4..1.0);
    Some(plot(x, Axis::linear("share of rows inside", low - 0.02..1.02), &[], |chart| {
        chart.line([(0.4, 0.4), (1.0, 1.0)], GREY, THICK);
        chart.line(levels, BLUE, THICK);
        levels.iter().for_each(|&point| draw_share(chart, point, rows));
    }))
}

/// Draws observed shares against mean predicted probabilities, with 95 % intervals of the shares and the
/// numbers of rows. Calibrated predictions lie on the diagonal.
///
/// A point is a predicted probability, an observed share and a number of rows, in the order of
/// [`Metrics::reliability`]. Returns `None` without points.
///
/// [`Metrics::reliability`]: sparsegp::metrics::Metrics::reliability
pub(crate) fn reliability(points: &[(f64, f64, u64)]) -> Option<Drawing> {
    let points: Vec<_> = points.iter().filter(|(x, y, n)| is_finite(&(*x, *y)) && *n > 0).collect();
    // Slightly more than [0, 1], so that points at the ends are not cut, with space for the numbers below.
    let (x, y) = (-0.04..1.04, -0.17..1.04);
    let (x, y) = (Axis::linear("predicted probability", x), Axis::linear("observed share", y));
    let style = Lettering { size: TEXT * 3 / 4, ..Lettering::MIDDLE };
    let paint = |chart: &Chart<'_>| {
        chart.line([(0.0, 0.0), (1.0, 1.0)], GREY, THICK);
        chart.line(points.iter().map(|point| (point.0, point.1)), BLUE, THICK);
        for (index, &&(predicted, share, rows)) in points.iter().enumerate() {
            draw_share(chart, (predicted, share), rows);
            // Numbers alternate between two lines, so that they do not overlap.
            let level = if index % 2 == 0 { -0.085 } else { -0.14 };
            chart.whole.text(&rows.to_string(), chart.place((predicted, level)), style);
        }
    };
    (!points.is_empty()).then(|| plot(x, y, &[], paint))
}

/// Draws the true positive rate against the false positive rate, at every threshold of the probability; the points come from
/// [`Metrics::roc`]. `None` without points.
///
/// [`Metrics::roc`]: sparsegp::metrics::Metrics::roc
pub(crate) fn roc(points: &[(f64, f64)]) -> Option<Drawing> {
    let line = Curves::line(("false positive rate", "true positive rate"), points.iter().copied());
    curves(&Curves { diagonal: true, unmarked: true, ..line })
}

/// The width of a line of predictions behind an observed one, and the number of intervals of an observed line.
const WIDE: u32 = 4 * THICK;
const INTERVALS: usize = 5;

/// Draws P(Y > y) of groups of rows: the steps of the Kaplan–Meier estimate with 95 % intervals, in front of a wide line of the mean
/// prediction. `None` without groups.
pub(crate) fn survival(groups: &[SurvivalGroup], target: &str) -> Option<Drawing> {
    let (first, last) =
        ends(groups.iter().flat_map(|group| &group.predicted).map(|point| point.0).filter(|t| t.is_finite()));
    let several = groups.len() > 1;
    let name = |(index, group): (usize, &SurvivalGroup)| {
        if several { format!("group {}: {} rows", index + 1, group.rows) } else { String::new() }
    };
    let texts: Vec<String> = groups.iter().enumerate().map(name).collect();
    let names =
        texts.iter().enumerate().map(|(index, text)| (text.as_str(), Sample::Line(colour(index), None)));
    let names = named(names);
    (first < last).then(|| {
        plot(
            Axis::linear(target, first..last),
            Axis::linear("share of rows with a larger target", 0.0..1.02),
            &names,
            |chart| {
                for (index, group) in groups.iter().enumerate() {
                    chart.line(group.predicted.iter().copied(), colour(index).faint(0.3), WIDE);
                }
                for (index, SurvivalGroup { observed, predicted, .. }) in groups.iter().enumerate() {
                    let (mut alive, mut steps) = (1.0, vec![(first, 1.0)]);
                    for &(t, after, _) in observed {
                        steps.extend([(t, alive), (t, after)]);
                        alive = after;
                    }
                    steps.extend(predicted.last().map(|point| (point.0, alive)));
                    chart.line(steps, colour(index), THICK);
                    for &(t, alive, error) in
                        observed.iter().skip(1).step_by(observed.len().div_ceil(INTERVALS))
                    {
                        let half = HALF_95 * error;
                        chart.whisker(t, ((alive - half).max(0.0), (alive + half).min(1.0)), colour(index));
                    }
                }
            },
        )
    })
}

fn draw_share(chart: &Chart<'_>, (x, share): (f64, f64), rows: u64) {
    chart.whisker(x, wilson(share, rows), BLUE);
    chart.marker((x, share), 0, BLUE);
}

/// Returns Wilson's 95 % interval of a probability, given the share of `rows` observations in which the event occurred (Wilson 1927).
fn wilson(share: f64, rows: u64) -> (f64, f64) {
    let (n, z2) = (rows.max(1) as f64, HALF_95 * HALF_95);
    let middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = HALF_95 / (1.0 + z2 / n) * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).max(0.0).sqrt();
    (middle - half, middle + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_that_of_wilson() {
        // Newcombe (1998), table I: 81 of 263 is 0.2553 to 0.3662, 0 of 20 is 0 to 0.1611.
        let (low, high) = wilson(81.0 / 263.0, 263);
        assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5, "{low} {high}");
        let (low, high) = wilson(0.0, 20);
        assert!(low.abs() < 1e-12 && (high - 0.1611).abs() < 5e-5, "{low} {high}");
    }
}
