//! The adjoint of scaled squared distances: sums over pairs, panel by panel.

use super::{ROW_BLOCK, ScaledPair, Weigh};
use crate::dimension::SumWhere;
use crate::kernel::{Evaluated, Gradient, Scratch};
use crate::matrix::{add_transpose, column};
use crate::vector_math::{Pass, dispatch};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::{Scalar, Simd};

/// The sums over pairs that a gradient consists of; `w_ij` is the weight of `r²_ij`.
struct PairSums {
    /// `Σ_j w_ij (x_i − z_j)`, or only `Σ_j w_ij z_j` in the product form, `rows × dims`.
    left: Vec<f64>,
    /// `Σ_j w_ij`, in the product form.
    row: Vec<f64>,
    /// The sums over i for the right points of a panel, `dims × step`.
    right: Vec<f64>,
    /// The sums over pairs for the scale of every column of numbers.
    squares: Vec<f64>,
    /// `Σ_ij w_ij` over pairs with different codes, for every column of categories.
    mismatches: Vec<f64>,
}

impl PairSums {
    /// Returns sums of zero, for panels of `step` columns.
    fn take(pair: &ScaledPair<'_>, step: usize, scratch: &mut Scratch) -> PairSums {
        let (rows, dims) = (pair.rows, pair.dims);
        PairSums {
            left: scratch.zeros(rows * dims),
            row: scratch.zeros(rows),
            right: scratch.zeros(step * dims),
            squares: scratch.zeros(dims),
            mismatches: scratch.zeros(pair.measure.scales.len() - dims),
        }
    }

    fn give(self, scratch: &mut Scratch) {
        scratch.give_all([self.left, self.row, self.right, self.squares, self.mismatches]);
    }
}

impl ScaledPair<'_> {
    /// Adds the gradient of a function of `r²`. The parameters of `gradient` are `log s_d`, one per column of the points.
    ///
    /// For a Gram matrix `weigh` sees each pair once, above the diagonal, with `kbar_ij + kbar_ji`.
    pub fn adjoint(
        &self,
        at: Evaluated<'_>,
        needs_distance: bool,
        weigh: &mut Weigh<'_>,
        mut gradient: Gradient<'_>,
        scratch: &mut Scratch,
    ) {
        let (rows, cols) = (self.rows, self.cols);
        let step = self.panel_width();
        let mut weights = scratch.take(rows * step);
        // A panel of `K̄ + K̄ᵀ`, and columns of matrices that are not contiguous.
        let mut both = scratch.take(if self.gram { rows * step } else { 0 });
        let [mut k_buffer, mut kbar_buffer] = [(); 2].map(|()| scratch.take(rows));
        let mut sums = PairSums::take(self, step, scratch);
        for first in (0..cols).step_by(step) {
            let width = step.min(cols - first);
            let panel = &mut weights[..rows * width];
            if needs_distance {
                self.squared(first, MatMut::from_column_major_slice_mut(panel, rows, width));
            }
            if self.gram {
                add_transpose(at.kbar, first, width, &mut both);
            }
            for j in 0..width {
                let height = self.height(first + j);
                let k = &column(at.k, first + j, &mut k_buffer)[..height];
                let kbar = if self.gram {
                    &both[j * rows..][..height]
                } else {
                    column(at.kbar, first + j, &mut kbar_buffer)
                };
                weigh(&mut panel[j * rows..][..height], k, kbar);
                self.add_mismatches(first + j, &panel[j * rows..][..height], &mut sums.mismatches);
            }
            sums.right.fill(0.0);
            if self.product_form() {
                self.add_products(first, width, panel, gradient.right.is_some(), &mut sums);
            } else {
                self.add_blocks(first, width, panel, &mut sums);
            }
            let target = if self.gram { &mut gradient.left } else { &mut gradient.right };
            if let Some(target) = target {
                self.add_right(first, width, &sums, target);
            }
        }
        self.add_left(&mut sums, &mut gradient);
        scratch.give_all([weights, both, k_buffer, kbar_buffer]);
        sums.give(scratch);
    }

    /// Adds the sums of a panel of weights, whose first column is `first`, as matrix products.
    fn add_products(
        &self,
        first: usize,
        width: usize,
        weights: &[f64],
        wants_right: bool,
        sums: &mut PairSums,
    ) {
        let (rows, dims) = (self.rows, self.dims);
        let panel = MatRef::from_column_major_slice(weights, rows, width);
        let right = self.right_matrix(first, width);
        let left_sums = MatMut::from_column_major_slice_mut(&mut sums.left, rows, dims);
        matmul(left_sums, Accum::Add, panel, right.transpose(), 1.0, Par::Seq);
        if wants_right {
            let right_sums =
                MatMut::from_column_major_slice_mut(&mut sums.right[..dims * width], dims, width);
            matmul(right_sums, Accum::Replace, self.left_matrix().transpose(), panel, 1.0, Par::Seq);
        }
        for j in 0..width {
            let column = &weights[j * rows..][..rows];
            let total = dispatch(AddAndSum { column, sums: &mut sums.row });
            let point = &self.right[(first + j) * dims..][..dims];
            let right = &mut sums.right[j * dims..][..dims];
            for ((&z, square), right) in point.iter().zip(&mut sums.squares).zip(right) {
                *square += total * z * z;
                *right -= total * z;
            }
        }
    }

    /// Adds the sums of a panel of weights, whose first column is `first`, pair by pair in blocks of rows.
    fn add_blocks(&self, first: usize, width: usize, weights: &[f64], sums: &mut PairSums) {
        let (rows, dims) = (self.rows, self.dims);
        for block in (0..self.height(self.cols)).step_by(ROW_BLOCK) {
            for j in 0..width {
                let end = self.height(first + j).min(block + ROW_BLOCK);
                if block < end {
                    dispatch(Accumulate {
                        weights: &weights[j * rows..][block..end],
                        left: self.left.get(block..).unwrap_or_default(),
                        stride: rows,
                        point: &self.right[(first + j) * dims..][..dims],
                        left_sums: sums.left.get_mut(block..).unwrap_or_default(),
                        right_sums: &mut sums.right[j * dims..][..dims],
                        squares: &mut sums.squares,
                    });
                }
            }
        }
    }

    /// Adds the gradient in the right points of a panel.
    fn add_right(&self, first: usize, width: usize, sums: &PairSums, target: &mut MatMut<'_, f64>) {
        for j in 0..width {
            for (slot, (d, scale)) in self.measure.columns(false).enumerate() {
                target[(first + j, d)] -= 2.0 * scale * sums.right[j * self.dims + slot];
            }
        }
    }

    /// Adds the gradient in the left points and in the scales.
    fn add_left(&self, sums: &mut PairSums, gradient: &mut Gradient<'_>) {
        let rows = self.rows;
        for (slot, (d, scale)) in self.measure.columns(false).enumerate() {
            let left_sums = &mut sums.left[slot * rows..][..rows];
            let mut square = sums.squares[slot];
            if self.product_form() {
                // Σ_ij w (x − z)² = Σ_i x_i (Σ_j w x_i − 2 Σ_j w z_j) + Σ_ij w z_j²
                for ((sum, &x), &total) in left_sums.iter_mut().zip(&self.left[slot * rows..]).zip(&sums.row)
                {
                    square += x * (total * x - 2.0 * *sum);
                    *sum = total * x - *sum;
                }
            }
            if let Some(log_scale) = gradient.parameters.get_mut(d) {
                *log_scale += 2.0 * square;
            }
            if let Some(left) = &mut gradient.left {
                for (i, sum) in left_sums.iter().enumerate() {
                    left[(i, d)] += 2.0 * scale * sum;
                }
            }
        }
        for (&sum, (d, scale)) in sums.mismatches.iter().zip(self.measure.columns(true)) {
            if let Some(log_scale) = gradient.parameters.get_mut(d) {
                *log_scale += 2.0 * scale * scale * sum;
            }
        }
    }

    /// Adds the weights of those left points (the run starts at the first) whose codes differ from
    /// the code of right point `j`.
    fn add_mismatches(&self, j: usize, weights: &[f64], sums: &mut [f64]) {
        let [left, right] = &self.codes;
        for (slot, sum) in sums.iter_mut().enumerate() {
            let codes = &left[slot * self.rows..][..weights.len()];
            *sum += dispatch(SumWhere { equal: false, codes, code: right[slot * self.cols + j], weights });
        }
    }
}

/// `sums += column`; returns the total of the column.
struct AddAndSum<'a> {
    column: &'a [f64],
    sums: &'a mut [f64],
}

impl Pass for AddAndSum<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f64 {
        let (column, column_rest) = S::as_simd_f64s(self.column);
        let (sums, sums_rest) = S::as_mut_simd_f64s(self.sums);
        let mut total = simd.splat_f64s(0.0);
        for (&value, sum) in column.iter().zip(sums) {
            *sum = simd.add_f64s(*sum, value);
            total = simd.add_f64s(total, value);
        }
        for (value, sum) in column_rest.iter().zip(sums_rest) {
            *sum += value;
        }
        simd.reduce_sum_f64s(total) + column_rest.iter().sum::<f64>()
    }
}

/// The adjoint of [`Differences`] for one right point: `w_i (x_i − z)` to both sides, `w_i (x_i − z)²` to the scales.
struct Accumulate<'a> {
    weights: &'a [f64],
    left: &'a [f64],
    stride: usize,
    point: &'a [f64],
    left_sums: &'a mut [f64],
    right_sums: &'a mut [f64],
    squares: &'a mut [f64],
}

/// One run of one dimension; adds `w (x − z)` to `sums`, returns its total and that of `w (x − z)²`.
#[inline(always)]
fn accumulate<S: Simd>(simd: S, w: &[S::f64s], x: &[S::f64s], z: f64, sums: &mut [S::f64s]) -> (f64, f64) {
    let z = simd.splat_f64s(z);
    let mut total = simd.splat_f64s(0.0);
    let mut square = simd.splat_f64s(0.0);
    for ((&w, &x), sum) in w.iter().zip(x).zip(sums) {
        let difference = simd.sub_f64s(x, z);
        let term = simd.mul_f64s(w, difference);
        *sum = simd.add_f64s(*sum, term);
        total = simd.add_f64s(total, term);
        square = simd.mul_add_e_f64s(term, difference, square);
    }
    (simd.reduce_sum_f64s(total), simd.reduce_sum_f64s(square))
}

impl Pass for Accumulate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let n = self.weights.len();
        let (weights, weights_rest) = S::as_simd_f64s(self.weights);
        for (d, &z) in self.point.iter().enumerate() {
            let (left, left_rest) = S::as_simd_f64s(&self.left[d * self.stride..][..n]);
            let (sums, sums_rest) = S::as_mut_simd_f64s(&mut self.left_sums[d * self.stride..][..n]);
            let (total, square) = accumulate(simd, weights, left, z, sums);
            let (total_rest, square_rest) = accumulate(Scalar, weights_rest, left_rest, z, sums_rest);
            self.right_sums[d] += total + total_rest;
            self.squares[d] += square + square_rest;
        }
    }
}
