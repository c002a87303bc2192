//! Fits with default options never fail for numerical reasons: seeded tables of ugly columns.

use super::common::*;
use super::fuzzing::fit;
use rand::RngExt;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of tables in an ordinary test run.
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

/// Runs inputs for `SPARSEGP_FUZZ_SECONDS`, starting with number `SPARSEGP_FUZZ_FROM`. Failing inputs are written to the build's folder of
/// temporary files; move them to `tests/corpus/fit/` once they are fixed.
#[test]
#[ignore = "runs for SPARSEGP_FUZZ_SECONDS"]
fn fuzz() {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let limit = Duration::from_secs(variable("SPARSEGP_FUZZ_SECONDS").unwrap_or(60));
    let first = variable("SPARSEGP_FUZZ_FROM").unwrap_or(FEW);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (started, mut failed) = (Instant::now(), Vec::new());
    for number in (first..).take_while(|_| started.elapsed() < limit) {
        let bytes = input(number);
        if catch_unwind(|| fit::run(&bytes)).is_err() {
            println!("input {number} failed");
            std::fs::write(folder.join(format!("fit-{number}")), bytes).expect("a file");
            failed.push(number);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
