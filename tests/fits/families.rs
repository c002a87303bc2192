//! Fits of families with trials and with exact ends recover the parameters that their targets were drawn with.

use super::common::*;

/// A fit to rows drawn from a likelihood.
struct Drawn {
    model: Model,
    x: Mat<f64>,
    y: Vec<f64>,
    exposure: Vec<f64>,
    /// The functions at every row.
    f: Vec<[f64; 2]>,
}

impl Drawn {
    fn predictions(&self) -> Predictions {
        self.model.predict(self.x.as_ref(), &self.exposure).expect("predictions")
    }

    /// Returns the mean log predictive density of the rows.
    fn log_density(&self) -> f64 {
        let predictions = self.predictions();
        let densities = (0..self.y.len()).map(|row| predictions.log_density(row, self.y[row]));
        densities.sum::<f64>() / self.y.len() as f64
    }
}

/// Fits to rows drawn at a smooth function of the first input, and a second function of the other input.
fn drawn(truth: &dyn Likelihood, trials: &dyn Fn(usize) -> f64, objective: ObjectiveKind) -> Drawn {
    const ROWS: usize = 1000;
    let (columns, _) = data(11, 2, ROWS);
    let x = columns.transpose().to_owned();
    let functions = |i: usize| [(1.3 * x[(i, 0)]).sin(), -1.0 + 0.5 * x[(i, 1)]];
    let f: Vec<[f64; 2]> = (0..ROWS).map(functions).collect();
    let mut random = ChaCha8Rng::seed_from_u64(17);
    let counted = truth.target_kind() == TargetKind::Trials;
    let exposure: Vec<f64> = (0..ROWS).filter(|_| counted).map(trials).collect();
    let draw = |i: usize| {
        let at = Observation::exposed(1.0, exposure.get(i).copied().unwrap_or(1.0));
        truth.sample(at, &f[i][..truth.functions()], &mut random)
    };
    let y: Vec<f64> = (0..ROWS).map(draw).collect();
    let options = FitOptions {
        likelihood: Some(truth.kind()),
        kernel: "rbf(ard)".into(),
        inducing: Some(30),
        objective,
        ..FitOptions::default()
    };
    let model = Fit::of(options).exposure(&exposure).fit(x.as_ref(), &y).expect("a fit");
    Drawn { model, x, y, exposure, f }
}

/// Checks of a fit by the ELBO that own parameters are within a share of the true ones, and that the mean of every function is near it on
/// average. The log loss fits the spread of targets by the variance of the functions as well as by the likelihood, so a fit by it only has to
/// predict as well.
fn check(truth: &dyn Likelihood, trials: &dyn Fn(usize) -> f64, share: f64, error: f64) {
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    let fit = drawn(truth, trials, ObjectiveKind::Elbo);
    truth.for_each_parameter(&mut |p| wanted.extend(p.values.iter().map(|v| (p.name.clone(), *v))));
    fit.model.latent().likelihood.for_each_parameter(&mut |p| found.extend(p.values.iter().copied()));
    for ((name, wanted), found) in wanted.iter().zip(&found) {
        let near = (found - wanted).abs() <= share * wanted.abs();
        assert!(near, "{}: {name} {found} instead of {wanted}", truth.name());
    }
    let predictions = fit.predictions();
    for function in 0..truth.functions() {
        let far = |row: usize| (predictions.latent(row, function).0 - fit.f[row][function]).powi(2);
        let distance = ((0..fit.y.len()).map(far).sum::<f64>() / fit.y.len() as f64).sqrt();
        assert!(distance < error, "{}: function {function} {distance}", truth.name());
    }
    let direct = drawn(truth, trials, ObjectiveKind::DlmLog);
    let (own, other) = (fit.log_density(), direct.log_density());
    assert!(other > own - 0.02, "{}: {other} by the log loss, {own} by the ELBO", truth.name());
}

#[test]
fn successes_in_trials_have_their_probabilities_and_their_precision() {
    let trials = |i: usize| (1 + 7 * i % 30) as f64;
    check(&Binomial, &trials, 0.0, 0.15);
    check(&BetaBinomial::new(8.0), &trials, 0.15, 0.2);
}

#[test]
fn shares_with_exact_ends_have_their_cut_points_and_their_precision() {
    check(&OrderedBeta::new(-1.5, 3.0, 10.0), &|_| 1.0, 0.12, 0.2);
}

#[test]
fn amounts_with_exact_zeros_have_their_parameters() {
    check(&Tweedie::new(1.5, 0.8), &|_| 1.0, 0.1, 0.2);
    check(&ZeroAltered::hurdle_gamma(2.0), &|_| 1.0, 0.12, 0.3);
    check(&ZeroAltered::hurdle_log_normal(0.25), &|_| 1.0, 0.12, 0.3);
}
