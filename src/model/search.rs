//! The results of the searches around a fit, as the model stores them: inducing inputs, starts,
//! neighbours, β.

use super::inducing_curve::InducingCurve;
use crate::options::Part;
use serde::{Deserialize, Serialize};

/// The searches before a fit; empty if there was no search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// The search for the number of inducing inputs.
    pub inducing: Option<InducingCurve>,
    /// The starts that were compared.
    pub restarts: Vec<Restart>,
    /// The values that held-out training rows chose for unset options.
    pub choices: Option<Choices>,
}

/// The settings that short fits and held-out rows chose, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
pub struct Choice {
    /// The setting.
    pub part: Part,
    /// The values; the first one is the value before this choice.
    pub tried: Vec<Tried>,
}

/// A value of a setting, with the score of its short fit on held-out rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
pub struct BetaCurve {
    /// True if the score is the squared error; otherwise it is the log loss.
    pub squared_error: bool,
    /// The number of validation rows that the score is computed on.
    pub validation_rows: usize,
    /// The grid in falling order of β.
    pub points: Vec<BetaPoint>,
    /// The β with the smallest score.
    pub chosen: f64,
}
