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

fn work() -> Work {
    Work::with("data.csv", table(0..ROWS))
}

fn fit(work: &Work, options: &str) -> Value {
    work.run(&format!("fit {options} --auto none --inducing 20 --quiet --json")).json()
}

/// Returns the parts of a document, and asserts that each row is in one of three parts.
fn folds(document: &Value) -> &Vec<Value> {
    let folds = document["cross_validation"]["folds"].as_array().expect("folds");
    let rows: f64 = folds.iter().map(|fold| number(fold, "/rows")).sum();
    assert_eq!((folds.len(), rows), (3, ROWS as f64));
    folds
}

/// Every part would take a fit after the limit; two are enough for a score.
#[test]
fn a_time_limit_is_that_of_all_parts_together() {
    let fit = "fit data.csv --target y --features x --cv 5 --max-seconds 0.001 --json";
    let words = ["--max-seconds ended the cross-validation after 2 of 5 parts"];
    let document = work().tells(fit, &words).json();
    assert_eq!(document["cross_validation"]["folds"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["fit"]["stop_reason"], "max_seconds");
}

#[test]
fn parts_in_time_are_predicted_from_the_rows_before_them() {
    let work = work();
    work.write("early.csv", table(0..60));
    work.write("late.csv", table(60..ROWS));
    let crossed = fit(&work, "data.csv --target y --features x --split-time t --cv 2");
    let split = fit(&work, "early.csv --target y --features x --test late.csv");
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
fn every_row_is_scored_once_also_for_several_targets() {
    let work = work();
    for how in ["", "--split-by g"] {
        let document = fit(&work, &format!("data.csv --target y --features x --cv 3 {how}"));
        let of_fold = |fold: &Value| number(fold, "/rmse") < 0.2 && number(fold, "/rows") == 30.0;
        assert!(folds(&document).iter().all(of_fold), "{how}");
    }
    let rmse = |document: &Value| number(&folds(document)[0], "/rmse");
    let alone = rmse(&fit(&work, "data.csv --target y --features x,g --cv 3"));
    for sharing in ["own", "shared", "mixed:1"] {
        let both = fit(&work, &format!("data.csv --target y,t --features x,g --cv 3 --outputs {sharing}"));
        let [own, _] = ["y", "t"].map(|target| rmse(&both["outputs"][target]));
        assert!(own < 0.3 && (sharing != "own" || (own - alone).abs() < 0.05), "{sharing}: {own}, {alone}");
    }
}

#[test]
fn fits_with_other_options_are_scored_on_the_same_parts() {
    let work = work();
    let options = "data.csv --target y --features x --auto none --inducing 20 --cv 3 --quiet";
    let against = |more: &str, others: [&str; 2]| {
        let mut command = work.command(&format!("fit {options} {more}"));
        command.args(others.iter().flat_map(|other| ["--against", other]));
        Run(command.output().expect("the program runs"))
    };
    let nll = |document: &Value, of: &str, fold: usize| {
        number(document, &format!("/cross_validation/{of}folds/{fold}/nll"))
    };
    // A list replaces the list of the fit, and does not add to it.
    let other = fit(&work, "data.csv --target y --features t --cv 3");
    let document = against("--json", ["--features t", "--features=t"]).json();
    for contender in ["against/0/", "against/1/"] {
        assert_eq!(nll(&document, contender, 1), nll(&other, "", 1));
    }
    let linear = fit(&work, "data.csv --target y --features x --cv 3 --kernel linear");
    let two = ["--kernel linear", "--likelihood 'student-t'"];
    let document = against("--json", two).json();
    for fold in 0..3 {
        assert_eq!(nll(&document, "against/0/", fold), nll(&linear, "", fold), "part {fold}");
    }
    assert_eq!(document["config"]["kernel"], "rbf", "the saved fit is that without --against");
    let text = against("", two).ok().stdout();
    // Two scores and the difference.
    let line = text.lines().find(|line| line.starts_with("--kernel linear")).expect("a row");
    assert!(line.matches('±').count() == 3 && text.contains("--likelihood 'student-t'"), "{text}");
}
