//! The loss of one row and its derivatives, exact or from samples of f for the row.

use super::rejection::ProductSampler;
use super::{Estimator, EstimatorCounts, Loss, Objective, PiecewiseBound};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Expectation, LatentMarginal, Likelihood, Local, Marginal, Observation, Row, Slopes};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The buffers of losses, one per thread of work; for one row with C functions they are C numbers of each kind, C for each sample of f.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct LossScratch {
    /// The counts of sampling estimators since this was last cleared.
    pub(crate) counts: EstimatorCounts,
    pub(super) integrator: Integrator,
    piecewise: Option<PiecewiseBound>,
    pub(super) mean: Vec<f64>,
    pub(super) variance: Vec<f64>,
    pub(super) by_mean: Vec<f64>,
    pub(super) by_variance: Vec<f64>,
    /// `∂²/∂μ²`.
    pub(super) by_mean_twice: Vec<f64>,
    /// The derivatives in own parameters.
    pub(super) own: Vec<f64>,
    /// The samples of f with their log densities or weights, slopes and curvatures.
    samples: Vec<f64>,
    value: Vec<f64>,
    slope: Vec<f64>,
    curved: Vec<f64>,
}

/// `∂²/∂μ²` of a gain from its other derivatives. For an expected log density it is `2 ∂/∂v` (Price); for a log predictive density
/// `L = log E p` it is `2 ∂L/∂v − (∂L/∂μ)²`, since `∂_v E p = ½ ∂²_μ E p`. For a log-concave likelihood the latter is never positive, even if
/// `∂L/∂v` is.
pub(super) fn curvature(of: Expectation, mean: f64, variance: f64) -> f64 {
    match of {
        Expectation::ExpectedLog => 2.0 * variance,
        Expectation::LogPredictive => 2.0 * variance - mean * mean,
    }
}

impl LossScratch {
    /// Creates buffers for an objective.
    pub fn new(objective: &Objective) -> Self {
        let piecewise = match objective.estimator() {
            Estimator::Piecewise { pieces } => PiecewiseBound::new(pieces).ok(),
            _ => None,
        };
        let integrator = Integrator::new(objective.nodes).coarsely(objective.coarse);
        LossScratch { integrator, piecewise, ..LossScratch::default() }
    }

    /// Makes room for the functions and own parameter values of a likelihood.
    pub(super) fn resize(&mut self, functions: usize, own: usize) {
        let LossScratch { mean, variance, by_mean, by_variance, by_mean_twice, .. } = self;
        for numbers in [mean, variance, by_mean, by_variance, by_mean_twice] {
            numbers.resize(functions, 0.0);
        }
        self.own.resize(own, 0.0);
    }

    /// Returns `−ℓ` of one row, and leaves its derivatives in the scratch.
    pub(super) fn gain(
        &mut self,
        loss: Loss,
        likelihood: &dyn Likelihood,
        at: Observation,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        let Loss::LogPredictive(estimator) = loss else {
            return match &self.piecewise {
                Some(bound) => {
                    let latent = LatentMarginal::new(self.mean[0], self.variance[0]);
                    let Local { value, mean, variance } = bound.expectation(at.y, latent);
                    (self.by_mean[0], self.by_variance[0]) = (mean, variance);
                    self.curve(Expectation::ExpectedLog);
                    value
                }
                None => self.exact(Expectation::ExpectedLog, likelihood, at),
            };
        };
        let averaging = match estimator {
            Estimator::Biased { samples } => Averaging { samples, nu: 0.0, price: false },
            Estimator::BiasedPrice { samples } => Averaging { samples, nu: 0.0, price: true },
            Estimator::Smoothed { samples, nu, .. } => Averaging { samples, nu, price: false },
            Estimator::Product { samples } => return self.product(likelihood, at, samples, random),
            _ => return self.exact(Expectation::LogPredictive, likelihood, at),
        };
        self.average(likelihood, at, averaging, random)
    }

    /// `E log p(y|f)` or `log E p(y|f)` with its derivatives.
    fn exact(&mut self, of: Expectation, likelihood: &dyn Likelihood, at: Observation) -> f64 {
        let LossScratch { integrator, mean, variance, by_mean, by_variance, own, .. } = self;
        let row = Row::new(at, Marginal { mean, variance });
        let slopes = Slopes { mean: by_mean, variance: by_variance, own };
        let value = likelihood.expectation(of, row, slopes, integrator);
        self.curve(of);
        value
    }

    /// Computes `∂²/∂μ²` of every function from the other derivatives.
    fn curve(&mut self, of: Expectation) {
        let slopes = self.by_mean.iter().zip(&self.by_variance);
        for (twice, (mean, variance)) in self.by_mean_twice.iter_mut().zip(slopes) {
            *twice = curvature(of, *mean, *variance);
        }
    }

    /// bMC and smooth-bMC: `log (ν + mean φ)` over samples of f with its derivatives, φ = p(y|f) (Wei, Sheth & Khardon 2021).
    fn average(
        &mut self,
        likelihood: &dyn Likelihood,
        at: Observation,
        averaging: Averaging,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        let LossScratch { samples: f, value, slope, curved, .. } = self;
        f.clear();
        for _ in 0..averaging.samples {
            f.extend(draw(&self.mean, &self.variance, random));
        }
        value.resize(averaging.samples, 0.0);
        slope.resize(f.len(), 0.0);
        curved.resize(f.len(), 0.0);
        likelihood.log_density(at, f, value, slope);
        for numbers in [&mut self.by_mean, &mut self.by_variance, &mut self.by_mean_twice] {
            numbers.fill(0.0);
        }
        let Some(log_average) = averaging.weigh(value) else {
            self.by_mean.fill(f64::NAN);
            return f64::NAN;
        };
        likelihood.curvature(at, f, curved);
        let functions = self.mean.len();
        let nodes =
            f.chunks_exact(functions).zip(slope.chunks_exact(functions)).zip(curved.chunks_exact(functions));
        // A sample of weight 0 may have derivatives that overflow.
        for (&weight, ((f, slope), curved)) in value.iter().zip(nodes).filter(|(weight, _)| **weight > 0.0) {
            for c in 0..functions {
                // φ″/φ = (log φ)″ + ((log φ)′)².
                let second = curved[c] + slope[c] * slope[c];
                let latent = LatentMarginal::new(self.mean[c], self.variance[c]);
                self.by_mean[c] += weight * slope[c];
                self.by_mean_twice[c] += weight * second;
                self.by_variance[c] += weight * averaging.variance_slope(f[c], latent, slope[c], second);
            }
        }
        if !self.own.is_empty() {
            curved.clear();
            let weighted = f.chunks_exact(functions).zip(&*value).filter(|(_, weight)| **weight > 0.0);
            weighted.for_each(|(f, _)| curved.extend_from_slice(f));
            value.retain(|weight| *weight > 0.0);
            likelihood.own_gradient(at, curved, value, &mut self.own);
        }
        self.by_mean_twice.iter_mut().zip(&self.by_mean).for_each(|(twice, mean)| *twice -= mean * mean);
        log_average
    }

    /// uPS: `E (f − μ)/v` and `½ E ((f − μ)²/v − 1)/v` over samples of the product `N(f) p(y|f)`; the value is the log of the average
    /// acceptance, which estimates `E p(y|f)` without bias. The exact value and derivatives replace samples that several functions lack,
    /// whose expectation they are.
    fn product(
        &mut self,
        likelihood: &dyn Likelihood,
        at: Observation,
        samples: usize,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        let LossScratch { samples: f, integrator, mean, variance, slope, counts, .. } = self;
        let Some(sampler) = ProductSampler::new(likelihood, Row::new(at, Marginal { mean, variance })) else {
            return self.exact(Expectation::LogPredictive, likelihood, at);
        };
        let (mut value, missing) = sampler.draw(samples, f, slope, integrator, counts, random);
        if missing > 0 {
            value = self.exact(Expectation::LogPredictive, likelihood, at);
        }
        let (share, exact) = (1.0 / samples as f64, missing as f64 / samples as f64);
        for numbers in [&mut self.by_mean, &mut self.by_variance, &mut self.own] {
            numbers.iter_mut().for_each(|number| *number = if missing > 0 { *number * exact } else { 0.0 });
        }
        for f in self.samples.chunks_exact(self.mean.len()) {
            for (c, f) in f.iter().enumerate() {
                let (d, v) = (f - self.mean[c], self.variance[c]);
                self.by_mean[c] += share * d / v;
                self.by_variance[c] += share * 0.5 * (d * d / v - 1.0) / v;
            }
        }
        if !self.own.is_empty() {
            self.value.clear();
            self.value.resize(samples - missing, share);
            likelihood.own_gradient(at, &self.samples, &self.value, &mut self.own);
        }
        self.curve(Expectation::LogPredictive);
        value
    }
}

/// The settings of an average of densities over samples.
#[derive(Clone, Copy)]
struct Averaging {
    samples: usize,
    /// The addition ν to the average.
    nu: f64,
    /// True if `∂/∂v` is `½ E φ″`, false if it is `E φ′ ε/(2√v)`, the derivative of the samples' average itself; φ is p(y|f) (eq. 6 of the
    /// paper, whose two forms agree in expectation).
    price: bool,
}

impl Averaging {
    /// Turns log densities of samples into their weights `φ_l/(Σ φ + Lν)`; returns
    /// `log (ν + mean φ)`, or `None` if no density is a positive number.
    fn weigh(self, log_densities: &mut [f64]) -> Option<f64> {
        // The largest term is taken out first, so that no ratio is 0/0.
        let top = log_densities.iter().copied().fold(self.nu.ln(), f64::max);
        if !top.is_finite() {
            return None;
        }
        log_densities.iter_mut().for_each(|l| *l = (*l - top).exp());
        let count = self.samples as f64;
        let smoothing = count * (self.nu.ln() - top).exp();
        let total = log_densities.iter().sum::<f64>() + smoothing;
        log_densities.iter_mut().for_each(|w| *w /= total);
        Some(top + (total / count).ln())
    }

    /// Returns the contribution of a sample f to `∂/∂v`, given `(log φ)′` and `φ″/φ` at f.
    fn variance_slope(self, f: f64, latent: LatentMarginal, slope: f64, second: f64) -> f64 {
        let LatentMarginal { mean: mu, variance: v } = latent;
        // For v = 0 all samples are at μ, where both forms have the same limit.
        if !self.price && v > 0.0 { 0.5 * slope * (f - mu) / v } else { 0.5 * second }
    }
}

/// Draws f from its marginals.
fn draw<'a>(
    mean: &'a [f64],
    variance: &'a [f64],
    random: &'a mut ChaCha8Rng,
) -> impl Iterator<Item = f64> + use<'a> {
    mean.iter().zip(variance).map(|(mean, variance)| {
        let z: f64 = StandardNormal.sample(random);
        mean + variance.max(0.0).sqrt() * z
    })
}
