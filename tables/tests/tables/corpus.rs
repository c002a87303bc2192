//! Replays the fuzzing corpus: inputs named `good-…` are accepted, inputs named `bad-…` refused, and none panics. Fits with default options
//! never fail for numerical reasons: seeded tables of ugly columns.

use super::common::*;
use super::fuzzing;
use rand::RngExt;
use std::path::Path;

/// Runs every input of a target.
fn replay(target: &str, run: fn(&[u8]) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("a folder of the corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let (mut good, mut bad) = (0, 0);
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // Names the input if the next line panics.
        println!("{target}/{name}");
        let accepted = run(&std::fs::read(&path).expect("an input"));
        let expected = name.starts_with("good-");
        assert!(expected || name.starts_with("bad-"), "{name} says neither good nor bad");
        assert_eq!(accepted, expected, "{target}/{name}");
        *(if expected { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 2 && bad > 2, "{target} has {good} good and {bad} bad inputs");
}

#[test]
fn inputs_are_accepted_or_refused() {
    replay("table", fuzzing::table::run);
    replay("kernel", fuzzing::kernel::run);
    replay("model", fuzzing::model::run);
    replay("checkpoint", fuzzing::checkpoint::run);
}

#[test]
fn ugly_tables_are_fitted_or_refused_for_their_data() {
    let input = |number: u64| -> Vec<u8> {
        let mut random = ChaCha8Rng::seed_from_u64(number);
        let length = random.random_range(0..24usize);
        (0..length).map(|_| random.random()).collect()
    };
    let fitted = (0..12).filter(|&number| fuzzing::fit::run(&input(number))).count();
    assert!(fitted > 6, "{fitted} of 12 tables were fitted");
}
