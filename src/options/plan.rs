//! What a fit does, with nothing left open: options that were checked, and what follows from them for so many data.

use super::fit::FitOptions;
use super::neighbours::Keeping;
use super::words::{Hyper, HyperOptimizer, LossKind, MeanKind, ModelKind};
use crate::collapsed::{CollapsedBound, WeightPrior};
use crate::data::BatchPlan;
use crate::data::SizeSchedule;
use crate::effects::EffectTerm;
use crate::error::{Error, Result};
use crate::gradient::Precision;
use crate::hyper::{Constraints, Limits};
use crate::latent::{InducingInit, Jitter};
use crate::likelihood::{LikelihoodKind, Observation, ObservationModel};
use crate::objective::{Estimator, Objective};
use crate::variational::{Average, Family, Guard, RuleOptions, Schedule};

/// A fit as it will be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who produces the features.
    pub layer: LayerPlan,
    /// Grouped effects beside f.
    pub effects: Vec<EffectTerm>,
    /// The prior mean of f: a constant, or zero.
    pub mean: MeanKind,
    /// The loss.
    pub loss: LossKind,
    /// The weight of the KL term.
    pub beta: f64,
    /// How q is found.
    pub way: Way,
    /// How hyper-parameters and inducing inputs are tuned.
    pub hyper: HyperPlan,
    /// When training ends.
    pub limits: Limits,
    /// Whether nobody said how many epochs there may be.
    pub epochs_by_default: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// Who produces the features.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LayerPlan {
    /// A sparse Gaussian process.
    Sparse {
        /// The number of inducing inputs.
        inducing: usize,
        /// How they are chosen.
        init: InducingInit,
        /// Whether they stay where they are.
        fix: bool,
        /// The jitter on `K_uu`.
        jitter: Jitter,
    },
    /// A Bayesian linear model.
    Linear {
        /// The prior mean of the coefficients, on the scale the model sees.
        prior_mean: f64,
        /// The prior variance of the coefficients, on the scale the model sees.
        prior_variance: f64,
    },
}

/// How q is found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Way {
    /// In closed form on all rows, wherever θ and Z are.
    Collapsed(CollapsedBound),
    /// In closed form on all rows together with grouped effects.
    Grouped(GroupedBound),
    /// In closed form on rows that know their neighbours.
    Neighbours(NeighbourPlan),
    /// By steps on mini-batches, taken together with those on θ and Z.
    Batches(StepPlan),
    /// By natural gradients on all rows, wherever θ and Z are.
    Alternating(StepPlan),
}

/// The evidence of a model with grouped effects.
#[derive(Clone, Copy, Debug)]
pub struct GroupedBound {
    /// Whether it is FITC's; the variational bound (VFE) otherwise.
    pub fitc: bool,
    /// What is assumed of the weights of f's features.
    pub weights: WeightPrior,
}

/// What neighbours are for.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourPlan {
    /// How many a row has.
    pub count: usize,
    /// The loss: the evidence of rows given predecessors, or losses of predictions from the nearest others.
    pub loss: LossKind,
    /// The weight of the KL term.
    pub beta: f64,
    /// Which rows the model keeps.
    pub keeping: Keeping,
    /// The nodes of quadrature; as many as needed when absent.
    pub nodes: Option<usize>,
}

/// How hyper-parameters and inducing inputs are tuned.
#[derive(Clone, Debug)]
pub struct HyperPlan {
    /// Whether they are trained at all.
    pub trains: bool,
    /// With which solver.
    pub solver: HyperOptimizer,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// Iterations of L-BFGS on the collapsed bound of a part of the rows, from which training starts; 0 for none.
    pub warm_start: usize,
    /// What is said about single values.
    pub constraints: Constraints,
    /// Whether lengthscales about which nothing is said have a weak prior.
    pub weak_priors: bool,
}

/// How q is moved by gradients.
#[derive(Clone, Debug)]
pub struct StepPlan {
    /// What is minimised.
    pub objective: Objective,
    /// Which covariances q may have.
    pub family: Family,
    /// Whether q is kept as sites, which stay put when θ and Z move.
    pub sites: bool,
    /// The rule that moves q.
    pub rule: RuleOptions,
    /// Whether the coefficients' means may not be negative.
    pub nonnegative: bool,
    /// What keeps natural-gradient steps positive definite.
    pub guard: Guard,
    /// The step at iteration t.
    pub step: Schedule,
    /// Which rows a step takes.
    pub batches: BatchPlan,
    /// The most rows that are worked on at once.
    pub batch_size: usize,
    /// The number of samples at iteration t, instead of the estimator's own.
    pub samples: Option<SizeSchedule>,
    /// Which average of the iterates is returned.
    pub average: Average,
    /// The precision of mini-batches.
    pub precision: Precision,
    /// Whether q starts at the prior.
    pub from_prior: bool,
    /// Whether all rows may take the place of mini-batches where q alone is trained and they are few.
    pub all_rows_will_do: bool,
    /// Whether training may end with steps on all rows.
    pub polish: bool,
}

impl Plan {
    /// The plan for `n` data that this likelihood observes.
    ///
    /// # Errors
    ///
    /// As for [`FitOptions::validate`].
    pub fn new(options: &FitOptions, likelihood: &ObservationModel, n: usize) -> Result<Plan> {
        let options = &FitOptions { likelihood: Some(LikelihoodKind::of(likelihood)), ..options.clone() };
        options.validate()?;
        if options.reml && options.effects.is_empty() {
            return Err(Error::usage("⟨reml⟩ is for linear models with ⟨group⟩, and no group is given"));
        }
        check_estimator(options.estimator, likelihood)?;
        let options = &options.decided_for(n);
        let (hyper, loss) = (options.hyper_mode(), options.objective.loss());
        let way = if let Some(count) = options.neighbours {
            let keeping = Keeping { rows: options.keep_rows, single: options.keep_single };
            let nodes = options.quadrature_nodes;
            Way::Neighbours(NeighbourPlan { count, loss, beta: options.beta, keeping, nodes })
        } else if !options.effects.is_empty() {
            Way::Grouped(GroupedBound { fitc: loss == LossKind::Fitc, weights: options.weight_prior() })
        } else if options.is_collapsed() {
            Way::Collapsed(match loss {
                LossKind::Fitc => CollapsedBound::Fitc,
                LossKind::Square => CollapsedBound::Square { beta: options.beta },
                LossKind::Elbo | LossKind::Log => CollapsedBound::Elbo { beta: options.beta },
            })
        } else if hyper == Hyper::Alternating {
            Way::Alternating(StepPlan::new(options, n))
        } else {
            Way::Batches(StepPlan::new(options, n))
        };
        let solver = options.optimizer();
        let fixed_effects = !options.effects.is_empty() && options.model == ModelKind::Glm;
        Ok(Plan {
            layer: LayerPlan::new(options, n),
            effects: options.effects.clone(),
            mean: options.mean,
            loss,
            beta: options.beta,
            way,
            hyper: HyperPlan {
                trains: hyper != Hyper::Fixed,
                solver,
                learning_rate: options.learning_rate,
                warm_start: options.warm_start,
                constraints: options.constraints.clone(),
                weak_priors: options.has_default_priors(),
            },
            limits: Limits {
                epochs: options.epoch_limit_for(n),
                steps: options.max_steps,
                seconds: options.max_seconds,
                tolerance: options.stopping_tolerance(),
                // Mini-batches gain most in their first epochs; iterations of L-BFGS come in spells of little progress.
                // Those of the few parameters of linear mixed models do not.
                window: match solver {
                    HyperOptimizer::Adam => 4,
                    HyperOptimizer::Lbfgs if fixed_effects => 1,
                    HyperOptimizer::Lbfgs => 10,
                },
                range: options.stop_range,
                // A solver with a step size cuts it when progress ends.
                plateaus: if solver == HyperOptimizer::Adam { 2 } else { 0 },
                patience: options.patience,
                target: options.stop_at,
            },
            epochs_by_default: options.epochs.is_none(),
            seed: options.seed,
        })
    }

    /// The covariances that q may have.
    pub fn family(&self) -> Family {
        self.steps().map_or(Family::Full, |steps| steps.family)
    }

    /// How q is moved, where it is not solved for in closed form.
    pub fn steps(&self) -> Option<&StepPlan> {
        match &self.way {
            Way::Collapsed(_) | Way::Grouped(_) | Way::Neighbours(_) => None,
            Way::Batches(steps) | Way::Alternating(steps) => Some(steps),
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
            nonnegative: steps.nonnegative,
            guard: steps.guard,
            step: options.step_schedule(),
            batches: match steps.batch_schedule {
                Some(sizes) => BatchPlan::Sized(sizes),
                None => BatchPlan::Epochs(steps.batch_size.min(n)),
            },
            batch_size: steps.batch_size.min(n),
            samples: steps.sample_schedule,
            average: steps.average,
            precision: steps.precision,
            from_prior: options.starts_at_prior(),
            all_rows_will_do: options.all_rows_will_do(),
            polish: options.polishes(),
        }
    }
}

/// Refuses estimators that average the curvature of a density with a kink, which has its part of the curvature in a single point, and
/// those that several functions do not have.
fn check_estimator(estimator: Estimator, likelihood: &ObservationModel) -> Result<()> {
    let likelihood = match likelihood {
        ObservationModel::One(likelihood) => likelihood,
        ObservationModel::Joint(joint) => {
            let bounded = joint.peak(Observation::of(1.0)).is_some();
            let suits = match estimator {
                Estimator::Exact | Estimator::Biased { .. } | Estimator::Smoothed { .. } => true,
                Estimator::Product { .. } => bounded,
                _ => false,
            };
            return if suits { Ok(()) } else { Err(unsuited(estimator, joint.name(), bounded)) };
        }
    };
    let curved = estimator.latent_samples().is_some() && !matches!(estimator, Estimator::Product { .. })
        || matches!(estimator, Estimator::Price { .. });
    if curved && likelihood.resolution(Observation::of(1.0)).strip == 0.0 {
        return Err(Error::usage(format!(
            "⟨estimator {estimator}⟩ uses the curvature of the log density, of which the kink of {} has a part that no sample meets",
            likelihood.name()
        ))
        .hint("use ⟨estimator exact⟩ with expectations in closed form, or reparam-ent:L"));
    }
    Ok(())
}

fn unsuited(estimator: Estimator, likelihood: &str, bounded: bool) -> Error {
    let others = if bounded { ", ups:L" } else { "" };
    Error::usage(format!("⟨estimator {estimator}⟩ is not for the several functions of {likelihood}"))
        .hint(format!("use ⟨estimator exact⟩, or for ⟨objective dlm-log⟩ bmc:L, smooth-bmc:L:NU{others}"))
}
