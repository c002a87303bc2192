//! Column access and symmetric copies for matrix views; numbers for the points of both sides of a covariance.

use crate::kernel::{Gradient, Inputs, Scratch};
use faer::{MatMut, MatRef};

/// Column `j` of a result, which the contract of [`crate::Kernel`] makes contiguous.
pub(crate) fn column_mut<'a>(matrix: &'a mut MatMut<'_, f64>, j: usize) -> &'a mut [f64] {
    matrix
        .as_mut()
        .col_mut(j)
        .try_as_col_major_mut()
        .expect("result matrices are column-major with unit row stride")
        .as_slice_mut()
}

/// Column `j` as a slice, copied into `buffer` when the rows are strided.
pub(crate) fn column<'a>(matrix: MatRef<'a, f64>, j: usize, buffer: &'a mut [f64]) -> &'a [f64] {
    match matrix.col(j).try_as_col_major() {
        Some(contiguous) => contiguous.as_slice(),
        None => {
            for (to, &from) in buffer.iter_mut().zip(matrix.col(j).iter()) {
                *to = from;
            }
            &buffer[..matrix.nrows()]
        }
    }
}

/// Rows and columns per tile when a matrix is read across: the cache lines of larger tiles would
/// share sets of the first-level cache if the number of rows is a power of two.
const TILE: usize = 8;

/// Copies the strict upper triangle of a square matrix onto the lower one, and writes its diagonal.
pub(crate) fn mirror_upper(mut out: MatMut<'_, f64>, diagonal: impl Fn(usize) -> f64) {
    let n = out.nrows();
    for first in (0..n).step_by(TILE) {
        let end = (first + TILE).min(n);
        for row in (0..first).step_by(TILE) {
            let mut tile = [[0.0; TILE]; TILE];
            for (j, run) in (first..end).zip(&mut tile) {
                run.copy_from_slice(&column_mut(&mut out, j)[row..row + TILE]);
            }
            for (i, at) in (row..row + TILE).enumerate() {
                let to = &mut column_mut(&mut out, at)[first..end];
                to.iter_mut().zip(&tile).for_each(|(to, run)| *to = run[i]);
            }
        }
        for j in first..end {
            out[(j, j)] = diagonal(j);
            for i in first..j {
                out[(j, i)] = out[(i, j)];
            }
        }
    }
}

/// Writes `m_ij + m_ji`, `i < j`, of the columns `first..first + width` into `out`, `n` numbers per
/// column.
pub(crate) fn add_transpose(m: MatRef<'_, f64>, first: usize, width: usize, out: &mut [f64]) {
    let n = m.nrows();
    for row in (0..first + width).step_by(TILE) {
        for j in first..first + width {
            for i in row..(row + TILE).min(j) {
                out[(j - first) * n + i] = m[(i, j)] + m[(j, i)];
            }
        }
    }
}

/// Numbers for the points of both sides, `width` for each point, column by column. The right side of a Gram matrix is empty.
pub(crate) struct Sides {
    width: usize,
    pub left: Vec<f64>,
    pub right: Vec<f64>,
}

impl Sides {
    /// Creates the numbers; `write` fills in the numbers of the given points.
    pub fn of(
        inputs: Inputs<'_>,
        width: usize,
        scratch: &mut Scratch,
        write: impl Fn(MatRef<'_, f64>, &mut [f64]),
    ) -> Sides {
        let (x, z) = inputs.distinct_sides();
        let [left, right] = [x, z].map(|points| {
            let mut to = scratch.take(points.nrows() * width);
            write(points, &mut to);
            to
        });
        Sides { width, left, right }
    }

    /// Creates zeros, to which gradients are added.
    pub fn zeros(inputs: Inputs<'_>, width: usize, scratch: &mut Scratch) -> Sides {
        Sides::of(inputs, width, scratch, |_, to| to.fill(0.0))
    }

    /// Returns inputs of the same kind as `inputs`, whose points are these numbers.
    pub fn inputs(&self, inputs: Inputs<'_>) -> Inputs<'_> {
        let (rows, cols) = inputs.shape();
        let left = MatRef::from_column_major_slice(&self.left, rows, self.width);
        match inputs {
            Inputs::Gram(_) => Inputs::Gram(left),
            Inputs::Cross { .. } => {
                Inputs::Cross { left, right: MatRef::from_column_major_slice(&self.right, cols, self.width) }
            }
        }
    }

    /// Returns the numbers of both sides; both are the left ones for a Gram matrix.
    pub fn pair(&self, inputs: Inputs<'_>) -> [&[f64]; 2] {
        [&self.left, if matches!(inputs, Inputs::Gram(_)) { &self.left } else { &self.right }]
    }

    /// Returns the numbers of both sides as matrices.
    pub fn matrices(&mut self, inputs: Inputs<'_>) -> [MatMut<'_, f64>; 2] {
        let (x, z) = inputs.distinct_sides();
        let left = MatMut::from_column_major_slice_mut(&mut self.left, x.nrows(), self.width);
        [left, MatMut::from_column_major_slice_mut(&mut self.right, z.nrows(), self.width)]
    }

    /// Returns the destination of a gradient: these numbers for the points, and `parameters`.
    pub fn gradient<'a>(&'a mut self, inputs: Inputs<'_>, parameters: &'a mut [f64]) -> Gradient<'a> {
        let [left, right] = self.matrices(inputs);
        Gradient { parameters, left: Some(left), right: Some(right) }
    }

    /// Returns the buffers to the pool.
    pub fn release(self, scratch: &mut Scratch) {
        scratch.give_all([self.left, self.right]);
    }
}
