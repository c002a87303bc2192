//! The plan of a fit: checked options with all defaults resolved for the number of rows.

use super::fit::FitOptions;
use super::words::{Hyper, HyperOptimizer, LossKind, ModelKind, ObjectiveKind};
use crate::collapsed::WeightPrior;
use crate::data::{BatchPlan, SizeSchedule};
use crate::error::{Error, Result};
use crate::hyper::{Constraints, Limits};
use crate::latent::{InducingInit, Jitter};
use crate::likelihood::{LikelihoodKind, Observation, ObservationModel};
use crate::objective::{Estimator, Objective};
use crate::variational::{Average, Family, Guard, RuleOptions, Schedule};

/// A resolved fit.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The options, with all choices made for the number of rows.
    pub options: FitOptions,
    /// The layer that produces the features.
    pub layer: LayerPlan,
    /// The loss.
    pub loss: LossKind,
    /// The method that finds q.
    pub way: Way,
    /// The tuning of hyper-parameters and inducing inputs.
    pub hyper: HyperPlan,
    /// The limits of the training.
    pub limits: Limits,
}

/// The layer that produces the features.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub(crate) enum LayerPlan {
    /// A sparse Gaussian process.
    Sparse {
        /// The number of inducing inputs.
        inducing: usize,
        /// The method that chooses them.
        init: InducingInit,
        /// True if training does not move them.
        fix: bool,
        /// The jitter on `K_uu`.
        jitter: Jitter,
        /// The number of rows, if the fit is an exact GP, with less jitter, when the inducing inputs are all distinct inputs.
        exact_rows: Option<usize>,
    },
    /// A Bayesian linear model.
    Linear {
        /// The prior mean of the coefficients, on the scale the model sees.
        prior_mean: f64,
        /// The prior variance of the coefficients, on the scale the model sees.
        prior_variance: f64,
    },
}

/// The method that finds q.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub(crate) enum Way {
    /// In closed form on all rows, for the current θ and Z.
    Collapsed(Objective),
    /// In closed form on all rows, jointly with grouped effects.
    Grouped(GroupedBound),
    /// In closed form, with each row conditioned on its neighbours.
    Neighbours(NeighbourPlan),
    /// By steps on mini-batches, together with steps on θ and Z.
    Batches(StepPlan),
    /// By natural gradients on all rows, for the current θ and Z.
    Alternating(StepPlan),
    /// By L-BFGS on all rows, together with θ and Z.
    Together(StepPlan),
}

/// The evidence of a model with grouped effects, or a bound on the evidence.
#[derive(Clone, Copy, Debug)]
pub struct GroupedBound {
    /// True for FITC, false for the variational bound (VFE).
    pub fitc: bool,
    /// The prior of the weights of f's features.
    pub weights: WeightPrior,
    /// The objective whose losses Gaussian sites approximate; `None` for the exact evidence with Gaussian noise.
    pub losses: Option<Objective>,
}

/// The plan of a fit with neighbours.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourPlan {
    /// The number of neighbours of a row.
    pub count: usize,
    /// The loss: the evidence of each row given its preceding neighbours, or the loss of its prediction from the nearest other rows.
    pub loss: LossKind,
    /// The weight of the KL term.
    pub beta: f64,
    /// The rows that the model stores.
    pub keeping: Keeping,
    /// The number of quadrature nodes; with `None` each row gets as many as it needs.
    pub nodes: Option<usize>,
}

/// The options about the training rows that a model stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The maximum number of rows, drawn at random if there are more; `None` for all.
    pub(crate) rows: Option<usize>,
    /// True if numbers are rounded to single precision, which halves the size of the file.
    pub(crate) single: bool,
}

/// The tuning of hyper-parameters and inducing inputs.
#[derive(Clone, Debug)]
pub(crate) struct HyperPlan {
    /// True if they are trained.
    pub trains: bool,
    /// The solver.
    pub solver: HyperOptimizer,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// The constraints on hyper-parameters.
    pub constraints: Constraints,
    /// True if lengthscales without another constraint get a weak prior.
    pub weak_priors: bool,
}

/// The gradient steps on q.
#[derive(Clone, Debug)]
pub(crate) struct StepPlan {
    /// The objective to minimise.
    pub objective: Objective,
    /// The form of the covariance matrix of q.
    pub family: Family,
    /// True if q is stored as sites, which stay fixed when θ and Z change.
    pub sites: bool,
    /// The rule that moves q.
    pub rule: RuleOptions,
    /// True if the means of the coefficients are kept non-negative.
    pub nonnegative: bool,
    /// The guard that keeps the covariance positive definite after natural-gradient steps.
    pub guard: Guard,
    /// The step size at iteration t.
    pub step: Schedule,
    /// The rows of each step.
    pub batches: BatchPlan,
    /// The maximum number of rows that are processed at once.
    pub batch_size: usize,
    /// The number of samples at iteration t; overrides the number of the estimator.
    pub samples: Option<SizeSchedule>,
    /// The average of the iterates to return.
    pub average: Average,
    /// True if q starts at the prior.
    pub from_prior: bool,
    /// True if steps on all rows may replace mini-batches in a fit that trains only q, provided that the rows are few.
    pub all_rows_will_do: bool,
    /// True if training may end with steps on all rows.
    pub polish: bool,
}

impl Way {
    /// Returns the method that finds q in a fit to `n` rows. All parts must have been chosen.
    fn new(options: &FitOptions, likelihood: &ObservationModel, n: usize) -> Way {
        let loss = options.objective.loss();
        if let Some(count) = options.neighbours {
            let keeping = Keeping { rows: options.keep_rows, single: options.keep_single };
            let nodes = options.quadrature_nodes;
            Way::Neighbours(NeighbourPlan { count, loss, beta: options.beta, keeping, nodes })
        } else if options.eliminates_effects() {
            let closed = likelihood.gaussian_noise().is_some() && options.beta == 1.0;
            Way::Grouped(GroupedBound {
                fitc: loss == LossKind::Fitc,
                weights: options.weight_prior(),
                losses: (!closed).then(|| options.mini_batch_objective()),
            })
        } else if options.is_collapsed() {
            Way::Collapsed(match loss {
                LossKind::Fitc => Objective::fitc(),
                LossKind::Square => Objective::square(options.beta),
                LossKind::Elbo | LossKind::Log => Objective::elbo(options.beta),
            })
        } else if options.hyper_mode() == Hyper::Alternating {
            Way::Alternating(StepPlan::new(options, n))
        } else if options.trains_together() {
            Way::Together(StepPlan { batch_size: n, ..StepPlan::new(options, n) })
        } else {
            Way::Batches(StepPlan::new(options, n))
        }
    }
}

/// Returns the limits of training on `n` rows.
fn limits(options: &FitOptions, n: usize) -> Limits {
    let solver = options.optimizer();
    let fixed_effects = options.eliminates_effects() && options.model == ModelKind::Glm;
    Limits {
        epochs: options.epoch_limit_for(n),
        steps: options.max_steps,
        seconds: options.max_seconds,
        tolerance: options.stopping_tolerance(),
        // Adam gains most in its first epochs. L-BFGS has phases of little progress, except in linear mixed models, which have few
        // parameters.
        window: match solver {
            HyperOptimizer::Adam => 4,
            HyperOptimizer::Lbfgs if fixed_effects => 1,
            HyperOptimizer::Lbfgs if options.solves_for_classes() => 4,
            HyperOptimizer::Lbfgs => 10,
        },
        range: options.stop_range,
        // Adam reduces its step size at each plateau.
        plateaus: if solver == HyperOptimizer::Adam { 2 } else { 0 },
        patience: options.patience,
        target: options.stop_at,
    }
}

impl Plan {
    /// Creates the plan for `n` rows with this likelihood.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`FitOptions::validate`], and usage errors for options that this likelihood does not allow.
    pub fn new(options: &FitOptions, likelihood: &ObservationModel, n: usize) -> Result<Plan> {
        let options = &FitOptions { likelihood: Some(LikelihoodKind::of(&**likelihood)), ..options.clone() };
        options.validate()?;
        if options.reml && options.effects.is_empty() {
            return Err(Error::usage("⟨reml⟩ is for linear models with ⟨group⟩, and no group is given"));
        }
        check_estimator(options.estimator, likelihood)?;
        let options = options.decided_for(n);
        let (hyper, loss) = (options.hyper_mode(), options.objective.loss());
        Ok(Plan {
            layer: LayerPlan::new(&options, n),
            loss,
            way: Way::new(&options, likelihood, n),
            hyper: HyperPlan {
                trains: hyper != Hyper::Fixed,
                solver: options.optimizer(),
                learning_rate: options.learning_rate,
                constraints: options.constraints.clone(),
                weak_priors: options.has_default_priors(),
            },
            limits: limits(&options, n),
            options,
        })
    }

    /// Returns the form of the covariance matrix of q.
    pub fn family(&self) -> Family {
        self.steps().map_or(Family::Full, |steps| steps.family)
    }

    /// Returns true if grouped effects are features of the layers in training.
    pub fn sums_effects(&self) -> bool {
        !self.options.effects.is_empty() && !matches!(self.way, Way::Grouped(_) | Way::Neighbours(_))
    }

    /// Returns the plan of the steps on q, or `None` if q is computed in closed form.
    pub fn steps(&self) -> Option<&StepPlan> {
        match &self.way {
            Way::Collapsed(_) | Way::Grouped(_) | Way::Neighbours(_) => None,
            Way::Batches(steps) | Way::Alternating(steps) | Way::Together(steps) => Some(steps),
        }
    }
}

impl LayerPlan {
    fn new(options: &FitOptions, n: usize) -> LayerPlan {
        match options.model {
            ModelKind::Gp => LayerPlan::Sparse {
                inducing: options.inducing_for(n),
                init: options.inducing_init,
                fix: options.fix_inducing,
                jitter: options.jitter,
                exact_rows: options.can_be_exact().then_some(n),
            },
            ModelKind::Glm => {
                LayerPlan::Linear { prior_mean: options.prior_mean, prior_variance: options.prior_variance }
            }
        }
    }
}

impl StepPlan {
    fn new(options: &FitOptions, n: usize) -> StepPlan {
        let steps = &options.steps;
        StepPlan {
            objective: options.mini_batch_objective(),
            family: steps.family,
            sites: options.keeps_sites(),
            rule: steps.rule(),
            nonnegative: steps.q_nonnegative,
            guard: steps.q_guard,
            step: options.step_schedule(),
            batches: match steps.batch_schedule {
                Some(sizes) => BatchPlan::Sized(sizes),
                None => BatchPlan::Epochs(steps.batch_size.min(n)),
            },
            batch_size: steps.batch_size.min(n),
            samples: steps.sample_schedule,
            average: steps.q_average,
            from_prior: options.starts_at_prior(),
            all_rows_will_do: options.all_rows_will_do(),
            polish: options.polishes(),
        }
    }
}

/// Refuses an estimator that the likelihood does not allow. If the log density has a kink, samples miss the curvature at this single point.
/// Likelihoods of several functions have only some estimators.
fn check_estimator(estimator: Estimator, likelihood: &ObservationModel) -> Result<()> {
    let Some(likelihood) = likelihood.one() else {
        let bounded = likelihood.highest(Observation::of(1.0)).is_some();
        let suits = match estimator {
            Estimator::Exact | Estimator::Biased { .. } | Estimator::Smoothed { .. } => true,
            Estimator::Product { .. } => bounded,
            _ => false,
        };
        return if suits { Ok(()) } else { Err(unsuited(estimator, likelihood.name(), bounded)) };
    };
    let curved = estimator.latent_samples().is_some() && !matches!(estimator, Estimator::Product { .. })
        || matches!(estimator, Estimator::Price { .. });
    if curved && likelihood.resolution(Observation::of(1.0)).strip == 0.0 {
        return Err(Error::usage(format!(
            "⟨estimator {estimator}⟩ uses the curvature of the log density, but samples miss the curvature at the kink of {}",
            likelihood.name()
        ))
        .hint("use ⟨estimator exact⟩ with expectations in closed form, or reparam-ent:L"));
    }
    Ok(())
}

fn unsuited(estimator: Estimator, likelihood: &str, bounded: bool) -> Error {
    let others = if bounded { ", ups:L" } else { "" };
    Error::usage(format!(
        "⟨estimator {estimator}⟩ needs a likelihood of one latent function, {likelihood} has several"
    ))
    .hint(format!("use ⟨estimator exact⟩, or for ⟨objective dlm-log⟩ bmc:L, smooth-bmc:L:NU{others}"))
}

/// Direct losses are minimised on all rows up to this n·M², four times as much for several functions. Such fits take seconds.
const TOGETHER_WORK: usize = 400_000_000;

/// The default limit on the epochs of such a fit keeps their work below this, but allows …
const TOGETHER_BUDGET: f64 = 1e11;

/// … at least this number of epochs.
const FEWEST_EPOCHS_TOGETHER: usize = 300;

impl FitOptions {
    /// Returns true if L-BFGS moves q and hyper-parameters together, or q alone if they are fixed, on all rows.
    pub(crate) fn trains_together(&self) -> bool {
        matches!(self.hyper_mode(), Hyper::Joint | Hyper::Fixed)
            && self.optimizer() == HyperOptimizer::Lbfgs
            && !self.is_always_closed()
    }

    /// Returns true if a fit to `n` rows in memory trains q and hyper-parameters together by default: direct losses of few rows, for which
    /// steps on mini-batches end far from the optimum.
    pub(super) fn together_for(&self, n: usize) -> bool {
        let work = self.work_together(n);
        let exact = !self.estimator.is_sampled() && self.steps.family == Family::Full;
        self.objective == ObjectiveKind::DlmLog && !self.is_always_closed() && exact && work <= TOGETHER_WORK
    }

    /// Returns the default limit on the epochs of such a fit to `n` rows.
    pub(super) fn epochs_together(&self, n: usize) -> usize {
        ((TOGETHER_BUDGET / self.work_together(n) as f64) as usize).max(FEWEST_EPOCHS_TOGETHER)
    }

    /// Returns the work of a pass over `n` rows that moves q and hyper-parameters together.
    fn work_together(&self, n: usize) -> usize {
        let functions = if self.likelihood_kind().is_joint() { 4 } else { 1 };
        functions * n * self.inducing_for(n).pow(2)
    }
}
