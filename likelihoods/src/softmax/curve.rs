//! `φ(a; v) = E exp(−exp(a + √v ε))`, ε ~ N(0, 1), with two derivatives in a, on evenly spaced a.
//!
//! φ is the convolution of `T(u) = exp(−e^u)` with a normal density. Over a grid of step δ it is `Σ_k ω_k T(u_k)`,
//! `ω_k = δ N(u_k; a, v)`: the weights are the same for all a that lie on the grid, T and its derivatives are tabulated once, and what
//! is left are multiplications. With `T′ = −e^u T` and `T″ = (e^{2u} − e^u) T` in place of T the sums are φ′ and φ″. The error is
//! `e^{−2π²v/δ²}` or, as T is bounded for |Im u| ≤ π/2 only, `e^{−π²/δ + π²/8v}`: 1e-14 for δ ≤ 0.2 and √v ≥ 1.35 δ. Below the
//! finest grid φ is its series in v, `∂φ/∂v = ½ φ″` (the heat equation). By Girsanov's theorem `−φ′(a; v) = e^{a + v/2} φ(a + v; v)`,
//! which keeps all digits where φ′ is tiny.

use super::wide;
use crate::quadrature::Integrator;
use crate::{Expectation, LatentMarginal, Observation, Poisson, Row};
use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp, exp_in_place};
use std::sync::LazyLock;

/// The step of the nodes that tabulated curves are computed at. Integrals of products of curves over nodes have an error of
/// `e^{−π²/STEP}`, 3e-13, times powers of the outermost frequencies 2π/STEP for derivatives.
pub(super) const STEP: f64 = 0.34375;

/// The number of nodes that are computed together.
pub(super) const LANES: usize = 16;

/// A number for every node of a block.
pub(super) type Lanes = [f64; LANES];

/// The grids have steps `STEP/2`, `STEP/4`, …, `STEP/FINEST`.
const FINEST: usize = 64;

/// The range of the table of T, in steps: below it, T is 1 and its derivatives 0 to 4e-18; above it, all are 0.
const LOW: i64 = -117;
const HIGH: i64 = 20;

/// The logarithm (base 2) of the maximum distance of nodes, in steps.
const WIDEST_STRIDE: u32 = 6;

/// The lower limit of the logarithms of curves.
const LOWEST: f64 = -1e300;

/// The largest variance of a tabulated curve: with more, weights and exponents become too large,
/// and tails underflow.
pub(super) const WIDEST: f64 = 400.0;

/// The largest variance of a tabulated curve in integrals of sums.
pub(super) const WIDEST_SUMMED: f64 = 1e4;

/// The maximum distance of the nodes of narrow curves, in steps.
const FARTHEST_NARROW: usize = 2;

/// The accuracy of integrals, which determines their cost.
#[derive(Debug)]
pub(super) struct Accuracy {
    /// The smallest standard deviation of a normal density that a grid resolves, in steps δ of the
    /// grid; the error is `e^{−2π²v/δ²}`.
    resolved: f64,
    /// The step of the widest grid is STEP divided by this number.
    widest: usize,
    /// The number of standard deviations beyond which normal densities are neglected.
    reach: f64,
    /// The minimum distance of nodes in steps, a power of 2.
    stride: usize,
    /// The relative error of an integral that nodes farther apart may cause is `e^{−aliased/2}`.
    aliased: f64,
    /// Below `−(left + v)`, `1 − φ` counts as an exponential, up to `e^{−2 left}`.
    left: f64,
    /// The share of an integral below which the rest is negligible.
    pub negligible: f64,
}

impl Accuracy {
    /// Integrals with errors of 3e-13.
    pub const EXACT: Accuracy = Accuracy {
        resolved: 1.35,
        widest: 2,
        reach: 7.9,
        stride: 1,
        aliased: 66.0,
        left: 18.5,
        negligible: 1e-17,
    };

    /// Integrals with errors of 1e-6: `e^{−π²/(2 STEP)}` of nodes two steps apart is 6e-7.
    pub const COARSE: Accuracy = Accuracy {
        resolved: 0.95,
        widest: 1,
        reach: 5.6,
        stride: 2,
        aliased: 33.0,
        left: 9.0,
        negligible: 1e-9,
    };
}

/// T, T′ and T″ at `(t + p/phases) H`, where H is a distance of a power of 2 in steps and t =
/// `first`, …; one row of `length` entries for every p.
struct Table {
    phases: usize,
    /// The first entry of a row: windows that overlap with the range of T lie within it.
    first: i64,
    /// The last index t at which T is not 0.
    high: i64,
    length: usize,
    values: [Vec<f64>; 3],
}

impl Table {
    fn new(stride: usize) -> Table {
        let phases = phases(stride);
        let width = stride as i64;
        let (low, high) = (-(-LOW as u64).div_ceil(stride as u64).cast_signed(), (HIGH + width - 1) / width);
        let first = low - (LANES as i64 - 1);
        let length = (high - first) as usize + LANES;
        let mut values = [const { Vec::new() }; 3];
        for p in 0..phases {
            for t in 0..length {
                let place = (first + t as i64) as f64 + p as f64 / phases as f64;
                let u = place * (stride as f64 * STEP);
                let rate = u.exp();
                let value = (-rate).exp();
                values[0].push(value);
                values[1].push(-rate * value);
                // If e^u has overflowed, T and its derivatives are 0.
                values[2].push(if value > 0.0 { rate * (rate - 1.0) * value } else { 0.0 });
            }
        }
        values[1].iter_mut().filter(|slope| slope.is_nan()).for_each(|slope| *slope = 0.0);
        Table { phases, first, high, length, values }
    }

    /// Returns the table for nodes at this distance in steps, a power of 2.
    fn of(stride: usize) -> &'static Table {
        &TABLES[stride.trailing_zeros() as usize]
    }
}

/// Returns the number of phases of nodes at this distance in steps; for wide curves, phases only
/// have to resolve T.
fn phases(stride: usize) -> usize {
    if stride <= FARTHEST_NARROW { FINEST * stride } else { 2 * stride }
}

static TABLES: LazyLock<Vec<Table>> =
    LazyLock::new(|| (0..=WIDEST_STRIDE).map(|power| Table::new(1 << power)).collect());

/// Returns the distance that nodes may have, in steps, for integrals over a product of curves with
/// these variances. The spectrum of a curve falls as `e^{−vω²/2}`, that of a product as
/// `e^{−ω²/(2 Σ 1/v)}`; the error for the distance H is the spectrum at 2π/H.
pub(super) fn stride(variances: &[f64], accuracy: &Accuracy) -> usize {
    let inverse: f64 = variances.iter().map(|v| 1.0 / v.max(f64::MIN_POSITIVE)).sum();
    let widest = 2.0 * std::f64::consts::PI / (accuracy.aliased * inverse).sqrt() / STEP;
    let powers = (1..=WIDEST_STRIDE).take_while(|&power| f64::from(1u32 << power) <= widest);
    accuracy.stride.max(1 << powers.last().unwrap_or(0))
}

/// A curve at the nodes of a block: φ, φ′ and φ″, each times `e^{−scale}`. For curves that are not
/// tabulated it is 1, φ′/φ and φ″/φ, and log φ; for densities, only the density.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    pub values: [Lanes; 3],
    pub scale: f64,
    pub logs: Lanes,
}

impl Block {
    /// Converts from logarithms; small values underflow.
    pub(crate) fn unscaled(&mut self) {
        for values in &mut self.values {
            values.iter_mut().zip(self.logs).for_each(|(value, log)| *value *= log.exp());
        }
        self.logs = [0.0; LANES];
    }

    /// Sets the density from its logarithms, relative to the largest of them.
    pub(crate) fn set_logs(&mut self, logs: &Lanes) {
        self.scale = logs.iter().copied().fold(LOWEST, f64::max);
        self.values[0] = logs.map(|log| (log - self.scale).exp());
        self.logs = [0.0; LANES];
    }
}

/// Nodes at which curves are computed together, with their integration weights: multiples of
/// [`STEP`] from `from` on or, for curves that are not tabulated, the nodes of a Gauss–Legendre
/// rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel {
    from: i64,
    /// The distance between evenly spaced nodes, in steps.
    stride: usize,
    pub nodes: Lanes,
    pub weights: Lanes,
}

/// The positive nodes of the Gauss–Legendre rule with 16 nodes on (−1, 1), with their weights.
const LEGENDRE: [(f64, f64); LANES / 2] = [
    (0.095_012_509_837_637_44, 0.189_450_610_455_068_5),
    (0.281_603_550_779_258_9, 0.182_603_415_044_923_6),
    (0.458_016_777_657_227_37, 0.169_156_519_395_002_54),
    (0.617_876_244_402_643_7, 0.149_595_988_816_576_73),
    (0.755_404_408_355_003, 0.124_628_971_255_533_88),
    (0.865_631_202_387_831_7, 0.095_158_511_682_492_78),
    (0.944_575_023_073_232_6, 0.062_253_523_938_647_89),
    (0.989_400_934_991_649_9, 0.027_152_459_411_754_095),
];

impl Panel {
    /// Creates evenly spaced nodes at this distance in steps.
    pub(crate) fn even(from: i64, stride: usize) -> Panel {
        let step = stride as f64 * STEP;
        let nodes = std::array::from_fn(|l| (from + l as i64) as f64 * step);
        Panel { from, stride, nodes, weights: [step; LANES] }
    }

    /// Creates the nodes of a Gauss–Legendre rule between two ends.
    pub fn between(low: f64, high: f64) -> Panel {
        let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
        let (mut nodes, mut weights) = ([0.0; LANES], [0.0; LANES]);
        for (k, (node, weight)) in LEGENDRE.into_iter().enumerate() {
            for (l, sign) in [(LANES / 2 + k, 1.0), (LANES / 2 - 1 - k, -1.0)] {
                nodes[l] = middle + sign * half * node;
                weights[l] = half * weight;
            }
        }
        Panel { from: 0, stride: 1, nodes, weights }
    }
}

/// φ(s + μ; v) as a function of s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Curve {
    mu: f64,
    v: f64,
    method: Method,
}

#[derive(Clone, Copy, Debug)]
enum Method {
    /// The series in v.
    Series,
    /// Weights and their running sums by phase, which begin at `start` in a common buffer: for each
    /// of `phases` rows of the table, `count` weights for the entries from `first` on.
    Table { phases: usize, first: i64, count: usize, start: usize },
    /// A series or a sum at every node.
    Nodes,
}

/// The settings by which a curve is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// The distance in steps of the nodes of the table, or `None` to compute without a table.
    pub tabulate: Option<usize>,
    /// True if the upper tail needs all digits.
    pub tail: bool,
    pub accuracy: &'static Accuracy,
}

impl Curve {
    /// Creates the curve; appends its weights to the buffer.
    pub fn new(latent: LatentMarginal, how: How, weights: &mut Vec<f64>) -> Curve {
        let LatentMarginal { mean: mu, variance: v } = latent;
        let sd = v.sqrt();
        let How { tabulate, accuracy, .. } = how;
        let resolves =
            |finer: &usize| finer.is_power_of_two() && sd >= accuracy.resolved * STEP / *finer as f64;
        let method = match (tabulate, (accuracy.widest..=FINEST).find(resolves)) {
            (None, _) => Method::Nodes,
            (_, None) => Method::Series,
            (Some(stride), Some(finer)) if stride <= FARTHEST_NARROW => {
                Self::weigh(mu, sd, stride, stride * finer, how, weights)
            }
            (Some(stride), _) => Self::weigh(mu, sd, stride, stride * accuracy.widest, how, weights),
        };
        Curve { mu, v, method }
    }

    /// Computes the weights of a grid with `phases` points per distance H (`stride` steps): for phase p, at `((first + q) + p/phases) H`.
    fn weigh(
        mu: f64,
        sd: f64,
        stride: usize,
        phases: usize,
        How { tail, accuracy: Accuracy { reach, .. }, .. }: How,
        weights: &mut Vec<f64>,
    ) -> Method {
        let step = stride as f64 * STEP;
        // To the right T only falls; products with a factor e^u have their mass farther to the
        // left.
        let further = if tail { sd } else { 0.0 };
        let (low, high) = (mu - (reach + further) * sd, mu + reach * sd);
        let first = (low / step).floor() as i64;
        let count = ((high / step).ceil() as i64 - first) as usize + 1;
        let start = weights.len();
        for p in 0..phases {
            let offset = (first as f64 + p as f64 / phases as f64) * step - mu;
            weights.extend((0..count).map(|q| {
                let z = (offset + q as f64 * step) / sd;
                -0.5 * z * z
            }));
        }
        exp_in_place(&mut weights[start..]);
        let total: f64 = weights[start..].iter().sum();
        weights[start..].iter_mut().for_each(|w| *w /= total);
        for p in 0..phases {
            let mut below = 0.0;
            for q in 0..count {
                weights.push(below);
                below += weights[start + p * count + q];
            }
            weights.push(below);
        }
        Method::Table { phases, first, count, start }
    }

    /// Computes φ, and its derivatives if `N` is 3, at the nodes of a panel.
    pub fn fill<const N: usize>(&self, panel: &Panel, weights: &[f64], out: &mut Block) {
        let from = panel.from;
        (out.scale, out.logs) = (0.0, [0.0; LANES]);
        match self.method {
            Method::Series => {
                let step = panel.stride as f64 * STEP;
                dispatch(Series::<N> { from, step, mu: self.mu, v: self.v, out: &mut out.values });
            }
            Method::Table { phases, first, count, start } => {
                let (weights, sums) = weights[start..].split_at(phases * count);
                dispatch(Convolve::<N> {
                    table: Table::of(panel.stride),
                    phases,
                    first: from + first,
                    count,
                    weights,
                    sums,
                    out: &mut out.values,
                });
            }
            Method::Nodes => self.by_nodes(false, &panel.nodes, out),
        }
    }

    /// Computes `−φ′(s + μ; v)`, as a density of s, at the nodes, to full relative accuracy. A
    /// tabulated curve must be the curve with mean `μ + v`.
    pub(crate) fn fill_density(&self, panel: &Panel, weights: &[f64], out: &mut Block) {
        if let Method::Nodes = self.method {
            return self.by_nodes(true, &panel.nodes, out);
        }
        self.fill::<1>(panel, weights, out);
        // μ + v/2, from the mean μ + v.
        out.scale = panel.nodes[0] + self.mu - 0.5 * self.v;
        for (value, growth) in out.values[0].iter_mut().zip(&*GROWTH) {
            *value *= growth;
        }
    }

    /// Computes φ, or −φ′, at arbitrary nodes.
    fn by_nodes(&self, density: bool, nodes: &Lanes, out: &mut Block) {
        let [ones, first, second] = &mut out.values;
        (*ones, *first, *second) = ([1.0; LANES], [0.0; LANES], [0.0; LANES]);
        (out.logs, out.scale) = ([0.0; LANES], 0.0);
        let integrator = &mut Integrator::default();
        for l in 0..LANES {
            let a = nodes[l] + self.mu;
            // This far to the left φ is 1 to the last digit.
            if !density && (a < -40.0 - 0.5 * self.v || a < -9.0 * self.v.sqrt() - 40.0) {
                continue;
            }
            let of = match wide::curve(a, self.v) {
                Some([value, slope, bend]) if !density => [value.ln(), slope / value, bend / value],
                Some([_, slope, _]) => [(-slope).ln(), 0.0, 0.0],
                None if !density => count_of_zero(a, self.v, integrator),
                // −φ′(a; v) = e^{a + v/2} φ(a + v; v).
                None => {
                    let [log, ..] = count_of_zero(a + self.v, self.v, integrator);
                    [a + 0.5 * self.v + log, 0.0, 0.0]
                }
            };
            out.logs[l] = of[0].max(LOWEST);
            // If φ has underflowed its slopes may be infinite.
            if of[0] > LOWEST && of[1].is_finite() && of[2].is_finite() {
                (first[l], second[l]) = (of[1], of[2]);
            }
        }
    }

    /// Returns the width around s in which a panel resolves the curve: a few of its widths, or a part of the distance to its bend.
    pub fn resolved(&self, s: f64) -> f64 {
        (2.5 * self.v.sqrt().max(1.0)).max(0.3 * (s + self.mu).abs())
    }

    /// Returns a point below which φ is 1 and φ′ is 0, up to 1e-17 or, for small variances, up to a
    /// term of first order in `e^s` and a rest below the requested accuracy.
    pub(crate) fn left_end(&self, accuracy: &Accuracy) -> f64 {
        let v = self.v;
        let distance = match () {
            () if self.is_exponential() => accuracy.left + v,
            () if v < 78.0 => 39.0 + 0.5 * v,
            () => (78.0 * v).sqrt(),
        };
        -self.mu - distance
    }

    /// Returns true if φ is `1 − e^{s + μ + v/2}` below the [left end](Self::left_end).
    pub(crate) fn is_exponential(&self) -> bool {
        self.v < 41.0
    }

    /// Returns `e^{μ + v/2}`, the factor of `e^s` in `1 − φ` far to the left.
    pub fn rate(&self) -> f64 {
        (self.mu + 0.5 * self.v).exp()
    }
}

/// `log φ`, `φ′/φ` and `φ″/φ` at any a: φ is the probability that a Poisson count of log rate `N(a, v)` is 0.
fn count_of_zero(a: f64, v: f64, integrator: &mut Integrator) -> [f64; 3] {
    if v == 0.0 {
        let rate = a.exp();
        return [-rate, -rate, rate * (rate - 1.0)];
    }
    let row = Row::new(Observation::of(0.0), LatentMarginal::new(a, v));
    let local = integrator.expectation(Expectation::LogPredictive, &Poisson::Exp, row, &mut []);
    // The average of r² − r, where r is the rate and −r the slope of the log density.
    let terms = integrator.weight.iter().zip(&integrator.first);
    [local.value, local.mean, terms.map(|(weight, slope)| weight * slope * (slope + 1.0)).sum()]
}

/// `e^{l·STEP}`.
static GROWTH: LazyLock<Lanes> = LazyLock::new(|| std::array::from_fn(|l| (l as f64 * STEP).exp()));

struct Convolve<'a, const N: usize> {
    table: &'a Table,
    phases: usize,
    /// The entry of a row that belongs to the first weight at the first node.
    first: i64,
    count: usize,
    weights: &'a [f64],
    sums: &'a [f64],
    out: &'a mut [Lanes; 3],
}

impl<const N: usize> Pass for Convolve<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Convolve { table, phases, first, count, weights, sums, out } = self;
        let inside = |entry: i64| (entry - first).clamp(0, count as i64) as usize;
        let (from, to) = (inside(table.first), inside(table.high + 1));
        let below: f64 = (0..phases).map(|phase| sums[phase * (count + 1) + from]).sum();
        let width = 2 * S::F64_LANES;
        for lane in (0..LANES).step_by(width.min(LANES)) {
            let mut total = [[simd.splat_f64s(0.0); 2]; N];
            for phase in (0..phases).filter(|_| from < to) {
                let row = phase * (table.phases / phases) * table.length;
                let start = row + (first + from as i64 - table.first) as usize + lane;
                let rows: [&[f64]; N] =
                    std::array::from_fn(|i| &table.values[i][start..start + to - from + width - 1]);
                for (k, w) in weights[phase * count..][from..to].iter().enumerate() {
                    let w = simd.splat_f64s(*w);
                    for i in 0..N {
                        let (entries, _) = S::as_simd_f64s(&rows[i][k..k + width]);
                        total[i][0] = simd.mul_add_e_f64s(w, entries[0], total[i][0]);
                        total[i][1] = simd.mul_add_e_f64s(w, entries[1], total[i][1]);
                    }
                }
            }
            for (out, total) in out.iter_mut().zip(total) {
                let (vectors, _) = S::as_mut_simd_f64s(&mut out[lane..lane + width]);
                vectors.copy_from_slice(&total);
            }
        }
        // To the left of the table T is 1.
        out[0].iter_mut().for_each(|value| *value += below);
    }
}

struct Series<'a, const N: usize> {
    from: i64,
    step: f64,
    mu: f64,
    v: f64,
    out: &'a mut [Lanes; 3],
}

impl<const N: usize> Pass for Series<'_, N> {
    type Output = ();

    /// `T⁽ⁿ⁾ = Pₙ(e^u) T`, `P_{n+1}(r) = r Pₙ′ − r Pₙ`: Stirling numbers of the second kind with signs.
    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let Series { from, step, mu, v, out } = self;
        let (first, second) = (0.5 * v, 0.125 * v * v);
        let [values, slopes, bends] = out;
        for (l, value) in values.iter_mut().enumerate() {
            let u = (from + l as i64) as f64 * step + mu;
            // Beyond this T has underflowed.
            let r = exp::<S>(if u > 7.0 { 7.0 } else { u });
            let t = exp::<S>(-r);
            let p2 = r * (r - 1.0);
            let p4 = r * (((r - 6.0) * r + 7.0) * r - 1.0);
            *value = t * (1.0 + first * p2 + second * p4);
            if N == 3 {
                let p3 = -r * ((r - 3.0) * r + 1.0);
                let p5 = -r * ((((r - 10.0) * r + 25.0) * r - 15.0) * r + 1.0);
                let p6 = r * (((((r - 15.0) * r + 65.0) * r - 90.0) * r + 31.0) * r - 1.0);
                slopes[l] = t * (-r + first * p3 + second * p5);
                bends[l] = t * (p2 + first * p4 + second * p6);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(tabulate: Option<usize>, tail: bool) -> How {
        How { tabulate, tail, accuracy: &Accuracy::EXACT }
    }

    /// To leading orders in 1/w, with `w + log w = a + log v`, the logarithm is −(w²/2 + w)/v − log(1 + w)/2.
    #[test]
    fn the_logarithm_of_a_tiny_probability_keeps_its_digits() {
        let [log, ..] = count_of_zero(400.0, 1e-9, &mut Integrator::default());
        assert!((log / -7.007003599151857e13 - 1.0).abs() < 1e-14, "{log}");
    }

    /// All three methods agree where they overlap, far to the left and in the upper tail.
    #[test]
    fn curves_agree_at_every_node() {
        let mut weights = Vec::new();
        for v in [0.0, 1e-12, 1e-6, 7e-5, 8e-5, 1e-3, 0.02, 0.07, 0.08, 0.5, 3.0, 40.0, 390.0] {
            for mu in [-3.3, 0.17, 12.0] {
                weights.clear();
                let curve = Curve::new(LatentMarginal::new(mu, v), how(Some(1), true), &mut weights);
                let tilted = Curve::new(LatentMarginal::new(mu + v, v), how(Some(1), true), &mut weights);
                let slow = Curve::new(LatentMarginal::new(mu, v), how(None, false), &mut weights);
                for from in [-60, -35, -20, -10, 5] {
                    let (mut got, mut want) = (Block::default(), Block::default());
                    curve.fill::<3>(&Panel::even(from, 1), &weights, &mut got);
                    slow.fill::<3>(&Panel::even(from, 1), &weights, &mut want);
                    want.unscaled();
                    let at = format!("v {v} μ {mu} from {from}");
                    for (got, want) in got.values.iter().flatten().zip(want.values.iter().flatten()) {
                        assert!((got - want).abs() < 2e-11, "{at}: {got:e}, want {want:e}");
                    }
                    tilted.fill_density(&Panel::even(from, 1), &weights, &mut got);
                    slow.fill_density(&Panel::even(from, 1), &weights, &mut want);
                    for (got_value, want) in got.values[0].iter().zip(want.logs) {
                        let got = got_value.ln() + got.scale;
                        // Farther to the right no product of interest has mass.
                        let matters = want > -15.0 - 0.5 * v;
                        assert!(!matters || (got - want).abs() < 2e-9, "{at}: log {got}, want {want}");
                    }
                }
            }
        }
    }

    /// The curve is equal at nodes of any distance.
    #[test]
    fn nodes_farther_apart_are_a_subset() {
        let mut weights = Vec::new();
        for (v, stride) in [(1e-6, 2), (1e-3, 2), (0.5, 2), (2.0, 2), (30.0, 8), (600.0, 32), (9000.0, 64)] {
            assert_eq!(super::stride(&[v], &Accuracy::EXACT), if v < 1.0 { 1 } else { stride });
            let near = Curve::new(LatentMarginal::new(0.3, v), how(Some(1), false), &mut weights);
            let far = Curve::new(LatentMarginal::new(0.3, v), how(Some(stride), false), &mut weights);
            for from in [-40, -9, -3, 0, 2] {
                let (mut got, mut want) = (Block::default(), Block::default());
                far.fill::<3>(&Panel::even(from, stride), &weights, &mut got);
                for lane in 0..LANES {
                    let node = (from + lane as i64) * stride as i64;
                    near.fill::<3>(&Panel::even(node, 1), &weights, &mut want);
                    for (got, want) in got.values.iter().zip(&want.values) {
                        let (got, want) = (got[lane], want[0]);
                        assert!((got - want).abs() < 1e-13, "v {v} node {node}: {got:e}, want {want:e}");
                    }
                }
            }
        }
    }
}
