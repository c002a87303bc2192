//! Test figures of predictions, gathered one row at a time: accuracy, log density and calibration; no models.

use serde::{Deserialize, Serialize};

use crate::data::moments::Moments;

/// The number of bins of the histogram of probability integral transforms.
const PIT_BINS: usize = 10;

/// One row of test data and what was predicted for it, in original units of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegressionRow {
    /// The target y.
    pub target: f64,
    /// The predictive mean of y.
    pub mean: f64,
    /// The log predictive density at y.
    pub log_density: f64,
    /// The predictive distribution function at y (the probability integral transform), in [0, 1].
    pub pit: f64,
    /// The width of the central 95 % predictive interval of y.
    pub interval_width_95: f64,
}

/// The shares of test rows inside the central predictive intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Of the central 50 % interval.
    #[serde(rename = "50")]
    pub central_50: Option<f64>,
    /// Of the central 80 % interval.
    #[serde(rename = "80")]
    pub central_80: Option<f64>,
    /// Of the central 90 % interval.
    #[serde(rename = "90")]
    pub central_90: Option<f64>,
    /// Of the central 95 % interval.
    #[serde(rename = "95")]
    pub central_95: Option<f64>,
}

/// The test figures, in original units of the target.
///
/// A figure that does not apply to the kind of target, or that is not a finite number (the log density of an impossible
/// observation, say), is `None`: null in JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Minus the mean log predictive density.
    pub nll: Option<f64>,
    /// The mean squared error of the predictive mean.
    pub mse: Option<f64>,
    /// The square root of the mean squared error.
    pub rmse: Option<f64>,
    /// The mean absolute error of the predictive mean.
    pub mae: Option<f64>,
    /// Classification: the share of rows whose most probable class is wrong.
    pub error_rate: Option<f64>,
    /// Classification: the area under the receiver operating characteristic.
    pub auc: Option<f64>,
    /// Classification: the mean squared error of the predicted probability.
    pub brier: Option<f64>,
    /// Counts: the mean of |prediction − y| / max(1, y).
    pub mre: Option<f64>,
    /// The mean squared error divided by the population variance of the target over the same rows.
    pub smse: Option<f64>,
    /// Counts: the mean deviance.
    pub deviance: Option<f64>,
    /// Classification: the expected calibration error.
    pub ece: Option<f64>,
    /// The shares of the probability integral transforms in [0, 0.1), [0.1, 0.2), …, [0.9, 1].
    pub pit: Option<[f64; PIT_BINS]>,
    /// The mean width of the central 95 % interval.
    pub interval_width_95: Option<f64>,
    /// The shares of rows inside the central intervals.
    pub coverage: Option<Coverage>,
}

/// Gathers the figures of a regression; rows come in any order and are not kept.
#[derive(Clone, Debug, Default)]
pub struct RegressionMetrics {
    log_density: Moments,
    errors: Errors,
    calibration: Calibration,
}

impl RegressionMetrics {
    /// No rows yet.
    pub fn new() -> RegressionMetrics {
        RegressionMetrics::default()
    }

    /// Adds a row.
    pub fn push(&mut self, row: &RegressionRow) {
        self.log_density.push(row.log_density);
        self.errors.push(row.target, row.mean);
        self.calibration.push(row.pit, row.interval_width_95);
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.log_density.count()
    }

    /// The figures of the rows so far; all `None` of no rows.
    pub fn report(&self) -> Report {
        let mut report =
            Report { nll: finite(self.log_density.mean().map(|mean| -mean)), ..Report::default() };
        self.errors.report(&mut report);
        self.calibration.report(&mut report);
        report
    }
}

/// The part about the predictive mean.
#[derive(Clone, Debug, Default)]
struct Errors {
    squared: Moments,
    absolute: Moments,
    target: Moments,
}

impl Errors {
    fn push(&mut self, target: f64, mean: f64) {
        let error = mean - target;
        self.squared.push(error * error);
        self.absolute.push(error.abs());
        self.target.push(target);
    }

    fn report(&self, report: &mut Report) {
        report.mse = finite(self.squared.mean());
        report.rmse = report.mse.map(f64::sqrt);
        report.mae = finite(self.absolute.mean());
        // A constant target has no variance to compare with; the quotient is not finite then.
        report.smse = match (self.squared.mean(), self.target.variance()) {
            (Some(mse), Some(variance)) => finite(Some(mse / variance)),
            _ => None,
        };
    }
}

/// The part about the predictive distribution function and intervals, for any real or ordered target.
#[derive(Clone, Debug, Default)]
struct Calibration {
    bins: [u64; PIT_BINS],
    inside: [u64; 4],
    rows: u64,
    unusable: bool,
    width: Moments,
}

/// The probabilities of the central intervals whose coverage is reported.
const CENTRAL: [f64; 4] = [0.5, 0.8, 0.9, 0.95];

impl Calibration {
    fn push(&mut self, pit: f64, width: f64) {
        self.width.push(width);
        self.rows += 1;
        if !(0.0..=1.0).contains(&pit) {
            self.unusable = true;
            return;
        }
        self.bins[((pit * PIT_BINS as f64) as usize).min(PIT_BINS - 1)] += 1;
        for (inside, central) in self.inside.iter_mut().zip(CENTRAL) {
            // y is in the central interval exactly when its distribution function is this close to one half.
            *inside += u64::from((pit - 0.5).abs() <= central / 2.0);
        }
    }

    fn report(&self, report: &mut Report) {
        report.interval_width_95 = finite(self.width.mean());
        if self.rows == 0 || self.unusable {
            return;
        }
        let share = |count: u64| count as f64 / self.rows as f64;
        let [central_50, central_80, central_90, central_95] = self.inside.map(|count| Some(share(count)));
        report.pit = Some(self.bins.map(share));
        report.coverage = Some(Coverage { central_50, central_80, central_90, central_95 });
    }
}

/// The value if it is a finite number.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}
