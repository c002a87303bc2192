//! The continuous ranked probability score of a prediction from its distribution function, by
//! quadrature.
//!
//! `∫ (F(t) − 1{y ≤ t})² dt` (Gneiting & Raftery 2007, eq. 20), for whole numbers the sum over
//! them. It is the integral of F² below y and of (1 − F)² above, both smooth, by adaptive
//! Gauss–Kronrod panels that start at y and grow with the distance from the median. Panels end
//! where the integral of F² or (1 − F)² over the rest of the range, or over an equally wide further
//! range, is negligible: by Markov's inequality `t (1 − F(t)) ≤ E Y`, so that the tail beyond t is
//! at most `(E Y)²/t` and halves with every doubling.

use super::quantile::{self, Effort};
use crate::quadrature::{Integrator, Interval};
use crate::{Likelihood, Observation, Row, TargetKind};

/// The positive nodes of the Gauss–Kronrod rule with 15 nodes, their weights, and the weights in the Gauss rule with 7 nodes (0 if it
/// lacks the node).
const KRONROD: [(f64, f64, f64); 7] = [
    (0.991_455_371_120_812_6, 0.022_935_322_010_529_22, 0.0),
    (0.949_107_912_342_758_5, 0.063_092_092_629_978_56, 0.129_484_966_168_869_7),
    (0.864_864_423_359_769_1, 0.104_790_010_322_250_18, 0.0),
    (0.741_531_185_599_394_4, 0.140_653_259_715_525_92, 0.279_705_391_489_276_7),
    (0.586_087_235_467_691_1, 0.169_004_726_639_267_9, 0.0),
    (0.405_845_151_377_397_2, 0.190_350_578_064_785_4, 0.381_830_050_505_118_9),
    (0.207_784_955_007_898_47, 0.204_432_940_075_298_9, 0.0),
];

/// The weights of the node in the middle.
const MIDDLE: (f64, f64) = (0.209_482_141_084_727_82, 0.417_959_183_673_469_4);

/// The largest accepted difference of the two rules, as a share of the score; the error of the rule
/// with 15 nodes is then much smaller if F is smooth.
const DIFFERENCE: f64 = 2e-5;

/// The share of the score that the rest of a tail may have.
const NEGLIGIBLE: f64 = 1e-7;

/// The maximum number of halvings of a panel.
const HALVINGS: u32 = 16;

/// The maximum number of panels on each side.
const MOST_PANELS: usize = 400;

/// Whole numbers below this are summed one by one. From here on a distribution of counts varies so
/// slowly that sums can be replaced by integrals with Euler–Maclaurin terms for their ends.
const SUMMED: f64 = 32.0;

/// The probabilities whose quantiles are about one standard deviation from the centre.
const ONE_SPREAD: [f64; 2] = [0.16, 0.84];

/// From this number on, distribution functions of counts are also evaluated at fractional numbers.
pub(super) const SMOOTH: f64 = SUMMED - 2.0;

/// The variable of integration x for targets t.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Axis {
    /// `t = x`.
    Line,
    /// `t = e^x`.
    Log,
    /// `t = 1/(1 + e^{−x})`.
    Logit,
}

impl Axis {
    /// Returns the axis on which continuous targets of this kind are integrated.
    pub(super) fn of(kind: TargetKind) -> Axis {
        match kind {
            TargetKind::Positive | TargetKind::Lifetime | TargetKind::Amount => Axis::Log,
            TargetKind::UnitInterval | TargetKind::Share => Axis::Logit,
            _ => Axis::Line,
        }
    }

    /// Returns t and dt/dx.
    pub(super) fn target(self, x: f64) -> (f64, f64) {
        match self {
            Axis::Line => (x, 1.0),
            Axis::Log => (x.exp(), x.exp()),
            Axis::Logit => {
                let e = (-x.abs()).exp();
                let t = if x > 0.0 { 1.0 } else { e } / (1.0 + e);
                (t, e / (1.0 + e).powi(2))
            }
        }
    }

    /// Returns x.
    pub(super) fn locate(self, t: f64) -> f64 {
        match self {
            Axis::Line => t,
            Axis::Log => t.ln(),
            Axis::Logit => t.ln() - (-t).ln_1p(),
        }
    }

    /// Returns the width of the widest panel that resolves dt/dx.
    fn widest(self) -> f64 {
        if self == Axis::Line { f64::INFINITY } else { 4.0 }
    }

    /// Returns the length of the range of t beyond x, on the side of the sign.
    fn room(self, x: f64, sign: f64) -> f64 {
        match self {
            Axis::Log if sign < 0.0 => x.exp(),
            Axis::Logit => self.target(-sign * x).0,
            _ => f64::INFINITY,
        }
    }
}

/// The score of y for a distribution function on a continuous kind of target, which may jump at the ends of the range.
pub fn continuous(kind: TargetKind, y: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    let axis = Axis::of(kind);
    if kind.has_ends() {
        return with_ends(axis, y, cdf);
    }
    let mut score = Score::new(axis, axis.locate(y), f64::NEG_INFINITY, cdf);
    score.spread_out(ONE_SPREAD);
    score.integrate();
    score.total
}

/// The largest number below 1.
pub(super) const BELOW_1: f64 = 1.0 - 0.5 * f64::EPSILON;

/// The score of y for a distribution function that jumps at 0 and, on the axis of shares, at 1.
fn with_ends(axis: Axis, y: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    // The part of the range that is left out next to an end is this many units of x away: e^{−40} of the score.
    const OUT: f64 = 40.0;
    let (low, high) = (cdf(0.0), if axis == Axis::Logit { cdf(BELOW_1) } else { 1.0 });
    let x = axis.locate(y);
    let mut score = Score::new(axis, if x.is_finite() { x } else { 0.0 }, f64::NEG_INFINITY, cdf);
    if high - low > 1e-9 {
        score.spread_out(ONE_SPREAD.map(|p| low + p * (high - low)));
    }
    score.cut = match axis {
        Axis::Logit => x.clamp(-OUT, OUT),
        _ => x.max(score.centre - OUT),
    };
    score.integrate();
    score.total
}

/// Returns the score of a row by its predictive distribution function; NaN for several classes, and for numbers that are not finite.
pub(super) fn of<L: Likelihood + ?Sized>(likelihood: &L, row: Row, integrator: &mut Integrator) -> f64 {
    if !row.is_finite() {
        return f64::NAN;
    }
    let (kind, y) = (likelihood.target_kind(), row.at.y);
    match (kind, likelihood.one()) {
        (TargetKind::Binary, None) => f64::NAN,
        (TargetKind::Binary, Some(_)) => (likelihood.predictive_moments(row, integrator).0 - y).powi(2),
        (TargetKind::Count | TargetKind::CensoredCount, Some(one)) => {
            counts(y, &mut |k| one.smooth_count_cdf(row.of(0).with(k), integrator))
        }
        (TargetKind::Trials, Some(one)) => {
            trials(y, row.at.exposure, &mut |k| one.smooth_count_cdf(row.of(0).with(k), integrator))
        }
        _ => {
            let mut cdf = |y| likelihood.predictive_cdf(row.with(y), integrator);
            of_distribution(kind, likelihood.levels(), row.at, &mut cdf)
        }
    }
}

/// The score of an observation for a distribution function on a kind of target; NaN for several classes.
pub fn of_distribution(
    kind: TargetKind,
    number: usize,
    Observation { y, exposure, .. }: Observation,
    cdf: &mut dyn FnMut(f64) -> f64,
) -> f64 {
    match kind {
        TargetKind::Class => f64::NAN,
        TargetKind::Binary | TargetKind::Ordinal => levels(y, number, cdf),
        TargetKind::Trials => trials(y, exposure, &mut |k| between(k, cdf)),
        TargetKind::Count | TargetKind::CensoredCount => counts(y, &mut |k| between(k, cdf)),
        _ => continuous(kind, y, cdf),
    }
}

/// Returns the score of a level or class: the ranked probability score (Epstein 1969), not divided by the number of levels.
fn levels(y: f64, levels: usize, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    (0..levels.saturating_sub(1)).map(|level| square_error(level as f64, y, cdf)).sum()
}

/// The score of a count for a distribution function that is smooth between whole numbers from 31 on; see [`between`].
pub(super) fn counts(y: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    if !TargetKind::Count.admits(y) {
        return f64::NAN;
    }
    let mut summed = 0.0;
    if y < SUMMED {
        for k in 0..SUMMED as usize {
            let k = k as f64;
            let error = square_error(k, y, cdf);
            summed += error;
            if k >= y && error * (k + 1.0) <= NEGLIGIBLE * summed || summed.is_nan() {
                return summed;
            }
        }
    }
    // Count k corresponds to the interval from k to k + 1 of a positive variable t.
    let mut shifted = |t: f64| cdf(t - 0.5);
    let cut = y.max(SUMMED);
    let mut score = Score::new(Axis::Log, cut.ln(), SUMMED.ln(), &mut shifted);
    score.total = summed;
    score.spread_out(ONE_SPREAD);
    if y < SUMMED {
        score.march(1.0);
    } else {
        score.integrate();
    }
    let mut total = score.total;
    let [start, at_y] = [SUMMED, cut].map(|end| End::at(end, cdf));
    total += at_y.term(|below| (1.0 - below).powi(2));
    if y >= SUMMED {
        total += start.term(|below| below * below) - at_y.term(|below| below * below);
        let below = cdf(SUMMED - 1.0);
        if SUMMED * below * below > NEGLIGIBLE * total {
            total += (0..SUMMED as usize).map(|k| square_error(k as f64, y, cdf)).sum::<f64>();
        }
    }
    total
}

/// The score of y successes of n trials for a distribution function that is smooth between whole numbers from 31 to n − 31: the sum of F²
/// below y, and that of (1 − F)² from y on, which is the sum below n − y for the number of failures.
fn trials(y: f64, n: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    if !TargetKind::Trials.admits_with(y, n) {
        return f64::NAN;
    }
    squares_below(y, n, cdf) + squares_below(n - y, n, &mut |k| 1.0 - cdf(n - 1.0 - k))
}

/// `Σ_{k<y} F(k)²` for a distribution function of whole numbers up to n.
fn squares_below(y: f64, n: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    let top = y.min(n - SUMMED).max(SUMMED).min(y);
    let mut sum = |from: f64, to: f64| -> f64 {
        (0..(to - from) as usize).rev().map(|k| cdf(from + k as f64).powi(2)).sum()
    };
    let summed = sum(top, y);
    if top <= SUMMED {
        return summed + sum(0.0, top);
    }
    let mut shifted = |t: f64| cdf(t - 0.5);
    let mut score = Score::new(Axis::Log, top.ln(), SUMMED.ln(), &mut shifted);
    score.total = summed;
    score.spread_out(ONE_SPREAD);
    score.march(-1.0);
    let mut total = score.total;
    let [start, at_top] = [SUMMED, top].map(|end| End::at(end, cdf));
    total += start.term(|below| below * below) - at_top.term(|below| below * below);
    let below = cdf(SUMMED - 1.0);
    if SUMMED * below * below > NEGLIGIBLE * total {
        total += (0..SUMMED as usize).map(|k| cdf(k as f64).powi(2)).sum::<f64>();
    }
    total
}

/// `(F(k) − 1{y ≤ k})²`.
fn square_error(k: f64, y: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    let below = cdf(k);
    if k < y { below * below } else { (1.0 - below).powi(2) }
}

/// Extends a distribution function of counts to a smooth function of real numbers from 31 on: the
/// polynomial through its values at the six nearest whole numbers.
pub(super) fn between(k: f64, cdf: &mut dyn FnMut(f64) -> f64) -> f64 {
    let whole = k.floor();
    if whole == k || k < SMOOTH {
        return cdf(whole);
    }
    let part = k - whole;
    (-2..4)
        .map(|i| {
            let at = f64::from(i);
            let others = (-2..4).filter(|j| *j != i).map(f64::from);
            others.map(|other| (part - other) / (at - other)).product::<f64>() * cdf(whole + at)
        })
        .sum()
}

/// The distribution function at the two whole numbers on either side of an end of a sum.
struct End([f64; 4]);

impl End {
    /// Creates the end just below the whole number `first`.
    fn at(first: f64, cdf: &mut dyn FnMut(f64) -> f64) -> End {
        End([-2.0, -1.0, 0.0, 1.0].map(|step| cdf(first + step)))
    }

    /// Returns the difference between a sum of `g(F)` that starts here and the integral that starts half a step below, by Euler and
    /// Maclaurin: `g′/24 − 7g‴/5760`.
    fn term(&self, g: impl Fn(f64) -> f64) -> f64 {
        let [a, b, c, d] = self.0.map(g);
        let (inner, outer) = (c - b, d - a);
        let (first, third) = ((27.0 * inner - outer) / 24.0, outer - 3.0 * inner);
        first / 24.0 - 7.0 * third / 5760.0
    }
}

/// The integrals on both sides of a target.
struct Score<'a> {
    axis: Axis,
    /// The position of the target on the axis.
    cut: f64,
    start: f64,
    /// A point within the distribution, and approximately its standard deviation.
    centre: f64,
    spread: f64,
    cdf: &'a mut dyn FnMut(f64) -> f64,
    total: f64,
}

impl<'a> Score<'a> {
    fn new(axis: Axis, cut: f64, start: f64, cdf: &'a mut dyn FnMut(f64) -> f64) -> Self {
        Score { axis, cut, start, centre: cut, spread: 1.0, cdf, total: 0.0 }
    }

    /// Integrates both sides, first the side of the centre; the other may then end once it no longer counts.
    fn integrate(&mut self) {
        if !self.cut.is_finite() {
            self.total = f64::NAN;
            return;
        }
        let sign = if self.centre > self.cut { 1.0 } else { -1.0 };
        self.march(sign);
        self.march(-sign);
    }

    /// Sets the centre and the spread from the quantiles of two probabilities.
    fn spread_out(&mut self, [p_low, p_high]: [f64; 2]) {
        if !self.cut.is_finite() {
            return;
        }
        let around = Interval { low: self.cut - 2.0, high: self.cut + 2.0 };
        let effort = Effort { steps: 24, close: 0.04 };
        let Score { axis, cdf, .. } = self;
        let mut quantile = |p, around| quantile::bisect(p, &mut |x| cdf(axis.target(x).0), around, effort);
        let low = quantile(p_low, around);
        let high = quantile(p_high, Interval { low, high: low + 1.0 });
        self.centre = 0.5 * (low + high);
        self.spread = (0.5 * (high - low)).max(1e-14 * (1.0 + self.centre.abs()));
        if !self.spread.is_finite() {
            self.total = f64::NAN;
        }
    }

    /// Returns `F²` or `(1 − F)²`.
    fn square(&mut self, t: f64, sign: f64) -> f64 {
        let below = (self.cdf)(t);
        if sign < 0.0 { below * below } else { (1.0 - below) * (1.0 - below) }
    }

    /// Adds the integral from the cut outwards.
    fn march(&mut self, sign: f64) {
        let mut x = self.cut;
        for _ in 0..MOST_PANELS {
            let next = self.next_edge(x, sign);
            if next == x || !self.total.is_finite() {
                return;
            }
            self.panel(x, next, sign, 0.0, HALVINGS);
            x = next;
            let (t, after) = (self.axis.target(x).0, self.axis.target(self.next_edge(x, sign)).0);
            let room = self.axis.room(x, sign).min((after - t).abs());
            if self.square(t, sign) * room <= NEGLIGIBLE * self.total {
                return;
            }
        }
    }

    /// Returns the end of the panel that begins at x.
    fn next_edge(&self, x: f64, sign: f64) -> f64 {
        const BULK: f64 = 4.5;
        let Score { centre, spread, .. } = *self;
        let passed = sign * (x - centre) / spread;
        let next = match () {
            // Towards a distant centre the panels are wide, because heavy tails vary on the scale
            // of their distance from it.
            () if passed < -1.01 * BULK => (passed / 8.0).min(-BULK),
            () if passed < -1.5 => 0.0,
            () if passed < 0.5 * BULK => BULK,
            () => 2.0 * passed,
        };
        let next = centre + sign * next * spread;
        let next = if (next - x).abs() > self.axis.widest() { x + sign * self.axis.widest() } else { next };
        next.max(self.start)
    }

    /// Adds the integral over a panel, halved where the two rules differ.
    fn panel(&mut self, from: f64, to: f64, sign: f64, scale: f64, halvings: u32) {
        let (kronrod, gauss) = self.rules(from, to, sign);
        let scale = scale.max(self.total + kronrod);
        let difference = (kronrod - gauss).abs();
        if halvings == 0 || difference <= DIFFERENCE * scale || difference.is_nan() {
            self.total += kronrod;
            return;
        }
        let middle = 0.5 * (from + to);
        self.panel(from, middle, sign, scale, halvings - 1);
        self.panel(middle, to, sign, scale, halvings - 1);
    }

    fn rules(&mut self, from: f64, to: f64, sign: f64) -> (f64, f64) {
        let [(kronrod, gauss)] = gauss_kronrod(from, to, &mut |x| {
            let (t, slope) = self.axis.target(x);
            let square = self.square(t, sign);
            // If e^x has overflowed, the integrand may be 0.
            [if square == 0.0 { 0.0 } else { square * slope }]
        });
        (kronrod, gauss)
    }
}

/// Returns the integrals of N functions between two ends by the rule with 15 nodes, and by the one with 7 nodes.
pub(super) fn gauss_kronrod<const N: usize>(
    from: f64,
    to: f64,
    at: &mut dyn FnMut(f64) -> [f64; N],
) -> [(f64, f64); N] {
    let (middle, half) = (0.5 * (from + to), 0.5 * (to - from).abs());
    let mut sums = at(middle).map(|centre| (MIDDLE.0 * centre, MIDDLE.1 * centre));
    for (node, weight, gauss_weight) in KRONROD {
        let pairs = at(middle - node * half).into_iter().zip(at(middle + node * half));
        for ((kronrod, gauss), (left, right)) in sums.iter_mut().zip(pairs) {
            *kronrod += weight * (left + right);
            *gauss += gauss_weight * (left + right);
        }
    }
    sums.map(|(kronrod, gauss)| (half * kronrod, half * gauss))
}
