//! Which rows train, validate and test; row indices only, no values.

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
    }
}
