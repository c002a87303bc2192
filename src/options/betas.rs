//! The values of β among which a fit chooses.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The values of β among which a fit chooses.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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
