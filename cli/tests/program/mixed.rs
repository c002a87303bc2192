//! Mixed precision: its difference from double precision, the fall-back, and options that it cannot be combined with.

use faer::Mat;
use sparsegp::collapsed::Dataset;
use sparsegp::gradient::{Batch, Precision};
use sparsegp::hyper::Event;
use sparsegp::latent::Jitter;
use sparsegp::likelihood::Gaussian;
use sparsegp::model::{MixedUse, Warning};
use sparsegp::objective::{Objective, Targets};
use sparsegp::options::{FitOptions, Hyper, StepOptions};
use sparsegp::training::{Start, TrainingData, VariationalModel, fit_arrays};
use sparsegp::variational::{Family, NaturalGradient, Normal};
use sparsegp_testkit::problems::{data, model};
use sparsegp_testkit::program::Work;

/// Returns a model after a few steps in a precision.
fn stepped(x: &Mat<f64>, y: &[f64], noise: f64, jitter: Jitter, precision: Precision) -> VariationalModel {
    let mut model = model(1, "rbf(ard)", 2, 20, jitter);
    model.likelihood = Gaussian::new(noise).into();
    let q = Normal::standard(Family::Full, 20);
    let mut rule = NaturalGradient::new(&q);
    let mut svgp = VariationalModel::new(model, q, Objective::elbo(1.0), y.len()).with_precision(precision);
    for _ in 0..5 {
        svgp.evaluate(Batch::of(x.transpose(), y, 1.0), false);
        svgp.update_q(&mut rule, 0.5);
    }
    svgp
}

#[test]
fn values_and_gradients_equal_those_of_double_precision_up_to_single_precision() {
    let (x, y) = data(1, 2, 150);
    let batch = Batch::of(x.transpose(), &y, 3.0);
    let [mut double, mut mixed] = [Precision::Double, Precision::Mixed]
        .map(|precision| stepped(&x, &y, 0.1, Jitter::Absolute(1e-3), precision));
    let (want, got) = (double.evaluate(batch, true), mixed.evaluate(batch, true));
    // The tolerance is ε₃₂ times the condition number of L, which the jitter keeps below 200, for each of the 150 terms of order 1.
    assert!((want - got).abs() < 1e-4 * want.abs() && want != got, "{want} and {got}");
    let want = double.theta_gradient().to_vec();
    let largest = want.iter().fold(0.0f64, |a, g| a.max(g.abs()));
    for (want, got) in want.iter().zip(mixed.theta_gradient()) {
        assert!((want - got).abs() < 1e-4 * largest, "{want} and {got}");
    }
    let used = mixed.mixed_use().expect("it was asked for");
    assert!(!used.fallen_back && used.disagreement > 0.0 && used.evaluations == 6, "{used:?}");
    assert_eq!(double.mixed_use(), None);
}

#[test]
fn if_single_precision_is_too_rough_the_fit_returns_to_double() {
    let (x, y) = data(1, 2, 150);
    let [mut double, mut mixed] = [Precision::Double, Precision::Mixed]
        .map(|precision| stepped(&x, &y, 1e-7, Jitter::Absolute(1e-9), precision));
    let batch = Batch::of(x.transpose(), &y, 1.0);
    // The first steps were in single precision.
    double.set_q(mixed.q().clone());
    assert_eq!(double.evaluate(batch, true), mixed.evaluate(batch, true));
    assert_eq!(double.theta_gradient(), mixed.theta_gradient());
    let used = mixed.mixed_use().expect("it was asked for");
    assert!(used.fallen_back && used.disagreement > MixedUse::TOLERANCE, "{used:?}");
}

#[test]
fn a_fit_warns_that_it_returned_to_double_precision() {
    let (x, y) = data(1, 2, 150);
    let train = Dataset { x: x.transpose(), targets: Targets::of(&y) };
    let mut rough = model(1, "rbf(ard)", 2, 20, Jitter::Absolute(1e-9));
    rough.likelihood = Gaussian::new(1e-7).into();
    let options = FitOptions {
        hyper: Some(Hyper::Fixed),
        jitter: Jitter::Absolute(1e-9),
        epochs: Some(5),
        steps: StepOptions { precision: Precision::Mixed, batch_size: 50, ..StepOptions::default() },
        ..FitOptions::default()
    };
    let start = Start { model: rough.to_prior(), q: None };
    let fitted = fit_arrays(TrainingData::of(train), &options, Some(&start), &mut |_: &Event| {});
    let summary = fitted.expect("a fit").summary;
    let used = summary.mixed.expect("it was asked for");
    assert!(used.fallen_back, "{used:?}");
    let said = Warning::TooRough { disagreement: used.disagreement };
    assert!(summary.warnings.contains(&said), "{:?}", summary.warnings);
}

#[test]
fn fits_end_at_the_optimum_of_double_precision() {
    let (x, y) = data(2, 2, 300);
    let train = Dataset { x: x.transpose(), targets: Targets::of(&y) };
    let fit = |precision, hyper| {
        let options = FitOptions {
            hyper: Some(hyper),
            inducing: Some(20),
            epochs: Some(20),
            steps: StepOptions { precision, batch_size: 60, ..StepOptions::default() },
            ..FitOptions::default()
        };
        fit_arrays(TrainingData::of(train), &options, None, &mut |_: &Event| {}).expect("a fit").summary
    };
    for hyper in [Hyper::Joint, Hyper::Dual, Hyper::Fixed] {
        let (double, mixed) = (fit(Precision::Double, hyper), fit(Precision::Mixed, hyper));
        let difference = double.objective - mixed.objective;
        assert!(difference.abs() < 1e-3, "{hyper}: {difference}");
        let used = mixed.mixed.expect("it was asked for");
        assert!(used.evaluations >= 100 && !used.fallen_back, "{hyper}: {used:?}");
        assert_eq!(double.mixed, None);
    }
}

#[test]
fn the_command_line_reports_the_precision_and_refuses_it_without_batches() {
    let work = Work::new();
    let document = work.fit("--precision mixed");
    assert_eq!(document["config"]["precision"], "mixed");
    assert_eq!(document["config"]["hyper"], "dual");
    assert_eq!(document["fit"]["mixed_precision"]["fallen_back"], false);
    for (more, expected) in [
        ("--objective vfe", "--precision"),
        ("--hyper collapsed", "--precision"),
        ("--hyper alternating", "--precision"),
        ("--objective dlm-log --estimator bmc:5", "--precision mixed is checked against double precision"),
    ] {
        work.run(&format!("fit data.csv --target y --quiet --precision mixed {more}")).fails(2, &[expected]);
    }
}
