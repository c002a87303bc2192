//! Results do not depend on units: small fits to real data in other units of inputs and target.

use super::common::*;
use super::fits::{Fits, objectives};

/// Other units: `(value + shift·s)·scale` for inputs of standard deviation s, `value·target` for real targets.
///
/// The shift comes before the scale, so that its ratio to the spread is the same in all units: it leaves ten
/// digits of a column of spread 1. After a scale of 1e-8 it would leave two digits, and no model could
/// restore the others.
#[derive(Clone, Copy, Debug)]
struct Units {
    scale: f64,
    shift: f64,
    target: f64,
}

const ORIGINAL: Units = Units { scale: 1.0, shift: 0.0, target: 1.0 };

const HOSTILE: [Units; 6] = [
    Units { scale: 1e8, ..ORIGINAL },
    Units { scale: 1e-8, ..ORIGINAL },
    Units { shift: 1e6, ..ORIGINAL },
    Units { target: 1e6, ..ORIGINAL },
    Units { target: 1e-6, ..ORIGINAL },
    Units { scale: 1e-8, shift: -1e6, target: 1e6 },
];

fn deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt()
}

impl Units {
    /// Returns the same fits in these units. Only real targets have units.
    fn of(self, fits: &Fits) -> Fits {
        let real = fits.kind.target_kind() == TargetKind::Real;
        let change = |named: &NamedColumn| {
            let target = named.name == fits.columns.target;
            let column = match &named.column {
                Column::Number(values) if target && real => {
                    Column::Number(values.iter().map(|value| value * self.target).collect())
                }
                Column::Number(values) if !target => {
                    let shift = self.shift * deviation(values);
                    Column::Number(values.iter().map(|value| (value + shift) * self.scale).collect())
                }
                other => other.clone(),
            };
            NamedColumn { name: named.name.clone(), column }
        };
        let columns = fits.table.columns().iter().map(change).collect();
        let table = Table::new("other units", columns).expect("a table");
        Fits { kind: fits.kind, table, columns: fits.columns.clone() }
    }

    /// Returns the unit of the target as a multiple of the original unit.
    fn target_unit(self, kind: LikelihoodKind) -> f64 {
        if kind.target_kind() == TargetKind::Real { self.target } else { 1.0 }
    }
}

/// Returns the means and variances of the test rows, in the original units of the target.
fn predictions(fit: &TableFit, unit: f64) -> Vec<[f64; 2]> {
    let test = fit.test.as_ref().expect("test rows");
    let predictions = fit.model.predict_part(test);
    let row = |row: usize| {
        let moments = predictions.row(row);
        [moments.mean / unit, moments.variance / unit / unit]
    };
    (0..predictions.rows()).map(row).collect()
}

/// Returns the test NLL in original units, or for models without a density the mean squared error as a share
/// of the variance of the targets.
fn score(fit: &TableFit, unit: f64) -> f64 {
    let test = fit.test.as_ref().expect("test rows");
    let report = fit.model.predict_part(test).report(&test.targets);
    match report.nll {
        Some(nll) => nll - unit.ln(),
        // Divided by the variance of the targets, so that 0.01 is as small as 0.01 nats.
        None => report.mse.expect("a squared error") / deviation(&test.targets).powi(2),
    }
}

fn compare(what: &str, original: &TableFit, other: &TableFit, unit: f64, tolerance: f64) {
    let spread = deviation(&predictions(original, 1.0).iter().map(|row| row[0]).collect::<Vec<_>>());
    let (before, after) = (predictions(original, 1.0), predictions(other, unit));
    for (row, (before, after)) in before.iter().zip(&after).enumerate() {
        let mean = (before[0] - after[0]).abs() / (before[0].abs().min(spread) + spread);
        assert!(mean <= tolerance, "{what}: mean {} of row {row} became {}", before[0], after[0]);
        // Undefined for a mean-only model, in all units.
        let (before, after) = (before[1], after[1]);
        let same = before.is_nan() && after.is_nan() || (before - after).abs() / before <= tolerance;
        assert!(same, "{what}: variance {before} of row {row} became {after}");
    }
}

/// Returns every objective with its estimators, with natural gradients and with Adam.
fn settings(fits: &Fits) -> Vec<FitOptions> {
    let mut all = Vec::new();
    for (objective, estimator) in objectives(fits.kind) {
        for q_update in [QUpdate::Ngd, QUpdate::Adam] {
            let steps = StepOptions { q_update, ..fits.options().steps };
            all.push(FitOptions { objective, estimator, steps, ..fits.options() });
        }
    }
    for objective in [ObjectiveKind::Elbo, ObjectiveKind::DlmLog] {
        all.push(FitOptions { model: ModelKind::Glm, inducing: None, objective, ..fits.options() });
    }
    all
}

/// With fixed hyper-parameters only rounding differs, so predictions agree to 1e-6.
fn check_fixed(fits: &Fits) {
    for options in settings(fits) {
        if options.estimator != Estimator::Exact {
            continue;
        }
        let options = FitOptions { hyper: Some(Hyper::Fixed), ..options };
        let original = fits.check(&options);
        for units in HOSTILE {
            let what = format!("fixed {} in {units:?}", fits.name(&options));
            let other = units.of(fits).check(&options);
            compare(&what, &original, &other, units.target_unit(fits.kind), 1e-6);
        }
    }
}

/// Scores of trained fits agree to 0.01 nats.
fn check_trained(fits: &Fits) {
    for options in settings(fits) {
        let original = fits.check(&options);
        for units in HOSTILE {
            let other = units.of(fits).check(&options);
            let (before, after) = (score(&original, 1.0), score(&other, units.target_unit(fits.kind)));
            let what = fits.name(&options);
            assert!((before - after).abs() <= 0.01, "{what} in {units:?}: {before} became {after}");
        }
    }
}

/// Real targets, with units of their own, counts and levels.
#[test]
fn results_do_not_depend_on_units() {
    use LikelihoodKind as Kind;
    for fits in [Kind::Gaussian, Kind::StudentT, Kind::Poisson, Kind::Ordinal].map(Fits::of) {
        check_fixed(&fits);
        check_trained(&fits);
    }
}
