//! Rows of the latent linear model given their neighbours, a block at a time, and their adjoint; no search, no likelihood, no objective.
//!
//! With residual covariances `R = k − aᵀa` and `C = R_NN + σ²I` of a row's neighbours N (full-scale Vecchia approximations: Gyger, Furrer &
//! Sigrist 2025, arXiv 2507.05064),
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
    /// Raw and whitened features, `M × u`, and their adjoints.
    raw: Mat<f64>,
    a: Mat<f64>,
    raw_bar: Mat<f64>,
    a_bar: Mat<f64>,
    /// Of every row, one after the other: prior covariances of its neighbours and itself, the factor of C, both by columns, and b.
    priors: Vec<f64>,
    factors: Vec<f64>,
    weights: Vec<f64>,
    near: Near,
    solved: Vec<f64>,
    base: Vec<f64>,
    scratch: Scratch,
    factorizer: Factorizer,
}

/// One row's neighbours, and it itself as the last: k + 1 members.
struct Near {
    /// Which members of the block.
    places: Vec<u32>,
    /// Their inputs (`D × (k + 1)`), whitened features (`M × (k + 1)`) and the features' adjoint.
    x: Mat<f64>,
    a: Mat<f64>,
    a_bar: Mat<f64>,
    /// Residual covariances, `(k + 1) × (k + 1)`, or their adjoint; lower triangle.
    residual: Mat<f64>,
}

impl Near {
    /// No row's yet.
    fn new() -> Self {
        Near { places: Vec::new(), x: Mat::new(), a: Mat::new(), a_bar: Mat::new(), residual: Mat::new() }
    }

    /// Gathers the neighbours of row `row` out of a block's inputs and whitened features.
    fn gather(&mut self, block: &Block, row: usize, (x, a): (MatRef<'_, f64>, MatRef<'_, f64>)) {
        self.places.clear();
        self.places.extend_from_slice(block.lists.get(row));
        self.places.push(row as u32);
        let count = self.places.len();
        for (all, out) in [(x, &mut self.x), (a, &mut self.a)] {
            let mut out = room(out, all.nrows(), count);
            for (at, &place) in self.places.iter().enumerate() {
                out.as_mut().col_mut(at).copy_from(all.col(place as usize));
            }
        }
    }

    /// The inputs as points, `(k + 1) × D`.
    fn points(&self, dims: usize) -> MatRef<'_, f64> {
        self.x.as_ref().submatrix(0, 0, dims, self.places.len()).transpose()
    }

    /// The whitened features, `M × (k + 1)`.
    fn features(&self, m: usize) -> MatRef<'_, f64> {
        self.a.as_ref().submatrix(0, 0, m, self.places.len())
    }

    /// The lower triangle of `R̄` from `t − D̄ b`, b and D̄: an entry off the diagonal stands for its mirror image too.
    fn residual_bar(&mut self, (solved, b): (&[f64], &[f64]), variance: f64) {
        let k = b.len();
        let mut out = room(&mut self.residual, k + 1, k + 1);
        for q in 0..k {
            out[(q, q)] = -solved[q] * b[q];
            for p in q + 1..k {
                (out[(p, q)], out[(q, p)]) = (-solved[p] * b[q] - solved[q] * b[p], 0.0);
            }
            (out[(k, q)], out[(q, k)]) = (solved[q] - variance * b[q], 0.0);
        }
        out[(k, k)] = variance;
    }

    /// `Ā = −A (R̄ + R̄ᵀ)`, since `R = K − AᵀA`; the mirror image of `R̄` is used up.
    fn features_bar(&mut self, m: usize) {
        let count = self.places.len();
        let mut both = self.residual.as_mut().submatrix_mut(0, 0, count, count);
        for j in 0..count {
            both[(j, j)] *= 2.0;
            for i in j + 1..count {
                both[(j, i)] = both[(i, j)];
            }
        }
        let a = self.a.as_ref().submatrix(0, 0, m, count);
        let out = room(&mut self.a_bar, m, count);
        block_product(out, Accum::Replace, (a, Shape::Full), both.as_ref(), -1.0);
    }
}

/// The columns of a block's members in a buffer of `rows` rows or more.
fn whole<'a>(buffer: &'a Mat<f64>, rows: usize, block: &Block) -> MatRef<'a, f64> {
    buffer.as_ref().submatrix(0, 0, rows, block.members.len())
}

/// Which part of a covariance matrix of k + 1 points is worth computing: one small product is quicker than tiles of half of it.
fn part_for(k: usize) -> Part {
    if k < 64 { Part::All } else { Part::Lower }
}

/// The leading `rows × columns` of a buffer that grows where it has to.
fn room(buffer: &mut Mat<f64>, rows: usize, columns: usize) -> MatMut<'_, f64> {
    if buffer.nrows() < rows || buffer.ncols() < columns {
        *buffer = Mat::zeros(rows.max(buffer.nrows()), columns.max(buffer.ncols()));
    }
    buffer.as_mut().submatrix_mut(0, 0, rows, columns)
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
            raw_bar: empty(),
            a_bar: empty(),
            priors: Vec::new(),
            factors: Vec::new(),
            weights: Vec::new(),
            near: Near::new(),
            solved: Vec::new(),
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
        self.members(layer, source, block);
        let (m, d) = (layer.dim(), source.x.ncols());
        let of_members = (whole(&self.x, d, block), whole(&self.a, m, block));
        [&mut self.priors, &mut self.factors, &mut self.weights].into_iter().for_each(Vec::clear);
        for i in 0..block.count {
            self.near.gather(block, i, of_members);
            let k = self.near.places.len() - 1;
            let (at, start) = (self.priors.len(), self.weights.len());
            self.priors.resize(at + (k + 1) * (k + 1), 0.0);
            let mut prior = MatMut::from_column_major_slice_mut(&mut self.priors[at..], k + 1, k + 1);
            layer.kernel().eval(Inputs::Gram(self.near.points(d)), prior.as_mut(), &mut self.scratch);
            let mut residual = room(&mut self.near.residual, k + 1, k + 1);
            residual.copy_from(prior.as_ref());
            let a = self.near.a.as_ref().submatrix(0, 0, m, k + 1);
            let (left, right) = ((a.transpose(), Shape::Full), (a, Shape::Full));
            product(residual.as_mut(), part_for(k), Accum::Add, left, right, -1.0);
            let residual = residual.as_ref();
            let cross = residual.row(k).subcols(0, k);

            let at = self.factors.len();
            self.factors.resize(at + k * k, 0.0);
            let mut factor = MatMut::from_column_major_slice_mut(&mut self.factors[at..], k, k);
            linalg::copy_lower(residual.submatrix(0, 0, k, k), factor.as_mut());
            linalg::add_diagonal(factor.as_mut(), noise);
            self.weights.extend(cross.iter());
            let weights = &mut self.weights[start..];
            rows.variance[i] = f64::NAN;
            if k == 0 || self.factorizer.cholesky(factor.as_mut()).is_ok() {
                linalg::solve_factored(factor.as_ref(), weights);
                let explained: f64 = cross.iter().zip(weights.iter()).map(|(r, b)| r * b).sum();
                rows.variance[i] = residual[(k, k)] + noise - explained;
            }
            let mut feature = rows.features.as_mut().col_mut(i);
            feature.copy_from(a.col(k));
            rows.centred[i] = self.c[i];
            for (q, (&place, weight)) in self.near.places.iter().zip(weights.iter()).enumerate() {
                feature.as_mut().iter_mut().zip(a.col(q).iter()).for_each(|(f, a)| *f -= weight * a);
                rows.centred[i] -= weight * self.c[place as usize];
            }
        }
    }

    /// Inputs, features and centred targets of a block's members.
    fn members(&mut self, layer: &InducingLayer, source: Source<'_>, block: &Block) {
        let (m, u, d) = (layer.dim(), block.members.len(), source.x.ncols());
        let new = if source.queries.is_some() { block.count } else { 0 };
        let mut inputs = room(&mut self.x, d, u);
        for (at, &member) in block.members.iter().enumerate() {
            let rows = source.queries.filter(|_| at < new).unwrap_or(source.x);
            inputs.as_mut().col_mut(at).copy_from(rows.row(member as usize).transpose());
        }
        self.base.resize(u, 0.0);
        self.c.resize(u, 0.0);
        let mut raw = room(&mut self.raw, m, u);
        let inputs = inputs.as_ref().transpose();
        layer.features(inputs, raw.as_mut(), &mut self.base, &mut self.c, &mut self.scratch);
        self.c[..new].fill(0.0);
        let members = self.c.iter_mut().zip(&block.members).skip(new);
        members.for_each(|(c, &member)| *c = source.y[member as usize] - *c);
        whiten(layer, raw.as_ref(), room(&mut self.a, m, u));
    }

    /// Adds what flows back from the block that was conditioned last: to the layer's gradient through features and covariances, to σ² (the
    /// return value), and into the two matrices (`M × u` each) the whitened features and their adjoint, whose product
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
        let of_members = (whole(&self.x, d, block), whole(&self.a, m, block));
        let mut a_bar = room(&mut self.a_bar, m, u);
        a_bar.fill(0.0);
        let (mut noise_bar, mut offset_bar) = (0.0, 0.0);
        let (mut priors, mut factors, mut weights) = (&self.priors[..], &self.factors[..], &self.weights[..]);
        for i in 0..block.count {
            self.near.gather(block, i, of_members);
            let k = self.near.places.len() - 1;
            let (prior, factor, b);
            (prior, priors) = priors.split_at((k + 1) * (k + 1));
            (factor, factors) = factors.split_at(k * k);
            (b, weights) = weights.split_at(k);
            let (feature, centred, variance) = (bar.features.col(i), bar.centred[i], bar.variance[i]);
            // t − D̄ b.
            let solved = &mut self.solved;
            let (a, c) = (self.near.features(m), &self.c);
            solved.clear();
            solved.extend(block.lists.get(i).iter().enumerate().map(|(q, &place)| {
                let product: f64 = feature.iter().zip(a.col(q).iter()).map(|(f, a)| f * a).sum();
                -product - centred * c[place as usize]
            }));
            linalg::solve_factored(MatRef::from_column_major_slice(factor, k, k), solved);
            solved.iter_mut().zip(b).for_each(|(t, b)| *t -= variance * b);
            noise_bar += variance - linalg::dot(solved, b);
            offset_bar -= centred * (1.0 - b.iter().sum::<f64>());
            self.near.residual_bar((solved, b), variance);
            let residual_bar = self.near.residual.as_ref().submatrix(0, 0, k + 1, k + 1);
            let target = Gradient { parameters: &mut gradient.kernel, left: None, right: None };
            let prior = MatRef::from_column_major_slice(prior, k + 1, k + 1);
            let points = Inputs::Gram(self.near.points(d));
            layer.kernel().adjoint(points, prior, residual_bar, target, &mut self.scratch);
            self.near.features_bar(m);
            let near_bar = self.near.a_bar.as_ref().submatrix(0, 0, m, k + 1);
            for (q, (&place, weight)) in
                self.near.places.iter().zip(b.iter().map(|b| -b).chain([1.0])).enumerate()
            {
                let column = a_bar.as_mut().col_mut(place as usize);
                let terms = near_bar.col(q).iter().zip(feature.iter());
                column.iter_mut().zip(terms).for_each(|(a, (near, f))| *a += near + weight * f);
            }
        }
        a_out.copy_from(of_members.1);
        a_bar_out.copy_from(a_bar.as_ref());
        let mut raw_bar = room(&mut self.raw_bar, m, u);
        whiten_adjoint(layer, a_bar.as_ref(), raw_bar.as_mut());
        self.base.fill(0.0);
        let features = (whole(&self.raw, m, block), raw_bar.as_ref());
        let inputs = of_members.0.transpose();
        layer.features_adjoint(inputs, features, &self.base, &[offset_bar], gradient, &mut self.scratch);
        noise_bar
    }
}
