//! Streams a data set, or a part of one, in blocks: the sums that collapsed bounds need, and what rows add to gradients; no bounds.
//!
//! Memory is O(bM + M²) whatever n: features are recomputed in the backward sweep, not kept.

use super::sums::{BoundAdjoint, BoundGradient, Statistics, StatisticsAdjoint};
use crate::columns;
use crate::gradient::{Form, block_columns};
use crate::latent::{LatentLayer, LayerGradient, whiten, whiten_adjoint};
use crate::linalg::{self, Part, Shape, block_product, product, reflect_lower};
use crate::objective::Targets;
use crate::threads::PerThread;
use faer::{Accum, Mat, MatMut, MatRef};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::Scratch;

/// Columns that are in memory at a time.
const WINDOW: usize = 2048;

/// Inputs `n × D`, a row per datum, and what was observed.
#[derive(Clone, Copy)]
pub struct Dataset<'a> {
    /// Inputs, `n × D`, any strides.
    pub x: MatRef<'a, f64>,
    /// Targets, n of them, with exposures and weights.
    pub targets: Targets<'a>,
}

impl<'a> Dataset<'a> {
    /// Data with exposures and weights of 1.
    pub fn of(x: MatRef<'a, f64>, y: &'a [f64]) -> Self {
        Dataset { x, targets: Targets::of(y) }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Rows `from..from + len`.
    pub fn part(&self, from: usize, len: usize) -> Dataset<'a> {
        Dataset { x: self.x.subrows(from, len), targets: self.targets.range(from, from + len) }
    }

    /// All rows in order, at most `most` at a time.
    pub fn parts(self, most: usize) -> impl Iterator<Item = Dataset<'a>> {
        let n = self.len();
        (0..n).step_by(most.max(1)).map(move |from| self.part(from, most.min(n - from)))
    }
}

/// The weight ω_i of a datum in the sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Weighting {
    /// `ω_i` is the sample weight.
    Unit,
    /// `ω_i = 1 / (r_i + σ²)` with this σ² (FITC's Λ⁻¹).
    Residual(f64),
}

struct Block {
    base: Vec<f64>,
    c: Vec<f64>,
    weight: Vec<f64>,
    bar: Vec<f64>,
    ac: Vec<f64>,
    cc: f64,
    residual: f64,
    log_weight: f64,
    layer: LayerGradient,
    scratch: Scratch,
}

/// The matrices that a block is lent, in the cache of the thread that had them before.
struct ThreadRoom {
    k: Mat<f64>,
    t: Mat<f64>,
    kbar: Mat<f64>,
}

/// The block's columns of the large matrices, or rows, and those that the thread needs for itself.
struct Buffers<'a> {
    k: MatMut<'a, f64>,
    a: MatMut<'a, f64>,
    t: MatMut<'a, f64>,
    kbar: MatMut<'a, f64>,
    scaled: MatMut<'a, f64>,
}

/// Buffers for sweeps over a data set, and the sums of the last forward one.
pub struct DataStream {
    a: Mat<f64>,
    /// `diag(·) Aᵀ`, `b × M`.
    scaled: Mat<f64>,
    per_thread: PerThread<ThreadRoom>,
    blocks: Vec<Block>,
    map: Mat<f64>,
    half: Mat<f64>,
    vector: Vec<f64>,
    /// The sums of the last forward sweep.
    pub statistics: Statistics,
}

impl DataStream {
    /// Buffers for sweeps over `n` data with `layer`.
    pub fn new(layer: &dyn LatentLayer, n: usize) -> Self {
        let m = layer.dim();
        let b = n.min(WINDOW);
        let columns = block_columns(m, b);
        let block = || Block {
            base: vec![0.0; columns],
            c: vec![0.0; columns],
            weight: vec![0.0; columns],
            bar: vec![0.0; columns],
            ac: vec![0.0; m],
            cc: 0.0,
            residual: 0.0,
            log_weight: 0.0,
            layer: layer.zero_gradient(),
            scratch: Scratch::new(),
        };
        DataStream {
            a: linalg::spread(m, b),
            scaled: linalg::spread(b, m),
            per_thread: PerThread::new(move || ThreadRoom {
                k: Mat::zeros(m, columns),
                t: Mat::zeros(m, columns),
                kbar: Mat::zeros(m, columns),
            }),
            blocks: (0..b.div_ceil(columns)).map(|_| block()).collect(),
            map: Mat::zeros(m, m),
            half: Mat::zeros(m, m),
            vector: vec![0.0; m],
            statistics: Statistics::zeros(m),
        }
    }

    /// Runs `work` on every block of columns, and `after` on `A` and the scaled transpose of every window.
    fn sweep(
        &mut self,
        data: Dataset<'_>,
        work: impl Fn(Dataset<'_>, Buffers<'_>, &mut Block) + Sync,
        mut after: impl FnMut(MatRef<'_, f64>, MatRef<'_, f64>),
    ) {
        let window = self.a.ncols();
        let columns = block_columns(self.a.nrows(), window);
        for part in data.parts(window) {
            let b = part.len();
            (
                self.a.as_mut().subcols_mut(0, b).par_col_chunks_mut(columns),
                self.scaled.as_mut().subrows_mut(0, b).par_row_chunks_mut(columns),
                self.blocks[..b.div_ceil(columns)].par_iter_mut(),
            )
                .into_par_iter()
                .enumerate()
                .with_max_len(1)
                .for_each(|(i, (a, scaled, block))| {
                    let (at, len) = (i * columns, a.ncols());
                    self.per_thread.with(|ThreadRoom { k, t, kbar }| {
                        let [k, t, kbar] = [k, t, kbar].map(|own| own.as_mut().subcols_mut(0, len));
                        work(part.part(at, len), Buffers { k, a, t, kbar, scaled }, block);
                    });
                });
            after(self.a.as_ref().subcols(0, b), self.scaled.as_ref().subrows(0, b));
        }
    }

    /// The forward sweep: fills [`DataStream::statistics`] with 2·b·M² flops per datum block.
    pub fn forward(&mut self, layer: &dyn LatentLayer, data: Dataset<'_>, weighting: Weighting) {
        for block in &mut self.blocks {
            block.ac.fill(0.0);
            (block.cc, block.residual, block.log_weight) = (0.0, 0.0, 0.0);
        }
        let mut gram = std::mem::replace(&mut self.statistics.gram, Mat::new());
        gram.as_mut().fill(0.0);
        self.sweep(
            data,
            |part, buffers, block| forward_block(layer, part, weighting, buffers, block),
            |a, scaled| {
                let (left, right) = ((a, Shape::Full), (scaled, Shape::Full));
                product(gram.as_mut(), Part::Lower, Accum::Add, left, right, 1.0);
            },
        );
        reflect_lower(gram.as_mut());
        let s = &mut self.statistics;
        s.gram = gram;
        s.ac.fill(0.0);
        (s.cc, s.residual, s.log_weight, s.count) = (0.0, 0.0, 0.0, data.targets.total_weight());
        for block in &self.blocks {
            s.ac.iter_mut().zip(&block.ac).for_each(|(a, b)| *a += b);
            s.cc += block.cc;
            s.residual += block.residual;
            s.log_weight += block.log_weight;
        }
    }

    /// The backward sweep: adds the rows of `data` to `sums`, which may hold other rows, or what the statistics know, already.
    pub fn add_rows(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        by: BoundAdjoint<'_>,
        sums: &mut BoundGradient,
    ) {
        for block in &mut self.blocks {
            block.layer.clear();
            block.cc = 0.0;
        }
        match by {
            BoundAdjoint::Unweighted { adjoint, form } => self.backward(layer, data, adjoint, form),
            BoundAdjoint::Fitc { noise, posterior: (mean, cov) } => {
                if sums.g.nrows() == 0 {
                    sums.g = Mat::zeros(mean.len(), mean.len());
                }
                let shared = FitcBackward { layer, noise, mean, cov };
                self.backward_fitc(shared, data, sums.g.as_mut());
            }
        }
        for block in &self.blocks {
            sums.layer.add(&block.layer);
            sums.noise += block.cc;
        }
    }

    /// The rows' part of the gradient of a bound in unweighted statistics.
    ///
    /// `Ā = 2 (Φ̄ − κ t̄ I) A + φ̄ cᵀ`, so `K̄ = [2 Wᵀ (Φ̄ − κ t̄ I)] A + (Wᵀφ̄) cᵀ` is one product with a matrix formed
    /// once; in the direct form that matrix absorbs W and `A` is not needed.
    fn backward(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        adjoint: &StatisticsAdjoint,
        form: Form,
    ) {
        // Without a whitening there is nothing to train in the layer.
        let Some((whitening, shape)) = layer.whitening() else { return };
        let transposed = (whitening.transpose(), shape.transposed());
        self.map.copy_from(&adjoint.gram);
        linalg::add_diagonal(self.map.as_mut(), -layer.kappa() * adjoint.residual);
        let inner = (self.map.as_ref(), Shape::Full);
        product(self.half.as_mut(), Part::All, Accum::Replace, transposed, inner, 2.0);
        if form == Form::Direct {
            let half = (self.half.as_ref(), Shape::Full);
            let right = (whitening, shape);
            product(self.map.as_mut(), Part::All, Accum::Replace, half, right, 1.0);
        } else {
            std::mem::swap(&mut self.half, &mut self.map);
        }
        linalg::matvec(whitening.transpose(), &adjoint.ac, &mut self.vector);
        let (map, vector) = (std::mem::replace(&mut self.map, Mat::new()), std::mem::take(&mut self.vector));
        let shared = Backward { layer, adjoint, form, map: map.as_ref(), vector: &vector };
        self.sweep(data, |part, buffers, block| shared.run(part, buffers, block), |_, _| {});
        (self.map, self.vector) = (map, vector);
    }

    /// The rows' part of FITC's gradient, with `−2 A diag(Λ̄) Aᵀ` into the lower triangle of `g`.
    fn backward_fitc(&mut self, shared: FitcBackward<'_>, data: Dataset<'_>, mut g: MatMut<'_, f64>) {
        self.sweep(
            data,
            |part, buffers, block| shared.run(part, buffers, block),
            |a, scaled| {
                let (left, right) = ((a, Shape::Full), (scaled, Shape::Full));
                product(g.as_mut(), Part::Lower, Accum::Add, left, right, -2.0);
            },
        );
        // What is above the diagonal is not read; as a mirror image it need not be stored either.
        reflect_lower(g);
    }
}

/// Features, whitened features, `c = y − o` and base variances of a block.
fn whitened_block(
    layer: &dyn LatentLayer,
    part: Dataset<'_>,
    (mut k, a): (MatMut<'_, f64>, MatMut<'_, f64>),
    block: &mut Block,
) {
    let len = part.len();
    let (base, c) = (&mut block.base[..len], &mut block.c[..len]);
    layer.features(part.x, k.as_mut(), base, c, &mut block.scratch);
    c.iter_mut().zip(part.targets.y).for_each(|(c, y)| *c = y - *c);
    whiten(layer, k.as_ref(), a);
}

/// Turns base variances into residual variances `r = base − κ aᵀa`.
fn residuals(a: MatRef<'_, f64>, share: f64, base: &mut [f64], buffer: &mut [f64]) {
    if share != 0.0 {
        buffer.fill(0.0);
        columns::add_column_dots(a, a, buffer);
        base.iter_mut().zip(buffer).for_each(|(r, aa)| *r -= share * *aa);
    }
}

fn forward_block(
    layer: &dyn LatentLayer,
    part: Dataset<'_>,
    weighting: Weighting,
    buffers: Buffers<'_>,
    block: &mut Block,
) {
    let len = part.len();
    let Buffers { k, mut a, scaled, .. } = buffers;
    whitened_block(layer, part, (k, a.as_mut()), block);
    let a = a.as_ref();
    residuals(a, layer.kappa(), &mut block.base[..len], &mut block.bar[..len]);
    let (c, weight) = (&mut block.c[..len], &mut block.weight[..len]);
    match weighting {
        Weighting::Unit if part.targets.weights.is_empty() => {
            block.residual += block.base[..len].iter().sum::<f64>();
            block.cc += linalg::dot(c, c);
            columns::add_matvec(a, c, &mut block.ac);
            weight.fill(1.0);
            columns::scale_columns_transposed(a, weight, scaled);
        }
        Weighting::Unit => {
            for ((w, r), c) in part.targets.weights.iter().zip(&block.base).zip(c.iter_mut()) {
                block.residual += w * r;
                block.cc += w * *c * *c;
                *c *= w;
            }
            columns::add_matvec(a, c, &mut block.ac);
            columns::scale_columns_transposed(a, part.targets.weights, scaled);
        }
        Weighting::Residual(noise) => {
            block.residual += block.base[..len].iter().sum::<f64>();
            for ((w, r), c) in weight.iter_mut().zip(&block.base).zip(c.iter_mut()) {
                *w = 1.0 / (r + noise);
                block.log_weight += w.ln();
                block.cc += *w * *c * *c;
                *c *= *w;
            }
            columns::add_matvec(a, c, &mut block.ac);
            columns::scale_columns_transposed(a, weight, scaled);
        }
    }
}

/// What every block of a backward sweep in unweighted statistics reads.
struct Backward<'a> {
    layer: &'a dyn LatentLayer,
    adjoint: &'a StatisticsAdjoint,
    form: Form,
    map: MatRef<'a, f64>,
    vector: &'a [f64],
}

impl Backward<'_> {
    fn run(&self, part: Dataset<'_>, buffers: Buffers<'_>, block: &mut Block) {
        let len = part.len();
        // Nothing is summed over the window here, so `A` can stay with the thread too.
        let Buffers { mut k, kbar: mut a, mut t, .. } = buffers;
        let u = match self.form {
            Form::Stable | Form::Mixed => {
                whitened_block(self.layer, part, (k.as_mut(), a.as_mut()), block);
                a.as_ref()
            }
            Form::Direct => {
                let (base, c) = (&mut block.base[..len], &mut block.c[..len]);
                self.layer.features(part.x, k.as_mut(), base, c, &mut block.scratch);
                c.iter_mut().zip(part.targets.y).for_each(|(c, y)| *c = y - *c);
                k.as_ref()
            }
        };
        block_product(t.as_mut(), Accum::Replace, (self.map, Shape::Full), u, 1.0);
        // aᵀφ̄ in the stable form is kᵀ(Wᵀφ̄) in both.
        let (c, offset_bar) = (&mut block.c[..len], &mut block.bar[..len]);
        offset_bar.fill(0.0);
        columns::add_transposed_matvec(k.as_ref(), self.vector, offset_bar);
        offset_bar.iter_mut().zip(&*c).for_each(|(o, c)| *o = -(*o + 2.0 * self.adjoint.cc * c));
        let (half, base_bar) = (&mut block.weight[..len], &mut block.base[..len]);
        half.fill(0.5);
        base_bar.fill(self.adjoint.residual);
        for (i, w) in part.targets.weights.iter().enumerate() {
            // Every term of a datum carries its weight.
            c[i] *= w;
            offset_bar[i] *= w;
            half[i] *= w;
            base_bar[i] *= w;
        }
        columns::rank_one_plus_scaled(t.as_mut(), self.vector, c, half);
        let (pair, grad) = ((k.as_ref(), t.as_ref()), &mut block.layer);
        self.layer.features_adjoint(part.x, pair, base_bar, offset_bar, grad, &mut block.scratch);
    }
}

/// What every block of FITC's backward sweep reads.
struct FitcBackward<'a> {
    layer: &'a dyn LatentLayer,
    noise: f64,
    mean: &'a [f64],
    cov: MatRef<'a, f64>,
}

impl FitcBackward<'_> {
    fn run(&self, part: Dataset<'_>, buffers: Buffers<'_>, block: &mut Block) {
        let len = part.len();
        let Buffers { mut k, mut a, mut t, mut kbar, scaled } = buffers;
        whitened_block(self.layer, part, (k.as_mut(), a.as_mut()), block);
        let a = a.as_ref();
        residuals(a, self.layer.kappa(), &mut block.base[..len], &mut block.bar[..len]);
        block_product(t.as_mut(), Accum::Replace, (self.cov, Shape::Full), a, 1.0);

        // e = ω (c − aᵀm), Λ̄ = ½ (ω − ω² aᵀSa − e²), Ā = ω S a − e m − 2 κ Λ̄ a.
        let (quad, fit) = (&mut block.weight[..len], &mut block.bar[..len]);
        quad.fill(0.0);
        columns::add_column_dots(a, t.as_ref(), quad);
        fit.fill(0.0);
        columns::add_transposed_matvec(a, self.mean, fit);
        let (base, c) = (&mut block.base[..len], &mut block.c[..len]);
        for (((base, c), quad), fit) in base.iter_mut().zip(c.iter_mut()).zip(quad).zip(fit) {
            let omega = 1.0 / (*base + self.noise);
            let e = omega * (*c - *fit);
            let lambda_bar = 0.5 * (omega - omega * omega * *quad - e * e);
            block.cc += lambda_bar;
            (*base, *c, *quad, *fit) = (lambda_bar, -e, 0.5 * omega, 0.0);
        }
        let (lambda_bar, minus_e) = (&block.base[..len], &block.c[..len]);
        columns::rank_one_plus_scaled(t.as_mut(), self.mean, minus_e, &block.weight[..len]);
        let share = &mut block.bar[..len];
        share.iter_mut().zip(lambda_bar).for_each(|(s, l)| *s = -2.0 * self.layer.kappa() * l);
        columns::add_scaled_columns(t.as_mut(), a, share);
        whiten_adjoint(self.layer, t.as_ref(), kbar.as_mut());
        let (pair, grad) = ((k.as_ref(), kbar.as_ref()), &mut block.layer);
        self.layer.features_adjoint(part.x, pair, lambda_bar, minus_e, grad, &mut block.scratch);
        columns::scale_columns_transposed(a, lambda_bar, scaled);
    }
}
