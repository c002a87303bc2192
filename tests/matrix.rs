//! No NaN, no failed fit: every likelihood, objective and q update over five seeds on small real data.

use sparsegp::data::{Column, NamedColumn, SchemaOptions, Table, read_csv};
use sparsegp::likelihood::LikelihoodKind;
use sparsegp::model::{FitOptions, FitRequest, ObjectiveKind, fit_table};
use sparsegp::objective::Estimator;
use sparsegp::variational::QUpdate;

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

fn check(kind: LikelihoodKind) {
    let (table, target) = data_for(kind);
    let columns = SchemaOptions { target: target.to_owned(), ..SchemaOptions::default() };
    for (objective, estimator) in objectives(kind) {
        for q_update in [QUpdate::Ngd, QUpdate::Adam] {
            for seed in 0..5 {
                let options = FitOptions {
                    likelihood: Some(kind),
                    objective,
                    estimator,
                    q_update,
                    seed,
                    inducing: Some(8),
                    epochs: Some(8),
                    warm_start: 5,
                    batch_size: 40,
                    ..FitOptions::default()
                };
                let request = FitRequest {
                    table: &table,
                    columns: &columns,
                    options: &options,
                    test_fraction: 0.2,
                    start: None,
                    keep_posterior: false,
                };
                let what = format!("{kind} {objective} {estimator} {q_update} seed {seed}");
                let fit = fit_table(&request, &mut |_| {}).unwrap_or_else(|error| panic!("{what}: {error}"));
                let summary = fit.model.summary();
                assert!(summary.objective.is_finite(), "{what}: objective {}", summary.objective);
                for (name, value) in fit.model.hyperparameters() {
                    assert!(value.is_finite(), "{what}: {name} is {value}");
                }
                let test = fit.test.expect("test rows");
                let report = fit.model.predict_part(&test).report(&test.targets);
                assert_eq!(report.nll.is_some(), objective != ObjectiveKind::DlmSquare, "{what}: {report:?}");
                assert!(report.mse.is_some() || report.error_rate.is_some(), "{what}: {report:?}");
                fit.model.to_bytes().unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
    }
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
