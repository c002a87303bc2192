//! Random problems for the numeric tests: data, models and posteriors by seed.

use crate::compare::entries;
use faer::Mat;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;
use sparsegp::kernels::parse;
use sparsegp::latent::{InducingPrior, Jitter};
use sparsegp::likelihood::Gaussian;
use sparsegp::model::LatentModel;
use sparsegp::options::{FitOptions, StepOptions};
use sparsegp::variational::{MatrixRef, Normal};

/// A source of standard normals.
pub struct Normals(ChaCha8Rng);

impl Normals {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Normals(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns the next number.
    pub fn next(&mut self) -> f64 {
        self.0.sample(StandardNormal)
    }

    /// Returns a matrix of standard normals.
    pub fn mat(&mut self, rows: usize, cols: usize) -> Mat<f64> {
        Mat::from_fn(rows, cols, |_, _| self.next())
    }

    /// Returns a vector of standard normals.
    pub fn vec(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.next()).collect()
    }
}

/// Returns inputs `D × n`, and targets of a smooth function with noise.
pub fn data(seed: u64, d: usize, n: usize) -> (Mat<f64>, Vec<f64>) {
    let mut normals = Normals::new(seed);
    let x = normals.mat(d, n);
    let y = (0..n).map(|j| (1.5 * x[(0, j)]).sin() + 0.5 * x[(d - 1, j)] + 0.2 * normals.next()).collect();
    (x, y)
}

/// Returns a model with all parameters free and perturbed away from round numbers.
pub fn model(seed: u64, kernel: &str, d: usize, m: usize, jitter: Jitter) -> LatentModel {
    let mut normals = Normals::new(seed ^ 0x5eed);
    let mut kernel = parse(kernel, d).expect("kernel");
    kernel.for_each_parameter_mut(&mut |p| {
        p.fixed = false;
        p.values.iter_mut().for_each(|v| *v *= (0.2 * normals.next()).exp());
    });
    let layer = InducingPrior::new(kernel, normals.mat(m, d), jitter).expect("layer").with_mean(0.3, false);
    let likelihood = Gaussian::new(0.2);
    let model = LatentModel::new(layer.into(), likelihood, false);
    model.factorised().expect("K_uu factorises")
}

/// Returns a random posterior whose covariance is not diagonal and not below that of the prior.
pub fn posterior(seed: u64, m: usize) -> Normal {
    let mut normals = Normals::new(seed ^ 0xf00d);
    let c = normals.mat(m, m);
    let scale = 0.5 / m as f64;
    let cov = Mat::from_fn(m, m, |i, j| {
        let inner: f64 = (0..m).map(|k| c[(i, k)] * c[(j, k)]).sum();
        scale * inner + if i == j { 0.3 } else { 0.0 }
    });
    Normal::new(normals.vec(m), cov).expect("q")
}

/// Returns the options of a fit with few inducing inputs and epochs.
pub fn small(inducing: usize, epochs: usize) -> FitOptions {
    FitOptions { inducing: Some(inducing), epochs: Some(epochs), ..FitOptions::default() }
}

/// Returns the options of steps on mini-batches of this size.
pub fn batches_of(batch_size: usize) -> StepOptions {
    StepOptions { batch_size, ..StepOptions::default() }
}

/// Returns the numbers of a full or a diagonal matrix.
pub fn flat(a: MatrixRef<'_>) -> Vec<f64> {
    match a {
        MatrixRef::Full(all) => entries(all),
        MatrixRef::Diagonal(diagonal) => diagonal.to_vec(),
    }
}
