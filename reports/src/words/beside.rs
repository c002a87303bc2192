//! The scores of a fit as rows of text, beside those of training rows and baselines, and the
//! confusion matrix.

use super::{count, number, report_rows, report_value};
use crate::Evaluation;
use sparsegp::likelihood::Task;
use sparsegp::metrics::Report;

const MOST: usize = 4;

const MOST_CLASSES: usize = 4;

/// Returns the names of the main scores of a task, most important first.
pub(crate) fn telling(task: Task) -> &'static [&'static str] {
    match task {
        // Only censored targets have the second and the third. Deviances of counts under different dispersions cannot be compared.
        Task::Regression | Task::Count => {
            &["NLL", "concordance", "integrated Brier score", "RMSE", "CRPS", "95 % coverage", "MAE", "R²"]
        }
        Task::Classification => &["NLL", "error rate", "AUC", "calibration error", "Brier score"],
        Task::Ordinal => &["NLL", "error rate", "CRPS", "95 % coverage"],
    }
}

/// Returns the names of at most `most` main scores of a task that these figures contain.
pub(crate) fn telling_of(figures: &[(String, String)], task: Task, most: usize) -> Vec<&'static str> {
    let has = |name: &&&str| figures.iter().any(|(known, _)| known == **name);
    telling(task).iter().filter(has).take(most).copied().collect()
}

/// Returns the sources of scores: the name, the number of rows, and the scores.
pub(crate) fn sources(test: &Evaluation) -> Vec<(&str, u64, &Report)> {
    let mut sources = vec![("test", test.rows, &test.report)];
    sources.extend(test.train.iter().map(|train| ("training", train.rows, &train.report)));
    let baselines = test.baselines.iter().flat_map(|baselines| baselines.all());
    sources.extend(baselines.map(|baseline| (baseline.name, test.rows, &baseline.report)));
    sources
}

fn stands_alone(test: &Evaluation) -> bool {
    test.train.is_none() && test.baselines.is_none()
}

/// Returns a table with a header and a row each for test rows, training rows and baselines, with the scores of `names` that the test rows
/// have.
fn across(test: &Evaluation, names: &[&str]) -> Vec<Vec<String>> {
    let line = |first: &str, cell: &dyn Fn(&str) -> String, last: String| -> Vec<String> {
        let cells = names.iter().map(|name| cell(name));
        std::iter::once(first.to_owned()).chain(cells).chain([last]).collect()
    };
    let row = |(name, rows, report): (&str, u64, &Report)| {
        let cell = |wanted: &str| report_value(report, wanted).map_or("-".to_owned(), number);
        line(name, &cell, count(rows as usize))
    };
    let header = line("", &str::to_owned, "rows".to_owned());
    std::iter::once(header).chain(sources(test).into_iter().map(row)).collect()
}

/// Returns a table of the main scores of the test rows, and the names and values of all other scores.
pub fn short(test: &Evaluation, task: Task) -> (Vec<Vec<String>>, Vec<(String, String)>) {
    let mut figures = report_rows(&test.report);
    if stands_alone(test) {
        return (Vec::new(), figures);
    }
    let names = telling_of(&figures, task, MOST);
    figures.retain(|(name, _)| !names.contains(&name.as_str()));
    (across(test, &names), figures)
}

/// Returns a table with a header and a row for each score of the test rows; `None` if nothing can be compared with them.
pub fn full(test: &Evaluation) -> Option<Vec<Vec<String>>> {
    let figures = report_rows(&test.report);
    let names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
    let across = across(test, &names);
    let turned = |column: usize| across.iter().map(|row| row[column].clone()).collect();
    (!stands_alone(test)).then(|| (0..=names.len()).map(turned).collect())
}

/// Returns the confusion matrix with the names of classes or levels: a row per true class with its recall, and the precision in the last
/// row. Empty without a matrix.
pub fn confusion_table(report: &Report, classes: &[String]) -> Vec<Vec<String>> {
    let Some(confusion) = &report.confusion else { return Vec::new() };
    let mut header = vec!["true".to_owned()];
    header.extend(classes.iter().map(|class| format!("as {class}")));
    header.push("recall".to_owned());
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    let row = |(class, name): (usize, &String)| {
        let counts = (0..classes.len()).map(|taken| confusion.count(class, taken).to_string());
        std::iter::once(name.clone()).chain(counts).chain([percent(confusion.recall(class))]).collect()
    };
    let precision = (0..classes.len()).map(|class| percent(confusion.precision(class)));
    let last = std::iter::once("precision".to_owned()).chain(precision).chain([String::new()]).collect();
    std::iter::once(header).chain(classes.iter().enumerate().map(row)).chain([last]).collect()
}

/// Returns the confusion matrix of a few classes as one line.
pub fn confusion_line(report: &Report, classes: &[String]) -> Option<String> {
    let confusion = report.confusion.as_ref().filter(|_| classes.len() <= MOST_CLASSES)?;
    let row = |(class, name): (usize, &String)| {
        let cell = |(taken, other): (usize, &String)| format!("{} as {other}", confusion.count(class, taken));
        let cells: Vec<String> = classes.iter().enumerate().map(cell).collect();
        format!("{name}: {}", cells.join(", "))
    };
    Some(classes.iter().enumerate().map(row).collect::<Vec<_>>().join("; "))
}
