//! Which rows of a file that is too long to be listed train, validate and test: by a hash of their place; no values.

use rand::RngExt;

use super::random::{Purpose, generator};
use crate::error::{Error, Result};

/// What a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To train on.
    Train,
    /// To choose when to stop by.
    Validation,
    /// To report on.
    Test,
}

/// The role of every row, each decided by itself: by where a hash of the seed and the row falls within [0, 1).
///
/// The shares are met on average, not exactly. The test rows do not depend on the share for validation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roles {
    key: u64,
    test: f64,
    held_out: f64,
}

impl Roles {
    /// Roles by the shares of the rows to test and to validate on.
    ///
    /// # Errors
    ///
    /// A usage error when a share is not in [0, 1), or they leave nothing to train on.
    pub fn new(test: f64, validation: f64, seed: u64) -> Result<Roles> {
        for (what, share) in [("test", test), ("validation", validation)] {
            if !(0.0..1.0).contains(&share) {
                return Err(Error::usage(format!(
                    "the {what} fraction is {share}, expected 0 or more and below 1"
                )));
            }
        }
        if test + validation >= 1.0 {
            return Err(Error::usage(format!(
                "the fractions {test} for testing and {validation} for validation leave no rows to train on"
            )));
        }
        Ok(Roles { key: generator(seed, Purpose::Split, 1).random(), test, held_out: test + validation })
    }

    /// The role of a row, counted from 0.
    pub fn of(&self, row: usize) -> Role {
        // The top 53 bits are a uniform number in [0, 1).
        let place = (mix(mix(self.key).wrapping_add(row as u64)) >> 11) as f64 / (1u64 << 53) as f64;
        if place < self.test {
            Role::Test
        } else if place < self.held_out {
            Role::Validation
        } else {
            Role::Train
        }
    }
}

/// The next number of SplitMix64 (Steele, Lea & Flood 2014) from this state.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(roles: Roles, role: Role) -> Vec<usize> {
        (0..20_000).filter(|&row| roles.of(row) == role).collect()
    }

    #[test]
    fn shares_are_met_on_average_and_test_rows_stay_what_they_are() {
        let both = Roles::new(0.1, 0.2, 3).expect("shares");
        let counts = [Role::Test, Role::Validation, Role::Train].map(|role| rows(both, role).len() as f64);
        for (count, share) in counts.into_iter().zip([0.1, 0.2, 0.7]) {
            let deviation = f64::sqrt(20_000.0 * share * (1.0 - share));
            assert!((count - 20_000.0 * share).abs() < 4.0 * deviation, "{counts:?}");
        }
        let test = rows(both, Role::Test);
        assert_eq!(test, rows(Roles::new(0.1, 0.0, 3).expect("shares"), Role::Test));
        assert_ne!(test, rows(Roles::new(0.1, 0.0, 4).expect("shares"), Role::Test));
        assert_eq!(rows(Roles::new(0.0, 0.0, 3).expect("shares"), Role::Train).len(), 20_000);
        // Neighbours do not follow each other: two in a row are as frequent as by chance.
        let pairs = test.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as f64;
        assert!((pairs - 200.0).abs() < 4.0 * 200f64.sqrt(), "{pairs}");
    }

    #[test]
    fn shares_that_leave_nothing_are_refused() {
        for (test, validation) in [(-0.1, 0.0), (0.0, 1.0), (0.5, 0.5), (f64::NAN, 0.0)] {
            assert_eq!(Roles::new(test, validation, 0).map_err(|error| error.exit_code()), Err(2));
        }
    }
}
