//! The cells of an index in the order in which the search for a cell of queries visits them.

use super::cells::{Group, Parts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A distance with a total order; it is never NaN.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Ordered(pub f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The groups of points that are still to be visited, ordered by their distance from the middle of
/// the queries. Only groups that contain near cells are divided, so the cost of a search hardly
/// depends on the number of cells.
#[derive(Default)]
pub(super) struct Frontier {
    ahead: BinaryHeap<Reverse<(Ordered, usize)>>,
}

impl Frontier {
    /// Starts again at the root of `groups`, for the queries of the cell `queries`.
    pub(crate) fn reset(&mut self, groups: &[Group], queries: &Group) {
        self.ahead.clear();
        if !groups.is_empty() {
            self.push(groups, queries, 0);
        }
    }

    fn push(&mut self, groups: &[Group], queries: &Group, at: usize) {
        self.ahead.push(Reverse((Ordered(groups[at].squared_distance_to_middle(queries)), at)));
    }

    /// Returns the next cell, as an index into `groups`, among the cells nearer than `farthest` (a
    /// squared distance) to the box of the queries.
    pub(crate) fn next_cell(&mut self, groups: &[Group], queries: &Group, farthest: f64) -> Option<usize> {
        while let Some(Reverse((_, at))) = self.ahead.pop() {
            if groups[at].squared_distance(queries) >= farthest {
                continue;
            }
            match groups[at].parts {
                Parts::Cell(_) => return Some(at),
                Parts::Halves(second) => {
                    [at + 1, second].into_iter().for_each(|at| self.push(groups, queries, at))
                }
            }
        }
        None
    }
}
