//! q(w) moved by one rule along mini-batch gradients, with schedules and averages, one step at a
//! time.

use super::model::{ModelState, VariationalModel};
use super::solve::full_objective;
use crate::checkpoint::MOST;
use crate::collapsed::Dataset;
use crate::data::{BatchPlan, SizeSchedule};
use crate::error::Result;
use crate::model::LatentModel;
use crate::objective::{MOST_SAMPLES, Objective};
use crate::options::Plan;
use crate::training::row_sums::Sweep;
use crate::training::rows::{BatchSource, MemoryBatches, Portion};
use crate::variational::{Average, IterateAverage, Matrix, Normal, RuleOptions, Rules, Schedule, StepInfo};
use serde::{Deserialize, Serialize};

/// The options of the steps on q.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub struct InferenceOptions {
    /// The rule.
    pub rule: RuleOptions,
    /// The step size at iteration t.
    pub step: Schedule,
    /// The batches.
    pub batches: BatchPlan,
    /// The number of samples at iteration t, if the estimator of the objective draws any; `None` means the estimator's number.
    pub samples: Option<SizeSchedule>,
    /// The average of the iterates to keep.
    pub average: Average,
    /// The seed of batches and samples.
    pub seed: u64,
}

impl InferenceOptions {
    /// Returns the options of a plan, for the q of `model`.
    pub(in crate::training) fn of(plan: &Plan, model: &LatentModel) -> Self {
        let (options, steps) = (&plan.options, &plan.options.steps);
        let mut rule = steps.rule();
        if let (true, Some(layer)) = (steps.q_nonnegative, model.layer().linear()) {
            rule.lower = layer.nonnegative_weights();
        }
        InferenceOptions {
            rule,
            step: options.step_schedule(),
            batches: match steps.batch_schedule {
                Some(sizes) => BatchPlan::Sized(sizes),
                None => BatchPlan::Epochs(steps.batch_size.min(plan.rows)),
            },
            samples: steps.sample_schedule,
            average: steps.q_average,
            seed: options.seed,
        }
    }

    /// Returns the options of a rule with a step schedule on all rows, without averages.
    pub fn full_batch(rule: impl Into<RuleOptions>, step: Schedule) -> Self {
        InferenceOptions {
            rule: rule.into(),
            step,
            batches: BatchPlan::Sized(SizeSchedule::Constant(usize::MAX)),
            samples: None,
            average: Average::None,
            seed: 0,
        }
    }
}

/// Variational inference of q on the batches of some rows, with fixed θ and Z.
///
/// If a batch cannot be evaluated, the step before it is taken back, and the following steps are halved; if the next batch cannot be
/// evaluated either, q returns to its value an epoch before. A step that trains θ, too, is also taken back if it raises the objective far
/// beyond the noise of batches.
#[doc(hidden)]
pub struct Inference<'a> {
    pub(super) source: Box<dyn BatchSource + 'a>,
    pub(super) model: VariationalModel,
    rules: Rules,
    options: InferenceOptions,
    pub(super) memory: Memory,
    pending: Option<Pending>,
}

/// What earlier steps have left, except in the model and in the rules.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::training) struct Memory {
    averages: Vec<IterateAverage>,
    iterations: usize,
    samples: usize,
    pub rollbacks: usize,
    /// The number of last steps in a row that the rule refused.
    refused: usize,
    /// q of an epoch before.
    safe: Vec<Normal>,
    /// θ, Z and q before the last step; `None` once the step was taken back.
    before: Option<(Vec<f64>, Vec<Normal>)>,
    watch: Watch,
    shrink: f64,
}

/// Everything that determines the further inference, except the rows.
pub(in crate::training) type InferenceState = (ModelState, Vec<Vec<u8>>, Memory);

/// The second half of a step whose batch has been evaluated.
struct Pending {
    step: f64,
    /// True if later failures return to q after this step.
    remember: bool,
}

impl<'a> Inference<'a> {
    /// Creates an inference on `data` from the whitened posterior `q` of every process; `model` must be refreshed.
    pub fn new(
        model: LatentModel,
        q: impl Into<Vec<Normal>>,
        objective: Objective,
        data: Dataset<'a>,
        options: InferenceOptions,
    ) -> Self {
        let first = options.batches.first(data.len());
        let model = VariationalModel::new(model, q, objective, first).with_seed(options.seed);
        let source = MemoryBatches::new(data, options.batches, options.seed);
        Inference::of(model, Box::new(source), options)
    }

    /// Like [`new`](Self::new), for a prepared model and an existing batch source.
    pub(in crate::training) fn of(
        model: VariationalModel,
        source: Box<dyn BatchSource + 'a>,
        options: InferenceOptions,
    ) -> Self {
        let memory = Memory {
            averages: model.posteriors().iter().map(|_| IterateAverage::new(options.average)).collect(),
            iterations: 0,
            samples: 0,
            rollbacks: 0,
            refused: 0,
            safe: model.posteriors().to_vec(),
            before: None,
            watch: Watch::default(),
            shrink: 1.0,
        };
        let rules = Rules::of_all(&options.rule, model.posteriors());
        Inference { source, rules, memory, pending: None, model, options }
    }

    /// Takes one step. Returns the objective estimated on its batch before the step (a sum over the data; not finite if it could not be
    /// evaluated), and the outcome of the step.
    pub fn step(&mut self) -> (f64, StepInfo) {
        // All rows of a public inference are in memory, so they can always be read.
        let value = self.evaluate(None, false).unwrap_or(f64::NAN);
        (value, self.complete_step())
    }

    /// Returns the last iterate of the only process, or of the first.
    pub fn q(&self) -> &Normal {
        self.model.q()
    }

    /// Completes the last step, and returns the state for a checkpoint.
    pub(in crate::training) fn state(&mut self) -> InferenceState {
        self.complete_step();
        (self.model.state(), self.rules.state(), self.memory.clone())
    }

    /// Continues from a state; returns false if it does not suit the inference, whose state is then undefined.
    pub(in crate::training) fn restore(&mut self, (model, rules, memory): InferenceState) -> bool {
        let counts = [memory.iterations, memory.samples, memory.rollbacks, memory.refused];
        let suits = |(average, q): (&IterateAverage, &Normal)| average.suits(self.options.average, q);
        // The second half of a step from before must not follow.
        self.pending = None;
        let suits = self.model.restore(model)
            && self.rules.restore(&rules)
            && Normal::are_like(self.model.posteriors(), &memory.safe)
            && memory.before.as_ref().is_none_or(|(natural, q)| {
                natural.len() == self.model.model.natural().len()
                    && Normal::are_like(self.model.posteriors(), q)
            })
            && memory.averages.len() == memory.safe.len()
            && memory.averages.iter().zip(&memory.safe).all(suits)
            && counts.iter().all(|&count| count <= MOST);
        if suits {
            self.memory = memory;
        }
        suits && self.source.seek(self.memory.iterations).is_ok()
    }

    /// Returns the objective of the last iterate on all rows, a sum.
    pub fn objective(&mut self) -> f64 {
        let rows = self.source.all();
        let part = self.model.capacity.min(rows.count());
        full_objective(&mut self.model, Sweep::of(rows, part)).unwrap_or(f64::NAN)
    }

    /// Returns the number of steps.
    pub fn iterations(&self) -> usize {
        self.memory.iterations
    }

    /// Returns the number of samples of w drawn in all steps.
    pub fn samples_used(&self) -> usize {
        self.memory.samples
    }

    /// Returns the model with its posterior.
    pub fn model(&self) -> &VariationalModel {
        &self.model
    }

    /// Runs the first half of a step: estimates the objective on the next batch, or on a batch of other rows, which represents all rows of the
    /// source. With `train_theta` it leaves the gradient in θ and Z in the model. The second half is [`Inference::complete_step`] or
    /// [`Inference::complete_step_at`]; before it, q is that of the previous step.
    ///
    /// # Errors
    ///
    /// If no batch or no sums over remote rows are available; q is then that of the previous step.
    pub(in crate::training) fn evaluate(
        &mut self,
        other: Option<Dataset<'_>>,
        train_theta: bool,
    ) -> Result<f64> {
        let (n, per_epoch) = (self.source.all().count(), self.source.per_epoch());
        let own = other.is_none();
        let batch = match other {
            Some(rows) => Portion::Here(rows),
            None => self.source.next_batch()?,
        };
        self.model.reserve(batch.here().map_or(0, |rows| rows.len()));
        if let Some(samples) = self.options.samples {
            self.model.set_samples(samples.at(self.memory.iterations, MOST_SAMPLES));
        }
        self.model.set_iteration(self.memory.iterations);
        self.memory.samples += self.model.samples();
        let scale = n as f64 / batch.len() as f64;
        let step = self.memory.shrink * self.options.step.at(self.memory.iterations);
        let remember = self.memory.iterations.is_multiple_of(per_epoch);
        self.memory.iterations += 1;
        let rows = Sweep::of_weight(&batch, scale);
        let value = self.model.evaluate_all(rows, train_theta, self.rules.factor())?;
        let per_row = value / n as f64;
        // The batch after a step that was taken back is accepted at any value, and rows of the caller may differ from earlier ones.
        let rises =
            own && train_theta && self.memory.before.is_some() && self.memory.watch.is_far_above(per_row);
        if !value.is_finite() || rises {
            self.take_back();
            return Ok(f64::NAN);
        }
        self.memory.watch.accept(per_row);
        self.memory.shrink = (Self::RECOVERY * self.memory.shrink).min(1.0);
        self.pending = Some(Pending { step, remember });
        Ok(value)
    }

    /// The factor by which steps that were halved grow again with every step that succeeds.
    const RECOVERY: f64 = 1.01;

    /// Returns to θ, Z and q before the last step, at which another batch could be evaluated, or if that step was taken back already, to the
    /// q of an epoch before.
    fn take_back(&mut self) {
        self.memory.shrink *= 0.5;
        let returned =
            self.memory.before.take().is_some_and(|(natural, q)| self.model.return_to(&natural, q));
        if !returned {
            self.model.set_q(self.memory.safe.clone());
        }
        self.rules.restart(self.model.posteriors());
    }

    /// Runs the second half of a step, if one has begun: moves q along the gradient of the batch.
    pub(in crate::training) fn complete_step(&mut self) -> StepInfo {
        let Some(pending) = self.pending.take() else { return StepInfo { step: 0.0, rollbacks: 0 } };
        self.remember();
        let info = self.model.update_all(&mut self.rules, pending.step);
        self.finish(pending, info);
        info
    }

    /// Like [`Inference::complete_step`], and also moves θ and Z; the parameterisation of the model
    /// determines how q moves with them. Returns false if θ and Z cannot be moved; they then stay
    /// unchanged.
    pub(in crate::training) fn complete_step_at(&mut self, natural: &[f64]) -> bool {
        let Some(pending) = self.pending.take() else {
            return self.model.set_natural_under(natural, &mut self.rules);
        };
        self.remember();
        let (info, moved) = self.model.advance(&mut self.rules, pending.step, natural);
        self.finish(pending, info);
        moved
    }

    /// Stores the state before a step.
    fn remember(&mut self) {
        let (natural, q) = self.memory.before.get_or_insert_default();
        *natural = self.model.model.natural();
        q.clear();
        q.extend_from_slice(self.model.posteriors());
    }

    fn finish(&mut self, pending: Pending, info: StepInfo) {
        self.memory.rollbacks += info.rollbacks;
        self.memory.refused = if info.step > 0.0 { 0 } else { self.memory.refused + 1 };
        // The batch could be evaluated at the previous q, so the q one step later is stored for
        // rollbacks.
        if pending.remember && self.model.kl().is_finite() {
            self.memory.safe.clone_from_slice(self.model.posteriors());
        }
        if self.options.average != Average::None {
            let iterates = self.model.posteriors().iter().zip(&mut self.memory.averages);
            iterates.for_each(|(q, average)| average.push(q.mean(), q.cov()));
        }
    }

    /// The number of refused steps in a row that ends training.
    const MOST_REFUSED: usize = 5;

    /// Returns true if the rule refused the last [`MOST_REFUSED`](Self::MOST_REFUSED) steps, or if it refused the last one and the next would
    /// repeat it: on all rows, without samples, at fixed θ and Z, and not shorter.
    pub(in crate::training) fn is_stuck(&self, trains_theta: bool) -> bool {
        let Memory { iterations, refused, .. } = self.memory;
        let step = |t: usize| self.options.step.at(t);
        let repeats = !trains_theta
            && self.source.per_epoch() == 1
            && self.model.samples() == 0
            && refused > 0
            && step(iterations) >= step(iterations - 1);
        refused >= Self::MOST_REFUSED || repeats
    }

    /// Returns the averages of the iterates, one for each process, or the last iterates if there is no average (or it has no Cholesky
    /// factor, by rounding).
    pub fn averaged(&self) -> Vec<Normal> {
        let averaged = |average: &IterateAverage| match average.result()? {
            (mean, Matrix::Full(cov)) => Normal::new(mean, cov).ok(),
            (mean, Matrix::Diagonal(variances)) => Normal::diagonal(mean, variances).ok(),
        };
        let all = self.model.posteriors().iter().zip(&self.memory.averages);
        all.map(|(q, average)| averaged(average).unwrap_or_else(|| q.clone())).collect()
    }
}

/// The running mean and variance of the objective per row, over the batches of accepted steps.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Watch {
    mean: f64,
    variance: f64,
    count: u32,
}

impl Watch {
    /// The weight of the last batch, which limits the memory to some 20 batches.
    const WEIGHT: f64 = 0.05;
    /// The number of batches before a value can be too high.
    const FEWEST: u32 = 5;
    /// A value is too high if it exceeds the mean by this many standard deviations …
    const DEVIATIONS: f64 = 10.0;
    /// … and this many nats per row.
    const NATS: f64 = 0.1;

    /// Returns true if the objective per row of a batch is far above those of earlier batches.
    pub(super) fn is_far_above(&self, value: f64) -> bool {
        self.count >= Self::FEWEST && value - self.mean > Self::DEVIATIONS * self.variance.sqrt() + Self::NATS
    }

    /// Adds the objective per row of a batch.
    pub(super) fn accept(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let weight = Self::WEIGHT.max(1.0 / f64::from(self.count));
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_far_beyond_the_noise_are_too_high() {
        let mut watch = Watch::default();
        assert!(!watch.is_far_above(1e9));
        for k in 0..200 {
            let value = 1.0 / f64::from(k + 1) + if k % 2 == 0 { 0.05 } else { -0.05 };
            assert!(!watch.is_far_above(value), "{value} after {k} batches");
            watch.accept(value);
        }
        assert!(watch.is_far_above(1.0) && watch.is_far_above(f64::INFINITY));
        assert!(!watch.is_far_above(0.2) && !watch.is_far_above(-5.0));
    }
}
