//! The members of a window: their inputs, centred targets and whitened features, computed once, and
//! the adjoint of the features.

use super::blocks::{Block, Window};
use crate::columns;
use crate::effects::{EffectFeatures, Effects};
use crate::latent::{
    FeaturesAdjoint, InducingLayer, LatentLayer, LayerGradient, RawFeatures, whiten, whiten_adjoint,
};
use crate::linalg::{Operand, Part, product};
use crate::parallel::*;
use crate::threads::PerThread;
use faer::{Accum, Mat, MatMut, MatRef};
use sparsegp_kernels::Scratch;

/// The number of members whose features are computed together.
const COLUMNS: usize = 256;

/// The minimum number of rows of features that a thread adds at a time.
const STRIPE: usize = 32;

/// The data and queries that members of windows are taken from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Inputs of the data, `n × D`, followed by the columns of grouped effects if there are any.
    pub x: MatRef<'a, f64>,
    /// Targets of the data, n.
    pub y: &'a [f64],
    /// Noise variances of the data: one for all, or n.
    pub noise: &'a [f64],
    /// The rows of windows (with the columns of `x`), if they are not rows of the data. Their
    /// targets are unknown, so their c and noise are 0.
    pub queries: Option<MatRef<'a, f64>>,
    /// Grouped effects, whose columns follow the inputs of f.
    pub effects: &'a Effects,
}

/// The members of a window, in buffers that grow to the size of the largest window and are kept.
pub(crate) struct Members {
    count: usize,
    /// Their indices among data or queries.
    rows: Vec<u32>,
    /// The number D of inputs of f.
    inputs: usize,
    /// Inputs and the columns of grouped effects, a column for each member.
    x: Mat<f64>,
    /// `c = y − o`.
    pub(super) c: Vec<f64>,
    pub(super) noise: Vec<f64>,
    /// Whitened features of f.
    a: Mat<f64>,
    a_bar: Mat<f64>,
    pub(super) effects: EffectFeatures,
    per_thread: PerThread<ThreadRoom>,
}

struct ThreadRoom {
    raw: Mat<f64>,
    raw_bar: Mat<f64>,
    numbers: Vec<f64>,
    scratch: Scratch,
}

/// Returns the leading `rows × columns` of a buffer, which grows if necessary.
pub(crate) fn room(buffer: &mut Mat<f64>, rows: usize, columns: usize) -> MatMut<'_, f64> {
    if buffer.nrows() != rows || buffer.ncols() < columns {
        *buffer = Mat::zeros(rows, columns.max(buffer.ncols()));
    }
    buffer.as_mut().subcols_mut(0, columns)
}

impl Default for Members {
    fn default() -> Self {
        Members {
            count: 0,
            rows: Vec::new(),
            inputs: 0,
            x: Mat::new(),
            c: Vec::new(),
            noise: Vec::new(),
            a: Mat::new(),
            a_bar: Mat::new(),
            effects: EffectFeatures::default(),
            per_thread: PerThread::new(ThreadRoom::new),
        }
    }
}

impl Members {
    /// Returns the inputs, `D × u`.
    pub(super) fn x(&self) -> MatRef<'_, f64> {
        self.x.as_ref().submatrix(0, 0, self.inputs, self.count)
    }

    /// Returns the indices, among data or queries, of the members with these indices.
    pub fn rows<'a>(&'a self, places: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        places.iter().map(|&place| self.rows[place as usize])
    }

    /// Returns the whitened features `a`, `M × u`.
    pub(super) fn a(&self) -> MatRef<'_, f64> {
        self.a.as_ref().subcols(0, self.count)
    }

    /// Returns the number of features of f.
    pub fn dim(&self) -> usize {
        self.a.nrows()
    }

    /// Loads the members of a window for a process of the layer, and computes their features.
    pub fn load(&mut self, layer: &InducingLayer, process: usize, source: Source<'_>, window: &Window) {
        let (m, u, d) = (layer.dim(), window.members.len(), source.x.ncols());
        (self.count, self.inputs) = (u, layer.z().ncols());
        self.rows.clone_from(&window.members);
        let mut x = room(&mut self.x, d, u);
        let (mean, new) = (layer.mean().values[process], window.queries);
        [&mut self.c, &mut self.noise].into_iter().for_each(Vec::clear);
        for (at, &member) in window.members.iter().enumerate() {
            let (member, query) = (member as usize, source.queries.filter(|_| at < new));
            x.as_mut().col_mut(at).copy_from(query.unwrap_or(source.x).row(member).transpose());
            let (c, noise) = match (query, source.noise) {
                (Some(_), _) => (0.0, 0.0),
                (None, [noise]) => (source.y[member] - mean, *noise),
                (None, noise) => (source.y[member] - mean, noise[member]),
            };
            self.c.push(c);
            self.noise.push(noise);
        }
        self.effects.reset(source.effects);
        let members = self.x.as_ref().col_iter().take(u).filter(|_| !source.effects.is_empty());
        members.for_each(|x| self.effects.push(source.effects, x.transpose()));
        let (a, x) = (room(&mut self.a, m, u), self.x.as_ref());
        if m == 0 {
            return;
        }
        let chunks = columns::col_chunks(a, COLUMNS).into_par_iter().enumerate();
        chunks.for_each(|(at, a)| {
            self.per_thread.with(|room| {
                room.features(layer, x.subcols(at * COLUMNS, a.ncols()));
                whiten(layer, room.raw.as_ref().subcols(0, a.ncols()), a);
            });
        });
    }

    /// Sets the adjoint of the loaded members' features to zero.
    pub(crate) fn clear_adjoint(&mut self) {
        let (m, u) = (self.a.nrows(), self.count);
        room(&mut self.a_bar, m, u).fill(0.0);
    }

    /// Adds the adjoints of the features of some blocks (`M × u'` each, for blocks of u' members).
    pub(crate) fn add_blocks(&mut self, blocks: &[(&Block, MatRef<'_, f64>)]) {
        let count = self.count;
        if self.a.nrows() == 0 {
            return;
        }
        let all = self.a_bar.as_mut().subcols_mut(0, count);
        // Each thread has separate rows, and adds the blocks in their order, so the sums do not
        // depend on the threads.
        let height = STRIPE.max(all.nrows().div_ceil(4 * current_num_threads()));
        let stripes = columns::row_chunks(all, height).into_par_iter().enumerate();
        stripes.for_each(|(at, mut stripe)| {
            for (block, bar) in blocks {
                let bar = bar.subrows(height * at, stripe.nrows());
                columns::scatter(stripe.as_mut(), &block.members, bar);
            }
        });
    }

    /// Adds the adjoint of the members' features to the gradient of the layer and, as the lower
    /// triangle of `Ā Aᵀ`, to `g`.
    pub fn adjoint(&self, layer: &InducingLayer, gradient: &mut LayerGradient, g: MatMut<'_, f64>) {
        let bar = self.a_bar.as_ref().subcols(0, self.count);
        if bar.nrows() == 0 {
            return;
        }
        let (left, right) = (Operand::full(bar), Operand::full(self.a().transpose()));
        product(g, Part::Lower, Accum::Add, left, right, 1.0);
        let each = |at: usize| {
            let (mut part, first) = (layer.zero_gradient(), at * COLUMNS);
            let count = COLUMNS.min(self.count - first);
            let (x, bar) = (self.x.as_ref().subcols(first, count), bar.subcols(first, count));
            self.per_thread.with(|room| room.adjoint(layer, x, bar, &mut part));
            part
        };
        // Collected before they are summed, so that the sum does not depend on the threads.
        let parts: Vec<LayerGradient> = (0..self.count.div_ceil(COLUMNS)).into_par_iter().map(each).collect();
        parts.iter().for_each(|part| gradient.add(part));
    }
}

impl ThreadRoom {
    fn new() -> Self {
        ThreadRoom { raw: Mat::new(), raw_bar: Mat::new(), numbers: Vec::new(), scratch: Scratch::new() }
    }

    /// Computes the raw features of the inputs `x` (`D × u`).
    fn features(&mut self, layer: &InducingLayer, x: MatRef<'_, f64>) {
        let u = x.ncols();
        self.numbers.resize(2 * COLUMNS, 0.0);
        let (base, offset) = self.numbers.split_at_mut(COLUMNS);
        let raw = room(&mut self.raw, layer.dim(), u);
        layer.features(x.transpose(), raw, &mut base[..u], &mut offset[..u], &mut self.scratch);
    }

    fn adjoint(
        &mut self,
        layer: &InducingLayer,
        x: MatRef<'_, f64>,
        bar: MatRef<'_, f64>,
        gradient: &mut LayerGradient,
    ) {
        let u = x.ncols();
        self.features(layer, x);
        whiten_adjoint(layer, bar, room(&mut self.raw_bar, layer.dim(), u));
        self.numbers.fill(0.0);
        let by = FeaturesAdjoint {
            x: x.transpose(),
            features: self.raw.as_ref().subcols(0, u),
            features_bar: self.raw_bar.as_ref().subcols(0, u),
            base_bar: &self.numbers[..u],
            offset_bar: &[],
        };
        layer.features_adjoint(by, gradient, &mut self.scratch);
    }
}
