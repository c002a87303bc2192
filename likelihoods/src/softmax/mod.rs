//! One of C classes, `p(y|f) = e^{f_y}/Σ_c e^{f_c}`, exactly: all expectations are one-dimensional integrals.
//!
//! With `φ(a; v) = E exp(−exp(a + √v ε))`, the f_c independent, and `Π_S(s) = Π_{c∈S} φ(s + μ_c; v_c)`:
//!
//! - `E log Σ_c e^{f_c} − μ_k = ∫ φ(s + μ_k; v_k) (1 − Π_{c≠k}) ds` for any k, as `log a − log b = ∫ [exp(−b e^s) − exp(−a e^s)] ds`
//!   (Frullani); its derivative in μ_c is `E softmax_c = −∫ φ′(s + μ_c; v_c) Π_{c′≠c} ds`.
//! - `E softmax_y` is this integral, since `1/S = ∫ e^{−tS} dt`, t = e^s: the probability of y, for any number of classes.
//! - Derivatives in μ_c are integrals with φ′_c in place of φ_c; in v_c with ½ φ″_c, as φ solves the heat equation.
//!
//! The integrands are analytic, so a trapezoidal rule converges exponentially. Those of
//! probabilities are log-concave (each factor is a convolution of log-concave functions), so the
//! sums can proceed from any point to both sides until the rest is negligible.

mod curve;
mod integrals;
mod wide;

use super::{
    Expectation, LatentMarginal, Likelihood, LikelihoodKind, Marginal, Observation, Row, Slopes, TargetKind,
};
use crate::quadrature::Integrator;
use curve::{Accuracy, Block, Curve, How, LANES, Lanes, Panel, STEP, WIDEST, WIDEST_SUMMED, stride};
use integrals::{Density, Ends, LogSum, Running, Share, add, multiply};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::vector_math::dispatch;

/// The maximum number of panels of an integral on either side.
const MOST_PANELS: usize = 4000;

/// The maximum distance of a mean below the largest one; means that are farther away are moved to this distance.
const FARTHEST: f64 = 1e9;

/// The lower limit of products of probabilities that are divided by one of their factors.
const TINY: f64 = 1e-300;

/// Classes, one for every function: `p(y|f) = e^{f_y}/Σ_c e^{f_c}`.
#[derive(Clone, Debug)]
pub struct Softmax {
    classes: usize,
}

impl Softmax {
    /// Creates the likelihood for this number of classes, at least 2.
    pub fn new(classes: usize) -> Self {
        Softmax { classes: classes.max(2) }
    }

    /// The class of a target, if it is one.
    fn class(&self, y: f64) -> Option<usize> {
        let is_class = TargetKind::Class.admits(y) && y < self.classes as f64;
        is_class.then_some(y as usize)
    }
}

/// The nodes and the accuracy of integrals over classes; means are relative to the largest one, which belongs to the class `top`.
#[derive(Clone, Copy, Debug)]
struct Grid {
    top: usize,
    /// True if curves are tabulated.
    tabulated: bool,
    /// The distance between evenly spaced nodes, in steps.
    stride: usize,
    /// True if tiny curves need all their digits, as they do when multiplied by a growing density.
    tails: bool,
    accuracy: &'static Accuracy,
}

impl Grid {
    /// Returns the grid; `None` if a mean or variance is not a number.
    fn of(Marginal { mean, variance }: Marginal<'_>, classes: usize) -> Option<Grid> {
        let usable = mean.len() == classes && variance.len() == classes;
        if !usable || !mean.iter().chain(variance).all(|x| x.is_finite()) {
            return None;
        }
        let top = (1..classes).fold(0, |a, b| if mean[b] > mean[a] { b } else { a });
        let tabulated = variance.iter().all(|v| *v <= WIDEST);
        Some(Grid { top, tabulated, stride: 1, tails: true, accuracy: &Accuracy::EXACT })
    }

    /// Returns the grid for integrals without densities, whose terms have no small scale: nodes are as far apart as the curves allow.
    fn summed(self, Marginal { variance, .. }: Marginal<'_>, coarse: bool) -> Grid {
        let tabulated = variance.iter().all(|v| *v <= WIDEST_SUMMED);
        let accuracy = if coarse { &Accuracy::COARSE } else { &Accuracy::EXACT };
        let stride = if tabulated { stride(variance, accuracy) } else { 1 };
        Grid { tabulated, stride, tails: false, accuracy, ..self }
    }

    /// Returns the distance between evenly spaced nodes.
    fn step(self) -> f64 {
        self.stride as f64 * STEP
    }

    /// Returns the mean of a class, relative to the largest mean, and its variance. A class whose mean is [`FARTHEST`] below contributes to
    /// no integral except its own.
    fn place(self, marginal: Marginal<'_>, class: usize) -> LatentMarginal {
        let LatentMarginal { mean: mu, variance: v } = marginal.of(class);
        LatentMarginal::new((mu - marginal.mean[self.top]).max(-FARTHEST), v.max(0.0))
    }

    /// Returns `ends` with `lacking` set to 1 if curves are not tabulated: their scales hide the
    /// missing share.
    fn ends(self, ends: Ends) -> Ends {
        Ends { lacking: if self.tabulated { ends.lacking } else { 1.0 }, ..ends }
    }

    /// Returns the part of the distance of a mean that [`place`](Self::place) removes.
    fn beyond(self, marginal: Marginal<'_>, class: usize) -> f64 {
        (marginal.mean[class] - marginal.mean[self.top] + FARTHEST).min(0.0)
    }
}

/// The buffers of integrals over classes.
#[derive(Clone, Debug, Default)]
struct Scratch {
    curves: Vec<Curve>,
    /// The curves at `μ_c + v_c`.
    tilted: Vec<Curve>,
    weights: Vec<f64>,
    blocks: Vec<Block>,
    densities: Vec<Block>,
    /// Two sums over nodes for every class.
    sums: Vec<[Lanes; 2]>,
    running: Vec<Running>,
}

impl Scratch {
    /// Sets the curves of all classes, and the tilted ones that are requested.
    fn set(&mut self, grid: Grid, marginal: Marginal<'_>, tilted: impl Fn(usize) -> bool) {
        let classes = marginal.mean.len();
        self.curves.clear();
        self.tilted.clear();
        self.weights.clear();
        self.blocks.resize(classes, Block::default());
        self.densities.resize(classes, Block::default());
        self.sums.clear();
        self.sums.resize(classes, [[0.0; LANES]; 2]);
        for c in 0..classes {
            let latent = grid.place(marginal, c);
            let tabulate = grid.tabulated.then_some(grid.stride);
            let how = How { tabulate, tail: grid.tails, accuracy: grid.accuracy };
            self.curves.push(Curve::new(latent, how, &mut self.weights));
            if tilted(c) {
                let LatentMarginal { mean: mu, variance: v } = latent;
                let latent = LatentMarginal::new(if grid.tabulated { mu + v } else { mu }, v);
                self.tilted.push(Curve::new(latent, How { tail: true, ..how }, &mut self.weights));
            }
        }
    }

    /// Evaluates all curves at a panel, except one; with derivatives if they are requested.
    fn fill(&mut self, panel: &Panel, derivatives: bool, except: Option<usize>) {
        for (c, (curve, block)) in self.curves.iter().zip(&mut self.blocks).enumerate() {
            match () {
                () if except == Some(c) => {}
                () if derivatives => curve.fill::<3>(panel, &self.weights, block),
                () => curve.fill::<1>(panel, &self.weights, block),
            }
        }
    }

    /// Returns the panel on one side of s that resolves all curves. With evenly spaced nodes it is the panel with this number, counted from
    /// s = 0.
    fn panel(&self, grid: Grid, number: i64, s: f64, right: bool) -> Panel {
        let width = LANES as i64;
        if grid.tabulated {
            return Panel::even(number * width - width / 2, grid.stride);
        }
        let width = self.curves.iter().map(|curve| curve.resolved(s)).fold(f64::INFINITY, f64::min);
        if right { Panel::between(s, s + width) } else { Panel::between(s - width, s) }
    }

    /// Returns the end of a panel on one side.
    fn end(panel: &Panel, right: bool) -> f64 {
        let total: f64 = panel.weights.iter().sum();
        let middle = 0.5 * (panel.nodes[0] + panel.nodes[LANES - 1]);
        if right { middle + 0.5 * total } else { middle - 0.5 * total }
    }

    /// Calls `visit` for the panels to the right of `start`, and then for those to its left. Each side ends when `visit` returns true.
    /// The last argument of `visit` is true on the right.
    fn sweep(&mut self, grid: Grid, start: f64, mut visit: impl FnMut(&mut Self, &Panel, bool) -> bool) {
        let first = (start / (grid.step() * LANES as f64)).floor() as i64;
        for right in [true, false] {
            let mut s = start;
            for k in 0..MOST_PANELS as i64 {
                let panel = self.panel(grid, if right { first + k } else { first - 1 - k }, s, right);
                if visit(self, &panel, right) {
                    break;
                }
                s = Self::end(&panel, right);
            }
        }
    }
}

/// Returns `E log Σ_c e^{f_c}` minus the largest mean. If derivatives are requested, `scratch.sums` receives the integrals with `−φ′` and
/// `φ″` of every class.
fn expected_log_sum(grid: Grid, derivatives: bool, scratch: &mut Scratch) -> f64 {
    let left = scratch.curves.iter().map(|curve| curve.left_end(grid.accuracy));
    let left = left.fold(f64::INFINITY, f64::min);
    let mut value = [0.0; LANES];
    let mut first = f64::INFINITY;
    scratch.sweep(grid, left, |scratch, panel, right| {
        if !right {
            return true;
        }
        scratch.fill(panel, derivatives, None);
        if !grid.tabulated {
            scratch.blocks.iter_mut().for_each(Block::unscaled);
        }
        first = first.min(panel.nodes[0]);
        let sums = if derivatives { &mut scratch.sums[..] } else { &mut [] };
        let (blocks, weights) = (&scratch.blocks[..], &panel.weights);
        let last = dispatch(LogSum { blocks, weights, top: grid.top, value: &mut value, sums });
        last <= grid.accuracy.negligible || last.is_nan()
    });
    let total: f64 = value.iter().sum();
    // Below the first node all integrands are proportional to e^s: the sum over even nodes, or the integral.
    let step = grid.step();
    let share = if grid.tabulated { step * first.exp() / step.exp_m1() } else { left.exp() };
    total + add_left_tail(share, grid.top, scratch)
}

/// Adds `share` times the factors of `e^s` to which the integrands are proportional far to the left, and returns their sum over all classes
/// except `top`.
fn add_left_tail(share: f64, top: usize, scratch: &mut Scratch) -> f64 {
    let mut total = 0.0;
    for (c, (curve, sums)) in scratch.curves.iter().zip(&mut scratch.sums).enumerate() {
        if curve.is_exponential() {
            let tail = share * curve.rate();
            sums[0][0] += tail;
            sums[1][0] -= tail;
            total += if c == top { 0.0 } else { tail };
        }
    }
    total
}

/// Returns `E softmax_y`. If derivatives are requested, `scratch.sums` receives them. The first tilted curve belongs to y.
fn probability(grid: Grid, class: usize, derivatives: bool, scratch: &mut Scratch) -> Running {
    let mut running = Running::default();
    scratch.sweep(grid, 0.0, |scratch, panel, right| {
        scratch.fill(panel, derivatives, Some(class));
        let Scratch { tilted, blocks, densities, weights, sums, .. } = scratch;
        tilted[0].fill_density(panel, weights, &mut densities[0]);
        if !grid.tabulated {
            let mut logs = densities[0].logs;
            let others = blocks.iter().enumerate().filter(|(c, _)| *c != class);
            others.for_each(|(_, block)| add(&mut logs, &block.logs));
            densities[0].set_logs(&logs);
        }
        let (factor, past) = running.admit(densities[0].scale);
        if past != 1.0 {
            sums.iter_mut().flatten().flatten().for_each(|sum| *sum *= past);
        }
        let sums = if derivatives { &mut sums[..] } else { &mut [] };
        let (density, weights) = (&densities[0].values[0], &panel.weights);
        let ends = dispatch(Density { blocks, density, class, factor, weights, sums });
        running.add(grid.ends(ends), right)
    });
    running.finish(grid);
    running
}

/// Computes `E softmax_c` for all c into `scratch.running`; the tilted curves of all classes are needed.
fn all_probabilities(grid: Grid, scratch: &mut Scratch) {
    scratch.running.clear();
    scratch.running.resize(scratch.curves.len(), Running::default());
    scratch.sweep(grid, 0.0, |scratch, panel, right| {
        scratch.fill(panel, false, None);
        let Scratch { tilted, blocks, densities, weights, running, .. } = scratch;
        let (mut product, mut logs) = ([1.0; LANES], [0.0; LANES]);
        for block in &*blocks {
            multiply(&mut product, &block.values[0]);
            add(&mut logs, &block.logs);
        }
        let mut last = true;
        for (((curve, block), density), running) in tilted.iter().zip(blocks).zip(densities).zip(running) {
            curve.fill_density(panel, weights, density);
            if !grid.tabulated {
                let others = std::array::from_fn(|l| logs[l] - block.logs[l] + density.logs[l]);
                density.set_logs(&others);
            }
            let (factor, _) = running.admit(density.scale);
            let (density, weights) = (&density.values[0], &panel.weights);
            let ends = dispatch(Share { product: &product, block, density, factor, weights });
            last &= running.add(grid.ends(ends), right);
        }
        last
    });
    scratch.running.iter_mut().for_each(|running| running.finish(grid));
}

/// Returns the largest number, and the sum of `e^{f_c}` divided by its exponential.
fn top_and_total(f: &[f64]) -> (f64, f64) {
    let top = f.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (top, f.iter().map(|f| (f - top).exp()).sum())
}

impl Likelihood for Softmax {
    fn kind(&self) -> LikelihoodKind {
        LikelihoodKind::Softmax
    }

    fn function_names(&self) -> Vec<String> {
        (0..self.classes).map(|class| format!("class_{class}")).collect()
    }

    fn alike(&self) -> bool {
        true
    }

    fn levels(&self) -> usize {
        self.classes
    }

    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]) {
        let (class, nodes) = (self.class(at.y), f.chunks(self.classes).zip(slope.chunks_mut(self.classes)));
        for ((f, slope), value) in nodes.zip(value) {
            let (top, total) = top_and_total(f);
            for (c, (slope, f)) in slope.iter_mut().zip(f).enumerate() {
                *slope = f64::from(u8::from(class == Some(c))) - (f - top).exp() / total;
            }
            *value = class.and_then(|class| f.get(class)).map_or(f64::NAN, |f| f - top - total.ln());
        }
    }

    /// `−p_c (1 − p_c)`.
    fn curvature(&self, _: Observation, f: &[f64], out: &mut [f64]) {
        for (f, out) in f.chunks(self.classes).zip(out.chunks_mut(self.classes)) {
            let (top, total) = top_and_total(f);
            for (out, f) in out.iter_mut().zip(f) {
                let own = (f - top).exp();
                *out = -own / total * ((total - own) / total);
            }
        }
    }

    fn highest(&self, _: Observation) -> Option<f64> {
        Some(0.0)
    }

    fn expectation(&self, of: Expectation, row: Row, slopes: Slopes, integrator: &mut Integrator) -> f64 {
        let (Slopes { mean, variance, .. }, marginal) = (slopes, row.marginal);
        let (Some(class), Some(grid)) = (self.class(row.at.y), Grid::of(marginal, self.classes)) else {
            mean.iter_mut().chain(variance).for_each(|slope| *slope = f64::NAN);
            return f64::NAN;
        };
        let mut kept = integrator.kept::<Scratch>();
        let scratch = &mut *kept;
        let derivatives = !mean.is_empty();
        let (value, [by_mean, by_variance]) = match of {
            Expectation::ExpectedLog => {
                let grid = grid.summed(marginal, integrator.is_coarse());
                scratch.set(grid, marginal, |_| false);
                let log_sum = expected_log_sum(grid, derivatives, scratch);
                (marginal.mean[class] - marginal.mean[grid.top] - log_sum, [-1.0, 0.5])
            }
            Expectation::LogPredictive => {
                scratch.set(grid, marginal, |c| c == class);
                let found = probability(grid, class, derivatives, scratch);
                let value = found.log() + grid.beyond(marginal, class);
                (value.min(0.0), [1.0, 0.5].map(|share| share / found.total))
            }
        };
        for (sums, (mean, variance)) in scratch.sums.iter().zip(mean.iter_mut().zip(variance)) {
            let [first, second] = sums.map(|sums| sums.iter().sum::<f64>());
            (*mean, *variance) = (by_mean * first, by_variance * second);
        }
        if derivatives {
            mean[class] = match of {
                Expectation::ExpectedLog => mean[class] + 1.0,
                // A number that is added to all means has no effect.
                Expectation::LogPredictive => -mean.iter().sum::<f64>(),
            };
        }
        integrator.keep(kept);
        value
    }

    fn probabilities(&self, marginal: Marginal<'_>, integrator: &mut Integrator, out: &mut [f64]) {
        let Some(grid) = Grid::of(marginal, self.classes) else {
            out.fill(f64::NAN);
            return;
        };
        let mut kept = integrator.kept::<Scratch>();
        let scratch = &mut *kept;
        scratch.set(grid, marginal, |_| true);
        all_probabilities(grid, scratch);
        for (c, (out, running)) in out.iter_mut().zip(&scratch.running).enumerate() {
            *out = (running.log() + grid.beyond(marginal, c)).exp().clamp(0.0, 1.0);
        }
        integrator.keep(kept);
    }

    /// Gumbel's trick: the largest of `f_c` plus independent Gumbel variables.
    fn sample(&self, _: Observation, f: &[f64], random: &mut ChaCha8Rng) -> f64 {
        let mut best = (f64::NAN, f64::NEG_INFINITY);
        for (c, f) in f.iter().enumerate() {
            let u: f64 = random.random();
            let perturbed = f - (-(1.0 - u).ln()).ln();
            if perturbed > best.1 {
                best = (c as f64, perturbed);
            }
        }
        best.0
    }

    /// The log odds of the indicator of each class, with half an event added on either side: `±log 3`, minus their mean over the classes.
    fn working_response(&self, at: Observation, out: &mut [f64]) {
        let class = self.class(at.y);
        let height = 3f64.ln();
        let mean = height * (2.0 / self.classes as f64 - 1.0);
        for (c, out) in out.iter_mut().enumerate() {
            *out = if class == Some(c) { height } else { -height } - mean;
        }
    }

    /// The logarithms of the class frequencies, with half a datum added to each, minus their mean over the classes.
    fn initialise(&mut self, y: &[f64], _: &[f64]) -> Vec<f64> {
        let mut counts = vec![0.5; self.classes];
        for &y in y {
            if let Some(class) = self.class(y) {
                counts[class] += 1.0;
            }
        }
        let logs: Vec<f64> = counts.iter().map(|count: &f64| count.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        logs.into_iter().map(|log| log - mean).collect()
    }
}
