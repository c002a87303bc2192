//! Checks whether single precision is precise enough, by comparing the objectives of some batches
//! in both precisions.

use serde::{Deserialize, Serialize};

/// The record of mixed precision in a fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MixedUse {
    /// The number of batches so far.
    pub evaluations: usize,
    /// The largest difference from the objective in double precision, in nats per datum.
    pub disagreement: f64,
    /// True if the difference was too large, so the fit continued in double precision.
    pub fallen_back: bool,
}

impl MixedUse {
    /// The largest acceptable difference in nats per datum, a tenth of the smallest difference between fits that matters.
    pub const TOLERANCE: f64 = 1e-3;

    /// One batch in this many is computed in both precisions. The first batches are checked more
    /// often; a check of only the very first one would not suffice, because S − I is zero at the
    /// prior.
    const EVERY: usize = 50;

    /// Returns true if the next batch must be computed in both precisions.
    pub(crate) fn is_due(&mut self) -> bool {
        self.evaluations += 1;
        self.evaluations.is_power_of_two() || self.evaluations.is_multiple_of(Self::EVERY)
    }

    /// Records a difference per datum; returns true, and falls back to double precision, if it is too large or not a number.
    pub(crate) fn disagrees(&mut self, difference: f64) -> bool {
        self.disagreement = self.disagreement.max(difference.abs().min(f64::MAX));
        self.fallen_back = difference.is_nan() || difference.abs() > Self::TOLERANCE;
        self.fallen_back
    }
}
