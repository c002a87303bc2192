//! Where training starts: parameters from the data, and hyper-parameters and q improved on a subset of the rows.

use super::collapsed::CollapsedObjective;
use super::failure::failed_start;
use super::row_buffer::RowBuffer;
use super::solve::{SolveLimits, Sweep, UpdateCounts, solve_q};
use super::variational::VariationalModel;
use crate::collapsed::{CollapsedBound, Dataset};
use crate::data::moments::Moments;
use crate::data::{Purpose, generator};
use crate::error::{Error, Result};
use crate::hyper::{LbfgsOptions, Limits, Monitor, minimize_lbfgs};
use crate::latent::{InducingLayer, Layer, LinearLayer, choose_inducing};
use crate::likelihood::{Gaussian, Likelihood};
use crate::model::{LatentModel, Posterior};
use crate::objective::{Objective, Targets};
use crate::options::{FitOptions, LayerPlan, MeanKind, ModelKind, Plan, StepPlan};
use crate::variational::{Family, Normal};
use faer::Mat;
use rand::seq::SliceRandom;
use sparsegp_kernels::Kernel;

/// What a fit starts from instead of the data.
#[derive(Clone)]
pub struct Start {
    /// Kernel, mean, likelihood and inducing inputs.
    pub model: LatentModel,
    /// The whitened posterior to go on with; solved for when absent.
    pub q: Option<Normal>,
}

/// A kernel and a likelihood that have yet to see data.
#[derive(Clone)]
pub struct Prototype {
    /// The kernel; none for a linear model.
    pub kernel: Option<Box<dyn Kernel>>,
    /// The likelihood.
    pub likelihood: Box<dyn Likelihood>,
}

impl Prototype {
    /// What options name, for `d` inputs and a target of so many ordered levels (of no matter for others).
    ///
    /// # Errors
    ///
    /// A usage error when the kernel's text cannot be read, or the likelihood is not known.
    pub fn of(options: &FitOptions, d: usize, levels: usize) -> Result<Prototype> {
        let kernel = match options.model {
            ModelKind::Gp => Some(options.registry.kernel(&options.kernel, d)?),
            ModelKind::Glm => None,
        };
        Ok(Prototype { kernel, likelihood: options.registry.likelihood(options.likelihood_kind(), levels)? })
    }
}

/// Kernel, likelihood and inducing inputs from the data (a robust start: see `Kernel::initialise`).
///
/// # Errors
///
/// When inducing inputs cannot be chosen, or the kernel does not suit them.
pub(super) fn initial_model(train: Dataset<'_>, plan: &Plan, prototype: &Prototype) -> Result<LatentModel> {
    let mut likelihood = prototype.likelihood.clone();
    let centre = likelihood.initialise(train.targets.y, train.targets.exposure);
    let d = train.x.ncols();
    match (&plan.layer, &prototype.kernel) {
        (LayerPlan::Sparse { inducing, init, fix, jitter }, Some(kernel)) => {
            let mut kernel = kernel.clone();
            let responses = working_responses(likelihood.as_ref(), train.targets);
            let spread: Vec<f64> = (0..d).map(|i| variance(train.x.col(i).iter().copied()).sqrt()).collect();
            let amplitude = variance(responses);
            kernel.initialise(&spread, if amplitude > 0.0 { amplitude } else { 1.0 });
            let z = match (*inducing).min(train.len()) {
                0 => Mat::zeros(0, d),
                m => choose_inducing(train.x, m, *init, kernel.as_ref(), plan.seed)?,
            };
            let constant = if plan.mean == MeanKind::Constant { centre } else { 0.0 };
            let layer =
                InducingLayer::new(kernel, z, *jitter)?.with_mean(constant, plan.mean == MeanKind::Zero);
            Ok(LatentModel::new(layer.into(), likelihood, *fix))
        }
        (LayerPlan::Sparse { .. }, None) => Err(Error::usage("a sparse GP needs a kernel")),
        (LayerPlan::Linear { prior_mean, prior_variance }, _) => {
            let intercept = (plan.mean == MeanKind::Constant).then_some(centre);
            let layer = linear_layer(train, (*prior_mean, *prior_variance), intercept, plan.family())?;
            Ok(LatentModel::new(layer.into(), likelihood, true))
        }
    }
}

/// The prior variance of an intercept: wide for anything that is standardised or the logarithm of a rate.
const INTERCEPT_VARIANCE: f64 = 100.0;

/// Linear features, of the dimension of the data where they are fewer than the coefficients. An intercept has a wide prior
/// around the constant that suits the targets best.
fn linear_layer(
    train: Dataset<'_>,
    (prior_mean, prior_variance): (f64, f64),
    intercept: Option<f64>,
    family: Family,
) -> Result<LinearLayer> {
    let d = train.x.ncols();
    let (mut means, mut variances) = (vec![prior_mean; d], vec![prior_variance; d]);
    means.extend(intercept);
    variances.extend(intercept.map(|_| INTERCEPT_VARIANCE));
    let mut layer = LinearLayer::independent(&means, &variances)?;
    if intercept.is_some() {
        layer = layer.with_intercept();
    }
    Ok(layer.suited_to(train.x, family))
}

/// A linear model of the dimension of its coefficients: a sample does not span what all rows do.
pub(super) fn of_all_coefficients(model: LatentModel) -> LatentModel {
    match model.layer {
        Layer::Linear(layer) => LatentModel { layer: layer.whole().into(), ..model },
        _ => model,
    }
}

/// A value of f for every observation that explains it.
fn working_responses(likelihood: &dyn Likelihood, targets: Targets<'_>) -> Vec<f64> {
    (0..targets.len()).map(|i| likelihood.working_response(targets.at(i))).collect()
}

/// The population variance, 0 of no values.
fn variance(values: impl IntoIterator<Item = f64>) -> f64 {
    Moments::of(values).variance().unwrap_or(0.0)
}

/// The most rows of a warm start: enough to place lengthscales and inducing inputs, few enough to be quick.
pub(crate) const WARM_ROWS: usize = 10_240;

/// The most natural-gradient steps that a warm start spends on q when the likelihood is not Gaussian.
const WARM_STEPS: usize = 20;

/// Where mini-batch training starts: hyper-parameters from the collapsed bound of a random subset, improved by L-BFGS when
/// the model is `fresh`, and in any case a q that fits them. L-BFGS on a subset finds lengthscales in seconds that Adam
/// needs many epochs for, and without a fitting q the first noisy gradients would undo good hyper-parameters.
///
/// A likelihood that is not Gaussian borrows kernel and inducing inputs from a regression on its working responses; its
/// q is then solved for by natural gradients of its own ELBO.
pub(super) fn warm_start(
    start: Start,
    fresh: bool,
    train: Dataset<'_>,
    (plan, steps): (&Plan, &StepPlan),
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Normal, UpdateCounts)> {
    let Start { model, q } = start;
    if let Some(q) = q {
        return Ok((model, q, UpdateCounts::default()));
    }
    if steps.from_prior {
        let q = first_posterior(&model, steps.family, train);
        return Ok((model, q, UpdateCounts::default()));
    }
    let subset = subset(train, plan.seed);
    let subset = subset.data();
    let iterations = if fresh && plan.hyper.trains { plan.hyper.warm_start } else { 0 };
    let sparse = model.layer.inducing().is_some();
    // The collapsed bound is one of full covariances; only inducing points are few enough to pass through it.
    let family = steps.family;
    if model.likelihood.gaussian_noise().is_some() && (sparse || family == Family::Full) {
        let (model, q, counts) = gaussian_start(model, (iterations, plan.beta), subset, monitor)?;
        return Ok((model, if family == Family::Full { q } else { q.mean_field() }, counts));
    }
    let likelihood = model.likelihood.clone();
    let (mut model, mut q, mut counts) = (model, None, UpdateCounts::default());
    if iterations > 0 && sparse {
        let responses = working_responses(likelihood.as_ref(), subset.targets);
        let noise = 0.3 * variance(responses.iter().copied()).max(1e-3);
        let surrogate = LatentModel { likelihood: Box::new(Gaussian::new(noise)), ..model.clone() };
        let targets = Targets { y: &responses, exposure: &[], weights: subset.targets.weights };
        let data = Dataset { x: subset.x, targets };
        let (found, start, found_counts) = gaussian_start(surrogate, (iterations, plan.beta), data, monitor)?;
        counts = found_counts;
        // The mean of working responses is not the likelihood's own best constant.
        let constant = model.layer.inducing().map(|layer| layer.mean().clone());
        model = LatentModel { likelihood, ..found };
        if let (Some(layer), Some(constant)) = (model.layer.inducing_mut(), constant) {
            *layer.mean_mut() = constant;
        }
        model.join_ties();
        q = Some(if family == Family::Full { start } else { start.mean_field() });
    }
    let q = q.unwrap_or_else(|| first_posterior(&model, family, subset));
    let batch = steps.batch_size.min(subset.len());
    let objective = Objective { nodes: steps.objective.nodes, ..Objective::elbo(plan.beta.max(1e-2)) };
    let mut svgp = VariationalModel::new(model, q, objective, batch);
    let limits = SolveLimits { steps: WARM_STEPS, tolerance: 1e-4 };
    let (value, solved) = solve_q(&mut svgp, Sweep::of(&subset, batch), steps.guard, limits, None)?;
    if !value.is_finite() {
        return Err(failed_start());
    }
    counts.add(solved);
    let (model, q) = svgp.into_parts();
    Ok((model, q, counts))
}

/// A posterior to take the first step from: the prior, but no wider than variances of 1 in f. The prior of a linear model may
/// allow for any value of f, and steps that start from expectations of exp(f) over all of them take long to come back.
fn first_posterior(model: &LatentModel, family: Family, train: Dataset<'_>) -> Normal {
    let prior = Normal::standard(family, model.layer.dim());
    if model.layer.linear().is_none() {
        return prior;
    }
    let variances = Posterior::new(model, &prior).marginals(train.x).variance;
    let widest = variances.into_iter().fold(1.0, f64::max);
    let (m, narrow) = (prior.dim(), 1.0 / widest);
    let narrower = match family {
        Family::Full => {
            Normal::new(vec![0.0; m], Mat::from_fn(m, m, |i, j| if i == j { narrow } else { 0.0 }))
        }
        Family::Diagonal => Normal::diagonal(vec![0.0; m], vec![narrow; m]),
    };
    // Inputs that are not finite make no variance; the first step then says what is wrong.
    narrower.unwrap_or(prior)
}

/// A random subset of the rows, in their order.
pub(super) fn subset(train: Dataset<'_>, seed: u64) -> RowBuffer {
    let mut rows: Vec<usize> = (0..train.len()).collect();
    if rows.len() > WARM_ROWS {
        rows.shuffle(&mut generator(seed, Purpose::WarmStart, 0));
        rows.truncate(WARM_ROWS);
        rows.sort_unstable();
    }
    let mut subset = RowBuffer::new(train, rows.len());
    subset.take(train, &rows);
    subset
}

/// A Gaussian model improved by the collapsed bound of a random subset.
pub(super) fn evidence_start(
    model: LatentModel,
    train: Dataset<'_>,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let subset = subset(train, plan.seed);
    gaussian_start(model, (plan.hyper.warm_start, 1.0), subset.data(), monitor).map(|(model, ..)| model)
}

/// The collapsed β-ELBO of a Gaussian model, improved by so many iterations of L-BFGS, and the q that attains it.
pub(super) fn gaussian_start(
    model: LatentModel,
    (iterations, beta): (usize, f64),
    subset: Dataset<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Normal, UpdateCounts)> {
    let bound = CollapsedBound::Elbo { beta: beta.clamp(0.1, 10.0) };
    let mut objective = CollapsedObjective::new(model, subset, bound);
    let mut theta = objective.start();
    let mut counts = UpdateCounts::default();
    if iterations > 0 && !theta.is_empty() {
        let limits = Limits {
            epochs: iterations,
            seconds: monitor.limits().seconds.map(|s| 0.5 * s),
            plateaus: 0,
            target: None,
            ..*monitor.limits()
        };
        let mut warm = monitor.warm_start(subset.len(), limits);
        let count = subset.len() as f64;
        let outcome = minimize_lbfgs(&mut objective, theta, count, LbfgsOptions::default(), &mut warm);
        monitor.check()?;
        counts.rollbacks = outcome.rollbacks;
        theta = outcome.theta;
    }
    objective.solve(&theta).ok_or_else(failed_start)?;
    let (model, q) = objective.into_parts();
    Ok((model, q, counts))
}
