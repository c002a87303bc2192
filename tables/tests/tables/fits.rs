//! Small fits of every family to real data, whose results must all be numbers.

use super::common::*;

const CO2: &str = sparsegp_data::CO2_MONTHLY;
const TUMOURS: &str = sparsegp_data::BREAST_CANCER;
const VISITS: &str = sparsegp_data::DOCTOR_VISITS;

/// Returns some rows of a file, with `code` applied to the target.
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

/// Returns real data that suit a likelihood, and the name of the target.
pub fn data_for(kind: LikelihoodKind) -> (Table, &'static str) {
    use sparsegp::likelihood::TargetKind::{
        Amount, Binary, Censored, CensoredCount, Class, Count, Lifetime, Measured, Ordinal, Positive, Real,
        Share, Trials, UnitInterval,
    };
    match kind.target_kind() {
        Real | Measured | Censored => (table(CO2, 5, "co2", &|y| y), "co2"),
        Amount => (table(CO2, 5, "co2", &|y| (y - 320.0).max(0.0)), "co2"),
        Share => (table(CO2, 5, "co2", &|y| ((y - 320.0) / 30.0).clamp(0.0, 1.0)), "co2"),
        // Without trials every row has one.
        Trials => (table(VISITS, 50, "visits", &|y| y.min(1.0)), "visits"),
        Positive | Lifetime => (table(CO2, 5, "co2", &|y| y - 300.0), "co2"),
        UnitInterval => (table(CO2, 5, "co2", &|y| (y - 300.0) / 100.0), "co2"),
        Count | CensoredCount => (table(VISITS, 50, "visits", &|y| y), "visits"),
        Ordinal | Class => (table(VISITS, 50, "visits", &|y| y.min(4.0)), "visits"),
        Binary => (table(TUMOURS, 5, "diagnosis", &|y| y), "diagnosis"),
    }
}

/// Returns the objectives of a likelihood, with their estimators. Square loss and collapsed bounds need
/// Gaussian noise.
pub fn objectives(kind: LikelihoodKind) -> Vec<(ObjectiveKind, Estimator)> {
    use ObjectiveKind::{DlmLog, DlmSquare, Elbo, Fitc, Vfe};
    let mut all = vec![
        (Elbo, Estimator::Exact),
        (DlmLog, Estimator::Exact),
        (DlmLog, Estimator::Biased { samples: 5 }),
        (DlmLog, Estimator::Smoothed { samples: 5, nu: 0.01, decays: true }),
        (DlmLog, Estimator::Product { samples: 5 }),
    ];
    if kind == LikelihoodKind::Gaussian {
        all.extend([DlmSquare, Vfe, Fitc].map(|objective| (objective, Estimator::Exact)));
    }
    all
}

/// Small fits of one family of likelihoods.
pub struct Fits {
    pub kind: LikelihoodKind,
    pub table: Table,
    pub columns: SchemaOptions,
}

impl Fits {
    pub fn of(kind: LikelihoodKind) -> Self {
        let (table, name) = data_for(kind);
        Fits { kind, table, columns: target(name) }
    }

    pub fn options(&self) -> FitOptions {
        FitOptions { likelihood: Some(self.kind), warm_start: 5, steps: batches_of(40), ..small(8, 8) }
    }

    /// A fit with a fifth of the rows held out.
    pub fn fit(&self, options: &FitOptions) -> sparsegp::Result<TableFit> {
        let request = FitRequest::new(&self.table, &self.columns, options);
        let request = FitRequest { test_fraction: 0.2, ..request };
        fit_table(&request, &mut |_| {})
    }

    pub fn name(&self, options: &FitOptions) -> String {
        let FitOptions { model, objective, estimator, seed, .. } = options;
        let StepOptions { q_update, family, .. } = &options.steps;
        format!("{} {model} {objective} {estimator} {q_update} {family} seed {seed}", self.kind)
    }

    /// Fits a model, and checks that all results are numbers.
    pub fn check(&self, options: &FitOptions) -> TableFit {
        let what = self.name(options);
        let fit = self.fit(options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let summary = fit.model.summary();
        assert!(summary.objective.is_finite(), "{what}: objective {}", summary.objective);
        for (name, value) in fit.model.hyperparameters() {
            assert!(value.is_finite(), "{what}: {name} is {value}");
        }
        let test = fit.test.as_ref().expect("test rows");
        let report = fit.model.predict_part(test).report(&test.targets);
        assert_eq!(report.nll.is_some(), options.objective != ObjectiveKind::DlmSquare, "{what}: {report:?}");
        assert!(report.mse.is_some() || report.error_rate.is_some(), "{what}: {report:?}");
        fit.model.to_bytes().unwrap_or_else(|error| panic!("{what}: {error}"));
        fit
    }
}
