//! Marginals of f at new rows given their nearest data and q(w).
//!
//! The symbols are those of `conditionals`. Row i of the data has the target y_i, the offset o_i and `c_i = y_i − o_i`. Given its
//! neighbours j, a row has the weights b_j of their targets, the features ã and the variance D.

use super::blocks::{Block, Lists, Windows};
use super::conditionals::{Conditionals, Rows};
use super::members::{Members, Source};
use super::search::Index;
use super::small::image;
use crate::columns;
use crate::effects::Effects;
use crate::latent::{InducingLayer, RawFeatures};
use crate::parallel::*;
use crate::threads::PerThread;
use faer::{Mat, MatRef};

/// The number of queries that are processed together: their neighbours are searched for in one go,
/// and their features are shared.
const QUERIES: usize = 1 << 16;

/// The upper limit of κr/D in [`Predictor::left_out`], which keeps the divisor `1 − κr/D` positive.
const MOST_KNOWN: f64 = 0.99;

/// The components of predictions: layer, q(w) = N(m, S), and the data among which neighbours are
/// searched.
pub struct Predictor<'a> {
    /// Kernel, inducing inputs and means.
    pub layer: &'a InducingLayer,
    /// The place of the function among the functions of the layer.
    pub place: usize,
    /// Grouped effects, whose columns follow the inputs of f.
    pub effects: &'a Effects,
    /// The mean m (M) and the covariance S (`M × M`, both triangles) of the vector of w and, after it, the whitened coefficients of the
    /// effects.
    pub posterior: (&'a [f64], MatRef<'a, f64>),
    /// The data's inputs (`n × D`) and targets (n).
    pub data: (MatRef<'a, f64>, &'a [f64]),
    /// Noise variances of the data: one for all, or n.
    pub noise: &'a [f64],
}

impl Predictor<'_> {
    /// Returns means and variances of f at the rows `x` given their `k` nearest data, averaged over
    /// q(w): `μ = o + Σ_j b_j c_j + ãᵀm`, `v = D + ãᵀSã`, where D does not contain the noise of the
    /// row. `x` has Q rows in input coordinates; `near` has the same rows in the coordinates of
    /// `index`.
    pub fn marginals(
        &self,
        x: MatRef<'_, f64>,
        index: &Index,
        near: MatRef<'_, f64>,
        k: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let (mut mean, mut variance) = (Vec::with_capacity(x.nrows()), Vec::with_capacity(x.nrows()));
        for from in (0..x.nrows()).step_by(QUERIES) {
            let count = QUERIES.min(x.nrows() - from);
            let (order, lists) = index.nearest(near.subrows(from, count), k);
            let (means, variances) = self.given(x.subrows(from, count), &order, &lists);
            mean.extend(means);
            variance.extend(variances);
        }
        (mean, variance)
    }

    /// Returns means and variances of f at the Q rows `x` given the data in `lists`, averaged over
    /// q(w). Rows are processed in the order `order`, in which near rows should follow each other.
    pub fn given(&self, x: MatRef<'_, f64>, order: &[u32], lists: &Lists) -> (Vec<f64>, Vec<f64>) {
        self.predict(x, None, order, lists)
    }

    /// Returns means and variances of f at rows of the data, each predicted from the other rows in
    /// `lists` as if it were not part of the data. The contribution of the row to q is removed too:
    /// q counts row i with the weight κ = `counted[i]` (n numbers, with the factor 1/β if the KL
    /// term has the weight β). Since `p(y | w) = p(y_−i | w) p(y_i | y_−i, w)`, the precision
    /// without row i is `S⁻¹ − κ ããᵀ/D`. This changes `r = ãᵀSã` and `ãᵀm` to `r/(1 − κr/D)` and
    /// `(ãᵀm − κ r c̃/D)/(1 − κr/D)`. Rows that are not in `order` have zeros.
    pub fn left_out(&self, order: &[u32], lists: &Lists, counted: &[f64]) -> (Vec<f64>, Vec<f64>) {
        self.predict(self.data.0, Some(counted), order, lists)
    }

    fn predict(
        &self,
        x: MatRef<'_, f64>,
        counted: Option<&[f64]>,
        order: &[u32],
        lists: &Lists,
    ) -> (Vec<f64>, Vec<f64>) {
        let most = Windows::most_members(self.layer.dim());
        let windows = Windows::of_queries(order, lists, self.data.1.len(), most);
        let longest = lists.longest();
        let rooms = PerThread::new(move || Room {
            conditionals: Conditionals::new(longest),
            features: Mat::new(),
            t: Mat::new(),
        });
        let (y, effects) = (self.data.1, self.effects);
        let source = Source { x: self.data.0, y, noise: self.noise, queries: Some(x), effects };
        let mut members = Members::default();
        let (mut mean, mut variance) = (vec![0.0; x.nrows()], vec![0.0; x.nrows()]);
        for window in &windows.all {
            members.load(self.layer, self.place, source, window);
            let of_block = |block: &Block| rooms.with(|room| self.block(&members, block, counted, room));
            let found: Vec<[Vec<f64>; 2]> = window.blocks.par_iter().map(of_block).collect();
            for (block, [means, variances]) in window.blocks.iter().zip(&found) {
                for ((&place, m), v) in block.members.iter().zip(means).zip(variances) {
                    let row = window.members[place as usize] as usize;
                    (mean[row], variance[row]) = (*m, *v + effects.new_variance(x.row(row)));
                }
            }
        }
        (mean, variance)
    }

    fn block(
        &self,
        members: &Members,
        block: &Block,
        counted: Option<&[f64]>,
        room: &mut Room,
    ) -> [Vec<f64>; 2] {
        let (own, b) = (self.layer.dim(), block.count);
        if room.features.ncols() < b {
            let rows = own + self.effects.coefficients();
            (room.features, room.t) = (Mat::zeros(rows, b), Mat::zeros(rows, b));
        }
        let (mut centred, mut variance) = (vec![0.0; b], vec![0.0; b]);
        let mut features = room.features.as_mut().subcols_mut(0, b);
        let mut rows = Rows { features: features.as_mut(), centred: &mut centred, variance: &mut variance };
        room.conditionals.forward(self.layer.kernel(), members, block, &mut rows);
        let features = features.as_ref();
        let mut t = room.t.as_mut().subcols_mut(0, b);
        let (mean, cov) = self.posterior;
        image(cov, features, own, 1.0, t.as_mut());
        let offset = self.layer.mean().values[self.place];
        centred.iter_mut().for_each(|c| *c = offset - *c);
        let Some(counted) = counted else {
            columns::add_moments(features, mean, t.as_ref(), &mut centred, &mut variance);
            return [centred, variance];
        };
        let (mut fit, mut spread) = (vec![0.0; b], vec![0.0; b]);
        columns::add_moments(features, mean, t.as_ref(), &mut fit, &mut spread);
        for (i, row) in members.rows(&block.members[..b]).map(|row| row as usize).enumerate() {
            let noise = if self.noise.len() == 1 { self.noise[0] } else { self.noise[row] };
            // This share is below 1, except for rounding and for rows that entered q with other
            // neighbours.
            let known = (counted[row] * spread[i] / (variance[i] + noise)).min(MOST_KNOWN);
            centred[i] += (fit[i] - known * (self.data.1[row] - centred[i])) / (1.0 - known);
            variance[i] += spread[i] / (1.0 - known);
        }
        [centred, variance]
    }
}

struct Room {
    conditionals: Conditionals,
    features: Mat<f64>,
    t: Mat<f64>,
}
