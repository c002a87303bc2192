//! The trial points of a line search: each is evaluated once, and an interrupted search finds them
//! again.

use crate::checkpoint::MOST;
use serde::{Deserialize, Serialize};

/// A point with its value and gradient.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Point {
    pub theta: Vec<f64>,
    pub value: f64,
    pub gradient: Vec<f64>,
}

impl Point {
    /// Returns true if it has `n` numbers.
    pub(crate) fn suits(&self, n: usize) -> bool {
        self.theta.len() == n && self.gradient.len() == n
    }
}

/// The latest evaluated points.
///
/// The two latest points are always stored: a line search requests the value and the gradient of a
/// point separately, and the next search starts at its end. All points of the current search are
/// stored too. A search is determined by the values it receives, so an interrupted one is repeated
/// from its beginning with these values, without evaluations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Trials {
    points: Vec<Point>,
    /// The number of points from before the current search.
    earlier: usize,
    /// The number of points that the search has reached.
    #[serde(skip)]
    met: usize,
}

impl Trials {
    /// The number of latest points that are always stored.
    const LATEST: usize = 2;

    /// Begins a search, or repeats it.
    pub(crate) fn begin_search(&mut self) {
        self.met = self.earlier;
    }

    /// Ends the search, and keeps the latest of its points.
    pub(crate) fn end_search(&mut self) {
        self.points.truncate(self.met);
        self.points.drain(..self.met.saturating_sub(Self::LATEST));
        (self.earlier, self.met) = (self.points.len(), self.points.len());
    }

    /// Returns the index of `theta`, if it is one of the latest points, or the next point that the search met before it was interrupted.
    pub fn find(&mut self, theta: &[f64]) -> Option<usize> {
        let from = self.met.saturating_sub(Self::LATEST);
        if let Some(latest) = (from..self.met).rev().find(|&i| self.points[i].theta == theta) {
            return Some(latest);
        }
        let is_next = self.points.get(self.met).is_some_and(|next| next.theta == theta);
        self.met += usize::from(is_next);
        is_next.then_some(self.met.wrapping_sub(1))
    }

    /// Adds an evaluated point, and returns its index.
    pub fn push(&mut self, point: Point) -> usize {
        self.points.truncate(self.met);
        self.points.push(point);
        self.met = self.points.len();
        self.met - 1
    }

    /// Returns the point found or added last.
    pub fn get(&self, index: usize) -> &Point {
        &self.points[index]
    }

    /// Returns true if all points have `n` numbers and the counts are consistent.
    pub(crate) fn suits(&self, n: usize) -> bool {
        self.earlier <= self.points.len().min(Self::LATEST)
            && self.points.len() <= MOST
            && self.points.iter().all(|point| point.suits(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64) -> Point {
        Point { theta: vec![x], value: x, gradient: vec![x] }
    }

    fn push(trials: &mut Trials, points: &[f64]) {
        for &x in points {
            trials.push(point(x));
        }
    }

    fn find(trials: &mut Trials, x: f64) -> Option<f64> {
        trials.find(&[x]).map(|i| trials.get(i).value)
    }

    #[test]
    fn the_two_latest_points_are_known() {
        let mut trials = Trials::default();
        push(&mut trials, &[1.0, 2.0, 3.0]);
        assert_eq!([1.0, 2.0, 3.0].map(|x| find(&mut trials, x)), [None, Some(2.0), Some(3.0)]);
        trials.end_search();
        assert_eq!([1.0, 2.0, 3.0].map(|x| find(&mut trials, x)), [None, Some(2.0), Some(3.0)]);
        assert!(trials.suits(1) && !trials.suits(2));
    }

    #[test]
    fn a_search_that_begins_again_meets_its_points_again_in_order() {
        let mut trials = Trials::default();
        push(&mut trials, &[0.0]);
        trials.end_search();
        push(&mut trials, &[1.0, 2.0, 3.0, 4.0]);
        let bytes = postcard::to_allocvec(&trials).expect("bytes");
        let mut again: Trials = postcard::from_bytes(&bytes).expect("trials");
        again.begin_search();
        assert_eq!([0.0, 2.0, 1.0].map(|x| find(&mut again, x)), [Some(0.0), None, Some(1.0)]);
        // A repeated search finds only the next stored point; a new point ends the stored ones.
        assert_eq!([2.0, 1.0, 4.0].map(|x| find(&mut again, x)), [Some(2.0), Some(1.0), None]);
        push(&mut again, &[5.0]);
        assert_eq!([3.0, 2.0, 5.0].map(|x| find(&mut again, x)), [None, Some(2.0), Some(5.0)]);
        again.end_search();
        assert_eq!(again.points.len(), 2);
    }
}
