//! Gaussian noise: y = f + ε, ε ~ N(0, σ²), everything in closed form.

use super::{
    DensityBounds, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, own_parameters,
};
use crate::Moments;
use crate::functions::normal;
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::{Parameter, Transform};
use std::f64::consts::PI;

/// `p(y | f) = N(y; f, σ²)` with the noise variance σ² as its only parameter.
#[derive(Clone, Debug)]
pub struct Gaussian {
    noise: Parameter,
}

impl Gaussian {
    /// The floor under σ² during training, in units of the (standardised) target's variance.
    ///
    /// Without it a fit to noise-free data tends to σ² = 0, where the collapsed bound's 1/σ² terms
    /// lose all digits.
    pub const NOISE_FLOOR: f64 = 1e-10;

    /// Creates the likelihood with noise variance σ², which must be positive, in squared units of the target. Training keeps it
    /// above [`Gaussian::NOISE_FLOOR`], or above 0 if it starts below that floor.
    pub fn new(noise_variance: f64) -> Self {
        let lower = if noise_variance > Self::NOISE_FLOOR { Self::NOISE_FLOOR } else { 0.0 };
        let noise = Parameter::new("noise_variance", vec![noise_variance], Transform::Positive { lower });
        Gaussian { noise: noise.as_given() }
    }

    /// σ².
    pub fn noise_variance(&self) -> f64 {
        self.noise.values[0]
    }

    /// `log N(y; μ, total) − ½ rest/total`, with its derivatives in μ and, also added to `own`, in the total variance.
    fn expectation(row: LatentRow, total: f64, rest: f64, own: &mut [f64]) -> Local {
        let residual = row.at.y - row.marginal.mean;
        let by_total = 0.5 * ((residual * residual + rest) / total - 1.0) / total;
        if let Some(noise_bar) = own.first_mut() {
            *noise_bar += by_total;
        }
        let value = normal::log_density(row.at.y, row.marginal.mean, total) - 0.5 * rest / total;
        Local { value, mean: residual / total, variance: by_total }
    }
}

impl Default for Gaussian {
    /// A noise variance that starts from the data.
    fn default() -> Self {
        let mut own = Gaussian::new(1.0);
        own.noise.given = false;
        own
    }
}

impl OneFunction for Gaussian {
    own_parameters!(noise);

    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Gaussian
    }

    fn gaussian_noise(&self) -> Option<f64> {
        Some(self.noise_variance())
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let noise = self.noise_variance();
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            *value = normal::log_density(at.y, *f, noise);
            *first = (at.y - f) / noise;
        }
    }

    fn curvature(&self, _at: Observation, _f: f64) -> f64 {
        -1.0 / self.noise_variance()
    }

    fn loss_curvature(&self) -> Option<(f64, f64)> {
        Some((1.0 / self.noise_variance(), 1.0 / self.noise_variance()))
    }

    fn density_bounds(&self, _at: Observation) -> Option<DensityBounds> {
        let (noise, sd) = (self.noise_variance(), self.noise_variance().sqrt());
        let peak = 1.0 / (2.0 * PI * noise).sqrt();
        let slope = peak / (0.5f64.exp() * sd);
        Some(DensityBounds {
            density: peak,
            slope: (-slope, slope),
            curvature: (-peak / noise, 2.0 * peak / (noise * 1.5f64.exp())),
        })
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let noise = self.noise_variance();
        let term = |f: &f64| 0.5 * ((at.y - f).powi(2) / noise - 1.0) / noise;
        own[0] += f.iter().zip(weights).map(|(f, w)| w * term(f)).sum::<f64>();
    }

    fn resolution(&self, _at: Observation) -> Resolution {
        let sd = self.noise_variance().sqrt();
        Resolution { strip: 4.0, step: 0.65 * sd, concave: true, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        at.y
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        let noise = self.noise_variance();
        let local = Self::expectation(row, noise, row.marginal.variance, own);
        Local { variance: -0.5 / noise, ..local }
    }

    /// v and σ² enter only through their sum.
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        Self::expectation(row, row.marginal.variance + self.noise_variance(), 0.0, own)
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        (f, self.noise_variance())
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        normal::cdf((at.y - f) / self.noise_variance().sqrt())
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let noise: f64 = StandardNormal.sample(random);
        f + self.noise_variance().sqrt() * noise
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        (row.marginal.mean, row.marginal.variance + self.noise_variance())
    }

    fn predictive_cdf(&self, row: LatentRow, _: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        normal::cdf((row.at.y - mean) / (variance + self.noise_variance()).sqrt())
    }

    fn predictive_quantile(&self, p: f64, row: LatentRow, _: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        mean + (variance + self.noise_variance()).sqrt() * normal::quantile(p)
    }

    /// Gneiting & Raftery 2007, eq. 21.
    fn crps(&self, row: LatentRow, _: &mut Integrator) -> f64 {
        let sd = (row.marginal.variance + self.noise_variance()).sqrt();
        sd * normal::crps((row.at.y - row.marginal.mean) / sd)
    }

    /// Starts with a noise variance of a tenth of the variance of the targets.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let moments = Moments::of(y.iter().copied());
        let (mean, variance) = (moments.mean().unwrap_or(0.0), moments.variance().unwrap_or(0.0));
        if !self.noise.fixed && !self.noise.given {
            *self = Gaussian::new(0.1 * if variance > 0.0 { variance } else { 1.0 });
        }
        mean
    }
}
