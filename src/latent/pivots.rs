//! The order of rows in a pivoted Cholesky factorisation of their kernel matrix, with or without
//! given inducing inputs.
//!
//! Blocks of rows have a fixed size and reductions are made in the order of the blocks, so results
//! do not depend on the number of threads.

use super::{InducingLayer, RawFeatures, whiten};
use crate::error::{Error, Result};
use crate::parallel::*;
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::{Inputs, Kernel, Scratch};

/// The number of rows in one unit of parallel work.
const BLOCK: usize = 512;

/// Pivots end when every residual variance is below this fraction of the largest prior variance:
/// this is about what a Cholesky factor in double precision can resolve.
pub(super) const RESIDUAL_FLOOR: f64 = 1e-12;

/// Some rows of a pivoted Cholesky factor, with the variance of each row given the pivots so far.
struct Block {
    start: usize,
    residual: Vec<f64>,
    /// One column after the other, each as long as `residual`.
    factor: Vec<f64>,
    scratch: Scratch,
}

impl Block {
    /// Returns the entries of the factor in row `row`, counted over all points.
    fn row(&self, row: usize) -> Vec<f64> {
        self.factor.iter().skip(row - self.start).step_by(self.residual.len()).copied().collect()
    }

    /// Adds the column of the pivot `at`, given its row of the factor and its residual variance.
    fn extend(
        &mut self,
        points: MatRef<'_, f64>,
        kernel: &dyn Kernel,
        at: usize,
        pivot: &[f64],
        variance: f64,
    ) {
        let len = self.residual.len();
        let mut column = self.scratch.take(len);
        let inputs = Inputs::Cross { left: points.subrows(self.start, len), right: points.subrows(at, 1) };
        kernel.eval(inputs, MatMut::from_column_major_slice_mut(&mut column, len, 1), &mut self.scratch);
        for (previous, &weight) in self.factor.chunks_exact(len).zip(pivot) {
            for (entry, &value) in column.iter_mut().zip(previous) {
                *entry -= weight * value;
            }
        }
        let root = variance.sqrt();
        for (entry, residual) in column.iter_mut().zip(&mut self.residual) {
            *entry /= root;
            *residual -= *entry * *entry;
        }
        // The column is set exactly at the pivot, where rounding would leave a small rest, or the
        // kernel is not continuous on the diagonal.
        if (self.start..self.start + len).contains(&at) {
            column[at - self.start] = root;
            self.residual[at - self.start] = 0.0;
        }
        self.factor.extend_from_slice(&column);
        self.scratch.give(column);
    }
}

/// An unfinished pivoted Cholesky factorisation of the kernel matrix of points (rows), or of its
/// residual given some inducing inputs.
pub(super) struct Pivoting<'a> {
    points: MatRef<'a, f64>,
    kernel: &'a dyn Kernel,
    blocks: Vec<Block>,
    /// The largest prior variance.
    scale: f64,
}

impl<'a> Pivoting<'a> {
    /// Starts without inducing inputs.
    pub(super) fn new(points: MatRef<'a, f64>, kernel: &'a dyn Kernel) -> Self {
        let mut blocks: Vec<Block> = (0..points.nrows())
            .step_by(BLOCK)
            .map(|start| {
                let rows = points.subrows(start, BLOCK.min(points.nrows() - start));
                let (mut residual, mut scratch) = (vec![0.0; rows.nrows()], Scratch::new());
                kernel.diag(rows, &mut residual, &mut scratch);
                Block { start, residual, factor: Vec::new(), scratch }
            })
            .collect();
        let scale = blocks.iter_mut().flat_map(|block| &block.residual).copied().fold(0.0, f64::max);
        Pivoting { points, kernel, blocks, scale }
    }

    /// Starts with the part of the variance that the inducing inputs of a layer explain.
    pub(super) fn given(points: MatRef<'a, f64>, layer: &'a InducingLayer) -> Self {
        let mut pivoting = Pivoting::new(points, layer.kernel());
        let m = layer.dim();
        pivoting.blocks.par_iter_mut().for_each(|block| {
            let len = block.residual.len();
            let (mut k, mut a) = (Mat::zeros(m, len), Mat::zeros(m, len));
            let right = points.subrows(block.start, len);
            layer.kernel().eval(Inputs::Cross { left: layer.z(), right }, k.as_mut(), &mut block.scratch);
            whiten(layer, k.as_ref(), a.as_mut());
            for i in 0..m {
                block.factor.extend(a.row(i).iter());
            }
            for (j, residual) in block.residual.iter_mut().enumerate() {
                *residual -= a.col(j).iter().map(|a| a * a).sum::<f64>();
            }
        });
        pivoting
    }

    /// Returns the next pivots in order, at most `m`, until all residual variances are at most the
    /// fraction `floor` of the largest prior variance. Without inducing inputs there is at least
    /// one pivot.
    pub(super) fn choose(mut self, m: usize, floor: f64) -> Result<Vec<usize>> {
        let floor = floor * self.scale;
        let mut chosen = Vec::new();
        let (mut at, mut variance) = largest(&self.blocks, self.kernel)?;
        while chosen.len() < m && (variance > floor || (chosen.is_empty() && self.starts_from_nothing())) {
            chosen.push(at);
            if chosen.len() == m || variance <= floor {
                break;
            }
            let pivot = self.blocks[at / BLOCK].row(at);
            let (points, kernel) = (self.points, self.kernel);
            self.blocks.par_iter_mut().for_each(|block| block.extend(points, kernel, at, &pivot, variance));
            (at, variance) = largest(&self.blocks, kernel)?;
        }
        Ok(chosen)
    }

    fn starts_from_nothing(&self) -> bool {
        self.blocks.iter().all(|block| block.factor.is_empty())
    }
}

/// Returns the first row with the largest residual variance, and that variance.
fn largest(blocks: &[Block], kernel: &dyn Kernel) -> Result<(usize, f64)> {
    let mut best = (0, f64::NEG_INFINITY);
    for block in blocks {
        for (i, &variance) in block.residual.iter().enumerate() {
            if !variance.is_finite() {
                return Err(Error::fit(format!(
                    "the kernel {} has values that are not finite at its current parameters",
                    kernel.expression()
                ))
                .hint("check the initial lengthscales and variances, or choose inducing inputs by kmeans"));
            }
            if variance > best.1 {
                best = (block.start + i, variance);
            }
        }
    }
    Ok(best)
}
