//! Fits with default options never fail for numerical reasons: seeded tables of ugly columns.

use super::fuzzing::fit;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
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
    let (started, mut counts) = (Instant::now(), [0; 3]);
    let mut slowest = (Duration::ZERO, first);
    for number in first.. {
        if started.elapsed() > limit {
            break;
        }
        let (began, bytes) = (Instant::now(), input(number));
        let outcome = catch_unwind(|| fit::run(&bytes));
        slowest = slowest.max((began.elapsed(), number));
        counts[outcome.as_ref().map_or(2, |fitted| usize::from(!fitted))] += 1;
        if outcome.is_err() {
            println!("input {number} failed");
            std::fs::write(folder.join(format!("fit-{number}")), bytes).expect("a file");
        }
        if counts.iter().sum::<usize>() % 50 == 0 {
            println!("{counts:?} at {:.0} s, slowest {slowest:?}", started.elapsed().as_secs_f64());
        }
    }
    let [fitted, refused, failed] = counts;
    println!(
        "{fitted} tables fitted, {refused} refused for their data, {failed} failed; slowest {slowest:?}"
    );
    assert_eq!(failed, 0);
}
