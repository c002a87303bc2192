//! What a user can ask of a fit, with defaults, and what follows where nothing was said; no checks.

use super::growth::Growth;
use super::open::Open;
use super::steps::StepOptions;
use super::words::{Hyper, HyperOptimizer, LossKind, MeanKind, ModelKind, ObjectiveKind};
use crate::collapsed::WeightPrior;
use crate::data::{InputWarp, TargetWarp};
use crate::effects::{EffectTerm, columns_of};
use crate::error::{Error, Result};
use crate::gradient::Precision;
use crate::hyper::{Constraints, StopRange};
use crate::latent::{InducingInit, Jitter};
use crate::likelihood::{LikelihoodKind, TargetKind, Task};
use crate::objective::{Estimator, Loss, Objective};
use crate::registry::Registry;
use crate::variational::{Average, Family, QUpdate, Schedule};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Dimension, Kernel};

/// All settings of a fit. [`FitOptions::default`] is what the command line uses when nothing is said; write others as below, since
/// options may be added.
///
/// ```
/// use sparsegp::likelihood::LikelihoodKind;
/// use sparsegp::options::{FitOptions, ObjectiveKind, StepOptions};
///
/// let options = FitOptions {
///     kernel: "matern52(ard) + linear".into(),
///     likelihood: Some(LikelihoodKind::StudentT),
///     objective: ObjectiveKind::DlmLog,
///     inducing: Some(200),
///     steps: StepOptions { batch_size: 500, ..StepOptions::default() },
///     ..FitOptions::default()
/// };
/// options.validate()?;
/// let error = FitOptions { beta: -1.0, ..options }.validate().expect_err("a weight below 0");
/// assert_eq!(error.kind(), sparsegp::ErrorKind::Usage);
/// # Ok::<(), sparsegp::Error>(())
/// ```
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
    /// What each input holds, a number or the code of a category; empty for numbers alone. A fit to a table says so itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<Dimension>,
    /// Grouped effects, whose columns are behind the inputs of f; none when empty. A fit to a table makes them of its columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectTerm>,
    /// Whether fixed effects beside grouped effects are integrated over (REML) where variance components are estimated.
    pub reml: bool,
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
    /// How many nearest training rows are beside them; none when absent.
    pub neighbours: Option<usize>,
    /// The most training rows that the model keeps to look neighbours up in; all when absent.
    pub keep_rows: Option<usize>,
    /// Whether it keeps them in single precision.
    pub keep_single: bool,
    /// How q is moved by mini-batches.
    #[serde(flatten)]
    pub steps: StepOptions,
    /// How hyper-parameters are tuned; by the objective when absent.
    pub hyper: Option<Hyper>,
    /// With which solver; by the objective when absent.
    pub hyper_optimizer: Option<HyperOptimizer>,
    /// Iterations of L-BFGS on the collapsed bound of a subset of the rows, from which mini-batch training starts; 0 for
    /// none.
    pub warm_start: usize,
    /// Adam's learning rate for hyper-parameters and inducing inputs.
    pub learning_rate: f64,
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
    /// Stop once the objective stays within a range for some epochs; the test by `tolerance` is off then unless that is given too.
    pub stop_range: Option<StopRange>,
    /// Epochs without a better validation score before stopping.
    pub patience: usize,
    /// The share of the training rows held out for validation.
    pub validation_fraction: f64,
    /// The number of starts that are compared by short fits; a start model is the only one.
    pub restarts: usize,
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
    /// What is done to inputs before that.
    pub warp_inputs: InputWarp,
    /// What is done to the target before that.
    pub warp_target: TargetWarp,
    /// What held-out training rows decide instead of these options, where a whole model is fitted ([`ModelBuilder::fit`], fits to tables and
    /// files); options hold as they are everywhere else, and where a model is started from.
    ///
    /// [`ModelBuilder::fit`]: crate::training::ModelBuilder::fit
    pub open: Open,
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
            dimensions: Vec::new(),
            effects: Vec::new(),
            reml: false,
            mean: MeanKind::Constant,
            inducing: None,
            growth: None,
            inducing_init: InducingInit::KMeans,
            fix_inducing: false,
            neighbours: None,
            keep_rows: None,
            keep_single: false,
            steps: StepOptions::default(),
            hyper: None,
            hyper_optimizer: None,
            warm_start: 100,
            learning_rate: 0.01,
            epochs: None,
            max_steps: None,
            max_seconds: None,
            tolerance: None,
            stop_at: None,
            stop_range: None,
            patience: 20,
            validation_fraction: 0.0,
            restarts: 1,
            seed: 0,
            jitter: Jitter::DEFAULT,
            constraints: Constraints::default(),
            default_priors: true,
            standardize: true,
            warp_inputs: InputWarp::None,
            warp_target: TargetWarp::None,
            open: Open::NOTHING,
            registry: Registry::default(),
        }
    }
}

/// The most n·M² for which other ELBOs are minimised with q solved for on all rows at every step, which takes seconds then, …
const ALTERNATING_WORK: usize = 50_000_000;

/// … and for likelihoods of two functions, whose mini-batches end further from the optimum. (Softmax, of many, costs too much.)
const ALTERNATING_WORK_OF_TWO: usize = 150_000_000;

/// Steps on mini-batches that a fit may take at least.
const LEAST_STEPS: usize = 200;

/// The most inducing inputs if q has no closed form: time grows with the square, and held-out log loss hardly falls any more
/// (`lending_club`: 0.2106, 0.2105 and 0.2105 with 100, 200 and 400; `phishing`, of 68 columns: 0.112 with 120, 0.101 with 240).
const MOST_BY_STEPS: usize = 300;

/// The default for the most inducing inputs beside neighbours, which carry what these do not.
const MOST_BESIDE_NEIGHBOURS: usize = 100;

/// The most rows on which an ELBO with Gaussian noise is collapsed unless something else was asked for.
const COLLAPSED_ROWS: usize = 100_000;

impl FitOptions {
    /// The kernel for `d` inputs, which knows what they hold.
    ///
    /// # Errors
    ///
    /// A usage error when its text cannot be read, or categories have no meaning for it.
    pub fn kernel_of(&self, d: usize) -> Result<Box<dyn Kernel>> {
        self.told(self.registry.kernel(&self.kernel, d)?, d)
    }

    /// The number of inputs of f among the columns of inputs, the last of which belong to grouped effects.
    pub(crate) fn inputs_of(&self, columns: usize) -> usize {
        columns.saturating_sub(columns_of(&self.effects))
    }

    /// A kernel after it was told what each of `d` inputs holds.
    pub(crate) fn told(&self, mut kernel: Box<dyn Kernel>, d: usize) -> Result<Box<dyn Kernel>> {
        let known = self.dimensions.len();
        if !(known == 0 || known == d) {
            return Err(Error::usage(format!("⟨dimensions⟩ are those of {known} inputs, expected {d}")));
        }
        kernel.set_dimensions(&self.dimensions).map_err(|error| {
            Error::usage(format!("⟨kernel⟩: {error}")).hint(
                "apply it to columns of numbers, as in ⟨kernel 'periodic[hour] * matern32(ard)'⟩, or leave columns of text out with ⟨exclude⟩",
            )
        })?;
        Ok(kernel)
    }

    /// Whether the objective is one of mini-batches, with a q of its own.
    pub fn has_own_q(&self) -> bool {
        !self.objective.is_closed()
    }

    /// Whether q is solved for in closed form on the full batch: by the objective, or as hyper-parameters are tuned.
    pub fn is_collapsed(&self) -> bool {
        let closed = self.neighbours.is_some() || !self.effects.is_empty();
        !self.has_own_q() || self.hyper == Some(Hyper::Collapsed) || closed
    }

    /// What is assumed of the weights of f's features beside grouped effects: coefficients of a linear model are fixed effects there.
    pub fn weight_prior(&self) -> WeightPrior {
        match (self.model, self.reml) {
            (ModelKind::Gp, _) => WeightPrior::Unit,
            (ModelKind::Glm, false) => WeightPrior::Profiled,
            (ModelKind::Glm, true) => WeightPrior::Integrated,
        }
    }

    /// The likelihood's family, Gaussian when none was named.
    pub fn likelihood_kind(&self) -> LikelihoodKind {
        self.likelihood.unwrap_or(LikelihoodKind::Gaussian)
    }

    /// The mini-batch objective, for those that have one.
    pub fn mini_batch_objective(&self) -> Objective {
        let loss = match self.objective.loss() {
            LossKind::Log => Loss::LogPredictive(self.estimator),
            _ => Loss::ExpectedLog(self.estimator),
        };
        Objective { loss, beta: self.beta, nodes: self.quadrature_nodes }
    }

    /// How hyper-parameters are tuned, by the objective where nothing was said.
    pub fn hyper_mode(&self) -> Hyper {
        let closed = self.neighbours.is_some() || !self.effects.is_empty();
        self.hyper.unwrap_or(match self.has_own_q() && !closed {
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
            && self.steps.family == Family::Full
            && self.steps.update == QUpdate::Ngd
            && self.steps.average == Average::None
            && !self.estimator.is_sampled()
    }

    /// The solver for hyper-parameters, by their mode where nothing was said.
    pub fn optimizer(&self) -> HyperOptimizer {
        self.hyper_optimizer.unwrap_or(match self.hyper_mode() {
            Hyper::Collapsed | Hyper::Alternating => HyperOptimizer::Lbfgs,
            Hyper::Joint | Hyper::Dual | Hyper::Fixed => HyperOptimizer::Adam,
        })
    }

    /// Whether q is kept as sites, which stay put when hyper-parameters move.
    pub(super) fn keeps_sites(&self) -> bool {
        let asked = match self.hyper_mode() {
            Hyper::Dual => true,
            // q is solved for again from there; sites of the predictive log loss may have negative precisions.
            Hyper::Alternating => self.objective.loss() == LossKind::Elbo,
            _ => false,
        };
        asked && self.model == ModelKind::Gp && self.steps.family == Family::Full
    }

    /// The epoch limit for `n` data: few data have few steps in an epoch, and more epochs.
    pub(crate) fn epoch_limit_for(&self, n: usize) -> usize {
        let limit = self.epoch_limit();
        if self.epochs.is_some() || self.is_collapsed() || self.hyper_mode() == Hyper::Alternating {
            return limit;
        }
        limit.max(LEAST_STEPS / n.div_ceil(self.steps.batch_size.max(1)).max(1))
    }

    /// The epoch limit, by the objective where nothing was said.
    pub fn epoch_limit(&self) -> usize {
        self.epochs.unwrap_or(match self.objective.loss() {
            // Rounds before it have done most of the work.
            _ if self.neighbours.is_some() => 50,
            // Cheap iterations, and slow progress: nothing pulls the noise up while the fit is poor.
            LossKind::Square => 500,
            _ if self.is_collapsed() || self.hyper_mode() == Hyper::Alternating => 200,
            // Sites make a step dearer and better: half as many are worth more.
            LossKind::Elbo if self.hyper_mode() == Hyper::Dual => 20,
            _ => 100,
        })
    }

    /// The tolerance of the stopping test, by the objective where nothing was said.
    pub fn stopping_tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(match self.objective.loss() {
            _ if self.stop_range.is_some() => 0.0,
            // A few parameters, whose iterations cost little; few rows have large steps left at other tolerances.
            _ if !self.effects.is_empty() && self.model == ModelKind::Glm => 1e-10,
            // The squared error of standardised targets is far smaller than a nat where the fit is any good.
            LossKind::Square => 1e-7,
            // The noise of sampled values hides what an epoch gains: such fits end by their limits.
            LossKind::Log if self.estimator.is_predictive() => 0.0,
            _ => 1e-5,
        })
    }

    /// Whether a fit ends with full-batch steps on q: unless that was denied, or another q was asked for than the one
    /// that minimises the objective.
    pub(crate) fn polishes(&self) -> bool {
        let steps = &self.steps;
        let free =
            steps.average == Average::None && !self.estimator.is_sampled() && !steps.update.rule().projects;
        steps.polish && free && steps.step != Some(Schedule::Theorem)
    }

    /// Whether steps on all rows may take the place of mini-batches where q alone is trained: unless something was said about
    /// mini-batches, or about the steps.
    pub(super) fn all_rows_will_do(&self) -> bool {
        let steps = &self.steps;
        let sized = self.model == ModelKind::Glm && steps.batch_size != StepOptions::default().batch_size;
        let asks_for_batches = sized
            || steps.batch_schedule.is_some()
            || self.max_steps.is_some()
            || steps.precision != Precision::Double;
        // Steps on all rows that never raise the log loss are far slower than constant ones on batches: its S has no Newton step.
        let convex = self.objective.loss() != LossKind::Log;
        let by_default = steps.update == QUpdate::Ngd && steps.step.is_none();
        self.polishes() && convex && !asks_for_batches && by_default
    }

    /// Whether q starts at the prior: on linear models, whose q would otherwise be solved for before the rule that was
    /// asked for takes its first step.
    pub(super) fn starts_at_prior(&self) -> bool {
        let chosen = self.steps.update != QUpdate::Ngd
            || self.steps.step.is_some()
            || self.steps.average != Average::None
            || self.estimator.is_sampled();
        self.model == ModelKind::Glm && chosen
    }

    /// The options for `n` data with what follows from the others: with Gaussian noise the ELBO collapses, which is how its
    /// hyper-parameters are tuned unless something was said about mini-batches, or there are so many data that a pass over
    /// all of them for every step is too much. For a linear model one is enough.
    pub fn decided_for(&self, n: usize) -> FitOptions {
        let few = n <= COLLAPSED_ROWS
            || self.model == ModelKind::Glm
            || self.hyper_optimizer == Some(HyperOptimizer::Lbfgs);
        self.decided(n, few)
    }

    /// The same where passes over all data are what there is help for, and mini-batches elsewhere.
    pub fn decided_for_parts(&self, n: usize) -> FitOptions {
        let decided = self.decided(n, true);
        if decided.is_collapsed() || self.hyper.is_some() { decided } else { self.clone().by_batches() }
    }

    fn decided(&self, n: usize, few: bool) -> FitOptions {
        let untold = *self == self.without_steps()
            && self.hyper.is_none()
            && self.hyper_optimizer != Some(HyperOptimizer::Adam)
            && self.warm_start == FitOptions::default().warm_start;
        let conjugate = self.likelihood_kind().has_gaussian_noise() && self.objective == ObjectiveKind::Elbo;
        let m = self.inducing_for(n);
        let kind = self.likelihood_kind();
        let two = kind.is_joint() && kind.target_kind() != TargetKind::Class;
        let most_work = if two { ALTERNATING_WORK_OF_TWO } else { ALTERNATING_WORK };
        let hyper = if conjugate && untold && few {
            Some(Hyper::Collapsed)
        } else if untold && self.can_keep_sites() && n * m * m <= most_work && self.neighbours.is_none() {
            Some(Hyper::Alternating)
        } else {
            self.hyper
        };
        FitOptions { hyper, ..self.clone() }
    }

    /// The same beside so many nearest neighbours.
    pub fn with_neighbours(&self, count: usize) -> FitOptions {
        FitOptions { neighbours: Some(count), ..self.clone() }
    }

    /// The same without nearest neighbours, and without what is about them.
    pub fn without_neighbours(&self) -> FitOptions {
        FitOptions { neighbours: None, keep_rows: None, keep_single: false, ..self.clone() }
    }

    /// The same with everything that is about mini-batch steps as it is by default.
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

    /// The number of inducing inputs for `n` data.
    pub fn inducing_for(&self, n: usize) -> usize {
        if self.neighbours.is_some() {
            return self.inducing.unwrap_or((n / 10).clamp(50, MOST_BESIDE_NEIGHBOURS)).min(n);
        }
        let most = if self.likelihood_kind().has_gaussian_noise() { 500 } else { MOST_BY_STEPS };
        let root = 5.0 * (n as f64).sqrt();
        self.inducing.unwrap_or((n / 10).max(root as usize).clamp(50, most)).min(n)
    }

    /// The step schedule of the q update, by the rule where nothing was said.
    pub fn step_schedule(&self) -> Schedule {
        self.steps.step.unwrap_or_else(|| self.steps.update.default_schedule(self.learning_rate))
    }
}
