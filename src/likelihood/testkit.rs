//! The contract every likelihood must pass: derivatives against differences, expectations against
//! slow integration, predictions against the density and samples.

use super::{LatentMarginal, Likelihood, LikelihoodKind, Local, Observation, TargetKind};
use crate::functions::normal;
use crate::quadrature::Integrator;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::Parameter;

/// The result of a check: the violated clause, if any.
pub(super) type Verdict = Result<(), String>;

/// The latent values at which densities are differentiated; none of them is likely to be a kink.
const LATENT: [f64; 7] = [-5.03, -2.21, -0.87, 0.13, 1.09, 2.77, 5.41];

/// The marginals over which expectations are taken.
const MARGINALS: [LatentMarginal; 6] = [
    LatentMarginal::new(0.31, 0.02),
    LatentMarginal::new(-1.27, 0.4),
    LatentMarginal::new(0.93, 1.6),
    LatentMarginal::new(2.6, 0.9),
    LatentMarginal::new(-2.9, 2.5),
    LatentMarginal::new(0.07, 6.0),
];

/// The number of draws with which moments and the distribution function are compared. By chance
/// they differ more than allowed once in a million times (moments, 5 standard errors) or once in
/// 1500 times (Kolmogorov's distance, 2/√n); the seed is fixed.
const DRAWS: usize = 20_000;

/// The number of steps of Simpson's rule on either side of the peak of `p(y|f)`, where there may be a kink.
const STEPS: usize = 4000;

/// The range of slow integration, in standard deviations of f.
const REACH: f64 = 9.0;

/// Checks the whole contract of a likelihood at some observations, which have to be in its domain
/// and about as probable as targets of a model with it typically are, at latent values within ±5.
///
/// ```
/// use sparsegp::likelihood::{Observation, StudentT, testkit::check_likelihood};
///
/// check_likelihood(&StudentT::new(0.7, 5.0), &[-1.0, 0.2, 6.0].map(Observation::of))?;
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// Describes the first violation of the contract, and where it occurs.
pub fn check_likelihood(likelihood: &dyn Likelihood, observations: &[Observation]) -> Verdict {
    check_parameters(likelihood)?;
    for &at in observations {
        LATENT.iter().try_for_each(|&f| check_density(likelihood, at, f))?;
        for marginal in MARGINALS {
            check_expectations(likelihood, at, marginal)?;
            check_integrals(likelihood, at, marginal)?;
        }
    }
    for exposure in if likelihood.target_kind() == TargetKind::Count { &[1.0, 2.5][..] } else { &[1.0] } {
        check_predictions(likelihood, *exposure, LatentMarginal::new(0.6, 0.3))?;
        check_predictions(likelihood, *exposure, LatentMarginal::new(-0.8, 0.05))?;
    }
    Ok(())
}

pub(super) fn ensure(condition: bool, message: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(message()) }
}

/// Returns true if two numbers agree within `tolerance · (|want| + scale)`.
pub(super) fn close(got: f64, want: f64, tolerance: f64, scale: f64) -> bool {
    (got - want).abs() <= tolerance * (want.abs() + scale)
}

/// The fourth-order central difference of `g` at `x`.
pub(super) fn slope(g: &mut dyn FnMut(f64) -> f64, x: f64, h: f64) -> f64 {
    (8.0 * (g(x + h) - g(x - h)) - (g(x + 2.0 * h) - g(x - 2.0 * h))) / (12.0 * h)
}

/// `log p(y|f)` and its slope.
fn log_density(likelihood: &dyn Likelihood, at: Observation, f: f64) -> (f64, f64) {
    let (mut value, mut first) = ([f64::NAN], [f64::NAN]);
    likelihood.log_density(at, &[f], &mut value, &mut first);
    (value[0], first[0])
}

fn parameters(likelihood: &dyn Likelihood) -> Vec<Parameter> {
    let mut found = Vec::new();
    likelihood.for_each_parameter(&mut |parameter| found.push(parameter.clone()));
    found
}

fn values(likelihood: &dyn Likelihood) -> Vec<f64> {
    parameters(likelihood).into_iter().flat_map(|parameter| parameter.values).collect()
}

/// A copy with the i-th own parameter value replaced.
fn with_own(likelihood: &dyn Likelihood, i: usize, value: f64) -> Box<dyn Likelihood> {
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

/// Checks the name, the own parameters' names, order and copies, that training can set them, and starting values.
///
/// # Errors
///
/// Names the first clause that is violated.
pub(crate) fn check_parameters(likelihood: &dyn Likelihood) -> Verdict {
    let name = likelihood.name();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure(!name.is_empty() && name.chars().all(word), || format!("'{name}' is not a word"))?;
    let before = parameters(likelihood);
    for (i, parameter) in before.iter().enumerate() {
        let own = &parameter.name;
        ensure(before[..i].iter().all(|other| other.name != *own), || {
            format!("two parameters are called '{own}'")
        })?;
        let admitted = parameter.values.iter().all(|value| parameter.transform.admits(*value));
        ensure(admitted, || format!("'{own}' has values out of its range: {:?}", parameter.values))?;
    }
    let mut copy = likelihood.boxed_clone();
    let kind = |likelihood: &dyn Likelihood| LikelihoodKind::of(&likelihood.boxed_clone().into());
    ensure(kind(copy.as_ref()) == kind(likelihood), || "a copy has another name or kind".to_owned())?;
    let mut mutable = Vec::new();
    copy.for_each_parameter_mut(&mut |parameter| mutable.push(parameter.clone()));
    ensure(mutable == before, || "a copy has other parameters, or visits them in another order".to_owned())?;
    for (i, value) in values(likelihood).into_iter().enumerate() {
        let changed = values(with_own(likelihood, i, 0.9 * value).as_ref());
        let as_set = changed.iter().enumerate().all(|(j, &now)| j != i || now == 0.9 * value);
        ensure(as_set, || format!("own value {i} does not keep the value that was set"))?;
    }
    copy.for_each_parameter_mut(&mut |parameter| parameter.fixed = true);
    let fixed = values(copy.as_ref());
    for targets in [&[][..], &[1.0], &[0.0, 0.0, 1.0]] {
        let centre = copy.initialise(targets, &[]);
        ensure(centre.is_finite(), || format!("the start from {targets:?} is {centre}"))?;
    }
    ensure(values(copy.as_ref()) == fixed, || "initialise moves a fixed parameter".to_owned())?;
    check_noise(likelihood)
}

/// Checks that a noise variance is the only own parameter, and that the density is normal.
fn check_noise(likelihood: &dyn Likelihood) -> Verdict {
    let Some(noise) = likelihood.gaussian_noise() else { return Ok(()) };
    ensure(values(likelihood) == [noise], || {
        format!("the noise variance {noise} is not the only own parameter")
    })?;
    let (got, want) =
        (log_density(likelihood, Observation::of(0.4), -0.3).0, normal::log_density(0.4, -0.3, noise));
    ensure(close(got, want, 1e-12, 1.0), || format!("the density {got} is not normal: {want}"))
}

/// Checks slope, curvature, gradient in own parameters and peak of the log density at f against differences.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub fn check_density(likelihood: &dyn Likelihood, at: Observation, f: f64) -> Verdict {
    const H: f64 = 1e-3;
    let peak = likelihood.peak(at);
    let (value, first) = log_density(likelihood, at, f);
    ensure(peak.is_finite(), || format!("the peak at {at} is {peak}"))?;
    let top = log_density(likelihood, at, peak).0;
    ensure(top >= value - 1e-12 * value.abs() - 1e-15, || {
        format!("log p is {value} at f = {f}, above {top} at the peak {peak} of {at}")
    })?;
    ensure(likelihood.working_response(at).is_finite(), || format!("no finite response to {at}"))?;
    // There is no derivative across a kink.
    if likelihood.resolution(at).strip == 0.0 && (f - peak).abs() < 4.0 * H {
        return Ok(());
    }
    let want = slope(&mut |f| log_density(likelihood, at, f).0, f, H);
    ensure(close(first, want, 1e-7, 1.0 + 1e-4 * value.abs()), || {
        format!("the slope at f = {f}, {at} is {first} instead of {want}")
    })?;
    let want = slope(&mut |f| log_density(likelihood, at, f).1, f, H);
    let got = likelihood.curvature(at, f);
    ensure(close(got, want, 1e-7, 1.0 + first.abs()), || {
        format!("the curvature at f = {f}, {at} is {got} instead of {want}")
    })?;
    let mut own = vec![2.0; values(likelihood).len()];
    likelihood.own_gradient(at, &[f, f], &[0.5, 0.25], &mut own);
    for (i, &x) in values(likelihood).iter().enumerate() {
        let mut along = |x: f64| log_density(with_own(likelihood, i, x).as_ref(), at, f).0;
        let want = 2.0 + 0.75 * slope(&mut along, x, H * x.abs().max(0.01));
        ensure(close(own[i], want, 1e-6, (1.0 + 1e-3 * value.abs()) / x.abs().min(1.0)), || {
            format!("own_gradient {i} at f = {f}, {at} leads from 2 to {} instead of {want}", own[i])
        })?;
    }
    Ok(())
}

/// `E log p(y|f)`, or `log E p(y|f)`.
fn expectation(
    likelihood: &dyn Likelihood,
    predictive: bool,
    at: Observation,
    latent: LatentMarginal,
    own: &mut [f64],
    integrator: &mut Integrator,
) -> Local {
    if predictive {
        likelihood.log_predictive(at, latent, own, integrator)
    } else {
        likelihood.expected_log_density(at, latent, own, integrator)
    }
}

/// Checks the derivatives of both expectations under `N(f; μ, v)` in μ, v and own parameters against differences.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub fn check_expectations(likelihood: &dyn Likelihood, at: Observation, latent: LatentMarginal) -> Verdict {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let mut integrator = Integrator::default();
    for predictive in [false, true] {
        let what =
            || format!("{} at {at}, μ = {mu}, v = {v}", if predictive { "log E p" } else { "E log p" });
        let mut own = vec![0.0; values(likelihood).len()];
        let mut evaluate = |likelihood: &dyn Likelihood, marginal, own: &mut [f64]| {
            expectation(likelihood, predictive, at, marginal, own, &mut integrator)
        };
        let local = evaluate(likelihood, latent, &mut own);
        let scale = 1e-3 + 1e-4 * local.value.abs();
        let want = slope(&mut |mu| evaluate(likelihood, LatentMarginal::new(mu, v), &mut []).value, mu, 1e-3);
        ensure(close(local.mean, want, 1e-6, scale), || {
            format!("∂/∂μ of {} is {} instead of {want}", what(), local.mean)
        })?;
        let want =
            slope(&mut |v| evaluate(likelihood, LatentMarginal::new(mu, v), &mut []).value, v, 1e-3 * v);
        ensure(close(local.variance, want, 1e-6, scale / v.min(1.0)), || {
            format!("∂/∂v of {} is {} instead of {want}", what(), local.variance)
        })?;
        for (i, &value) in values(likelihood).iter().enumerate() {
            let mut along = |x: f64| evaluate(with_own(likelihood, i, x).as_ref(), latent, &mut []).value;
            let want = slope(&mut along, value, 1e-3 * value.abs().max(0.01));
            ensure(close(own[i], want, 1e-6, scale / value.abs().min(1.0)), || {
                format!("the derivative of {} in own value {i} is {} instead of {want}", what(), own[i])
            })?;
        }
    }
    Ok(())
}

/// `E g(f)` under `N(f; μ, v)` by Simpson's rule on either side of a point where g may have a kink.
fn slowly(latent: LatentMarginal, kink: f64, g: &mut dyn FnMut(&[f64], &mut [f64])) -> f64 {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let sd = v.sqrt();
    let (low, high) = (mu - REACH * sd, mu + REACH * sd);
    let middle = if kink > low && kink < high { kink } else { mu };
    let (mut f, mut values) = (vec![0.0; STEPS + 1], vec![0.0; STEPS + 1]);
    let mut total = 0.0;
    for (from, to) in [(low, middle), (middle, high)] {
        let step = (to - from) / STEPS as f64;
        f.iter_mut().enumerate().for_each(|(k, f)| *f = from + k as f64 * step);
        // Points on the kink are moved into the side that is integrated.
        let inside = 1e-12 * (to - from);
        (f[0], f[STEPS]) = (from + inside, to - inside);
        g(&f, &mut values);
        for (k, (f, value)) in f.iter().zip(&values).enumerate() {
            let weight = if k == 0 || k == STEPS { 1.0 } else { 2.0 + 2.0 * (k % 2) as f64 };
            total += weight * step / 3.0 * value * normal::log_density(*f, mu, v).exp();
        }
    }
    total
}

/// Checks both expectations under `N(f; μ, v)` against slow integration of the density, Jensen's inequality and, where the density
/// has no kink, Price's theorem `∂_v E log p = ½ E ∂²_f log p`.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub(crate) fn check_integrals(
    likelihood: &dyn Likelihood,
    at: Observation,
    marginal: LatentMarginal,
) -> Verdict {
    let what = || format!("at {at}, μ = {}, v = {}", marginal.mean, marginal.variance);
    let mut integrator = Integrator::default();
    let mut evaluate =
        |predictive| expectation(likelihood, predictive, at, marginal, &mut [], &mut integrator);
    let (expected, predictive) = (evaluate(false), evaluate(true));
    let peak = likelihood.peak(at);
    let mut first = vec![0.0; STEPS + 1];
    let want = slowly(marginal, peak, &mut |f, out| likelihood.log_density(at, f, out, &mut first));
    ensure(close(expected.value, want, 1e-7, 1.0), || {
        format!("E log p {} is {} instead of {want}", what(), expected.value)
    })?;
    let (value, bound) = (predictive.value, expected.value);
    ensure(value >= bound - 1e-9 * (1.0 + bound.abs()), || {
        format!("log E p {} is {value}, below E log p = {bound}", what())
    })?;
    // For improbable targets the integrand lies beyond the range of slow integration.
    if value > -15.0 {
        let mut exponentials = |f: &[f64], out: &mut [f64]| {
            likelihood.log_density(at, f, out, &mut first);
            out.iter_mut().for_each(|value| *value = value.exp());
        };
        let want = slowly(marginal, peak, &mut exponentials).ln();
        ensure(close(value, want, 1e-7, 1.0), || format!("log E p {} is {value} instead of {want}", what()))?;
    }
    if likelihood.resolution(at).strip > 0.0 {
        let mut curvatures = |f: &[f64], out: &mut [f64]| {
            out.iter_mut().zip(f).for_each(|(out, f)| *out = 0.5 * likelihood.curvature(at, *f));
        };
        let want = slowly(marginal, peak, &mut curvatures);
        ensure(close(expected.variance, want, 1e-6, 1.0), || {
            format!("∂/∂v of E log p {} is {} instead of ½ E ∂² log p = {want}", what(), expected.variance)
        })?;
    }
    Ok(())
}

/// Checks the distributions of y at an exposure: the distribution given f = μ against the density,
/// and the predictive distribution under `N(f; μ, v)` against averages over f, its quantiles and
/// samples.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub(crate) fn check_predictions(
    likelihood: &dyn Likelihood,
    exposure: f64,
    marginal: LatentMarginal,
) -> Verdict {
    check_conditional(likelihood, exposure, marginal.mean)?;
    check_moments(likelihood, exposure, marginal.mean)?;
    check_averages(likelihood, exposure, marginal)?;
    check_quantiles(likelihood, exposure, marginal)?;
    check_scores(likelihood, exposure, marginal)?;
    check_samples(likelihood, exposure, marginal)
}

fn is_discrete(likelihood: &dyn Likelihood) -> bool {
    matches!(likelihood.target_kind(), TargetKind::Binary | TargetKind::Count | TargetKind::Ordinal)
}

/// The probabilities at which distributions are checked.
const LEVELS: [f64; 7] = [0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999];

/// Checks that the derivative of the distribution function given f is the density (or its jumps are
/// the probabilities), and that the predictive distribution at v = 0 equals it.
fn check_conditional(likelihood: &dyn Likelihood, exposure: f64, f: f64) -> Verdict {
    let (certain, mut integrator) = (LatentMarginal::new(f, 0.0), Integrator::default());
    let mut quantile = |p| likelihood.predictive_quantile(p, certain, exposure, &mut integrator);
    let middle = quantile(0.75) - quantile(0.25);
    // Not the median, where a symmetric density may have a kink.
    let points = [0.1, 0.3, 0.46, 0.7, 0.9].map(&mut quantile);
    for y in points {
        let density = log_density(likelihood, Observation::exposed(y, exposure), f).0.exp();
        let mut cdf = |y| likelihood.conditional_cdf(y, f, exposure);
        let (got, scale) = if is_discrete(likelihood) {
            (cdf(y) - cdf(y - 1.0), 1.0)
        } else {
            let room = match likelihood.target_kind() {
                TargetKind::Positive => y,
                TargetKind::UnitInterval => y.min(1.0 - y),
                _ => f64::INFINITY,
            };
            let h = 1e-3 * middle.min(room);
            (slope(&mut cdf, y, h), 1e-6 / h)
        };
        ensure(close(got, density, 1e-6, scale), || {
            format!(
                "given f = {f}, the distribution function rises by {got} at y = {y}, the density is {density}"
            )
        })?;
        let (known, given) = (
            likelihood.predictive_cdf(y, certain, exposure, &mut Integrator::default()),
            likelihood.conditional_cdf(y, f, exposure),
        );
        ensure(close(known, given, 1e-12, 1.0), || {
            format!("P(Y ≤ {y}) is {given} given f = {f}, but {known} predicted at v = 0")
        })?;
    }
    let known = likelihood.predictive_moments(certain, exposure, &mut Integrator::default());
    let given = likelihood.conditional_moments(f, exposure);
    let same = |a: f64, b: f64| a == b || close(a, b, 1e-12, 0.0) || (a.is_nan() && b.is_nan());
    ensure(same(known.0, given.0) && same(known.1, given.1), || {
        format!("mean and variance are {given:?} given f = {f}, but {known:?} predicted at v = 0")
    })
}

/// Checks that mean and variance given f, if they are finite, agree with the distribution function:
/// with a centre c, S = 1 − F above it and S = F below it, `E(Y − c) = ±∫ S dy` and
/// `E(Y − c)² = 2 ∫ |y − c| S dy`.
fn check_moments(likelihood: &dyn Likelihood, exposure: f64, f: f64) -> Verdict {
    let (mean, variance) = likelihood.conditional_moments(f, exposure);
    if !(mean.is_finite() && variance.is_finite()) {
        return Ok(());
    }
    let (certain, mut integrator) = (LatentMarginal::new(f, 0.0), Integrator::default());
    let mut quantile = |p| likelihood.predictive_quantile(p, certain, exposure, &mut integrator);
    let (low, centre, high) = (quantile(1e-13), quantile(0.5), quantile(1.0 - 1e-13));
    let cdf = |y| likelihood.conditional_cdf(y, f, exposure);
    let (mut first, mut second) = (0.0, 0.0);
    if is_discrete(likelihood) {
        let mut y = 0.0;
        while y <= high {
            let p = cdf(y) - cdf(y - 1.0);
            (first, second) = (first + p * (y - centre), second + p * (y - centre).powi(2));
            y += 1.0;
        }
    } else {
        for (sign, reach) in [(1.0, high - centre), (-1.0, centre - low)] {
            // Steps that grow with the distance from the centre, as tails are long.
            let width = variance.sqrt().min(reach);
            let step = (reach / width).asinh() / STEPS as f64;
            for k in 0..=STEPS {
                let t = k as f64 * step;
                let distance = width * t.sinh();
                let below = cdf(centre + sign * distance);
                let weight = if k == 0 || k == STEPS { 1.0 } else { 2.0 + 2.0 * (k % 2) as f64 };
                let mass =
                    weight * step / 3.0 * width * t.cosh() * if sign > 0.0 { 1.0 - below } else { below };
                (first, second) = (first + sign * mass, second + 2.0 * distance * mass);
            }
        }
    }
    let (got, want) = ((mean, variance), (centre + first, second - first * first));
    let sd = variance.sqrt();
    ensure((got.0 - want.0).abs() <= 1e-4 * sd && close(got.1, want.1, 1e-3, 0.0), || {
        format!("given f = {f}, mean and variance are {got:?}, but the distribution function has {want:?}")
    })
}

/// Checks that predictive moments and the distribution function are averages over f of those given
/// f.
fn check_averages(likelihood: &dyn Likelihood, exposure: f64, marginal: LatentMarginal) -> Verdict {
    let mut integrator = Integrator::default();
    let (mean, variance) = likelihood.predictive_moments(marginal, exposure, &mut integrator);
    let average = |g: &dyn Fn(f64) -> f64| {
        slowly(marginal, marginal.mean, &mut |f, out| out.iter_mut().zip(f).for_each(|(out, f)| *out = g(*f)))
    };
    let want = average(&|f| likelihood.conditional_moments(f, exposure).0);
    ensure(mean.is_nan() || close(mean, want, 1e-7, 1e-3), || {
        format!("the predictive mean is {mean} instead of {want}")
    })?;
    let want = average(&|f| {
        let (m, v) = likelihood.conditional_moments(f, exposure);
        v + (m - mean) * (m - mean)
    });
    ensure(!variance.is_finite() || close(variance, want, 1e-6, 1e-3), || {
        format!("the predictive variance is {variance} instead of {want}")
    })?;
    for p in LEVELS {
        let y = likelihood.predictive_quantile(p, marginal, exposure, &mut integrator);
        let got = likelihood.predictive_cdf(y, marginal, exposure, &mut integrator);
        // If the density has a kink, the distribution function as a function of f has a kink at y.
        let want = slowly(marginal, y, &mut |f, out| {
            out.iter_mut().zip(f).for_each(|(out, f)| *out = likelihood.conditional_cdf(y, *f, exposure));
        });
        ensure(close(got, want, 1e-6, 1.0), || format!("P(Y ≤ {y}) is {got} instead of {want}"))?;
    }
    Ok(())
}

/// Checks that quantiles invert the distribution function.
fn check_quantiles(likelihood: &dyn Likelihood, exposure: f64, marginal: LatentMarginal) -> Verdict {
    let mut integrator = Integrator::default();
    for p in LEVELS {
        let y = likelihood.predictive_quantile(p, marginal, exposure, &mut integrator);
        let mut cdf = |y| likelihood.predictive_cdf(y, marginal, exposure, &mut integrator);
        let below = cdf(y);
        let inverts = if is_discrete(likelihood) {
            below >= p && (y == 0.0 || cdf(y - 1.0) < p)
        } else {
            // Just below 1, floats are too coarse for a density that rises there.
            (below - p).abs() < 1e-9 || (likelihood.target_kind() == TargetKind::UnitInterval && y == 1.0)
        };
        ensure(inverts, || format!("{below} is below the quantile {y} of {p}"))?;
    }
    Ok(())
}

/// Checks the continuous ranked probability score, at quantiles of the predictive distribution and
/// at a target far in its tail. It is compared with slow integration of the predictive distribution
/// function, or with the sum if the target is discrete.
///
/// # Errors
///
/// Describes the first target for which the score is wrong.
pub fn check_scores(likelihood: &dyn Likelihood, exposure: f64, marginal: LatentMarginal) -> Verdict {
    let mut integrator = Integrator::default();
    for p in [1e-4, 0.3, 0.9, 1.0 - 1e-7] {
        let y = likelihood.predictive_quantile(p, marginal, exposure, &mut integrator);
        let got = likelihood.crps(Observation::exposed(y, exposure), marginal, &mut integrator);
        let want = slow_score(likelihood, Observation::exposed(y, exposure), marginal);
        ensure(close(got, want, 1e-6, 0.0) || (got.is_nan() && want.is_nan()), || {
            format!(
                "the score of y = {y}, μ = {}, v = {}, is {got} instead of {want}",
                marginal.mean, marginal.variance
            )
        })?;
    }
    Ok(())
}

/// `∫ (F(t) − 1{y ≤ t})² dt` by Simpson's rule on either side of y, or the sum.
fn slow_score(likelihood: &dyn Likelihood, at: Observation, marginal: LatentMarginal) -> f64 {
    let Observation { y, exposure, .. } = at;
    let mut integrator = Integrator::default();
    let mut quantile = |p| likelihood.predictive_quantile(p, marginal, exposure, &mut integrator);
    let (centre, low, high) = (quantile(0.5), quantile(1e-11), quantile(1.0 - 1e-11));
    let width = quantile(0.75) - quantile(0.25);
    let mut cdf = |t| likelihood.predictive_cdf(t, marginal, exposure, &mut integrator);
    if is_discrete(likelihood) {
        let last = high.max(y) as u64;
        let error = |k: u64| cdf(k as f64) - f64::from(u8::from(y <= k as f64));
        return (0..=last).map(error).map(|error| error * error).sum();
    }
    // An even grid in x gives steps in t that grow with the distance from the centre, or from the
    // ends of the range.
    let x = |t: f64| match likelihood.target_kind() {
        TargetKind::Positive => t.ln(),
        TargetKind::UnitInterval => t.ln() - (-t).ln_1p(),
        _ => ((t - centre) / width).asinh(),
    };
    let place = |x: f64| match likelihood.target_kind() {
        TargetKind::Positive => (x.exp(), x.exp()),
        TargetKind::UnitInterval => (1.0 / (1.0 + (-x).exp()), 0.25 / (0.5 * x).cosh().powi(2)),
        _ => (centre + width * x.sinh(), width * x.cosh()),
    };
    let mut side = |from: f64, to: f64, above: f64| {
        let step = (x(to) - x(from)).max(0.0) / STEPS as f64;
        let term = |k: usize| {
            let (t, slope) = place(x(from) + k as f64 * step);
            let weight = if k == 0 || k == STEPS { 1.0 } else { 2.0 + 2.0 * (k % 2) as f64 };
            weight * step / 3.0 * slope * (cdf(t) - above).powi(2)
        };
        (0..=STEPS).map(term).sum::<f64>()
    };
    // Next to the ends of a range there is nothing to integrate.
    let (low, high) = match likelihood.target_kind() {
        TargetKind::Positive => (low.max(1e-14 * y), high),
        TargetKind::UnitInterval => (low.max(1e-14 * y), high.min(1.0 - 1e-15)),
        _ => (low, high),
    };
    side(low, y, 0.0) + side(y, high, 1.0)
}

/// Checks that samples have the predictive moments and distribution.
fn check_samples(likelihood: &dyn Likelihood, exposure: f64, latent: LatentMarginal) -> Verdict {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let (mut random, mut integrator) = (ChaCha8Rng::seed_from_u64(20), Integrator::default());
    let mut sample: Vec<f64> = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let z: f64 = StandardNormal.sample(&mut random);
        sample.push(likelihood.sample(mu + v.sqrt() * z, exposure, &mut random));
    }
    let n = DRAWS as f64;
    let (mean, variance) = likelihood.predictive_moments(latent, exposure, &mut integrator);
    if variance.is_finite() {
        let about = |power: i32| sample.iter().map(|y| (y - mean).powi(power)).sum::<f64>() / n;
        let error = about(1).abs() / (variance / n).sqrt();
        ensure(error < 5.0, || format!("the mean {mean} is {error} standard errors from that of samples"))?;
        let error = (about(2) - variance).abs() / ((about(4) - variance * variance) / n).sqrt();
        ensure(error < 5.0, || {
            format!("the variance {variance} is {error} standard errors from that of samples")
        })?;
    }
    sample.sort_by(f64::total_cmp);
    let mut before = 0.0;
    for &y in sample.iter().step_by(DRAWS / 200) {
        let below = likelihood.predictive_cdf(y, latent, exposure, &mut integrator);
        ensure(below >= before, || format!("the distribution function falls to {below} at {y}"))?;
        before = below;
        let share = sample.partition_point(|x| *x <= y) as f64 / n;
        ensure((below - share).abs() < 2.0 / n.sqrt(), || {
            format!("P(Y ≤ {y}) is {below}, the share of samples is {share}")
        })?;
    }
    Ok(())
}
