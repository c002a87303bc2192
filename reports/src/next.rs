//! Suggestions after a fit, from its scores: rules from facts to sentences.

use super::baselines::BaselineReport;
use sparsegp::likelihood::{LikelihoodKind, Task};
use sparsegp::metrics::{Metrics, Report};
use sparsegp::model::{Severity, Warning};
use sparsegp_tables::tabular::TableModel;

/// The coverage of the 95 % interval above which intervals are too wide, and the minimum number of test rows
/// for this verdict.
const COVERED: f64 = 0.99;
const COVERAGE_ROWS: u64 = 200;

/// A sentence about a fit and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The severity: a problem if a baseline is better.
    pub severity: Severity,
    /// The sentence.
    pub text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub task: Task,
    pub target: &'a str,
    pub likelihood: LikelihoodKind,
    pub test_rows: u64,
    /// The figures of the test rows.
    pub test: Report,
    pub baselines: Option<BaselineReport>,
    /// The options that warnings suggest.
    pub warned: Vec<&'static str>,
}

impl<'a> Facts<'a> {
    pub fn of(model: &'a TableModel, test: &Metrics, baselines: Option<BaselineReport>) -> Facts<'a> {
        Facts {
            task: model.task(),
            target: model.schema().target_name(),
            likelihood: LikelihoodKind::of(&*model.latent().likelihood),
            test_rows: test.rows(),
            test: test.report(),
            baselines,
            warned: model.summary().warnings.iter().flat_map(Warning::options).copied().collect(),
        }
    }
}

/// Returns suggestions, most important first, with options between ⟨ and ⟩; see [`spoken`](sparsegp::error::spoken).
/// Suggestions of warnings (more epochs, more inducing inputs) are not repeated.
///
/// - A constant has a lower NLL on the test rows, by more than the standard error of the difference: the inputs carry no information.
/// - Otherwise, a linear model has.
/// - Of at least 200 test rows, more than 99 % are inside the 95 % intervals of Gaussian noise, which a few outliers make too wide.
///
/// Every rule is tested on data on which following it lowers the NLL of test rows. There is no rule for a
/// test NLL far above the training NLL, because the cause may be overfitting, but also a gap in space or
/// time, for which fewer inducing inputs do harm.
pub(crate) fn next(facts: &Facts<'_>) -> Vec<Suggestion> {
    let mut all = Vec::new();
    let mut suggest = |severity, text| all.push(Suggestion { severity, text });
    if let (Some(baselines), Some(own)) = (&facts.baselines, facts.test.nll) {
        let (constant, linear) = (&baselines.constant, baselines.linear.as_ref());
        let linear = linear.filter(|linear| linear.is_better() && !constant.is_better());
        // The warning that noise explains everything has the same meaning. For overdispersed counts under a
        // Poisson likelihood, the constant may be better for any inputs.
        let said = ["kernel", "features", "likelihood negative-binomial"];
        let is_said = said.iter().any(|option| facts.warned.contains(option));
        if let Some(other) = constant.report.nll.filter(|_| constant.is_better() && !is_said) {
            let what = match facts.task {
                Task::Regression => "the mean alone",
                Task::Classification => "the share of each class",
                Task::Ordinal => "the share of each level",
                Task::Count => "the mean rate alone",
            };
            let text = format!(
                "{what} predicts test rows better (NLL {other:.3}, the model {own:.3}): the inputs may carry no information about '{}'; try other inputs (⟨features⟩)",
                facts.target
            );
            suggest(Severity::Problem, text);
        }
        if let Some(other) = linear.and_then(|linear| linear.report.nll) {
            let text = format!(
                "a linear model predicts test rows better (NLL {other:.3}, the model {own:.3}); try ⟨model glm⟩"
            );
            suggest(Severity::Warning, text);
        }
    }
    let covered = facts.test.coverage.as_ref().and_then(|coverage| coverage.central_95);
    let gaussian = facts.likelihood == LikelihoodKind::Gaussian && facts.test_rows >= COVERAGE_ROWS;
    if let Some(covered) = covered.filter(|covered| gaussian && *covered > COVERED) {
        let share = 100.0 * covered;
        let text = format!(
            "the 95 % intervals hold {share:.1} % of the test rows and are too wide; try ⟨likelihood student-t⟩"
        );
        suggest(Severity::Warning, text);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BaselineFigures;
    use sparsegp::metrics::Coverage;

    fn report(nll: f64, covered: f64) -> Report {
        let coverage = Some(Coverage { central_95: Some(covered), ..Coverage::default() });
        Report { nll: Some(nll), coverage, ..Report::default() }
    }

    fn baseline(nll: f64, own: f64) -> BaselineFigures {
        BaselineFigures {
            name: "baseline",
            likelihood: "gaussian",
            training_rows: 900,
            nll_gain: Some(nll - own),
            nll_gain_error: Some(0.05),
            report: report(nll, 0.95),
        }
    }

    /// Returns the facts about a regression with NLL 1, for which there is no suggestion.
    fn facts() -> Facts<'static> {
        let baselines = BaselineReport { constant: baseline(2.0, 1.0), linear: Some(baseline(1.5, 1.0)) };
        Facts {
            task: Task::Regression,
            target: "price",
            likelihood: LikelihoodKind::Gaussian,
            test_rows: 300,
            test: report(1.0, 0.95),
            baselines: Some(baselines),
            warned: Vec::new(),
        }
    }

    #[test]
    fn every_rule_has_its_sentence_and_the_most_important_comes_first() {
        let with = |constant: f64, linear: f64| {
            let linear = Some(baseline(linear, 1.0));
            Facts { baselines: Some(BaselineReport { constant: baseline(constant, 1.0), linear }), ..facts() }
        };
        let covered = |covered: f64| Facts { test: report(1.0, covered), ..facts() };
        let warned = |option| Facts { warned: vec![option, "seed"], ..with(0.9, 1.5) };
        let (no_information, tails) = ("the mean alone", "too wide; try ⟨likelihood student-t⟩");
        for (why, facts, expected) in [
            ("a good fit", facts(), &[][..]),
            ("nothing to compare", Facts { baselines: None, test: Report::default(), ..facts() }, &[]),
            ("a better constant comes before a better linear model", with(0.9, 0.8), &[no_information]),
            ("a better linear model", with(1.1, 0.8), &["⟨model glm⟩"]),
            ("differences within the standard error", with(0.96, 0.96), &[]),
            ("the noise that explains all was warned of", warned("kernel"), &[]),
            ("the spread of the counts was warned of", warned("likelihood negative-binomial"), &[]),
            ("wide intervals", covered(0.995), &[tails]),
            ("narrow intervals, for which nothing is known to help", covered(0.85), &[]),
            ("few test rows", Facts { test_rows: 199, ..covered(0.995) }, &[]),
            ("heavy tails", Facts { likelihood: LikelihoodKind::StudentT, ..covered(0.995) }, &[]),
            ("two rules", Facts { test: report(1.0, 0.995), ..with(0.5, 1.5) }, &[no_information, tails]),
        ] {
            let said = next(&facts);
            assert_eq!(said.len(), expected.len(), "{why}: {said:?}");
            for (said, expected) in said.iter().zip(expected) {
                assert!(said.text.contains(expected), "{why}: {said:?}");
                let problem = *expected == no_information;
                assert_eq!(said.severity == Severity::Problem, problem, "{why}");
                assert_eq!(said.text.contains("⟨features⟩"), problem, "{why}");
            }
        }
    }
}
