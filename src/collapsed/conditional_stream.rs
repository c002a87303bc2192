//! Sweeps over rows that are conditioned on their neighbours: sums, predictive losses and the
//! contributions of rows to gradients.
//!
//! A row has the centred target c̃, the features ã and the variance D given its neighbours, as in [`crate::neighbours`], and the weight ω.
//! A bar marks derivatives of the objective.

use super::conditional::{PredictiveLoss, RowLoss};
use super::sums::{BoundGradient, Statistics, StatisticsAdjoint};
use crate::columns;
use crate::effects::Effects;
use crate::latent::{InducingLayer, LatentLayer, LayerGradient};
use crate::linalg::{self, reflect_lower};
use crate::neighbours::{
    Block, Conditionals, Members, PriorBar, Rows, RowsBar, Source, Windows, add_gram, image,
};
use crate::threads::PerThread;
use faer::{Mat, MatMut, MatRef};
use rayon::prelude::*;

/// The number of blocks that are processed together.
const GROUP: usize = 32;

/// The weight of a row in the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWeight {
    /// `ω = 1/D`.
    Precision,
    /// `ω = 1`.
    Unit,
}

/// The route of an objective's gradient to the rows.
#[derive(Clone, Copy)]
pub enum RowsAdjoint<'a> {
    /// Through the statistics of all rows, given the derivatives with respect to them and the
    /// weights of rows in them.
    Statistics(&'a StatisticsAdjoint, RowWeight),
    /// Through the loss of every row's prediction, times a factor.
    Predictions(Predictions<'a>, f64),
}

/// Predictions of rows from their neighbours and q(w) = N(m, S).
#[derive(Clone, Copy)]
pub struct Predictions<'a> {
    /// The loss of a prediction.
    pub loss: &'a dyn RowLoss,
    /// m and S (`M × M`, both triangles) of w, followed by the whitened coefficients of grouped
    /// effects.
    pub posterior: (&'a [f64], MatRef<'a, f64>),
}

/// The rows and sums of one block of a group.
struct Slot {
    rows: Vec<u32>,
    centred: Vec<f64>,
    variance: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    ac: Vec<f64>,
    own: Vec<f64>,
    value: f64,
    log_weight: f64,
    noise: f64,
    layer: LayerGradient,
    /// `∂F/∂F_j` of every term of grouped effects.
    factors: Vec<Mat<f64>>,
    /// The number of features of f, M.
    own_features: usize,
    /// One column per row (`members` has one per member); these matrices are used only for
    /// gradients.
    t: Mat<f64>,
    more: Mat<f64>,
    members: Mat<f64>,
}

/// Sweeps over rows that are conditioned on their neighbours, with the sums of the last forward
/// sweep.
pub struct ConditionalStream {
    per_thread: PerThread<Conditionals>,
    members: Members,
    /// ã of the rows of a group, and `ω ãᵀ`.
    rows: Mat<f64>,
    scaled: Mat<f64>,
    slots: Vec<Slot>,
    /// The sums of the last forward sweep.
    pub statistics: Statistics,
}

/// A block with everything that is read and written to process it.
struct Work<'a> {
    block: &'a Block,
    members: &'a Members,
    rows: MatMut<'a, f64>,
    scaled: MatMut<'a, f64>,
    slot: &'a mut Slot,
}

/// The model and data of a sweep.
#[derive(Clone, Copy)]
pub struct Sweep<'a> {
    /// Kernel, inducing inputs and mean.
    pub layer: &'a InducingLayer,
    /// The data.
    pub source: Source<'a>,
    /// The rows with their neighbours.
    pub windows: &'a Windows,
}

impl ConditionalStream {
    /// Creates buffers for sweeps over windows like these with `layer` and `effects`.
    pub fn new(layer: &InducingLayer, effects: &Effects, windows: &Windows) -> Self {
        let m = layer.dim() + effects.coefficients();
        let most = windows.blocks().map(|block| block.count).max().unwrap_or(0);
        let longest = windows.longest();
        let count = windows.all.iter().map(|window| window.blocks.len()).max().unwrap_or(0).min(GROUP);
        let slot = || Slot {
            rows: Vec::with_capacity(most),
            centred: vec![0.0; most],
            variance: vec![0.0; most],
            first: vec![0.0; most],
            second: vec![0.0; most],
            ac: vec![0.0; m],
            own: Vec::new(),
            value: 0.0,
            log_weight: 0.0,
            noise: 0.0,
            layer: layer.zero_gradient(),
            factors: Vec::new(),
            own_features: layer.dim(),
            t: Mat::zeros(m, most),
            more: Mat::zeros(m, most),
            members: Mat::new(),
        };
        ConditionalStream {
            per_thread: PerThread::new(move || Conditionals::new(longest)),
            members: Members::default(),
            rows: linalg::spread(m, count * most),
            scaled: linalg::spread(count * most, m),
            slots: (0..count).map(|_| slot()).collect(),
            statistics: Statistics::zeros(m),
        }
    }

    /// Runs `work` on every conditioned block, `after` on the rows and scaled rows of every group with its blocks and their slots,
    /// and `finally` on every window's members.
    fn run(
        &mut self,
        sweep: Sweep<'_>,
        backward: bool,
        work: impl Fn(&mut Conditionals, Work<'_>) + Sync,
        mut after: impl FnMut(MatRef<'_, f64>, MatRef<'_, f64>, &mut Members, &[Block], &[Slot]),
        mut finally: impl FnMut(&Members),
    ) {
        for slot in &mut self.slots {
            slot.ac.fill(0.0);
            slot.layer.clear();
            slot.own.fill(0.0);
            (slot.value, slot.log_weight, slot.noise) = (0.0, 0.0, 0.0);
        }
        for window in &sweep.windows.all {
            self.members.load(sweep.layer, sweep.source, window);
            if backward {
                self.members.clear_adjoint();
            }
            for blocks in window.blocks.chunks(GROUP) {
                let (mut rows, mut scaled) = (self.rows.as_mut(), self.scaled.as_mut());
                let mut works = Vec::with_capacity(blocks.len());
                for (block, slot) in blocks.iter().zip(&mut self.slots) {
                    let (own, rest) = rows.split_at_col_mut(block.count);
                    let (own_scaled, rest_scaled) = scaled.split_at_row_mut(block.count);
                    works.push(Work { block, members: &self.members, rows: own, scaled: own_scaled, slot });
                    (rows, scaled) = (rest, rest_scaled);
                }
                works.into_par_iter().with_max_len(1).for_each(|mut own| {
                    self.per_thread.with(|room| {
                        let count = own.block.count;
                        own.slot.rows.clear();
                        own.slot.rows.extend(own.members.rows(&own.block.members[..count]));
                        let (centred, variance) =
                            (&mut own.slot.centred[..count], &mut own.slot.variance[..count]);
                        let mut out = Rows { features: own.rows.as_mut(), centred, variance };
                        room.forward(sweep.layer.kernel(), own.members, own.block, &mut out);
                        work(room, own);
                    });
                });
                let count = blocks.iter().map(|block| block.count).sum();
                let (rows, scaled) =
                    (self.rows.as_ref().subcols(0, count), self.scaled.as_ref().subrows(0, count));
                after(rows, scaled, &mut self.members, blocks, &self.slots);
            }
            finally(&self.members);
        }
    }

    /// The forward sweep: fills [`ConditionalStream::statistics`]. The sums are not finite if a row
    /// cannot be conditioned.
    pub fn forward(&mut self, sweep: Sweep<'_>, weight: RowWeight) {
        let dense = sweep.layer.dim();
        let mut gram = std::mem::replace(&mut self.statistics.gram, Mat::new());
        gram.as_mut().fill(0.0);
        self.run(
            sweep,
            false,
            |_, Work { block, rows, scaled, slot, .. }| {
                let (c, omega) = (&mut slot.centred[..block.count], &mut slot.variance[..block.count]);
                for (c, d) in c.iter_mut().zip(omega.iter_mut()) {
                    // A row whose D is NaN makes the sums NaN with unit weights too.
                    let omega = if weight == RowWeight::Unit && !d.is_nan() { 1.0 } else { 1.0 / *d };
                    slot.log_weight += omega.ln();
                    slot.value += omega * *c * *c;
                    (*c, *d) = (omega * *c, omega);
                }
                columns::add_matvec(rows.as_ref(), c, &mut slot.ac);
                columns::scale_columns_transposed(rows.as_ref(), omega, scaled);
            },
            |rows, scaled, _, _, _| add_gram(gram.as_mut(), rows, scaled, dense),
            |_| {},
        );
        reflect_lower(gram.as_mut());
        let sums = &mut self.statistics;
        sums.gram = gram;
        sums.ac.fill(0.0);
        (sums.cc, sums.residual, sums.log_weight) = (0.0, 0.0, 0.0);
        sums.count = sweep.windows.rows() as f64;
        for slot in &self.slots {
            sums.ac.iter_mut().zip(&slot.ac).for_each(|(a, b)| *a += b);
            sums.cc += slot.value;
            sums.log_weight += slot.log_weight;
        }
    }

    /// The loss of predictions of all rows.
    pub fn losses(&mut self, sweep: Sweep<'_>, by: Predictions<'_>) -> PredictiveLoss {
        let (m, own, dense) = (by.posterior.0.len(), by.loss.own_len(), sweep.layer.dim());
        let mut gram = Mat::zeros(m, m);
        self.slots.iter_mut().for_each(|slot| slot.own.resize(own, 0.0));
        self.run(
            sweep,
            false,
            |_, Work { block, rows, scaled, slot, .. }| {
                let (rows, count) = (rows.as_ref(), block.count);
                slot.value += slot.lose(rows, by);
                let mean = &mut slot.first[..count];
                mean.iter_mut().for_each(|bar| *bar = -*bar);
                columns::add_matvec(rows, mean, &mut slot.ac);
                columns::scale_columns_transposed(rows, &slot.second[..count], scaled);
            },
            |rows, scaled, _, _, _| add_gram(gram.as_mut(), rows, scaled, dense),
            |_| {},
        );
        reflect_lower(gram.as_mut());
        let mut loss = PredictiveLoss { value: 0.0, own: vec![0.0; own], mean: vec![0.0; m], cov: gram };
        for slot in &self.slots {
            loss.value += slot.value;
            loss.own.iter_mut().zip(&slot.own).for_each(|(a, b)| *a += b);
            loss.mean.iter_mut().zip(&slot.ac).for_each(|(a, b)| *a += b);
        }
        loss
    }

    /// The backward sweep: adds to `sums` the gradient that flows through the rows.
    pub fn add_rows(&mut self, sweep: Sweep<'_>, by: RowsAdjoint<'_>, sums: &mut BoundGradient) {
        let (layer, effects) = (sweep.layer, sweep.source.effects);
        let m = layer.dim();
        let largest = sweep.windows.blocks().map(|block| block.members.len()).max().unwrap_or(0);
        for slot in &mut self.slots {
            if slot.members.ncols() < largest {
                slot.members = Mat::zeros(m, largest);
            }
        }
        if sums.g.nrows() == 0 {
            sums.g = Mat::zeros(m, m);
        }
        let zeros = || effects.terms().iter().map(|term| Mat::zeros(term.width(), term.width())).collect();
        if sums.factors.is_empty() {
            sums.factors = zeros();
        }
        self.slots.iter_mut().for_each(|slot| slot.factors = zeros());
        let BoundGradient { layer: gradient, g, .. } = sums;
        let mut g = g.as_mut();
        self.run(
            sweep,
            true,
            |room, Work { block, members, rows, slot, .. }| {
                match by {
                    RowsAdjoint::Statistics(adjoint, weight) => {
                        slot.statistics_bar(rows.as_ref(), adjoint, weight);
                    }
                    RowsAdjoint::Predictions(by, factor) => {
                        slot.predictions_bar(rows.as_ref(), by, factor);
                    }
                }
                let Slot { first, second, t, layer, noise, factors, .. } = slot;
                let bar = RowsBar {
                    features: t.as_ref().subcols(0, block.count),
                    centred: &first[..block.count],
                    variance: &second[..block.count],
                };
                let prior = PriorBar { kernel: &mut layer.kernel, mean: &mut layer.mean[0], noise, factors };
                let mut out = slot.members.as_mut().subcols_mut(0, block.members.len());
                out.fill(0.0);
                room.adjoint(sweep.layer.kernel(), members, block, &bar, prior, out);
            },
            |_, _, members, blocks, slots| {
                let bars = blocks.iter().zip(slots);
                let bars =
                    bars.map(|(block, slot)| (block, slot.members.as_ref().subcols(0, block.members.len())));
                members.add_blocks(&bars.collect::<Vec<_>>());
            },
            |members| members.adjoint(layer, gradient, g.as_mut()),
        );
        reflect_lower(g);
        for slot in &self.slots {
            sums.layer.add(&slot.layer);
            sums.noise += slot.noise;
            sums.factors.iter_mut().zip(&slot.factors).for_each(|(sum, own)| *sum += own);
        }
    }
}

impl Slot {
    /// Returns the losses of predictions of the rows, given their errors `e = c̃ − ãᵀm` and
    /// variances `V = D + ãᵀSã`; `ē` is left in `first`, `V̄` in `second` and S ã in `more`.
    fn lose(&mut self, rows: MatRef<'_, f64>, by: Predictions<'_>) -> f64 {
        let (count, (mean, cov)) = (rows.ncols(), by.posterior);
        let mut seen = self.more.as_mut().subcols_mut(0, count);
        image(cov, rows, self.own_features, 1.0, seen.as_mut());
        let (e, v) = (&mut self.first[..count], &mut self.second[..count]);
        e.fill(0.0);
        v.copy_from_slice(&self.variance[..count]);
        columns::add_moments(rows, mean, seen.as_ref(), e, v);
        e.iter_mut().zip(&self.centred).for_each(|(e, c)| *e = c - *e);
        by.loss.add(&self.rows, e, v, &mut self.own)
    }

    /// Computes the adjoint of rows through statistics: `ã̄ = 2ωΦ̄ã + ω c̃ φ̄` into `t`,
    /// `c̃̄ = ω φ̄ᵀã + 2ω c̃ c̄c` into `first` and `D̄ = −ω²ω̄` with
    /// `ω̄ = ãᵀΦ̄ã + c̃ φ̄ᵀã + c̃² c̄c + ω̄_log/ω` into `second`.
    fn statistics_bar(&mut self, rows: MatRef<'_, f64>, bar: &StatisticsAdjoint, weight: RowWeight) {
        let count = rows.ncols();
        let mut t = self.t.as_mut().subcols_mut(0, count);
        image(bar.gram.as_ref(), rows, self.own_features, 2.0, t.as_mut());
        let (linear, quadratic) = (&mut self.first[..count], &mut self.second[..count]);
        linear.fill(0.0);
        quadratic.fill(0.0);
        columns::add_moments(rows, &bar.ac, t.as_ref(), linear, quadratic);
        let unit = weight == RowWeight::Unit;
        for i in 0..count {
            let (c, d, slope) = (self.centred[i], self.variance[i], linear[i]);
            let omega = if unit { 1.0 } else { 1.0 / d };
            let column = t.as_mut().col_mut(i);
            column.iter_mut().zip(&bar.ac).for_each(|(t, ac)| *t = omega * (*t + c * ac));
            linear[i] = omega * (slope + 2.0 * c * bar.cc);
            let omega_bar = 0.5 * quadratic[i] + c * slope + c * c * bar.cc + bar.log_weight * d;
            quadratic[i] = if unit { 0.0 } else { -omega * omega * omega_bar };
        }
    }

    /// Computes the adjoint for losses of predictions: `ã̄ = 2V̄Sã − ē m`, `c̃̄ = ē` and `D̄ = V̄`.
    fn predictions_bar(&mut self, rows: MatRef<'_, f64>, by: Predictions<'_>, factor: f64) {
        self.lose(rows, by);
        for (i, (e_bar, v_bar)) in self.first.iter_mut().zip(&mut self.second).take(rows.ncols()).enumerate()
        {
            (*e_bar, *v_bar) = (factor * *e_bar, factor * *v_bar);
            let (seen, column) = (columns::column(&self.more.as_ref(), i), self.t.as_mut().col_mut(i));
            for ((t, s), m) in column.iter_mut().zip(seen).zip(by.posterior.0) {
                *t = 2.0 * *v_bar * s - *e_bar * m;
            }
        }
    }
}
