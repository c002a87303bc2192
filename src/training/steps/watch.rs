//! The objective of successive batches, and the values far beyond their noise.

use serde::{Deserialize, Serialize};

/// The running mean and variance of the objective per row, over the batches of accepted steps.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Watch {
    mean: f64,
    variance: f64,
    count: u32,
}

impl Watch {
    /// The weight of the last batch, which limits the memory to some 20 batches.
    const WEIGHT: f64 = 0.05;
    /// The number of batches before a value can be too high.
    const FEWEST: u32 = 5;
    /// A value is too high if it exceeds the mean by this many standard deviations …
    const DEVIATIONS: f64 = 10.0;
    /// … and this many nats per row.
    const NATS: f64 = 0.1;

    /// Returns true if the objective per row of a batch is far above those of earlier batches.
    pub(super) fn is_far_above(&self, value: f64) -> bool {
        self.count >= Self::FEWEST && value - self.mean > Self::DEVIATIONS * self.variance.sqrt() + Self::NATS
    }

    /// Adds the objective per row of a batch.
    pub(super) fn accept(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let weight = Self::WEIGHT.max(1.0 / f64::from(self.count));
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_far_beyond_the_noise_are_too_high() {
        let mut watch = Watch::default();
        assert!(!watch.is_far_above(1e9));
        for k in 0..200 {
            let value = 1.0 / f64::from(k + 1) + if k % 2 == 0 { 0.05 } else { -0.05 };
            assert!(!watch.is_far_above(value), "{value} after {k} batches");
            watch.accept(value);
        }
        assert!(watch.is_far_above(1.0) && watch.is_far_above(f64::INFINITY));
        assert!(!watch.is_far_above(0.2) && !watch.is_far_above(-5.0));
    }
}
