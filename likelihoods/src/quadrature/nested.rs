//! Expectations over one function, whose integrand may itself be an expectation over another, with
//! as few nodes as possible.
//!
//! Trapezoidal rules on nested grids of `f = μ + √v z`: the step is halved until the last halving changes next to nothing. The error falls
//! exponentially in 1/step, so it is about the square of that change.

use super::{Expectation, Integrator, LatentMarginal, REACH, smallest};

/// The number of values that are averaged in addition to the value and its slope.
const REST: usize = 3;

/// A function of f at a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Point {
    pub value: f64,
    /// The value's derivative in f.
    pub first: f64,
    /// The other values averaged with the same weights.
    pub rest: [f64; REST],
}

/// Averages over the nodes; for logarithms, with the additional weights `e^value`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Average {
    pub value: f64,
    /// `∂/∂μ`.
    pub mean: f64,
    /// `∂/∂v`.
    pub variance: f64,
    pub rest: [f64; REST],
}

impl Average {
    /// A value that is not finite, with derivatives that are not numbers.
    fn lost(value: f64) -> Average {
        Average { value, mean: f64::NAN, variance: f64::NAN, rest: [f64::NAN; REST] }
    }
}

/// The nodes of an integral.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    list: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    z: f64,
    at: Point,
    weight: f64,
}

/// The relative difference between two rules below which the next halving is exact to about 1e-11.
const CHANGE: f64 = 1e-6;

/// Terms of an expectation are left out if they are below this share of the largest term.
const NEGLIGIBLE: f64 = 1e-16;

/// The exponent of this share for the logarithm of an expectation.
const DROP: f64 = 40.0;

/// The maximum number of halvings of the first step, which is 1 standard deviation.
const HALVINGS: u32 = 9;

/// The maximum number of halvings for averages of bounded functions, such as distribution functions, which may be costly.
const BOUNDED_HALVINGS: u32 = 6;

/// The number of cells of a grid in the search for a peak.
const CELLS: usize = 32;

/// The maximum numbers of grids in the search for a peak, and of halvings after it.
const LOOKS: usize = 40;
const REFINEMENTS: u32 = 8;

impl Integrator {
    /// `E g(f)` under N(μ, v), or `log E e^{g(f)}`, with derivatives through `f = μ + √v z`; g may take other expectations with the
    /// integrator. The nodes cover the range in which the terms matter, so an exponential in g only shifts the nodes.
    pub(crate) fn nested_expectation(
        &mut self,
        of: Expectation,
        latent: LatentMarginal,
        g: &mut dyn FnMut(f64, &mut Integrator) -> Point,
    ) -> Average {
        self.nested(|nodes, step, inner| match of {
            Expectation::ExpectedLog => refined(nodes, step, (HALVINGS, false), latent, &mut |f| g(f, inner)),
            Expectation::LogPredictive => log_expected(nodes, step, latent, false, &mut |f| g(f, inner)),
        })
    }

    /// Like [`nested_expectation`](Self::nested_expectation), for any g: the step is halved until the derivatives settle
    /// too, because the value may be exact by symmetry.
    pub(crate) fn careful_expectation(
        &mut self,
        of: Expectation,
        latent: LatentMarginal,
        g: &mut dyn FnMut(f64) -> Point,
    ) -> Average {
        self.nested(|nodes, step, _| match of {
            Expectation::ExpectedLog => refined(nodes, step, (HALVINGS, true), latent, g),
            Expectation::LogPredictive => log_expected(nodes, step, latent, true, g),
        })
    }

    /// `E g(f)` under N(μ, v) of a bounded g, which may take other expectations with the integrator.
    pub(crate) fn nested_average(
        &mut self,
        latent: LatentMarginal,
        g: &mut dyn FnMut(f64, &mut Integrator) -> f64,
    ) -> f64 {
        self.nested(|nodes, step, inner| {
            if step.is_none()
                && let Some(average) = calm_average(latent, &mut |f| g(f, inner))
            {
                return average;
            }
            let mut point = |f: f64| Point { value: g(f, inner), ..Point::default() };
            refined(nodes, step, (BOUNDED_HALVINGS, false), latent, &mut point).value
        })
    }

    /// Returns the nodes of the last [`nested_expectation`](Self::nested_expectation) as values of f, and their weights, which sum to 1.
    pub(crate) fn nested_nodes(&self, latent: LatentMarginal) -> (Vec<f64>, Vec<f64>) {
        let sd = smallest(latent.mean, latent.variance).sqrt();
        let total: f64 = self.nested.list.iter().map(|node| node.weight).sum();
        self.nested.list.iter().map(|node| (latent.mean + sd * node.z, node.weight / total)).unzip()
    }

    /// Lends the nodes of the outer expectation, and the requested step, if there is one.
    fn nested<T>(&mut self, run: impl FnOnce(&mut Nodes, Option<f64>, &mut Integrator) -> T) -> T {
        let mut nodes = std::mem::take(&mut self.nested);
        let found = run(&mut nodes, self.fixed.as_ref().map(|rule| rule.step), self);
        self.nested = nodes;
        found
    }
}

/// Returns the average by Gauss–Hermite rules of three and five nodes, if f hardly varies and both
/// rules agree.
fn calm_average(latent: LatentMarginal, g: &mut dyn FnMut(f64) -> f64) -> Option<f64> {
    let LatentMarginal { mean: mu, variance: v } = latent;
    /// The maximum standard deviation of f: far below 1, the scale on which functions of f vary.
    const CALM: f64 = 0.05;
    const AGREES: f64 = 1e-9;
    const NODES: [(f64, f64); 2] =
        [(1.355_626_179_974_266, 0.222_075_922_005_612_6), (2.856_970_013_872_806, 0.011_257_411_327_720_71)];
    let sd = smallest(mu, v).sqrt();
    if sd > CALM {
        return None;
    }
    let mut pair = |z: f64| g(mu - sd * z) + g(mu + sd * z);
    let (outer, five) = (pair(3f64.sqrt()), NODES.map(|(z, weight)| weight * pair(z)));
    let centre = g(mu);
    let (three, five) = ((4.0 * centre + outer) / 6.0, 8.0 / 15.0 * centre + five[0] + five[1]);
    ((three - five).abs() <= AGREES).then_some(five)
}

/// Refines an average at most so often; `with_variance` requires that the derivative in v settles too.
fn refined(
    nodes: &mut Nodes,
    step: Option<f64>,
    (halvings, with_variance): (u32, bool),
    latent: LatentMarginal,
    g: &mut dyn FnMut(f64) -> Point,
) -> Average {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let sd = smallest(mu, v).sqrt();
    let mut node = |z: f64| {
        let at = g(mu + sd * z);
        Node { z, at, weight: (-0.5 * z * z).exp() }
    };
    if let Some(step) = step {
        nodes.fill(step, node);
        return nodes.average(sd);
    }
    nodes.list.clear();
    nodes.list.push(node(0.0));
    for sign in [1.0, -1.0] {
        let mut most = nodes.list[0].size();
        let mut last = f64::INFINITY;
        for k in 1..38 {
            let next = node(sign * f64::from(k));
            let size = next.size();
            nodes.list.push(next);
            let falls = size <= last && size <= NEGLIGIBLE * most;
            (most, last) = (most.max(size), size);
            if k >= REACH as i32 && falls || !size.is_finite() {
                break;
            }
        }
    }
    let ends =
        nodes.list.iter().fold((0.0f64, 0.0f64), |ends, node| (ends.0.min(node.z), ends.1.max(node.z)));
    let mut step = 1.0;
    let mut average = nodes.average(sd);
    for _ in 0..halvings {
        if !average.value.is_finite() {
            break;
        }
        let before = average;
        let count = ((ends.1 - ends.0) / step).round() as usize;
        nodes.list.extend((0..count).map(|k| node(ends.0 + (k as f64 + 0.5) * step)));
        step *= 0.5;
        average = nodes.average(sd);
        let [value, slope, bend] = nodes.sizes();
        let settled = (average.value - before.value).abs() <= CHANGE * value
            && (average.mean - before.mean).abs() <= CHANGE * slope
            && (!with_variance || 2.0 * sd * (average.variance - before.variance).abs() <= CHANGE * bend);
        if settled {
            break;
        }
    }
    average
}

fn log_expected(
    nodes: &mut Nodes,
    step: Option<f64>,
    latent: LatentMarginal,
    with_slope: bool,
    g: &mut dyn FnMut(f64) -> Point,
) -> Average {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let sd = smallest(mu, v).sqrt();
    let mut node = |z: f64| {
        let at = g(mu + sd * z);
        Node { z, at, weight: at.value - 0.5 * z * z }
    };
    let mut step = match step {
        Some(step) => {
            nodes.fill(step, node);
            return nodes.log_average(step, sd);
        }
        None => nodes.find_peak(&mut node),
    };
    let first = nodes.list.first().map_or(0.0, |node| node.z);
    // Every second node of the grid that found the peak.
    let mut before = nodes.coarse_log_sum(step);
    let mut slope_before = if with_slope { nodes.log_slope(2) } else { (0.0, 0.0) };
    for _ in 0..=REFINEMENTS {
        let sum = nodes.log_sum(step);
        let slope = if with_slope { nodes.log_slope(1) } else { (0.0, 0.0) };
        let change = (sum - before).abs();
        let steady = (slope.0 - slope_before.0).abs() <= CHANGE * slope.1;
        if change <= CHANGE && steady || change.is_nan() {
            break;
        }
        slope_before = slope;
        let count = nodes.list.len() - 1;
        nodes.list.extend((0..count).map(|k| node(first + (k as f64 + 0.5) * step)));
        step *= 0.5;
        before = sum;
    }
    nodes.log_average(step, sd)
}

impl Node {
    /// Returns the largest possible contribution of the node.
    fn size(&self) -> f64 {
        self.weight * (self.at.value.abs() + self.at.first.abs())
    }
}

impl Nodes {
    /// Replaces the nodes by nodes at all multiples of a step within reach.
    fn fill(&mut self, step: f64, mut node: impl FnMut(f64) -> Node) {
        let half = (REACH / step).round() as i64;
        self.list.clear();
        self.list.extend((-half..=half).map(|k| node(k as f64 * step)));
    }

    /// Returns weighted averages; a term whose weight has underflowed is 0.
    fn average(&self, sd: f64) -> Average {
        let mut total = 0.0;
        let mut sum = Average { value: 0.0, mean: 0.0, variance: 0.0, rest: [0.0; REST] };
        for Node { z, at, weight } in self.list.iter().filter(|node| node.weight > 0.0) {
            total += weight;
            sum.value += weight * at.value;
            sum.mean += weight * at.first;
            sum.variance += weight * z * at.first;
            sum.rest.iter_mut().zip(at.rest).for_each(|(sum, rest)| *sum += weight * rest);
        }
        if !sum.value.is_finite() {
            return Average::lost(sum.value);
        }
        let scale = total.recip();
        Average {
            value: scale * sum.value,
            mean: scale * sum.mean,
            variance: 0.5 * scale * sum.variance / sd,
            rest: sum.rest.map(|rest| scale * rest),
        }
    }

    /// The averages of the sizes of value, slope and slope times z.
    fn sizes(&self) -> [f64; 3] {
        let total: f64 = self.list.iter().map(|node| node.weight).sum();
        let size = |of: fn(&Node) -> f64| {
            self.list.iter().map(|node| node.weight * of(node).abs()).sum::<f64>() / total
        };
        [size(|node| node.at.value), size(|node| node.at.first), size(|node| node.z * node.at.first)]
    }

    fn top(&self) -> f64 {
        self.list.iter().map(|node| node.weight).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns `log Σ` of the terms, whose weights are logarithms.
    fn log_sum(&self, step: f64) -> f64 {
        let top = self.top();
        top + (step * self.list.iter().map(|node| (node.weight - top).exp()).sum::<f64>()).ln()
    }

    /// Like [`log_sum`](Self::log_sum), with every second node of an even grid.
    fn coarse_log_sum(&self, step: f64) -> f64 {
        let top = self.top();
        let every_second = self.list.iter().step_by(2);
        top + (2.0 * step * every_second.map(|node| (node.weight - top).exp()).sum::<f64>()).ln()
    }

    /// Returns the weighted averages of the slope and of its size over every so many nodes, whose weights are logarithms.
    fn log_slope(&self, every: usize) -> (f64, f64) {
        let top = self.top();
        let mut sums = [0.0; 3];
        for node in self.list.iter().step_by(every) {
            let weight = (node.weight - top).exp();
            if weight > 0.0 {
                sums = [
                    sums[0] + weight,
                    sums[1] + weight * node.at.first,
                    sums[2] + weight * node.at.first.abs(),
                ];
            }
        }
        (sums[1] / sums[0], sums[2] / sums[0])
    }

    fn log_average(&mut self, step: f64, sd: f64) -> Average {
        let value = self.log_sum(step) - 0.5 * (2.0 * std::f64::consts::PI).ln();
        if !value.is_finite() {
            return Average::lost(if value.is_nan() { self.top() } else { value });
        }
        let top = self.top();
        for node in &mut self.list {
            node.weight = (node.weight - top).exp();
            if node.weight == 0.0 {
                node.at = Point::default();
            }
        }
        Average { value, ..self.average(sd) }
    }

    /// Finds the nodes of an even grid over the range in which the integrand matters; returns their
    /// distance.
    fn find_peak(&mut self, node: &mut dyn FnMut(f64) -> Node) -> f64 {
        let (mut low, mut high) = (-9.0f64, 9.0f64);
        let mut step = 1.0;
        for _ in 0..LOOKS {
            step = (high - low) / CELLS as f64;
            self.list.clear();
            self.list.extend((0..=CELLS).map(|k| node(low + k as f64 * step)));
            let top = self.top();
            if !top.is_finite() {
                break;
            }
            // Beyond this distance, the normal density has fallen more than the integrand can have risen.
            let most = self.list.iter().map(|node| node.at.value).fold(top, f64::max);
            let reach = (2.0 * (DROP + most - top)).sqrt();
            let inside = |node: &Node| node.weight > top - DROP;
            let first = self.list.iter().position(inside).unwrap_or(0);
            let last = self.list.iter().rposition(inside).unwrap_or(CELLS);
            let opens = [(first == 0 && reach > -low, -1.0), (last == CELLS && reach > high, 1.0)];
            if opens.iter().any(|open| open.0) {
                // Extends the open side by at least half.
                low = if opens[0].0 { (1.5 * low - 1.0).max(-reach) } else { low };
                high = if opens[1].0 { (1.5 * high + 1.0).min(reach) } else { high };
                continue;
            }
            let (from, to) = (first.saturating_sub(1), (last + 1).min(CELLS));
            if 5 * (to - from) > 3 * CELLS {
                break;
            }
            (low, high) = (self.list[from].z, self.list[to].z);
        }
        step
    }
}
