//! The metrics of predicted class probabilities: ranking, squared error and calibration.

use super::{BINS, ClassScores, Report, bin, finite, unit};
use crate::data::Moments;

/// The metrics of the probability of the positive class or, with several classes, of the most
/// probable one.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    squared: Moments,
    /// The probabilities of the negative and of the positive rows; the area under the curve needs all of them.
    probabilities: [Vec<f64>; 2],
    bins: [Bin; BINS],
    unusable: bool,
}

/// The rows whose probability falls into one tenth of [0, 1].
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    predicted: Moments,
    positive: u64,
}

impl Classes {
    pub(super) fn push(&mut self, target: f64, probability: f64) {
        let Some(probability) = unit(probability) else {
            self.unusable = true;
            return;
        };
        let positive = target == 1.0;
        self.squared.push((probability - target) * (probability - target));
        self.probabilities[usize::from(positive)].push(probability);
        let bin = &mut self.bins[bin(probability)];
        bin.predicted.push(probability);
        bin.positive += u64::from(positive);
    }

    /// Adds a row of several classes; `right` says if its most probable class is the target.
    pub(super) fn push_several(&mut self, right: bool, scores: ClassScores) {
        let (Some(confidence), true) = (unit(scores.confidence), scores.brier.is_finite()) else {
            self.unusable = true;
            return;
        };
        self.squared.push(scores.brier);
        let bin = &mut self.bins[bin(confidence)];
        bin.predicted.push(confidence);
        bin.positive += u64::from(right);
    }

    pub(super) fn report(&self, report: &mut Report) {
        if self.unusable {
            return;
        }
        report.auc = self.auc();
        report.brier = finite(self.squared.mean());
        report.ece = self.calibration_error();
    }

    /// Returns the share of pairs of a positive and a negative row in which the positive row has
    /// the higher probability; equal probabilities count one half. `None` without such pairs.
    fn auc(&self) -> Option<f64> {
        let [negative, positive] = &self.probabilities;
        if negative.is_empty() || positive.is_empty() {
            return None;
        }
        let mut negative = negative.clone();
        negative.sort_unstable_by(f64::total_cmp);
        let twice = |&value: &f64| {
            let below = negative.partition_point(|&other| other < value);
            below + negative.partition_point(|&other| other <= value)
        };
        // Whole numbers, so the sum is exact.
        let pairs: u64 = positive.iter().map(|value| twice(value) as u64).sum();
        Some(pairs as f64 / (2.0 * negative.len() as f64 * positive.len() as f64))
    }

    /// Returns the receiver operating characteristic: for every distinct threshold, from the
    /// highest down, the shares of negative and of positive rows at or above it; from (0, 0) to (1,
    /// 1). `None` without rows of both classes.
    pub(super) fn roc(&self) -> Option<Vec<(f64, f64)>> {
        let [negative, positive] = &self.probabilities;
        if negative.is_empty() || positive.is_empty() || self.unusable {
            return None;
        }
        let mut all: Vec<(f64, usize)> = negative.iter().map(|&p| (p, 0)).collect();
        all.extend(positive.iter().map(|&p| (p, 1)));
        all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let (mut found, mut points) = ([0usize; 2], vec![(0.0, 0.0)]);
        for tied in all.chunk_by(|a, b| a.0 == b.0) {
            tied.iter().for_each(|(_, class)| found[*class] += 1);
            points.push((found[0] as f64 / negative.len() as f64, found[1] as f64 / positive.len() as f64));
        }
        Some(points)
    }

    /// Returns the mean over rows of the error of their bin, |mean predicted − observed share|.
    fn calibration_error(&self) -> Option<f64> {
        let (rows, bins) = (self.squared.count() as f64, self.reliability()?);
        let off = |(predicted, observed, count): (f64, f64, u64)| count as f64 * (predicted - observed).abs();
        Some(bins.into_iter().map(off).sum::<f64>() / rows)
    }

    /// Returns the mean predicted probability, the observed share of positives and the number of
    /// rows of every nonempty bin; `None` without rows.
    pub(super) fn reliability(&self) -> Option<Vec<(f64, f64, u64)>> {
        let point = |bin: &Bin| {
            let count = bin.predicted.count();
            Some((bin.predicted.mean()?, bin.positive as f64 / count as f64, count))
        };
        let points: Vec<_> = self.bins.iter().filter_map(point).collect();
        (!self.unusable && !points.is_empty()).then_some(points)
    }
}
