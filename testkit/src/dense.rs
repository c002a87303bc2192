//! Exact Gaussian processes by one dense factorisation, as references for sparse ones.

use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef, Side};
use sparsegp::kernels::Kernel;
use sparsegp::kernels::kernel::{Inputs, Scratch};

/// Returns the covariance matrix of the rows of `x`.
pub fn gram(kernel: &dyn Kernel, x: MatRef<'_, f64>) -> Mat<f64> {
    let mut k = Mat::zeros(x.nrows(), x.nrows());
    kernel.eval(Inputs::Gram(x), k.as_mut(), &mut Scratch::new());
    k
}

/// Returns the covariances of the rows of two matrices.
pub fn covariances(kernel: &dyn Kernel, left: MatRef<'_, f64>, right: MatRef<'_, f64>) -> Mat<f64> {
    let mut k = Mat::zeros(left.nrows(), right.nrows());
    kernel.eval(Inputs::Cross { left, right }, k.as_mut(), &mut Scratch::new());
    k
}

/// Returns `a` with numbers added to its diagonal.
pub fn with_diagonal(mut a: Mat<f64>, added: impl Fn(usize) -> f64) -> Mat<f64> {
    (0..a.nrows()).for_each(|i| a[(i, i)] += added(i));
    a
}

/// The distribution of some values given others, all of them normal.
pub struct Conditional {
    /// The log density of the given values.
    pub log_density: f64,
    pub mean: Vec<f64>,
    pub covariance: Mat<f64>,
}

/// Conditions on values at distance `c` from their mean with covariance `v`. The values in question have the covariances `cross` with the
/// given ones, a column each, and the covariance `prior` among themselves; their conditional mean is relative to their prior mean.
pub fn conditional(v: &Mat<f64>, c: &[f64], cross: &Mat<f64>, prior: &Mat<f64>) -> Conditional {
    let factor = v.llt(Side::Lower).expect("positive definite");
    let c = Mat::from_fn(c.len(), 1, |i, _| c[i]);
    let weights = factor.solve(&c);
    let log_det: f64 = 2.0 * (0..v.nrows()).map(|i| factor.L()[(i, i)].ln()).sum::<f64>();
    let quadratic = (c.transpose() * &weights)[(0, 0)];
    let mean = cross.transpose() * &weights;
    Conditional {
        log_density: -0.5 * (quadratic + log_det + v.nrows() as f64 * std::f64::consts::TAU.ln()),
        mean: mean.col(0).iter().copied().collect(),
        covariance: prior - cross.transpose() * factor.solve(cross),
    }
}

/// Returns the log density of a normal distribution with covariance `v` at distance `c` from its mean.
pub fn log_density(v: &Mat<f64>, c: &[f64]) -> f64 {
    conditional(v, c, &Mat::zeros(c.len(), 0), &Mat::zeros(0, 0)).log_density
}

/// Returns the evidence and the latent predictions of the exact GP.
pub fn dense_gp(
    kernel: &dyn Kernel,
    mean: f64,
    noise: f64,
    (x, y): (&Mat<f64>, &[f64]),
    x_test: &Mat<f64>,
) -> (f64, Vec<f64>, Vec<f64>) {
    let (x, x_test) = (x.transpose(), x_test.transpose());
    let c: Vec<f64> = y.iter().map(|y| y - mean).collect();
    let v = with_diagonal(gram(kernel, x), |_| noise);
    let found = conditional(&v, &c, &covariances(kernel, x, x_test), &gram(kernel, x_test));
    let variances = (0..x_test.nrows()).map(|i| found.covariance[(i, i)]).collect();
    (found.log_density, found.mean.iter().map(|at| mean + at).collect(), variances)
}

/// Returns the prior variances at the rows of `x` given the values at the rows of `z`, each with a jitter.
pub fn conditional_variances(
    kernel: &dyn Kernel,
    x: MatRef<'_, f64>,
    z: MatRef<'_, f64>,
    jitter: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let kzx = covariances(kernel, z, x);
    let factor = with_diagonal(gram(kernel, z), jitter).llt(Side::Lower).expect("positive definite");
    let solved = factor.solve(&kzx);
    let mut variances = vec![0.0; x.nrows()];
    kernel.diag(x, &mut variances, &mut Scratch::new());
    variances.iter_mut().enumerate().for_each(|(j, v)| *v -= kzx.col(j).transpose() * solved.col(j));
    variances
}
