//! The record of a fit, as reports show it and the model stores it.

use super::warning::Warning;
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
    pub(crate) log_unit: Option<f64>,
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
    /// The absolute jitter in use at the end.
    pub jitter: f64,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// One record per epoch.
    pub trace: Vec<Record>,
    /// The updates of the model after the fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<Update>,
    /// The results about the variances of grouped effects, if the model has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) effects: Option<EffectSummary>,
}

/// An update of a fitted model with new rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The number of new rows.
    pub rows: usize,
    /// The share of the earlier information that was forgotten.
    pub forget: f64,
}
