//! Expectations over N(f; μ, v) of functions of f by the trapezoidal rule, to nearly full precision; no formulae of likelihoods.
//!
//! For functions that are analytic in a strip around the real line the trapezoidal rule converges exponentially in
//! 1/step (Trefethen & Weideman 2014), with evenly spaced nodes where Gauss–Hermite spends most of its nodes in tails
//! that do not matter: with 20 Hermite nodes log σ(f) is wrong in the third digit at v = 25. The step follows from the
//! likelihood's [`Resolution`] and v, so easy data cost 24 nodes and hard ones what they need. Gradients are those of the
//! sum itself with the standardised nodes z held, `f = μ + √v z`.

use crate::likelihood::{Likelihood, Local, Observation};
use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp_in_place};
use std::f64::consts::PI;
use std::sync::LazyLock;

/// How fine a likelihood's log density is as a function of f.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// The half-width of the strip around the real line in which `log p(y|f)` is analytic.
    pub strip: f64,
    /// The largest step in f that still resolves `p(y|f)` itself.
    pub step: f64,
    /// Whether `log p(y|f)` is concave in f.
    pub concave: bool,
    /// Where in f the singularity lies that limits the strip, when there is one pair of them.
    pub pole: Option<f64>,
}

/// Standardised nodes reach to ±8, beyond which a normal has 1e-15 of its mass.
const REACH: f64 = 8.0;

/// The error of a rule is about `e^{−DIGITS}`.
const DIGITS: f64 = 26.0;

/// `log p` may fall by this much from its peak before nodes are left out: 6e-16 of the integral's scale.
const DROP: f64 = 35.0;

/// The step in units of the width of a log-concave peak: for a gamma density in the logarithm, the most skewed that is
/// met, the error is 1e-12.
const WIDTH: f64 = 0.5;

/// The same for a normal peak, with an error of 1e-15.
const NORMAL_WIDTH: f64 = 0.75;

/// No integral takes more nodes.
const MOST_NODES: usize = 1 << 15;

/// Numbers of nodes are multiples of this, so that vector instructions leave none to be done one by one, which would take
/// longer than all others.
const LANES: usize = 8;

/// Evenly spaced standardised nodes with their normal weights, which sum to 1.
#[derive(Clone, Debug)]
struct Rule {
    step: f64,
    z: Vec<f64>,
    weight: Vec<f64>,
}

impl Rule {
    /// Nodes over ±[`REACH`], and as many beyond as make their number a multiple of `lanes`.
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

/// The rules, up to 3621 nodes, for averages of something bounded: a jump between two nodes is then worth 0.002 at most, and
/// quantiles take a hundred averages of distribution functions that are costly themselves.
const BOUNDED_RULES: usize = 16;

/// The rule and the buffers of expectations, one per thread of work.
#[derive(Clone, Debug)]
pub struct Integrator {
    fixed: Option<Rule>,
    z: Vec<f64>,
    f: Vec<f64>,
    weight: Vec<f64>,
    value: Vec<f64>,
    first: Vec<f64>,
    lent: [Vec<f64>; 3],
}

impl Default for Integrator {
    fn default() -> Self {
        Integrator::new(None)
    }
}

impl Integrator {
    /// An integrator that chooses the number of nodes itself, or takes `nodes` of them (at least 3) over ±8 standard
    /// deviations of f whatever the likelihood.
    pub fn new(nodes: Option<usize>) -> Self {
        let fixed = nodes.map(|nodes| Rule::new(2.0 * REACH / (nodes.max(3) - 1) as f64, 1));
        Integrator {
            fixed,
            z: Vec::new(),
            f: Vec::new(),
            weight: Vec::new(),
            value: Vec::new(),
            first: Vec::new(),
            lent: Default::default(),
        }
    }

    /// Buffers for a likelihood with an integral of its own, to be handed back by [`Integrator::give`].
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
        let rule =
            self.fixed.as_ref().unwrap_or_else(|| rule_for(strip / sd.max(f64::MIN_POSITIVE), BOUNDED_RULES));
        // One function call for each node, so that those beyond the reach are worth leaving out.
        let end = REACH + 0.75 * rule.step;
        let nodes = rule.z.iter().zip(&rule.weight).filter(|(z, _)| z.abs() < end);
        nodes.map(|(z, w)| w * g(mu + sd * z)).sum()
    }

    /// `E log p(y|f)` with its derivatives; adds `E ∂_ψ log p` to `own` unless that is empty.
    pub fn expected_log_density<L: Likelihood + ?Sized>(
        &mut self,
        likelihood: &L,
        at: Observation,
        (mu, v): (f64, f64),
        own: &mut [f64],
    ) -> Local {
        let sd = smallest(mu, v).sqrt();
        let resolution = likelihood.resolution(at);
        self.place(resolution, mu, sd);
        self.evaluate(likelihood, at);
        self.sum(likelihood, at, sd, own)
    }

    /// `log E p(y|f)` with its derivatives; adds `∂_ψ log E p` to `own` unless that is empty.
    pub fn log_predictive<L: Likelihood + ?Sized>(
        &mut self,
        likelihood: &L,
        at: Observation,
        (mu, v): (f64, f64),
        own: &mut [f64],
    ) -> Local {
        let sd = smallest(mu, v).sqrt();
        let value = self.tilt(likelihood, at, mu, sd);
        if !value.is_finite() {
            return Local { value, mean: f64::NAN, variance: f64::NAN };
        }
        // Under the tilted weights the same sums are the derivatives of the logarithm.
        Local { value, ..self.sum(likelihood, at, sd, own) }
    }

    /// Nodes that hold the product `N(f; μ, v) p(y|f)`, weighted by it, normalised; returns the log of its integral.
    fn tilt<L: Likelihood + ?Sized>(&mut self, likelihood: &L, at: Observation, mu: f64, sd: f64) -> f64 {
        let (low, high, step) = match &self.fixed {
            Some(rule) => (-REACH, REACH, rule.step),
            None if likelihood.resolution(at).concave => self.concave_range(likelihood, at, mu, sd),
            None => self.scanned_range(likelihood, at, mu, sd),
        };
        self.place_evenly((low, high), step, mu, sd);
        self.evaluate(likelihood, at);
        let mut top = f64::NEG_INFINITY;
        for ((w, z), value) in self.weight.iter_mut().zip(&self.z).zip(&self.value) {
            *w = value - 0.5 * z * z;
            top = top.max(*w);
        }
        if !top.is_finite() {
            return top;
        }
        self.weight.iter_mut().for_each(|w| *w -= top);
        exp_in_place(&mut self.weight);
        // Where nothing is left of p(y|f) its logarithm may have overflown.
        for (w, (value, first)) in self.weight.iter().zip(self.value.iter_mut().zip(&mut self.first)) {
            if *w == 0.0 {
                (*value, *first) = (0.0, 0.0);
            }
        }
        let sum: f64 = self.weight.iter().sum();
        self.weight.iter_mut().for_each(|w| *w /= sum);
        let step = self.z.get(1).map_or(1.0, |z| z - self.z[0]);
        top + (sum * step).ln() - 0.5 * (2.0 * PI).ln()
    }

    /// Appends `count` draws of the normalised product `N(f; μ, v) p(y|f)` to `out`, by inverting its distribution
    /// function, tabulated at the nodes and linear between them.
    pub fn product_samples<L: Likelihood + ?Sized>(
        &mut self,
        likelihood: &L,
        at: Observation,
        (mu, v): (f64, f64),
        count: usize,
        out: &mut Vec<f64>,
        random: &mut rand_chacha::ChaCha8Rng,
    ) {
        let sd = smallest(mu, v).sqrt();
        let value = self.tilt(likelihood, at, mu, sd);
        // The table has to be much finer than what integration needs.
        let (low, high) = (self.z[0], self.z[self.z.len() - 1]);
        self.place_evenly((low, high), (high - low) / 2000.0, mu, sd);
        self.evaluate(likelihood, at);
        let mut total = 0.0;
        for ((w, z), p) in self.weight.iter_mut().zip(&self.z).zip(&self.value) {
            total += (p - 0.5 * z * z - value).exp();
            *w = total;
        }
        for _ in 0..count {
            let u = rand::RngExt::random::<f64>(random) * total;
            let k = self.weight.partition_point(|w| *w < u).min(self.z.len() - 1);
            let before = if k == 0 { 0.0 } else { self.weight[k - 1] };
            let share = if self.weight[k] > before { (u - before) / (self.weight[k] - before) } else { 0.5 };
            // A node's mass lies half a step to either side of it.
            let step = (high - low) / (self.z.len() - 1) as f64;
            out.push(mu + sd * (self.z[k] + (share - 0.5) * step));
        }
    }

    /// Standardised nodes and weights for an expectation of something analytic in the likelihood's strip.
    fn place(&mut self, resolution: Resolution, mu: f64, sd: f64) {
        let rule = match &self.fixed {
            Some(rule) => rule,
            None => {
                // Around a pole the distance to it matters only where the normal has mass.
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

    /// Nodes at `f = pole + a sinh t`, t evenly spaced: the pair of singularities at `pole ± ia` moves to `t = ±iπ/2`
    /// whatever a is, and the normal stays bounded within π/4 of the real line.
    fn place_around(&mut self, pole: f64, a: f64, mu: f64, sd: f64) {
        let t = |z: f64| ((mu + sd * z - pole) / a).asinh();
        let (low, high) = (t(-REACH), t(REACH));
        // With z₀ = |pole − μ|/sd the normal grows by exp(½ z₀² sin²θ/cos 2θ) off the real line, against e^{−2πθ/step}.
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
    fn place_evenly(&mut self, (low, high): (f64, f64), step: f64, mu: f64, sd: f64) {
        let count = nodes_for((high - low) / step);
        let step = (high - low) / (count - 1) as f64;
        self.z.clear();
        self.z.extend((0..count).map(|k| low + k as f64 * step));
        self.weight.clear();
        self.weight.resize(count, 0.0);
        self.spread(mu, sd);
    }

    fn spread(&mut self, mu: f64, sd: f64) {
        self.f.clear();
        self.f.extend(self.z.iter().map(|z| mu + sd * z));
    }

    fn evaluate<L: Likelihood + ?Sized>(&mut self, likelihood: &L, at: Observation) {
        self.value.resize(self.f.len(), 0.0);
        self.first.resize(self.f.len(), 0.0);
        likelihood.log_density(at, &self.f, &mut self.value, &mut self.first);
    }

    /// The weighted sums of the value and of its derivatives through `f = μ + √v z`.
    fn sum<L: Likelihood + ?Sized>(
        &self,
        likelihood: &L,
        at: Observation,
        sd: f64,
        own: &mut [f64],
    ) -> Local {
        let Integrator { z, weight, value, first, .. } = self;
        let [value, mean, slope] = dispatch(Sums { weight, z, value, first });
        if !own.is_empty() {
            likelihood.own_gradient(at, &self.f, &self.weight, own);
        }
        Local { value, mean, variance: 0.5 * slope / sd }
    }

    /// The standardised range that holds a log-concave `p(y|f) N(f)`, and a step that resolves it there.
    fn concave_range<L: Likelihood + ?Sized>(
        &mut self,
        likelihood: &L,
        at: Observation,
        mu: f64,
        sd: f64,
    ) -> (f64, f64, f64) {
        let mut g = Tilted { likelihood, at, mu, sd };
        let mode = g.mode();
        let width =
            (1.0 - sd * sd * likelihood.curvature(at, mu + sd * mode)).max(1.0).sqrt().recip().max(1e-9);
        let top = g.value(mode);
        // A log-concave density times N(0, 1) has fallen by DROP at this distance from its mode at the latest.
        let bound = (2.0 * DROP).sqrt();
        let mut reach = |sign: f64| {
            let mut x = (bound * width).min(bound);
            while x < bound && top - g.value(mode + sign * x) < DROP {
                x = (1.6 * x).min(bound);
            }
            mode + sign * x
        };
        let (low, high) = (reach(-1.0), reach(1.0));
        // The less of the curvature is the likelihood's, the closer the product is to a normal density.
        let step = (WIDTH + (NORMAL_WIDTH - WIDTH) * width * width) * width;
        (low, high, step.min(likelihood.resolution(at).step / sd))
    }

    /// The same without concavity: the range around the peak is found by looking at ever finer grids.
    fn scanned_range<L: Likelihood + ?Sized>(
        &mut self,
        likelihood: &L,
        at: Observation,
        mu: f64,
        sd: f64,
    ) -> (f64, f64, f64) {
        const STEPS: usize = 63;
        let peak = (likelihood.peak(at) - mu) / sd;
        // Where p(y|f) peaks beyond the normal's mass, the product may have its mass anywhere in between; further than
        // this it cannot, as the normal alone has fallen below anything that matters.
        let far = peak.clamp(-200.0, 200.0);
        let (mut low, mut high) = ((-REACH).min(far - 1.0), REACH.max(far + 1.0));
        for _ in 0..12 {
            self.place_evenly((low, high), (high - low) / STEPS as f64, mu, sd);
            self.evaluate(likelihood, at);
            let tilted = |k: usize| self.value[k] - 0.5 * self.z[k] * self.z[k];
            let last = self.z.len() - 1;
            let top = (0..=last).map(tilted).fold(f64::NEG_INFINITY, f64::max);
            let inside = |k: &usize| tilted(*k) > top - DROP;
            let from = (0..=last).find(inside).unwrap_or(0).saturating_sub(1);
            let to = ((0..=last).rev().find(inside).unwrap_or(last) + 1).min(last);
            (low, high) = (self.z[from], self.z[to]);
            if 2 * (to - from) > last {
                break;
            }
        }
        // Each factor is resolved by its own step, their product by a little less.
        let step = (1.0 / NORMAL_WIDTH).hypot(sd / likelihood.resolution(at).step).recip();
        (low, high, ((high - low) / 32.0).min(step))
    }
}

/// The number of nodes for at least so many steps between the first and the last.
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

/// The coarsest of the first `rules` that is accurate when the singularities lie `c` standard deviations off the real line,
/// or the finest of them.
fn rule_for(c: f64, rules: usize) -> &'static Rule {
    let c = c.min(8.0);
    let step = 2.0 * PI * c / (DIGITS + 0.5 * c * c);
    LADDER[..rules].iter().find(|rule| rule.step <= step).unwrap_or(&LADDER[rules - 1])
}

/// A variance below this is taken for this one: the derivative in v divides by its root. Around a large mean floats are
/// further apart, by `1e-16 μ` against a root of `1e-9 μ`.
pub(crate) fn smallest(mu: f64, v: f64) -> f64 {
    v.max(1e-12 * (1.0 + 1e-6 * mu * mu))
}

/// `log p(y|μ + √v z) − z²/2` as a function of z.
struct Tilted<'a, L: Likelihood + ?Sized> {
    likelihood: &'a L,
    at: Observation,
    mu: f64,
    sd: f64,
}

impl<L: Likelihood + ?Sized> Tilted<'_, L> {
    fn value_and_slope(&mut self, z: f64) -> (f64, f64) {
        let (mut value, mut first) = ([0.0], [0.0]);
        self.likelihood.log_density(self.at, &[self.mu + self.sd * z], &mut value, &mut first);
        (value[0] - 0.5 * z * z, self.sd * first[0] - z)
    }

    fn value(&mut self, z: f64) -> f64 {
        self.value_and_slope(z).0
    }

    /// The maximiser, to a tenth of the peak's width, by Newton's method kept inside a bracket: the slope falls at least
    /// as fast as −z, so the root lies between 0 and the slope at 0, and not beyond the peak of p(y|f).
    fn mode(&mut self) -> f64 {
        let slope = self.value_and_slope(0.0).1;
        let peak = (self.likelihood.peak(self.at) - self.mu) / self.sd;
        let end = if slope * peak > 0.0 && peak.abs() < slope.abs() { peak } else { slope };
        let (mut low, mut high) = (end.min(0.0), end.max(0.0));
        let mut z = 0.0;
        let mut slope = slope;
        // Halving alone takes this many steps from the widest bracket of floats to neighbours around 1.
        for _ in 0..200 {
            let curvature =
                1.0 - self.sd * self.sd * self.likelihood.curvature(self.at, self.mu + self.sd * z);
            // An exponential that has overflown makes both infinite.
            let at_top =
                slope.is_finite() && curvature.is_finite() && slope.abs() <= 0.1 * curvature.max(1.0).sqrt();
            if slope.is_nan() || at_top {
                break;
            }
            if slope > 0.0 {
                low = z;
            } else {
                high = z;
            }
            let newton = z + slope / curvature;
            // Newton's steps are short on the steep side of an exponential: take them only when they halve the bracket's
            // larger part or land well inside.
            let middle = 0.5 * (low + high);
            let inside = newton > low && newton < high;
            let short = (newton - z).abs() < 0.05 * (high - low);
            z = if inside && !short { newton } else { middle };
            slope = self.value_and_slope(z).1;
            if slope.is_nan() {
                // Overflow of an exponential: the root lies on the side of 0.
                if z > 0.0 {
                    high = z;
                } else {
                    low = z;
                }
                z = 0.5 * (low + high);
                slope = self.value_and_slope(z).1;
            }
        }
        z
    }
}
