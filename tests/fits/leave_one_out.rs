//! Leave-one-out predictions: against the closed form of exact GPs, and against fits without the row.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, MatRef};
use sparsegp::kernels::Stationary;
use sparsegp::likelihood::{Bernoulli, Gaussian, ObservationModel, Poisson};
use sparsegp::objective::Targets;
use sparsegp::options::{FitOptions, Hyper, MeanKind, ObjectiveKind};
use sparsegp::training::{Fit, Inducing, Linear, Points};

const ROWS: usize = 40;

fn inputs() -> Mat<f64> {
    Mat::from_fn(ROWS, 1, |i, _| i as f64 / 5.0 + 0.1 * (i as f64 * 1.7).sin())
}

fn fixed(options: &mut FitOptions) {
    (options.hyper, options.mean, options.standardize) = (Some(Hyper::Fixed), MeanKind::Zero, false);
}

/// `μ_i = y_i − [K⁻¹y]_i/[K⁻¹]_ii` and `σ²_i = 1/[K⁻¹]_ii` (Rasmussen & Williams 2006, eq. 5.12), with the noise in K.
#[test]
fn exact_gps_have_the_closed_form() {
    let (x, noise) = (inputs(), 0.05);
    let y: Vec<f64> = (0..ROWS).map(|i| x[(i, 0)].sin() + 0.3 * (i as f64 * 2.3).cos()).collect();
    let covariance = Mat::from_fn(ROWS, ROWS, |i, j| {
        let distance = x[(i, 0)] - x[(j, 0)];
        1.3 * (-0.5 * (distance / 0.9).powi(2)).exp() + if i == j { noise } else { 0.0 }
    });
    let inverse = covariance.partial_piv_lu().inverse();
    let gp = Inducing::new(Stationary::rbf(1.3, &[0.9])).points(Points::Given(x.clone()));
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::Vfe, ObjectiveKind::Fitc] {
        let fit = Fit::new(gp.clone(), Gaussian::new(noise)).with(fixed).objective(objective);
        let model = fit.with(|options| options.fix_inducing = true).fit(&x, &y).expect("a fit");
        let found = model.leave_one_out(&x, &y).expect("predictions");
        for i in 0..ROWS {
            let solved: f64 = (0..ROWS).map(|j| inverse[(i, j)] * y[j]).sum();
            let (mean, variance) = (y[i] - solved / inverse[(i, i)], 1.0 / inverse[(i, i)]);
            let row = found.row(i);
            let close = (row.mean - mean).abs() < 1e-4 && (row.variance / variance - 1.0).abs() < 1e-3;
            assert!(close, "{objective}, row {i}: {row:?}, {mean}, {variance}");
        }
    }
}

/// The rows of `x` except one.
fn without(x: MatRef<'_, f64>, left: usize) -> Mat<f64> {
    Mat::from_fn(x.nrows() - 1, x.ncols(), |i, d| x[(i + usize::from(i >= left), d)])
}

#[test]
fn other_models_agree_with_fits_without_the_row() {
    let x = Mat::from_fn(ROWS, 2, |i, d| if d == 0 { inputs()[(i, 0)] } else { 0.3 * (i as f64).cos() });
    let counts: Vec<f64> = (0..ROWS).map(|i| (1.0 + x[(i, 0)].sin() + x[(i, 1)]).exp().round()).collect();
    let classes: Vec<f64> =
        (0..ROWS).map(|i| f64::from((x[(i, 0)] + (i as f64 * 5.1).sin()).sin() > 0.1)).collect();
    let real: Vec<f64> = (0..ROWS).map(|i| x[(i, 0)] + x[(i, 1)] + 0.4 * (i as f64 * 2.9).sin()).collect();
    let weights: Vec<f64> = (0..ROWS).map(|i| 0.5 + (i % 3) as f64).collect();
    let gp = || {
        Inducing::new(Stationary::rbf(1.0, &[1.2]))
            .points(Points::Given(Mat::from_fn(12, 1, |i, _| 0.7 * i as f64)))
    };
    let of = |likelihood: ObservationModel, change: fn(&mut FitOptions)| {
        Fit::new(gp(), likelihood)
            .offset(1)
            .with(fixed)
            .with(|options| options.fix_inducing = true)
            .with(change)
    };
    let linear = Fit::new(Linear::default(), Gaussian::new(0.2)).with(fixed);
    let cases: [(&str, Fit, &[f64], f64); 5] = [
        ("poisson", of(Poisson::Exp.into(), |_| {}), &counts, 0.05),
        ("bernoulli", of(Bernoulli::Logit.into(), |_| {}), &classes, 0.05),
        ("sparse", of(Gaussian::new(0.2).into(), |_| {}), &real, 1e-3),
        ("beta", of(Gaussian::new(0.2).into(), |options| options.beta = 0.5), &real, 1e-3),
        ("linear", linear, &real, 1e-6),
    ];
    for (name, fit, y, tolerance) in cases {
        let model = fit.clone().weights(&weights).fit(&x, y).expect("a fit");
        let targets = Targets { weights: &weights, ..Targets::of(y) };
        let found = model.leave_one_out(&x, targets).expect("predictions");
        for left in [0, 7, 20, 33] {
            let rest: Vec<f64> = (0..ROWS).filter(|i| *i != left).map(|i| y[i]).collect();
            let others: Vec<f64> = (0..ROWS).filter(|i| *i != left).map(|i| weights[i]).collect();
            let again = fit.clone().weights(&others).fit(without(x.as_ref(), left), &rest).expect("a fit");
            let wanted = again.predict(x.as_ref().subrows(left, 1), &[]).expect("a prediction").row(0);
            let row = found.row(left);
            let sd = wanted.latent_variance.sqrt();
            let close = (row.latent_mean - wanted.latent_mean).abs() < tolerance * sd.max(0.1)
                && (row.latent_variance / wanted.latent_variance - 1.0).abs() < 4.0 * tolerance;
            assert!(close, "{name}, row {left}: {row:?}, {wanted:?}");
        }
    }
}

#[test]
fn models_with_neighbours_need_their_rows_and_means_alone_are_refused() {
    let x = inputs();
    let y: Vec<f64> = (0..ROWS).map(|i| x[(i, 0)].sin() + 0.1 * (i as f64 * 2.3).cos()).collect();
    let near = Fit::default().with(|options| options.neighbours = Some(6)).fit(&x, &y).expect("a fit");
    let found = near.leave_one_out(&x, &y).expect("predictions");
    let (own, inside) = (found.report(&y), near.predict(&x, &[]).expect("predictions").report(&y));
    assert!(own.rmse > inside.rmse);
    assert!(near.leave_one_out(without(x.as_ref(), 3), &y[1..]).is_err());
    let mean = Fit::default().objective(ObjectiveKind::DlmSquare).fit(&x, &y).expect("a fit");
    assert!(mean.leave_one_out(&x, &y).expect_err("a mean").to_string().contains("dlm-square"));
    assert!(near.leave_one_out(&x, &y[1..]).is_err());
}
