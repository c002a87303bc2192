//! The training rows that a model with neighbours keeps: what predictions look up beside inducing inputs; no training.

use crate::data::{Purpose, generator};
use crate::latent::{InducingLayer, LatentLayer, whiten};
use crate::linalg::{Factorizer, solve_lower};
use crate::neighbours::{COMPARISONS, Index, Predictor, half_lengths, in_units_of};
use crate::options::Keeping;
use crate::variational::Normal;
use faer::{Mat, MatRef};
use rand::seq::SliceRandom;
use sparsegp_kernels::{Inputs, Scratch};

/// Data that predictions at several rows together are conditioned on, at most.
const MOST_JOINT: usize = 3000;

/// Training rows, found by nearness in the metric of a kernel.
pub struct Nearby {
    /// Inputs, `D × n`, and targets, n, on the scale the model sees.
    x: Mat<f64>,
    y: Vec<f64>,
    count: usize,
    single: bool,
    units: Vec<f64>,
    index: Index,
}

impl Nearby {
    /// The rows `x` (`n × D`) with targets `y`, of which a prediction takes the `count` nearest, near by the layer's kernel.
    pub fn new(
        layer: &InducingLayer,
        (x, y): (MatRef<'_, f64>, &[f64]),
        count: usize,
        (keeping, seed): (Keeping, u64),
    ) -> Nearby {
        let mut rows: Vec<usize> = (0..y.len()).collect();
        if let Some(most) = keeping.rows.filter(|most| *most < rows.len()) {
            rows.shuffle(&mut generator(seed, Purpose::Neighbours, 1));
            rows.truncate(most);
            rows.sort_unstable();
        }
        let stored = |value: f64| if keeping.single { f64::from(value as f32) } else { value };
        let kept = Mat::from_fn(x.ncols(), rows.len(), |d, i| stored(x[(rows[i], d)]));
        let y = rows.iter().map(|&row| stored(y[row])).collect();
        Nearby::of_rows(layer, (kept, y), count, keeping.single)
    }

    /// The same of rows that were chosen before: inputs `D × n` and targets.
    pub(super) fn of_rows(
        layer: &InducingLayer,
        (x, y): (Mat<f64>, Vec<f64>),
        count: usize,
        single: bool,
    ) -> Nearby {
        let units = half_lengths(layer.kernel(), x.as_ref().transpose());
        let near = in_units_of(x.as_ref().transpose(), &units);
        let index = Index::new(near.as_ref(), (0..y.len() as u32).collect(), COMPARISONS);
        Nearby { x, y, count, single, units, index }
    }

    /// How many of the rows a prediction takes.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// Whether numbers are those of single precision.
    pub fn is_single(&self) -> bool {
        self.single
    }

    /// The bytes that the rows take in a file.
    pub fn bytes(&self) -> usize {
        (self.x.nrows() + 1) * self.len() * if self.single { 4 } else { 8 }
    }

    /// Inputs (`n × D`) and targets, on the scale the model sees.
    pub fn data(&self) -> (MatRef<'_, f64>, &[f64]) {
        (self.x.as_ref().transpose(), &self.y)
    }

    /// Means and variances of f at the rows `x` (`Q × D`) by `count` neighbours of each.
    pub(super) fn marginals(
        &self,
        (layer, q, noise): (&InducingLayer, &Normal, f64),
        x: MatRef<'_, f64>,
        count: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let (posterior, noise) = ((q.mean(), q.cov().full()), [noise]);
        let predictor = Predictor { layer, posterior, noise: &noise, data: self.data() };
        let near = in_units_of(x, &self.units);
        predictor.marginals(x, (&self.index, near.as_ref()), count)
    }

    /// The covariance of f at the rows `x` (`Q × D`) together, given the nearest data of all of them: of each its nearest ones, fewer
    /// where that are too many.
    pub(super) fn covariance(
        &self,
        (layer, q, noise): (&InducingLayer, &Normal, f64),
        x: MatRef<'_, f64>,
        mut count: usize,
    ) -> Mat<f64> {
        let near = in_units_of(x, &self.units);
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
        let data = self.x.as_ref();
        let (u, d) = (given.len(), x.ncols());
        let points = Mat::from_fn(u + x.nrows(), d, |i, j| match given.get(i) {
            Some(&row) => data[(j, row as usize)],
            None => x[(i - u, j)],
        });
        conditional_covariance((layer, q, noise), points.as_ref(), u)
    }
}

/// The covariance of f at the last of some points given noisy values at the first `given`, and q(w): `R_QQ − B R_NQ + Ã S Ãᵀ` with
/// `B = R_QN (R_NN + σ²I)⁻¹` and `Ã = A_Q − B A_N`.
fn conditional_covariance(
    (layer, q, noise): (&InducingLayer, &Normal, f64),
    points: MatRef<'_, f64>,
    given: usize,
) -> Mat<f64> {
    let (all, m) = (points.nrows(), layer.dim());
    let mut scratch = Scratch::new();
    let mut residual = Mat::zeros(all, all);
    layer.kernel().eval(Inputs::Gram(points), residual.as_mut(), &mut scratch);
    let (mut raw, mut a) = (Mat::zeros(m, all), Mat::zeros(m, all));
    if m > 0 {
        let (mut base, mut offset) = (vec![0.0; all], vec![0.0; all]);
        layer.features(points, raw.as_mut(), &mut base, &mut offset, &mut scratch);
        whiten(layer, raw.as_ref(), a.as_mut());
        residual -= a.transpose() * &a;
    }
    let mut factor = residual.as_ref().submatrix(0, 0, given, given).to_owned();
    (0..given).for_each(|i| factor[(i, i)] += noise);
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
