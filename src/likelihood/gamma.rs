//! Positive targets: gamma with scale e^f, and exponential with mean e^f.

use super::log_rate::{LogRate, log_normal};
use super::threshold::Threshold;
use super::{
    Expectation, LatentRow, LikelihoodKind, Local, Observation, OneFunction, TargetKind, crps, named,
    own_parameters,
};
use crate::functions::gamma::gamma_cdf;
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use sparsegp_kernels::Parameter;
use statrs::function::gamma::{digamma, ln_gamma};

/// With u = log y − f, `log p(y|f) = k u − e^u − log y − log Γ(k)`.
fn terms(y: f64, shape: f64) -> LogRate {
    let log_y = y.ln();
    LogRate { slope: shape, sign: -1.0, offset: log_y, constant: -log_y - ln_gamma(shape) }
}

/// Returns the mean of positive targets, or 1 if there are none.
fn mean(y: &[f64]) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    if mean.is_finite() && mean > 0.0 { mean } else { 1.0 }
}

/// The common part of both families, given the shape as a function of the likelihood.
macro_rules! log_scale {
    ($shape:expr) => {
        fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
            terms(at.y, $shape(self)).log_density(f, value, first);
        }

        fn curvature(&self, at: Observation, f: f64) -> f64 {
            -(at.y.ln() - f).exp()
        }

        fn resolution(&self, _: Observation) -> Resolution {
            LogRate::RESOLUTION
        }

        /// Returns the f for which the mean k e^f is y.
        fn peak(&self, at: Observation) -> f64 {
            (at.y / $shape(self)).max(f64::MIN_POSITIVE).ln()
        }

        fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
            let (shape, scale) = ($shape(self), f.exp());
            (shape * scale, shape * scale * scale)
        }

        fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
            // Computed with logarithms, because y and e^f may both underflow or overflow.
            if at.y <= 0.0 { 0.0 } else { gamma_cdf($shape(self), (at.y.ln() - f).exp()) }
        }

        /// `log y` has standard deviation of about 1/√k.
        fn cdf_strip(&self, _: Observation) -> f64 {
            super::poisson::strip_of_width(1.0 / $shape(self).sqrt())
        }

        fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
            let unit = rand_distr::Gamma::new($shape(self), 1.0)
                .map_or(f64::NAN, |d| d.sample(random).max(f64::MIN_POSITIVE));
            // An underflowed scale gives the smallest positive number, an overflowed one infinity.
            let y = unit * f.exp();
            if y < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { y }
        }

        fn expectation(
            &self,
            of: Expectation,
            row: LatentRow,
            own: &mut [f64],
            integrator: &mut Integrator,
        ) -> Local {
            if of == Expectation::LogPredictive {
                return integrator.expectation(of, self, row, own);
            }
            if !own.is_empty() {
                self.own_gradient(row.at, &[row.marginal.mean], &[1.0], own);
            }
            terms(row.at.y, $shape(self)).expectation(row.marginal)
        }

        /// `Y ≤ y` if f is at most `log y` minus the logarithm of a gamma variable of shape k.
        fn crps(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
            let threshold = Threshold::LogGamma($shape(self));
            crps::continuous(TargetKind::Positive, row.at.y, &mut |y| {
                let log_y = y.ln();
                let quick = threshold.average(|u| log_y - u, |_| 1.0, row.marginal, integrator);
                quick.unwrap_or_else(|| self.predictive_cdf(row.with(y), integrator))
            })
        }

        /// `Var y = k E e^{2f} + k² Var e^f`, e^f log-normal.
        fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
            let (mean, square, variance) = log_normal(row.marginal);
            let shape = $shape(self);
            (shape * mean, shape * square + shape * shape * variance)
        }
    };
}

/// `y ~ Gamma(shape k, scale e^f)`: mean k e^f, variance k e^{2f}.
#[derive(Clone, Debug)]
pub struct Gamma {
    shape: Parameter,
}

impl Gamma {
    /// Creates the likelihood with shape k, which must be positive.
    pub fn new(shape: f64) -> Self {
        Gamma { shape: Parameter::positive("shape", vec![shape]).as_given() }
    }

    fn shape(&self) -> f64 {
        self.shape.values[0]
    }
}

impl OneFunction for Gamma {
    own_parameters!(shape);
    log_scale!(Gamma::shape);

    named!(LikelihoodKind::Gamma);

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let centre = at.y.ln() - digamma(self.shape());
        own[0] += f.iter().zip(weights).map(|(f, w)| w * (centre - f)).sum::<f64>();
    }

    /// Chooses k such that half of the squared coefficient of variation of the targets, 1/k for a
    /// constant f, is left to f.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let mean = mean(y);
        let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / y.len() as f64;
        let shape = 2.0 * mean * mean / variance;
        self.shape.start(|_| if shape.is_nan() { 1.0 } else { shape.clamp(0.1, 100.0) });
        (mean / self.shape()).ln()
    }
}

/// `p(y | f)` exponential with mean e^f: a gamma distribution of shape 1.
#[derive(Clone, Copy, Debug)]
pub struct Exponential;

impl OneFunction for Exponential {
    own_parameters!();
    log_scale!(|_: &Self| 1.0f64);

    named!(LikelihoodKind::Exponential);

    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        mean(y).ln()
    }
}
