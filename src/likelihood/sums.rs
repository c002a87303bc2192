//! Functions of f at nodes, compiled for every instruction set: log densities, and weighted sums for gradients in own parameters.

use pulp::Simd;
use sparsegp_kernels::vector_math::{Pass, dispatch};

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
