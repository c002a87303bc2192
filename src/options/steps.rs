//! What is asked of the steps that move q by mini-batches: rule, schedule, batches, averages; no hyper-parameters.

use crate::data::SizeSchedule;
use crate::gradient::Precision;
use crate::variational::{Average, Family, Guard, QUpdate, RuleOptions, Schedule};
use serde::{Deserialize, Serialize};

/// The settings of q's steps (elbo and dlm-log). [`StepOptions::default`] is what the command line uses when nothing is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepOptions {
    /// Which covariances q may have.
    pub family: Family,
    /// The rule that moves q.
    #[serde(rename = "q_update")]
    pub update: QUpdate,
    /// What keeps natural-gradient steps sound (ngd, sr-vn).
    #[serde(rename = "q_guard")]
    pub guard: Guard,
    /// The step at iteration t; by the rule when absent.
    #[serde(rename = "q_step")]
    pub step: Option<Schedule>,
    /// Which average of the iterates is returned.
    #[serde(rename = "q_average")]
    pub average: Average,
    /// The least and largest eigenvalue that S may have (projected-ngvi), the prior's being 1; 1e-4 and 1e4 when absent.
    #[serde(rename = "q_bounds")]
    pub bounds: Option<(f64, f64)>,
    /// Whether the coefficients' means may not be negative (projected-ngvi on diagonal covariances, glm).
    #[serde(rename = "q_nonnegative")]
    pub nonnegative: bool,
    /// The smoothness of the negative log joint (prox-sgd, proj-sgd, bw-gd, sgd); found on the way when absent.
    #[serde(rename = "q_smoothness")]
    pub smoothness: Option<f64>,
    /// Whether a fit may end with full-batch steps on q.
    pub polish: bool,
    /// Data per batch.
    pub batch_size: usize,
    /// Data per batch at iteration t instead, at most all.
    pub batch_schedule: Option<SizeSchedule>,
    /// The number of samples at iteration t, instead of the estimator's own.
    pub sample_schedule: Option<SizeSchedule>,
    /// The precision of mini-batches.
    #[serde(default = "Precision::double")]
    pub precision: Precision,
}

impl Default for StepOptions {
    fn default() -> Self {
        StepOptions {
            family: Family::Full,
            update: QUpdate::Ngd,
            guard: Guard::Trust,
            step: None,
            average: Average::None,
            bounds: None,
            nonnegative: false,
            smoothness: None,
            polish: true,
            batch_size: 1024,
            batch_schedule: None,
            sample_schedule: None,
            precision: Precision::Double,
        }
    }
}

impl StepOptions {
    /// What the rule that moves q is told.
    pub fn rule(&self) -> RuleOptions {
        let default = RuleOptions::of(self.update);
        RuleOptions {
            guard: self.guard,
            bounds: self.bounds.unwrap_or(default.bounds),
            smoothness: self.smoothness,
            // What a step size means depends on the data's curvature unless somebody knew it.
            relative: self.step.is_none(),
            ..default
        }
    }

    /// The first setting that is not as by default, of those that an objective solved for in closed form has no use for.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        [
            ("⟨family⟩", self.family != Family::Full),
            ("⟨q_average⟩", self.average != Average::None),
            ("⟨q_bounds⟩", self.bounds.is_some()),
            ("⟨q_nonnegative⟩", self.nonnegative),
            ("⟨q_smoothness⟩", self.smoothness.is_some()),
            ("⟨batch_schedule⟩", self.batch_schedule.is_some()),
            ("⟨sample_schedule⟩", self.sample_schedule.is_some()),
            ("⟨polish false⟩", !self.polish),
            ("⟨precision⟩", self.precision != Precision::Double),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }
}
