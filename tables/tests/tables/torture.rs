//! Degenerate data and extreme hyper-parameters: a fit ends with finite numbers or with an error,
//! and known results are reproduced.

use super::common::{fit, numbers, target};
use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::hyper::Constraints;
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingPrior, Jitter};
use sparsegp::likelihood::{Gaussian, LikelihoodKind};
use sparsegp::model::LatentPrior;
use sparsegp::options::{FitOptions, Hyper, ModelKind, ObjectiveKind, StepOptions};
use sparsegp::training::{Fitted, Start, TrainingData, fit_arrays};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::Table;
use sparsegp_tables::tabular::{FitRequest, fit_table};
use sparsegp_testkit::dense::dense_gp;

const ROWS: usize = 24;

/// Inputs and target of a table, by name.
struct Data {
    name: &'static str,
    columns: Vec<Vec<f64>>,
    y: Vec<f64>,
}

/// Returns an irregular number between −1 and 1.
fn odd(k: usize) -> f64 {
    (12.9898 * k as f64 + 0.5).sin()
}

fn by_row(f: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..ROWS).map(f).collect()
}

fn data(name: &'static str, columns: Vec<Vec<f64>>) -> Data {
    let y = by_row(|i| (2.0 * columns[0][i].clamp(-3.0, 3.0)).sin() + 0.3 * odd(7 * i + 1));
    Data { name, columns, y }
}

/// Returns inputs that make covariance matrices singular, or lie at the ends of the range of floats.
fn degenerate() -> Vec<Data> {
    let mut all = vec![
        data("duplicate points", vec![by_row(|i| odd(i % 4)), by_row(|i| odd(i % 4 + 9))]),
        data(
            "nearly duplicate points",
            vec![by_row(|i| odd(i % 4) + 1e-9 * odd(i)), by_row(|i| odd(i % 4 + 9))],
        ),
        data("two distinct points", vec![by_row(|i| (i % 2) as f64)]),
        data("a single point", vec![by_row(|_| 3.0)]),
        data("a constant column", vec![by_row(odd), by_row(|_| 7.0)]),
        data("equal columns", vec![by_row(odd), by_row(odd), by_row(odd)]),
        data("nearly equal columns", vec![by_row(odd), by_row(|i| odd(i) * (1.0 + 1e-14))]),
        data("a far outlier", vec![by_row(|i| if i == 3 { 1e12 } else { odd(i) })]),
        data("more columns than rows", (0..40).map(|d| by_row(|i| odd(50 * d + i))).collect()),
        data(
            "the largest numbers",
            vec![by_row(|i| 1e300 * odd(i)), by_row(|i| if i == 0 { f64::MAX } else { -1e308 })],
        ),
        data("the smallest numbers", vec![by_row(|i| 1e-300 * odd(i)), by_row(|i| 5e-324 * (i % 2) as f64)]),
    ];
    for (name, size) in
        [("large targets", 1e140), ("small targets", 1e-140), ("a nearly constant target", 1e-9)]
    {
        let mut scaled = data(name, vec![by_row(odd)]);
        let centre = if name.contains("constant") { 1.0 } else { 0.0 };
        scaled.y.iter_mut().for_each(|y| *y = centre + *y * size);
        all.push(scaled);
    }
    all
}

fn table(data: &Data) -> Table {
    let inputs = data.columns.iter().enumerate().map(|(d, values)| (format!("x{d}"), values.clone()));
    numbers(inputs.chain([("y".to_owned(), data.y.clone())]))
}

/// Checks that a fit ends with finite numbers, or with a data or fit error. Returns true if there was a fit.
fn survives(what: &str, table: &Table, options: &FitOptions) -> bool {
    let (columns, test_fraction) = (&target("y"), 0.2);
    let request = FitRequest { table, columns, options, test_fraction, start: None, keep_posterior: false };
    let fitted = match fit_table(&request, &mut |_| {}) {
        Ok(fitted) => fitted,
        Err(error) => {
            assert!([3, 4].contains(&error.exit_code()), "{what}: {error}");
            assert!(!error.to_string().contains("NaN"), "{what}: {error}");
            return false;
        }
    };
    let model = &fitted.model;
    let summary = model.summary();
    assert!(summary.objective.is_finite() && summary.jitter.is_finite(), "{what}: {}", summary.objective);
    for (name, value) in model.hyperparameters() {
        assert!(value.is_finite(), "{what}: {name} is {value}");
    }
    let mean_only = options.objective == ObjectiveKind::DlmSquare;
    let test = fitted.test.as_ref().expect("test rows");
    let predictions = model.predict_part(test);
    for row in 0..predictions.rows() {
        let got = predictions.row(row);
        let all = [got.mean, got.latent_mean, got.variance, got.latent_variance];
        let defined = if mean_only { &all[..2] } else { &all[..] };
        assert!(defined.iter().all(|value| value.is_finite()), "{what}: row {row} is {got:?}");
        assert!(
            mean_only || got.variance >= 0.0 && got.latent_variance >= 0.0,
            "{what}: row {row} is {got:?}"
        );
        assert!(mean_only || predictions.quantile(row, 0.9).is_finite(), "{what}: quantile of row {row}");
    }
    let report = predictions.report(&test.targets);
    assert!(
        report.nll.is_none_or(f64::is_finite) && report.mse.is_none_or(f64::is_finite),
        "{what}: {report:?}"
    );
    assert_eq!(report.nll.is_none(), mean_only, "{what}: {report:?}");
    model.to_bytes().unwrap_or_else(|error| panic!("{what}: {error}"));
    true
}

fn options(model: ModelKind, objective: ObjectiveKind) -> FitOptions {
    FitOptions {
        model,
        objective,
        epochs: Some(6),
        warm_start: 4,
        steps: StepOptions { batch_size: 10, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

const OBJECTIVES: [ObjectiveKind; 5] = [
    ObjectiveKind::Elbo,
    ObjectiveKind::DlmLog,
    ObjectiveKind::DlmSquare,
    ObjectiveKind::Vfe,
    ObjectiveKind::Fitc,
];

/// M = n exceeds the number of distinct points; every objective, standardised or not.
#[test]
fn degenerate_inputs_are_fitted_or_refused() {
    for data in degenerate() {
        let table = table(&data);
        for (model, objectives) in [(ModelKind::Gp, &OBJECTIVES[..]), (ModelKind::Glm, &OBJECTIVES[..4])] {
            for (objective, standardize) in
                objectives.iter().flat_map(|objective| [(*objective, true), (*objective, false)])
            {
                let what = format!("{model}, {}, {objective}, standardize {standardize}", data.name);
                let inducing = (model == ModelKind::Gp).then_some(ROWS);
                let options = FitOptions { inducing, standardize, ..options(model, objective) };
                let fitted = survives(&what, &table, &options);
                assert!(fitted || !standardize, "{what}: standardised data of any size can be fitted");
            }
        }
    }
}

/// Lengthscales that make the kernel matrix the identity or all ones; noise that vanishes or dominates.
#[test]
fn extreme_hyper_parameters_are_survived() {
    for data in degenerate() {
        let table = table(&data);
        for objective in OBJECTIVES {
            for (name, value) in [
                ("kernel.lengthscales", 1e-6),
                ("kernel.lengthscales", 1e6),
                ("kernel.lengthscales", 1e-200),
                ("kernel.lengthscales", 1e200),
                ("kernel.variance", 1e-12),
                ("kernel.variance", 1e12),
                ("likelihood.noise_variance", 2e-6),
                ("likelihood.noise_variance", 1e12),
            ] {
                let what = format!("{}, {objective}, {name} {value:e}", data.name);
                let options = FitOptions {
                    kernel: "rbf".into(),
                    inducing: Some(ROWS),
                    constraints: Constraints::fixing([(name, value)]).expect("a name"),
                    epochs: Some(3),
                    ..options(ModelKind::Gp, objective)
                };
                survives(&what, &table, &options);
            }
        }
    }
}

/// Classes, levels and counts with one row each.
#[test]
fn one_row_per_class() {
    let settings: [(LikelihoodKind, Vec<f64>); 8] = [
        (LikelihoodKind::BernoulliProbit, vec![0.0, 1.0]),
        (LikelihoodKind::BernoulliLogit, vec![0.0, 1.0]),
        (LikelihoodKind::Ordinal, vec![1.0, 2.0, 3.0]),
        (LikelihoodKind::Ordinal, (0..60).map(f64::from).collect()),
        (LikelihoodKind::Poisson, vec![0.0, 9_007_199_254_740_992.0]),
        (LikelihoodKind::NegativeBinomial, vec![0.0, 1e12]),
        (LikelihoodKind::Gamma, vec![1e-140, 1e140]),
        (LikelihoodKind::BetaLogit, vec![1e-300, 1.0 - f64::EPSILON]),
    ];
    for (likelihood, y) in settings {
        let table = numbers([("x", (0..y.len()).map(|i| odd(i + 2)).collect()), ("y", y)]);
        for model in [ModelKind::Gp, ModelKind::Glm] {
            for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
                let what = format!("{likelihood} {model} {objective} of {} rows", table.rows());
                let options = FitOptions { likelihood: Some(likelihood), ..options(model, objective) };
                match fit(&table, &target("y"), &options) {
                    Ok(model) => {
                        assert!(model.summary().objective.is_finite(), "{what}");
                        let predictions = model.predict(&table, UnseenLevels::Error).expect("predictions");
                        let rows = (0..table.rows()).map(|row| predictions.row(row));
                        rows.for_each(|row| assert!(!row.mean.is_nan() && !row.variance.is_nan(), "{what}"));
                    }
                    Err(error) => assert!([3, 4].contains(&error.exit_code()), "{what}: {error}"),
                }
            }
        }
    }
}

/// Returns a model with given hyper-parameters, and inducing points at columns of x.
fn given(x: &Mat<f64>, z: &[usize], (lengthscale, noise): (f64, f64), jitter: Jitter) -> LatentPrior {
    let kernel =
        parse(&format!("rbf(lengthscales={lengthscale:e}, variance=1.5)"), x.nrows()).expect("a kernel");
    let z = Mat::from_fn(z.len(), x.nrows(), |i, d| x[(d, z[i])]);
    let layer = InducingPrior::new(kernel, z, jitter).expect("a layer").with_mean(0.2, true);
    LatentPrior::new(layer.into(), Gaussian::new(noise), true)
}

fn fit_given(model: LatentPrior, objective: ObjectiveKind, beta: f64, x: &Mat<f64>, y: &[f64]) -> Fitted {
    let options = FitOptions { objective, beta, hyper: Some(Hyper::Fixed), ..FitOptions::default() };
    let start = Start { model, q: None };
    fit_arrays(TrainingData::of(Dataset::of(x.transpose(), y)), &options, Some(&start), &mut |_| {})
        .unwrap_or_else(|error| panic!("{objective}: {error}"))
}

/// With an inducing point at every distinct input, all methods equal the exact GP, for any inputs and
/// lengthscale.
#[test]
fn known_results_are_right_on_singular_problems() {
    let all: Vec<usize> = (0..ROWS).collect();
    let tests = Mat::from_fn(2, 5, |d, j| if j < 3 { odd(j + 9 * d) + 0.01 } else { 2.0 * odd(31 * j + d) });
    for (name, x, z) in [
        ("duplicates", Mat::from_fn(2, ROWS, |d, i| odd(i % 4 + 9 * d)), &all[..4]),
        ("duplicates, all inducing", Mat::from_fn(2, ROWS, |d, i| odd(i % 4 + 9 * d)), &all[..]),
        ("near duplicates", Mat::from_fn(2, ROWS, |d, i| odd(i % 4 + 9 * d) + 1e-8 * odd(i)), &all[..]),
        ("a constant column", Mat::from_fn(2, ROWS, |d, i| if d == 0 { odd(i) } else { 3.0 }), &all[..]),
        ("equal columns", Mat::from_fn(2, ROWS, |_, i| odd(i)), &all[..]),
    ] {
        let y = by_row(|i| 2.0 * x[(0, i)] + 0.5 * odd(77 + i));
        for lengthscale in [1e-6, 0.7, 1e6] {
            let noise = 0.05;
            let model = given(&x, z, (lengthscale, noise), Jitter::Absolute(1e-9));
            let kernel = model.layer().inducing().expect("inducing points").kernel().boxed_clone();
            let (evidence, mean, variance) = dense_gp(kernel.as_ref(), 0.2, noise, (&x, &y), &tests);
            for objective in OBJECTIVES {
                let beta = if objective == ObjectiveKind::DlmSquare { noise } else { 1.0 };
                let fitted = fit_given(model.clone(), objective, beta, &x, &y);
                let what = format!("{name}, lengthscale {lengthscale:e}, {objective}");
                let close = |got: f64, want: f64, tolerance: f64, of: &str| {
                    assert!(
                        (got - want).abs() <= tolerance * (1.0 + want.abs()),
                        "{what}: {of} {got}, dense {want}"
                    );
                };
                if objective == ObjectiveKind::DlmLog {
                    assert!(fitted.summary.objective.is_finite(), "{what}");
                    continue;
                }
                let got = fitted.posterior.marginals(tests.transpose());
                got.mean.iter().zip(&mean).for_each(|(got, want)| close(*got, *want, 1e-5, "mean"));
                // The squared error defines neither a variance nor an evidence.
                if objective != ObjectiveKind::DlmSquare {
                    got.variance
                        .iter()
                        .zip(&variance)
                        .for_each(|(got, want)| close(*got, *want, 1e-5, "variance"));
                    close(-fitted.summary.objective_sum, evidence, 1e-5, "evidence");
                }
            }
        }
    }
}
