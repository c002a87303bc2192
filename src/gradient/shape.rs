//! The places of layers and processes in the matrices of a pass.

use crate::latent::Layers;
use crate::objective::{Loss, Objective};
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
