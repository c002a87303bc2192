//! Step-size schedules: which step to ask for at iteration t.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The step size at iteration t = 0, 1, 2, …
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// The same step throughout.
    Constant(f64),
    /// A geometric rise from `start` to `end` over the first `steps` iterations, then `end`
    /// (Salimbeni, Eleftheriadis & Hensman 2018 start natural gradients so).
    WarmUp {
        /// The first step.
        start: f64,
        /// The step from iteration `steps` on.
        end: f64,
        /// The length of the rise.
        steps: usize,
    },
    /// `2 / (t + 2)`, the schedule of Wu & Gardner 2024 for conjugate models.
    TwoOverT,
}

impl Schedule {
    /// The step at iteration `t`.
    pub fn at(self, t: usize) -> f64 {
        match self {
            Schedule::Constant(step) => step,
            Schedule::WarmUp { start, end, steps } => {
                if t >= steps {
                    end
                } else {
                    start * (end / start).powf(t as f64 / steps as f64)
                }
            }
            Schedule::TwoOverT => 2.0 / (t as f64 + 2.0),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Constant(step) => write!(f, "const:{step}"),
            Schedule::WarmUp { start, end, steps } => write!(f, "warm-up:{start}:{end}:{steps}"),
            Schedule::TwoOverT => write!(f, "two-over-t"),
        }
    }
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = || {
            Error::usage(format!(
                "step schedule '{text}' is not one of const:STEP, warm-up:START:END:STEPS, two-over-t with steps in (0, 1]"
            ))
        };
        let step =
            |part: &str| part.parse::<f64>().ok().filter(|s| *s > 0.0 && *s <= 1.0).ok_or_else(expected);
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["two-over-t"] => Ok(Schedule::TwoOverT),
            ["const", s] => Ok(Schedule::Constant(step(s)?)),
            ["warm-up", a, b, n] => Ok(Schedule::WarmUp {
                start: step(a)?,
                end: step(b)?,
                steps: n.parse().map_err(|_| expected())?,
            }),
            _ => Err(expected()),
        }
    }
}
