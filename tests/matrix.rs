//! No NaN, no failed fit: every likelihood, objective, model, family, q update and gradient on small real data.

use sparsegp::data::{Column, NamedColumn, SchemaOptions, Table, read_csv};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::{FitOptions, FitRequest, ModelKind, ObjectiveKind, fit_table};
use sparsegp::objective::Estimator;
use sparsegp::variational::{Average, Family, QUpdate};

const CO2: &str = include_str!("../examples/data/co2_monthly.csv");
const TUMOURS: &str = include_str!("../examples/data/breast_cancer.csv");
const VISITS: &str = include_str!("../examples/data/doctor_visits.csv");

/// Some rows of a file, with its target put through `code`.
fn table(csv: &'static str, every: usize, target: &str, code: &dyn Fn(f64) -> f64) -> Table {
    let whole = read_csv("data.csv", csv.as_bytes()).expect("the file");
    let columns = whole.columns().iter().map(|named| {
        let column = match whole.numbers(&named.name) {
            Ok(values) => {
                let kept = values.iter().step_by(every);
                let coded = |v: &f64| if named.name == target { code(*v) } else { *v };
                Column::Number(kept.map(coded).collect())
            }
            Err(_) => match &named.column {
                Column::Text(text) => {
                    Column::from_text((0..whole.rows()).step_by(every).map(|row| text.get(row)))
                }
                other => panic!("unexpected column {other:?}"),
            },
        };
        NamedColumn { name: named.name.clone(), column }
    });
    Table::new("data.csv", columns.collect()).expect("a table")
}

/// Real data that suit a likelihood, with the name of the target.
fn data_for(kind: LikelihoodKind) -> (Table, &'static str) {
    use sparsegp::data::TargetKind::{Binary, Count, Ordinal, Positive, Real, UnitInterval};
    match kind.target_kind() {
        Real => (table(CO2, 5, "co2", &|y| y), "co2"),
        Positive => (table(CO2, 5, "co2", &|y| y - 300.0), "co2"),
        UnitInterval => (table(CO2, 5, "co2", &|y| (y - 300.0) / 100.0), "co2"),
        Count => (table(VISITS, 50, "visits", &|y| y), "visits"),
        Ordinal => (table(VISITS, 50, "visits", &|y| y.min(4.0)), "visits"),
        Binary => (table(TUMOURS, 5, "diagnosis", &|y| y), "diagnosis"),
    }
}

/// Objectives with their estimators; square loss and collapsed bounds are for Gaussian noise.
fn objectives(kind: LikelihoodKind) -> Vec<(ObjectiveKind, Estimator)> {
    use ObjectiveKind::{DlmLog, DlmSquare, Elbo, Fitc, Vfe};
    let mut all = vec![
        (Elbo, Estimator::Exact),
        (DlmLog, Estimator::Exact),
        (DlmLog, Estimator::Biased { samples: 5 }),
        (DlmLog, Estimator::Smoothed { samples: 5, nu: 0.01 }),
        (DlmLog, Estimator::Product { samples: 5 }),
    ];
    if kind == LikelihoodKind::Gaussian {
        all.extend([DlmSquare, Vfe, Fitc].map(|objective| (objective, Estimator::Exact)));
    }
    all
}

/// Small fits of one family of likelihoods.
struct Fits {
    kind: LikelihoodKind,
    table: Table,
    columns: SchemaOptions,
}

impl Fits {
    fn of(kind: LikelihoodKind) -> Self {
        let (table, target) = data_for(kind);
        let columns = SchemaOptions { target: target.to_owned(), ..SchemaOptions::default() };
        Fits { kind, table, columns }
    }

    /// What the fits have in common.
    fn options(&self) -> FitOptions {
        FitOptions {
            likelihood: Some(self.kind),
            inducing: Some(8),
            epochs: Some(8),
            warm_start: 5,
            batch_size: 40,
            ..FitOptions::default()
        }
    }

    /// Fits, and demands numbers everywhere.
    fn check(&self, options: &FitOptions) {
        let FitOptions { model, objective, estimator, q_update, family, seed, .. } = options;
        let what = format!("{} {model} {objective} {estimator} {q_update} {family} seed {seed}", self.kind);
        let request = FitRequest {
            table: &self.table,
            columns: &self.columns,
            options,
            test_fraction: 0.2,
            start: None,
            keep_posterior: false,
        };
        let fit = fit_table(&request, &mut |_| {}).unwrap_or_else(|error| panic!("{what}: {error}"));
        let summary = fit.model.summary();
        assert!(summary.objective.is_finite(), "{what}: objective {}", summary.objective);
        for (name, value) in fit.model.hyperparameters() {
            assert!(value.is_finite(), "{what}: {name} is {value}");
        }
        let test = fit.test.expect("test rows");
        let report = fit.model.predict_part(&test).report(&test.targets);
        assert_eq!(report.nll.is_some(), *objective != ObjectiveKind::DlmSquare, "{what}: {report:?}");
        assert!(report.mse.is_some() || report.error_rate.is_some(), "{what}: {report:?}");
        fit.model.to_bytes().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

fn check(kind: LikelihoodKind) {
    let fits = Fits::of(kind);
    for (objective, estimator) in objectives(kind) {
        for q_update in [QUpdate::Ngd, QUpdate::Adam] {
            for seed in 0..5 {
                fits.check(&FitOptions { objective, estimator, q_update, seed, ..fits.options() });
            }
        }
    }
    check_rules(&fits);
}

/// Every rule on sparse GPs and linear models, full and diagonal, with every gradient that it takes, down to one sample.
fn check_rules(fits: &Fits) {
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
                    family,
                    estimator,
                    q_update: word.parse().expect("a rule"),
                    q_average: [Average::None, Average::Expectation, Average::Tail][seed % 3],
                    seed: seed as u64,
                    batch_size: 39,
                    inducing: (model == ModelKind::Gp).then_some(8),
                    ..fits.options()
                };
                if options.validate().is_ok() {
                    fits.check(&options);
                    checked += 1;
                }
            }
        }
    }
    // Four gradients for each of seven rules, but no sticking the landing for prox-sgd, on four kinds of model; and bounds.
    let bounds = if fits.kind == LikelihoodKind::BernoulliLogit { 28 } else { 0 };
    assert_eq!(checked, 4 * 27 + bounds);
}

/// One test per family, so that a failure names it and they run side by side.
macro_rules! families {
    ($($name:ident = $word:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            check($word.parse().expect("a likelihood"));
        })+

        #[test]
        fn no_family_is_left_out() {
            assert_eq!(LikelihoodKind::WORDS, [$($word),+]);
        }
    };
}

families! {
    gaussian = "gaussian",
    bernoulli_probit = "bernoulli-probit",
    bernoulli_logit = "bernoulli-logit",
    poisson = "poisson",
    poisson_softplus = "poisson-softplus",
    negative_binomial = "negative-binomial",
    student_t = "student-t",
    gamma = "gamma",
    exponential = "exponential",
    beta_logit = "beta-logit",
    beta_probit = "beta-probit",
    ordinal = "ordinal",
}
