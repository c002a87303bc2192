//! The contract every likelihood must pass: derivatives against differences, expectations against
//! slow integration, predictions against the density and samples.

mod predictions;

pub use predictions::check_scores;

use super::{Expectation, Likelihood, LikelihoodKind, Marginal, Observation, Row, Slopes, TargetKind};
use crate::functions::normal;
use crate::quadrature::Integrator;
use predictions::check_predictions;
use sparsegp_kernels::Parameter;

/// The result of a check: the violated clause, if any.
type Verdict = Result<(), String>;

/// The latent values of one function at which densities are differentiated; none of them is likely to be a kink.
const LATENT_OF_ONE: [f64; 7] = [-5.03, -2.21, -0.87, 0.13, 1.09, 2.77, 5.41];

/// The marginals of one function over which expectations are taken.
const MARGINALS_OF_ONE: [[f64; 2]; 6] =
    [[0.31, 0.02], [-1.27, 0.4], [0.93, 1.6], [2.6, 0.9], [-2.9, 2.5], [0.07, 6.0]];

/// The values of several functions, in turn, at which densities are differentiated.
const LATENT: [f64; 6] = [0.13, -0.87, 1.09, -1.61, 0.47, 1.77];

/// The means and variances, in turn from one function to the next, of the marginals of several functions.
const MEANS: [f64; 5] = [0.31, -0.77, 0.93, -1.2, 0.07];
const VARIANCES: [f64; 4] = [0.4, 0.1, 0.02, 0.25];

/// The number of marginals of several functions that are checked for every observation.
const MARGINALS: usize = 4;

/// The number of steps of Simpson's rule on either side of the peak of `p(y|f)`, where there may be a kink.
const STEPS: usize = 4000;

/// The range of slow integration, in standard deviations of f.
const REACH: f64 = 9.0;

/// Checks the whole contract of a likelihood with up to three functions at some observations, which have to be in its domain and about as
/// probable as targets of a model with it typically are, at latent values within ±5 (several functions: ±2).
///
/// ```
/// use sparsegp_likelihoods::{GaussianHeteroskedastic, Observation, StudentT, testkit::check_likelihood};
///
/// check_likelihood(&StudentT::new(0.7, 5.0), &[-1.0, 0.2, 6.0].map(Observation::of))?;
/// check_likelihood(&GaussianHeteroskedastic::new(), &[-1.0, 2.2].map(Observation::of))?;
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
///
/// Describes the first violation of the contract, and where it occurs.
pub fn check_likelihood(likelihood: &dyn Likelihood, observations: &[Observation]) -> Verdict {
    check_parameters(likelihood, observations)?;
    let n = likelihood.functions();
    let nodes: Vec<Vec<f64>> = match n {
        1 => LATENT_OF_ONE.map(|f| vec![f]).to_vec(),
        _ => (0..LATENT.len())
            .map(|case| (0..n).map(|c| LATENT[(c * 2 + case) % LATENT.len()]).collect())
            .collect(),
    };
    for &at in observations {
        nodes.iter().try_for_each(|f| check_density(likelihood, at, f))?;
        for (mean, variance) in marginals(n) {
            let row = Row::new(at, Marginal { mean: &mean, variance: &variance });
            check_expectations(likelihood, row)?;
            check_integrals(likelihood, row)?;
        }
    }
    check_predictions(likelihood, observations)
}

/// Returns the means and variances over which expectations are taken.
fn marginals(functions: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
    if functions == 1 {
        return MARGINALS_OF_ONE.iter().map(|&[mean, variance]| (vec![mean], vec![variance])).collect();
    }
    let marginal = |case: usize| {
        let variance = |c: usize| VARIANCES[(c * (1 + case) + case) % VARIANCES.len()];
        let mean = (0..functions).map(|c| MEANS[(c + case) % MEANS.len()]).collect();
        (mean, (0..functions).map(variance).collect())
    };
    (0..MARGINALS).map(marginal).collect()
}

fn ensure(condition: bool, message: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(message()) }
}

/// Returns true if two numbers agree within `tolerance · (|want| + scale)`.
fn close(got: f64, want: f64, tolerance: f64, scale: f64) -> bool {
    (got - want).abs() <= tolerance * (want.abs() + scale)
}

/// Requires that two numbers agree as in [`close`]; `what` names the number.
fn agree(got: f64, want: f64, tolerance: f64, scale: f64, what: impl FnOnce() -> String) -> Verdict {
    ensure(close(got, want, tolerance, scale), || format!("{} is {got} instead of {want}", what()))
}

/// The fourth-order central difference of `g` at `x`.
fn slope(g: &mut dyn FnMut(f64) -> f64, x: f64, h: f64) -> f64 {
    (8.0 * (g(x + h) - g(x - h)) - (g(x + 2.0 * h) - g(x - 2.0 * h))) / (12.0 * h)
}

/// The derivative of a function of several numbers in one of them.
fn partial(g: &mut dyn FnMut(&[f64]) -> f64, at: &[f64], c: usize, h: f64) -> f64 {
    let mut moved = at.to_vec();
    let mut along = |x: f64| {
        moved[c] = x;
        g(&moved)
    };
    slope(&mut along, at[c], h)
}

/// `log p(y|f)` and its slopes.
fn log_density(likelihood: &dyn Likelihood, at: Observation, f: &[f64]) -> (f64, Vec<f64>) {
    let (mut value, mut slopes) = ([f64::NAN], vec![f64::NAN; f.len()]);
    likelihood.log_density(at, f, &mut value, &mut slopes);
    (value[0], slopes)
}

/// Returns true if `log p` of the observation has a kink, at its peak.
fn has_kink(likelihood: &dyn Likelihood, at: Observation) -> bool {
    likelihood.one().is_some_and(|one| one.resolution(at).strip == 0.0)
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

/// Checks the names of the likelihood, its functions and own parameters, the order and copies of these, that training can set them, and
/// starting values.
fn check_parameters(likelihood: &dyn Likelihood, observations: &[Observation]) -> Verdict {
    let name = likelihood.name();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    ensure(!name.is_empty() && name.chars().all(word), || format!("'{name}' is not a word"))?;
    let functions = likelihood.function_names();
    for (i, function) in functions.iter().enumerate() {
        ensure(function.chars().all(word) && !functions[..i].contains(function), || {
            format!("the functions are called {functions:?}")
        })?;
    }
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
    ensure(LikelihoodKind::of(&*copy) == LikelihoodKind::of(likelihood), || {
        "a copy has another name or kind".to_owned()
    })?;
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
    let (y, exposures): (Vec<f64>, Vec<f64>) = observations.iter().map(|at| (at.y, at.exposure)).unzip();
    let some = (0..=y.len()).flat_map(|n| [(&y[..n], &[][..]), (&y[..n], &exposures[..n])]);
    for (targets, exposure) in some.chain([(&[1.0][..], &[][..]), (&[0.0, 0.0, 1.0], &[])]) {
        let start = copy.initialise(targets, exposure);
        let usable = start.len() == functions.len() && start.iter().all(|mean| mean.is_finite());
        ensure(usable, || format!("the start from {targets:?} is {start:?}"))?;
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
    let got = log_density(likelihood, Observation::of(0.4), &[-0.3]).0;
    agree(got, normal::log_density(0.4, -0.3, noise), 1e-12, 1.0, || "the log density of normal noise".into())
}

/// Checks slopes, curvatures, gradient in own parameters, peak and supremum of the log density at f against differences.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub fn check_density(likelihood: &dyn Likelihood, at: Observation, f: &[f64]) -> Verdict {
    const H: f64 = 1e-3;
    let (value, first) = log_density(likelihood, at, f);
    let mut response = vec![f64::NAN; f.len()];
    likelihood.working_response(at, &mut response);
    ensure(response.iter().all(|f| f.is_finite()), || format!("the response to {at} is {response:?}"))?;
    if let Some(one) = likelihood.one() {
        let peak = one.peak(at);
        ensure(peak.is_finite(), || format!("the peak at {at} is {peak}"))?;
        let top = log_density(likelihood, at, &[peak]).0;
        ensure(top >= value - 1e-12 * value.abs() - 1e-15, || {
            format!("log p is {value} at f = {f:?}, above {top} at the peak {peak} of {at}")
        })?;
        // There is no derivative across a kink.
        if has_kink(likelihood, at) && (f[0] - peak).abs() < 4.0 * H {
            return Ok(());
        }
    }
    if let Some(highest) = likelihood.highest(at) {
        ensure(value <= highest + 1e-9 * (1.0 + highest.abs()), || {
            format!("log p is {value} at f = {f:?}, {at}, above its supremum {highest}")
        })?;
    }
    let mut second = vec![f64::NAN; f.len()];
    likelihood.curvature(at, f, &mut second);
    for c in 0..f.len() {
        let want = partial(&mut |f| log_density(likelihood, at, f).0, f, c, H);
        agree(first[c], want, 1e-7, 1.0 + 1e-4 * value.abs(), || {
            format!("the slope in function {c} at f = {f:?}, {at}")
        })?;
        let want = partial(&mut |f| log_density(likelihood, at, f).1[c], f, c, H);
        agree(second[c], want, 1e-7, 1.0 + first[c].abs(), || {
            format!("the curvature in function {c} at f = {f:?}, {at}")
        })?;
    }
    let mut own = vec![2.0; likelihood.own_len()];
    likelihood.own_gradient(at, &[f, f].concat(), &[0.5, 0.25], &mut own);
    for (i, &x) in values(likelihood).iter().enumerate() {
        let mut along = |x: f64| log_density(with_own(likelihood, i, x).as_ref(), at, f).0;
        let want = 2.0 + 0.75 * slope(&mut along, x, H * x.abs().max(0.01));
        agree(own[i], want, 1e-6, (1.0 + 1e-3 * value.abs()) / x.abs().min(1.0), || {
            format!("own_gradient {i}, added to 2, at f = {f:?}, {at}")
        })?;
    }
    Ok(())
}

/// Checks the derivatives of both expectations in all means, variances and own parameters against differences, and that values are the
/// same without them.
///
/// # Errors
///
/// Names the first clause that is violated, and where.
pub fn check_expectations(likelihood: &dyn Likelihood, row: Row) -> Verdict {
    let (Marginal { mean, variance }, n) = (row.marginal, row.marginal.mean.len());
    for of in [Expectation::ExpectedLog, Expectation::LogPredictive] {
        let evaluate = |likelihood: &dyn Likelihood, mean: &[f64], variance: &[f64]| {
            let row = Row::new(row.at, Marginal { mean, variance });
            likelihood.expectation(of, row, Slopes::none(), &mut Integrator::default())
        };
        let [mut by_mean, mut by_variance] = [0; 2].map(|_| vec![f64::NAN; n]);
        let mut own = vec![0.0; likelihood.own_len()];
        let slopes = Slopes { mean: &mut by_mean, variance: &mut by_variance, own: &mut own };
        let value = likelihood.expectation(of, row, slopes, &mut Integrator::default());
        agree(evaluate(likelihood, mean, variance), value, 1e-9, 1.0, || {
            format!("{of} at {row} without derivatives")
        })?;
        let scale = 1e-3 + 1e-4 * value.abs();
        for c in 0..n {
            let want = partial(&mut |mean| evaluate(likelihood, mean, variance), mean, c, 1e-3);
            agree(by_mean[c], want, 1e-6, scale, || format!("∂/∂μ of function {c} of {of} at {row}"))?;
            let v = variance[c];
            let want = partial(&mut |variance| evaluate(likelihood, mean, variance), variance, c, 1e-3 * v);
            agree(by_variance[c], want, 1e-6, scale / v.min(1.0), || {
                format!("∂/∂v of function {c} of {of} at {row}")
            })?;
        }
        for (i, &x) in values(likelihood).iter().enumerate() {
            let mut along = |x: f64| evaluate(with_own(likelihood, i, x).as_ref(), mean, variance);
            let want = slope(&mut along, x, 1e-3 * x.abs().max(0.01));
            agree(own[i], want, 1e-6, scale / x.abs().min(1.0), || {
                format!("the derivative of {of} at {row} in own value {i}")
            })?;
        }
    }
    Ok(())
}

/// The weight of node k of Simpson's rule, in steps.
fn simpson_weight(k: usize) -> f64 {
    if k == 0 || k == STEPS { 1.0 / 3.0 } else { (2.0 + 2.0 * (k % 2) as f64) / 3.0 }
}

/// Visits slices of nodes with their weights for slow expectations under the marginals: for one function those of Simpson's rule on either
/// side of a point where the integrand may have a kink, for several those of a grid.
fn slow_nodes(marginal: Marginal<'_>, kink: f64, visit: &mut dyn FnMut(&[f64], &[f64])) {
    let n = marginal.mean.len();
    if n == 1 {
        return simpson(marginal, kink, visit);
    }
    let half = if n < 3 { 240i32 } else { 30 };
    let step = REACH / f64::from(half);
    let side = (2 * half + 1) as usize;
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    for line in 0..side.pow(n as u32 - 1) {
        nodes.clear();
        weights.clear();
        for place in 0..side {
            let (mut rest, mut weight) = (line * side + place, 1.0);
            for (mu, v) in marginal.mean.iter().zip(marginal.variance) {
                let z = ((rest % side) as f64 - f64::from(half)) * step;
                rest /= side;
                nodes.push(mu + v.sqrt() * z);
                weight *= step * normal::log_density(z, 0.0, 1.0).exp();
            }
            weights.push(weight);
        }
        visit(&nodes, &weights);
    }
}

fn simpson(marginal: Marginal<'_>, kink: f64, visit: &mut dyn FnMut(&[f64], &[f64])) {
    let (mu, v) = (marginal.mean[0], marginal.variance[0]);
    let sd = v.sqrt();
    let (low, high) = (mu - REACH * sd, mu + REACH * sd);
    let middle = if kink > low && kink < high { kink } else { mu };
    for (from, to) in [(low, middle), (middle, high)] {
        let step = (to - from) / STEPS as f64;
        let mut f: Vec<f64> = (0..=STEPS).map(|k| from + k as f64 * step).collect();
        // Points on the kink are moved into the side that is integrated.
        let inside = 1e-12 * (to - from);
        (f[0], f[STEPS]) = (from + inside, to - inside);
        let weight = |(k, f): (usize, &f64)| simpson_weight(k) * step * normal::log_density(*f, mu, v).exp();
        let weights: Vec<f64> = f.iter().enumerate().map(weight).collect();
        visit(&f, &weights);
    }
}

/// Checks both expectations against slow integration of the density, Jensen's inequality and, for one function whose density has no kink,
/// Price's theorem `∂_v E log p = ½ E ∂²_f log p`.
fn check_integrals(likelihood: &dyn Likelihood, row: Row) -> Verdict {
    let (Row { at, marginal }, one) = (row, likelihood.one());
    let (mut by_mean, mut by_variance) = (vec![0.0; marginal.mean.len()], vec![0.0; marginal.mean.len()]);
    let slopes = Slopes { mean: &mut by_mean, variance: &mut by_variance, own: &mut [] };
    let mut integrator = Integrator::default();
    let expected = likelihood.expectation(Expectation::ExpectedLog, row, slopes, &mut integrator);
    let predictive = likelihood.expectation(Expectation::LogPredictive, row, Slopes::none(), &mut integrator);
    ensure(expected <= predictive + 1e-9 * (1.0 + expected.abs()), || {
        format!("log E p at {row} is {predictive}, below E log p = {expected}")
    })?;
    let (mut sum, mut total, mut bend) = (0.0, 0.0, 0.0);
    let [mut value, mut slope, mut second] = [const { Vec::new() }; 3];
    let smooth = one.is_some() && !has_kink(likelihood, at);
    slow_nodes(marginal, one.map_or(0.0, |one| one.peak(at)), &mut |nodes, weights| {
        value.resize(weights.len(), 0.0);
        slope.resize(nodes.len(), 0.0);
        second.resize(nodes.len(), 0.0);
        likelihood.log_density(at, nodes, &mut value, &mut slope);
        sum += value.iter().zip(weights).map(|(value, weight)| weight * value).sum::<f64>();
        total += value.iter().zip(weights).map(|(value, weight)| weight * value.exp()).sum::<f64>();
        if smooth {
            likelihood.curvature(at, nodes, &mut second);
            bend += second.iter().zip(weights).map(|(second, weight)| 0.5 * weight * second).sum::<f64>();
        }
    });
    agree(expected, sum, 1e-7, 1.0, || format!("E log p at {row}"))?;
    // For improbable targets the integrand lies beyond the range of slow integration. Where the scale of one of several functions is
    // small, the grid of the other function is too coarse.
    let tolerance = if one.is_some() { 1e-7 } else { 1e-6 };
    if one.is_none() || predictive > -15.0 {
        agree(predictive, total.ln(), tolerance, 1.0, || format!("log E p at {row}"))?;
    }
    if !smooth {
        return Ok(());
    }
    agree(by_variance[0], bend, 1e-6, 1.0, || format!("∂/∂v of E log p at {row} and not ½ E ∂² log p"))
}

fn is_discrete(likelihood: &dyn Likelihood) -> bool {
    let kind = likelihood.target_kind();
    kind.is_of_counts() || matches!(kind, TargetKind::Binary | TargetKind::Ordinal)
}
