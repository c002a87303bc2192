//! Samples of the product N(f; μ, v) p(y|f), normalised: rejection with an adapted proposal, inversion when it starves.
//!
//! Wei, Sheth & Khardon 2021 (uPS). The proposal is `N(μ, k v)` with the largest whole k ≤ 10 whose acceptance bound is
//! still met where the likelihood peaks; a datum whose rejection starves is drawn by inverting the distribution function
//! that quadrature tabulates.

use super::EstimatorCounts;
use crate::likelihood::{Likelihood, Observation};
use crate::quadrature::Integrator;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Proposals per wanted sample before a datum counts as starved.
const MOST_PROPOSALS: usize = 200;

/// Fills `out.0` with `samples` draws.
pub(super) fn draw(
    likelihood: &dyn Likelihood,
    at: Observation,
    (mu, v): (f64, f64),
    samples: usize,
    (out, counts): (&mut Vec<f64>, &mut EstimatorCounts),
    (integrator, random): (&mut Integrator, &mut ChaCha8Rng),
) {
    out.clear();
    let sd = v.sqrt();
    let log_density = |f: f64| {
        let (mut value, mut first) = ([0.0], [0.0]);
        likelihood.log_density(at, &[f], &mut value, &mut first);
        value[0]
    };
    let peak = likelihood.peak(at);
    let highest = log_density(peak);
    let k = f64::from(spread(&log_density, (mu, sd), peak, highest));
    let budget = MOST_PROPOSALS * samples;
    let mut proposals = 0;
    while out.len() < samples && proposals < budget {
        proposals += 1;
        let z: f64 = StandardNormal.sample(random);
        let f = mu + sd * k.sqrt() * z;
        // N(f; μ, v) / (√k N(f; μ, kv)) = exp(−z²(k − 1)/2), so the bound is √k ℓ_max times the proposal.
        let log_ratio = -0.5 * z * z * (k - 1.0) + log_density(f) - highest;
        if random.random::<f64>().ln() < log_ratio {
            out.push(f);
        }
    }
    counts.proposals += proposals as u64;
    counts.accepted += out.len() as u64;
    if out.len() < samples {
        let missing = samples - out.len();
        counts.starved += missing as u64;
        integrator.product_samples(likelihood, at, (mu, v), missing, out, random);
    }
}

/// The largest k ≤ 10 with `max p over [μ − δ, μ + δ] ≤ ℓ_max/√k`, `δ² = v log k/(1 − 1/k)`; 1 when p is already high near μ.
fn spread(log_density: &dyn Fn(f64) -> f64, (mu, sd): (f64, f64), peak: f64, highest: f64) -> u32 {
    // p(y|f) has one peak, so its maximum over an interval is at the point nearest to it.
    let highest_within = |reach: f64| log_density(peak.clamp(mu - reach, mu + reach));
    if highest_within(sd) >= highest - std::f64::consts::LN_2 {
        return 1;
    }
    (2..=10u32)
        .rev()
        .find(|&k| {
            let k = f64::from(k);
            let reach = sd * (k.ln() / (1.0 - 1.0 / k)).sqrt();
            highest_within(reach) <= highest - 0.5 * k.ln()
        })
        .unwrap_or(1)
}
