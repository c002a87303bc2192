//! Whole fits on small data: mini-batches against the collapsed bound, options, difficult data,
//! diagnosis.

use super::common::fit_columns as fit;
use sparsegp::options::{FitOptions, ObjectiveKind, StepOptions};
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
