//! One pass over a batch: features, marginals, losses, and the whole adjoint with respect to (m,
//! S), θ and Z.
//!
//! The formulae and their symbols are in [docs/mathematics.md#one-step-the-order-of-products](crate::book::mathematics#one-step-the-order-of-products). In addition, κ
//! is 1 for inducing inputs and 0 for a linear model, as in [`RawFeatures`](crate::latent::RawFeatures), and
//! a bar marks derivatives of the objective: `Ā = ∂F/∂A`. The columns of the batch
//! are cut into blocks that run in parallel, each on one thread; threads without a block help with
//! the products of the others. The sums over data then run in parallel over output tiles. Results
//! do not depend on the number of threads, because the blocks and the strips of their products do
//! not.

mod block;
mod draws;
mod given;
mod problem;
mod sampling;
mod shape;
mod sums;
mod theta;
mod window;

use crate::effects::Effects;
use crate::error::Result;
use crate::latent::{LatentLayer, LayerGradient, LayerScratch, Layers};
use crate::linalg;
use crate::neighbours::{Members, Windows};
use crate::objective::{EstimatorCounts, Loss};
use crate::variational::{DataGradient, Family, Matrix, MatrixRef, Normal};
use block::{Block, RowsOf};
use draws::Draws;
use faer::Mat;
use given::{GROUP, GivenBlock};
use sampling::Sampling;
use shape::{ProcessRoom, Shape};
use sums::add;
use window::{Shared, Window};

pub(crate) use block::BlockRows;
pub(crate) use draws::DrawState;
pub(crate) use given::GivenGradient;
pub use given::{GivenRows, Tangent};
pub use problem::{Batch, Form, Problem, Wanted};
pub use sums::{BatchSums, ProcessSums};
pub use window::{WINDOW_ROWS, block_columns};

/// Computes the data part of an objective and its gradient; it holds every buffer that a step
/// needs.
///
/// All gradients are of `scale · Σ_i ℓ_i`. The update rules add the gradient of the KL term in (m,
/// S); its gradient in θ is zero.
///
/// After [`BatchPass::begin`], [`BatchPass::add`] adds up over rows, and [`BatchPass::finish`] completes the result from all sums. Between them [`BatchPass::merge`] adds the sums that other passes, possibly on other machines, made over other rows of the batch.
pub struct BatchPass {
    window: Window,
    blocks: Vec<Block>,
    processes: Vec<ProcessRoom>,
    layer_scratch: Vec<LayerScratch>,
    sampling: Option<Sampling>,
    seed: u64,
    runs: u64,
    pub(crate) counts: EstimatorCounts,
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

/// The state of the features that the last run left behind.
#[derive(Clone, Copy, PartialEq)]
enum Features {
    /// Every run computes the features.
    Passing,
    /// Runs use the same batch and layers, so the next run may reuse features of this form, if there are any.
    Kept(Option<Form>),
}

impl BatchPass {
    /// Creates buffers for batches of up to `b` data of problems of this shape.
    pub fn new(problem: Problem<'_>, b: usize) -> Self {
        let shape = Shape { layers: problem.layers, given: None };
        let rows = b.min(WINDOW_ROWS);
        let columns = block_columns(shape.largest(), rows);
        let blocks = b.div_ceil(rows.max(1)) * rows.div_ceil(columns);
        let sizes = Sizes { rows, columns, blocks, longest: 0, effects: Effects::NONE };
        BatchPass::with(problem, shape, sizes)
    }

    /// Creates buffers for rows that are given the data of their neighbours.
    pub fn given(problem: Problem<'_>, windows: &Windows, effects: &Effects) -> Self {
        let shape = Shape { layers: problem.layers, given: Some(effects.coefficients()) };
        let processes = problem.q.len();
        let columns = windows.blocks().map(|block| block.count).max().unwrap_or(0);
        let blocks = windows.all.iter().map(|window| window.blocks.len()).max().unwrap_or(0).min(GROUP);
        let sizes = Sizes { rows: blocks * columns, columns, blocks, longest: windows.longest(), effects };
        let mut pass = BatchPass::with(problem, shape, sizes);
        pass.sums.through = (0..processes).map(|_| GivenGradient::zeros(effects)).collect();
        pass.members = (0..processes).map(|_| Members::default()).collect();
        pass
    }

    fn with(problem: Problem<'_>, shape: Shape<'_>, sizes: Sizes<'_>) -> Self {
        let Problem { layers, objective, q, .. } = problem;
        let family = q[0].family();
        // Only whitening needs M × M matrices besides the matrices of q's family.
        let square = |m: usize| if layers.whitens() { m } else { 0 };
        // A diagonal q needs outer products only for the layer's adjoint.
        let outer = family == Family::Full || layers.whitens();
        // Rows given their neighbours are not the rows of Newton steps.
        let curved = shape.curved(objective);
        let window = Window::new(shape, &sizes, [outer, family == Family::Full && curved]);
        // Samples of w exist for one process only.
        let sampling = Sampling::new(objective.estimator(), &q[0]).filter(|_| q.len() == 1);
        let slopes = sampling.as_ref().map_or(0, Sampling::slopes);
        let room = |(process, q): (usize, &Normal)| {
            ProcessRoom::new(q, square(layers.get(layers.of(process)).dim()))
        };
        let block = || Block::new(problem, shape, &sizes);
        BatchPass {
            window,
            blocks: (0..sizes.blocks).map(|_| block()).collect(),
            processes: q.iter().enumerate().map(room).collect(),
            layer_scratch: layers.iter().map(|layer| LayerScratch::new(square(layer.dim()))).collect(),
            seed: 0,
            runs: 0,
            counts: EstimatorCounts::default(),
            sums: BatchSums::zeros(problem, curved, slopes),
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

    /// Starts a pass: prepares the factors of q, draws samples of w, and sets the sums to zero. Returns false if samples of w need a factor
    /// of S that does not exist.
    pub fn begin(&mut self, problem: Problem<'_>, form: Form, wanted: Wanted) -> bool {
        // Samples of w are multiplied with whitened features, the direct form saves nothing for a diagonal S, and no product with S
        // exists at the origin.
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

    /// Adds the rows of part `part` of a batch to the sums of the pass; `batch.scale` is that of the whole batch.
    ///
    /// Random numbers depend on the seed, the run and the part. Only the samples of w, which all parts share, do not depend on the part.
    /// Every part needs the same problem, form, request and number of samples.
    pub fn add(&mut self, problem: Problem<'_>, batch: Batch<'_>, part: u64) {
        self.add_with(problem, batch, part, &mut |_| {});
    }

    /// Like [`add`](Self::add), and passes the rows of every block to `visit`, in their order.
    pub(crate) fn add_with(
        &mut self,
        problem: Problem<'_>,
        batch: Batch<'_>,
        part: u64,
        visit: &mut dyn FnMut(BlockRows<'_>),
    ) {
        let (b, columns, window) = (batch.targets.len(), self.window.columns, self.window.rows().max(1));
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

    /// The sums of every process after a run, to which the derivatives of further terms can be added.
    pub(crate) fn process_sums(&mut self) -> &mut [ProcessSums] {
        &mut self.sums.processes
    }

    pub(crate) fn exchange(&mut self, sums: &mut BatchSums) {
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
    pub(crate) fn marginals(&self, process: usize, b: usize) -> (Vec<f64>, Vec<f64>) {
        let (columns, window) = (self.window.columns, self.window.rows().max(1));
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

    /// The gradient of the layers' parameters and inducing inputs, natural units.
    pub fn layer_gradients(&self) -> &[LayerGradient] {
        &self.sums.layers
    }

    /// The gradient of the likelihood's own parameters, natural units.
    pub fn likelihood_gradient(&self) -> &[f64] {
        &self.sums.likelihood
    }
}
