//! Monte Carlo gradients in (m, S) of expected losses: Bonnet–Price and reparameterised, from
//! samples of w.
//!
//! Samples are of w itself, one set for all data of a batch: `w_l = m + C u_l`, `u_l ~ N(0, I)`, `S = C Cᵀ`, and
//! `f_il = o_i + a_iᵀ w_l + √r_i ε_il`. With ℓ the loss of a datum:
//!
//! ```text
//! Bonnet–Price       g_i = mean_l ℓ′(f_il),   h_i = ½ mean_l ℓ″(f_il)
//! reparameterised    ∇_m = mean_l e_l,   ∇_C = mean_l e_l u_lᵀ,   e_l = A ℓ′(f_l) + β w_l
//! sticking the landing    the same with e_l − β C⁻ᵀ u_l, whose added part has the entropy's gradient as its mean
//! ```
//!
//! The last two include the gradient of the prior, which the update rules add exactly; the rules
//! therefore get the gradient without it. For rules that need `∇_S` the reparameterised gradient
//! goes through Stein's lemma, `2 ∇_S = sym(∇_C C⁻¹)`.

use crate::likelihood::OneFunction;
use crate::linalg::{self, Factorizer, Operand, Part, block_product, product, reflect_lower};
use crate::objective::{EntropyPart, Estimator, Targets};
use crate::variational::{Factor, Matrix, MatrixRef, Normal};
use faer::{Accum, Mat, MatRef};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The samples of a pass, with their counts.
pub(super) struct Sampling {
    estimator: Estimator,
    count: usize,
    /// `u_l` and `w_l`, one column per sample.
    noise: Mat<f64>,
    points: Mat<f64>,
    factor: Mat<f64>,
    factorizer: Factorizer,
    /// `C⁻ᵀ` and `C⁻ᵀ U`.
    inverse: Mat<f64>,
    back: Mat<f64>,
    mean: Vec<f64>,
    cov: Matrix,
    path: Matrix,
}

/// The buffers of a block.
pub(super) struct SampleScratch {
    draws: Mat<f64>,
    pub(super) slopes: Mat<f64>,
    value: Vec<f64>,
    slope: Vec<f64>,
}

impl Default for SampleScratch {
    fn default() -> Self {
        SampleScratch { draws: Mat::new(), slopes: Mat::new(), value: Vec::new(), slope: Vec::new() }
    }
}

/// A block of data with its features.
pub(super) struct SampledBlock<'a> {
    pub likelihood: &'a dyn OneFunction,
    pub targets: Targets<'a>,
    pub scale: f64,
    pub features: MatRef<'a, f64>,
    pub base: &'a [f64],
    pub offset: &'a [f64],
    pub kappa: f64,
}

impl Sampling {
    /// Creates buffers for the samples of `estimator`; `None` if it does not draw w.
    pub(super) fn new(estimator: Estimator, q: &Normal) -> Option<Sampling> {
        let count = estimator.weight_samples()?;
        let (m, family) = (q.dim(), q.family());
        let full = matches!(q.cov(), MatrixRef::Full(_));
        let order = if full { m } else { 0 };
        Some(Sampling {
            estimator,
            count,
            noise: Mat::zeros(m, count),
            points: Mat::zeros(m, count),
            factor: Mat::zeros(order, order),
            factorizer: Factorizer::new(order),
            inverse: Mat::zeros(order, order),
            back: Mat::zeros(order, count),
            mean: vec![0.0; m],
            cov: Matrix::zeros(family, m),
            path: Matrix::zeros(family, m),
        })
    }

    pub(super) fn set_count(&mut self, count: usize) {
        if count != self.count {
            let m = self.mean.len();
            self.count = count;
            (self.noise, self.points) = (Mat::zeros(m, count), Mat::zeros(m, count));
            self.back = Mat::zeros(self.factor.nrows(), count);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// True for reparameterised gradients.
    pub(super) fn is_path(&self) -> bool {
        self.estimator.facts().entropy != EntropyPart::Exact
    }

    /// `∇_m`, `∇_S` and, for rules with a factor, `∇_C` of the last pass.
    pub(super) fn gradient(&self) -> (&[f64], MatrixRef<'_>, MatrixRef<'_>) {
        (&self.mean, self.cov.as_ref(), self.path.as_ref())
    }

    /// Draws the samples of a pass; returns false if S has no factor.
    pub(super) fn draw(&mut self, q: &Normal, factor: Option<Factor<'_>>, random: &mut ChaCha8Rng) -> bool {
        for column in self.noise.as_mut().col_iter_mut() {
            column.iter_mut().for_each(|u| *u = StandardNormal.sample(random));
        }
        match (factor, q.cov()) {
            (Some(Factor::Lower(c) | Factor::Symmetric(c)), _) => self.factor.copy_from(c),
            (None, MatrixRef::Full(cov)) => {
                self.factor.copy_from(cov);
                if self.factorizer.cholesky(self.factor.as_mut()).is_err() {
                    return false;
                }
            }
            (_, MatrixRef::Diagonal(variances)) => {
                for (u, w) in self.noise.as_ref().col_iter().zip(self.points.as_mut().col_iter_mut()) {
                    let scaled = u.iter().zip(variances).map(|(u, s)| s.sqrt() * u);
                    w.iter_mut().zip(&q.mean).zip(scaled).for_each(|((w, m), cu)| *w = m + cu);
                }
                return true;
            }
            (Some(Factor::Diagonal(_)), MatrixRef::Full(_)) => return false,
        }
        let left = Operand::full(self.factor.as_ref());
        block_product(self.points.as_mut(), Accum::Replace, left, self.noise.as_ref(), 1.0);
        for w in self.points.as_mut().col_iter_mut() {
            w.iter_mut().zip(&q.mean).for_each(|(w, m)| *w += m);
        }
        true
    }

    /// Computes g and h of every row of a block, and the contribution of the block to the slopes.
    pub(super) fn run_block(
        &self,
        block: SampledBlock<'_>,
        g: &mut [f64],
        h: &mut [f64],
        scratch: &mut SampleScratch,
        random: &mut ChaCha8Rng,
    ) {
        let (count, b, m) = (self.count, block.targets.len(), self.mean.len());
        let SampleScratch { draws, slopes, value, slope } = scratch;
        if draws.nrows() != count || draws.ncols() < b {
            *draws = Mat::zeros(count, b.max(draws.ncols()));
        }
        value.resize(count, 0.0);
        slope.resize(count, 0.0);
        let mut draws = draws.as_mut().subcols_mut(0, b);
        let left = Operand::full(self.points.transpose());
        block_product(draws.as_mut(), Accum::Replace, left, block.features, 1.0);
        for i in 0..b {
            let at = block.targets.at(i);
            let weight = -block.scale * block.targets.weight(i) / count as f64;
            let f = draws.as_mut().col_mut(i).try_as_col_major_mut().map(|column| column.as_slice_mut());
            let Some(f) = f else { continue };
            let a = block.features.col(i);
            let residual = block.base[i] - block.kappa * a.iter().map(|a| a * a).sum::<f64>();
            let spread = residual.max(0.0).sqrt();
            let offset = block.offset[i] + block.targets.offset(i, 0);
            for f in f.iter_mut() {
                let epsilon: f64 = if spread > 0.0 { StandardNormal.sample(random) } else { 0.0 };
                *f += offset + spread * epsilon;
            }
            block.likelihood.log_density(at, f, value, slope);
            g[i] = weight * slope.iter().sum::<f64>();
            h[i] = 0.5 * weight * f.iter().map(|f| block.likelihood.curvature(at, *f)).sum::<f64>();
            f.iter_mut().zip(&*slope).for_each(|(f, s)| *f = weight * s);
        }
        if self.is_path() {
            if slopes.shape() != (m, count) {
                *slopes = Mat::zeros(m, count);
            }
            let left = Operand::full(block.features);
            block_product(slopes.as_mut(), Accum::Replace, left, draws.transpose(), 1.0);
        }
    }

    /// Returns the number of columns of the sum of slopes.
    pub(super) fn slopes(&self) -> usize {
        if self.is_path() { self.count } else { 0 }
    }

    /// Computes the gradients, given the factor and β of the update rule and `slopes`, the
    /// derivatives `∂/∂w_l` of the losses of the batch divided by L, one column per sample.
    /// `slopes` is overwritten.
    pub(super) fn finish(
        &mut self,
        q: &Normal,
        factor: Option<Factor<'_>>,
        beta: f64,
        slopes: &mut Mat<f64>,
    ) {
        if !self.is_path() {
            return;
        }
        // e_l/L, including the gradient of the prior.
        let share = beta / self.count as f64;
        add_scaled(slopes, share, &self.points);
        let landing = self.estimator.facts().entropy == EntropyPart::AlongThePath;
        match q.cov() {
            MatrixRef::Diagonal(variances) => self.finish_diagonal(variances, beta, landing, slopes),
            MatrixRef::Full(_) => self.finish_full(factor, beta, landing, slopes),
        }
        for (i, mean) in self.mean.iter_mut().enumerate() {
            *mean = slopes.row(i).iter().sum::<f64>() - beta * q.mean[i];
        }
    }

    fn finish_diagonal(&mut self, variances: &[f64], beta: f64, landing: bool, slopes: &mut Mat<f64>) {
        let (Matrix::Diagonal(path), Matrix::Diagonal(cov)) = (&mut self.path, &mut self.cov) else { return };
        let share = if landing { beta / self.count as f64 } else { 0.0 };
        for (i, s) in variances.iter().enumerate() {
            let c = s.sqrt();
            let mut slope = 0.0;
            for (e, u) in slopes.row_mut(i).iter_mut().zip(self.noise.row(i).iter()) {
                *e -= share * u / c;
                slope += *e * u;
            }
            path[i] = slope - beta * c + if landing { beta / c } else { 0.0 };
            cov[i] = 0.5 * path[i] / c;
        }
    }

    fn finish_full(&mut self, factor: Option<Factor<'_>>, beta: f64, landing: bool, slopes: &mut Mat<f64>) {
        if landing || factor.is_none() {
            self.invert(matches!(factor, Some(Factor::Symmetric(_))));
            let left = Operand::full(self.inverse.as_ref());
            block_product(self.back.as_mut(), Accum::Replace, left, self.noise.as_ref(), 1.0);
        }
        if landing {
            add_scaled(slopes, -beta / self.count as f64, &self.back);
        }
        let (Matrix::Full(path), Matrix::Full(cov)) = (&mut self.path, &mut self.cov) else { return };
        let left = Operand::full(slopes.as_ref());
        if factor.is_some() {
            let right = Operand::full(self.noise.transpose());
            product(path.as_mut(), Part::All, Accum::Replace, left, right, 1.0);
            add_scaled(path, -beta, &self.factor);
            if landing {
                // The rule adds the gradient of the entropy, −β C⁻ᵀ.
                add_scaled(path, beta, &self.inverse);
            }
            return;
        }
        let right = Operand::full(self.back.transpose());
        product(path.as_mut(), Part::All, Accum::Replace, left, right, 0.25);
        for j in 0..path.ncols() {
            for i in j..path.nrows() {
                cov[(i, j)] = path[(i, j)] + path[(j, i)];
            }
        }
        linalg::add_diagonal(cov.as_mut(), -0.5 * beta);
        if landing {
            let inverse = self.inverse.as_ref();
            let (left, right) = (Operand::upper(inverse), Operand::lower(inverse.transpose()));
            product(cov.as_mut(), Part::Lower, Accum::Add, left, right, 0.5 * beta);
        }
        reflect_lower(cov.as_mut());
    }

    /// Fills `inverse` with `C⁻ᵀ`; with zeros for a symmetric C that rounding has made indefinite.
    fn invert(&mut self, symmetric: bool) {
        // `path` serves as a buffer; the caller overwrites it afterwards.
        let Matrix::Full(lower) = &mut self.path else { return };
        if !symmetric {
            linalg::invert_lower(self.factor.as_ref(), lower.as_mut());
            self.inverse.copy_from(lower.transpose());
            return;
        }
        self.inverse.copy_from(&self.factor);
        if self.factorizer.cholesky_with_inverse(self.inverse.as_mut(), lower.as_mut()).is_err() {
            self.inverse.as_mut().fill(0.0);
            return;
        }
        linalg::gram_of_inverse(lower.as_ref(), self.inverse.as_mut());
    }
}

/// `out ← out + scale · a`.
fn add_scaled(out: &mut Mat<f64>, scale: f64, a: &Mat<f64>) {
    for (out, a) in out.as_mut().col_iter_mut().zip(a.col_iter()) {
        out.iter_mut().zip(a.iter()).for_each(|(out, a)| *out += scale * a);
    }
}
