//! The plan of a fit: checked options with all defaults resolved for the number of rows.

use super::fit::FitOptions;
use super::words::{Hyper, HyperOptimizer, LossKind, ModelKind, ObjectiveKind};
use crate::collapsed::WeightPrior;
use crate::error::{Error, Result};
use crate::hyper::Limits;
use crate::likelihood::{LikelihoodKind, Observation, ObservationModel};
use crate::objective::{Estimator, Objective};
use crate::variational::Family;

/// A resolved fit.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The options, with all choices made for the number of rows.
    pub options: FitOptions,
    pub rows: usize,
    pub loss: LossKind,
    /// The method that finds q.
    pub way: Way,
    /// The maximum number of rows that steps on q process at once.
    pub batch_size: usize,
    /// True if hyper-parameters and inducing inputs are trained.
    pub trains: bool,
    /// The solver for hyper-parameters and inducing inputs.
    pub solver: HyperOptimizer,
    pub limits: Limits,
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
    Batches,
    /// By natural gradients on all rows, for the current θ and Z.
    Alternating,
    /// By L-BFGS on all rows, together with θ and Z.
    Together,
}

/// The evidence of a model with grouped effects, or a bound on the evidence.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct GroupedBound {
    /// True for FITC, false for the variational bound (VFE).
    pub fitc: bool,
    /// The prior of the weights of f's features.
    pub weights: WeightPrior,
    /// The objective whose losses Gaussian sites approximate; `None` for the exact evidence with Gaussian noise.
    pub losses: Option<Objective>,
}

impl GroupedBound {
    /// Returns the objective whose sums give the bound.
    pub(crate) fn objective(&self) -> Objective {
        if self.fitc { Objective::fitc() } else { Objective::elbo(1.0) }
    }
}

/// The plan of a fit with neighbours.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
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
#[doc(hidden)]
pub struct Keeping {
    /// The maximum number of rows, drawn at random if there are more; `None` for all.
    pub(crate) rows: Option<usize>,
    /// True if numbers are rounded to single precision, which halves the size of the file.
    pub(crate) single: bool,
}

impl Way {
    /// Returns the method that finds q. All parts must have been chosen.
    fn new(options: &FitOptions, likelihood: &ObservationModel) -> Way {
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
            Way::Alternating
        } else if options.trains_together() {
            Way::Together
        } else {
            Way::Batches
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
        let way = Way::new(&options, likelihood);
        Ok(Plan {
            rows: n,
            loss: options.objective.loss(),
            batch_size: if matches!(way, Way::Together) { n } else { options.steps.batch_size.min(n) },
            way,
            trains: options.hyper_mode() != Hyper::Fixed,
            solver: options.optimizer(),
            limits: limits(&options, n),
            options,
        })
    }

    /// Returns true if grouped effects are features of the layers in training.
    pub fn sums_effects(&self) -> bool {
        !self.options.effects.is_empty() && !matches!(self.way, Way::Grouped(_) | Way::Neighbours(_))
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
