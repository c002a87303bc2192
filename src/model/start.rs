//! Where training starts: parameters from the data, and hyper-parameters and q improved on a subset of the rows.

use super::collapsed::{CollapsedBound, CollapsedObjective};
use super::failure::failed_start;
use super::fit::{Start, UpdateCounts};
use super::latent::LatentModel;
use super::options::{FitOptions, Hyper, MeanKind, ModelKind};
use super::posterior::Posterior;
use super::rows::Rows;
use super::solve::{SolveLimits, Sweep, solve_q};
use super::variational::VariationalModel;
use crate::collapsed::Dataset;
use crate::data::moments::Moments;
use crate::data::random::{Purpose, generator};
use crate::error::{Error, Result};
use crate::hyper::{LbfgsOptions, Limits, Monitor, minimize_lbfgs};
use crate::latent::{InducingLayer, LinearLayer, choose_inducing};
use crate::likelihood::{Gaussian, Likelihood, LikelihoodKind};
use crate::objective::{Objective, Targets};
use crate::variational::{Family, Normal};
use faer::Mat;
use rand::seq::SliceRandom;

/// The options of a fit that goes on from a model, whose likelihood is the fit's.
///
/// # Errors
///
/// When the options name another one.
pub(super) fn with_likelihood_of(start: &LatentModel, options: &FitOptions) -> Result<FitOptions> {
    let known = LikelihoodKind::of(start.likelihood.as_ref());
    match options.likelihood.filter(|asked| *asked != known) {
        None => Ok(FitOptions { likelihood: Some(known), ..options.clone() }),
        Some(_) => Err(Error::usage(format!("the start model has the {known} likelihood"))
            .hint("leave --likelihood out, or fit without --from")),
    }
}

/// Kernel, likelihood and inducing inputs from the data (a robust start: see `Kernel::initialise`).
pub(super) fn initial_model(train: Dataset<'_>, options: &FitOptions, levels: usize) -> Result<LatentModel> {
    if options.model == ModelKind::Glm {
        return linear_model(train, options, levels);
    }
    let d = train.x.nrows();
    let mut kernel = options.registry.kernel(&options.kernel, d)?;
    let mut likelihood = options.registry.likelihood(options.likelihood_kind(), levels)?;
    let centre = likelihood.initialise(train.targets.y, train.targets.exposure);
    let responses = working_responses(likelihood.as_ref(), train.targets);
    let spread: Vec<f64> = (0..d).map(|i| variance(train.x.row(i).iter().copied()).sqrt()).collect();
    let amplitude = variance(responses);
    kernel.initialise(&spread, if amplitude > 0.0 { amplitude } else { 1.0 });
    let m = options.inducing_for(train.len());
    let z = choose_inducing(train.x, m, options.inducing_init, kernel.as_ref(), options.seed)?;
    let constant = if options.mean == MeanKind::Constant { centre } else { 0.0 };
    let layer =
        InducingLayer::new(kernel, z, options.jitter)?.with_mean(constant, options.mean == MeanKind::Zero);
    Ok(LatentModel::new(layer.into(), likelihood, options.fix_inducing))
}

/// The prior variance of an intercept: wide for anything that is standardised or the logarithm of a rate.
const INTERCEPT_VARIANCE: f64 = 100.0;

/// A linear model, of the dimension of the data where they are fewer than the coefficients. Its intercept, unless the
/// mean is zero, has a wide prior around the constant that suits the targets best.
fn linear_model(train: Dataset<'_>, options: &FitOptions, levels: usize) -> Result<LatentModel> {
    let mut likelihood = options.registry.likelihood(options.likelihood_kind(), levels)?;
    let centre = likelihood.initialise(train.targets.y, train.targets.exposure);
    let d = train.x.nrows();
    let (mut means, mut variances) = (vec![options.prior_mean; d], vec![options.prior_variance; d]);
    let intercept = options.mean == MeanKind::Constant;
    if intercept {
        means.push(centre);
        variances.push(INTERCEPT_VARIANCE);
    }
    let mut layer = LinearLayer::independent(&means, &variances)?;
    if intercept {
        layer = layer.with_intercept();
    }
    let layer = layer.suited_to(train.x, options.family).into();
    Ok(LatentModel::new(layer, likelihood, true))
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
pub(super) const WARM_ROWS: usize = 10_240;

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
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Normal, UpdateCounts)> {
    let Start { model, q } = start;
    if let Some(q) = q {
        return Ok((model, q, UpdateCounts::default()));
    }
    if options.starts_at_prior() {
        let q = first_posterior(&model, options.family, train);
        return Ok((model, q, UpdateCounts::default()));
    }
    let subset = subset(train, options.seed);
    let subset = subset.data();
    let improve = fresh && options.warm_start > 0 && options.hyper_mode() != Hyper::Fixed;
    let sparse = model.layer.inducing().is_some();
    // The collapsed bound is one of full covariances; only inducing points are few enough to pass through it.
    let family = options.family;
    if model.likelihood.gaussian_noise().is_some() && (sparse || family == Family::Full) {
        let (model, q, counts) = gaussian_start(model, improve, subset, options, monitor)?;
        return Ok((model, if family == Family::Full { q } else { q.mean_field() }, counts));
    }
    let likelihood = model.likelihood.clone();
    let (mut model, mut q, mut counts) = (model, None, UpdateCounts::default());
    if improve && sparse {
        let responses = working_responses(likelihood.as_ref(), subset.targets);
        let noise = 0.3 * variance(responses.iter().copied()).max(1e-3);
        let surrogate = LatentModel { likelihood: Box::new(Gaussian::new(noise)), ..model.clone() };
        let targets = Targets { y: &responses, exposure: &[], weights: subset.targets.weights };
        let data = Dataset { x: subset.x, targets };
        let (found, start, found_counts) = gaussian_start(surrogate, true, data, options, monitor)?;
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
    let batch = options.batch_size.min(subset.len());
    let objective = Objective { nodes: options.quadrature_nodes, ..Objective::elbo(options.beta.max(1e-2)) };
    let mut svgp = VariationalModel::new(model, q, objective, batch);
    let limits = SolveLimits { steps: WARM_STEPS, tolerance: 1e-4 };
    let (value, solved) = solve_q(&mut svgp, Sweep::of(&subset, batch), options.q_guard, limits, None)?;
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
pub(super) fn subset(train: Dataset<'_>, seed: u64) -> Rows {
    let mut rows: Vec<usize> = (0..train.len()).collect();
    if rows.len() > WARM_ROWS {
        rows.shuffle(&mut generator(seed, Purpose::WarmStart, 0));
        rows.truncate(WARM_ROWS);
        rows.sort_unstable();
    }
    let mut subset = Rows::new(train, rows.len());
    subset.take(train, &rows);
    subset
}

/// A Gaussian model improved by the collapsed bound of a random subset.
pub(super) fn evidence_start(
    model: LatentModel,
    train: Dataset<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let subset = subset(train, options.seed);
    let options = FitOptions { beta: 1.0, ..options.clone() };
    gaussian_start(model, options.warm_start > 0, subset.data(), &options, monitor).map(|(model, ..)| model)
}

/// The collapsed bound of a Gaussian model, improved by L-BFGS if asked for, and the q that attains it.
pub(super) fn gaussian_start(
    model: LatentModel,
    improve: bool,
    subset: Dataset<'_>,
    options: &FitOptions,
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Normal, UpdateCounts)> {
    let bound = CollapsedBound::Elbo { beta: options.beta.clamp(0.1, 10.0) };
    let mut objective = CollapsedObjective::new(model, subset, bound);
    let mut theta = objective.start();
    let mut counts = UpdateCounts::default();
    if improve && !theta.is_empty() {
        let limits = Limits {
            epochs: options.warm_start,
            seconds: monitor.limits().seconds.map(|s| 0.5 * s),
            plateaus: 0,
            target: None,
            ..*monitor.limits()
        };
        let mut warm = monitor.nested(limits);
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
