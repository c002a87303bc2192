//! Replays the fuzzing corpus: inputs named `good-…` are accepted, inputs named `bad-…` refused, and none panics.

use super::common::*;
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
}

/// Without this test, a change of the format would leave a corpus that is refused only because of its
/// checksums.
#[test]
fn the_text_form_of_a_model_file_is_that_file() {
    let rows: String = (0..30).map(|k| format!("{},{},{}\n", k, k % 3, k % 7)).collect();
    let table = csv(format!("a,b,y\n{rows}"));
    for (model, likelihood) in [
        (ModelKind::Gp, LikelihoodKind::Gaussian),
        (ModelKind::Gp, LikelihoodKind::Ordinal),
        (ModelKind::Glm, LikelihoodKind::Poisson),
    ] {
        let options = FitOptions {
            model,
            likelihood: Some(likelihood),
            inducing: (model == ModelKind::Gp).then_some(4),
            epochs: Some(1),
            ..FitOptions::default()
        };
        let fitted = fit(&table, &target("y"), &options).expect("a fit");
        let text = fuzzing::model::unpack(&fitted.to_bytes().expect("a file"));
        assert!(fuzzing::model::run(text.as_bytes()), "{model} {likelihood}");
        let packed = fuzzing::model::pack(&text).expect("a container");
        let read = TableModel::from_bytes("packed", &packed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(predicted(&fitted, &table), predicted(&read, &table), "{model} {likelihood}");
        // A changed description gets a matching checksum, so it is read too.
        let other = text.replacen("\"training_rows\":30", "\"training_rows\":31", 1);
        let packed = fuzzing::model::pack(&other).expect("a container");
        let read = TableModel::from_bytes("packed", &packed).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.training_rows(), 31);
    }
}
