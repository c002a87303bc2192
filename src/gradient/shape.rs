//! The places of layers and processes in the matrices of a pass, and the factors that their features are multiplied by.

use super::{BatchPass, Form, Problem, Wanted};
use crate::latent::{LatentLayer, Layers, of_raw_features};
use crate::linalg;
use crate::objective::{Loss, Objective};
use crate::variational::{Matrix, Normal};
use faer::Mat;
use std::ops::Range;

/// The features of a pass: one set for each layer, which its processes share, or for each process, if rows are given their neighbours.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    pub layers: Layers<'a>,
    /// The number of features that grouped effects add to rows given their neighbours; `None` for other rows.
    pub given: Option<usize>,
}

impl Shape<'_> {
    /// Returns the number of sets of features.
    pub fn count(self) -> usize {
        if self.given.is_some() { self.layers.processes() } else { self.layers.count() }
    }

    /// Returns the set of features of a process.
    pub fn of(self, process: usize) -> usize {
        if self.given.is_some() { process } else { self.layers.of(process) }
    }

    /// Returns the layer behind a set of features.
    pub fn layer_of(self, set: usize) -> usize {
        if self.given.is_some() { self.layers.of(set) } else { set }
    }

    /// Returns the place of the process of a set among the processes of its layer.
    pub fn place_of(self, set: usize) -> usize {
        self.layers.place(set)
    }

    /// Returns the processes that share a set of features.
    pub fn members(self, set: usize) -> Range<usize> {
        if self.given.is_some() { set..set + 1 } else { self.layers.members(set) }
    }

    /// Returns the number of features in a set.
    pub fn dim_of(self, set: usize) -> usize {
        self.layers.get(self.layer_of(set)).dim() + self.given.unwrap_or(0)
    }

    /// Returns the rows of a set in a matrix that stacks all sets.
    pub fn rows(self, set: usize) -> Range<usize> {
        let before = (0..set).map(|set| self.dim_of(set)).sum::<usize>();
        before..before + self.dim_of(set)
    }

    /// Returns the rows of a process in a matrix that stacks all processes.
    pub fn process_rows(self, process: usize) -> Range<usize> {
        let before = (0..process).map(|process| self.dim_of(self.of(process))).sum::<usize>();
        before..before + self.dim_of(self.of(process))
    }

    /// Returns the number of features in all sets.
    pub fn dim(self) -> usize {
        self.rows(self.count() - 1).end
    }

    /// Returns the sum of the dimensions of all processes.
    pub fn process_dim(self) -> usize {
        self.process_rows(self.layers.processes() - 1).end
    }

    /// Returns the number of features in the largest set.
    pub fn largest(self) -> usize {
        (0..self.count()).map(|set| self.dim_of(set)).max().unwrap_or(0)
    }

    /// Returns true if sums with the weights `∂²ℓ/∂μ²` are of use: for the steps of update rules, and for squared errors.
    pub fn curved(self, objective: Objective) -> bool {
        objective.has_own_curvature() && (self.given.is_none() || objective.loss == Loss::Square)
    }

    /// Returns true if the pass whitens features. Rows given their neighbours are whitened by construction.
    pub fn whitens(self) -> bool {
        self.given.is_none() && self.layers.whitens()
    }
}

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
