//! Gaussian noise: y = f + ε, ε ~ N(0, σ²), everything in closed form.

use super::{Derivatives, Likelihood};
use sparsegp_kernels::{Parameter, Transform};
use statrs::distribution::{ContinuousCDF, Normal};
use std::f64::consts::PI;

/// `p(y | f) = N(y; f, σ²)` with the noise variance σ² as its one parameter.
#[derive(Clone, Debug)]
pub struct Gaussian {
    noise: Parameter,
}

impl Gaussian {
    /// The floor under σ² during training, in units of the (standardised) target's variance.
    ///
    /// Without it a fit of noise-free data runs to σ² = 0, where the collapsed bound's 1/σ² terms lose all digits.
    pub const NOISE_FLOOR: f64 = 1e-6;

    /// Noise variance σ² (must be positive), trained above [`Gaussian::NOISE_FLOOR`] or above 0 if it starts below.
    pub fn new(noise_variance: f64) -> Self {
        let lower = if noise_variance > Self::NOISE_FLOOR { Self::NOISE_FLOOR } else { 0.0 };
        Gaussian {
            noise: Parameter::new("noise_variance", vec![noise_variance], Transform::Positive { lower }),
        }
    }

    /// σ².
    pub fn noise_variance(&self) -> f64 {
        self.noise.values[0]
    }

    fn predictive(&self, mu: f64, v: f64) -> Option<Normal> {
        Normal::new(mu, (v + self.noise_variance()).sqrt()).ok()
    }
}

impl Likelihood for Gaussian {
    fn name(&self) -> &'static str {
        "gaussian"
    }

    fn expected_log_density(&self, y: &[f64], mu: &[f64], v: &[f64], out: Derivatives<'_>) -> f64 {
        let noise = self.noise_variance();
        let precision = 1.0 / noise;
        let mut squares = 0.0;
        for i in 0..y.len() {
            let residual = y[i] - mu[i];
            squares += residual * residual + v[i];
            out.mean[i] = residual * precision;
            out.variance[i] = -0.5 * precision;
        }
        let n = y.len() as f64;
        if let Some(noise_bar) = out.parameters.first_mut() {
            *noise_bar += 0.5 * (squares * precision - n) * precision;
        }
        -0.5 * (n * (2.0 * PI * noise).ln() + squares * precision)
    }

    fn log_predictive(&self, y: f64, mu: f64, v: f64) -> f64 {
        let variance = v + self.noise_variance();
        -0.5 * ((2.0 * PI * variance).ln() + (y - mu).powi(2) / variance)
    }

    fn predictive_moments(&self, mu: f64, v: f64) -> (f64, f64) {
        (mu, v + self.noise_variance())
    }

    fn predictive_cdf(&self, y: f64, mu: f64, v: f64) -> f64 {
        self.predictive(mu, v).map_or(f64::NAN, |d| d.cdf(y))
    }

    fn predictive_quantile(&self, p: f64, mu: f64, v: f64) -> f64 {
        self.predictive(mu, v).map_or(f64::NAN, |d| d.inverse_cdf(p))
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.noise);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.noise);
    }

    fn boxed_clone(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}
