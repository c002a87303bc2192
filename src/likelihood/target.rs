//! The kinds of targets and tasks.

use crate::error::{Error, Result};
use crate::words::word_option;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

word_option! {
    /// The kind of task of a model.
    Task, "task" {
        /// A real number.
        Regression = "regression",
        /// One of two or more classes.
        Classification = "classification",
        /// A number of events.
        Count = "count",
        /// One of several ordered levels.
        Ordinal = "ordinal",
    }
}

/// The values a target may take; a likelihood is defined on one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Any real number.
    Real,
    /// A number above 0.
    Positive,
    /// A number above 0 and below 1.
    UnitInterval,
    /// 0, 1, 2, …
    Count,
    /// One of two classes, coded 0 and 1.
    Binary,
    /// One of several ordered levels, coded 0, 1, …, K.
    Ordinal,
    /// One of several classes without an order, coded 0, 1, ….
    Class,
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().0)
    }
}

/// The largest whole number, 2^53, up to which a 64-bit float represents every whole number exactly.
pub const HIGHEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// The range of exposures. Beyond it, the squares in variances of counts overflow.
pub const EXPOSURES: RangeInclusive<f64> = 1e-100..=1e100;

impl TargetKind {
    /// Refuses exposures of targets other than counts, which have none, and exposures outside [`EXPOSURES`]. `what` names the rows.
    ///
    /// # Errors
    ///
    /// Data errors that name the rows, and the likelihood or the position.
    pub fn check_exposure(self, what: &str, exposure: &[f64], likelihood: &str) -> Result<()> {
        if !exposure.is_empty() && self != TargetKind::Count {
            return Err(Error::data(format!(
                "the {what} rows have exposures, but the {likelihood} likelihood is not for counts and uses none"
            ))
            .hint("leave the exposures out, or choose a likelihood of counts such as poisson"));
        }
        match exposure.iter().position(|value| !EXPOSURES.contains(value)) {
            None => Ok(()),
            Some(row) => Err(Error::data(format!(
                "the {what} exposures have {:?} in row {row}, counted from 0, expected a number from {:e} to {:e}",
                exposure[row],
                EXPOSURES.start(),
                EXPOSURES.end()
            ))),
        }
    }

    /// Returns true for two or more classes without an order.
    pub(crate) fn is_of_classes(self) -> bool {
        matches!(self, TargetKind::Binary | TargetKind::Class)
    }

    /// Returns true if a coded target is of this kind.
    pub fn admits(self, y: f64) -> bool {
        let whole = (0.0..=HIGHEST_WHOLE).contains(&y) && y.fract() == 0.0;
        match self {
            TargetKind::Real => y.is_finite(),
            TargetKind::Positive => y > 0.0 && y.is_finite(),
            TargetKind::UnitInterval => y > 0.0 && y < 1.0,
            TargetKind::Count | TargetKind::Ordinal | TargetKind::Class => whole,
            TargetKind::Binary => y == 0.0 || y == 1.0,
        }
    }

    /// The coded targets that this kind admits, in words.
    pub fn values(self) -> &'static str {
        self.facts().1
    }

    /// The task of models with targets of this kind.
    pub fn task(self) -> Task {
        self.facts().2
    }

    /// Returns the name, the admitted targets in words, and the task.
    fn facts(self) -> (&'static str, &'static str, Task) {
        match self {
            TargetKind::Real => ("real", "a finite number", Task::Regression),
            TargetKind::Positive => ("positive", "a number above 0", Task::Regression),
            TargetKind::UnitInterval => ("unit interval", "a number above 0 and below 1", Task::Regression),
            TargetKind::Count => ("count", "a whole number, 0 or more", Task::Count),
            TargetKind::Binary => ("binary", "0 or 1", Task::Classification),
            TargetKind::Ordinal => ("ordinal", "the number of a level, 0 or more", Task::Ordinal),
            TargetKind::Class => ("class", "the number of a class, 0 or more", Task::Classification),
        }
    }
}
