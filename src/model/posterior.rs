//! A trained posterior ready to predict: mean weights and the triangular factor of the variance; no training.

use super::sparse::SparseModel;
use crate::collapsed::Dataset;
use crate::columns;
use crate::latent::LatentLayer;
use crate::likelihood::Likelihood;
use crate::linalg::{self, Part, Shape, product, product_seq, qr_factor, symmetric_eigen};
use crate::quadrature::Integrator;
use crate::variational::FullGaussian;
use faer::{Accum, Mat, MatRef};
use rayon::prelude::*;
use sparsegp_kernels::{Inputs, Kernel, Scratch};

/// Latent means and variances, one per datum.
#[derive(Clone, Debug, PartialEq)]
pub struct Marginals {
    /// `μ_i`.
    pub mean: Vec<f64>,
    /// `v_i`.
    pub variance: Vec<f64>,
}

/// Everything a prediction needs (MATH, section 3): `μ = o + kᵀ L⁻ᵀm`, `v = k(x,x) − ‖Q₊k‖² + ‖Q₋k‖²` where
/// `L⁻ᵀ(I − S)L⁻¹ = Q₊ᵀQ₊ − Q₋ᵀQ₋`; `Q₋` is absent when `S ⪯ I`, as it is for every optimum of the ELBO.
pub struct Posterior {
    kernel: Box<dyn Kernel>,
    likelihood: Box<dyn Likelihood>,
    z: Mat<f64>,
    constant: f64,
    weights: Vec<f64>,
    reduction: Mat<f64>,
    increase: Option<Mat<f64>>,
}

/// What predictions are scored by; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Minus the mean log predictive density, with the sample weights.
    LogLoss,
    /// The mean squared error of the latent mean, with the sample weights.
    SquaredError,
}

/// Columns per parallel block of a prediction.
const COLUMNS: usize = 256;

impl Posterior {
    /// From a refreshed model and its whitened posterior.
    pub fn new(model: &SparseModel, q: &FullGaussian) -> Self {
        let layer = &model.layer;
        let m = q.dim();
        let (linv, _) = layer.whitening();
        let mut weights = vec![0.0; m];
        linalg::matvec(linv.transpose(), q.mean(), &mut weights);
        let shrinkage = Mat::from_fn(m, m, |i, j| if i == j { 1.0 } else { 0.0 } - q.cov()[(i, j)]);
        let (reduction, increase) = signed_factors(&shrinkage, linv);
        Posterior {
            kernel: layer.kernel().boxed_clone(),
            likelihood: model.likelihood.clone(),
            z: layer.z().to_owned(),
            constant: layer.mean().values[0],
            weights,
            reduction,
            increase,
        }
    }

    /// From stored parts; see [`Posterior::factors`].
    pub fn from_factors(
        model: &SparseModel,
        weights: Vec<f64>,
        reduction: Mat<f64>,
        increase: Option<Mat<f64>>,
    ) -> Self {
        Posterior {
            kernel: model.layer.kernel().boxed_clone(),
            likelihood: model.likelihood.clone(),
            z: model.layer.z().to_owned(),
            constant: model.layer.mean().values[0],
            weights,
            reduction,
            increase,
        }
    }

    /// `L⁻ᵀm`, `Q₊` and `Q₋`: what a model file stores so that predictions come back bit for bit.
    pub fn factors(&self) -> (&[f64], MatRef<'_, f64>, Option<MatRef<'_, f64>>) {
        (&self.weights, self.reduction.as_ref(), self.increase.as_ref().map(|q| q.as_ref()))
    }

    /// The observation model.
    pub fn likelihood(&self) -> &dyn Likelihood {
        self.likelihood.as_ref()
    }

    /// The covariance function.
    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// The inducing inputs, `M × D`.
    pub fn z(&self) -> MatRef<'_, f64> {
        self.z.as_ref()
    }

    /// Latent marginals at `x` (`D × n`, one column per datum), b·M² flops a block of b, parallel over blocks.
    pub fn marginals(&self, x: MatRef<'_, f64>) -> Marginals {
        let n = x.ncols();
        let mut out = Marginals { mean: vec![self.constant; n], variance: vec![0.0; n] };
        let (mean, variance) = (out.mean.par_chunks_mut(COLUMNS), out.variance.par_chunks_mut(COLUMNS));
        let m = self.z.nrows();
        let buffers = || (Mat::zeros(m, COLUMNS), Mat::zeros(m, COLUMNS), Scratch::new());
        mean.zip(variance).enumerate().for_each_init(buffers, |(k, t, scratch), (i, (mean, variance))| {
            let block = x.subcols(i * COLUMNS, mean.len());
            let (k, t) = (k.as_mut().subcols_mut(0, mean.len()), t.as_mut().subcols_mut(0, mean.len()));
            self.block(block, (k, t), (mean, variance), scratch);
        });
        out
    }

    /// The score of predictions of a data set, on the scale of the model.
    pub fn score(&self, data: Dataset<'_>, score: Score) -> f64 {
        let marginals = self.marginals(data.x);
        let targets = data.targets;
        let term = |integrator: &mut Integrator, i: usize| {
            let at = targets.at(i);
            let latent = (marginals.mean[i], marginals.variance[i]);
            targets.weight(i)
                * match score {
                    Score::LogLoss => -self.likelihood.log_predictive(at, latent, &mut [], integrator).value,
                    Score::SquaredError => (at.y - latent.0).powi(2),
                }
        };
        // Collected before they are summed, so that the sum does not depend on the threads.
        let terms: Vec<f64> = (0..data.len()).into_par_iter().map_init(Integrator::default, term).collect();
        terms.iter().sum::<f64>() / targets.total_weight()
    }

    fn block(
        &self,
        x: MatRef<'_, f64>,
        (mut k, mut t): (faer::MatMut<'_, f64>, faer::MatMut<'_, f64>),
        (mean, variance): (&mut [f64], &mut [f64]),
        scratch: &mut Scratch,
    ) {
        let x = x.transpose();
        self.kernel.eval(Inputs::Cross { left: self.z.as_ref(), right: x }, k.as_mut(), scratch);
        columns::add_transposed_matvec(k.as_ref(), &self.weights, mean);
        let mut prior = scratch.take(mean.len());
        self.kernel.diag(x, &mut prior, scratch);
        let upper = (self.reduction.as_ref(), Shape::Upper);
        product_seq(t.as_mut(), Accum::Replace, upper, k.as_ref(), 1.0);
        columns::add_column_dots(t.as_ref(), t.as_ref(), variance);
        variance.iter_mut().zip(&prior).for_each(|(v, prior)| *v = prior - *v);
        if let Some(q) = &self.increase {
            product_seq(t.as_mut(), Accum::Replace, (q.as_ref(), Shape::Upper), k.as_ref(), 1.0);
            columns::add_column_dots(t.as_ref(), t.as_ref(), variance);
        }
        // Cancellation can leave a variance below zero by rounding of the prior's; never more, since the exact value
        // is a quadratic form of a covariance matrix.
        for (v, prior) in variance.iter_mut().zip(&prior) {
            *v = v.max(f64::EPSILON * prior);
        }
        scratch.give(prior);
    }

    /// Latent means only, b·M flops a block.
    pub fn means(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        let n = x.ncols();
        let m = self.z.nrows();
        let mut mean = vec![self.constant; n];
        let buffers = || (Mat::zeros(m, COLUMNS), Scratch::new());
        mean.par_chunks_mut(COLUMNS).enumerate().for_each_init(buffers, |(k, scratch), (i, mean)| {
            let block = x.subcols(i * COLUMNS, mean.len()).transpose();
            let mut k = k.as_mut().subcols_mut(0, mean.len());
            self.kernel.eval(Inputs::Cross { left: self.z.as_ref(), right: block }, k.as_mut(), scratch);
            columns::add_transposed_matvec(k.as_ref(), &self.weights, mean);
        });
        mean
    }

    /// The full latent covariance at the points of `x` (`D × n`), `n × n`; meant for a few hundred points.
    pub fn covariance(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let (n, m) = (x.ncols(), self.z.nrows());
        let mut scratch = Scratch::new();
        let points = x.transpose();
        let (mut k, mut out) = (Mat::zeros(m, n), Mat::zeros(n, n));
        let cross = Inputs::Cross { left: self.z.as_ref(), right: points };
        self.kernel.eval(cross, k.as_mut(), &mut scratch);
        self.kernel.eval(Inputs::Gram(points), out.as_mut(), &mut scratch);
        let t = &self.reduction * &k;
        out -= t.transpose() * &t;
        if let Some(q) = &self.increase {
            let t = q * &k;
            out += t.transpose() * &t;
        }
        out
    }
}

/// Upper-triangular `Q₊`, `Q₋` with `linvᵀ · shrinkage · linv = Q₊ᵀQ₊ − Q₋ᵀQ₋`.
fn signed_factors(shrinkage: &Mat<f64>, linv: MatRef<'_, f64>) -> (Mat<f64>, Option<Mat<f64>>) {
    let m = shrinkage.nrows();
    let Some((values, vectors)) = symmetric_eigen(shrinkage.as_ref()) else {
        return (Mat::from_fn(m, m, |_, _| f64::NAN), None);
    };
    let factor = |sign: f64| {
        let rows: Vec<usize> = (0..m).filter(|&i| sign * values[i] > 0.0).collect();
        let root =
            Mat::from_fn(rows.len(), m, |r, j| (sign * values[rows[r]]).sqrt() * vectors[(j, rows[r])]);
        let mut whole = Mat::zeros(rows.len(), m);
        let (left, right) = ((root.as_ref(), Shape::Full), (linv, Shape::Lower));
        product(whole.as_mut(), Part::All, Accum::Replace, left, right, 1.0);
        qr_factor(whole)
    };
    // Eigenvalues of I − S just below zero are rounding, not variance above the prior's.
    let negative = values.iter().any(|&v| v < -64.0 * f64::EPSILON * m as f64);
    (factor(1.0), negative.then(|| factor(-1.0)))
}
