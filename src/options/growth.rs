//! The options of searches around a fit: the number of inducing inputs, and the values of β.

use super::check::{positive, refuse_if};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The options of the search for the number of inducing inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// The tolerance at which the search ends, in nats per row; `None` means [`Growth::TOLERANCE`].
    #[serde(rename = "tolerance", alias = "inducing_tolerance")]
    pub inducing_tolerance: Option<f64>,
    /// The maximum number of inducing inputs; `None` means half the training rows, but at most [`Growth::MOST`].
    #[serde(rename = "most", alias = "max_inducing")]
    pub max_inducing: Option<usize>,
}

impl Growth {
    /// The default maximum number of inducing inputs.
    #[doc(hidden)]
    pub const MOST: usize = 2000;

    /// The default tolerance, in nats per row.
    #[doc(hidden)]
    pub const TOLERANCE: f64 = 0.01;

    /// Returns the maximum number of inducing inputs for `n` rows.
    pub(crate) fn most_for(&self, n: usize) -> usize {
        self.max_inducing.unwrap_or((n / 2).clamp(1, Growth::MOST)).min(n)
    }

    /// Refuses invalid values.
    pub(super) fn validate(&self) -> Result<()> {
        self.inducing_tolerance.map_or(Ok(()), |tolerance| positive("⟨inducing_tolerance⟩", tolerance))?;
        let wrong = self.max_inducing == Some(0);
        refuse_if(wrong, || Error::usage("⟨max_inducing⟩ is 0, expected at least 1"))
    }
}

/// The values of β among which a fit chooses.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Betas {
    /// The grid n, n/2, n/4, …, 0.01 for n training rows (Wei, Sheth & Khardon 2021).
    Auto,
    /// These values, all positive.
    List(Vec<f64>),
}

impl Betas {
    /// The smallest β of the automatic grid.
    const SMALLEST: f64 = 0.01;

    /// Returns the values in descending order, for `n` training rows.
    pub fn grid(&self, n: usize) -> Vec<f64> {
        let mut grid = match self {
            Betas::Auto => {
                let halves = std::iter::successors(Some(n as f64), |beta| Some(0.5 * beta));
                halves.take_while(|beta| *beta > Self::SMALLEST).chain([Self::SMALLEST]).collect()
            }
            Betas::List(list) => list.clone(),
        };
        grid.sort_by(|a: &f64, b| b.total_cmp(a));
        grid.dedup();
        grid
    }
}

impl FromStr for Betas {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Betas::Auto);
        }
        let number = |part: &str| part.trim().parse::<f64>().ok().filter(|b| *b > 0.0 && b.is_finite());
        let list: Option<Vec<f64>> = text.split(',').map(number).collect();
        list.map(Betas::List).ok_or_else(|| {
            Error::usage(format!("betas '{text}': expected auto, or positive numbers separated by commas"))
        })
    }
}

impl fmt::Display for Betas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Betas::Auto => f.write_str("auto"),
            Betas::List(list) => f.write_str(&list.iter().map(f64::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}
