//! What training ended with and what it took back, as diagnosis and failures tell it; no training.

use crate::effects::EffectPosterior;
use crate::hyper::Outcome;
use crate::model::{LatentModel, MixedUse, Nearby, StepGuarantee};
use crate::objective::EstimatorCounts;
use crate::variational::Normal;
use std::sync::Arc;

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

/// What training ended with, before diagnosis.
pub(super) struct Trained {
    pub model: LatentModel,
    pub q: Vec<Normal>,
    pub value: f64,
    pub elbo: Option<f64>,
    pub upper: Option<f64>,
    pub sampling: Option<EstimatorCounts>,
    pub outcome: Outcome,
    pub taken_back: TakenBack,
    /// The rows of the sample that the value was estimated on, where it was not summed over all of them.
    pub estimated_on: Option<usize>,
    /// The rows that predictions look up, where there are neighbours.
    pub nearby: Option<Arc<Nearby>>,
    /// The grouped effects, where there are any.
    pub effects: Option<EffectPosterior>,
    /// What is proven of the steps on q.
    pub guarantee: Option<StepGuarantee>,
}
