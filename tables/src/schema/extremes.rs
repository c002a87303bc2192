//! The smallest and the largest numbers of a column.

use serde::{Deserialize, Serialize};

/// The minimum ratio of its distance to that of any other number. The largest of heavy-tailed numbers does not reach it, because others are
/// nearly as large.
const ALONE: f64 = 100.0;

/// The two smallest and the two largest numbers of a column, with the rows of the first of each pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Extremes {
    pub(super) low: [(f64, usize); 2],
    pub(super) high: [(f64, usize); 2],
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes { low: [(f64::INFINITY, 0); 2], high: [(f64::NEG_INFINITY, 0); 2] }
    }
}

impl Extremes {
    pub(super) fn push(&mut self, value: f64, row: usize) {
        if value < self.low[0].0 {
            self.low = [(value, row), self.low[0]];
        } else if value < self.low[1].0 {
            self.low[1] = (value, row);
        }
        if value > self.high[0].0 {
            self.high = [(value, row), self.high[0]];
        } else if value > self.high[1].0 {
            self.high[1] = (value, row);
        }
    }

    pub(super) fn merge(&mut self, later: Extremes) {
        let ends = later.low.into_iter().chain(later.high);
        ends.filter(|(value, _)| value.is_finite()).for_each(|(value, row)| {
            // A column of one or two numbers has each of them at both ends.
            if !self.low.contains(&(value, row)) && !self.high.contains(&(value, row)) {
                self.push(value, row);
            }
        });
    }

    /// Returns true if all numbers are below the numbers of later rows.
    pub(super) fn end_below(&self, later: &Extremes) -> bool {
        self.high[0].0 < later.low[0].0
    }

    /// Returns the number that is far from all others, with its row.
    pub(super) fn alone(&self, middle: f64) -> Option<(f64, usize)> {
        let far = |(value, _): (f64, usize)| (value - middle).abs();
        let (end, next, other) = if far(self.low[0]) > far(self.high[0]) {
            (self.low[0], self.low[1], self.high[0])
        } else {
            (self.high[0], self.high[1], self.low[0])
        };
        let rest = far(next).max(far(other));
        (far(end).is_finite() && far(end) > ALONE * rest).then_some(end)
    }
}
