//! No NaN, no failed fit: every likelihood, model, family, q update and gradient on small real data; `scalings` has every objective.

use super::fits::Fits;
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::objective::Estimator;
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp::variational::{Average, Family, QUpdate};

/// Checks every rule on sparse GPs and linear models, full and diagonal, with every gradient that it
/// supports, down to one sample.
fn check(kind: LikelihoodKind) {
    let fits = Fits::of(kind);
    let samples = 1;
    let estimators = [
        Estimator::Exact,
        Estimator::Piecewise { pieces: 5 },
        Estimator::Price { samples },
        Estimator::Energy { samples },
        Estimator::EnergyEntropy { samples },
        Estimator::StickingTheLanding { samples },
    ];
    let mut checked = 0;
    for word in QUpdate::WORDS {
        for (model, family) in [ModelKind::Gp, ModelKind::Glm]
            .into_iter()
            .flat_map(|model| [(model, Family::Full), (model, Family::Diagonal)])
        {
            for (seed, estimator) in estimators.into_iter().enumerate() {
                let options = FitOptions {
                    model,
                    estimator,
                    seed: seed as u64,
                    inducing: (model == ModelKind::Gp).then_some(8),
                    steps: StepOptions {
                        family,
                        q_update: word.parse().expect("a rule"),
                        q_average: [Average::None, Average::Expectation, Average::Tail][seed % 3],
                        batch_size: 39,
                        ..fits.options().steps
                    },
                    ..fits.options()
                };
                if options.validate().is_ok() {
                    fits.check(&options);
                    checked += 1;
                }
            }
        }
    }
    // Four gradients for each of eight rules, except sticking the landing for prox-sgd, on four kinds of
    // model; and bounds.
    let bounds = if fits.kind == LikelihoodKind::BernoulliLogit { 32 } else { 0 };
    assert_eq!(checked, 4 * 31 + bounds);
}

sparsegp_testkit::per_family!(check);
