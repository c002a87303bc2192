//! The training rows that a model with neighbours stores for its predictions, also in its file.

use super::arrays::{Arrays, Checked, Unusable, name};
use super::latent::LatentPrior;
use super::posterior::Posterior;
use crate::data::{Purpose, generator};
use crate::effects::{EffectFeatures, Effects};
use crate::latent::{InducingLayer, RawFeatures, whiten};
use crate::linalg::{Factorizer, solve_lower};
use crate::neighbours::{COMPARISONS, Index, Predictor, half_lengths, in_units_of, nearest_others};
use crate::options::{Keeping, MOST_NEIGHBOURS};
use crate::variational::{MatrixRef, Normal};
use faer::reborrow::Reborrow;
use faer::{Mat, MatRef};
use rand::seq::SliceRandom;
use safetensors::tensor::Dtype;
use sparsegp_kernels::{Inputs, Scratch};
use std::sync::Arc;

/// The maximum number of training rows that joint predictions are conditioned on.
const MOST_JOINT: usize = 3000;

/// The parts of a prediction other than its neighbours.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The function, and its place among the functions of its layer.
    pub function: usize,
    pub place: usize,
    pub layer: &'a InducingLayer,
    /// Grouped effects, whose columns follow the inputs of f.
    pub effects: &'a Effects,
    /// The posterior of the whitened inducing variables, followed by the whitened coefficients of
    /// effects.
    pub q: &'a Normal,
    /// The noise variance of the likelihood, for rows without a separate noise variance; NaN without Gaussian noise.
    pub noise: [f64; 1],
}

/// Training rows that a model stores, on the scale the model sees.
pub(crate) struct NearbyRows {
    /// Inputs and the columns of grouped effects, a column for each row.
    pub(super) x: Mat<f64>,
    /// Targets, n, or the targets of sites, n for each function.
    pub(super) y: Vec<f64>,
    /// Noise variances, as many, if rows have separate ones.
    pub(super) noise: Option<Vec<f64>>,
    /// True if numbers are stored in single precision.
    pub(super) single: bool,
}

impl NearbyRows {
    /// Returns the rows `x` (`n × D`, then the columns of grouped effects) with targets `y`, n for each function, and as many noise
    /// variances, or the rows that `keeping` selects.
    pub fn new(
        x: MatRef<'_, f64>,
        y: &[f64],
        noise: Option<&[f64]>,
        keeping: Keeping,
        seed: u64,
    ) -> NearbyRows {
        let n = x.nrows();
        let mut rows: Vec<usize> = (0..n).collect();
        if let Some(most) = keeping.rows.filter(|most| *most < rows.len()) {
            rows.shuffle(&mut generator(seed, Purpose::Neighbours, 1));
            rows.truncate(most);
            rows.sort_unstable();
        }
        let single = keeping.single;
        let stored = |value: f64| if single { f64::from(value as f32) } else { value };
        let of = |values: &[f64]| {
            values.chunks(n.max(1)).flat_map(|own| rows.iter().map(|&row| stored(own[row]))).collect()
        };
        let x = Mat::from_fn(x.ncols(), rows.len(), |d, i| stored(x[(rows[i], d)]));
        NearbyRows { x, y: of(y), noise: noise.map(of), single }
    }
}

/// Training rows with an index that finds the nearest ones in the metric of a kernel.
#[doc(hidden)]
pub struct Nearby {
    rows: NearbyRows,
    count: usize,
    units: Vec<f64>,
    index: Index,
}

impl Nearby {
    /// Indexes the rows; a prediction uses the `count` nearest ones in the metric of the layer's
    /// kernel.
    pub(crate) fn new(layer: &InducingLayer, rows: NearbyRows, count: usize) -> Nearby {
        let inputs = inputs_of(layer, rows.x.as_ref().transpose());
        let units = half_lengths(layer.kernel(), inputs);
        let near = in_units_of(layer.kernel(), inputs, &units);
        let index = Index::new(near.as_ref(), (0..inputs.nrows() as u32).collect(), COMPARISONS);
        Nearby { rows, count, units, index }
    }

    /// The number of nearest rows that a prediction uses.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.x.ncols()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if numbers are stored in single precision.
    pub fn is_single(&self) -> bool {
        self.rows.single
    }

    /// The bytes that the rows take in a file.
    pub fn bytes(&self) -> usize {
        let NearbyRows { x, y, noise, single } = &self.rows;
        let numbers = x.nrows() * x.ncols() + y.len() + noise.as_ref().map_or(0, Vec::len);
        numbers * if *single { 4 } else { 8 }
    }

    /// Inputs (`n × D`, then the columns of grouped effects) and targets, on the scale the model
    /// sees. If the noise is not Gaussian, the targets are those of the sites that approximate the
    /// likelihood, n for each function.
    pub fn data(&self) -> (MatRef<'_, f64>, &[f64]) {
        (self.rows.x.as_ref().transpose(), &self.rows.y)
    }

    /// The noise variances of the rows, n for each function, if they differ from the likelihood's.
    pub fn noise(&self) -> Option<&[f64]> {
        self.rows.noise.as_deref()
    }

    pub(super) fn targets_of(&self, function: usize) -> &[f64] {
        self.rows.y.get(function * self.len()..(function + 1) * self.len()).unwrap_or_default()
    }

    /// The noise variances of the rows for a function; one for all if they have the noise of the likelihood.
    pub(super) fn noises<'a>(&'a self, given: &'a Beside<'_>) -> &'a [f64] {
        let own = given.function * self.len()..(given.function + 1) * self.len();
        self.noise().map_or(&given.noise, |noise| &noise[own])
    }

    pub(super) fn noise_of(&self, row: u32, given: &Beside<'_>) -> f64 {
        let noise = self.noises(given);
        noise.get(row as usize).or(noise.first()).copied().unwrap_or(f64::NAN)
    }

    /// Returns the parts of a prediction of a function.
    fn predictor<'a>(&'a self, given: &'a Beside<'a>) -> Predictor<'a> {
        let Beside { layer, place, effects, q, .. } = *given;
        let data = (self.data().0, self.targets_of(given.function));
        Predictor {
            layer,
            place,
            effects,
            posterior: (q.mean(), q.cov().full()),
            noise: self.noises(given),
            data,
        }
    }

    /// Returns means and variances of f at the rows `x` (`Q × D`), each given its `count` nearest
    /// stored rows.
    pub(super) fn marginals(
        &self,
        given: Beside<'_>,
        x: MatRef<'_, f64>,
        count: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let near = in_units_of(given.layer.kernel(), inputs_of(given.layer, x), &self.units);
        self.predictor(&given).marginals(x, &self.index, near.as_ref(), count)
    }

    /// The `count` rows that are nearest to each row of `x` (`Q × D`).
    pub(super) fn lists(&self, layer: &InducingLayer, x: MatRef<'_, f64>, count: usize) -> Vec<Vec<u32>> {
        let near = in_units_of(layer.kernel(), x, &self.units);
        let lists = self.index.nearest(near.as_ref(), count).1;
        (0..x.nrows()).map(|row| lists.get(row).to_vec()).collect()
    }

    /// Returns means and variances of f at some of the stored rows, each given its `count` nearest
    /// other rows and without the contribution of the row to q, in which every row counted `1/beta`
    /// times.
    pub(super) fn left_out(
        &self,
        given: Beside<'_>,
        rows: &[u32],
        count: usize,
        beta: f64,
    ) -> (Vec<f64>, Vec<f64>) {
        let near = in_units_of(given.layer.kernel(), inputs_of(given.layer, self.data().0), &self.units);
        let (order, lists) = nearest_others(near.as_ref(), rows, count, COMPARISONS);
        let counted = vec![1.0 / beta; self.len()];
        let (mean, variance) = self.predictor(&given).left_out(&order, &lists, &counted);
        let of_rows = |values: &[f64]| rows.iter().map(|&row| values[row as usize]).collect();
        (of_rows(&mean), of_rows(&variance))
    }

    /// Returns the joint covariance of f at the rows `x` (`Q × D`), given the nearest stored rows of each of them; fewer of them if they are
    /// too many in total.
    pub(super) fn covariance(&self, beside: Beside<'_>, x: MatRef<'_, f64>, mut count: usize) -> Mat<f64> {
        let layer = beside.layer;
        let near = in_units_of(layer.kernel(), inputs_of(layer, x), &self.units);
        let mut given = loop {
            let lists = self.index.nearest(near.as_ref(), count).1;
            let mut all: Vec<u32> = (0..x.nrows()).flat_map(|row| lists.get(row)).copied().collect();
            all.sort_unstable();
            all.dedup();
            if all.len() <= MOST_JOINT || count == 0 {
                break all;
            }
            count /= 2;
        };
        given.truncate(MOST_JOINT);
        let data = self.rows.x.as_ref();
        let (u, d) = (given.len(), x.ncols());
        let points = Mat::from_fn(u + x.nrows(), d, |i, j| match given.get(i) {
            Some(&row) => data[(j, row as usize)],
            None => x[(i - u, j)],
        });
        let noise: Vec<f64> = given.iter().map(|&row| self.noise_of(row, &beside)).collect();
        let mut out = conditional_covariance(beside, points.as_ref(), &noise);
        beside.effects.add_new_covariances(x, &mut out);
        out
    }
}

/// Returns the inputs of f: the columns before the columns of grouped effects.
fn inputs_of<'x>(layer: &InducingLayer, x: MatRef<'x, f64>) -> MatRef<'x, f64> {
    x.subcols(0, layer.z().ncols())
}

/// Returns the covariance of f at the last points, given q(w) and values at the first points with these noise variances:
/// `R_QQ − B R_NQ + Ã S Ãᵀ` with `B = R_QN (R_NN + Σ)⁻¹` and `Ã = A_Q − B A_N`. Whitened effects are features behind those of w, without
/// a part in R.
fn conditional_covariance(
    Beside { layer, effects, q, .. }: Beside<'_>,
    points: MatRef<'_, f64>,
    noise: &[f64],
) -> Mat<f64> {
    let (all, given, m) = (points.nrows(), noise.len(), layer.dim());
    let inputs = inputs_of(layer, points);
    let mut scratch = Scratch::new();
    let mut residual = Mat::zeros(all, all);
    layer.kernel().eval(Inputs::Gram(inputs), residual.as_mut(), &mut scratch);
    let (mut raw, mut a) = (Mat::zeros(m, all), Mat::zeros(q.dim(), all));
    if m > 0 {
        let (mut base, mut offset) = (vec![0.0; all], vec![0.0; all]);
        let mut own = a.as_mut().subrows_mut(0, m);
        layer.features(inputs, raw.as_mut(), &mut base, &mut offset, &mut scratch);
        whiten(layer, raw.as_ref(), own.as_mut());
        residual -= own.rb().transpose() * own.rb();
    }
    let mut features = EffectFeatures::default();
    features.reset(effects);
    for (row, point) in points.row_iter().enumerate().filter(|_| !effects.is_empty()) {
        features.push(effects, point);
        features.add(row, 1.0, &mut a.col_as_slice_mut(row)[m..]);
    }
    let mut factor = residual.as_ref().submatrix(0, 0, given, given).to_owned();
    noise.iter().enumerate().for_each(|(i, noise)| factor[(i, i)] += noise);
    let queries = all - given;
    if Factorizer::new(given).cholesky(factor.as_mut()).is_err() {
        return Mat::from_fn(queries, queries, |_, _| f64::NAN);
    }
    // L⁻¹ R_NQ and L⁻¹ A_Nᵀ.
    let solved = |right: MatRef<'_, f64>| {
        let mut out = right.to_owned();
        (0..right.ncols()).for_each(|j| solve_lower(factor.as_ref(), out.col_as_slice_mut(j)));
        out
    };
    let cross = solved(residual.as_ref().submatrix(0, given, given, queries));
    let features = solved(a.as_ref().subcols(0, given).transpose());
    let rows = a.as_ref().subcols(given, queries).to_owned() - features.transpose() * &cross;
    let own = residual.as_ref().submatrix(given, given, queries, queries).to_owned();
    let spread = rows.transpose() * (q.cov().to_dense() * &rows);
    own - cross.transpose() * &cross + spread
}

impl NearbyRows {
    /// Reads the rows of this number of functions in a model file.
    pub(super) fn read(arrays: &Arrays<'_>, functions: usize) -> Checked<NearbyRows> {
        let single = arrays.tensors.tensor(name::NEIGHBOUR_INPUTS).is_ok_and(|x| x.dtype() == Dtype::F32);
        let shape = arrays.shape(name::NEIGHBOUR_INPUTS)?;
        let &[rows, dims] = &shape[..] else {
            return Err(Unusable::damaged("the inputs of its neighbours are not a matrix"));
        };
        Unusable::unless(u32::try_from(rows).is_ok(), "it has too many neighbours")?;
        let x = arrays.matrix(name::NEIGHBOUR_INPUTS, rows, dims)?.transpose().to_owned();
        let y = arrays.values(name::NEIGHBOUR_TARGETS, &[functions * rows])?;
        let noise = match arrays.has(name::NEIGHBOUR_NOISE) {
            true => Some(arrays.values(name::NEIGHBOUR_NOISE, &[functions * rows])?),
            false => None,
        };
        let positive = noise.iter().flatten().all(|noise| *noise > 0.0);
        Unusable::unless(positive, "the noise of its neighbours is not positive")?;
        Ok(NearbyRows { x, y, noise, single })
    }
}

/// Adds the training rows in the file to the posterior, as the neighbours of predictions.
pub(super) fn beside(
    posterior: Posterior,
    latent: &LatentPrior,
    q: &[Normal],
    count: usize,
    arrays: &Arrays<'_>,
) -> Checked<Posterior> {
    let rows = NearbyRows::read(arrays, q.len())?;
    let has_noise = rows.noise.is_some() || latent.likelihood.gaussian_noise().is_some();
    let full = q.iter().all(|q| matches!(q.cov(), MatrixRef::Full(_)));
    let inducing = latent.layers.iter().all(|layer| layer.inducing().is_some());
    let suits = full && inducing && has_noise;
    Unusable::unless(suits, "it has neighbours, which a model of its kind cannot use")?;
    let dims = latent.input_dims();
    Unusable::unless(
        rows.x.nrows() == dims && count <= MOST_NEIGHBOURS,
        "its neighbours have another number of inputs than its model, or are too many",
    )?;
    let joint = posterior.effects.iter().all(|known| known.moments().is_joint());
    Unusable::unless(joint, "its grouped effects do not suit its neighbours")?;
    let singular = |_| Unusable::damaged("the covariance matrix of its inducing inputs is singular");
    let latent = latent.factorised().map_err(singular)?;
    let first = latent.layer().inducing().map(|first| Nearby::new(first, rows, count));
    Ok(posterior.with_neighbours(&latent, first.map(Arc::new), q))
}
