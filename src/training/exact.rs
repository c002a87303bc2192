//! The evidence of a GP with Gaussian noise from the whole kernel matrix of its rows, and its gradient.
//!
//! The collapsed bound equals it if every row is an inducing input. But there the bound is a difference of terms of size `k/σ²`, so
//! without noise neither it nor its gradient has correct digits.

use crate::collapsed::Dataset;
use crate::latent::{InducingLayer, Jitter, LayerGradient, RawFeatures, whiten};
use crate::linalg::{self, Factorizer, dot, gram_of_inverse, qr_factor, trace};
use crate::model::LatentModel;
use crate::variational::{Matrix, Normal};
use faer::linalg::triangular_solve::solve_upper_triangular_in_place;
use faer::{Mat, MatRef, Par};
use sparsegp_kernels::{Gradient, Inputs, Kernel, Scratch};
use std::collections::HashSet;
use std::f64::consts::TAU;

/// The largest part of I that the rounding of `k/σ²` may change.
const ROUNDING: f64 = 0.02;

/// Buffers for the evidence of n rows, and the numbers of its last evaluation.
pub(super) struct ExactEvidence {
    k: Mat<f64>,
    /// B⁻¹ with `B = I + D K D`, `D = diag(√(w_i/σ²))`.
    inverse: Mat<f64>,
    factor: Mat<f64>,
    /// `√(w_i/σ²)`.
    root: Vec<f64>,
    /// `B⁻¹ D (y − o)`.
    solved: Vec<f64>,
    factorizer: Factorizer,
    scratch: Scratch,
}

impl ExactEvidence {
    /// Returns buffers for the rows, if each of them is an inducing input and inducing inputs are fixed.
    pub fn of(model: &LatentModel, rows: Option<Dataset<'_>>) -> Option<Self> {
        let (rows, layer) = (rows?, model.layer().inducing()?);
        let exact = model.fix_inducing && layer.jitter() == Jitter::EXACT && model.effects.is_empty();
        if !exact || model.layers.len() > 1 || rows.is_empty() {
            return None;
        }
        let bits = |of: MatRef<'_, f64>, i: usize| of.row(i).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let known: HashSet<_> = (0..layer.dim()).map(|i| bits(layer.z(), i)).collect();
        let x = inputs(layer, rows);
        let all = (0..x.nrows()).all(|i| known.contains(&bits(x, i)));
        (all && is_continuous(layer.kernel(), x)).then(|| ExactEvidence::new(rows.len()))
    }

    fn new(n: usize) -> Self {
        ExactEvidence {
            k: linalg::spread(n, n),
            inverse: linalg::spread(n, n),
            factor: linalg::spread(n, n),
            root: vec![0.0; n],
            solved: vec![0.0; n],
            factorizer: Factorizer::new(n),
            scratch: Scratch::new(),
        }
    }

    /// Returns `J = ½ Σ w_i log 2πσ² + ½ log|B| + ½ cᵀD B⁻¹ D c` with `c = y − o`: minus the log evidence if all weights are 1. It is `None`
    /// if rounding would spoil it.
    pub fn value(&mut self, layer: &InducingLayer, noise: f64, rows: Dataset<'_>) -> Option<f64> {
        let n = rows.len();
        let (kernel, offset) = (layer.kernel(), layer.constant(0)?);
        kernel.eval(Inputs::Gram(inputs(layer, rows)), self.k.as_mut(), &mut self.scratch);
        let (root, factor) = (&mut self.root, &mut self.factor);
        root.iter_mut().enumerate().for_each(|(i, root)| *root = (rows.targets.weight(i) / noise).sqrt());
        for j in 0..n {
            for i in j..n {
                factor[(i, j)] = root[i] * self.k[(i, j)] * root[j];
            }
            let rounding = factor[(j, j)] * f64::EPSILON;
            if rounding.is_nan() || rounding >= ROUNDING {
                return None;
            }
            factor[(j, j)] += 1.0;
        }
        self.factorizer.cholesky_with_inverse(factor.as_mut(), self.inverse.as_mut()).ok()?;
        let log_det = linalg::log_det(factor.as_ref());
        let residuals = rows.targets.y.iter().zip(&*root).map(|(y, root)| root * (y - offset));
        let residuals: Vec<f64> = residuals.collect();
        self.solved.copy_from_slice(&residuals);
        linalg::solve_factored(factor.as_ref(), &mut self.solved);
        let value = 0.5
            * (rows.targets.total_weight() * (TAU * noise).ln() + log_det + dot(&residuals, &self.solved));
        value.is_finite().then_some(value)
    }

    /// Adds the gradient of the last value to that of the layer, and returns the derivative in σ². With `b = B⁻¹ D c` they are
    /// `K̄ = ½ D (B⁻¹ − b bᵀ) D`, `ō = −Σ (D b)_i` and `½ (Σ w_i − n + tr B⁻¹ − bᵀb)/σ²`.
    pub fn gradient(
        &mut self,
        layer: &InducingLayer,
        noise: f64,
        rows: Dataset<'_>,
        gradient: &mut LayerGradient,
    ) -> f64 {
        let ExactEvidence { k, inverse, factor, root, solved, scratch, .. } = self;
        gram_of_inverse(inverse.as_ref(), factor.as_mut());
        let n = rows.len();
        let own = 0.5
            * (rows.targets.total_weight() - n as f64 + trace(factor.as_ref()) - dot(solved, solved))
            / noise;
        for j in 0..n {
            for i in 0..n {
                factor[(i, j)] = 0.5 * root[i] * root[j] * (factor[(i, j)] - solved[i] * solved[j]);
            }
        }
        let target = Gradient { parameters: &mut gradient.kernel, left: None, right: None };
        let inputs = Inputs::Gram(inputs(layer, rows));
        layer.kernel().adjoint(inputs.evaluated(k.as_ref(), factor.as_ref()), target, scratch);
        gradient.mean[0] -= dot(root, solved);
        own
    }

    /// Returns q at the last value: `m = A D b` and `S = (I + A D²Aᵀ)⁻¹ = (RᵀR)⁻¹`, where R is the triangular factor of I above `D Aᵀ`, which
    /// has the square root of the condition number of S.
    pub fn posterior(&mut self, layer: &InducingLayer, rows: Dataset<'_>) -> Option<Normal> {
        let (n, m) = (rows.len(), layer.dim());
        let (mut raw, mut a) = (Mat::zeros(m, n), Mat::zeros(m, n));
        let (mut base, mut offset) = (vec![0.0; n], vec![0.0; n]);
        let x = inputs(layer, rows);
        RawFeatures::features(&**layer, x, raw.as_mut(), &mut base, &mut offset, &mut self.scratch);
        whiten(layer, raw.as_ref(), a.as_mut());
        let scaled: Vec<f64> = self.root.iter().zip(&self.solved).map(|(root, b)| root * b).collect();
        let mut mean = vec![0.0; m];
        linalg::matvec(a.as_ref(), &scaled, &mut mean);
        let stacked = Mat::from_fn(m + n, m, |i, j| match i.checked_sub(m) {
            Some(row) => self.root[row] * a[(j, row)],
            None => f64::from(i == j),
        });
        // The rows of R have any sign.
        let r = qr_factor(stacked);
        let log_det = -2.0 * (0..m).map(|i| r[(i, i)].abs().ln()).sum::<f64>();
        let mut inverse = Mat::identity(m, m);
        solve_upper_triangular_in_place(r.as_ref(), inverse.as_mut(), Par::Seq);
        let cov = &inverse * inverse.transpose();
        log_det.is_finite().then_some(Normal { mean, cov: Matrix::Full(cov), log_det })
    }
}

/// Returns true if equal inputs have equal values of f: inducing inputs say nothing about a kernel's white noise.
fn is_continuous(kernel: &dyn Kernel, x: MatRef<'_, f64>) -> bool {
    let (first, mut scratch) = (x.subrows(0, 1), Scratch::new());
    let [mut within, mut between] = [Mat::zeros(1, 1), Mat::zeros(1, 1)];
    kernel.eval(Inputs::Gram(first), within.as_mut(), &mut scratch);
    kernel.eval(Inputs::Cross { left: first, right: first }, between.as_mut(), &mut scratch);
    (within[(0, 0)] - between[(0, 0)]).abs() <= 1e-9 * within[(0, 0)].abs()
}

/// Returns the columns of the rows that the kernel reads.
fn inputs<'a>(layer: &InducingLayer, rows: Dataset<'a>) -> MatRef<'a, f64> {
    rows.x.subcols(0, layer.z().ncols())
}
