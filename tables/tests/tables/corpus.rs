//! Replays the fuzzing corpus: inputs named `good-…` are accepted, inputs named `bad-…` refused, and none panics.

use super::fuzzing;
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
