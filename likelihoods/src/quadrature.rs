//! Expectations over N(f; μ, v) of functions of f by the trapezoidal rule, to nearly full
//! precision.
//!
//! For functions that are analytic in a strip around the real line the trapezoidal rule converges
//! exponentially in 1/step (Trefethen & Weideman 2014), with evenly spaced nodes, while
//! Gauss–Hermite rules have most of their nodes in tails that do not matter: with 20 Hermite nodes
//! log σ(f) is wrong in the third digit at v = 25. The step follows from the function's
//! [`Resolution`] and v, so easy data cost 24 nodes, and hard data only as many as they need.

mod nested;

pub(crate) use nested::{Average, Point};

use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch};
use std::any::Any;
use std::f64::consts::PI;
use std::sync::LazyLock;

/// The expectation over f in the term of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// `E log p(y|f)`, the expected log density.
    ExpectedLog,
    /// `log E p(y|f)`, the log predictive density.
    LogPredictive,
}

/// The normal distribution `N(f; μ, v)` of one latent function at one datum, under q.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentMarginal {
    /// μ.
    pub mean: f64,
    /// v.
    pub variance: f64,
}

impl LatentMarginal {
    /// The distribution `N(mean, variance)`.
    pub const fn new(mean: f64, variance: f64) -> Self {
        LatentMarginal { mean, variance }
    }
}

/// The resolution that quadrature needs for the log density of a likelihood as a function of f.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// The half-width of the strip around the real line in which `log p(y|f)` is analytic; 0 for a
    /// density with a kink, which needs thousands of nodes for six digits, so that such a
    /// likelihood should have expectations in closed form.
    pub strip: f64,
    /// The largest step in f that still resolves `p(y|f)` itself.
    pub step: f64,
    /// True if `log p(y|f)` is concave in f.
    pub concave: bool,
    /// The f of the pair of singularities that limits the strip, if there is exactly one pair.
    pub pole: Option<f64>,
}

/// Standardised nodes are within ±8, beyond which a normal distribution has 1e-15 of its mass.
pub(crate) const REACH: f64 = 8.0;

/// The error of a rule is about `e^{−DIGITS}`.
const DIGITS: f64 = 26.0;

/// The maximum number of nodes of an integral.
const MOST_NODES: usize = 1 << 15;

/// Numbers of nodes are multiples of this, so that vector instructions leave no nodes to be
/// computed one by one, which would take longer than all others.
const LANES: usize = 8;

/// Evenly spaced standardised nodes with their normal weights, which sum to 1.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) step: f64,
    z: Vec<f64>,
    weight: Vec<f64>,
}

impl Rule {
    /// Creates nodes over ±[`REACH`], and some beyond so that their number is a multiple of
    /// `lanes`.
    fn new(step: f64, lanes: usize) -> Rule {
        let half = (REACH / step).round() as usize;
        let count = (2 * half + 1).next_multiple_of(lanes);
        let z: Vec<f64> = (0..count).map(|k| (k as f64 - (count / 2) as f64) * step).collect();
        let mut weight: Vec<f64> = z.iter().map(|z| (-0.5 * z * z).exp()).collect();
        let sum: f64 = weight.iter().sum();
        weight.iter_mut().for_each(|w| *w /= sum);
        Rule { step, z, weight }
    }
}

/// Rules of 24, 32, 48, … 14488 nodes.
static LADDER: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    (0..20).map(|level| Rule::new(0.8 * 2f64.powf(-0.5 * f64::from(level)), LANES)).collect()
});

/// The number of rules, up to 3621 nodes, for averages of bounded functions: a jump between two
/// nodes then causes an error of at most 0.002, and quantiles need about a hundred averages of
/// distribution functions, which are costly themselves.
const BOUNDED_RULES: usize = 16;

/// With singularities farther away than this, in standard deviations, a bounded function is so
/// straight that three Gauss–Hermite nodes are exact up to the inverse sixth power of the distance.
const NEARLY_STRAIGHT: f64 = 200.0;

/// The numbers between two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub low: f64,
    pub high: f64,
}

/// The rule and the buffers of expectations, one per thread of work. By default it chooses the number of nodes itself.
#[derive(Clone, Debug, Default)]
pub struct Integrator {
    /// The requested rule.
    pub(crate) fixed: Option<Rule>,
    /// Standardised nodes.
    pub(crate) z: Vec<f64>,
    /// The nodes as values of f.
    pub(crate) f: Vec<f64>,
    /// The weights of the nodes.
    pub(crate) weight: Vec<f64>,
    /// A function at the nodes.
    pub(crate) value: Vec<f64>,
    /// The slope of the function at the nodes.
    pub(crate) first: Vec<f64>,
    lent: [Vec<f64>; 3],
    /// The nodes of an expectation of expectations.
    nested: nested::Nodes,
    kept: Kept,
    coarse: bool,
}

/// The buffers of a likelihood that integrates in its own way. A copy is empty.
#[derive(Debug, Default)]
struct Kept(Option<Box<dyn Any + Send + Sync>>);

impl Clone for Kept {
    fn clone(&self) -> Self {
        Kept::default()
    }
}

impl Integrator {
    /// Creates an integrator that chooses the number of nodes itself or, if `nodes` is given, uses
    /// this number (at least 3) over ±8 standard deviations of f for every likelihood.
    pub fn new(nodes: Option<usize>) -> Self {
        let fixed = nodes.map(|nodes| Rule::new(2.0 * REACH / (nodes.max(3) - 1) as f64, 1));
        Integrator { fixed, ..Integrator::default() }
    }

    /// Lets expected log densities of classes have errors up to 1e-6, which makes them cheaper.
    #[must_use]
    pub fn coarsely(self, coarse: bool) -> Self {
        Integrator { coarse, ..self }
    }

    /// Returns true if errors of 1e-6 are small enough for expected log densities of classes.
    pub(crate) fn is_coarse(&self) -> bool {
        self.coarse
    }

    /// Lends a likelihood that integrates in its own way the buffers it gave back with [`keep`](Self::keep), or new ones.
    pub(crate) fn kept<T: Any + Default + Send + Sync>(&mut self) -> Box<T> {
        self.kept.0.take().and_then(|kept| kept.downcast().ok()).unwrap_or_default()
    }

    /// Keeps buffers for the next call.
    pub(crate) fn keep(&mut self, buffers: Box<dyn Any + Send + Sync>) {
        self.kept.0 = Some(buffers);
    }

    /// Lends buffers to a likelihood that computes an integral itself; [`Integrator::give`] takes them back.
    pub(crate) fn take(&mut self) -> [Vec<f64>; 3] {
        std::mem::take(&mut self.lent)
    }

    /// Takes buffers back.
    pub(crate) fn give(&mut self, buffers: [Vec<f64>; 3]) {
        self.lent = buffers;
    }

    /// `E g(f)` for a bounded `g` that is analytic within `strip` of the real line.
    pub fn average(&mut self, mu: f64, v: f64, strip: f64, g: &mut dyn FnMut(f64) -> f64) -> f64 {
        let sd = v.max(0.0).sqrt();
        let distance = strip / sd.max(f64::MIN_POSITIVE);
        if self.fixed.is_none() && distance > NEARLY_STRAIGHT {
            let reach = 3f64.sqrt() * sd;
            return (4.0 * g(mu) + g(mu - reach) + g(mu + reach)) / 6.0;
        }
        let rule = self.fixed.as_ref().unwrap_or_else(|| rule_for(distance, BOUNDED_RULES));
        // Every node costs a function call, so nodes beyond the reach are omitted.
        let end = REACH + 0.75 * rule.step;
        let nodes = rule.z.iter().zip(&rule.weight).filter(|(z, _)| z.abs() < end);
        nodes.map(|(z, w)| w * g(mu + sd * z)).sum()
    }

    /// Places standardised nodes and weights for the expectation of a function that is analytic in
    /// the strip of the likelihood.
    pub(crate) fn place(&mut self, resolution: Resolution, mu: f64, sd: f64) {
        let rule = match &self.fixed {
            Some(rule) => rule,
            None => {
                // The distance to a pole matters only where the normal distribution has mass.
                let beyond = resolution.pole.map_or(0.0, |pole| ((pole - mu).abs() - REACH * sd).max(0.0));
                rule_for(beyond.hypot(resolution.strip) / sd, LADDER.len())
            }
        };
        match resolution.pole {
            Some(pole) if self.fixed.is_none() && rule.z.len() > 110 => {
                self.place_around(pole, resolution.strip, mu, sd);
            }
            _ => {
                self.z.clear();
                self.z.extend_from_slice(&rule.z);
                self.weight.clear();
                self.weight.extend_from_slice(&rule.weight);
            }
        }
        self.spread(mu, sd);
    }

    /// Nodes at `f = pole + a sinh t`, t evenly spaced: the pair of singularities at `pole ± ia`
    /// moves to `t = ±iπ/2` for every a, and the normal density stays bounded within π/4 of the
    /// real line.
    fn place_around(&mut self, pole: f64, a: f64, mu: f64, sd: f64) {
        let t = |z: f64| ((mu + sd * z - pole) / a).asinh();
        let (low, high) = (t(-REACH), t(REACH));
        // With z₀ = |pole − μ|/sd the normal density grows by exp(½ z₀² sin²θ/cos 2θ) off the real
        // line, against e^{−2πθ/step}.
        let normal = 0.5 * sd / (mu - pole).hypot(a);
        let count = nodes_for((high - low) / normal.min(0.11));
        let step = (high - low) / (count - 1) as f64;
        self.z.clear();
        self.weight.clear();
        for k in 0..count {
            let t = low + k as f64 * step;
            let z = (pole - mu + a * t.sinh()) / sd;
            self.z.push(z);
            self.weight.push(t.cosh() * (-0.5 * z * z).exp());
        }
        let sum: f64 = self.weight.iter().sum();
        self.weight.iter_mut().for_each(|w| *w /= sum);
    }

    /// Evenly spaced nodes between two standardised ends.
    pub(crate) fn place_evenly(&mut self, Interval { low, high }: Interval, step: f64, mu: f64, sd: f64) {
        let count = nodes_for((high - low) / step);
        let step = (high - low) / (count - 1) as f64;
        self.z.clear();
        self.z.extend((0..count).map(|k| low + k as f64 * step));
        self.weight.clear();
        self.weight.resize(count, 0.0);
        self.spread(mu, sd);
    }

    /// `Σ w v`, `Σ w v′` and `Σ w z v′` over the nodes.
    pub(crate) fn sums(&self) -> [f64; 3] {
        let Integrator { z, weight, value, first, .. } = self;
        weighted_sums(weight, z, value, first)
    }

    fn spread(&mut self, mu: f64, sd: f64) {
        self.f.clear();
        self.f.extend(self.z.iter().map(|z| mu + sd * z));
    }
}

/// Returns `Σ w v`, `Σ w v′` and `Σ w z v′`.
pub(crate) fn weighted_sums(weight: &[f64], z: &[f64], value: &[f64], first: &[f64]) -> [f64; 3] {
    dispatch(Sums { weight, z, value, first })
}

/// Returns the number of nodes that makes at least this number of steps between the first and the last node.
fn nodes_for(steps: f64) -> usize {
    let steps = steps.ceil().clamp(8.0, (MOST_NODES - 1) as f64) as usize;
    (steps + 1).next_multiple_of(LANES)
}

/// `Σ w v`, `Σ w v′` and `Σ w z v′`.
struct Sums<'a> {
    weight: &'a [f64],
    z: &'a [f64],
    value: &'a [f64],
    first: &'a [f64],
}

impl Pass for Sums<'_> {
    type Output = [f64; 3];

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [f64; 3] {
        let (weights, rest) = S::as_simd_f64s(self.weight);
        let (z, z_rest) = S::as_simd_f64s(self.z);
        let (values, values_rest) = S::as_simd_f64s(self.value);
        let (first, first_rest) = S::as_simd_f64s(self.first);
        let mut sums = [simd.splat_f64s(0.0); 3];
        for ((&w, &z), (&value, &first)) in weights.iter().zip(z).zip(values.iter().zip(first)) {
            let slope = simd.mul_f64s(w, first);
            sums[0] = simd.mul_add_e_f64s(w, value, sums[0]);
            sums[1] = simd.add_f64s(sums[1], slope);
            sums[2] = simd.mul_add_e_f64s(slope, z, sums[2]);
        }
        // Written out: a closure would not be compiled for the instruction set.
        let [value, mean, slope] = sums;
        let mut sums = [simd.reduce_sum_f64s(value), simd.reduce_sum_f64s(mean), simd.reduce_sum_f64s(slope)];
        for ((w, z), (value, first)) in rest.iter().zip(z_rest).zip(values_rest.iter().zip(first_rest)) {
            sums[0] += w * value;
            sums[1] += w * first;
            sums[2] += w * first * z;
        }
        sums
    }
}

/// Returns the coarsest of the first `rules` rules that is accurate if the singularities are `c`
/// standard deviations off the real line, or the finest of these rules.
fn rule_for(c: f64, rules: usize) -> &'static Rule {
    let c = c.min(8.0);
    let step = 2.0 * PI * c / (DIGITS + 0.5 * c * c);
    LADDER[..rules].iter().find(|rule| rule.step <= step).unwrap_or(&LADDER[rules - 1])
}

/// Returns v, raised to a minimum because the derivative in v divides by its root. The minimum
/// grows with the mean, because floats near μ are about `1e-16 μ` apart.
pub fn smallest(mu: f64, v: f64) -> f64 {
    v.max(1e-12 * (1.0 + 1e-6 * mu * mu))
}
