//! Classification, counts, ordered levels and the other likelihoods from the command line.

use serde_json::Value;
use sparsegp::model::BetaPoint;
use sparsegp::options::{Betas, FitOptions};
use sparsegp::training::search::{GridFit, fit_beta_grid};
use sparsegp_testkit::program::{Work, csv_text, number};

/// Returns a table of two inputs, with a target (and further columns) that `more` computes from the row number, the first input and noise
/// in (−1, 1).
fn data(header: &str, more: impl Fn(usize, f64, f64) -> String) -> Work {
    let text = csv_text(&format!("a,b,{header}"), 0..120, |row| {
        let [a, b, noise] = [0.618, 0.414, 0.731].map(|step| (row as f64 * step).fract());
        format!("{},{b},{}", 4.0 * a, more(row, 4.0 * a, 2.0 * noise - 1.0))
    });
    Work::with("data.csv", text)
}

fn numbers() -> Work {
    data("y", |_, a, noise| format!("{}", 5.0 + a.sin() + 0.3 * noise))
}

fn counts() -> Work {
    data("y,years,trust", |row, a, noise| {
        let years = 1.0 + (row % 4) as f64;
        let count = years * (0.6 * a.sin() + 0.4 * noise).exp();
        format!("{},{years},{}", count.round(), 1 + row % 2)
    })
}

fn fit(work: &Work, options: &str) -> Value {
    work.fit(&format!("--test-fraction 0.25 {options}"))
}

/// Checks that the test scores have numbers for these keys, and null for the others.
fn check_scores(document: &Value, numbers: &str, nulls: &str) {
    for (keys, is_number) in [(numbers, true), (nulls, false)] {
        for key in keys.split(' ') {
            let score = &document["test"][key];
            assert!(if is_number { score.is_number() } else { score.is_null() }, "{key}: {score}");
        }
    }
}

#[test]
fn classes_are_fitted_and_either_may_be_the_positive_one() {
    let work = data("y", |_, a, noise| if a.sin() + 0.5 * noise > 0.0 { "yes" } else { "no" }.into());
    let document = fit(&work, "--objective dlm-log --epochs 20 --model-out m");
    assert_eq!(document["config"]["likelihood"], "bernoulli-probit");
    check_scores(&document, "nll error_rate auc brier ece", "mse mre deviance coverage pit");
    assert!(number(&document, "/test/error_rate") < 0.35, "{document}");
    let [other, one] = ["no", "yes"].map(|label| {
        number(&fit(&work, &format!("--positive-label {label} --likelihood bernoulli-logit")), "/test/nll")
    });
    assert!((other - one).abs() < 1e-6, "{other} and {one}");
    work.write("unseen.csv", "a,b,y\n1,0.5,maybe\n");
    work.run("evaluate m unseen.csv").fails(3, &["unseen.csv", "row 1", "maybe"]);
}

#[test]
fn counts_take_exposure_and_weights() {
    let work = counts();
    let document = fit(&work, "--exposure years --weights trust --epochs 30 --model-out m");
    assert_eq!(document["config"]["likelihood"], "poisson");
    assert_eq!(number(&document, "/data/features"), 2.0, "exposure and weights are no inputs");
    check_scores(&document, "nll mse mre deviance", "auc");
    // Twice the exposure gives twice the mean, and draws are counts with the predicted mean.
    work.write("one.csv", "a,b,years\n1,0.5,1\n1,0.5,2\n");
    let predict = "predict m one.csv --out - --quantiles 0.5 --draws 2000 --seed 4";
    let predicted = work.run(predict).csv();
    let (means, variances) = (predicted.numbers("mean"), predicted.numbers("variance"));
    assert!((means[1] / means[0] - 2.0).abs() < 1e-9, "{means:?}");
    for (row, cells) in predicted.rows.iter().enumerate() {
        let draws = cells[cells.len() - 2000..].iter().map(|draw| draw.parse().expect("a number"));
        let draws: Vec<f64> = draws.collect();
        assert!(draws.iter().all(|d| *d >= 0.0 && d.fract() == 0.0));
        let average = draws.iter().sum::<f64>() / 2000.0;
        assert!((average - means[row]).abs() < 5.0 * (variances[row] / 2000.0).sqrt(), "{average} {means:?}");
    }
    assert_eq!(work.run(predict).csv().rows, predicted.rows);
    work.write("none.csv", "a,b\n1,0.5\n");
    work.run("predict m none.csv --out q.csv").fails(3, &["none.csv", "years"]);
    assert_ne!(fit(&work, "--exclude years,trust")["test"]["nll"], document["test"]["nll"]);
}

#[test]
fn beta_is_chosen_on_held_out_rows() {
    let work = counts();
    let curve = |document: &Value| -> Vec<(f64, f64)> {
        let points = document["fit"]["beta_curve"]["points"].as_array().expect("the curve");
        points.iter().map(|point| (number(point, "/beta"), number(point, "/score"))).collect()
    };
    for objective in ["elbo", "dlm-log"] {
        let document = fit(&work, &format!("--objective {objective} --betas 3,0.3,0.03"));
        let points = curve(&document);
        assert_eq!([points[0].0, points[1].0, points[2].0], [3.0, 0.3, 0.03]);
        let best = points.iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("a point");
        assert_eq!(number(&document, "/config/beta"), best.0);
        assert!(number(&document, "/data/train") >= 89.0, "the refit takes all training rows");
    }
    let auto = curve(&fit(&work, "--betas auto --epochs 1 --warm-start 2"));
    assert_eq!(auto.len(), 15, "120, 60, …, 0.0146, 0.01");
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

    let work = numbers();
    let fit = "fit data.csv --target y --auto none --inducing 20 --json --quiet";
    let [judged, chosen] = ["--beta 0.02 --validation-fraction 0.2", "--betas 0.02"]
        .map(|options| work.run(&format!("{fit} {options}")).json());
    assert_eq!(judged["hyperparameters"], chosen["hyperparameters"]);
}

#[test]
fn square_loss_models_have_a_mean_and_nothing_else() {
    let work = numbers();
    let document = fit(&work, "--objective dlm-square --model-out m --predictions t.csv");
    check_scores(&document, "smse", "nll coverage pit interval_width_95 interval_score_95 crps");
    assert!(number(&document, "/test/smse") < 0.5);
    let text = work.text("predict m data.csv --out - --quantiles 0.5");
    assert!(text.lines().nth(1).expect("a row").ends_with(",,,"), "only the mean is known: {text}");
    let joint = fit(&work, "--objective dlm-square --betas 1,0.1,0.01");
    assert_eq!(joint["fit"]["beta_curve"]["squared_error"], true);
}
