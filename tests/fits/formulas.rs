//! Fits with a kernel and a likelihood from formulas against the built-in ones, their model files, and formulas that fail.

use super::common::*;
use sparsegp::Registry;
use sparsegp_testkit::density_formulas::{self, Normal};
use sparsegp_testkit::kernel_formulas::{Periodic, Rbf, Stretched};

fn rows() -> (Mat<f64>, Vec<f64>) {
    let x = Mat::from_fn(60, 2, |i, d| (i as f64 * [0.377, 0.731][d]).sin());
    let noise = |i: usize| if i.is_multiple_of(9) { 0.8 } else { 0.1 * (i as f64 * 7.3).sin() };
    let y = (0..60).map(|i| (3.0 * x[(i, 0)]).sin() + x[(i, 1)].powi(2) + noise(i)).collect();
    (x, y)
}

fn inducing(kernel: impl Into<Box<dyn Kernel>>) -> Inducing {
    Inducing::new(kernel).points(Points::Greedy(10))
}

/// Trains to the optimum, so that small differences in gradients do not matter.
fn settle(options: &mut FitOptions) {
    // Trained inducing inputs would have directions that hardly matter.
    options.fix_inducing = true;
    options.tolerance = Some(1e-11);
    options.epochs = Some(2000);
    options.hyper = Some(Hyper::Joint);
    options.hyper_optimizer = Some(HyperOptimizer::Lbfgs);
}

fn objective(fit: Fit) -> f64 {
    let (x, y) = rows();
    let model = fit.with(settle).fit(x.as_ref(), &y).unwrap();
    model.summary().objective
}

#[test]
fn fits_of_formulas_reach_the_objective_of_the_built_in_parts() {
    let own = || FormulaKernel::new(Rbf { columns: 2 });
    let built_in = || Stationary::ard(Profile::SquaredExponential, 2);
    let noise =
        || FormulaLikelihood::new(density_formulas::StudentT { scale: 0.3, df: 4.0, has_moments: true });
    let gaussian = [
        objective(Fit::new(inducing(own()), Gaussian::default())),
        objective(Fit::new(inducing(built_in()), Gaussian::default())),
    ];
    assert!((gaussian[0] - gaussian[1]).abs() < 1e-6, "{gaussian:?}");
    let mut given = noise();
    OneFunction::for_each_parameter_mut(&mut given, &mut |parameter| parameter.given = true);
    let heavy = [
        objective(Fit::new(inducing(own()), given)),
        objective(Fit::new(inducing(built_in()), StudentT::new(0.3, 4.0))),
    ];
    assert!((heavy[0] - heavy[1]).abs() < 1e-6, "{heavy:?}");
}

#[test]
fn model_files_of_formulas_are_read_by_a_registry() {
    let (x, y) = rows();
    let registry = Registry::default()
        .with_kernel(FormulaKernel::<Periodic>::ENTRY)
        .and_then(|registry| {
            registry.with_likelihood(|_| Box::new(FormulaLikelihood::new(Normal::default())))
        })
        .unwrap();
    let options = FitOptions {
        kernel: "own_periodic + rbf(ard)".into(),
        likelihood: registry.likelihood_kind("own-normal"),
        registry: registry.clone(),
        inducing: Some(15),
        epochs: Some(20),
        ..FitOptions::default()
    };
    let model = Fit::of(options).fit(x.as_ref(), &y).unwrap();
    let (again, _) = Model::from_bytes_with("model", &model.to_bytes().unwrap(), &registry).unwrap();
    let [a, b] = [&model, &again].map(|model| model.predict(x.subrows(0, 5), &[]).unwrap());
    assert!((0..5).all(|i| a.row(i) == b.row(i) && a.quantile(i, 0.9) == b.quantile(i, 0.9)));
    assert!((a.row(3).mean - y[3]).abs() < 0.5);
}

#[test]
fn formulas_without_finite_values_end_fits_with_the_reason() {
    let (x, y) = rows();
    let fails = |fit: Fit| fit.fit(x.as_ref(), &y).expect_err("a formula that fails").to_string();
    // The logarithm of some standardised inputs is undefined.
    let undefined = FormulaKernel::new(Stretched { room: 0.5 });
    let reason = fails(Fit::new(inducing(undefined), Gaussian::default()));
    assert_eq!(reason, "the kernel stretched has values that are not finite at its current parameters");
    let formula = Normal { undefined_above: Some(1.0), ..Normal::default() };
    let reason = fails(Fit::new(inducing(Stationary::rbf(1.0, &[1.0])), FormulaLikelihood::new(formula)));
    assert_eq!(
        reason,
        "the log density of own-normal has the value NaN at y = 1.9908 and f = 1.9908, expected a finite number"
    );
}

/// Noise of variance σ² + s², where s is the covariate of the row.
#[derive(Clone, Debug)]
struct WithErrors;

impl DensityFormula for WithErrors {
    const NAME: &'static str = "with-errors";
    const TARGET: TargetKind = TargetKind::Real;
    const COVARIATE: Option<&'static str> = Some("standard error");

    fn parameters(&self) -> Vec<Parameter> {
        let mut noise = Parameter::positive("noise_variance", vec![0.01]);
        noise.given = true;
        vec![noise]
    }

    fn log_density<D: sparsegp::kernels::real::Derivatives>(
        &self,
        p: &[Real<D>],
        at: Observation,
        f: Real<D>,
    ) -> Real<D> {
        let variance = p[0] + at.exposure * at.exposure;
        -0.5 * ((at.y - f).powi(2) / variance + (variance * (2.0 * std::f64::consts::PI)).ln())
    }
}

/// An own density with a covariate for each row is the built-in one with known noise.
#[test]
fn a_covariate_of_every_row_reaches_an_own_density() {
    let (x, y) = rows();
    let errors: Vec<f64> = (0..60).map(|i| 0.05 + 0.1 * f64::from(i % 7)).collect();
    let plain = |options: &mut FitOptions| {
        settle(options);
        (options.standardize, options.mean) = (false, sparsegp::options::MeanKind::Zero);
    };
    let kernel = || Stationary::rbf(1.0, &[1.0]);
    let own = Fit::new(inducing(kernel()), FormulaLikelihood::new(WithErrors)).exposure(&errors).with(plain);
    let built_in =
        Fit::new(inducing(kernel()), Gaussian::new(0.01).with_known_noise()).exposure(&errors).with(plain);
    let [own, built_in] = [own, built_in].map(|fit| fit.fit(x.as_ref(), &y).expect("a fit"));
    let (a, b) = (own.summary().objective, built_in.summary().objective);
    assert!((a - b).abs() < 1e-5 * b.abs().max(1.0), "{a} instead of {b}");
    let wide =
        |model: &Model, s: f64| model.predict(x.subrows(0, 1), &[s]).expect("predictions").row(0).variance;
    assert!((wide(&own, 2.0) - wide(&own, 0.0) - 4.0).abs() < 1e-6);
    let error = own.predict(x.subrows(0, 1), &[f64::NAN]).expect_err("no number").to_string();
    assert!(error.contains("NaN for 'standard error' in row 0"), "{error}");
    let error = Fit::new(inducing(kernel()), StudentT::new(0.3, 4.0)).exposure(&errors).fit(x.as_ref(), &y);
    assert!(error.expect_err("no covariate").to_string().contains("uses none"));
}
