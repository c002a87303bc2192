//! The scores that a fit shows with the test scores (training rows, a constant, a linear model), and its suggestions.

use serde_json::Value;
use sparsegp_testkit::program::{QUICK, Work, csv_text, number};

/// Returns the metrics document of a fit to an embedded file. The book shows what such fits print.
fn fit((data, options): (&str, &str), more: &str) -> Value {
    let (work, path) = (Work::empty(), concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data"));
    let fit = format!("fit {path}/{data} --quiet {options} {more} --metrics m.json --report r.html");
    let text = work.text(&fit);
    let page = work.read("r.html");
    assert!(page.contains("<caption>Figures</caption>"), "{page}");
    assert_eq!(page.contains("Confusion matrix"), text.contains("confusion "));
    work.json("m.json")
}

const REGRESSION: (&str, &str) = ("co2_monthly.csv", "--target co2 --test-fraction 0.2");
const CLASSES: (&str, &str) = ("breast_cancer.csv", "--target diagnosis --test-fraction 0.2");
const COUNTS: (&str, &str) =
    ("doctor_visits.csv", "--target visits --test-fraction 0.2 --likelihood negative-binomial");

#[test]
fn documents_have_the_scores_of_training_rows_and_baselines() {
    for (data, train, likelihood) in [
        (REGRESSION, 417, "gaussian"),
        (CLASSES, 455, "bernoulli-probit"),
        (COUNTS, 4000, "negative-binomial"),
    ] {
        let document = fit(data, QUICK);
        assert_eq!(number(&document, "/train/rows"), f64::from(train.min(4096)), "{data:?}");
        assert_eq!(number(&document, "/baselines/constant/training_rows"), f64::from(train));
        assert_eq!(number(&document, "/baselines/linear/training_rows"), f64::from(train));
        assert_eq!(document["baselines"]["linear"]["likelihood"], likelihood);
        // Predictors that use the inputs have better scores than predictors that do not.
        let nll = |of: &str| number(&document, &format!("{of}/nll"));
        assert!(nll("/baselines/linear") < nll("/baselines/constant"), "{data:?}");
        let gain = nll("/baselines/constant") - nll("/test");
        assert!((number(&document, "/baselines/constant/nll_gain") - gain).abs() < 1e-9);
        assert!(document["next"].is_array());
    }
}

#[test]
fn the_linear_baseline_is_the_linear_fit() {
    for (data, how) in [(REGRESSION, ""), (CLASSES, "--hyper alternating --epochs 10")] {
        let beside = fit(data, QUICK);
        let alone = fit(data, &format!("--model glm {how}"));
        assert!(alone["baselines"]["linear"].is_null() && alone["baselines"]["constant"].is_object());
        for figure in ["nll", "crps"] {
            let found = number(&beside, &format!("/baselines/linear/{figure}"));
            let expected = number(&alone, &format!("/test/{figure}"));
            assert!((found - expected).abs() < 1e-6, "{data:?}: {figure} {found}, alone {expected}");
        }
    }
}

#[test]
fn baselines_do_not_change_the_fit_and_a_test_file_gets_them_too() {
    let work = Work::new();
    let [mut bare, mut held] = ["", "--test data.csv"].map(|options| work.fit(options));
    // The same rows are training and test rows.
    let [train, test] = ["/train/nll", "/test/nll"].map(|figure| number(&held, figure));
    assert!((train - test).abs() < 1e-9, "{train} {test}");
    for document in [&mut bare, &mut held] {
        document["config"]["test"] = Value::Null;
    }
    for place in ["/hyperparameters", "/config", "/fit/objective"] {
        assert_eq!(bare.pointer(place), held.pointer(place));
    }
    for key in ["train", "baselines"] {
        assert!(bare[key].is_null() && held[key].is_object(), "{key}");
    }
    let disk = work.fit("--test-fraction 0.2 --shuffle-buffer 50");
    assert!(disk["train"].is_null() && disk["baselines"].is_null() && disk["test"].is_object());
}

#[test]
fn following_the_suggestions_improves_the_scores_of_held_out_rows() {
    let u = |i: usize, k: usize| {
        ((i as f64 * [0.7548776662, 0.5698402909, 0.8191725134, 0.3247179572][k]) % 1.0) - 0.5
    };
    let wide = |i: usize| {
        let far = if i.is_multiple_of(97) { 40.0 * u(i, 3) } else { 0.0 };
        format!("{},{}", u(i, 0), (4.0 * u(i, 0)).sin() + 0.1 * u(i, 1) + far)
    };
    // More columns than rows can distinguish; the target is a sum of columns.
    let lines = |i: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| u(i, k));
        format!("{a},{b},{c},{d},{}", a + b + c + d + 0.3 * u(7 * i + 3, 2))
    };
    let useless =
        |i: usize| format!("{},{},{}", u(i, 0), u(3 * i + 1, 1), (6.0 * u(i, 0)).sin() + 0.05 * u(i, 2));
    let fixed = "--features b --kernel rbf(lengthscales=0.01) --hyper fixed";
    let [wide, lines, useless] = [
        csv_text("a,y", 0..600, wide),
        csv_text("a,b,c,d,y", 0..60, lines),
        csv_text("a,b,y", 0..500, useless),
    ];
    // A fit whose summary has these words in a suggestion, and the options that follow the suggestion.
    for (data, options, words, advice) in [
        (wide, "", "too wide", "--likelihood student-t"),
        (lines, "--kernel matern12 --epochs 1", "a linear model", "--model glm"),
        (useless, fixed, "the mean alone", "--features a"),
    ] {
        let work = Work::with("data.csv", data);
        let [before, followed] = [options, advice].map(|options| {
            work.run(&format!("fit data.csv --target y --test-fraction 0.4 --quiet --json {options}")).json()
        });
        assert!(before["next"].to_string().contains(words), "{options}: {}", before["next"]);
        let [nll, followed] = [before, followed].map(|document| number(&document, "/test/nll"));
        assert!(followed < nll - 0.01, "{advice}: {followed}, before {nll}");
    }
}
