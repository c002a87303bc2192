//! The factors that the features of each process are multiplied by, prepared from q before a pass.

use super::{BatchPass, Form, Problem, Wanted};
use crate::latent::{LatentLayer, of_raw_features};
use crate::linalg;
use crate::variational::{Matrix, Normal};
use faer::Mat;

/// The factors that a process's features are multiplied by.
pub(super) struct ProcessRoom {
    /// `S − κI`, the quadratic form of the variances in whitened features.
    pub quadratic: Matrix,
    /// The quadratic form in raw features, `L⁻ᵀ (S − κI) L⁻¹`, for the direct form.
    pub raw_quadratic: Mat<f64>,
    pub half: Mat<f64>,
    pub mean: Vec<f64>,
    pub mean_raw: Vec<f64>,
}

impl ProcessRoom {
    /// Creates buffers for posteriors like `q`, with square matrices of order `square` in addition
    /// to the matrices of its family.
    pub(super) fn new(q: &Normal, square: usize) -> Self {
        let m = q.dim();
        ProcessRoom {
            quadratic: Matrix::zeros(q.family(), m),
            raw_quadratic: linalg::spread(square, square),
            half: linalg::spread(square, square),
            mean: vec![0.0; m],
            mean_raw: vec![0.0; m],
        }
    }
}

impl BatchPass {
    /// `S − κI`, and in the direct form `Wᵀ(S − κI)W` and `Wᵀm`. Processes of a layer that share products have the weighted sum of their
    /// matrices in the place of the first.
    pub(super) fn prepare(&mut self, problem: Problem<'_>) {
        let layers = problem.layers;
        let shares = self.wanted == Wanted::Envelope && !problem.noises.is_empty();
        for (process, q) in problem.q.iter().enumerate() {
            let layer = layers.get(layers.of(process));
            let first = layers.members(layers.of(process)).start;
            let (own, share) = if shares {
                (first, problem.noises[first] / problem.noises[process])
            } else {
                (process, 1.0)
            };
            self.processes[process].mean.copy_from_slice(q.mean());
            let quadratic = &mut self.processes[own].quadratic;
            if own == process {
                quadratic.copy_from(q.cov());
            } else {
                quadratic.add_scaled(q.cov(), share);
            }
            if self.given.is_none() {
                quadratic.add_diagonal(-layer.kappa() * share);
            }
        }
        let direct = self.form == Form::Direct;
        for (process, room) in self.processes.iter_mut().enumerate().filter(|_| direct) {
            let ProcessRoom { quadratic, raw_quadratic, half, mean, mean_raw } = room;
            let layer = layers.get(layers.of(process));
            let (Matrix::Full(quadratic), Some(whitening)) = (&*quadratic, layer.whitening()) else {
                continue;
            };
            let transposed = whitening.transposed();
            linalg::matvec(transposed.matrix, mean, mean_raw);
            if !shares || layers.members(layers.of(process)).start == process {
                linalg::copy_lower(quadratic.as_ref(), raw_quadratic.as_mut());
                linalg::congruence(transposed, raw_quadratic.as_mut(), half.as_mut());
            }
        }
        if let Some(groups) = problem.groups.filter(|_| direct) {
            self.raw_cross = of_raw_features(layers.get(0), groups.moments.cross.as_ref());
        }
    }
}
