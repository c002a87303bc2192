//! The start of training: parameters from the data, and hyper-parameters and q improved on a subset of the rows.

use super::collapsed::CollapsedObjective;
use super::failure::failed_start;
use super::grouped::start_effects;
use super::row_buffer::RowBuffer;
use super::solve::{SolveLimits, Sweep, UpdateCounts, solve_q};
use super::variational::VariationalModel;
use crate::collapsed::{CollapsedBound, Dataset};
use crate::data::Moments;
use crate::data::{Purpose, generator};
use crate::effects::columns_of;
use crate::error::{Error, Result};
use crate::hyper::{LbfgsOptions, Limits, Monitor, minimize_lbfgs};
use crate::latent::{InducingPrior, Layer, LinearLayer, choose_inducing};
use crate::likelihood::{Gaussian, Likelihood, ObservationModel};
use crate::model::{LatentModel, LatentPrior, Posterior};
use crate::objective::{Objective, Targets};
use crate::options::{FitOptions, LayerPlan, MeanKind, ModelKind, Plan, StepPlan};
use crate::variational::{Family, Normal};
use faer::Mat;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::{Dimension, Kernel, Parameter};
use std::collections::HashMap;

/// A model to start from, instead of the data.
#[derive(Clone)]
pub struct Start {
    /// Kernel, mean, likelihood and inducing inputs.
    pub model: LatentPrior,
    /// The whitened posterior of every process to continue with; `None` solves for one.
    pub q: Option<Vec<Normal>>,
}

/// A kernel and a likelihood without starting values from data.
#[derive(Clone)]
pub struct Prototype {
    /// The kernel; `None` for a linear model.
    pub kernel: Option<Box<dyn Kernel>>,
    /// The likelihood.
    pub likelihood: ObservationModel,
}

impl Prototype {
    /// Creates the prototype that the options name, for `d` inputs and a target of `levels` ordered levels (ignored for other targets).
    ///
    /// # Errors
    ///
    /// A usage error if the text of the kernel cannot be read, or the likelihood is unknown.
    pub fn of(options: &FitOptions, d: usize, levels: usize) -> Result<Prototype> {
        let kernel = match options.model {
            ModelKind::Gp => Some(options.kernel_of(d)?),
            ModelKind::Glm => None,
        };
        Ok(Prototype { kernel, likelihood: options.registry.likelihood(options.likelihood_kind(), levels)? })
    }
}

/// Chooses kernel, likelihood and inducing inputs from the data (a robust start: see `Kernel::initialise`), except for the starting values
/// that the plan has.
///
/// # Errors
///
/// If inducing inputs cannot be chosen, or the kernel does not suit them.
pub(super) fn initial_model(train: Dataset<'_>, plan: &Plan, prototype: &Prototype) -> Result<LatentPrior> {
    let d = train.x.ncols() - columns_of(&plan.effects);
    let inputs = Dataset { x: train.x.subcols(0, d), ..train };
    let mut model = initial_function(inputs, plan, prototype)?;
    if !plan.effects.is_empty() {
        let responses = working_responses(&model.likelihood, train.targets).concat();
        start_effects(&mut model, train.x, &responses, &plan.effects);
    }
    model.start_at(&plan.hyper.constraints)?;
    Ok(model)
}

/// Creates the initial model without grouped effects.
fn initial_function(train: Dataset<'_>, plan: &Plan, prototype: &Prototype) -> Result<LatentPrior> {
    check_memory(plan, train)?;
    let mut likelihood = prototype.likelihood.clone();
    let centres = likelihood.initialise(train.targets.y, train.targets.exposure);
    let d = train.x.ncols();
    match (&plan.layer, &prototype.kernel) {
        (LayerPlan::Sparse { inducing, init, fix, jitter }, Some(kernel)) => {
            let responses = working_responses(&likelihood, train.targets);
            let spread: Vec<f64> =
                (0..d).map(|i| spread(train.x.col(i).iter(), kernel.dimensions().get(i))).collect();
            let mut kernels = Vec::new();
            let shared = shares_layer(&likelihood);
            for responses in if shared { vec![responses.concat()] } else { responses } {
                let (mut own, amplitude) = (kernel.clone(), variance(responses));
                own.initialise(&spread, if amplitude > 0.0 { amplitude } else { 1.0 });
                kernels.push(own);
            }
            let z = match (*inducing).min(train.len()) {
                0 => Mat::zeros(0, d),
                m => choose_inducing(train.x, m, *init, kernels[0].as_ref(), plan.seed)?,
            };
            let constant = |centre: &f64| if plan.mean == MeanKind::Constant { *centre } else { 0.0 };
            let constants: Vec<f64> = centres.iter().map(constant).collect();
            let of_layers = if shared { vec![&constants[..]] } else { constants.chunks(1).collect() };
            let layer = |(kernel, means): (Box<dyn Kernel>, &[f64])| {
                let layer = InducingPrior::new(kernel, z.clone(), *jitter)?;
                Ok(layer.with_means(means.to_vec(), plan.mean == MeanKind::Zero).into())
            };
            let layers = kernels.into_iter().zip(of_layers).map(layer).collect::<Result<_>>()?;
            // Rows of more columns than there are rows lie as well as any other places.
            Ok(LatentModel::of_layers(layers, likelihood, *fix || d > train.len()))
        }
        (LayerPlan::Sparse { .. }, None) => Err(Error::usage("a sparse GP needs a kernel")),
        (LayerPlan::Linear { .. }, _) if !plan.effects.is_empty() => {
            // Fixed effects: their flat prior is the objective's affair, so features are the inputs themselves.
            let intercept = plan.mean == MeanKind::Constant;
            let count = d + usize::from(intercept);
            let layer = LinearLayer::independent(&vec![0.0; count], &vec![1.0; count])?;
            let layer = if intercept { layer.with_intercept() } else { layer };
            Ok(LatentModel::new(layer.into(), likelihood, true))
        }
        (LayerPlan::Linear { prior_mean, prior_variance }, _) => {
            let shared = shares_layer(&likelihood);
            // One layer has one intercept: that of all functions has a prior around their mean.
            let mean = centres.iter().sum::<f64>() / centres.len() as f64;
            let layer = |centre: f64| {
                let intercept = (plan.mean == MeanKind::Constant).then_some(centre);
                Ok(linear_layer(train, (*prior_mean, *prior_variance), intercept, plan.family())?.into())
            };
            let centres = if shared { vec![mean] } else { centres };
            let layers = centres.into_iter().map(layer).collect::<Result<_>>()?;
            Ok(LatentModel::of_layers(layers, likelihood, true))
        }
    }
}

/// Refuses matrices that exceed the memory, before they are allocated.
fn check_memory(plan: &Plan, train: Dataset<'_>) -> Result<()> {
    /// The number of square matrices that every training method holds at once; most methods hold twice as many.
    const MATRICES: usize = 16;
    /// The size of the buffer in which every thread packs the operands of products (private-gemm-x86); the process aborts if it cannot be
    /// allocated.
    const PACKED: usize = 64 << 20;
    let (size, what, option) = match plan.layer {
        LayerPlan::Sparse { inducing, .. } => (inducing, "inducing inputs", "⟨inducing⟩"),
        LayerPlan::Linear { .. } if plan.family() == Family::Diagonal => return Ok(()),
        LayerPlan::Linear { .. } => (train.x.ncols(), "coefficients", "⟨features⟩, or ⟨family diagonal⟩"),
    };
    let side = size.min(train.len());
    let threads = rayon::current_num_threads();
    let matrices = side.saturating_mul(side).saturating_mul(MATRICES * size_of::<f64>());
    let bytes = matrices.saturating_add(threads.saturating_mul(PACKED)).min(isize::MAX as usize);
    let mut room: Vec<u8> = Vec::new();
    let had = room.try_reserve_exact(bytes);
    // Without this the compiler may leave the question out.
    std::hint::black_box(&room);
    had.map_err(|_| {
        let gib = bytes as f64 / (1u64 << 30) as f64;
        Error::fit(format!(
            "{size} {what} and {threads} threads need {gib:.1} GiB of memory or more, which is not available"
        ))
        .hint(format!("give fewer {option} or ⟨threads⟩"))
    })
}

/// Returns true if all functions of a model share a layer, as functions of the same kind do.
fn shares_layer(likelihood: &ObservationModel) -> bool {
    likelihood.joint().is_none_or(|joint| joint.alike())
}

/// The prior variance of an intercept, wide for standardised targets and for logarithms of rates.
const INTERCEPT_VARIANCE: f64 = 100.0;

/// Returns linear features, of the dimension of the data if it is smaller than the number of coefficients. An intercept has a wide prior
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

/// Returns a linear model with the dimension of its coefficients, because a sample does not span the space of all rows.
pub(super) fn of_all_coefficients(model: LatentPrior) -> LatentPrior {
    let whole = |layer: Layer<InducingPrior>| match layer {
        Layer::Linear(layer) => layer.whole().into(),
        layer => layer,
    };
    LatentPrior { layers: model.layers.into_iter().map(whole).collect(), ..model }
}

/// Returns, for every function and observation, the value that explains the observation.
fn working_responses(likelihood: &ObservationModel, targets: Targets<'_>) -> Vec<Vec<f64>> {
    let functions = likelihood.functions();
    let (mut responses, mut one) = (vec![Vec::with_capacity(targets.len()); functions], vec![0.0; functions]);
    for i in 0..targets.len() {
        likelihood.working_response(targets.at(i), &mut one);
        responses.iter_mut().zip(&one).for_each(|(responses, one)| responses.push(*one));
    }
    responses
}

/// Returns the population variance; 0 without values.
fn variance(values: impl IntoIterator<Item = f64>) -> f64 {
    Moments::of(values).variance().unwrap_or(0.0)
}

/// Returns the spread of an input: for numbers the standard deviation, whose square is half of the mean squared difference; for a category
/// accordingly the square root of half of the share of pairs of rows that differ.
fn spread<'a>(values: impl Iterator<Item = &'a f64>, dimension: Option<&Dimension>) -> f64 {
    if !dimension.is_some_and(|dimension| dimension.is_category()) {
        return variance(values.copied()).sqrt();
    }
    let (mut counts, mut n) = (HashMap::new(), 0.0);
    for &code in values {
        *counts.entry(code as usize).or_insert(0.0) += 1.0;
        n += 1.0;
    }
    // Summed as whole numbers, in any order.
    let same: f64 = counts.values().map(|count: &f64| count * count).sum();
    if n > 0.0 { (0.5 * (1.0 - same / (n * n))).sqrt() } else { 0.0 }
}

/// The maximum number of rows of a warm start: enough to place lengthscales and inducing inputs, few enough to be quick.
pub const WARM_ROWS: usize = 10_240;

/// The numbers of rows and inducing inputs that rehearse the hyper-parameters of a surrogate: they move far there, in cheap steps. Fits
/// with Gaussian noise have no rehearsal: with 300 inducing inputs on `co2_weekly` it ended at lengthscales that are too long (test NLL
/// 2.16 instead of 0.47).
const REHEARSAL_ROWS: usize = 2048;
const REHEARSAL_INDUCING: usize = 128;

/// The maximum number of natural-gradient steps that a warm start takes on q if the likelihood is not Gaussian.
const WARM_STEPS: usize = 20;

/// Where mini-batch training starts: hyper-parameters from the collapsed bound of a random subset, improved by L-BFGS when
/// the model is `fresh`, and in any case a q that fits them. L-BFGS on a subset finds lengthscales in seconds that Adam
/// needs many epochs for, and without a fitting q the first noisy gradients would undo good hyper-parameters.
///
/// A likelihood that is not Gaussian borrows kernel and inducing inputs from a regression on its working responses; its
/// q is then solved for by natural gradients of its own ELBO.
pub(super) fn warm_start(
    (model, q): (LatentModel, Option<Vec<Normal>>),
    fresh: bool,
    train: Dataset<'_>,
    (plan, steps): (&Plan, &StepPlan),
    monitor: &mut Monitor<'_>,
) -> Result<(LatentModel, Vec<Normal>, UpdateCounts)> {
    if let Some(q) = q {
        return Ok((model, q, UpdateCounts::default()));
    }
    if steps.from_prior {
        let q = first_posteriors(&model, steps.family, train);
        return Ok((model, q, UpdateCounts::default()));
    }
    let subset = subset(train, WARM_ROWS, plan.seed);
    let subset = subset.data();
    let iterations = if fresh && plan.hyper.trains { plan.hyper.warm_start } else { 0 };
    let sparse = model.layer().inducing().is_some();
    // The collapsed bound is one of full covariances; only inducing points are few enough to pass through it.
    let family = steps.family;
    if model.likelihood.gaussian_noise().is_some() && (sparse || family == Family::Full) {
        let (model, q, counts) = gaussian_start(model, (iterations, plan.beta), subset, monitor)?;
        return Ok((model, vec![if family == Family::Full { q } else { q.mean_field() }], counts));
    }
    let (mut model, mut q, mut counts) = (model, None, UpdateCounts::default());
    if iterations > 0 && sparse {
        let responses = surrogate_responses(&model, subset.targets, plan.seed);
        for (layer, responses) in responses.into_iter().enumerate() {
            let of = (layer, &responses[..]);
            let (found, more) = surrogate_start(&mut model, of, subset, (iterations, plan), monitor)?;
            counts.add(more);
            let fits = |q: Normal| vec![if family == Family::Full { q } else { q.mean_field() }];
            q = Some(found).filter(|_| model.processes() == 1).map(fits);
        }
        model.join_ties().map_err(|_| failed_start())?;
    }
    let q = q.unwrap_or_else(|| first_posteriors(&model, family, subset));
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

/// Returns a layer with the kernel and inducing inputs of a regression on these responses, and its q; the layer stays unchanged if the
/// responses are constant.
fn surrogate_start(
    model: &mut LatentModel,
    (layer, responses): (usize, &[f64]),
    subset: Dataset<'_>,
    (iterations, plan): (usize, &Plan),
    monitor: &mut Monitor<'_>,
) -> Result<(Normal, UpdateCounts)> {
    let varies = variance(responses.iter().copied());
    let Some(own) = model.layers[layer].inducing().filter(|_| varies > 0.0 || model.processes() == 1) else {
        return Ok((Normal::standard(Family::Full, model.layers[layer].dim()), UpdateCounts::default()));
    };
    // The mean of working responses is not the likelihood's own best constant.
    let constants = own.mean().clone();
    let mut alone = own.clone();
    alone.set_mean(Parameter { values: constants.values[..1].to_vec(), ..constants.clone() });
    let noise: Box<dyn Likelihood> = Box::new(Gaussian::new(0.3 * varies.max(1e-3)));
    let mut surrogate = LatentModel::new(alone.into(), noise, model.fix_inducing);
    if model.processes() == 1 {
        surrogate.settings = model.settings.clone();
    }
    let targets = Targets { y: responses, exposure: &[], weights: subset.targets.weights, outputs: &[] };
    let data = Dataset { x: subset.x, targets };
    let (surrogate, iterations) = match rehearsed(&surrogate, (iterations, plan.beta), data, monitor)? {
        Some(rehearsed) => (rehearsed, 0),
        None => (surrogate, iterations),
    };
    let (found, q, counts) = gaussian_start(surrogate, (iterations, plan.beta), data, monitor)?;
    let [mut found] = <[Layer; 1]>::try_from(found.layers).map_err(|_| failed_start())?;
    if let Layer::Inducing(found) = &mut found {
        found.set_mean(constants);
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

/// Returns a posterior for the first step: the prior, limited to variances of 1 in f. The prior of a linear model may allow any value of
/// f, and steps that start from expectations of exp(f) over all of them take long to return.
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
    // Inputs that are not finite make no variance; the first step then says what is wrong.
    narrower.unwrap_or(prior)
}

/// Returns a random subset of the rows, in their order.
pub(super) fn subset(train: Dataset<'_>, most: usize, seed: u64) -> RowBuffer {
    let mut rows: Vec<usize> = (0..train.len()).collect();
    if rows.len() > most {
        rows.shuffle(&mut generator(seed, Purpose::WarmStart, 0));
        rows.truncate(most);
        rows.sort_unstable();
    }
    let mut subset = RowBuffer::new(train, rows.len());
    subset.take(train, &rows);
    subset
}

/// Improves a Gaussian model on the collapsed bound of a random subset.
pub(super) fn evidence_start(
    model: LatentModel,
    train: Dataset<'_>,
    plan: &Plan,
    monitor: &mut Monitor<'_>,
) -> Result<LatentModel> {
    let subset = subset(train, WARM_ROWS, plan.seed);
    gaussian_start(model, (plan.hyper.warm_start, 1.0), subset.data(), monitor).map(|(model, ..)| model)
}

/// Fits the hyper-parameters of a model to fewer rows with fewer inducing inputs; `None` if there are not many more rows than that.
///
/// # Errors
///
/// As for a fit.
fn rehearsed(
    model: &LatentModel,
    (iterations, beta): (usize, f64),
    data: Dataset<'_>,
    monitor: &mut Monitor<'_>,
) -> Result<Option<LatentModel>> {
    let Some(layer) = model.layer().inducing() else { return Ok(None) };
    let (m, n) = (layer.z().nrows(), data.len());
    let work = |rows: usize, inducing: usize| rows * inducing * inducing;
    // Fewer inducing inputs alone favour lengthscales that are too long, and no later step leaves those.
    let small = n < 2 * REHEARSAL_ROWS || work(n, m) < 4 * work(REHEARSAL_ROWS, REHEARSAL_INDUCING);
    if iterations == 0 || small {
        return Ok(None);
    }
    let (z, few) = (layer.z(), m.min(REHEARSAL_INDUCING));
    let z = Mat::from_fn(few, z.ncols(), |i, j| z[(i * m / few, j)]);
    let mean = layer.mean();
    let small = InducingPrior::new(layer.kernel().boxed_clone(), z, layer.jitter())?;
    let small = small.with_means(mean.values.clone(), mean.fixed).factorised().map_err(|_| failed_start())?;
    let small = LatentModel { layers: vec![small.into()], ..model.clone() };
    let rows = subset(data, REHEARSAL_ROWS, 0);
    let (small, ..) = gaussian_start(small, (iterations, beta), rows.data(), monitor)?;
    let mut model = model.clone();
    let (mut natural, found) = (model.natural(), small.natural());
    let named = found.len() - few * layer.z().ncols();
    natural[..named].copy_from_slice(&found[..named]);
    model.set_natural(&natural).map_err(|_| failed_start())?;
    Ok(Some(model))
}

/// Improves the collapsed β-ELBO of a Gaussian model on some rows by L-BFGS, and returns the model with its optimal q.
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
            range: None,
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
