//! The options of a fit, their defaults, and the rules that resolve unset options.

use super::growth::Growth;
use super::open::Open;
use super::steps::StepOptions;
use super::words::{Hyper, HyperOptimizer, HyperPosteriorKind, LossKind, MeanKind, ModelKind, ObjectiveKind};
use crate::collapsed::WeightPrior;
use crate::data::{InputWarp, TargetWarp};
use crate::effects::{EffectTerm, columns_of};
use crate::error::{Error, Result};
use crate::hyper::{Constraints, StopRange};
use crate::latent::{InducingInit, Jitter};
use crate::likelihood::{LikelihoodKind, Task};
use crate::objective::{Estimator, Loss, Objective};
use crate::registry::Registry;
use crate::variational::{Average, Family, QUpdate};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::{Dimension, DimensionError, Kernel, check_values};

/// All settings of a fit. [`FitOptions::default`] has the defaults of the command line with `--auto none`. Use the update syntax below,
/// because fields may be added. Reading them by serde takes any subset of the fields, and refuses unknown ones.
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
    /// The kind of target; `None` infers it from the values of the target. Only fits to tables use it.
    pub task: Option<Task>,
    /// The likelihood; `None` means Gaussian, or the default of the kind of target.
    pub likelihood: Option<LikelihoodKind>,
    /// The kind of model.
    pub model: ModelKind,
    /// The prior mean of a linear model's coefficients, on the standardised scale.
    pub prior_mean: f64,
    /// The prior variance of a linear model's coefficients, on the standardised scale.
    pub prior_variance: f64,
    /// The objective to minimise.
    pub objective: ObjectiveKind,
    /// The weight of the KL term, positive.
    pub beta: f64,
    /// The estimator of gradients in q (elbo and dlm-log).
    pub estimator: Estimator,
    /// A fixed number of quadrature nodes; with `None` each row gets as many as it needs.
    pub quadrature_nodes: Option<usize>,
    /// The kernel in the text grammar.
    pub kernel: String,
    /// The kind of each input, such as a number or the code of a category; empty if all inputs are numbers. A fit to a table sets this
    /// field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<Dimension>,
    /// The terms of grouped effects; may be empty. Their columns follow the inputs of f. A fit to a table derives the terms from its
    /// columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<EffectTerm>,
    /// The number of columns of offsets, known additions to the latent functions: none, or one for each function. They are the last columns
    /// of the inputs, on the scale of the functions: of real targets in units of the target, after its warp.
    #[serde(skip_serializing_if = "super::stored::is_zero")]
    pub offsets: usize,
    /// True if variance components are estimated by restricted maximum likelihood (REML), which integrates over the fixed effects.
    pub reml: bool,
    /// The prior mean.
    pub mean: MeanKind,
    /// The number of inducing inputs; `None` chooses it by the number of rows.
    pub inducing: Option<usize>,
    /// The search for the number of inducing inputs; `None` for a fixed number. A fit from a start model keeps that model's inducing
    /// inputs.
    pub growth: Option<Growth>,
    /// The method that chooses the inducing inputs.
    pub inducing_init: InducingInit,
    /// True if training does not move the inducing inputs.
    pub fix_inducing: bool,
    /// The number of nearest training rows in addition to the inducing inputs; `None` for none.
    pub neighbours: Option<usize>,
    /// The maximum number of training rows that the model stores as neighbours; `None` for all.
    pub keep_rows: Option<usize>,
    /// True if the model stores these rows in single precision.
    pub keep_single: bool,
    /// The options of the steps on q.
    #[serde(flatten)]
    pub steps: StepOptions,
    /// The mode of tuning hyper-parameters; `None` chooses it by the objective.
    pub hyper: Option<Hyper>,
    /// The solver for hyper-parameters; `None` chooses it by the objective.
    pub hyper_optimizer: Option<HyperOptimizer>,
    /// The posterior of the hyper-parameters, over which predictions are averaged.
    pub hyper_posterior: HyperPosteriorKind,
    /// The number of L-BFGS iterations, on the collapsed bound of a sample of the rows, before mini-batch training; 0 for none.
    pub warm_start: usize,
    /// Adam's learning rate for hyper-parameters and inducing inputs.
    pub learning_rate: f64,
    /// The maximum number of passes over the data, or of L-BFGS iterations; `None` chooses it by the objective.
    pub epochs: Option<usize>,
    /// The maximum number of mini-batch steps.
    pub max_steps: Option<usize>,
    /// The time limit in seconds.
    pub max_seconds: Option<f64>,
    /// The tolerance of the stopping test: training stops if the objective, averaged over several epochs, falls by less than this many nats
    /// per row and epoch. `None` chooses it by the objective.
    pub tolerance: Option<f64>,
    /// The target value: training stops if the validation score is at most this or, without validation rows, if the objective per row is.
    pub stop_at: Option<f64>,
    /// The range test: training stops if the objective stays within a range for some epochs. With it, an unset `tolerance` is 0.
    pub stop_range: Option<StopRange>,
    /// The number of epochs without a better validation score before training stops.
    pub patience: usize,
    /// The share of the training rows held out for validation.
    pub validation_fraction: f64,
    /// The number of random starts that short fits compare. A fit from a start model has only this start.
    pub restarts: usize,
    /// The random seed.
    pub seed: u64,
    /// The jitter on `K_uu`.
    pub jitter: Jitter,
    /// Constraints on hyper-parameters by name, on the standardised scale.
    pub constraints: Constraints,
    /// True if lengthscales without another constraint get a weak prior. It applies only if inputs are standardised.
    pub default_priors: bool,
    /// True if inputs and target are standardised.
    pub standardize: bool,
    /// The map of inputs before they are standardised.
    pub warp_inputs: InputWarp,
    /// The map of the target before it is standardised.
    pub warp_target: TargetWarp,
    /// The parts that are chosen on held-out training rows, instead of taken from these options. They are chosen only in fits of a whole
    /// model ([`Fit::fit`], fits to tables and files) without a start model.
    ///
    /// [`Fit::fit`]: crate::training::Fit::fit
    pub open: Open,
    /// Hyper-parameters by full name that an earlier fit found, on the scale the model sees. A fit without a start model starts from them
    /// again if they explain a sample of the rows better than the values that it has ended with. They are not stored; fields that are left
    /// over for them in a file are refused.
    #[serde(flatten, skip_serializing, deserialize_with = "super::stored::refuse_unknown")]
    #[doc(hidden)]
    pub found: Vec<(String, f64)>,
    /// The registry of kernels and likelihoods by name, which is not stored.
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
            offsets: 0,
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
            hyper_posterior: HyperPosteriorKind::None,
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
            found: Vec::new(),
            registry: Registry::default(),
        }
    }
}

/// The default mode of hyper-parameters is alternating up to this n·M², where n is the number of rows and M that of inducing inputs. Such
/// fits take seconds.
const ALTERNATING_WORK: usize = 50_000_000;

/// Like [`ALTERNATING_WORK`], for likelihoods of two functions, whose mini-batch fits end further from the optimum.
const ALTERNATING_WORK_OF_TWO: usize = 150_000_000;

/// Like [`ALTERNATING_WORK`], for classes, whose mini-batch fits end even further from the optimum.
const ALTERNATING_WORK_OF_CLASSES: usize = 1_500_000_000;

/// The minimum of the default limit on mini-batch steps.
const LEAST_STEPS: usize = 200;

/// The default maximum number of mini-batch steps with neighbours. Fitted to 105,569 pixels of a satellite image, 8 epochs (832 steps)
/// predict 42,740 other pixels as well as 50 epochs do.
const MOST_STEPS_BESIDE_NEIGHBOURS: usize = 1000;

/// The minimum of the default limit on epochs with neighbours.
const FEWEST_EPOCHS_BESIDE_NEIGHBOURS: usize = 4;

/// The default maximum number of inducing inputs if q has no closed form. Time grows with the square of the number, and beyond it the
/// held-out log loss hardly falls (`lending_club`: 0.2106, 0.2105 and 0.2105 with 100, 200 and 400; `phishing`, of 68 columns: 0.112 with
/// 120, 0.101 with 240).
const MOST_BY_STEPS: usize = 300;

/// The default maximum number of inducing inputs with neighbours, which model local variation.
const MOST_BESIDE_NEIGHBOURS: usize = 100;

/// n·M² for each second of a time limit, where n is the number of rows and M the default number of inducing inputs: the last pass over all
/// rows then takes less than half of the time on two cores.
const WORK_A_SECOND: f64 = 2e9;

/// The least default number of inducing inputs within a time limit.
const FEWEST_IN_TIME: usize = 20;

/// The maximum number of rows that are all inducing inputs by default, if the noise is Gaussian: the fit is then an exact GP.
const EXACT_ROWS: usize = 1000;

/// The maximum number of rows for which an ELBO with Gaussian noise is collapsed by default.
const COLLAPSED_ROWS: usize = 100_000;

impl FitOptions {
    /// Returns the kernel for `d` inputs, with the kind of each input set.
    ///
    /// # Errors
    ///
    /// Returns a usage error if the text of the kernel cannot be parsed, or if the kernel cannot be used with inputs of these kinds.
    #[doc(hidden)]
    pub fn kernel_of(&self, d: usize) -> Result<Box<dyn Kernel>> {
        self.told(self.registry.kernel(&self.kernel, d)?, d)
    }

    /// Returns the number of inputs of f, which is `columns` without the columns of grouped effects at the end.
    pub(crate) fn inputs_of(&self, columns: usize) -> usize {
        columns.saturating_sub(columns_of(&self.effects))
    }

    /// Sets the kinds of `d` inputs on a kernel, and returns it.
    pub(crate) fn told(&self, mut kernel: Box<dyn Kernel>, d: usize) -> Result<Box<dyn Kernel>> {
        let known = self.dimensions.len();
        if !(known == 0 || known == d) {
            return Err(Error::usage(format!("⟨dimensions⟩ describe {known} inputs, expected {d}")));
        }
        kernel.set_dimensions(&self.dimensions).map_err(|error| {
            let hint = match error {
                DimensionError::NoCategories { .. } => {
                    "apply it to columns of numbers, as in ⟨kernel 'periodic[hour] * matern32(ard)'⟩, or leave columns of text out with ⟨exclude⟩"
                }
                DimensionError::SeparateLengthscales { .. } => "give them one value, or leave ⟨places⟩ or ⟨plane⟩ out",
            };
            Error::usage(format!("⟨kernel⟩: {error}")).hint(hint)
        })?;
        check_values(kernel.as_ref(), d).map_err(|error| Error::usage(format!("⟨kernel⟩: {error}")))?;
        Ok(kernel)
    }

    /// Returns true if the objective is minimised on mini-batches, with an explicit q.
    #[doc(hidden)]
    pub fn has_own_q(&self) -> bool {
        !self.objective.is_closed()
    }

    /// Returns true if the fit computes q in closed form on all rows.
    #[doc(hidden)]
    pub fn is_collapsed(&self) -> bool {
        self.is_always_closed() || self.hyper == Some(Hyper::Collapsed)
    }

    /// Returns true if q has a closed form on all rows in every mode of the hyper-parameters.
    pub(super) fn is_always_closed(&self) -> bool {
        !self.has_own_q() || self.neighbours.is_some() || self.eliminates_effects()
    }

    /// Returns true if grouped effects are solved for in closed form, level by level of the largest grouping. Otherwise they are features of the
    /// layers, and every method of training applies to them.
    pub(crate) fn eliminates_effects(&self) -> bool {
        let closed = matches!(self.objective, ObjectiveKind::Elbo | ObjectiveKind::Vfe | ObjectiveKind::Fitc);
        let by_steps = matches!(self.hyper, Some(Hyper::Joint | Hyper::Alternating | Hyper::Dual))
            || self.estimator.is_sampled()
            || self.steps.family != Family::Full;
        !self.effects.is_empty()
            && self.neighbours.is_none()
            && !self.likelihood_kind().is_joint()
            && closed
            && !by_steps
    }

    /// Returns true unless grouped effects in closed form need all rows in memory: sums by level add up over blocks of rows for one grouping and
    /// Gaussian noise.
    #[doc(hidden)]
    pub fn adds_up(&self) -> bool {
        !self.eliminates_effects() || self.effects.len() == 1 && self.likelihood_kind().has_gaussian_noise()
    }

    /// Returns the prior of the weights of f's features in a model with grouped effects. The coefficients of a linear model are fixed
    /// effects there.
    #[doc(hidden)]
    pub fn weight_prior(&self) -> WeightPrior {
        match (self.model, self.reml) {
            (ModelKind::Gp, _) => WeightPrior::Unit,
            (ModelKind::Glm, false) if self.likelihood_kind().has_gaussian_noise() => WeightPrior::Profiled,
            (ModelKind::Glm, false) => WeightPrior::Weak { intercept: self.mean != MeanKind::Zero },
            (ModelKind::Glm, true) => WeightPrior::Integrated,
        }
    }

    /// Returns the family of the likelihood; Gaussian by default.
    #[doc(hidden)]
    pub fn likelihood_kind(&self) -> LikelihoodKind {
        self.likelihood.unwrap_or(LikelihoodKind::Gaussian)
    }

    /// Returns the objective as mini-batches minimise it. It is meaningful only for objectives that can be minimised on mini-batches.
    #[doc(hidden)]
    pub fn mini_batch_objective(&self) -> Objective {
        let loss = match self.objective.loss() {
            LossKind::Log => Loss::LogPredictive(self.estimator),
            _ => Loss::ExpectedLog(self.estimator),
        };
        // Coarse integrals have errors of 1e-6, a thousandth of the smallest tolerance for which they are used.
        let coarse = self.solves_for_classes() && self.stopping_tolerance() >= 1e-3;
        Objective { loss, beta: self.beta, nodes: self.quadrature_nodes, coarse }
    }

    /// Returns the mode of tuning hyper-parameters; by default it depends on the objective.
    #[doc(hidden)]
    pub fn hyper_mode(&self) -> Hyper {
        self.hyper.unwrap_or(match self.is_always_closed() {
            true => Hyper::Collapsed,
            false if self.can_keep_sites() => Hyper::Dual,
            false => Hyper::Joint,
        })
    }

    /// Returns the options with the mode of hyper-parameters set explicitly, so that [`decided_for`](Self::decided_for) does not replace
    /// mini-batches by a closed form.
    #[doc(hidden)]
    pub fn by_batches(self) -> FitOptions {
        let joint = self.hyper.is_none() && self.eliminates_effects();
        let hyper = if joint { Hyper::Joint } else { self.hyper_mode() };
        // L-BFGS on q alone needs all rows in memory.
        let by_adam = hyper == Hyper::Fixed && !self.is_always_closed();
        let hyper_optimizer = self.hyper_optimizer.or(by_adam.then_some(HyperOptimizer::Adam));
        FitOptions { hyper: Some(hyper), hyper_optimizer, ..self }
    }

    /// Returns true if weak default priors apply. They suit only standardised data.
    #[doc(hidden)]
    pub fn has_default_priors(&self) -> bool {
        self.default_priors && self.standardize
    }

    /// Returns true if q can be stored as sites, in a model without grouped effects.
    fn can_keep_sites(&self) -> bool {
        self.takes_exact_steps() && self.model == ModelKind::Gp && self.effects.is_empty()
    }

    /// Returns true if q has a full covariance and takes exact natural gradients of an ELBO, with the last iterate as the result.
    fn takes_exact_steps(&self) -> bool {
        self.objective == ObjectiveKind::Elbo
            && self.steps.family == Family::Full
            && self.steps.q_update == QUpdate::Ngd
            && self.steps.q_average == Average::None
            && !self.estimator.is_sampled()
    }

    /// Returns the solver for hyper-parameters; by default it depends on their mode.
    #[doc(hidden)]
    pub fn optimizer(&self) -> HyperOptimizer {
        self.hyper_optimizer.unwrap_or(match self.hyper_mode() {
            Hyper::Collapsed | Hyper::Alternating => HyperOptimizer::Lbfgs,
            Hyper::Joint | Hyper::Dual | Hyper::Fixed => HyperOptimizer::Adam,
        })
    }

    /// Returns true if q is stored as sites, which stay fixed when hyper-parameters change.
    pub(crate) fn keeps_sites(&self) -> bool {
        let asked = match self.hyper_mode() {
            Hyper::Dual => true,
            // q is solved for again, starting from the sites. Sites of the predictive log loss may have negative precisions.
            Hyper::Alternating => self.objective.loss() == LossKind::Elbo,
            _ => false,
        };
        asked && self.model == ModelKind::Gp && self.steps.family == Family::Full && self.effects.is_empty()
    }

    /// Returns the epoch limit for `n` rows. By default few rows get more epochs, because their epochs have few steps. With neighbours,
    /// many rows get fewer epochs, because later steps fit the training rows without better predictions of other rows.
    pub(crate) fn epoch_limit_for(&self, n: usize) -> usize {
        let limit = self.epoch_limit();
        let steps = n.div_ceil(self.steps.batch_size.max(1)).max(1);
        if self.epochs.is_some() {
            return limit;
        }
        if self.neighbours.is_some() {
            return limit.min((MOST_STEPS_BESIDE_NEIGHBOURS / steps).max(FEWEST_EPOCHS_BESIDE_NEIGHBOURS));
        }
        if self.trains_together() {
            return limit.min(self.epochs_together(n));
        }
        if self.is_collapsed() || self.hyper_mode() == Hyper::Alternating {
            return limit;
        }
        limit.max(LEAST_STEPS / steps)
    }

    /// Returns the epoch limit; by default it depends on the objective.
    #[doc(hidden)]
    pub fn epoch_limit(&self) -> usize {
        self.epochs.unwrap_or(match self.objective.loss() {
            // Earlier, shorter rounds do most of the work.
            _ if self.neighbours.is_some() => 50,
            // Iterations are cheap and progress is slow, because nothing increases the noise variance while the fit is poor.
            LossKind::Square => 500,
            // Iterations are cheap, because each takes one pass, and the last digits of a direct loss take many.
            _ if self.trains_together() => 3000,
            _ if self.is_collapsed() || self.hyper_mode() == Hyper::Alternating => 200,
            // A step with sites takes longer and gains more.
            LossKind::Elbo if self.hyper_mode() == Hyper::Dual => 50,
            _ => 100,
        })
    }

    /// Returns the tolerance of the stopping test; by default it depends on the objective.
    #[doc(hidden)]
    pub fn stopping_tolerance(&self) -> f64 {
        self.tolerance.unwrap_or(match self.objective.loss() {
            _ if self.stop_range.is_some() => 0.0,
            // There are few parameters and iterations are cheap. With few rows, a larger tolerance stops before large steps.
            _ if self.eliminates_effects() && self.model == ModelKind::Glm => 1e-10,
            // In a good fit the squared error of standardised targets is far below 1.
            LossKind::Square => 1e-7,
            // Sampling noise hides the gain of an epoch, so these fits end at their other limits.
            LossKind::Log if self.estimator.is_predictive() => 0.0,
            _ if self.trains_together() => 2e-6,
            // Every iteration solves for q, so the last, small gains are expensive. They hardly reduce the error rate.
            LossKind::Elbo if self.solves_for_classes() => 1e-3,
            // The gains that come last do not change predictions.
            _ if self.is_collapsed() => 2e-5,
            _ => 1e-5,
        })
    }

    /// Returns true if the target is a class and every iteration solves for q (alternating mode).
    pub(super) fn solves_for_classes(&self) -> bool {
        self.likelihood_kind().target_kind().is_of_classes() && self.hyper_mode() == Hyper::Alternating
    }

    /// Returns true if a fit ends with steps on q that use all rows. It does not if the user turned these steps off or requested a q other
    /// than the minimiser of the objective.
    pub(crate) fn polishes(&self) -> bool {
        let steps = &self.steps;
        let free = steps.q_average == Average::None
            && !self.estimator.is_sampled()
            && !steps.q_update.rule().projects;
        steps.polish && free
    }

    /// Returns true if steps on all rows may replace mini-batches in fits that train only q. They may not if an option about mini-batches
    /// or steps is set.
    pub(crate) fn all_rows_will_do(&self) -> bool {
        let steps = &self.steps;
        let sized = self.model == ModelKind::Glm && steps.batch_size != StepOptions::default().batch_size;
        let asks_for_batches = sized || steps.batch_schedule.is_some() || self.max_steps.is_some();
        // For the predictive log loss, S has no Newton step, so steps on all rows that never raise the loss are far slower than constant
        // steps on mini-batches.
        let convex = self.objective.loss() != LossKind::Log;
        let by_default = steps.q_update == QUpdate::Ngd && steps.q_step.is_none();
        self.polishes() && convex && !asks_for_batches && by_default
    }

    /// Returns true if q starts at the prior. This holds for linear models for which the user set a rule or a step size: a start at the
    /// optimum would leave the rule nothing to do.
    pub(crate) fn starts_at_prior(&self) -> bool {
        let chosen = self.steps.q_update != QUpdate::Ngd
            || self.steps.q_step.is_some()
            || self.steps.q_average != Average::None
            || self.estimator.is_sampled();
        self.model == ModelKind::Glm && chosen
    }

    /// Returns the options for `n` rows, with the default mode of hyper-parameters resolved. An ELBO with Gaussian noise collapses, unless
    /// options about mini-batches are set, or a sparse GP has so many rows that a pass over all rows per step is too expensive. Other ELBOs
    /// alternate if n·M² is small.
    #[doc(hidden)]
    pub fn decided_for(&self, n: usize) -> FitOptions {
        let few = n <= COLLAPSED_ROWS
            || self.model == ModelKind::Glm
            || self.hyper_optimizer == Some(HyperOptimizer::Lbfgs);
        self.decided(n, few)
    }

    /// Like [`decided_for`](Self::decided_for), for rows that are distributed in parts. The fit passes over all rows if its objective is a
    /// sum over parts (collapsed), and otherwise uses mini-batches.
    #[doc(hidden)]
    pub fn decided_for_parts(&self, n: usize) -> FitOptions {
        let decided = self.decided(n, true);
        let adds_up = decided.is_collapsed() && decided.adds_up();
        if adds_up || self.hyper.is_some() { decided } else { self.clone().by_batches() }
    }

    fn decided(&self, n: usize, few: bool) -> FitOptions {
        let default_steps = *self == self.without_steps();
        let untold = default_steps
            && self.hyper.is_none()
            && self.hyper_optimizer != Some(HyperOptimizer::Adam)
            && self.warm_start == FitOptions::default().warm_start;
        let conjugate = self.likelihood_kind().has_gaussian_noise() && self.objective == ObjectiveKind::Elbo;
        // Grouped effects without a closed form are further features.
        let m = self.inducing_for(n) + self.effects.iter().map(EffectTerm::coefficients).sum::<usize>();
        let kind = self.likelihood_kind();
        let of_classes = kind.target_kind().is_of_classes();
        let most_work = match self.model {
            // Steps of Adam leave the parameters of a likelihood far from the optimum. Linear models of classes have none.
            ModelKind::Glm => usize::MAX * usize::from(!of_classes),
            ModelKind::Gp if of_classes => ALTERNATING_WORK_OF_CLASSES,
            ModelKind::Gp if kind.is_joint() => ALTERNATING_WORK_OF_TWO,
            ModelKind::Gp => ALTERNATING_WORK,
        };
        let hyper = if conjugate && untold && few {
            Some(Hyper::Collapsed)
        } else if untold && self.takes_exact_steps() && n * m * m <= most_work && !self.is_always_closed() {
            Some(Hyper::Alternating)
        } else {
            self.hyper
        };
        let open = default_steps && self.hyper_optimizer.is_none();
        let together = open && matches!(self.hyper, None | Some(Hyper::Fixed)) && self.together_for(n);
        let (hyper, hyper_optimizer) = match together {
            true => (self.hyper.or(Some(Hyper::Joint)), Some(HyperOptimizer::Lbfgs)),
            false => (hyper, self.hyper_optimizer),
        };
        FitOptions { hyper, hyper_optimizer, ..self.clone() }
    }

    /// Returns the number of inducing inputs for `n` rows.
    #[doc(hidden)]
    pub fn inducing_for(&self, n: usize) -> usize {
        if self.neighbours.is_some() {
            return self.inducing.unwrap_or((n / 10).clamp(50, MOST_BESIDE_NEIGHBOURS)).min(n);
        }
        let most = if self.likelihood_kind().has_gaussian_noise() { 500 } else { MOST_BY_STEPS };
        if self.inducing.is_none() && self.is_exact_for(n) {
            return n;
        }
        let root = 5.0 * (n as f64).sqrt();
        let usual = (n / 10).max(root as usize).clamp(50, most);
        let in_time =
            |seconds: f64| ((seconds * WORK_A_SECOND / n as f64).sqrt() as usize).max(FEWEST_IN_TIME);
        self.inducing.unwrap_or(self.max_seconds.map_or(usual, |seconds| usual.min(in_time(seconds)))).min(n)
    }

    /// Returns true if a fit with an inducing input at every distinct input is an exact GP.
    pub(crate) fn can_be_exact(&self) -> bool {
        let bounds_evidence = matches!(self.objective.loss(), LossKind::Elbo | LossKind::Fitc);
        let collapses = match self.hyper {
            None => *self == self.without_steps(),
            hyper => hyper == Some(Hyper::Collapsed),
        };
        self.likelihood_kind().has_gaussian_noise()
            && bounds_evidence
            && collapses
            && self.neighbours.is_none()
            && self.effects.is_empty()
    }

    /// Returns true if `n` rows are few enough for an exact GP by default.
    pub(crate) fn is_exact_for(&self, n: usize) -> bool {
        n <= EXACT_ROWS && self.can_be_exact()
    }
}
