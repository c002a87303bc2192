//! Functions of f at nodes, compiled for every instruction set: log densities, also of the Poisson and gamma families, and
//! weighted sums for gradients in own parameters.

use super::{LatentMarginal, Local};
use crate::quadrature::Resolution;
use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch, exp};

/// N functions of f; unneeded ones are 0.
pub(super) trait Terms<const N: usize>: Copy {
    /// Returns their values. Implementations must be `#[inline(always)]` and without branches,
    /// because they are compiled once per instruction set.
    fn at<S: Simd>(&self, f: f64) -> [f64; N];
}

/// Writes `log p` and its slope at every node.
pub(super) fn fill(terms: impl Terms<2>, f: &[f64], value: &mut [f64], first: &mut [f64]) {
    dispatch(Fill { terms, f, value, first });
}

struct Fill<'a, T> {
    terms: T,
    f: &'a [f64],
    value: &'a mut [f64],
    first: &'a mut [f64],
}

impl<T: Terms<2>> Pass for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let Fill { terms, f, value, first } = self;
        for ((f, value), first) in f.iter().zip(value).zip(first) {
            [*value, *first] = terms.at::<S>(*f);
        }
    }
}

/// `Σ_k w_k t(f_k)` for each of the terms.
pub(super) fn weighted_sums(terms: impl Terms<3>, f: &[f64], weights: &[f64]) -> [f64; 3] {
    dispatch(Sums { terms, f, weights })
}

struct Sums<'a, T> {
    terms: T,
    f: &'a [f64],
    weights: &'a [f64],
}

/// The number of nodes for which terms are computed before they are summed.
const CHUNK: usize = 32;

impl<T: Terms<3>> Pass for Sums<'_, T> {
    type Output = [f64; 3];

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) -> [f64; 3] {
        let mut sums = [0.0; 3];
        let [mut a, mut b, mut c] = [[0.0; CHUNK]; 3];
        for (f, weights) in self.f.chunks(CHUNK).zip(self.weights.chunks(CHUNK)) {
            for (((f, a), b), c) in f.iter().zip(&mut a).zip(&mut b).zip(&mut c) {
                [*a, *b, *c] = self.terms.at::<S>(*f);
            }
            for (((w, a), b), c) in weights.iter().zip(&a).zip(&b).zip(&c) {
                sums[0] += w * a;
                sums[1] += w * b;
                sums[2] += w * c;
            }
        }
        sums
    }
}

/// `log p(y|f) = slope·u − e^u + constant`, `u = sign·f + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRate {
    /// The multiple of u: a count, or a shape; not negative.
    pub slope: f64,
    /// +1 when u grows with f, −1 when it falls.
    pub sign: f64,
    /// The value of u at f = 0.
    pub offset: f64,
    /// The constant term c.
    pub constant: f64,
}

impl LogRate {
    /// `exp(k u − e^u)` is entire but grows beyond the strip of half-width π/2: the error of a rule is
    /// `|Γ(k + 2πi/step)|/Γ(k)`, 1e-13 for k = 1 and this step.
    pub(crate) const RESOLUTION: Resolution =
        Resolution { strip: 4.0, step: 0.28, concave: true, pole: None };

    /// Returns the expectation under N(f; μ, v), under which e^u is log-normal.
    pub fn expectation(self, latent: LatentMarginal) -> Local {
        let LatentMarginal { mean: mu, variance: v } = latent;
        let u = self.sign * mu + self.offset;
        let rate = (u + 0.5 * v).exp();
        Local {
            value: self.slope * u - rate + self.constant,
            mean: self.sign * (self.slope - rate),
            variance: -0.5 * rate,
        }
    }
}

impl Terms<2> for LogRate {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let LogRate { slope, sign, offset, constant } = *self;
        let u = sign * f + offset;
        let rate = exp::<S>(u);
        [slope * u - rate + constant, sign * (slope - rate)]
    }
}

/// Mean, mean square and variance of e^f for f ~ N(μ, v).
pub(super) fn log_normal(latent: LatentMarginal) -> (f64, f64, f64) {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let square = (2.0 * (mu + v)).exp();
    let share = -(-v).exp_m1();
    // In this form 0·∞ arises only for v = 0.
    ((mu + 0.5 * v).exp(), square, if share > 0.0 { square * share } else { 0.0 })
}
