//! Test figures against their definitions, and what the metrics document makes of them.

use approx::assert_relative_eq;
use proptest::prelude::*;
use sparsegp::metrics::{RegressionMetrics, RegressionRow, Report};

fn row(target: f64, mean: f64, pit: f64) -> RegressionRow {
    RegressionRow { target, mean, log_density: -(target - mean).abs(), pit, interval_width_95: 2.0 + mean }
}

fn report(rows: &[RegressionRow]) -> Report {
    let mut metrics = RegressionMetrics::new();
    rows.iter().for_each(|row| metrics.push(row));
    assert_eq!(metrics.rows(), rows.len() as u64);
    metrics.report()
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
    assert_relative_eq!(report.interval_width_95.unwrap(), 6.0);
    assert_eq!(report.pit, Some([0.25, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.5]));
    let coverage = report.coverage.unwrap();
    assert_eq!(coverage.central_50, Some(0.25));
    assert_eq!(coverage.central_80, Some(0.25));
    assert_eq!(coverage.central_90, Some(0.5));
    assert_eq!(coverage.central_95, Some(0.5));
}

#[test]
fn every_key_is_there_and_what_does_not_apply_is_null() {
    let json = serde_json::to_value(report(&[row(1.0, 2.0, 0.2), row(3.0, 2.0, 0.8)])).unwrap();
    let mut keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    let mut expected = [
        "nll",
        "mse",
        "rmse",
        "mae",
        "error_rate",
        "auc",
        "brier",
        "mre",
        "smse",
        "deviance",
        "ece",
        "pit",
        "interval_width_95",
        "coverage",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    for key in ["error_rate", "auc", "brier", "mre", "deviance", "ece"] {
        assert!(json[key].is_null(), "{key}");
    }
    assert_eq!(json["pit"].as_array().unwrap().len(), 10);
    assert_eq!(json["coverage"], serde_json::json!({"50": 0.0, "80": 1.0, "90": 1.0, "95": 1.0}));
    let back: Report = serde_json::from_value(json).unwrap();
    assert_eq!(back, report(&[row(1.0, 2.0, 0.2), row(3.0, 2.0, 0.8)]));
}

#[test]
fn what_is_not_a_number_is_null_and_spoils_nothing_else() {
    assert_eq!(report(&[]), Report::default());
    let impossible = RegressionRow { log_density: f64::NEG_INFINITY, ..row(1.0, 2.0, 0.5) };
    let figures = report(&[impossible, row(2.0, 2.0, 0.5)]);
    assert_eq!((figures.nll, figures.mse), (None, Some(0.5)));
    let lost = RegressionRow { pit: f64::NAN, ..row(1.0, 2.0, 0.5) };
    let figures = report(&[row(2.0, 2.0, 0.5), lost]);
    assert_eq!((figures.pit, figures.coverage, figures.mse), (None, None, Some(0.5)));
    let figures = report(&[row(1.0, 2.0, 0.5), row(1.0, 1.0, 0.5)]);
    assert_eq!((figures.smse, figures.mse), (None, Some(0.5)));
    let figures = report(&[row(1e200, -1e200, 0.5), row(1.0, 1.0, 0.5)]);
    assert_eq!((figures.mse, figures.rmse, figures.smse), (None, None, None));
    assert_eq!(figures.mae, Some(1e200));
}

proptest! {
    #[test]
    fn shares_add_up_and_nested_intervals_hold_more(
        pits in proptest::collection::vec(0.0..=1.0f64, 1..60), far in 1e6..1e9f64
    ) {
        let rows: Vec<_> = pits.iter().map(|&pit| row(far + pit, far, pit)).collect();
        let figures = report(&rows);
        prop_assert!((figures.pit.unwrap().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let coverage = figures.coverage.unwrap();
        let nested = [coverage.central_50, coverage.central_80, coverage.central_90, coverage.central_95];
        prop_assert!(nested.is_sorted());
        let inside = pits.iter().filter(|&&pit| (0.05..=0.95).contains(&pit)).count();
        prop_assert!((coverage.central_90.unwrap() - inside as f64 / pits.len() as f64).abs() < 1e-12);
        prop_assert!((figures.rmse.unwrap().powi(2) - figures.mse.unwrap()).abs() < 1e-12);
    }
}
