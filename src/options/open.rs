//! Which parts of a fit held-out training rows decide; no deciding.

use super::fit::FitOptions;
use crate::error::Error;
use crate::words::{stored_as_text, word_option};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

word_option! {
    /// A part of a fit that held-out training rows can decide.
    #[non_exhaustive]
    Part, "part of a fit" {
        /// The likelihood, among those of the target's kind.
        Likelihood = "likelihood",
        /// What is done to inputs before they are standardised.
        WarpInputs = "warp-inputs",
        /// What is done to the target before it is standardised.
        WarpTarget = "warp-target",
        /// The kernel.
        Kernel = "kernel",
        /// How many nearest training rows stand beside the inducing inputs, if any.
        Neighbours = "neighbours",
        /// The ELBO or the predictive log loss.
        Objective = "objective",
        /// The number of inducing inputs of a fit without neighbours.
        Inducing = "inducing",
    }
}

impl Part {
    /// All parts, in the order in which they are decided.
    pub const ALL: [Part; 7] = [
        Part::WarpInputs,
        Part::WarpTarget,
        Part::Likelihood,
        Part::Neighbours,
        Part::Kernel,
        Part::Objective,
        Part::Inducing,
    ];
}

/// The parts of a fit that held-out training rows decide. As text: `all`, `none`, or parts separated by commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Open([bool; Part::ALL.len()]);

impl Open {
    /// Every option holds as it is.
    pub const NOTHING: Open = Open([false; Part::ALL.len()]);
    /// All parts are decided.
    pub const EVERYTHING: Open = Open([true; Part::ALL.len()]);

    /// Whether a part is decided.
    pub fn contains(self, part: Part) -> bool {
        self.0[part as usize]
    }

    /// Whether no part is.
    pub fn is_empty(self) -> bool {
        self == Open::NOTHING
    }

    /// The same with this part.
    pub fn with(mut self, part: Part) -> Open {
        self.0[part as usize] = true;
        self
    }

    /// The same without these parts.
    pub fn without(mut self, parts: &[Part]) -> Open {
        parts.iter().for_each(|&part| self.0[part as usize] = false);
        self
    }
}

impl fmt::Display for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Open::NOTHING => f.write_str("none"),
            Open::EVERYTHING => f.write_str("all"),
            open => {
                let parts = Part::ALL.into_iter().filter(|&part| open.contains(part));
                f.write_str(&parts.map(|part| part.to_string()).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Open {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "none" => Ok(Open::NOTHING),
            "all" => Ok(Open::EVERYTHING),
            parts => {
                parts.split(',').try_fold(Open::NOTHING, |open, part| Ok(open.with(part.trim().parse()?)))
            }
        }
    }
}

stored_as_text!(Open);

impl FitOptions {
    /// What the options say of a part, as its own option is written.
    pub(crate) fn word_of(&self, part: Part) -> String {
        match part {
            Part::Likelihood => self.likelihood_kind().to_string(),
            Part::WarpInputs => self.warp_inputs.to_string(),
            Part::WarpTarget => self.warp_target.to_string(),
            Part::Kernel => self.kernel.clone(),
            Part::Neighbours => self.neighbours.map_or("none".to_owned(), |count| count.to_string()),
            Part::Objective => self.objective.to_string(),
            Part::Inducing => self.inducing.map_or("default".to_owned(), |count| count.to_string()),
        }
    }

    /// The options with one part as `other` has it.
    pub(crate) fn with_part_of(&self, part: Part, other: &FitOptions) -> FitOptions {
        let own = self.clone();
        match part {
            Part::Likelihood => FitOptions { likelihood: other.likelihood, ..own },
            Part::WarpInputs => FitOptions { warp_inputs: other.warp_inputs, ..own },
            Part::WarpTarget => FitOptions { warp_target: other.warp_target, ..own },
            Part::Kernel => FitOptions { kernel: other.kernel.clone(), ..own },
            Part::Neighbours => match other.neighbours {
                Some(count) => own.with_neighbours(count),
                None => own.without_neighbours(),
            },
            Part::Objective => FitOptions { objective: other.objective, ..own },
            Part::Inducing => FitOptions { inducing: other.inducing, ..own },
        }
    }
}
