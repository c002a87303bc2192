//! What is asked of the search for the number of inducing inputs; no search.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How the number of inducing inputs is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Growth {
    /// When to stop, in nats per datum; [`Growth::TOLERANCE`] when absent.
    pub tolerance: Option<f64>,
    /// The most inducing inputs; half the data and at most [`Growth::MOST`] when absent.
    pub most: Option<usize>,
}

impl Growth {
    /// The most inducing inputs when nothing was said.
    pub const MOST: usize = 2000;

    /// The tolerance, in nats per datum, when nothing was said.
    pub const TOLERANCE: f64 = 0.01;

    /// The most inducing inputs for `n` data.
    pub(crate) fn most_for(&self, n: usize) -> usize {
        self.most.unwrap_or((n / 2).clamp(1, Growth::MOST)).min(n)
    }

    /// Refuses values that make no sense.
    pub(super) fn validate(&self) -> Result<()> {
        if let Some(tolerance) = self.tolerance.filter(|t| !(*t > 0.0 && t.is_finite())) {
            return Err(Error::usage(format!(
                "⟨inducing_tolerance⟩ is {tolerance}, expected a positive number"
            )));
        }
        if self.most == Some(0) {
            return Err(Error::usage("⟨max_inducing⟩ is 0, expected at least 1"));
        }
        Ok(())
    }
}
