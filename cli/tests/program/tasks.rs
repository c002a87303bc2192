//! Classification, counts, ordered levels and the other likelihoods from the command line, and errors about invalid targets.

use serde_json::Value;
use sparsegp::model::BetaPoint;
use sparsegp::options::{Betas, FitOptions};
use sparsegp::training::search::{GridFit, fit_beta_grid};
use sparsegp_testkit::program::{QUICK, Work, number, quick};
use std::fmt::Write as _;

/// Returns a table of two inputs, with a target (and further columns) that `more` computes from the row number and the first input.
fn rows(header: &str, n: usize, more: &dyn Fn(usize, f64) -> String) -> String {
    let mut text = format!("a,b,{header}\n");
    for row in 0..n {
        let (a, b) = ((row as f64 * 0.618).fract() * 4.0, (row as f64 * 0.414).fract());
        writeln!(text, "{a},{b},{}", more(row, a)).expect("written");
    }
    text
}

/// Returns deterministic noise in (−1, 1).
fn wobble(row: usize) -> f64 {
    2.0 * (row as f64 * 0.731).fract() - 1.0
}

fn classes() -> String {
    rows("y", 120, &|row, a| if a.sin() + 0.5 * wobble(row) > 0.0 { "yes" } else { "no" }.into())
}

fn counts() -> String {
    rows("y,years,trust", 120, &|row, a| {
        let years = 1.0 + (row % 4) as f64;
        let count = years * (0.6 * a.sin() + 0.4 * wobble(row)).exp();
        format!("{},{years},{}", count.round(), 1 + row % 2)
    })
}

fn fit(work: &Work, options: &str) -> Value {
    let quick = quick(options);
    work.run(&format!("fit data.csv --target y --test-fraction 0.25 --json --quiet {quick} {options}")).json()
}

#[test]
fn classes_are_fitted_predicted_and_reported() {
    let work = Work::empty();
    work.write("data.csv", &classes());
    for objective in ["elbo", "dlm-log"] {
        let document =
            fit(&work, &format!("--objective {objective} --epochs 20 --model-out m --report r.html"));
        assert_eq!(document["config"]["task"], "classification");
        assert_eq!(document["config"]["likelihood"], "bernoulli-probit");
        for key in ["nll", "error_rate", "auc", "brier", "ece"] {
            assert!(number(&document, &format!("/test/{key}")).is_finite(), "{key}");
        }
        for key in ["mse", "mre", "deviance", "coverage", "pit"] {
            assert!(document["test"][key].is_null(), "{key} does not apply");
        }
        assert!(number(&document, "/test/error_rate") < 0.35, "{document}");
        work.run("predict m data.csv --out p.csv").ok();
        let predictions = work.read("p.csv");
        let header = predictions.lines().next().expect("a header");
        assert_eq!(header, "label,probability_yes,log_density");
        for line in predictions.lines().skip(1) {
            let (label, numbers) = line.split_once(',').expect("cells");
            let cells: Vec<f64> = numbers.split(',').map(|cell| cell.parse().expect("a number")).collect();
            assert!(cells[0] > 0.0 && cells[0] < 1.0, "{line}");
            assert_eq!(label, if cells[0] > 0.5 { "yes" } else { "no" }, "{line}");
        }
        assert!(work.read("r.html").contains("Reliability of probabilities"));
    }
    let other = fit(&work, "--positive-label no --likelihood bernoulli-logit");
    let one = fit(&work, "--positive-label yes --likelihood bernoulli-logit");
    let difference = number(&other, "/test/nll") - number(&one, "/test/nll");
    assert!(difference.abs() < 1e-6, "naming the other class changes nothing: {difference}");
    let unseen = "a,b,y\n1,0.5,maybe\n";
    work.write("unseen.csv", unseen);
    work.run("evaluate m unseen.csv").fails(3, &["unseen.csv", "row 1", "maybe"]);
}

#[test]
fn counts_take_exposure_and_weights() {
    let work = Work::empty();
    work.write("data.csv", &counts());
    let document = fit(&work, "--exposure years --weights trust --epochs 30 --model-out m");
    assert_eq!(document["config"]["likelihood"], "poisson");
    assert_eq!(number(&document, "/data/features"), 2.0, "exposure and weights are no inputs");
    for key in ["nll", "mse", "mre", "deviance"] {
        assert!(number(&document, &format!("/test/{key}")).is_finite(), "{key}");
    }
    // Twice the exposure gives twice the mean.
    work.write("one.csv", "a,b,years\n1,0.5,1\n1,0.5,2\n");
    work.run("predict m one.csv --out p.csv --quantiles 0.5").ok();
    let text = work.read("p.csv");
    let means: Vec<f64> =
        text.lines().skip(1).map(|l| l.split(',').next().expect("mean").parse().expect("number")).collect();
    assert!((means[1] / means[0] - 2.0).abs() < 1e-9, "{text}");
    work.write("none.csv", "a,b\n1,0.5\n");
    work.run("predict m none.csv --out q.csv").fails(3, &["none.csv", "years"]);
    let plain = fit(&work, "--exclude years,trust");
    assert_ne!(plain["test"]["nll"], document["test"]["nll"]);
}

#[test]
fn draws_of_counts_are_counts_with_the_predicted_mean() {
    let work = Work::empty();
    work.write("data.csv", &counts());
    fit(&work, "--exposure years --exclude trust --model-out m");
    work.write("one.csv", "a,b,years\n1,0.5,3\n2,0.5,1\n");
    work.run("predict m one.csv --out p.csv --draws 2000 --seed 4").ok();
    for line in work.read("p.csv").lines().skip(1) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().expect("a number")).collect();
        let (mean, variance, draws) = (cells[0], cells[1], &cells[2..]);
        assert!(draws.len() == 2000 && draws.iter().all(|d| *d >= 0.0 && d.fract() == 0.0));
        let average = draws.iter().sum::<f64>() / 2000.0;
        assert!((average - mean).abs() < 5.0 * (variance / 2000.0).sqrt(), "{average} and {mean}");
    }
    work.run("predict m one.csv --out q.csv --draws 2000 --seed 4").ok();
    assert_eq!(work.read("p.csv"), work.read("q.csv"));
}

#[test]
fn likelihoods_are_named_from_the_fit_to_the_inspection() {
    let share = rows("y", 80, &|row, a| format!("{}", 1.0 / (1.0 + (a.sin() + wobble(row)).exp())));
    let level = rows("y", 80, &|row, a| {
        format!("{}", 3.0 + (1.6 + 1.5 * a.sin() + wobble(row)).floor().clamp(0.0, 3.0))
    });
    for (likelihood, data) in [("beta-probit", &share), ("ordinal", &level), ("negative-binomial", &counts())]
    {
        let work = Work::empty();
        work.write("data.csv", data);
        let document = fit(&work, &format!("--likelihood {likelihood} --model-out m"));
        assert_eq!(document["config"]["likelihood"], likelihood);
        assert!(number(&document, "/test/nll").is_finite(), "{likelihood}");
        // The loaded model has the same scores.
        let again = work.run("evaluate m data.csv --json").json();
        assert!(number(&again, "/test/nll").is_finite(), "{likelihood}");
        let inspected = work.run("inspect m").ok().stdout();
        assert!(inspected.contains(likelihood), "{inspected}");
    }
}

#[test]
fn wrong_combinations_are_usage_errors() {
    let work = Work::empty();
    work.write("data.csv", &classes());
    let cases: &[(&str, &[&str])] = &[
        ("--objective vfe", &["vfe", "bernoulli-probit"]),
        ("--objective dlm-square", &["dlm-square", "bernoulli-probit"]),
        ("--task count --likelihood gaussian", &["gaussian", "count"]),
        ("--betas 1,0", &["1,0"]),
        ("--betas 1 --beta 2", &["--beta"]),
        ("--estimator bmc:10", &["--estimator", "dlm-log"]),
        ("--likelihood gaussian --quadrature-nodes 9", &["--quadrature-nodes", "gaussian"]),
        ("--q-guard hope", &["hope", "retraction"]),
        ("--likelihood probit", &["probit", "bernoulli-logit"]),
    ];
    for (options, words) in cases {
        work.run(&format!("fit data.csv --target y --quiet {options}")).fails(2, words);
    }
    work.run(&format!("fit data.csv --target y --quiet {QUICK} --model-out m")).ok();
    work.run("fit data.csv --target y --quiet --from m --likelihood bernoulli-logit")
        .fails(2, &["bernoulli-probit"]);
    work.write("counts.csv", &counts());
    work.run("fit counts.csv --target y --quiet --objective fitc --task regression --weights trust")
        .fails(2, &["fitc", "weights"]);
    work.run("fit counts.csv --target y --quiet --task regression --exposure years").fails(2, &["exposure"]);
}

#[test]
fn the_options_of_objectives_have_an_effect() {
    let work = Work::empty();
    work.write("data.csv", &counts());
    let base = "--exclude years,trust --objective dlm-log --epochs 5";
    let nll = |options: &str| number(&fit(&work, &format!("{base} {options}")), "/test/nll");
    let plain = nll("");
    for options in [
        "--estimator bmc:2",
        "--estimator smooth-bmc:2:0.1",
        "--estimator ups:2",
        "--quadrature-nodes 5",
        "--q-guard projection --beta 0.01",
        "--q-update adam",
        "--beta 5",
        "--likelihood negative-binomial",
        "--weights trust",
    ] {
        assert_ne!(nll(options), plain, "{options}");
    }
}

#[test]
fn beta_is_chosen_on_held_out_rows_and_reported() {
    let work = Work::empty();
    work.write("data.csv", &counts());
    for objective in ["elbo", "dlm-log"] {
        let document =
            fit(&work, &format!("--objective {objective} --betas 3,0.3,0.03 --report r.html --model-out m"));
        let points = document["fit"]["beta_curve"]["points"].as_array().expect("the curve").clone();
        let betas: Vec<f64> = points.iter().map(|p| number(p, "/beta")).collect();
        assert_eq!(betas, [3.0, 0.3, 0.03]);
        let best = points
            .iter()
            .min_by(|a, b| number(a, "/score").total_cmp(&number(b, "/score")))
            .expect("a point");
        assert_eq!(number(&document, "/config/beta"), number(best, "/beta"));
        assert!(work.read("r.html").contains("against β"));
        assert!(number(&document, "/data/train") >= 89.0, "the refit takes all training rows");
    }
    let auto = fit(&work, "--betas auto --epochs 1 --warm-start 2");
    let grid = auto["fit"]["beta_curve"]["points"].as_array().expect("the curve").len();
    assert_eq!(grid, 15, "120, 60, …, 0.0146, 0.01");
}

/// A short fit of the grid has a third of the epochs of the fit itself, by default or by an option; the grid ends when its time is over; and
/// the final fit trains nothing that no held-out rows judge.
#[test]
fn a_grid_of_betas_is_limited_like_its_fits() {
    let grid = |epochs, is_late: bool| {
        let options = FitOptions { epochs, ..FitOptions::default() };
        let mut fit = |options: &FitOptions, _from: Option<&FitOptions>| {
            let point = BetaPoint { beta: options.beta, score: Some(options.beta), seconds: 0.0 };
            Ok(GridFit { point, fit: options.clone() })
        };
        let fits = fit_beta_grid(&options, &Betas::List(vec![1.0, 0.1]), 500, &mut fit, &|| is_late);
        fits.expect("fits").into_iter().map(|fit| fit.fit.epochs).collect::<Vec<_>>()
    };
    assert_eq!(grid(None, false), [None, Some(67)]);
    // The default of 200 iterations, as the help says.
    assert_eq!(grid(Some(200), false), [Some(200), Some(67)]);
    assert_eq!(grid(None, true), [None]);

    let work = Work::empty();
    work.write("data.csv", &rows("y", 120, &|row, a| format!("{}", a.sin() + 0.3 * wobble(row))));
    let fit = |options: &str| {
        work.run(&format!("fit data.csv --target y --auto none --inducing 20 --json --quiet {options}"))
            .json()
    };
    let judged = fit("--beta 0.02 --validation-fraction 0.2");
    assert_eq!(judged["hyperparameters"], fit("--betas 0.02")["hyperparameters"]);
}

#[test]
fn fixed_dlm_keeps_the_hyper_parameters_of_its_start() {
    let work = Work::empty();
    work.write("data.csv", &classes());
    let elbo = fit(&work, "--model-out elbo");
    let dlm = fit(&work, "--objective dlm-log --hyper fixed --from elbo");
    assert_eq!(elbo["hyperparameters"], dlm["hyperparameters"]);
    assert_ne!(elbo["test"]["nll"], dlm["test"]["nll"]);
}

#[test]
fn square_loss_models_have_a_mean_and_nothing_else() {
    let work = Work::empty();
    work.write("data.csv", &rows("y", 100, &|row, a| format!("{}", 5.0 + a.sin() + 0.3 * wobble(row))));
    let document = fit(&work, "--objective dlm-square --model-out m --predictions t.csv");
    for key in ["nll", "coverage", "pit", "interval_width_95", "interval_score_95", "crps"] {
        assert!(document["test"][key].is_null(), "{key} is undefined");
    }
    assert!(number(&document, "/test/smse") < 0.5);
    work.run("predict m data.csv --out p.csv --quantiles 0.5").ok();
    let text = work.read("p.csv");
    assert!(text.lines().nth(1).expect("a row").ends_with(",,,"), "only the mean is known: {text}");
    let joint = fit(&work, "--objective dlm-square --betas 1,0.1,0.01");
    assert_eq!(joint["fit"]["beta_curve"]["squared_error"], true);
}
