//! Random features of the residual of a process given its inducing variables, with the draws that use them.

use crate::data::{Purpose, part_generator};
use crate::error::{Error, Result};
use crate::latent::InducingLayer;
use crate::linalg::dot;
use crate::parallel::*;
use crate::variational::Normal;
use faer::{Mat, MatRef};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use sparsegp_kernels::{Chance, RandomFeature};

/// The number of random features of a draw. The correlation of the residual at two rows has an error of about 3 % within one draw.
pub(super) const FEATURES: usize = 1024;

/// The number of independent sets of random features, which draws use in turn, so that the error averages out over many draws.
pub(super) const SETS: usize = 8;

/// The seed of draws and the index of the output.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub seed: u64,
    pub output: u64,
}

/// The use of random numbers.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// The numbers of a draw, by its index.
    Draw = 0,
    /// The noise of a training row, by row and set.
    Noise = 1,
    /// The features of a set, by its index.
    Features = 2,
}

impl Key {
    /// Returns an endless sequence of standard normal numbers.
    pub fn normals(self, of: Use, index: usize) -> impl FnMut() -> f64 {
        let stream = self.output + ((of as u64) << 32);
        let mut random: ChaCha8Rng = part_generator(self.seed, Purpose::Functions, stream, index as u64);
        move || StandardNormal.sample(&mut random)
    }
}

/// Random features, and the draws that use them: draw `index + i · SETS` is column i.
pub(super) struct FeatureSet {
    pub index: usize,
    pub features: Vec<Box<dyn RandomFeature>>,
    /// `φ(Z) / √F`, `F × M`.
    pub at_inducing: Mat<f64>,
    /// `√j`.
    pub jitter: f64,
    /// w, a column for every draw (M).
    pub whitened: Mat<f64>,
    /// ε, a column for every draw (F + M).
    pub loads: Mat<f64>,
}

impl FeatureSet {
    pub fn new(
        layer: &InducingLayer,
        (q, root): (&Normal, &Mat<f64>),
        index: usize,
        count: usize,
        key: Key,
    ) -> Result<FeatureSet> {
        let (m, dims) = layer.z().shape();
        let mut normals = key.normals(Use::Features, index);
        let mut chance = Chance::new(&mut normals);
        let features: Option<Vec<_>> =
            (0..FEATURES).map(|_| layer.kernel().random_feature(dims, &mut chance)).collect();
        let features = features.ok_or_else(|| {
            Error::usage(format!(
                "the kernel {} has no random features, which draws of functions need",
                layer.kernel().expression()
            ))
        })?;
        let columns = (index..count).step_by(SETS).collect::<Vec<_>>();
        let numbers: Vec<Vec<f64>> = columns
            .into_par_iter()
            .map(|draw| {
                let mut normals = key.normals(Use::Draw, draw);
                (0..2 * m + FEATURES).map(|_| normals()).collect()
            })
            .collect();
        let part =
            |from: usize, rows: usize| Mat::from_fn(rows, numbers.len(), |i, draw| numbers[draw][from + i]);
        let mut whitened = root * part(0, m);
        whitened
            .col_iter_mut()
            .for_each(|draw| draw.iter_mut().zip(q.mean()).for_each(|(w, mean)| *w += mean));
        let at_inducing = values_of(&features, layer.z());
        let jitter = layer.absolute_jitter().sqrt();
        Ok(FeatureSet { index, features, at_inducing, jitter, whitened, loads: part(m, FEATURES + m) })
    }

    /// `p` of some rows (`n × D`) with `a` (`M × n`): a column for each.
    pub fn residuals(&self, layer: &InducingLayer, x: MatRef<'_, f64>, a: MatRef<'_, f64>) -> Mat<f64> {
        let c = layer.inverse_factor().transpose() * a;
        let own = values_of(&self.features, x) - &self.at_inducing * &c;
        Mat::from_fn(FEATURES + c.nrows(), x.nrows(), |i, row| match i.checked_sub(FEATURES) {
            None => own[(i, row)],
            Some(i) => -self.jitter * c[(i, row)],
        })
    }
}

/// The values of features at some rows, divided by `√F`: a column for each row.
fn values_of(features: &[Box<dyn RandomFeature>], x: MatRef<'_, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(features.len(), x.nrows());
    for (row, point) in x.row_iter().enumerate() {
        let point: Vec<f64> = point.iter().copied().collect();
        for (out, feature) in out.col_as_slice_mut(row).iter_mut().zip(features) {
            *out = feature.value(&point) / (FEATURES as f64).sqrt();
        }
    }
    out
}

pub(super) fn square(of: &[f64]) -> f64 {
    dot(of, of)
}
