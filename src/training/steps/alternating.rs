//! The objective at its best q, as a function of θ and Z: q is optimised at every point, and the
//! gradient follows from the envelope theorem.

use super::model::{ModelState, VariationalModel};
use super::solve::{SolveLimits, UpdateCounts, solve_q};
use super::{Stepped, Stepping};
use crate::checkpoint::{MOST, decode, encode};
use crate::collapsed::Dataset;
use crate::error::{Error, Result};
use crate::hyper::{FreeVector, HyperObjective, Monitor, Outcome};
use crate::model::{LatentModel, Posterior, Score};
use crate::training::failure::failed_start;
use crate::training::row_sums::Sweep;
use crate::training::rows::{AllRows, TrainingRows, whole};
use crate::training::run::{Job, TakenBack};
use crate::training::solver::minimize;
use crate::variational::{Guard, Normal, Parameterization};
use serde::{Deserialize, Serialize};

/// Optimising the q of several functions takes many steps. It ends once a step gains less than this share of the gain of the last step of θ
/// and Z, …
const SHARE: f64 = 0.1;

/// … and at first once a step gains less than this many nats per datum.
const FIRST: f64 = 1e-3;

/// A step of θ and Z that gains nothing multiplies the expected gain by this.
const LESS: f64 = 0.3;

/// The maximum number of full-batch steps on q for one step on hyper-parameters.
const MOST_STEPS: usize = 30;

/// The gain of a step on the q of several functions, in nats over all rows, below which steps end.
const KNOWN: f64 = 1e-4;

/// A model whose q is optimised on all rows whenever θ and Z have moved, by natural gradients from the previous q.
///
/// At the best q the derivative of the objective in q is zero, so its derivative in θ is the partial one.
pub(in crate::training) struct Alternating<'a> {
    model: VariationalModel,
    free: FreeVector,
    natural: Vec<f64>,
    train: &'a dyn AllRows,
    validation: Option<Dataset<'a>>,
    batch: usize,
    guard: Guard,
    /// `tolerance` is the smallest tolerance.
    limits: SolveLimits,
    progress: Progress,
    /// True if every q is optimised up to the smallest tolerance.
    exact: bool,
    counts: UpdateCounts,
    /// The point with the best validation score, or without validation the one with the lowest value.
    best: Option<Solved>,
    /// The last evaluated point; its q starts the next optimisation.
    last: Option<Solved>,
    error: Option<Error>,
}

/// The lowest objective so far, and the expected gain of the next step.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Progress {
    lowest: f64,
    /// The expected gain of the next step of θ and Z, in nats per datum.
    gain: f64,
}

impl Progress {
    /// Records the objective of `n` data at another point.
    fn learn(&mut self, value: f64, n: usize) {
        self.gain = match (self.lowest - value) / n as f64 {
            gain if gain > 0.0 && gain.is_finite() => gain,
            _ => LESS * self.gain,
        };
        self.lowest = self.lowest.min(value);
    }
}

/// Parameters with their q and value.
#[derive(Clone, Serialize, Deserialize)]
struct Solved {
    natural: Vec<f64>,
    q: Vec<Normal>,
    value: f64,
}

impl<'a> Alternating<'a> {
    pub(in crate::training) fn new(
        model: VariationalModel,
        free: FreeVector,
        rows: &'a dyn TrainingRows,
        guard: Guard,
        limits: SolveLimits,
    ) -> Self {
        let (natural, batch) = (model.model.natural(), model.capacity);
        let counts = UpdateCounts::default();
        Alternating {
            natural,
            model,
            free,
            train: rows.all(),
            validation: rows.validation(),
            batch,
            guard,
            limits,
            progress: Progress { lowest: f64::INFINITY, gain: FIRST / SHARE },
            exact: false,
            counts,
            best: None,
            last: None,
            error: None,
        }
    }

    /// Optimises every q up to the smallest tolerance, whatever a step of θ gains.
    pub(in crate::training) fn exactly(self) -> Self {
        Alternating { exact: true, ..self }
    }

    /// Returns the model at the last evaluated point, and its q.
    pub(in crate::training) fn current(&self) -> (&LatentModel, &[Normal]) {
        (&self.model.model, self.model.posteriors())
    }

    /// Returns the best point, its value (a sum, without priors), and the work counts of q.
    pub(in crate::training) fn into_best(mut self) -> (VariationalModel, f64, UpdateCounts) {
        let Some(best) = self.best.take() else { return (self.model, f64::NAN, self.counts) };
        self.model.set_natural(&best.natural);
        self.model.set_q(best.q);
        (self.model, best.value, self.counts)
    }

    /// Moves to `theta` and optimises q; returns the value, which is not finite if that failed.
    fn solve(&mut self, theta: &[f64]) -> f64 {
        if self.error.is_some() {
            return f64::NAN;
        }
        self.free.unpack(theta, &mut self.natural);
        if let Some(last) = &self.last {
            // A point that could not be evaluated may have left any q behind.
            self.model.set_natural(&last.natural);
            self.model.set_q(last.q.clone());
        }
        if !(self.natural.iter().all(|x| x.is_finite()) && self.model.set_natural(&self.natural)) {
            return f64::NAN;
        }
        let all = Sweep::of(self.train, self.batch);
        let several = self.model.posteriors().len() > 1;
        let loosest = if several { FIRST.max(self.limits.tolerance) } else { self.limits.tolerance };
        let wanted = if self.exact { 0.0 } else { SHARE * self.progress.gain };
        let tolerance = wanted.clamp(self.limits.tolerance, loosest);
        let limits = SolveLimits { tolerance, ..self.limits };
        match solve_q(&mut self.model, all, self.guard, limits, None) {
            Ok((value, counts)) => {
                self.counts.add(counts);
                value
            }
            Err(error) => {
                self.error = Some(error);
                f64::NAN
            }
        }
    }

    /// Returns the gradient at the current point in natural units: the partial one, although q moves with θ.
    fn gradient(&mut self) -> Result<Vec<f64>> {
        let held = std::mem::replace(&mut self.model.parameterization, Parameterization::Whitened);
        let summed = self.model.evaluate_all(Sweep::of(self.train, self.batch), true, None);
        self.model.parameterization = held;
        self.counts.evaluations += 1;
        summed.map(|_| self.model.theta_gradient().to_vec())
    }
}

impl HyperObjective for Alternating<'_> {
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let value = self.solve(theta);
        if !value.is_finite() {
            return f64::NAN;
        }
        self.progress.learn(value, self.train.count());
        let flat = match self.gradient() {
            Ok(flat) => flat,
            Err(error) => {
                self.error = Some(error);
                return f64::NAN;
            }
        };
        let solved = Solved { natural: self.natural.clone(), q: self.model.posteriors().to_vec(), value };
        if self.validation.is_none() && self.best.as_ref().is_none_or(|best| value < best.value) {
            self.best = Some(solved.clone());
        }
        self.last = Some(solved);
        value + self.free.pull_back(&self.natural, &flat, gradient)
    }

    fn prior_terms(&self, theta: &[f64]) -> f64 {
        self.free.penalty_at(theta, &self.natural)
    }

    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let validation = self.validation?;
        let value = self.solve(theta);
        if !value.is_finite() {
            return Some(f64::NAN);
        }
        self.last =
            Some(Solved { natural: self.natural.clone(), q: self.model.posteriors().to_vec(), value });
        Some(Posterior::new(&self.model.model, self.model.posteriors()).score(validation, Score::LogLoss))
    }

    fn exhausted(&self) -> bool {
        self.error.is_some()
    }

    fn keep(&mut self, _theta: &[f64]) {
        self.best.clone_from(&self.last);
    }

    fn state(&mut self) -> Vec<u8> {
        encode(&(self.model.state(), &self.best, &self.last, self.progress, self.counts))
    }

    fn restore(&mut self, state: &[u8]) -> bool {
        type State = (ModelState, Option<Solved>, Option<Solved>, Progress, UpdateCounts);
        let Some((model, best, last, progress, counts)) = decode::<State>(state) else { return false };
        let solved = self.model.restore(model)
            && best.iter().chain(&last).all(|at| {
                at.natural.len() == self.natural.len() && Normal::are_like(self.model.posteriors(), &at.q)
            });
        (self.best, self.last, self.progress, self.counts) = (best, last, progress, counts);
        solved && counts.evaluations.max(counts.rollbacks) <= MOST
    }
}

/// Trains hyper-parameters on all rows, with q optimised at every step.
pub(super) fn train(stepping: Stepping, job: &Job<'_>, monitor: &mut Monitor<'_>) -> Result<Stepped> {
    let Job { rows, plan, .. } = *job;
    let train = rows.all();
    if train.elsewhere().is_none() {
        whole(rows, "solving for q at every step")?;
    }
    let Stepping { svgp, free, .. } = stepping;
    let mut tolerance = 1e-2 * plan.limits.tolerance;
    if svgp.posteriors().len() > 1 {
        // For few rows, a larger tolerance per row still determines the sum well enough.
        tolerance = tolerance.max(KNOWN / train.count() as f64);
    }
    let limits = SolveLimits { steps: MOST_STEPS, tolerance, end: monitor.session.end() };
    let mut objective = Alternating::new(svgp, free, rows, plan.options.steps.q_guard, limits);
    let start = objective.free.pack(&objective.natural);
    let mut outcome = minimize(&mut objective, start, train.count() as f64, plan, monitor);
    if let Some(error) = objective.error {
        return Err(error);
    }
    monitor.session.check()?;
    let (svgp, value, counts) = objective.into_best();
    if !value.is_finite() {
        return Err(failed_start());
    }
    let taken_back = TakenBack { hyper: outcome.rollbacks, ..TakenBack::default() };
    outcome.evaluations = counts.evaluations;
    Ok(Stepped { svgp, outcome: Outcome { value, ..outcome }, taken_back })
}
