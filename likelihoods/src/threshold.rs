//! Predictive distribution functions of families where `P(Y ≤ y | f)` is `P(f ≤ X)` for a variable
//! X of known density.
//!
//! Then `P(Y ≤ y) = E Φ((X − μ)/√v)`: a normal distribution function at a few dozen nodes of X instead of an incomplete gamma or
//! beta function at nodes of f, and defined between whole numbers y as well.

use super::LatentMarginal;
use crate::functions::normal;
use crate::quadrature::Integrator;
use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp, ln_1p};

/// Nodes where the log density of X is lower than at its peak by more than this are left out: 5e-12
/// of the peak.
const DROP: f64 = 26.0;

/// The widest step: the rule for the logarithm of a gamma variable of shape 1 is off by `|Γ(1 + 2πi/step)|`, 2e-9.
const STEP: f64 = 0.45;

/// The widest step in standard deviations of u, with an error of at most 1e-9.
const WIDTH: f64 = 0.8;

/// The number of nodes above which averages over f are cheaper.
const MOST_NODES: usize = 400;

/// The distribution of a variable u; X is a function of u.
#[derive(Clone, Copy)]
pub(super) enum Threshold {
    /// The logarithm of a gamma variable of this shape and rate 1.
    LogGamma(f64),
    /// The log odds of a beta variable of these shapes.
    LogOdds(f64, f64),
}

impl Threshold {
    /// The log density at a distance d from the peak, relative to that there: `a (d − (e^d − 1))`,
    /// and `a d − (a + b) log(1 + p (e^d − 1))` with p = a/(a + b). In this form no terms larger
    /// than a d cancel.
    #[inline(always)]
    fn log_density<S: Simd>(self, d: f64) -> f64 {
        let mut series = 0.0;
        for k in (1..10).rev() {
            series = (1.0 + series) * d / f64::from(k);
        }
        let growth = if d.abs() < 0.1 { series } else { exp::<S>(d) - 1.0 };
        match self {
            Threshold::LogGamma(a) => a * (d - growth),
            Threshold::LogOdds(a, b) => {
                let rise = a / (a + b) * growth;
                let up = rise > 0.0;
                let log = ln_1p::<S>(if up { rise } else { -rise / (1.0 + rise) });
                a * d - (a + b) * if up { log } else { -log }
            }
        }
    }

    /// Returns the position of the peak, and minus the second derivative of the log density there.
    fn peak(self) -> (f64, f64) {
        match self {
            Threshold::LogGamma(shape) => (shape.ln(), shape),
            Threshold::LogOdds(a, b) => ((a / b).ln(), a / (1.0 + a / b)),
        }
    }

    /// Returns the width of the density of u at its peak.
    pub(super) fn width(self) -> f64 {
        self.peak().1.sqrt().recip()
    }

    /// Returns the distances from the peak beyond which the density is left out.
    fn range(self) -> (f64, f64) {
        let reach = |sign: f64| {
            let mut distance = (2.0 * DROP).sqrt() * self.width();
            while -self.log_density::<pulp::Scalar>(sign * distance) < DROP && distance < 1e6 {
                distance *= 1.25;
            }
            sign * distance
        };
        (reach(-1.0), reach(1.0))
    }

    /// Returns `E g(u)` for a bounded function that varies at most as fast as this density does.
    pub(super) fn expectation(self, g: &mut dyn FnMut(f64) -> f64) -> f64 {
        let (peak, (low, high)) = (self.peak().0, self.range());
        let step = STEP.min(0.5 * WIDTH * self.width());
        let (mut total, mut sum) = (0.0, 0.0);
        for k in (low / step).ceil() as i64..=(high / step).floor() as i64 {
            let d = k as f64 * step;
            let weight = self.log_density::<pulp::Scalar>(d).exp();
            total += weight;
            sum += weight * g(peak + d);
        }
        sum / total
    }

    /// Returns `E Φ((X(u) − μ)/√v)` for a monotone X whose steepest slope is `steep(u)` at the far end of u's range; `None` if that takes
    /// too many nodes.
    pub(super) fn average(
        self,
        x: impl Fn(f64) -> f64,
        steep: impl Fn(f64) -> f64,
        latent: LatentMarginal,
        integrator: &mut Integrator,
    ) -> Option<f64> {
        let LatentMarginal { mean: mu, variance: v } = latent;
        let (peak, width) = (self.peak().0, self.width());
        let (low, high) = self.range();
        let own = STEP.min(WIDTH * width);
        let step = own.recip().hypot(steep(peak + high) / (WIDTH * v.sqrt())).recip();
        let count = ((high - low) / step).ceil();
        // A variance of 0 and arguments that are not numbers also end here.
        if count.is_nan() || count >= MOST_NODES as f64 || !mu.is_finite() {
            return None;
        }
        let [mut z, mut weight, mut tails] = integrator.take();
        let count = count as usize + 1;
        weight.clear();
        weight.extend((0..count).map(|k| low + k as f64 * step));
        z.clear();
        let precision = v.sqrt().recip();
        z.extend(weight.iter().map(|&d| (x(peak + d) - mu) * precision));
        dispatch(Weights { threshold: self, d: &mut weight });
        // The weights keep the signs of z, because the buffer of z is reused for densities.
        weight.iter_mut().zip(&z).for_each(|(weight, z)| *weight = weight.copysign(*z));
        tails.clear();
        tails.extend(z.iter().map(|z| z.abs().min(40.0)));
        normal::upper_tails_in_place(&mut tails, &mut z);
        let (mut total, mut below) = (0.0, 0.0);
        for (weight, tail) in weight.iter().zip(&tails) {
            total += weight.abs();
            below += if *weight < 0.0 { -weight * tail } else { weight * (1.0 - tail) };
        }
        integrator.give([z, weight, tails]);
        Some(below / total)
    }
}

/// Replaces distances from the peak by the density there, relative to that at the peak.
struct Weights<'a> {
    threshold: Threshold,
    d: &'a mut [f64],
}

impl Pass for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let Weights { threshold, d } = self;
        for d in d {
            *d = exp::<S>(threshold.log_density::<S>(*d));
        }
    }
}
