//! Samples of the product N(f; μ, v) p(y|f), normalised: rejection with an adapted proposal,
//! inversion if rejection takes too many proposals.
//!
//! Wei, Sheth & Khardon 2021 (uPS, appendix A) propose from `N(μ, k v)`, k ≤ 10, and accept f with probability
//! `N(f; μ, v) p(y|f)/(K N(f; μ, k v))`, which needs a bound K on `r_k(f) = p(y|f) N(f; μ, v)/N(f; μ, k v)`. Here
//!
//! ```text
//! r_k(f) = √k exp(−(f − μ)² (1 − 1/k)/(2v)) p(y|f)
//! ```
//!
//! and p(y|f) has one peak. Between two distances from μ on the side of the peak r_k is therefore
//! at most the first factor at the nearer distance times p(y|f) at the point nearest to the peak;
//! on the other side both factors fall, from r_k(μ) on. K is the largest of these over a few
//! distances, and k the one with the smallest K, since a proposal is accepted with probability
//! `E p(y|f)/K`. The paper's choice, the largest k whose K is at most `max p(y|f)`, is one of the
//! compared k, up to the resolution of the grid of distances.

use super::EstimatorCounts;
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{
    Expectation, LatentMarginal, LatentRow, Likelihood, Marginal, Observation, OneFunction, Row,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The maximum number of proposals per sample; after that, a datum counts as starved.
const MOST_PROPOSALS: usize = 200;

/// The maximum number of proposals from the marginals of several functions for each sample.
const MOST_PLAIN_PROPOSALS: usize = 1000;

/// The largest spread k of a proposal.
const MOST_SPREAD: u32 = 10;

/// The number of distances between μ and the peak at which p(y|f) is evaluated.
const DISTANCES: usize = 12;

/// The fall of log p from its peak below which wider proposals gain nothing.
const HIGH: f64 = std::f64::consts::LN_2;

/// A rejection sampler of one datum.
pub(super) struct ProductSampler<'a> {
    likelihood: &'a dyn Likelihood,
    row: Row<'a>,
    /// The spread k of the proposal.
    spread: f64,
    /// `log K`.
    log_bound: f64,
}

impl<'a> ProductSampler<'a> {
    /// Creates the sampler with the proposal that is accepted most often or, for several functions, with their marginals; `None` if the
    /// density is unbounded.
    pub fn new(likelihood: &'a dyn Likelihood, row: Row<'a>) -> Option<Self> {
        let (spread, log_bound) = match likelihood.one() {
            Some(one) => proposal(one, row.of(0)),
            None => (1.0, likelihood.highest(row.at)?),
        };
        Some(ProductSampler { likelihood, row, spread, log_bound })
    }

    /// Fills `out` with draws; returns an estimate of `log E p(y|f)`, and the number of draws of several functions that are missing after
    /// too many proposals.
    pub fn draw(
        &self,
        samples: usize,
        out: &mut Vec<f64>,
        slope: &mut Vec<f64>,
        integrator: &mut Integrator,
        counts: &mut EstimatorCounts,
        random: &mut ChaCha8Rng,
    ) -> (f64, usize) {
        let (Row { at, marginal: Marginal { mean, variance } }, one) = (self.row, self.likelihood.one());
        let most = if one.is_some() { MOST_PROPOSALS } else { MOST_PLAIN_PROPOSALS };
        out.clear();
        slope.resize(mean.len(), 0.0);
        let (mut proposals, mut missing, mut acceptance, mut value) = (0, samples, 0.0, [0.0]);
        while missing > 0 && proposals < most * samples {
            proposals += 1;
            let (start, mut squares) = (out.len(), 0.0);
            for (mean, variance) in mean.iter().zip(variance) {
                let z: f64 = StandardNormal.sample(random);
                squares += z * z;
                out.push(mean + (variance.max(0.0) * self.spread).sqrt() * z);
            }
            self.likelihood.log_density(at, &out[start..], &mut value, slope);
            let log_ratio =
                0.5 * (self.spread.ln() - squares * (self.spread - 1.0)) + value[0] - self.log_bound;
            acceptance += log_ratio.exp();
            if random.random::<f64>().ln() <= log_ratio {
                missing -= 1;
            } else {
                out.truncate(start);
            }
        }
        counts.proposals += proposals as u64;
        counts.accepted += (samples - missing) as u64;
        counts.starved += missing as u64;
        if let (Some(one), 1..) = (one, missing) {
            let row = self.row.of(0);
            integrator.product_samples(one, row, missing, out, random);
            return (one.expectation(Expectation::LogPredictive, row, &mut [], integrator).value, 0);
        }
        (self.log_bound + (acceptance / proposals as f64).ln(), missing)
    }
}

fn log_density(likelihood: &dyn OneFunction, at: Observation, f: f64) -> f64 {
    likelihood.value_and_slope(at, f).0
}

/// The k from 1 to 10 with the smallest bound K on `r_k`, and `log K`.
fn proposal(likelihood: &dyn OneFunction, row: LatentRow) -> (f64, f64) {
    let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
    let peak = likelihood.peak(at);
    let highest = log_density(likelihood, at, peak);
    let centre = log_density(likelihood, at, mu);
    let mut best = (1.0, highest);
    if centre >= highest - HIGH {
        return best;
    }
    // Squared distances from μ in units of v, and log p there; at and beyond the peak p is at most as high as at the peak.
    let away = peak - mu;
    let distances: [(f64, f64); DISTANCES] = std::array::from_fn(|i| {
        let share = (i + 1) as f64 / DISTANCES as f64;
        let value = if i + 1 == DISTANCES { highest } else { log_density(likelihood, at, mu + share * away) };
        ((share * away).powi(2) / v, value)
    });
    for k in 2..=MOST_SPREAD {
        let k = f64::from(k);
        let fall = 0.5 * (1.0 - 1.0 / k);
        let mut bound = f64::NEG_INFINITY;
        let mut nearer = 0.0;
        for (distance, value) in distances {
            bound = bound.max(value - fall * nearer);
            nearer = distance;
        }
        bound = bound.max(highest - fall * nearer) + 0.5 * k.ln();
        if bound < best.1 {
            best = (k, bound);
        }
    }
    best
}
