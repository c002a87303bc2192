//! Fits with default options never fail for numerical reasons: seeded tables of ugly columns.

use super::common::*;
use super::fuzzing::fit;
use rand::RngExt;

/// The number of tables.
const FEW: u64 = 12;

/// The most bytes of an input.
const MOST_BYTES: usize = 24;

/// Returns an input of the seeded stream.
fn input(number: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let length = random.random_range(0..MOST_BYTES);
    (0..length).map(|_| random.random()).collect()
}

#[test]
fn ugly_tables_are_fitted_or_refused_for_their_data() {
    let fitted = (0..FEW).filter(|&number| fit::run(&input(number))).count();
    assert!(fitted > FEW as usize / 2, "{fitted} of {FEW} tables were fitted");
}
