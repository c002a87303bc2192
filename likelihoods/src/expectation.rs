//! Expectations of a likelihood and of its logarithm under N(f; μ, v) by quadrature, of one row, or of many rows with one evaluation of the
//! likelihood at the nodes of all of them.
//!
//! Gradients are the exact gradients of the sum, with fixed standardised nodes z and `f = μ + √v z`.

use super::{Expectation, LatentMarginal, LatentRow, Local, Observation, OneFunction, Row};
use crate::quadrature::{Integrator, Interval, Point, REACH, smallest, weighted_sums};
use sparsegp_kernels::vector_math::exp_in_place;
use std::f64::consts::PI;
use std::ops::Range;

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
    pub(crate) fn expectation<L: OneFunction + ?Sized>(
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

    /// Like [`expectation`](Self::expectation), for a log density of any growth and resolution, given with its slope: sums are refined until
    /// they settle.
    pub(crate) fn careful<L: OneFunction + ?Sized>(
        &mut self,
        of: Expectation,
        likelihood: &L,
        row: LatentRow,
        own: &mut [f64],
        log_density: &mut dyn FnMut(f64) -> (f64, f64),
    ) -> Local {
        let average = self.careful_expectation(of, row.marginal, &mut |f| {
            let (value, first) = log_density(f);
            Point { value, first, ..Point::default() }
        });
        if !own.is_empty() {
            let (f, weights) = self.nested_nodes(row.marginal);
            likelihood.own_gradient(row.at, &f, &weights, own);
        }
        Local { value: average.value, mean: average.mean, variance: average.variance }
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
    pub fn product_samples<L: OneFunction + ?Sized>(
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
const SCAN_STEPS: usize = 63;

/// The maximum number of grids in the search for a range.
const SCANS: usize = 12;

/// Returns the standardised range in which `p(y|f) N(f)` has its mass, if p(y|f) peaks at `peak`.
fn range_around(peak: f64) -> Interval {
    // If p(y|f) peaks beyond the mass of the normal density, the product may have its mass anywhere
    // in between, but not beyond ±200, where the normal density is negligible.
    let far = peak.clamp(-200.0, 200.0);
    Interval { low: (-REACH).min(far - 1.0), high: REACH.max(far + 1.0) }
}

/// Returns the part of a grid in which the product matters, given `log p` on the grid, and true if
/// the grid is fine enough to tell.
fn inside(z: &[f64], value: &[f64]) -> (Interval, bool) {
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
fn step_of_product(Interval { low, high }: Interval, ratio: f64) -> f64 {
    // Each factor is resolved by its own step, their product by a little less.
    let step = (1.0 / NORMAL_WIDTH).hypot(ratio).recip();
    ((high - low) / 32.0).min(step)
}

/// Sets weights of evenly spaced nodes to `N(f; μ, v) p(y|f)`, normalised; returns the log of the integral.
fn tilted_weights(weight: &mut [f64], z: &[f64], value: &mut [f64], first: &mut [f64]) -> f64 {
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

/// The number of collected nodes at which the likelihood is evaluated.
const NODES: usize = 8192;

/// Values of f at which the likelihood is evaluated, row after row.
#[derive(Clone, Copy, Debug)]
pub struct RowNodes<'a> {
    /// The rows.
    pub rows: &'a [Observation<'a>],
    /// For each row, the end of its nodes in `f`.
    pub ends: &'a [usize],
    /// The nodes.
    pub f: &'a [f64],
}

impl<'a> RowNodes<'a> {
    /// Iterates over the rows, each with the range of its nodes.
    pub fn iter(&self) -> impl Iterator<Item = (&'a Observation<'a>, Range<usize>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        self.rows.iter().zip(starts.zip(self.ends)).map(|(row, (start, &end))| (row, start..end))
    }
}

/// The rows of a block with their likelihood and the marginals of their latent values.
#[derive(Clone, Copy)]
pub struct LatentRows<'a> {
    /// The likelihood.
    pub likelihood: &'a dyn OneFunction,
    /// The observation of each row.
    pub rows: &'a [Observation<'a>],
    /// μ of each row.
    pub mean: &'a [f64],
    /// v of each row.
    pub variance: &'a [f64],
    /// Weights of the rows in the gradient of the own parameters.
    pub weight: &'a [f64],
}

impl LatentRows<'_> {
    fn range(&self, rows: Range<usize>) -> LatentRows<'_> {
        LatentRows {
            likelihood: self.likelihood,
            rows: &self.rows[rows.clone()],
            mean: &self.mean[rows.clone()],
            variance: &self.variance[rows.clone()],
            weight: &self.weight[rows],
        }
    }

    fn sd(&self, i: usize) -> f64 {
        smallest(self.mean[i], self.variance[i]).sqrt()
    }
}

/// The nodes of some rows and the log density at them.
#[derive(Default)]
struct Nodes {
    ends: Vec<usize>,
    z: Vec<f64>,
    f: Vec<f64>,
    weight: Vec<f64>,
    value: Vec<f64>,
    first: Vec<f64>,
}

impl Nodes {
    fn clear(&mut self) {
        self.ends.clear();
        self.z.clear();
        self.f.clear();
        self.weight.clear();
    }

    /// Appends the nodes that the integrator holds: they become the nodes of the next row.
    fn push(&mut self, integrator: &Integrator) {
        self.z.extend_from_slice(&integrator.z);
        self.f.extend_from_slice(&integrator.f);
        self.weight.extend_from_slice(&integrator.weight);
        self.ends.push(self.f.len());
    }

    fn evaluate(&mut self, likelihood: &dyn OneFunction, rows: &[Observation<'_>]) {
        self.value.resize(self.f.len(), 0.0);
        self.first.resize(self.f.len(), 0.0);
        let nodes = RowNodes { rows, ends: &self.ends, f: &self.f };
        likelihood.log_densities(nodes, &mut self.value, &mut self.first);
    }

    fn range(&self, i: usize) -> Range<usize> {
        i.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[i]
    }

    /// Weights the nodes of a row by `N(f; μ, v) p(y|f)`, normalised; returns the log of the integral.
    fn tilt(&mut self, i: usize) -> f64 {
        let at = self.range(i);
        let Nodes { z, weight, value, first, .. } = self;
        tilted_weights(&mut weight[at.clone()], &z[at.clone()], &mut value[at.clone()], &mut first[at])
    }

    /// The weighted sums of every row, with derivatives through `f = μ + √v z`; adds the gradient in the own parameters to `own`
    /// unless that is empty.
    fn sum(&mut self, of: LatentRows<'_>, own: &mut [f64], out: &mut [Local]) {
        for (i, out) in out.iter_mut().enumerate() {
            let at = self.range(i);
            let [value, mean, slope] = weighted_sums(
                &self.weight[at.clone()],
                &self.z[at.clone()],
                &self.value[at.clone()],
                &self.first[at.clone()],
            );
            *out = Local { value, mean, variance: 0.5 * slope / of.sd(i) };
            self.weight[at].iter_mut().for_each(|w| *w *= of.weight[i]);
        }
        if !own.is_empty() {
            let nodes = RowNodes { rows: of.rows, ends: &self.ends, f: &self.f };
            of.likelihood.own_gradients(nodes, &self.weight, own);
        }
    }
}

impl Integrator {
    /// `E log p(y|f)` or `log E p(y|f)` of every row with its derivatives; adds the weighted derivatives in ψ to `own` unless that is empty.
    pub fn expectations(
        &mut self,
        of: Expectation,
        block: LatentRows<'_>,
        own: &mut [f64],
        out: &mut [Local],
    ) {
        let LatentRows { likelihood, rows, mean, .. } = block;
        if of == Expectation::ExpectedLog {
            let place = |integrator: &mut Integrator, i: usize| {
                integrator.place(likelihood.resolution(rows[i]), mean[i], block.sd(i));
            };
            return self.by_parts(block, place, |nodes, some| {
                nodes.sum(block.range(some.clone()), own, &mut out[some]);
            });
        }
        // Grids in the search for the range have 64 nodes per row.
        for start in (0..rows.len()).step_by(NODES / 64) {
            let end = (start + NODES / 64).min(rows.len());
            self.log_predictives(block.range(start..end), own, &mut out[start..end]);
        }
    }

    /// Places the nodes of one row after the other, and evaluates the likelihood whenever there are
    /// enough; `finish` then receives the nodes of these rows.
    fn by_parts(
        &mut self,
        of: LatentRows<'_>,
        place: impl Fn(&mut Integrator, usize),
        mut finish: impl FnMut(&mut Nodes, Range<usize>),
    ) {
        let mut nodes = Nodes::default();
        let mut start = 0;
        for i in 0..of.rows.len() {
            place(self, i);
            nodes.push(self);
            if nodes.f.len() >= NODES || i + 1 == of.rows.len() {
                nodes.evaluate(of.likelihood, &of.rows[start..=i]);
                finish(&mut nodes, start..i + 1);
                nodes.clear();
                start = i + 1;
            }
        }
    }

    /// `log E p(y|f)` of rows whose grids fit into one evaluation.
    fn log_predictives(&mut self, of: LatentRows<'_>, own: &mut [f64], out: &mut [Local]) {
        let ranges = match &self.fixed {
            Some(rule) => vec![(-REACH, REACH, rule.step); of.rows.len()],
            None => self.scanned_ranges(of),
        };
        let place = |integrator: &mut Integrator, i: usize| {
            let (low, high, step) = ranges[i];
            integrator.place_evenly(Interval { low, high }, step, of.mean[i], of.sd(i));
        };
        self.by_parts(of, place, |nodes, rows| {
            let integrals: Vec<f64> = (0..rows.len()).map(|k| nodes.tilt(k)).collect();
            let out = &mut out[rows.clone()];
            nodes.sum(of.range(rows), own, out);
            for (out, value) in out.iter_mut().zip(integrals) {
                let undefined = Local { value, mean: f64::NAN, variance: f64::NAN };
                *out = if value.is_finite() { Local { value, ..*out } } else { undefined };
            }
        });
    }

    /// The ranges that hold `p(y|f) N(f; μ, v)` of every row, each with a step that resolves it there.
    fn scanned_ranges(&mut self, of: LatentRows<'_>) -> Vec<(f64, f64, f64)> {
        let mut peaks = vec![0.0; of.rows.len()];
        of.likelihood.peaks(of.rows, &mut peaks);
        let mut ranges: Vec<Interval> =
            peaks.iter().enumerate().map(|(i, peak)| range_around((peak - of.mean[i]) / of.sd(i))).collect();
        let mut open: Vec<usize> = (0..of.rows.len()).collect();
        let (mut nodes, mut rows) = (Nodes::default(), Vec::new());
        for _ in 0..SCANS {
            nodes.clear();
            rows.clear();
            for &i in &open {
                let range = ranges[i];
                let step = (range.high - range.low) / SCAN_STEPS as f64;
                self.place_evenly(range, step, of.mean[i], of.sd(i));
                nodes.push(self);
                rows.push(of.rows[i]);
            }
            nodes.evaluate(of.likelihood, &rows);
            let mut place = 0;
            open.retain(|&i| {
                let at = nodes.range(place);
                place += 1;
                let (range, done) = inside(&nodes.z[at.clone()], &nodes.value[at]);
                ranges[i] = range;
                !done
            });
            if open.is_empty() {
                break;
            }
        }
        let with_step = |(i, range): (usize, Interval)| {
            let ratio = of.sd(i) / of.likelihood.resolution(of.rows[i]).step;
            (range.low, range.high, step_of_product(range, ratio))
        };
        ranges.into_iter().enumerate().map(with_step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Poisson, StudentT};

    /// Compares on enough rows for several evaluations, with marginals from narrow to wide.
    fn compare(likelihood: &dyn OneFunction, targets: &[f64], nodes: Option<usize>) {
        let rows: Vec<_> = (0..300).map(|i| Observation::of(targets[i % targets.len()])).collect();
        let mean: Vec<f64> = (0..300).map(|i| (0.37 * i as f64).sin()).collect();
        let variance: Vec<f64> = (0..300).map(|i| 10f64.powi(i % 7 - 4)).collect();
        let weight: Vec<f64> = (0..300).map(|i| 1.0 + (i % 3) as f64).collect();
        let of = LatentRows { likelihood, rows: &rows, mean: &mean, variance: &variance, weight: &weight };
        for kind in [Expectation::ExpectedLog, Expectation::LogPredictive] {
            let mut integrator = Integrator::new(nodes);
            let (mut own, mut many) = (vec![0.0; likelihood.own_len()], vec![Local::default(); rows.len()]);
            integrator.expectations(kind, of, &mut own, &mut many);
            let mut expected = vec![0.0; own.len()];
            for (i, many) in many.iter().enumerate() {
                let row = Row::new(rows[i], LatentMarginal::new(mean[i], variance[i]));
                let mut part = vec![0.0; own.len()];
                let one = integrator.expectation(kind, likelihood, row, &mut part);
                let apart = [many.value - one.value, many.mean - one.mean, many.variance - one.variance];
                assert!(
                    apart.iter().all(|d| d.abs() < 1e-9 * (1.0 + one.variance.abs())),
                    "{many:?} {one:?}"
                );
                expected.iter_mut().zip(part).for_each(|(sum, part)| *sum += weight[i] * part);
            }
            for (own, expected) in own.iter().zip(expected) {
                assert!((own - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{own} {expected}");
            }
        }
    }

    #[test]
    fn many_rows_have_the_expectations_of_single_ones() {
        compare(&StudentT::new(0.5, 4.0), &[-2.0, 0.1, 30.0], None);
        compare(&StudentT::new(0.5, 4.0), &[-2.0, 0.1, 30.0], Some(20));
        compare(&Poisson::Exp, &[0.0, 2.0, 7.0], None);
    }
}
