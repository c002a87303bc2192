//! Fits of likelihoods with several functions, to targets drawn from the family: descent, probabilities of
//! zero.

use super::common;
use faer::Mat;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use sparsegp::collapsed::Dataset;
use sparsegp::likelihood::{LikelihoodKind, Observation, TargetKind};
use sparsegp::options::{FitOptions, Hyper, StepOptions};
use sparsegp::training::{Fitted, TrainingData, fit_arrays};
use sparsegp_testkit::problems::data;

/// Returns the families with several functions.
fn families() -> Vec<LikelihoodKind> {
    let all = LikelihoodKind::WORDS.iter().map(|word| word.parse::<LikelihoodKind>().expect("a likelihood"));
    let all: Vec<LikelihoodKind> = all.filter(|kind| kind.is_joint()).collect();
    assert_eq!(all.len(), 10);
    all
}

/// Returns inputs, and targets that the family draws at smooth functions of the inputs.
fn problem(kind: LikelihoodKind, n: usize) -> (Mat<f64>, Vec<f64>) {
    let (likelihood, (x, f)) = (kind.build(3), data(3, 2, n));
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let functions = likelihood.functions();
    let y = f.iter().enumerate().map(|(i, f)| {
        let at = |c: usize| match c {
            0 => 0.5 + f,
            c => -0.5 + 0.4 * (c as f64 * x[(0, i)]).sin(),
        };
        let y =
            likelihood.sample(Observation::of(1.0), &(0..functions).map(at).collect::<Vec<_>>(), &mut random);
        // 0 and 1 are not valid targets.
        if kind.target_kind() == TargetKind::UnitInterval { y.clamp(1e-9, 1.0 - 1e-9) } else { y }
    });
    let y = y.collect();
    (x, y)
}

fn quick(kind: LikelihoodKind) -> FitOptions {
    FitOptions {
        likelihood: Some(kind),
        inducing: Some(7),
        epochs: Some(2),
        warm_start: 2,
        steps: StepOptions { batch_size: 30, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

fn fit(x: &Mat<f64>, y: &[f64], options: &FitOptions) -> sparsegp::Result<Fitted> {
    let data = TrainingData { levels: 3, ..TrainingData::of(Dataset::of(x.transpose(), y)) };
    fit_arrays(data, options, None, &mut |_| {})
}

/// The reported probability of zero is the probability of y = 0 with the exposure of the row; that
/// of an extra zero is smaller.
#[test]
fn the_probability_of_zero_is_that_of_the_density() {
    let kinds = families().into_iter().filter(|kind| {
        let name = kind.to_string();
        name.starts_with("zero-inflated") || name.starts_with("hurdle")
    });
    for kind in kinds {
        let (x, y) = problem(kind, 60);
        let model = common::fit(&quick(kind), x.transpose(), &y);
        let exposure: Vec<f64> = (0..60).map(|row| 0.1 + f64::from(row) / 10.0).collect();
        let predictions = model.predict(x.transpose(), &exposure).expect("predictions");
        let inflated = kind.to_string().starts_with("zero-inflated");
        let names: &[&str] = match inflated {
            true => &["probability_of_zero", "probability_of_excess_zero"],
            false => &["probability_of_zero"],
        };
        assert_eq!(predictions.detail_names(), names, "{kind}");
        for row in 0..60 {
            let (details, zero) = (predictions.details(row), predictions.log_density(row, 0.0).exp());
            assert!((details[0] - zero).abs() < 1e-9, "{kind}: {details:?}, expected {zero}");
            assert!(!inflated || (details[1] > 0.0 && details[1] < zero), "{kind}: {details:?}");
        }
    }
}

/// Full-batch natural gradients at fixed hyper-parameters lower the objective, and no step fails.
#[test]
fn natural_gradients_descend() {
    for kind in families() {
        let (x, y) = problem(kind, 80);
        let options = FitOptions { hyper: Some(Hyper::Fixed), warm_start: 0, ..quick(kind) };
        let few = fit(&x, &y, &FitOptions { epochs: Some(1), ..options.clone() }).expect("a fit");
        let more = fit(&x, &y, &FitOptions { epochs: Some(12), ..options }).expect("a fit");
        let (few, more) = (few.summary.objective, more.summary.objective);
        assert!(more <= few + 1e-9 * few.abs().max(1.0), "{kind}: {few}, then {more}");
    }
}
