//! The options of the mini-batch steps on q: rule, schedule, batches, averages; and options with some of them unset.

use super::check::first_of;
use super::fit::FitOptions;
use crate::data::SizeSchedule;
use crate::variational::{Average, Family, Guard, QUpdate, RuleOptions, Schedule};
use serde::{Deserialize, Serialize};

/// The options of the steps on q (elbo and dlm-log). [`StepOptions::default`] has the defaults of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepOptions {
    /// The form of the covariance matrix of q.
    pub family: Family,
    /// The rule that moves q.
    pub q_update: QUpdate,
    /// The guard of natural-gradient steps (ngd, sr-vn).
    pub q_guard: Guard,
    /// The step size at iteration t; `None` chooses it by the rule.
    pub q_step: Option<Schedule>,
    /// The average of the iterates to return.
    pub q_average: Average,
    /// The smallest and largest eigenvalue that projected-ngvi allows for S; those of the prior are 1. `None` means 1e-4 and 1e4.
    pub q_bounds: Option<(f64, f64)>,
    /// True if the means of the coefficients are kept non-negative (projected-ngvi with a diagonal covariance, glm).
    pub q_nonnegative: bool,
    /// The smoothness of the negative log joint (prox-sgd, proj-sgd, bw-gd, sgd); `None` estimates it during training.
    pub q_smoothness: Option<f64>,
    /// True if a fit may end with full-batch steps on q.
    pub polish: bool,
    /// The number of rows per batch.
    pub batch_size: usize,
    /// The number of rows per batch at iteration t, at most all rows; overrides `batch_size`.
    pub batch_schedule: Option<SizeSchedule>,
    /// The number of samples at iteration t; overrides the number of the estimator.
    pub sample_schedule: Option<SizeSchedule>,
}

impl Default for StepOptions {
    fn default() -> Self {
        StepOptions {
            family: Family::Full,
            q_update: QUpdate::Ngd,
            q_guard: Guard::Trust,
            q_step: None,
            q_average: Average::None,
            q_bounds: None,
            q_nonnegative: false,
            q_smoothness: None,
            polish: true,
            batch_size: 1024,
            batch_schedule: None,
            sample_schedule: None,
        }
    }
}

impl StepOptions {
    /// Returns the options of the rule that moves q.
    #[doc(hidden)]
    pub fn rule(&self) -> RuleOptions {
        let default = RuleOptions::of(self.q_update);
        RuleOptions {
            guard: self.q_guard,
            bounds: self.q_bounds.unwrap_or(default.bounds),
            smoothness: self.q_smoothness,
            // A default step size is relative to the curvature of the data.
            relative: self.q_step.is_none(),
            ..default
        }
    }

    /// Returns the first option, as messages mark it, that differs from its default and has no effect on closed-form objectives.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        first_of([
            (self.family != Family::Full, "⟨family⟩"),
            (self.q_average != Average::None, "⟨q_average⟩"),
            (self.q_bounds.is_some(), "⟨q_bounds⟩"),
            (self.q_nonnegative, "⟨q_nonnegative⟩"),
            (self.q_smoothness.is_some(), "⟨q_smoothness⟩"),
            (self.batch_schedule.is_some(), "⟨batch_schedule⟩"),
            (self.sample_schedule.is_some(), "⟨sample_schedule⟩"),
            (!self.polish, "⟨polish false⟩"),
        ])
    }
}

impl FitOptions {
    /// Returns the step schedule of the q update; by default it depends on the rule.
    #[doc(hidden)]
    pub fn step_schedule(&self) -> Schedule {
        self.steps.q_step.unwrap_or_else(|| self.steps.q_update.default_schedule(self.learning_rate))
    }

    /// Returns the options with the defaults of all options about mini-batch steps.
    #[doc(hidden)]
    pub fn without_steps(&self) -> FitOptions {
        let default = FitOptions::default();
        FitOptions {
            estimator: default.estimator,
            steps: default.steps,
            learning_rate: default.learning_rate,
            max_steps: default.max_steps,
            ..self.clone()
        }
    }

    /// Returns the options with this number of nearest neighbours.
    #[doc(hidden)]
    pub fn with_neighbours(&self, count: usize) -> FitOptions {
        FitOptions { neighbours: Some(count), ..self.clone() }
    }

    /// Returns the options without nearest neighbours, and with all options about neighbours unset.
    #[doc(hidden)]
    pub fn without_neighbours(&self) -> FitOptions {
        FitOptions { neighbours: None, keep_rows: None, keep_single: false, ..self.clone() }
    }
}
