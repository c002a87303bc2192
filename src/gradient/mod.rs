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

mod given;
mod sampling;
mod shape;
mod sums;
mod window;

use crate::checkpoint::MOST;
use crate::columns;
use crate::effects::{Effects, RowMoments, of_raw_features};
use crate::error::Result;
use crate::latent::{Layer, LayerGradient, LayerScratch, Layers};
use crate::likelihood::ObservationModel;
use crate::linalg::{self, Operand, Part, product};
use crate::neighbours::{Members, Windows};
use crate::objective::{EstimatorCounts, Loss, Objective, Targets};
use crate::variational::{DataGradient, Factor, Family, Matrix, MatrixRef, Normal};
use faer::{Accum, Mat, MatMut, MatRef};
use given::{GROUP, GivenBlock};
use sampling::Sampling;
use serde::{Deserialize, Serialize};
use shape::Shape;
use sums::{Draws, add};
use window::{Block, RowsOf, Shared, Window};

pub use given::{GivenGradient, GivenRows, Tangent};
pub use sums::{BatchSums, ProcessSums};
pub use window::{BlockRows, WINDOW_ROWS, block_columns};

/// The order of the products of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Through `A = L⁻¹ K_uf`: 5·b·M² flops, accurate for any conditioning of `K_uu`.
    Stable,
    /// Through `W = L⁻ᵀ (S − I) L⁻¹`: 3·b·M² flops, but it loses about ε·cond(K_uu) of `k_ii` in the variances.
    Direct,
}

impl Form {
    /// Returns the form for the gradient at the best q with Gaussian noise of variance σ²: the direct one if its errors of about
    /// `ε·cond(K_uu)·√k_ii` in μ are at most a hundred-thousandth of σ.
    pub fn at_best_q(layer: &Layer, noise: f64) -> Form {
        const MOST: f64 = 1e11;
        let direct = layer.inducing().is_none_or(|layer| {
            let variance = layer.mean_prior_variance();
            layer.condition_is_at_most(MOST * (noise / variance).sqrt().min(0.1))
        });
        if direct { Form::Direct } else { Form::Stable }
    }
}

/// The results that a pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// The losses at w = 0, with the sums from which the best q follows in closed form if losses are quadratic in μ.
    Origin,
    /// The losses at q with their gradient in q.
    Losses,
    /// In addition the derivatives in the likelihood's own parameters.
    Own,
    /// In addition the gradient in θ and Z through the features, at any q.
    Gradient,
    /// The gradient in θ and Z at the q that minimises the objective. The gradient in q is zero there, and `A diag(h) Aᵀ` is known from the
    /// pass at the origin, so neither is computed. The derivatives in the likelihood's own parameters are right for [`Loss::Fitc`] only; for
    /// other losses they have a closed form.
    Envelope,
}

impl Wanted {
    /// Returns the request for losses, with the gradient in θ and Z if `train_theta` is true.
    pub fn of(train_theta: bool) -> Wanted {
        if train_theta { Wanted::Gradient } else { Wanted::Losses }
    }

    /// Returns true if the gradient in θ and Z is wanted.
    fn theta(self) -> bool {
        matches!(self, Wanted::Gradient | Wanted::Envelope)
    }

    /// Returns true if derivatives in the likelihood's own parameters are wanted.
    fn own(self) -> bool {
        self.theta() || self == Wanted::Own
    }
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
    wanted: Wanted,
    form: Form,
    /// `Wᵀ Cov(w, u)` of grouped effects, in the direct form.
    raw_cross: Mat<f64>,
    /// The number of features of grouped effects of rows given their neighbours, and the members of a window of such rows, for every process.
    given: Option<usize>,
    members: Vec<Members>,
}

/// The sizes of the buffers of a pass.
struct Sizes<'a> {
    /// The rows of a window and of a block, and the blocks between two reductions.
    rows: usize,
    columns: usize,
    blocks: usize,
    /// The length of the longest list of neighbours.
    longest: usize,
    effects: &'a Effects,
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
    /// The moments of grouped effects, which are part of q, for one process.
    pub groups: Option<RowMoments<'a>>,
    /// The variances of Gaussian noise, one for each process, if losses are constant multiples of each other's: processes of one layer then
    /// share their products in passes at the origin and at the optimum. Otherwise empty.
    pub noises: &'a [f64],
}

impl<'a> Problem<'a> {
    /// Creates a problem without grouped effects, whose processes share no products.
    pub fn new(
        layers: Layers<'a>,
        likelihood: &'a ObservationModel,
        objective: Objective,
        q: &'a [Normal],
    ) -> Self {
        Problem { layers, likelihood, objective, q, factor: None, groups: None, noises: &[] }
    }
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
        let shape = Shape { layers, given: None };
        let rows = b.min(WINDOW_ROWS);
        let columns = block_columns(shape.largest(), rows);
        let blocks = b.div_ceil(rows.max(1)) * rows.div_ceil(columns);
        let sizes = Sizes { rows, columns, blocks, longest: 0, effects: Effects::NONE };
        BatchPass::with(shape, likelihood, objective, q, sizes)
    }

    /// Creates buffers for rows that are given the data of their neighbours.
    pub fn given(
        layers: Layers<'_>,
        likelihood: &ObservationModel,
        objective: Objective,
        q: &[Normal],
        windows: &Windows,
        effects: &Effects,
    ) -> Self {
        let shape = Shape { layers, given: Some(effects.coefficients()) };
        let columns = windows.blocks().map(|block| block.count).max().unwrap_or(0);
        let blocks = windows.all.iter().map(|window| window.blocks.len()).max().unwrap_or(0).min(GROUP);
        let sizes = Sizes { rows: blocks * columns, columns, blocks, longest: windows.longest(), effects };
        let mut pass = BatchPass::with(shape, likelihood, objective, q, sizes);
        pass.sums.through = (0..q.len()).map(|_| GivenGradient::zeros(effects)).collect();
        pass.members = (0..q.len()).map(|_| Members::default()).collect();
        pass
    }

    fn with(
        shape: Shape<'_>,
        likelihood: &ObservationModel,
        objective: Objective,
        q: &[Normal],
        sizes: Sizes<'_>,
    ) -> Self {
        let layers = shape.layers;
        let (own, family) = (likelihood.own_len(), q[0].family());
        // Only whitening needs M × M matrices besides the matrices of q's family.
        let square = |m: usize| if layers.whitens() { m } else { 0 };
        // A diagonal q needs outer products only for the layer's adjoint.
        let outer = family == Family::Full || layers.whitens();
        // Rows given their neighbours are not the rows of Newton steps.
        let curved = shape.curved(objective);
        let window = Window::new(
            shape,
            sizes.rows,
            sizes.columns,
            [outer, family == Family::Full && curved],
            sizes.longest,
        );
        // Samples of w exist for one process only.
        let sampling = Sampling::new(objective.estimator(), &q[0]).filter(|_| q.len() == 1);
        let slopes = sampling.as_ref().map_or(0, Sampling::slopes);
        let room = |(process, q): (usize, &Normal)| {
            ProcessRoom::new(q, square(layers.get(layers.of(process)).dim()))
        };
        let block = || Block::new(shape, own, &objective, family, sizes.columns, sizes.effects);
        BatchPass {
            window,
            blocks: (0..sizes.blocks).map(|_| block()).collect(),
            processes: q.iter().enumerate().map(room).collect(),
            layer_scratch: layers.iter().map(|layer| LayerScratch::new(square(layer.dim()))).collect(),
            seed: 0,
            runs: 0,
            counts: EstimatorCounts::default(),
            sums: BatchSums::zeros(layers, likelihood, curved, q, slopes),
            features: Features::Passing,
            wanted: Wanted::Losses,
            form: Form::Stable,
            raw_cross: Mat::new(),
            given: shape.given,
            members: Vec::new(),
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
        if !self.begin(problem, form, Wanted::of(train_theta)) {
            return f64::NAN;
        }
        self.add(problem, batch, 0);
        self.finish(problem)
    }

    /// Returns the sums over the rows of part `part` of a batch, which may be empty; `batch.scale`
    /// is that of the whole batch. Returns `None` if samples of w need a factor of S that does not
    /// exist.
    ///
    /// Random numbers depend on the seed, the run and the part. Only the samples of w, which all
    /// parts share, do not depend on the part. Every part needs the same problem, form, request and number
    /// of samples.
    pub fn sums_of(
        &mut self,
        problem: Problem<'_>,
        batch: Batch<'_>,
        form: Form,
        wanted: Wanted,
        part: u64,
    ) -> Option<&BatchSums> {
        if !self.begin(problem, form, wanted) {
            return None;
        }
        self.add(problem, batch, part);
        Some(self.sums_so_far())
    }

    /// Starts a pass: prepares the factors of q, draws samples of w, and sets the sums to zero. Returns false if samples of w need a factor
    /// of S that does not exist.
    pub fn begin(&mut self, problem: Problem<'_>, form: Form, wanted: Wanted) -> bool {
        // Samples of w are multiplied with whitened features, a diagonal S gains nothing from the direct form, and at the origin there is no
        // product with S.
        let plain = self.sampling.is_some() || matches!(self.processes[0].quadratic, Matrix::Diagonal(_));
        let fitc = problem.objective.loss == Loss::Fitc;
        let direct = form == Form::Direct && !plain && !fitc && problem.layers.whitens();
        (self.wanted, self.form) = (wanted, Form::Stable);
        if direct && wanted != Wanted::Origin {
            self.form = Form::Direct;
        }
        if wanted != Wanted::Origin {
            self.prepare(problem);
        }
        let outer = self.needs_outer_products(problem);
        for (room, sums) in self.processes.iter_mut().zip(&mut self.sums.processes) {
            // For a diagonal q, only the adjoint of the layer needs all of B, and only then is
            // memory for it allocated.
            if matches!(sums.cov, Matrix::Diagonal(_)) && outer != (sums.outer.nrows() > 0) {
                std::mem::swap(&mut sums.outer, &mut room.half);
            }
        }
        self.sums.clear();
        self.sums.raw = self.form == Form::Direct;
        if self.given.is_some() && wanted.theta() {
            self.processes.iter_mut().for_each(|room| room.half.as_mut().fill(0.0));
        }
        let draws = Draws { seed: self.seed, pass: self.runs, part: 0 };
        match &mut self.sampling {
            Some(sampling) => sampling.draw(&problem.q[0], problem.factor, &mut draws.of_weights()),
            None => true,
        }
    }

    /// Adds the rows of part `part` of a batch to the sums of the pass.
    pub fn add(&mut self, problem: Problem<'_>, batch: Batch<'_>, part: u64) {
        self.add_with(problem, batch, part, &mut |_| {});
    }

    /// Like [`add`](Self::add), and passes the rows of every block to `visit`, in their order.
    pub fn add_with(
        &mut self,
        problem: Problem<'_>,
        batch: Batch<'_>,
        part: u64,
        visit: &mut dyn FnMut(BlockRows<'_>),
    ) {
        let (b, columns, window) = (batch.targets.len(), self.window.columns(), self.window.rows().max(1));
        let (per_window, mut used) = (window.div_ceil(columns), 0);
        for (i, from) in (0..b).step_by(window).enumerate() {
            let to = b.min(from + window);
            let part_of = |at: usize| {
                let len = columns.min(to - at);
                (RowsOf::Plain(batch.part(at, len)), len)
            };
            let parts: Vec<_> = (from..to).step_by(columns).map(part_of).collect();
            let first = i * per_window;
            self.run_window(problem, &parts, (first, part), &[]);
            used = first + parts.len();
            let mut at = 0;
            for (block, (_, len)) in self.blocks[first..].iter().zip(&parts) {
                visit(block.rows(from + at, self.window.features(at, *len)));
                at += len;
            }
        }
        if let Features::Kept(form_left) = &mut self.features {
            *form_left = (b <= window).then_some(self.form);
        }
        self.sums.rows += b as u64;
        self.sums.weight += batch.targets.total_weight();
        self.reduce(problem.layers, used);
    }

    /// Runs a pass over rows that are given the data of their neighbours; returns its value. With `tangents`, one for each process, a pass at
    /// the optimum differentiates the gradient along these directions in q.
    pub fn run_given(
        &mut self,
        problem: Problem<'_>,
        rows: GivenRows<'_>,
        wanted: Wanted,
        tangents: &[Tangent],
    ) -> f64 {
        self.begin(problem, Form::Stable, wanted);
        for (room, tangent) in self.processes.iter_mut().zip(tangents) {
            room.quadratic.copy_from(MatrixRef::Full(tangent.cov.as_ref()));
        }
        let layers = problem.layers;
        let (mut members, mut first) = (std::mem::take(&mut self.members), 0);
        for window in &rows.windows.all {
            for (process, members) in members.iter_mut().enumerate() {
                let Some(layer) = layers.get(layers.of(process)).inducing() else { continue };
                let place = Shape { layers, given: self.given }.place_of(process);
                members.load(layer, place, rows.sources[process], window);
                if wanted.theta() {
                    members.clear_adjoint();
                }
            }
            for blocks in window.blocks.chunks(GROUP) {
                let given = |block| RowsOf::Given(GivenBlock { given: rows, members: &members, block });
                let parts: Vec<_> = blocks.iter().map(|block| (given(block), block.count)).collect();
                // The buffers start again with every group, but random numbers do not.
                self.run_window(problem, &parts, (0, first), tangents);
                first += 1;
                self.reduce(layers, blocks.len());
                for (process, members) in members.iter_mut().enumerate().filter(|_| wanted.theta()) {
                    let bars = blocks.iter().zip(&self.blocks).map(|(block, room)| {
                        (block, room.members[process].as_ref().subcols(0, block.members.len()))
                    });
                    members.add_blocks(&bars.collect::<Vec<_>>());
                }
            }
            for (process, members) in members.iter().enumerate().filter(|_| wanted.theta()) {
                let Some(layer) = layers.get(layers.of(process)).inducing() else { continue };
                let gradient = &mut self.sums.layers[layers.of(process)];
                members.adjoint(layer, gradient, self.processes[process].half.as_mut());
            }
        }
        self.members = members;
        self.sums.rows = rows.windows.rows() as u64;
        self.sums.weight = rows.scale * rows.windows.rows() as f64;
        if wanted.theta() {
            for process in 0..layers.processes() {
                let layer = layers.of(process);
                let g = self.processes[process].half.as_mut();
                layers.get(layer).whitening_adjoint(
                    g,
                    &mut self.sums.layers[layer],
                    &mut self.layer_scratch[layer],
                );
            }
        }
        self.runs += 1;
        self.sums.reflect();
        self.sums.value
    }

    /// Runs the blocks of a window and adds its products; the first block has the number `first` within the part.
    fn run_window(
        &mut self,
        problem: Problem<'_>,
        parts: &[(RowsOf<'_>, usize)],
        (first, part): (usize, u64),
        tangents: &[Tangent],
    ) {
        let shared = Shared {
            problem,
            shape: Shape { layers: problem.layers, given: self.given },
            form: self.form,
            wanted: self.wanted,
            outer: self.needs_outer_products(problem),
            draws: Draws { seed: self.seed, pass: self.runs, part },
            kept: !self.wanted.theta() && self.features == Features::Kept(Some(self.form)),
            processes: &self.processes,
            sampling: self.sampling.as_ref(),
            raw_cross: Some(&self.raw_cross).filter(|_| self.form == Form::Direct),
            tangents,
        };
        self.window.run(shared, parts, first, &mut self.blocks[first..]);
        let rows = parts.iter().map(|(_, len)| len).sum();
        self.window.add_to(shared, &mut self.sums.processes, rows);
    }

    /// Returns the sums so far, with both triangles of symmetric matrices.
    pub fn sums_so_far(&mut self) -> &BatchSums {
        self.sums.reflect();
        self.sums.processes.iter_mut().for_each(|process| linalg::reflect_lower(process.outer.as_mut()));
        &self.sums
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
        if self.wanted != Wanted::Envelope {
            self.complete_sums(problem.layers);
        }
        if self.wanted == Wanted::Origin && !problem.noises.is_empty() {
            self.copy_shared(problem);
        }
        if let Some(sampling) = &mut self.sampling {
            sampling.finish(&problem.q[0], problem.factor, problem.objective.beta, &mut self.sums.slopes);
        }
        self.sums.value
    }

    /// The sums of the last run or part; after a run in the completed form.
    pub fn sums(&self) -> &BatchSums {
        &self.sums
    }

    /// Exchanges the sums with others of the same shape.
    pub fn exchange(&mut self, sums: &mut BatchSums) {
        std::mem::swap(&mut self.sums, sums);
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
        let (columns, window) = (self.window.columns(), self.window.rows().max(1));
        let (mut mu, mut v) = (Vec::with_capacity(b), Vec::with_capacity(b));
        let lengths = (0..b).step_by(window).flat_map(|from| {
            let to = b.min(from + window);
            (from..to).step_by(columns).map(move |at| columns.min(to - at))
        });
        for (len, block) in lengths.zip(&self.blocks) {
            mu.extend_from_slice(&block.mu[process * len..(process + 1) * len]);
            v.extend_from_slice(&block.v[process * len..(process + 1) * len]);
        }
        (mu, v)
    }

    /// `S − κI`, and in the direct form `Wᵀ(S − κI)W` and `Wᵀm`. Processes of a layer that share products have the weighted sum of their
    /// matrices in the place of the first.
    fn prepare(&mut self, problem: Problem<'_>) {
        let layers = problem.layers;
        let shares = self.wanted == Wanted::Envelope && !problem.noises.is_empty();
        for (process, q) in problem.q.iter().enumerate() {
            let layer = layers.get(layers.of(process));
            let first = layers.members(layers.of(process)).start;
            let (own, share) = if shares {
                (first, problem.noises[first] / problem.noises[process])
            } else {
                (process, 1.0)
            };
            self.processes[process].mean.copy_from_slice(q.mean());
            let quadratic = &mut self.processes[own].quadratic;
            if own == process {
                quadratic.copy_from(q.cov());
            } else {
                quadratic.add_scaled(q.cov(), share);
            }
            if self.given.is_none() {
                quadratic.add_diagonal(-layer.kappa() * share);
            }
        }
        let direct = self.form == Form::Direct;
        for (process, room) in self.processes.iter_mut().enumerate().filter(|_| direct) {
            let ProcessRoom { quadratic, raw_quadratic, half, mean, mean_raw } = room;
            let layer = layers.get(layers.of(process));
            let (Matrix::Full(quadratic), Some(whitening)) = (&*quadratic, layer.whitening()) else {
                continue;
            };
            let transposed = whitening.transposed();
            linalg::matvec(transposed.matrix, mean, mean_raw);
            if !shares || layers.members(layers.of(process)).start == process {
                linalg::copy_lower(quadratic.as_ref(), raw_quadratic.as_mut());
                linalg::congruence(transposed, raw_quadratic.as_mut(), half.as_mut());
            }
        }
        if let Some(groups) = problem.groups.filter(|_| direct) {
            self.raw_cross = of_raw_features(&**layers.get(0), groups.moments.cross.clone());
        }
    }

    /// Adds the sums of the blocks, in their order.
    fn reduce(&mut self, layers: Layers<'_>, used: usize) {
        let shape = Shape { layers, given: self.given };
        let (sums, blocks) = (&mut self.sums, &mut self.blocks[..used]);
        for (process, sums) in sums.processes.iter_mut().enumerate() {
            let own = shape.process_rows(process);
            for (i, sum) in sums.matrices().enumerate() {
                let Matrix::Diagonal(sum) = sum else { continue };
                blocks.iter().for_each(|block| add(sum, &block.diagonals[i][own.clone()]));
            }
            for block in blocks.iter() {
                add(&mut sums.mean, &block.c[own.clone()]);
                sums.squares += block.squares[process];
                sums.residual += block.residual[process];
            }
        }
        for block in blocks {
            sums.value += block.value;
            sums.counts.add(std::mem::take(&mut block.loss.counts));
            if self.wanted.own() {
                add(&mut sums.likelihood, &block.likelihood);
            }
            if self.wanted.theta() {
                sums.layers.iter_mut().zip(&block.layers).for_each(|(sum, part)| sum.add(part));
                sums.through.iter_mut().zip(&block.through).for_each(|(sum, part)| sum.add(part));
            }
            if sums.slopes.ncols() > 0 {
                sums.slopes += &block.samples.slopes;
            }
        }
    }

    /// True if all of B is needed. For a diagonal q only the layer's adjoint needs it, and at the optimum of q B is known.
    fn needs_outer_products(&self, problem: Problem<'_>) -> bool {
        match self.wanted {
            Wanted::Envelope => problem.objective.loss == Loss::Fitc && self.given.is_none(),
            wanted => {
                let full = matches!(self.processes[0].quadratic, Matrix::Full(_));
                full || wanted == Wanted::Gradient && problem.layers.whitens()
            }
        }
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

    /// Gives every process of a layer the matrix of the first one, times the ratio of their losses.
    fn copy_shared(&mut self, problem: Problem<'_>) {
        for process in 0..self.sums.processes.len() {
            let first = problem.layers.members(problem.layers.of(process)).start;
            let (before, own) = self.sums.processes.split_at_mut(process);
            if let Some(shared) = before.get(first) {
                own[0].cov.fill(0.0);
                own[0].cov.add_scaled(shared.cov.as_ref(), problem.noises[first] / problem.noises[process]);
            }
        }
    }

    /// Completes the gradient in θ and Z of a pass at the optimum of q ([`Wanted::Envelope`]) through the whitening. `origin` has the sums of
    /// the pass at the origin, and `share` the ratio of the noise variance there to the present one.
    ///
    /// There `2 (S_l A + Cov(w, u) Z̃) diag(h) Aᵀ = β (I − S_l)` and `A g_l = −β m_l`, so
    /// `G = Ā Aᵀ = β Σ_l (I − S_l − m_l m_lᵀ) − 2κ A diag(r̄) Aᵀ`, where `r̄ = h` unless the residual variance is noise.
    pub fn finish_envelope(&mut self, problem: Problem<'_>, origin: &BatchSums, share: f64) {
        let (layers, beta) = (problem.layers, problem.objective.beta);
        let fitc = problem.objective.loss == Loss::Fitc;
        for (layer, (own, scratch)) in layers.iter().zip(&mut self.layer_scratch).enumerate() {
            if own.whitening().is_none() {
                continue;
            }
            let first = layers.members(layer).start;
            let g = &mut self.processes[first].half;
            g.as_mut().fill(0.0);
            for process in layers.members(layer) {
                let q = &problem.q[process];
                let (by_residual, share) = if fitc {
                    (&self.sums.processes[process].cov, 1.0)
                } else {
                    (&origin.processes[process].cov, share)
                };
                let Matrix::Full(by_residual) = by_residual else { continue };
                let (cov, mean) = (q.cov().full(), q.mean());
                for j in 0..mean.len() {
                    for i in j..mean.len() {
                        let unit = f64::from(i == j);
                        g[(i, j)] += beta * (unit - cov[(i, j)] - mean[i] * mean[j])
                            - 2.0 * own.kappa() * share * by_residual[(i, j)];
                    }
                }
            }
            own.whitening_adjoint(g.as_mut(), &mut self.sums.layers[layer], scratch);
        }
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
                let ProcessSums { mean, cov, curvature, outer, .. } = sums;
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
