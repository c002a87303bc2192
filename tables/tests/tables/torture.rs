//! Degenerate data and extreme hyper-parameters: known results are reproduced.

use super::common::*;

const ROWS: usize = 24;

/// Returns an irregular number between −1 and 1.
fn odd(k: usize) -> f64 {
    (12.9898 * k as f64 + 0.5).sin()
}

fn by_row(f: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..ROWS).map(f).collect()
}

const OBJECTIVES: [ObjectiveKind; 5] = [
    ObjectiveKind::Elbo,
    ObjectiveKind::DlmLog,
    ObjectiveKind::DlmSquare,
    ObjectiveKind::Vfe,
    ObjectiveKind::Fitc,
];

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
                if objective == ObjectiveKind::DlmLog {
                    assert!(fitted.summary.objective.is_finite(), "{what}");
                    continue;
                }
                let got = fitted.posterior.marginals(tests.transpose());
                assert_all_close(&got.mean, &mean, 1e-5, &what);
                // The squared error defines neither a variance nor an evidence.
                if objective != ObjectiveKind::DlmSquare {
                    assert_all_close(&got.variance, &variance, 1e-5, &what);
                    assert_close(-fitted.summary.objective_sum, evidence, 1e-5, &what);
                }
            }
        }
    }
}
