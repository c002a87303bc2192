//! Means and standard errors of the test figures over repeats, and their file.

use super::plan::Contender;
use super::results::{Results, Role, Row, cell, figure_names};
use crate::tables::csv_text;
use sparsegp::data::Moments;
use sparsegp::error::Result;

/// A mean with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The standard error of the mean; `None` for a single value.
    pub standard_error: Option<f64>,
}

impl Estimate {
    /// Returns the mean and standard error of some values; `None` without values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Estimate> {
        let mut moments = Moments::default();
        values.for_each(|value| moments.push(value));
        Some(Estimate { mean: moments.mean()?, standard_error: moments.standard_error() })
    }
}

/// The fits of one contender, training-set size and role; with the role `Grid`, of one β.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The contender.
    pub objective: Contender,
    /// The number of training rows.
    pub train_size: usize,
    /// The purpose of the fits.
    pub role: Role,
    /// The value of β. If it was chosen, the median over repeats (for an even number, the geometric mean of the middle two).
    pub beta: Option<f64>,
    /// The fits that did not fail.
    pub runs: usize,
    /// The test figures, in the order of [`Row::figures`].
    pub figures: Vec<Option<Estimate>>,
    /// The test NLL of each repeat that did not fail.
    pub nlls: Vec<(u64, f64)>,
    /// Mean seconds of training.
    pub seconds: Option<f64>,
}

impl Group {
    /// Returns the estimate of a test figure, by the name of its column.
    pub fn figure(&self, name: &str) -> Option<Estimate> {
        let index = figure_names().iter().position(|known| known == name)?;
        *self.figures.get(index)?
    }

    /// Returns by how much the test NLL of another group is higher, over the repeats that both have; `None` if there are none.
    pub fn lead_over(&self, other: &Group) -> Option<Estimate> {
        let own = |repeat| self.nlls.iter().find(|(known, _)| *known == repeat).map(|(_, nll)| nll);
        Estimate::of(other.nlls.iter().filter_map(|(repeat, nll)| Some(nll - own(*repeat)?)))
    }

    fn of(rows: &[&Row]) -> Option<Group> {
        let first = rows.first()?;
        let runs: Vec<&&Row> = rows.iter().filter(|row| row.error.is_none()).collect();
        let figures: Vec<Vec<_>> = runs.iter().map(|row| row.figures()).collect();
        let estimate =
            |index: usize| Estimate::of(figures.iter().filter_map(|figures| figures.get(index)?.1));
        let seconds = runs.iter().filter_map(|row| Some(row.fit.as_ref()?.seconds));
        Some(Group {
            objective: first.objective,
            train_size: first.train_size,
            role: first.role,
            beta: match first.role {
                Role::Grid => first.beta,
                _ => median(runs.iter().filter_map(|row| row.beta).collect()),
            },
            runs: runs.len(),
            figures: (0..figure_names().len()).map(estimate).collect(),
            nlls: runs.iter().filter_map(|row| Some((row.repeat, row.test.nll?))).collect(),
            seconds: Estimate::of(seconds).map(|seconds| seconds.mean),
        })
    }
}

/// Returns the median of positive numbers on the logarithmic scale.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(if lower == upper { *upper } else { (lower * upper).sqrt() })
}

/// Groups all fits, in the order in which the groups first appear.
pub fn summarise(results: &Results) -> Vec<Group> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in &results.rows {
        let key = |row: &Row| {
            (row.objective, row.train_size, row.role, row.beta.filter(|_| row.role == Role::Grid))
        };
        match groups.iter_mut().find(|group| key(group[0]) == key(row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups.iter().filter_map(|rows| Group::of(rows)).collect()
}

/// Formats the file of the groups, one row each; values that do not apply are empty.
///
/// # Errors
///
/// If the text cannot be built, which does not happen for any group.
pub fn summary_csv(groups: &[Group]) -> Result<String> {
    let mut header: Vec<String> =
        ["objective", "train_size", "role", "beta", "runs"].map(str::to_owned).to_vec();
    header.extend(figure_names().iter().flat_map(|name| [format!("{name}_mean"), format!("{name}_se")]));
    header.push("seconds_mean".to_owned());
    let rows = groups.iter().map(|group| {
        let mut cells = vec![
            group.objective.to_string(),
            group.train_size.to_string(),
            group.role.to_string(),
            cell(group.beta),
            group.runs.to_string(),
        ];
        for figure in &group.figures {
            let error = figure.and_then(|figure| figure.standard_error);
            cells.extend([cell(figure.map(|figure| figure.mean)), cell(error)]);
        }
        cells.push(cell(group.seconds));
        cells
    });
    csv_text(&header, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::FitOutcome;
    use sparsegp::hyper::StopReason;
    use sparsegp::metrics::Report;
    use sparsegp::options::Hyper;

    fn row(role: Role, beta: f64, repeat: u64, nll: Option<f64>) -> Row {
        let fit = FitOutcome {
            seconds: 1.0 + repeat as f64,
            epochs: 3,
            stop_reason: StopReason::MaxEpochs,
            rollbacks: 0,
            objective: Some(0.5),
        };
        Row {
            objective: Contender::DlmLog,
            hyper: Hyper::Joint,
            beta: nll.map(|_| beta),
            role,
            train_size: 100,
            repeat,
            seed: repeat,
            fit: nll.map(|_| fit),
            validation_score: None,
            test: Report { nll, ..Report::default() },
            reliability: Vec::new(),
            error: if nll.is_none() { Some("a, \"b\"".to_owned()) } else { None },
        }
    }

    #[test]
    fn estimates_are_those_of_hand_computation() {
        // Mean 2.5; squared deviations 2.25 + 0.25 + 0.25 + 2.25 = 5; variance 5/3; standard error √(5/12).
        let estimate = Estimate::of([1.0, 2.0, 3.0, 4.0].into_iter()).expect("an estimate");
        assert_eq!(estimate.mean, 2.5);
        assert!((estimate.standard_error.expect("an error") - (5.0f64 / 12.0).sqrt()).abs() < 1e-15);
        let one = Estimate { mean: 7.0, standard_error: None };
        assert_eq!(Estimate::of([7.0].into_iter()), Some(one));
        assert_eq!(Estimate::of(std::iter::empty()), None);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_on_the_logarithmic_scale() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 0.1, 1.0]), Some(1.0));
        assert_eq!(median(vec![4.0, 100.0, 0.1, 1.0]), Some(2.0));
    }

    #[test]
    fn fits_are_grouped_and_failures_are_left_out_of_the_means() {
        let results = Results {
            rows: vec![
                row(Role::Grid, 2.0, 0, Some(9.0)),
                row(Role::Grid, 1.0, 0, Some(1.0)),
                row(Role::Selected, 1.0, 0, Some(3.0)),
                row(Role::Grid, 2.0, 1, Some(7.0)),
                row(Role::Selected, 4.0, 1, Some(1.0)),
                row(Role::Selected, 0.0, 2, None),
            ],
        };
        let groups = summarise(&results);
        let shape: Vec<_> = groups.iter().map(|group| (group.role, group.beta, group.runs)).collect();
        assert_eq!(
            shape,
            [(Role::Grid, Some(2.0), 2), (Role::Grid, Some(1.0), 1), (Role::Selected, Some(2.0), 2)]
        );
        assert_eq!(groups[0].figure("nll"), Some(Estimate { mean: 8.0, standard_error: Some(1.0) }));
        assert_eq!(groups[2].figure("nll"), Some(Estimate { mean: 2.0, standard_error: Some(1.0) }));
        assert_eq!(groups[2].figure("mse"), None);
        assert_eq!(groups[2].seconds, Some(1.5));
        assert_eq!(results.failures().count(), 1);
        let failure = row(Role::Selected, 0.0, 3, None);
        let alike = Results { rows: [results.rows.clone(), vec![failure]].concat() }.failures_alike();
        assert_eq!(alike, ["dlm-log on 100 rows in repeat 2 and 1 more: a, \"b\""]);
        assert_eq!(results.check(), Ok(()));
        let text = summary_csv(&groups).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("objective,train_size,role,beta,runs,nll_mean,nll_se,mse_mean"));
        assert!(lines[1].starts_with("dlm-log,100,grid,2,2,8,1,,"), "{}", lines[1]);
        let all = crate::compare::results_csv(&results).expect("text");
        assert!(all.trim_end().ends_with(",\"a, \"\"b\"\"\""), "{all}");
    }
}
