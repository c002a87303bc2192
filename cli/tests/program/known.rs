//! Known standard errors and censored targets from the command line.

use serde_json::Value;
use sparsegp_testkit::program::{Work, csv_text, number};

/// Returns three numbers between 0 and 1 that look random.
fn unit(row: usize) -> [f64; 3] {
    [0.618, 0.414, 0.731].map(|step| ((row + 1) as f64 * step).fract())
}

/// Returns a table with a measured number and its standard error, and a time of which some are censored at 4.
fn table() -> Work {
    let text = csv_text("a,b,value,error,months,event,cut", 0..400, |row| {
        let [a, b, noise] = unit(row);
        let error = if row % 4 == 0 { 4.0 } else { 0.1 };
        let value = 100.0 + 3.0 * (4.0 * a).sin() + 2.0 * error * (noise - 0.5);
        let time = (0.5 + 1.5 * a + 0.4 * (-(1.0 - noise).ln()).ln()).exp();
        let cut = if time > 4.0 { "right" } else { "none" };
        format!("{a},{b},{value:.5},{error},{:.5},{},{cut}", time.min(4.0), i32::from(time <= 4.0))
    });
    Work::with("data.csv", text)
}

fn fit(work: &Work, options: &str) -> Value {
    work.quick_fit(&format!("data.csv --features a,b --test-fraction 0.25 --json {options}")).json()
}

#[test]
fn known_errors_choose_their_likelihood_and_predictions_may_lack_them() {
    let work = table();
    let with = fit(&work, "--target value --noise-std error --auto none --epochs 15 --model-out m");
    assert_eq!(with["config"]["likelihood"], "gaussian-known-noise");
    assert_eq!(with["config"]["noise_std"], "error");
    let without = fit(&work, "--target value --auto none --epochs 15");
    let gain = number(&without, "/test/nll") - number(&with, "/test/nll");
    assert!(gain > 0.3, "{gain}");
    work.write("new.csv", "a,b\n0.9,0.5\n");
    work.write("rough.csv", "a,b,error\n0.9,0.5,4\n");
    let variance = |file: &str| work.run(&format!("predict m {file} --out -")).csv().numbers("variance")[0];
    let (plain, rough) = (variance("new.csv"), variance("rough.csv"));
    assert!((rough - plain - 16.0).abs() < 1e-6, "{plain} {rough}");
    let heavy = fit(&work, "--target value --noise-std error --likelihood student-t --auto none --epochs 5");
    assert_eq!(heavy["config"]["likelihood"], "student-t-known-noise");
    work.run("explain m data.csv").ok();
    work.run("update m data.csv --model-out n").ok();
    work.write("bad.csv", "a,b,value,error\n0.1,0.5,3,-1\n0.2,0.1,4,1\n0.3,0.1,5,1\n");
    work.run("fit bad.csv --target value --noise-std error")
        .fails(3, &["bad.csv", "found -1", "a standard error of 0 or more"]);
    work.run("fit data.csv --target value --noise-std error --trials b").fails(2, &["noise-std", "trials"]);
    work.run("fit data.csv --target value --noise-std error --likelihood gamma")
        .fails(2, &["noise-std 'error'", "gaussian or student-t"]);
}

#[test]
fn censored_times_choose_their_likelihood_and_score_what_is_known() {
    let work = table();
    let document = fit(&work, "--target months --censored cut --auto none --epochs 15 --model-out m");
    assert_eq!(document["config"]["likelihood"], "weibull");
    assert_eq!(document["config"]["censored"], "cut");
    let constant = number(&document, "/baselines/constant/nll");
    assert!(number(&document, "/test/nll") < constant - 0.05, "{document}");
    // Times above the end of observation are predicted where they are.
    work.write("new.csv", "a,b\n0.95,0.5\n");
    let mean = work.run("predict m new.csv --out -").csv().numbers("mean")[0];
    assert!((4.8..9.0).contains(&mean), "{mean}");
    let numbers = fit(&work, "--target months --censored cut --likelihood gaussian --auto none --epochs 5");
    assert_eq!(numbers["config"]["likelihood"], "gaussian-censored");
    for likelihood in ["log-normal", "log-logistic"] {
        let found = fit(
            &work,
            &format!("--target months --censored cut --likelihood {likelihood} --epochs 5 --auto none"),
        );
        assert_eq!(found["config"]["likelihood"], likelihood);
    }
    work.run("evaluate m data.csv").ok();
    work.run("update m data.csv --model-out n").ok();
    work.write("bad.csv", "a,b,months,cut\n0.1,0.5,3,maybe\n0.2,0.1,4,none\n0.3,0.1,5,none\n");
    work.run("fit bad.csv --target months --censored cut")
        .fails(3, &["bad.csv", "row 1", "maybe", "1 or right, left, or 0 or none"]);
    work.run("fit data.csv --target months --censored cut --likelihood gamma")
        .fails(2, &["censored 'cut'", "weibull"]);
}
