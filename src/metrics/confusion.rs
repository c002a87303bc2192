//! The confusion matrix of classes or levels, with precision and recall of single classes.

use serde::{Deserialize, Serialize};

/// The maximum number of classes of a table.
const MOST: usize = 100;

/// The numbers of rows by true class (one row of the table for each) and by most probable class
/// (columns), both in the order of the target's levels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Confusion {
    counts: Vec<Vec<u64>>,
    #[serde(skip)]
    unusable: bool,
}

impl Confusion {
    /// Adds a row; both classes are whole numbers from 0.
    pub(super) fn push(&mut self, target: f64, most_probable: f64) {
        let class =
            |code: f64| (code >= 0.0 && code < MOST as f64 && code.fract() == 0.0).then_some(code as usize);
        let (Some(target), Some(taken)) = (class(target), class(most_probable)) else {
            self.unusable = true;
            return;
        };
        let most = target.max(taken).max(1);
        if most >= self.counts.len() {
            self.counts.resize(most + 1, Vec::new());
            self.counts.iter_mut().for_each(|row| row.resize(most + 1, 0));
        }
        self.counts[target][taken] += 1;
    }

    /// Returns the table, if every row could be added.
    pub(super) fn known(&self) -> Option<Confusion> {
        (!self.unusable && !self.counts.is_empty()).then(|| self.clone())
    }

    /// The number of classes up to the last one that occurred.
    pub fn classes(&self) -> usize {
        self.counts.len()
    }

    /// The number of rows of a class that were predicted as the class `taken`; 0 for classes that did not occur.
    pub fn count(&self, class: usize, taken: usize) -> u64 {
        self.counts.get(class).and_then(|row| row.get(taken)).copied().unwrap_or(0)
    }

    /// Returns the share of the rows predicted as a class that belong to that class; `None` without
    /// such rows.
    #[doc(hidden)]
    pub fn precision(&self, class: usize) -> Option<f64> {
        self.share(class, (0..self.classes()).map(|other| self.count(other, class)).sum())
    }

    /// The share of the rows of a class that were predicted as that class; `None` without such
    /// rows.
    #[doc(hidden)]
    pub fn recall(&self, class: usize) -> Option<f64> {
        self.share(class, (0..self.classes()).map(|other| self.count(class, other)).sum())
    }

    fn share(&self, class: usize, of: u64) -> Option<f64> {
        (of > 0).then(|| self.count(class, class) as f64 / of as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_classes_are_those_of_rows_and_columns() {
        let mut confusion = Confusion::default();
        for (target, taken) in [(0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (2.0, 2.0), (1.0, 0.0)] {
            confusion.push(target, taken);
        }
        let known = confusion.known().expect("a table");
        assert_eq!((known.classes(), known.count(2, 2), known.count(0, 2), known.count(9, 9)), (3, 2, 1, 0));
        assert_eq!(known.precision(0), Some(0.5));
        assert_eq!(known.recall(2), Some(1.0));
        assert_eq!((known.precision(1), known.recall(1)), (None, Some(0.0)));
        confusion.push(0.0, f64::NAN);
        assert_eq!(confusion.known(), None);
    }
}
