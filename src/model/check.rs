//! Which options go together: models, rules that move q, estimators and schedules; no values of single options.

use super::options::{FitOptions, ModelKind, ObjectiveKind};
use crate::error::{Error, Result};
use crate::objective::Estimator;
use crate::variational::{Average, Family, Guard};

impl FitOptions {
    /// The first option about mini-batch steps that is not as by default, of those that no full-batch objective has.
    fn step_option(&self) -> Option<&'static str> {
        [
            ("--family", self.family != Family::Full),
            ("--q-average", self.q_average != Average::None),
            ("--q-bounds", self.q_bounds.is_some()),
            ("--q-nonnegative", self.q_nonnegative),
            ("--q-smoothness", self.q_smoothness.is_some()),
            ("--batch-schedule", self.batch_schedule.is_some()),
            ("--sample-schedule", self.sample_schedule.is_some()),
            ("--no-polish", !self.polish),
            ("--max-steps", self.max_steps.is_some()),
        ]
        .into_iter()
        .find_map(|(name, given)| given.then_some(name))
    }

    /// The first option of the other model that is not as by default.
    fn foreign_option(&self) -> Option<&'static str> {
        let default = FitOptions::default();
        let options = match self.model {
            ModelKind::Gp => vec![
                ("--prior-mean", self.prior_mean != default.prior_mean),
                ("--prior-variance", self.prior_variance != default.prior_variance),
                ("--q-nonnegative", self.q_nonnegative),
            ],
            ModelKind::Glm => {
                vec![("--inducing", self.inducing.is_some()), ("--fix-inducing", self.fix_inducing)]
            }
        };
        options.into_iter().find_map(|(name, given)| given.then_some(name))
    }

    /// Refuses what only the other model has.
    pub(super) fn check_model(&self) -> Result<()> {
        if let Some(name) = self.foreign_option() {
            return Err(foreign(name, self.model));
        }
        if self.model == ModelKind::Glm && self.objective == ObjectiveKind::Fitc {
            return Err(Error::usage(
                "--objective fitc does not apply to --model glm: a linear model has no residuals",
            )
            .hint("use --objective vfe, which is exact for linear models with Gaussian noise"));
        }
        Ok(())
    }

    /// Refuses what the rule that moves q, or the lack of one, has no use for.
    pub(super) fn check_steps(&self) -> Result<()> {
        if let (true, Some(name)) = (self.is_collapsed(), self.step_option()) {
            let objective = self.objective;
            return Err(Error::usage(format!(
                "{name} is for steps on q and has no effect on --objective {objective}, which solves for q exactly"
            ))
            .hint(format!("leave {name} out, or use --objective elbo or dlm-log")));
        }
        let update = self.q_update;
        if let Some(schedule) = self.q_step.filter(|_| update.mixes()) {
            schedule.mixing().map_err(|error| {
                Error::usage(format!("--q-step does not suit --q-update {update}: {error}"))
                    .hint("use a smaller step, or a rule that takes plain gradient steps")
            })?;
        }
        for (name, given, taken, rules) in [
            ("--q-guard", self.q_guard != Guard::Trust, update.takes_guard(), "ngd"),
            ("--q-bounds", self.q_bounds.is_some(), update.projects(), "projected-ngvi"),
            ("--q-nonnegative", self.q_nonnegative, update.projects(), "projected-ngvi"),
            (
                "--q-smoothness",
                self.q_smoothness.is_some(),
                update.takes_smoothness(),
                "prox-sgd, proj-sgd or bw-gd",
            ),
        ] {
            if given && !taken {
                return Err(Error::usage(format!("{name} is for --q-update {rules}, not {update}")));
            }
        }
        if self.q_nonnegative && self.family != Family::Diagonal {
            return Err(Error::usage("--q-nonnegative needs --family diagonal"));
        }
        self.check_estimator()
    }

    /// Refuses an estimator of gradients that the rule cannot use, and a number of samples for one that draws no w.
    fn check_estimator(&self) -> Result<()> {
        let (update, estimator) = (self.q_update, self.estimator);
        if self.sample_schedule.is_some() && estimator.weight_samples().is_none() {
            return Err(Error::usage(format!(
                "--sample-schedule is for estimators that draw w, not --estimator {estimator}"
            ))
            .hint("use --estimator price:L, reparam:L, reparam-ent:L or stl:L"));
        }
        let fits = match estimator {
            Estimator::Energy { .. } => !update.entropy_gradient(),
            Estimator::EnergyEntropy { .. } => update.entropy_gradient(),
            Estimator::StickingTheLanding { .. } => update.sticks_the_landing(),
            _ => true,
        };
        if fits {
            return Ok(());
        }
        let plain = if update.entropy_gradient() { "reparam-ent" } else { "reparam" };
        let landing = if update.sticks_the_landing() { " or stl:L" } else { "" };
        let treats = if update.entropy_gradient() { "takes" } else { "needs no" };
        Err(Error::usage(format!(
            "--estimator {estimator} does not suit --q-update {update}, which {treats} gradient of the entropy: use {plain}:L{landing}"
        )))
    }
}

/// The error for an option that another model has.
pub fn foreign(name: &str, model: ModelKind) -> Error {
    let other = match model {
        ModelKind::Gp => ModelKind::Glm,
        ModelKind::Glm => ModelKind::Gp,
    };
    Error::usage(format!("{name} is for --model {other} and has no effect on --model {model}"))
        .hint(format!("leave {name} out, or use --model {other}"))
}
