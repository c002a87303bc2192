//! Distributions of y from their log density alone: mass, moments and the distribution function by integration over y.
//!
//! Continuous targets are integrated outwards from the mode, in panels that are even in u for `x = mode ± scale · sinh u`, so that long tails
//! need few panels. x is y, or its logarithm or logit.

use super::TargetKind;
use crate::crps::{Axis, gauss_kronrod};

/// The log density of y.
pub(crate) type LogDensity<'a> = dyn FnMut(f64) -> f64 + 'a;

/// A distribution of y.
#[derive(Clone, Debug)]
pub(crate) struct Distribution {
    /// The integral of the density, 1 unless the formula is wrong.
    pub mass: f64,
    /// Infinite or NaN if it does not exist.
    pub mean: f64,
    /// Infinite or NaN if it does not exist.
    pub variance: f64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Line(Line),
    /// The sums of the probabilities of whole numbers from `first` on.
    Whole {
        first: f64,
        below: Vec<f64>,
    },
}

/// A continuous distribution.
#[derive(Clone, Debug)]
struct Line {
    axis: Axis,
    mode: f64,
    /// Below and above the mode.
    sides: [Side; 2],
}

/// The part of a distribution on one side of its mode.
#[derive(Clone, Debug)]
struct Side {
    scale: f64,
    /// The ends of the panels in u, and the masses between the mode and these.
    ends: Vec<f64>,
    masses: Vec<f64>,
    /// The integrals of `t − centre` and of its square, where `centre` is the target at the mode.
    moments: [f64; 2],
}

/// The width of a panel in u before it is halved.
const PANEL: f64 = 1.0;

/// The end of the range in u: tails are cut off at 1e17 scales.
const FARTHEST: f64 = 40.0;

/// The largest difference of the two rules in a panel.
const CLOSE: f64 = 1e-10;

/// The largest share of the mass, and of the second moment, in the last panel.
const NEGLIGIBLE: (f64, f64) = (1e-15, 1e-10);

/// The largest number of probabilities of whole numbers.
const MOST_WHOLE: usize = 2_000_000;

impl Distribution {
    /// Integrates the density of targets of a kind; `near` is a guess of y.
    pub fn new(kind: TargetKind, near: f64, density: &mut LogDensity<'_>) -> Distribution {
        match kind {
            TargetKind::Real
            | TargetKind::Measured
            | TargetKind::Censored
            | TargetKind::Positive
            | TargetKind::Lifetime
            | TargetKind::UnitInterval => Distribution::continuous(Axis::of(kind), near, density),
            TargetKind::Count | TargetKind::CensoredCount | TargetKind::Trials => {
                Distribution::whole(density)
            }
            _ => Distribution::of_sums(0.0, &[density(0.0).exp(), density(1.0).exp()]),
        }
    }

    fn continuous(axis: Axis, near: f64, density: &mut LogDensity<'_>) -> Distribution {
        let mut log = |x: f64| log_on_axis(axis, x, density);
        let mode = mode(axis, near, &mut log);
        let centre = axis.target(mode).0;
        let sides = [-1.0, 1.0].map(|sign| {
            let scale = drop_width(mode, sign, &mut log);
            Side::new(scale, &mut |u| {
                let (sinh, cosh) = sinh_cosh(u);
                let x = mode + sign * scale * sinh;
                let (t, p) = (axis.target(x).0, log(x).exp() * scale * cosh);
                // Where the density has underflowed, the target may have overflowed.
                if p == 0.0 { [0.0; 3] } else { [p, p * (t - centre), p * (t - centre).powi(2)] }
            })
        });
        let [low, high] = &sides;
        let mass = low.mass() + high.mass();
        let [first, second] = [0, 1].map(|k| (low.moments[k] + high.moments[k]) / mass);
        let mean = if first.is_finite() { centre + first } else { f64::NAN };
        let variance = if second.is_finite() { second - first * first } else { second };
        Distribution { mass, mean, variance, shape: Shape::Line(Line { axis, mode, sides }) }
    }

    /// Sums the probabilities of counts outwards from the mode.
    fn whole(density: &mut LogDensity<'_>) -> Distribution {
        let grid: Vec<f64> = (0..50).map(|k| if k == 0 { 0.0 } else { 2f64.powi(k - 1) }).collect();
        let best = best_of(&grid, density);
        let (mut low, mut high) = (grid[best.saturating_sub(1)], grid[(best + 1).min(grid.len() - 1)]);
        // The logarithm of the probability of a count has a single peak.
        while high - low > 1.0 {
            let middle = (0.5 * (low + high)).floor();
            if density(middle + 1.0) > density(middle) { low = middle + 1.0 } else { high = middle }
        }
        let mode = if density(high) > density(low) { high } else { low };
        let top = density(mode);
        let matters = |log: f64| log - top > -45.0;
        let (mut low, mut high) = (Vec::new(), vec![top.exp()]);
        while mode - low.len() as f64 > 0.0 && low.len() < MOST_WHOLE {
            let log = density(mode - low.len() as f64 - 1.0);
            low.push(log.exp());
            if !matters(log) {
                break;
            }
        }
        while high.len() < MOST_WHOLE {
            let log = density(mode + high.len() as f64);
            high.push(log.exp());
            if !matters(log) {
                break;
            }
        }
        let first = mode - low.len() as f64;
        let probabilities: Vec<f64> = low.into_iter().rev().chain(high).collect();
        Distribution::of_sums(first, &probabilities)
    }

    /// Creates the distribution of whole numbers from `first` on.
    fn of_sums(first: f64, probabilities: &[f64]) -> Distribution {
        let mass: f64 = probabilities.iter().sum();
        let places = || probabilities.iter().enumerate().map(|(k, p)| (first + k as f64, p / mass));
        let mean: f64 = places().map(|(y, p)| p * y).sum();
        let variance = places().map(|(y, p)| p * (y - mean).powi(2)).sum();
        let mut total = 0.0;
        let add = |p: &f64| {
            total += p;
            total
        };
        let below = probabilities.iter().map(add).collect();
        Distribution { mass, mean, variance, shape: Shape::Whole { first, below } }
    }

    /// `P(Y ≤ y)`.
    pub fn cdf(&self, y: f64, density: &mut LogDensity<'_>) -> f64 {
        match &self.shape {
            Shape::Line(line) => line.cdf(y, density),
            Shape::Whole { first, .. } if y < *first => 0.0,
            Shape::Whole { first, below } => {
                let place = (y.floor() - first).min(below.len() as f64 - 1.0);
                below[place as usize].min(1.0)
            }
        }
    }
}

impl Line {
    fn cdf(&self, y: f64, density: &mut LogDensity<'_>) -> f64 {
        let x = match self.axis {
            Axis::Line => y,
            _ if y <= 0.0 => return 0.0,
            Axis::Logit if y >= 1.0 => return 1.0,
            axis => axis.locate(y),
        };
        let (sign, side) = if x < self.mode { (-1.0, &self.sides[0]) } else { (1.0, &self.sides[1]) };
        let between = side.mass_to(((x - self.mode) * sign / side.scale).asinh(), &mut |u| {
            let (sinh, cosh) = sinh_cosh(u);
            let x = self.mode + sign * side.scale * sinh;
            log_on_axis(self.axis, x, density).exp() * side.scale * cosh
        });
        let tail = side.mass() - between;
        if sign < 0.0 { tail.clamp(0.0, 1.0) } else { (1.0 - tail).clamp(0.0, 1.0) }
    }
}

impl Side {
    /// Integrates the density and its first moments over u from 0 outwards.
    fn new(scale: f64, at: &mut dyn FnMut(f64) -> [f64; 3]) -> Side {
        let mut side = Side { scale, ends: vec![0.0], masses: vec![0.0], moments: [0.0; 2] };
        let (mut before, mut last) = ([0.0; 3], [0.0; 3]);
        let mut from = 0.0;
        while from < FARTHEST {
            before = last;
            last = side.panel(from, from + PANEL, 12, at);
            from += PANEL;
            let negligible = last[0] <= NEGLIGIBLE.0 * side.mass()
                && last[2].abs() <= NEGLIGIBLE.1 * side.moments[1].abs();
            if negligible || !side.moments[1].is_finite() {
                return side;
            }
        }
        // Beyond the last panel, tails fall by a power of their distance, and their panels geometrically.
        for (k, moment) in side.moments.iter_mut().enumerate() {
            let (last, ratio) = (last[k + 1], last[k + 1] / before[k + 1]);
            *moment += match ratio {
                _ if last.abs() <= NEGLIGIBLE.1 * moment.abs() => 0.0,
                ratio if ratio < 0.999 => last * ratio / (1.0 - ratio),
                _ => f64::INFINITY.copysign(*moment),
            };
        }
        side
    }

    fn mass(&self) -> f64 {
        self.masses[self.masses.len() - 1]
    }

    /// Adds a panel, halved where the two rules differ; returns its mass and moments.
    fn panel(&mut self, from: f64, to: f64, halvings: u32, at: &mut dyn FnMut(f64) -> [f64; 3]) -> [f64; 3] {
        let [(mass, gauss), (first, _), (second, _)] = gauss_kronrod(from, to, at);
        if halvings > 0 && (mass - gauss).abs() > CLOSE {
            let middle = 0.5 * (from + to);
            let [a, b] =
                [(from, middle), (middle, to)].map(|(from, to)| self.panel(from, to, halvings - 1, at));
            return [0, 1, 2].map(|k| a[k] + b[k]);
        }
        self.masses.push(self.mass() + mass);
        self.ends.push(to);
        self.moments = [self.moments[0] + first, self.moments[1] + second];
        [mass, first, second]
    }

    /// Returns the mass between the mode and u.
    fn mass_to(&self, u: f64, at: &mut dyn FnMut(f64) -> f64) -> f64 {
        let panel = self.ends.partition_point(|end| *end <= u);
        if panel == self.ends.len() {
            return self.mass();
        }
        let panel = panel.max(1) - 1;
        let [(rest, _)] = gauss_kronrod(self.ends[panel], u.max(self.ends[panel]), &mut |u| [at(u)]);
        self.masses[panel] + rest
    }
}

/// Returns the log density of x.
fn log_on_axis(axis: Axis, x: f64, density: &mut LogDensity<'_>) -> f64 {
    let (t, slope) = axis.target(x);
    if axis == Axis::Line { density(t) } else { density(t) + slope.ln() }
}

fn sinh_cosh(u: f64) -> (f64, f64) {
    let (e, inverse) = (u.exp(), (-u).exp());
    (0.5 * (e - inverse), 0.5 * (e + inverse))
}

/// Returns the highest point of a log density on an axis: uphill from `near` or, where the density is 0 there, from a grid.
fn mode(axis: Axis, near: f64, log: &mut LogDensity<'_>) -> f64 {
    if axis == Axis::Line && log(near) > -1e3 {
        return climb(near, 0.1, log);
    }
    let grid: Vec<f64> = match axis {
        Axis::Line => {
            let steps = (-12..32).map(|k| 10f64.powf(0.25 * f64::from(k)));
            let around = |centre: f64| steps.clone().flat_map(move |step| [centre - step, centre + step]);
            around(near).chain(around(0.0)).chain([0.0, near]).collect()
        }
        Axis::Log => (-40..=40).map(|k| 2.0 * f64::from(k)).collect(),
        Axis::Logit => (-17..=17).map(|k| 2.0 * f64::from(k)).collect(),
    };
    let best = best_of(&grid, log);
    climb(grid[best], 0.5, log)
}

/// Returns the place of the highest value.
fn best_of(grid: &[f64], log: &mut LogDensity<'_>) -> usize {
    let values: Vec<f64> = grid.iter().map(|&x| log(x)).collect();
    let known = (0..grid.len()).filter(|&k| !values[k].is_nan());
    known.max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
}

/// Returns a point near the peak that lies uphill of x: within a thousandth of the width of the last bracket.
fn climb(x: f64, step: f64, log: &mut LogDensity<'_>) -> f64 {
    let mut step = step * (1.0 + 0.1 * x.abs());
    let (mut best, mut top) = (x, log(x));
    let mut grows = true;
    for _ in 0..200 {
        let sides = [-step, step].map(|step| (best + step, log(best + step)));
        let higher = if sides[0].1 > sides[1].1 { sides[0] } else { sides[1] };
        if higher.1 > top {
            (best, top) = higher;
            step *= if grows { 2.0 } else { 1.0 };
            continue;
        }
        grows = false;
        // Close enough once a step hardly descends.
        if top - sides[0].1.min(sides[1].1) < 0.01 {
            break;
        }
        step *= 0.3;
    }
    best
}

/// Returns a distance from the mode, exact to a factor of 2, at which a log density has fallen by 1/2.
fn drop_width(mode: f64, sign: f64, log: &mut LogDensity<'_>) -> f64 {
    let top = log(mode);
    let mut falls = |width: f64| {
        let fallen = log(mode + sign * width);
        fallen.is_nan() || fallen <= top - 0.5
    };
    let mut width = 0.1 * (1.0 + 0.1 * mode.abs());
    while width > 1e-13 * mode.abs() + 1e-100 && falls(0.5 * width) {
        width *= 0.5;
    }
    while width < 1e15 && !falls(width) {
        width *= 2.0;
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{gamma::gamma_cdf, normal};
    use statrs::function::gamma::ln_gamma;

    /// Compares mass, moments and the distribution function.
    fn compare(
        kind: TargetKind,
        density: &mut LogDensity<'_>,
        moments: (f64, f64),
        points: &[f64],
        cdf: &dyn Fn(f64) -> f64,
    ) {
        let found = Distribution::new(kind, 0.3, density);
        assert!((found.mass - 1.0).abs() < 1e-10, "{kind:?} {found:?}");
        assert!((found.mean - moments.0).abs() < 1e-8 * (1.0 + moments.0.abs()), "{kind:?} {found:?}");
        let close = (found.variance - moments.1).abs() < 1e-7 * moments.1 || found.variance == moments.1;
        assert!(close, "{kind:?} {} {}", found.variance, moments.1);
        for &y in points {
            let (got, want) = (found.cdf(y, density), cdf(y));
            // The logarithm of a large factorial is good to 1e-10.
            assert!((got - want).abs() < 1e-10, "{kind:?} {y}: {got} {want}");
        }
    }

    #[test]
    fn distributions_have_their_closed_forms() {
        for (mean, sd) in [(0.3, 1e-3), (-7e5, 3.0), (2.0, 1e4)] {
            let points = [-9.0, -2.0, -0.1, 0.0, 0.7, 5.0].map(|z| mean + sd * z);
            let cdf = |y: f64| normal::cdf((y - mean) / sd);
            let density = &mut |y: f64| normal::log_density(y, mean, sd * sd);
            compare(TargetKind::Real, density, (mean, sd * sd), &points, &cdf);
        }
        for (shape, scale) in [(0.4f64, 2.0f64), (30.0, 1e-5), (3.0, 1e6)] {
            let constant = -ln_gamma(shape) - shape * scale.ln();
            let density = &mut |y: f64| constant + (shape - 1.0) * y.ln() - y / scale;
            let points = [1e-3, 0.5, 1.0, 3.0].map(|z| z * shape * scale);
            let cdf = |y: f64| gamma_cdf(shape, y / scale);
            compare(TargetKind::Positive, density, (shape * scale, shape * scale * scale), &points, &cdf);
        }
        let density = &mut |y: f64| (6.0 * y * (1.0 - y)).ln();
        let cdf = |y: f64| y * y * (3.0 - 2.0 * y);
        compare(TargetKind::UnitInterval, density, (0.5, 0.05), &[1e-6, 0.3, 0.5, 0.99], &cdf);
        for rate in [0.03f64, 4.0, 20_000.0] {
            let density = &mut |y: f64| y * rate.ln() - rate - ln_gamma(y + 1.0);
            let points = [-3.0f64, 0.0, 1.0, 4.0].map(|z| (rate + z * rate.sqrt()).floor());
            let cdf =
                |y: f64| if y < 0.0 { 0.0 } else { crate::functions::gamma::gamma_upper(y + 1.0, rate) };
            compare(TargetKind::Count, density, (rate, rate), &points, &cdf);
        }
    }

    #[test]
    fn long_tails_have_the_moments_that_exist() {
        // Student's t, whose variance is df/(df − 2).
        for (df, mean, variance) in
            [(4.0, 0.0, 2.0), (2.1, 0.0, 21.0), (1.5, 0.0, f64::INFINITY), (1.0, f64::NAN, f64::INFINITY)]
        {
            let constant =
                ln_gamma(0.5 * (df + 1.0)) - ln_gamma(0.5 * df) - 0.5 * (df * std::f64::consts::PI).ln();
            let density = &mut |y: f64| constant - 0.5 * (df + 1.0) * (y * y / df).ln_1p();
            let found = Distribution::new(TargetKind::Real, 0.3, density);
            let same = |a: f64, b: f64| {
                a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-3 * b.abs().max(1e-3)
            };
            assert!(same(found.mean, mean) && same(found.variance, variance), "{df}: {found:?}");
        }
    }
}
