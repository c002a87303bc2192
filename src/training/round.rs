//! Questions to machines that hold parts of the rows, their answers, the merging of answers, and parts as rows of a fit.

use super::check::check_groups;
use super::row_sums::{CHUNK, LevelSums, Sweep, add_all};
use super::rows::{AllRows, BatchSource, Portion, RowBuffer};
use crate::collapsed::Dataset;
use crate::data::{BatchPlan, Purpose, part_generator};
use crate::effects::{EffectRows, EffectSums, Effects, Moments, RowMoments};
use crate::error::{Error, Result};
use crate::gradient::{BatchPass, BatchSums, Form, Problem, Wanted};
use crate::latent::{InducingPrior, Jitter, Layer};
use crate::model::{LatentModel, LatentPrior};
use crate::objective::Objective;
use crate::registry::Registry;
use crate::variational::{Factor, Normal};
use faer::Mat;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};
use sparsegp_kernels::Dimension;

/// Training rows in parts that are held elsewhere, on the scale the model sees. An implementation passes a [`Round`] to the holders of all
/// parts, and merges their answers.
///
/// The results are reproducible if the order in which answers are merged depends only on the number
/// of parts.
#[doc(hidden)]
pub trait PartedRows: Sync {
    /// Returns the number of rows of each part, in the order of the rows.
    fn counts(&self) -> &[usize];

    /// Returns the merged answers of all parts with rows to the [`Round`] with these bytes.
    ///
    /// # Errors
    ///
    /// If an answer is missing; the fit ends with that error.
    fn ask(&self, round: Vec<u8>) -> Result<Sums>;
}

/// A question to every part of the rows at one point of a fit: sums over the rows under a model.
///
/// ```
/// # use sparsegp::training::{Round, Sums};
/// # use sparsegp::collapsed::Dataset;
/// /// Computes the answer of part `part` to the round in `bytes`, which `PartedRows::ask` received.
/// fn answer(bytes: &[u8], part: usize, rows: Dataset<'_>) -> sparsegp::Result<Vec<u8>> {
///     Round::from_bytes(bytes)?.sums(part, rows)?.to_bytes()
/// }
/// ```
pub struct Round {
    pub(super) model: LatentModel,
    pub(super) asked: Losses,
}

/// A request for the losses of rows.
#[derive(Serialize, Deserialize)]
pub(super) struct Losses {
    pub q: Vec<Normal>,
    pub factor: Option<OwnedFactor>,
    pub objective: Objective,
    /// The moments of grouped effects, for passes at q.
    pub groups: Option<Moments>,
    /// The noise variances of processes that share products; see [`Problem::noises`].
    pub noises: Vec<f64>,
    pub form: Form,
    pub wanted: Wanted,
    /// The weight of every row.
    pub scale: f64,
    /// The seed and number of the pass, and the number of samples of w, if it draws any.
    pub seed: u64,
    pub run: u64,
    pub samples: usize,
    /// The batch; `None` for all rows.
    pub draw: Option<Draw>,
}

impl Losses {
    /// Returns the request for the sums of a pass over rows of weight `scale`.
    pub(super) fn of(
        pass: &BatchPass,
        problem: Problem<'_>,
        (form, wanted): (Form, Wanted),
        scale: f64,
    ) -> Losses {
        let (seed, run) = pass.next_run();
        Losses {
            q: problem.q.to_vec(),
            factor: problem.factor.map(OwnedFactor::of),
            objective: problem.objective,
            groups: problem.groups.map(|groups| groups.moments.clone()),
            noises: problem.noises.to_vec(),
            form,
            wanted,
            scale,
            seed,
            run,
            samples: pass.samples(),
            draw: None,
        }
    }
}

/// An owned [`Factor`].
#[derive(Serialize, Deserialize)]
pub(super) enum OwnedFactor {
    Lower(#[serde(with = "crate::linalg::stored")] Mat<f64>),
    Symmetric(#[serde(with = "crate::linalg::stored")] Mat<f64>),
    Diagonal(Vec<f64>),
}

impl OwnedFactor {
    pub(super) fn of(factor: Factor<'_>) -> OwnedFactor {
        match factor {
            Factor::Lower(c) => OwnedFactor::Lower(c.to_owned()),
            Factor::Symmetric(c) => OwnedFactor::Symmetric(c.to_owned()),
            Factor::Diagonal(c) => OwnedFactor::Diagonal(c.to_vec()),
        }
    }

    pub(super) fn borrowed(&self) -> Factor<'_> {
        match self {
            OwnedFactor::Lower(c) => Factor::Lower(c.as_ref()),
            OwnedFactor::Symmetric(c) => Factor::Symmetric(c.as_ref()),
            OwnedFactor::Diagonal(c) => Factor::Diagonal(c),
        }
    }
}

/// A batch of rows in parts: in every epoch, each part is shuffled and divided into as many slices
/// as the epoch has batches.
///
/// The rows of a batch depend on the seed, the number of the batch and the part. With a single
/// part, batches are the same as for rows in memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Draw {
    pub(super) seed: u64,
    pub(super) per_epoch: usize,
    /// The number of the batch, from the first epoch on.
    pub(super) batch: usize,
}

impl Draw {
    /// Returns the start and end of the slice of a part with `n` rows. Different parts start with
    /// different slices, so that batches differ little in size, even for small parts.
    fn slice(self, part: usize, n: usize) -> (usize, usize) {
        let at = (self.batch + part) % self.per_epoch;
        let begin = |slice: usize| slice * (n / self.per_epoch) + slice.min(n % self.per_epoch);
        (begin(at), begin(at + 1))
    }

    /// Returns the number of rows of the batch in parts with these counts.
    pub(super) fn size(self, counts: &[usize]) -> usize {
        let slices = counts.iter().enumerate().map(|(part, &n)| self.slice(part, n));
        slices.map(|(from, to)| to - from).sum()
    }

    /// Returns the rows of the batch in a part with `n` rows.
    pub(super) fn rows(self, part: usize, n: usize) -> Vec<usize> {
        let epoch = (self.batch / self.per_epoch) as u64;
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut part_generator(self.seed, Purpose::Batches, epoch, part as u64));
        let (from, to) = self.slice(part, n);
        order.drain(from..to).collect()
    }
}

/// Serialises a request for sums over the rows under a model.
fn message(model: &LatentModel, asked: Losses) -> Result<Vec<u8>> {
    postcard::to_allocvec(&(ModelAt::of(model)?, asked)).map_err(|error| unreadable(&error))
}

impl Round {
    /// Reads the bytes that [`PartedRows::ask`] received, and factorises the model. One round
    /// serves all parts on a machine.
    ///
    /// # Errors
    ///
    /// If the bytes are of another version, or the model has a custom part that is unknown here or cannot be factorised here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Round> {
        let (model, asked): (ModelAt, Losses) =
            postcard::from_bytes(bytes).map_err(|error| unreadable(&error))?;
        Ok(Round { model: model.build()?, asked })
    }
}

/// The sums over the rows of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[doc(hidden)]
pub struct PartSums {
    /// The losses of the rows with their derivatives.
    pub(super) batch: BatchSums,
    /// The sums by level of grouped effects.
    pub(super) effects: Option<EffectSums>,
}

/// The answer of parts to a [`Round`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Sums {
    /// The losses of rows with their derivatives.
    #[doc(hidden)]
    Losses(Box<PartSums>),
    /// The covariance of q has no Cholesky factor to draw samples, so there are no losses.
    #[doc(hidden)]
    NoFactor,
}

impl Sums {
    /// Serialises the answer; symmetric matrices are stored as one triangle.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(|error| unreadable(&error))
    }

    /// Reads a serialised answer.
    ///
    /// # Errors
    ///
    /// If the bytes are of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Sums> {
        postcard::from_bytes(bytes).map_err(|error| unreadable(&error))
    }

    /// Adds the answer of other parts to the same round.
    ///
    /// # Errors
    ///
    /// If it is an answer to another round.
    pub fn merge(&mut self, other: &Sums) -> Result<()> {
        match (&mut *self, other) {
            (Sums::Losses(own), Sums::Losses(other)) => {
                own.batch.merge(&other.batch)?;
                match (&mut own.effects, &other.effects) {
                    (Some(own), Some(other)) => own.merge(other),
                    _ => Ok(()),
                }
            }
            (Sums::NoFactor, _) => Ok(()),
            (Sums::Losses(_), Sums::NoFactor) => {
                *self = Sums::NoFactor;
                Ok(())
            }
        }
    }
}

/// Rows of all parts that are evaluated together: all of them, or a batch.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct PartedPortion<'a> {
    pub(super) parts: &'a dyn PartedRows,
    pub(super) draw: Option<Draw>,
    pub(super) len: usize,
}

impl PartedPortion<'_> {
    pub(super) fn len(self) -> usize {
        self.len
    }

    /// Returns the sums of their losses, or `None` if S has no Cholesky factor to draw samples.
    pub(super) fn losses(self, model: &LatentModel, asked: Losses) -> Result<Option<PartSums>> {
        match self.parts.ask(message(model, Losses { draw: self.draw, ..asked })?)? {
            Sums::Losses(sums) => Ok(Some(*sums)),
            Sums::NoFactor => Ok(None),
        }
    }
}

/// Creates the error for unreadable bytes of a question to a part, or of its answer.
#[doc(hidden)]
pub fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::data(format!("a message between the client and a machine that holds rows cannot be read: {why}"))
        .hint("install the same version of sparsegp on all machines")
}

/// A model as a short description and its flat natural vector.
#[derive(Serialize, Deserialize)]
pub(super) struct ModelAt {
    layers: Vec<LayerShape>,
    effects: Effects,
    /// True if the effects are features of the layers.
    summed: bool,
    likelihood: String,
    levels: usize,
    natural: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct LayerShape {
    kernel: String,
    /// M and D.
    inducing: (usize, usize),
    means: usize,
    jitter: Jitter,
    dimensions: Vec<Dimension>,
}

impl ModelAt {
    pub(super) fn of(model: &LatentModel) -> Result<ModelAt> {
        let shape = |layer: &Layer| {
            let layer = layer.inducing().ok_or_else(|| {
                Error::usage("only models with inducing inputs can be trained on rows in parts")
                    .hint("use ⟨model gp⟩")
            })?;
            let (kernel, inducing) = (layer.kernel().expression(), layer.z().shape());
            let (means, jitter) = (layer.mean().values.len(), layer.jitter());
            let dimensions = layer.kernel().dimensions().to_vec();
            Ok(LayerShape { kernel, inducing, means, jitter, dimensions })
        };
        Ok(ModelAt {
            layers: model.layers.iter().map(shape).collect::<Result<_>>()?,
            effects: model.effects.clone(),
            summed: model.sums_effects(),
            likelihood: model.likelihood.name().to_owned(),
            levels: model.likelihood.levels(),
            natural: model.natural(),
        })
    }

    pub(super) fn build(self) -> Result<LatentModel> {
        let registry = Registry::default();
        let name = &self.likelihood;
        let kind = registry.likelihood_kind(name).ok_or_else(|| {
            Error::usage(format!(
                "the machines that hold the rows do not know the likelihood '{name}', expected a built-in likelihood"
            ))
        })?;
        let likelihood = registry.likelihood(kind, self.levels)?;
        let layer = |shape: LayerShape| {
            let (m, d) = shape.inducing;
            let mut kernel = registry.kernel(&shape.kernel, d)?;
            kernel.set_dimensions(&shape.dimensions).map_err(|error| unreadable(&error))?;
            let layer = InducingPrior::new(kernel, Mat::zeros(m, d), shape.jitter)?;
            Ok(Layer::from(layer.with_means(vec![0.0; shape.means], false)))
        };
        let layers = self.layers.into_iter().map(layer).collect::<Result<Vec<_>>>()?;
        if !(layers.len() == 1 || layers.len() == likelihood.functions()) {
            return Err(unreadable(&"its layers do not match its likelihood"));
        }
        if !self.effects.is_consistent(self.effects.columns(), layers.len()) {
            return Err(unreadable(&"its grouped effects contradict each other"));
        }
        let mut model = LatentPrior::of_layers(layers, likelihood, false);
        model.effects = self.effects;
        if model.natural().len() != self.natural.len() {
            return Err(unreadable(&"its values do not match its model"));
        }
        model.set_natural(&self.natural);
        let model = model.factorised().map_err(|_| {
            Error::fit("the covariance of the inducing inputs has a Cholesky factor on the client, but not on a machine that holds rows")
                .hint("use machines with processors of one kind")
        })?;
        Ok(if self.summed { model.with_summed_effects() } else { model })
    }
}

impl Round {
    /// Computes the sums over the rows of part `part`, on the scale the model sees. Parts are counted from 0, including parts without rows.
    ///
    /// # Errors
    ///
    /// If the rows have another number of inputs than the model.
    pub fn sums(&self, part: usize, rows: Dataset<'_>) -> Result<Sums> {
        let effects = &self.model.effects;
        let d = self.model.layer().input_dims() + effects.columns();
        if rows.x.shape() != (rows.len(), d) {
            let (n, found) = rows.x.shape();
            let expected = rows.len();
            return Err(Error::data(format!(
                "part {part} has inputs of {n} × {found}, expected {expected} × {d}"
            )));
        }
        check_groups(rows.x, effects.terms())?;
        match self.asked.draw {
            None => self.losses(part, rows),
            Some(draw) => {
                let drawn = draw.rows(part, rows.len());
                self.losses(part, RowBuffer::taken(rows, &drawn).data())
            }
        }
    }

    fn losses(&self, part: usize, rows: Dataset<'_>) -> Result<Sums> {
        let Round { model, asked } = self;
        let (layers, likelihood, effects) = (model.layers(), &model.likelihood, &model.effects);
        let problem = Problem {
            factor: asked.factor.as_ref().map(OwnedFactor::borrowed),
            groups: asked.groups.as_ref().map(|moments| RowMoments { effects, moments }),
            noises: &asked.noises,
            ..Problem::new(layers, likelihood, asked.objective, &asked.q)
        };
        let mut pass = BatchPass::new(problem, rows.len().min(CHUNK));
        pass.seed(asked.seed);
        pass.set_samples(asked.samples);
        pass.go_to_run(asked.run);
        let by_level = asked.wanted == Wanted::Origin && !effects.is_empty() && !model.sums_effects();
        let levels = by_level.then(|| EffectRows::new(effects, rows.x));
        let mut by_level = levels.as_ref().map(|levels| EffectSums::zeros(levels, layers.dim()));
        let own = by_level.as_mut().map(|sums| LevelSums { levels: levels.as_ref(), sums });
        let sweep = Sweep::of_part(&rows, asked.scale, part);
        let how = (asked.form, asked.wanted);
        if !add_all(sweep, &mut pass, model, problem, how, own, &mut |_, _| {})? {
            return Ok(Sums::NoFactor);
        }
        let batch = pass.sums_so_far().clone();
        Ok(Sums::Losses(Box::new(PartSums { batch, effects: by_level })))
    }
}

/// All rows of all parts.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Parts<'a>(pub &'a dyn PartedRows);

impl<'a> Parts<'a> {
    /// Returns the batches of a plan.
    ///
    /// # Errors
    ///
    /// If the batches differ in size.
    pub fn batches(self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + 'a>> {
        if !matches!(plan, BatchPlan::Epochs(_)) {
            return Err(
                Error::usage("the batch size cannot vary if the rows are in parts").hint("give ⟨batch_size⟩")
            );
        }
        let draw = Draw { seed, per_epoch: plan.per_epoch(self.count()), batch: 0 };
        Ok(Box::new(PartedBatches { all: self, draw }))
    }
}

impl AllRows for Parts<'_> {
    fn count(&self) -> usize {
        self.0.counts().iter().sum()
    }

    fn for_each(&self, _most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        visit(Portion::There(PartedPortion { parts: self.0, draw: None, len: self.count() }));
        Ok(())
    }

    fn elsewhere(&self) -> Option<&dyn PartedRows> {
        Some(self.0)
    }
}

/// Batches that the holders of the rows draw.
struct PartedBatches<'a> {
    all: Parts<'a>,
    draw: Draw,
}

impl BatchSource for PartedBatches<'_> {
    fn all(&self) -> &dyn AllRows {
        &self.all
    }

    fn per_epoch(&self) -> usize {
        self.draw.per_epoch
    }

    fn next_batch(&mut self) -> Result<Portion<'_>> {
        let (parts, draw) = (self.all.0, self.draw);
        self.draw.batch += 1;
        Ok(Portion::There(PartedPortion { parts, draw: Some(draw), len: draw.size(parts.counts()) }))
    }

    fn seek(&mut self, batches: usize) -> Result<()> {
        self.draw.batch = batches;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::BatchPlan;

    #[test]
    fn an_epoch_draws_every_row_of_every_part_once_in_batches_of_nearly_one_size() {
        let counts = [17, 0, 3, 40, 1, 1, 1, 9];
        let n: usize = counts.iter().sum();
        for batch in [1, 7, 24, n, 10 * n] {
            let per_epoch = BatchPlan::Epochs(batch).per_epoch(n);
            for epoch in 0..2 {
                let mut seen: Vec<Vec<usize>> = vec![Vec::new(); counts.len()];
                for batch in epoch * per_epoch..(epoch + 1) * per_epoch {
                    let draw = Draw { seed: 3, per_epoch, batch };
                    let rows = counts.iter().enumerate().map(|(part, &n)| draw.rows(part, n));
                    let rows: Vec<Vec<usize>> = rows.collect();
                    assert_eq!(rows.iter().map(Vec::len).sum::<usize>(), draw.size(&counts));
                    // The slice of each part differs from an even share by less than a row.
                    let even = n as f64 / per_epoch as f64;
                    assert!((draw.size(&counts) as f64 - even).abs() < counts.len() as f64);
                    seen.iter_mut().zip(rows).for_each(|(seen, rows)| seen.extend(rows));
                }
                for (mut seen, n) in seen.into_iter().zip(counts) {
                    seen.sort_unstable();
                    assert_eq!(seen, (0..n).collect::<Vec<_>>());
                }
            }
        }
    }
}
