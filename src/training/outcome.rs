//! The counts of rollbacks in training, for diagnosis and failures; no training.

use crate::model::MixedUse;

/// Rollbacks of the training itself: undone or shrunk steps, and single precision. Warm starts and final steps on q, which search for step
/// sizes, do not count.
/// search, are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenBack {
    /// The rollbacks of hyper-parameters.
    pub hyper: usize,
    /// The rollbacks of q.
    pub q: usize,
    /// The use of single precision, if it was requested.
    pub mixed: Option<MixedUse>,
}
