//! The rows for training, validation and testing, in memory and in files alike.

use rand::seq::SliceRandom;

use super::batches::{Purpose, generator};
use crate::error::{Error, Result};

/// The role of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Training.
    Train,
    /// Validation, which decides when to stop.
    Validation,
    /// Testing.
    Test,
}

/// The role of every row of a table: a byte per row if rows are held out, otherwise nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    rows: Vec<Role>,
    scattered: Option<Scattered>,
}

/// Validation rows that are drawn one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scattered {
    seed: u64,
    /// A row is held out if its hash is below this.
    below: u64,
}

impl Scattered {
    /// The hash of the seed and the row: two rounds of SplitMix64 (Steele, Lea & Flood 2014).
    fn has(self, row: usize) -> bool {
        let mix = |x: u64| {
            let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^ (x >> 31)
        };
        mix(mix(self.seed) ^ row as u64) < self.below
    }
}

impl Roles {
    /// Draws these fractions of `n` rows at random by seed, with the same result on every platform. A fraction is rounded to a number of
    /// rows, at least one. The test rows do not depend on the validation fraction.
    ///
    /// Drawing takes 4 bytes of memory per row.
    ///
    /// # Errors
    ///
    /// When a fraction is not in [0, 1) or fewer than 2 rows would be left to train on, and when some of more than
    /// 4,294,967,295 rows are to be held out.
    pub fn new(n: usize, test_fraction: f64, validation_fraction: f64, seed: u64) -> Result<Roles> {
        check_fractions(test_fraction, validation_fraction)?;
        let (test, validation) = (held_out(n, test_fraction), held_out(n, validation_fraction));
        if test + validation + 2 > n {
            return Err(Error::data(format!(
                "of {n} rows, {test} for testing and {validation} for validation leave fewer than 2 to train on"
            ))
            .hint("make the test or validation fraction smaller"));
        }
        if test + validation == 0 {
            return Ok(Roles::default());
        }
        let end = u32::try_from(n).map_err(|_| {
            Error::data(format!(
                "{n} rows are too many to hold rows out at random, expected at most {}",
                u32::MAX
            ))
            .hint("put the test rows into a separate file")
        })?;
        let mut order: Vec<u32> = (0..end).collect();
        order.shuffle(&mut generator(seed, Purpose::Split, 0));
        let mut rows = vec![Role::Train; n];
        for (place, &row) in order[..test + validation].iter().enumerate() {
            rows[row as usize] = if place < test { Role::Test } else { Role::Validation };
        }
        Ok(Roles { rows, scattered: None })
    }

    /// Holds out each row independently for validation with this probability. Nothing is stored per
    /// row, so any number of rows is possible, and the roles of some rows do not depend on the
    /// other rows.
    ///
    /// # Errors
    ///
    /// If the fraction is not in [0, 1).
    pub fn scattered(validation_fraction: f64, seed: u64) -> Result<Roles> {
        check_fractions(0.0, validation_fraction)?;
        let below = (validation_fraction * 2f64.powi(64)) as u64;
        let scattered = (below > 0).then_some(Scattered { seed, below });
        Ok(Roles { scattered, ..Roles::default() })
    }

    /// Holds out whole groups at random. It goes through the groups in random order, and holds out
    /// a group if that brings the number of held-out rows nearer to the fraction; for a fraction
    /// above 0 the first free group is held out in any case. `groups` has the number of the group
    /// of every row, from 0.
    ///
    /// # Errors
    ///
    /// As for [`Roles::new`], and if no group would be left to train on.
    pub fn of_groups(groups: &[u32], test: f64, validation: f64, seed: u64) -> Result<Roles> {
        check_fractions(test, validation)?;
        let n = groups.len();
        let mut sizes = vec![0usize; groups.iter().max().map_or(0, |&last| last as usize + 1)];
        groups.iter().for_each(|&group| sizes[group as usize] += 1);
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.shuffle(&mut generator(seed, Purpose::Split, 0));
        let mut roles = vec![Role::Train; sizes.len()];
        let mut left = n;
        for (role, fraction) in [(Role::Test, test), (Role::Validation, validation)] {
            let (wanted, mut held) = (held_out(n, fraction), 0);
            for &group in &order {
                let with = held + sizes[group];
                let first = held == 0 && wanted > 0;
                if roles[group] == Role::Train && (first || with.abs_diff(wanted) < wanted.abs_diff(held)) {
                    (roles[group], held) = (role, with);
                }
            }
            left -= held;
        }
        if left < 2 {
            return Err(Error::data(format!(
                "there are {} groups with {n} rows; the groups held out leave {left} rows to train on, expected at least 2",
                sizes.len()
            )));
        }
        let rows = groups.iter().map(|&group| roles[group as usize]).collect();
        Ok(Roles { rows, scattered: None })
    }

    /// Holds out the latest rows for testing, and the latest of the others for validation; rows of the same time stay together.
    ///
    /// # Errors
    ///
    /// As for [`Roles::new`].
    pub fn of_times(times: &[f64], test: f64, validation: f64) -> Result<Roles> {
        check_fractions(test, validation)?;
        let n = times.len();
        let mut sorted = times.to_vec();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut cut = |count: usize| {
            let first =
                count.checked_sub(1).and_then(|last| sorted.get(last)).copied().unwrap_or(f64::INFINITY);
            sorted.retain(|&time| time < first);
            first
        };
        let (of_test, of_validation) = (cut(held_out(n, test)), cut(held_out(n, validation)));
        let left = sorted.len();
        if left < 2 {
            return Err(Error::data(format!(
                "there are {n} rows; holding out the latest times leaves {left} to train on, expected at least 2"
            ))
            .hint("make the test or validation fraction smaller"));
        }
        let role = |&time: &f64| match time {
            time if time >= of_test => Role::Test,
            time if time >= of_validation => Role::Validation,
            _ => Role::Train,
        };
        Ok(Roles { rows: times.iter().map(role).collect(), scattered: None })
    }

    /// Returns the roles of the listed rows (of `n`), in the order of the list.
    pub fn among(self, rows: &[u32], n: usize) -> Roles {
        if self.rows.is_empty() {
            return self;
        }
        let mut all = vec![Role::Train; n];
        rows.iter().enumerate().for_each(|(index, &row)| all[row as usize] = self.of(index));
        Roles { rows: all, scattered: None }
    }

    /// The role of a row, counted from 0.
    pub fn of(&self, row: usize) -> Role {
        match self.scattered {
            Some(scattered) if scattered.has(row) => Role::Validation,
            _ => self.rows.get(row).copied().unwrap_or(Role::Train),
        }
    }

    /// Lists the first `n` rows by their roles.
    pub fn split(&self, n: usize) -> Split {
        let rows = |role: Role| (0..n).filter(|&row| self.of(row) == role).collect();
        Split { train: rows(Role::Train), validation: rows(Role::Validation), test: rows(Role::Test) }
    }

    /// Returns the number of rows that have these roles; `None` if no row is held out, because such
    /// roles fit any number of rows.
    pub fn rows(&self) -> Option<usize> {
        (!self.rows.is_empty()).then_some(self.rows.len())
    }
}

/// Disjoint row indices that together are all rows.
///
/// Each list is sorted, so that rows keep the order of the file and are read from memory in sequence; mini-batches are
/// shuffled anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Rows to train on.
    pub train: Vec<usize>,
    /// Rows to choose among fits by; empty for a fraction of 0.
    pub validation: Vec<usize>,
    /// Rows to report on; empty for a fraction of 0.
    pub test: Vec<usize>,
}

/// Lists `n` rows by their [`Roles`].
///
/// # Errors
///
/// As for [`Roles::new`].
pub fn split(n: usize, test_fraction: f64, validation_fraction: f64, seed: u64) -> Result<Split> {
    Ok(Roles::new(n, test_fraction, validation_fraction, seed)?.split(n))
}

/// Refuses fractions that no table can be split by.
///
/// # Errors
///
/// A usage error when one is not in [0, 1), or when they leave nothing to train on.
pub fn check_fractions(test: f64, validation: f64) -> Result<()> {
    for (what, fraction) in [("test", test), ("validation", validation)] {
        if !(0.0..1.0).contains(&fraction) {
            return Err(Error::usage(format!(
                "the {what} fraction is {fraction}, expected 0 or more and below 1"
            )));
        }
    }
    if test + validation >= 1.0 {
        return Err(Error::usage(format!(
            "the fractions {test} for testing and {validation} for validation leave no rows to train on"
        )));
    }
    Ok(())
}

fn held_out(n: usize, fraction: f64) -> usize {
    if fraction == 0.0 { 0 } else { ((n as f64 * fraction).round() as usize).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_held_out_takes_no_memory_and_fits_any_table() {
        let roles = Roles::new(1 << 40, 0.0, 0.0, 0).expect("roles");
        assert!(roles.rows().is_none() && roles.of(7) == Role::Train);
        assert_eq!(Roles::new(1 << 40, 0.1, 0.0, 0).map_err(|e| e.exit_code()), Err(3));
        let roles = Roles::new(100, 0.1, 0.0, 0).expect("roles");
        assert!(roles.rows() == Some(100) && roles.of(100) == Role::Train);
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
