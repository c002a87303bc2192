//! Losses of likelihoods with several functions and their derivatives, exact or from samples of f
//! for each row.

use super::latent_samples::Averaging;
use super::{Derivatives, Estimator, EstimatorCounts, Loss, LossInputs, LossScratch, Objective};
use crate::likelihood::joint::{JointIntegrator, JointLikelihood, Marginal, Slopes};
use crate::likelihood::{LatentMarginal, Observation};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The maximum number of proposals for each sample of `N(f) p(y|f)`; after that, exact derivatives replace the sample.
const MOST_PROPOSALS: usize = 1000;

/// The buffers of one row, C numbers of each kind.
#[derive(Clone, Debug, Default)]
pub(super) struct JointScratch {
    integrator: JointIntegrator,
    mean: Vec<f64>,
    variance: Vec<f64>,
    by_mean: Vec<f64>,
    by_variance: Vec<f64>,
    /// `∂²/∂μ²`.
    by_mean_twice: Vec<f64>,
    f: Vec<f64>,
    slope: Vec<f64>,
    curved: Vec<f64>,
    own: Vec<f64>,
    /// The log densities, and their f, one sample after the other.
    value: Vec<f64>,
    samples: Vec<f64>,
}

impl JointScratch {
    /// Creates buffers for integrals with the accuracy of the objective.
    pub(super) fn new(objective: Objective) -> Self {
        let integrator = JointIntegrator::new(objective.nodes).coarsely(objective.coarse);
        JointScratch { integrator, ..JointScratch::default() }
    }

    fn resize(&mut self, functions: usize) {
        let JointScratch { mean, variance, by_mean, by_variance, by_mean_twice, f, slope, curved, .. } = self;
        for numbers in [mean, variance, by_mean, by_variance, by_mean_twice, f, slope, curved] {
            numbers.resize(functions, 0.0);
        }
    }
}

impl Objective {
    /// [`Objective::losses`] of a likelihood with C functions: means, variances and derivatives are stored function after function, each
    /// for all rows.
    pub(super) fn joint_losses(
        &self,
        likelihood: &dyn JointLikelihood,
        scale: f64,
        LossInputs { targets, mean, variance, .. }: LossInputs<'_>,
        out: Derivatives<'_>,
        LossScratch { joint: scratch, counts, .. }: &mut LossScratch,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        let n = targets.len();
        let functions = mean.len() / n.max(1);
        scratch.resize(functions);
        scratch.own.resize(out.own.len(), 0.0);
        let mut sum = 0.0;
        for i in 0..n {
            for c in 0..functions {
                (scratch.mean[c], scratch.variance[c]) = (mean[c * n + i], variance[c * n + i]);
            }
            scratch.own.fill(0.0);
            let value = self.joint_gain(likelihood, targets.at(i), scratch, counts, random);
            let weight = -scale * targets.weight(i);
            sum += weight * value;
            for c in 0..functions {
                out.mean[c * n + i] = weight * scratch.by_mean[c];
                out.variance[c * n + i] = weight * scratch.by_variance[c];
                out.curvature[c * n + i] = weight * scratch.by_mean_twice[c].min(0.0);
            }
            out.own.iter_mut().zip(&scratch.own).for_each(|(own, part)| *own += weight * part);
        }
        sum
    }

    /// Returns `−ℓ` of one row, and leaves its derivatives in the scratch.
    fn joint_gain(
        &self,
        likelihood: &dyn JointLikelihood,
        at: Observation,
        scratch: &mut JointScratch,
        counts: &mut EstimatorCounts,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        match self.loss {
            Loss::ExpectedLog(_) => scratch.expected(likelihood, at),
            Loss::LogPredictive(Estimator::Biased { samples }) => {
                scratch.average(likelihood, at, Averaging::path(samples), random)
            }
            Loss::LogPredictive(Estimator::BiasedPrice { samples }) => {
                scratch.average(likelihood, at, Averaging::price(samples), random)
            }
            Loss::LogPredictive(Estimator::Smoothed { samples, nu, .. }) => {
                scratch.average(likelihood, at, Averaging { nu, ..Averaging::path(samples) }, random)
            }
            Loss::LogPredictive(Estimator::Product { samples }) => match likelihood.peak(at) {
                Some(peak) => scratch.reject(likelihood, at, samples, peak, counts, random),
                None => scratch.predictive(likelihood, at),
            },
            _ => scratch.predictive(likelihood, at),
        }
    }
}

impl JointScratch {
    /// `E log p(y|f)` with its derivatives.
    fn expected(&mut self, likelihood: &dyn JointLikelihood, at: Observation) -> f64 {
        let JointScratch { integrator, mean, variance, by_mean, by_variance, own, .. } = self;
        let (marginal, slopes) =
            (Marginal { mean, variance }, Slopes { mean: by_mean, variance: by_variance, own });
        let value = likelihood.expected_log_density(at, marginal, slopes, integrator);
        for (twice, variance) in self.by_mean_twice.iter_mut().zip(&self.by_variance) {
            *twice = 2.0 * variance;
        }
        value
    }

    /// `log E p(y|f)` with its derivatives.
    fn predictive(&mut self, likelihood: &dyn JointLikelihood, at: Observation) -> f64 {
        let JointScratch { integrator, mean, variance, by_mean, by_variance, own, .. } = self;
        let (marginal, slopes) =
            (Marginal { mean, variance }, Slopes { mean: by_mean, variance: by_variance, own });
        let value = likelihood.log_predictive(at, marginal, slopes, integrator);
        self.curve();
        value
    }

    /// `∂²L/∂μ² = 2 ∂L/∂v − (∂L/∂μ)²` of every function, L being `log E p`.
    fn curve(&mut self) {
        let slopes = self.by_mean.iter().zip(&self.by_variance);
        for (twice, (mean, variance)) in self.by_mean_twice.iter_mut().zip(slopes) {
            *twice = 2.0 * variance - mean * mean;
        }
    }

    /// Draws f from its marginals.
    fn draw(&mut self, random: &mut ChaCha8Rng) {
        for ((f, mean), variance) in self.f.iter_mut().zip(&self.mean).zip(&self.variance) {
            let z: f64 = StandardNormal.sample(random);
            *f = mean + variance.max(0.0).sqrt() * z;
        }
    }

    /// `log (ν + mean φ)` over samples with its derivatives, φ = p(y|f) (Wei, Sheth & Khardon 2021: bMC and smooth-bMC).
    fn average(
        &mut self,
        likelihood: &dyn JointLikelihood,
        at: Observation,
        averaging: Averaging,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        self.value.clear();
        self.samples.clear();
        for _ in 0..averaging.samples {
            self.draw(random);
            self.value.push(likelihood.log_density(at, &self.f, &mut []));
            self.samples.extend_from_slice(&self.f);
        }
        for numbers in [&mut self.by_mean, &mut self.by_variance, &mut self.by_mean_twice, &mut self.own] {
            numbers.fill(0.0);
        }
        let Some(log_average) = averaging.weigh(&mut self.value) else {
            self.by_mean.fill(f64::NAN);
            return f64::NAN;
        };
        let functions = self.f.len();
        for (&weight, f) in self.value.iter().zip(self.samples.chunks_exact(functions)) {
            // A sample of weight 0 may have derivatives that overflow.
            if weight == 0.0 {
                continue;
            }
            likelihood.log_density(at, f, &mut self.slope);
            likelihood.curvature(at, f, &mut self.curved);
            for (c, &value) in f.iter().enumerate() {
                let slope = self.slope[c];
                // φ″/φ = (log φ)″ + ((log φ)′)².
                let second = self.curved[c] + slope * slope;
                let latent = LatentMarginal::new(self.mean[c], self.variance[c]);
                self.by_mean[c] += weight * slope;
                self.by_mean_twice[c] += weight * second;
                self.by_variance[c] += weight * averaging.variance_slope(value, latent, slope, second);
            }
            if !self.own.is_empty() {
                likelihood.own_gradient(at, f, weight, &mut self.own);
            }
        }
        self.by_mean_twice.iter_mut().zip(&self.by_mean).for_each(|(twice, mean)| *twice -= mean * mean);
        log_average
    }

    /// Estimates `E (f − μ)/v` and `½ E ((f − μ)²/v − 1)/v` from samples of the product
    /// `N(f) p(y|f)` by rejection (uPS); `peak` is a bound on log p(y|f). A sample without an
    /// accepted proposal is replaced by the exact derivatives, which are its expectation.
    fn reject(
        &mut self,
        likelihood: &dyn JointLikelihood,
        at: Observation,
        samples: usize,
        peak: f64,
        counts: &mut EstimatorCounts,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        self.samples.clear();
        let (mut starved, mut proposals, mut acceptance) = (0, 0, 0.0);
        for _ in 0..samples {
            let mut accepted = false;
            for _ in 0..MOST_PROPOSALS {
                proposals += 1;
                self.draw(random);
                let log_ratio = likelihood.log_density(at, &self.f, &mut []) - peak;
                acceptance += log_ratio.exp();
                accepted = random.random::<f64>().ln() <= log_ratio;
                if accepted {
                    self.samples.extend_from_slice(&self.f);
                    break;
                }
            }
            starved += u64::from(!accepted);
        }
        counts.proposals += proposals;
        counts.accepted += samples as u64 - starved;
        counts.starved += starved;
        let (share, exact) = (1.0 / samples as f64, starved as f64 / samples as f64);
        let mut value = peak + (acceptance / proposals as f64).ln();
        if starved > 0 {
            value = self.predictive(likelihood, at);
        }
        for numbers in [&mut self.by_mean, &mut self.by_variance, &mut self.own] {
            numbers.iter_mut().for_each(|number| *number = if starved > 0 { *number * exact } else { 0.0 });
        }
        let functions = self.f.len();
        for f in self.samples.chunks_exact(functions) {
            for (c, f) in f.iter().enumerate() {
                let (d, v) = (f - self.mean[c], self.variance[c]);
                self.by_mean[c] += share * d / v;
                self.by_variance[c] += share * 0.5 * (d * d / v - 1.0) / v;
            }
            if !self.own.is_empty() {
                likelihood.own_gradient(at, f, share, &mut self.own);
            }
        }
        self.curve();
        value
    }
}
