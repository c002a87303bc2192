//! `fit --cv`: the parts and their scores.

use serde_json::Value;
use sparsegp_testkit::program::{Run, Work, csv_text, number};

const ROWS: usize = 90;

/// Rows `from..to` of a smooth function of x with a time and a group.
fn table(rows: std::ops::Range<usize>) -> String {
    csv_text("x,t,g,y", rows, |row| {
        let x = (row as f64 * 0.618).fract() * 6.0;
        let noise = 0.1 * (2.0 * (row as f64 * 0.731).fract() - 1.0);
        format!("{x},{row},g{},{}", row % 6, x.sin() + noise)
    })
}

/// Every part would take a fit after the limit; two are enough for a score.
#[test]
fn a_time_limit_is_that_of_all_parts_together() {
    let work = Work::with("data.csv", &table(0..ROWS));
    let run = work.run("fit data.csv --target y --features x --cv 5 --max-seconds 0.001 --json").ok();
    let said = run.stderr();
    assert!(said.contains("--max-seconds ended the cross-validation after 2 of 5 parts"), "{said}");
    let document = run.json();
    assert_eq!(document["cross_validation"]["folds"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["fit"]["stop_reason"], "max_seconds");
}

#[test]
fn parts_in_time_are_predicted_from_the_rows_before_them() {
    let work = Work::with("data.csv", &table(0..ROWS));
    work.write("early.csv", &table(0..60));
    work.write("late.csv", &table(60..ROWS));
    let options = "--target y --features x --auto none --inducing 20 --quiet --json";
    let crossed = work.run(&format!("fit data.csv {options} --split-time t --cv 2")).json();
    let split = work.run(&format!("fit early.csv {options} --test late.csv")).json();
    assert_eq!(crossed["cross_validation"]["folds"].as_array().map(Vec::len), Some(2));
    // The second part is the last third of the rows, predicted from the first two.
    for key in ["nll", "rmse", "crps"] {
        for (fold, test) in [("", "test/"), ("baselines/constant/", "baselines/constant/")] {
            let of_fold = number(&crossed, &format!("/cross_validation/folds/1/{fold}{key}"));
            assert_eq!(of_fold, number(&split, &format!("/{test}{key}")), "{fold}{key}");
        }
    }
    // The saved model is fitted to all rows.
    assert_eq!(number(&crossed, "/data/train"), ROWS as f64);
}

#[test]
fn every_row_is_scored_once_and_the_summary_shows_means_with_errors() {
    let work = Work::with("data.csv", &table(0..ROWS));
    let options = "--target y --features x --auto none --inducing 20 --quiet";
    for how in ["", "--split-by g"] {
        let document = work.run(&format!("fit data.csv {options} {how} --cv 3 --json")).json();
        let folds = document["cross_validation"]["folds"].as_array().expect("folds");
        let rows: f64 = folds.iter().map(|fold| number(fold, "/rows")).sum();
        assert_eq!(rows, ROWS as f64, "{how}");
        assert!(folds.iter().all(|fold| number(fold, "/rmse") < 0.2 && number(fold, "/rows") == 30.0));
    }
    let text = work.run(&format!("fit data.csv {options} --cv 3")).ok().stdout();
    let line = text.lines().find(|line| line.starts_with("3 fits")).expect("a row of the fits");
    assert_eq!(line.matches('±').count(), 3, "{line}");
    assert!(text.contains("the mean") && text.contains("linear model"), "{text}");
}

#[test]
fn several_targets_are_scored_one_by_one_on_the_same_parts() {
    let work = Work::with("data.csv", &table(0..ROWS));
    let shared = "--features x,g --auto none --inducing 20 --quiet --cv 3 --json";
    let alone = work.run(&format!("fit data.csv --target y {shared}")).json();
    for sharing in ["own", "shared", "mixed:1"] {
        let both = work.run(&format!("fit data.csv --target y,t --outputs {sharing} {shared}")).json();
        for target in ["y", "t"] {
            let folds = both["outputs"][target]["cross_validation"]["folds"].as_array().expect("folds");
            let rows: f64 = folds.iter().map(|fold| number(fold, "/rows")).sum();
            assert_eq!((folds.len(), rows), (3, ROWS as f64), "{sharing} {target}");
        }
        let of = |document: &Value| number(document, "/cross_validation/folds/0/rmse");
        let (own, alone) = (of(&both["outputs"]["y"]), of(&alone));
        assert!(
            own < 0.3 && (sharing != "own" || (own - alone).abs() < 0.05),
            "{sharing}: {own} and {alone}"
        );
    }
}

#[test]
fn fits_with_other_options_are_scored_on_the_same_parts() {
    let work = Work::with("data.csv", &table(0..ROWS));
    let options = "--target y --features x --auto none --inducing 20 --cv 3 --quiet";
    let alone = |options: &str| work.run(&format!("fit data.csv {options} --json")).json();
    let against = |more: &str, others: [&str; 2]| {
        let mut command = work.command(&format!("fit data.csv {options} {more}"));
        command.args(others.iter().flat_map(|other| ["--against", other]));
        Run(command.output().expect("the program runs"))
    };
    let nll = |of: &str, fold: usize| format!("/cross_validation/{of}folds/{fold}/nll");
    // A list replaces the list of the fit, and does not add to it.
    let other = alone(&options.replace("--features x", "--features t"));
    let document = against("--json", ["--features t", "--features=t"]).json();
    for contender in ["against/0/", "against/1/"] {
        assert_eq!(number(&document, &nll(contender, 1)), number(&other, &nll("", 1)));
    }
    let linear = alone(&format!("{options} --kernel linear"));
    let two = ["--kernel linear", "--likelihood 'student-t'"];
    let document = against("--json", two).json();
    for fold in 0..3 {
        assert_eq!(
            number(&document, &nll("against/0/", fold)),
            number(&linear, &nll("", fold)),
            "part {fold}"
        );
    }
    assert_eq!(document["config"]["kernel"], "rbf", "the saved fit is that without --against");
    let text = against("", two).ok().stdout();
    let line = text.lines().find(|line| line.starts_with("--kernel linear")).expect("a row");
    assert_eq!(line.matches('±').count(), 3, "two scores and the difference: {text}");
    assert!(text.contains("NLL difference") && text.contains("--likelihood 'student-t'"), "{text}");
}
