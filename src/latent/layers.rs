//! The layers of a model, and the latent processes that use the features of each layer.

use super::{AsPrior, InducingLayer, Layer};
use std::ops::Range;

/// The layers of P latent processes: one layer that all of them share, or one for each process.
///
/// Processes that share a layer have the same features but separate posteriors. The matrices of all
/// layers, or of all processes, are stacked one below the other.
pub struct Layers<'a, G = InducingLayer> {
    all: &'a [Layer<G>],
    processes: usize,
}

impl<G> Clone for Layers<'_, G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Layers<'_, G> {}

impl<'a, G> Layers<'a, G> {
    /// Creates the view for this number of processes, with one layer for all of them or one layer for each.
    ///
    /// # Panics
    ///
    /// For any other number of layers.
    pub(crate) fn new(all: &'a [Layer<G>], processes: usize) -> Self {
        assert!(all.len() == 1 || all.len() == processes, "one layer, or one for each process");
        Layers { all, processes }
    }

    /// Creates the view of the layer of a single process.
    pub fn one(layer: &'a Layer<G>) -> Self {
        Layers { all: std::slice::from_ref(layer), processes: 1 }
    }

    /// The number of processes.
    pub(crate) fn processes(self) -> usize {
        self.processes
    }

    /// The number of layers.
    pub(crate) fn count(self) -> usize {
        self.all.len()
    }

    /// A layer.
    pub fn get(self, layer: usize) -> &'a Layer<G> {
        &self.all[layer]
    }

    /// The layers in their order.
    pub(crate) fn iter(self) -> std::slice::Iter<'a, Layer<G>> {
        self.all.iter()
    }

    /// The layer that makes the features of a process.
    pub fn of(self, process: usize) -> usize {
        if self.all.len() == 1 { 0 } else { process }
    }

    /// The place of a process among the processes that share its layer.
    pub(crate) fn place(self, process: usize) -> usize {
        process - self.members(self.of(process)).start
    }

    /// The processes that share a layer.
    pub(crate) fn members(self, layer: usize) -> Range<usize> {
        if self.all.len() == 1 { 0..self.processes } else { layer..layer + 1 }
    }
}

impl<G: AsPrior> Layers<'_, G> {
    /// Returns the sum of the dimensions of all layers.
    pub(crate) fn dim(self) -> usize {
        self.all.iter().map(|layer| layer.dim()).sum()
    }

    /// True if features are whitened, which holds for all layers or for none.
    pub(crate) fn whitens(self) -> bool {
        !matches!(self.all[0], Layer::Linear(_))
    }
}
