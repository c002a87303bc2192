//! An upper bound on the log evidence from the whole kernel matrix, a few columns at a time.

use super::Dataset;
use super::bounds::shrunk_inverse;
use crate::columns;
use crate::latent::{InducingLayer, RawFeatures, whiten};
use crate::linalg::{self, NotPositiveDefinite, Operand, Part, block_product, dot, product, reflect_lower};
use crate::parallel::*;
use faer::{Accum, Mat, MatMut, MatRef};
use sparsegp_kernels::{Inputs, Kernel, Scratch};
use std::f64::consts::PI;

/// The number of columns of the kernel matrix that one thread holds at a time.
const BLOCK: usize = 64;

/// The number of columns whose products are kept at a time.
const WINDOW: usize = 2048;

/// Conjugate gradients end when the remaining gain is at most this share of the gap that they
/// cannot close.
const OPEN_SHARE: f64 = 0.1;

/// The most iterations of conjugate gradients: with `Q + σ²I` as preconditioner the first few do nearly everything.
const ITERATIONS: usize = 30;

/// Returns an upper bound on `log N(c; 0, K + σ²I)` (a sum) that uses the whole `n × n` matrix K,
/// in O(n²M) time and O(nM) memory. It is far below the bound of `super::upper_bound` unless the
/// inducing inputs Z explain nearly all of the variance.
///
/// With `Q = AᵀA`, `R = K − Q ⪰ 0`, `P = (Q + σ²I)⁻¹` and `E = P^½ R P^½`:
///
/// - The determinant: `log|K + σ²I| = log|Q + σ²I| + Σ log(1 + λ_i(E))`. As `log(1 + λ)/λ` is convex, its mean under the weights
///   `λ_i / tr E` is at least its value at the mean `μ = ‖E‖_F² / tr E` (Jensen), so `Σ log(1 + λ_i) ≥ tr E · log(1 + μ)/μ`.
/// - The quadratic form: `cᵀ(K + σ²I)⁻¹c ≥ 2xᵀc − xᵀ(K + σ²I)x` for every x; preconditioned
///   conjugate gradients raise it until the remaining gain is at most `slack` nats in total, or at
///   most a tenth of the gap to the collapsed lower bound that comes from the determinant (Artemev,
///   Burt & van der Wilk 2021).
///
/// The data must have no sample weights; inputs are on the scale that the layer sees.
///
/// # Errors
///
/// When `I + AAᵀ/σ²` has no Cholesky factor.
pub fn dense_upper_bound(
    layer: &InducingLayer,
    data: Dataset<'_>,
    noise: f64,
    slack: f64,
) -> Result<f64, NotPositiveDefinite> {
    let nystrom = Nystrom::new(layer, data, noise)?;
    let start = nystrom.solve(&nystrom.c);
    let rest = nystrom.look_at_rest(&start);
    let gain = rest.log_det_gain(&nystrom);
    // The lower bound has the term tr R/σ² instead of this bound's gain; iterations cannot close
    // that gap.
    let open = nystrom.residual.iter().sum::<f64>() / noise - gain;
    let quadratic = nystrom.quadratic(start, &rest.product, (2.0 * slack).max(OPEN_SHARE * open));
    Ok(-0.5 * (data.len() as f64 * (2.0 * PI).ln() + nystrom.log_det + gain + quadratic))
}

/// Everything that is needed to solve with `Q + σ²I`, and the kernel of K.
struct Nystrom<'a> {
    kernel: &'a dyn Kernel,
    /// Inputs, a row per datum.
    x: MatRef<'a, f64>,
    noise: f64,
    /// `M × n`.
    a: Mat<f64>,
    c: Vec<f64>,
    /// The diagonals of K and R.
    diagonal: Vec<f64>,
    residual: Vec<f64>,
    /// `(I + AAᵀ/σ²)⁻¹`.
    inverse: Mat<f64>,
    /// `log|Q + σ²I|`.
    log_det: f64,
}

/// The products of one pass over `R`.
struct Rest {
    /// `R x` for the given x.
    product: Vec<f64>,
    /// `‖R‖_F²`.
    squares: f64,
    /// `A R Aᵀ`.
    inner: Mat<f64>,
    /// `A R R Aᵀ`.
    outer: Mat<f64>,
}

impl<'a> Nystrom<'a> {
    fn new(layer: &'a InducingLayer, data: Dataset<'a>, noise: f64) -> Result<Self, NotPositiveDefinite> {
        let (m, n) = (layer.dim(), data.len());
        let mut a = Mat::zeros(m, n);
        let (mut c, mut diagonal, mut residual) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let targets = c.par_chunks_mut(BLOCK).zip(diagonal.par_chunks_mut(BLOCK));
        let blocks = targets.zip(residual.par_chunks_mut(BLOCK)).zip(columns::col_chunks(a.as_mut(), BLOCK));
        blocks.enumerate().for_each_init(
            Scratch::new,
            |scratch, (block, (((c, diagonal), residual), mut a))| {
                let part = data.part(block * BLOCK, c.len());
                let mut k = Mat::zeros(m, c.len());
                layer.features(part.x, k.as_mut(), diagonal, c, scratch);
                c.iter_mut().zip(part.targets.y).for_each(|(c, y)| *c = y - *c);
                whiten(layer, k.as_ref(), a.as_mut());
                columns::add_column_dots(a.as_ref(), a.as_ref(), residual);
                residual.iter_mut().zip(diagonal).for_each(|(r, k)| *r = (*k - *r).max(0.0));
            },
        );
        let mut gram = Mat::zeros(m, m);
        let right = Operand::full(a.transpose());
        product(gram.as_mut(), Part::Lower, Accum::Replace, Operand::full(a.as_ref()), right, 1.0);
        reflect_lower(gram.as_mut());
        let (inverse, log_det) = shrunk_inverse(gram.as_ref(), noise)?;
        let log_det = log_det + n as f64 * noise.ln();
        let (kernel, x) = (layer.kernel(), data.x);
        Ok(Nystrom { kernel, x, noise, a, c, diagonal, residual, inverse, log_det })
    }

    fn len(&self) -> usize {
        self.c.len()
    }

    /// `P x = (x − Aᵀ (I + AAᵀ/σ²)⁻¹ A x / σ²) / σ²`.
    fn solve(&self, x: &[f64]) -> Vec<f64> {
        let m = self.a.nrows();
        let (mut ax, mut weights) = (vec![0.0; m], vec![0.0; m]);
        columns::add_matvec(self.a.as_ref(), x, &mut ax);
        linalg::matvec(self.inverse.as_ref(), &ax, &mut weights);
        let mut explained = vec![0.0; x.len()];
        columns::add_transposed_matvec(self.a.as_ref(), &weights, &mut explained);
        x.iter().zip(explained).map(|(x, e)| (x - e / self.noise) / self.noise).collect()
    }

    /// Writes the b columns of K that start at `from` into `k` (`n × b`).
    fn kernel_columns(&self, from: usize, mut k: MatMut<'_, f64>, scratch: &mut Scratch) {
        let right = self.x.subrows(from, k.ncols());
        self.kernel.eval(Inputs::Cross { left: self.x, right }, k.as_mut(), scratch);
        // A cross-covariance treats equal points as different, which matters for white noise.
        for j in 0..k.ncols() {
            k[(from + j, j)] = self.diagonal[from + j];
        }
    }

    /// `(K + σ²I) x`.
    fn multiply(&self, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.len()];
        out.par_chunks_mut(BLOCK).enumerate().for_each_init(Scratch::new, |scratch, (block, out)| {
            let mut k = Mat::zeros(self.len(), out.len());
            self.kernel_columns(block * BLOCK, k.as_mut(), scratch);
            columns::add_transposed_matvec(k.as_ref(), x, out);
        });
        out.iter_mut().zip(x).for_each(|(out, x)| *out += self.noise * x);
        out
    }

    /// Makes one pass over all columns of `R`.
    fn look_at_rest(&self, x: &[f64]) -> Rest {
        let (m, n) = self.a.shape();
        let mut rest =
            Rest { product: vec![0.0; n], squares: 0.0, inner: Mat::zeros(m, m), outer: Mat::zeros(m, m) };
        let mut window = Mat::<f64>::zeros(m, WINDOW.min(n));
        for from in (0..n).step_by(WINDOW) {
            let b = WINDOW.min(n - from);
            let mut products = window.as_mut().subcols_mut(0, b);
            let columns = columns::col_chunks(products.as_mut(), BLOCK);
            let blocks = rest.product[from..from + b].par_chunks_mut(BLOCK).zip(columns).enumerate();
            let squares: Vec<f64> = blocks
                .map_init(Scratch::new, |scratch, (block, (rx, ar))| {
                    self.look_at_columns(from + block * BLOCK, x, ar, rx, scratch)
                })
                .collect();
            rest.squares += squares.iter().sum::<f64>();
            let products = Operand::full(window.as_ref().subcols(0, b));
            let features = Operand::full(self.a.as_ref().subcols(from, b).transpose());
            let transposed = Operand::full(products.matrix.transpose());
            product(rest.inner.as_mut(), Part::Lower, Accum::Add, products, features, 1.0);
            product(rest.outer.as_mut(), Part::Lower, Accum::Add, products, transposed, 1.0);
        }
        reflect_lower(rest.inner.as_mut());
        reflect_lower(rest.outer.as_mut());
        rest
    }

    /// Computes `A R` and `R x` for the columns of `R` from `from` on, and returns the sum of the
    /// squares of these columns.
    fn look_at_columns(
        &self,
        from: usize,
        x: &[f64],
        ar: MatMut<'_, f64>,
        rx: &mut [f64],
        scratch: &mut Scratch,
    ) -> f64 {
        let b = ar.ncols();
        let mut r = Mat::zeros(self.len(), b);
        self.kernel_columns(from, r.as_mut(), scratch);
        let a = self.a.as_ref();
        block_product(r.as_mut(), Accum::Add, Operand::full(a.transpose()), a.subcols(from, b), -1.0);
        for j in 0..b {
            r[(from + j, j)] = self.residual[from + j];
        }
        block_product(ar, Accum::Replace, Operand::full(a), r.as_ref(), 1.0);
        columns::add_transposed_matvec(r.as_ref(), x, rx);
        let mut squares = vec![0.0; b];
        columns::add_column_dots(r.as_ref(), r.as_ref(), &mut squares);
        squares.iter().sum()
    }

    /// Returns a lower bound on `cᵀ(K + σ²I)⁻¹c` that is too low by at most `slack`, unless the
    /// iterations run out. It uses conjugate gradients from `x = Pc`, where `(K + σ²I)x = c + Rx`.
    fn quadratic(&self, mut x: Vec<f64>, rx: &[f64], slack: f64) -> f64 {
        let mut left: Vec<f64> = rx.iter().map(|r| -r).collect();
        let mut solved = self.solve(&left);
        // The most that can still be gained: leftᵀ(K + σ²I)⁻¹left ≤ leftᵀ P left, since K ⪰ Q.
        let mut gain = dot(&left, &solved);
        let mut direction = solved.clone();
        for _ in 0..ITERATIONS {
            if gain.is_nan() || gain <= slack {
                break;
            }
            let image = self.multiply(&direction);
            let step = gain / dot(&direction, &image);
            x.iter_mut().zip(&direction).for_each(|(x, d)| *x += step * d);
            left.iter_mut().zip(&image).for_each(|(l, i)| *l -= step * i);
            solved = self.solve(&left);
            let next = dot(&left, &solved);
            direction.iter_mut().zip(&solved).for_each(|(d, s)| *d = s + next / gain * *d);
            gain = next;
        }
        // 2xᵀc − xᵀ(K + σ²I)x with (K + σ²I)x = c − left.
        dot(&x, &self.c) + dot(&x, &left)
    }
}

impl Rest {
    /// A lower bound on `log|K + σ²I| − log|Q + σ²I|`.
    ///
    /// With `B = I + AAᵀ/σ²` and `P = (I − AᵀB⁻¹A/σ²)/σ²`: `tr E = tr(PR) = (tr R − tr(B⁻¹ARAᵀ)/σ²)/σ²` and
    /// `‖E‖_F² = tr(PRPR) = (‖R‖_F² − 2 tr(B⁻¹ARRAᵀ)/σ² + tr(B⁻¹ARAᵀB⁻¹ARAᵀ)/σ⁴)/σ⁴`.
    fn log_det_gain(&self, nystrom: &Nystrom<'_>) -> f64 {
        let (noise, inverse) = (nystrom.noise, &nystrom.inverse);
        let traced = |x: &Mat<f64>| (0..x.ncols()).map(|j| dot_columns(inverse, x, j)).sum::<f64>();
        let total: f64 = nystrom.residual.iter().sum();
        let trace = (total - traced(&self.inner) / noise) / noise;
        let m = inverse.nrows();
        let mut mixed = Mat::zeros(m, m);
        let (left, right) = (Operand::full(inverse.as_ref()), Operand::full(self.inner.as_ref()));
        product(mixed.as_mut(), Part::All, Accum::Replace, left, right, 1.0);
        let mixed_square: f64 =
            (0..m).map(|j| (0..m).map(|i| mixed[(i, j)] * mixed[(j, i)]).sum::<f64>()).sum();
        let squares = self.squares - 2.0 * traced(&self.outer) / noise + mixed_square / (noise * noise);
        // Rounding may take the sum of squares below its minimum for n eigenvalues with this sum.
        let squares = (squares / (noise * noise)).max(trace * trace / nystrom.len() as f64);
        let mean = squares / trace;
        if trace > 0.0 && mean > 0.0 { trace * mean.ln_1p() / mean } else { 0.0 }
    }
}

/// The inner product of column `j` of two symmetric matrices.
fn dot_columns(a: &Mat<f64>, b: &Mat<f64>, j: usize) -> f64 {
    dot(a.col_as_slice(j), b.col_as_slice(j))
}
