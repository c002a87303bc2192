//! What a user can ask of a fit, with defaults; validated before any work starts.

use super::batches::BatchPlan;
use super::carry::Parameterization;
use super::inducing_curve::Growth;
use super::inference::InferenceOptions;
use super::latent::LatentModel;
use crate::data::Task;
use crate::error::{Error, Result};
use crate::gradient::Precision;
use crate::hyper::Constraints;
use crate::latent::{InducingInit, Jitter};
use crate::likelihood::LikelihoodKind;
use crate::objective::{Estimator, Loss, Objective};
use crate::registry::Registry;
use crate::variational::{Average, Family, Guard, QUpdate, RuleOptions, Schedule, SizeSchedule};
use crate::words::words;
use serde::{Deserialize, Serialize};

words! {
    /// What is minimised.
    ObjectiveKind, "objective" {
        /// The (β-)ELBO on mini-batches.
        Elbo = "elbo",
        /// Direct loss minimisation for the predictive log loss, on mini-batches.
        DlmLog = "dlm-log",
        /// Direct loss minimisation for the squared error, in closed form on the full batch (Gaussian noise only).
        DlmSquare = "dlm-square",
        /// The collapsed (β-)ELBO on the full batch (Titsias 2009).
        Vfe = "vfe",
        /// FITC's evidence on the full batch (Snelson & Ghahramani 2006).
        Fitc = "fitc",
    }
}

words! {
    /// What f is.
    ModelKind, "model" {
        /// A sparse Gaussian process.
        Gp = "gp",
        /// A Bayesian linear model on the features.
        Glm = "glm",
    }
}

words! {
    /// How hyper-parameters and inducing inputs are tuned.
    Hyper, "hyper-parameter mode" {
        /// Together with q, from one gradient.
        Joint = "joint",
        /// On all data, with q solved for by natural gradients at every step.
        Alternating = "alternating",
        /// Together with q, which is kept as sites, so that it moves with the prior (Adam, Chang, Khan & Solin 2021).
        Dual = "dual",
        /// With q solved exactly inside (Gaussian noise).
        Collapsed = "collapsed",
        /// Not at all.
        Fixed = "fixed",
    }
}

words! {
    /// The solver for hyper-parameters.
    HyperOptimizer, "hyper-parameter optimizer" {
        /// Adam, for mini-batches too.
        Adam = "adam",
        /// L-BFGS, where q is solved for.
        Lbfgs = "lbfgs",
    }
}

words! {
    /// The prior mean of f.
    MeanKind, "mean function" {
        /// A trained constant.
        Constant = "constant",
        /// Zero (on the standardised target).
        Zero = "zero",
    }
}

/// All settings of a fit. [`FitOptions::default`] is what the command line uses when nothing is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FitOptions {
    /// What the model is judged by; by the target when absent. Only looked at where a table is fitted.
    pub task: Option<Task>,
    /// The likelihood; Gaussian, or by the kind of target, when absent.
    pub likelihood: Option<LikelihoodKind>,
    /// What f is.
    pub model: ModelKind,
    /// The prior mean of a linear model's coefficients, on the scale the model sees.
    pub prior_mean: f64,
    /// The prior variance of a linear model's coefficients, on the scale the model sees.
    pub prior_variance: f64,
    /// What is minimised.
    pub objective: ObjectiveKind,
    /// The weight of the KL term, positive.
    pub beta: f64,
    /// How gradients in q are computed (elbo and dlm-log).
    pub estimator: Estimator,
    /// A fixed number of quadrature nodes; as many as each datum needs when absent.
    pub quadrature_nodes: Option<usize>,
    /// The kernel in the text grammar.
    pub kernel: String,
    /// The prior mean.
    pub mean: MeanKind,
    /// The number of inducing inputs; by the number of data when absent.
    pub inducing: Option<usize>,
    /// Whether that number is found by adding them until there are enough. A start model brings its own.
    pub growth: Option<Growth>,
    /// How they are chosen.
    pub inducing_init: InducingInit,
    /// Whether they stay where they are.
    pub fix_inducing: bool,
    /// Which covariances q may have (mini-batch objectives).
    pub family: Family,
    /// How q is updated (mini-batch objectives).
    pub q_update: QUpdate,
    /// What keeps natural-gradient steps positive definite where the loss has negative curvature.
    pub q_guard: Guard,
    /// The step of the q update; by the rule when absent.
    pub q_step: Option<Schedule>,
    /// Which average of the iterates is returned (mini-batch objectives).
    pub q_average: Average,
    /// The least and largest eigenvalue that S may have (projected-ngvi), the prior's being 1; 1e-4 and 1e4 when absent.
    pub q_bounds: Option<(f64, f64)>,
    /// Whether the coefficients' means may not be negative (projected-ngvi on diagonal covariances, glm).
    pub q_nonnegative: bool,
    /// The smoothness of the negative log joint (prox-sgd, proj-sgd, bw-gd); found on the way when absent.
    pub q_smoothness: Option<f64>,
    /// Whether a fit may end with full-batch steps on q (elbo and dlm-log).
    pub polish: bool,
    /// How hyper-parameters are tuned; by the objective when absent.
    pub hyper: Option<Hyper>,
    /// With which solver; by the objective when absent.
    pub hyper_optimizer: Option<HyperOptimizer>,
    /// Iterations of L-BFGS on the collapsed bound of a subset of the rows, from which mini-batch training starts; 0 for
    /// none.
    pub warm_start: usize,
    /// Adam's learning rate for hyper-parameters and inducing inputs.
    pub learning_rate: f64,
    /// Data per batch (mini-batch objectives).
    pub batch_size: usize,
    /// Data per batch at iteration t instead, at most all.
    pub batch_schedule: Option<SizeSchedule>,
    /// Samples of w at iteration t instead of as many as the estimator says.
    pub sample_schedule: Option<SizeSchedule>,
    /// Passes over the data, or iterations of L-BFGS; by the objective when absent.
    pub epochs: Option<usize>,
    /// The most mini-batch steps.
    pub max_steps: Option<usize>,
    /// A time limit in seconds.
    pub max_seconds: Option<f64>,
    /// Stop when the objective falls by less than this many nats per datum and epoch, smoothed; by the objective when
    /// absent.
    pub tolerance: Option<f64>,
    /// Stop once the validation score, or the objective per datum where there is none, is no larger than this.
    pub stop_at: Option<f64>,
    /// Epochs without a better validation score before stopping.
    pub patience: usize,
    /// The share of the training rows held out for validation.
    pub validation_fraction: f64,
    /// The number of starts that are compared by short fits; a start model is the only one.
    pub restarts: usize,
    /// The precision of mini-batches.
    #[serde(default = "Precision::double")]
    pub precision: Precision,
    /// Seed of everything random.
    pub seed: u64,
    /// The jitter on `K_uu`.
    pub jitter: Jitter,
    /// What is said about hyper-parameters by name, on the scale the model sees.
    pub constraints: Constraints,
    /// Whether lengthscales about which nothing is said have a weak prior, where inputs are standardised.
    pub default_priors: bool,
    /// Whether inputs and target are standardised.
    pub standardize: bool,
    /// What the names of kernels and likelihoods stand for; not stored with the others.
    #[serde(skip)]
    pub registry: Registry,
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            task: None,
            likelihood: None,
            model: ModelKind::Gp,
            prior_mean: 0.0,
            prior_variance: 1.0,
            objective: ObjectiveKind::Elbo,
            beta: 1.0,
            estimator: Estimator::Exact,
            quadrature_nodes: None,
            kernel: "rbf(ard)".into(),
            mean: MeanKind::Constant,
            inducing: None,
            growth: None,
            inducing_init: InducingInit::KMeans,
            fix_inducing: false,
            family: Family::Full,
            q_update: QUpdate::Ngd,
            q_guard: Guard::Trust,
            q_step: None,
            q_average: Average::None,
            q_bounds: None,
            q_nonnegative: false,
            q_smoothness: None,
            polish: true,
            hyper: None,
            hyper_optimizer: None,
            warm_start: 100,
            learning_rate: 0.01,
            batch_size: 1024,
            batch_schedule: None,
            sample_schedule: None,
            epochs: None,
            max_steps: None,
            max_seconds: None,
            tolerance: None,
            stop_at: None,
            patience: 20,
            validation_fraction: 0.0,
            restarts: 1,
            precision: Precision::Double,
            seed: 0,
            jitter: Jitter::DEFAULT,
            constraints: Constraints::default(),
            default_priors: true,
            standardize: true,
            registry: Registry::default(),
        }
    }
}

/// The most rows on which an ELBO with Gaussian noise is collapsed unless something else was asked for.
const COLLAPSED_ROWS: usize = 100_000;

impl FitOptions {
    /// Whether the objective is one of mini-batches, with a q of its own.
    pub fn has_own_q(&self) -> bool {
        matches!(self.objective, ObjectiveKind::Elbo | ObjectiveKind::DlmLog)
    }

    /// Whether q is solved for in closed form on the full batch: by the objective, or as hyper-parameters are tuned.
    pub fn is_collapsed(&self) -> bool {
        !self.has_own_q() || self.hyper == Some(Hyper::Collapsed)
    }

    /// The likelihood's family, Gaussian when none was named.
    pub fn likelihood_kind(&self) -> LikelihoodKind {
        self.likelihood.unwrap_or(LikelihoodKind::Gaussian)
    }

    /// The mini-batch objective, for those that have one.
    pub fn mini_batch_objective(&self) -> Objective {
        let loss = match self.objective {
            ObjectiveKind::DlmLog => Loss::LogPredictive(self.estimator),
            _ => Loss::ExpectedLog(self.estimator),
        };
        Objective { loss, beta: self.beta, nodes: self.quadrature_nodes }
    }

    /// How hyper-parameters are tuned, by the objective where nothing was said.
    pub fn hyper_mode(&self) -> Hyper {
        self.hyper.unwrap_or(match self.has_own_q() {
            false => Hyper::Collapsed,
            true if self.can_keep_sites() => Hyper::Dual,
            true => Hyper::Joint,
        })
    }

    /// The same by mini-batches, even where a closed form would take over when nothing is said.
    pub fn by_batches(self) -> FitOptions {
        FitOptions { hyper: Some(self.hyper_mode()), ..self }
    }

    /// Whether weak priors apply where none are given: they are for standardised data.
    pub fn has_default_priors(&self) -> bool {
        self.default_priors && self.standardize
    }

    /// Whether q can be kept as sites: a full covariance moved by exact natural gradients of an ELBO, whose last iterate is
    /// what is wanted.
    fn can_keep_sites(&self) -> bool {
        self.objective == ObjectiveKind::Elbo
            && self.model == ModelKind::Gp
            && self.family == Family::Full
            && self.q_update == QUpdate::Ngd
            && self.q_average == Average::None
            && !self.estimator.is_sampled()
    }

    /// The solver for hyper-parameters, by their mode where nothing was said.
    pub fn optimizer(&self) -> HyperOptimizer {
        self.hyper_optimizer.unwrap_or(match self.hyper_mode() {
            Hyper::Collapsed | Hyper::Alternating => HyperOptimizer::Lbfgs,
            Hyper::Joint | Hyper::Dual | Hyper::Fixed => HyperOptimizer::Adam,
        })
    }

    /// What stays put when hyper-parameters move: the sites, where the posterior has them.
    pub(super) fn parameterization(&self) -> Parameterization {
        let sites = match self.hyper_mode() {
            Hyper::Dual => true,
            // q is solved for again from there; sites of the predictive log loss may have negative precisions.
            Hyper::Alternating => self.objective == ObjectiveKind::Elbo,
            _ => false,
        };
        let full = self.model == ModelKind::Gp && self.family == Family::Full;
        if sites && full { Parameterization::Sites } else { Parameterization::Whitened }
    }

    /// The epoch limit, by the objective where nothing was said.
    pub fn epoch_limit(&self) -> usize {
        self.epochs.unwrap_or(match self.objective {
            // Sites make a step dearer and better: half as many are worth more.
            ObjectiveKind::Elbo if self.hyper_mode() == Hyper::Dual => 50,
            ObjectiveKind::Elbo | ObjectiveKind::DlmLog if !self.is_collapsed() => 100,
            ObjectiveKind::Elbo | ObjectiveKind::DlmLog | ObjectiveKind::Vfe | ObjectiveKind::Fitc => 200,
            // Cheap iterations, and slow progress: nothing pulls the noise up while the fit is poor.
            ObjectiveKind::DlmSquare => 500,
        })
    }

    /// The tolerance of the stopping test, by the objective where nothing was said.
    pub fn stopping_tolerance(&self) -> f64 {
        // The squared error of standardised targets is far smaller than a nat where the fit is any good.
        self.tolerance.unwrap_or(if self.objective == ObjectiveKind::DlmSquare { 1e-7 } else { 1e-5 })
    }

    /// What the rule that moves q is told.
    pub fn rule_options(&self) -> RuleOptions {
        let default = RuleOptions::of(self.q_update);
        RuleOptions {
            guard: self.q_guard,
            bounds: self.q_bounds.unwrap_or(default.bounds),
            smoothness: self.q_smoothness,
            // What a step size means depends on the data's curvature unless somebody knew it.
            relative: self.q_step.is_none(),
            ..default
        }
    }

    /// How mini-batches move the q of `model` on `n` data.
    pub(super) fn inference(&self, n: usize, model: &LatentModel) -> InferenceOptions {
        let mut rule = self.rule_options();
        if let (true, Some(layer)) = (self.q_nonnegative, model.layer.linear()) {
            rule.lower = layer.nonnegative_weights();
        }
        let batches = match self.batch_schedule {
            Some(sizes) => BatchPlan::Sized(sizes),
            None => BatchPlan::Epochs(self.batch_size.min(n)),
        };
        InferenceOptions {
            rule,
            step: self.q_schedule(),
            batches,
            samples: self.sample_schedule,
            average: self.q_average,
            seed: self.seed,
        }
    }

    /// Whether a fit ends with full-batch steps on q: unless that was denied, or another q was asked for than the one
    /// that minimises the objective.
    pub fn polishes(&self) -> bool {
        let free =
            self.q_average == Average::None && !self.estimator.is_sampled() && !self.q_update.rule().projects;
        self.polish && free
    }

    /// Whether batches were asked for where all data at once would do.
    pub(super) fn asks_for_batches(&self) -> bool {
        let sized = self.model == ModelKind::Glm && self.batch_size != FitOptions::default().batch_size;
        sized
            || self.batch_schedule.is_some()
            || self.max_steps.is_some()
            || self.precision != Precision::Double
    }

    /// Whether q starts at the prior: on linear models, whose q would otherwise be solved for before the rule that was
    /// asked for takes its first step.
    pub(super) fn starts_at_prior(&self) -> bool {
        let chosen = self.q_update != QUpdate::Ngd
            || self.q_step.is_some()
            || self.q_average != Average::None
            || self.estimator.is_sampled();
        self.model == ModelKind::Glm && chosen
    }

    /// The options for `n` data with what follows from the others: with Gaussian noise the ELBO collapses, which is how its
    /// hyper-parameters are tuned unless something was said about mini-batches, or there are so many data that a pass over
    /// all of them for every step is too much. For a linear model one is enough.
    pub fn settled(&self, n: usize) -> FitOptions {
        let untold = *self == self.without_steps()
            && self.hyper.is_none()
            && self.hyper_optimizer != Some(HyperOptimizer::Adam)
            && self.max_steps.is_none()
            && self.warm_start == FitOptions::default().warm_start;
        let conjugate = self.likelihood_kind().has_gaussian_noise() && self.objective == ObjectiveKind::Elbo;
        let few = n <= COLLAPSED_ROWS
            || self.model == ModelKind::Glm
            || self.hyper_optimizer == Some(HyperOptimizer::Lbfgs);
        let hyper = if conjugate && untold && few { Some(Hyper::Collapsed) } else { self.hyper };
        FitOptions { hyper, ..self.clone() }
    }

    /// The same with everything that is about mini-batch steps as it is by default.
    pub fn without_steps(&self) -> FitOptions {
        let default = FitOptions::default();
        FitOptions {
            estimator: default.estimator,
            family: default.family,
            q_update: default.q_update,
            q_guard: default.q_guard,
            q_step: default.q_step,
            q_average: default.q_average,
            q_bounds: default.q_bounds,
            q_nonnegative: default.q_nonnegative,
            q_smoothness: default.q_smoothness,
            polish: default.polish,
            learning_rate: default.learning_rate,
            batch_size: default.batch_size,
            batch_schedule: default.batch_schedule,
            sample_schedule: default.sample_schedule,
            max_steps: default.max_steps,
            precision: default.precision,
            ..self.clone()
        }
    }

    /// The number of inducing inputs for `n` data.
    pub fn inducing_for(&self, n: usize) -> usize {
        self.inducing.unwrap_or((n / 10).clamp(50, 500)).min(n)
    }

    /// The step schedule of the q update.
    pub fn q_schedule(&self) -> Schedule {
        self.q_step.unwrap_or_else(|| self.q_update.default_schedule(self.learning_rate))
    }

    /// Refuses values and combinations that make no sense, before any work.
    pub fn validate(&self) -> Result<()> {
        let positive = |name: &str, value: f64| {
            if value > 0.0 && value.is_finite() {
                Ok(())
            } else {
                Err(Error::usage(format!("{name} is {value}, expected a positive number")))
            }
        };
        positive("--beta", self.beta)?;
        positive("--learning-rate", self.learning_rate)?;
        positive("--prior-variance", self.prior_variance)?;
        if !self.prior_mean.is_finite() {
            return Err(Error::usage(format!(
                "--prior-mean is {}, expected a finite number",
                self.prior_mean
            )));
        }
        if let Some(smoothness) = self.q_smoothness {
            positive("--q-smoothness", smoothness)?;
        }
        if let Some((low, high)) =
            self.q_bounds.filter(|(low, high)| !(*low > 0.0 && low < high && high.is_finite()))
        {
            return Err(Error::usage(format!(
                "--q-bounds are {low} and {high}, expected two positive numbers, the smaller one first"
            )));
        }
        if let Some(seconds) = self.max_seconds {
            positive("--max-seconds", seconds)?;
        }
        if self.stop_at.is_some_and(|target| !target.is_finite()) {
            return Err(Error::usage("--stop-at must be a finite number"));
        }
        if self.tolerance.is_some_and(|t| !(t >= 0.0 && t.is_finite())) {
            return Err(Error::usage("--tolerance must be zero or a positive number"));
        }
        for (name, value) in [
            ("--inducing", self.inducing),
            ("--batch-size", Some(self.batch_size)),
            ("--epochs", self.epochs),
            ("--max-steps", self.max_steps),
            ("--patience", Some(self.patience)),
            ("--quadrature-nodes", self.quadrature_nodes),
        ] {
            if value == Some(0) {
                return Err(Error::usage(format!("{name} is 0, expected at least 1")));
            }
        }
        if !(0.0..1.0).contains(&self.validation_fraction) {
            return Err(Error::usage("--validation-fraction must be at least 0 and below 1"));
        }
        match self.jitter {
            Jitter::Absolute(j) | Jitter::Relative(j) if !(j >= 0.0 && j.is_finite()) => {
                return Err(Error::usage("--jitter must be zero or a positive number"));
            }
            _ => {}
        }
        self.constraints.validate()?;
        self.validate_combination()
    }

    fn validate_combination(&self) -> Result<()> {
        self.check_model()?;
        self.check_search()?;
        let collapsed = !self.has_own_q();
        let kind = self.likelihood_kind();
        if collapsed && !kind.has_gaussian_noise() {
            return Err(Error::usage(format!(
                "--objective {} needs the gaussian likelihood, not {kind}",
                self.objective
            ))
            .hint("elbo and dlm-log take every likelihood"));
        }
        if self.quadrature_nodes.is_some() && self.likelihood == Some(LikelihoodKind::Gaussian) {
            return Err(Error::usage(
                "--quadrature-nodes has no effect on the gaussian likelihood, whose expectations are closed",
            ));
        }
        let facts = self.estimator.facts();
        let wanted = match (facts.of_expected_log, self.estimator.is_predictive()) {
            (true, _) => ObjectiveKind::Elbo,
            (_, true) => ObjectiveKind::DlmLog,
            _ => self.objective,
        };
        if wanted != self.objective {
            return Err(Error::usage(format!(
                "--estimator {} is for --objective {wanted}, not {}",
                self.estimator, self.objective
            )));
        }
        if let Some(only) = facts.likelihood.filter(|only| *only != kind) {
            return Err(Error::usage(format!(
                "--estimator {} bounds the logistic function: it is for --likelihood {only}, not {kind}",
                self.estimator
            )));
        }
        self.check_hyper()?;
        self.check_precision()?;
        if self.objective == ObjectiveKind::Fitc && self.beta != 1.0 {
            return Err(Error::usage("--beta does not apply to --objective fitc, which has no KL term"));
        }
        self.check_steps()
    }
}
