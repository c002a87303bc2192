//! Counts with a Poisson distribution of rate e·e^f or e·log(1 + e^f), e the exposure.

use super::bernoulli::logistic;
use super::censored::Tails;
use super::one_function::averaged_moments;
use super::sums::{LogRate, Terms, fill, log_normal};
use super::threshold::Threshold;
use super::{DensityBounds, Expectation, LatentRow, LikelihoodKind, Local, Observation, OneFunction, Row};
use crate::functions::gamma::{Tail, gamma_upper, ln_gamma_tail};
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
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
    rand_distr::Poisson::new(rate).map_or(rate, |d| d.sample(random))
}

/// Returns the mean count per unit of exposure, kept away from 0.
pub(super) fn mean_rate(y: &[f64], exposure: &[f64]) -> f64 {
    let exposed = if exposure.is_empty() { y.len() as f64 } else { exposure.iter().sum() };
    let rate = (y.iter().sum::<f64>() + 0.5) / exposed;
    if rate.is_finite() && rate > 0.0 { rate } else { 1.0 }
}

/// `log(1 + e^f)`.
fn softplus(f: f64) -> f64 {
    f.max(0.0) + (-f.abs()).exp().ln_1p()
}

/// `p(y | f) = Poisson(y; e·r(f))`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poisson {
    /// `r = e^f`; the exposure is an offset `log e` in f.
    Exp,
    /// `r = log(1 + e^f)`, which grows linearly in f if f is large.
    Softplus,
}

impl Poisson {
    fn rate(self, f: f64) -> f64 {
        match self {
            Poisson::Exp => f.exp(),
            Poisson::Softplus => softplus(f),
        }
    }

    /// Returns the f of a positive rate.
    fn inverse(self, rate: f64) -> f64 {
        match self {
            Poisson::Exp => rate.ln(),
            Poisson::Softplus => rate + (-(-rate).exp_m1()).ln(),
        }
    }

    /// Returns the slope of [`inverse`](Self::inverse) in the logarithm of the rate.
    fn steep(self, rate: f64) -> f64 {
        match self {
            Poisson::Exp => 1.0,
            Poisson::Softplus => rate / -(-rate).exp_m1(),
        }
    }
}

/// The log density of `Poisson::Exp`.
fn terms(at: Observation) -> LogRate {
    LogRate { slope: at.y, sign: 1.0, offset: at.exposure.ln(), constant: -ln_gamma(at.y + 1.0) }
}

impl Tails for Poisson {
    /// `Y > y` if a gamma variable of shape y + 1 is at most the rate.
    fn tail(&self, at: Observation, f: f64, log_slope: f64) -> Tail {
        ln_gamma_tail(at.y + 1.0, at.exposure * self.rate(f), log_slope).reversed()
    }
}

impl OneFunction for Poisson {
    fn kind(&self) -> LikelihoodKind {
        match self {
            Poisson::Exp => LikelihoodKind::Poisson,
            Poisson::Softplus => LikelihoodKind::PoissonSoftplus,
        }
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let Observation { y, exposure, .. } = at;
        match self {
            Poisson::Exp => fill(terms(at), f, value, first),
            Poisson::Softplus => {
                let constant = y * exposure.ln() - ln_gamma(y + 1.0);
                fill(LogSoftplus { y, exposure, constant }, f, value, first);
            }
        }
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        if *self == Poisson::Exp {
            return -(f + at.exposure.ln()).exp();
        }
        let (slope, rest) = (logistic(f), logistic(-f));
        // r′/r → 1 and r″/r → 1 in the lower tail, where r itself underflows.
        let relative = if f < -700.0 { 1.0 } else { slope / softplus(f) };
        at.y * relative * (rest - relative) - at.exposure * slope * rest
    }

    /// Derivatives in the softplus rate are differences of probabilities of neighbouring counts, which are at most 1 in size, so
    /// `|φ′| ≤ e r′ ≤ e` and `|φ″| ≤ e r″ + 2 (e r′)² ≤ e/4 + 2e²`. The exposure only shifts f of the other rate.
    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let Observation { y, exposure: e, .. } = at;
        Some(match self {
            Poisson::Exp => DensityBounds {
                density: 1.0,
                slope: (-y - 1.0, y),
                curvature: (-y - 0.25, 2.0 * y * y + 3.0 * y + 2.0),
            },
            Poisson::Softplus => DensityBounds::symmetric(1.0, e, 0.25 * e + 2.0 * e * e),
        })
    }

    /// The softplus rate is singular at ±iπ, like the logistic function that is its derivative; in the lower tail it is e^f.
    fn resolution(&self, _: Observation) -> Resolution {
        match self {
            Poisson::Exp => LogRate::RESOLUTION,
            Poisson::Softplus => Resolution { strip: PI, ..LogRate::RESOLUTION },
        }
    }

    /// Returns the f whose rate is the count, or a very low one for a count of 0.
    fn peak(&self, at: Observation) -> f64 {
        if at.y > 0.0 { self.inverse(at.y / at.exposure) } else { -40.0 - at.exposure.ln() }
    }

    /// Returns the f whose rate is the count plus a half, which is finite for all counts.
    fn working_response(&self, at: Observation) -> f64 {
        self.inverse((at.y + 0.5) / at.exposure)
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        match self {
            Poisson::Exp => terms(row.at).expectation(row.marginal),
            Poisson::Softplus => integrator.expectation(Expectation::ExpectedLog, self, row, own),
        }
    }

    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        poisson_deviance(y, mean)
    }

    /// `ln(1 + 1/mean)` (Nakagawa & Schielzeth 2010, table 2).
    fn observation_variance(&self, mean: f64) -> Option<f64> {
        (*self == Poisson::Exp && mean > 0.0).then(|| mean.recip().ln_1p())
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        let rate = at.exposure * self.rate(f);
        (rate, rate)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        if at.y < 0.0 { 0.0 } else { gamma_upper(at.y.floor() + 1.0, at.exposure * self.rate(f)) }
    }

    /// The standard deviation √(y + 1) of the count, as a change of f where the rate is y + 1.
    fn cdf_strip(&self, at: Observation) -> f64 {
        let y = at.y.max(0.0) + 1.0;
        strip_of_width(match self {
            Poisson::Exp => 1.0 / y.sqrt(),
            Poisson::Softplus => y.sqrt() / (at.exposure * logistic(self.inverse(y / at.exposure))),
        })
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        poisson_draw(at.exposure * self.rate(f), random)
    }

    fn predictive_moments(&self, row: LatentRow, integrator: &mut Integrator) -> (f64, f64) {
        if *self == Poisson::Softplus {
            return averaged_moments(self, row, integrator);
        }
        let (rate, _, variance) = log_normal(row.marginal);
        let Observation { exposure, .. } = row.at;
        (exposure * rate, exposure * rate + exposure * exposure * variance)
    }

    /// `Y ≤ k` holds if the rate is at most a gamma variable of shape k + 1.
    fn smooth_count_cdf(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let Row { at: Observation { y: k, exposure, .. }, marginal: latent } = row;
        if k < 0.0 {
            return 0.0;
        }
        let rate = |u: f64| u.exp() / exposure;
        let (x, steep) = (|u: f64| self.inverse(rate(u)), |u: f64| self.steep(rate(u)));
        let quick = Threshold::LogGamma(k + 1.0).average(x, steep, latent, integrator);
        quick.unwrap_or_else(|| {
            let mut given = |f: f64| gamma_upper(k + 1.0, exposure * self.rate(f));
            integrator.average(latent.mean, latent.variance, self.cdf_strip(row.at), &mut given)
        })
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        self.inverse(mean_rate(y, exposure))
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
