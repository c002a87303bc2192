//! Which classes are taken for which: counts of rows by true and by predicted class; no probabilities.

/// The most classes of a matrix that somebody would read.
const MOST: usize = 100;

/// Numbers of rows by true class and by predicted class.
#[derive(Clone, Debug, Default)]
pub(super) struct Confusion {
    counts: Vec<Vec<u64>>,
    unusable: bool,
}

impl Confusion {
    /// No rows yet, of classes coded 0, 1, …, `classes − 1`; more are added as rows show them.
    pub(super) fn of(classes: usize) -> Confusion {
        let mut confusion = Confusion::default();
        confusion.grow(classes);
        confusion
    }

    fn grow(&mut self, classes: usize) {
        self.unusable |= classes > MOST;
        if !self.unusable && classes > self.counts.len() {
            self.counts.resize(classes, Vec::new());
            self.counts.iter_mut().for_each(|row| row.resize(classes, 0));
        }
    }

    /// Adds a row; codes that are none leave no matrix.
    pub(super) fn push(&mut self, target: f64, predicted: f64) {
        let is_code = |value: f64| value >= 0.0 && value.fract() == 0.0;
        self.unusable |= !is_code(target) || !is_code(predicted);
        self.grow((target.max(predicted) as usize).saturating_add(1));
        if !self.unusable {
            self.counts[target as usize][predicted as usize] += 1;
        }
    }

    /// The counts, a row per true class.
    pub(super) fn counts(&self) -> Option<Vec<Vec<u64>>> {
        (!self.unusable).then(|| self.counts.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_true_and_predicted_class() {
        let mut confusion = Confusion::of(2);
        for (target, predicted) in [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (1.0, 1.0), (3.0, 0.0)] {
            confusion.push(target, predicted);
        }
        let expected = vec![vec![1, 0, 0, 0], vec![1, 2, 0, 0], vec![0; 4], vec![1, 0, 0, 0]];
        assert_eq!(confusion.counts(), Some(expected));
        for odd in [f64::NAN, -1.0, 0.5, 1e300] {
            let mut unusable = confusion.clone();
            unusable.push(odd, 0.0);
            assert_eq!(unusable.counts(), None, "{odd}");
        }
        assert_eq!(Confusion::of(MOST + 1).counts(), None);
    }
}
