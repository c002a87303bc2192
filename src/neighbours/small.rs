//! Vectorised products of a few scattered columns of a matrix: their Gram matrix and linear
//! combinations of them.

use crate::columns::column;
use crate::linalg::{Operand, Part, block_product, dot, product};
use faer::{Accum, MatMut, MatRef};
use pulp::{Arch, Simd, WithSimd};

/// The number of columns of a tile of a Gram matrix on each side; the columns and their sums fit
/// the registers of every machine.
const TILE: usize = 3;

/// The number of SIMD vectors of a column that are processed together.
const RUN: usize = 4;

/// Subtracts the inner products of the columns `places` of `a` from the lower triangle of `out` (a
/// square matrix, by columns).
pub(super) fn subtract_gram(a: MatRef<'_, f64>, places: &[u32], out: &mut [f64]) {
    Arch::new().dispatch(Gram { a, places, out });
}

struct Gram<'a> {
    a: MatRef<'a, f64>,
    places: &'a [u32],
    out: &'a mut [f64],
}

impl WithSimd for Gram<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.places.len();
        for j0 in (0..n).step_by(TILE) {
            for i0 in (j0..n).step_by(TILE) {
                // Indices beyond the last column repeat it.
                let of = |at: usize| column(&self.a, self.places[at.min(n - 1)] as usize);
                let (left, right) = ([0, 1, 2].map(|t| of(i0 + t)), [0, 1, 2].map(|t| of(j0 + t)));
                let sums = inner_products(simd, left, right);
                for (i, sums) in (i0..n).zip(sums) {
                    for (j, sum) in (j0..=i).zip(sums) {
                        self.out[j * n + i] -= sum;
                    }
                }
            }
        }
    }
}

/// Returns the inner products of each of the first vectors with each of the second ones; all have
/// the same length.
#[inline(always)]
fn inner_products<S: Simd, const N: usize>(
    simd: S,
    left: [&[f64]; TILE],
    right: [&[f64]; N],
) -> [[f64; N]; TILE] {
    let (left, right) = (left.map(S::as_simd_f64s), right.map(S::as_simd_f64s));
    let runs = left[0].0.len();
    let (x, y) = (left.map(|(x, _)| &x[..runs]), right.map(|(y, _)| &y[..runs]));
    let mut sums = [[simd.splat_f64s(0.0); N]; TILE];
    for r in 0..runs {
        for i in 0..TILE {
            for j in 0..N {
                sums[i][j] = simd.mul_add_f64s(x[i][r], y[j][r], sums[i][j]);
            }
        }
    }
    let mut out = [[0.0; N]; TILE];
    for i in 0..TILE {
        for j in 0..N {
            let rest: f64 = left[i].1.iter().zip(right[j].1).map(|(a, b)| a * b).sum();
            out[i][j] = simd.reduce_sum_f64s(sums[i][j]) + rest;
        }
    }
    out
}

/// Computes `out_j += a_jᵀ x` for the columns `places` of `a`.
pub(super) fn add_inner_products(a: MatRef<'_, f64>, places: &[u32], x: &[f64], out: &mut [f64]) {
    Arch::new().dispatch(Inner { a, places, x, out });
}

struct Inner<'a> {
    a: MatRef<'a, f64>,
    places: &'a [u32],
    x: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for Inner<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let n = self.places.len();
        for j0 in (0..n).step_by(TILE) {
            let left = [0, 1, 2].map(|t| column(&self.a, self.places[(j0 + t).min(n - 1)] as usize));
            let sums = inner_products(simd, left, [self.x]);
            self.out[j0..].iter_mut().zip(sums).for_each(|(out, [sum])| *out += sum);
        }
    }
}

/// The operands of linear combinations: the columns `places` of `a` and one more column.
#[derive(Clone, Copy)]
pub(super) struct Combined<'a> {
    pub a: MatRef<'a, f64>,
    pub places: &'a [u32],
    pub last: &'a [f64],
}

/// Computes `out_{p_j} += Σ_i w_ij a_i + w_nj x` for the columns `a_i` and x of `from`; `weights`
/// has the n + 1 weights of each j in turn.
pub(super) fn add_combinations(out: MatMut<'_, f64>, to: &[u32], from: Combined<'_>, weights: &[f64]) {
    Arch::new().dispatch(Combinations { out, to, from, weights });
}

struct Combinations<'a> {
    out: MatMut<'a, f64>,
    to: &'a [u32],
    from: Combined<'a>,
    weights: &'a [f64],
}

impl WithSimd for Combinations<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (m, step) = (self.from.last.len(), RUN * S::F64_LANES);
        let long = m - m % step;
        for start in (0..long).step_by(step) {
            self.runs::<S, RUN>(simd, start);
        }
        let single = m - m % S::F64_LANES;
        for start in (long..single).step_by(S::F64_LANES) {
            self.runs::<S, 1>(simd, start);
        }
        if single == m {
            return;
        }
        let terms = self.from.places.len() + 1;
        for (&to, weights) in self.to.iter().zip(self.weights.chunks_exact(terms)) {
            for row in single..m {
                let columns = self.from.places.iter().map(|&place| column(&self.from.a, place as usize)[row]);
                let sum: f64 = columns.chain([self.from.last[row]]).zip(weights).map(|(a, w)| a * w).sum();
                self.out[(row, to as usize)] += sum;
            }
        }
    }
}

impl Combinations<'_> {
    /// Combines `N` SIMD vectors of all columns from row `start` on.
    #[inline(always)]
    fn runs<S: Simd, const N: usize>(&mut self, simd: S, start: usize) {
        let (n, length) = (self.from.places.len(), N * S::F64_LANES);
        let (terms, count) = (n + 1, self.to.len());
        for j0 in (0..count).step_by(TILE) {
            let weights = [0, 1, 2].map(|t| &self.weights[(j0 + t).min(count - 1) * terms..][..terms]);
            let mut sums = [[simd.splat_f64s(0.0); N]; TILE];
            for i in 0..terms {
                let all =
                    if i < n { column(&self.from.a, self.from.places[i] as usize) } else { self.from.last };
                let (run, _) = S::as_simd_f64s(&all[start..start + length]);
                for (sums, weights) in sums.iter_mut().zip(&weights) {
                    let weight = simd.splat_f64s(weights[i]);
                    for (sum, value) in sums.iter_mut().zip(run) {
                        *sum = simd.mul_add_f64s(weight, *value, *sum);
                    }
                }
            }
            for (&to, sums) in self.to[j0..].iter().zip(&sums) {
                let Some(out) = self.out.as_mut().col_mut(to as usize).try_as_col_major_mut() else { return };
                let (out, _) = S::as_mut_simd_f64s(&mut out.as_slice_mut()[start..start + length]);
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = simd.add_f64s(*out, *sum);
                }
            }
        }
    }
}

/// Returns the indices and values of the nonzero entries in the sparse part of a column.
fn sparse(column: &[f64], dense: usize) -> Vec<(usize, f64)> {
    let values = column.iter().enumerate().skip(dense);
    values.filter(|(_, value)| **value != 0.0).map(|(place, value)| (place, *value)).collect()
}

/// Computes `out = scale · G X` for a symmetric G, where X is dense in its first `dense` rows. In
/// the sparse rows only entries at which X is not zero are computed; all others remain zero.
pub(crate) fn image(
    symmetric: MatRef<'_, f64>,
    x: MatRef<'_, f64>,
    dense: usize,
    scale: f64,
    mut out: MatMut<'_, f64>,
) {
    if x.nrows() == dense {
        return block_product(out, Accum::Replace, Operand::full(symmetric), x, scale);
    }
    out.fill(0.0);
    if dense > 0 {
        let corner = Operand::full(symmetric.submatrix(0, 0, dense, dense));
        block_product(out.as_mut().subrows_mut(0, dense), Accum::Replace, corner, x.subrows(0, dense), scale);
    }
    for j in 0..x.ncols() {
        let (own, mut to) = (column(&x, j), out.as_mut().col_mut(j));
        let met = sparse(own, dense);
        for &(place, value) in &met {
            let row = column(&symmetric, place);
            to.as_mut().iter_mut().zip(&row[..dense]).for_each(|(out, g)| *out += scale * value * g);
            let others = met.iter().map(|&(other, value)| value * row[other]).sum::<f64>();
            to[place] = scale * (dot(&row[..dense], &own[..dense]) + others);
        }
    }
}

/// Adds the lower triangle of `X Y`, where `Y = D Xᵀ` for a diagonal D and X is dense in its first `dense` rows.
pub(crate) fn add_gram(mut gram: MatMut<'_, f64>, x: MatRef<'_, f64>, y: MatRef<'_, f64>, dense: usize) {
    if x.nrows() == dense {
        return product(gram, Part::Lower, Accum::Add, Operand::full(x), Operand::full(y), 1.0);
    }
    let (own, own_scaled) = (x.subrows(0, dense), y.subcols(0, dense));
    if dense > 0 {
        let corner = gram.as_mut().submatrix_mut(0, 0, dense, dense);
        product(corner, Part::Lower, Accum::Add, Operand::full(own), Operand::full(own_scaled), 1.0);
    }
    for j in 0..x.ncols() {
        let met = sparse(column(&x, j), dense);
        for &(place, value) in &met {
            (0..dense).for_each(|k| gram[(place, k)] += value * own_scaled[(j, k)]);
            for &(other, _) in met.iter().filter(|(other, _)| *other <= place) {
                gram[(place, other)] += value * y[(j, other)];
            }
        }
    }
}
