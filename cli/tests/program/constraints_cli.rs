//! Constraints on hyper-parameters from the command line: later fits keep them, and `inspect` shows them.

use serde_json::Value;
use sparsegp_testkit::program::{QUICK, Work, assert_contains};

fn parameter(document: &Value, name: &str) -> f64 {
    document["hyperparameters"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} in {}", document["hyperparameters"]))
}

#[test]
fn inspect_and_the_document_show_the_constraints_and_a_later_fit_keeps_them() {
    let work = Work::new();
    let options = "--fix kernel.lengthscales.0=2 --bounds kernel.lengthscales.1=0.5,9 --bounds kernel.lengthscales.2=0.5,9 \
                   --prior kernel.variance=gamma(2,1.5) --tie kernel.lengthscales.1,kernel.lengthscales.2";
    work.run(&format!("fit data.csv --target y --quiet {QUICK} --model-out model {options}")).ok();
    let text = work.run("inspect model").ok().stdout();
    assert_contains(
        &text,
        &["fixed", "between 0.5 and 9", "prior gamma(2,1.5)", "tied to kernel.lengthscales.1", "(weak)"],
    );
    let notes = work.run("inspect model --json").json()["hyperparameter_notes"].clone();
    assert_eq!(notes["kernel.lengthscales.0"], "fixed");
    let again = work.fit("--from model --bounds kernel.variance=4,5 --default-priors off");
    assert_eq!(parameter(&again, "kernel.lengthscales.0"), 2.0);
    assert_eq!(parameter(&again, "kernel.lengthscales.1"), parameter(&again, "kernel.lengthscales.2"));
    assert!((4.0..=5.0).contains(&parameter(&again, "kernel.variance")));
    let later = &again["hyperparameter_notes"];
    assert_eq!(later["kernel.lengthscales.1"], "between 0.5 and 9");
    assert_eq!(later["kernel.variance"], "between 4 and 5, prior gamma(2,1.5)");
    assert!(!later.to_string().contains("(weak)"), "weak priors went");
}
