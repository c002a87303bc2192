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
    let only = "--target value --noise-std error --noise-std-only --auto none --epochs 15";
    for (likelihood, name) in [("gaussian", "gaussian"), ("student-t", "student-t")] {
        let document = fit(&work, &format!("{only} --likelihood {likelihood} --model-out only"));
        assert_eq!(document["config"]["likelihood"], format!("{name}-known-noise-only"));
        let parameters = document["hyperparameters"].to_string();
        assert!(
            !parameters.contains("noise_variance") && !parameters.contains("likelihood.scale"),
            "{parameters}"
        );
    }
    work.run("evaluate only data.csv").ok();
    work.run(&format!("fit data.csv {only} --likelihood gamma"))
        .fails(2, &["--noise-std-only", "gamma", "gaussian or student-t"]);
    work.run("fit data.csv --target value --noise-std-only").fails(2, &["--noise-std"]);
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
    let constant = number(&document, "/baselines/constant/nll");
    for likelihood in ["log-normal", "log-logistic", "gamma", "exponential", "student-t"] {
        let how = format!("--target months --censored cut --likelihood {likelihood} --epochs 15 --auto none");
        let found = fit(&work, &how);
        let own = if likelihood.starts_with("log") { "" } else { "-censored" };
        assert_eq!(found["config"]["likelihood"], format!("{likelihood}{own}"));
        // One scale is too wide for these times.
        assert!(likelihood == "exponential" || number(&found, "/test/nll") < constant, "{found}");
    }
    work.run("evaluate m data.csv").ok();
    work.run("update m data.csv --model-out n").ok();
    work.write("bad.csv", "a,b,months,cut\n0.1,0.5,3,maybe\n0.2,0.1,4,none\n0.3,0.1,5,none\n");
    work.run("fit bad.csv --target months --censored cut")
        .fails(3, &["bad.csv", "row 1", "maybe", "1 or right, left, or 0 or none"]);
    work.run("fit data.csv --target months --censored cut --likelihood gamma-shaped")
        .fails(2, &["censored 'cut'", "weibull"]);
}

/// A cap, a column of upper ends that are missing or equal, and a column of words say the same.
#[test]
fn a_cap_and_upper_ends_are_censoring() {
    let work = table();
    let text = csv_text("a,b,months,upper", 0..400, |row| {
        let [a, b, noise] = unit(row);
        let time = (0.5 + 1.5 * a + 0.4 * (-(1.0 - noise).ln()).ln()).exp().min(4.0);
        let upper = if time < 4.0 { format!("{time:.5}") } else { String::new() };
        format!("{a},{b},{time:.5},{upper}")
    });
    work.write("upper.csv", text);
    let nll = |file: &str, how: &str| {
        let how = format!(
            "fit {file} --target months --features a,b --test-fraction 0.25 --auto none --epochs 5 --inducing 10 --quiet --json {how}"
        );
        let document = work.run(&how).json();
        assert_eq!(document["config"]["likelihood"], "weibull");
        number(&document, "/test/nll")
    };
    let words = nll("data.csv", "--censored cut");
    assert_eq!(nll("data.csv", "--cap 4 --model-out m"), words);
    assert_eq!(nll("upper.csv", "--upper upper"), words);
    work.run("evaluate m data.csv").ok();
    work.run("fit data.csv --target months --cap nan").fails(2, &["--cap", "a finite number"]);
    work.run("fit data.csv --target months --cap 4 --censored cut").fails(2, &["--cap", "--censored"]);
    work.write("bad.csv", "a,months,upper\n0.1,3,2\n0.2,4,\n0.3,5,6\n");
    work.run("fit bad.csv --target months --upper upper")
        .fails(3, &["bad.csv", "row 1", "not below the target"]);
}

/// Returns inputs, one end of the interval that is known of a time, and both ends, of which either may be missing.
fn interval(row: usize) -> [String; 5] {
    let [a, b, noise] = unit(row);
    let time = (0.5 + 1.5 * a + 0.4 * (-(1.0 - noise).ln()).ln()).exp();
    let (end, lower, upper) = match row % 4 {
        0 => (time, time.to_string(), time.to_string()),
        1 => (time.floor() + 1.0, String::new(), (time.floor() + 1.0).to_string()),
        2 => (0.7 * time, (0.7 * time).to_string(), String::new()),
        _ => (0.8 * time, (0.8 * time).to_string(), (1.3 * time).to_string()),
    };
    [a.to_string(), b.to_string(), end.to_string(), lower, upper]
}

/// A table of intervals with either end missing; the target is one of the ends.
#[test]
fn intervals_may_lack_either_end() {
    let text = csv_text("a,b,end,lower,upper", 0..400, |row| interval(row).join(","));
    let work = Work::with("data.csv", text);
    let known = fit(&work, "--target end --lower lower --upper upper --auto none --epochs 20 --model-out m");
    assert_eq!(known["config"]["censored"]["lower"], "lower");
    let ignored = fit(
        &work,
        "--target end --exclude lower,upper --likelihood weibull --auto none --epochs 20 --model-out n",
    );
    work.write("new.csv", "a,b\n0.2,0.5\n0.5,0.5\n0.8,0.5\n");
    let error = |model: &str| -> f64 {
        let means = work.run(&format!("predict {model} new.csv --out -")).csv().numbers("mean");
        // The mean of a Weibull time of shape 2.5 is e^f Γ(1.4).
        let truth = [0.2, 0.5, 0.8].map(|a: f64| (0.5 + 1.5 * a).exp() * 0.887);
        means.iter().zip(truth).map(|(mean, truth)| (mean / truth).ln().abs()).sum()
    };
    assert!(error("m") < 0.3, "{} {} {ignored}", error("m"), error("n"));
    work.run("evaluate m data.csv").ok();
    // An upper end alone: the target is known to be below it.
    let below = csv_text("a,b,end,lower", 0..100, |row| {
        let [a, b, _] = unit(row);
        let end = 1.0 + a + b;
        format!("{a},{b},{end},{}", if row % 2 == 0 { String::new() } else { end.to_string() })
    });
    work.write("below.csv", below);
    work.run("fit below.csv --target end --lower lower --auto none --epochs 2 --inducing 10 --quiet").ok();
    work.write("bad.csv", "a,end,lower,upper\n0.1,3,2,4\n0.2,4,4,\n0.3,5,5,6\n");
    work.run("fit bad.csv --target end --lower lower --upper upper")
        .fails(3, &["bad.csv", "row 1", "end", "the lower or the upper end of its interval"]);
    work.run("fit bad.csv --target end --lower upper")
        .fails(3, &["bad.csv", "row 1", "not above the target"]);
    work.run("fit data.csv --target end --lower lower --cap 4").fails(2, &["--lower", "--cap"]);
}

/// Two columns of ends without a target say the same as with a target that is either end, in memory and on disk.
#[test]
fn two_ends_need_no_target() {
    let with_end = csv_text("a,b,end,LO,HI", 0..400, |row| interval(row).join(","));
    let mut without = csv_text("a,b,LO,HI", 0..400, |row| {
        let [a, b, _, lower, upper] = interval(row);
        [a, b, lower, upper].join(",")
    });
    let work = Work::with("end.csv", with_end);
    work.write("ends.csv", without.clone());
    let how = "--lower LO --upper HI --auto none --epochs 20";
    let nll = |file: &str, more: &str, name: &str| {
        let line =
            format!("{file} --features a,b --test-fraction 0.25 --json {how} {more} --model-out {name}");
        number(&work.quick_fit(&line).json(), "/test/nll")
    };
    let known = nll("end.csv", "--target end", "m");
    assert_eq!(nll("ends.csv", "", "n"), known);
    let from_disk = |file: &str, target: &str| nll(file, &format!("{target} --shuffle-buffer 64"), "d");
    assert_eq!(from_disk("ends.csv", ""), from_disk("end.csv", "--target end"));
    let scored = |model: &str, file: &str| {
        let document = work.run(&format!("evaluate {model} {file} --json")).json();
        (number(&document, "/test/nll"), number(&document, "/test/concordance"))
    };
    assert_eq!(scored("n", "ends.csv"), scored("m", "end.csv"));
    let means =
        |model: &str, file: &str| work.run(&format!("predict {model} {file} --out -")).csv().numbers("mean");
    assert_eq!(means("n", "ends.csv"), means("m", "end.csv"));
    work.write("new.csv", "a,b\n0.2,0.5\n0.5,0.5\n");
    assert_eq!(means("n", "new.csv"), means("m", "new.csv"));
    let updated = |model: &str, file: &str| {
        work.run(&format!("update {model} {file} --model-out u")).ok();
        means("u", "new.csv")
    };
    assert_eq!(updated("n", "ends.csv"), updated("m", "end.csv"));
    work.run("explain n ends.csv").ok();
    // Nothing is known of a row without both ends.
    without.push_str("0.5,0.5,,\n");
    work.write("more.csv", without);
    let run = work.quick_fit(&format!("more.csv --features a,b {how}"));
    assert!(run.stderr().contains("1 of 401 rows have no target 'LO..HI'"), "{}", run.stderr());
    work.write("bad.csv", "a,LO,HI\n0.1,3,4\n0.2,4,\n0.3,6,5\n");
    work.run("fit bad.csv --lower LO --upper HI")
        .fails(3, &["bad.csv", "row 3", "LO", "found 6", "a number not above the upper end of the interval"]);
    work.write("words.csv", "a,LO,HI\n0.1,3,4\n0.2,4,\n0.3,5,soon\n");
    work.run("fit words.csv --lower LO --upper HI --likelihood weibull")
        .fails(3, &["words.csv", "row 3", "soon"]);
    work.run("fit bad.csv --lower LO").fails(2, &["--target"]);
    work.run("fit bad.csv --lower LO --upper TOP").fails(3, &["bad.csv", "TOP"]);
}

/// Counts that are capped at 6 are 6 or more, so their mean is above that of the capped counts.
#[test]
fn capped_counts_choose_their_likelihood() {
    let text = csv_text("a,b,events", 0..600, |row| {
        let [a, b, noise] = unit(row);
        let rate = (0.5 + 1.5 * a).exp();
        let (mut count, mut probability, mut left) = (0.0, (-rate).exp(), noise);
        while left > probability && count < 40.0 {
            left -= probability;
            count += 1.0;
            probability *= rate / count;
        }
        format!("{a},{b},{}", f64::min(count, 6.0))
    });
    let work = Work::with("data.csv", text);
    work.write("new.csv", "a,b\n0.9,0.5\n");
    let mean = |how: &str, likelihood: &str| {
        let how =
            format!("--target events --likelihood {likelihood} --auto none --epochs 20 --model-out m {how}");
        let document = fit(&work, &how);
        assert!(number(&document, "/test/nll") < number(&document, "/baselines/constant/nll"), "{document}");
        let name = document["config"]["likelihood"].clone();
        (name, work.run("predict m new.csv --out -").csv().numbers("mean")[0])
    };
    let truth = (0.5f64 + 1.5 * 0.9).exp();
    for likelihood in ["poisson", "negative-binomial"] {
        let ((name, known), (_, ignored)) = (mean("--cap 6", likelihood), mean("", likelihood));
        assert_eq!(name, format!("{likelihood}-censored"));
        assert!((known / truth - 1.0).abs() < 0.15 && ignored < 0.9 * truth, "{known} {ignored} {truth}");
    }
    // P(Y > 5) of the last model is that of 6 or more.
    let at = |name: &str| work.run("predict m new.csv --survival 5,5.5 --out -").csv().numbers(name)[0];
    assert_eq!(at("survival_5"), at("survival_5.5"));
}

/// Without `--cap`, targets at a cap are noted.
#[test]
fn targets_at_the_end_of_their_range_are_noted() {
    let work = table();
    let run = work.run("fit data.csv --target months --features a,b --auto none --epochs 2 --inducing 10 --quiet --likelihood gaussian");
    assert!(run.stderr().contains("targets 'months' are exactly 4, the largest"), "{}", run.stderr());
    let run =
        work.run("fit data.csv --target value --features a,b --auto none --epochs 2 --inducing 10 --quiet");
    assert!(!run.stderr().contains("are exactly"), "{}", run.stderr());
}

/// Survival probabilities fall with time, the hazard is −d log S/dt, and the scores of censored times are reported.
#[test]
fn survival_and_hazards_are_predicted_and_scored() {
    let work = table();
    let document = fit(&work, "--target months --censored cut --auto none --epochs 15 --model-out m");
    assert!((0.7..1.0).contains(&number(&document, "/test/concordance")), "{document}");
    assert!((0.0..0.2).contains(&number(&document, "/test/integrated_brier")), "{document}");
    assert!((0.0..0.2).contains(&number(&document, "/test/survival_gap")), "{document}");
    // The variance of known targets alone says nothing.
    assert!(document["test"]["r2"].is_null() && document["test"]["smse"].is_null(), "{document}");
    work.run("fit data.csv --features a,b --target months --censored cut --auto none --epochs 5 --inducing 10 --quiet --test-fraction 0.25 --report r.html").ok();
    let page = work.read("r.html");
    assert!(page.contains("Observed and predicted survival") && page.contains("group 4: 25 rows"), "{page}");
    work.write("new.csv", "a,b\n0.2,0.5\n0.9,0.5\n");
    let found = work.run("predict m new.csv --survival -1,2,2.001,5 --hazard 2 --out -").csv();
    let at = |name: &str| found.numbers(name);
    assert_eq!(at("survival_-1"), [1.0, 1.0]);
    for row in 0..2 {
        let (two, more, five) = (at("survival_2")[row], at("survival_2.001")[row], at("survival_5")[row]);
        assert!(1.0 > two && two > more && more > five && five > 0.0);
        let slope = (two.ln() - more.ln()) / 0.001;
        assert!((slope / at("hazard_2")[row] - 1.0).abs() < 1e-2, "{slope} {:?}", at("hazard_2"));
    }
    assert!(at("survival_5")[1] > at("survival_5")[0] + 0.2);
    work.run("predict m new.csv --survival 2,2 --out -").fails(2, &["--survival", "given twice"]);
    work.write(
        "classes.csv",
        csv_text("a,kind", 0..40, |row| format!("{row},{}", if row % 3 == 0 { "x" } else { "y" })),
    );
    work.run("fit classes.csv --target kind --auto none --epochs 2 --quiet --model-out c").ok();
    work.run("predict c classes.csv --survival 2 --out -").fails(2, &["--survival", "targets with an order"]);
}
