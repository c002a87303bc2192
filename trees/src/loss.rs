//! The losses that trees are boosted for, with derivatives in the scores.

use serde::{Deserialize, Serialize};

/// The target of a row, and its exposure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    pub y: f64,
    pub exposure: f64,
}

/// The loss of a target as a function of the scores of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// Half the squared difference of target and score.
    Squared,
    /// The log loss of a target from 0 to 1 (a class or a share) whose log odds are the score.
    Logistic,
    /// The log loss of a class, coded 0, 1, …, with a score for each class.
    Softmax {
        /// The number of classes.
        classes: usize,
    },
    /// The log loss of a count whose mean is its exposure times exp(score), up to a constant.
    Poisson,
}

/// The range of scores of counts, beyond which no derivative is representable.
const MOST_LOG_MEAN: f64 = 60.0;

/// The least curvature, so that every step is finite.
const LEAST_CURVATURE: f64 = 1e-16;

impl Loss {
    /// Returns the number of scores of a row.
    pub fn scores(self) -> usize {
        match self {
            Loss::Softmax { classes } => classes,
            _ => 1,
        }
    }

    /// Returns the constant scores with the lowest loss, given observations with their weights.
    pub(crate) fn start(self, observations: impl Iterator<Item = (Observed, f64)>) -> Vec<f64> {
        // One pseudo-row keeps the scores of absent classes finite.
        let mut totals = vec![0.0; self.scores().max(2)];
        let mut weight = 0.0;
        for (Observed { y, exposure }, w) in observations {
            weight += if self == Loss::Poisson { w * exposure } else { w };
            match self {
                Loss::Softmax { .. } => totals[y as usize] += w,
                _ => totals[0] += w * y,
            }
        }
        let weight = weight.max(f64::MIN_POSITIVE);
        let mean = totals[0] / weight;
        let share = |total: f64| (total + 1.0 / totals.len() as f64) / (weight + 1.0);
        match self {
            Loss::Squared => vec![mean],
            Loss::Logistic => vec![(share(totals[0]) / (1.0 - share(totals[0]))).ln()],
            Loss::Poisson => vec![mean.max(1e-10).ln()],
            Loss::Softmax { .. } => totals.iter().map(|&total| share(total).ln()).collect(),
        }
    }

    /// Returns the lowest loss of an observation at any scores.
    pub(crate) fn least(self, Observed { y, exposure }: Observed) -> f64 {
        let log = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
        match self {
            Loss::Squared | Loss::Softmax { .. } => 0.0,
            Loss::Logistic => -log(y) - log(1.0 - y),
            Loss::Poisson => y - log(y) + y * exposure.ln(),
        }
    }

    /// Returns the loss of an observation at its scores.
    pub(crate) fn value(self, Observed { y, exposure }: Observed, scores: &[f64]) -> f64 {
        let f = scores[0];
        match self {
            Loss::Squared => 0.5 * (y - f) * (y - f),
            Loss::Logistic => f.max(0.0) + (-f.abs()).exp().ln_1p() - y * f,
            Loss::Poisson => exposure * f.min(MOST_LOG_MEAN).exp() - y * f,
            Loss::Softmax { .. } => {
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                most + scores.iter().map(|f| (f - most).exp()).sum::<f64>().ln() - scores[y as usize]
            }
        }
    }

    /// Writes the first derivatives of the loss and its curvatures, one for each score.
    pub(crate) fn derivatives(
        self,
        of: Observed,
        scores: &[f64],
        slopes: &mut [f64],
        curvatures: &mut [f64],
    ) {
        let Observed { y, exposure } = of;
        let f = scores[0];
        match self {
            Loss::Squared => (slopes[0], curvatures[0]) = (f - y, 1.0),
            Loss::Logistic => {
                let p = 1.0 / (1.0 + (-f).exp());
                (slopes[0], curvatures[0]) = (p - y, p * (1.0 - p));
            }
            Loss::Poisson => {
                let mean = exposure * f.min(MOST_LOG_MEAN).exp();
                (slopes[0], curvatures[0]) = (mean - y, mean);
            }
            Loss::Softmax { classes } => {
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|f| (f - most).exp()).sum();
                // Scores have one degree of freedom too many, for which this factor allows (Friedman 2001, algorithm 6).
                let factor = classes as f64 / (classes as f64 - 1.0);
                for (c, f) in scores.iter().enumerate() {
                    let p = (f - most).exp() / total;
                    slopes[c] = p - f64::from(u8::from(y as usize == c));
                    curvatures[c] = factor * p * (1.0 - p);
                }
            }
        }
        curvatures.iter_mut().for_each(|curvature| *curvature = curvature.max(LEAST_CURVATURE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_agree_with_differences() {
        let cases = [
            (Loss::Squared, 1.3, vec![0.4]),
            (Loss::Logistic, 1.0, vec![-0.7]),
            (Loss::Logistic, 0.3, vec![2.0]),
            (Loss::Poisson, 4.0, vec![0.9]),
            (Loss::Softmax { classes: 3 }, 2.0, vec![0.3, -1.0, 0.8]),
        ];
        for (loss, y, scores) in cases {
            let of = Observed { y, exposure: 1.7 };
            let k = scores.len();
            let (mut slopes, mut curvatures) = (vec![0.0; k], vec![0.0; k]);
            loss.derivatives(of, &scores, &mut slopes, &mut curvatures);
            for c in 0..k {
                let at = |step: f64| {
                    let mut moved = scores.clone();
                    moved[c] += step;
                    loss.value(of, &moved)
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                let curvature = (at(1e-4) - 2.0 * at(0.0) + at(-1e-4)) / 1e-8;
                let factor = if k > 1 { k as f64 / (k as f64 - 1.0) } else { 1.0 };
                assert!((slopes[c] - slope).abs() < 1e-8, "{loss:?}: {} {slope}", slopes[c]);
                assert!((curvatures[c] - factor * curvature).abs() < 1e-5, "{loss:?}");
                assert!(loss.least(of) <= loss.value(of, &scores), "{loss:?}");
            }
        }
    }

    #[test]
    fn the_lowest_loss_is_that_of_the_target_itself() {
        let of = |y| Observed { y, exposure: 2.5 };
        let at = |loss: Loss, y: f64, score: f64| loss.value(of(y), &[score]) - loss.least(of(y));
        assert!(at(Loss::Poisson, 3.0, (3.0f64 / 2.5).ln()).abs() < 1e-12);
        assert!(at(Loss::Logistic, 0.3, (0.3f64 / 0.7).ln()).abs() < 1e-12);
        assert!(at(Loss::Poisson, 0.0, -40.0) < 1e-12 && at(Loss::Logistic, 1.0, 40.0) < 1e-12);
    }

    #[test]
    fn starts_are_the_best_constants() {
        let rows = [(0.0, 1.0), (1.0, 3.0), (1.0, 1.0), (0.0, 1.0)];
        let rows = || rows.iter().map(|&(y, w)| (Observed { y, exposure: 2.0 + y }, w));
        let weighted =
            |loss: Loss, scores: &[f64]| -> f64 { rows().map(|(of, w)| w * loss.value(of, scores)).sum() };
        for loss in [Loss::Squared, Loss::Poisson] {
            let start = loss.start(rows());
            for step in [-1e-3, 1e-3] {
                assert!(weighted(loss, &start) < weighted(loss, &[start[0] + step]));
            }
        }
        // One pseudo-row moves the odds of 4 to 2 to 4.5 to 2.5.
        let odds = Loss::Logistic.start(rows())[0];
        assert!((odds - (4.5f64 / 2.5).ln()).abs() < 1e-12);
    }
}
