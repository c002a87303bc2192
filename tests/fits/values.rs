//! Fits and trainers from Rust: everything known of a row, values of kernels in the user's units.

use super::common::*;

fn options(likelihood: LikelihoodKind) -> FitOptions {
    let steps = StepOptions { polish: false, ..StepOptions::default() };
    let hyper = Some(Hyper::Joint);
    FitOptions { likelihood: Some(likelihood), inducing: Some(8), hyper, steps, ..FitOptions::default() }
}

/// Trains by steps of the caller alone, and returns the mean of a row of exposure 1.
fn stepped(options: FitOptions, x: &Mat<f64>, targets: Targets<'_>) -> f64 {
    let fit = Fit::of(options).exposure(targets.exposure).weights(targets.weights);
    let mut trainer = fit.trainer(x.as_ref(), targets.y).expect("a trainer");
    for step in 0..300 {
        let from = 50 * (step % 4);
        trainer.step(x.as_ref().subrows(from, 50), targets.range(from, from + 50)).expect("a step");
    }
    let model = trainer.finish().expect("a model");
    model.predict(x.as_ref().subrows(100, 1), &[]).expect("a prediction").row(0).mean
}

#[test]
fn steps_use_exposures_and_weights() {
    let x = Mat::from_fn(200, 1, |i, _| ((i * 37) % 200) as f64 / 20.0);
    let exposure: Vec<f64> = (0..200).map(|i| 1.0 + (i % 9) as f64).collect();
    // Counts that are three times their exposure have the rate 3.
    let y: Vec<f64> = exposure.iter().map(|exposure| 3.0 * exposure).collect();
    for likelihood in [LikelihoodKind::Poisson, LikelihoodKind::NegativeBinomial] {
        let targets = Targets { exposure: &exposure, ..Targets::of(&y) };
        let rate = stepped(options(likelihood), &x, targets);
        assert!((rate - 3.0).abs() < 0.15, "{likelihood}: {rate}");
    }
    // Half of the rows count a thousandth: the weighted mean is 100 / 1001.
    let (y, weights): (Vec<f64>, Vec<f64>) =
        (0..200).map(|i| if i % 2 == 0 { (0.0, 1.0) } else { (100.0, 1e-3) }).unzip();
    let targets = Targets { weights: &weights, ..Targets::of(&y) };
    let mean = stepped(options(LikelihoodKind::Gaussian), &x, targets);
    assert!((mean - 0.1).abs() < 2.0, "{mean}");
}

/// Twelve years of days with a yearly cycle.
fn years() -> (Mat<f64>, Vec<f64>) {
    let day = |i: usize| 40_000.0 + 12.0 * i as f64;
    let cycle = |i: usize| 20.0 + 8.0 * (std::f64::consts::TAU * day(i) / 365.25).sin();
    let x = Mat::from_fn(365, 1, |i, _| day(i));
    (x, (0..365).map(|i| cycle(i) + 0.3 * (i as f64 * 1.7).sin()).collect())
}

/// The value of a model with this purpose.
fn value_of(model: &Model, role: Role) -> f64 {
    model.hyperparameters().into_iter().find(|of| of.role == role).and_then(|of| of.value).expect("a value")
}

#[test]
fn values_of_typed_kernels_are_in_units_of_the_user() {
    let (x, y) = years();
    let kernel = Periodic::new(64.0, &[0.7], &[365.25]);
    let fit = |kernel: Box<dyn Kernel>, epochs: Option<usize>| {
        let fit =
            Fit::new(Inducing::new(kernel), Gaussian::default()).with(|options| options.epochs = epochs);
        fit.fit(x.as_ref(), &y).expect("a fit")
    };
    let trained = fit(kernel.clone().into(), None);
    let period = value_of(&trained, Role::Period);
    assert!((period / 365.25 - 1.0).abs() < 0.01, "{period}");
    let rmse = trained.predict(x.as_ref(), &[]).expect("predictions").report(&y).rmse.expect("an error");
    assert!(rmse < 0.3, "{rmse}");

    // Fixed values need no training.
    let fixed = fit(kernel.fixed().into(), Some(3));
    assert!((value_of(&fixed, Role::Period) - 365.25).abs() < 1e-9);
    assert!((value_of(&fixed, Role::Variance) - 64.0).abs() < 1e-9);

    // A kernel of another shape and place: a step at a day, after which the level is constant.
    let parts: Vec<Box<dyn Kernel>> =
        vec![Box::new(Stationary::matern32(9.0, &[50.0])), Box::new(Constant::new(4.0))];
    let mut step = Changepoint::new(parts);
    step.for_each_parameter_mut(&mut |parameter| match parameter.name.as_str() {
        "locations" => parameter.values = vec![41_000.0],
        "steepness" => parameter.values = vec![0.5],
        _ => {}
    });
    let model = fit(step.fixed().into(), Some(3));
    let (values, scaling) = (model.hyperparameters(), model.scaling());
    let (day, level) = (scaling.inputs[0], scaling.target.scale);
    let scaled = [(41_000.0 - day.shift) / day.scale, 0.5 * day.scale, 9.0 / level.powi(2), 50.0 / day.scale];
    for ((of, given), scaled) in values.iter().zip([41_000.0, 0.5, 9.0, 50.0]).zip(scaled) {
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() < 1e-9;
        assert!(
            near(of.value.expect("a value"), given) && near(of.scaled, scaled),
            "{of:?}, expected {given}"
        );
    }
}

#[test]
fn values_of_typed_likelihoods_are_starting_values_in_units_of_the_user() {
    let (x, y) = years();
    let fit = |likelihood: Gaussian, epochs: usize| {
        let gp = Inducing::new(Stationary::matern52(64.0, &[60.0]));
        let hyper = (epochs == 0).then_some(Hyper::Fixed);
        let fit = Fit::new(gp, likelihood)
            .with(|options| (options.epochs, options.hyper) = (Some(epochs.max(1)), hyper));
        fit.fit(x.as_ref(), &y)
    };
    let start = fit(Gaussian::new(0.25), 0).expect("a fit");
    assert!((value_of(&start, Role::Noise) - 0.25).abs() < 1e-12);
    // The noise of the data is 0.3 sin(1.7 i), of variance 0.045.
    let trained = value_of(&fit(Gaussian::new(0.25), 50).expect("a fit"), Role::Noise);
    assert!((trained / 0.045 - 1.0).abs() < 0.5, "{trained}");
    for noise in [-1.0, 0.0, f64::NAN] {
        let error = fit(Gaussian::new(noise), 1).expect_err("no variance").to_string();
        assert!(error.contains("noise_variance is") && error.contains("positive"), "{error}");
    }
}
