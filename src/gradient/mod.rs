//! One pass over a batch: features, marginals, losses, and the whole adjoint back to (m, S), θ and Z; no updates.
//!
//! MATH, "The SVGP layer". The columns of the batch are cut into blocks that run in parallel, each on one thread,
//! which those without a block help with its products; the sums over data then run over output tiles. Results do not
//! depend on the number of threads, because the blocks and the strips of their products do not.

mod sampling;
mod single;
mod window;

use crate::checkpoint::{Archive, MOST};
use crate::data::random::{Purpose, generator};
use crate::latent::{LatentLayer, LayerGradient, LayerScratch};
use crate::likelihood::Likelihood;
use crate::linalg::{self, Part, Shape, product, reflect_lower};
use crate::objective::{EstimatorCounts, Objective, Targets};
use crate::variational::{DataGradient, Factor, Family, Matrix, MatrixRef, Normal};
use crate::words::words;
use faer::{Accum, Mat, MatRef};
use sampling::Sampling;
use serde::{Deserialize, Serialize};
use single::Single;
use window::{Block, Shared, Window};

pub use window::{WINDOW_ROWS, block_columns};

/// In which order the products of a step are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Through `A = L⁻¹ K_uf`: 5·b·M² flops, accurate whatever the conditioning of `K_uu`.
    Stable,
    /// Through `W = L⁻ᵀ (S − I) L⁻¹`: 3·b·M² flops, but it loses about ε·cond(K_uu) of `k_ii` in the variances.
    Direct,
    /// The stable form with all products of b·M² flops in single precision but the sums over data, which keeps those positive
    /// semidefinite.
    Mixed,
}

words! {
    /// In which precision the large products of mini-batches are.
    Precision, "precision" {
        /// All in double precision.
        Double = "f64",
        /// In single precision where no sum over data is involved, as long as objectives agree ([`Form::Mixed`]).
        Mixed = "mixed",
    }
}

impl Precision {
    /// What fits were in before there was a choice.
    pub(crate) fn double() -> Self {
        Precision::Double
    }
}

/// More samples of w than any pass draws: a saved state that asks for more is damaged.
const MOST_SAMPLES: usize = 1 << 20;

/// The data part of an objective and its gradient, with every buffer a step needs.
///
/// All gradients are of `scale · Σ_i ℓ_i`; the KL's part in (m, S) is left to the update rules, and it has none in θ.
pub struct BatchPass {
    window: Window,
    blocks: Vec<Block>,
    quad: Matrix,
    quad_raw: Mat<f64>,
    half: Mat<f64>,
    mean: Vec<f64>,
    mean_raw: Vec<f64>,
    layer_scratch: LayerScratch,
    sampling: Option<Sampling>,
    single: Option<Single>,
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

    /// Rows `from..from + len`, with the same weight.
    fn part(&self, from: usize, len: usize) -> Self {
        Batch {
            x: self.x.subcols(from, len),
            targets: self.targets.range(from, from + len),
            scale: self.scale,
        }
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
        // Only what goes through a whitening needs matrices of M × M beside those of q's family.
        let square = if layer.whitening().is_some() { m } else { 0 };
        // A diagonal q needs outer products only for the layer's adjoint.
        let outer = if family == Family::Full { m } else { square };
        let bent = if family == Family::Full && objective.has_own_curvature() { m } else { 0 };
        let window = Window::new(layer, b, [outer, bent]);
        let columns = window.columns();
        BatchPass {
            window,
            blocks: (0..b.div_ceil(columns))
                .map(|_| Block::new(layer, own, &objective, family, columns))
                .collect(),
            quad: Matrix::zeros(family, m),
            quad_raw: linalg::spread(square, square),
            half: linalg::spread(square, square),
            mean: vec![0.0; m],
            mean_raw: vec![0.0; m],
            layer_scratch: LayerScratch::new(square),
            sampling: Sampling::new(objective.estimator(), q),
            single: None,
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
        let columns = self.window.columns();
        let used = b.div_ceil(columns);
        // Samples of w meet whitened features, and a diagonal S gains nothing from the direct form.
        let plain = self.sampling.is_some() || matches!(self.quad, Matrix::Diagonal(_));
        let direct = form == Form::Direct && !plain && problem.layer.whitening().is_some();
        let form = if direct || form == Form::Mixed { form } else { Form::Stable };
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
                Form::Stable | Form::Mixed => self.quad.as_ref(),
                Form::Direct => MatrixRef::Full(self.quad_raw.as_ref()),
            },
            mean: match form {
                Form::Stable | Form::Mixed => problem.q.mean(),
                Form::Direct => &self.mean_raw,
            },
            sampling: self.sampling.as_ref(),
            single: self.single.as_ref().filter(|_| form == Form::Mixed),
        };
        let mut sums = [
            match &mut self.cov_gradient {
                Matrix::Full(sum) => Some(sum),
                // Only the layer's adjoint needs all of B, and finds it in the room for G.
                Matrix::Diagonal(_) => shared.needs_outer_products().then_some(&mut self.half),
            },
            match &mut self.mean_curvature {
                Some(Matrix::Full(sum)) => Some(sum),
                _ => None,
            },
        ];
        let window = self.window.rows();
        for (i, blocks) in self.blocks[..used].chunks_mut(window.div_ceil(columns)).enumerate() {
            let from = i * window;
            let part = batch.part(from, window.min(b - from));
            self.window.run(shared, part, from / columns, blocks);
            self.window.add_to(&mut sums, part.targets.len(), i == 0);
        }
        self.runs += 1;
        self.reduce(used, train_theta);
        self.complete_sums(problem.layer.whitening().filter(|_| form == Form::Direct));
        if let Some(sampling) = &mut self.sampling {
            let blocks = self.blocks[..used].iter().map(|block| &block.samples);
            sampling.finish(problem.q, problem.factor, problem.objective.beta, blocks);
        }
        self.blocks[..used].iter().map(|block| block.value).sum()
    }

    /// The data part of the last run's gradient in (m, S).
    pub fn q_gradient(&self) -> DataGradient<'_> {
        match self.sampling.as_ref().filter(|sampling| sampling.is_path()) {
            Some(sampling) => {
                let (mean, cov, path) = sampling.gradient();
                DataGradient { mean, cov, curvature: None, path: Some(path) }
            }
            None => self.marginal_gradient(),
        }
    }

    /// That part as it comes through the marginals, which is what θ sees of it, whatever the estimator of the gradient in (m, S).
    pub fn marginal_gradient(&self) -> DataGradient<'_> {
        let curvature = self.mean_curvature.as_ref().map(Matrix::as_ref);
        DataGradient { mean: &self.mean_gradient, cov: self.cov_gradient.as_ref(), curvature, path: None }
    }

    /// Latent means and variances of the last batch, in order.
    pub fn marginals(&self, b: usize) -> (Vec<f64>, Vec<f64>) {
        let columns = self.window.columns();
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
        if form == Form::Mixed {
            let single = self.single.get_or_insert_with(|| Single::new(problem.layer.dim()));
            single.take(problem.layer, self.quad.as_ref());
        }
        if let (Form::Direct, Matrix::Full(quad), Some((w, shape))) =
            (form, &self.quad, problem.layer.whitening())
        {
            let transposed = (w.transpose(), shape.transposed());
            linalg::copy_lower(quad.as_ref(), self.quad_raw.as_mut());
            linalg::congruence(transposed, self.quad_raw.as_mut(), self.half.as_mut());
            linalg::matvec(w.transpose(), problem.q.mean(), &mut self.mean_raw);
        }
    }

    /// Sums the blocks' parts in their order.
    fn reduce(&mut self, used: usize, train_theta: bool) {
        self.mean_gradient.fill(0.0);
        self.likelihood_gradient.fill(0.0);
        self.layer_gradient.clear();
        let sums = [Some(&mut self.cov_gradient), self.mean_curvature.as_mut()];
        for (i, sum) in sums.into_iter().enumerate() {
            let Some(Matrix::Diagonal(sum)) = sum else { continue };
            sum.fill(0.0);
            for part in self.blocks[..used].iter().map(|block| &block.diagonals[i]) {
                sum.iter_mut().zip(part).for_each(|(a, b)| *a += b);
            }
        }
        for block in &self.blocks[..used] {
            self.mean_gradient.iter_mut().zip(&block.c).for_each(|(a, b)| *a += b);
            if train_theta {
                self.likelihood_gradient.iter_mut().zip(&block.likelihood).for_each(|(a, b)| *a += b);
                self.layer_gradient.add(&block.layer);
            }
        }
    }

    /// Completes the sums over data: both triangles, and in the direct form, which `through` is the whitening of, what makes
    /// them sums over whitened features.
    fn complete_sums(&mut self, through: Option<(MatRef<'_, f64>, Shape)>) {
        for sum in [Some(&mut self.cov_gradient), self.mean_curvature.as_mut()].into_iter().flatten() {
            let Matrix::Full(sum) = sum else { continue };
            match through {
                Some(whitening) => linalg::congruence(whitening, sum.as_mut(), self.half.as_mut()),
                None => reflect_lower(sum.as_mut()),
            }
        }
        if let Some((w, _)) = through {
            self.mean_raw.copy_from_slice(&self.mean_gradient);
            linalg::matvec(w, &self.mean_raw, &mut self.mean_gradient);
        }
    }

    /// Completes the gradient in θ and Z of the last run through the whitening.
    ///
    /// `G = Ā Aᵀ = m cᵀ + 2 (S − κI) B` needs no b-sized product. Where q moves with θ it is `moving` (lower triangle read).
    pub fn finish_theta(&mut self, layer: &dyn LatentLayer, moving: Option<MatRef<'_, f64>>) {
        if layer.whitening().is_none() {
            return;
        }
        let half = &mut self.half;
        if let Some(moving) = moving {
            linalg::copy_lower(moving, half.as_mut());
        } else {
            match (&self.quad, &self.cov_gradient) {
                (Matrix::Full(quad), Matrix::Full(gram)) => {
                    let (left, right) = ((quad.as_ref(), Shape::Full), (gram.as_ref(), Shape::Full));
                    product(half.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
                }
                (Matrix::Diagonal(quad), _) => {
                    for column in half.as_mut().col_iter_mut() {
                        column.iter_mut().zip(quad).for_each(|(g, d)| *g *= 2.0 * d);
                    }
                }
                // One family throughout.
                (Matrix::Full(_), Matrix::Diagonal(_)) => {}
            }
            linalg::add_outer_lower(half.as_mut(), &self.mean, &self.mean_gradient);
        }
        layer.whitening_adjoint(half.as_mut(), &mut self.layer_gradient, &mut self.layer_scratch);
    }
}
