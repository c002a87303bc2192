//! What a target's values may be and what a model of them is judged by; no data, no likelihoods.

use crate::words::words;
use serde::{Deserialize, Serialize};
use std::fmt;

words! {
    /// What a model is judged by.
    Task, "task" {
        /// A real number.
        Regression = "regression",
        /// One of two classes.
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
}

impl fmt::Display for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetKind::Real => "real",
            TargetKind::Positive => "positive",
            TargetKind::UnitInterval => "unit interval",
            TargetKind::Count => "count",
            TargetKind::Binary => "binary",
            TargetKind::Ordinal => "ordinal",
        })
    }
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
