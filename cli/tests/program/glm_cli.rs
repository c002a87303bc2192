//! Linear models from the command line: fit, inspect, predict, evaluate, more columns than rows.

use faer::{Mat, Side};
use sparsegp::options::{FitOptions, ModelKind};
use sparsegp::training::Fit;
use sparsegp_testkit::problems::Normals;
use sparsegp_testkit::program::{Work, assert_contains, csv_text, number};

/// Returns a table with a number, a colour, and targets that depend linearly on them: a number, a class and a count.
fn table(rows: usize) -> String {
    csv_text("a,colour,y,ill,visits", 0..rows, |row| {
        let t = row as f64;
        let (a, noise) = (100.0 + 20.0 * (t * 0.618).fract(), (t * 0.731).fract() - 0.5);
        let f = 0.1 * (a - 110.0) + [0.0, 0.5, -0.5][row % 3];
        let (ill, visits) = (if f + 2.0 * noise > 0.0 { "yes" } else { "no" }, (f + noise).exp().round());
        format!("{a},{},{},{ill},{visits}", ["blue", "green", "red"][row % 3], 50.0 + f + noise)
    })
}

/// Returns the mean negative log predictive density of test rows under the ridge regression of largest evidence: y of mean 0 and variance 1
/// has the covariance `v X Xᵀ + 100 11ᵀ + σ² I`, and v and σ² are the best of a grid.
fn ridge_by_evidence(x: &Mat<f64>, y: &[f64], test: (&Mat<f64>, &[f64])) -> f64 {
    let (n, p) = x.shape();
    let moments = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / n as f64;
        (mean, (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt())
    };
    let column = |j: usize| x.col(j).iter().copied().collect::<Vec<_>>();
    let columns: Vec<(f64, f64)> = (0..p).map(|j| moments(&column(j))).collect();
    let scaled = |x: &Mat<f64>| Mat::from_fn(x.nrows(), p, |i, j| (x[(i, j)] - columns[j].0) / columns[j].1);
    let (centre, sd) = moments(y);
    let (x, others) = (scaled(x), scaled(test.0));
    let eigen = (&x * x.transpose()).self_adjoint_eigen(Side::Lower).expect("eigenvalues");
    let (values, axes) = (eigen.S().column_vector(), eigen.U());
    // The columns have mean 0, so the ones are an eigenvector of X Xᵀ, too, of the eigenvalue 0.
    let ones = axes.transpose() * Mat::from_fn(n, 1, |_, _| 1.0);
    let along = axes.transpose() * Mat::from_fn(n, 1, |i, _| (y[i] - centre) / sd);
    let cross = axes.transpose() * &x * others.transpose();
    let spread =
        |i: usize, (variance, noise): (f64, f64)| variance * values[i] + 100.0 * ones[(i, 0)].powi(2) + noise;
    let evidence = |pair: (f64, f64)| -> f64 {
        (0..n).map(|i| -0.5 * (along[(i, 0)].powi(2) / spread(i, pair) + spread(i, pair).ln())).sum()
    };
    let grid = || (0..45).map(|k| 10f64.powf(-5.0 + 0.125 * f64::from(k)));
    let pairs = grid().flat_map(|variance| grid().map(move |noise| (variance, noise)));
    let best = pairs.max_by(|a, b| evidence(*a).total_cmp(&evidence(*b))).expect("a pair");
    let nll = |row: usize| {
        let own = best.0 * others.row(row).iter().map(|x| x * x).sum::<f64>() + 100.0 + best.1;
        let (mut mean, mut variance) = (0.0, own);
        for i in 0..n {
            let covariance = best.0 * cross[(i, row)] + 100.0 * ones[(i, 0)];
            mean += covariance * along[(i, 0)] / spread(i, best);
            variance -= covariance.powi(2) / spread(i, best);
        }
        let (mean, variance) = (centre + sd * mean, sd * sd * variance);
        0.5 * ((std::f64::consts::TAU * variance).ln() + (test.1[row] - mean).powi(2) / variance)
    };
    (0..test.1.len()).map(nll).sum::<f64>() / test.1.len() as f64
}

/// With more columns than rows, the evidence trains the prior variance of the coefficients: Gaussian fits predict as ridge regression by
/// evidence does.
#[test]
fn more_columns_than_rows_train_the_prior() {
    for p in [100, 400] {
        let mut normals = Normals::new(p as u64);
        let (x, test) = (normals.mat(60, p), normals.mat(300, p));
        let mut target = |x: &Mat<f64>| -> Vec<f64> {
            let signal = |i: usize| (0..5).map(|j| x[(i, j)] * [1.0, -1.5, 1.0, 0.5, -1.0][j]).sum::<f64>();
            (0..x.nrows()).map(|i| 3.0 + signal(i) + 0.5 * normals.next()).collect()
        };
        let (y, truth) = (target(&x), target(&test));
        let options = FitOptions { model: ModelKind::Glm, ..FitOptions::default() };
        let model = Fit::of(options).fit(x.as_ref(), &y).expect("a fit");
        let predictions = model.predict(test.as_ref(), &[]).expect("predictions");
        let found = -(0..300).map(|i| predictions.log_density(i, truth[i])).sum::<f64>() / 300.0;
        let wanted = ridge_by_evidence(&x, &y, (&test, &truth));
        assert!((found - wanted).abs() < 0.02, "{p} columns: {found}, ridge by evidence {wanted}");
    }
}

#[test]
fn a_linear_model_is_fitted_inspected_predicted_evaluated_and_started_from() {
    let work = Work::with("data.csv", table(150));
    let fit = "fit data.csv --target y --exclude ill,visits --model glm --quiet --model-out m";
    let text = work.text(&format!("{fit} --metrics j --report r.html --test-fraction 0.2"));
    assert_contains(&text, &["linear (glm)", "4, with the intercept", "colour=green", "log evidence"]);
    assert!(!text.contains("kernel"), "{text}");
    let document = work.json("j");
    let coefficients = document["coefficients"].as_array().expect("coefficients");
    let names: Vec<&str> = coefficients.iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["intercept", "a", "colour=green", "colour=red"]);
    let of = |index: usize, key: &str| number(&document, &format!("/coefficients/{index}/{key}"));
    for (index, want, tolerance) in [(1, 0.1, 0.02), (2, 0.5, 0.3), (3, -0.5, 0.3)] {
        let [lower, mean, upper, sd] = ["lower", "mean", "upper", "sd"].map(|key| of(index, key));
        assert!((mean - want).abs() < tolerance, "{document}");
        assert!(lower < mean && mean < upper && sd > 0.0);
    }
    assert_eq!(document["config"]["model"], "glm");
    for key in ["kernel", "inducing", "jitter", "warm_start"] {
        assert!(document["config"][key].is_null(), "{key} does not apply");
    }
    let [lower, upper] =
        ["elbo_sum", "evidence_upper_bound"].map(|key| number(&document["fit"], &format!("/{key}")));
    assert!((lower - upper).abs() < 1e-8 * lower.abs(), "{lower} and {upper}");
    assert_contains(&work.read("r.html"), &["<summary>Coefficients", "colour=red"]);
    work.prints("inspect m", &["linear (glm)", "colour=red"]);
    assert_eq!(work.run("inspect m --json").json()["coefficients"], document["coefficients"]);

    work.write("new.csv", "colour,a\nblue,100\nblue,110\nred,110\npink,110\n");
    work.run("predict m new.csv --out p.csv --unseen error").fails(3, &["row 4", "pink"]);
    let means = work.run("predict m new.csv --out - --quantiles 0.5").csv().numbers("mean");
    assert!((means[0] - of(0, "mean") - 100.0 * of(1, "mean")).abs() < 1e-6, "{means:?}");
    assert!((means[2] - means[1] - of(3, "mean")).abs() < 1e-9, "{means:?}");
    assert_eq!(means[3], means[1], "an unseen category is like the first one");
    // The kind of model and the prior come from the saved model.
    let from = work.run("fit data.csv --target y --from m --hyper fixed --json --quiet").json();
    assert_eq!(from["config"]["model"], "glm");
    assert_eq!(from["hyperparameters"], document["hyperparameters"]);
    work.run("fit data.csv --target y --from m --model gp --quiet").fails(2, &["glm", "gp", "--from"]);
}
