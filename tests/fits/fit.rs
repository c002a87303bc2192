//! Ways to train against each other: all of them end near the collapsed bound, and the best validated parameters are kept.

use super::common::fit_columns as fit;
use super::common::*;

fn options(objective: ObjectiveKind) -> FitOptions {
    FitOptions { objective, inducing: Some(25), steps: batches_of(100), ..FitOptions::default() }
}

#[test]
fn every_way_to_train_ends_near_the_collapsed_bound() {
    let (x, y) = data(1, 2, 600);
    let vfe = fit(&x, &y, &options(ObjectiveKind::Vfe)).expect("vfe").summary.objective;
    let elbo = || options(ObjectiveKind::Elbo);
    let batches = |q_update, warm_start| FitOptions {
        warm_start,
        learning_rate: 0.02,
        steps: StepOptions { q_update, ..elbo().steps },
        ..elbo()
    };
    let together =
        FitOptions { hyper: Some(Hyper::Joint), hyper_optimizer: Some(HyperOptimizer::Lbfgs), ..elbo() };
    for (what, options, tolerance) in [
        ("ngd", batches(QUpdate::Ngd, 100), 0.005),
        ("ngd without a warm start", batches(QUpdate::Ngd, 0), 0.03),
        ("adam", batches(QUpdate::Adam, 100), 0.005),
        ("alternating", FitOptions { hyper: Some(Hyper::Alternating), ..elbo() }, 0.001),
        ("everything by L-BFGS", FitOptions { tolerance: Some(1e-9), epochs: Some(3000), ..together }, 0.001),
    ] {
        let summary = fit(&x, &y, &options).expect("elbo").summary;
        let gap = summary.objective - vfe;
        assert!(gap < tolerance, "{what}: {gap} nats a datum above");
        assert_eq!(summary.elbo_sum, Some(-summary.objective_sum), "{what}");
    }
}

#[test]
fn the_best_validated_parameters_of_full_batch_searches_are_kept() {
    let (x, y) = data(3, 2, 90);
    let part = |from: usize, rows: usize| Dataset {
        x: x.transpose().subrows(from, rows),
        targets: Targets::of(&y[from..from + rows]),
    };
    let (train, validation) = (part(0, 60), part(60, 30));
    for hyper in [Hyper::Collapsed, Hyper::Alternating] {
        let options = FitOptions { hyper: Some(hyper), tolerance: Some(0.0), patience: 8, ..small(25, 60) };
        let data = TrainingData { train, validation: Some(validation), levels: 0 };
        let fitted = fit_arrays(data, &options, None, &mut |_| {}).expect("a fit");
        let scores = fitted.summary.trace.iter().map(|record| record.validation_nll.expect("a score"));
        let best = scores.fold(f64::INFINITY, f64::min);
        let kept = fitted.posterior.score(validation, Score::LogLoss);
        assert!((kept - best).abs() < 1e-9, "{hyper}: kept {kept}, best {best}");
    }
}
