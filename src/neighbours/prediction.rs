//! Marginals of f at new rows given their nearest data and q(w); no likelihood.

use super::blocks::{Block, Blocks};
use super::conditionals::{Conditionals, Rows, Source};
use super::search::Index;
use crate::latent::{InducingLayer, LatentLayer};
use crate::linalg::{Shape, block_product};
use crate::threads::PerThread;
use faer::{Accum, Mat, MatRef};
use rayon::prelude::*;

/// Everything that predicts: layer, q(w) = N(m, S), noise variance, and the data that neighbours are chosen among.
pub struct Predictor<'a> {
    /// Kernel, inducing inputs and mean.
    pub layer: &'a InducingLayer,
    /// m (M) and S (`M × M`, both triangles).
    pub posterior: (&'a [f64], MatRef<'a, f64>),
    /// σ².
    pub noise: f64,
    /// The data's inputs (`n × D`) and targets (n).
    pub data: (MatRef<'a, f64>, &'a [f64]),
}

impl Predictor<'_> {
    /// Means and variances of f at the rows `x` (`Q × D`) given their `k` nearest data and w, which is integrated out:
    /// `μ = o + Σ_j b_j c_j + ãᵀm`, `v = D − σ² + ãᵀSã`. Nearness is that of `near` (`Q × D'`), the same rows as `index` knows them.
    pub fn marginals(
        &self,
        x: MatRef<'_, f64>,
        (index, near): (&Index, MatRef<'_, f64>),
        k: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let (order, lists) = index.nearest(near, k);
        let blocks = Blocks::of_queries(&order, &lists, self.data.1.len());
        let rooms = PerThread::new(move || (Conditionals::new(k), Mat::new(), Mat::new()));
        let of_block = |block: &Block| rooms.with(|room| self.block(x, block, room));
        let found: Vec<[Vec<f64>; 2]> = blocks.all.par_iter().map(of_block).collect();
        let (mut mean, mut variance) = (vec![0.0; x.nrows()], vec![0.0; x.nrows()]);
        for (block, [means, variances]) in blocks.all.iter().zip(&found) {
            for ((&row, m), v) in block.members.iter().zip(means).zip(variances) {
                (mean[row as usize], variance[row as usize]) = (*m, *v);
            }
        }
        (mean, variance)
    }

    fn block(
        &self,
        x: MatRef<'_, f64>,
        block: &Block,
        (room, features, t): &mut (Conditionals, Mat<f64>, Mat<f64>),
    ) -> [Vec<f64>; 2] {
        let (m, b) = (self.layer.dim(), block.count);
        if features.ncols() < b {
            (*features, *t) = (Mat::zeros(m, b), Mat::zeros(m, b));
        }
        let (mut centred, mut variance) = (vec![0.0; b], vec![0.0; b]);
        let source = Source { x: self.data.0, y: self.data.1, queries: Some(x) };
        let mut features = features.as_mut().subcols_mut(0, b);
        let mut rows = Rows { features: features.as_mut(), centred: &mut centred, variance: &mut variance };
        room.forward(self.layer, source, block, self.noise, &mut rows);
        let features = features.as_ref();
        let mut t = t.as_mut().subcols_mut(0, b);
        let (mean, cov) = self.posterior;
        block_product(t.as_mut(), Accum::Replace, (cov, Shape::Full), features, 1.0);
        for i in 0..b {
            let a = features.col(i);
            let column = |values: &mut dyn Iterator<Item = &f64>| -> f64 {
                a.iter().zip(values).map(|(a, value)| a * value).sum()
            };
            centred[i] = self.layer.mean().values[0] - centred[i] + column(&mut mean.iter());
            variance[i] += column(&mut t.as_ref().col(i).iter()) - self.noise;
        }
        [centred, variance]
    }
}
