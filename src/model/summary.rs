//! The record of a fit, as reports show it and the model stores it.

use super::mixed::MixedUse;
use super::warning::{Warning, read_warnings};
use crate::effects::EffectSummary;
use crate::hyper::{Record, StopReason};
use crate::objective::EstimatorCounts;
use serde::{Deserialize, Serialize};

/// The record of a fit, in numbers and words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// The minimised objective per datum (without priors), on the scale the model sees.
    pub objective: f64,
    /// The minimised objective, as a sum over the data.
    pub objective_sum: f64,
    /// The number of training rows that the objective was estimated on, unless it was summed over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_on: Option<usize>,
    /// The evidence lower bound (a sum), if the objective is an ELBO with β = 1 whose value for the
    /// returned q is exact.
    pub elbo_sum: Option<f64>,
    /// An upper bound on the log evidence at the final parameters, if all rows were used at once.
    pub evidence_upper_bound: Option<f64>,
    /// The sum over the training rows that turns log densities on the scale the model sees into log densities of the target; `None` in files
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_unit: Option<f64>,
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
    /// The reason why training ended.
    pub stop_reason: StopReason,
    /// The number of steps that were taken back or shortened.
    pub rollbacks: usize,
    /// The counts of a sampling estimator (dlm-log with bmc, smooth-bmc or ups).
    #[serde(default)]
    pub sampling: Option<EstimatorCounts>,
    /// The guarantee of the theorem behind the steps, if q_step is theorem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee: Option<StepGuarantee>,
    /// The record of mixed precision, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<MixedUse>,
    /// The absolute jitter in use at the end.
    pub jitter: f64,
    /// Warnings for the user.
    #[serde(deserialize_with = "read_warnings")]
    pub warnings: Vec<Warning>,
    /// One record per epoch.
    pub trace: Vec<Record>,
    /// The updates of the model after the fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<Update>,
    /// The results about the variances of grouped effects, if the model has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<EffectSummary>,
}

/// The guarantee of a convergence theorem for steps on q, in the whitened coordinates (m, C) of w, with S = C Cᵀ and the prior N(0, I).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepGuarantee {
    /// The smoothness 𝓜 of the energy.
    pub smoothness: f64,
    /// The strong convexity ϖ of the energy.
    pub strong_convexity: f64,
    /// The noise constant a of the gradient.
    pub noise: f64,
    /// The number of steps taken.
    pub steps: usize,
    /// The bound on `E(‖m − m*‖² + ‖C − C*‖²)` after these steps, known before training.
    pub distance: f64,
}

/// An update of a fitted model with new rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The number of new rows.
    pub rows: usize,
    /// The share of the earlier information that was forgotten.
    pub forget: f64,
}
