//! Step-size schedules: the requested step at iteration t.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The step size at iteration t = 0, 1, 2, …
///
/// Rules that mix natural parameters read it as the mixing weight ρ, which must not exceed 1 (see
/// `Schedule::mixing`); gradient rules read it as γ, in units of the inverse curvature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Schedule {
    /// A constant step.
    Constant(f64),
    /// A geometric rise from `start` to `end` over the first `steps` iterations, then `end`
    /// (used for natural gradients by Salimbeni, Eleftheriadis & Hensman 2018).
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
    /// `1 / (ϖ (t/2 + 1))` for an objective that is ϖ-strongly convex relative to the mirror map of the family;
    /// ϖ = 1, the conjugate case, is [`Schedule::TwoOverT`].
    HalfT {
        /// The relative strong convexity ϖ.
        strong_convexity: f64,
    },
    /// `min{ϖ/(2a), (2t + 1)/(ϖ (t + 1)²)}` for an objective that is ϖ-strongly convex, with gradients whose mean
    /// square grows by a per squared distance from the optimum (Domke, Gower & Garrigos 2023).
    Domke {
        /// The strong convexity ϖ.
        strong_convexity: f64,
        /// The gradient-noise constant a.
        noise: f64,
    },
    /// `s / √(t + 1)`.
    InverseSqrt(f64),
    /// `1 / (c + t)`: close to 1/c for the first c iterations and close to 1/t long after them.
    Inverse {
        /// The offset c.
        offset: f64,
    },
}

impl Schedule {
    /// Returns the step at iteration `t`.
    #[doc(hidden)]
    pub fn at(self, t: usize) -> f64 {
        let time = t as f64;
        match self {
            Schedule::Constant(step) => step,
            Schedule::WarmUp { start, end, steps } => {
                if t >= steps {
                    end
                } else {
                    start * (end / start).powf(time / steps as f64)
                }
            }
            Schedule::TwoOverT => 2.0 / (time + 2.0),
            Schedule::HalfT { strong_convexity } => 1.0 / (strong_convexity * (0.5 * time + 1.0)),
            Schedule::Domke { strong_convexity, noise } => {
                let late = (2.0 * time + 1.0) / (strong_convexity * (time + 1.0) * (time + 1.0));
                late.min(strong_convexity / (2.0 * noise))
            }
            Schedule::InverseSqrt(scale) => scale / (time + 1.0).sqrt(),
            Schedule::Inverse { offset } => 1.0 / (offset + time),
        }
    }

    pub(crate) fn largest(self) -> f64 {
        match self {
            Schedule::WarmUp { start, end, steps } if steps > 0 => start.max(end),
            // All other schedules never increase.
            _ => self.at(0),
        }
    }

    /// Returns the schedule, or a usage error if some step exceeds 1 and therefore cannot be a mixing weight.
    pub(crate) fn mixing(self) -> Result<Self> {
        let largest = self.largest();
        if largest <= 1.0 {
            return Ok(self);
        }
        let message = format!("step schedule '{self}' reaches {largest}, but a mixing weight is at most 1");
        Err(Error::usage(message).hint("use a smaller step, or a rule that takes plain gradient steps"))
    }
}

fn positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Constant(step) => write!(f, "const:{step}"),
            Schedule::WarmUp { start, end, steps } => write!(f, "warm-up:{start}:{end}:{steps}"),
            Schedule::TwoOverT => write!(f, "two-over-t"),
            Schedule::HalfT { strong_convexity } => write!(f, "half-t:{strong_convexity}"),
            Schedule::Domke { strong_convexity, noise } => write!(f, "domke:{strong_convexity}:{noise}"),
            Schedule::InverseSqrt(scale) => write!(f, "invsqrt:{scale}"),
            Schedule::Inverse { offset } => write!(f, "inverse:{offset}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = || {
            Error::usage(format!(
                "step schedule '{text}' is not one of const:STEP, warm-up:START:END:STEPS with steps in (0, 1], \
                 two-over-t, half-t:CONVEXITY, domke:CONVEXITY:NOISE, invsqrt:SCALE, inverse:OFFSET with \
                 positive numbers"
            ))
        };
        let number = |part: &str| part.parse().ok().filter(|x| positive(*x)).ok_or_else(expected);
        let weight = |part: &str| number(part).and_then(|x| if x <= 1.0 { Ok(x) } else { Err(expected()) });
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["two-over-t"] => Ok(Schedule::TwoOverT),
            ["const", s] => Ok(Schedule::Constant(number(s)?)),
            ["warm-up", a, b, n] => Ok(Schedule::WarmUp {
                start: weight(a)?,
                end: weight(b)?,
                steps: n.parse().map_err(|_| expected())?,
            }),
            ["half-t", w] => Ok(Schedule::HalfT { strong_convexity: number(w)? }),
            ["domke", w, a] => Ok(Schedule::Domke { strong_convexity: number(w)?, noise: number(a)? }),
            ["invsqrt", s] => Ok(Schedule::InverseSqrt(number(s)?)),
            ["inverse", c] => Ok(Schedule::Inverse { offset: number(c)? }),
            _ => Err(expected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        let number = || 1e-12..1e12;
        let weight = || 1e-9..=1.0;
        prop_oneof![
            number().prop_map(Schedule::Constant),
            (weight(), weight(), 0usize..1000).prop_map(|(start, end, steps)| Schedule::WarmUp {
                start,
                end,
                steps
            }),
            Just(Schedule::TwoOverT),
            number().prop_map(|strong_convexity| Schedule::HalfT { strong_convexity }),
            (number(), number())
                .prop_map(|(strong_convexity, noise)| Schedule::Domke { strong_convexity, noise }),
            number().prop_map(Schedule::InverseSqrt),
            number().prop_map(|offset| Schedule::Inverse { offset }),
        ]
    }

    proptest! {
        #[test]
        fn schedules_are_read_as_they_are_written(schedule in any_schedule()) {
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }

    #[test]
    fn steps_are_those_of_the_formulae() {
        let steps = [
            ("const:3", 7, 3.0),
            ("two-over-t", 0, 1.0),
            ("two-over-t", 8, 0.2),
            ("half-t:0.5", 2, 1.0),
            ("domke:2:100", 0, 0.01),
            ("domke:2:100", 999, 1999.0 / 2e6),
            ("invsqrt:0.3", 8, 0.1),
            ("inverse:1e5", 0, 1e-5),
            ("inverse:1e5", 100_000, 5e-6),
            ("warm-up:0.01:1:2", 1, 0.1),
            ("warm-up:0.01:1:2", 5, 1.0),
        ];
        for (text, t, want) in steps {
            let got = text.parse::<Schedule>().map(|schedule| schedule.at(t));
            assert!(
                got.as_ref().is_ok_and(|got| (got - want).abs() <= 1e-15 * want),
                "{text} at {t}: {got:?}"
            );
        }
    }

    #[test]
    fn only_mixing_weights_pass_as_such() {
        for (text, allowed) in [
            ("const:1", true),
            ("const:1.5", false),
            ("half-t:0.5", false),
            ("inverse:10", true),
            ("two-over-t", true),
        ] {
            let schedule: Schedule = text.parse().expect("a schedule");
            assert_eq!(schedule.mixing().is_ok(), allowed, "{text}");
        }
    }
}
