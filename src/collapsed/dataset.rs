//! The rows of sums over data: inputs and observations.

use crate::objective::Targets;
use faer::MatRef;

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
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Returns true if there are no rows.
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
