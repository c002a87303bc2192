//! Lower bounds on the logistic E log p(y|f) by piecewise quadratics (Marlin, Khan & Murphy 2011).
//!
//! `log(1 + eˣ) = max(x, 0) + g(|x|)` with `g(t) = log(1 + e⁻ᵗ)`, and
//! `g(t) + t/2 = log 2 cosh(t/2)` is even, so it is enough to bound g from above for `t ≥ 0` and to
//! mirror the pieces. The outermost pieces are `g(t) ≤ ε` for `t ≥ T` with `g(T) = ε`. Each other
//! piece is the best one-sided quadratic on its interval: since `g‴ < 0` for `t > 0`, the quadratic
//! through `(a, g(a))` that touches g at `s > a` lies above g from a onwards, its error rises to a
//! peak between a and s, is 0 at s and rises again. The longest interval from a with errors up to ε
//! is therefore found by two scalar equations: s from the peak's height, then the end from the
//! error there. These are the four alternating points of Chebyshev's theorem, shifted up by half
//! their range. An odd number of inner pieces has one around 0, `γt² + c`, with the same two
//! equations: log 2 cosh(t/2) is concave in t², so the error is largest at 0 and at the end. With
//! the ε at which the longest intervals from 0 end exactly at T, no bound of R quadratic pieces has
//! a smaller largest error. On a short interval of width w it is `|g‴| w³/96`, so `(96ε)^⅓` times
//! the number of pieces tends to the integral of `|g‴|^⅓` over the real line, `2^{4/3} π/√3`, and
//! `ε ≈ (π³/18√3)/(R − d)³`. Numerically d is 0.87 for even R and 0.25 for odd R: a piece across 0,
//! where `log 2 cosh(t/2)` has no third derivative, counts as much as one and a half other pieces.

use super::estimator::EstimatorFacts;
use crate::error::{Error, Result};
use crate::likelihood::functions::normal;
use crate::likelihood::quadrature::smallest;
use crate::likelihood::{LatentMarginal, LikelihoodKind, Local};
use std::f64::consts::LN_2;

pub(super) const FACTS: EstimatorFacts = EstimatorFacts {
    usage: "piecewise:R",
    of_expected_log: true,
    likelihood: Some(LikelihoodKind::BernoulliLogit),
    ..EstimatorFacts::EXACT
};

/// The rounding of errors, which are differences of numbers up to 1.
const ROUNDING: f64 = 2e-16;

/// Standardised distances beyond this have a density of 0.
const REACH: f64 = 39.0;

/// A piecewise quadratic upper bound on `log(1 + eˣ)` with the smallest maximum error for its number of pieces.
///
/// It gives a lower bound on `E_{N(f; μ, v)} log p(y|f)` of logistic regression in closed form, below the exact value by at most that
/// error for all μ and v (Marlin, Khan & Murphy 2011, "Piecewise bounds for estimating Bernoulli-logistic latent Gaussian models").
///
/// Neighbouring pieces need not meet: the best bound jumps by ε between most of them. The
/// expectation is smooth for `v > 0`. Its derivatives are those of the bound; they can differ from
/// the exact ones by more than ε if √v is well below the length of a piece.
#[derive(Clone, Debug)]
pub(crate) struct PiecewiseBound {
    pieces: Vec<Quadratic>,
    /// The differences between neighbouring pieces, centred on the end of the first of the two.
    steps: Vec<Quadratic>,
}

/// `value + slope d + curvature d²` with `d = x − centre`.
#[derive(Clone, Copy, Debug)]
struct Quadratic {
    centre: f64,
    value: f64,
    slope: f64,
    curvature: f64,
}

impl PiecewiseBound {
    /// The possible numbers of pieces.
    pub(crate) const PIECES: std::ops::RangeInclusive<usize> = 3..=100;

    /// Creates the bound with `pieces` pieces R, the two outermost of which are linear.
    ///
    /// # Errors
    ///
    /// If R is not from 3 to 100.
    pub fn new(pieces: usize) -> Result<PiecewiseBound> {
        if !Self::PIECES.contains(&pieces) {
            let (low, high) = (Self::PIECES.start(), Self::PIECES.end());
            return Err(Error::usage(format!(
                "the piecewise bound has {pieces} pieces, expected {low} to {high}"
            )));
        }
        let inner = pieces - 2;
        let guess = 0.9945 / (pieces as f64 - 0.6).powi(3);
        let (mut low, mut high) = (0.8 * guess, 1.2 * guess);
        while Cover::new(low, inner).excess < 0.0 {
            low *= 0.5;
        }
        while Cover::new(high, inner).excess > 0.0 {
            high *= 1.25;
        }
        // The rounding error of every piece also moves the start of the next one.
        let max_error = root(low, high, 50.0 * ROUNDING / guess, |error| Cover::new(error, inner).excess);
        Ok(Self::mirrored(max_error, Cover::new(max_error, inner), inner % 2 == 1))
    }

    /// Creates both halves of the bound from the pieces that bound g.
    fn mirrored(max_error: f64, cover: Cover, has_middle: bool) -> PiecewiseBound {
        let linear = |slope| Quadratic { centre: 0.0, value: max_error, slope, curvature: 0.0 };
        let (mut pieces, mut places) = (vec![linear(0.0)], Vec::new());
        for &(piece, end) in cover.pieces.iter().rev() {
            places.push(-end);
            pieces.push(Quadratic { centre: -piece.centre, slope: -piece.slope, ..piece });
        }
        if !has_middle {
            places.push(0.0);
        }
        for (k, &(piece, end)) in cover.pieces.iter().enumerate() {
            places.push(end);
            if k > 0 || !has_middle {
                let (value, slope) = (piece.centre + piece.value, 1.0 + piece.slope);
                pieces.push(Quadratic { value, slope, ..piece });
            }
        }
        pieces.push(linear(1.0));
        let steps = places.iter().zip(pieces.windows(2)).map(|(&at, pair)| pair[1].less(pair[0], at));
        PiecewiseBound { steps: steps.collect(), pieces }
    }

    /// The largest error ε: the bound exceeds `log(1 + eˣ)` by 0 to ε.
    #[cfg(test)]
    fn max_error(&self) -> f64 {
        self.pieces[0].value
    }

    #[cfg(test)]
    fn at(&self, x: f64) -> f64 {
        self.pieces[self.place(x)].at(x)
    }

    /// Returns the index of the piece that contains x.
    fn place(&self, x: f64) -> usize {
        self.steps.partition_point(|step| step.centre <= x)
    }

    /// A lower bound on `E_{N(f; μ, v)} log p(y|f)` for y of 0 or 1 and `p(y = 1|f) = 1/(1 + e⁻ᶠ)`,
    /// with the exact derivatives of the bound in μ and v, finite for μ and v up to 1e100; as for
    /// quadrature, a smaller v is raised to `10⁻¹² (1 + μ²)`. In nats; rounding errors are of the
    /// order of `10⁻¹⁶ (1 + |μ| + v)`.
    pub fn expectation(&self, y: f64, LatentMarginal { mean: mu, variance: v }: LatentMarginal) -> Local {
        // log p(y|f) = −log(1 + eˣ) with x = −f or x = f.
        let sign = if y > 0.5 { -1.0 } else { 1.0 };
        let bound = self.mean_of_bound(sign * mu, smallest(mu, v));
        Local { value: -bound.value, mean: -sign * bound.mean, variance: -bound.variance }
    }

    /// Returns the expectation of the bound under `N(x; μ, v)`: that of the piece q around μ,
    /// extended to the whole line, plus `E (q_{k+1} − q_k)(x)` over the range beyond each end of a
    /// piece. Only tails that do not contain μ are needed.
    fn mean_of_bound(&self, mu: f64, v: f64) -> Local {
        let sd = v.sqrt();
        let place = self.place(mu);
        let reached = |bound: f64| self.steps.partition_point(|step| step.centre <= bound);
        let (from, to) = (reached(mu - REACH * sd), reached(mu + REACH * sd));
        let steps = self.steps.get(from..to).unwrap_or_default();

        let (mut tail, mut density) = ([0.0; *Self::PIECES.end()], [0.0; *Self::PIECES.end()]);
        let (tail, density) = (&mut tail[..steps.len()], &mut density[..steps.len()]);
        tail.iter_mut().zip(steps).for_each(|(z, step)| *z = (step.centre - mu).abs() / sd);
        normal::upper_tails_in_place(tail, density);

        let (piece, latent) = (self.pieces[place], LatentMarginal::new(mu, v));
        let value = piece.at(mu) + piece.curvature * v;
        let mut sum = Local { value, mean: piece.slope_at(mu), variance: piece.curvature };
        for (k, step) in steps.iter().enumerate() {
            let side = if from + k < place { -1.0 } else { 1.0 };
            step.add_tail(&mut sum, latent, sd, side, tail[k], density[k]);
        }
        sum
    }
}

impl Quadratic {
    fn at(&self, x: f64) -> f64 {
        let d = x - self.centre;
        self.value + d * (self.slope + self.curvature * d)
    }

    fn slope_at(&self, x: f64) -> f64 {
        self.slope + 2.0 * self.curvature * (x - self.centre)
    }

    /// Creates the quadratic through `(a, g(a))` that touches g at s, its centre.
    fn touching(a: f64, s: f64) -> Quadratic {
        let ((at_a, _), (value, slope)) = (softplus(a), softplus(s));
        let d = a - s;
        Quadratic { centre: s, value, slope, curvature: (at_a - value - slope * d) / (d * d) }
    }

    /// Creates the quadratic `γt² + c − t/2` that touches g at s.
    fn even(s: f64) -> Quadratic {
        let (at_s, slope) = softplus(s);
        let curvature = (slope + 0.5) / (2.0 * s);
        Quadratic { centre: 0.0, value: at_s + 0.5 * s - curvature * s * s, slope: -0.5, curvature }
    }

    /// The distance of the bound above g; rounding may make it slightly negative.
    fn error(&self, t: f64) -> f64 {
        (self.at(t) - softplus(t).0).max(0.0)
    }

    /// The height of the error's peak between a and the centre.
    fn peak(&self, a: f64) -> f64 {
        let mut t = a;
        // The error's derivative is convex and positive at a: Newton's method comes to its first zero from the left.
        for _ in 0..60 {
            let (_, slope) = softplus(t);
            let (first, second) = (self.slope_at(t) - slope, 2.0 * self.curvature + slope * (1.0 + slope));
            let next = t - first / second;
            if !(next > t && next < self.centre) {
                break;
            }
            let settled = next - t < 1e-8 * (self.centre - a);
            t = next;
            if settled {
                break;
            }
        }
        self.error(t)
    }

    /// Returns the difference from another quadratic, centred on `at`.
    fn less(self, other: Quadratic, at: f64) -> Quadratic {
        Quadratic {
            centre: at,
            value: self.at(at) - other.at(at),
            slope: self.slope_at(at) - other.slope_at(at),
            curvature: self.curvature - other.curvature,
        }
    }

    /// Adds ± the expectation of the quadratic under `N(x; μ, v)` over the tail beyond its centre
    /// as seen from μ, on the side ±. The tail has mass `Φ(−z)` and density `φ(z)` with
    /// `z = |centre − μ|/√v`.
    fn add_tail(
        self,
        sum: &mut Local,
        LatentMarginal { mean: mu, variance: v }: LatentMarginal,
        sd: f64,
        side: f64,
        tail: f64,
        density: f64,
    ) {
        let Quadratic { centre, value, slope, curvature } = self;
        let z = (centre - mu).abs() / sd;
        // E d and E d² over the tail, d the distance beyond the centre.
        let first = sd * (density - z * tail);
        let second = v * (tail + z * (z * tail - density));
        sum.value += side * (value * tail + curvature * second) + slope * first;
        sum.mean += value * density / sd + side * slope * tail + 2.0 * curvature * first;
        sum.variance +=
            side * (0.5 * value * z * density / v + curvature * tail) + 0.5 * slope * density / sd;
    }
}

/// The longest pieces from 0 towards T that bound g with errors up to ε, with their ends.
struct Cover {
    pieces: Vec<(Quadratic, f64)>,
    /// A number that rises as ε falls: negative if pieces with smaller errors reach T, 0 if they
    /// reach T exactly.
    excess: f64,
}

impl Cover {
    /// Half of `inner` pieces, the first of them around 0 if their number is odd; the last one ends at T in any case.
    fn new(max_error: f64, inner: usize) -> Cover {
        let last = -max_error.exp_m1().ln();
        let (mut pieces, mut from) = (Vec::new(), 0.0);
        for left in (0..inner.div_ceil(2)).rev() {
            let even = pieces.is_empty() && inner % 2 == 1;
            let (piece, touch, peak) = Self::piece(from, last, max_error, even);
            let error = piece.error(last);
            if left == 0 || peak < max_error || error <= max_error {
                // Unused pieces count as spare errors of size ε.
                let ratio =
                    if peak < max_error { peak / max_error - 1.0 } else { (error / max_error).sqrt() };
                pieces.push((piece, last));
                return Cover { pieces, excess: ratio - 1.0 - 2.0 * left as f64 };
            }
            let above = |t: f64| (piece.error(t) / max_error).sqrt() - 1.0;
            from = root(touch, last, ROUNDING / max_error, above);
            pieces.push((piece, from));
        }
        Cover { pieces, excess: 0.0 }
    }

    /// Returns the piece that starts at `from` and whose error peaks at ε before it touches g, or
    /// that touches g at T; also the touching point and the peak.
    fn piece(from: f64, last: f64, max_error: f64, even: bool) -> (Quadratic, f64, f64) {
        let of = |s: f64| {
            if even {
                let piece = Quadratic::even(s);
                (piece, piece.value - LN_2)
            } else {
                let piece = Quadratic::touching(from, s);
                (piece, piece.peak(from))
            }
        };
        let (piece, peak) = of(last);
        if peak <= max_error {
            return (piece, last, peak);
        }
        // The peak grows about as the cube of the length, as the fourth power around 0.
        let above = |s: f64| if s > from { (of(s).1.max(0.0) / max_error).cbrt() - 1.0 } else { -1.0 };
        let touch = root(from, last, ROUNDING / max_error, above);
        (of(touch).0, touch, max_error)
    }
}

/// `g(t) = log(1 + e⁻ᵗ)` and its derivative.
fn softplus(t: f64) -> (f64, f64) {
    let e = (-t).exp();
    (e.ln_1p(), -e / (1.0 + e))
}

/// Returns a zero, up to rounding, of a function whose signs at the ends of the interval differ, by
/// the Illinois variant of regula falsi.
fn root(mut a: f64, mut b: f64, rounding: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut at_a, mut at_b) = (f(a), f(b));
    for _ in 0..100 {
        let next = b - at_b * (b - a) / (at_b - at_a);
        // Neighbouring numbers, or a function that is 0 at an end.
        if !(next > a.min(b) && next < a.max(b)) {
            break;
        }
        let value = f(next);
        if value * at_b < 0.0 {
            (a, at_a) = (b, at_b);
        } else {
            at_a *= 0.5;
        }
        (b, at_b) = (next, value);
        if value.abs() <= rounding {
            break;
        }
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::PI;

    /// `log(1 + eˣ)`.
    fn exact(x: f64) -> f64 {
        x.max(0.0) + softplus(x.abs()).0
    }

    fn bound(pieces: usize) -> PiecewiseBound {
        PiecewiseBound::new(pieces).expect("a number of pieces that is allowed")
    }

    #[test]
    fn it_lies_above_by_no_more_than_its_error_which_is_reached_in_every_piece() {
        for pieces in (3..=30).chain([50, 99, 100]) {
            let bound = bound(pieces);
            assert_eq!((bound.pieces.len(), bound.steps.len()), (pieces, pieces - 1));
            let places = || bound.steps.iter().map(|step| step.centre);
            assert!(places().zip(places().skip(1)).all(|(a, b)| a < b), "{pieces}");
            let mut largest = vec![0.0f64; pieces];
            for k in -400_000..=400_000 {
                let x = f64::from(k) * 1e-4;
                let error = bound.at(x) - exact(x);
                let rounding = 2e-14 + 4.0 * f64::EPSILON * x.abs();
                assert!(error >= -rounding, "{pieces} pieces at {x}: {error:e}");
                assert!(error <= bound.max_error() + rounding, "{pieces} at {x}: {error:e}");
                let here = &mut largest[bound.place(x)];
                *here = here.max(error);
            }
            // The best bound has the same largest error everywhere; the grid misses the ends of pieces by up to 1e-4.
            for error in largest {
                assert!(error > 0.99 * bound.max_error(), "{pieces}: {error:e} of {:e}", bound.max_error());
            }
        }
    }

    /// Integrates `E B(x)` and its derivatives, through those of the normal density, by Gauss–Legendre panels that end where pieces do.
    fn integrated(bound: &PiecewiseBound, mu: f64, v: f64) -> Local {
        const NODES: [(f64, f64); 3] = [
            (0.0, 0.568_888_888_888_888_9),
            (0.538_469_310_105_683, 0.478_628_670_499_366_5),
            (0.906_179_845_938_664, 0.236_926_885_056_189_08),
        ];
        let sd = v.sqrt();
        let (low, high) = (mu - 10.0 * sd, mu + 10.0 * sd);
        let mut ends: Vec<f64> = (0..=200).map(|k| low + (high - low) * f64::from(k) / 200.0).collect();
        ends.extend(bound.steps.iter().map(|step| step.centre).filter(|at| (low..high).contains(at)));
        ends.sort_by(f64::total_cmp);
        // A constant adds nothing to derivatives, and rounding is less without it.
        let at_mean = bound.at(mu);
        let mut sum = Local { value: at_mean, ..Local::default() };
        for pair in ends.windows(2) {
            let (middle, half) = (0.5 * (pair[0] + pair[1]), 0.5 * (pair[1] - pair[0]));
            for (node, weight) in NODES.into_iter().flat_map(|(node, w)| [(node, w), (-node, w)]) {
                // The middle node comes twice.
                let weight = if node == 0.0 { 0.5 * weight } else { weight };
                let z = (middle + half * node - mu) / sd;
                let share = weight * half / sd * (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
                let rest = share * (bound.at(middle + half * node) - at_mean);
                sum.value += rest;
                sum.mean += rest * z / sd;
                sum.variance += 0.5 * rest * (z * z - 1.0) / v;
            }
        }
        sum
    }

    fn close(got: f64, want: f64, tolerance: f64) -> std::result::Result<(), TestCaseError> {
        prop_assert!((got - want).abs() <= tolerance, "{got:e}, want {want:e} within {tolerance:e}");
        Ok(())
    }

    proptest! {
        #[test]
        fn the_expectation_is_that_of_the_pieces(
            pieces in 3usize..40, mu in -12.0..12.0f64, exponent in -8.0..1.4f64, at_step in any::<bool>(), y in 0u8..2
        ) {
            let bound = bound(pieces);
            let v = 10f64.powf(exponent);
            let sd = v.sqrt();
            // Half of the cases have a jump within the mass.
            let near = bound.steps[pieces / 3].centre + sd * (mu / 6.0);
            let mu = if at_step { near } else { mu };
            let (y, sign) = if y == 1 { (1.0, -1.0) } else { (0.0, 1.0) };
            let got = bound.expectation(y, LatentMarginal::new(mu, v));
            let want = integrated(&bound, sign * mu, v);
            let rounding = 1e-13 * (1.0 + mu.abs() + v);
            close(got.value, -want.value, rounding)?;
            close(got.mean, -sign * want.mean, rounding / sd.min(1.0))?;
            close(got.variance, -want.variance, rounding / v.min(1.0))?;

            // The step's error is that of the third derivative, at most about that of a jump of ε.
            let value = |mu, v| bound.expectation(y, LatentMarginal::new(mu, v)).value;
            let change = bound.max_error() + sd.min(1.0);
            let (h, k) = (1e-3 * sd, 1e-3 * v);
            let tolerance = 1e-6 * change + 1e3 * rounding;
            close((value(mu + h, v) - value(mu - h, v)) / 2e-3, got.mean * sd, tolerance)?;
            close((value(mu, v + k) - value(mu, v - k)) / 2e-3, got.variance * v, tolerance)?;
        }
    }

    #[test]
    fn extremes_are_finite() {
        let bound = bound(20);
        for mu in [-1e100, -1e8, -700.0, 0.0, bound.steps[5].centre, 1e8, 1e100] {
            for v in [0.0, 1e-300, 1.0, 1e8] {
                for y in [0.0, 1.0] {
                    let local = bound.expectation(y, LatentMarginal::new(mu, v));
                    let parts = [local.value, local.mean, local.variance];
                    assert!(parts.iter().all(|part| part.is_finite()), "({mu}, {v}): {local:?}");
                }
            }
        }
        assert!(bound.expectation(1.0, LatentMarginal::new(f64::NAN, 1.0)).value.is_nan());
        let sure = bound.expectation(1.0, LatentMarginal::new(500.0, 1.0));
        assert_eq!((sure.value, sure.mean), (-bound.max_error(), 0.0));
    }
}
