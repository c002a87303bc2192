//! Size schedules: the number of rows or Monte Carlo samples at iteration t.

use crate::error::{Error, Result};
use crate::words::stored_as_text;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The batch size, or number of Monte Carlo samples, at iteration t = 0, 1, 2, …
///
/// Growing sizes can replace shrinking steps (Guilmeau, Hendrikx & Forbes 2026).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum SizeSchedule {
    /// N throughout.
    Constant(usize),
    /// `⌈(t + 1)^κ⌉`.
    Power {
        /// The exponent κ ≥ 0.
        exponent: f64,
    },
    /// `max(N, ⌈(t + 1)^κ⌉)`.
    AtLeast {
        /// The least size N.
        least: usize,
        /// The exponent κ ≥ 0.
        exponent: f64,
    },
    /// `⌈½ M (t + 1)² log(π² n (t + 1)²/δ)⌉`: the samples for each datum with which biased gradients of the log predictive density converge
    /// with probability 1 − δ for steps 1/(t + 1) (Wei, Sheth & Khardon 2021, eq. 9 with `δ_t = 6δ/(π² (t + 1)²)`).
    Bias {
        /// The largest ratio M of eq. 10 over the data.
        ratio: f64,
        /// The number of rows n.
        rows: usize,
        /// The probability δ of failure.
        failure: f64,
    },
}

impl SizeSchedule {
    /// The size at iteration `t`: at most `cap` (the number of rows) and at least 1, even for a
    /// `cap` of 0.
    #[doc(hidden)]
    pub fn at(self, t: usize, cap: usize) -> usize {
        let size = match self {
            SizeSchedule::Constant(size) => size,
            SizeSchedule::Power { exponent } => power(t, exponent),
            SizeSchedule::AtLeast { least, exponent } => least.max(power(t, exponent)),
            SizeSchedule::Bias { ratio, rows, failure } => {
                let square = (t as f64 + 1.0).powi(2);
                let pi = std::f64::consts::PI;
                (0.5 * ratio * square * (pi * pi * rows as f64 * square / failure).ln()).ceil() as usize
            }
        };
        size.min(cap).max(1)
    }
}

/// Returns `⌈(t + 1)^κ⌉`, or the largest integer if that is larger.
fn power(t: usize, exponent: f64) -> usize {
    (t as f64 + 1.0).powf(exponent).ceil() as usize
}

impl fmt::Display for SizeSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeSchedule::Constant(size) => write!(f, "const:{size}"),
            SizeSchedule::Power { exponent } => write!(f, "power:{exponent}"),
            SizeSchedule::AtLeast { least, exponent } => write!(f, "max:{least}:{exponent}"),
            SizeSchedule::Bias { ratio, rows, failure } => write!(f, "bias:{ratio}:{rows}:{failure}"),
        }
    }
}

impl FromStr for SizeSchedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = || {
            Error::usage(format!(
                "size schedule '{text}' is not one of const:N, power:KAPPA, max:N:KAPPA, bias:M:ROWS:DELTA with N and ROWS at least 1, KAPPA at least 0, M positive and \
                 DELTA between 0 and 1"
            ))
        };
        let count = |part: &str| part.parse().ok().filter(|n| *n > 0).ok_or_else(expected);
        let exponent =
            |part: &str| part.parse().ok().filter(|k: &f64| *k >= 0.0 && k.is_finite()).ok_or_else(expected);
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["const", n] => Ok(SizeSchedule::Constant(count(n)?)),
            ["power", k] => Ok(SizeSchedule::Power { exponent: exponent(k)? }),
            ["bias", m, rows, delta] => {
                let positive = |part: &str, most: f64| {
                    part.parse().ok().filter(|x: &f64| *x > 0.0 && *x < most).ok_or_else(expected)
                };
                Ok(SizeSchedule::Bias {
                    ratio: positive(m, f64::INFINITY)?,
                    rows: count(rows)?,
                    failure: positive(delta, 1.0)?,
                })
            }
            ["max", n, k] => Ok(SizeSchedule::AtLeast { least: count(n)?, exponent: exponent(k)? }),
            _ => Err(expected()),
        }
    }
}

stored_as_text!(SizeSchedule);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_formulae() {
        let sizes = [
            ("const:7", 3, 7),
            ("const:2000", 3, 1000),
            ("power:0", 900, 1),
            ("power:1", 41, 42),
            ("power:0.5", 8, 3),
            ("power:0.5", 9, 4),
            ("power:2", 500, 1000),
            ("max:10:1", 3, 10),
            ("max:10:1", 30, 31),
        ];
        for (text, t, want) in sizes {
            let schedule: SizeSchedule = text.parse().expect(text);
            assert_eq!((schedule.at(t, 1000), schedule.to_string().as_str()), (want, text), "at {t}");
        }
        assert_eq!(SizeSchedule::Constant(5).at(0, 0), 1);
        assert_eq!(SizeSchedule::Power { exponent: 50.0 }.at(usize::MAX, 9), 9);
    }
}
