//! The best q in closed form for losses that are quadratic in the latent mean (VFE, collapsed β-ELBO, FITC, square-loss
//! DLM), with grouped effects, and upper bounds on the evidence.
//!
//! Comments use these symbols. A has the whitened features a_i of a row in each column. A row has the
//! target y_i, the offset o_i, `c_i = y_i − o_i`, the residual variance r_i and the precision ω_i. W and κ are those of
//! [`LatentLayer`](crate::latent::LatentLayer), σ² is the noise variance, and q(w) = N(m, S). Sums over rows are those of a
//! [pass](crate::gradient::BatchPass) at the origin.

mod bounds;
mod evidence;
mod grouped;

use crate::objective::Targets;
pub use bounds::{Solution, noise_derivative, solve};
pub(crate) use bounds::{tangent, upper_bound};
pub use evidence::dense_upper_bound;
use faer::MatRef;
pub use grouped::WeightPrior;
pub(crate) use grouped::{GroupedEvidence, GroupedSums, grouped_evidence};

/// Inputs `n × D`, a row per datum, and what was observed.
#[derive(Clone, Copy)]
pub struct Dataset<'a> {
    /// Inputs, `n × D`, any strides.
    pub x: MatRef<'a, f64>,
    /// Targets, n of them, with exposures and weights.
    pub targets: Targets<'a>,
}

impl<'a> Dataset<'a> {
    /// Creates data with exposures and weights of 1.
    pub fn of(x: MatRef<'a, f64>, y: &'a [f64]) -> Self {
        Dataset { x, targets: Targets::of(y) }
    }

    /// The number of rows.
    #[doc(hidden)]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns true if there are no rows.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Returns the rows `from..from + len`.
    pub(crate) fn part(&self, from: usize, len: usize) -> Dataset<'a> {
        Dataset { x: self.x.subrows(from, len), targets: self.targets.range(from, from + len) }
    }

    /// All rows in order, at most `most` at a time.
    pub(crate) fn parts(self, most: usize) -> impl Iterator<Item = Dataset<'a>> {
        let n = self.len();
        (0..n).step_by(most.max(1)).map(move |from| self.part(from, most.min(n - from)))
    }
}
