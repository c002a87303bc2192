//! Where training starts: parameters from the data, and hyper-parameters and q improved on a subset of the rows.

use super::collapsed::{CollapsedBound, CollapsedObjective};
use super::fit::{Start, UpdateCounts, failed_start};
use super::options::{FitOptions, Hyper, MeanKind};
use super::rows::Rows;
use super::solve::{SolveLimits, solve_q};
use super::sparse::SparseModel;
use super::svgp::Svgp;
use crate::collapsed::Dataset;
use crate::data::moments::Moments;
use crate::data::random::{Purpose, generator};
use crate::error::{Error, Result};
use crate::hyper::{LbfgsOptions, Limits, Monitor, Record, minimize_lbfgs};
use crate::latent::{InducingLayer, LatentLayer, choose_inducing};
use crate::likelihood::{Gaussian, Likelihood, LikelihoodKind};
use crate::objective::{Objective, Targets};
use crate::variational::{FullGaussian, NaturalGradient};
use rand::seq::SliceRandom;
use sparsegp_kernels::parse;

/// Kernel, likelihood and inducing inputs from the data (a robust start: see `Kernel::initialise`).
pub(super) fn initial_model(train: Dataset<'_>, options: &FitOptions, levels: usize) -> Result<SparseModel> {
    let d = train.x.nrows();
    let mut kernel = parse::parse(&options.kernel, d)
        .map_err(|e| Error::usage(format!("--kernel '{}': {e}", options.kernel)))?;
    let mut likelihood = options.likelihood_kind().build(levels);
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
    Ok(SparseModel { layer, likelihood, fix_inducing: options.fix_inducing })
}

/// A value of f for every observation that explains it.
fn working_responses(likelihood: &dyn Likelihood, targets: Targets<'_>) -> Vec<f64> {
    (0..targets.len()).map(|i| likelihood.working_response(targets.at(i))).collect()
}

/// The population variance, 0 of no values.
fn variance(values: impl IntoIterator<Item = f64>) -> f64 {
    Moments::of(values).variance().unwrap_or(0.0)
}

/// Fixes parameters by their full names.
pub(super) fn apply_fixes(model: &mut SparseModel, fixes: &[(String, f64)]) -> Result<()> {
    for (name, value) in fixes {
        let descriptors = model.descriptors();
        let named = descriptors.iter().take_while(|d| !d.name.starts_with("inducing."));
        let index = named.clone().position(|d| &d.name == name).ok_or_else(|| {
            let known: Vec<&str> = named.map(|d| d.name.as_str()).collect();
            Error::usage(format!("--fix: there is no parameter '{name}', only {}", known.join(", ")))
        })?;
        let mut at = 0;
        let mut admitted = true;
        model.for_each_parameter_mut(&mut |p| {
            if (at..at + p.values.len()).contains(&index) {
                admitted = p.transform.admits(*value);
                p.values[index - at] = *value;
                // A parameter's values share their status: fixing one of several lengthscales fixes them all.
                p.fixed = true;
            }
            at += p.values.len();
        });
        if !admitted {
            return Err(Error::usage(format!(
                "--fix {name}={value}: the value is outside the parameter's range"
            )));
        }
    }
    Ok(())
}

/// The most rows of a warm start: enough to place lengthscales and inducing inputs, few enough to be quick.
const WARM_ROWS: usize = 10_240;

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
    monitor: &Monitor<'_>,
) -> Result<(SparseModel, FullGaussian, UpdateCounts)> {
    let Start { model, q } = start;
    if let Some(q) = q {
        return Ok((model, q, UpdateCounts::default()));
    }
    let subset = subset(train, options.seed);
    let subset = subset.data();
    let improve = fresh && options.warm_start > 0 && options.hyper_mode() != Hyper::Fixed;
    if model.likelihood.kind() == LikelihoodKind::Gaussian {
        return gaussian_start(model, improve, subset, options, monitor);
    }
    let likelihood = model.likelihood.clone();
    let (mut model, mut q, mut counts) = (model, None, UpdateCounts::default());
    if improve {
        let responses = working_responses(likelihood.as_ref(), subset.targets);
        let noise = 0.3 * variance(responses.iter().copied()).max(1e-3);
        let surrogate = SparseModel { likelihood: Box::new(Gaussian::new(noise)), ..model.clone() };
        let targets = Targets { y: &responses, exposure: &[], weights: subset.targets.weights };
        let data = Dataset { x: subset.x, targets };
        let (found, start, found_counts) = gaussian_start(surrogate, true, data, options, monitor)?;
        counts = found_counts;
        // The mean of working responses is not the likelihood's own best constant.
        let constant = model.layer.mean().clone();
        model = SparseModel { likelihood, ..found };
        *model.layer.mean_mut() = constant;
        q = Some(start);
    }
    let q = q.unwrap_or_else(|| FullGaussian::standard(model.layer.dim()));
    let batch = options.batch_size.min(subset.len());
    let objective = Objective { nodes: options.quadrature_nodes, ..Objective::elbo(options.beta.max(1e-2)) };
    let mut rule = NaturalGradient::new(&q).with_guard(options.q_guard);
    let mut svgp = Svgp::new(model, q, objective, batch);
    let limits = SolveLimits { steps: WARM_STEPS, tolerance: 1e-4 };
    let (value, solved) = solve_q(&mut svgp, (subset, batch), &mut rule, limits, None);
    if !value.is_finite() {
        return Err(failed_start());
    }
    counts.add(solved);
    let (model, q) = svgp.into_parts();
    Ok((model, q, counts))
}

/// A random subset of the rows, in their order.
fn subset(train: Dataset<'_>, seed: u64) -> Rows {
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
    model: SparseModel,
    train: Dataset<'_>,
    options: &FitOptions,
    monitor: &Monitor<'_>,
) -> Result<SparseModel> {
    let subset = subset(train, options.seed);
    let options = FitOptions { beta: 1.0, ..options.clone() };
    gaussian_start(model, options.warm_start > 0, subset.data(), &options, monitor).map(|(model, ..)| model)
}

/// The collapsed bound of a Gaussian model, improved by L-BFGS if asked for, and the q that attains it.
fn gaussian_start(
    model: SparseModel,
    improve: bool,
    subset: Dataset<'_>,
    options: &FitOptions,
    monitor: &Monitor<'_>,
) -> Result<(SparseModel, FullGaussian, UpdateCounts)> {
    let bound = CollapsedBound::Elbo { beta: options.beta.clamp(0.1, 10.0) };
    let mut objective = CollapsedObjective::new(model, subset, bound);
    let mut theta = objective.start();
    let mut counts = UpdateCounts::default();
    if improve && !theta.is_empty() {
        let limits = Limits {
            epochs: options.warm_start,
            seconds: monitor.limits().seconds.map(|s| 0.5 * s),
            plateaus: 0,
            ..*monitor.limits()
        };
        let mut silent = |_: &Record| {};
        let mut warm = Monitor::new(limits, &mut silent);
        let count = subset.len() as f64;
        let outcome = minimize_lbfgs(&mut objective, theta, count, LbfgsOptions::default(), &mut warm);
        counts.rollbacks = outcome.rollbacks;
        theta = outcome.theta;
    }
    objective.solve(&theta).ok_or_else(failed_start)?;
    let (model, q) = objective.into_parts();
    Ok((model, q, counts))
}
