//! The record of a fit and of the searches around it, as reports show it and the model stores it.

use super::hyper_posterior::HyperSummary;
use super::inducing_curve::InducingCurve;
use super::warning::Warning;
use crate::effects::EffectSummary;
use crate::hyper::{Record, StopReason};
use crate::objective::EstimatorCounts;
use crate::options::Part;
use serde::{Deserialize, Serialize};

/// The record of a fit, in numbers and words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSummary {
    /// The minimised objective per datum (without priors), on the scale the model sees.
    pub objective: f64,
    /// The minimised objective, as a sum over the data.
    #[doc(hidden)]
    pub objective_sum: f64,
    /// The number of training rows that the objective was estimated on, unless it was summed over all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[doc(hidden)]
    pub estimated_on: Option<usize>,
    /// The evidence lower bound (a sum), if the objective is an ELBO with β = 1 whose value for the
    /// returned q is exact.
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub evaluations: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Seconds per evaluation.
    #[doc(hidden)]
    pub seconds_per_step: f64,
    /// The reason why training ended.
    pub stop_reason: StopReason,
    /// The number of steps that were taken back or shortened.
    pub rollbacks: usize,
    /// The counts of a sampling estimator (dlm-log with bmc, smooth-bmc or ups).
    #[serde(default)]
    #[doc(hidden)]
    pub sampling: Option<EstimatorCounts>,
    /// The absolute jitter in use at the end.
    #[doc(hidden)]
    pub jitter: f64,
    /// Warnings for the user.
    pub warnings: Vec<Warning>,
    /// One record per epoch.
    pub trace: Vec<Record>,
    /// The updates of the model after the fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[doc(hidden)]
    pub updates: Vec<Update>,
    /// The results about the variances of grouped effects, if the model has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) effects: Option<EffectSummary>,
    /// The uncertainty about hyper-parameters, if it was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hyper: Option<HyperSummary>,
}

/// An update of a fitted model with new rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Update {
    /// The number of new rows.
    pub rows: usize,
    /// The share of the earlier information that was forgotten.
    pub forget: f64,
}

/// The searches before a fit; empty if there was no search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[doc(hidden)]
pub struct Search {
    /// The search for the number of inducing inputs.
    pub inducing: Option<InducingCurve>,
    /// The starts that were compared.
    pub restarts: Vec<Restart>,
    /// The values that held-out training rows chose for unset options.
    pub choices: Option<Choices>,
}

/// The settings that short fits and held-out rows chose, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Choices {
    /// The number of training rows of every short fit.
    pub training_rows: usize,
    /// The number of held-out rows that judged the short fits.
    pub held_out_rows: usize,
    /// The seconds of all short fits and their predictions.
    pub seconds: f64,
    /// The settings with their values.
    pub parts: Vec<Choice>,
}

/// A setting with the values that were tried, each together with the values chosen for the settings before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Choice {
    /// The setting.
    pub part: Part,
    /// The values; the first one is the value before this choice.
    pub tried: Vec<Tried>,
}

/// A value of a setting, with the score of its short fit on held-out rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Tried {
    /// The value as the option spells it.
    pub value: String,
    /// The mean log loss of held-out rows in the user's units; lower is better. `None` if the fit failed or a row was impossible.
    pub loss: Option<f64>,
    /// Seconds of the short fit.
    pub seconds: f64,
    /// True if the value was chosen.
    pub chosen: bool,
    /// The reason why the value was not chosen although its loss is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
}

/// One of several starts of a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Restart {
    /// The number of the start; 0 is the start computed from the data.
    pub start: usize,
    /// The seed of the inducing inputs and of the random factors of the hyper-parameters.
    pub seed: u64,
    /// The scores after each short fit of this start: the validation score if there is one,
    /// otherwise the objective per datum. Lower is better; `None` if the fit failed.
    pub scores: Vec<Option<f64>>,
    /// The error, if a fit from this start failed.
    pub error: Option<String>,
    /// True if this start was fitted to the end.
    pub chosen: bool,
}

/// One value of a grid of β, with its fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct BetaPoint {
    /// The value of β.
    pub beta: f64,
    /// The score of the fit on the validation rows, on the scale the model sees; lower is better.
    /// `None` if the score is not finite.
    pub score: Option<f64>,
    /// Seconds of training.
    pub seconds: f64,
}

/// The scores by which β was chosen from a grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct BetaCurve {
    /// True if the score is the squared error; otherwise it is the log loss.
    pub squared_error: bool,
    /// The number of validation rows that the score is computed on.
    pub(crate) validation_rows: usize,
    /// The grid in falling order of β.
    pub points: Vec<BetaPoint>,
    /// The β with the smallest score.
    pub chosen: f64,
}
