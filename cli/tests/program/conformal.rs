//! `fit --conformal`: where scores come from, what they change, what is refused.

use serde_json::Value;
use sparsegp_testkit::program::{Work, csv_text, number};

/// Rows with a time, a group of 6, a count, a censoring and two classes; the noise of y grows with time.
fn work(rows: usize) -> Work {
    let text = csv_text("x,t,g,y,events,cut,class", 0..rows, |row| {
        let (x, noise) =
            ((row as f64 * 0.618).fract() * 6.0, (row as f64 * 1.7).sin() * row as f64 / rows as f64);
        let (events, cut) =
            ((2.0 + x.sin() + 3.0 * noise).max(0.0).round(), ["none", "right"][usize::from(row % 9 == 0)]);
        format!(
            "{x},{row},g{},{},{events},{cut},{}",
            row % 6,
            x.sin() + noise,
            ["no", "yes"][usize::from(x > 3.0)]
        )
    });
    Work::with("data.csv", text)
}

const QUICK: &str = "--features x --auto none --model glm --quiet";

fn fit(work: &Work, options: &str) -> Value {
    work.run(&format!("fit data.csv {QUICK} {options} --json --model-out m")).json()
}

#[test]
fn scores_come_from_all_rows_of_a_small_table_and_from_a_part_of_a_large_one() {
    let small = work(120);
    for (options, scores, train) in [
        ("--target y --conformal", 120.0, 120.0),
        ("--target y --conformal --cv 3", 120.0, 120.0),
        ("--target y --conformal --test-fraction 0.25", 90.0, 90.0),
        ("--target events --likelihood poisson --conformal", 120.0, 120.0),
        // Each of five parts is predicted from the rows before it.
        ("--target y --conformal --split-time t", 100.0, 120.0),
        ("--target y --conformal --split-by g", 120.0, 120.0),
    ] {
        let document = fit(&small, options);
        let found = (number(&document, "/fit/conformal/scores"), number(&document, "/data/train"));
        assert_eq!(found, (scores, train), "{options}");
    }
    let large = work(1200);
    let document = fit(&large, "--target y --conformal --test-fraction 0.1");
    let found = (number(&document, "/fit/conformal/scores"), number(&document, "/data/train"));
    assert_eq!((found, number(&document, "/data/test")), ((216.0, 864.0), 120.0));
    // The last fifth of the time has the largest noise.
    let factor = |options: &str| number(&fit(&large, options), "/fit/conformal/factor_95");
    let (at_random, last) =
        (factor("--target y --conformal"), factor("--target y --conformal --split-time t"));
    assert!(last > 1.1 * at_random, "{last} {at_random}");
}

/// The scores of `--cv` are those of its parts, whose fits see no row of the part.
#[test]
fn calibrated_intervals_are_those_that_predict_evaluate_and_updates_use() {
    let work = work(120);
    let narrow = "--target y --likelihood gaussian --fix likelihood.noise_variance=0.01";
    work.run(&format!("fit data.csv {QUICK} {narrow} --model-out plain")).ok();
    let document = fit(&work, &format!("{narrow} --conformal"));
    let factor = number(&document, "/fit/conformal/factor_95");
    work.prints("inspect m", &["conformal", "120 scores; 95 % intervals are"]);
    let quantiles = |model: &str| {
        work.run(&format!("predict {model} data.csv --quantiles 0.025,0.5,0.975 --out q.csv")).ok();
        ["mean", "variance", "q0.025", "q0.5", "q0.975"].map(|name| work.csv("q.csv").numbers(name))
    };
    let ([mean, variance, low, middle, high], [own_mean, own_variance, own_low, own_middle, own_high]) =
        (quantiles("m"), quantiles("plain"));
    assert_eq!((mean, variance, middle), (own_mean, own_variance, own_middle));
    for row in 0..120 {
        let ratio = (high[row] - low[row]) / (own_high[row] - own_low[row]);
        assert!((ratio / factor - 1.0).abs() < 1e-7 && factor > 3.0, "row {row}: {ratio} {factor}");
    }
    let coverage = |model: &str| {
        let test = &work.run(&format!("evaluate {model} data.csv --json")).json()["test"];
        (number(test, "/coverage/95"), number(test, "/nll"))
    };
    let ((calibrated, nll), (own, own_nll)) = (coverage("m"), coverage("plain"));
    assert!((0.95..0.99).contains(&calibrated) && own < 0.5 && nll == own_nll, "{calibrated} {own}");
    work.run("update m data.csv --model-out again").ok();
    work.prints("inspect again", &["120 scores"]);
}

#[test]
fn groups_have_their_own_scores_and_few_scores_are_a_warning() {
    let large = work(300);
    let document = fit(&large, "--target y --group g --conformal");
    assert_eq!(number(&document, "/fit/conformal/levels"), 6.0);
    let few = work(12);
    let words = ["conformal calibration has 12 scores, expected 19 or more for 95 % intervals"];
    few.tells(&format!("fit data.csv {QUICK} --target y --conformal"), &words);
}

#[test]
fn fits_that_cannot_be_calibrated_are_refused() {
    let work = work(60);
    let fit = |options: &str| format!("fit data.csv {QUICK} {options}");
    work.run(&fit("--target y --model-out m")).ok();
    for (options, words) in [
        ("--target class --conformal", &["'class' has classes, which have no quantiles"][..]),
        ("--target class --conformal --cv 3", &["which have no quantiles"]),
        ("--target y --conformal --objective dlm-square", &["defines only a mean"]),
        (
            "--target y --conformal --censored cut --likelihood gaussian-censored",
            &["7 values of 'y' are censored"],
        ),
        ("--target y,events --conformal", &["--conformal is for one --target, found 2"]),
        ("--target y --conformal --betas 0.5,1", &["--conformal", "--betas"]),
        ("--target y --conformal --shuffle-buffer 20", &["--conformal", "--shuffle-buffer"]),
    ] {
        work.run(&fit(options)).fails(2, words);
    }
    let few = Work::with("data.csv", "x,y\n1,2\n3,4\n5,7\n");
    few.run("fit data.csv --target y --conformal")
        .fails(3, &["has 3 training rows with a target, expected 10 or more"]);
    work.run("fit data.csv --target y --from m --conformal").fails(2, &["--conformal", "--from"]);
}
