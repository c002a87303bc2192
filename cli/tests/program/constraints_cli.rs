//! Constraints on hyper-parameters from the command line: every option has an effect, and `inspect` shows the constraints.

use serde_json::Value;
use sparsegp_testkit::program::{QUICK, Work, assert_contains};

fn parameter(document: &Value, name: &str) -> f64 {
    document["hyperparameters"][name]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} in {}", document["hyperparameters"]))
}

#[test]
fn every_option_has_an_effect() {
    let work = Work::new();
    for objective in ["--objective vfe", "--objective elbo"] {
        let fit = |options: &str| work.fit(&format!("{objective} {options}"));
        let plain = fit("");
        let length = |document: &Value, d: usize| parameter(document, &format!("kernel.lengthscales.{d}"));
        let one = fit("--fix kernel.lengthscales.1=0.75");
        assert_eq!(length(&one, 1), 0.75);
        let start = fit("--fix kernel.lengthscales --fix *.variance");
        assert_ne!(length(&one, 0), length(&start, 0), "the others are trained");
        let later = fit("--fix kernel.lengthscales --fix *.variance --epochs 30");
        assert_eq!([0, 1, 2].map(|d| length(&start, d)), [0, 1, 2].map(|d| length(&later, d)));
        assert_ne!(
            parameter(&start, "likelihood.noise_variance"),
            parameter(&later, "likelihood.noise_variance")
        );
        assert!(parameter(&start, "kernel.variance") > 0.9 && parameter(&start, "kernel.variance") < 1.1);
        let started = |value: f64, more: &str| fit(&format!("--start kernel.lengthscales.1={value} {more}"));
        assert!((length(&started(3.0, "--hyper fixed"), 1) - 3.0).abs() < 1e-12);
        assert_ne!(length(&started(3.0, ""), 1), 3.0, "a starting value is trained");
        let bounded = fit("--bounds *.lengthscales=7,8 --bounds likelihood.noise_variance=,0.001");
        for d in 0..3 {
            assert!((7.0..=8.0).contains(&length(&bounded, d)));
        }
        assert!(parameter(&bounded, "likelihood.noise_variance") <= 0.001);
        let pulled = fit("--epochs 60 --prior kernel.lengthscales.0=lognormal(3,0.02)");
        assert!(length(&pulled, 0) > 1.5 * length(&plain, 0).min(5.0), "{}", length(&pulled, 0));
        let tied = fit("--tie kernel.lengthscales.0,kernel.lengthscales.2");
        assert_eq!(length(&tied, 0), length(&tied, 2));
        assert_ne!(length(&tied, 0), length(&tied, 1));
        let off = fit("--default-priors off");
        assert_ne!(length(&off, 2), length(&plain, 2));
        assert_eq!(plain["config"]["default_priors"], true);
        assert_eq!(off["config"]["default_priors"], false);
        assert_eq!(off["hyperparameter_notes"], serde_json::json!({}));
    }
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
