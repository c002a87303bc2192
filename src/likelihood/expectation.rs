//! Expectations of a likelihood and of its logarithm under N(f; μ, v) by quadrature.
//!
//! Gradients are the exact gradients of the sum, with fixed standardised nodes z and `f = μ + √v z`.

use super::{Expectation, LatentMarginal, LatentRow, Local, Observation, OneFunction, Row};
use crate::quadrature::{Integrator, Interval, REACH, smallest};
use sparsegp_kernels::vector_math::exp_in_place;
use std::f64::consts::PI;

/// Nodes where `log p` is lower than at its peak by more than this are left out; they are worth
/// 6e-16 of the integral's scale.
const DROP: f64 = 35.0;

/// The step in units of the width of a log-concave peak: for the logarithm of a gamma variable, the
/// most skewed case that occurs, the error is 1e-12.
const WIDTH: f64 = 0.5;

/// The step for a normal peak, with an error of 1e-15.
const NORMAL_WIDTH: f64 = 0.75;

impl Integrator {
    /// `E log p(y|f)` or `log E p(y|f)` with its derivatives; adds the derivatives in ψ to `own` unless that is empty.
    pub fn expectation<L: OneFunction + ?Sized>(
        &mut self,
        of: Expectation,
        likelihood: &L,
        row: LatentRow,
        own: &mut [f64],
    ) -> Local {
        let tilted = &Tilted::new(likelihood, row);
        if of == Expectation::ExpectedLog {
            self.place(likelihood.resolution(row.at), tilted.mu, tilted.sd);
            self.evaluate(tilted);
            return self.sum(tilted, own);
        }
        let value = self.tilt(tilted);
        if !value.is_finite() {
            return Local { value, mean: f64::NAN, variance: f64::NAN };
        }
        // Under the tilted weights the same sums are the derivatives of the logarithm.
        Local { value, ..self.sum(tilted, own) }
    }

    /// Places nodes over the product `N(f; μ, v) p(y|f)`, with the normalised product as weights;
    /// returns the log of its integral.
    fn tilt<L: OneFunction + ?Sized>(&mut self, g: &Tilted<'_, L>) -> f64 {
        let (low, high, step) = match &self.fixed {
            Some(rule) => (-REACH, REACH, rule.step),
            None if g.likelihood.resolution(g.at).concave => g.concave_range(),
            None => self.scanned_range(g),
        };
        self.place_evenly(Interval { low, high }, step, g.mu, g.sd);
        self.evaluate(g);
        tilted_weights(&mut self.weight, &self.z, &mut self.value, &mut self.first)
    }

    /// Appends `count` draws of the normalised product `N(f; μ, v) p(y|f)` to `out`, by inverting its distribution
    /// function, tabulated at the nodes and linear between them.
    pub(crate) fn product_samples<L: OneFunction + ?Sized>(
        &mut self,
        likelihood: &L,
        row: LatentRow,
        count: usize,
        out: &mut Vec<f64>,
        random: &mut rand_chacha::ChaCha8Rng,
    ) {
        let g = &Tilted::new(likelihood, row);
        let &Tilted { mu, sd, .. } = g;
        let value = self.tilt(g);
        // The table has to be much finer than what integration needs.
        let (low, high) = (self.z[0], self.z[self.z.len() - 1]);
        self.place_evenly(Interval { low, high }, (high - low) / 2000.0, mu, sd);
        self.evaluate(g);
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

    fn evaluate<L: OneFunction + ?Sized>(&mut self, &Tilted { likelihood, at, .. }: &Tilted<'_, L>) {
        self.value.resize(self.f.len(), 0.0);
        self.first.resize(self.f.len(), 0.0);
        likelihood.log_density(at, &self.f, &mut self.value, &mut self.first);
    }

    /// The weighted sums of the value and of its derivatives through `f = μ + √v z`.
    fn sum<L: OneFunction + ?Sized>(&self, g: &Tilted<'_, L>, own: &mut [f64]) -> Local {
        let [value, mean, slope] = self.sums();
        if !own.is_empty() {
            g.likelihood.own_gradient(g.at, &self.f, &self.weight, own);
        }
        Local { value, mean, variance: 0.5 * slope / g.sd }
    }

    /// Like [`Tilted::concave_range`], without concavity: ever finer grids find the range around the peak.
    fn scanned_range<L: OneFunction + ?Sized>(&mut self, g: &Tilted<'_, L>) -> (f64, f64, f64) {
        let mut range = range_around((g.likelihood.peak(g.at) - g.mu) / g.sd);
        for _ in 0..SCANS {
            self.place_evenly(range, (range.high - range.low) / SCAN_STEPS as f64, g.mu, g.sd);
            self.evaluate(g);
            let done;
            (range, done) = inside(&self.z, &self.value);
            if done {
                break;
            }
        }
        (range.low, range.high, step_of_product(range, g.sd / g.likelihood.resolution(g.at).step))
    }
}

/// The number of steps of a grid in the search for the range of a product.
pub(super) const SCAN_STEPS: usize = 63;

/// The maximum number of grids in the search for a range.
pub(super) const SCANS: usize = 12;

/// Returns the standardised range in which `p(y|f) N(f)` has its mass, if p(y|f) peaks at `peak`.
pub(super) fn range_around(peak: f64) -> Interval {
    // If p(y|f) peaks beyond the mass of the normal density, the product may have its mass anywhere
    // in between, but not beyond ±200, where the normal density is negligible.
    let far = peak.clamp(-200.0, 200.0);
    Interval { low: (-REACH).min(far - 1.0), high: REACH.max(far + 1.0) }
}

/// Returns the part of a grid in which the product matters, given `log p` on the grid, and true if
/// the grid is fine enough to tell.
pub(super) fn inside(z: &[f64], value: &[f64]) -> (Interval, bool) {
    let tilted = |k: usize| value[k] - 0.5 * z[k] * z[k];
    let last = z.len() - 1;
    let top = (0..=last).map(tilted).fold(f64::NEG_INFINITY, f64::max);
    let inside = |k: &usize| tilted(*k) > top - DROP;
    let from = (0..=last).find(inside).unwrap_or(0).saturating_sub(1);
    let to = ((0..=last).rev().find(inside).unwrap_or(last) + 1).min(last);
    (Interval { low: z[from], high: z[to] }, 2 * (to - from) > last)
}

/// Returns the step that resolves a product in a range; `ratio` is the standard deviation of f
/// divided by the step of the likelihood.
pub(super) fn step_of_product(Interval { low, high }: Interval, ratio: f64) -> f64 {
    // Each factor is resolved by its own step, their product by a little less.
    let step = (1.0 / NORMAL_WIDTH).hypot(ratio).recip();
    ((high - low) / 32.0).min(step)
}

/// Sets weights of evenly spaced nodes to `N(f; μ, v) p(y|f)`, normalised; returns the log of the integral.
pub(super) fn tilted_weights(weight: &mut [f64], z: &[f64], value: &mut [f64], first: &mut [f64]) -> f64 {
    let mut top = f64::NEG_INFINITY;
    for ((w, z), value) in weight.iter_mut().zip(z).zip(&*value) {
        *w = value - 0.5 * z * z;
        top = top.max(*w);
    }
    if !top.is_finite() {
        return top;
    }
    weight.iter_mut().for_each(|w| *w -= top);
    exp_in_place(weight);
    // Where p(y|f) has underflowed its logarithm may have overflowed.
    for (w, (value, first)) in weight.iter().zip(value.iter_mut().zip(first)) {
        if *w == 0.0 {
            (*value, *first) = (0.0, 0.0);
        }
    }
    let sum: f64 = weight.iter().sum();
    weight.iter_mut().for_each(|w| *w /= sum);
    let step = z.get(1).map_or(1.0, |second| second - z[0]);
    top + (sum * step).ln() - 0.5 * (2.0 * PI).ln()
}

/// `log p(y|μ + √v z) − z²/2` as a function of z.
struct Tilted<'a, L: OneFunction + ?Sized> {
    likelihood: &'a L,
    at: Observation<'a>,
    mu: f64,
    sd: f64,
}

impl<'a, L: OneFunction + ?Sized> Tilted<'a, L> {
    fn new(likelihood: &'a L, row: LatentRow<'a>) -> Self {
        let Row { at, marginal: LatentMarginal { mean: mu, variance: v } } = row;
        Tilted { likelihood, at, mu, sd: smallest(mu, v).sqrt() }
    }

    /// The standardised range that holds a log-concave `p(y|f) N(f)`, and a step that resolves it there.
    fn concave_range(&self) -> (f64, f64, f64) {
        let &Tilted { likelihood, at, mu, sd } = self;
        let mode = self.mode();
        let width =
            (1.0 - sd * sd * likelihood.curvature(at, mu + sd * mode)).max(1.0).sqrt().recip().max(1e-9);
        let top = self.value(mode);
        // A log-concave density times N(0, 1) has fallen by DROP at this distance from its mode at the latest.
        let bound = (2.0 * DROP).sqrt();
        let reach = |sign: f64| {
            let mut x = (bound * width).min(bound);
            while x < bound && top - self.value(mode + sign * x) < DROP {
                x = (1.6 * x).min(bound);
            }
            mode + sign * x
        };
        // The smaller the share of the likelihood in the curvature is, the closer the product is to
        // a normal density.
        let step = (WIDTH + (NORMAL_WIDTH - WIDTH) * width * width) * width;
        (reach(-1.0), reach(1.0), step.min(likelihood.resolution(at).step / sd))
    }

    fn value_and_slope(&self, z: f64) -> (f64, f64) {
        let (value, first) = self.likelihood.value_and_slope(self.at, self.mu + self.sd * z);
        (value - 0.5 * z * z, self.sd * first - z)
    }

    fn value(&self, z: f64) -> f64 {
        self.value_and_slope(z).0
    }

    /// The maximiser, to a tenth of the peak's width, by Newton's method kept inside a bracket: the slope falls at least
    /// as fast as −z, so the root lies between 0 and the slope at 0, and not beyond the peak of p(y|f).
    fn mode(&self) -> f64 {
        let slope = self.value_and_slope(0.0).1;
        let peak = (self.likelihood.peak(self.at) - self.mu) / self.sd;
        let end = if slope * peak > 0.0 && peak.abs() < slope.abs() { peak } else { slope };
        let (mut low, mut high) = (end.min(0.0), end.max(0.0));
        let mut z = 0.0;
        let mut slope = slope;
        // Halving alone takes at most this many steps from the widest bracket to neighbouring
        // floats.
        for _ in 0..200 {
            let curvature =
                1.0 - self.sd * self.sd * self.likelihood.curvature(self.at, self.mu + self.sd * z);
            // An exponential that has overflowed makes both infinite.
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
