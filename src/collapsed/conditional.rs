//! The evidence of data that are conditioned on neighbours: its sums over rows, and what rows add to its gradient; no conditioning itself.
//!
//! Rows that know their neighbours are a linear model in w with noise variances D of their own (see [`crate::neighbours`]), which is what FITC
//! is without neighbours: [`super::fitc`] makes the evidence and the posterior of the sums.

use super::stream::Dataset;
use super::sums::{BoundGradient, Statistics};
use crate::columns;
use crate::latent::{InducingLayer, LatentLayer, LayerGradient};
use crate::linalg::{self, Part, Shape, block_product, product, reflect_lower};
use crate::neighbours::{Blocks, Conditionals, Rows, RowsBar, Source};
use crate::threads::PerThread;
use faer::{Accum, Mat, MatMut, MatRef};
use rayon::prelude::*;

/// Rows and neighbours that are in memory at a time.
const WINDOW: usize = 16384;

/// What one block of a window sums up, and its columns of what is in memory.
struct Slot {
    centred: Vec<f64>,
    variance: Vec<f64>,
    bar: Vec<f64>,
    ac: Vec<f64>,
    cc: f64,
    log_weight: f64,
    noise: f64,
    layer: LayerGradient,
    t: Mat<f64>,
}

/// Sweeps over rows that are conditioned on their neighbours, with the sums of the last forward one.
pub struct ConditionalStream {
    per_thread: PerThread<Conditionals>,
    /// ã of the rows in memory, and ω ãᵀ.
    rows: Mat<f64>,
    scaled: Mat<f64>,
    /// a of the rows and neighbours in memory, and its adjoint; made when a gradient is first asked for.
    members: [Mat<f64>; 2],
    slots: Vec<Slot>,
    /// The sums of the last forward sweep, weighted by ω = 1/D.
    pub statistics: Statistics,
}

/// The columns of a block in the matrices of its window.
struct Columns<'a> {
    rows: MatMut<'a, f64>,
    scaled: MatMut<'a, f64>,
    members: [MatMut<'a, f64>; 2],
}

fn source_of(data: Dataset<'_>) -> Source<'_> {
    Source { x: data.x, y: data.targets.y, queries: None }
}

impl ConditionalStream {
    /// Buffers for sweeps over these blocks with `layer`.
    pub fn new(layer: &InducingLayer, blocks: &Blocks) -> Self {
        let m = layer.dim();
        let windows = blocks.windows(WINDOW);
        let most_rows = windows.iter().map(|window| window.rows).max().unwrap_or(0);
        let most_blocks = windows.iter().map(|window| window.blocks.len()).max().unwrap_or(0);
        let most = blocks.all.iter().map(|block| block.count).max().unwrap_or(0);
        let longest = blocks.all.iter().map(|block| block.lists.longest()).max().unwrap_or(0);
        let slot = || Slot {
            centred: vec![0.0; most],
            variance: vec![0.0; most],
            bar: vec![0.0; most],
            ac: vec![0.0; m],
            cc: 0.0,
            log_weight: 0.0,
            noise: 0.0,
            layer: layer.zero_gradient(),
            t: Mat::zeros(m, most),
        };
        ConditionalStream {
            per_thread: PerThread::new(move || Conditionals::new(longest)),
            rows: linalg::spread(m, most_rows),
            scaled: linalg::spread(most_rows, m),
            members: [Mat::new(), Mat::new()],
            slots: (0..most_blocks).map(|_| slot()).collect(),
            statistics: Statistics::zeros(m),
        }
    }

    /// Runs `work` on every block, and `after` on the rows, scaled rows and members of every window.
    fn sweep(
        &mut self,
        blocks: &Blocks,
        work: impl Fn(usize, &mut Conditionals, Columns<'_>, &mut Slot) + Sync,
        mut after: impl FnMut(MatRef<'_, f64>, MatRef<'_, f64>, [MatRef<'_, f64>; 2]),
    ) {
        for window in blocks.windows(WINDOW) {
            let mut columns = Vec::with_capacity(window.blocks.len());
            let [first, second] = &mut self.members;
            let (mut rows, mut scaled) = (self.rows.as_mut(), self.scaled.as_mut());
            let [mut a, mut a_bar] = [first.as_mut(), second.as_mut()];
            for block in &blocks.all[window.blocks.clone()] {
                let of_members = block.members.len().min(a.ncols());
                let (these, rest) = rows.split_at_col_mut(block.count);
                let (these_scaled, rest_scaled) = scaled.split_at_row_mut(block.count);
                let (these_a, rest_a) = a.split_at_col_mut(of_members);
                let (these_bar, rest_bar) = a_bar.split_at_col_mut(of_members);
                columns.push(Columns { rows: these, scaled: these_scaled, members: [these_a, these_bar] });
                (rows, scaled, a, a_bar) = (rest, rest_scaled, rest_a, rest_bar);
            }
            let per_thread = &self.per_thread;
            let each = columns.into_par_iter().zip(&mut self.slots).enumerate().with_max_len(1);
            each.for_each(|(at, (columns, slot))| {
                per_thread.with(|room| work(window.blocks.start + at, room, columns, slot));
            });
            let [a, a_bar] = [&self.members[0], &self.members[1]];
            let members = window.members.min(a.ncols());
            let members = [a, a_bar].map(|all| all.as_ref().subcols(0, members));
            let rows = window.rows;
            after(self.rows.as_ref().subcols(0, rows), self.scaled.as_ref().subrows(0, rows), members);
        }
    }

    /// The forward sweep: fills [`ConditionalStream::statistics`] for the rows of `blocks` out of `data`, whose weights and
    /// exposures are not looked at. Sums are not finite where a row cannot be conditioned.
    pub fn forward(&mut self, layer: &InducingLayer, data: Dataset<'_>, blocks: &Blocks, noise: f64) {
        for slot in &mut self.slots {
            slot.ac.fill(0.0);
            (slot.cc, slot.log_weight) = (0.0, 0.0);
        }
        let mut gram = std::mem::replace(&mut self.statistics.gram, Mat::new());
        gram.as_mut().fill(0.0);
        self.sweep(
            blocks,
            |at, room, Columns { rows, scaled, .. }, slot| {
                let block = &blocks.all[at];
                let (centred, variance) =
                    (&mut slot.centred[..block.count], &mut slot.variance[..block.count]);
                let mut out = Rows { features: rows, centred, variance };
                room.forward(layer, source_of(data), block, noise, &mut out);
                let features = out.features.as_ref();
                for (c, d) in out.centred.iter_mut().zip(out.variance.iter_mut()) {
                    let omega = 1.0 / *d;
                    slot.log_weight += omega.ln();
                    slot.cc += omega * *c * *c;
                    (*c, *d) = (omega * *c, omega);
                }
                columns::add_matvec(features, out.centred, &mut slot.ac);
                columns::scale_columns_transposed(features, out.variance, scaled);
            },
            |rows, scaled, _| {
                let (left, right) = ((rows, Shape::Full), (scaled, Shape::Full));
                product(gram.as_mut(), Part::Lower, Accum::Add, left, right, 1.0);
            },
        );
        reflect_lower(gram.as_mut());
        let sums = &mut self.statistics;
        sums.gram = gram;
        sums.ac.fill(0.0);
        (sums.cc, sums.residual, sums.log_weight, sums.count) = (0.0, 0.0, 0.0, blocks.rows() as f64);
        for slot in &self.slots {
            sums.ac.iter_mut().zip(&slot.ac).for_each(|(a, b)| *a += b);
            sums.cc += slot.cc;
            sums.log_weight += slot.log_weight;
        }
    }

    /// The backward sweep: adds to `sums` the gradient of the negative log evidence, given the posterior (m: M, S: `M × M`) that
    /// [`super::fitc`] makes of the statistics of all rows.
    pub fn add_rows(
        &mut self,
        layer: &InducingLayer,
        data: Dataset<'_>,
        (blocks, noise): (&Blocks, f64),
        (mean, cov): (&[f64], MatRef<'_, f64>),
        sums: &mut BoundGradient,
    ) {
        let m = layer.dim();
        let most = blocks.windows(WINDOW).iter().map(|window| window.members).max().unwrap_or(0);
        if self.members[0].ncols() < most {
            self.members = [linalg::spread(m, most), linalg::spread(m, most)];
        }
        for slot in &mut self.slots {
            slot.layer.clear();
            slot.noise = 0.0;
        }
        if sums.g.nrows() == 0 {
            sums.g = Mat::zeros(m, m);
        }
        let mut g = sums.g.as_mut();
        self.sweep(
            blocks,
            |at, room, Columns { rows, members, .. }, slot| {
                let block = &blocks.all[at];
                let Slot { centred, variance, bar, t, .. } = slot;
                let [centred, variance, bar] = [centred, variance, bar].map(|all| &mut all[..block.count]);
                let mut out = Rows { features: rows, centred, variance };
                room.forward(layer, source_of(data), block, noise, &mut out);
                let features = out.features.as_ref();
                let mut t = t.as_mut().subcols_mut(0, block.count);
                block_product(t.as_mut(), Accum::Replace, (cov, Shape::Full), features, 1.0);
                // e = ω (c̃ − ãᵀm), D̄ = ½ (ω − ω² ãᵀSã − e²), ∂/∂ã = ω Sã − e m, ∂/∂c̃ = e.
                bar.fill(0.0);
                columns::add_transposed_matvec(features, mean, bar);
                for (i, (c, d)) in out.centred.iter_mut().zip(out.variance.iter_mut()).enumerate() {
                    let omega = 1.0 / *d;
                    let e = omega * (*c - bar[i]);
                    let quadratic: f64 =
                        features.col(i).iter().zip(t.as_ref().col(i).iter()).map(|(a, t)| a * t).sum();
                    (*c, *d) = (e, 0.5 * (omega - omega * omega * quadratic - e * e));
                    let column = t.as_mut().col_mut(i);
                    column.iter_mut().zip(mean).for_each(|(t, m)| *t = omega * *t - e * m);
                }
                let bar = RowsBar { features: t.as_ref(), centred: out.centred, variance: out.variance };
                slot.noise += room.adjoint(layer, block, &bar, &mut slot.layer, members);
            },
            |_, _, [a, a_bar]| {
                let (left, right) = ((a_bar, Shape::Full), (a.transpose(), Shape::Full));
                product(g.as_mut(), Part::Lower, Accum::Add, left, right, 1.0);
            },
        );
        reflect_lower(g);
        for slot in &self.slots {
            sums.layer.add(&slot.layer);
            sums.noise += slot.noise;
        }
    }
}
