//! Draws of functions and gradients of predictions: moments over draws against the posterior, derivatives against finite differences.

use super::common::*;
use faer::mat;
use sparsegp::Registry;
use sparsegp::kernels::Entry;
use sparsegp_testkit::kernel_formulas::Rbf;

fn inputs() -> Mat<f64> {
    Mat::from_fn(150, 2, |i, d| ((i * (7 + 6 * d)) % 150) as f64 / 15.0)
}

fn target(x: &Mat<f64>) -> Vec<f64> {
    let wobble = |i: usize| 0.2 * (i as f64 * 1.7).sin();
    (0..x.nrows()).map(|i| 40.0 + 8.0 * ((x[(i, 0)]).sin() + 0.3 * x[(i, 1)] + wobble(i))).collect()
}

fn fitted(options: FitOptions, map: impl Fn(f64) -> f64) -> Model {
    let x = inputs();
    let y: Vec<f64> = target(&x).into_iter().map(map).collect();
    let options = FitOptions { inducing: Some(12), ..options };
    fit(&options, x.as_ref(), &y)
}

fn fixed(kernel: &str) -> FitOptions {
    FitOptions { kernel: kernel.to_owned(), open: Open::NOTHING, ..FitOptions::default() }
}

fn rows() -> Mat<f64> {
    mat![[1.0, 2.0], [1.4, 2.1], [5.0, 8.5], [14.0, -3.0]]
}

/// Returns mean and covariance over draws.
fn moments(draws: &[Vec<f64>]) -> (Vec<f64>, Mat<f64>) {
    let (count, n) = (draws.len() as f64, draws[0].len());
    let mean: Vec<f64> = (0..n).map(|i| draws.iter().map(|draw| draw[i]).sum::<f64>() / count).collect();
    let product = |i: usize, j: usize| {
        draws.iter().map(|draw| (draw[i] - mean[i]) * (draw[j] - mean[j])).sum::<f64>() / count
    };
    (mean.clone(), Mat::from_fn(n, n, product))
}

#[test]
fn moments_over_draws_are_those_of_the_posterior() {
    const COUNT: usize = 500;
    let formula =
        Entry { names: &["own_rbf"], build: |_| Ok(Box::new(FormulaKernel::new(Rbf { columns: 2 }))) };
    let registry = Registry::default().with_kernel(formula).expect("a registry");
    for kernel in ["rbf(ard)", "matern32 + linear", "rbf[0] * periodic[0] + matern52[1]", "own_rbf + linear"]
    {
        let options = FitOptions { registry: registry.clone(), ..fixed(kernel) };
        let model = fitted(options, |y| y);
        let draws =
            model.function_draws(COUNT, 3, 0).expect("draws").values(rows().as_ref()).expect("values");
        let (mean, covariance) = moments(&draws);
        let (expected, joint) = model.joint(rows().as_ref()).expect("a covariance");
        for i in 0..4 {
            let sd = joint[(i, i)].sqrt();
            assert!(
                (mean[i] - expected[i]).abs() < 5.0 * sd / (COUNT as f64).sqrt(),
                "{kernel}: mean of row {i}"
            );
            for j in 0..4 {
                let scale = sd * joint[(j, j)].sqrt();
                let apart = (covariance[(i, j)] - joint[(i, j)]).abs() / scale;
                // The standard error is √(1 + ρ²) / √count, and larger if there are few features.
                assert!(
                    apart < 6.0 * (2.0 / COUNT as f64).sqrt(),
                    "{kernel}: covariance of {i}, {j} off by {apart}"
                );
            }
        }
    }
}

/// Returns mean, variance and kurtosis of the values of one row over draws.
fn shape(draws: &[Vec<f64>], row: usize) -> (f64, f64, f64) {
    let count = draws.len() as f64;
    let mean = draws.iter().map(|draw| draw[row]).sum::<f64>() / count;
    let moment = |power: i32| draws.iter().map(|draw| (draw[row] - mean).powi(power)).sum::<f64>() / count;
    (mean, moment(2), moment(4) / moment(2).powi(2))
}

/// Draws are normal with the variance of the posterior, also where it is a small part of the prior's: at training rows of little noise.
#[test]
fn draws_are_normal_with_the_variance_of_the_posterior_at_rows_of_little_noise() {
    const COUNT: usize = 20_000;
    let x = Mat::from_fn(60, 1, |i, _| ((i * 17) % 60) as f64 / 6.0);
    let y: Vec<f64> = (0..60).map(|i| (1.3 * x[(i, 0)]).sin() + 0.3 * (4.1 * x[(i, 0)]).cos()).collect();
    let rows = Mat::from_fn(5, 1, |i, _| if i < 4 { x[(11 * i, 0)] } else { 0.5 * (x[(0, 0)] + x[(11, 0)]) });
    let kernels = ["rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic + matern52"];
    let alone = kernels.map(|kernel| (kernel, 40, None)).into_iter();
    for (kernel, inducing, neighbours) in alone.chain([("matern52", 10, Some(8)), ("rbf", 0, Some(8))]) {
        let constraints = Constraints::fixing([("likelihood.noise_variance", 1e-4)]).expect("a name");
        let options = FitOptions { inducing: Some(inducing), neighbours, constraints, ..fixed(kernel) };
        let model = fit(&options, x.as_ref(), &y);
        let draws = model.function_draws(COUNT, 1, 0).expect("draws").values(rows.as_ref()).expect("values");
        let predictions = model.predict(rows.as_ref(), &[]).expect("predictions");
        for row in 0..rows.nrows() {
            let wanted = predictions.row(row);
            let (mean, variance, kurtosis) = shape(&draws, row);
            let (ratio, sd) = (variance / wanted.latent_variance, wanted.latent_variance.sqrt());
            let name = format!("{kernel}, {neighbours:?}, row {row}: {ratio}, {kurtosis}");
            assert!((mean - wanted.latent_mean).abs() < 0.05 * sd, "mean of {name}");
            assert!((ratio - 1.0).abs() < 0.05 && (kurtosis - 3.0).abs() < 0.5, "{name}");
        }
    }
}

fn check_slopes(model: &Model, exposure: &[f64], name: &str) {
    let x = rows();
    let Slopes { mean, variance, latent_mean, latent_variance } =
        model.slopes(x.as_ref(), exposure).expect("slopes");
    let at = |x: MatRef<'_, f64>, i: usize| model.predict(x, exposure).expect("predictions").row(i);
    for i in 0..4 {
        for d in 0..2 {
            let step = |by: f64| {
                let moved = Mat::from_fn(4, 2, |k, j| x[(k, j)] + if (k, j) == (i, d) { by } else { 0.0 });
                at(moved.as_ref(), i)
            };
            let (up, down) = (step(1e-5), step(-1e-5));
            let check = |found: f64, of: &dyn Fn(&Prediction) -> f64, what: &str| {
                let expected = (of(&up) - of(&down)) / 2e-5;
                let size = 1.0 + expected.abs() + of(&up).abs();
                assert!(
                    (found - expected).abs() < 2e-5 * size,
                    "{name}, {what} at {i}, {d}: {found}, {expected}"
                );
            };
            check(mean[(i, d)], &|p| p.mean, "mean");
            check(variance[(i, d)], &|p| p.variance, "variance");
            check(latent_mean[(i, d)], &|p| p.latent_mean, "latent mean");
            check(latent_variance[(i, d)], &|p| p.latent_variance, "latent variance");
        }
    }
}

#[test]
fn gradients_of_predictions_are_those_of_finite_differences() {
    check_slopes(&fitted(fixed("matern32(ard) + linear"), |y| y), &[], "gaussian");
    let near = FitOptions { neighbours: Some(8), ..fixed("matern52(ard)") };
    check_slopes(&fitted(near, |y| y), &[], "neighbours");
    let alone = FitOptions { neighbours: Some(8), inducing: Some(0), ..fixed("matern52(ard)") };
    let x = inputs();
    let alone = fit(&alone, x.as_ref(), &target(&x));
    check_slopes(&alone, &[], "neighbours alone");
    let warped = FitOptions { warp_target: "log".parse().expect("a warp"), ..fixed("rbf(ard)") };
    check_slopes(&fitted(warped, |y| y), &[], "warped");
    let counts = FitOptions { likelihood: Some(LikelihoodKind::Poisson), ..fixed("rbf(ard)") };
    check_slopes(&fitted(counts, |y| (y / 5.0).round()), &[1.0, 2.0, 0.5, 3.0], "counts");
    let classes = FitOptions { likelihood: Some(LikelihoodKind::BernoulliLogit), ..fixed("rbf(ard)") };
    check_slopes(&fitted(classes, |y| f64::from(y > 45.0)), &[], "classes");
    let linear = FitOptions { model: ModelKind::Glm, open: Open::NOTHING, ..FitOptions::default() };
    let linear = fit(&linear, x.as_ref(), &target(&x));
    check_slopes(&linear, &[], "linear");
}
