//! One row of a model with neighbours, conditioned on its neighbours: gradients of its mean and
//! variance, and corrections of draws of the function.

use super::nearby::{Beside, Nearby};
use crate::latent::{whiten, whiten_adjoint};
use crate::linalg::{Factorizer, solve_factored};
use faer::{Mat, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Scratch};

/// A row given its neighbours N: `μ = o + aᵀm + rᵀC⁻¹(y_N − o − A_Nᵀm)` and `v = k(x, x) − aᵀa − rᵀC⁻¹r + ãᵀSã` with `a = L⁻¹k(Z, x)`,
/// `r = k(N, x) − A_Nᵀa`, `C = k(N, N) − A_NᵀA_N + Σ` and `ã = a − A_N C⁻¹ r`.
pub(super) struct Local<'a> {
    given: Beside<'a>,
    /// Inputs of the neighbours, `u × D`.
    near: Mat<f64>,
    /// `A_N`, `M × u`.
    features: Mat<f64>,
    /// The lower Cholesky factor of C.
    factor: Mat<f64>,
    /// `C⁻¹(y_N − o − A_Nᵀm)`.
    loads: Vec<f64>,
}

impl<'a> Local<'a> {
    pub fn new(nearby: &Nearby, given: Beside<'a>, list: &[u32], point: MatRef<'_, f64>) -> Local<'a> {
        let ((data, targets), Beside { layer, q, noise, .. }) = (nearby.data(), given);
        let u = list.len();
        let near = Mat::from_fn(u, point.ncols(), |i, j| data[(list[i] as usize, j)]);
        let features = whitened(given, near.as_ref());
        let mut factor = Mat::zeros(u, u);
        layer.kernel().eval(Inputs::Gram(near.as_ref()), factor.as_mut(), &mut Scratch::new());
        factor -= features.transpose() * &features;
        for (i, &row) in list.iter().enumerate() {
            factor[(i, i)] += nearby.noise_of(row, noise);
        }
        if Factorizer::new(u).cholesky(factor.as_mut()).is_err() {
            factor.as_mut().fill(f64::NAN);
        }
        let offset = layer.mean().values[0];
        let fit = |i: usize| -> f64 { features.col(i).iter().zip(q.mean()).map(|(a, m)| a * m).sum() };
        let rest: Vec<f64> = (0..u).map(|i| targets[list[i] as usize] - offset - fit(i)).collect();
        let mut loads = rest;
        solve_factored(factor.as_ref(), &mut loads);
        Local { given, near, features, factor, loads }
    }

    /// Returns the gradients of mean and variance at the row, except the gradient of `k(x, x)`.
    pub fn slopes(&self, point: MatRef<'_, f64>) -> (Mat<f64>, Mat<f64>) {
        let q = self.given.q;
        let (a, r) = self.at(point);
        let column = |values: &[f64]| Mat::from_fn(values.len(), 1, |i, _| values[i]);
        let solve = |right: &Mat<f64>| {
            let mut out = right.to_owned();
            solve_factored(self.factor.as_ref(), out.col_as_slice_mut(0));
            out
        };
        let loads = column(&self.loads);
        let of_mean = Bars { features: column(q.mean()) - &self.features * &loads, near: loads };
        let b = solve(&r);
        let rest = &a - &self.features * &b;
        let spread = q.cov().to_dense() * &rest;
        let near = (solve(&(self.features.transpose() * &spread)) + b) * faer::Scale(-2.0);
        let features = (&spread - &a) * faer::Scale(2.0) - &self.features * &near;
        let of_variance = Bars { features, near };
        let mean = self.pull_back(point, of_mean);
        (mean, self.pull_back(point, of_variance))
    }

    /// Returns `a` and `r` of a row.
    fn at(&self, point: MatRef<'_, f64>) -> (Mat<f64>, Mat<f64>) {
        let a = whitened(self.given, point);
        let mut r = Mat::zeros(self.near.nrows(), 1);
        if self.near.nrows() > 0 {
            let inputs = Inputs::Cross { left: self.near.as_ref(), right: point };
            self.given.layer.kernel().eval(inputs, r.as_mut(), &mut Scratch::new());
            r -= self.features.transpose() * &a;
        }
        (a, r)
    }

    /// `C⁻¹r` (u): the neighbours correct a draw of the function by `rᵀC⁻¹(y_N − f_N − ε_N)`.
    pub fn weights(&self, point: MatRef<'_, f64>) -> Vec<f64> {
        let mut weights: Vec<f64> = self.at(point).1.col(0).iter().copied().collect();
        solve_factored(self.factor.as_ref(), &mut weights);
        weights
    }

    /// Returns the gradient of the correction `rᵀC⁻¹(y_N − f_N − ε_N)` with respect to the point
    /// (`1 × D`), given `rest = y_N − f_N − ε_N` (u).
    pub fn update_slopes(&self, point: MatRef<'_, f64>, mut rest: Vec<f64>) -> Mat<f64> {
        solve_factored(self.factor.as_ref(), &mut rest);
        let near = Mat::from_fn(rest.len(), 1, |i, _| rest[i]);
        self.pull_back(point, Bars { features: -(&self.features * &near), near })
    }

    /// The gradient of `features·a + near·k(N, x)` with respect to the point x.
    fn pull_back(&self, point: MatRef<'_, f64>, bars: Bars) -> Mat<f64> {
        let Beside { layer, .. } = self.given;
        let mut out = Mat::zeros(1, point.ncols());
        let m = layer.z().nrows();
        let mut raw = Mat::zeros(m, 1);
        if m > 0 {
            whiten_adjoint(layer, bars.features.as_ref(), raw.as_mut());
        }
        for (left, kbar) in [(layer.z(), &raw), (self.near.as_ref(), &bars.near)] {
            if left.nrows() == 0 {
                continue;
            }
            let (mut k, mut scratch) = (Mat::zeros(left.nrows(), 1), Scratch::new());
            let inputs = Inputs::Cross { left, right: point };
            layer.kernel().eval(inputs, k.as_mut(), &mut scratch);
            let target = Gradient { parameters: &mut [], left: None, right: Some(out.as_mut()) };
            layer.kernel().adjoint(inputs, k.as_ref(), kbar.as_ref(), target, &mut scratch);
        }
        out
    }
}

/// Gradients with respect to `a` (M) and to `k(N, x)` (u).
struct Bars {
    features: Mat<f64>,
    near: Mat<f64>,
}

/// `L⁻¹ k(Z, x)` (`M × n`) for n points.
fn whitened(given: Beside<'_>, x: MatRef<'_, f64>) -> Mat<f64> {
    let (layer, m) = (given.layer, given.layer.z().nrows());
    let (mut k, mut a) = (Mat::zeros(m, x.nrows()), Mat::zeros(m, x.nrows()));
    if m > 0 {
        let inputs = Inputs::Cross { left: layer.z(), right: x };
        layer.kernel().eval(inputs, k.as_mut(), &mut Scratch::new());
        whiten(layer, k.as_ref(), a.as_mut());
    }
    a
}
