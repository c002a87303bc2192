//! What a fit did, as it is reported and kept with its model; no training.

use super::mixed::MixedUse;
use super::warning::{Warning, read_warnings};
use crate::effects::EffectSummary;
use crate::hyper::{Record, StopReason};
use crate::objective::EstimatorCounts;
use serde::{Deserialize, Serialize};

/// What a fit did, in numbers and words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// The minimised objective per datum (without priors), on the scale the model sees.
    pub objective: f64,
    /// Its sum over the data.
    pub objective_sum: f64,
    /// The number of training rows that the objective was estimated on, where it was not summed over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_on: Option<usize>,
    /// The evidence lower bound (a sum), where the objective has one: β = 1 ELBO of the returned q, if known exactly.
    pub elbo_sum: Option<f64>,
    /// An upper bound on the log evidence at the final parameters, where it applies (full batch).
    pub evidence_upper_bound: Option<f64>,
    /// Passes over the data, or iterations of L-BFGS.
    pub epochs: usize,
    /// Steps of the solver.
    pub iterations: usize,
    /// Evaluations of value and gradient.
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds per evaluation.
    pub seconds_per_step: f64,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Steps that were taken back or shrunk.
    pub rollbacks: usize,
    /// What a sampling estimator did (dlm-log with bmc, smooth-bmc or ups).
    #[serde(default)]
    pub sampling: Option<EstimatorCounts>,
    /// What the theorem behind the steps guarantees, if they were asked for (q_step theorem).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<StepGuarantee>,
    /// What mixed precision did, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<MixedUse>,
    /// The absolute jitter in use at the end.
    pub jitter: f64,
    /// What a user should know.
    #[serde(deserialize_with = "read_warnings")]
    pub warnings: Vec<Warning>,
    /// One record per epoch.
    pub trace: Vec<Record>,
    /// What the model took in after the fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<Update>,
    /// The results about the variances of grouped effects, if the model has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<EffectSummary>,
}

/// What a convergence theorem guarantees of steps on q, in the whitened coordinates (m, C) of w, S = C Cᵀ, in which the prior is N(0, I).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepGuarantee {
    /// The smoothness 𝓜 of the energy.
    pub smoothness: f64,
    /// Its strong convexity ϖ.
    pub strong_convexity: f64,
    /// The noise constant a of the gradient.
    pub noise: f64,
    /// The number of steps taken.
    pub steps: usize,
    /// The bound on `E(‖m − m*‖² + ‖C − C*‖²)` after them, known before training.
    pub distance: f64,
}

/// New rows that a fitted model took in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// How many.
    pub rows: usize,
    /// The share that was forgotten of what was known before.
    pub forget: f64,
}
