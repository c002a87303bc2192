//! Every pair trains: rule × objective × estimator × likelihood × family on small real data. Each result is
//! compared with the best one.

use super::common::*;
use super::fits::data_for;

const STEPS: usize = 200;

/// The maximum difference between the result of exact gradients and the best result: in nats per row, or as a
/// share of the distance from the start. (Adam's steps have a fixed length, so over a long distance it does
/// not arrive.)
const NEAR: f64 = 0.01;

/// The maximum share of the distance that sampled gradients may leave. Ten samples of bMC train a bound that
/// ends 8 % away on counts, and constant steps leave the noise of ten samples.
const ROOM: f64 = 0.1;

/// Real data of one family, at hyper-parameters near the starting values of a fit.
struct Problem {
    kind: LikelihoodKind,
    x: faer::Mat<f64>,
    y: Vec<f64>,
    model: LatentModel,
}

/// The result of a rule with a gradient: the exact objective per row after training.
struct End {
    update: QUpdate,
    estimator: Estimator,
    value: f64,
}

impl Problem {
    fn new(kind: LikelihoodKind) -> Self {
        let (table, target) = data_for(kind);
        let columns = SchemaOptions {
            target: target.to_owned(),
            target_kind: Some(kind.target_kind()),
            ..SchemaOptions::default()
        };
        let (schema, _) = Schema::infer(&table, &columns).expect("a schema");
        let mut x = schema.design(&table, UnseenLevels::Error).expect("inputs");
        let mut y = schema.target(&table).expect("targets").unwrap_or_default();
        let scaling = sparsegp::data::Scaling::standardise(x.as_ref(), &y);
        let scaling = if kind.scales_target() { scaling } else { scaling.with_original_target() };
        scaling.scale_inputs(x.as_mut());
        scaling.scale_target(&mut y);
        let levels = y.iter().fold(0.0f64, |most, y| most.max(*y)) as usize + 1;
        let options = FitOptions {
            likelihood: Some(kind),
            kernel: "rbf".into(),
            warm_start: 0,
            standardize: false,
            ..small(8, 1)
        };
        let mut data = TrainingData::of(Dataset::of(x.as_ref(), &y));
        data.levels = levels;
        let model = fit_arrays(data, &options, None, &mut |_| ()).expect("a fit").model;
        Problem { kind, model: model.factorised().expect("a factor"), x, y }
    }

    /// Returns the exact objective per row at q = prior and after steps of the rule on all rows, if the
    /// options allow the pair.
    fn train(
        &self,
        (objective, family): (ObjectiveKind, Family),
        update: QUpdate,
        estimator: Estimator,
    ) -> Option<(f64, f64)> {
        let steps = StepOptions { q_update: update, family, ..StepOptions::default() };
        let options =
            FitOptions { objective, estimator, steps, likelihood: Some(self.kind), ..FitOptions::default() };
        options.validate().ok()?;
        // The default rate of Adam is for hyper-parameters, which take more steps.
        let options = FitOptions { learning_rate: 0.05, ..options };
        let motion = InferenceOptions {
            rule: RuleOptions { relative: true, ..RuleOptions::of(update) },
            ..InferenceOptions::full_batch(update, options.step_schedule())
        };
        let sampled = Objective { loss: loss(objective, estimator), ..Objective::elbo(1.0) };
        let q = vec![Normal::standard(family, self.model.layer().dim()); self.model.likelihood.functions()];
        let set = Dataset::of(self.x.as_ref(), &self.y);
        let mut run = Inference::new(self.model.clone(), q, sampled, set, motion);
        let start = self.exact(&run, objective);
        for _ in 0..STEPS {
            run.step();
        }
        Some((start, self.exact(&run, objective)))
    }

    /// Returns the exact objective per row at the current q.
    fn exact(&self, run: &Inference<'_>, objective: ObjectiveKind) -> f64 {
        let objective = Objective { loss: loss(objective, Estimator::Exact), ..Objective::elbo(1.0) };
        let options = InferenceOptions::full_batch(QUpdate::Ngd, Schedule::Constant(0.1));
        let (q, set) = (run.model().posteriors().to_vec(), Dataset::of(self.x.as_ref(), &self.y));
        Inference::new(self.model.clone(), q, objective, set, options).objective() / self.y.len() as f64
    }
}

fn loss(objective: ObjectiveKind, estimator: Estimator) -> Loss {
    match objective {
        ObjectiveKind::Elbo => Loss::ExpectedLog(estimator),
        _ => Loss::LogPredictive(estimator),
    }
}

fn estimators(objective: ObjectiveKind) -> Vec<Estimator> {
    let samples = 10;
    match objective {
        ObjectiveKind::Elbo => vec![
            Estimator::Exact,
            Estimator::Piecewise { pieces: 20 },
            Estimator::Price { samples },
            Estimator::Energy { samples },
            Estimator::EnergyEntropy { samples },
            Estimator::StickingTheLanding { samples },
        ],
        _ => vec![
            Estimator::Exact,
            Estimator::Biased { samples },
            Estimator::Smoothed { samples, nu: 1e-4, decays: false },
            Estimator::Product { samples },
        ],
    }
}

fn check(kind: LikelihoodKind) {
    let problem = Problem::new(kind);
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        for family in [Family::Full, Family::Diagonal] {
            let (mut ends, mut start) = (Vec::new(), f64::NAN);
            for &update in QUpdate::ALL {
                for estimator in estimators(objective) {
                    if let Some((from, value)) = problem.train((objective, family), update, estimator) {
                        start = from;
                        ends.push(End { update, estimator, value });
                    }
                }
            }
            let best = ends.iter().map(|end| end.value).fold(f64::INFINITY, f64::min);
            for End { update, estimator, value } in &ends {
                let what = format!("{kind} {objective} {family} {update} {estimator}");
                let (left, share) = (value - best, (value - best) / (start - best));
                assert!(share < ROOM || left < NEAR, "{what}: {value}, best {best}, start {start}");
                let exact = !estimator.is_sampled();
                assert!(!exact || share < NEAR || left < NEAR, "{what}: {value}, best {best}, start {start}");
            }
        }
    }
}

/// The logit likelihood is the only one with piecewise bounds, and Student-t noise is not log-concave.
#[test]
fn every_rule_with_every_gradient_ends_near_the_best() {
    use LikelihoodKind as Kind;
    [Kind::Gaussian, Kind::BernoulliLogit, Kind::NegativeBinomial, Kind::StudentT]
        .into_iter()
        .for_each(check);
}
