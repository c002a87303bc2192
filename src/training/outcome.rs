//! What training took back, as diagnosis and failures tell it; no training.

use crate::model::MixedUse;

/// What training itself took back: steps that were undone or shrunk, and single precision; those of warm starts and final steps on q, whose sizes are a
/// search, are not among them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenBack {
    /// On hyper-parameters.
    pub hyper: usize,
    /// On q.
    pub q: usize,
    /// What single precision did, where it was asked for.
    pub mixed: Option<MixedUse>,
}
