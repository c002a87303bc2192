//! Rows of the latent linear model given their neighbours, a block at a time, and their adjoint; no search, no likelihood, no objective.
//!
//! With residual covariances `R = k − aᵀa` and `C = R_NN + diag(σ²_N)` of a row's neighbours N (full-scale Vecchia approximations: Gyger, Furrer &
//! Sigrist 2025, arXiv 2507.05064),
//!
//! ```text
//! b = C⁻¹ R_Ni,   D = R_ii + σ²_i − R_iN b,   ã = a_i − Σ_j b_j a_j,   c̃ = c_i − Σ_j b_j c_j,   c = y − o
//! y_i | y_N, w ~ N( y_i − c̃ + ãᵀw, D )
//! ```
//!
//! and from `ã̄, c̃̄, D̄`, with `t = C⁻¹ b̄`, `b̄_j = −ã̄ᵀa_j − c̃̄ c_j`:
//!
//! ```text
//! R̄_Ni = t − 2 D̄ b,   R̄_NN = −(t − D̄ b) bᵀ,   R̄_ii = D̄,   Σ σ̄² = D̄ − (t − D̄ b)ᵀ b,   ā_j −= b_j ã̄,   c̄_j −= b_j c̃̄
//! ```

use super::blocks::Block;
use super::members::{Members, room};
use crate::columns;
use crate::linalg::{self, Factorizer, Part, Shape, block_product, product};
use faer::{Accum, Mat, MatMut, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Kernel, Scratch};

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

/// What flows back from rows to the parameters of their prior, but for what takes the way through features.
pub struct PriorBar<'a> {
    /// One entry per kernel parameter value.
    pub kernel: &'a mut [f64],
    /// The constant mean.
    pub mean: &'a mut f64,
    /// A common addition to all noise variances.
    pub noise: &'a mut f64,
}

/// What a block is computed in: buffers that grow to the largest block and stay.
pub struct Conditionals {
    /// Of every row, one after the other: prior covariances of its neighbours and itself, the factor of C, both by columns, and b.
    priors: Vec<f64>,
    factors: Vec<f64>,
    weights: Vec<f64>,
    near: Near,
    solved: Vec<f64>,
    scratch: Scratch,
    factorizer: Factorizer,
}

/// One row's neighbours, and it itself as the last: k + 1 members.
struct Near {
    /// Which members of the window.
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
        let empty = Mat::new;
        Near { places: Vec::new(), x: empty(), a: empty(), a_bar: empty(), residual: empty() }
    }

    /// Gathers the neighbours of row `row` of a block.
    fn gather(&mut self, block: &Block, row: usize, members: &Members) {
        self.places.clear();
        let of = |&place: &u32| block.members[place as usize];
        self.places.extend(block.lists.get(row).iter().map(of));
        self.places.push(block.members[row]);
        for (all, out) in [(members.x(), &mut self.x), (members.a(), &mut self.a)] {
            columns::gather(all, &self.places, room(out, all.nrows(), self.places.len()));
        }
    }

    /// The inputs as points, `(k + 1) × D`.
    fn points(&self) -> MatRef<'_, f64> {
        self.x.as_ref().subcols(0, self.places.len()).transpose()
    }

    /// The whitened features of the neighbours, `M × k`, and of the row.
    fn features(&self) -> (MatRef<'_, f64>, MatRef<'_, f64>) {
        self.a.as_ref().subcols(0, self.places.len()).split_at_col(self.places.len() - 1)
    }

    /// The lower triangle of `R̄` from `t − D̄ b`, b and D̄: an entry off the diagonal stands for its mirror image too.
    fn residual_bar(&mut self, (solved, b): (&[f64], &[f64]), variance: f64) {
        let k = b.len();
        let mut out = room(&mut self.residual, k + 1, k + 1).subrows_mut(0, k + 1);
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
    fn features_bar(&mut self) {
        let count = self.places.len();
        let mut both = self.residual.as_mut().subcols_mut(0, count);
        for j in 0..count {
            both[(j, j)] *= 2.0;
            for i in j + 1..count {
                both[(j, i)] = both[(i, j)];
            }
        }
        let a = self.a.as_ref().subcols(0, count);
        let out = room(&mut self.a_bar, a.nrows(), count);
        block_product(out, Accum::Replace, (a, Shape::Full), both.as_ref(), -1.0);
    }
}

/// Which part of a covariance matrix of k + 1 points is worth computing: one small product is quicker than tiles of half of it.
fn part_for(k: usize) -> Part {
    if k < 64 { Part::All } else { Part::Lower }
}

impl Conditionals {
    /// Buffers for lists of up to `k` neighbours.
    pub fn new(k: usize) -> Self {
        Conditionals {
            priors: Vec::new(),
            factors: Vec::new(),
            weights: Vec::new(),
            near: Near::new(),
            solved: Vec::new(),
            scratch: Scratch::new(),
            factorizer: Factorizer::new(k),
        }
    }

    /// Conditions the rows of a block on their neighbours.
    pub fn forward(&mut self, kernel: &dyn Kernel, members: &Members, block: &Block, rows: &mut Rows<'_>) {
        [&mut self.priors, &mut self.factors, &mut self.weights].into_iter().for_each(Vec::clear);
        for i in 0..block.count {
            self.near.gather(block, i, members);
            let start = self.weights.len();
            rows.variance[i] = self.condition(kernel, members);
            let weights = &mut self.weights[start..];
            let (mut centred, (neighbours, own)) =
                (members.c[block.members[i] as usize], self.near.features());
            for (weight, &place) in weights.iter().zip(&self.near.places) {
                centred -= weight * members.c[place as usize];
            }
            rows.centred[i] = centred;
            let feature = rows.features.as_mut().col_mut(i).try_as_col_major_mut();
            // ã = a − A b; the sign of b is turned for a moment.
            if let (Some(feature), Some(own)) = (feature, own.col(0).try_as_col_major()) {
                let feature = feature.as_slice_mut();
                feature.copy_from_slice(own.as_slice());
                weights.iter_mut().for_each(|b| *b = -*b);
                columns::add_matvec(neighbours, weights, feature);
                weights.iter_mut().for_each(|b| *b = -*b);
            }
        }
    }

    /// Appends prior covariances, the factor of C and b of the row that is gathered; its D.
    fn condition(&mut self, kernel: &dyn Kernel, members: &Members) -> f64 {
        let near = &mut self.near;
        let k = near.places.len() - 1;
        let noise = |at: usize, places: &[u32]| members.noise[places[at] as usize];
        let at = self.priors.len();
        self.priors.resize(at + (k + 1) * (k + 1), 0.0);
        let mut prior = MatMut::from_column_major_slice_mut(&mut self.priors[at..], k + 1, k + 1);
        kernel.eval(Inputs::Gram(near.points()), prior.as_mut(), &mut self.scratch);
        let mut residual = room(&mut near.residual, k + 1, k + 1);
        residual.copy_from(prior.as_ref());
        let a = near.a.as_ref().subcols(0, k + 1);
        if a.nrows() > 0 {
            let (left, right) = ((a.transpose(), Shape::Full), (a, Shape::Full));
            product(residual.as_mut(), part_for(k), Accum::Add, left, right, -1.0);
        }
        let residual = residual.as_ref();
        let cross = residual.row(k).subcols(0, k);

        let (at, start) = (self.factors.len(), self.weights.len());
        self.factors.resize(at + k * k, 0.0);
        let mut factor = MatMut::from_column_major_slice_mut(&mut self.factors[at..], k, k);
        linalg::copy_lower(residual.submatrix(0, 0, k, k), factor.as_mut());
        (0..k).for_each(|j| factor[(j, j)] += noise(j, &near.places));
        self.weights.extend(cross.iter());
        if k > 0 && self.factorizer.cholesky(factor.as_mut()).is_err() {
            return f64::NAN;
        }
        let weights = &mut self.weights[start..];
        linalg::solve_factored(factor.as_ref(), weights);
        let explained: f64 = cross.iter().zip(weights.iter()).map(|(r, b)| r * b).sum();
        residual[(k, k)] + noise(k, &near.places) - explained
    }

    /// Adds what flows back from the block that was conditioned last: to `prior`, and into the features of the block's members (`out`,
    /// `M × u`).
    pub fn adjoint(
        &mut self,
        kernel: &dyn Kernel,
        members: &Members,
        (block, bar): (&Block, &RowsBar<'_>),
        prior: PriorBar<'_>,
        mut out: MatMut<'_, f64>,
    ) {
        let m = members.a().nrows();
        let (mut priors, mut factors, mut weights) = (&self.priors[..], &self.factors[..], &self.weights[..]);
        for i in 0..block.count {
            self.near.gather(block, i, members);
            let k = self.near.places.len() - 1;
            let (covariances, factor, b);
            (covariances, priors) = priors.split_at((k + 1) * (k + 1));
            (factor, factors) = factors.split_at(k * k);
            (b, weights) = weights.split_at(k);
            let (feature, centred, variance) = (bar.features.col(i), bar.centred[i], bar.variance[i]);
            let feature = feature.try_as_col_major().map_or(&[][..], |column| column.as_slice());
            // −b̄, then t − D̄ b.
            let solved = &mut self.solved;
            solved.clear();
            solved.extend(self.near.places[..k].iter().map(|&place| centred * members.c[place as usize]));
            columns::add_transposed_matvec(self.near.features().0, feature, solved);
            solved.iter_mut().for_each(|b| *b = -*b);
            linalg::solve_factored(MatRef::from_column_major_slice(factor, k, k), solved);
            solved.iter_mut().zip(b).for_each(|(t, b)| *t -= variance * b);
            *prior.noise += variance - linalg::dot(solved, b);
            *prior.mean -= centred * (1.0 - b.iter().sum::<f64>());
            self.near.residual_bar((solved, b), variance);
            let target = Gradient { parameters: &mut *prior.kernel, left: None, right: None };
            let covariances = MatRef::from_column_major_slice(covariances, k + 1, k + 1);
            let residual_bar = self.near.residual.as_ref().subcols(0, k + 1);
            let points = Inputs::Gram(self.near.points());
            kernel.adjoint(points, covariances, residual_bar, target, &mut self.scratch);
            if m == 0 {
                continue;
            }
            // ā_j += −b_j ã̄, and ã̄ for the row itself.
            solved.clear();
            solved.extend(b.iter().map(|b| -b).chain([1.0]));
            self.near.features_bar();
            self.near.places.clear();
            self.near.places.extend(block.lists.get(i).iter().copied().chain([i as u32]));
            columns::scatter(out.as_mut(), &self.near.places, self.near.a_bar.as_ref(), (feature, solved));
        }
    }
}
