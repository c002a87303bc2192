//! Scaled squared distances between two sets of points, and their adjoint.
//!
//! `r²_ij = Σ_d (s_d (x_id − z_jd))²` with one scale (inverse lengthscale) per dimension. Points are centred on the mean of the left set
//! before they are scaled, so a shared offset of all inputs costs no digits. A dimension of categories adds `s_d²` if the codes differ.

mod adjoint;

use crate::dimension::{AddWhere, Dimension, is_category};
use crate::kernel::{Inputs, Scratch};
use crate::matrix::{column, column_mut, mirror_upper};
use crate::vector_math::{Pass, dispatch, dot};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::{Scalar, Simd};

/// Up to this many dimensions, differences are used for cross-covariances too: evaluation and adjoint together were
/// measured as fast as the product form there (512 × 256, AVX-512), and are more accurate.
const DIFFERENCES_UP_TO: usize = 3;
/// The product form loses about `ε·‖x‖²` of `r²`; points further out than this (squared, scaled) use differences.
const LARGEST_NORM: f64 = 1e6;
/// Numbers per panel of columns, so that a panel stays in the second-level cache.
const PANEL: usize = 32_768;
/// Rows per block, so that the points of a block and their gradient stay in the first-level cache.
const ROW_BLOCK: usize = 128;

/// Both sets of points, centred and scaled, ready for distances.
pub(crate) struct ScaledPair<'a> {
    rows: usize,
    cols: usize,
    /// The number of dimensions of numbers.
    dims: usize,
    gram: bool,
    measure: Measure<'a>,
    /// Numbers of the left points, `rows × dims`, one contiguous run per dimension.
    left: Vec<f64>,
    /// Numbers of the right points, `cols × dims`, one contiguous run per point.
    right: Vec<f64>,
    /// Codes of the left points and then of the right ones, one contiguous run per dimension of categories.
    codes: [Vec<f64>; 2],
    /// Squared norms of the left points, then of the right ones; empty when differences are used.
    norms: Vec<f64>,
}

/// The definition of distances.
#[derive(Clone, Copy)]
pub(crate) struct Measure<'a> {
    /// One scale per column of the points.
    pub scales: &'a [f64],
    /// The contents of the columns; empty if all are numbers.
    pub dimensions: &'a [Dimension],
}

impl<'a> Measure<'a> {
    /// The columns of numbers, or of categories, with their scales.
    fn columns(self, categories: bool) -> impl Iterator<Item = (usize, f64)> + use<'a> {
        let all = self.scales.iter().copied().enumerate();
        all.filter(move |&(d, _)| is_category(self.dimensions, d) == categories)
    }
}

/// `weigh(w, k, kbar)` turns a run of `r²` (unspecified numbers unless `needs_distance`) into `w = ∂F/∂r²`.
pub(crate) type Weigh<'a> = dyn FnMut(&mut [f64], &[f64], &[f64]) + 'a;

impl<'a> ScaledPair<'a> {
    /// Centres and scales both sides of `inputs`; the measure has one scale per column of the
    /// points. `kink` is true if the kernel has a kink at `r² = 0`, where a rounding error ε of the
    /// product form would show as `√ε`.
    pub fn new(inputs: Inputs<'_>, measure: Measure<'a>, kink: bool, scratch: &mut Scratch) -> Self {
        let (left, right) = inputs.sides();
        let (rows, cols) = (left.nrows(), right.nrows());
        assert_eq!(left.ncols(), right.ncols(), "left and right points have different numbers of columns");
        assert_eq!(left.ncols(), measure.scales.len(), "one scale per column of the points");
        let dims = measure.columns(false).count();
        let categories = left.ncols() - dims;
        let gram = matches!(inputs, Inputs::Gram(_));
        let mut pair = ScaledPair {
            rows,
            cols,
            dims,
            gram,
            measure,
            left: scratch.take(rows * dims),
            right: scratch.take(cols * dims),
            codes: [scratch.take(rows * categories), scratch.take(cols * categories)],
            norms: scratch.take(0),
        };
        if gram && categories == 0 && rows > 0 && left.col_stride() == 1 {
            pair.take_points(left.transpose(), scratch);
            return pair;
        }
        for (slot, (d, scale)) in measure.columns(false).enumerate() {
            let mean = left.col(d).iter().sum::<f64>() / rows.max(1) as f64;
            // An infinite mean would turn finite points into NaN.
            let centre = if mean.is_finite() { mean } else { 0.0 };
            for (to, &x) in pair.left[slot * rows..].iter_mut().zip(left.col(d).iter()) {
                *to = (x - centre) * scale;
            }
            for (to, &z) in pair.right.iter_mut().skip(slot).step_by(dims).zip(right.col(d).iter()) {
                *to = (z - centre) * scale;
            }
        }
        for (slot, (d, _)) in measure.columns(true).enumerate() {
            for (points, codes) in [left, right].into_iter().zip(&mut pair.codes) {
                codes[slot * points.nrows()..]
                    .iter_mut()
                    .zip(points.col(d).iter())
                    .for_each(|(to, &x)| *to = x);
            }
        }
        if !gram && !kink && dims > DIFFERENCES_UP_TO {
            pair.take_norms(scratch);
        }
        pair
    }

    /// Fills both sides of a Gram matrix from contiguous points (`D × n`). The results equal those
    /// of any other layout, but reads and writes are contiguous. Without this path, models with
    /// neighbours spend a third of their time here.
    fn take_points(&mut self, points: MatRef<'_, f64>, scratch: &mut Scratch) {
        let (dims, rows, scales) = (self.dims, self.rows, self.measure.scales);
        if dims == 0 {
            return;
        }
        let mut centre = scratch.zeros(dims);
        for i in 0..rows {
            centre.iter_mut().zip(column(points, i, &mut [])).for_each(|(sum, x)| *sum += x);
        }
        for sum in centre.iter_mut() {
            let mean = *sum / rows as f64;
            *sum = if mean.is_finite() { mean } else { 0.0 };
        }
        for (i, to) in self.right.chunks_exact_mut(dims).enumerate() {
            let point = column(points, i, &mut []).iter().zip(&centre).zip(scales);
            to.iter_mut().zip(point).for_each(|(to, ((x, centre), scale))| *to = (x - centre) * scale);
        }
        for (d, run) in self.left.chunks_exact_mut(rows).enumerate() {
            run.iter_mut().zip(self.right[d..].iter().step_by(dims)).for_each(|(to, x)| *to = *x);
        }
        scratch.give(centre);
    }

    /// Computes the squared norms, and discards them if a point lies too far out for the product
    /// form.
    fn take_norms(&mut self, scratch: &mut Scratch) {
        let mut norms = scratch.take(self.rows + self.cols);
        let (left, right) = norms.split_at_mut(self.rows);
        left.fill(0.0);
        for run in self.left.chunks_exact(self.rows.max(1)) {
            for (norm, &x) in left.iter_mut().zip(run) {
                *norm += x * x;
            }
        }
        for (norm, point) in right.iter_mut().zip(self.right.chunks_exact(self.dims)) {
            *norm = dot(point, point);
        }
        if norms.iter().any(|&norm| norm > LARGEST_NORM) {
            scratch.give(norms);
        } else {
            scratch.give(std::mem::replace(&mut self.norms, norms));
        }
    }

    /// Returns the buffers to the pool.
    pub fn release(self, scratch: &mut Scratch) {
        let [left_codes, right_codes] = self.codes;
        scratch.give_all([self.left, self.right, left_codes, right_codes, self.norms]);
    }

    fn product_form(&self) -> bool {
        !self.norms.is_empty()
    }

    fn panel_width(&self) -> usize {
        (PANEL / self.rows.max(1)).clamp(4, 128)
    }

    /// Returns the number of leading rows of column `j` to compute: all, or those above the diagonal of a Gram matrix.
    fn height(&self, j: usize) -> usize {
        if self.gram { j } else { self.rows }
    }

    fn left_matrix(&self) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(&self.left, self.rows, self.dims)
    }

    /// The right points `first..first + width`, `D × width`.
    fn right_matrix(&self, first: usize, width: usize) -> MatRef<'_, f64> {
        MatRef::from_column_major_slice(
            &self.right[first * self.dims..][..width * self.dims],
            self.dims,
            width,
        )
    }

    /// Writes the covariance matrix. `finish` turns a run of `r²` into covariances; `diagonal` is
    /// `k(x, x)`.
    pub fn evaluate(&self, mut out: MatMut<'_, f64>, diagonal: f64, finish: &dyn Fn(&mut [f64])) {
        assert_eq!((out.nrows(), out.ncols()), (self.rows, self.cols), "shape of the covariance matrix");
        let step = self.panel_width();
        for first in (0..self.cols).step_by(step) {
            let width = step.min(self.cols - first);
            let mut panel = out.as_mut().subcols_mut(first, width);
            self.squared(first, panel.as_mut());
            for j in 0..width {
                finish(&mut column_mut(&mut panel, j)[..self.height(first + j)]);
            }
        }
        if self.gram {
            mirror_upper(out, |_| diagonal);
        }
    }

    /// Writes `r²` for the columns `first..` into `panel`; for a Gram matrix only the entries above the diagonal.
    fn squared(&self, first: usize, mut panel: MatMut<'_, f64>) {
        self.squared_of_numbers(first, panel.as_mut());
        let [left, right] = &self.codes;
        for (slot, (_, scale)) in self.measure.columns(true).enumerate() {
            for j in 0..panel.ncols() {
                let height = self.height(first + j);
                dispatch(AddWhere {
                    equal: false,
                    codes: &left[slot * self.rows..][..height],
                    code: right[slot * self.cols + first + j],
                    value: scale * scale,
                    out: &mut column_mut(&mut panel, j)[..height],
                });
            }
        }
    }

    /// Writes the part of `r²` that comes from columns of numbers.
    fn squared_of_numbers(&self, first: usize, mut panel: MatMut<'_, f64>) {
        let width = panel.ncols();
        if self.product_form() {
            let right = self.right_matrix(first, width);
            matmul(panel.as_mut(), Accum::Replace, self.left_matrix(), right, -2.0, Par::Seq);
            let (left_norms, right_norms) = self.norms.split_at(self.rows);
            for j in 0..width {
                let column = column_mut(&mut panel, j);
                dispatch(AddNorms { column, left: left_norms, right: right_norms[first + j] });
            }
            return;
        }
        for block in (0..self.height(self.cols)).step_by(ROW_BLOCK) {
            for j in 0..width {
                let end = self.height(first + j).min(block + ROW_BLOCK);
                if block < end {
                    dispatch(Differences {
                        // Empty if all columns are categories.
                        left: self.left.get(block..).unwrap_or_default(),
                        stride: self.rows,
                        point: &self.right[(first + j) * self.dims..][..self.dims],
                        out: &mut column_mut(&mut panel, j)[block..end],
                    });
                }
            }
        }
    }
}

/// Completes `−2 x·z` to `‖x − z‖²`, never negative.
struct AddNorms<'a> {
    column: &'a mut [f64],
    left: &'a [f64],
    right: f64,
}

impl Pass for AddNorms<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for (value, &norm) in self.column.iter_mut().zip(self.left) {
            let r2 = *value + (norm + self.right);
            // Not `max`, which would hide a NaN.
            *value = if r2 < 0.0 { 0.0 } else { r2 };
        }
    }
}

/// `‖x_i − z‖²` for a run of left points and one right point.
struct Differences<'a> {
    /// Starts at the first point of the run; its next dimension is `stride` further on.
    left: &'a [f64],
    stride: usize,
    point: &'a [f64],
    out: &'a mut [f64],
}

/// `N` vectors of squared distances from `offset` on.
#[inline(always)]
fn distances<S: Simd, const N: usize>(
    simd: S,
    left: &[f64],
    stride: usize,
    point: &[f64],
    offset: usize,
) -> [S::f64s; N] {
    let mut sums = [simd.splat_f64s(0.0); N];
    for (d, &z) in point.iter().enumerate() {
        let (x, _) = S::as_simd_f64s(&left[d * stride + offset..][..N * S::F64_LANES]);
        let z = simd.splat_f64s(z);
        for n in 0..N {
            let difference = simd.sub_f64s(x[n], z);
            sums[n] = simd.mul_add_e_f64s(difference, difference, sums[n]);
        }
    }
    sums
}

impl Pass for Differences<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Differences { left, stride, point, out } = self;
        let (vectors, rest) = S::as_mut_simd_f64s(out);
        let (quads, singles) = vectors.as_chunks_mut::<4>();
        let mut offset = 0;
        for quad in quads {
            *quad = distances::<S, 4>(simd, left, stride, point, offset);
            offset += 4 * S::F64_LANES;
        }
        for single in singles {
            [*single] = distances::<S, 1>(simd, left, stride, point, offset);
            offset += S::F64_LANES;
        }
        for (i, out) in rest.iter_mut().enumerate() {
            [*out] = distances::<Scalar, 1>(Scalar, left, stride, point, offset + i);
        }
    }
}
