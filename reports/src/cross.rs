//! The scores of a cross-validation: the scores of every fit, their means over the fits, and the standard errors of these means.

use super::words::{report_rows, report_value, telling_of, with_error};
use super::{BaselineReport, Evaluation};
use serde::Serialize;
use sparsegp::data::Moments;
use sparsegp::likelihood::Task;
use sparsegp::metrics::Report;

const MOST: usize = 3;

/// The scores of the fits of a cross-validation, each on the rows that it left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CrossValidation {
    folds: Vec<FoldFigures>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    against: Vec<Contender>,
}

#[derive(Clone, Debug, Serialize)]
struct Contender {
    options: String,
    folds: Vec<FoldFigures>,
}

#[derive(Clone, Debug, Serialize)]
struct FoldFigures {
    rows: u64,
    #[serde(flatten)]
    report: Report,
    baselines: Option<BaselineReport>,
}

impl FoldFigures {
    fn of(test: &Evaluation) -> FoldFigures {
        let (rows, report, baselines) = (test.rows, test.report.clone(), test.baselines.clone());
        FoldFigures { rows, report, baselines }
    }

    fn baseline(&self, place: usize) -> Option<&Report> {
        Some(&self.baselines.as_ref()?.all().nth(place)?.report)
    }
}

impl CrossValidation {
    /// Collects the scores of fits, one for each part.
    pub fn of(tests: &[Evaluation]) -> CrossValidation {
        CrossValidation { folds: tests.iter().map(FoldFigures::of).collect(), against: Vec::new() }
    }

    /// Adds the scores of fits with other options, one for each part.
    pub fn push_contender(&mut self, options: String, tests: &[Evaluation]) {
        self.against.push(Contender { options, folds: tests.iter().map(FoldFigures::of).collect() });
    }

    /// Returns a table with a header and the main scores of the model, of the fits with other options, and of
    /// the baselines that every fit has: means over the fits and their standard errors. If there are fits
    /// with other options, the last column is the difference of their first score from that of the model.
    pub fn table(&self, task: Task) -> Vec<Vec<String>> {
        let Some(first) = self.folds.first() else { return Vec::new() };
        let compared = !self.against.is_empty();
        let most = if compared { MOST - 1 } else { MOST };
        let names = telling_of(&report_rows(&first.report), task, most);
        let main = names.first().filter(|_| compared);
        let header = std::iter::once(String::new()).chain(names.iter().map(|name| (*name).to_owned()));
        let mut table = vec![header.chain(main.map(|name| format!("{name} difference"))).collect()];
        let own: Vec<&Report> = self.folds.iter().map(|fold| &fold.report).collect();
        let row = |name: String, reports: &[&Report]| -> Vec<String> {
            let cells = names.iter().map(|name| cell(&values(reports, name)));
            let difference = main.map(|main| {
                let pairs = values(reports, main).into_iter().zip(values(&own, main));
                cell(&pairs.map(|(other, own)| other - own).collect::<Vec<_>>())
            });
            std::iter::once(name).chain(cells).chain(difference).collect()
        };
        let mut of_model = row(format!("{} fits", self.folds.len()), &own);
        if let Some(difference) = of_model.last_mut().filter(|_| compared) {
            difference.clear();
        }
        table.push(of_model);
        for Contender { options, folds } in &self.against {
            table.push(row(options.clone(), &folds.iter().map(|fold| &fold.report).collect::<Vec<_>>()));
        }
        for (place, baseline) in first.baselines.iter().flat_map(BaselineReport::all).enumerate() {
            let reports = self.folds.iter().map(|fold| fold.baseline(place)).collect::<Option<Vec<_>>>();
            table.extend(reports.map(|reports| row(baseline.name.to_owned(), &reports)));
        }
        table
    }
}

fn values(reports: &[&Report], name: &str) -> Vec<f64> {
    reports.iter().filter_map(|report| report_value(report, name)).collect()
}

/// Returns the mean of a score and its standard error, `s/√K` for K fits.
fn cell(values: &[f64]) -> String {
    let moments = Moments::of(values.iter().copied());
    moments.mean().map_or("-".to_owned(), |mean| with_error(mean, moments.standard_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_show_the_mean_and_its_standard_error() {
        let report = |nll| Report { nll: Some(nll), ..Report::default() };
        let reports = [report(1.0), report(2.0), report(3.0)];
        // s = 1, s/√3 = 0.577.
        assert_eq!(cell(&values(&reports.iter().collect::<Vec<_>>(), "NLL")), "2 ± 0.58");
        assert_eq!(cell(&values(&[&reports[0]], "NLL")), "1");
        assert_eq!(cell(&values(&[&reports[0]], "RMSE")), "-");
        // Rounding errors of equal values count as 0.
        assert_eq!(
            [with_error(-1234.6, Some(56.7)), with_error(0.5, Some(6e-17))],
            ["-1235 ± 57", "0.5 ± 0"]
        );
    }
}
