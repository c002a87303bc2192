//! Whether single precision is precise enough: its objectives against those in double, now and then; no arithmetic.

use serde::{Deserialize, Serialize};

/// What mixed precision did in a fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MixedUse {
    /// Batches so far.
    pub evaluations: usize,
    /// The largest difference to the objective in double precision that was seen, in nats per datum.
    pub disagreement: f64,
    /// Whether that was too much, so that double precision took over.
    pub fallen_back: bool,
}

impl MixedUse {
    /// Nats per datum: a tenth of the difference between fits that matters to anyone.
    pub const TOLERANCE: f64 = 1e-3;

    /// One batch of so many is computed in both precisions, and the first ones more often: at the prior S − I is zero, and
    /// nothing can go wrong.
    const EVERY: usize = 50;

    /// Whether the next batch is to be computed in both precisions.
    pub(crate) fn is_due(&mut self) -> bool {
        self.evaluations += 1;
        self.evaluations.is_power_of_two() || self.evaluations.is_multiple_of(Self::EVERY)
    }

    /// Takes in a difference per datum, and falls back if it is too large, or no number.
    pub(crate) fn disagrees(&mut self, difference: f64) -> bool {
        self.disagreement = self.disagreement.max(difference.abs().min(f64::MAX));
        self.fallen_back = difference.is_nan() || difference.abs() > Self::TOLERANCE;
        self.fallen_back
    }
}
