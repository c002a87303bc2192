//! Rows of the latent linear model given their neighbours, a block at a time, and their adjoint; no search, no likelihood, no objective.
//!
//! With residual covariances `R = k − aᵀa` and `C = R_NN + σ²I` of a row's neighbours N (MATH of full-scale Vecchia approximations: Gyger,
//! Furrer & Sigrist 2025, arXiv 2507.05064),
//!
//! ```text
//! b = C⁻¹ R_Ni,   D = R_ii + σ² − R_iN b,   ã = a_i − Σ_j b_j a_j,   c̃ = c_i − Σ_j b_j c_j,   c = y − o
//! y_i | y_N, w ~ N( y_i − c̃ + ãᵀw, D )
//! ```
//!
//! and from `ã̄, c̃̄, D̄`, with `t = C⁻¹ b̄`, `b̄_j = −ã̄ᵀa_j − c̃̄ c_j`:
//!
//! ```text
//! R̄_Ni = t − 2 D̄ b,   R̄_NN = −(t − D̄ b) bᵀ,   R̄_ii = D̄,   σ̄² = D̄ − (t − D̄ b)ᵀ b,   ā_j −= b_j ã̄,   c̄_j −= b_j c̃̄
//! ```

use super::blocks::Block;
use crate::latent::{InducingLayer, LatentLayer, LayerGradient, whiten, whiten_adjoint};
use crate::linalg::{self, Factorizer, Part, Shape, block_product, product};
use faer::{Accum, Mat, MatMut, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Scratch};

/// Rows that have been conditioned on their neighbours: a linear model with a noise variance of its own for each row.
pub struct Rows<'a> {
    /// `ã`, `M × b`.
    pub features: MatMut<'a, f64>,
    /// `c̃`, b.
    pub centred: &'a mut [f64],
    /// D, b; NaN for a row whose neighbours' covariance matrix is not positive definite.
    pub variance: &'a mut [f64],
}

/// Derivatives of an objective with respect to [`Rows`].
pub struct RowsBar<'a> {
    /// `∂F/∂ã`, `M × b`.
    pub features: MatRef<'a, f64>,
    /// `∂F/∂c̃`, b.
    pub centred: &'a [f64],
    /// `∂F/∂D`, b.
    pub variance: &'a [f64],
}

/// Where the members of blocks come from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Inputs of the data, `n × D`.
    pub x: MatRef<'a, f64>,
    /// Targets of the data, n.
    pub y: &'a [f64],
    /// The rows of blocks (`Q × D`), whose targets are not known, where they are none of the data; their c is 0.
    pub queries: Option<MatRef<'a, f64>>,
}

/// What a block is computed in: buffers that grow to the largest block and stay.
pub struct Conditionals {
    /// The members' inputs, `u × D`, kept by rows.
    x: Mat<f64>,
    c: Vec<f64>,
    /// Raw and whitened features, `M × u`, and their adjoint.
    raw: Mat<f64>,
    a: Mat<f64>,
    a_bar: Mat<f64>,
    /// Prior and residual covariances, `u × u`, lower triangles.
    prior: Mat<f64>,
    residual: Mat<f64>,
    residual_bar: Mat<f64>,
    /// b of every row, one after the other, and the factors of C, each by columns.
    weights: Vec<f64>,
    factors: Vec<f64>,
    spare: [Vec<f64>; 2],
    base: Vec<f64>,
    scratch: Scratch,
    factorizer: Factorizer,
}

/// The leading `rows × columns` of a buffer that grows where it has to.
fn room(buffer: &mut Mat<f64>, rows: usize, columns: usize) -> MatMut<'_, f64> {
    if buffer.nrows() < rows || buffer.ncols() < columns {
        *buffer = Mat::zeros(rows.max(buffer.nrows()), columns.max(buffer.ncols()));
    }
    buffer.as_mut().submatrix_mut(0, 0, rows, columns)
}

/// The entry of a symmetric matrix whose lower triangle is stored.
fn entry(a: MatRef<'_, f64>, i: usize, j: usize) -> f64 {
    a[(i.max(j), i.min(j))]
}

impl Conditionals {
    /// Buffers for lists of up to `k` neighbours.
    pub fn new(k: usize) -> Self {
        let empty = Mat::new;
        Conditionals {
            x: empty(),
            c: Vec::new(),
            raw: empty(),
            a: empty(),
            a_bar: empty(),
            prior: empty(),
            residual: empty(),
            residual_bar: empty(),
            weights: Vec::new(),
            factors: Vec::new(),
            spare: Default::default(),
            base: Vec::new(),
            scratch: Scratch::new(),
            factorizer: Factorizer::new(k),
        }
    }

    /// Conditions the rows of a block on their neighbours.
    pub fn forward(
        &mut self,
        layer: &InducingLayer,
        source: Source<'_>,
        block: &Block,
        noise: f64,
        rows: &mut Rows<'_>,
    ) {
        self.covariances(layer, source, block);
        let (residual, a) = (self.residual.as_ref(), self.a.as_ref());
        self.weights.clear();
        self.factors.clear();
        for i in 0..block.count {
            let list = block.lists.get(i);
            let (k, at) = (list.len(), self.factors.len());
            self.factors.resize(at + k * k, 0.0);
            let mut c = MatMut::from_column_major_slice_mut(&mut self.factors[at..], k, k);
            for (q, &column) in list.iter().enumerate() {
                for (p, &row) in list.iter().enumerate().skip(q) {
                    c[(p, q)] = entry(residual, row as usize, column as usize);
                }
                c[(q, q)] += noise;
            }
            let start = self.weights.len();
            self.weights.extend(list.iter().map(|&j| entry(residual, i, j as usize)));
            let cross = &mut self.spare[0];
            cross.clear();
            cross.extend_from_slice(&self.weights[start..]);
            rows.variance[i] = f64::NAN;
            let weights = &mut self.weights[start..];
            if k == 0 || self.factorizer.cholesky(c.as_mut()).is_ok() {
                linalg::solve_factored(c.as_ref(), weights);
                rows.variance[i] = entry(residual, i, i) + noise - linalg::dot(cross, weights);
            }
            let mut feature = rows.features.as_mut().col_mut(i);
            feature.copy_from(a.col(i).subrows(0, layer.dim()));
            rows.centred[i] = self.c[i];
            for (&j, &weight) in list.iter().zip(weights.iter()) {
                let other = a.col(j as usize);
                feature.as_mut().iter_mut().zip(other.iter()).for_each(|(f, a)| *f -= weight * a);
                rows.centred[i] -= weight * self.c[j as usize];
            }
        }
    }

    /// Features, prior and residual covariances of a block's members.
    fn covariances(&mut self, layer: &InducingLayer, source: Source<'_>, block: &Block) {
        let (m, u, d) = (layer.dim(), block.members.len(), source.x.ncols());
        let new = if source.queries.is_some() { block.count } else { 0 };
        let mut inputs = room(&mut self.x, d, u);
        for (at, &member) in block.members.iter().enumerate() {
            let rows = source.queries.filter(|_| at < new).unwrap_or(source.x);
            inputs.as_mut().col_mut(at).copy_from(rows.row(member as usize).transpose());
        }
        let inputs = inputs.as_ref().transpose();
        self.base.resize(u, 0.0);
        self.c.resize(u, 0.0);
        let mut raw = room(&mut self.raw, m, u);
        layer.features(inputs, raw.as_mut(), &mut self.base, &mut self.c, &mut self.scratch);
        self.c[..new].fill(0.0);
        let members = self.c.iter_mut().zip(&block.members).skip(new);
        members.for_each(|(c, &member)| *c = source.y[member as usize] - *c);
        let mut a = room(&mut self.a, m, u);
        whiten(layer, raw.as_ref(), a.as_mut());
        let mut prior = room(&mut self.prior, u, u);
        layer.kernel().eval(Inputs::Gram(inputs), prior.as_mut(), &mut self.scratch);
        let mut residual = room(&mut self.residual, u, u);
        residual.copy_from(prior.as_ref());
        let (left, right) = ((a.as_ref().transpose(), Shape::Full), (a.as_ref(), Shape::Full));
        product(residual, Part::Lower, Accum::Add, left, right, -1.0);
    }

    /// Adds what flows back from the block that was conditioned last: to the layer's gradient through features and covariances, to σ² (the
    /// return value), and into `whitening` (`M × u` each) the adjoint of the whitened features and these, whose product
    /// `Ā Aᵀ` is what flows through the whitening.
    pub fn adjoint(
        &mut self,
        layer: &InducingLayer,
        block: &Block,
        bar: &RowsBar<'_>,
        gradient: &mut LayerGradient,
        [mut a_out, mut a_bar_out]: [MatMut<'_, f64>; 2],
    ) -> f64 {
        let (m, u, d) = (layer.dim(), block.members.len(), layer.z().ncols());
        let a = self.a.as_ref().submatrix(0, 0, m, u);
        let mut a_bar = room(&mut self.a_bar, m, u);
        a_bar.fill(0.0);
        let mut residual_bar = room(&mut self.residual_bar, u, u);
        residual_bar.fill(0.0);
        let (mut noise_bar, mut offset_bar, mut at, mut start) = (0.0, 0.0, 0, 0);
        let [solved, _] = &mut self.spare;
        for i in 0..block.count {
            let list = block.lists.get(i);
            let k = list.len();
            let c = MatRef::from_column_major_slice(&self.factors[at..at + k * k], k, k);
            let weights = &self.weights[start..start + k];
            (at, start) = (at + k * k, start + k);
            let (feature, centred, variance) = (bar.features.col(i), bar.centred[i], bar.variance[i]);
            solved.clear();
            solved.extend(list.iter().map(|&j| {
                let dot: f64 = feature.iter().zip(a.col(j as usize).iter()).map(|(f, a)| f * a).sum();
                -dot - centred * self.c[j as usize]
            }));
            linalg::solve_factored(c, solved);
            // From here on `solved` is t − D̄ b.
            solved.iter_mut().zip(weights).for_each(|(t, b)| *t -= variance * b);
            noise_bar += variance - linalg::dot(solved, weights);
            offset_bar -= centred;
            residual_bar[(i, i)] += variance;
            a_bar.as_mut().col_mut(i).iter_mut().zip(feature.iter()).for_each(|(a, f)| *a += f);
            for (q, (&j, &b)) in list.iter().zip(weights).enumerate() {
                let j = j as usize;
                residual_bar[(i.max(j), i.min(j))] += solved[q] - variance * b;
                for (&l, s) in list.iter().zip(solved.iter()) {
                    let l = l as usize;
                    residual_bar[(l.max(j), l.min(j))] -= s * b;
                }
                a_bar.as_mut().col_mut(j).iter_mut().zip(feature.iter()).for_each(|(a, f)| *a -= b * f);
                offset_bar += b * centred;
            }
        }
        let inputs = self.x.as_ref().submatrix(0, 0, d, u).transpose();
        let prior = self.prior.as_ref().submatrix(0, 0, u, u);
        let target = Gradient { parameters: &mut gradient.kernel, left: None, right: None };
        let pair = (prior, residual_bar.as_ref());
        layer.kernel().adjoint(Inputs::Gram(inputs), pair.0, pair.1, target, &mut self.scratch);
        // R = K − AᵀA: Ā −= A (R̄ + R̄ᵀ), of which the lower triangle holds everything off the diagonal once.
        symmetric(residual_bar.as_mut());
        block_product(a_bar.as_mut(), Accum::Add, (a, Shape::Full), residual_bar.as_ref(), -1.0);
        a_out.copy_from(a);
        a_bar_out.copy_from(a_bar.as_ref());
        let mut raw_bar = room(&mut self.residual, m, u);
        whiten_adjoint(layer, a_bar.as_ref(), raw_bar.as_mut());
        self.base.fill(0.0);
        let raw = self.raw.as_ref().submatrix(0, 0, m, u);
        let features = (raw, raw_bar.as_ref());
        layer.features_adjoint(inputs, features, &self.base, &[offset_bar], gradient, &mut self.scratch);
        noise_bar
    }
}

/// `a + aᵀ` of a lower triangular matrix.
fn symmetric(mut a: MatMut<'_, f64>) {
    for j in 0..a.ncols() {
        a[(j, j)] *= 2.0;
        for i in j + 1..a.nrows() {
            a[(j, i)] = a[(i, j)];
        }
    }
}
