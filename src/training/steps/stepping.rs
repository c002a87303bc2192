//! The start and the result of all ways to take steps on q.

use super::inference::InferenceOptions;
use super::model::VariationalModel;
use crate::hyper::{FreeVector, Outcome};
use crate::options::StepPlan;
use crate::training::outcome::TakenBack;

/// A model that is about to be trained by steps on q.
pub(super) struct Stepping<'a> {
    pub svgp: VariationalModel,
    /// The parameters in θ and Z that are trained.
    pub free: FreeVector,
    pub steps: &'a StepPlan,
    pub inference: InferenceOptions,
}

/// The model after its steps.
pub(super) struct Stepped {
    pub svgp: VariationalModel,
    pub outcome: Outcome,
    pub taken_back: TakenBack,
}
