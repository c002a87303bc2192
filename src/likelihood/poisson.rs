//! Counts with a Poisson distribution of rate e·e^f or e·log(1 + e^f), e the exposure.

use super::bernoulli::logistic;
use super::log_rate::{LogRate, log_normal};
use super::sums::{Terms, fill};
use super::threshold::Threshold;
use super::{
    DensityBounds, Expectation, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction,
    Row, TargetKind, named, own_parameters,
};
use crate::functions::gamma::gamma_upper;
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson};
use sparsegp_kernels::vector_math::{exp, ln_1p};
use statrs::function::gamma::ln_gamma;
use std::f64::consts::{LN_2, PI};

/// The widest strip in which distribution functions of counts are well-behaved functions of a log
/// rate.
const WIDEST: f64 = 1.5;

/// Returns the strip of a distribution function that falls like a normal one of standard deviation
/// `width` in f: it is entire, but grows by `exp(½ (strip/width)²)`.
pub(super) fn strip_of_width(width: f64) -> f64 {
    (3.8 * width).min(WIDEST)
}

/// `P(Y ≤ y)` for a Poisson distribution.
fn poisson_cdf(y: f64, rate: f64) -> f64 {
    if y < 0.0 { 0.0 } else { gamma_upper(y.floor() + 1.0, rate) }
}

/// Returns `P(Y ≤ k)` of a count whose rate is e·r(f), for real k. `Y ≤ k` holds if the rate is at
/// most a gamma variable of shape k + 1; `inverse` finds f from this variable, and `steep` is the
/// slope of f in the logarithm of the variable.
fn smooth_cdf(
    likelihood: &dyn OneFunction,
    row: LatentRow,
    integrator: &mut Integrator,
    [rate, inverse, steep]: [&dyn Fn(f64) -> f64; 3],
) -> f64 {
    let Row { at, marginal: latent } = row;
    let Observation { y: k, exposure, .. } = at;
    let LatentMarginal { mean: mu, variance: v } = latent;
    if k < 0.0 {
        return 0.0;
    }
    let variable = |u: f64| u.exp() / exposure;
    let quick = Threshold::LogGamma(k + 1.0).average(
        |u| inverse(variable(u)),
        |u| steep(variable(u)),
        latent,
        integrator,
    );
    quick.unwrap_or_else(|| {
        integrator.average(mu, v, likelihood.cdf_strip(at), &mut |f| gamma_upper(k + 1.0, exposure * rate(f)))
    })
}

/// The unit deviance, `2 (y log(y/m) − (y − m))`.
pub(super) fn poisson_deviance(y: f64, mean: f64) -> f64 {
    2.0 * (log_ratio(y, mean) - (y - mean))
}

/// `y log(y/m)`, 0 for no events.
pub(super) fn log_ratio(y: f64, mean: f64) -> f64 {
    if y > 0.0 { y * (y / mean).ln() } else { 0.0 }
}

/// Returns a draw from a Poisson distribution; from a rate of 1.8e19 on it is the rate itself, from
/// which draws differ by about one part in 10⁹.
pub(super) fn poisson_draw(rate: f64, random: &mut ChaCha8Rng) -> f64 {
    if rate == 0.0 {
        return 0.0;
    }
    Poisson::new(rate).map_or(rate, |d| d.sample(random))
}

/// Returns the mean count per unit of exposure, kept away from 0.
pub(super) fn mean_rate(y: &[f64], exposure: &[f64]) -> f64 {
    let exposed = if exposure.is_empty() { y.len() as f64 } else { exposure.iter().sum() };
    let rate = (y.iter().sum::<f64>() + 0.5) / exposed;
    if rate.is_finite() && rate > 0.0 { rate } else { 1.0 }
}

/// The latent value whose rate e·e^f is the count, or a very low value for a count of 0.
pub(super) fn log_link_peak(at: Observation) -> f64 {
    if at.y > 0.0 { (at.y / at.exposure).ln() } else { -40.0 - at.exposure.ln() }
}

/// The latent value whose rate is the count plus a half, which is finite for all counts.
pub(super) fn log_link_response(at: Observation) -> f64 {
    ((at.y + 0.5) / at.exposure).ln()
}

/// `p(y | f) = Poisson(y; e·e^f)`; the exposure is an offset `log e` in f.
#[derive(Clone, Copy, Debug)]
pub struct PoissonExp;

fn terms(at: Observation) -> LogRate {
    LogRate { slope: at.y, sign: 1.0, offset: at.exposure.ln(), constant: -ln_gamma(at.y + 1.0) }
}

impl OneFunction for PoissonExp {
    own_parameters!();

    named!(LikelihoodKind::Poisson);

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        terms(at).log_density(f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        -(f + at.exposure.ln()).exp()
    }

    /// The exposure only shifts f.
    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let y = at.y;
        let curvature = (-y - 0.25, 2.0 * y * y + 3.0 * y + 2.0);
        Some(DensityBounds { density: 1.0, slope: (-y - 1.0, y), curvature })
    }

    fn resolution(&self, _: Observation) -> Resolution {
        LogRate::RESOLUTION
    }

    fn peak(&self, at: Observation) -> f64 {
        log_link_peak(at)
    }

    fn working_response(&self, at: Observation) -> f64 {
        log_link_response(at)
    }

    fn expectation(
        &self,
        of: Expectation,
        row: LatentRow,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        match of {
            Expectation::ExpectedLog => terms(row.at).expectation(row.marginal),
            Expectation::LogPredictive => integrator.expectation(of, self, row, own),
        }
    }

    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        poisson_deviance(y, mean)
    }

    /// `ln(1 + 1/mean)` (Nakagawa & Schielzeth 2010, table 2).
    fn observation_variance(&self, mean: f64) -> Option<f64> {
        (mean > 0.0).then(|| mean.recip().ln_1p())
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let rate = at.exposure * f.exp();
        (rate, rate)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        poisson_cdf(at.y, at.exposure * f.exp())
    }

    /// At the rate y + 1, log counts have the standard deviation 1/√(y + 1).
    fn cdf_strip(&self, at: Observation) -> f64 {
        strip_of_width(1.0 / (at.y.max(0.0) + 1.0).sqrt())
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        poisson_draw(at.exposure * f.exp(), random)
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        let (rate, _, variance) = log_normal(row.marginal);
        let Observation { exposure, .. } = row.at;
        (exposure * rate, exposure * rate + exposure * exposure * variance)
    }

    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let ways: [&dyn Fn(f64) -> f64; 3] = [&f64::exp, &f64::ln, &|_| 1.0];
        smooth_cdf(self, row, integrator, ways)
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        mean_rate(y, exposure).ln()
    }
}

/// `p(y | f) = Poisson(y; e·log(1 + e^f))`: the rate grows linearly in f where it is large.
#[derive(Clone, Copy, Debug)]
pub struct PoissonSoftplus;

/// `log(1 + e^f)`.
fn softplus(f: f64) -> f64 {
    f.max(0.0) + (-f.abs()).exp().ln_1p()
}

/// The f with `log(1 + e^f) = rate`, for a positive rate.
fn softplus_inverse(rate: f64) -> f64 {
    rate + (-(-rate).exp_m1()).ln()
}

impl OneFunction for PoissonSoftplus {
    own_parameters!();

    named!(LikelihoodKind::PoissonSoftplus);

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let Observation { y, exposure, .. } = at;
        let constant = y * exposure.ln() - ln_gamma(y + 1.0);
        fill(LogSoftplus { y, exposure, constant }, f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let (slope, rest) = (logistic(f), logistic(-f));
        // r′/r → 1 and r″/r → 1 in the lower tail, where r itself underflows.
        let relative = if f < -700.0 { 1.0 } else { slope / softplus(f) };
        at.y * relative * (rest - relative) - at.exposure * slope * rest
    }

    /// The rate is e·g(f). Derivatives in it are differences of probabilities of neighbouring
    /// counts, which are at most 1 in size, so `|φ′| ≤ e g′ ≤ e` and
    /// `|φ″| ≤ e g″ + 2 (e g′)² ≤ e/4 + 2e²`.
    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let e = at.exposure;
        Some(DensityBounds::symmetric(1.0, e, 0.25 * e + 2.0 * e * e))
    }

    /// The rate is singular at ±iπ, like the logistic function that is its derivative; in the lower tail it is e^f.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: PI, step: LogRate::RESOLUTION.step, concave: true, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        if at.y > 0.0 { softplus_inverse(at.y / at.exposure) } else { log_link_peak(at) }
    }

    fn working_response(&self, at: Observation) -> f64 {
        softplus_inverse((at.y + 0.5) / at.exposure)
    }

    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        poisson_deviance(y, mean)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let rate = at.exposure * softplus(f);
        (rate, rate)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        poisson_cdf(at.y, at.exposure * softplus(f))
    }

    /// The standard deviation √(y + 1) of the count, as a change of f where the rate is y + 1.
    fn cdf_strip(&self, at: Observation) -> f64 {
        let y = at.y.max(0.0) + 1.0;
        strip_of_width(y.sqrt() / (at.exposure * logistic(softplus_inverse(y / at.exposure))))
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        poisson_draw(at.exposure * softplus(f), random)
    }

    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let steep = |rate: f64| rate / -(-rate).exp_m1();
        let ways: [&dyn Fn(f64) -> f64; 3] = [&softplus, &softplus_inverse, &steep];
        smooth_cdf(self, row, integrator, ways)
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        softplus_inverse(mean_rate(y, exposure))
    }
}

#[derive(Clone, Copy)]
struct LogSoftplus {
    y: f64,
    exposure: f64,
    constant: f64,
}

/// `log log 2`.
const LN_LN_2: f64 = -0.366_512_920_581_664_35;

impl Terms<2> for LogSoftplus {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let LogSoftplus { y, exposure, constant } = *self;
        let below = f < 0.0;
        let e = exp::<S>(-f.abs());
        let log = ln_1p::<S>(e);
        let rate = if below { log } else { f + log };
        // e^f/r for f < 0 and r/log 2 otherwise, both ≥ 1, so that logarithms come from log(1 + ·) of something ≥ 0.
        let ratio = if e > 1e-290 { e / log } else { 1.0 };
        let ratio = if below { ratio } else { rate / LN_2 };
        let log_ratio = ln_1p::<S>(if ratio > 1.0 { ratio - 1.0 } else { 0.0 });
        let log_rate = if below { f - log_ratio } else { LN_LN_2 + log_ratio };
        let share = 1.0 / (1.0 + e);
        let slope = if below { e * share } else { share };
        let relative = if below { share * ratio } else { share / rate };
        [y * log_rate - exposure * rate + constant, y * relative - exposure * slope]
    }
}
