//! The kinds of targets and tasks.

use crate::NameError;
use crate::crps::BELOW_1;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The kind of task of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A real number.
    Regression,
    /// One of two or more classes.
    Classification,
    /// A number of events.
    Count,
    /// One of several ordered levels.
    Ordinal,
}

impl Task {
    /// The names of all tasks.
    pub const WORDS: &'static [&'static str] = &["regression", "classification", "count", "ordinal"];

    const ALL: [Task; 4] = [Task::Regression, Task::Classification, Task::Count, Task::Ordinal];

    /// Returns the name of the task, as text and files spell it.
    pub const fn word(self) -> &'static str {
        Task::WORDS[self as usize]
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Task {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let known = Task::ALL.into_iter().find(|task| task.word() == text);
        known.ok_or_else(|| NameError::new("task", text, Task::WORDS))
    }
}

/// The values a target may take; a likelihood is defined on one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Any real number.
    Real,
    /// Any real number, with a known standard error of each.
    Measured,
    /// Any real number, of which some are censored: known only to lie in an interval.
    Censored,
    /// A number above 0.
    Positive,
    /// A time above 0 until an event, of which some are censored.
    Lifetime,
    /// A number of 0 or more, with a probability of exactly 0.
    Amount,
    /// A number above 0 and below 1.
    UnitInterval,
    /// A number from 0 to 1, with probabilities of exactly 0 and exactly 1.
    Share,
    /// 0, 1, 2, …
    Count,
    /// 0, 1, 2, …, known or censored.
    CensoredCount,
    /// 0, 1, …, n: a number of successes in n trials.
    Trials,
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
    /// Returns true for two or more classes without an order.
    pub fn is_of_classes(self) -> bool {
        matches!(self, TargetKind::Binary | TargetKind::Class)
    }

    /// Returns true for any real numbers, which fits standardise.
    pub const fn is_standardised(self) -> bool {
        matches!(self, TargetKind::Real | TargetKind::Measured | TargetKind::Censored)
    }

    /// The exposure of a row without one: 1, or a standard error of 0.
    pub const fn usual_exposure(self) -> f64 {
        if matches!(self, TargetKind::Measured) { 0.0 } else { 1.0 }
    }

    /// Returns true if some targets are known only to lie in an interval.
    pub const fn is_censored(self) -> bool {
        matches!(self, TargetKind::Censored | TargetKind::Lifetime | TargetKind::CensoredCount)
    }

    /// Returns the kind of these targets if some of them are censored, or the kind itself if no likelihood takes such targets.
    #[doc(hidden)]
    pub const fn with_censoring(self) -> Self {
        match self {
            TargetKind::Real => TargetKind::Censored,
            TargetKind::Positive => TargetKind::Lifetime,
            TargetKind::Count => TargetKind::CensoredCount,
            kind => kind,
        }
    }

    /// Returns true for numbers of events.
    #[doc(hidden)]
    pub const fn is_of_events(self) -> bool {
        matches!(self, TargetKind::Count | TargetKind::CensoredCount)
    }

    /// Returns true for counts: numbers of events, and numbers of successes in trials.
    pub fn is_of_counts(self) -> bool {
        self.is_of_events() || self == TargetKind::Trials
    }

    /// Returns true for targets that are continuous except at ends of the range, which have probabilities.
    pub fn has_ends(self) -> bool {
        matches!(self, TargetKind::Amount | TargetKind::Share)
    }

    /// Returns the meaning of [`exposure`](crate::Observation::exposure), if targets of this kind have one: a factor of the rate of counts,
    /// the number of trials, or a known standard error.
    pub fn exposure(self) -> Option<&'static str> {
        match self {
            TargetKind::Count | TargetKind::CensoredCount => Some("exposure"),
            TargetKind::Trials => Some("trials"),
            TargetKind::Measured => Some("noise-std"),
            _ => None,
        }
    }

    /// Returns the largest number below an end of the range that has a probability, although targets are continuous elsewhere; y itself for
    /// other targets.
    pub fn before(self, y: f64) -> f64 {
        match self {
            TargetKind::Amount | TargetKind::Share if y == 0.0 => -f64::MIN_POSITIVE,
            TargetKind::Share if y == 1.0 => BELOW_1,
            _ => y,
        }
    }

    /// Returns true if a coded target can occur in a row with this exposure or number of trials, which only [`Trials`](Self::Trials) limit.
    pub fn admits_with(self, y: f64, exposure: f64) -> bool {
        self.admits(y) && (self != TargetKind::Trials || y <= exposure)
    }

    /// Returns true if a coded target is of this kind.
    pub fn admits(self, y: f64) -> bool {
        let whole = (0.0..=HIGHEST_WHOLE).contains(&y) && y.fract() == 0.0;
        match self {
            TargetKind::Real | TargetKind::Measured | TargetKind::Censored => y.is_finite(),
            TargetKind::Positive | TargetKind::Lifetime => y > 0.0 && y.is_finite(),
            TargetKind::Amount => y >= 0.0 && y.is_finite(),
            TargetKind::UnitInterval => y > 0.0 && y < 1.0,
            TargetKind::Share => (0.0..=1.0).contains(&y),
            TargetKind::Count
            | TargetKind::CensoredCount
            | TargetKind::Trials
            | TargetKind::Ordinal
            | TargetKind::Class => whole,
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
            TargetKind::Measured => ("measured", "a finite number", Task::Regression),
            TargetKind::Censored => ("censored", "a finite number", Task::Regression),
            TargetKind::Lifetime => ("lifetime", "a number above 0", Task::Regression),
            TargetKind::Positive => ("positive", "a number above 0", Task::Regression),
            TargetKind::Amount => ("amount", "a number of 0 or more", Task::Regression),
            TargetKind::Share => ("share", "a number from 0 to 1", Task::Regression),
            TargetKind::UnitInterval => ("unit interval", "a number above 0 and below 1", Task::Regression),
            TargetKind::Count => ("count", "a whole number, 0 or more", Task::Count),
            TargetKind::CensoredCount => ("censored count", "a whole number, 0 or more", Task::Count),
            TargetKind::Trials => ("trials", "a whole number from 0 to the number of trials", Task::Count),
            TargetKind::Binary => ("binary", "0 or 1", Task::Classification),
            TargetKind::Ordinal => ("ordinal", "the number of a level, 0 or more", Task::Ordinal),
            TargetKind::Class => ("class", "the number of a class, 0 or more", Task::Classification),
        }
    }
}
