//! The results of training and its counts of rollbacks, for diagnosis and failures.

use crate::effects::{EffectPosterior, EffectSummary};
use crate::hyper::Outcome;
use crate::model::{LatentModel, Nearby};
use crate::objective::EstimatorCounts;
use crate::variational::Normal;
use std::sync::Arc;

/// Rollbacks of the training itself: undone or shrunk steps. Warm starts and final steps on q, which search for step sizes, do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakenBack {
    /// The rollbacks of hyper-parameters.
    pub hyper: usize,
    /// The rollbacks of q.
    pub q: usize,
}

/// The result of training, before diagnosis.
pub(super) struct Trained {
    pub model: LatentModel,
    pub q: Vec<Normal>,
    pub value: f64,
    pub elbo: Option<f64>,
    pub upper: Option<f64>,
    pub sampling: Option<EstimatorCounts>,
    pub outcome: Outcome,
    pub taken_back: TakenBack,
    /// The number of rows of the sample that estimated the value, unless it was summed over all rows.
    pub estimated_on: Option<usize>,
    /// The mode of a noise variance that was replaced by its expectation.
    pub noise_mode: Option<f64>,
    /// The rows that predictions look up, if there are neighbours.
    pub nearby: Option<Arc<Nearby>>,
    /// The grouped effects of every process, if the model has any, and the summary of their variances.
    pub effects: Option<(Vec<EffectPosterior>, EffectSummary)>,
}

impl Trained {
    /// Creates the result from the objective at the end, a sum over all rows; the optional fields
    /// are empty.
    pub(super) fn at(model: LatentModel, q: Vec<Normal>, value: f64, outcome: Outcome) -> Trained {
        let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
        Trained {
            model,
            q,
            value,
            elbo: None,
            upper: None,
            sampling: None,
            outcome,
            taken_back,
            estimated_on: None,
            noise_mode: None,
            nearby: None,
            effects: None,
        }
    }
}
