//! Positive targets: gamma with scale e^f, and exponential with mean e^f.

use super::censored::Tails;
use super::poisson::strip_of_width;
use super::sums::{LogRate, fill, log_normal};
use super::threshold::Threshold;
use super::{LatentRow, LikelihoodKind, Local, Observation, OneFunction, TargetKind, crps};
use crate::functions::gamma::{Tail, gamma_cdf, ln_gamma_tail};
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use sparsegp_kernels::Parameter;
use statrs::function::gamma::{digamma, ln_gamma};

/// `y ~ Gamma(shape k, scale e^f)`: mean k e^f, variance k e^{2f}.
#[derive(Clone, Debug)]
pub struct Gamma {
    /// k; 1 without it.
    shape: Option<Parameter>,
}

impl Gamma {
    /// Creates the likelihood with shape k, which must be positive.
    pub fn new(shape: f64) -> Self {
        Gamma { shape: Some(Parameter::positive("shape", vec![shape]).as_given()) }
    }

    /// Creates the likelihood of exponentially distributed targets with mean e^f.
    pub fn exponential() -> Self {
        Gamma { shape: None }
    }

    fn shape(&self) -> f64 {
        self.shape.as_ref().map_or(1.0, |shape| shape.values[0])
    }

    /// With u = log y − f, `log p(y|f) = k u − e^u − log y − log Γ(k)`.
    fn terms(&self, y: f64) -> LogRate {
        let (shape, log_y) = (self.shape(), y.ln());
        LogRate { slope: shape, sign: -1.0, offset: log_y, constant: -log_y - ln_gamma(shape) }
    }
}

impl Tails for Gamma {
    /// `Y ≤ y` if a gamma variable of shape k is at most `y e^{−f}`.
    fn tail(&self, at: Observation, f: f64, log_slope: f64) -> Tail {
        ln_gamma_tail(self.shape(), (at.y.ln() - f).exp(), log_slope)
    }
}

impl OneFunction for Gamma {
    fn kind(&self) -> LikelihoodKind {
        if self.shape.is_some() { LikelihoodKind::Gamma } else { LikelihoodKind::Exponential }
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        fill(self.terms(at.y), f, value, first);
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        -(at.y.ln() - f).exp()
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        if let Some(own) = own.first_mut() {
            let centre = at.y.ln() - digamma(self.shape());
            *own += f.iter().zip(weights).map(|(f, w)| w * (centre - f)).sum::<f64>();
        }
    }

    fn resolution(&self, _: Observation) -> Resolution {
        LogRate::RESOLUTION
    }

    /// Returns the f for which the mean k e^f is y.
    fn peak(&self, at: Observation) -> f64 {
        (at.y / self.shape()).max(f64::MIN_POSITIVE).ln()
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        let (shape, scale) = (self.shape(), f.exp());
        (shape * scale, shape * scale * scale)
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        // Computed with logarithms, because y and e^f may both underflow or overflow.
        if at.y <= 0.0 { 0.0 } else { gamma_cdf(self.shape(), (at.y.ln() - f).exp()) }
    }

    /// `log y` has standard deviation of about 1/√k.
    fn cdf_strip(&self, _: Observation) -> f64 {
        strip_of_width(1.0 / self.shape().sqrt())
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let unit = rand_distr::Gamma::new(self.shape(), 1.0)
            .map_or(f64::NAN, |d| d.sample(random).max(f64::MIN_POSITIVE));
        // An underflowed scale gives the smallest positive number, an overflowed one infinity.
        let y = unit * f.exp();
        if y < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { y }
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        self.own_gradient(row.at, &[row.marginal.mean], &[1.0], own);
        self.terms(row.at.y).expectation(row.marginal)
    }

    /// `Y ≤ y` if f is at most `log y` minus the logarithm of a gamma variable of shape k.
    fn crps(&self, row: LatentRow, integrator: &mut Integrator) -> f64 {
        let threshold = Threshold::LogGamma(self.shape());
        crps::continuous(TargetKind::Positive, row.at.y, &mut |y| {
            let log_y = y.ln();
            let quick = threshold.average(|u| log_y - u, |_| 1.0, row.marginal, integrator);
            quick.unwrap_or_else(|| self.predictive_cdf(row.with(y), integrator))
        })
    }

    /// `Var y = k E e^{2f} + k² Var e^f`, e^f log-normal.
    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        let (mean, square, variance) = log_normal(row.marginal);
        let shape = self.shape();
        (shape * mean, shape * square + shape * shape * variance)
    }

    /// Chooses k such that half of the squared coefficient of variation of the targets, 1/k for a constant f, is left to f.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let mean = y.iter().sum::<f64>() / y.len() as f64;
        let mean = if mean.is_finite() && mean > 0.0 { mean } else { 1.0 };
        if let Some(parameter) = &mut self.shape {
            let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / y.len() as f64;
            let shape = 2.0 * mean * mean / variance;
            parameter.start(|_| if shape.is_nan() { 1.0 } else { shape.clamp(0.1, 100.0) });
        }
        (mean / self.shape()).ln()
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.shape.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.shape.iter_mut().for_each(visit);
    }
}
