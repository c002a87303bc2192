//! The options of the search for the number of inducing inputs.

use super::refuse::{positive, refuse_if};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

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
    pub const MOST: usize = 2000;

    /// The default tolerance, in nats per row.
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
