//! A trained posterior ready to predict: mean weights and the triangular factor of the variance.

use super::latent::{LatentModel, LatentPrior};
use super::nearby::{Beside, Nearby};
use crate::collapsed::Dataset;
use crate::columns;
use crate::effects::{EffectPosterior, Effects};
use crate::latent::{
    InducingLayer, InducingPrior, LatentLayer, Layer, Layers, of_raw_features, whiten_adjoint,
};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Expectation, Marginal, ObservationModel, Row, Slopes};
use crate::linalg::{Factorizer, Operand, block_product, qr_factor, symmetric_eigen};
use crate::options::LossKind;
use crate::parallel::*;
use crate::variational::{MatrixRef, Normal};
use faer::{Accum, ColMut, ColRef, Mat, MatMut, MatRef};
use sparsegp_kernels::Scratch;
use std::sync::Arc;

/// Latent means and variances, one for every function of every datum.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub struct Marginals {
    /// `μ_i`; with several functions, the values of a datum are side by side.
    pub mean: Vec<f64>,
    /// `v_i`, in the same order.
    pub variance: Vec<f64>,
    /// The number C of functions.
    pub functions: usize,
}

impl Marginals {
    /// Returns the marginals of f + o, for offsets of every row (`n × C`; no columns without offsets).
    pub(crate) fn with_offsets(mut self, offsets: MatRef<'_, f64>) -> Marginals {
        for (at, mean) in self.mean.iter_mut().enumerate().filter(|_| offsets.ncols() > 0) {
            *mean += offsets[(at / self.functions, at % self.functions)];
        }
        self
    }

    pub(crate) fn rows(&self) -> usize {
        self.mean.len() / self.functions
    }

    /// The marginals of a row.
    pub fn row(&self, row: usize) -> Marginal<'_> {
        let own = row * self.functions..(row + 1) * self.functions;
        Marginal { mean: &self.mean[own.clone()], variance: &self.variance[own] }
    }
}

/// Everything that a prediction needs ([docs/mathematics.md#one-step-the-order-of-products](crate::book::mathematics#one-step-the-order-of-products)): `μ = o + kᵀ Wᵀm`, `v = base − ‖Q₊k‖² + ‖Q₋k‖²`
/// where `Wᵀ(κI − S)W = Q₊ᵀQ₊ − Q₋ᵀQ₋`. For inducing points (`W = L⁻¹`, κ = 1), `Q₋` is absent if `S ⪯ I`, which holds at every optimum of
/// the ELBO. For linear features (`W = I`, κ = 0), `Q₊` is absent and `Q₋` is the root of S.
#[derive(Clone)]
#[doc(hidden)]
pub struct Posterior {
    layers: Vec<Layer<InducingPrior>>,
    likelihood: ObservationModel,
    /// The factors of every latent process.
    pub(super) factors: Vec<Factors>,
    /// The variance of the trained constant mean, a lower bound on the variance of f; 0 if it is not known.
    pub(super) mean_variance: f64,
    neighbours: Option<Neighbours>,
    /// The grouped effects of every process; empty without grouped effects.
    pub(super) effects: Arc<Vec<EffectPosterior>>,
}

/// The numbers from which predictions of a latent process are computed. A model file stores them, so predictions are the same bit for bit.
#[derive(Clone, Debug)]
pub(crate) struct Factors {
    /// `Wᵀm`.
    pub weights: Vec<f64>,
    /// `Q₊` and `Q₋`.
    pub roots: Roots,
}

/// Neighbours in addition to inducing inputs; predictions from neighbours need q(w) itself.
#[derive(Clone)]
struct Neighbours {
    layers: Arc<Vec<InducingLayer>>,
    nearby: Arc<Nearby>,
    /// The posteriors of the whitened inducing variables, followed by the whitened coefficients of effects.
    q: Arc<Vec<Normal>>,
    count: usize,
}

/// `Q₊` and `Q₋`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    /// `Q₊`: the reduction of the prior variance by the data.
    pub reduction: Option<Root>,
    /// `Q₋`: the increase of the variance.
    pub increase: Option<Root>,
}

/// A matrix Q of which only `QᵀQ` matters.
#[derive(Clone, Debug)]
pub(crate) enum Root {
    /// Upper triangular.
    Upper(Mat<f64>),
    /// Diagonal.
    Diagonal(Vec<f64>),
}

impl Root {
    /// Adds `± ‖Q k_j‖²` to the variance of every column; `t` is a buffer for `Q k`.
    fn add(&self, sign: f64, k: MatRef<'_, f64>, mut t: MatMut<'_, f64>, variance: &mut [f64]) {
        match self {
            Root::Upper(q) => {
                block_product(t.as_mut(), Accum::Replace, Operand::upper(q.as_ref()), k, 1.0);
            }
            Root::Diagonal(q) => columns::scale_rows(k, q, t.as_mut()),
        }
        if sign < 0.0 {
            variance.iter_mut().for_each(|v| *v = -*v);
        }
        columns::add_column_dots(t.as_ref(), t.as_ref(), variance);
        if sign < 0.0 {
            variance.iter_mut().for_each(|v| *v = -*v);
        }
    }

    /// Adds `± kᵀQᵀQ k` to `out`.
    fn add_outer(&self, sign: f64, k: &Mat<f64>, out: &mut Mat<f64>) {
        let t = match self {
            Root::Upper(q) => q * k,
            Root::Diagonal(q) => Mat::from_fn(k.nrows(), k.ncols(), |i, j| q[i] * k[(i, j)]),
        };
        *out += faer::Scale(sign) * (t.transpose() * &t);
    }
}

/// The score of predictions; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Score {
    /// Minus the mean log predictive density, with the sample weights.
    LogLoss,
    /// The mean squared error of the latent mean, with the sample weights.
    SquaredError,
}

impl Score {
    /// Returns the score that corresponds to a loss.
    pub fn of(loss: LossKind) -> Score {
        if loss == LossKind::Square { Score::SquaredError } else { Score::LogLoss }
    }
}

/// The number of columns per parallel block of a prediction.
const COLUMNS: usize = 256;

impl Posterior {
    /// Creates the posterior from a model and the whitened posteriors of its processes.
    pub fn new(model: &LatentModel, q: impl AsRef<[Normal]>) -> Self {
        if model.sums_effects() {
            let (model, q, effects) = model.split(q.as_ref());
            return Posterior::new(&model, q).with_effects(effects);
        }
        let layers = model.layers();
        let factors = |(process, q): (usize, &Normal)| {
            let layer = layers.get(layers.of(process));
            Factors { weights: weights_of(layer, q), roots: roots(layer, q) }
        };
        Posterior::from_factors(&model.to_prior(), q.as_ref().iter().enumerate().map(factors).collect())
    }

    /// Returns the posterior of the same model with other hyper-parameters. Its variances differ from exact ones by some units of rounding
    /// of the prior variance, because their factor comes from a Cholesky factorisation with a small addition to the diagonal.
    pub(crate) fn at_other_values(&self, model: &LatentModel, q: &[Normal]) -> Self {
        let layers = model.layers();
        let factors = q.iter().enumerate().map(|(process, q)| {
            let layer = layers.get(layers.of(process));
            let weights = weights_of(layer, q);
            let roots = reduction_by_cholesky(layer, q).unwrap_or_else(|| roots(layer, q));
            Factors { weights, roots }
        });
        Posterior::from_factors(&model.to_prior(), factors.collect()).with_mean_variance(self.mean_variance)
    }

    /// Creates the posterior from the stored factors of every process; see `Posterior::factors`.
    pub(crate) fn from_factors(model: &LatentPrior, factors: Vec<Factors>) -> Self {
        let (layers, likelihood) = (model.layers.clone(), model.likelihood.clone());
        Posterior {
            layers,
            likelihood,
            factors,
            mean_variance: 0.0,
            neighbours: None,
            effects: Arc::default(),
        }
    }

    /// Adds training rows as neighbours to the posterior, if there are any; `q` are the posteriors of the whitened inducing variables of the
    /// model. If it has grouped effects, add them before.
    pub(crate) fn with_neighbours(
        self,
        model: &LatentModel,
        nearby: Option<Arc<Nearby>>,
        q: &[Normal],
    ) -> Self {
        let Some(nearby) = nearby else { return self };
        let layers = model.layers.iter().filter_map(|layer| layer.inducing().cloned()).collect();
        let joint = |(process, q): (usize, &Normal)| self.joint(process).unwrap_or_else(|| q.clone());
        let (q, count) = (q.iter().enumerate().map(joint).collect(), nearby.count());
        let neighbours = Neighbours { layers: Arc::new(layers), nearby, q: Arc::new(q), count };
        Posterior { neighbours: Some(neighbours), ..self }
    }

    /// Takes account of a constant mean that was trained on rows of Gaussian noise, with this total weight W.
    ///
    /// q(f) is conditional on the mean. If the mean has a flat prior instead, the prediction of f at any point is a weighted sum of
    /// targets whose weights sum to 1 (universal kriging), so its variance is at least σ²/W. That matters if the kernel's variance tends
    /// to 0, where the variance given the mean does, too.
    pub(crate) fn with_trained_mean(self, total_weight: f64) -> Self {
        let trained = matches!(&self.layers[..], [layer] if layer.mean().is_some_and(|mean| !mean.fixed));
        let noise = self.likelihood.gaussian_noise().filter(|_| trained && total_weight > 0.0);
        self.with_mean_variance(noise.map_or(0.0, |noise| noise / total_weight))
    }

    /// Sets the lower bound on the variance of f.
    pub(super) fn with_mean_variance(self, mean_variance: f64) -> Self {
        Posterior { mean_variance, ..self }
    }

    /// Raises variances on the diagonal of a covariance to the lower bound, as an error of the mean at all rows would.
    fn with_error_of_mean(&self, mut covariance: Mat<f64>) -> Mat<f64> {
        let n = covariance.nrows();
        let missing = |i: usize| (self.mean_variance - covariance[(i, i)]).max(0.0).sqrt();
        let missing: Vec<f64> = (0..n).map(missing).collect();
        for j in 0..n {
            (0..n).for_each(|i| covariance[(i, j)] += missing[i] * missing[j]);
        }
        covariance
    }

    /// Returns the posterior with another observation of the same functions.
    pub(crate) fn with_likelihood(self, likelihood: ObservationModel) -> Self {
        Posterior { likelihood, ..self }
    }

    /// Adds grouped effects to the posterior, one set for each process; their columns follow the inputs of f.
    pub fn with_effects(self, effects: Vec<EffectPosterior>) -> Self {
        Posterior { effects: Arc::new(effects), ..self }
    }

    /// The grouped effects of a process, if there are any.
    pub fn effects(&self, process: usize) -> Option<&EffectPosterior> {
        self.effects.get(process)
    }

    /// The joint distribution of the whitened weights of a process and of the effects, without its log determinant; `None` without grouped
    /// effects.
    pub fn joint(&self, process: usize) -> Option<Normal> {
        let known = self.effects(process)?;
        Some(known.moments().joint(known.effects()))
    }

    /// The training rows in which neighbours are searched, if there are any.
    pub(crate) fn neighbours(&self) -> Option<&Arc<Nearby>> {
        self.neighbours.as_ref().map(|neighbours| &neighbours.nearby)
    }

    /// Returns the posterior with another number of neighbours; `None` without neighbours.
    pub(crate) fn with_count(&self, count: usize) -> Option<Posterior> {
        let neighbours = self.neighbours.as_ref()?;
        Some(Posterior { neighbours: Some(Neighbours { count, ..neighbours.clone() }), ..self.clone() })
    }

    /// The training rows, the number of neighbours, and the other parts of a prediction of a function.
    pub(super) fn beside(&self, function: usize) -> Option<(&Nearby, usize, Beside<'_>)> {
        let Neighbours { layers, nearby, q, count } = self.neighbours.as_ref()?;
        let (own, effects) = (self.layers().of(function), self.effects(function));
        let beside = Beside {
            function,
            place: self.layers().place(function),
            layer: &layers[own],
            effects: effects.map_or(Effects::NONE, EffectPosterior::effects),
            q: &q[function],
            noise: [self.likelihood.gaussian_noise().unwrap_or(f64::NAN)],
        };
        Some((nearby, *count, beside))
    }

    /// Returns the marginals of all functions, given the marginals of one function at a time; variances have a lower bound.
    fn side_by_side(&self, mut of: impl FnMut(usize) -> Option<(Vec<f64>, Vec<f64>)>) -> Option<Marginals> {
        let functions = self.factors.len();
        let found = (0..functions).map(&mut of).collect::<Option<Vec<_>>>()?;
        let least = self.mean_variance.max(f64::MIN_POSITIVE);
        // Rounding may leave variances at or below zero; NaN stays NaN.
        let positive = |v: f64| if v.is_nan() { v } else { v.max(least) };
        let rows = found[0].0.len();
        let mut out = Marginals { mean: Vec::new(), variance: Vec::new(), functions };
        for row in 0..rows {
            out.mean.extend(found.iter().map(|(mean, _)| mean[row]));
            out.variance.extend(found.iter().map(|(_, variance)| positive(variance[row])));
        }
        Some(out)
    }

    /// Returns `Wᵀm` of a process: its latent mean is `o + kᵀWᵀm` for raw features k.
    pub fn weights(&self, process: usize) -> &[f64] {
        &self.factors[process].weights
    }

    /// The layer that produces the features: the only one, or the first.
    pub fn layer(&self) -> &Layer<InducingPrior> {
        &self.layers[0]
    }

    /// The layers with the processes that share them.
    pub fn layers(&self) -> Layers<'_, InducingPrior> {
        Layers::new(&self.layers, self.factors.len())
    }

    /// The observation model.
    pub fn likelihood(&self) -> &ObservationModel {
        &self.likelihood
    }

    /// Returns latent marginals at `x` (`n × D`, a row per datum), with b·M² flops per block of b
    /// rows, in parallel over blocks.
    pub fn marginals(&self, x: MatRef<'_, f64>) -> Marginals {
        let near =
            |function| self.beside(function).map(|(nearby, count, given)| nearby.marginals(given, x, count));
        if let Some(marginals) = self.side_by_side(near) {
            return marginals;
        }
        let (n, functions) = (x.nrows(), self.factors.len());
        let mut out =
            Marginals { mean: vec![0.0; n * functions], variance: vec![0.0; n * functions], functions };
        let (mean, variance) =
            (out.mean.par_chunks_mut(COLUMNS * functions), out.variance.par_chunks_mut(COLUMNS * functions));
        let buffers = || Room::new(self.layers(), COLUMNS.min(n));
        mean.zip(variance).enumerate().for_each_init(buffers, |room, (i, (mean, variance))| {
            let block = x.subrows(i * COLUMNS, mean.len() / functions);
            for layer in 0..self.layers.len() {
                self.block(layer, block, mean, variance, room);
            }
        });
        out
    }

    /// Returns latent marginals at some of the stored rows, each from its nearest other rows and without its own contribution to q, in a
    /// fit whose KL term has the weight `beta`. Returns `None` without neighbours.
    pub(super) fn left_out(&self, rows: &[u32], beta: f64) -> Option<Marginals> {
        self.side_by_side(|function| {
            let (nearby, count, given) = self.beside(function)?;
            Some(nearby.left_out(given, rows, count, beta))
        })
    }

    /// The score of predictions of a data set, on the scale of the model.
    pub fn score(&self, data: Dataset<'_>, score: Score) -> f64 {
        // Losses are collected before they are summed, so that the sum does not depend on the
        // threads.
        let losses = self.losses(data, score);
        let terms = losses.iter().enumerate().map(|(i, loss)| data.targets.weight(i) * loss);
        terms.sum::<f64>() / data.targets.total_weight()
    }

    /// The loss of every datum without its weight, on the scale of the model.
    pub fn losses(&self, data: Dataset<'_>, score: Score) -> Vec<f64> {
        let targets = data.targets;
        let marginals = self.marginals(data.x).with_offsets(targets.offsets);
        let loss = |tools: &mut Integrator, i: usize| {
            let row = Row::new(targets.at(i), marginals.row(i));
            match score {
                Score::LogLoss => {
                    -self.likelihood.expectation(Expectation::LogPredictive, row, Slopes::none(), tools)
                }
                Score::SquaredError => (row.at.y - row.marginal.mean[0]).powi(2),
            }
        };
        (0..data.len()).into_par_iter().map_init(Integrator::default, loss).collect()
    }

    /// The marginals of the processes of one layer at a block of rows.
    fn block(
        &self,
        index: usize,
        x: MatRef<'_, f64>,
        mean: &mut [f64],
        variance: &mut [f64],
        room: &mut Room,
    ) {
        let (layers, len) = (self.layers(), x.nrows());
        let layer = layers.get(index);
        let Room { k, t, base, offset, own_mean, own_variance, scratch } = room;
        let mut k = k.as_mut().submatrix_mut(0, 0, layer.dim(), len);
        let mut t = t.as_mut().submatrix_mut(0, 0, layer.dim(), len);
        let (base, offset) = (&mut base[..len], &mut offset[..len]);
        let (own_mean, own_variance) = (&mut own_mean[..len], &mut own_variance[..len]);
        layer.features(x, k.as_mut(), base, offset, scratch);
        let members = layers.members(index);
        for process in members.clone() {
            let Factors { weights, roots } = &self.factors[process];
            match layer.constant(process - members.start) {
                Some(constant) => own_mean.fill(constant),
                None => own_mean.copy_from_slice(offset),
            }
            own_variance.copy_from_slice(base);
            columns::add_transposed_matvec(k.as_ref(), weights, own_mean);
            if let Some(q) = &roots.reduction {
                q.add(-1.0, k.as_ref(), t.as_mut(), own_variance);
            }
            if let Some(q) = &roots.increase {
                q.add(1.0, k.as_ref(), t.as_mut(), own_variance);
            }
            if let Some(effects) = self.effects(process) {
                for (i, (mean, variance)) in own_mean.iter_mut().zip(own_variance.iter_mut()).enumerate() {
                    let (more_mean, more_variance) = effects.row(x.row(i), k.as_ref().col(i));
                    *mean += more_mean;
                    *variance += more_variance;
                }
            }
            let rows =
                mean.chunks_exact_mut(self.factors.len()).zip(variance.chunks_exact_mut(self.factors.len()));
            for (i, (mean, variance)) in rows.enumerate() {
                mean[process] = own_mean[i];
                // Cancellation can leave a variance below zero, but only by rounding errors of the
                // prior variance, because the exact value is a quadratic form of a covariance
                // matrix.
                let rounding = f64::EPSILON * base[i];
                let least = if self.mean_variance > rounding { self.mean_variance } else { rounding };
                variance[process] = own_variance[i].max(least);
            }
        }
    }

    /// Latent means of the only function, or of the first, at `x` (`n × D`), with b·M flops per
    /// block of b rows.
    pub fn means(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        self.means_of(0, x)
    }

    /// Returns the latent means of a function.
    pub fn means_of(&self, process: usize, x: MatRef<'_, f64>) -> Vec<f64> {
        if let Some((nearby, count, given)) = self.beside(process) {
            return nearby.marginals(given, x, count).0;
        }
        let (n, layers) = (x.nrows(), self.layers());
        let layer = layers.get(layers.of(process));
        let (m, most) = (layer.dim(), COLUMNS.min(n));
        let constant = layer.constant(process - layers.members(layers.of(process)).start);
        let mut mean = vec![0.0; n];
        let buffers = || (Mat::zeros(m, most), vec![0.0; most], Scratch::new());
        mean.par_chunks_mut(COLUMNS).enumerate().for_each_init(buffers, |(k, base, scratch), (i, mean)| {
            let block = x.subrows(i * COLUMNS, mean.len());
            let mut k = k.as_mut().subcols_mut(0, mean.len());
            layer.features(block, k.as_mut(), &mut base[..mean.len()], mean, scratch);
            if let Some(constant) = constant {
                mean.fill(constant);
            }
            columns::add_transposed_matvec(k.as_ref(), &self.factors[process].weights, mean);
            if let Some(effects) = self.effects(process) {
                mean.iter_mut().enumerate().for_each(|(i, mean)| *mean += effects.row_mean(block.row(i)));
            }
        });
        mean
    }

    /// The full latent covariance of the only function, or of the first, at the points of `x` (`n × D`), `n × n`; meant for a few
    /// hundred points.
    pub fn covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        self.covariance_of(0, x)
    }

    /// Returns the covariance of a function.
    pub fn covariance_of(&self, process: usize, x: MatRef<'_, f64>) -> Mat<f64> {
        if let Some((nearby, count, given)) = self.beside(process) {
            return self.with_error_of_mean(nearby.covariance(given, x, count));
        }
        let layers = self.layers();
        let layer = layers.get(layers.of(process));
        let (n, m) = (x.nrows(), layer.dim());
        let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
        let mut k = Mat::zeros(m, n);
        layer.features(x, k.as_mut(), &mut base, &mut offset, &mut Scratch::new());
        let own = x.subcols(0, layer.input_dims());
        let mut out = layer.base_covariance(own);
        let Factors { roots, .. } = &self.factors[process];
        if let Some(q) = &roots.reduction {
            q.add_outer(-1.0, &k, &mut out);
        }
        if let Some(q) = &roots.increase {
            q.add_outer(1.0, &k, &mut out);
        }
        if let Some(effects) = self.effects(process) {
            effects.add_covariance(x, k.as_ref(), &mut out);
        }
        self.with_error_of_mean(out)
    }
}

/// The buffers of a block of predictions.
struct Room {
    k: Mat<f64>,
    t: Mat<f64>,
    base: Vec<f64>,
    offset: Vec<f64>,
    own_mean: Vec<f64>,
    own_variance: Vec<f64>,
    scratch: Scratch,
}

impl Room {
    fn new(layers: Layers<'_, InducingPrior>, rows: usize) -> Self {
        let m = layers.iter().map(|layer| layer.dim()).max().unwrap_or(0);
        let numbers = || vec![0.0; rows];
        Room {
            k: Mat::zeros(m, rows),
            t: Mat::zeros(m, rows),
            base: numbers(),
            offset: numbers(),
            own_mean: numbers(),
            own_variance: numbers(),
            scratch: Scratch::new(),
        }
    }
}

/// Returns `Wᵀm`.
fn weights_of(layer: &Layer, q: &Normal) -> Vec<f64> {
    let mut weights = vec![0.0; q.dim()];
    let mean = ColRef::from_slice(q.mean()).as_mat();
    whiten_adjoint(layer, mean, ColMut::from_slice_mut(&mut weights).as_mat_mut());
    weights
}

/// Returns the upper-triangular `Q₊` with `Q₊ᵀQ₊ = Wᵀ(I − S + εI)W` for an ε near the rounding of S; `None` unless κ = 1 and `I − S` is
/// positive semidefinite, up to ε.
fn reduction_by_cholesky(layer: &Layer, q: &Normal) -> Option<Roots> {
    let (m, cov) = (q.dim(), q.cov().to_dense());
    if layer.kappa() != 1.0 || m == 0 {
        return None;
    }
    let epsilon = 64.0 * f64::EPSILON * m as f64;
    let mut factor = Mat::from_fn(m, m, |i, j| if i == j { 1.0 + epsilon } else { 0.0 } - cov[(i, j)]);
    Factorizer::new(m).cholesky(factor.as_mut()).ok()?;
    // Only the lower triangle is the factor.
    let lower = Mat::from_fn(m, m, |i, j| if i >= j { factor[(i, j)] } else { 0.0 });
    let reduction = qr_factor(of_raw_features(layer, lower.as_ref()).transpose().to_owned());
    Some(Roots { reduction: Some(Root::Upper(reduction)), increase: None })
}

/// `Q₊` and `Q₋` of a posterior.
fn roots(layer: &Layer, q: &Normal) -> Roots {
    let share = layer.kappa();
    if layer.dim() == 0 {
        return Roots::default();
    }
    if let (MatrixRef::Diagonal(s), None) = (q.cov(), layer.whitening()) {
        let root = |sign: f64| s.iter().map(|s| (sign * (share - s)).max(0.0).sqrt()).collect::<Vec<f64>>();
        let some = |root: Vec<f64>| root.iter().any(|r| *r > 0.0).then_some(Root::Diagonal(root));
        return Roots { reduction: some(root(1.0)), increase: some(root(-1.0)) };
    }
    let m = q.dim();
    let mut cov = q.cov().to_dense();
    if share == 0.0 {
        // Without a prior term the root of S itself is exact; q was positive definite when it was
        // created.
        if Factorizer::new(m).cholesky(cov.as_mut()).is_err() {
            cov.as_mut().fill(f64::NAN);
        }
        return Roots { reduction: None, increase: Some(Root::Upper(cov.transpose().to_owned())) };
    }
    let shrinkage = Mat::from_fn(m, m, |i, j| if i == j { share } else { 0.0 } - cov[(i, j)]);
    let (reduction, increase) = signed_factors(&shrinkage, layer);
    Roots { reduction: Some(Root::Upper(reduction)), increase: increase.map(Root::Upper) }
}

/// Returns upper-triangular `Q₊` and `Q₋` with `Wᵀ · shrinkage · W = Q₊ᵀQ₊ − Q₋ᵀQ₋`.
fn signed_factors(shrinkage: &Mat<f64>, layer: &Layer) -> (Mat<f64>, Option<Mat<f64>>) {
    let m = shrinkage.nrows();
    let Some((values, vectors)) = symmetric_eigen(shrinkage.as_ref()) else {
        return (Mat::from_fn(m, m, |_, _| f64::NAN), None);
    };
    let factor = |sign: f64| {
        let rows: Vec<usize> = (0..m).filter(|&i| sign * values[i] > 0.0).collect();
        let root =
            Mat::from_fn(m, rows.len(), |j, r| (sign * values[rows[r]]).sqrt() * vectors[(j, rows[r])]);
        let mut whole = Mat::zeros(rows.len(), m);
        whiten_adjoint(layer, root.as_ref(), whole.as_mut().transpose_mut());
        qr_factor(whole)
    };
    // Eigenvalues of I − S just below zero are rounding, not variance above the prior's.
    let negative = values.iter().any(|&v| v < -64.0 * f64::EPSILON * m as f64);
    (factor(1.0), negative.then(|| factor(-1.0)))
}
