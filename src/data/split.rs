//! Which rows train, validate and test, and the mini-batches of an epoch; row indices only, no values.

use rand::seq::SliceRandom;

use super::random::{Purpose, generator};
use crate::error::{Error, Result};

/// Disjoint row indices that together are all rows.
///
/// Each list is sorted, so that rows keep the order of the file and are read from memory in sequence; mini-batches are
/// shuffled anyway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to choose among fits by; empty for a fraction of 0.
    pub validation: Vec<usize>,
    /// Rows to report on; empty for a fraction of 0.
    pub test: Vec<usize>,
}

/// Splits `n` rows at random by seed; the same on every platform. The fractions are of `n`, rounded to the nearest row but
/// never to none. The test rows do not depend on the validation fraction.
///
/// # Errors
///
/// When a fraction is not in [0, 1), or fewer than 2 rows would be left to train on.
pub fn split(n: usize, test_fraction: f64, validation_fraction: f64, seed: u64) -> Result<Split> {
    let test = held_out(n, "test", test_fraction)?;
    let validation = held_out(n, "validation", validation_fraction)?;
    if test + validation + 2 > n {
        return Err(Error::data(format!(
            "of {n} rows, {test} for testing and {validation} for validation leave fewer than 2 to train on"
        ))
        .hint("make the test or validation fraction smaller"));
    }
    let mut test_rows: Vec<usize> = (0..n).collect();
    test_rows.shuffle(&mut generator(seed, Purpose::Split, 0));
    let mut validation_rows = test_rows.split_off(test);
    let mut train = validation_rows.split_off(validation);
    for rows in [&mut train, &mut validation_rows, &mut test_rows] {
        rows.sort_unstable();
    }
    Ok(Split { train, validation: validation_rows, test: test_rows })
}

/// How many of `n` rows a fraction holds out.
fn held_out(n: usize, what: &str, fraction: f64) -> Result<usize> {
    if !(0.0..1.0).contains(&fraction) {
        return Err(Error::usage(format!(
            "the {what} fraction is {fraction}, expected 0 or more and below 1"
        )));
    }
    if fraction == 0.0 {
        return Ok(0);
    }
    Ok(((n as f64 * fraction).round() as usize).max(1))
}

/// Shuffled mini-batches.
///
/// Each epoch uses every row exactly once. When the batch size does not divide the number of rows, there are as many
/// batches as it takes and their sizes differ by at most one, so none is so small that its gradient is mostly noise.
#[derive(Clone, Debug)]
pub struct Batches {
    order: Vec<usize>,
    batch: usize,
    seed: u64,
}

impl Batches {
    /// Batches of at most `batch` (at least 1; 0 counts as 1) of the rows `0..n`.
    pub fn new(n: usize, batch: usize, seed: u64) -> Batches {
        Batches { order: (0..n).collect(), batch: batch.max(1), seed }
    }

    /// The number of batches in an epoch.
    pub fn per_epoch(&self) -> usize {
        self.order.len().div_ceil(self.batch)
    }

    /// The size of the largest batch.
    pub fn largest(&self) -> usize {
        self.order.len().div_ceil(self.per_epoch().max(1))
    }

    /// The batches of one epoch, which depend on the seed and the epoch alone, not on the epochs before. Nothing is
    /// allocated; `nth(k)` resumes after k batches.
    pub fn epoch(&mut self, epoch: u64) -> Epoch<'_> {
        let batches = self.per_epoch();
        for (index, row) in self.order.iter_mut().enumerate() {
            *row = index;
        }
        self.order.shuffle(&mut generator(self.seed, Purpose::Batches, epoch));
        Epoch { rest: &self.order, batches }
    }
}

/// The batches of one epoch, each a slice of row indices.
#[derive(Clone, Debug)]
pub struct Epoch<'a> {
    rest: &'a [usize],
    batches: usize,
}

impl<'a> Iterator for Epoch<'a> {
    type Item = &'a [usize];

    fn next(&mut self) -> Option<&'a [usize]> {
        if self.batches == 0 {
            return None;
        }
        let (batch, rest) = self.rest.split_at(self.rest.len().div_ceil(self.batches));
        self.rest = rest;
        self.batches -= 1;
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.batches, Some(self.batches))
    }
}

impl ExactSizeIterator for Epoch<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fractions_are_checked() {
        assert_eq!(split(10, -0.1, 0.0, 0).map_err(|e| e.exit_code()), Err(2));
        assert_eq!(split(10, 0.0, f64::NAN, 0).map_err(|e| e.exit_code()), Err(2));
        assert_eq!(split(10, 1.0, 0.0, 0).map_err(|e| e.exit_code()), Err(2));
        let error = split(10, 0.5, 0.4, 0).expect_err("one row left");
        assert_eq!(
            error.to_string(),
            "of 10 rows, 5 for testing and 4 for validation leave fewer than 2 to train on"
        );
        assert_eq!(split(0, 0.0, 0.0, 0).map_err(|e| e.exit_code()), Err(3));
    }

    #[test]
    fn a_seed_gives_these_rows_on_every_platform() {
        let rows = split(20, 0.2, 0.1, 7).expect("a split");
        assert_eq!(rows.test, [3, 7, 9, 11]);
        let mut batches = Batches::new(7, 3, 7);
        let epoch: Vec<_> = batches.epoch(2).map(<[usize]>::to_vec).collect();
        assert_eq!(epoch, [vec![1, 0, 2], vec![5, 3], vec![6, 4]]);
    }

    proptest! {
        #[test]
        fn a_split_is_a_partition(n in 10usize..300, test in 0.0..0.45, validation in 0.0..0.3, seed: u64) {
            let rows = split(n, test, validation, seed).expect("a split");
            let mut all = [&rows.train[..], &rows.validation, &rows.test].concat();
            for part in [&rows.train, &rows.validation, &rows.test] {
                prop_assert!(part.is_sorted());
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..n).collect::<Vec<_>>());
            prop_assert!((rows.test.len() as f64 - n as f64 * test).abs() <= 1.0);
            prop_assert_eq!(&split(n, test, 0.0, seed).expect("a split").test, &rows.test);
        }

        #[test]
        fn an_epoch_uses_every_row_once_in_batches_of_nearly_one_size(
            n in 0usize..400, batch in 1usize..70, seed: u64, epoch in 0u64..5
        ) {
            let mut batches = Batches::new(n, batch, seed);
            let largest = batches.largest();
            let parts: Vec<Vec<usize>> = batches.epoch(epoch).map(<[usize]>::to_vec).collect();
            prop_assert_eq!(parts.len(), n.div_ceil(batch));
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            if let (Some(&most), Some(&least)) = (sizes.iter().max(), sizes.iter().min()) {
                prop_assert!(most <= batch && most - least <= 1);
                prop_assert_eq!(most, largest);
            }
            let mut all = parts.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..n).collect::<Vec<_>>());
            // The same epoch again, after another one and resumed in the middle.
            batches.epoch(epoch + 1);
            let again: Vec<Vec<usize>> = batches.epoch(epoch).skip(1).map(<[usize]>::to_vec).collect();
            prop_assert_eq!(&again[..], parts.get(1..).unwrap_or_default());
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let first = |seed, epoch| Batches::new(50, 50, seed).epoch(epoch).next().map(<[usize]>::to_vec);
        assert_ne!(first(0, 0), first(0, 1));
        assert_ne!(first(0, 0), first(1, 0));
    }
}
