//! A window of rows: its features, its blocks of columns in parallel, and the products that are
//! sums over it.

use super::block::{Block, RowsOf};
use super::draws::Draws;
use super::given::Tangent;
use super::sampling::{SampledBlock, Sampling};
use super::shape::{ProcessRoom, Shape};
use super::sums::ProcessSums;
use super::{Form, Problem, Sizes, Wanted};
use crate::latent::{FeaturesAdjoint, InducingLayer, LatentLayer, whiten, whiten_adjoint};
use crate::neighbours::{Conditionals, add_gram, image};
use crate::objective::{Derivatives, Loss, LossInputs, Targets, fitc};
use crate::parallel::*;
use crate::threads::{ALONE, PerThread};
use crate::variational::{Family, MatrixRef};
use crate::{columns, linalg};
use faer::reborrow::IntoConst;
use faer::{Mat, MatMut, MatRef};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Scratch;
use std::ops::Range;

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
/// `k` has the rows of all layers, `t` of all processes, `kbar` of the largest layer.
struct ThreadRoom {
    k: Mat<f64>,
    t: Mat<f64>,
    kbar: Mat<f64>,
    base_bar: Vec<f64>,
    scratch: Scratch,
    conditionals: Vec<Conditionals>,
}

/// The matrices for the rows of a batch that are processed together, and the matrices that blocks borrow.
pub(super) struct Window {
    pub(super) columns: usize,
    /// The features in the sums over data: `A`, or in the direct form `K`, of all layers.
    features: Mat<f64>,
    /// `diag(h) Aᵀ` and `diag(∂²ℓ/∂μ²) Aᵀ` of all processes, transposed so that GEMM reads both operands along columns.
    scaled: [Mat<f64>; 2],
    per_thread: PerThread<ThreadRoom>,
}

impl Window {
    /// Buffers for windows of these sizes, with the second operands that are `wanted`.
    pub(super) fn new(shape: Shape<'_>, sizes: &Sizes<'_>, wanted: [bool; 2]) -> Self {
        let Sizes { rows, columns, longest, .. } = *sizes;
        let (m, all, largest) = (shape.dim(), shape.process_dim(), shape.largest());
        let [wide, tall] = if shape.whitens() { [m, largest] } else { [0, 0] };
        let given = if shape.given.is_some() { shape.count() } else { 0 };
        Window {
            columns,
            features: linalg::spread(m, rows),
            scaled: wanted.map(|wanted| linalg::spread(rows, if wanted { all } else { 0 })),
            per_thread: PerThread::new(move || ThreadRoom {
                k: Mat::zeros(wide, columns),
                t: Mat::zeros(all, columns),
                kbar: Mat::zeros(tall, columns),
                base_bar: vec![0.0; columns],
                scratch: Scratch::new(),
                conditionals: (0..given).map(|_| Conditionals::new(longest)).collect(),
            }),
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.features.ncols()
    }

    /// Returns the features of the first set of some rows.
    pub(super) fn features(&self, from: usize, len: usize) -> MatRef<'_, f64> {
        self.features.as_ref().subcols(from, len)
    }

    /// Runs the blocks of a window, each with the number of its rows; `first` is the number of its first block within the batch.
    pub(super) fn run(
        &mut self,
        shared: Shared<'_>,
        parts: &[(RowsOf<'_>, usize)],
        first: usize,
        blocks: &mut [Block],
    ) {
        let per_thread = &self.per_thread;
        let b: usize = parts.iter().map(|(_, len)| len).sum();
        let alone = b * self.features.nrows().pow(2) < ALONE;
        let [scaled, curved] = self.scaled.each_mut().map(|own| own.as_mut().subrows_mut(0, b));
        let mut rest = Buffers { features: self.features.as_mut().subcols_mut(0, b), scaled, curved };
        let mut works = Vec::with_capacity(parts.len());
        for ((index, (part, len)), block) in parts.iter().enumerate().zip(blocks) {
            let own;
            (own, rest) = rest.split(*len);
            works.push((index, *part, own, block));
        }
        let run = |(index, part, buffers, block): (usize, RowsOf<'_>, Buffers<'_>, &mut Block)| {
            per_thread.with(|room| shared.run_block(first + index, part, buffers, room, block));
        };
        if alone {
            works.into_iter().for_each(run);
        } else {
            works.into_par_iter().with_max_len(1).for_each(run);
        }
    }

    /// Adds the window's `b` data to the lower triangles of `A diag(·) Aᵀ` of every process.
    pub(super) fn add_to(&self, shared: Shared<'_>, sums: &mut [ProcessSums], b: usize) {
        let shape = shared.shape;
        for (process, sums) in
            sums.iter_mut().enumerate().filter(|(process, _)| shared.has_own_sums(*process))
        {
            let features = self.features.as_ref().subcols(0, b).get(shape.rows(shape.of(process)), ..);
            let wanted = [shared.outer, shared.curved()];
            let sums = sums.squares().into_iter().zip(&self.scaled).zip(wanted).filter(|(_, wanted)| *wanted);
            for ((sum, scaled), _) in sums {
                let Some(sum) = sum else { continue };
                let scaled = scaled.as_ref().subrows(0, b).get(.., shape.process_rows(process));
                add_gram(sum.as_mut(), features, scaled, features.nrows() - shape.given.unwrap_or(0));
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

impl<'a> Buffers<'a> {
    /// Returns the buffers of the first `len` rows, and the buffers of the others.
    fn split(self, len: usize) -> (Buffers<'a>, Buffers<'a>) {
        let (features, more_features) = self.features.split_at_col_mut(len);
        let (scaled, more_scaled) = self.scaled.split_at_row_mut(len);
        let (curved, more_curved) = self.curved.split_at_row_mut(len);
        (
            Buffers { features, scaled, curved },
            Buffers { features: more_features, scaled: more_scaled, curved: more_curved },
        )
    }
}

/// The inputs of every block of a pass.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pub(super) problem: Problem<'a>,
    pub(super) shape: Shape<'a>,
    pub(super) form: Form,
    pub(super) wanted: Wanted,
    /// True if all of B is needed. For a diagonal q only the layers' adjoint needs it.
    pub(super) outer: bool,
    /// True if the features are already computed.
    pub(super) kept: bool,
    /// The numbers that determine the random numbers of the pass.
    pub(super) draws: Draws,
    /// The factors of every process.
    pub(super) processes: &'a [ProcessRoom],
    pub(super) sampling: Option<&'a Sampling>,
    /// `Wᵀ Cov(w, u)` of grouped effects, in the direct form.
    pub(super) raw_cross: Option<&'a Mat<f64>>,
    /// The direction in q of every process along which the gradient is differentiated, if it is.
    pub(super) tangents: &'a [Tangent],
}

impl<'a> Shared<'a> {
    /// True if the process needs its own products: at the origin and at the optimum, processes with constant ratios of losses share the products of
    /// the first process of their layer.
    fn has_own_sums(self, process: usize) -> bool {
        let shares =
            !self.problem.noises.is_empty() && matches!(self.wanted, Wanted::Origin | Wanted::Envelope);
        !shares || self.shape.members(self.shape.of(process)).start == process
    }

    /// True if sums with weights `∂²ℓ/∂μ²` are wanted.
    fn curved(self) -> bool {
        self.wanted != Wanted::Envelope && self.shape.curved(self.problem.objective)
    }

    /// True if the loss takes the residual variance as noise.
    fn is_fitc(self) -> bool {
        self.problem.objective.loss == Loss::Fitc
    }

    /// Returns κ of a set of features; rows given their neighbours come with their residual variances.
    fn kappa(self, set: usize) -> f64 {
        if self.shape.given.is_some() { 0.0 } else { self.problem.layers.get(set).kappa() }
    }

    /// Returns the inducing inputs behind a set of features.
    fn inducing(self, set: usize) -> Option<&'a InducingLayer> {
        self.problem.layers.get(self.shape.layer_of(set)).inducing()
    }

    /// `S − κI` and m of a process; in the direct form they are for raw features.
    fn moments_of(self, process: usize) -> (MatrixRef<'a>, &'a [f64]) {
        let room = &self.processes[process];
        match self.form {
            Form::Stable => (room.quadratic.as_ref(), &room.mean),
            Form::Direct => (MatrixRef::Full(room.raw_quadratic.as_ref()), &room.mean_raw),
        }
    }

    /// True if the pass whitens the features of the sums.
    fn whitens(self) -> bool {
        self.form != Form::Direct && self.shape.whitens()
    }

    fn run_block(
        self,
        index: usize,
        rows: RowsOf<'_>,
        buffers: Buffers<'_>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let Buffers { features: mut u, mut scaled, mut curved } = buffers;
        let mut gathered = std::mem::take(&mut block.gathered);
        let targets = match rows {
            RowsOf::Plain(batch) => batch.targets,
            RowsOf::Given(given) => {
                gathered.take(given.given, &given.members[0], given.block);
                gathered.targets()
            }
        };
        for set in 0..self.shape.count() {
            self.features(set, rows, u.as_mut().get_mut(self.shape.rows(set), ..), room, block);
        }
        let u = u.into_const();
        let mut random = self.draws.of_block(index);
        self.losses((targets, rows.scale(), &gathered.sites), u, block, &mut random);
        if self.wanted.theta() && self.problem.layers.whitens() {
            for set in 0..self.shape.count() {
                self.adjoint(set, rows, u.get(self.shape.rows(set), ..), room, block);
            }
        }
        for process in 0..self.shape.layers.processes() {
            let own = u.get(self.shape.rows(self.shape.of(process)), ..);
            self.sum_rows(process, own, [scaled.as_mut(), curved.as_mut()], block);
        }
        block.gathered = gathered;
    }

    /// Prepares the sums of a process over the rows of a block: `A g`, and the second operands of `A diag(·) Aᵀ` or the diagonals of these.
    fn sum_rows(
        self,
        process: usize,
        u: MatRef<'_, f64>,
        [mut scaled, mut curved]: [MatMut<'_, f64>; 2],
        block: &mut Block,
    ) {
        let (own, data) = (self.shape.process_rows(process), of_process(process, u.ncols()));
        let Block { c, g, h, v, r_bar, curvature, squares, residual, diagonals, .. } = block;
        let (g, h, curvature) = (&g[data.clone()], &h[data.clone()], &curvature[data.clone()]);
        let c = &mut c[own.clone()];
        c.fill(0.0);
        let envelope = self.wanted == Wanted::Envelope;
        if !envelope {
            columns::add_matvec(u, g, c);
        }
        (squares[process], residual[process]) = (0.0, 0.0);
        if self.wanted == Wanted::Origin {
            let rows = g.iter().zip(curvature).filter(|(_, curvature)| **curvature > 0.0);
            squares[process] = rows.map(|(g, curvature)| g * g / curvature).sum();
            residual[process] = linalg::dot(h, &v[data.clone()]);
        }
        let weights = if envelope { &r_bar[data] } else { h };
        let curvature = self.curved().then_some(curvature);
        if self.problem.q[process].family() == Family::Diagonal {
            for (diagonal, weights) in diagonals.iter_mut().zip([Some(weights), curvature]) {
                let Some(weights) = weights else { continue };
                let diagonal = &mut diagonal[own.clone()];
                diagonal.fill(0.0);
                columns::add_weighted_squares(u, weights, diagonal);
            }
        } else if let Some(weights) = curvature {
            columns::scale_columns_transposed(u, weights, curved.as_mut().get_mut(.., own.clone()));
        }
        if self.outer && self.has_own_sums(process) {
            columns::scale_columns_transposed(u, weights, scaled.as_mut().get_mut(.., own));
        }
    }

    /// The features of a set, `T = (S − κI) A` of its processes, and their marginals.
    fn features(
        self,
        set: usize,
        rows: RowsOf<'_>,
        mut u: MatMut<'_, f64>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let len = u.ncols();
        if !self.kept {
            self.computed(set, rows, u.as_mut(), room, block);
        }
        let u = u.into_const();
        let layer = self.problem.layers.get(self.shape.layer_of(set));
        let members = self.shape.members(set);
        for process in members.clone() {
            let Block { base, offset, mu, v, r, .. } = &mut *block;
            let (base, offset) = (&base[of_process(set, len)], &offset[of_process(set, len)]);
            let data = of_process(process, len);
            let (mu, v, r) = (&mut mu[data.clone()], &mut v[data.clone()], &mut r[data]);
            match layer.constant(process - members.start) {
                Some(constant) if self.shape.given.is_none() => mu.fill(constant),
                _ => mu.copy_from_slice(offset),
            }
            v.copy_from_slice(base);
            if self.is_fitc() || self.wanted == Wanted::Origin {
                r.fill(0.0);
                let kappa = self.kappa(set);
                if kappa != 0.0 {
                    columns::add_column_dots(u, u, r);
                }
                // Rounding makes it negative where inducing inputs are dense.
                let residual = |r: f64| if r < 0.0 { 0.0 } else { r };
                r.iter_mut().zip(base).for_each(|(r, base)| *r = residual(base - kappa * *r));
            }
            if self.wanted == Wanted::Origin {
                v.copy_from_slice(r);
                continue;
            }
            let mut t = room.t.as_mut().get_mut(self.shape.process_rows(process), 0..len);
            let (quadratic, mean) = self.moments_of(process);
            match quadratic {
                _ if !self.has_own_sums(process) => t.fill(0.0),
                MatrixRef::Full(quadratic) => {
                    image(quadratic, u, u.nrows() - self.shape.given.unwrap_or(0), 1.0, t.as_mut());
                }
                MatrixRef::Diagonal(quadratic) => columns::scale_rows(u, quadratic, t.as_mut()),
            }
            columns::add_moments(u, mean, t.as_ref(), mu, v);
            if let (Some(groups), RowsOf::Plain(batch)) = (self.problem.groups, rows) {
                let cross = self.raw_cross.unwrap_or(&groups.moments.cross);
                let spread = self.wanted != Wanted::Envelope || self.is_fitc();
                groups.add(batch.x, (u, cross), t, mu, Some(v).filter(|_| spread));
            }
        }
    }

    /// Computes a set of features, the base variances, and the offsets.
    fn computed(
        self,
        set: usize,
        rows: RowsOf<'_>,
        mut u: MatMut<'_, f64>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let len = u.ncols();
        let scratch = &mut room.scratch;
        let (base, offset) = (&mut block.base[of_process(set, len)], &mut block.offset[of_process(set, len)]);
        match rows {
            RowsOf::Plain(batch) => {
                let layer = self.problem.layers.get(set);
                if self.whitens() {
                    let mut k = room.k.as_mut().get_mut(self.shape.rows(set), 0..len);
                    layer.features(batch.x, k.as_mut(), base, offset, scratch);
                    whiten(layer, k.as_ref(), u);
                } else {
                    layer.features(batch.x, u, base, offset, scratch);
                }
            }
            RowsOf::Given(given) => {
                let Some(layer) = self.inducing(set) else { return u.fill(f64::NAN) };
                let conditionals = &mut room.conditionals[set];
                given.features(set, layer, conditionals, (u.as_mut(), base, offset), self.is_fitc());
            }
        }
    }

    /// The losses of the block and their derivatives in the marginals. `sites` has the targets of every process of rows given their
    /// neighbours.
    fn losses(
        self,
        (targets, scale, sites): (Targets<'_>, f64, &[f64]),
        u: MatRef<'_, f64>,
        block: &mut Block,
        random: &mut ChaCha8Rng,
    ) {
        let Problem { objective, likelihood, layers, .. } = self.problem;
        let len = targets.len();
        let all = layers.processes() * len;
        let Block {
            mu,
            v,
            r,
            r_bar,
            g,
            h,
            curvature,
            likelihood: own,
            value,
            loss,
            samples,
            base,
            offset,
            ..
        } = &mut *block;
        own.fill(0.0);
        let own = if self.wanted.own() { own.as_mut_slice() } else { &mut [] };
        if self.is_fitc() {
            // s = v − r.
            v[..all].iter_mut().zip(&r[..all]).for_each(|(v, r)| *v -= r);
        }
        if self.is_fitc() && self.shape.given.is_some() {
            // The variance of a row given its neighbours contains its noise, whose derivative goes through the conditioning.
            *value = (0..layers.processes())
                .map(|process| {
                    let data = of_process(process, len);
                    let targets = Targets { weights: targets.weights, ..Targets::of(&sites[data.clone()]) };
                    let rows = LossInputs {
                        targets,
                        mean: &mu[data.clone()],
                        variance: &v[data.clone()],
                        residual: &r[data.clone()],
                    };
                    let out = Derivatives {
                        mean: &mut g[data.clone()],
                        variance: &mut h[data.clone()],
                        residual: &mut r_bar[data.clone()],
                        curvature: &mut curvature[data],
                        own: &mut [],
                    };
                    fitc(0.0, scale, rows, out)
                })
                .sum();
            return;
        }
        let (g, h) = (&mut g[..all], &mut h[..all]);
        let (residual, curvature) = (&mut r_bar[..all], &mut curvature[..all]);
        let out = Derivatives { mean: g, variance: h, residual, curvature, own };
        let rows = LossInputs { targets, mean: &mu[..all], variance: &v[..all], residual: &r[..all] };
        *value = objective.losses(likelihood, scale, rows, out, loss, random);
        if let (Some(sampling), Some(likelihood)) = (self.sampling, likelihood.one()) {
            let (base, offset, kappa) = (&base[..len], &offset[..len], layers.get(0).kappa());
            let block = SampledBlock { likelihood, targets, scale, features: u, base, offset, kappa };
            sampling.run_block(block, g, h, samples, random);
        }
    }

    /// The gradient of a layer that flows through a set of features of the block: `Ā = Σ_l m_l g_lᵀ + 2 T_l diag(h_l)`.
    fn adjoint(
        self,
        set: usize,
        rows: RowsOf<'_>,
        u: MatRef<'_, f64>,
        room: &mut ThreadRoom,
        block: &mut Block,
    ) {
        let (m, len, members) = (u.nrows(), u.ncols(), self.shape.members(set));
        let gradient = &mut block.layers[self.shape.layer_of(set)];
        let first = members.start;
        if self.shape.given.is_none() || self.shape.layer_of(set) == set {
            gradient.clear();
        }
        let all = self.shape.process_rows(first).start..self.shape.process_rows(members.end - 1).end;
        let mut t = room.t.as_mut().get_mut(all, 0..len);
        for process in members.clone() {
            let own = t.as_mut().subrows_mut((process - first) * m, m);
            let (g, h) = (&mut block.g[of_process(process, len)], &block.h[of_process(process, len)]);
            let mean = self.moments_of(process).1;
            match self.tangents.get(process) {
                Some(tangent) => {
                    let data = of_process(process, len);
                    let (variance, r_bar) = (&block.r[data.clone()], &mut block.r_bar[data]);
                    tangent.differentiate((u, own), (mean, variance), (g, h, r_bar));
                }
                None => columns::rank_one_plus_scaled(own, mean, g, h),
            }
        }
        let separate = self.is_fitc();
        if separate {
            // `Ā = m gᵀ + 2 S A diag(h) − 2κ A diag(r̄)`, and T has S − κI.
            let (data, kappa) = (of_process(first, len), self.kappa(set));
            let difference = &mut room.base_bar[..len];
            let terms = difference.iter_mut().zip(block.h[data.clone()].iter().zip(&block.r_bar[data]));
            terms.for_each(|(difference, (h, r_bar))| *difference = 2.0 * kappa * (h - r_bar));
            if kappa != 0.0 {
                columns::add_scaled_columns(t.as_mut().subrows_mut(0, m), u, difference);
            }
        }
        let by_variance = if separate { &block.r_bar } else { &block.h };
        let mut base_bar = &by_variance[of_process(first, len)];
        if members.len() > 1 {
            let sum = &mut room.base_bar[..len];
            sum.copy_from_slice(base_bar);
            for process in members.clone().skip(1) {
                let (total, part) = t.as_mut().split_at_row_mut(m);
                columns::add(total, part.as_ref().subrows((process - first - 1) * m, m));
                sum.iter_mut().zip(&by_variance[of_process(process, len)]).for_each(|(sum, h)| *sum += h);
                if let Some(mean) = gradient.mean.get_mut(process - first) {
                    *mean += block.g[of_process(process, len)].iter().sum::<f64>();
                }
            }
            base_bar = sum;
        }
        let t = t.into_const().subrows(0, m);
        let batch = match rows {
            RowsOf::Plain(batch) => batch,
            RowsOf::Given(given) => {
                let Some(layer) = self.inducing(set) else { return };
                let conditionals = &mut room.conditionals[set];
                block.through[set].clear();
                let bars = (t, &mut block.g[of_process(first, len)], base_bar);
                let through = (gradient, &mut block.through[set], &mut block.members[set]);
                return given.adjoint(
                    (set, self.shape.place_of(set)),
                    layer,
                    conditionals,
                    bars,
                    separate,
                    through,
                );
            }
        };
        let layer = self.problem.layers.get(set);
        let (features, features_bar) = if self.whitens() {
            let mut kbar = room.kbar.as_mut().submatrix_mut(0, 0, m, len);
            whiten_adjoint(layer, t, kbar.as_mut());
            (room.k.as_ref().get(self.shape.rows(set), 0..len), kbar.into_const())
        } else {
            (u, t)
        };
        let offset_bar = &block.g[of_process(first, len)];
        let by = FeaturesAdjoint { x: batch.x, features, features_bar, base_bar, offset_bar };
        layer.features_adjoint(by, gradient, &mut room.scratch);
    }
}

/// Returns the places of the numbers of a process, or set of features, in a block of `len` rows.
fn of_process(process: usize, len: usize) -> Range<usize> {
    process * len..(process + 1) * len
}
