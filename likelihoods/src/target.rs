//! The kinds of targets and tasks.

use crate::NameError;
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
        matches!(self, TargetKind::Censored | TargetKind::Lifetime)
    }

    /// Returns true if a coded target is of this kind.
    pub fn admits(self, y: f64) -> bool {
        let whole = (0.0..=HIGHEST_WHOLE).contains(&y) && y.fract() == 0.0;
        match self {
            TargetKind::Real | TargetKind::Measured | TargetKind::Censored => y.is_finite(),
            TargetKind::Positive | TargetKind::Lifetime => y > 0.0 && y.is_finite(),
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
            TargetKind::Measured => ("measured", "a finite number", Task::Regression),
            TargetKind::Censored => ("censored", "a finite number", Task::Regression),
            TargetKind::Lifetime => ("lifetime", "a number above 0", Task::Regression),
            TargetKind::Positive => ("positive", "a number above 0", Task::Regression),
            TargetKind::UnitInterval => ("unit interval", "a number above 0 and below 1", Task::Regression),
            TargetKind::Count => ("count", "a whole number, 0 or more", Task::Count),
            TargetKind::Binary => ("binary", "0 or 1", Task::Classification),
            TargetKind::Ordinal => ("ordinal", "the number of a level, 0 or more", Task::Ordinal),
            TargetKind::Class => ("class", "the number of a class, 0 or more", Task::Classification),
        }
    }
}
