//! A fit in words and numbers: rows of text that commands print and pages show.

mod beside;
mod overview;
pub mod parameters;
mod search;

pub use beside::{confusion_line, confusion_table, full, short};
pub(super) use beside::{sources, telling, telling_of};
pub use overview::{
    coefficient_count, coefficient_text, conformal_row, ended, evidence, group_rows, objective, offset_rows,
    overview, place_rows, prior, prior_variance, stopped,
};
pub(super) use overview::{coefficient_table, correlations, interval_words, with_interval};
pub(super) use search::search_figure;
pub use search::search_rows;

pub(crate) use sparsegp_tables::readable::significant;
pub use sparsegp_tables::readable::{count, duration, few, number};

use sparsegp::metrics::Report;

/// Returns a row of a name and words.
pub fn row(name: &str, words: impl Into<String>) -> Vec<String> {
    vec![name.to_owned(), words.into()]
}

/// Formats a mean with two digits of its standard error, if it is known.
pub(super) fn with_error(mean: f64, error: Option<f64>) -> String {
    // Rounding errors of equal values count as 0.
    let error = error.map(|error| if error > 1e-12 * mean.abs() { error } else { 0.0 });
    number(mean) + &error.map_or(String::new(), |error| format!(" ± {}", significant(error, 2)))
}

/// Cuts a text to at most `most` characters; a text that is cut ends with `…`.
pub fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Formats rows of cells as text with aligned columns.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            // Formatting would refuse a width above 65535.
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the scores of a report that apply, with their names.
pub fn report_rows(report: &Report) -> Vec<(String, String)> {
    report_values(report).into_iter().map(|(name, value)| (name.to_owned(), number(value))).collect()
}

pub(super) fn report_value(report: &Report, name: &str) -> Option<f64> {
    report_values(report).into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Like [`report_rows`], as numbers.
fn report_values(report: &Report) -> Vec<(&'static str, f64)> {
    let figures = [
        ("NLL", report.nll),
        // For two classes, the CRPS is the Brier score.
        ("CRPS", report.crps.filter(|_| report.brier.is_none())),
        ("concordance", report.concordance),
        ("integrated Brier score", report.integrated_brier),
        ("survival gap", report.survival_gap),
        ("error rate", report.error_rate),
        ("accuracy", report.accuracy),
        ("AUC", report.auc),
        ("Brier score", report.brier),
        ("calibration error", report.ece),
        ("RMSE", report.rmse),
        ("MAE", report.mae),
        ("R²", report.r2),
        ("mean relative error", report.mre),
        ("deviance", report.deviance),
        ("95 % coverage", report.coverage.as_ref().and_then(|coverage| coverage.central_95)),
        ("95 % width", report.interval_width_95),
        ("95 % interval score", report.interval_score_95),
    ];
    figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
