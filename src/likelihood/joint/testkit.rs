//! The contract of likelihoods with several latent functions: derivatives against differences,
//! expectations against sums over grids, predictions against each other and draws.

use super::{JointIntegrator, JointLikelihood, Marginal, Slopes};
use crate::likelihood::testkit::{Verdict, close, ensure, slope};
use crate::likelihood::{LatentMarginal, Observation, TargetKind};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::Parameter;

/// The values of the functions, in turn, at which densities are differentiated.
const LATENT: [f64; 6] = [0.13, -0.87, 1.09, -1.61, 0.47, 1.77];

/// The means, in turn from one function to the next, of the marginals of expectations.
const MEANS: [f64; 5] = [0.31, -0.77, 0.93, -1.2, 0.07];
const VARIANCES: [f64; 4] = [0.4, 0.1, 0.02, 0.25];

/// The number of marginals that are checked for every observation.
const MARGINALS: usize = 4;

/// The number of draws with which predictions are compared: moments within 5 standard errors, the
/// distribution function within 2/√n.
const DRAWS: usize = 20_000;

/// The probabilities at which distributions are checked.
const LEVELS: [f64; 5] = [0.01, 0.3, 0.5, 0.8, 0.99];

/// Returns the means and variances of one case.
fn marginals(functions: usize, case: usize) -> (Vec<f64>, Vec<f64>) {
    let mean = (0..functions).map(|c| MEANS[(c + case) % MEANS.len()]).collect();
    let variance = (0..functions).map(|c| VARIANCES[(c * (1 + case) + case) % VARIANCES.len()]).collect();
    (mean, variance)
}

/// Checks the whole contract of a likelihood with up to three functions at some observations, which
/// have to be in its domain and about as probable as targets of a model with it typically are, at
/// latent values within ±2.
///
/// ```
/// use sparsegp::likelihood::Observation;
/// use sparsegp::likelihood::joint::{GaussianHeteroskedastic, testkit::check_joint_likelihood};
///
/// check_joint_likelihood(&GaussianHeteroskedastic::new(), &[-1.0, 2.2].map(Observation::of))?;
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// Describes the first violation of the contract, and where it occurs.
pub fn check_joint_likelihood(likelihood: &dyn JointLikelihood, observations: &[Observation]) -> Verdict {
    check_parameters(likelihood, observations)?;
    let functions = likelihood.functions().len();
    for &at in observations {
        for case in 0..LATENT.len() {
            let f: Vec<f64> = (0..functions).map(|c| LATENT[(c * 2 + case) % LATENT.len()]).collect();
            check_density(likelihood, at, &f)?;
        }
        for case in 0..MARGINALS {
            let (mean, variance) = marginals(functions, case);
            let marginal = Marginal { mean: &mean, variance: &variance };
            check_slopes(likelihood, at, marginal)?;
            check_integrals(likelihood, at, marginal)?;
        }
    }
    let exposure = observations.first().map_or(1.0, |at| at.exposure);
    for case in 0..2 {
        let (mean, variance) = marginals(functions, case);
        let marginal = Marginal { mean: &mean, variance: &variance };
        match likelihood.target_kind() {
            TargetKind::Class => check_classes(likelihood, marginal)?,
            _ => check_predictions(likelihood, exposure, marginal)?,
        }
    }
    Ok(())
}

fn parameters(likelihood: &dyn JointLikelihood) -> Vec<Parameter> {
    let mut found = Vec::new();
    likelihood.for_each_parameter(&mut |parameter| found.push(parameter.clone()));
    found
}

fn values(likelihood: &dyn JointLikelihood) -> Vec<f64> {
    parameters(likelihood).into_iter().flat_map(|parameter| parameter.values).collect()
}

/// A copy with the i-th own parameter value replaced.
fn with_own(likelihood: &dyn JointLikelihood, i: usize, value: f64) -> Box<dyn JointLikelihood> {
    let mut copy = likelihood.boxed_clone();
    let mut at = 0;
    copy.for_each_parameter_mut(&mut |parameter| {
        for slot in &mut parameter.values {
            if at == i {
                *slot = value;
            }
            at += 1;
        }
    });
    copy
}

/// Checks names, own parameters and their copies, and starting values.
///
/// # Errors
///
/// Names the first clause that is violated.
pub(crate) fn check_parameters(likelihood: &dyn JointLikelihood, observations: &[Observation]) -> Verdict {
    let name = likelihood.name();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure(!name.is_empty() && name.chars().all(word), || format!("'{name}' is not a word"))?;
    let functions = likelihood.functions();
    for (i, function) in functions.iter().enumerate() {
        ensure(function.chars().all(word) && !functions[..i].contains(function), || {
            format!("the functions are called {functions:?}")
        })?;
    }
    let before = parameters(likelihood);
    let mut copy = likelihood.boxed_clone();
    ensure(copy.name() == name && parameters(&*copy) == before, || "a copy differs".to_owned())?;
    for (i, value) in values(likelihood).into_iter().enumerate() {
        let changed = values(&*with_own(likelihood, i, 0.9 * value));
        ensure(changed[i] == 0.9 * value, || format!("own value {i} does not keep the value that was set"))?;
    }
    copy.for_each_parameter_mut(&mut |parameter| parameter.fixed = true);
    let fixed = values(&*copy);
    let targets: Vec<f64> = observations.iter().map(|at| at.y).collect();
    let exposures: Vec<f64> = observations.iter().map(|at| at.exposure).collect();
    for n in 0..=targets.len() {
        for exposure in [&[][..], &exposures[..n]] {
            let start = copy.initialise(&targets[..n], exposure);
            let usable = start.len() == functions.len() && start.iter().all(|mean| mean.is_finite());
            ensure(usable, || format!("the start from {:?} is {start:?}", &targets[..n]))?;
        }
    }
    ensure(values(&*copy) == fixed, || "initialise moves a fixed parameter".to_owned())
}

/// Checks slopes, curvatures, own gradient and supremum of the log density at f against differences.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub fn check_density(likelihood: &dyn JointLikelihood, at: Observation, f: &[f64]) -> Verdict {
    const H: f64 = 1e-3;
    let n = f.len();
    let (mut first, mut second) = (vec![f64::NAN; n], vec![f64::NAN; n]);
    let value = likelihood.log_density(at, f, &mut first);
    likelihood.curvature(at, f, &mut second);
    if let Some(peak) = likelihood.peak(at) {
        ensure(value <= peak + 1e-9 * (1.0 + peak.abs()), || {
            format!("log p is {value} at f = {f:?}, {at:?}, above its supremum {peak}")
        })?;
    }
    let mut response = vec![f64::NAN; n];
    likelihood.working_response(at, &mut response);
    ensure(response.iter().all(|f| f.is_finite()), || format!("the response to {at:?} is {response:?}"))?;
    for c in 0..n {
        let moved = |x: f64| {
            let mut f = f.to_vec();
            f[c] = x;
            f
        };
        let want = slope(&mut |x| likelihood.log_density(at, &moved(x), &mut []), f[c], H);
        ensure(close(first[c], want, 1e-7, 1.0 + 1e-4 * value.abs()), || {
            format!("slope {c} at f = {f:?}, {at:?} is {} instead of {want}", first[c])
        })?;
        let mut along = |x: f64| {
            let mut slopes = vec![0.0; n];
            likelihood.log_density(at, &moved(x), &mut slopes);
            slopes[c]
        };
        let want = slope(&mut along, f[c], H);
        ensure(close(second[c], want, 1e-7, 1.0 + first[c].abs()), || {
            format!("curvature {c} at f = {f:?}, {at:?} is {} instead of {want}", second[c])
        })?;
    }
    let mut own = vec![2.0; likelihood.own_len()];
    likelihood.own_gradient(at, f, 0.75, &mut own);
    for (i, &x) in values(likelihood).iter().enumerate() {
        let mut along = |x: f64| with_own(likelihood, i, x).log_density(at, f, &mut []);
        let want = 2.0 + 0.75 * slope(&mut along, x, H * x.abs().max(0.01));
        ensure(close(own[i], want, 1e-6, (1.0 + 1e-3 * value.abs()) / x.abs().min(1.0)), || {
            format!("own_gradient {i} at f = {f:?}, {at:?} leads from 2 to {} instead of {want}", own[i])
        })?;
    }
    Ok(())
}

/// `E log p(y|f)`, or `log E p(y|f)`.
fn expectation(
    likelihood: &dyn JointLikelihood,
    predictive: bool,
    at: Observation,
    marginal: Marginal<'_>,
    slopes: Slopes<'_>,
    integrator: &mut JointIntegrator,
) -> f64 {
    if predictive {
        likelihood.log_predictive(at, marginal, slopes, integrator)
    } else {
        likelihood.expected_log_density(at, marginal, slopes, integrator)
    }
}

/// Checks the derivatives of both expectations in all means, variances and own parameters against differences, and that values are the
/// same without them.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub(crate) fn check_slopes(
    likelihood: &dyn JointLikelihood,
    at: Observation,
    marginal: Marginal<'_>,
) -> Verdict {
    let mut integrator = JointIntegrator::default();
    let n = marginal.mean.len();
    for predictive in [false, true] {
        let what = if predictive { "log E p" } else { "E log p" };
        let mut evaluate = |likelihood: &dyn JointLikelihood, mean: &[f64], variance: &[f64]| {
            let marginal = Marginal { mean, variance };
            expectation(likelihood, predictive, at, marginal, Slopes::none(), &mut integrator)
        };
        let (mut mean, mut variance) = (vec![f64::NAN; n], vec![f64::NAN; n]);
        let mut own = vec![0.0; likelihood.own_len()];
        let slopes = Slopes { mean: &mut mean, variance: &mut variance, own: &mut own };
        let value =
            expectation(likelihood, predictive, at, marginal, slopes, &mut JointIntegrator::default());
        let alone = evaluate(likelihood, marginal.mean, marginal.variance);
        ensure(close(alone, value, 1e-9, 1.0), || {
            format!("{what} at {at:?}, {marginal:?} is {value} with derivatives and {alone} without")
        })?;
        let scale = 1e-3 + 1e-4 * value.abs();
        for c in 0..n {
            let mut moved = marginal.mean.to_vec();
            let mut along = |x: f64| {
                moved[c] = x;
                evaluate(likelihood, &moved, marginal.variance)
            };
            let want = slope(&mut along, marginal.mean[c], 1e-3);
            ensure(close(mean[c], want, 1e-6, scale), || {
                format!("∂/∂μ_{c} of {what} at {at:?}, {marginal:?} is {} instead of {want}", mean[c])
            })?;
            let v = marginal.variance[c];
            let mut moved = marginal.variance.to_vec();
            let mut along = |x: f64| {
                moved[c] = x;
                evaluate(likelihood, marginal.mean, &moved)
            };
            let want = slope(&mut along, v, 1e-3 * v);
            ensure(close(variance[c], want, 1e-6, scale / v.min(1.0)), || {
                format!("∂/∂v_{c} of {what} at {at:?}, {marginal:?} is {} instead of {want}", variance[c])
            })?;
        }
        for (i, &x) in values(likelihood).iter().enumerate() {
            let mut along = |x: f64| evaluate(&*with_own(likelihood, i, x), marginal.mean, marginal.variance);
            let want = slope(&mut along, x, 1e-3 * x.abs().max(0.01));
            ensure(close(own[i], want, 1e-6, scale / x.abs().min(1.0)), || {
                format!("∂/∂ψ_{i} of {what} at {at:?}, {marginal:?} is {} instead of {want}", own[i])
            })?;
        }
    }
    Ok(())
}

/// Visits the nodes of a grid over ±9 standard deviations of every function, with their normal weights.
fn grid(marginal: Marginal<'_>, visit: &mut dyn FnMut(&[f64], f64)) {
    let n = marginal.mean.len();
    let half = if n < 3 { 240i32 } else { 30 };
    let step = 9.0 / f64::from(half);
    let side = (2 * half + 1) as usize;
    let mut f = vec![0.0; n];
    for index in 0..side.pow(n as u32) {
        let (mut rest, mut weight) = (index, 1.0);
        for (c, f) in f.iter_mut().enumerate() {
            let z = ((rest % side) as f64 - f64::from(half)) * step;
            rest /= side;
            let LatentMarginal { mean: mu, variance: v } = marginal.of(c);
            *f = mu + v.sqrt() * z;
            weight *= step * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        }
        visit(&f, weight);
    }
}

/// Checks both expectations against sums over a grid, and Jensen's inequality.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub(crate) fn check_integrals(
    likelihood: &dyn JointLikelihood,
    at: Observation,
    marginal: Marginal<'_>,
) -> Verdict {
    let mut integrator = JointIntegrator::default();
    let [expected, predictive] = [false, true]
        .map(|predictive| expectation(likelihood, predictive, at, marginal, Slopes::none(), &mut integrator));
    ensure(expected <= predictive + 1e-9 * (1.0 + expected.abs()), || {
        format!("E log p at {at:?}, {marginal:?} is {expected}, above log E p = {predictive}")
    })?;
    let (mut sum, mut total) = (0.0, 0.0);
    grid(marginal, &mut |f, weight| {
        let value = likelihood.log_density(at, f, &mut []);
        sum += weight * value;
        total += weight * value.exp();
    });
    ensure(close(expected, sum, 1e-7, 1.0), || {
        format!("E log p at {at:?}, {marginal:?} is {expected} instead of {sum}")
    })?;
    // Where the scale is small, the grid of the other function is too coarse.
    ensure(close(predictive, total.ln(), 1e-6, 1.0), || {
        format!("log E p at {at:?}, {marginal:?} is {predictive} instead of {}", total.ln())
    })
}

/// Draws of y from the predictive distribution.
fn draws(likelihood: &dyn JointLikelihood, exposure: f64, marginal: Marginal<'_>) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(20);
    let mut f = vec![0.0; marginal.mean.len()];
    (0..DRAWS)
        .map(|_| {
            for (c, f) in f.iter_mut().enumerate() {
                let LatentMarginal { mean: mu, variance: v } = marginal.of(c);
                let z: f64 = StandardNormal.sample(&mut random);
                *f = mu + v.sqrt() * z;
            }
            likelihood.sample(&f, exposure, &mut random)
        })
        .collect()
}

/// Checks that the probabilities of classes sum to 1 and agree with those of single observations
/// and with the shares of draws.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub(crate) fn check_classes(likelihood: &dyn JointLikelihood, marginal: Marginal<'_>) -> Verdict {
    let mut integrator = JointIntegrator::default();
    let mut probabilities = vec![f64::NAN; likelihood.levels()];
    likelihood.probabilities(marginal, &mut integrator, &mut probabilities);
    let total: f64 = probabilities.iter().sum();
    ensure((total - 1.0).abs() < 1e-12, || format!("probabilities {probabilities:?} sum to {total}"))?;
    let sample = draws(likelihood, 1.0, marginal);
    for (class, &p) in probabilities.iter().enumerate() {
        let at = Observation::of(class as f64);
        let one = likelihood.log_predictive(at, marginal, Slopes::none(), &mut integrator);
        ensure((one.exp() / p - 1.0).abs() < 1e-9, || {
            format!("class {class} has probability {p} among all and {} by itself", one.exp())
        })?;
        let share = sample.iter().filter(|y| **y == at.y).count() as f64 / DRAWS as f64;
        let error = (share - p).abs() / (p * (1.0 - p) / DRAWS as f64).sqrt();
        ensure(error < 5.0, || format!("class {class} of probability {p} is {share} of draws"))?;
    }
    Ok(())
}

/// Checks the predictive distribution: it is the integral of the predictive density, quantiles invert it, and moments and the continuous
/// ranked probability score agree with draws.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub(crate) fn check_predictions(
    likelihood: &dyn JointLikelihood,
    exposure: f64,
    marginal: Marginal<'_>,
) -> Verdict {
    let mut integrator = JointIntegrator::default();
    let counts = likelihood.target_kind() == TargetKind::Count;
    for p in LEVELS {
        let y = likelihood.predictive_quantile(p, marginal, exposure, &mut integrator);
        // Just below 1, floats are too coarse for a density that rises there.
        if likelihood.target_kind() == TargetKind::UnitInterval && y > 1.0 - 1e-9 {
            continue;
        }
        let mut cdf = |y: f64| likelihood.predictive_cdf(y, marginal, exposure, &mut integrator);
        let below = cdf(y);
        let inverts =
            if counts { below >= p && (y == 0.0 || cdf(y - 1.0) < p) } else { (below - p).abs() < 1e-8 };
        ensure(inverts, || format!("{below} is below the quantile {y} of {p}, {marginal:?}"))?;
        let room = match likelihood.target_kind() {
            TargetKind::Positive => y,
            TargetKind::UnitInterval => y.min(1.0 - y),
            _ => 1.0,
        };
        let rise = if counts { cdf(y) - cdf(y - 1.0) } else { slope(&mut cdf, y, 1e-3 * room) };
        let at = Observation::exposed(y, exposure);
        let density = likelihood.log_predictive(at, marginal, Slopes::none(), &mut integrator).exp();
        ensure(close(rise, density, 1e-6, 1.0), || {
            format!(
                "the distribution function rises by {rise} at y = {y}, {marginal:?}: the density is {density}"
            )
        })?;
    }
    check_samples(likelihood, exposure, marginal)
}

/// Draws have the predictive moments, distribution and score.
fn check_samples(likelihood: &dyn JointLikelihood, exposure: f64, marginal: Marginal<'_>) -> Verdict {
    let mut integrator = JointIntegrator::default();
    let mut sample = draws(likelihood, exposure, marginal);
    let n = DRAWS as f64;
    let (mean, variance) = likelihood.predictive_moments(marginal, exposure, &mut integrator);
    if variance.is_finite() {
        let about = |power: i32| sample.iter().map(|y| (y - mean).powi(power)).sum::<f64>() / n;
        let error = about(1).abs() / (variance / n).sqrt();
        ensure(error < 5.0, || {
            format!("the mean {mean} is {error} standard errors from that of draws, {marginal:?}")
        })?;
        // For long tails the spread of the draws is unreliable.
        let (spread, fourth) = (about(2), about(4));
        let error = (spread - variance).abs() / ((fourth - spread * spread).max(0.0) / n).sqrt();
        ensure(error < 5.0 || fourth > 300.0 * spread * spread, || {
            format!("the variance {variance} is {error} standard errors from {spread} of draws, {marginal:?}")
        })?;
    }
    let y = sample[0];
    let terms: Vec<f64> = sample
        .chunks_exact(2)
        .map(|pair| 0.5 * ((pair[0] - y).abs() + (pair[1] - y).abs() - (pair[0] - pair[1]).abs()))
        .collect();
    let score = terms.iter().sum::<f64>() / terms.len() as f64;
    let spread = terms.iter().map(|term| (term - score).powi(2)).sum::<f64>() / terms.len() as f64;
    let got = likelihood.crps(Observation::exposed(y, exposure), marginal, &mut integrator);
    ensure((got - score).abs() <= 5.0 * (spread / terms.len() as f64).sqrt() + 1e-12, || {
        format!("the score of y = {y}, {marginal:?} is {got}, that of draws {score}")
    })?;
    sample.sort_by(f64::total_cmp);
    for &y in sample.iter().step_by(DRAWS / 50) {
        let below = likelihood.predictive_cdf(y, marginal, exposure, &mut integrator);
        let share = sample.partition_point(|x| *x <= y) as f64 / n;
        ensure((below - share).abs() < 2.0 / n.sqrt(), || {
            format!("P(Y ≤ {y}) is {below}, the share of draws is {share}, {marginal:?}")
        })?;
    }
    Ok(())
}
