//! What the searches around a fit found, as it is kept with the model: inducing inputs, starts, neighbours, β; no searching.

use super::inducing_curve::InducingCurve;
use serde::{Deserialize, Serialize};

/// How the start of a fit was found; empty for the start that the data give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// The search for the number of inducing inputs.
    pub inducing: Option<InducingCurve>,
    /// The starts that were compared.
    pub restarts: Vec<Restart>,
    /// The numbers of neighbours that were compared, 0 being none.
    pub neighbours: Vec<NeighbourPoint>,
}

/// A number of neighbours as held-out rows judge it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighbourPoint {
    /// How many.
    pub neighbours: usize,
    /// The log loss (dlm-square: the squared error) of held-out rows on the scale the model sees, smaller is better; absent when not
    /// finite.
    pub score: Option<f64>,
    /// Seconds of the fit, which serves all numbers above 0.
    pub seconds: f64,
    /// Whether it was taken.
    pub chosen: bool,
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
