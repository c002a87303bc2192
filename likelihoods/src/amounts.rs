//! Positive amounts whose logarithm is f plus normal noise: the part above 0 of `hurdle-log-normal`.

use super::poisson::strip_of_width;
use super::{
    Gaussian, LatentMarginal, LatentRow, LikelihoodKind, Local, Moments, Observation, OneFunction, TargetKind,
};
use crate::functions::normal;
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;

/// `log y = f + ε` with `ε ~ N(0, σ²)`: the density of log y, divided by y.
#[derive(Clone, Debug)]
pub(super) struct LogNormal {
    logarithm: Gaussian,
}

impl LogNormal {
    /// Creates the likelihood with the variance σ², which must be positive.
    pub(super) fn new(noise: f64) -> Self {
        LogNormal { logarithm: Gaussian::new(noise) }
    }

    fn noise(&self) -> f64 {
        self.logarithm.gaussian_noise().unwrap_or(f64::NAN)
    }

    /// Mean and variance of y for `log y ~ N(centre, spread)`.
    fn moments(centre: f64, spread: f64) -> (f64, f64) {
        let mean = (centre + 0.5 * spread).exp();
        let share = spread.exp_m1();
        (mean, if share > 0.0 { mean * mean * share } else { 0.0 })
    }
}

/// Returns the row or observation of log y.
fn log_y(at: Observation<'_>) -> Observation<'_> {
    at.with(at.y.ln())
}

impl OneFunction for LogNormal {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::new("log-normal", TargetKind::Positive)
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        self.logarithm.log_density(log_y(at), f, value, first);
        value.iter_mut().for_each(|value| *value -= at.y.ln());
    }

    fn curvature(&self, at: Observation, f: f64) -> f64 {
        self.logarithm.curvature(log_y(at), f)
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        self.logarithm.own_gradient(log_y(at), f, weights, own);
    }

    fn resolution(&self, at: Observation) -> Resolution {
        self.logarithm.resolution(at)
    }

    fn peak(&self, at: Observation) -> f64 {
        at.y.ln()
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        let log = row.at.y.ln();
        let local = self.logarithm.expected_log(row.with(log), own, integrator);
        Local { value: local.value - log, ..local }
    }

    fn log_predictive(&self, row: LatentRow, own: &mut [f64], integrator: &mut Integrator) -> Local {
        let log = row.at.y.ln();
        let local = self.logarithm.log_predictive(row.with(log), own, integrator);
        Local { value: local.value - log, ..local }
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        Self::moments(f, self.noise())
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.predictive_cdf(LatentRow::new(at, LatentMarginal::new(f, 0.0)), &mut Integrator::default())
    }

    fn cdf_strip(&self, _: Observation) -> f64 {
        strip_of_width(self.noise().sqrt())
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let y = self.logarithm.sample(at, f, random).exp();
        if y < f64::MIN_POSITIVE { f64::MIN_POSITIVE } else { y }
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        Self::moments(row.marginal.mean, row.marginal.variance + self.noise())
    }

    fn predictive_cdf(&self, row: LatentRow, _: &mut Integrator) -> f64 {
        let spread = (row.marginal.variance + self.noise()).sqrt();
        if row.at.y <= 0.0 { 0.0 } else { normal::cdf((row.at.y.ln() - row.marginal.mean) / spread) }
    }

    /// Starts at the mean of the logarithms, and leaves half of their variance to f.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let logs = Moments::of(y.iter().filter(|y| **y > 0.0).map(|y| y.ln()));
        let half = 0.5 * logs.variance().unwrap_or(0.0);
        self.for_each_parameter_mut(&mut |p| p.start(|_| if half > 0.0 { half } else { 1.0 }));
        logs.mean().unwrap_or(0.0)
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.logarithm.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.logarithm.for_each_parameter_mut(visit);
    }
}
