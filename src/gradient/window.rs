//! A window of a batch: its features, its blocks of columns in parallel, and the products that are sums over it; no layers.

use super::sampling::{SampleScratch, SampledBlock, Sampling};
use super::single::{Single, SingleRoom};
use super::sums::Draws;
use super::{Batch, Form, Problem};
use crate::columns;
use crate::latent::{LatentLayer, LayerGradient, whiten, whiten_adjoint};
use crate::linalg::{self, Part, Shape, block_product, product};
use crate::objective::{Derivatives, LossScratch, Objective};
use crate::threads::{ALONE, PerThread};
use crate::variational::{Family, MatrixRef};
use faer::reborrow::IntoConst;
use faer::{Accum, Mat, MatMut};
use rayon::prelude::*;
use sparsegp_kernels::Scratch;

/// Rows of a batch that are worked on together: their matrices stay in the last cache, and memory is bounded.
pub const WINDOW_ROWS: usize = 1024;

/// The number of columns of a block of features of dimension `m` for `b` data, whatever the number of threads: enough
/// for GEMM, which packs its left operand anew for every block, and few enough that there are some blocks to share out.
pub fn block_columns(m: usize, b: usize) -> usize {
    const NUMBERS: usize = 32_768;
    let most = (b / 4).next_multiple_of(16).max(64);
    (NUMBERS / m.max(1)).next_multiple_of(16).clamp(128, 512).min(most)
}

/// The matrices that a block is lent, in the cache of the thread that had them before.
struct ThreadRoom {
    k: Mat<f64>,
    t: Mat<f64>,
    kbar: Mat<f64>,
    single: SingleRoom,
    scratch: Scratch,
}

/// What one block of columns needs and sums up.
pub(super) struct Block {
    base: Vec<f64>,
    offset: Vec<f64>,
    pub(super) mu: Vec<f64>,
    pub(super) v: Vec<f64>,
    g: Vec<f64>,
    h: Vec<f64>,
    curvature: Vec<f64>,
    pub(super) c: Vec<f64>,
    /// The diagonals of `A diag(h) Aᵀ` and `A diag(curvature) Aᵀ`, where q has no more.
    pub(super) diagonals: [Vec<f64>; 2],
    pub(super) layer: LayerGradient,
    pub(super) likelihood: Vec<f64>,
    pub(super) value: f64,
    pub(super) loss: LossScratch,
    pub(super) samples: SampleScratch,
}

impl Block {
    /// Room for `columns` data on `layer`, a likelihood with `own` parameters and posteriors of `family`.
    pub(super) fn new(
        layer: &dyn LatentLayer,
        own: usize,
        objective: &Objective,
        family: Family,
        columns: usize,
    ) -> Self {
        let m = layer.dim();
        let diagonal = if family == Family::Diagonal { m } else { 0 };
        Block {
            base: vec![0.0; columns],
            offset: vec![0.0; columns],
            mu: vec![0.0; columns],
            v: vec![0.0; columns],
            g: vec![0.0; columns],
            h: vec![0.0; columns],
            curvature: vec![0.0; columns],
            c: vec![0.0; m],
            diagonals: [vec![0.0; diagonal], vec![0.0; diagonal]],
            layer: layer.zero_gradient(),
            likelihood: vec![0.0; own],
            value: 0.0,
            loss: LossScratch::new(objective, own),
            samples: SampleScratch::default(),
        }
    }
}

/// The matrices for the rows of a batch that are worked on together, and those that blocks are lent.
pub(super) struct Window {
    columns: usize,
    /// What the sums over data are of: `A`, or in the direct form `K`.
    features: Mat<f64>,
    /// `diag(h) Aᵀ` and `diag(∂²ℓ/∂μ²) Aᵀ`, transposed so that GEMM reads both operands along columns.
    scaled: [Mat<f64>; 2],
    per_thread: PerThread<ThreadRoom>,
}

impl Window {
    /// Room for windows of a batch of up to `b` data; the second operands have so many columns.
    pub(super) fn new(layer: &dyn LatentLayer, b: usize, operands: [usize; 2]) -> Self {
        let (m, rows) = (layer.dim(), b.min(WINDOW_ROWS));
        let columns = block_columns(m, rows);
        let wide = if layer.whitening().is_some() { m } else { 0 };
        Window {
            columns,
            features: linalg::spread(m, rows),
            scaled: operands.map(|operand| linalg::spread(rows, operand)),
            per_thread: PerThread::new(move || ThreadRoom {
                k: Mat::zeros(wide, columns),
                t: Mat::zeros(m, columns),
                kbar: Mat::zeros(wide, columns),
                single: SingleRoom::new(),
                scratch: Scratch::new(),
            }),
        }
    }

    /// The most data of a window.
    pub(super) fn rows(&self) -> usize {
        self.features.ncols()
    }

    /// The most data of a block.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Runs the blocks of a window, of which `first` is the number within the batch.
    pub(super) fn run(&mut self, shared: Shared<'_>, part: Batch<'_>, first: usize, blocks: &mut [Block]) {
        let (b, columns, per_thread) = (part.targets.len(), self.columns, &self.per_thread);
        let run_block = |i: usize, buffers: Buffers<'_>, block: &mut Block| {
            let part = part.part(i * columns, buffers.features.ncols());
            per_thread.with(|room| shared.run_block(first + i, part, buffers, (room, block)));
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

    /// Adds the window's `b` data to the lower triangles of `A diag(·) Aᵀ`, or starts the sums with them.
    pub(super) fn add_to(&self, sums: &mut [Option<&mut Mat<f64>>; 2], b: usize, starts: bool) {
        let accum = if starts { Accum::Replace } else { Accum::Add };
        let features = (self.features.as_ref().subcols(0, b), Shape::Full);
        for (sum, scaled) in sums.iter_mut().zip(&self.scaled) {
            let Some(sum) = sum else { continue };
            let scaled = (scaled.as_ref().subrows(0, b), Shape::Full);
            product(sum.as_mut(), Part::Lower, accum, features, scaled, 1.0);
        }
    }
}

/// The block's columns, or rows, of the large matrices.
struct Buffers<'a> {
    features: MatMut<'a, f64>,
    scaled: MatMut<'a, f64>,
    curved: MatMut<'a, f64>,
}

impl Buffers<'_> {
    /// Those of `len` data from `from` on, or of as many as there are.
    fn part(&mut self, from: usize, len: usize) -> Buffers<'_> {
        let len = len.min(self.features.ncols() - from);
        Buffers {
            features: self.features.as_mut().subcols_mut(from, len),
            scaled: self.scaled.as_mut().subrows_mut(from, len),
            curved: self.curved.as_mut().subrows_mut(from, len),
        }
    }
}

/// What every block of a pass reads.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) problem: Problem<'a>,
    pub(super) form: Form,
    pub(super) train_theta: bool,
    /// What its random numbers depend on.
    pub(super) draws: Draws,
    pub(super) quadratic: MatrixRef<'a>,
    pub(super) mean: &'a [f64],
    pub(super) sampling: Option<&'a Sampling>,
    pub(super) single: Option<&'a Single>,
}

impl Shared<'_> {
    fn run_block(
        self,
        index: usize,
        batch: Batch<'_>,
        buffers: Buffers<'_>,
        (room, block): (&mut ThreadRoom, &mut Block),
    ) {
        let Buffers { features: mut u, scaled, curved } = buffers;
        let len = batch.targets.len();
        let layer = self.problem.layer;
        let Block { base, offset, mu, v, g, h, curvature, c, layer: gradient, likelihood, .. } = block;
        let Block { value, loss, samples, diagonals, .. } = block;
        let scratch = &mut room.scratch;
        let (base, offset) = (&mut base[..len], &mut offset[..len]);
        let (mu, v, g, h) = (&mut mu[..len], &mut v[..len], &mut g[..len], &mut h[..len]);
        let curvature = &mut curvature[..len];
        if self.single.is_some() {
            room.single.fit(&room.t);
        }
        let mut t = room.t.as_mut().subcols_mut(0, len);

        let whitens = self.form != Form::Direct && layer.whitening().is_some();
        if whitens {
            let mut k = room.k.as_mut().subcols_mut(0, len);
            layer.features(batch.x, k.as_mut(), base, offset, scratch);
            match self.single {
                Some(single) => {
                    room.single.load(k.as_ref());
                    room.single.multiply(single.whitening(), u.as_mut());
                    room.single.go_on();
                }
                None => whiten(layer, k.as_ref(), u.as_mut()),
            }
        } else {
            layer.features(batch.x, u.as_mut(), base, offset, scratch);
        }
        let u = u.into_const();
        match self.quadratic {
            MatrixRef::Full(quadratic) => match self.single {
                Some(single) => {
                    if !whitens {
                        room.single.load(u);
                    }
                    room.single.multiply(single.quadratic(), t.as_mut());
                }
                None => block_product(t.as_mut(), Accum::Replace, (quadratic, Shape::Full), u, 1.0),
            },
            MatrixRef::Diagonal(quadratic) => columns::scale_rows(u, quadratic, t.as_mut()),
        }
        mu.copy_from_slice(offset);
        v.copy_from_slice(base);
        columns::add_moments(u, (self.mean, t.as_ref()), mu, v);

        likelihood.fill(0.0);
        let own = if self.train_theta { likelihood.as_mut_slice() } else { &mut [] };
        let out = Derivatives { mean: g, variance: h, curvature, own };
        let mut random = self.draws.of_block(index);
        let data = (batch.targets, &*mu, &*v);
        let Problem { objective, likelihood, .. } = self.problem;
        *value = objective.losses(likelihood, batch.scale, data, out, (loss, &mut random));
        if let Some(sampling) = self.sampling {
            let (targets, scale) = (batch.targets, batch.scale);
            let kappa = layer.kappa();
            let block = SampledBlock { likelihood, targets, scale, features: u, base, offset, kappa };
            sampling.run_block(block, (g, h), samples, &mut random);
        }
        c.fill(0.0);
        columns::add_matvec(u, g, c);
        if self.train_theta && layer.whitening().is_some() {
            gradient.clear();
            columns::rank_one_plus_scaled(t.as_mut(), self.mean, g, h);
            let (k, kbar) = if whitens {
                let mut kbar = room.kbar.as_mut().subcols_mut(0, len);
                match self.single {
                    Some(single) => {
                        room.single.load(t.as_ref());
                        room.single.multiply(single.whitening_adjoint(), kbar.as_mut());
                    }
                    None => whiten_adjoint(layer, t.as_ref(), kbar.as_mut()),
                }
                (room.k.as_ref().subcols(0, len), kbar.into_const())
            } else {
                (u, t.as_ref())
            };
            layer.features_adjoint(batch.x, (k, kbar), h, g, gradient, scratch);
        }
        let curvature = self.problem.objective.has_own_curvature().then_some(&*curvature);
        if let MatrixRef::Diagonal(_) = self.quadratic {
            for (diagonal, weights) in diagonals.iter_mut().zip([Some(&*h), curvature]) {
                let Some(weights) = weights else { continue };
                diagonal.fill(0.0);
                columns::add_weighted_squares(u, weights, diagonal);
            }
        } else if let Some(curvature) = curvature {
            columns::scale_columns_transposed(u, curvature, curved);
        }
        if self.needs_outer_products() {
            columns::scale_columns_transposed(u, h, scaled);
        }
    }

    /// Whether all of B is needed: of a diagonal one, only for the layer's adjoint.
    pub(super) fn needs_outer_products(&self) -> bool {
        let trains_layer = self.train_theta && self.problem.layer.whitening().is_some();
        matches!(self.quadratic, MatrixRef::Full(_)) || trains_layer
    }
}
