//! Successes in trials, shares with exact ends and amounts with exact zeros from the command line.

use serde_json::Value;
use sparsegp_testkit::program::{Work, csv_text, number};

/// Returns three numbers between 0 and 1 that look random.
fn unit(row: usize) -> [f64; 3] {
    [0.618, 0.414, 0.731].map(|step| (row as f64 * step).fract())
}

/// Returns a table with successes, trials, a share with exact ends, an amount with exact zeros, and a share that was scaled to its range.
fn table() -> Work {
    let text = csv_text("a,b,wins,tries,part,amount,scaled,late", 0..400, |row| {
        let [a, b, noise] = unit(row);
        let p = 1.0 / (1.0 + (-4.0 * (a - 0.5) - 2.0 * (noise - 0.5)).exp());
        let tries = 3 + row % 7;
        let part = (1.6 * p - 0.3).clamp(0.0, 1.0);
        let amount = if noise < 0.7 - 0.5 * a { 0.0 } else { (2.0 * a + noise).exp() };
        let scaled = (row as f64) / 399.0;
        let late = if row == 17 { 99 } else { 1 };
        format!("{a},{b},{},{tries},{part:.5},{amount:.5},{scaled:.5},{late}", (p * tries as f64).round())
    });
    Work::with("data.csv", text)
}

/// Returns the metrics document of a quick fit to two inputs.
fn fit(work: &Work, options: &str) -> Value {
    work.quick_fit(&format!("data.csv --features a,b --test-fraction 0.25 --json {options}")).json()
}

#[test]
fn trials_choose_a_binomial_likelihood_and_predictions_need_them() {
    let work = table();
    let document = fit(&work, "--target wins --trials tries --auto none --epochs 10 --model-out m");
    assert_eq!(document["config"]["likelihood"], "binomial");
    assert_eq!(document["config"]["trials"], "tries");
    assert!(document["config"]["exposure"].is_null());
    let constant = number(&document, "/baselines/constant/nll");
    assert!(number(&document, "/test/nll") < constant, "{document}");
    // Ten times the trials give ten times the mean, with the same probability; counts do not exceed the trials.
    work.write("one.csv", "a,b,tries\n0.9,0.5,4\n0.9,0.5,40\n");
    let predicted = work.run("predict m one.csv --out - --quantiles 0.001,0.999").csv();
    let (means, shares) = (predicted.numbers("mean"), predicted.numbers("probability"));
    assert!((means[1] / means[0] - 10.0).abs() < 1e-9, "{means:?}");
    assert!((means[0] / 4.0 - shares[0]).abs() < 1e-9 && (shares[0] - shares[1]).abs() < 1e-12, "{shares:?}");
    let highest = predicted.numbers("q0.999");
    assert!(highest[0] <= 4.0 && highest[1] <= 40.0, "{highest:?}");
    work.write("none.csv", "a,b\n0.9,0.5\n");
    work.run("predict m none.csv --out -").fails(3, &["none.csv", "tries"]);
    work.write("few.csv", "a,b,tries,wins\n0.9,0.5,4,5\n");
    work.run("evaluate m few.csv")
        .fails(3, &["few.csv", "row 1", "found 5", "at most the 4 trials of 'tries'"]);
    work.write("part.csv", "a,b,tries\n0.9,0.5,2.5\n");
    work.run("predict m part.csv --out -")
        .fails(3, &["part.csv", "found 2.5", "a number of trials (1, 2, …)"]);
    work.run("explain m data.csv").ok();
    work.run("update m data.csv --model-out n").ok();
}

#[test]
fn trials_and_exposures_are_refused_with_other_targets() {
    let work = table();
    let fails = |options: &str, code: i32, words: &[&str]| {
        work.run(&format!("fit data.csv --features a,b --epochs 1 {options}")).fails(code, words);
    };
    let both = ["exposure 'b'", "trials 'tries'", "only one of them"];
    work.run("fit data.csv --features a --target wins --trials tries --exposure b").fails(2, &both);
    let poisson = ["trials 'tries' need a target of successes", "kind count", "--likelihood binomial"];
    fails("--target wins --trials tries --likelihood poisson", 2, &poisson);
    let binomial = ["exposure 'tries' needs a target of counts", "kind trials"];
    fails("--target wins --exposure tries --likelihood binomial", 2, &binomial);
    fails(
        "--target late --trials tries",
        3,
        &["row 18 (line 19)", "found 99", "at most the 6 trials of 'tries'"],
    );
    fails("--target wins --trials amount", 3, &["column 'amount'", "a number of trials"]);
}

#[test]
fn shares_with_exact_ends_are_recognised_and_scaled_columns_are_numbers() {
    let work = table();
    let fit_to =
        |target: &str, more: &str| fit(&work, &format!("--target {target} --auto none --epochs 10 {more}"));
    let document = fit_to("part", "--model-out m");
    assert_eq!(document["config"]["likelihood"], "ordered-beta");
    let run = work.quick_fit("data.csv --target part --features a,b");
    assert!(run.stderr().contains("they are taken for shares"), "{}", run.stderr());
    assert!(number(&document, "/test/nll") < number(&document, "/baselines/constant/nll"), "{document}");
    let predicted = work.run("predict m data.csv --out - --quantiles 0.01,0.99").csv();
    let ends = [predicted.numbers("probability_of_zero"), predicted.numbers("probability_of_one")];
    let means = [0, 1].map(|end| ends[end].iter().sum::<f64>() / 400.0);
    assert!(means.iter().all(|share| (0.02..0.4).contains(share)), "{means:?}");
    assert_eq!(fit_to("part", "--task regression")["config"]["likelihood"], "gaussian");
    assert_eq!(fit_to("scaled", "")["config"]["likelihood"], "gaussian");
}

#[test]
fn held_out_rows_choose_a_likelihood_for_amounts_with_exact_zeros() {
    let work = table();
    let fit_to = |more: &str| fit(&work, &format!("--target amount --auto likelihood {more}"));
    let document = fit_to("--model-out m");
    let chosen = document["config"]["likelihood"].as_str().expect("a name");
    assert!(["hurdle-gamma", "tweedie"].contains(&chosen), "{chosen}");
    let tried = document["fit"]["choices"].to_string();
    assert!(
        tried.contains("gaussian") && tried.contains("hurdle-gamma") && tried.contains("tweedie"),
        "{tried}"
    );
    let predicted = work.run("predict m data.csv --out - --quantiles 0.01").csv();
    let zeros = predicted.numbers("probability_of_zero").iter().sum::<f64>() / 400.0;
    assert!((zeros - 0.45).abs() < 0.1, "{zeros}");
    let numbers = fit_to("--task regression")["fit"]["choices"].to_string();
    assert!(!numbers.contains("tweedie"), "{numbers}");
}
