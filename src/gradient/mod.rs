//! One pass over a batch: features, marginals, losses, and the whole adjoint with respect to (m,
//! S), θ and Z.
//!
//! The formulae and their symbols are in docs/mathematics.md#one-step-the-order-of-products. In addition, κ
//! is 1 for inducing inputs and 0 for a linear model, as in [`LatentLayer`](crate::latent::LatentLayer), and
//! a bar marks derivatives of the objective: `Ā = ∂F/∂A`. The columns of the batch
//! are cut into blocks that run in parallel, each on one thread; threads without a block help with
//! the products of the others. The sums over data then run in parallel over output tiles. Results
//! do not depend on the number of threads, because the blocks and the strips of their products do
//! not.

mod sampling;
mod sums;
mod window;

use crate::checkpoint::MOST;
use crate::columns;
use crate::error::Result;
use crate::latent::{LayerGradient, LayerScratch, Layers};
use crate::likelihood::ObservationModel;
use crate::linalg::{self, Operand, Part, product};
use crate::objective::{EstimatorCounts, Objective, Targets};
use crate::variational::{DataGradient, Factor, Family, Matrix, Normal};
use faer::{Accum, Mat, MatMut, MatRef};
use sampling::Sampling;
use serde::{Deserialize, Serialize};
use sums::{Draws, add};
use window::{Block, Shared, Window};

pub use sums::{BatchSums, ProcessSums};
pub use window::{WINDOW_ROWS, block_columns};

/// The order of the products of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Through `A = L⁻¹ K_uf`: 5·b·M² flops, accurate for any conditioning of `K_uu`.
    Stable,
    /// Through `W = L⁻ᵀ (S − I) L⁻¹`: 3·b·M² flops, but it loses about ε·cond(K_uu) of `k_ii` in the variances.
    Direct,
}

/// A number of samples of w above that of any pass; a saved state with more samples is damaged.
const MOST_SAMPLES: usize = 1 << 20;

/// Computes the data part of an objective and its gradient; it holds every buffer that a step
/// needs.
///
/// All gradients are of `scale · Σ_i ℓ_i`. The update rules add the gradient of the KL term in (m,
/// S); its gradient in θ is zero.
///
/// A pass consists of two functions: [`BatchPass::sums_of`] adds up over rows, and [`BatchPass::finish`] completes the result from all
/// sums. Between them [`BatchPass::merge`] adds the sums that other passes, possibly on other machines, made over other rows of the batch.
pub struct BatchPass {
    window: Window,
    blocks: Vec<Block>,
    processes: Vec<ProcessRoom>,
    layer_scratch: Vec<LayerScratch>,
    sampling: Option<Sampling>,
    seed: u64,
    runs: u64,
    counts: EstimatorCounts,
    sums: BatchSums,
    features: Features,
}

/// The state of a pass's random numbers, and its counts.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct DrawState {
    runs: u64,
    samples: usize,
    counts: EstimatorCounts,
}

/// The state of the features that the last run left behind.
#[derive(Clone, Copy, PartialEq)]
enum Features {
    /// Every run computes the features.
    Passing,
    /// Runs use the same batch and layers, so the next run may reuse features of this form, if there are any.
    Kept(Option<Form>),
}

/// The factors that a process's features are multiplied by.
struct ProcessRoom {
    /// `S − κI`, the quadratic form of the variances in whitened features.
    quadratic: Matrix,
    /// The quadratic form in raw features, `L⁻ᵀ (S − κI) L⁻¹`, for the direct form.
    raw_quadratic: Mat<f64>,
    half: Mat<f64>,
    mean: Vec<f64>,
    mean_raw: Vec<f64>,
}

impl ProcessRoom {
    /// Creates buffers for posteriors like `q`, with square matrices of order `square` in addition
    /// to the matrices of its family.
    fn new(q: &Normal, square: usize) -> Self {
        let m = q.dim();
        ProcessRoom {
            quadratic: Matrix::zeros(q.family(), m),
            raw_quadratic: linalg::spread(square, square),
            half: linalg::spread(square, square),
            mean: vec![0.0; m],
            mean_raw: vec![0.0; m],
        }
    }
}

/// Everything besides the batch that determines its loss.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The layers that produce the features.
    pub layers: Layers<'a>,
    /// The observation model.
    pub likelihood: &'a ObservationModel,
    /// The loss and β.
    pub objective: Objective,
    /// The whitened posterior of every process.
    pub q: &'a [Normal],
    /// The factor C of the covariance, for samples of one process. If samples need it and it is absent, it is computed.
    pub factor: Option<Factor<'a>>,
}

/// A batch: inputs `b × D`, a row per datum, targets, and the weight `n/b` of its sum.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Inputs, `b × D`, any strides.
    pub x: MatRef<'a, f64>,
    /// The targets, b rows.
    pub targets: Targets<'a>,
    /// The weight `n/b` of the sum over rows.
    pub scale: f64,
}

impl<'a> Batch<'a> {
    /// A batch with exposures and weights of 1.
    pub fn of(x: MatRef<'a, f64>, y: &'a [f64], scale: f64) -> Self {
        Batch { x, targets: Targets::of(y), scale }
    }

    /// Returns the rows `from..from + len`, with the same weight.
    fn part(&self, from: usize, len: usize) -> Self {
        Batch {
            x: self.x.subrows(from, len),
            targets: self.targets.range(from, from + len),
            scale: self.scale,
        }
    }
}

impl BatchPass {
    /// Creates buffers for batches of up to `b` data on `layers` with posteriors like `q`.
    pub fn new(
        layers: Layers<'_>,
        likelihood: &ObservationModel,
        objective: Objective,
        q: &[Normal],
        b: usize,
    ) -> Self {
        let (own, family) = (likelihood.own_len(), q[0].family());
        // Only whitening needs M × M matrices besides the matrices of q's family.
        let square = |m: usize| if layers.whitens() { m } else { 0 };
        // A diagonal q needs outer products only for the layer's adjoint.
        let outer = family == Family::Full || layers.whitens();
        let curved = family == Family::Full && objective.has_own_curvature();
        let window = Window::new(layers, b, [outer, curved]);
        let columns = window.columns();
        // Samples of w exist for one process only.
        let sampling = Sampling::new(objective.estimator(), &q[0]).filter(|_| q.len() == 1);
        let slopes = sampling.as_ref().map_or(0, Sampling::slopes);
        BatchPass {
            window,
            blocks: (0..b.div_ceil(columns))
                .map(|_| Block::new(layers, own, &objective, family, columns))
                .collect(),
            processes: q.iter().map(|q| ProcessRoom::new(q, square(q.dim()))).collect(),
            layer_scratch: layers.iter().map(|layer| LayerScratch::new(square(layer.dim()))).collect(),
            seed: 0,
            runs: 0,
            counts: EstimatorCounts::default(),
            sums: BatchSums::zeros(layers, likelihood, objective, q, slopes),
            features: Features::Passing,
            sampling,
        }
    }

    /// Keeps features from one run to the next, between which batch and layers must not change. If a batch is one window and no gradient
    /// flows through the features, they are not computed again.
    pub(crate) fn keep_features(&mut self, keep: bool) {
        self.features = if keep { Features::Kept(None) } else { Features::Passing };
    }

    /// Seeds the draws of sampling estimators. The numbers of each later run do not depend on the
    /// number of threads.
    pub fn seed(&mut self, seed: u64) {
        (self.seed, self.runs) = (seed, 0);
    }

    /// Goes to the random numbers of run `run`, counted from 0. They depend only on the seed and
    /// the run, not on earlier runs.
    pub fn go_to_run(&mut self, run: u64) {
        self.runs = run;
    }

    /// Returns the seed, and the number of the current or next run.
    pub(crate) fn next_run(&self) -> (u64, u64) {
        (self.seed, self.runs)
    }

    /// Sets the number of samples of w per later run, if the estimator draws any.
    pub(crate) fn set_samples(&mut self, count: usize) {
        if let Some(sampling) = &mut self.sampling {
            sampling.set_count(count);
            let (m, slopes) = (self.processes[0].mean.len(), sampling.slopes());
            if slopes != self.sums.slopes.ncols() {
                self.sums.slopes = Mat::zeros(m, slopes);
            }
        }
    }

    /// Returns the number of samples of w per run.
    pub fn samples(&self) -> usize {
        self.sampling.as_ref().map_or(0, Sampling::count)
    }

    /// Continues the random numbers and the counts of `other`, which was used for the same problem
    /// with other buffers.
    pub(crate) fn go_on_from(&mut self, other: &BatchPass) {
        (self.seed, self.runs, self.counts) = (other.seed, other.runs, other.counts);
        self.set_samples(other.samples());
    }

    /// Returns the state of the random numbers, and the counts, for a checkpoint.
    pub(crate) fn draws(&self) -> DrawState {
        DrawState { runs: self.runs, samples: self.samples(), counts: self.counts }
    }

    /// Continues from the state of another pass; returns false if its counts are impossible.
    pub(crate) fn set_draws(&mut self, DrawState { runs, samples, counts }: DrawState) -> bool {
        let numbers = [runs, counts.proposals, counts.accepted, counts.starved];
        let suits = samples <= MOST_SAMPLES && numbers.iter().all(|&n| n <= MOST as u64);
        if suits {
            self.set_samples(samples);
            (self.runs, self.counts) = (runs, counts);
        }
        suits
    }

    /// The counts of sampling estimators over all runs so far.
    pub fn estimator_counts(&self) -> EstimatorCounts {
        self.counts
    }

    /// Returns `scale · Σ ℓ_i` over the batch, and computes its gradient in (m, S). With
    /// `train_theta` it also computes the parts of the gradient in θ and Z that flow through the
    /// features; [`BatchPass::finish_theta`] completes them.
    ///
    /// The result may not be finite if the parameters are extreme; the caller then rolls back.
    pub fn run(&mut self, problem: Problem<'_>, batch: Batch<'_>, form: Form, train_theta: bool) -> f64 {
        if self.add_up(problem, batch, form, train_theta, 0) { self.finish(problem) } else { f64::NAN }
    }

    /// Returns the sums over the rows of part `part` of a batch, which may be empty; `batch.scale`
    /// is that of the whole batch. Returns `None` if samples of w need a factor of S that does not
    /// exist. The gradient in θ and Z is included with `train_theta`.
    ///
    /// Random numbers depend on the seed, the run and the part. Only the samples of w, which all
    /// parts share, do not depend on the part. Every part needs the same problem, form and number
    /// of samples.
    pub fn sums_of(
        &mut self,
        problem: Problem<'_>,
        batch: Batch<'_>,
        form: Form,
        train_theta: bool,
        part: u64,
    ) -> Option<&BatchSums> {
        let drawn = self.add_up(problem, batch, form, train_theta, part);
        self.sums.reflect();
        self.sums.processes.iter_mut().for_each(|process| linalg::reflect_lower(process.outer.as_mut()));
        drawn.then_some(&self.sums)
    }

    /// Adds the sums that other passes made over other rows of the batch to those of this pass.
    ///
    /// # Errors
    ///
    /// If the shapes, families or forms differ; nothing has changed then.
    pub fn merge(&mut self, sums: &BatchSums) -> Result<()> {
        self.sums.merge(sums)
    }

    /// Completes the sums of a whole batch: fills both triangles, whitens in the direct form, and
    /// turns samples into gradients. Returns the value of the sums, and ends the run.
    pub fn finish(&mut self, problem: Problem<'_>) -> f64 {
        self.runs += 1;
        self.counts.add(self.sums.counts);
        self.complete_sums(problem.layers);
        if let Some(sampling) = &mut self.sampling {
            sampling.finish(&problem.q[0], problem.factor, problem.objective.beta, &mut self.sums.slopes);
        }
        self.sums.value
    }

    /// Fills the lower triangles of `sums`; returns false if S has no factor.
    fn add_up(
        &mut self,
        problem: Problem<'_>,
        batch: Batch<'_>,
        form: Form,
        train_theta: bool,
        part: u64,
    ) -> bool {
        let b = batch.targets.len();
        let columns = self.window.columns();
        let used = b.div_ceil(columns);
        // Samples of w are multiplied with whitened features, and a diagonal S gains nothing from
        // the direct form.
        let plain = self.sampling.is_some() || matches!(self.processes[0].quadratic, Matrix::Diagonal(_));
        let direct = form == Form::Direct && !plain && problem.layers.whitens();
        let form = if direct { form } else { Form::Stable };
        self.prepare(problem, form);
        let draws = Draws { seed: self.seed, pass: self.runs, part };
        if let Some(sampling) = &mut self.sampling
            && !sampling.draw(&problem.q[0], problem.factor, &mut draws.of_weights())
        {
            return false;
        }
        let wanted = self.needs_outer_products(problem, train_theta);
        for (room, sums) in self.processes.iter_mut().zip(&mut self.sums.processes) {
            // For a diagonal q, only the adjoint of the layer needs all of B, and only then is
            // memory for it allocated.
            if matches!(sums.cov, Matrix::Diagonal(_)) && wanted != (sums.outer.nrows() > 0) {
                std::mem::swap(&mut sums.outer, &mut room.half);
            }
            if b == 0 {
                sums.squares().into_iter().flatten().for_each(|sum| sum.as_mut().fill(0.0));
            }
        }
        let shared = Shared {
            problem,
            form,
            train_theta,
            outer: wanted,
            draws,
            kept: !train_theta && self.features == Features::Kept(Some(form)),
            processes: &self.processes,
            sampling: self.sampling.as_ref(),
        };
        let window = self.window.rows().max(1);
        for (i, blocks) in self.blocks[..used].chunks_mut(window.div_ceil(columns)).enumerate() {
            let from = i * window;
            let part = batch.part(from, window.min(b - from));
            self.window.run(shared, part, from / columns, blocks);
            self.window.add_to(problem.layers, &mut self.sums.processes, part.targets.len(), i == 0);
        }
        if let Features::Kept(form_left) = &mut self.features {
            *form_left = (b <= window).then_some(form);
        }
        (self.sums.rows, self.sums.weight, self.sums.raw) =
            (b as u64, batch.targets.total_weight(), form == Form::Direct);
        self.reduce(problem.layers, used, train_theta);
        true
    }

    /// The sums of the last run or part; after a run in the completed form.
    pub fn sums(&self) -> &BatchSums {
        &self.sums
    }

    /// Returns the data part of the gradient of the last run in (m, S) of a process.
    pub fn q_gradient(&self, process: usize) -> DataGradient<'_> {
        match self.sampling.as_ref().filter(|sampling| sampling.is_path()) {
            Some(sampling) => {
                let (mean, cov, path) = sampling.gradient();
                DataGradient { mean, cov, curvature: None, path: Some(path) }
            }
            None => self.marginal_gradient(process),
        }
    }

    /// Returns the data part of the gradient through the marginals, for any estimator of the
    /// gradient in (m, S); the gradient in θ uses it.
    pub(crate) fn marginal_gradient(&self, process: usize) -> DataGradient<'_> {
        let sums = &self.sums.processes[process];
        let curvature = sums.curvature.as_ref().map(Matrix::as_ref);
        DataGradient { mean: &sums.mean, cov: sums.cov.as_ref(), curvature, path: None }
    }

    /// Returns the latent means and variances of a process at the rows of the last batch, in order.
    pub fn marginals(&self, process: usize, b: usize) -> (Vec<f64>, Vec<f64>) {
        let columns = self.window.columns();
        let (mut mu, mut v) = (Vec::with_capacity(b), Vec::with_capacity(b));
        for (i, block) in self.blocks.iter().enumerate().take(b.div_ceil(columns)) {
            let len = columns.min(b - i * columns);
            mu.extend_from_slice(&block.mu[process * len..(process + 1) * len]);
            v.extend_from_slice(&block.v[process * len..(process + 1) * len]);
        }
        (mu, v)
    }

    /// `S − κI`, and in the direct form `Wᵀ(S − κI)W` and `Wᵀm`.
    fn prepare(&mut self, problem: Problem<'_>, form: Form) {
        let layers = problem.layers;
        for (process, (room, q)) in self.processes.iter_mut().zip(problem.q).enumerate() {
            let layer = layers.get(layers.of(process));
            let ProcessRoom { quadratic, raw_quadratic, half, mean, mean_raw } = room;
            mean.copy_from_slice(q.mean());
            quadratic.copy_from(q.cov());
            quadratic.add_diagonal(-layer.kappa());
            if let (Form::Direct, Matrix::Full(quadratic), Some(whitening)) =
                (form, &*quadratic, layer.whitening())
            {
                let transposed = whitening.transposed();
                linalg::copy_lower(quadratic.as_ref(), raw_quadratic.as_mut());
                linalg::congruence(transposed, raw_quadratic.as_mut(), half.as_mut());
                linalg::matvec(transposed.matrix, q.mean(), mean_raw);
            }
        }
    }

    /// Adds the sums of the blocks, in their order.
    fn reduce(&mut self, layers: Layers<'_>, used: usize, train_theta: bool) {
        let (sums, blocks) = (&mut self.sums, &mut self.blocks[..used]);
        (sums.value, sums.counts) =
            (blocks.iter().map(|block| block.value).sum(), EstimatorCounts::default());
        sums.likelihood.fill(0.0);
        sums.layers.iter_mut().for_each(LayerGradient::clear);
        sums.slopes.as_mut().fill(0.0);
        for (process, sums) in sums.processes.iter_mut().enumerate() {
            let own = layers.process_rows(process);
            sums.mean.fill(0.0);
            blocks.iter().for_each(|block| add(&mut sums.mean, &block.c[own.clone()]));
            for (i, sum) in sums.matrices().enumerate() {
                let Matrix::Diagonal(sum) = sum else { continue };
                sum.fill(0.0);
                blocks.iter().for_each(|block| add(sum, &block.diagonals[i][own.clone()]));
            }
        }
        for block in blocks {
            sums.counts.add(std::mem::take(&mut block.loss.counts));
            if train_theta {
                add(&mut sums.likelihood, &block.likelihood);
                sums.layers.iter_mut().zip(&block.layers).for_each(|(sum, part)| sum.add(part));
            }
            if sums.slopes.ncols() > 0 {
                sums.slopes += &block.samples.slopes;
            }
        }
    }

    /// True if all of B is needed. For a diagonal q only the layer's adjoint needs it.
    fn needs_outer_products(&self, problem: Problem<'_>, train_theta: bool) -> bool {
        matches!(self.processes[0].quadratic, Matrix::Full(_)) || train_theta && problem.layers.whitens()
    }

    /// Completes the sums over data: fills both triangles, and in the direct form turns sums over
    /// raw features into sums over whitened ones.
    fn complete_sums(&mut self, layers: Layers<'_>) {
        if !self.sums.raw {
            return self.sums.reflect();
        }
        for (process, (room, sums)) in self.processes.iter_mut().zip(&mut self.sums.processes).enumerate() {
            let Some(whitening) = layers.get(layers.of(process)).whitening() else { continue };
            for sum in sums.matrices() {
                if let Matrix::Full(sum) = sum {
                    linalg::congruence(whitening, sum.as_mut(), room.half.as_mut());
                }
            }
            room.mean_raw.copy_from_slice(&sums.mean);
            linalg::matvec(whitening.matrix, &room.mean_raw, &mut sums.mean);
        }
        self.sums.raw = false;
    }

    /// Completes the gradient in θ and Z of the last run through the whitening.
    ///
    /// `G = Ā Aᵀ = Σ_l m_l c_lᵀ + 2 (S_l − κI) B_l` over the processes of a layer needs no b-sized
    /// product. If q depends on θ, `moving` returns the additional term of a process (lower
    /// triangle read), given its gradient.
    pub fn finish_theta(&mut self, layers: Layers<'_>, mut moving: Option<&mut Moving<'_>>) {
        if !layers.whitens() {
            return;
        }
        for layer in 0..layers.count() {
            let members = layers.members(layer);
            let first = members.start;
            for process in members {
                let sums = &mut self.sums.processes[process];
                let room = &mut self.processes[process];
                // A diagonal q's G is computed in place of its inputs.
                let ProcessSums { mean, cov, curvature, outer } = sums;
                let g = if outer.nrows() > 0 { outer } else { &mut room.half };
                if let Some(moving) = &mut moving {
                    let curvature = curvature.as_ref().map(Matrix::as_ref);
                    let gradient = DataGradient { mean, cov: cov.as_ref(), curvature, path: None };
                    moving(process, gradient, g.as_mut());
                } else {
                    twice_product(&room.quadratic, cov, g);
                    linalg::add_outer_lower(g.as_mut(), &room.mean, mean);
                }
                if process > first {
                    let (rooms, later) = self.processes.split_at_mut(process);
                    let (all, later_sums) = self.sums.processes.split_at_mut(process);
                    let total = square_of(&mut rooms[first], &mut all[first]);
                    columns::add(total.as_mut(), square_of(&mut later[0], &mut later_sums[0]).as_ref());
                }
            }
            let g = square_of(&mut self.processes[first], &mut self.sums.processes[first]);
            let gradient = &mut self.sums.layers[layer];
            layers.get(layer).whitening_adjoint(g.as_mut(), gradient, &mut self.layer_scratch[layer]);
        }
    }

    /// The gradient of the layers' parameters and inducing inputs, natural units.
    pub fn layer_gradients(&self) -> &[LayerGradient] {
        &self.sums.layers
    }

    /// The gradient of the likelihood's own parameters, natural units.
    pub fn likelihood_gradient(&self) -> &[f64] {
        &self.sums.likelihood
    }
}

/// A function that writes the term of `G` (lower triangle) of a process whose q depends on θ, given
/// the number of the process and its gradient.
pub(crate) type Moving<'a> = dyn FnMut(usize, DataGradient<'_>, MatMut<'_, f64>) + 'a;

/// Returns the memory for `G` of a process.
fn square_of<'a>(room: &'a mut ProcessRoom, sums: &'a mut ProcessSums) -> &'a mut Mat<f64> {
    if sums.outer.nrows() > 0 { &mut sums.outer } else { &mut room.half }
}

/// Writes `2 (S − κI) B` into the lower triangle of `g`; if q is diagonal, `g` holds B on entry.
fn twice_product(quadratic: &Matrix, gram: &Matrix, g: &mut Mat<f64>) {
    match (quadratic, gram) {
        (Matrix::Full(quadratic), Matrix::Full(gram)) => {
            let (left, right) = (Operand::full(quadratic.as_ref()), Operand::full(gram.as_ref()));
            product(g.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
        }
        (Matrix::Diagonal(quadratic), _) => {
            for column in g.as_mut().col_iter_mut() {
                column.iter_mut().zip(quadratic).for_each(|(g, d)| *g *= 2.0 * d);
            }
        }
        // All matrices are of one family.
        (Matrix::Full(_), Matrix::Diagonal(_)) => {}
    }
}
