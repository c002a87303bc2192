//! Classification, counts, ordered levels and the other likelihoods from the command line.

use serde_json::Value;
use sparsegp::model::BetaPoint;
use sparsegp::options::{Betas, FitOptions};
use sparsegp::training::search::{GridFit, fit_beta_grid};
use sparsegp_testkit::program::{Work, csv_text, number, quick};

/// Returns a table of two inputs, with a target (and further columns) that `more` computes from the row number and the first input.
fn rows(header: &str, n: usize, more: &dyn Fn(usize, f64) -> String) -> String {
    csv_text(&format!("a,b,{header}"), 0..n, |row| {
        let (a, b) = ((row as f64 * 0.618).fract() * 4.0, (row as f64 * 0.414).fract());
        format!("{a},{b},{}", more(row, a))
    })
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
    let work = Work::with("data.csv", &classes());
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
        assert!(work.read("r.html").contains("Reliability of probabilities"));
    }
    let [other, one] = ["no", "yes"].map(|label| {
        let document = fit(&work, &format!("--positive-label {label} --likelihood bernoulli-logit"));
        number(&document, "/test/nll")
    });
    assert!((other - one).abs() < 1e-6, "naming the other class changes nothing: {other} and {one}");
    work.write("unseen.csv", "a,b,y\n1,0.5,maybe\n");
    work.run("evaluate m unseen.csv").fails(3, &["unseen.csv", "row 1", "maybe"]);
}

#[test]
fn counts_take_exposure_and_weights() {
    let work = Work::with("data.csv", &counts());
    let document = fit(&work, "--exposure years --weights trust --epochs 30 --model-out m");
    assert_eq!(document["config"]["likelihood"], "poisson");
    assert_eq!(number(&document, "/data/features"), 2.0, "exposure and weights are no inputs");
    for key in ["nll", "mse", "mre", "deviance"] {
        assert!(number(&document, &format!("/test/{key}")).is_finite(), "{key}");
    }
    // Twice the exposure gives twice the mean, and draws are counts with the predicted mean.
    work.write("one.csv", "a,b,years\n1,0.5,1\n1,0.5,2\n");
    work.run("predict m one.csv --out p.csv --quantiles 0.5 --draws 2000 --seed 4").ok();
    let predicted = work.csv("p.csv");
    let (means, variances) = (predicted.numbers("mean"), predicted.numbers("variance"));
    assert!((means[1] / means[0] - 2.0).abs() < 1e-9, "{means:?}");
    for (row, cells) in predicted.rows.iter().enumerate() {
        let draws: Vec<f64> =
            cells[cells.len() - 2000..].iter().map(|d| d.parse().expect("a number")).collect();
        assert!(draws.iter().all(|d| *d >= 0.0 && d.fract() == 0.0));
        let average = draws.iter().sum::<f64>() / 2000.0;
        assert!((average - means[row]).abs() < 5.0 * (variances[row] / 2000.0).sqrt(), "{average} {means:?}");
    }
    work.run("predict m one.csv --out q.csv --quantiles 0.5 --draws 2000 --seed 4").ok();
    assert_eq!(work.read("p.csv"), work.read("q.csv"));
    work.write("none.csv", "a,b\n1,0.5\n");
    work.run("predict m none.csv --out q.csv").fails(3, &["none.csv", "years"]);
    let plain = fit(&work, "--exclude years,trust");
    assert_ne!(plain["test"]["nll"], document["test"]["nll"]);
}

#[test]
fn beta_is_chosen_on_held_out_rows_and_reported() {
    let work = Work::with("data.csv", &counts());
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

    let work = Work::with("data.csv", &rows("y", 120, &|row, a| format!("{}", a.sin() + 0.3 * wobble(row))));
    let fit = |options: &str| {
        work.run(&format!("fit data.csv --target y --auto none --inducing 20 --json --quiet {options}"))
            .json()
    };
    let judged = fit("--beta 0.02 --validation-fraction 0.2");
    assert_eq!(judged["hyperparameters"], fit("--betas 0.02")["hyperparameters"]);
}

#[test]
fn square_loss_models_have_a_mean_and_nothing_else() {
    let work =
        Work::with("data.csv", &rows("y", 100, &|row, a| format!("{}", 5.0 + a.sin() + 0.3 * wobble(row))));
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
