//! Counts with a Poisson distribution of rate e·e^f, e the exposure.

use super::{Likelihood, LikelihoodKind, Local, Observation};
use crate::quadrature::{Integrator, Resolution};
use pulp::Simd;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson};
use sparsegp_kernels::Parameter;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp};
use statrs::function::gamma::{gamma_ur, ln_gamma};

/// `P(Y ≤ y)` for a Poisson distribution.
pub(super) fn poisson_cdf(y: f64, rate: f64) -> f64 {
    if y < 0.0 {
        return 0.0;
    }
    if !(rate > 0.0) {
        return if rate == 0.0 { 1.0 } else { f64::NAN };
    }
    if rate.is_infinite() { 0.0 } else { gamma_ur(y.floor() + 1.0, rate) }
}

/// A draw from a Poisson distribution; NaN when the rate is not finite or too large to draw from.
pub(super) fn poisson_draw(rate: f64, random: &mut ChaCha8Rng) -> f64 {
    if rate == 0.0 {
        return 0.0;
    }
    Poisson::new(rate).map_or(f64::NAN, |d| d.sample(random))
}

/// The mean count per unit of exposure, away from 0.
pub(super) fn mean_rate(y: &[f64], exposure: &[f64]) -> f64 {
    let exposed = if exposure.is_empty() { y.len() as f64 } else { exposure.iter().sum() };
    (y.iter().sum::<f64>() + 0.5) / exposed
}

/// `p(y | f) = Poisson(y; e·e^f)`; the exposure is an offset `log e` in f.
#[derive(Clone, Copy, Debug)]
pub struct PoissonExp;

impl Likelihood for PoissonExp {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Poisson
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let offset = at.exposure.ln();
        let constant = at.y * offset - ln_gamma(at.y + 1.0);
        dispatch(LogPoisson { y: at.y, offset, constant, f, value, first });
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        -at.exposure * f.exp()
    }

    fn own_gradient(&self, _: Observation, _: &[f64], _: &[f64], _: &mut [f64]) {}

    /// `exp(−e^f)` is entire but grows beyond the strip of half-width π/2.
    fn resolution(&self, _: Observation) -> Resolution {
        Resolution { strip: 4.0, step: 0.43, concave: true, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        if at.y > 0.0 { (at.y / at.exposure).ln() } else { -40.0 - at.exposure.ln() }
    }

    fn working_response(&self, at: Observation) -> f64 {
        ((at.y + 0.5) / at.exposure).ln()
    }

    fn expected_log_density(
        &self,
        at: Observation,
        (mu, v): (f64, f64),
        _: &mut [f64],
        _: &mut Integrator,
    ) -> Local {
        let offset = at.exposure.ln();
        let rate = (mu + offset + 0.5 * v).exp();
        Local {
            value: at.y * (mu + offset) - rate - ln_gamma(at.y + 1.0),
            mean: at.y - rate,
            variance: -0.5 * rate,
        }
    }

    fn conditional_moments(&self, f: f64, exposure: f64) -> (f64, f64) {
        let rate = exposure * f.exp();
        (rate, rate)
    }

    fn conditional_cdf(&self, y: f64, f: f64, exposure: f64) -> f64 {
        poisson_cdf(y, exposure * f.exp())
    }

    /// As a function of f it falls like a normal distribution function of width 1/√(y + 1).
    fn cdf_strip(&self, y: f64) -> f64 {
        (3.8 / (y.max(0.0) + 1.0).sqrt()).min(1.5)
    }

    fn sample(&self, f: f64, exposure: f64, random: &mut ChaCha8Rng) -> f64 {
        poisson_draw(exposure * f.exp(), random)
    }

    /// The rate is log-normal: mean λ = e^{μ+v/2}, variance λ²(e^v − 1).
    fn predictive_moments(&self, (mu, v): (f64, f64), exposure: f64, _: &mut Integrator) -> (f64, f64) {
        let rate = exposure * (mu + 0.5 * v).exp();
        (rate, rate + rate * rate * v.exp_m1())
    }

    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        mean_rate(y, exposure).ln()
    }

    fn for_each_parameter<'a>(&'a self, _: &mut dyn FnMut(&'a Parameter)) {}

    fn for_each_parameter_mut(&mut self, _: &mut dyn FnMut(&mut Parameter)) {}

    fn boxed_clone(&self) -> Box<dyn Likelihood> {
        Box::new(*self)
    }
}

struct LogPoisson<'a> {
    y: f64,
    offset: f64,
    constant: f64,
    f: &'a [f64],
    value: &'a mut [f64],
    first: &'a mut [f64],
}

impl Pass for LogPoisson<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let LogPoisson { y, offset, constant, f, value, first } = self;
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let rate = exp::<S>(f + offset);
            *value = y * f - rate + constant;
            *first = y - rate;
        }
    }
}
