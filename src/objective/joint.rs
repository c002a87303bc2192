//! Losses of likelihoods with several functions and their derivatives, exact or from samples of f for each datum; no single functions.

use super::{Derivatives, Estimator, EstimatorCounts, Loss, Objective, Targets};
use crate::likelihood::Observation;
use crate::likelihood::joint::{JointIntegrator, JointLikelihood, Marginal, Slopes};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// So many proposals for each sample of `N(f) p(y|f)` at most, before exact derivatives take its place.
const MOST_PROPOSALS: u64 = 1000;

/// The numbers of one datum, C of each.
#[derive(Clone, Debug, Default)]
pub(super) struct JointScratch {
    integrator: JointIntegrator,
    mean: Vec<f64>,
    variance: Vec<f64>,
    by_mean: Vec<f64>,
    by_variance: Vec<f64>,
    f: Vec<f64>,
    slope: Vec<f64>,
    curved: Vec<f64>,
    own: Vec<f64>,
    /// Log densities, and the f they are of, one sample after the other.
    value: Vec<f64>,
    samples: Vec<f64>,
}

impl JointScratch {
    /// Buffers for integrals of so many nodes for every function, or as many as they need.
    pub(super) fn new(nodes: Option<usize>) -> Self {
        JointScratch { integrator: JointIntegrator::new(nodes), ..JointScratch::default() }
    }

    fn resize(&mut self, functions: usize) {
        let JointScratch { mean, variance, by_mean, by_variance, f, slope, curved, .. } = self;
        for numbers in [mean, variance, by_mean, by_variance, f, slope, curved] {
            numbers.resize(functions, 0.0);
        }
    }
}

impl Objective {
    /// [`Objective::losses`] of a likelihood with C functions: means, variances and derivatives are those of all rows of one
    /// function after the other.
    pub(super) fn joint_losses(
        &self,
        likelihood: &dyn JointLikelihood,
        scale: f64,
        (targets, mu, v): (Targets<'_>, &[f64], &[f64]),
        out: Derivatives<'_>,
        (scratch, counts, random): (&mut JointScratch, &mut EstimatorCounts, &mut ChaCha8Rng),
    ) -> f64 {
        let n = targets.len();
        let functions = mu.len() / n.max(1);
        scratch.resize(functions);
        scratch.own.resize(out.own.len(), 0.0);
        let mut sum = 0.0;
        for i in 0..n {
            for c in 0..functions {
                (scratch.mean[c], scratch.variance[c]) = (mu[c * n + i], v[c * n + i]);
            }
            scratch.own.fill(0.0);
            let value = self.joint_gain(likelihood, targets.at(i), scratch, (counts, random));
            let weight = -scale * targets.weight(i);
            sum += weight * value;
            for c in 0..functions {
                let (mean, variance) = (scratch.by_mean[c], scratch.by_variance[c]);
                let curvature = match self.loss {
                    Loss::ExpectedLog(_) => -2.0 * variance,
                    Loss::LogPredictive(_) => mean * mean - 2.0 * variance,
                };
                out.mean[c * n + i] = weight * mean;
                out.variance[c * n + i] = weight * variance;
                out.curvature[c * n + i] = -weight * curvature.max(0.0);
            }
            out.own.iter_mut().zip(&scratch.own).for_each(|(own, part)| *own += weight * part);
        }
        sum
    }

    /// `−ℓ` of one datum, with its derivatives left in the scratch.
    fn joint_gain(
        &self,
        likelihood: &dyn JointLikelihood,
        at: Observation,
        scratch: &mut JointScratch,
        (counts, random): (&mut EstimatorCounts, &mut ChaCha8Rng),
    ) -> f64 {
        let JointScratch { integrator, mean, variance, by_mean, by_variance, own, .. } = scratch;
        let marginal = Marginal { mean, variance };
        let slopes = Slopes { mean: by_mean, variance: by_variance, own };
        let estimator = match self.loss {
            Loss::ExpectedLog(_) => return likelihood.expected_log_density(at, marginal, slopes, integrator),
            Loss::LogPredictive(estimator) => estimator,
        };
        let value = likelihood.log_predictive(at, marginal, slopes, integrator);
        match estimator {
            Estimator::Biased { samples } => scratch.average(likelihood, at, (samples, 0.0), random),
            Estimator::Smoothed { samples, nu } => scratch.average(likelihood, at, (samples, nu), random),
            Estimator::Product { samples } => scratch.reject(likelihood, at, samples, (counts, random)),
            _ => {}
        }
        value
    }
}

impl JointScratch {
    /// Draws f from its marginals.
    fn draw(&mut self, random: &mut ChaCha8Rng) {
        for ((f, mean), variance) in self.f.iter_mut().zip(&self.mean).zip(&self.variance) {
            let z: f64 = StandardNormal.sample(random);
            *f = mean + variance.max(0.0).sqrt() * z;
        }
    }

    /// `E ∂φ / (E φ + ν)` and `½ E ∂²φ / (E φ + ν)` with averages over samples, φ = p(y|f) (Wei, Sheth & Khardon 2021: bMC and
    /// smooth-bMC).
    fn average(
        &mut self,
        likelihood: &dyn JointLikelihood,
        at: Observation,
        (samples, nu): (usize, f64),
        random: &mut ChaCha8Rng,
    ) {
        self.value.clear();
        self.samples.clear();
        for _ in 0..samples {
            self.draw(random);
            self.value.push(likelihood.log_density(at, &self.f, &mut []));
            self.samples.extend_from_slice(&self.f);
        }
        let top = self.value.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.by_mean.fill(0.0);
        self.by_variance.fill(0.0);
        self.own.fill(0.0);
        if !top.is_finite() {
            self.by_mean.fill(f64::NAN);
            return;
        }
        // The largest log density is taken out first, so that no ratio is 0/0.
        let smoothing = if nu > 0.0 { samples as f64 * nu * (-top).exp() } else { 0.0 };
        let total = self.value.iter().map(|value| (value - top).exp()).sum::<f64>() + smoothing;
        let functions = self.f.len();
        for (value, f) in self.value.iter().zip(self.samples.chunks_exact(functions)) {
            let weight = (value - top).exp() / total;
            // A sample of no weight may have derivatives that overflow.
            if weight == 0.0 {
                continue;
            }
            likelihood.log_density(at, f, &mut self.slope);
            likelihood.curvature(at, f, &mut self.curved);
            for c in 0..functions {
                self.by_mean[c] += weight * self.slope[c];
                // φ″/φ = (log φ)″ + ((log φ)′)².
                self.by_variance[c] += 0.5 * weight * (self.curved[c] + self.slope[c] * self.slope[c]);
            }
            if !self.own.is_empty() {
                likelihood.own_gradient(at, f, weight, &mut self.own);
            }
        }
    }

    /// `E (f − μ)/v` and `½ E ((f − μ)²/v − 1)/v` over samples of the product `N(f) p(y|f)` by rejection (uPS). The exact derivatives,
    /// which the scratch holds, are what a sample is worth on average, and stand for one that no proposal was accepted for.
    fn reject(
        &mut self,
        likelihood: &dyn JointLikelihood,
        at: Observation,
        samples: usize,
        (counts, random): (&mut EstimatorCounts, &mut ChaCha8Rng),
    ) {
        let Some(peak) = likelihood.peak(at) else { return };
        self.samples.clear();
        let mut starved = 0;
        for _ in 0..samples {
            let mut left = MOST_PROPOSALS;
            loop {
                if left == 0 {
                    starved += 1;
                    break;
                }
                left -= 1;
                counts.proposals += 1;
                self.draw(random);
                let u: f64 = random.random();
                if u.ln() <= likelihood.log_density(at, &self.f, &mut []) - peak {
                    counts.accepted += 1;
                    self.samples.extend_from_slice(&self.f);
                    break;
                }
            }
        }
        counts.starved += starved;
        let (share, exact) = (1.0 / samples as f64, starved as f64 / samples as f64);
        for numbers in [&mut self.by_mean, &mut self.by_variance, &mut self.own] {
            numbers.iter_mut().for_each(|number| *number *= exact);
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
    }
}
