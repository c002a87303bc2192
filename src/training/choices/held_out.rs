//! The split of the training rows for choosing options, and the comparison of two fits by their
//! held-out losses.

use crate::data::{Purpose, generator};
use rand::seq::SliceRandom;

/// The minimum number of rows for holding some of them out.
pub(super) const FEWEST_ROWS: usize = 60;

/// The share of the rows that is held out, and the maximum number of held-out rows.
const HELD_OUT: (f64, usize) = (0.3, 2000);

/// The minimum number of rows for holding some of them out to decide between numbers and counts, whose losses differ by nats.
pub(super) const FEWEST_COUNTS: usize = 20;

/// Splits `n` rows at random; returns the indices of at most `most` rows to fit to and of the held-out rows, both sorted, or `None` if there
/// are too few rows. Splits with different `run`s are independent.
pub fn held_out(n: usize, seed: u64, run: u64, most: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    (n >= FEWEST_ROWS).then(|| split_rows(n, seed, run, most))
}

/// Like [`held_out`], for any number of rows.
pub(super) fn split_rows(n: usize, seed: u64, run: u64, most: usize) -> (Vec<usize>, Vec<usize>) {
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut generator(seed, Purpose::Choices, run));
    let held = ((HELD_OUT.0 * n as f64) as usize).min(HELD_OUT.1);
    let mut train = rows.split_off(held);
    train.truncate(most);
    train.sort_unstable();
    rows.sort_unstable();
    (train, rows)
}

/// The log losses of held-out rows.
pub struct Losses(pub Vec<f64>);

impl Losses {
    /// Returns the mean loss.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the difference by which the mean of `other` is lower, with its standard error.
    pub fn gain_of(&self, other: &Losses) -> (f64, f64) {
        let n = self.0.len() as f64;
        let gains = || self.0.iter().zip(&other.0).map(|(own, other)| own - other);
        let mean = gains().sum::<f64>() / n;
        let variance = gains().map(|gain| (gain - mean).powi(2)).sum::<f64>() / n;
        (mean, (variance / n).sqrt())
    }
}
