//! Rows of the latent linear model given their neighbours, a block at a time, and their adjoint.
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
use super::small::{Combined, add_combinations, add_inner_products, subtract_gram};
use crate::columns;
use crate::linalg::{self, Factorizer};
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Kernel, Scratch};

/// Rows that have been conditioned on their neighbours: a linear model in which each row has a
/// separate noise variance.
pub(crate) struct Rows<'a> {
    /// `ã`, with the features of grouped effects, a column for each row.
    pub features: MatMut<'a, f64>,
    /// `c̃`, b.
    pub centred: &'a mut [f64],
    /// D, b; NaN for a row whose neighbours' covariance matrix is not positive definite.
    pub variance: &'a mut [f64],
}

/// Derivatives of an objective with respect to [`Rows`].
pub(crate) struct RowsBar<'a> {
    /// `∂F/∂ã`, a column for each row.
    pub features: MatRef<'a, f64>,
    /// `∂F/∂c̃`, b.
    pub centred: &'a [f64],
    /// `∂F/∂D`, b.
    pub variance: &'a [f64],
}

/// The adjoint that flows from rows to the parameters of their prior, except for the part through features.
pub(crate) struct PriorBar<'a> {
    /// The derivatives in the kernel parameters, one entry per value.
    pub kernel: &'a mut [f64],
    /// The derivative in the constant mean.
    pub mean: &'a mut f64,
    /// The derivative with respect to a common addition to all noise variances.
    pub noise: &'a mut f64,
    /// `∂F/∂F_j` of every term of grouped effects.
    pub factors: &'a mut [Mat<f64>],
}

/// The buffers for computing a block; they grow to the size of the largest block and are kept.
pub(crate) struct Conditionals {
    /// For every row, one after the other: the prior covariances of its neighbours and itself, the
    /// factor of C, both by columns, and b.
    priors: Vec<f64>,
    factors: Vec<f64>,
    weights: Vec<f64>,
    near: Near,
    solved: Vec<f64>,
    scratch: Scratch,
    factorizer: Factorizer,
}

/// The neighbours of a row, followed by the row itself: k + 1 members.
struct Near {
    /// Their indices in the members of the window.
    places: Vec<u32>,
    /// Their indices in the members of the block.
    local: Vec<u32>,
    /// Their inputs, `D × (k + 1)`.
    x: Mat<f64>,
    /// Their residual covariances, `(k + 1) × (k + 1)` by columns, or the adjoint of these; lower
    /// triangle.
    residual: Vec<f64>,
    /// The weights of the linear combinations in `Ā`: for every member the weights of the features
    /// of all members, and that of `ã̄`.
    weights: Vec<f64>,
}

impl Near {
    /// Creates empty buffers.
    fn new() -> Self {
        let (places, local, x) = (Vec::new(), Vec::new(), Mat::new());
        Near { places, local, x, residual: Vec::new(), weights: Vec::new() }
    }

    /// Gathers the neighbours of row `row` of a block.
    fn gather(&mut self, block: &Block, row: usize, members: &Members) {
        self.local.clear();
        self.local.extend(block.lists.get(row).iter().copied().chain([row as u32]));
        self.places.clear();
        self.places.extend(self.local.iter().map(|&place| block.members[place as usize]));
        let x = members.x();
        columns::gather(x, &self.places, room(&mut self.x, x.nrows(), self.places.len()));
    }

    /// Returns the inputs as points, `(k + 1) × D`.
    fn points(&self) -> MatRef<'_, f64> {
        self.x.as_ref().subcols(0, self.places.len()).transpose()
    }

    /// Computes the lower triangle of `R̄` from `t − D̄ b`, b and D̄; an entry off the diagonal
    /// includes its mirror image.
    fn residual_bar(&mut self, solved: &[f64], b: &[f64], variance: f64) {
        let (k, n) = (b.len(), b.len() + 1);
        self.residual.clear();
        self.residual.resize(n * n, 0.0);
        for (q, column) in self.residual.chunks_exact_mut(n).take(k).enumerate() {
            column[q] = -solved[q] * b[q];
            for ((out, t), weight) in column[q + 1..k].iter_mut().zip(&solved[q + 1..]).zip(&b[q + 1..]) {
                *out = -t * b[q] - solved[q] * weight;
            }
            column[k] = solved[q] - variance * b[q];
        }
        self.residual[n * n - 1] = variance;
    }

    /// Adds `Ā = −A (R̄ + R̄ᵀ) + ã̄ (−b, 1)`, which follows from `R = K − AᵀA`, to the adjoint of
    /// the features of the block.
    fn add_features_bar(&mut self, a: MatRef<'_, f64>, feature: &[f64], b: &[f64], out: MatMut<'_, f64>) {
        let n = self.places.len();
        self.weights.clear();
        for j in 0..n {
            let own = &self.residual[j * n..][..n];
            self.weights.extend((0..j).map(|i| -self.residual[i * n + j]));
            self.weights.push(-2.0 * own[j]);
            self.weights.extend(own[j + 1..].iter().map(|bar| -bar));
            self.weights.push(b.get(j).map_or(1.0, |b| -b));
        }
        let from = Combined { a, places: &self.places, last: feature };
        add_combinations(out, &self.local, from, &self.weights);
    }
}

impl Conditionals {
    /// Creates buffers for lists of up to `k` neighbours.
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
            let mut centred = members.c[block.members[i] as usize];
            for (weight, &place) in weights.iter().zip(&self.near.places) {
                centred -= weight * members.c[place as usize];
            }
            rows.centred[i] = centred;
            // ã = a − A b.
            self.near.weights.clear();
            self.near.weights.extend(weights.iter().map(|b| -b).chain([1.0]));
            let mut feature = rows.features.as_mut().subcols_mut(i, 1);
            feature.fill(0.0);
            let (feature, mut of_effects) = feature.split_at_row_mut(members.a().nrows());
            let (a, places) = (members.a(), &self.near.places[..weights.len()]);
            let last = columns::column(&a, block.members[i] as usize);
            let from = Combined { a, places, last };
            add_combinations(feature, &[0], from, &self.near.weights);
            if of_effects.nrows() > 0 {
                let out = columns::column_mut(&mut of_effects, 0);
                for (&place, weight) in self.near.places.iter().zip(&self.near.weights) {
                    members.effects.add(place as usize, *weight, out);
                }
            }
        }
    }

    /// Appends the prior covariances, the factor of C and b of the gathered row, and returns its D.
    fn condition(&mut self, kernel: &dyn Kernel, members: &Members) -> f64 {
        let near = &mut self.near;
        let k = near.places.len() - 1;
        let noise = |at: usize, places: &[u32]| members.noise[places[at] as usize];
        let at = self.priors.len();
        self.priors.resize(at + (k + 1) * (k + 1), 0.0);
        let mut prior = MatMut::from_column_major_slice_mut(&mut self.priors[at..], k + 1, k + 1);
        kernel.eval(Inputs::Gram(near.points()), prior.as_mut(), &mut self.scratch);
        near.residual.clear();
        near.residual.extend_from_slice(&self.priors[at..]);
        subtract_gram(members.a(), &near.places, &mut near.residual);
        let residual = MatRef::from_column_major_slice(&near.residual, k + 1, k + 1);
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
        // If the neighbours determine a row, rounding may make its residual variance negative; NaN
        // stays NaN.
        let left = residual[(k, k)] - explained;
        if left < 0.0 { noise(k, &near.places) } else { left + noise(k, &near.places) }
    }

    /// Adds the adjoint of the block that was conditioned last to `prior`, and to the adjoint `out`
    /// of the features of the block's members (`M × u`).
    pub fn adjoint(
        &mut self,
        kernel: &dyn Kernel,
        members: &Members,
        block: &Block,
        bar: &RowsBar<'_>,
        prior: PriorBar<'_>,
        mut out: MatMut<'_, f64>,
    ) {
        let (mut priors, mut factors, mut weights) = (&self.priors[..], &self.factors[..], &self.weights[..]);
        for i in 0..block.count {
            self.near.gather(block, i, members);
            let k = self.near.places.len() - 1;
            let (covariances, factor, b);
            (covariances, priors) = priors.split_at((k + 1) * (k + 1));
            (factor, factors) = factors.split_at(k * k);
            (b, weights) = weights.split_at(k);
            let (feature, of_effects) = columns::column(&bar.features, i).split_at(members.a().nrows());
            let (centred, variance) = (bar.centred[i], bar.variance[i]);
            // −b̄, then t − D̄ b.
            let solved = &mut self.solved;
            solved.clear();
            solved.extend(self.near.places[..k].iter().map(|&place| centred * members.c[place as usize]));
            add_inner_products(members.a(), &self.near.places[..k], feature, solved);
            if !of_effects.is_empty() {
                for (j, &place) in self.near.places.iter().enumerate() {
                    let weight = b.get(j).map_or(1.0, |b| -b);
                    members.effects.adjoint(place as usize, weight, of_effects, prior.factors);
                }
                for (solved, &place) in solved.iter_mut().zip(&self.near.places) {
                    *solved += members.effects.dot(place as usize, of_effects);
                }
            }
            solved.iter_mut().for_each(|b| *b = -*b);
            linalg::solve_factored(MatRef::from_column_major_slice(factor, k, k), solved);
            solved.iter_mut().zip(b).for_each(|(t, b)| *t -= variance * b);
            *prior.noise += variance - linalg::dot(solved, b);
            *prior.mean -= centred * (1.0 - b.iter().sum::<f64>());
            self.near.residual_bar(solved, b, variance);
            let target = Gradient { parameters: &mut *prior.kernel, left: None, right: None };
            let covariances = MatRef::from_column_major_slice(covariances, k + 1, k + 1);
            let residual_bar = MatRef::from_column_major_slice(&self.near.residual, k + 1, k + 1);
            let points = Inputs::Gram(self.near.points());
            kernel.adjoint(points.evaluated(covariances, residual_bar), target, &mut self.scratch);
            self.near.add_features_bar(members.a(), feature, b, out.as_mut());
        }
    }
}
