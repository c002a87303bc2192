//! Gaussian noise: y = f + ε, ε ~ N(0, σ²), or N(0, σ² + s²) with the known standard error s of a row, everything in closed form.

use super::{DensityBounds, LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction};
use crate::Moments;
use crate::functions::normal;
use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::{Parameter, Transform};
use std::f64::consts::PI;

/// `p(y | f) = N(y; f, σ²)` with the noise variance σ² as its only parameter. With [known noise](Self::with_known_noise) it is
/// `N(y; f, σ² + s²)`, where s is the standard error of the row, and with [known noise alone](Self::known_noise_only) `N(y; f, s²)`.
#[derive(Clone, Debug)]
pub struct Gaussian {
    /// σ²; 0 without it.
    noise: Option<Parameter>,
    /// True if rows have a known standard error each, which [`Observation::exposure`] contains.
    has_known: bool,
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
        Gaussian { noise: Some(noise.as_given()), has_known: false }
    }

    /// Creates the likelihood of rows whose only noise is known: that of the standard error s of each target, with no parameter to train. The
    /// variance s² is at least [`Self::NOISE_FLOOR`], so that rows without noise have a density. [`Observation::exposure`] contains s.
    pub fn known_noise_only() -> Self {
        Gaussian { noise: None, has_known: true }
    }

    /// Adds noise of a known standard deviation s in every row, the standard error of its target: rows have the noise variance `σ² + s²`.
    /// [`Observation::exposure`] contains s, on the scale of f.
    #[must_use]
    pub fn with_known_noise(self) -> Self {
        Gaussian { has_known: true, ..self }
    }

    /// σ².
    pub fn noise_variance(&self) -> f64 {
        self.noise.as_ref().map_or(0.0, |noise| noise.values[0])
    }

    /// `σ² + s²`, the noise variance of a row.
    fn variance(&self, at: Observation) -> f64 {
        let known = if self.has_known { at.exposure } else { 0.0 };
        let floor = if self.noise.is_none() { Self::NOISE_FLOOR } else { 0.0 };
        (self.noise_variance() + known * known).max(floor)
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
        own.noise.iter_mut().for_each(|noise| noise.given = false);
        own
    }
}

impl OneFunction for Gaussian {
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.noise.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.noise.iter_mut().for_each(visit);
    }

    fn kind(&self) -> LikelihoodKind {
        match (&self.noise, self.has_known) {
            (None, _) => LikelihoodKind::GaussianKnownNoiseOnly,
            (_, true) => LikelihoodKind::GaussianKnownNoise,
            _ => LikelihoodKind::Gaussian,
        }
    }

    fn gaussian_noise(&self) -> Option<f64> {
        (!self.has_known).then_some(self.noise_variance())
    }

    fn observation_variance(&self, _: f64) -> Option<f64> {
        self.noise.as_ref().map(|noise| noise.values[0])
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let noise = self.variance(at);
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            *value = normal::log_density(at.y, *f, noise);
            *first = (at.y - f) / noise;
        }
    }

    fn curvature(&self, at: Observation, _: f64) -> f64 {
        -1.0 / self.variance(at)
    }

    fn loss_curvature(&self) -> Option<(f64, f64)> {
        let most = 1.0 / self.variance(Observation::exposed(0.0, 0.0));
        Some((if self.has_known { 0.0 } else { most }, most))
    }

    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let (noise, sd) = (self.variance(at), self.variance(at).sqrt());
        let peak = 1.0 / (2.0 * PI * noise).sqrt();
        let slope = peak / (0.5f64.exp() * sd);
        Some(DensityBounds {
            density: peak,
            slope: (-slope, slope),
            curvature: (-peak / noise, 2.0 * peak / (noise * 1.5f64.exp())),
        })
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let noise = self.variance(at);
        let term = |f: &f64| 0.5 * ((at.y - f).powi(2) / noise - 1.0) / noise;
        if let Some(own) = own.first_mut() {
            *own += f.iter().zip(weights).map(|(f, w)| w * term(f)).sum::<f64>();
        }
    }

    fn resolution(&self, at: Observation) -> Resolution {
        let sd = self.variance(at).sqrt();
        Resolution { strip: 4.0, step: 0.65 * sd, concave: true, pole: None }
    }

    fn peak(&self, at: Observation) -> f64 {
        at.y
    }

    fn expected_log(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        let noise = self.variance(row.at);
        let local = Self::expectation(row, noise, row.marginal.variance, own);
        Local { variance: -0.5 / noise, ..local }
    }

    /// v and σ² enter only through their sum.
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        Self::expectation(row, row.marginal.variance + self.variance(row.at), 0.0, own)
    }

    fn conditional_moments(&self, at: Observation, f: f64) -> (f64, f64) {
        (f, self.variance(at))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        normal::cdf((at.y - f) / self.variance(at).sqrt())
    }

    fn sample(&self, at: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let noise: f64 = StandardNormal.sample(random);
        f + self.variance(at).sqrt() * noise
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        (row.marginal.mean, row.marginal.variance + self.variance(row.at))
    }

    fn predictive_cdf(&self, row: LatentRow, _: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        normal::cdf((row.at.y - mean) / (variance + self.variance(row.at)).sqrt())
    }

    fn predictive_quantile(&self, p: f64, row: LatentRow, _: &mut Integrator) -> f64 {
        let LatentMarginal { mean, variance } = row.marginal;
        mean + (variance + self.variance(row.at)).sqrt() * normal::quantile(p)
    }

    /// Gneiting & Raftery 2007, eq. 21.
    fn crps(&self, row: LatentRow, _: &mut Integrator) -> f64 {
        let sd = (row.marginal.variance + self.variance(row.at)).sqrt();
        sd * normal::crps((row.at.y - row.marginal.mean) / sd)
    }

    /// Starts with a noise variance of a tenth of the variance of the targets; if rows have known noise, of a tenth of the rest.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64 {
        let moments = Moments::of(y.iter().copied());
        let (mean, variance) = (moments.mean().unwrap_or(0.0), moments.variance().unwrap_or(0.0));
        if self.noise.as_ref().is_some_and(|noise| !noise.fixed && !noise.given) {
            let known = Moments::of(exposure.iter().filter(|_| self.has_known).map(|s| s * s)).mean();
            let rest = (variance - known.unwrap_or(0.0)).max(0.1 * variance);
            *self = Gaussian {
                has_known: self.has_known,
                ..Gaussian::new(0.1 * if rest > 0.0 { rest } else { 1.0 })
            };
        }
        mean
    }
}
