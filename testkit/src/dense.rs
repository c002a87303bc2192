//! The exact Gaussian process by one dense factorisation, as a reference for sparse ones.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use sparsegp::kernels::Kernel;
use sparsegp::kernels::kernel::{Inputs, Scratch};

/// Returns the evidence and the latent predictions of the exact GP.
pub fn dense_gp(
    kernel: &dyn Kernel,
    mean: f64,
    noise: f64,
    (x, y): (&Mat<f64>, &[f64]),
    x_test: &Mat<f64>,
) -> (f64, Vec<f64>, Vec<f64>) {
    let (n, t) = (y.len(), x_test.ncols());
    let mut scratch = Scratch::new();
    let (mut k, mut cross, mut prior) = (Mat::zeros(n, n), Mat::zeros(n, t), vec![0.0; t]);
    kernel.eval(Inputs::Gram(x.transpose()), k.as_mut(), &mut scratch);
    let inputs = Inputs::Cross { left: x.transpose(), right: x_test.transpose() };
    kernel.eval(inputs, cross.as_mut(), &mut scratch);
    kernel.diag(x_test.transpose(), &mut prior, &mut scratch);
    (0..n).for_each(|i| k[(i, i)] += noise);
    let llt = k.llt(Side::Lower).expect("positive definite");
    let c = Mat::from_fn(n, 1, |i, _| y[i] - mean);
    let alpha = llt.solve(&c);
    let log_det: f64 = 2.0 * (0..n).map(|i| llt.L()[(i, i)].ln()).sum::<f64>();
    let quadratic: f64 = (0..n).map(|i| c[(i, 0)] * alpha[(i, 0)]).sum();
    let evidence = -0.5 * (quadratic + log_det + n as f64 * (2.0 * std::f64::consts::PI).ln());
    let solved = llt.solve(&cross);
    let dot = |j: usize, v: &dyn Fn(usize) -> f64| (0..n).map(|i| cross[(i, j)] * v(i)).sum::<f64>();
    let mu = (0..t).map(|j| mean + dot(j, &|i| alpha[(i, 0)])).collect();
    let var = (0..t).map(|j| prior[j] - dot(j, &|i| solved[(i, j)])).collect();
    (evidence, mu, var)
}
