//! What kind of target a column holds and the task it makes; names only, no models.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a model is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A real number.
    Regression,
    /// One of two classes.
    Classification,
    /// A number of events.
    Count,
    /// One of several ordered levels.
    Ordinal,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Task::Regression => "regression",
            Task::Classification => "classification",
            Task::Count => "count",
            Task::Ordinal => "ordinal",
        })
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
}

impl TargetKind {
    /// The task that a target of this kind makes.
    pub fn task(self) -> Task {
        match self {
            TargetKind::Real | TargetKind::Positive | TargetKind::UnitInterval => Task::Regression,
            TargetKind::Count => Task::Count,
            TargetKind::Binary => Task::Classification,
            TargetKind::Ordinal => Task::Ordinal,
        }
    }
}
