//! Whole fits on small data: mini-batches against the collapsed bound, options, difficult data,
//! diagnosis.

use super::common::fit_columns as fit;
use sparsegp::options::{FitOptions, Hyper, MeanKind, ObjectiveKind, StepOptions};
use sparsegp::variational::QUpdate;
use sparsegp_testkit::problems::data;

fn options(objective: ObjectiveKind) -> FitOptions {
    FitOptions {
        objective,
        inducing: Some(25),
        steps: StepOptions { batch_size: 100, ..StepOptions::default() },
        ..FitOptions::default()
    }
}

#[test]
fn mini_batches_reach_the_collapsed_bound() {
    let (x, y) = data(1, 2, 600);
    let vfe = fit(&x, &y, &options(ObjectiveKind::Vfe)).expect("vfe");
    for (q_update, warm_start, tolerance) in
        [(QUpdate::Ngd, 100, 0.005), (QUpdate::Ngd, 0, 0.03), (QUpdate::Adam, 100, 0.005)]
    {
        let options = FitOptions {
            warm_start,
            learning_rate: 0.02,
            steps: StepOptions { q_update, ..options(ObjectiveKind::Elbo).steps },
            ..options(ObjectiveKind::Elbo)
        };
        let svgp = fit(&x, &y, &options).expect("elbo");
        let gap = svgp.summary.objective - vfe.summary.objective;
        assert!(gap < tolerance, "{q_update:?} from {warm_start}: {gap} nats a datum above");
        assert!(svgp.summary.elbo_sum.is_some_and(|elbo| elbo == -svgp.summary.objective_sum));
    }
}

#[test]
fn fits_recover_the_noise_and_report_their_work() {
    let (x, y) = data(2, 2, 800);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Fitc, ObjectiveKind::Elbo] {
        let fitted = fit(&x, &y, &options(objective)).expect("fit");
        let named = fitted.model.named_values();
        let noise = named.iter().find(|(n, _)| n == "likelihood.noise_variance").expect("noise").1;
        assert!((noise - 0.04).abs() < 0.01, "{objective}: noise variance {noise}, simulated 0.04");
        let summary = &fitted.summary;
        assert_eq!(summary.epochs, summary.trace.len());
        assert!(summary.evaluations > 0 && summary.seconds > 0.0 && summary.jitter > 0.0);
        if objective == ObjectiveKind::Vfe {
            let (lower, upper) = (summary.elbo_sum, summary.evidence_upper_bound);
            assert!(lower.expect("lower") <= upper.expect("upper"));
        }
    }
}

#[test]
fn fixed_hyper_parameters_train_q_alone() {
    let (x, y) = data(4, 2, 200);
    for objective in [ObjectiveKind::Vfe, ObjectiveKind::Elbo] {
        let fixed = FitOptions { hyper: Some(Hyper::Fixed), epochs: Some(5), ..options(objective) };
        let fixed = fit(&x, &y, &fixed).expect("fit");
        let start = FitOptions {
            epochs: Some(1),
            warm_start: 0,
            learning_rate: 1e-12,
            ..options(ObjectiveKind::Elbo)
        };
        let start = fit(&x, &y, &start).expect("fit");
        let moved =
            fixed.model.natural().iter().zip(start.model.natural()).any(|(a, b)| (a - b).abs() > 1e-9);
        assert!(!moved, "{objective}: hyper-parameters moved although fixed");
        assert!(fixed.q[0].mean().iter().any(|m| *m != 0.0), "q was trained");
    }
}

#[test]
fn a_zero_mean_stays_zero_and_a_constant_one_is_learned() {
    let (x, mut y) = data(5, 2, 200);
    y.iter_mut().for_each(|y| *y += 5.0);
    let mean = |kind: MeanKind| {
        let options = FitOptions { mean: kind, ..options(ObjectiveKind::Vfe) };
        let named = fit(&x, &y, &options).expect("fit").model.named_values();
        named.into_iter().find(|(n, _)| n == "mean.constant").expect("mean").1
    };
    assert_eq!(mean(MeanKind::Zero), 0.0);
    assert!((mean(MeanKind::Constant) - 5.0).abs() < 2.0);
}
