//! Gradients of log E p(y|f) from samples of f for each datum (Wei, Sheth & Khardon 2021; MATH, section 4); no values.

use super::facts::{Draws, EstimatorFacts};
use super::{LossScratch, rejection};
use crate::likelihood::{Likelihood, Local, Observation};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

pub(super) const BIASED: EstimatorFacts =
    EstimatorFacts { usage: "bmc:L", draws: Draws::LatentValues, ..EstimatorFacts::EXACT };

pub(super) const SMOOTHED: EstimatorFacts = EstimatorFacts { usage: "smooth-bmc:L:NU", ..BIASED };

pub(super) const PRODUCT: EstimatorFacts = EstimatorFacts { usage: "ups:L", ..BIASED };

/// `E φ′ / (E φ + ν)` and `½ E φ″ / (E φ + ν)` with averages over samples, φ = p(y|f).
pub(super) fn biased(
    likelihood: &dyn Likelihood,
    at: Observation,
    (mu, v): (f64, f64),
    (samples, nu): (usize, f64),
    wanted: usize,
    (scratch, random): (&mut LossScratch, &mut ChaCha8Rng),
) -> Local {
    let sd = v.max(0.0).sqrt();
    let LossScratch { own, samples: f, value, first, .. } = scratch;
    f.clear();
    f.extend((0..samples).map(|_| {
        let z: f64 = StandardNormal.sample(random);
        mu + sd * z
    }));
    value.resize(samples, 0.0);
    first.resize(samples, 0.0);
    likelihood.log_density(at, f, value, first);
    // φ/(mean φ + ν) per sample; the largest log density is taken out first, so that no ratio is 0/0.
    let top = value.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        return Local { value: f64::NAN, mean: f64::NAN, variance: f64::NAN };
    }
    value.iter_mut().for_each(|l| *l = (*l - top).exp());
    let smoothing = if nu > 0.0 { samples as f64 * nu * (-top).exp() } else { 0.0 };
    let total = value.iter().sum::<f64>() + smoothing;
    value.iter_mut().for_each(|w| *w /= total);
    let (mut mean, mut variance) = (0.0, 0.0);
    for ((w, slope), f) in value.iter().zip(&*first).zip(&*f) {
        mean += w * slope;
        // φ″/φ = (log φ)″ + ((log φ)′)²; a sample of no weight may have derivatives that overflow.
        if *w > 0.0 {
            variance += 0.5 * w * (likelihood.curvature(at, *f) + slope * slope);
        }
    }
    if wanted > 0 {
        likelihood.own_gradient(at, f, value, &mut own[..wanted]);
    }
    Local { value: f64::NAN, mean, variance }
}

/// `E (f − μ)/v` and `½ E ((f − μ)²/v − 1)/v` over samples of the product `N(f; μ, v) p(y|f)`.
pub(super) fn product(
    likelihood: &dyn Likelihood,
    at: Observation,
    (mu, v): (f64, f64),
    samples: usize,
    wanted: usize,
    (scratch, random): (&mut LossScratch, &mut ChaCha8Rng),
) -> Local {
    let LossScratch { own, samples: f, value, counts, integrator, .. } = scratch;
    rejection::draw(likelihood, at, (mu, v), samples, (f, counts), (integrator, random));
    let share = 1.0 / samples as f64;
    let (mut mean, mut variance) = (0.0, 0.0);
    for f in f.iter() {
        let d = f - mu;
        mean += share * d / v;
        variance += share * 0.5 * (d * d / v - 1.0) / v;
    }
    if wanted > 0 {
        value.clear();
        value.resize(samples, share);
        likelihood.own_gradient(at, f, value, &mut own[..wanted]);
    }
    Local { value: f64::NAN, mean, variance }
}
