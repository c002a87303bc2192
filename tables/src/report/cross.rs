//! The scores of a cross-validation: the scores of every fit, their means over the fits, and the standard errors of these means.

use super::words::{number, report_rows, report_values, significant, telling_of};
use super::{BaselineReport, Evaluation};
use serde::Serialize;
use sparsegp::data::Moments;
use sparsegp::likelihood::Task;
use sparsegp::metrics::Report;

/// The maximum number of scores that a summary shows.
const MOST: usize = 3;

/// The scores of the fits of a cross-validation, each on the rows that it left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CrossValidation {
    folds: Vec<FoldFigures>,
}

/// The scores of one fit.
#[derive(Clone, Debug, Serialize)]
struct FoldFigures {
    rows: u64,
    #[serde(flatten)]
    report: Report,
    baselines: Option<BaselineReport>,
}

impl FoldFigures {
    fn baseline(&self, place: usize) -> Option<&Report> {
        Some(&self.baselines.as_ref()?.all().nth(place)?.report)
    }
}

impl CrossValidation {
    /// Adds the scores of one fit.
    pub fn push(&mut self, test: &Evaluation) {
        let (rows, report, baselines) = (test.rows, test.report.clone(), test.baselines.clone());
        self.folds.push(FoldFigures { rows, report, baselines });
    }

    /// Returns the main scores of the model and of the baselines that every fit has, as a table with a header: means over the fits and their
    /// standard errors.
    pub fn table(&self, task: Task) -> Vec<Vec<String>> {
        let Some(first) = self.folds.first() else { return Vec::new() };
        let names = telling_of(&report_rows(&first.report), task, MOST);
        let header = std::iter::once(String::new()).chain(names.iter().map(|name| (*name).to_owned()));
        let mut table = vec![header.collect()];
        let own: Vec<&Report> = self.folds.iter().map(|fold| &fold.report).collect();
        table.push(row(format!("{} fits", self.folds.len()), &own, &names));
        for (place, baseline) in first.baselines.iter().flat_map(BaselineReport::all).enumerate() {
            let reports = self.folds.iter().map(|fold| fold.baseline(place)).collect::<Option<Vec<_>>>();
            table.extend(reports.map(|reports| row(baseline.name.to_owned(), &reports, &names)));
        }
        table
    }
}

fn row(name: String, reports: &[&Report], names: &[&str]) -> Vec<String> {
    std::iter::once(name).chain(names.iter().map(|name| cell(reports, name))).collect()
}

/// Returns the mean of a score and its standard error, `s/√K` for K fits.
fn cell(reports: &[&Report], name: &str) -> String {
    let value = |report: &Report| report_values(report).into_iter().find(|(known, _)| *known == name);
    let mut moments = Moments::default();
    reports.iter().filter_map(|report| value(report)).for_each(|(_, value)| moments.push(value));
    let Some(mean) = moments.mean() else { return "-".to_owned() };
    match moments.standard_error() {
        Some(error) => format!("{} ± {}", number(mean), significant(error, 2)),
        None => number(mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_show_the_mean_and_its_standard_error() {
        let report = |nll| Report { nll: Some(nll), ..Report::default() };
        let reports = [report(1.0), report(2.0), report(3.0)];
        // s = 1, s/√3 = 0.577.
        assert_eq!(cell(&reports.iter().collect::<Vec<_>>(), "NLL"), "2 ± 0.58");
        assert_eq!(cell(&[&reports[0]], "NLL"), "1");
        assert_eq!(cell(&[&reports[0]], "RMSE"), "-");
    }
}
