//! Test figures against their definitions, and their form in the metrics document.

use crate::prelude::*;
use approx::assert_relative_eq;
use sparsegp::metrics::{ClassScores, Compared, Metrics, Report};

const UNDEFINED: Compared = Compared {
    other_end: None,
    target: f64::NAN,
    mean: f64::NAN,
    log_density: f64::NAN,
    pit: (f64::NAN, f64::NAN),
    interval_95: (f64::NAN, f64::NAN),
    crps: f64::NAN,
    deviance: f64::NAN,
    most_probable: f64::NAN,
    classes: None,
};

fn row(target: f64, mean: f64, pit: f64) -> Compared {
    let log_density = -(target - mean).abs();
    Compared {
        target,
        mean,
        log_density,
        pit: (pit, pit),
        interval_95: (-1.0, 1.0 + mean),
        crps: 0.5 * mean,
        ..UNDEFINED
    }
}

fn class(positive: bool, probability: f64) -> Compared {
    let observed = if positive { probability } else { 1.0 - probability };
    Compared {
        target: f64::from(positive),
        mean: probability,
        log_density: observed.ln(),
        most_probable: f64::from(probability > 0.5),
        ..UNDEFINED
    }
}

fn metrics(task: Task, rows: &[Compared]) -> Metrics {
    let mut metrics = Metrics::new(task);
    rows.iter().for_each(|row| metrics.push(row));
    assert_eq!(metrics.rows(), rows.len() as u64);
    metrics
}

fn report(rows: &[Compared]) -> Report {
    metrics(Task::Regression, rows).report()
}

/// Returns P(Y = 0), P(Y = 1), … of a Poisson distribution, up to negligible probabilities.
fn poisson(rate: f64) -> Vec<f64> {
    let mut probabilities = vec![(-rate).exp()];
    while probabilities.len() < 20 || probabilities.last().is_some_and(|&last| last > 1e-17) {
        let y = probabilities.len() as f64;
        probabilities.extend(probabilities.last().map(|last| last * rate / y));
    }
    probabilities
}

/// Returns the distribution function at 0, 1, …
fn cumulative(probabilities: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |probability: &f64| {
        sum += probability;
        sum
    };
    probabilities.iter().map(add).collect()
}

/// Returns a row of a count with the given predictive distribution function.
fn count(y: usize, cdf: &[f64]) -> Compared {
    let below = if y == 0 { 0.0 } else { cdf[y - 1] };
    Compared { target: y as f64, mean: 1.0, log_density: 0.0, pit: (below, cdf[y]), ..UNDEFINED }
}

#[test]
fn figures_are_those_of_the_definitions() {
    let rows = [row(1.0, 2.0, 0.0), row(2.0, 2.0, 0.5), row(6.0, 3.0, 0.91), row(7.0, 9.0, 1.0)];
    let report = report(&rows);
    assert_relative_eq!(report.nll.unwrap(), 1.5);
    assert_relative_eq!(report.mse.unwrap(), 14.0 / 4.0);
    assert_relative_eq!(report.rmse.unwrap(), 3.5f64.sqrt());
    assert_relative_eq!(report.mae.unwrap(), 1.5);
    assert_relative_eq!(report.smse.unwrap(), 3.5 / 6.5);
    assert_relative_eq!(report.r2.unwrap(), 3.0 / 6.5, max_relative = 1e-14);
    assert_relative_eq!(report.interval_width_95.unwrap(), 6.0);
    // The third row is 2 above its interval [−1, 4]; each unit costs 40.
    assert_relative_eq!(report.interval_score_95.unwrap(), 6.0 + 80.0 / 4.0);
    assert_relative_eq!(report.crps.unwrap(), 2.0);
    assert_eq!(report.pit, Some([0.25, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.5]));
    let coverage = report.coverage.unwrap();
    let found = [coverage.central_50, coverage.central_80, coverage.central_90, coverage.central_95];
    assert_eq!(found, [0.25, 0.25, 0.5, 0.5].map(Some));
}

#[test]
fn a_figure_that_is_not_finite_is_null_and_does_not_affect_others() {
    assert_eq!(report(&[]), Report::default());
    let impossible = Compared { log_density: f64::NEG_INFINITY, ..row(1.0, 2.0, 0.5) };
    // A model without a density has neither.
    let unknown = Compared { log_density: f64::NAN, ..impossible };
    for row_without in [impossible, unknown] {
        let figures = report(&[row_without, row(2.0, 2.0, 0.5)]);
        assert_eq!((figures.nll, figures.mse), (None, Some(0.5)));
        assert!(figures.pit.is_some() && figures.coverage.is_some());
    }
    let lost = Compared { pit: (0.2, f64::NAN), ..row(1.0, 2.0, 0.5) };
    let figures = report(&[row(2.0, 2.0, 0.5), lost]);
    assert_eq!((figures.pit, figures.coverage, figures.mse), (None, None, Some(0.5)));
    let figures = report(&[row(1.0, 2.0, 0.5), row(1.0, 1.0, 0.5)]);
    assert_eq!((figures.smse, figures.mse), (None, Some(0.5)));
    let figures = report(&[row(1e200, -1e200, 0.5), row(1.0, 1.0, 0.5)]);
    assert_eq!((figures.mse, figures.rmse, figures.smse), (None, None, None));
    assert_eq!(figures.mae, Some(1e200));
}

/// Returns the keys of a report that have a value.
fn defined(report: &Report) -> Vec<String> {
    let json = serde_json::to_value(report).unwrap();
    let all = json.as_object().unwrap().iter();
    let mut keys: Vec<String> =
        all.filter(|(_, value)| !value.is_null()).map(|(key, _)| key.clone()).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn classification_by_hand() {
    let rows =
        [class(false, 0.1), class(false, 0.12), class(true, 0.18), class(true, 0.75), class(false, 1.0)];
    let mut rows = rows.to_vec();
    rows[4].log_density = -4.0;
    let metrics = metrics(Task::Classification, &rows);
    let figures = metrics.report();
    let nll = -(0.9f64.ln() + 0.88f64.ln() + 0.18f64.ln() + 0.75f64.ln() - 4.0) / 5.0;
    assert_relative_eq!(figures.nll.unwrap(), nll, max_relative = 1e-14);
    // Two rows are wrong: the positive row at 0.18 and the negative row at 1.
    assert_relative_eq!(figures.error_rate.unwrap(), 0.4);
    assert_relative_eq!(figures.accuracy.unwrap(), 0.6);
    assert_eq!(serde_json::to_value(&figures.confusion).unwrap(), serde_json::json!([[2, 1], [1, 1]]));
    let brier = (0.01 + 0.12f64.powi(2) + 0.82f64.powi(2) + 0.25f64.powi(2) + 1.0) / 5.0;
    assert_relative_eq!(figures.brier.unwrap(), brier, max_relative = 1e-14);
    // Of six pairs, both positive rows are above 0.1 and 0.12 and below 1.
    assert_relative_eq!(figures.auc.unwrap(), 4.0 / 6.0);
    // The bins are [0.1, 0.2) with mean 0.4 / 3 and share 1 / 3, [0.7, 0.8) with 0.75 and 1, and
    // [0.9, 1] with 1 and 0.
    let curve = metrics.reliability().unwrap();
    assert_eq!(curve.iter().map(|point| point.2).collect::<Vec<_>>(), [3, 1, 1]);
    let expected = [(0.4 / 3.0, 1.0 / 3.0), (0.75, 1.0), (1.0, 0.0)];
    for (point, (predicted, observed)) in curve.iter().zip(expected) {
        assert_relative_eq!(point.0, predicted, max_relative = 1e-14);
        assert_relative_eq!(point.1, observed, max_relative = 1e-14);
    }
    assert_relative_eq!(figures.ece.unwrap(), (0.6 + 0.25 + 1.0) / 5.0, max_relative = 1e-14);
}

#[test]
fn several_classes_by_hand() {
    let row = |target: f64, p: [f64; 3]| {
        let best = (0..3).max_by(|&i, &j| p[i].total_cmp(&p[j])).unwrap();
        let miss = |c: usize| (p[c] - f64::from(u8::from(c as f64 == target))).powi(2);
        let scores = ClassScores { brier: (0..3).map(miss).sum(), confidence: p[best] };
        let log_density = p[target as usize].ln();
        Compared { target, log_density, most_probable: best as f64, classes: Some(scores), ..UNDEFINED }
    };
    let rows = [row(0.0, [0.7, 0.2, 0.1]), row(2.0, [0.1, 0.72, 0.18]), row(1.0, [0.05, 0.9, 0.05])];
    let metrics = metrics(Task::Classification, &rows);
    let figures = metrics.report();
    assert_eq!(
        defined(&figures),
        ["accuracy", "brier", "confusion", "ece", "error_rate", "nll", "precision", "recall"]
    );
    let brier = (0.14 + (0.01 + 0.72f64.powi(2) + 0.82f64.powi(2)) + 0.015) / 3.0;
    assert_relative_eq!(figures.brier.unwrap(), brier, max_relative = 1e-14);
    // The bins are [0.7, 0.8) with mean 0.71 and one of two rows right, and [0.9, 1] with 0.9 and
    // all rows right.
    assert_relative_eq!(figures.ece.unwrap(), (2.0 * 0.21 + 0.1) / 3.0, max_relative = 1e-14);
    assert_relative_eq!(figures.accuracy.unwrap(), 2.0 / 3.0);
}

#[test]
fn one_class_has_no_auc_and_a_lost_probability_no_calibration() {
    let figures = metrics(Task::Classification, &[class(true, 0.9), class(true, 0.4)]).report();
    assert_eq!(figures.auc, None);
    assert_eq!(figures.error_rate, Some(0.5));
    assert!(figures.brier.is_some() && figures.ece.is_some());
    let lost = Compared { mean: f64::NAN, ..class(false, 0.2) };
    let metrics = metrics(Task::Classification, &[class(true, 0.9), lost]);
    assert_eq!(
        defined(&metrics.report()),
        ["accuracy", "confusion", "error_rate", "nll", "precision", "recall"]
    );
    assert_eq!(metrics.reliability(), None);
}

#[test]
fn counts_and_levels_by_hand() {
    let rows = [(0.0, 0.5, 1.0), (4.0, 3.0, 0.5)].map(|(target, mean, deviance)| Compared {
        target,
        mean,
        deviance,
        ..UNDEFINED
    });
    let figures = metrics(Task::Count, &rows).report();
    assert_relative_eq!(figures.mre.unwrap(), (0.5 + 0.25) / 2.0);
    assert_relative_eq!(figures.deviance.unwrap(), 0.75);
    assert_eq!((figures.nll, figures.pit, figures.coverage), (None, None, None));
    let rows = [(2.0, 1.0, 2.0), (0.0, 1.0, 1.0), (1.0, 1.5, 1.0)]
        .map(|(target, mean, most_probable)| Compared { target, mean, most_probable, ..UNDEFINED });
    let figures = metrics(Task::Ordinal, &rows).report();
    assert_relative_eq!(figures.error_rate.unwrap(), 1.0 / 3.0);
    assert_relative_eq!(figures.mse.unwrap(), 0.75);
    assert_relative_eq!(figures.mae.unwrap(), 2.5 / 3.0);
}

#[test]
fn the_integral_transforms_of_right_counts_are_flat() {
    for rate in [0.3, 3.7, 40.0] {
        let probabilities = poisson(rate);
        let cdf = cumulative(&probabilities);
        let mut metrics = Metrics::new(Task::Count);
        for (y, probability) in probabilities.iter().enumerate() {
            let rows = (1e5 * probability).round() as usize;
            (0..rows).for_each(|_| metrics.push(&count(y, &cdf)));
        }
        let pit = metrics.report().pit.unwrap();
        assert_relative_eq!(pit.iter().sum::<f64>(), 1.0, max_relative = 1e-12);
        assert!(pit.iter().all(|share| (share - 0.1).abs() < 1e-3), "rate {rate}: {pit:?}");
        let coverage = metrics.report().coverage.unwrap();
        assert!(coverage.central_50.unwrap() >= 0.5 - 1e-3 && coverage.central_95.unwrap() >= 0.95 - 1e-3);
    }
}

#[test]
fn a_row_is_spread_over_the_bins_it_reaches() {
    let one = |low: f64, high: f64| {
        let row = Compared { pit: (low, high), ..UNDEFINED };
        metrics(Task::Count, &[row]).report().pit.unwrap()
    };
    let shares = one(0.15, 0.35);
    let expected = [0.0, 0.25, 0.5, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    shares.iter().zip(expected).for_each(|(share, expected)| {
        assert_relative_eq!(*share, expected, epsilon = 1e-14);
    });
    one(0.0, 1.0).iter().for_each(|share| assert_relative_eq!(*share, 0.1, epsilon = 1e-14));
    // By rounding, sums of probabilities may slightly exceed 1, or be less than the preceding sum.
    assert_eq!(one(1.0, 1.0 + 1e-15)[9], 1.0);
    assert_eq!(one(1.0 + 1e-15, 1.0 - 1e-15)[9], 1.0);
}

#[test]
fn a_count_is_covered_exactly_when_it_is_between_the_quantiles() {
    for rate in [0.05, 0.7, 3.0, 11.0] {
        let cdf = cumulative(&poisson(rate));
        let quantile = |p: f64| cdf.iter().position(|&f| f >= p).unwrap();
        for y in 0..20 {
            let coverage = metrics(Task::Count, &[count(y, &cdf)]).report().coverage.unwrap();
            let found = [coverage.central_50, coverage.central_80, coverage.central_90, coverage.central_95];
            for (found, central) in found.into_iter().zip([0.5, 0.8, 0.9, 0.95]) {
                let interval = quantile((1.0 - central) / 2.0)..=quantile((1.0 + central) / 2.0);
                let expected = f64::from(interval.contains(&y));
                assert_eq!(found, Some(expected), "rate {rate}, y = {y}, interval {central}");
            }
        }
    }
}

proptest! {
    #[test]
    fn the_area_under_the_curve_counts_pairs(
        rows in proptest::collection::vec((proptest::bool::ANY, 0..=6u8), 0..60)
    ) {
        let of = |wanted: bool| rows.iter().filter(move |row| row.0 == wanted).map(|row| row.1);
        let pairs = || of(true).flat_map(|positive| of(false).map(move |negative| (positive, negative)));
        let won: f64 = pairs()
            .map(|(positive, negative)| match positive.cmp(&negative) {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Greater => 1.0,
            })
            .sum();
        let expected = (pairs().count() > 0).then(|| won / pairs().count() as f64);
        let rows: Vec<_> = rows.iter().map(|&(positive, sixth)| class(positive, f64::from(sixth) / 6.0)).collect();
        prop_assert_eq!(metrics(Task::Classification, &rows).report().auc, expected);
    }
}
