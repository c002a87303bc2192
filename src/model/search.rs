//! What the searches around a fit found, as it is kept with the model: inducing inputs, starts, neighbours, β; no searching.

use super::inducing_curve::InducingCurve;
use crate::options::Part;
use serde::{Deserialize, Serialize};

/// How the start of a fit was found; empty for the start that the data give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// The search for the number of inducing inputs.
    pub inducing: Option<InducingCurve>,
    /// The starts that were compared.
    pub restarts: Vec<Restart>,
    /// What held-out training rows decided of what nobody named.
    pub choices: Option<Choices>,
}

/// The parts of a fit that short fits and held-out rows decided, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choices {
    /// The rows of every short fit.
    pub training_rows: usize,
    /// The rows that judged them.
    pub held_out_rows: usize,
    /// Seconds of all of it.
    pub seconds: f64,
    /// The parts.
    pub parts: Vec<Choice>,
}

/// A part of a fit with the values that were tried; each was tried with the values chosen for the parts before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Which part.
    pub part: Part,
    /// The values, the one that stood before first.
    pub tried: Vec<Tried>,
}

/// A value of a part as held-out rows judge it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// As its option is written.
    pub value: String,
    /// The mean log loss of held-out rows in the user's units, smaller is better; absent when the fit failed or a row was impossible.
    pub loss: Option<f64>,
    /// Seconds of the short fit.
    pub seconds: f64,
    /// Whether it was taken.
    pub chosen: bool,
    /// Why it was not taken although its loss is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
}

/// One of several starts of a fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    /// Its number; 0 is the start that the data give.
    pub start: usize,
    /// The seed of its inducing inputs and of how its hyper-parameters differ.
    pub seed: u64,
    /// What it was compared by after each short fit that it took part in, smaller is better: the objective per datum, or the
    /// validation score where there is one. Absent where the fit failed.
    pub scores: Vec<Option<f64>>,
    /// Why a fit from it failed, if one did.
    pub error: Option<String>,
    /// Whether it was fitted to the end.
    pub chosen: bool,
}

/// One fit of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetaPoint {
    /// Its β.
    pub beta: f64,
    /// Its score on the validation rows, on the scale the model sees; smaller is better, and absent when not finite.
    pub score: Option<f64>,
    /// Seconds of training.
    pub seconds: f64,
}

/// What the choice was made by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BetaCurve {
    /// Whether the score is the squared error, instead of the log loss.
    pub squared_error: bool,
    /// The rows it is computed on.
    pub validation_rows: usize,
    /// The grid in falling order of β.
    pub points: Vec<BetaPoint>,
    /// The β with the smallest score.
    pub chosen: f64,
}
