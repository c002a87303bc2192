//! The records of all fits of a comparison, and their file.

use super::plan::{Contender, Plan, Unit};
use crate::tables::column::number_text;
use crate::tables::csv_text;
use crate::tabular::TableModel;
use serde::{Deserialize, Serialize};
use sparsegp::error::{Error, Result};
use sparsegp::hyper::StopReason;
use sparsegp::metrics::Report;
use sparsegp::options::Hyper;
use sparsegp::word_option;

word_option! {
    /// The purpose of a fit.
    #[non_exhaustive]
    Role, "role" {
        /// The only fit of its unit.
        Single = "single",
        /// A fit of the grid of β, to the training rows without the validation rows.
        Grid = "grid",
        /// The fit with the chosen β, to all training rows.
        Selected = "selected",
    }
}

/// The record of one fit of a comparison, which may have failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The contender.
    pub objective: Contender,
    /// The mode in which hyper-parameters were tuned.
    pub hyper: Hyper,
    /// The weight of the KL term, if it is known.
    pub beta: Option<f64>,
    /// The purpose of the fit.
    pub role: Role,
    /// The number of training rows of the unit.
    pub train_size: usize,
    /// The number of the repeat, from 0.
    pub repeat: u64,
    /// Its seed.
    pub seed: u64,
    /// The outcome of the fit, unless it failed.
    pub fit: Option<FitOutcome>,
    /// For the grid: the score on the validation rows, on the scale the model sees. For the selected fit: the score of its β.
    pub validation_score: Option<f64>,
    /// The test figures.
    pub test: Report,
    /// Classification: the reliability curve of the test rows.
    pub reliability: Vec<(f64, f64, u64)>,
    /// The error, if the fit failed.
    pub error: Option<String>,
}

/// The outcome of one fit of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitOutcome {
    /// Seconds of training.
    pub seconds: f64,
    /// Passes over the data, or iterations of L-BFGS.
    pub epochs: usize,
    /// The reason why training stopped.
    pub stop_reason: StopReason,
    /// The number of steps that were rolled back or shrunk.
    pub rollbacks: usize,
    /// The minimised objective per training row, if it is finite.
    pub objective: Option<f64>,
}

impl FitOutcome {
    /// Returns the outcome of a fitted model.
    pub fn of(model: &TableModel) -> FitOutcome {
        let summary = model.summary();
        FitOutcome {
            seconds: summary.seconds,
            epochs: summary.epochs,
            stop_reason: summary.stop_reason,
            rollbacks: summary.rollbacks,
            objective: Some(summary.objective).filter(|objective| objective.is_finite()),
        }
    }
}

impl Row {
    /// Creates the record of a fit that has not run yet.
    pub fn new(plan: &Plan<'_>, unit: Unit, role: Role) -> Row {
        let settings = &plan.settings;
        Row {
            objective: unit.contender,
            hyper: settings.options(unit.contender, unit.repeat).hyper_mode(),
            beta: None,
            role,
            train_size: unit.size,
            repeat: unit.repeat,
            seed: settings.seed(unit.repeat),
            fit: None,
            validation_score: None,
            test: Report::default(),
            reliability: Vec::new(),
            error: None,
        }
    }

    /// Returns a cell about the outcome, empty if the fit failed.
    fn of_fit(&self, cell: fn(&FitOutcome) -> String) -> String {
        self.fit.as_ref().map_or_else(String::new, cell)
    }

    /// Returns the test figures by name, in the order of the files.
    pub fn figures(&self) -> Vec<(String, Option<f64>)> {
        figures(&self.test)
    }
}

/// Returns the figures of a report by name, in the order of the files.
fn figures(test: &Report) -> Vec<(String, Option<f64>)> {
    let coverage = test.coverage.clone().unwrap_or_default();
    let named = [
        ("nll", test.nll),
        ("mse", test.mse),
        ("rmse", test.rmse),
        ("mae", test.mae),
        ("error_rate", test.error_rate),
        ("auc", test.auc),
        ("brier", test.brier),
        ("mre", test.mre),
        ("smse", test.smse),
        ("r2", test.r2),
        ("deviance", test.deviance),
        ("ece", test.ece),
        ("interval_width_95", test.interval_width_95),
        ("interval_score_95", test.interval_score_95),
        ("crps", test.crps),
        ("concordance", test.concordance),
        ("integrated_brier", test.integrated_brier),
        ("survival_gap", test.survival_gap),
        ("coverage_50", coverage.central_50),
        ("coverage_80", coverage.central_80),
        ("coverage_90", coverage.central_90),
        ("coverage_95", coverage.central_95),
    ];
    let pit = (0..10).map(|bin| (format!("pit_{bin}"), test.pit.map(|shares| shares[bin])));
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(pit).collect()
}

pub(super) fn figure_names() -> Vec<String> {
    figures(&Report::default()).into_iter().map(|(name, _)| name).collect()
}

/// All fits of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The fits, ordered by training-set size, repeat, contender and descending β.
    pub rows: Vec<Row>,
}

impl Results {
    /// Returns the fit that represents each unit: the only one, or the one with the chosen β.
    pub fn chosen(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.role != Role::Grid)
    }

    /// Returns the errors of the units that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&Row, &str)> {
        self.chosen().filter_map(|row| Some((row, row.error.as_deref()?)))
    }

    /// Returns the failures in words; failures with the same error are combined.
    pub fn failures_alike(&self) -> Vec<String> {
        let mut folded: Vec<(&Row, &str, usize)> = Vec::new();
        for (row, error) in self.failures() {
            match folded.iter_mut().find(|(_, known, _)| *known == error) {
                Some((_, _, count)) => *count += 1,
                None => folded.push((row, error, 1)),
            }
        }
        let words = folded.iter().map(|(row, error, count)| {
            let others = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            let Row { objective, train_size, repeat, .. } = row;
            format!("{objective} on {train_size} rows in repeat {repeat}{others}: {error}")
        });
        words.collect()
    }

    /// Returns the error of a comparison without any successful fit.
    ///
    /// # Errors
    ///
    /// If every unit failed.
    pub fn check(&self) -> Result<()> {
        match self.failures().next() {
            Some((_, error)) if self.chosen().all(|row| row.error.is_some()) => Err(Error::fit(format!(
                "all {} fits failed; the first error: {error}",
                self.chosen().count()
            ))
            .hint("results.csv lists all errors; repeat the command to try the failed fits again")),
            _ => Ok(()),
        }
    }
}

/// Formats the file of all fits, one row each; values that do not apply are empty.
///
/// # Errors
///
/// If the text cannot be built, which does not happen for any row.
pub fn results_csv(results: &Results) -> Result<String> {
    let first = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
    let header: Vec<String> =
        first.chain(figure_names()).chain(std::iter::once("error".to_owned())).collect();
    let rows = results.rows.iter().map(|row| {
        let mut cells: Vec<String> = COLUMNS.iter().map(|(_, value)| value(row)).collect();
        cells.extend(row.figures().into_iter().map(|(_, value)| cell(value)));
        cells.push(row.error.clone().unwrap_or_default());
        cells
    });
    csv_text(&header, rows)
}

/// The name of a column of the file, and the cell of a fit.
type ResultColumn = (&'static str, fn(&Row) -> String);

const COLUMNS: [ResultColumn; 13] = [
    ("objective", |row| row.objective.to_string()),
    ("hyper", |row| row.hyper.to_string()),
    ("beta", |row| cell(row.beta)),
    ("role", |row| row.role.to_string()),
    ("train_size", |row| row.train_size.to_string()),
    ("repeat", |row| row.repeat.to_string()),
    ("seed", |row| row.seed.to_string()),
    ("seconds", |row| row.of_fit(|fit| cell(Some(fit.seconds)))),
    ("epochs", |row| row.of_fit(|fit| fit.epochs.to_string())),
    ("stop_reason", |row| row.of_fit(|fit| fit.stop_reason.word().to_owned())),
    ("rollbacks", |row| row.of_fit(|fit| fit.rollbacks.to_string())),
    ("objective_value", |row| row.of_fit(|fit| cell(fit.objective))),
    ("validation_score", |row| cell(row.validation_score)),
];

pub(super) fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| number_text(value).into_owned())
}
