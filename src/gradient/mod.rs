//! One pass over a batch: features, marginals, losses, and the whole adjoint back to (m, S), θ and Z; no updates.
//!
//! MATH, "The SVGP layer". The columns of the batch are cut into blocks that run in parallel, each with sequential
//! kernels and products (one parallel level); the sums over data then run over output tiles. Results do not depend
//! on the number of threads, because the blocks do not.

mod sampling;

use crate::checkpoint::{Archive, MOST};
use crate::columns;
use crate::data::random::{Purpose, generator};
use crate::latent::{LatentLayer, LayerGradient, LayerScratch, whiten, whiten_adjoint};
use crate::likelihood::Likelihood;
use crate::linalg::{self, Part, Shape, product, product_seq, reflect_lower};
use crate::objective::{Derivatives, EstimatorCounts, LossScratch, Objective, Targets};
use crate::variational::{DataGradient, Factor, Matrix, MatrixRef, Normal};
use faer::reborrow::IntoConst;
use faer::{Accum, Mat, MatMut, MatRef};
use rayon::prelude::*;
use sampling::{SampleScratch, SampledBlock, Sampling};
use serde::{Deserialize, Serialize};
use sparsegp_kernels::Scratch;

/// In which order the products of a step are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Through `A = L⁻¹ K_uf`: 5·b·M² flops, accurate whatever the conditioning of `K_uu`.
    Stable,
    /// Through `W = L⁻ᵀ (S − I) L⁻¹`: 3·b·M² flops, but it loses about ε·cond(K_uu) of `k_ii` in the variances.
    Direct,
}

/// More samples of w than any pass draws: a saved state that asks for more is damaged.
const MOST_SAMPLES: usize = 1 << 20;

/// The number of columns of a block for a batch of `b`: it depends on `b` alone.
pub(crate) fn block_columns(b: usize) -> usize {
    (b / 16).next_multiple_of(16).clamp(64, 512)
}

/// What one block of columns needs and sums up.
struct Block {
    base: Vec<f64>,
    offset: Vec<f64>,
    mu: Vec<f64>,
    v: Vec<f64>,
    g: Vec<f64>,
    h: Vec<f64>,
    bend: Vec<f64>,
    c: Vec<f64>,
    layer: LayerGradient,
    likelihood: Vec<f64>,
    value: f64,
    scratch: Scratch,
    loss: LossScratch,
    samples: SampleScratch,
}

/// The data part of an objective and its gradient, with every buffer a step needs.
///
/// All gradients are of `scale · Σ_i ℓ_i`; the KL's part in (m, S) is left to the update rules, and it has none in θ.
pub struct BatchPass {
    k: Mat<f64>,
    a: Mat<f64>,
    t: Mat<f64>,
    w: Mat<f64>,
    blocks: Vec<Block>,
    quad: Matrix,
    quad_raw: Mat<f64>,
    half: Mat<f64>,
    mean: Vec<f64>,
    mean_raw: Vec<f64>,
    layer_scratch: LayerScratch,
    sampling: Option<Sampling>,
    seed: u64,
    runs: u64,
    /// `A g` (M): the data part of `∇_m`.
    pub mean_gradient: Vec<f64>,
    /// `A diag(h) Aᵀ` (both triangles, or the diagonal): the data part of `∇_S`.
    pub cov_gradient: Matrix,
    /// `A diag(∂²ℓ/∂μ²) Aᵀ` where that is not twice the above: for the predictive log loss.
    mean_curvature: Option<Matrix>,
    /// Gradient of the layer's parameters and inducing inputs, natural units.
    pub layer_gradient: LayerGradient,
    /// Gradient of the likelihood's own parameters, natural units.
    pub likelihood_gradient: Vec<f64>,
}

/// Everything a batch is judged by.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The producer of features.
    pub layer: &'a dyn LatentLayer,
    /// The observation model.
    pub likelihood: &'a dyn Likelihood,
    /// The loss and β.
    pub objective: Objective,
    /// The whitened posterior.
    pub q: &'a Normal,
    /// The factor C of its covariance, for samples; one is computed where they need it and it is absent.
    pub factor: Option<Factor<'a>>,
}

/// A batch: inputs `D × b`, one column per datum, targets, and the weight `n/b` of its sum.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Inputs, `D × b`.
    pub x: MatRef<'a, f64>,
    /// What was observed, b rows.
    pub targets: Targets<'a>,
    /// `n/b`.
    pub scale: f64,
}

impl<'a> Batch<'a> {
    /// A batch with exposures and weights of 1.
    pub fn of(x: MatRef<'a, f64>, y: &'a [f64], scale: f64) -> Self {
        Batch { x, targets: Targets::of(y), scale }
    }
}

impl BatchPass {
    /// Buffers for batches of up to `b` data on `layer` with posteriors like `q`.
    pub fn new(
        layer: &dyn LatentLayer,
        likelihood: &dyn Likelihood,
        objective: Objective,
        q: &Normal,
        b: usize,
    ) -> Self {
        let (m, own, family) = (layer.dim(), likelihood.own_len(), q.family());
        let columns = block_columns(b);
        let block = || Block {
            base: vec![0.0; columns],
            offset: vec![0.0; columns],
            mu: vec![0.0; columns],
            v: vec![0.0; columns],
            g: vec![0.0; columns],
            h: vec![0.0; columns],
            bend: vec![0.0; columns],
            c: vec![0.0; m],
            layer: layer.zero_gradient(),
            likelihood: vec![0.0; own],
            value: 0.0,
            scratch: Scratch::new(),
            loss: LossScratch::new(&objective, own),
            samples: SampleScratch::default(),
        };
        // Only what goes through a whitening needs matrices of M × M beside those of q's family.
        let (square, wide) = if layer.whitening().is_some() { (m, m) } else { (0, 0) };
        BatchPass {
            k: Mat::zeros(m, b),
            a: Mat::zeros(wide, b),
            t: Mat::zeros(m, b),
            w: Mat::zeros(m, b),
            blocks: (0..b.div_ceil(columns)).map(|_| block()).collect(),
            quad: Matrix::zeros(family, m),
            quad_raw: Mat::zeros(square, square),
            half: Mat::zeros(square, square),
            mean: vec![0.0; m],
            mean_raw: vec![0.0; m],
            layer_scratch: LayerScratch::new(square),
            sampling: Sampling::new(objective.estimator(), q),
            seed: 0,
            runs: 0,
            mean_gradient: vec![0.0; m],
            cov_gradient: Matrix::zeros(family, m),
            mean_curvature: objective.has_own_curvature().then(|| Matrix::zeros(family, m)),
            layer_gradient: layer.zero_gradient(),
            likelihood_gradient: vec![0.0; own],
        }
    }

    /// Seeds what sampling estimators draw; run `t` from here on draws the same numbers whatever the threads.
    pub fn seed(&mut self, seed: u64) {
        (self.seed, self.runs) = (seed, 0);
    }

    /// Draws `count` samples of w per run from here on, where the estimator draws any.
    pub fn set_samples(&mut self, count: usize) {
        if let Some(sampling) = &mut self.sampling {
            sampling.set_count(count);
        }
    }

    /// The samples of w that a run draws.
    pub fn samples(&self) -> usize {
        self.sampling.as_ref().map_or(0, Sampling::count)
    }

    /// Goes on drawing and counting where `other` is, which was used for the same problem with other buffers.
    pub fn go_on_from(&mut self, other: &BatchPass) {
        (self.seed, self.runs) = (other.seed, other.runs);
        self.set_samples(other.samples());
        if let Some(first) = self.blocks.first_mut() {
            first.loss.counts = other.estimator_counts();
        }
    }

    /// Passes where drawing and counting have come to through an archive.
    pub fn archive(&mut self, archive: &mut Archive) {
        let (mut samples, mut counts) = (self.samples(), self.estimator_counts());
        archive.value(&mut self.runs);
        archive.value(&mut samples);
        archive.value(&mut counts);
        let numbers = [self.runs, counts.proposals, counts.accepted, counts.starved];
        if samples > MOST_SAMPLES || numbers.iter().any(|&n| n > MOST as u64) {
            archive.refuse();
            self.runs = 0;
        } else if archive.is_reading() && archive.is_sound() {
            self.set_samples(samples);
            for (i, block) in self.blocks.iter_mut().enumerate() {
                block.loss.counts = if i == 0 { counts } else { EstimatorCounts::default() };
            }
        }
    }

    /// What sampling estimators did so far.
    pub fn estimator_counts(&self) -> EstimatorCounts {
        let mut counts = EstimatorCounts::default();
        self.blocks.iter().for_each(|block| counts.add(block.loss.counts));
        counts
    }

    /// `scale · Σ ℓ_i` over the batch and its gradient in (m, S); with `train_theta` also the parts of the gradient in θ
    /// and Z that flow through the features, to be completed by [`BatchPass::finish_theta`].
    ///
    /// The result may be not finite when the parameters are out of any sensible range; the caller rolls back.
    pub fn run(&mut self, problem: Problem<'_>, batch: Batch<'_>, form: Form, train_theta: bool) -> f64 {
        let b = batch.targets.len();
        let columns = block_columns(self.k.ncols());
        let used = b.div_ceil(columns);
        // Samples of w meet whitened features, and a diagonal S gains nothing from the direct form.
        let plain = self.sampling.is_some() || matches!(self.quad, Matrix::Diagonal(_));
        let form = if plain || problem.layer.whitening().is_none() { Form::Stable } else { form };
        self.prepare(problem, form);
        let runs = self.runs << 32;
        if let Some(sampling) = &mut self.sampling {
            let mut random = generator(self.seed, Purpose::Estimator, runs | 0xFFFF_FFFF);
            if !sampling.draw(problem.q, problem.factor, &mut random) {
                return f64::NAN;
            }
        }
        let shared = Shared {
            problem,
            form,
            train_theta,
            stream: (self.seed, runs),
            quad: match form {
                Form::Stable => self.quad.as_ref(),
                Form::Direct => MatrixRef::Full(self.quad_raw.as_ref()),
            },
            mean: match form {
                Form::Stable => problem.q.mean(),
                Form::Direct => &self.mean_raw,
            },
            sampling: self.sampling.as_ref(),
        };
        (
            self.k.as_mut().subcols_mut(0, b).par_col_chunks_mut(columns),
            self.a.as_mut().subcols_mut(0, b).par_col_chunks_mut(columns),
            self.t.as_mut().subcols_mut(0, b).par_col_chunks_mut(columns),
            self.w.as_mut().subcols_mut(0, b).par_col_chunks_mut(columns),
            self.blocks[..used].par_iter_mut(),
        )
            .into_par_iter()
            .enumerate()
            .with_max_len(1)
            .for_each(|(i, (k, a, t, w, block))| {
                let (from, len) = (i * columns, k.ncols());
                let part = Batch {
                    x: batch.x.subcols(from, len),
                    targets: batch.targets.range(from, from + len),
                    scale: batch.scale,
                };
                shared.run_block(i as u64, part, Buffers { k, a, t, w }, block);
            });
        self.runs += 1;
        self.reduce(used, train_theta);
        self.sum_over_data(problem.layer, b, form, train_theta);
        if let Some(sampling) = &mut self.sampling {
            let blocks = self.blocks[..used].iter().map(|block| &block.samples);
            sampling.finish(problem.q, problem.factor, problem.objective.beta, blocks);
        }
        self.blocks[..used].iter().map(|block| block.value).sum()
    }

    /// The data part of the last run's gradient in (m, S).
    pub fn q_gradient(&self) -> DataGradient<'_> {
        q_gradient(&self.mean_gradient, &self.cov_gradient, &self.mean_curvature, &self.sampling)
    }

    /// Latent means and variances of the last batch, in order.
    pub fn marginals(&self, b: usize) -> (Vec<f64>, Vec<f64>) {
        let columns = block_columns(self.k.ncols());
        let (mut mu, mut v) = (Vec::with_capacity(b), Vec::with_capacity(b));
        for (i, block) in self.blocks.iter().enumerate().take(b.div_ceil(columns)) {
            let len = columns.min(b - i * columns);
            mu.extend_from_slice(&block.mu[..len]);
            v.extend_from_slice(&block.v[..len]);
        }
        (mu, v)
    }

    /// `S − κI`, and in the direct form `Wᵀ(S − κI)W` and `Wᵀm`.
    fn prepare(&mut self, problem: Problem<'_>, form: Form) {
        self.mean.copy_from_slice(problem.q.mean());
        self.quad.copy_from(problem.q.cov());
        self.quad.add_diagonal(-problem.layer.prior_share());
        if let (Form::Direct, Matrix::Full(quad), Some((w, shape))) =
            (form, &self.quad, problem.layer.whitening())
        {
            let transposed = (w.transpose(), shape.transposed());
            congruence(transposed, quad.as_ref(), &mut self.half, &mut self.quad_raw);
            linalg::matvec(w.transpose(), problem.q.mean(), &mut self.mean_raw);
        }
    }

    /// Sums the blocks' parts in their order.
    fn reduce(&mut self, used: usize, train_theta: bool) {
        self.mean_gradient.fill(0.0);
        self.likelihood_gradient.fill(0.0);
        self.layer_gradient.clear();
        for block in &self.blocks[..used] {
            self.mean_gradient.iter_mut().zip(&block.c).for_each(|(a, b)| *a += b);
            if train_theta {
                self.likelihood_gradient.iter_mut().zip(&block.likelihood).for_each(|(a, b)| *a += b);
                self.layer_gradient.add(&block.layer);
            }
        }
    }

    /// The sums over data that are one product for the whole batch: `B`, the curvature in the mean where it has its own,
    /// and in the direct form `c` from the raw one.
    fn sum_over_data(&mut self, layer: &dyn LatentLayer, b: usize, form: Form, train_theta: bool) {
        let whitening = layer.whitening();
        let features = match (form, whitening) {
            (Form::Stable, Some(_)) => self.a.as_ref(),
            _ => self.k.as_ref(),
        };
        let features = features.subcols(0, b);
        let scaled = self.w.as_ref().subcols(0, b);
        let through = whitening.filter(|_| form == Form::Direct);
        let mut room = (&mut self.quad_raw, &mut self.half);
        match &mut self.cov_gradient {
            Matrix::Full(gram) => weighted_gram(through, (scaled, features), gram, &mut room),
            Matrix::Diagonal(diagonal) if train_theta && whitening.is_some() => {
                // The layer's adjoint needs all of B, which stays in `quad_raw`.
                weighted_gram(None, (scaled, features), room.0, &mut (&mut Mat::new(), &mut Mat::new()));
                diagonal.iter_mut().enumerate().for_each(|(j, d)| *d = room.0[(j, j)]);
            }
            Matrix::Diagonal(diagonal) => columns::row_dots(scaled, features, diagonal),
        }
        if let Some(curvature) = &mut self.mean_curvature {
            let bent = self.t.as_ref().subcols(0, b);
            match curvature {
                Matrix::Full(gram) => weighted_gram(through, (bent, features), gram, &mut room),
                Matrix::Diagonal(diagonal) => columns::row_dots(bent, features, diagonal),
            }
        }
        if let Some((w, _)) = through {
            self.mean_raw.copy_from_slice(&self.mean_gradient);
            linalg::matvec(w, &self.mean_raw, &mut self.mean_gradient);
        }
    }

    /// Completes the gradient in θ and Z of the last run through the whitening, while `beside`, which is given the
    /// gradient in (m, S), runs on another thread: both are M³ work, and neither alone keeps all threads busy.
    ///
    /// `G = Ā Aᵀ = m cᵀ + 2 (S − κI) B` needs no b-sized product.
    pub fn finish_theta<R: Send>(
        &mut self,
        layer: &dyn LatentLayer,
        beside: impl FnOnce(DataGradient<'_>) -> R + Send,
    ) -> R {
        let data = q_gradient(&self.mean_gradient, &self.cov_gradient, &self.mean_curvature, &self.sampling);
        if layer.whitening().is_none() {
            return beside(data);
        }
        let (half, mean, c) = (&mut self.half, &self.mean, &self.mean_gradient);
        let (quad, gram, raw) = (&self.quad, &self.cov_gradient, &self.quad_raw);
        let (grad, scratch) = (&mut self.layer_gradient, &mut self.layer_scratch);
        let whitening = move || {
            match (quad, gram) {
                (Matrix::Full(quad), Matrix::Full(gram)) => {
                    let (left, right) = ((quad.as_ref(), Shape::Full), (gram.as_ref(), Shape::Full));
                    product(half.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
                }
                (Matrix::Diagonal(quad), _) => {
                    half.copy_from(raw);
                    for column in half.as_mut().col_iter_mut() {
                        column.iter_mut().zip(quad).for_each(|(g, d)| *g *= 2.0 * d);
                    }
                }
                // One family throughout.
                (Matrix::Full(_), Matrix::Diagonal(_)) => {}
            }
            for (j, c) in c.iter().enumerate() {
                let column = half.col_mut(j).iter_mut().skip(j);
                column.zip(&mean[j..]).for_each(|(g, m)| *g += m * c);
            }
            layer.whitening_adjoint(half.as_mut(), grad, scratch);
        };
        rayon::join(whitening, || beside(data)).1
    }
}

/// What update rules see of a pass.
fn q_gradient<'a>(
    mean: &'a [f64],
    cov: &'a Matrix,
    curvature: &'a Option<Matrix>,
    sampling: &'a Option<Sampling>,
) -> DataGradient<'a> {
    match sampling.as_ref().filter(|sampling| sampling.is_path()) {
        Some(sampling) => {
            let (mean, cov, path) = sampling.gradient();
            DataGradient { mean, cov, curvature: None, path: Some(path) }
        }
        None => {
            let curvature = curvature.as_ref().map(Matrix::as_ref);
            DataGradient { mean, cov: cov.as_ref(), curvature, path: None }
        }
    }
}

/// `A diag(·) Aᵀ` from `A diag(·)` and `A`, or, given the whitening, from the same with raw features; both triangles.
fn weighted_gram(
    through: Option<(MatRef<'_, f64>, Shape)>,
    (scaled, features): (MatRef<'_, f64>, MatRef<'_, f64>),
    out: &mut Mat<f64>,
    room: &mut (&mut Mat<f64>, &mut Mat<f64>),
) {
    let (left, right) = ((scaled, Shape::Full), (features.transpose(), Shape::Full));
    let (raw, half) = room;
    let target = if through.is_none() { &mut *out } else { &mut **raw };
    product(target.as_mut(), Part::Lower, Accum::Replace, left, right, 1.0);
    reflect_lower(target.as_mut());
    if let Some(whitening) = through {
        congruence(whitening, raw.as_ref(), half, out);
    }
}

/// `out = w · s · wᵀ` for a symmetric `s` and a triangular `w`, both triangles.
fn congruence(
    (w, shape): (MatRef<'_, f64>, Shape),
    s: MatRef<'_, f64>,
    half: &mut Mat<f64>,
    out: &mut Mat<f64>,
) {
    product(half.as_mut(), Part::All, Accum::Replace, (w, shape), (s, Shape::Full), 1.0);
    let right = (w.transpose(), shape.transposed());
    product(out.as_mut(), Part::Lower, Accum::Replace, (half.as_ref(), Shape::Full), right, 1.0);
    reflect_lower(out.as_mut());
}

/// The block's columns of the four large matrices.
struct Buffers<'a> {
    k: MatMut<'a, f64>,
    a: MatMut<'a, f64>,
    t: MatMut<'a, f64>,
    w: MatMut<'a, f64>,
}

/// What every block of a pass reads.
#[derive(Clone, Copy)]
struct Shared<'a> {
    problem: Problem<'a>,
    form: Form,
    train_theta: bool,
    /// The seed and the first step of the run's random numbers.
    stream: (u64, u64),
    quad: MatrixRef<'a>,
    mean: &'a [f64],
    sampling: Option<&'a Sampling>,
}

impl Shared<'_> {
    fn run_block(self, index: u64, batch: Batch<'_>, buffers: Buffers<'_>, block: &mut Block) {
        let Buffers { mut k, mut a, mut t, mut w } = buffers;
        let len = batch.targets.len();
        let layer = self.problem.layer;
        let Block { base, offset, mu, v, g, h, bend, c, layer: gradient, likelihood, .. } = block;
        let Block { value, scratch, loss, samples, .. } = block;
        let (base, offset) = (&mut base[..len], &mut offset[..len]);
        let (mu, v, g, h) = (&mut mu[..len], &mut v[..len], &mut g[..len], &mut h[..len]);
        let bend = &mut bend[..len];

        layer.features(batch.x, k.as_mut(), base, offset, scratch);
        let u = match self.form {
            Form::Stable if layer.whitening().is_some() => {
                whiten(layer, k.as_ref(), a.as_mut());
                a.as_ref()
            }
            _ => k.as_ref(),
        };
        match self.quad {
            MatrixRef::Full(quad) => {
                product_seq(t.as_mut(), Accum::Replace, (quad, Shape::Full), u, 1.0);
            }
            MatrixRef::Diagonal(quad) => columns::scale_rows(u, quad, t.as_mut()),
        }
        mu.copy_from_slice(offset);
        columns::add_transposed_matvec(u, self.mean, mu);
        v.copy_from_slice(base);
        columns::add_column_dots(u, t.as_ref(), v);

        likelihood.fill(0.0);
        let own = if self.train_theta { likelihood.as_mut_slice() } else { &mut [] };
        let out = Derivatives { mean: g, variance: h, curvature: bend, own };
        let mut random = generator(self.stream.0, Purpose::Estimator, self.stream.1 + index);
        let data = (batch.targets, &*mu, &*v);
        let Problem { objective, likelihood, .. } = self.problem;
        *value = objective.losses(likelihood, batch.scale, data, out, (loss, &mut random));
        if let Some(sampling) = self.sampling {
            let (targets, scale) = (batch.targets, batch.scale);
            let prior_share = layer.prior_share();
            let block = SampledBlock { likelihood, targets, scale, features: u, base, offset, prior_share };
            sampling.run_block(block, (g, h), samples, &mut random);
        }
        c.fill(0.0);
        columns::add_matvec(u, g, c);
        if self.train_theta && layer.whitening().is_some() {
            gradient.clear();
            columns::rank_one_plus_scaled(t.as_mut(), self.mean, g, h);
            let kbar = self.features_bar(t.as_ref(), w.as_mut());
            layer.features_adjoint(batch.x, (k.as_ref(), kbar), h, g, gradient, scratch);
        }
        columns::scale_columns(u, h, w);
        if self.problem.objective.has_own_curvature() {
            // T has served its purpose.
            columns::scale_columns(u, bend, t);
        }
    }

    /// `K̄` from the adjoint of the columns that the form works with; `out` is room for it.
    fn features_bar<'b>(&self, bar: MatRef<'b, f64>, mut out: MatMut<'b, f64>) -> MatRef<'b, f64> {
        match self.form {
            Form::Stable => {
                whiten_adjoint(self.problem.layer, bar, out.as_mut());
                out.into_const()
            }
            Form::Direct => bar,
        }
    }
}
