//! One row of a model with neighbours, conditioned on its neighbours: gradients of its mean and
//! variance, and corrections of draws of the function.

use super::nearby::{Beside, Nearby};
use crate::latent::{InducingLayer, whiten, whiten_adjoint};
use crate::linalg::{Factorizer, dot, solve_factored};
use crate::variational::Normal;
use faer::{Mat, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Scratch};

/// A row given its neighbours N (possibly none): `μ = o + aᵀm + rᵀC⁻¹(y_N − o − A_Nᵀm)` and `v = k(x, x) − aᵀa − rᵀC⁻¹r + ãᵀSã` with
/// `a = L⁻¹k(Z, x)`, `r = k(N, x) − A_Nᵀa`, `C = k(N, N) − A_NᵀA_N + Σ` and `ã = a − A_N C⁻¹ r`.
pub(super) struct Local<'a> {
    layer: &'a InducingLayer,
    /// Inputs of the neighbours, `u × D`.
    /// Inputs of the neighbours, `u × D`.
    pub near: Mat<f64>,
    /// `A_N`, `M × u`.
    pub features: Mat<f64>,
    /// The lower Cholesky factor of C.
    factor: Mat<f64>,
    /// `y_N − o`.
    pub targets: Vec<f64>,
}

impl<'a> Local<'a> {
    /// A row of `dims` inputs without neighbours.
    pub fn alone(layer: &'a InducingLayer, dims: usize) -> Local<'a> {
        let (near, factor) = (Mat::zeros(0, dims), Mat::zeros(0, 0));
        Local { layer, near, features: Mat::zeros(layer.z().nrows(), 0), factor, targets: Vec::new() }
    }

    /// A row given the training rows in `list`.
    pub fn new(nearby: &Nearby, given: Beside<'a>, list: &[u32]) -> Local<'a> {
        let Beside { layer, place, function, .. } = given;
        let ((data, _), targets) = (nearby.data(), nearby.targets_of(function));
        let u = list.len();
        let near = Mat::from_fn(u, data.ncols(), |i, j| data[(list[i] as usize, j)]);
        let features = whitened(layer, near.as_ref());
        let mut factor = Mat::zeros(u, u);
        layer.kernel().eval(Inputs::Gram(near.as_ref()), factor.as_mut(), &mut Scratch::new());
        factor -= features.transpose() * &features;
        for (i, &row) in list.iter().enumerate() {
            factor[(i, i)] += nearby.noise_of(row, &given);
        }
        if Factorizer::new(u).cholesky(factor.as_mut()).is_err() {
            factor.as_mut().fill(f64::NAN);
        }
        let offset = layer.mean().values[place];
        let targets = list.iter().map(|&row| targets[row as usize] - offset).collect();
        Local { layer, near, features, factor, targets }
    }

    /// Returns the gradients of mean and variance at the row, except the gradient of `k(x, x)`.
    pub fn slopes(&self, point: MatRef<'_, f64>, q: &Normal) -> (Mat<f64>, Mat<f64>) {
        let (a, r) = self.at(point);
        let rest = column(&self.targets) - self.features.transpose() * column(q.mean());
        let loads = self.solved(rest);
        let of_mean = Bars { features: column(q.mean()) - &self.features * &loads, near: loads };
        let b = self.solved(r);
        let rest = &a - &self.features * &b;
        let spread = q.cov().to_dense() * &rest;
        let near = (self.solved(self.features.transpose() * &spread) + b) * faer::Scale(-2.0);
        let features = (&spread - &a) * faer::Scale(2.0) - &self.features * &near;
        let of_variance = Bars { features, near };
        let mean = self.pull_back(point, of_mean);
        (mean, self.pull_back(point, of_variance))
    }

    /// `C⁻¹ right` for every column of `right`.
    pub fn solved(&self, mut right: Mat<f64>) -> Mat<f64> {
        (0..right.ncols()).for_each(|j| solve_factored(self.factor.as_ref(), right.col_as_slice_mut(j)));
        right
    }

    /// Returns `a` and `r` of a row.
    fn at(&self, point: MatRef<'_, f64>) -> (Mat<f64>, Mat<f64>) {
        let a = whitened(self.layer, point);
        let mut r = Mat::zeros(self.near.nrows(), 1);
        if self.near.nrows() > 0 {
            let inputs = Inputs::Cross { left: self.near.as_ref(), right: point };
            self.layer.kernel().eval(inputs, r.as_mut(), &mut Scratch::new());
            r -= self.features.transpose() * &a;
        }
        (a, r)
    }

    /// Returns `a`, the weights `b = C⁻¹r` of the neighbours, and the variance `k(x, x) − aᵀa − rᵀb` of the row given u and the neighbours.
    pub fn conditional(&self, point: MatRef<'_, f64>) -> (Mat<f64>, Mat<f64>, f64) {
        let (a, r) = self.at(point);
        let b = self.solved(r.clone());
        let mut variance = [0.0];
        self.layer.kernel().diag(point, &mut variance, &mut Scratch::new());
        let known = |x: &Mat<f64>, y: &Mat<f64>| dot(x.col_as_slice(0), y.col_as_slice(0));
        let variance = variance[0] - known(&a, &a) - known(&r, &b);
        (a, b, variance.max(0.0))
    }

    /// The gradient of `features·a + near·k(N, x)` with respect to the point x.
    pub fn pull_back(&self, point: MatRef<'_, f64>, bars: Bars) -> Mat<f64> {
        let layer = self.layer;
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
            layer.kernel().adjoint(inputs.evaluated(k.as_ref(), kbar.as_ref()), target, &mut scratch);
        }
        out
    }
}

/// Gradients with respect to `a` (M) and to `k(N, x)` (u).
pub(super) struct Bars {
    pub features: Mat<f64>,
    pub near: Mat<f64>,
}

pub(super) fn column(values: &[f64]) -> Mat<f64> {
    Mat::from_fn(values.len(), 1, |i, _| values[i])
}

/// `L⁻¹ k(Z, x)` (`M × n`) for n points.
pub(super) fn whitened(layer: &InducingLayer, x: MatRef<'_, f64>) -> Mat<f64> {
    let m = layer.z().nrows();
    let (mut k, mut a) = (Mat::zeros(m, x.nrows()), Mat::zeros(m, x.nrows()));
    if m > 0 {
        let inputs = Inputs::Cross { left: layer.z(), right: x };
        layer.kernel().eval(inputs, k.as_mut(), &mut Scratch::new());
        whiten(layer, k.as_ref(), a.as_mut());
    }
    a
}
