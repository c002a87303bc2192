//! The running mean, variance and range of a stream of numbers, without cancellation or overflow; no storage of the numbers.

use serde::{Deserialize, Serialize};

/// Welford's recurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moments {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) squares: f64,
}

impl Moments {
    /// Of these values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Moments {
        let mut moments = Moments::default();
        values.into_iter().for_each(|value| moments.push(value));
        moments
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The mean, `None` of no values.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The population variance (divided by the count), `None` of no values.
    pub(crate) fn variance(&self) -> Option<f64> {
        (self.count > 0).then(|| self.squares / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_offset_costs_no_accuracy() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.variance()), (None, None));
        for value in [1.0, 2.0, 3.0, 4.0] {
            moments.push(1e9 + value);
        }
        assert_eq!(moments.count(), 4);
        assert_eq!(moments.mean(), Some(1e9 + 2.5));
        assert_eq!(moments.variance(), Some(1.25));
    }
}
