//! Rows that are conditioned on their neighbours, as the rows of a pass.

use crate::columns;
use crate::effects::Effects;
use crate::latent::{InducingLayer, LayerGradient};
use crate::linalg;
use crate::neighbours::{
    Block, Conditionals, Members, PriorBar, Rows, RowsBar, Source, Windows, room as room_of,
};
use crate::objective::Targets;
use faer::{Mat, MatMut, MatRef};

/// The number of blocks that are processed together.
pub(super) const GROUP: usize = 32;

/// Rows with the data of their neighbours.
#[derive(Clone, Copy)]
pub struct GivenRows<'a> {
    /// The rows with their neighbours, in windows of blocks.
    pub windows: &'a Windows,
    /// The data of every process: inputs, targets and noise variances, which are sites if the noise is not Gaussian.
    pub sources: &'a [Source<'a>],
    /// The observations of all data, to which losses refer.
    pub targets: Targets<'a>,
    /// The weight of the sum over rows.
    pub scale: f64,
}

/// The gradient that flows through the conditioning of rows on the data of their neighbours, for one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenGradient {
    /// The derivative with respect to a common addition to all noise variances.
    pub noise: f64,
    /// `∂F/∂F_j` of every term of grouped effects.
    pub factors: Vec<Mat<f64>>,
}

impl GivenGradient {
    /// Returns zeros for these effects.
    pub(super) fn zeros(effects: &Effects) -> Self {
        let factors = effects.terms().iter().map(|term| Mat::zeros(term.width(), term.width())).collect();
        GivenGradient { noise: 0.0, factors }
    }

    pub(super) fn clear(&mut self) {
        self.noise = 0.0;
        self.factors.iter_mut().for_each(|factor| factor.as_mut().fill(0.0));
    }

    pub(crate) fn add(&mut self, other: &GivenGradient) {
        self.noise += other.noise;
        self.factors.iter_mut().zip(&other.factors).for_each(|(sum, own)| *sum += own);
    }
}

/// The data of the rows of a block, gathered.
#[derive(Default)]
pub(super) struct Gathered {
    pub rows: Vec<u32>,
    y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    other_ends: Vec<f64>,
    outputs: Vec<f64>,
    /// The offsets of every row, row by row.
    offsets: Vec<f64>,
    /// The targets of every process, one after the other.
    pub sites: Vec<f64>,
}

impl Gathered {
    /// Gathers the rows of a block.
    pub fn take(&mut self, given: GivenRows<'_>, members: &Members, block: &Block) {
        let Gathered { rows, y, exposure, weights, other_ends, outputs, offsets, sites } = self;
        for values in [&mut *y, exposure, weights, other_ends, outputs, offsets, sites] {
            values.clear();
        }
        rows.clear();
        rows.extend(members.rows(&block.members[..block.count]));
        let (all, width) = (given.targets, given.targets.width());
        for row in rows.iter().map(|row| *row as usize) {
            y.push(all.y[row]);
            exposure.extend(all.exposure.get(row));
            weights.extend(all.weights.get(row));
            other_ends.extend(all.other_ends.get(row));
            outputs.extend_from_slice(&all.outputs[row * width..(row + 1) * width]);
            offsets.extend((0..all.offsets.ncols()).map(|function| all.offset(row, function)));
        }
        for source in given.sources {
            sites.extend(rows.iter().map(|row| source.y[*row as usize]));
        }
    }

    /// Returns the observations.
    pub fn targets(&self) -> Targets<'_> {
        let Gathered { y, exposure, weights, other_ends, outputs, offsets, .. } = self;
        let functions = offsets.len() / y.len().max(1);
        let offsets = MatRef::from_row_major_slice(offsets, y.len(), functions);
        Targets { y, exposure, weights, other_ends, outputs, offsets }
    }
}

/// The rows of a block, with the members of its window.
#[derive(Clone, Copy)]
pub(super) struct GivenBlock<'a> {
    pub given: GivenRows<'a>,
    pub members: &'a [Members],
    pub block: &'a Block,
}

impl GivenBlock<'_> {
    /// Computes the features of the rows for a process, their offsets, and their variances given their neighbours: with the noise of the row
    /// if `noisy`, otherwise without it.
    pub fn features(
        self,
        process: usize,
        kernel: &InducingLayer,
        room: &mut Conditionals,
        (features, base, offset): (MatMut<'_, f64>, &mut [f64], &mut [f64]),
        noisy: bool,
    ) {
        let GivenBlock { given, members, block } = self;
        let (members, source) = (&members[process], &given.sources[process]);
        let mut out = Rows { features, centred: offset, variance: base };
        room.forward(kernel.kernel(), members, block, &mut out);
        for ((row, offset), base) in members.rows(&block.members[..block.count]).zip(offset).zip(base) {
            *offset = source.y[row as usize] - *offset;
            if base.is_nan() {
                *offset = f64::NAN;
            }
            if !noisy {
                *base -= source.noise.get(row as usize).copied().unwrap_or(source.noise[0]);
            }
        }
    }

    /// Passes on the derivatives in features, offsets and variances of a process, at this place in its layer: to `gradient`, to `through`, and to the features of the members
    /// (`M × members`), which are overwritten. With `noisy` variances contain the noise of the row.
    pub fn adjoint(
        self,
        (process, place): (usize, usize),
        kernel: &InducingLayer,
        room: &mut Conditionals,
        (features, offset, variance): (MatRef<'_, f64>, &mut [f64], &[f64]),
        noisy: bool,
        (gradient, through, out): (&mut LayerGradient, &mut GivenGradient, &mut Mat<f64>),
    ) {
        let GivenBlock { members, block, .. } = self;
        // o = y − c̃.
        offset.iter_mut().for_each(|bar| *bar = -*bar);
        let bar = RowsBar { features, centred: offset, variance };
        let GivenGradient { noise, factors } = through;
        let prior =
            PriorBar { kernel: &mut gradient.kernel, mean: &mut gradient.mean[place], noise, factors };
        let mut out = room_of(out, members[process].dim(), block.members.len());
        out.fill(0.0);
        room.adjoint(kernel.kernel(), &members[process], block, &bar, prior, out);
        offset.iter_mut().for_each(|bar| *bar = -*bar);
        if !noisy {
            *noise -= variance.iter().sum::<f64>();
        }
    }
}

/// A direction in (m, S), along which the gradient at the optimum is differentiated.
#[derive(Clone, Debug)]
pub struct Tangent {
    /// The direction in m.
    pub(crate) mean: Vec<f64>,
    /// The direction in S, `M × M`, symmetric.
    pub(crate) cov: Mat<f64>,
}

impl Tangent {
    /// Replaces the derivatives of rows with features `a`, means `m` and variances D, where `t = V A`, by their derivatives along the
    /// direction (v, V): `ḡ = 2h aᵀv`, `Ā = m ḡᵀ + v gᵀ + 2 V A diag(h)` in place of t, and `r̄ = −(g aᵀv + h aᵀVa)/D`.
    pub(super) fn differentiate(
        &self,
        (a, mut t): (MatRef<'_, f64>, MatMut<'_, f64>),
        (mean, variance): (&[f64], &[f64]),
        (g, h, r_bar): (&mut [f64], &[f64], &mut [f64]),
    ) {
        for i in 0..a.ncols() {
            let (own, column) = (columns::column(&a, i), columns::column_mut(&mut t, i));
            let (linear, square) = (linalg::dot(own, &self.mean), linalg::dot(own, column));
            let slope = 2.0 * h[i] * linear;
            for ((t, m), v) in column.iter_mut().zip(mean).zip(&self.mean) {
                *t = slope * m + g[i] * v + 2.0 * h[i] * *t;
            }
            r_bar[i] = -(g[i] * linear + h[i] * square) / variance[i];
            g[i] = slope;
        }
    }
}
