//! What to try after a fit, by its figures: rules from facts to sentences; no figures of its own.

use super::baselines::{BaselineReport, TrainFigures};
use crate::likelihood::{LikelihoodKind, Task};
use crate::metrics::{Metrics, Report};
use crate::model::Warning;
use crate::options::{ModelKind, ObjectiveKind};
use crate::tabular::TableModel;

/// The most sentences.
const MOST: usize = 3;

/// The shares of test rows inside the 95 % interval that are no worse than they should be, and the test rows that it takes to tell.
const COVERED: (f64, f64) = (0.90, 0.99);
const COVERAGE_ROWS: u64 = 200;

/// The difference of test and training NLL that looks like overfitting, in nats and in standard errors.
const OVERFITTED: (f64, f64) = (0.5, 3.0);

/// What is known of a fit that has test rows.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// What the model is judged by.
    pub task: Task,
    /// The column that is predicted.
    pub target: &'a str,
    /// The likelihood.
    pub likelihood: LikelihoodKind,
    /// What was minimised.
    pub objective: ObjectiveKind,
    /// What f is.
    pub model: ModelKind,
    /// The number of test rows.
    pub test_rows: u64,
    /// The figures of the test rows.
    pub test: Report,
    /// The standard error of their NLL.
    pub test_error: Option<f64>,
    /// The figures of training rows.
    pub train: Option<TrainFigures>,
    /// The test figures of baselines.
    pub baselines: Option<BaselineReport>,
    /// The options that warnings say to try.
    pub warned: Vec<&'static str>,
}

impl<'a> Facts<'a> {
    /// The facts of a model and its test rows.
    pub fn of(
        model: &'a TableModel,
        test: &Metrics,
        (train, baselines): (Option<TrainFigures>, Option<BaselineReport>),
    ) -> Facts<'a> {
        Facts {
            task: model.task(),
            target: model.schema().target_name(),
            likelihood: LikelihoodKind::of(&model.latent().likelihood),
            objective: model.options().objective,
            model: model.model_kind(),
            test_rows: test.rows(),
            test: test.report(),
            test_error: test.nll_error(),
            train,
            baselines,
            warned: model.summary().warnings.iter().flat_map(Warning::options).copied().collect(),
        }
    }

    /// Whether a warning says to try one of these options already.
    fn is_said(&self, options: &[&str]) -> bool {
        options.iter().any(|option| self.warned.contains(option))
    }

    /// The inputs say nothing: the constant is better.
    fn constant(&self) -> Option<String> {
        let constant = &self.baselines.as_ref()?.constant;
        let (own, other) = (self.test.nll?, constant.report.nll?);
        // The noise that explains all says the same.
        (constant.is_better() && !self.is_said(&["kernel", "features"])).then(|| {
            format!(
                "{} predicts test rows better (NLL {other:.3}, the model {own:.3}): the inputs may say nothing about '{}'; try others (⟨features⟩)",
                match self.task {
                    Task::Regression => "the mean alone",
                    Task::Classification => "the share of each class",
                    Task::Ordinal => "the share of each level",
                    Task::Count => "the mean rate alone",
                },
                self.target
            )
        })
    }

    /// A straight line is better.
    fn linear(&self) -> Option<String> {
        let baselines = self.baselines.as_ref()?;
        let linear = baselines.linear.as_ref()?;
        let (own, other) = (self.test.nll?, linear.report.nll?);
        let better = linear.is_better() && !baselines.constant.is_better();
        better.then(|| {
            format!("a linear model predicts test rows better (NLL {other:.3}, the model {own:.3}); try ⟨model glm⟩")
        })
    }

    /// Intervals are too narrow or too wide. Those of discrete targets hold more than they should where counts are small.
    fn coverage(&self) -> Option<String> {
        let covered = self.test.coverage.as_ref()?.central_95?;
        let discrete = self.task != Task::Regression;
        if self.test_rows < COVERAGE_ROWS
            || (COVERED.0..=COVERED.1).contains(&covered)
            || (discrete && covered > COVERED.1)
        {
            return None;
        }
        let heavier = match self.likelihood {
            LikelihoodKind::Gaussian => Some("likelihood student-t"),
            LikelihoodKind::Poisson | LikelihoodKind::PoissonSoftplus => Some("likelihood negative-binomial"),
            _ => None,
        };
        let direct = (self.objective != ObjectiveKind::DlmLog).then_some("objective dlm-log");
        let remedies: Vec<&str> = [heavier, direct].into_iter().flatten().collect();
        if remedies.is_empty() || self.is_said(&remedies) {
            return None;
        }
        let tried: Vec<String> = remedies.iter().map(|remedy| format!("⟨{remedy}⟩")).collect();
        let wrong = if covered < COVERED.0 { "narrow" } else { "wide" };
        let share = 100.0 * covered;
        let tried = tried.join(" or ");
        Some(format!(
            "the 95 % intervals hold {share:.1} % of the test rows and are too {wrong}; try {tried}"
        ))
    }

    /// Training rows are predicted far better than others.
    fn overfitted(&self) -> Option<String> {
        let train = self.train.as_ref()?;
        let (test, training) = (self.test.nll?, train.report.nll?);
        let error = self.test_error?.hypot(train.nll_error?);
        let difference = test - training;
        if difference <= OVERFITTED.0 || difference <= OVERFITTED.1 * error || self.is_said(&["inducing"]) {
            return None;
        }
        let fewer = match self.model {
            ModelKind::Gp => "fewer ⟨inducing⟩, more rows or fewer inputs (⟨exclude⟩)",
            ModelKind::Glm => "more rows or fewer inputs (⟨exclude⟩)",
        };
        Some(format!(
            "the NLL of test rows is {test:.3}, of training rows {training:.3}: the model overfits; try {fewer}"
        ))
    }
}

/// What to try next, the most important first, in sentences whose options stand between ⟨ and ⟩; see [`spoken`](crate::error::spoken). What
/// a warning says to try (more epochs, more inducing inputs) is not said again.
///
/// - A constant has a lower NLL of the test rows, by more than the standard error of the difference.
/// - Else a linear model has.
/// - Of at least 200 test rows, less than 90 % are inside their 95 % intervals, or, of a target that is not discrete, more than 99 %.
/// - The NLL of test rows is above that of training rows by more than 0.5 and 3 standard errors.
pub fn next(facts: &Facts<'_>) -> Vec<String> {
    let rules = [Facts::constant, Facts::linear, Facts::coverage, Facts::overfitted];
    rules.iter().filter_map(|rule| rule(facts)).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Coverage;
    use crate::report::BaselineFigures;

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

    /// A regression of NLL 1 that there is nothing to say about.
    fn facts() -> Facts<'static> {
        let baselines = BaselineReport { constant: baseline(2.0, 1.0), linear: Some(baseline(1.5, 1.0)) };
        let train = TrainFigures { rows: 900, nll_error: Some(0.02), report: report(0.9, 0.95) };
        Facts {
            task: Task::Regression,
            target: "price",
            likelihood: LikelihoodKind::Gaussian,
            objective: ObjectiveKind::Elbo,
            model: ModelKind::Gp,
            test_rows: 300,
            test: report(1.0, 0.95),
            test_error: Some(0.03),
            train: Some(train),
            baselines: Some(baselines),
            warned: Vec::new(),
        }
    }

    fn only(facts: &Facts<'_>) -> String {
        let said = next(facts);
        assert_eq!(said.len(), 1, "{said:?}");
        said[0].clone()
    }

    #[test]
    fn a_good_fit_leaves_nothing_to_say() {
        assert!(next(&facts()).is_empty());
        let bare = Facts { train: None, baselines: None, test: Report::default(), ..facts() };
        assert!(next(&bare).is_empty());
    }

    #[test]
    fn the_constant_that_is_better_comes_before_the_linear_model() {
        let with = |constant: f64, linear: f64| Facts {
            baselines: Some(BaselineReport {
                constant: baseline(constant, 1.0),
                linear: Some(baseline(linear, 1.0)),
            }),
            ..facts()
        };
        assert!(only(&with(0.9, 0.8)).contains("the mean alone"));
        assert!(only(&with(0.9, 0.8)).contains("⟨features⟩"));
        assert!(only(&with(1.1, 0.8)).contains("⟨model glm⟩"));
        // Within the standard error nobody is better.
        assert!(next(&with(0.96, 0.96)).is_empty());
        let warned = Facts { warned: vec!["kernel", "seed"], ..with(0.9, 1.5) };
        assert!(next(&warned).is_empty(), "the noise that explains all was warned of");
    }

    #[test]
    fn coverage_asks_for_what_was_not_tried() {
        let with = |covered: f64| Facts { test: report(1.0, covered), ..facts() };
        let narrow = only(&with(0.85));
        assert!(narrow.contains("85.0 %") && narrow.contains("narrow"), "{narrow}");
        assert!(narrow.contains("⟨likelihood student-t⟩ or ⟨objective dlm-log⟩"), "{narrow}");
        assert!(only(&with(0.995)).contains("wide"));
        assert!(next(&Facts { test_rows: 199, ..with(0.85) }).is_empty());
        let direct = Facts { objective: ObjectiveKind::DlmLog, ..with(0.85) };
        assert!(!only(&direct).contains("dlm-log"));
        assert!(next(&Facts { likelihood: LikelihoodKind::StudentT, ..direct }).is_empty());
        let counts =
            |covered| Facts { task: Task::Count, likelihood: LikelihoodKind::Poisson, ..with(covered) };
        assert!(only(&counts(0.85)).contains("⟨likelihood negative-binomial⟩"));
        assert!(next(&counts(0.995)).is_empty());
        let warned = Facts { warned: vec!["likelihood negative-binomial"], ..counts(0.85) };
        assert!(next(&warned).is_empty());
    }

    #[test]
    fn training_rows_that_are_far_better_mean_overfitting() {
        let with = |nll: f64, error: f64| Facts {
            train: Some(TrainFigures { rows: 900, nll_error: Some(error), report: report(nll, 0.95) }),
            ..facts()
        };
        assert!(only(&with(0.3, 0.02)).contains("fewer ⟨inducing⟩"));
        assert!(next(&with(0.3, 0.3)).is_empty(), "within three standard errors");
        assert!(next(&with(0.6, 0.02)).is_empty(), "less than half a nat");
        let linear = Facts { model: ModelKind::Glm, ..with(0.3, 0.02) };
        assert!(!only(&linear).contains("inducing"));
        assert!(next(&Facts { warned: vec!["inducing"], ..with(0.3, 0.02) }).is_empty());
    }

    #[test]
    fn there_are_three_sentences_at_most_and_the_first_is_the_most_important() {
        let all = Facts {
            test: report(1.0, 0.5),
            train: Some(TrainFigures { rows: 9, nll_error: Some(0.0), report: report(-3.0, 0.95) }),
            baselines: Some(BaselineReport { constant: baseline(0.5, 1.0), linear: None }),
            ..facts()
        };
        let said = next(&all);
        assert!(said.len() <= MOST && said[0].contains("the mean alone"), "{said:?}");
    }
}
