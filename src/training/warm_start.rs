//! The warm start: hyper-parameters and q improved on a subset of the rows, before steps on all of them.

use super::collapsed::CollapsedObjective;
use super::failure::failed_start;
use super::row_sums::Sweep;
use super::rows::RowBuffer;
use super::run::Job;
use super::start::{variance, working_responses};
use super::steps::model::VariationalModel;
use super::steps::solve::{SolveLimits, UpdateCounts, solve_q};
use crate::collapsed::Dataset;
use crate::data::{Purpose, generator};
use crate::error::Result;
use crate::hyper::{LbfgsOptions, Limits, Monitor, minimize_lbfgs};
use crate::latent::{InducingPrior, Jitter, Layer};
use crate::likelihood::{Gaussian, Likelihood};
use crate::model::{LatentModel, Posterior};
use crate::objective::{Objective, Targets};
use crate::options::Plan;
use crate::variational::{Family, Normal};
use faer::Mat;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::Parameter;

/// The maximum number of rows of a warm start: enough to place lengthscales and inducing inputs, few enough to be quick.
#[doc(hidden)]
pub const WARM_ROWS: usize = 10_240;

/// The numbers of rows and inducing inputs of a rehearsal: a small fit that moves the
/// hyper-parameters of a surrogate far in cheap steps. Fits with Gaussian noise have no rehearsal:
/// with 300 inducing inputs on `co2_weekly` a rehearsal ended at lengthscales that are too long
/// (test NLL 2.16 instead of 0.47).
const REHEARSAL_ROWS: usize = 2048;
const REHEARSAL_INDUCING: usize = 128;

/// The number of rows of the rehearsal of an exact GP, whose work is cubic in the number of rows.
const EXACT_REHEARSAL_ROWS: usize = 300;

/// The maximum number of natural-gradient steps that a warm start takes on q if the likelihood is not Gaussian.
const WARM_STEPS: usize = 20;

/// Computes the start of mini-batch training: hyper-parameters from the collapsed bound of a random subset, improved by L-BFGS if the model
/// is `fresh`, and in any case a q that suits them. L-BFGS on a subset finds lengthscales in seconds that Adam needs many epochs for, and
/// without a fitting q the first noisy gradients would undo good hyper-parameters.
///
/// A non-Gaussian likelihood takes kernel and inducing inputs from a regression on its working responses. Natural gradients of its ELBO
/// then solve for q.
pub(super) fn warm_start(
    model: LatentModel,
    q: Option<Vec<Normal>>,
    job: &Job<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Vec<Normal>, UpdateCounts)> {
    if let Some(q) = q {
        return Ok((model, q, UpdateCounts::default()));
    }
    let (plan, train) = (job.plan, job.rows.start_sample());
    let family = plan.options.steps.family;
    if plan.options.starts_at_prior() {
        let q = first_posteriors(&model, family, train);
        return Ok((model, q, UpdateCounts::default()));
    }
    let subset = RowBuffer::subset(train, WARM_ROWS, plan.options.seed);
    let subset = subset.data();
    let iterations = if job.fresh && plan.trains { plan.options.warm_start } else { 0 };
    let sparse = model.layer().inducing().is_some();
    // The collapsed bound has a full covariance, which a mean-field family can afford only for
    // inducing inputs.
    if model.likelihood.gaussian_noise().is_some() && (sparse || family == Family::Full) {
        let (model, q, counts) = gaussian_start(model, subset, iterations, plan.options.beta, monitor)?;
        return Ok((model, vec![if family == Family::Full { q } else { q.mean_field() }], counts));
    }
    let (mut model, mut q, mut counts) = (model, None, UpdateCounts::default());
    if iterations > 0 && sparse {
        let responses = surrogate_responses(&model, subset.targets, plan.options.seed);
        for (layer, responses) in responses.into_iter().enumerate() {
            let targets = Targets { weights: subset.targets.weights, ..Targets::of(&responses) };
            let data = Dataset { x: subset.x, targets };
            let (found, more) =
                surrogate_start(&mut model, layer, data, iterations, plan.options.beta, monitor)?;
            counts.add(more);
            let fits = |q: Normal| vec![if family == Family::Full { q } else { q.mean_field() }];
            q = Some(found).filter(|_| model.processes() == 1).map(fits);
        }
        model.join_ties().map_err(|_| failed_start())?;
    }
    let q = q.unwrap_or_else(|| first_posteriors(&model, family, subset));
    let batch = plan.batch_size.min(subset.len());
    let objective =
        Objective { nodes: plan.options.quadrature_nodes, ..Objective::elbo(plan.options.beta.max(1e-2)) };
    let mut svgp = VariationalModel::new(model, q, objective, batch);
    let limits = SolveLimits { steps: WARM_STEPS, tolerance: 1e-4, end: monitor.session.end() };
    let (value, solved) =
        solve_q(&mut svgp, Sweep::of(&subset, batch), plan.options.steps.q_guard, limits, None)?;
    if !value.is_finite() {
        return Err(failed_start());
    }
    counts.add(solved);
    let (model, q) = svgp.into_parts();
    Ok((model, q, counts))
}

/// Returns the responses of the regressions that find kernels and inducing inputs, one for each layer.
///
/// A combination of functions with the same prior has that prior too, up to its amplitude, so functions that share a layer give one
/// regression, on a combination with random weights.
fn surrogate_responses(model: &LatentModel, targets: Targets<'_>, seed: u64) -> Vec<Vec<f64>> {
    let responses = working_responses(&model.likelihood, targets);
    if responses.len() == model.layers.len() {
        return responses;
    }
    let mut random = generator(seed, Purpose::WarmStart, 1);
    let weights: Vec<f64> = responses.iter().map(|_| StandardNormal.sample(&mut random)).collect();
    let norm = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
    let mut combined = vec![0.0; targets.len()];
    for (responses, weight) in responses.iter().zip(&weights) {
        combined.iter_mut().zip(responses).for_each(|(sum, one)| *sum += weight / norm * one);
    }
    vec![combined]
}

/// Replaces the kernel and inducing inputs of a layer by those of a regression on responses, the targets of `data`; returns its q. The layer
/// stays unchanged if the responses are constant.
fn surrogate_start(
    model: &mut LatentModel,
    layer: usize,
    data: Dataset<'_>,
    iterations: usize,
    beta: f64,
    monitor: &mut Monitor<'_>,
) -> Result<(Normal, UpdateCounts)> {
    let varies = variance(data.targets.y.iter().copied());
    let Some(own) = model.layers[layer].inducing().filter(|_| varies > 0.0 || model.processes() == 1) else {
        return Ok((Normal::standard(Family::Full, model.layers[layer].dim()), UpdateCounts::default()));
    };
    // The constants of the mean are kept: the likelihood's best constant differs from the mean of
    // the working responses.
    let constants = own.mean().clone();
    let mut alone = own.clone();
    alone.set_mean(Parameter { values: constants.values[..1].to_vec(), ..constants.clone() });
    let noise: Box<dyn Likelihood> = Box::new(Gaussian::new(0.3 * varies.max(1e-3)));
    let mut surrogate = LatentModel::new(alone.into(), noise, model.fix_inducing);
    if model.processes() == 1 {
        surrogate.settings = model.settings.clone();
    }
    surrogate.effects = model.effects.of_layer(layer);
    surrogate = surrogate.with_summed_effects();
    let (surrogate, iterations) = match rehearsed(&surrogate, data, iterations, beta, monitor)? {
        Some(rehearsed) => (rehearsed, 0),
        None => (surrogate, iterations),
    };
    let (found, q, counts) = gaussian_start(surrogate, data, iterations, beta, monitor)?;
    let [mut found] = <[Layer; 1]>::try_from(found.layers).map_err(|_| failed_start())?;
    if let Some(found) = found.inducing_mut() {
        found.set_mean(constants);
    }
    if let Layer::Sum(sum) = &found {
        model.effects.copy_layer(layer, (&sum.effects, 0));
    }
    model.layers[layer] = found;
    Ok((q, counts))
}

/// Returns a posterior of every process for the first step.
fn first_posteriors(model: &LatentModel, family: Family, train: Dataset<'_>) -> Vec<Normal> {
    let layers = model.layers();
    (0..layers.processes())
        .map(|process| first_posterior(layers.get(layers.of(process)), family, train))
        .collect()
}

/// Returns a posterior for the first step: the prior, for linear models with variances of f limited
/// to 1. The prior of a linear model may allow very large values of f, and steps that start from
/// its expectations of exp(f) recover slowly.
fn first_posterior(layer: &Layer, family: Family, train: Dataset<'_>) -> Normal {
    let prior = Normal::standard(family, layer.dim());
    if layer.linear().is_none() {
        return prior;
    }
    let any: Box<dyn Likelihood> = Box::new(Gaussian::new(1.0));
    let alone = LatentModel::new(layer.clone(), any, true);
    let variances = Posterior::new(&alone, &prior).marginals(train.x).variance;
    let widest = variances.into_iter().fold(1.0, f64::max);
    let (m, narrow) = (prior.dim(), 1.0 / widest);
    let narrower = match family {
        Family::Full => {
            Normal::new(vec![0.0; m], Mat::from_fn(m, m, |i, j| if i == j { narrow } else { 0.0 }))
        }
        Family::Diagonal => Normal::diagonal(vec![0.0; m], vec![narrow; m]),
    };
    // If inputs are not finite, there is no such posterior, and the first step reports the error.
    narrower.unwrap_or(prior)
}

/// Improves a Gaussian model on the collapsed bound of a random subset.
pub(super) fn evidence_start(
    model: LatentModel,
    train: Dataset<'_>,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let subset = RowBuffer::subset(train, WARM_ROWS, plan.options.seed);
    gaussian_start(model, subset.data(), plan.options.warm_start, 1.0, monitor).map(|(model, ..)| model)
}

/// Fits the hyper-parameters of a model to fewer rows with fewer inducing inputs; `None` if there are not many more rows than that.
fn rehearsed(
    model: &LatentModel,
    data: Dataset<'_>,
    iterations: usize,
    beta: f64,
    monitor: &mut Monitor<'_>,
) -> Result<Option<LatentModel>> {
    let Some(layer) = model.layer().inducing() else { return Ok(None) };
    let (m, n) = (layer.z().nrows(), data.len());
    let work = |rows: usize, inducing: usize| rows * inducing * inducing;
    // Fewer inducing inputs alone favour lengthscales that are too long, and no later step leaves those.
    let small = n < 2 * REHEARSAL_ROWS
        || !model.effects.is_empty()
        || work(n, m) < 4 * work(REHEARSAL_ROWS, REHEARSAL_INDUCING);
    if iterations == 0 || small {
        return Ok(None);
    }
    let (z, few) = (layer.z(), m.min(REHEARSAL_INDUCING));
    let z = Mat::from_fn(few, z.ncols(), |i, j| z[(i * m / few, j)]);
    rehearsed_with(model, z, RowBuffer::subset(data, REHEARSAL_ROWS, 0).data(), iterations, beta, monitor)
        .map(Some)
}

/// Fits the hyper-parameters of an exact GP to a subset of the rows first, if there are many more.
pub(super) fn rehearsed_exactly(
    model: LatentModel,
    data: Dataset<'_>,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let exact = model.layer().inducing().is_some_and(|layer| layer.jitter() == Jitter::EXACT);
    let (iterations, trains) = (plan.options.warm_start, plan.trains);
    if !exact || !trains || iterations == 0 || model.layer().dim() < 2 * EXACT_REHEARSAL_ROWS {
        return Ok(model);
    }
    let rows = RowBuffer::subset(data, EXACT_REHEARSAL_ROWS, plan.options.seed);
    let z = rows.data().x.to_owned();
    rehearsed_with(&model, z, rows.data(), iterations, plan.options.beta, monitor)
}

/// Fits the hyper-parameters of a model to some rows with other inducing inputs.
fn rehearsed_with(
    model: &LatentModel,
    z: Mat<f64>,
    rows: Dataset<'_>,
    iterations: usize,
    beta: f64,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let layer = model.layer().inducing().ok_or_else(failed_start)?;
    let (values, mean) = (z.nrows() * z.ncols(), layer.mean());
    let small = InducingPrior::new(layer.kernel().boxed_clone(), z, layer.jitter())?;
    let small = small.with_means(mean.values.clone(), mean.fixed).factorised().map_err(|_| failed_start())?;
    let small = LatentModel { layers: vec![small.into()], ..model.clone() };
    let (small, ..) = gaussian_start(small, rows, iterations, beta, monitor)?;
    let mut model = model.clone();
    let (mut natural, found) = (model.natural(), small.natural());
    let named = found.len() - values;
    natural[..named].copy_from_slice(&found[..named]);
    model.set_natural(&natural).map_err(|_| failed_start())?;
    Ok(model)
}

/// Improves the collapsed β-ELBO of a Gaussian model on some rows by L-BFGS, and returns the model with its optimal q.
pub(super) fn gaussian_start(
    model: LatentModel,
    subset: Dataset<'_>,
    iterations: usize,
    beta: f64,
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Normal, UpdateCounts)> {
    let mut objective = CollapsedObjective::new(model, subset, Objective::elbo(beta.clamp(0.1, 10.0)));
    let mut theta = objective.start();
    let mut counts = UpdateCounts::default();
    if iterations > 0 && !theta.is_empty() && !monitor.session.is_late() {
        let limits = Limits {
            epochs: iterations,
            seconds: monitor.limits.seconds.map(|s| 0.5 * s),
            plateaus: 0,
            target: None,
            range: None,
            ..monitor.limits
        };
        let mut warm = monitor.warm_start(subset.len(), limits);
        let count = subset.len() as f64;
        let outcome = minimize_lbfgs(&mut objective, theta, count, LbfgsOptions::default(), &mut warm);
        monitor.session.check()?;
        counts.rollbacks = outcome.rollbacks;
        theta = outcome.theta;
    }
    objective.solve(&theta).ok_or_else(failed_start)?;
    let (model, q) = objective.into_parts();
    Ok((model, q, counts))
}
