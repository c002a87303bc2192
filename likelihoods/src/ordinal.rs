//! Ordered levels: a normal variable around f falls between the edges of a level (cumulative probit).

use super::sums::{Terms, fill, weighted_sums};
use super::{
    LatentMarginal, LatentRow, LikelihoodKind, Local, Observation, OneFunction, Row, own_parameters,
};
use crate::functions::normal::{self, log_cdf_and_hazard};
use crate::quadrature::{Integrator, Resolution};
use pulp::{Scalar, Simd};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::vector_math::{exp, ln_1p};
use sparsegp_kernels::{Parameter, Transform};
use std::cmp::Ordering;

/// `P(y = j | f) = Φ((e_j − f)/σ) − Φ((e_{j−1} − f)/σ)` with edges `e_0 < e_1 < …`, −∞ before and ∞ after them.
#[derive(Clone, Debug)]
pub struct Ordinal {
    scale: Parameter,
    first_edge: Parameter,
    gaps: Parameter,
}

/// Two edges and their distance: in units of f, or relative to f in units of σ.
#[derive(Clone, Copy, Debug)]
struct Bin {
    low: f64,
    high: f64,
    width: f64,
}

/// The mass of a bin under N(0, 1), with moments of the variable within it.
#[derive(Clone, Copy, Debug)]
struct Mass {
    log: f64,
    /// The normal density at the upper end, divided by the mass.
    high: f64,
    /// Mean and mean square of the variable within the bin.
    mean: f64,
    square: f64,
}

/// The substitute for infinite ends; products of two such ends are still finite.
const FAR: f64 = 1e150;

/// Bins narrower than this lose digits as a difference of distribution functions.
const NARROW: f64 = 0.05;

/// The Gauss–Legendre rule with 6 nodes on [0, 1]: exact to the last digit for `e^{−ct − t²/2}` over narrow bins.
const LEGENDRE: [(f64, f64); 3] = [
    (0.238_619_186_083_196_9, 0.467_913_934_572_691_04),
    (0.661_209_386_466_264_5, 0.360_761_573_048_138_6),
    (0.932_469_514_203_152, 0.171_324_492_379_170_35),
];

/// `log(Φ(high) − Φ(low))` with its derivatives, from the side where both are below ½.
#[inline(always)]
fn wide_mass<S: Simd>(low: f64, high: f64) -> Mass {
    let flip = low + high > 0.0;
    let (l, u) = if flip { (-high, -low) } else { (low, high) };
    let (log_upper, hazard) = log_cdf_and_hazard::<S>(u);
    let below = exp::<S>(log_cdf_and_hazard::<S>(l).0 - log_upper);
    let share = 1.0 - below;
    let log = log_upper - ln_1p::<S>(below / share);
    let at_upper = hazard / share;
    let at_lower = at_upper * exp::<S>(0.5 * (u - l) * (u + l));
    let (low_end, high_end) = if flip { (at_upper, at_lower) } else { (at_lower, at_upper) };
    Mass { log, high: high_end, mean: low_end - high_end, square: 1.0 - (high * high_end - low * low_end) }
}

/// The mass of a narrow bin around c: `width·φ(c)·E e^{−ct − t²/2}`, t uniform between ±width/2.
fn narrow_mass(centre: f64, width: f64) -> Mass {
    let half = 0.5 * width;
    let (mut total, mut mean, mut square) = (0.0, 0.0, 0.0);
    for (node, weight) in LEGENDRE {
        for t in [-node * half, node * half] {
            let g = 0.5 * weight * (-t * (centre + 0.5 * t)).exp();
            total += g;
            mean += g * t;
            square += g * t * t;
        }
    }
    let (mean, square) = (mean / total, square / total);
    Mass {
        log: width.ln() + total.ln() + normal::log_density(centre, 0.0, 1.0),
        high: (-half * (centre + 0.5 * half)).exp() / (width * total),
        mean: centre + mean,
        square: centre * (centre + 2.0 * mean) + square,
    }
}

impl Mass {
    /// Returns the weight, and the weighted terms of gradients in own parameters.
    fn weighted(self, weight: f64) -> [f64; 4] {
        [weight, weight * self.mean, weight * self.square, weight * self.high]
    }
}

impl Bin {
    /// Returns the bin in units of `scale` around f.
    #[inline(always)]
    fn around(self, f: f64, scale: f64) -> Bin {
        Bin {
            low: ((self.low - f) / scale).clamp(-FAR, FAR),
            high: ((self.high - f) / scale).clamp(-FAR, FAR),
            width: self.width / scale,
        }
    }

    fn mass(self) -> Mass {
        let centre = 0.5 * (self.low + self.high);
        if self.width < NARROW && self.width * centre.abs() < 1.0 {
            narrow_mass(centre, self.width)
        } else {
            wide_mass::<Scalar>(self.low, self.high)
        }
    }
}

impl Ordinal {
    /// Creates the likelihood for at least two levels, with edges one apart around 0 and σ fixed at
    /// 1, because the amplitude of f has the same effect.
    pub fn new(levels: usize) -> Self {
        let edges = levels.max(2) - 1;
        Ordinal::with_edges(&(0..edges).map(|k| k as f64 - 0.5 * (edges - 1) as f64).collect::<Vec<_>>(), 1.0)
    }

    /// Creates the likelihood with increasing edges (at least one) and a fixed σ.
    pub fn with_edges(edges: &[f64], scale: f64) -> Self {
        let mut scale = Parameter::positive("scale", vec![scale]);
        scale.fixed = true;
        Ordinal {
            scale,
            first_edge: Parameter::new("first_edge", vec![edges[0]], Transform::Identity),
            gaps: Parameter::positive("gaps", edges.windows(2).map(|pair| pair[1] - pair[0]).collect()),
        }
    }

    fn scale(&self) -> f64 {
        self.scale.values[0]
    }

    /// Edge k, infinite beyond the ends.
    fn edge(&self, k: i64) -> f64 {
        match k {
            k if k < 0 => f64::NEG_INFINITY,
            k if k as usize > self.gaps.values.len() => f64::INFINITY,
            k => self.first_edge.values[0] + self.gaps.values[..k as usize].iter().sum::<f64>(),
        }
    }

    fn level(&self, y: f64) -> i64 {
        (y.round() as i64).clamp(0, self.levels() as i64 - 1)
    }

    fn bin(&self, y: f64) -> Bin {
        let level = self.level(y);
        let inner = level > 0 && level < self.levels() as i64 - 1;
        let width = if inner { self.gaps.values[level as usize - 1] } else { f64::INFINITY };
        Bin { low: self.edge(level - 1), high: self.edge(level), width }
    }

    /// Adds `∂ log P` in σ, the first edge and the gaps, given [`Mass::weighted`] for spread `≥ σ` around f.
    fn add_own(&self, y: f64, [weight, mean, square, high]: [f64; 4], spread: f64, own: &mut [f64]) {
        let level = self.level(y);
        let shift = -mean / spread;
        own[0] += (square - weight) / spread * (self.scale() / spread);
        own[1] += shift;
        // A gap moves all edges after it.
        for (k, gap) in own[2..].iter_mut().enumerate() {
            *gap += match (level - 1).cmp(&(k as i64)) {
                Ordering::Greater => shift,
                Ordering::Equal => high / spread,
                Ordering::Less => 0.0,
            };
        }
    }

    /// `P(Y ≤ y)` given the mean and variance of the normal variable.
    fn cdf(&self, y: f64, mean: f64, variance: f64) -> f64 {
        if y < 0.0 {
            return 0.0;
        }
        let edge = self.edge(y.floor().min(1e9) as i64);
        if edge.is_infinite() { 1.0 } else { normal::cdf((edge - mean) / variance.sqrt()) }
    }

    fn moments(&self, mean: f64, variance: f64) -> (f64, f64) {
        let spread = variance.sqrt();
        let share = |level: usize| self.bin(level as f64).around(mean, spread).mass().log.exp();
        let shares: Vec<f64> = (0..self.levels()).map(share).collect();
        let centre: f64 = shares.iter().enumerate().map(|(level, p)| level as f64 * p).sum();
        let spread = shares.iter().enumerate().map(|(level, p)| (level as f64 - centre).powi(2) * p).sum();
        (centre, spread)
    }
}

impl OneFunction for Ordinal {
    own_parameters!(scale, first_edge, gaps);

    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Ordinal
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
        let (bin, scale) = (self.bin(at.y), self.scale());
        if bin.width >= NARROW * scale {
            fill(Scaled { bin, scale }, f, value, first);
            return;
        }
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            let mass = bin.around(*f, scale).mass();
            (*value, *first) = (mass.log, mass.mean / scale);
        }
    }

    /// `(Var x − 1)/σ²`, x the standard normal variable confined to the bin.
    fn curvature(&self, at: Observation, f: f64) -> f64 {
        let scale = self.scale();
        let mass = self.bin(at.y).around(f, scale).mass();
        (mass.square - mass.mean * mass.mean - 1.0).clamp(-1.0, 0.0) / (scale * scale)
    }

    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let (bin, scale) = (self.bin(at.y), self.scale());
        if bin.width >= NARROW * scale {
            let [mean, square, high] = weighted_sums(Scaled { bin, scale }, f, weights);
            let total: f64 = weights.iter().sum();
            self.add_own(at.y, [total, mean, square, high], scale, own);
            return;
        }
        for (f, w) in f.iter().zip(weights) {
            self.add_own(at.y, bin.around(*f, scale).mass().weighted(*w), scale, own);
        }
    }

    /// The zeros of Φ nearest to the real line are at ±2.8i, and the zeros of a difference at ±2.7i or further away. The density is a
    /// normal density averaged over a bin, so its finest scale is σ.
    fn resolution(&self, _: Observation) -> Resolution {
        let scale = self.scale();
        Resolution { strip: 2.7 * scale, step: 0.65 * scale, concave: true, pole: None }
    }

    /// Returns the middle of the bin; for the outermost levels, ten σ beyond the edge.
    fn peak(&self, at: Observation) -> f64 {
        match self.bin(at.y) {
            Bin { low, high, .. } if low.is_infinite() => high - 10.0 * self.scale(),
            Bin { low, high, .. } if high.is_infinite() => low + 10.0 * self.scale(),
            Bin { low, width, .. } => low + 0.5 * width,
        }
    }

    /// Returns the normal score of the middle of the level.
    fn working_response(&self, at: Observation) -> f64 {
        let Bin { low, high, .. } = self.bin(at.y);
        let scale = self.scale();
        scale
            * normal::quantile(0.5 * (normal::cdf(low / scale) + normal::cdf(high / scale))).clamp(-8.0, 8.0)
    }

    /// In the log predictive density f and the noise around it are one normal variable of variance v + σ².
    fn log_predictive(&self, row: LatentRow, own: &mut [f64], _: &mut Integrator) -> Local {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        let spread = v.max(0.0).sqrt().hypot(self.scale());
        let mass = self.bin(at.y).around(mu, spread).mass();
        if !own.is_empty() {
            self.add_own(at.y, mass.weighted(1.0), spread, own);
        }
        Local {
            value: mass.log,
            mean: mass.mean / spread,
            variance: 0.5 * (mass.square - 1.0) / (spread * spread),
        }
    }

    /// σ²: levels are intervals of a variable `N(f, σ²)`.
    fn observation_variance(&self, _: f64) -> Option<f64> {
        Some(self.scale().powi(2))
    }

    fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
        self.moments(f, self.scale().powi(2))
    }

    fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
        self.cdf(at.y, f, self.scale().powi(2))
    }

    fn sample(&self, _: Observation, f: f64, random: &mut ChaCha8Rng) -> f64 {
        let noise: f64 = StandardNormal.sample(random);
        let x = f + self.scale() * noise;
        (0..self.levels() as i64 - 1).take_while(|&k| self.edge(k) < x).count() as f64
    }

    fn predictive_moments(&self, row: LatentRow, _: &mut Integrator) -> (f64, f64) {
        self.moments(row.marginal.mean, row.marginal.variance + self.scale().powi(2))
    }

    fn predictive_cdf(&self, row: LatentRow, _: &mut Integrator) -> f64 {
        self.cdf(row.at.y, row.marginal.mean, row.marginal.variance + self.scale().powi(2))
    }

    fn levels(&self) -> usize {
        self.gaps.values.len() + 2
    }

    /// Sets the edges to the normal quantiles of the cumulative shares of the levels, after adding
    /// half a target to each level.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
        let levels = self.levels();
        let mut counts = vec![0.5; levels];
        y.iter().filter(|y| !y.is_nan()).for_each(|&y| counts[self.level(y) as usize] += 1.0);
        let total: f64 = counts.iter().sum();
        let mut below = 0.0;
        let edges: Vec<f64> = counts[..levels - 1]
            .iter()
            .map(|count| {
                below += count;
                self.scale() * normal::quantile(below / total)
            })
            .collect();
        self.first_edge.start(|_| edges[0]);
        self.gaps.start(|gap| edges[gap + 1] - edges[gap]);
        0.0
    }
}

/// A bin with the unit σ.
#[derive(Clone, Copy)]
struct Scaled {
    bin: Bin,
    scale: f64,
}

impl Scaled {
    #[inline(always)]
    fn mass<S: Simd>(&self, f: f64) -> Mass {
        let bin = self.bin.around(f, self.scale);
        wide_mass::<S>(bin.low, bin.high)
    }
}

impl Terms<2> for Scaled {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let mass = self.mass::<S>(f);
        [mass.log, mass.mean / self.scale]
    }
}

/// Mean, mean square and upper end of the bin's mass.
impl Terms<3> for Scaled {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 3] {
        let mass = self.mass::<S>(f);
        [mass.mean, mass.square, mass.high]
    }
}
