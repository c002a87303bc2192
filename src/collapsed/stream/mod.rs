//! Streams a data set, or a part of it, in blocks: the sums for collapsed bounds, and the part of
//! gradients that comes from rows.
//!
//! Memory is O(bM + M²) for any n: features are recomputed in the backward sweep, not kept.

mod marginals;

pub use marginals::RowMarginals;

use super::dataset::{Dataset, Weighting};
use super::sums::{BoundAdjoint, BoundGradient, OutputSums, Statistics, StatisticsAdjoint};
use crate::columns;
use crate::effects::{EffectRows, EffectSums, RowAdjoint, RowMoments};
use crate::gradient::{Form, block_columns};
use crate::latent::{FeaturesAdjoint, LatentLayer, LayerGradient, whiten, whiten_adjoint};
use crate::linalg::{self, Operand, Part, block_product, product, reflect_lower};
use crate::objective::Targets;
use crate::threads::PerThread;
use faer::{Accum, Mat, MatMut, MatRef};
use rayon::prelude::*;
use sparsegp_kernels::Scratch;

/// The number of columns that are in memory at a time.
const WINDOW: usize = 2048;

struct Block {
    base: Vec<f64>,
    c: Vec<f64>,
    weight: Vec<f64>,
    bar: Vec<f64>,
    ac: Vec<f64>,
    cc: f64,
    residual: f64,
    log_weight: f64,
    further: Vec<OutputSums>,
    layer: LayerGradient,
    scratch: Scratch,
}

/// Matrices that a block borrows; they are still in the cache of the thread that used them before.
struct ThreadRoom {
    k: Mat<f64>,
    t: Mat<f64>,
    kbar: Mat<f64>,
}

/// The columns of a window after all its blocks were processed.
struct Window<'a> {
    /// The first of its rows.
    first: usize,
    a: MatRef<'a, f64>,
    scaled: MatRef<'a, f64>,
    blocks: &'a [Block],
}

/// Sums by the levels of grouped effects, which a forward sweep fills in addition to the sums over
/// features.
pub struct EffectPass<'a> {
    /// The levels of all rows of the sweep.
    pub rows: &'a EffectRows,
    /// The sums.
    pub sums: &'a mut EffectSums,
}

/// The terms that grouped effects add to a backward sweep, by kind of bound.
#[derive(Clone, Copy)]
pub enum EffectSweep<'a> {
    /// For a bound in unweighted statistics.
    Unweighted(&'a RowAdjoint<'a>),
    /// For FITC.
    Fitc(RowMoments<'a>),
}

/// The block's columns of the large matrices, or rows, and the buffers of its thread.
struct Buffers<'a> {
    k: MatMut<'a, f64>,
    a: MatMut<'a, f64>,
    t: MatMut<'a, f64>,
    kbar: MatMut<'a, f64>,
    scaled: MatMut<'a, f64>,
}

/// Buffers for sweeps over a data set, and the sums of the last forward sweep.
pub struct DataStream {
    a: Mat<f64>,
    /// `diag(·) Aᵀ`, `b × M`.
    scaled: Mat<f64>,
    per_thread: PerThread<ThreadRoom>,
    blocks: Vec<Block>,
    /// The process that each output observes, among the processes that share the layer.
    processes: Vec<usize>,
    map: Mat<f64>,
    half: Mat<f64>,
    vector: Vec<f64>,
    /// The sums of the last forward sweep.
    pub statistics: Statistics,
}

impl DataStream {
    /// Buffers for sweeps over `n` data with `layer`.
    pub fn new(layer: &dyn LatentLayer, n: usize) -> Self {
        DataStream::of_outputs(layer, n, vec![0])
    }

    /// Creates a stream for the [targets of several outputs](Targets::outputs), which must all be present. Each output has the constant
    /// mean of one of the processes that share the layer, given in the order of the targets. Only sums with unit weights hold all outputs.
    pub fn of_outputs(layer: &dyn LatentLayer, n: usize, processes: Vec<usize>) -> Self {
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
            further: vec![OutputSums::zeros(m); processes.len() - 1],
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
            statistics: Statistics {
                further: vec![OutputSums::zeros(m); processes.len() - 1],
                ..Statistics::zeros(m)
            },
            processes,
        }
    }

    /// True if these buffers have the size for `n` data.
    pub(crate) fn is_for(&self, n: usize) -> bool {
        self.a.ncols() == n.min(WINDOW)
    }

    /// Runs `work` on every block of columns, and `after` on `A` and the scaled transpose of every window.
    fn sweep(
        &mut self,
        data: Dataset<'_>,
        work: impl Fn(Dataset<'_>, Buffers<'_>, &mut Block) + Sync,
        mut after: impl FnMut(Window<'_>),
    ) {
        let window = self.a.ncols();
        let columns = block_columns(self.a.nrows(), window);
        for (index, part) in data.parts(window).enumerate() {
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
            after(Window {
                first: index * window,
                a: self.a.as_ref().subcols(0, b),
                scaled: self.scaled.as_ref().subrows(0, b),
                blocks: &self.blocks[..b.div_ceil(columns)],
            });
        }
    }

    /// The forward sweep: fills [`DataStream::statistics`], with 2·b·M² flops per block of b rows.
    pub fn forward(&mut self, layer: &dyn LatentLayer, data: Dataset<'_>, weighting: Weighting) {
        self.forward_with(layer, data, weighting, None);
    }

    /// Like [`DataStream::forward`], with sums by the levels of grouped effects in addition to the
    /// sums over features.
    pub fn forward_with(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        weighting: Weighting,
        mut effects: Option<EffectPass<'_>>,
    ) {
        for block in &mut self.blocks {
            block.ac.fill(0.0);
            (block.cc, block.residual, block.log_weight) = (0.0, 0.0, 0.0);
            block.further.iter_mut().for_each(OutputSums::clear);
        }
        let processes = std::mem::take(&mut self.processes);
        let mut gram = std::mem::replace(&mut self.statistics.gram, Mat::new());
        gram.as_mut().fill(0.0);
        self.sweep(
            data,
            |part, buffers, block| forward_block(layer, &processes, part, weighting, buffers, block),
            |window| {
                let (left, right) = (Operand::full(window.a), Operand::full(window.scaled));
                product(gram.as_mut(), Part::Lower, Accum::Add, left, right, 1.0);
                if let Some(EffectPass { rows, sums }) = &mut effects {
                    window.add_effects(rows, sums);
                }
            },
        );
        if let Some(EffectPass { rows, sums }) = effects {
            sums.add_products(rows);
        }
        reflect_lower(gram.as_mut());
        self.processes = processes;
        let s = &mut self.statistics;
        s.gram = gram;
        s.ac.fill(0.0);
        (s.cc, s.residual, s.log_weight, s.count) = (0.0, 0.0, 0.0, data.targets.total_weight());
        s.further.iter_mut().for_each(OutputSums::clear);
        for block in &self.blocks {
            s.ac.iter_mut().zip(&block.ac).for_each(|(a, b)| *a += b);
            s.cc += block.cc;
            s.residual += block.residual;
            s.log_weight += block.log_weight;
            s.further.iter_mut().zip(&block.further).for_each(|(sum, part)| sum.add(part));
        }
    }

    /// The backward sweep: adds the contribution of the rows of `data` to `sums`, which may already
    /// hold those of other rows or of the statistics.
    pub fn add_rows(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        by: BoundAdjoint<'_>,
        sums: &mut BoundGradient,
    ) {
        self.add_rows_with(layer, data, by, None, sums);
    }

    /// Like [`DataStream::add_rows`], for rows with grouped effects.
    pub fn add_rows_with(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        by: BoundAdjoint<'_>,
        effects: Option<EffectSweep<'_>>,
        sums: &mut BoundGradient,
    ) {
        for block in &mut self.blocks {
            block.layer.clear();
            block.cc = 0.0;
        }
        match by {
            BoundAdjoint::Unweighted { adjoint, form } => {
                let effects = effects.and_then(|sweep| match sweep {
                    EffectSweep::Unweighted(adjoint) => Some(adjoint),
                    EffectSweep::Fitc(_) => None,
                });
                self.backward(layer, data, adjoint, form, effects);
            }
            BoundAdjoint::Fitc { noise, posterior: (mean, cov) } => {
                if sums.g.nrows() == 0 {
                    sums.g = Mat::zeros(mean.len(), mean.len());
                }
                let effects = effects.and_then(|sweep| match sweep {
                    EffectSweep::Fitc(moments) => Some(moments),
                    EffectSweep::Unweighted(_) => None,
                });
                let shared = FitcBackward { layer, process: self.processes[0], noise, mean, cov, effects };
                self.backward_fitc(shared, data, sums.g.as_mut());
            }
        }
        for block in &self.blocks {
            sums.layer.add(&block.layer);
            sums.noise += block.cc;
        }
    }

    /// Adds the part of the gradient of a bound in unweighted statistics that comes from the rows.
    ///
    /// `Ā = 2 (Φ̄ − κ t̄ I) A + φ̄ cᵀ`, so `K̄ = [2 Wᵀ (Φ̄ − κ t̄ I)] A + (Wᵀφ̄) cᵀ` is one product with a matrix formed
    /// once; in the direct form that matrix absorbs W and `A` is not needed.
    fn backward(
        &mut self,
        layer: &dyn LatentLayer,
        data: Dataset<'_>,
        adjoint: &StatisticsAdjoint,
        form: Form,
        effects: Option<&RowAdjoint<'_>>,
    ) {
        // Without a whitening there is nothing to train in the layer.
        let Some(whitening) = layer.whitening() else { return };
        let transposed = whitening.transposed();
        self.map.copy_from(&adjoint.gram);
        linalg::add_diagonal(self.map.as_mut(), -layer.kappa() * adjoint.residual);
        let inner = Operand::full(self.map.as_ref());
        product(self.half.as_mut(), Part::All, Accum::Replace, transposed, inner, 2.0);
        if form == Form::Direct {
            let half = Operand::full(self.half.as_ref());
            product(self.map.as_mut(), Part::All, Accum::Replace, half, whitening, 1.0);
        } else {
            std::mem::swap(&mut self.half, &mut self.map);
        }
        linalg::matvec(transposed.matrix, &adjoint.ac, &mut self.vector);
        let raw = |output: &OutputSums| {
            let mut ac = vec![0.0; output.ac.len()];
            linalg::matvec(transposed.matrix, &output.ac, &mut ac);
            OutputSums { ac, cc: output.cc }
        };
        let further: Vec<OutputSums> = adjoint.further.iter().map(raw).collect();
        let (map, vector) = (std::mem::replace(&mut self.map, Mat::new()), std::mem::take(&mut self.vector));
        let processes = std::mem::take(&mut self.processes);
        let shared = Backward {
            layer,
            processes: &processes,
            adjoint,
            form,
            map: map.as_ref(),
            vector: &vector,
            further: &further,
            effects,
        };
        self.sweep(data, |part, buffers, block| shared.run(part, buffers, block), |_| {});
        (self.map, self.vector, self.processes) = (map, vector, processes);
    }

    /// Adds the part of FITC's gradient that comes from the rows, with `−2 A diag(Λ̄) Aᵀ` into the
    /// lower triangle of `g`.
    fn backward_fitc(&mut self, shared: FitcBackward<'_>, data: Dataset<'_>, mut g: MatMut<'_, f64>) {
        self.sweep(
            data,
            |part, buffers, block| shared.run(part, buffers, block),
            |window| {
                let (left, right) = (Operand::full(window.a), Operand::full(window.scaled));
                product(g.as_mut(), Part::Lower, Accum::Add, left, right, -2.0);
            },
        );
        // Entries above the diagonal are not read, so they need not be stored.
        reflect_lower(g);
    }
}

impl Window<'_> {
    /// Adds the rows of the window, with the weights and weighted residuals that its blocks hold, to sums by level.
    fn add_effects(&self, rows: &EffectRows, sums: &mut EffectSums) {
        let mut at = 0;
        for block in self.blocks {
            let len = block.c.len().min(self.a.ncols() - at);
            let features = self.a.subcols(at, len);
            sums.add_features(rows, self.first + at, features, &block.weight[..len], &block.c[..len]);
            at += len;
        }
    }
}

/// Writes `c = y − o` of the output with index `place`, given the offsets of process 0 in `c`.
fn centre(layer: &dyn LatentLayer, process: usize, targets: Targets<'_>, place: usize, c: &mut [f64]) {
    if let Some(constant) = layer.constant(process) {
        c.fill(constant);
    }
    if targets.outputs.is_empty() {
        c.iter_mut().zip(targets.y).for_each(|(c, y)| *c = y - *c);
    } else {
        let outputs = targets.outputs.iter().skip(place).step_by(targets.width());
        c.iter_mut().zip(outputs).for_each(|(c, y)| *c = y - *c);
    }
}

/// Computes features, whitened features, `c = y − o` of the first output and base variances of a
/// block.
fn whitened_block(
    layer: &dyn LatentLayer,
    process: usize,
    part: Dataset<'_>,
    mut k: MatMut<'_, f64>,
    a: MatMut<'_, f64>,
    block: &mut Block,
) {
    let len = part.len();
    let (base, c) = (&mut block.base[..len], &mut block.c[..len]);
    layer.features(part.x, k.as_mut(), base, c, &mut block.scratch);
    centre(layer, process, part.targets, 0, c);
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

/// Adds `A diag(w) c` and `Σ w c²` of an output; empty weights count as 1.
fn add_output(a: MatRef<'_, f64>, c: &mut [f64], weights: &[f64], ac: &mut [f64], cc: &mut f64) {
    if weights.is_empty() {
        *cc += linalg::dot(c, c);
    } else {
        for (w, c) in weights.iter().zip(c.iter_mut()) {
            *cc += w * *c * *c;
            *c *= w;
        }
    }
    columns::add_matvec(a, c, ac);
}

fn forward_block(
    layer: &dyn LatentLayer,
    processes: &[usize],
    part: Dataset<'_>,
    weighting: Weighting,
    buffers: Buffers<'_>,
    block: &mut Block,
) {
    let len = part.len();
    let Buffers { k, mut a, scaled, .. } = buffers;
    whitened_block(layer, processes[0], part, k, a.as_mut(), block);
    let a = a.as_ref();
    residuals(a, layer.kappa(), &mut block.base[..len], &mut block.bar[..len]);
    let (c, weight) = (&mut block.c[..len], &mut block.weight[..len]);
    match weighting {
        Weighting::Unit => {
            let weights = part.targets.weights;
            if weights.is_empty() {
                block.residual += block.base[..len].iter().sum::<f64>();
                weight.fill(1.0);
            } else {
                weights.iter().zip(&block.base).for_each(|(w, r)| block.residual += w * r);
                weight.copy_from_slice(weights);
            }
            add_output(a, c, weights, &mut block.ac, &mut block.cc);
            for (place, sums) in block.further.iter_mut().enumerate() {
                centre(layer, processes[place + 1], part.targets, place + 1, c);
                add_output(a, c, weights, &mut sums.ac, &mut sums.cc);
            }
            columns::scale_columns_transposed(a, weight, scaled);
        }
        Weighting::Residual(noise) => {
            block.residual += block.base[..len].iter().sum::<f64>();
            for (w, r) in weight.iter_mut().zip(&block.base) {
                *w = 1.0 / (r + noise);
            }
            let weights = part.targets.weights;
            weight.iter_mut().zip(weights).for_each(|(w, sample)| *w *= sample);
            for (w, c) in weight.iter_mut().zip(c.iter_mut()) {
                block.log_weight += w.ln();
                block.cc += *w * *c * *c;
                *c *= *w;
            }
            columns::add_matvec(a, c, &mut block.ac);
            columns::scale_columns_transposed(a, weight, scaled);
        }
    }
}

/// The inputs of every block of a backward sweep in unweighted statistics.
struct Backward<'a> {
    layer: &'a dyn LatentLayer,
    processes: &'a [usize],
    adjoint: &'a StatisticsAdjoint,
    form: Form,
    map: MatRef<'a, f64>,
    /// `Wᵀφ̄` of the first output.
    vector: &'a [f64],
    /// The sums of further outputs.
    further: &'a [OutputSums],
    effects: Option<&'a RowAdjoint<'a>>,
}

impl Backward<'_> {
    fn run(&self, part: Dataset<'_>, buffers: Buffers<'_>, block: &mut Block) {
        let len = part.len();
        // Nothing is summed over the window here, so `A` can be a buffer of the thread too.
        let Buffers { mut k, kbar: mut a, mut t, .. } = buffers;
        let u = match self.form {
            Form::Stable | Form::Mixed => {
                whitened_block(self.layer, self.processes[0], part, k.as_mut(), a.as_mut(), block);
                a.as_ref()
            }
            Form::Direct => {
                let (base, c) = (&mut block.base[..len], &mut block.c[..len]);
                self.layer.features(part.x, k.as_mut(), base, c, &mut block.scratch);
                centre(self.layer, self.processes[0], part.targets, 0, c);
                k.as_ref()
            }
        };
        block_product(t.as_mut(), Accum::Replace, Operand::full(self.map), u, 1.0);
        let (c, offset_bar, half) = (&mut block.c[..len], &mut block.bar[..len], &mut block.weight[..len]);
        // `half` applies the weights to the term of Φ, once, with the first output;
        // `offset_adjoint` applies them to c.
        half.fill(0.5);
        part.targets.weights.iter().zip(half.iter_mut()).for_each(|(w, half)| *half *= w);
        let weights = part.targets.weights;
        offset_adjoint(k.as_ref(), self.vector, self.adjoint.cc, weights, c, offset_bar);
        columns::rank_one_plus_scaled(t.as_mut(), self.vector, c, half);
        if let Some(effects) = self.effects {
            effects.add(part.x, t.as_mut(), part.targets.weights, offset_bar);
        }
        let grad = &mut block.layer;
        let process = self.processes[0];
        if process > 0 {
            grad.mean[process] += offset_bar.iter().sum::<f64>();
            offset_bar.fill(0.0);
        }
        half.fill(0.5);
        let bar = &mut block.base[..len];
        for (place, (output, &process)) in self.further.iter().zip(&self.processes[1..]).enumerate() {
            centre(self.layer, process, part.targets, place + 1, c);
            offset_adjoint(k.as_ref(), &output.ac, output.cc, weights, c, bar);
            columns::rank_one_plus_scaled(t.as_mut(), &output.ac, c, half);
            grad.mean[process] += bar.iter().sum::<f64>();
        }
        let base_bar = bar;
        base_bar.fill(self.adjoint.residual);
        part.targets.weights.iter().zip(base_bar.iter_mut()).for_each(|(w, bar)| *bar *= w);
        let (features, features_bar) = (k.as_ref(), t.as_ref());
        let by = FeaturesAdjoint { features, features_bar, base_bar, offset_bar };
        self.layer.features_adjoint(part.x, by, grad, &mut block.scratch);
    }
}

/// Writes the derivatives with respect to the offsets of an output, given `vector = Wᵀφ̄`,
/// `cc = c̄c` and its c, and multiplies c by the weights of the rows; empty weights count as 1.
fn offset_adjoint(
    k: MatRef<'_, f64>,
    vector: &[f64],
    cc: f64,
    weights: &[f64],
    c: &mut [f64],
    offset_bar: &mut [f64],
) {
    // aᵀφ̄ of the stable form equals kᵀ(Wᵀφ̄), which both forms can use.
    offset_bar.fill(0.0);
    columns::add_transposed_matvec(k, vector, offset_bar);
    offset_bar.iter_mut().zip(&*c).for_each(|(o, c)| *o = -(*o + 2.0 * cc * c));
    for ((w, c), bar) in weights.iter().zip(c.iter_mut()).zip(offset_bar.iter_mut()) {
        *c *= w;
        *bar *= w;
    }
}

/// The inputs of every block of FITC's backward sweep.
struct FitcBackward<'a> {
    layer: &'a dyn LatentLayer,
    process: usize,
    noise: f64,
    mean: &'a [f64],
    cov: MatRef<'a, f64>,
    effects: Option<RowMoments<'a>>,
}

impl FitcBackward<'_> {
    fn run(&self, part: Dataset<'_>, buffers: Buffers<'_>, block: &mut Block) {
        let len = part.len();
        let Buffers { mut k, mut a, mut t, mut kbar, scaled } = buffers;
        whitened_block(self.layer, self.process, part, k.as_mut(), a.as_mut(), block);
        let a = a.as_ref();
        residuals(a, self.layer.kappa(), &mut block.base[..len], &mut block.bar[..len]);
        block_product(t.as_mut(), Accum::Replace, Operand::full(self.cov), a, 1.0);

        // e = ω (c − aᵀm), Λ̄ = ½ (ω − ω² aᵀSa − e²), Ā = ω S a − e m − 2 κ Λ̄ a.
        let (quad, fit) = (&mut block.weight[..len], &mut block.bar[..len]);
        quad.fill(0.0);
        columns::add_column_dots(a, t.as_ref(), quad);
        fit.fill(0.0);
        columns::add_transposed_matvec(a, self.mean, fit);
        if let Some(effects) = self.effects {
            effects.add(part.x, a, t.as_mut(), (quad, fit));
        }
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
        let (features, features_bar) = (k.as_ref(), kbar.as_ref());
        let by = FeaturesAdjoint { features, features_bar, base_bar: lambda_bar, offset_bar: minus_e };
        self.layer.features_adjoint(part.x, by, &mut block.layer, &mut block.scratch);
        columns::scale_columns_transposed(a, lambda_bar, scaled);
    }
}
