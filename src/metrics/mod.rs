//! Metrics of predictions for every task, gathered one row at a time.

mod calibration;
mod classification;
mod confusion;
mod survival;

use crate::data::Moments;
use crate::likelihood::Task;
use calibration::Calibration;
use classification::Classes;
pub use confusion::Confusion;
use serde::{Deserialize, Serialize};
#[doc(hidden)]
pub use survival::SurvivalGroup;
pub(crate) use survival::{Survives, integrated_brier, survival_groups};

/// The number of bins of the histogram of probability integral transforms and of the reliability curve.
const BINS: usize = 10;

/// One row of test data and what was predicted for it, in original units of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Compared {
    /// The target y. Classification: 1 for the positive class, 0 for the other. Ordinal: the index of the level.
    pub target: f64,
    /// The other end of the interval that contains a censored target and begins or ends at y, or NaN for a known target; `None` if targets
    /// of this kind are never censored.
    pub other_end: Option<f64>,
    /// The predictive mean of y. Two classes: the probability of the positive one; NaN for several
    /// classes.
    pub mean: f64,
    /// The log predictive density, or probability, of y or of its interval; NaN when the model defines none.
    pub log_density: f64,
    /// The predictive distribution function just below and at y, P(Y < y) and P(Y ≤ y): equal for a
    /// continuous target. The probability integral transform lies between them. NaN when not
    /// defined.
    pub pit: (f64, f64),
    /// The ends of the central 95 % predictive interval of y; NaN when not defined.
    pub interval_95: (f64, f64),
    /// The continuous ranked probability score of y, in units of the target; NaN when not defined.
    pub crps: f64,
    /// Counts: the unit deviance of the row; NaN otherwise.
    pub deviance: f64,
    /// Classification and ordinal: the most probable class or level, coded like the target; NaN otherwise.
    pub most_probable: f64,
    /// Scores over all classes, for more than two classes without order: a target of [several
    /// classes](crate::likelihood::TargetKind::Class).
    pub classes: Option<ClassScores>,
}

/// The scores of the probabilities of several classes at a row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct ClassScores {
    /// `Σ_c (p_c − 1{y = c})²` (Brier 1950), from 0 to 2.
    pub brier: f64,
    /// The probability of the most probable class.
    pub confidence: f64,
}

/// The shares of test rows inside the central predictive intervals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// The central 50 % interval.
    #[serde(rename = "50")]
    pub central_50: Option<f64>,
    /// The central 80 % interval.
    #[serde(rename = "80")]
    pub central_80: Option<f64>,
    /// The central 90 % interval.
    #[serde(rename = "90")]
    pub central_90: Option<f64>,
    /// The central 95 % interval.
    #[serde(rename = "95")]
    pub central_95: Option<f64>,
}

/// The metrics of predictions, in original units of the target.
///
/// A metric is `None` (null in JSON) if it does not apply to the kind of target, or is not a finite
/// number, such as the log density of an impossible observation.
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
    /// Classification and ordinal: the share of rows whose most probable class or level is wrong.
    pub error_rate: Option<f64>,
    /// The share of rows whose most probable class or level is right: one minus the error rate.
    #[serde(default)]
    pub accuracy: Option<f64>,
    /// Classification and ordinal: the confusion matrix; `None` for more than 100 classes or levels.
    #[serde(default)]
    pub confusion: Option<Confusion>,
    /// For each class or level of the confusion matrix, the share of the rows predicted as that
    /// class that belong to it; null without such rows.
    #[serde(default)]
    pub precision: Option<Vec<Option<f64>>>,
    /// For each class or level of the confusion matrix, the share of its rows that were predicted
    /// as that class; null without such rows.
    #[serde(default)]
    pub recall: Option<Vec<Option<f64>>>,
    /// Classification: the area under the receiver operating characteristic, exact, ties counted one half; `None` when
    /// there are rows of one class only.
    pub auc: Option<f64>,
    /// Classification: the mean squared error of the predicted probability of the positive class;
    /// for several classes the sum over them, `Σ_c (p_c − 1{y = c})²`.
    pub brier: Option<f64>,
    /// Counts: the mean of |predictive mean − y| / max(1, y).
    pub mre: Option<f64>,
    /// The mean squared error divided by the population variance of the target over the same rows; `None` if some of them are censored.
    pub smse: Option<f64>,
    /// The coefficient of determination R², one minus `smse`.
    #[serde(default)]
    pub r2: Option<f64>,
    /// Counts: the mean deviance.
    pub deviance: Option<f64>,
    /// Classification: the expected calibration error. The predicted probabilities of the positive class are put into ten bins of equal
    /// width. The error is the mean of |mean predicted − observed share of positives| over bins, weighted by their numbers of rows. With
    /// several classes it uses the probability of the most probable class and the share of rows in which that class is right (Guo et al.
    /// 2017).
    pub ece: Option<f64>,
    /// The shares of the probability integral transforms in [0, 0.1), [0.1, 0.2), …, [0.9, 1]. A row of a discrete target
    /// is spread uniformly over P(Y < y) to P(Y ≤ y) (Czado, Gneiting & Held 2009).
    pub pit: Option<[f64; BINS]>,
    /// The mean width of the central 95 % interval.
    pub interval_width_95: Option<f64>,
    /// The mean interval score of the central 95 % interval `[l, u]`, its width plus 2/0.05 times the distance by which y is outside:
    /// `(u − l) + 40 (l − y)₊ + 40 (y − u)₊` (Gneiting & Raftery 2007, eq. 43), in units of the target.
    pub interval_score_95: Option<f64>,
    /// The mean continuous ranked probability score, `∫ (F(t) − 1{y ≤ t})² dt` (Gneiting & Raftery
    /// 2007, eq. 20), in units of the target: the absolute error of a forecast without spread.
    /// Counts and levels: the sum over them, with levels one apart, not divided by their number
    /// (Epstein 1969). Classification: `(p − y)²`, which is the Brier score.
    pub crps: Option<f64>,
    /// Censored targets: the share of pairs of rows with a known order whose predictive means are in this order; equal means count one half
    /// (Harrell et al. 1982). Intervals and targets censored on the left do not count.
    #[serde(default)]
    pub concordance: Option<f64>,
    /// Censored targets: the mean of the squared errors of P(Y > t) over 33 equally spaced times from the first to the last decile of the
    /// observed events, with weights by the inverse probability of censoring (Graf et al. 1999).
    #[serde(default)]
    pub integrated_brier: Option<f64>,
    /// Censored continuous targets: the largest distance between the Kaplan–Meier curve of the probability integral transforms and that of calibrated
    /// predictions.
    #[serde(default)]
    pub survival_gap: Option<f64>,
    /// The shares of rows inside the central intervals, which for a discrete target include both their end points.
    pub coverage: Option<Coverage>,
}

/// Gathers the metrics of the rows of one task; rows come in any order.
///
/// Rows are not stored, except for one number per row in classification, which the area under the curve needs, and a few numbers per row
/// if targets may be censored.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Metrics {
    task: Task,
    log_density: Moments,
    crps: Moments,
    errors: Errors,
    wrong: Moments,
    counts: Counts,
    calibration: Calibration,
    classes: Classes,
    confusion: Confusion,
    survivals: survival::Survivals,
}

impl Metrics {
    /// Creates metrics without rows.
    pub fn new(task: Task) -> Metrics {
        Metrics {
            task,
            log_density: Moments::default(),
            crps: Moments::default(),
            errors: Errors::default(),
            wrong: Moments::default(),
            counts: Counts::default(),
            calibration: Calibration::default(),
            classes: Classes::default(),
            confusion: Confusion::default(),
            survivals: survival::Survivals::default(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: &Compared) {
        self.log_density.push(row.log_density);
        if let Some(other_end) = row.other_end {
            self.survivals.push(row, other_end);
        }
        if row.other_end.is_some_and(|end| !end.is_nan()) {
            return;
        }
        self.crps.push(row.crps);
        match self.task {
            Task::Classification => match row.classes {
                Some(scores) => self.classes.push_several(row.most_probable == row.target, scores),
                None => self.classes.push(row.target, row.mean),
            },
            Task::Regression | Task::Count | Task::Ordinal => {
                self.errors.push(row.target, row.mean);
                self.calibration.push(row);
            }
        }
        match self.task {
            Task::Classification | Task::Ordinal => {
                self.wrong.push(wrong(row));
                self.confusion.push(row.target, row.most_probable);
            }
            Task::Count => self.counts.push(row),
            Task::Regression => {}
        }
    }

    /// The number of rows so far.
    pub fn rows(&self) -> u64 {
        self.log_density.count()
    }

    /// Returns the standard error of the NLL, from the variance of log densities over the rows;
    /// `None` for fewer than two rows.
    pub fn nll_error(&self) -> Option<f64> {
        finite(self.log_density.standard_error())
    }

    /// Returns the metrics of the rows so far; all are `None` without rows.
    pub fn report(&self) -> Report {
        let confusion = self.confusion.known();
        let each = |share: fn(&Confusion, usize) -> Option<f64>| {
            confusion.as_ref().map(|known| (0..known.classes()).map(|class| share(known, class)).collect())
        };
        let mut report = Report {
            nll: finite(self.log_density.mean().map(|mean| -mean)),
            crps: finite(self.crps.mean()),
            error_rate: finite(self.wrong.mean()),
            accuracy: finite(self.wrong.mean().map(|wrong| 1.0 - wrong)),
            precision: each(Confusion::precision),
            recall: each(Confusion::recall),
            confusion,
            ..Report::default()
        };
        // Groups of metrics that do not apply to the task have no rows, and leave their metrics
        // unset.
        self.errors.report(&mut report);
        self.calibration.report(&mut report);
        self.classes.report(&mut report);
        self.counts.report(&mut report);
        self.survivals.report(&mut report);
        if self.task == Task::Ordinal || self.survivals.some_censored {
            // The variance of level indices depends on how the levels were defined, and that of known targets alone on the censoring, so they
            // are not comparable across data sets.
            (report.smse, report.r2) = (None, None);
        }
        report
    }

    /// Classification: the reliability curve. For every tenth of [0, 1] that some predicted
    /// probabilities fall into, their mean, the share of positives (for several classes, of correct
    /// predictions) among these rows, and the number of rows. `None` for other tasks, without rows,
    /// and when a probability was not a number in [0, 1].
    pub fn reliability(&self) -> Option<Vec<(f64, f64, u64)>> {
        self.classes.reliability()
    }

    /// Two classes: the receiver operating characteristic, points of the false positive rate and
    /// the true positive rate from (0, 0) to (1, 1), one for each distinct threshold. The area
    /// below it is [`Report::auc`]. `None` for other tasks, and without rows of both classes.
    pub fn roc(&self) -> Option<Vec<(f64, f64)>> {
        self.classes.roc()
    }
}

/// 1 if the most probable class or level is not the target, else 0.
fn wrong(row: &Compared) -> f64 {
    if row.most_probable.is_nan() { f64::NAN } else { f64::from(row.most_probable != row.target) }
}

/// The metrics of counts.
#[derive(Clone, Debug, Default)]
struct Counts {
    relative: Moments,
    deviance: Moments,
}

impl Counts {
    fn push(&mut self, row: &Compared) {
        self.relative.push((row.mean - row.target).abs() / row.target.max(1.0));
        self.deviance.push(row.deviance);
    }

    fn report(&self, report: &mut Report) {
        report.mre = finite(self.relative.mean());
        report.deviance = finite(self.deviance.mean());
    }
}

/// The metrics of the predictive mean.
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
        // The variance of a constant target is 0; the quotient is then not finite.
        let (squared, variance) = (self.squared.mean(), self.target.variance());
        report.smse = finite(squared.zip(variance).map(|(squared, variance)| squared / variance));
        report.r2 = report.smse.map(|smse| 1.0 - smse);
    }
}

/// The value if it is a finite number.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Returns the value if it is a probability. Values just outside [0, 1], as by rounding in a sum of
/// probabilities, are moved to 0 or 1.
fn unit(value: f64) -> Option<f64> {
    let clamped = value.clamp(0.0, 1.0);
    ((value - clamped).abs() < 1e-9).then_some(clamped)
}

/// Returns the index of the value's bin among [`BINS`] equal parts of [0, 1]; the last bin is closed.
fn bin(value: f64) -> usize {
    ((value * BINS as f64) as usize).min(BINS - 1)
}
