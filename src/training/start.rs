//! The start of training: a model with parameters from the data.

use super::lengths::{LengthSample, SAMPLE, clear_gain};
use super::rows::RowBuffer;
use crate::collapsed::Dataset;
use crate::data::Moments;
use crate::effects::{EffectTerm, Effects, columns_of};
use crate::error::{Error, Result};
use crate::latent::{
    FeatureLayer, FeatureMap, InducingInit, InducingPrior, Jitter, Layer, LinearLayer, choose_inducing,
};
use crate::likelihood::ObservationModel;
use crate::model::{LatentModel, LatentPrior};
use crate::objective::Targets;
use crate::options::{FitOptions, MeanKind, ModelKind, Plan, Way};
use crate::parallel::current_num_threads;
use crate::variational::{Family, Normal};
use faer::{Mat, MatRef};
use sparsegp_kernels::{Dimension, Kernel};
use std::collections::HashMap;

/// A model to start from, instead of the data.
#[derive(Clone)]
#[doc(hidden)]
pub struct Start {
    /// Kernel, mean, likelihood and inducing inputs.
    pub model: LatentPrior,
    /// The whitened posterior of every process to continue with; `None` solves for one.
    pub q: Option<Vec<Normal>>,
}

/// A latent function and a likelihood without starting values from data.
#[derive(Clone)]
#[doc(hidden)]
pub struct Prototype {
    /// The latent function.
    pub(crate) function: Function,
    /// The likelihood.
    pub(crate) likelihood: ObservationModel,
}

/// The latent function of a model, without starting values from data.
#[derive(Clone)]
#[doc(hidden)]
pub enum Function {
    /// A sparse GP.
    Sparse {
        /// The kernel.
        kernel: Box<dyn Kernel>,
        /// The inducing inputs to start from (`M × D`), if they are given, on the scale the model sees.
        points: Option<Mat<f64>>,
    },
    /// A Bayesian linear model.
    Linear,
    /// Features of another approximation.
    Features(Box<dyn FeatureMap>),
}

impl Prototype {
    /// Creates the prototype that the options name, for `d` inputs and a target of `levels` ordered levels (ignored for other targets).
    ///
    /// # Errors
    ///
    /// A usage error if the text of the kernel cannot be read, or the likelihood is unknown.
    pub fn of(options: &FitOptions, d: usize, levels: usize) -> Result<Prototype> {
        let function = match options.model {
            ModelKind::Gp => Function::Sparse { kernel: options.kernel_of(d)?, points: None },
            ModelKind::Glm => Function::Linear,
        };
        Ok(Prototype {
            function,
            likelihood: options.registry.likelihood(options.likelihood_kind(), levels)?,
        })
    }
}

/// Chooses kernel, likelihood and inducing inputs from the data (a robust start: see `Kernel::initialise`), except for the starting values
/// that the plan has.
pub(super) fn initial_model(train: Dataset<'_>, plan: &Plan, prototype: &Prototype) -> Result<LatentPrior> {
    let d = train.x.ncols() - columns_of(&plan.options.effects);
    let inputs = Dataset { x: train.x.subcols(0, d), ..train };
    let mut model = initial_function(inputs, plan, prototype)?;
    if !plan.options.effects.is_empty() {
        let responses = working_responses(&model.likelihood, train.targets);
        start_effects(&mut model, train.x, &responses, &plan.options.effects)?;
    }
    model.start_at(&plan.options.constraints)?;
    Ok(model)
}

/// Returns the start of a fit with the hyper-parameters of an earlier fit, if they explain a sample of the rows clearly better than those
/// that the fit from this start has ended with.
pub(super) fn better_start(
    model: &LatentPrior,
    ended: &LatentPrior,
    train: Dataset<'_>,
    plan: &Plan,
) -> Option<LatentPrior> {
    let found: HashMap<&str, f64> =
        plan.options.found.iter().map(|(name, value)| (&**name, *value)).collect();
    let descriptors = model.descriptors();
    let named = || descriptors.iter().filter(|descriptor| descriptor.is_named());
    if found.is_empty() || !named().all(|descriptor| found.contains_key(&*descriptor.name)) {
        return None;
    }
    let mut other = model.clone();
    other.change_values(|descriptor, value| {
        let found = found.get(&*descriptor.name).filter(|found| descriptor.transform.admits(**found));
        found.copied().unwrap_or(value)
    });
    let rows = RowBuffer::subset(train, SAMPLE, plan.options.seed);
    let x = rows.data().x.subcols(0, train.x.ncols() - columns_of(&plan.options.effects));
    let responses = layer_responses(&model.likelihood, rows.data().targets);
    let samples: Vec<_> =
        responses.into_iter().map(|responses| LengthSample::new(x, responses, train.len())).collect();
    let evidence = |model: &LatentPrior| -> f64 {
        let layers = model.layers.iter().filter_map(Layer::prior).zip(&samples);
        layers.map(|(layer, sample)| sample.evidence(layer.kernel(), None)).sum()
    };
    (evidence(&other) > evidence(ended) + clear_gain(x.nrows())).then_some(other)
}

/// Returns, for every layer, the working responses of its functions.
fn layer_responses(likelihood: &ObservationModel, targets: Targets<'_>) -> Vec<Vec<Vec<f64>>> {
    let responses = working_responses(likelihood, targets);
    match likelihood.alike() {
        true => vec![responses],
        false => responses.into_iter().map(|responses| vec![responses]).collect(),
    }
}

/// Creates the initial model without grouped effects.
fn initial_function(train: Dataset<'_>, plan: &Plan, prototype: &Prototype) -> Result<LatentPrior> {
    check_memory(plan, train)?;
    let mut likelihood = prototype.likelihood.clone();
    let centres = centres_of(&mut likelihood, train.targets);
    let mut given = Vec::new();
    prototype.likelihood.for_each_parameter(&mut |p| given.push(p));
    let mut given = given.into_iter();
    likelihood.for_each_parameter_mut(&mut |p| {
        if let Some(known) = given.next().filter(|known| known.given || known.fixed) {
            p.values.clone_from(&known.values);
        }
    });
    match &prototype.function {
        Function::Sparse { kernel, points } => {
            sparse_model(train, plan, likelihood, &centres, kernel.as_ref(), points.as_ref())
        }
        Function::Linear => linear_model(train, plan, likelihood, centres),
        Function::Features(map) => Ok(feature_model(train, plan, likelihood, &centres, map.as_ref())),
    }
}

/// Starts the likelihood's own parameters from the targets, and returns the constant that suits every function best. The offset of a count's
/// rate is the logarithm of an exposure; other offsets count by their means.
fn centres_of(likelihood: &mut ObservationModel, targets: Targets<'_>) -> Vec<f64> {
    if !targets.has_offsets() {
        return likelihood.initialise(targets.y, targets.exposure);
    }
    let exposed = likelihood.target_kind().is_of_events();
    let exposure = |i: usize| targets.at(i).exposure * targets.offset(i, 0).exp();
    let exposures: Vec<f64> = (0..targets.len()).filter(|_| exposed).map(exposure).collect();
    let mut centres = likelihood.initialise(targets.y, if exposed { &exposures } else { targets.exposure });
    for (function, centre) in centres.iter_mut().enumerate().skip(usize::from(exposed)) {
        let offsets = Moments::of((0..targets.len()).map(|i| targets.offset(i, function)));
        *centre -= offsets.mean().unwrap_or(0.0);
    }
    centres
}

/// Returns the constant means of every layer, from the best constant of every function; 0 without a mean.
fn means_of(plan: &Plan, centres: &[f64], shared: bool) -> Vec<Vec<f64>> {
    let constant = |centre: &f64| if plan.options.mean != MeanKind::Zero { *centre } else { 0.0 };
    let constants: Vec<f64> = centres.iter().map(constant).collect();
    if shared { vec![constants] } else { constants.chunks(1).map(<[f64]>::to_vec).collect() }
}

/// Creates a sparse GP with a kernel that starts from the data for every layer, and with inducing inputs that are given or that the plan
/// chooses.
fn sparse_model(
    train: Dataset<'_>,
    plan: &Plan,
    likelihood: ObservationModel,
    centres: &[f64],
    kernel: &dyn Kernel,
    points: Option<&Mat<f64>>,
) -> Result<LatentPrior> {
    let options = &plan.options;
    if options.model != ModelKind::Gp {
        return Err(Error::usage("a kernel needs ⟨model gp⟩"));
    }
    let (inducing, init, jitter) = (options.inducing_for(plan.rows), options.inducing_init, options.jitter);
    let d = train.x.ncols();
    let rows = RowBuffer::subset(train, SAMPLE, plan.options.seed);
    let samples = layer_responses(&likelihood, rows.data().targets);
    let spread = spreads(train.x, kernel.dimensions());
    let inducing_inputs = |x: MatRef<'_, f64>, kernel: &dyn Kernel| match inducing.min(x.nrows()) {
        0 => Ok(Mat::zeros(0, d)),
        m => choose_inducing(x, m, init, kernel, plan.options.seed),
    };
    let mut kernels = Vec::new();
    for (responses, sample) in layer_responses(&likelihood, train.targets).into_iter().zip(samples) {
        let (mut own, amplitude) = (kernel.boxed_clone(), variance(responses.concat()));
        own.initialise(&spread, if amplitude > 0.0 { amplitude } else { 1.0 });
        if amplitude > 0.0 && plan.trains {
            let x = rows.data().x;
            // No neighbours supply what fewer inducing inputs than rows leave out.
            let few = (1..x.nrows()).contains(&inducing) && !matches!(plan.way, Way::Neighbours(_));
            let z = few.then(|| inducing_inputs(x, own.as_ref())).transpose()?;
            let sample = LengthSample::new(x, sample, train.len());
            sample.improve(own.as_mut(), z.as_ref().map(Mat::as_ref));
        }
        kernels.push(own);
    }
    let z = match points {
        Some(points) => points.clone(),
        None => inducing_inputs(train.x, kernels[0].as_ref())?,
    };
    // Inducing inputs at all distinct inputs are the best ones. They summarise nothing, so the jitter is the only
    // difference from an exact GP.
    let all = points.is_none() && (z.nrows() < inducing || z.nrows() == train.len());
    let exact = options.can_be_exact() && plan.rows == train.len() && all && init != InducingInit::Greedy;
    let jitter = if exact && jitter == Jitter::DEFAULT { Jitter::EXACT } else { jitter };
    let means = means_of(plan, centres, likelihood.alike());
    let layer = |(kernel, means): (Box<dyn Kernel>, Vec<f64>)| {
        let layer = InducingPrior::new(kernel, z.clone(), jitter)?;
        Ok(layer.with_means(means, plan.options.mean == MeanKind::Zero).into())
    };
    let layers = kernels.into_iter().zip(means).map(layer).collect::<Result<_>>()?;
    // With more columns than rows, inducing inputs at rows are as good as any others, so
    // they are fixed.
    Ok(LatentModel::of_layers(layers, likelihood, options.fix_inducing || exact || d > train.len()))
}

fn linear_model(
    train: Dataset<'_>,
    plan: &Plan,
    likelihood: ObservationModel,
    centres: Vec<f64>,
) -> Result<LatentPrior> {
    let FitOptions { prior_mean, prior_variance, .. } = plan.options;
    if plan.options.model != ModelKind::Glm {
        return Err(Error::usage("a sparse GP needs a kernel"));
    }
    if matches!(plan.way, Way::Grouped(_)) {
        // The inputs are the features of the fixed effects; the objective adds their flat
        // prior.
        let intercept = plan.options.mean != MeanKind::Zero;
        let count = train.x.ncols() + usize::from(intercept);
        let layer = LinearLayer::independent(&vec![0.0; count], &vec![1.0; count])?;
        let layer = if intercept { layer.with_intercept() } else { layer };
        return Ok(LatentModel::new(layer.into(), likelihood, true));
    }
    // A layer has one intercept. If all functions share a layer, the prior of the intercept
    // has the mean of their centres.
    let mean = centres.iter().sum::<f64>() / centres.len() as f64;
    let layer = |centre: f64| {
        let intercept = (plan.options.mean != MeanKind::Zero).then_some(centre);
        Ok(linear_layer(train, prior_mean, prior_variance, intercept, plan.options.steps.family)?.into())
    };
    let centres = if likelihood.alike() { vec![mean] } else { centres };
    let layers = centres.into_iter().map(layer).collect::<Result<_>>()?;
    Ok(LatentModel::of_layers(layers, likelihood, true))
}

/// Creates a model of features that start from the data for every layer.
fn feature_model(
    train: Dataset<'_>,
    plan: &Plan,
    likelihood: ObservationModel,
    centres: &[f64],
    map: &dyn FeatureMap,
) -> LatentPrior {
    let spread = spreads(train.x, &[]);
    let responses = layer_responses(&likelihood, train.targets);
    let layer = |(responses, means): (Vec<Vec<f64>>, Vec<f64>)| {
        let (mut map, amplitude) = (map.boxed_clone(), variance(responses.concat()));
        map.initialise(&spread, if amplitude > 0.0 { amplitude } else { 1.0 });
        FeatureLayer::new(map, means, plan.options.mean == MeanKind::Zero).into()
    };
    let means = means_of(plan, centres, likelihood.alike());
    let layers = responses.into_iter().zip(means).map(layer).collect();
    LatentModel::of_layers(layers, likelihood, true)
}

/// Refuses matrices that exceed the memory, before they are allocated.
fn check_memory(plan: &Plan, train: Dataset<'_>) -> Result<()> {
    /// The number of square matrices that every training method holds at once; most methods hold twice as many.
    const MATRICES: usize = 16;
    /// The size of the buffer in which every thread packs the operands of products (private-gemm-x86); the process aborts if it cannot be
    /// allocated.
    const PACKED: usize = 64 << 20;
    let (size, what, option) = match plan.options.model {
        ModelKind::Gp => (plan.options.inducing_for(plan.rows), "inducing inputs", "⟨inducing⟩"),
        ModelKind::Glm if plan.options.steps.family == Family::Diagonal => return Ok(()),
        ModelKind::Glm => (train.x.ncols(), "coefficients", "⟨features⟩, or ⟨family diagonal⟩"),
    };
    let side = size.min(train.len());
    let threads = current_num_threads();
    let matrices = side.saturating_mul(side).saturating_mul(MATRICES * size_of::<f64>());
    let bytes = matrices.saturating_add(threads.saturating_mul(PACKED)).min(isize::MAX as usize);
    let mut room: Vec<u8> = Vec::new();
    let had = room.try_reserve_exact(bytes);
    // Keeps the compiler from optimising the allocation away.
    std::hint::black_box(&room);
    had.map_err(|_| {
        let gib = bytes as f64 / (1u64 << 30) as f64;
        Error::fit(format!(
            "{size} {what} and {threads} threads need {gib:.1} GiB of memory or more, which is not available"
        ))
        .hint(format!("give fewer {option} or ⟨threads⟩"))
    })
}

/// The prior variance of an intercept, wide for standardised targets and for logarithms of rates.
const INTERCEPT_VARIANCE: f64 = 100.0;

/// Returns linear features, of the dimension of the data if it is smaller than the number of coefficients. An intercept has a wide prior
/// around the constant that suits the targets best.
fn linear_layer(
    train: Dataset<'_>,
    prior_mean: f64,
    prior_variance: f64,
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

/// Returns, for every function and observation, the value that explains the observation, without its offset.
pub(super) fn working_responses(likelihood: &ObservationModel, targets: Targets<'_>) -> Vec<Vec<f64>> {
    let functions = likelihood.functions();
    let (mut responses, mut one) = (vec![Vec::with_capacity(targets.len()); functions], vec![0.0; functions]);
    for i in 0..targets.len() {
        likelihood.working_response(targets.at(i), &mut one);
        let functions = responses.iter_mut().zip(&one).enumerate();
        functions.for_each(|(c, (responses, one))| responses.push(one - targets.offset(i, c)));
    }
    responses
}

/// Returns the population variance; 0 without values.
pub(super) fn variance(values: impl IntoIterator<Item = f64>) -> f64 {
    Moments::of(values).variance().unwrap_or(0.0)
}

/// Returns the spread of every input.
fn spreads(x: MatRef<'_, f64>, dimensions: &[Dimension]) -> Vec<f64> {
    (0..x.ncols()).map(|i| spread(x.col(i).iter(), dimensions.get(i))).collect()
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
    // The counts are whole numbers, so the sum does not depend on the order.
    let same: f64 = counts.values().map(|count: &f64| count * count).sum();
    if n > 0.0 { (0.5 * (1.0 - same / (n * n))).sqrt() } else { 0.0 }
}

/// The least share of the variance of the target that effects and noise start with: smaller ones would hardly move.
const LEAST_SHARE: f64 = 1e-3;

/// The share of the variance of the target that slopes start with, at the root mean square of their columns.
const SLOPE_SHARE: f64 = 0.05;

/// Gives a model independent effects with starting variances from the targets. A linear model with
/// Gaussian noise also gets the remaining variance of the targets as its noise variance.
///
/// `responses` has for every function the target of every row, or the value of f that explains it. Functions that share a layer start with
/// the variances of the first one.
fn start_effects(
    model: &mut LatentPrior,
    x: MatRef<'_, f64>,
    responses: &[Vec<f64>],
    terms: &[EffectTerm],
) -> Result<()> {
    let of_layers = responses.iter().take(model.layers.len()).map(|responses| started(x, responses, terms));
    let (effects, rest): (Vec<Effects>, Vec<f64>) =
        of_layers.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    model.effects = Effects::of_layers(effects);
    if model.layer().linear().is_some() && model.noise_variance().is_some() {
        model.likelihood.for_each_parameter_mut(&mut |p| p.start(|_| rest[0]));
    }
    Ok(())
}

/// Returns independent effects with starting variances from the responses of a function, and the variance that is left for noise.
fn started(x: MatRef<'_, f64>, responses: &[f64], terms: &[EffectTerm]) -> Result<(Effects, f64)> {
    let d = x.ncols() - columns_of(terms);
    let mut effects = Effects::new(d, terms.to_vec());
    let total = Moments::of(responses.iter().copied()).variance().filter(|v| *v > 0.0).unwrap_or(1.0);
    let mut rest = total;
    for (index, term) in terms.iter().enumerate() {
        let mut deviations = Vec::with_capacity(term.width());
        if term.intercept {
            let share = between((x, responses), d + term.code, term.levels).clamp(LEAST_SHARE * total, total);
            rest -= share;
            deviations.push(share.sqrt());
        }
        let squares = term.mean_squares(x.subcols(d, x.ncols() - d));
        for (spread, slope) in squares[usize::from(term.intercept)..].iter().zip(&term.slopes) {
            if *spread == 0.0 {
                return Err(Error::data(format!(
                    "⟨group⟩: the column of the slope '{slope}' of {} is constant, expected values that vary",
                    term.name
                )));
            }
            deviations.push((SLOPE_SHARE * total / spread).sqrt());
        }
        effects.start(index, &deviations);
    }
    Ok((effects, rest.max(0.1 * total)))
}

/// Returns the variance of levels by the method of moments, `(MS_between − MS_within)/n₀` (Searle,
/// Casella & McCulloch 1992, section 3.6); it may be negative.
fn between((x, y): (MatRef<'_, f64>, &[f64]), column: usize, levels: usize) -> f64 {
    let n = y.len() as f64;
    let mean = y.iter().sum::<f64>() / n;
    let (mut counts, mut sums) = (vec![0.0; levels], vec![0.0; levels]);
    let mut squares = 0.0;
    for (code, y) in x.col(column).iter().zip(y) {
        let c = y - mean;
        counts[*code as usize] += 1.0;
        sums[*code as usize] += c;
        squares += c * c;
    }
    let met = || counts.iter().zip(&sums).filter(|(count, _)| **count > 0.0);
    let known = met().count() as f64;
    let explained: f64 = met().map(|(count, sum)| sum * sum / count).sum();
    let within = (squares - explained) / (n - known).max(1.0);
    let usual = (n - met().map(|(count, _)| count * count).sum::<f64>() / n) / (known - 1.0).max(1.0);
    if known > 1.0 && usual > 0.0 { (explained / (known - 1.0) - within) / usual } else { 0.0 }
}
