//! The settings of a fit that can be chosen on held-out training rows.

use super::fit::FitOptions;
use super::words::HyperPosteriorKind;
use crate::error::Error;
use crate::words::{stored_as_text, word_option};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

word_option! {
    /// A setting of a fit that can be chosen on held-out training rows.
    #[non_exhaustive]
    Part, "part of a fit" {
        /// The mean: a constant, or boosted trees.
        Mean = "mean",
        /// The likelihood, among the likelihoods for the kind of target.
        Likelihood = "likelihood",
        /// The map of inputs before they are standardised.
        WarpInputs = "warp-inputs",
        /// The map of the target before it is standardised.
        WarpTarget = "warp-target",
        /// The kernel.
        Kernel = "kernel",
        /// The number of nearest training rows in addition to the inducing inputs, if any.
        Neighbours = "neighbours",
        /// The ELBO or the predictive log loss.
        Objective = "objective",
        /// The number of inducing inputs of a fit without neighbours.
        Inducing = "inducing",
        /// The posterior of the hyper-parameters, by the widths of predictive intervals.
        HyperPosterior = "hyper-posterior",
    }
}

impl Part {
    /// All parts, in the order of the choices.
    pub(crate) const ALL: [Part; 9] = [
        Part::WarpInputs,
        Part::WarpTarget,
        Part::Likelihood,
        Part::Neighbours,
        Part::Kernel,
        Part::Objective,
        Part::Inducing,
        Part::Mean,
        Part::HyperPosterior,
    ];
}

/// The set of parts of a fit that are chosen on held-out training rows. As text: `all`, `none`, or parts separated by commas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Open([bool; Part::ALL.len()]);

impl Open {
    /// The empty set: the fit uses every option as given.
    pub const NOTHING: Open = Open([false; Part::ALL.len()]);
    /// The set of all parts.
    pub const EVERYTHING: Open = Open([true; Part::ALL.len()]);

    /// Returns true if the set contains a part.
    #[doc(hidden)]
    pub fn contains(self, part: Part) -> bool {
        self.0[part as usize]
    }

    /// Returns true if the set is empty.
    #[doc(hidden)]
    pub fn is_empty(self) -> bool {
        self == Open::NOTHING
    }

    /// Returns the set with this part added.
    pub fn with(mut self, part: Part) -> Open {
        self.0[part as usize] = true;
        self
    }

    /// Returns the set with these parts removed.
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
    /// Returns the value of a part, as the command line spells it.
    pub(crate) fn word_of(&self, part: Part) -> String {
        match part {
            Part::Mean => self.mean.to_string(),
            Part::Likelihood => self.likelihood_kind().to_string(),
            Part::WarpInputs => self.warp_inputs.to_string(),
            Part::WarpTarget => self.warp_target.to_string(),
            Part::Kernel => self.kernel.clone(),
            Part::Neighbours => self.neighbours.map_or("none".to_owned(), |count| count.to_string()),
            Part::Objective => self.objective.to_string(),
            Part::Inducing => self.inducing.map_or("default".to_owned(), |count| count.to_string()),
            Part::HyperPosterior => self.hyper_posterior.to_string(),
        }
    }

    /// Returns the options with the automatic posterior of the hyper-parameters if that part is open.
    pub(crate) fn with_automatic_posterior(&self) -> FitOptions {
        match self.open.contains(Part::HyperPosterior) {
            true => FitOptions { hyper_posterior: HyperPosteriorKind::Auto, ..self.clone() },
            false => self.clone(),
        }
    }

    /// Returns the options with one part taken from `other`.
    pub(crate) fn with_part_of(&self, part: Part, other: &FitOptions) -> FitOptions {
        let own = self.clone();
        match part {
            Part::Mean => FitOptions { mean: other.mean, ..own },
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
            Part::HyperPosterior => FitOptions { hyper_posterior: other.hyper_posterior, ..own },
        }
    }
}
