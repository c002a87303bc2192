//! A window of a batch: its features, its blocks of columns in parallel, and the products that are
//! sums over it.

use super::sampling::{SampleScratch, SampledBlock, Sampling};
use super::single::{Single, SingleRoom};
use super::sums::{Draws, ProcessSums};
use super::{Batch, Form, Problem, ProcessRoom};
use crate::columns;
use crate::latent::{FeaturesAdjoint, Layer, LayerGradient, Layers, whiten, whiten_adjoint};
use crate::linalg::{self, Operand, Part, block_product, product};
use crate::objective::{Derivatives, LossInputs, LossScratch, Objective};
use crate::threads::{ALONE, PerThread};
use crate::variational::{Family, MatrixRef};
use faer::reborrow::IntoConst;
use faer::{Accum, Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use sparsegp_kernels::Scratch;

/// The number of rows of a batch that are processed together, so that their matrices stay in the
/// last-level cache and memory is bounded.
pub const WINDOW_ROWS: usize = 1024;

/// Returns the number of columns of a block of features of dimension `m` for `b` rows, for any
/// number of threads: enough for GEMM, which packs its left operand again for every block, and few
/// enough that there are several blocks to share.
pub fn block_columns(m: usize, b: usize) -> usize {
    const NUMBERS: usize = 32_768;
    let most = (b / 4).next_multiple_of(16).max(64);
    (NUMBERS / m.max(1)).next_multiple_of(16).clamp(128, 512).min(most)
}

/// Matrices that a block borrows; they are still in the cache of the thread that used them before.
/// `k` has the rows of all layers, `t` those of all processes, `kbar` those of the largest layer.
struct ThreadRoom {
    k: Mat<f64>,
    t: Mat<f64>,
    kbar: Mat<f64>,
    base_bar: Vec<f64>,
    single: Vec<SingleRoom>,
    scratch: Scratch,
}

/// The buffers and sums of one block of columns. Numbers per datum are stored for all data of one layer, or process, after the other.
pub(super) struct Block {
    base: Vec<f64>,
    offset: Vec<f64>,
    pub(super) mu: Vec<f64>,
    pub(super) v: Vec<f64>,
    g: Vec<f64>,
    h: Vec<f64>,
    curvature: Vec<f64>,
    pub(super) c: Vec<f64>,
    /// The diagonals of `A diag(h) Aᵀ` and `A diag(curvature) Aᵀ`, if q is diagonal.
    pub(super) diagonals: [Vec<f64>; 2],
    pub(super) layers: Vec<LayerGradient>,
    pub(super) likelihood: Vec<f64>,
    pub(super) value: f64,
    pub(super) loss: LossScratch,
    pub(super) samples: SampleScratch,
}

impl Block {
    /// Creates buffers for `columns` rows on `layers`, a likelihood with `own` parameters and
    /// posteriors of `family`.
    pub(super) fn new(
        layers: Layers<'_>,
        own: usize,
        objective: &Objective,
        family: Family,
        columns: usize,
    ) -> Self {
        let all = layers.process_dim();
        let diagonal = if family == Family::Diagonal { all } else { 0 };
        let of_processes = || vec![0.0; layers.processes() * columns];
        Block {
            base: vec![0.0; layers.count() * columns],
            offset: vec![0.0; layers.count() * columns],
            mu: of_processes(),
            v: of_processes(),
            g: of_processes(),
            h: of_processes(),
            curvature: of_processes(),
            c: vec![0.0; all],
            diagonals: [vec![0.0; diagonal], vec![0.0; diagonal]],
            layers: layers.iter().map(|layer| layer.zero_gradient()).collect(),
            likelihood: vec![0.0; own],
            value: 0.0,
            loss: LossScratch::new(objective),
            samples: SampleScratch::default(),
        }
    }
}

/// The matrices for the rows of a batch that are processed together, and the matrices that blocks borrow.
pub(super) struct Window {
    columns: usize,
    /// The features in the sums over data: `A`, or in the direct form `K`, of all layers.
    features: Mat<f64>,
    /// `diag(h) Aᵀ` and `diag(∂²ℓ/∂μ²) Aᵀ` of all processes, transposed so that GEMM reads both operands along columns.
    scaled: [Mat<f64>; 2],
    per_thread: PerThread<ThreadRoom>,
}

impl Window {
    /// Buffers for windows of a batch of up to `b` data, with the second operands that are `wanted`.
    pub(super) fn new(layers: Layers<'_>, b: usize, wanted: [bool; 2]) -> Self {
        let (m, rows, count) = (layers.dim(), b.min(WINDOW_ROWS), layers.count());
        let largest = layers.iter().map(|layer| layer.dim()).max().unwrap_or(0);
        let all = layers.process_dim();
        let columns = block_columns(largest, rows);
        let [wide, tall] = if layers.whitens() { [m, largest] } else { [0, 0] };
        let shared = if layers.processes() > count { columns } else { 0 };
        Window {
            columns,
            features: linalg::spread(m, rows),
            scaled: wanted.map(|wanted| linalg::spread(rows, if wanted { all } else { 0 })),
            per_thread: PerThread::new(move || ThreadRoom {
                k: Mat::zeros(wide, columns),
                t: Mat::zeros(all, columns),
                kbar: Mat::zeros(tall, columns),
                base_bar: vec![0.0; shared],
                single: (0..count).map(|_| SingleRoom::new()).collect(),
                scratch: Scratch::new(),
            }),
        }
    }

    /// Returns the maximum number of rows of a window.
    pub(super) fn rows(&self) -> usize {
        self.features.ncols()
    }

    /// Returns the maximum number of rows of a block.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Runs the blocks of a window; `first` is the number of its first block within the batch.
    pub(super) fn run(&mut self, shared: Shared<'_>, part: Batch<'_>, first: usize, blocks: &mut [Block]) {
        let (b, columns, per_thread) = (part.targets.len(), self.columns, &self.per_thread);
        let run_block = |i: usize, buffers: Buffers<'_>, block: &mut Block| {
            let part = part.part(i * columns, buffers.features.ncols());
            per_thread.with(|room| shared.run_block(first + i, part, buffers, room, block));
        };
        let features = self.features.as_mut().subcols_mut(0, b);
        let [scaled, curved] = self.scaled.each_mut().map(|own| own.as_mut().subrows_mut(0, b));
        if b * features.nrows().pow(2) < ALONE {
            let mut whole = Buffers { features, scaled, curved };
            for (i, block) in blocks.iter_mut().enumerate() {
                run_block(i, whole.part(i * columns, columns), block);
            }
            return;
        }
        (
            features.par_col_chunks_mut(columns),
            scaled.par_row_chunks_mut(columns),
            curved.par_row_chunks_mut(columns),
            blocks.par_iter_mut(),
        )
            .into_par_iter()
            .enumerate()
            .with_max_len(1)
            .for_each(|(i, (features, scaled, curved, block))| {
                run_block(i, Buffers { features, scaled, curved }, block);
            });
    }

    /// Adds the window's `b` data to the lower triangles of `A diag(·) Aᵀ` of every process, or starts the sums with them.
    pub(super) fn add_to(&self, layers: Layers<'_>, sums: &mut [ProcessSums], b: usize, starts: bool) {
        let accum = if starts { Accum::Replace } else { Accum::Add };
        for (process, sums) in sums.iter_mut().enumerate() {
            let features = self.features.as_ref().submatrix(0, 0, self.features.nrows(), b);
            let features = features.get(layers.rows(layers.of(process)), ..);
            for (sum, scaled) in sums.squares().into_iter().zip(&self.scaled) {
                let Some(sum) = sum else { continue };
                let scaled = scaled.as_ref().subrows(0, b).get(.., layers.process_rows(process));
                let (left, right) = (Operand::full(features), Operand::full(scaled));
                product(sum.as_mut(), Part::Lower, accum, left, right, 1.0);
            }
        }
    }
}

/// The columns, or rows, of the large matrices that belong to a block.
struct Buffers<'a> {
    features: MatMut<'a, f64>,
    scaled: MatMut<'a, f64>,
    curved: MatMut<'a, f64>,
}

impl Buffers<'_> {
    /// Returns the buffers of `len` rows from `from` on, or of fewer at the end.
    fn part(&mut self, from: usize, len: usize) -> Buffers<'_> {
        let len = len.min(self.features.ncols() - from);
        Buffers {
            features: self.features.as_mut().subcols_mut(from, len),
            scaled: self.scaled.as_mut().subrows_mut(from, len),
            curved: self.curved.as_mut().subrows_mut(from, len),
        }
    }
}

/// The inputs of every block of a pass.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) problem: Problem<'a>,
    pub(super) form: Form,
    pub(super) train_theta: bool,
    /// True if all of B is needed. For a diagonal q only the layers' adjoint needs it.
    pub(super) outer: bool,
    /// True if the features are already computed.
    pub(super) kept: bool,
    /// The numbers that determine the random numbers of the pass.
    pub(super) draws: Draws,
    /// The factors of every process.
    pub(super) processes: &'a [ProcessRoom],
    pub(super) sampling: Option<&'a Sampling>,
    pub(super) single: Option<&'a Single>,
}

impl<'a> Shared<'a> {
    /// `S − κI` and m of a process; in the direct form they are for raw features.
    fn moments_of(self, process: usize) -> (MatrixRef<'a>, &'a [f64]) {
        let room = &self.processes[process];
        match self.form {
            Form::Stable | Form::Mixed => (room.quadratic.as_ref(), &room.mean),
            Form::Direct => (MatrixRef::Full(room.raw_quadratic.as_ref()), &room.mean_raw),
        }
    }

    /// True if the features of the sums are whitened.
    fn whitens(self) -> bool {
        self.form != Form::Direct && self.problem.layers.whitens()
    }

    fn run_block(
        self,
        index: usize,
        batch: Batch<'_>,
        buffers: Buffers<'_>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let layers = self.problem.layers;
        let len = batch.targets.len();
        let Buffers { features: mut u, mut scaled, mut curved } = buffers;
        for layer in 0..layers.count() {
            let own = u.as_mut().get_mut(layers.rows(layer), ..);
            self.features(layer, batch, own, room, block);
        }
        let u = u.into_const();
        let mut random = self.draws.of_block(index);
        self.losses(batch, u, block, &mut random);
        for process in 0..layers.processes() {
            let (own, data) = (layers.process_rows(process), process * len..(process + 1) * len);
            let c = &mut block.c[own];
            c.fill(0.0);
            columns::add_matvec(u.get(layers.rows(layers.of(process)), ..), &block.g[data], c);
        }
        if self.train_theta && layers.whitens() {
            for layer in 0..layers.count() {
                self.adjoint(layer, batch, u.get(layers.rows(layer), ..), room, block);
            }
        }
        let curvature = self.problem.objective.has_own_curvature();
        for process in 0..layers.processes() {
            let (own, data) = (layers.process_rows(process), process * len..(process + 1) * len);
            let u = u.get(layers.rows(layers.of(process)), ..);
            let weights = [Some(&block.h[data.clone()]), curvature.then(|| &block.curvature[data])];
            if let MatrixRef::Diagonal(_) = self.moments_of(process).0 {
                for (diagonal, weights) in block.diagonals.iter_mut().zip(weights) {
                    let Some(weights) = weights else { continue };
                    let diagonal = &mut diagonal[own.clone()];
                    diagonal.fill(0.0);
                    columns::add_weighted_squares(u, weights, diagonal);
                }
            } else if let Some(weights) = weights[1] {
                columns::scale_columns_transposed(u, weights, curved.as_mut().get_mut(.., own.clone()));
            }
            if let (true, Some(weights)) = (self.outer, weights[0]) {
                columns::scale_columns_transposed(u, weights, scaled.as_mut().get_mut(.., own));
            }
        }
    }

    /// The features of a layer, `T = (S − κI) A` of its processes, and their marginals.
    fn features(
        self,
        index: usize,
        batch: Batch<'_>,
        mut u: MatMut<'_, f64>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let (layers, len) = (self.problem.layers, batch.targets.len());
        let layer = layers.get(index);
        if !self.kept {
            self.computed(index, batch, u.as_mut(), room, block);
        }
        let own = index * len..(index + 1) * len;
        let (base, offset) = (&block.base[own.clone()], &block.offset[own]);
        let single = &mut room.single[index];
        let u = u.into_const();
        for process in layers.members(index) {
            let mut t = room.t.as_mut().get_mut(layers.process_rows(process), 0..len);
            let (quadratic, mean) = self.moments_of(process);
            match (quadratic, self.single) {
                (MatrixRef::Full(_), Some(rounded)) => {
                    single.multiply(rounded.quadratic(process), t.as_mut());
                }
                (MatrixRef::Full(quadratic), None) => {
                    block_product(t.as_mut(), Accum::Replace, Operand::full(quadratic), u, 1.0);
                }
                (MatrixRef::Diagonal(quadratic), _) => columns::scale_rows(u, quadratic, t.as_mut()),
            }
            let data = process * len..(process + 1) * len;
            let (mu, v) = (&mut block.mu[data.clone()], &mut block.v[data]);
            match layer.constant(process - layers.members(index).start) {
                Some(constant) => mu.fill(constant),
                None => mu.copy_from_slice(offset),
            }
            v.copy_from_slice(base);
            columns::add_moments(u, mean, t.as_ref(), mu, v);
        }
    }

    /// Computes the features of a layer, the residual variances, and the means.
    fn computed(
        self,
        index: usize,
        batch: Batch<'_>,
        mut u: MatMut<'_, f64>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let (layers, len) = (self.problem.layers, batch.targets.len());
        let layer = layers.get(index);
        let (single, scratch) = (&mut room.single[index], &mut room.scratch);
        let own = index * len..(index + 1) * len;
        let (base, offset) = (&mut block.base[own.clone()], &mut block.offset[own]);
        if self.single.is_some() {
            single.fit(layer.dim(), room.t.ncols());
        }
        if self.whitens() {
            let mut k = room.k.as_mut().get_mut(layers.rows(index), 0..len);
            layer.features(batch.x, k.as_mut(), base, offset, scratch);
            match self.single {
                Some(rounded) => {
                    single.load(k.as_ref());
                    single.multiply(rounded.whitening(index), u.as_mut());
                    single.go_on();
                }
                None => whiten(&**layer, k.as_ref(), u.as_mut()),
            }
        } else {
            layer.features(batch.x, u.as_mut(), base, offset, scratch);
            if self.single.is_some() {
                single.load(u.as_ref());
            }
        }
    }

    /// The losses of the block and their derivatives in the marginals.
    fn losses(self, batch: Batch<'_>, u: MatRef<'_, f64>, block: &mut Block, random: &mut ChaCha8Rng) {
        let Problem { objective, likelihood, layers, .. } = self.problem;
        let (len, all) = (batch.targets.len(), layers.processes() * batch.targets.len());
        let Block { mu, v, g, h, curvature, likelihood: own, value, loss, samples, base, offset, .. } = block;
        own.fill(0.0);
        let own = if self.train_theta { own.as_mut_slice() } else { &mut [] };
        let (g, h) = (&mut g[..all], &mut h[..all]);
        let out = Derivatives { mean: g, variance: h, curvature: &mut curvature[..all], own };
        let rows = LossInputs { targets: batch.targets, mean: &mu[..all], variance: &v[..all] };
        *value = objective.losses(likelihood, batch.scale, rows, out, loss, random);
        if let (Some(sampling), Some(likelihood)) = (self.sampling, likelihood.one()) {
            let (targets, scale) = (batch.targets, batch.scale);
            let (base, offset, kappa) = (&base[..len], &offset[..len], layers.get(0).kappa());
            let block = SampledBlock { likelihood, targets, scale, features: u, base, offset, kappa };
            sampling.run_block(block, g, h, samples, random);
        }
    }

    /// The gradient of a layer that flows through the features of the block: `Ā = Σ_l m_l g_lᵀ + 2 T_l diag(h_l)`.
    fn adjoint(
        self,
        index: usize,
        batch: Batch<'_>,
        u: MatRef<'_, f64>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let (layers, len) = (self.problem.layers, batch.targets.len());
        let (layer, members): (&Layer, _) = (layers.get(index), layers.members(index));
        let gradient = &mut block.layers[index];
        gradient.clear();
        let of = |values: &'_ [f64], process: usize| process * len..((process + 1) * len).min(values.len());
        let first = members.start;
        let all = layers.process_rows(first).start..layers.process_rows(members.end - 1).end;
        let mut t = room.t.as_mut().get_mut(all, 0..len);
        let m = layer.dim();
        for process in members.clone() {
            let own = t.as_mut().subrows_mut((process - first) * m, m);
            let (g, h) = (&block.g[of(&block.g, process)], &block.h[of(&block.h, process)]);
            columns::rank_one_plus_scaled(own, self.moments_of(process).1, g, h);
        }
        let g = &block.g[of(&block.g, first)];
        let mut base_bar = &block.h[of(&block.h, first)];
        if members.len() > 1 {
            let sum = &mut room.base_bar[..len];
            sum.copy_from_slice(base_bar);
            for process in members.clone().skip(1) {
                let (total, part) = t.as_mut().split_at_row_mut(m);
                columns::add(total, part.as_ref().subrows((process - first - 1) * m, m));
                sum.iter_mut().zip(&block.h[of(&block.h, process)]).for_each(|(sum, h)| *sum += h);
                let g = &block.g[of(&block.g, process)];
                if let Some(mean) = gradient.mean.get_mut(process - first) {
                    *mean += g.iter().sum::<f64>();
                }
            }
            base_bar = sum;
        }
        let t = t.into_const().subrows(0, m);
        let (features, features_bar) = if self.whitens() {
            let mut kbar = room.kbar.as_mut().submatrix_mut(0, 0, m, len);
            let single = &mut room.single[index];
            match self.single {
                Some(rounded) => {
                    single.load(t);
                    single.multiply(rounded.whitening_adjoint(index), kbar.as_mut());
                }
                None => whiten_adjoint(&**layer, t, kbar.as_mut()),
            }
            (room.k.as_ref().get(layers.rows(index), 0..len), kbar.into_const())
        } else {
            (u, t)
        };
        let by = FeaturesAdjoint { features, features_bar, base_bar, offset_bar: g };
        layer.features_adjoint(batch.x, by, gradient, &mut room.scratch);
    }
}
