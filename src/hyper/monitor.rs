//! The monitor of a running minimisation: clock, trace, the reasons to end it, and the points at which it can end or be
//! saved.

use super::event::{Event, Stage};
use super::session::{Listener, Session};
use crate::checkpoint::{Checkpoint, encode};
use crate::error::{Error, Result};
use crate::words::{stored_as_text, word_option};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Watches a minimisation: keeps the trace, reports events to the session, and decides when to
/// stop.
#[doc(hidden)]
pub struct Monitor<'a> {
    pub(crate) limits: Limits,
    epochs: Epochs,
    /// The reason for the end, once there is one.
    reason: Option<StopReason>,
    started: Instant,
    /// Time before an interruption, in seconds.
    before: f64,
    pub(crate) session: Session<'a>,
    /// The numbers of rows and iterations, if it monitors a warm start.
    warm: Option<(usize, usize)>,
}

impl<'a> Monitor<'a> {
    /// Creates a monitor whose clock starts now; `listener` receives every epoch.
    pub fn new(limits: Limits, listener: &'a mut Listener<'a>) -> Self {
        Monitor::within(limits, Session::new(listener))
    }

    /// Creates a monitor of a part of the same fit, whose epochs are not reported; its clock starts now.
    pub(crate) fn nested(&mut self, limits: Limits) -> Monitor<'_> {
        Monitor::within(limits, self.session.silent())
    }

    /// Creates a monitor of a warm start on `rows` rows, whose iterations are reported as stages; its clock starts now.
    pub(crate) fn warm_start(&mut self, rows: usize, limits: Limits) -> Monitor<'_> {
        let iterations = limits.epochs;
        self.session.enter(Stage::WarmStart { rows, done: 0, iterations });
        Monitor { warm: Some((rows, iterations)), ..self.session.monitor(limits) }
    }

    pub(super) fn within(limits: Limits, session: Session<'a>) -> Self {
        let (epochs, started) = (Epochs::default(), Instant::now());
        Monitor { limits, epochs, reason: None, started, before: 0.0, session, warm: None }
    }

    /// Records one epoch; returns true if its validation score is the best so far, or without validation.
    pub fn record(&mut self, reached: impl Into<Reached>, validation_nll: Option<f64>) -> bool {
        let epoch = self.epochs.records.len() + 1;
        let record = Record::of(epoch, self.elapsed().as_secs_f64(), reached.into(), validation_nll);
        let best = self.epochs.take(record);
        self.session.tell(&match self.warm {
            Some((rows, iterations)) => Event::Stage(Stage::WarmStart { rows, done: epoch, iterations }),
            None => Event::Epoch { record, limits: self.told_limits() },
        });
        if self.session.has_seen_enough() {
            self.stop(StopReason::Stopped);
        }
        if self.reason.is_none() {
            self.reason = self.epochs.verdict(&self.limits, self.elapsed().as_secs_f64());
        }
        if self.session.is_late() {
            self.stop(StopReason::MaxSeconds);
        }
        best
    }

    /// Returns the limits, with the seconds that the whole command leaves to this minimisation.
    fn told_limits(&self) -> Limits {
        let end = self.session.seconds_left().map(|left| self.elapsed().as_secs_f64() + left);
        let seconds = [end, self.limits.seconds].into_iter().flatten().reduce(f64::min);
        Limits { seconds, ..self.limits }
    }

    /// Ends the fit between epochs if the limit of time or steps is reached, or if the user
    /// interrupted it. `taken` is the number of steps, if they are limited.
    pub fn look_around(&mut self, taken: Option<usize>) {
        if taken.zip(self.limits.steps).is_some_and(|(taken, most)| taken >= most) {
            self.stop(StopReason::MaxSteps);
        } else if self.session.is_interrupted() {
            self.stop(StopReason::Interrupted);
        } else if self.session.is_late() || self.limits.are_over_after(self.elapsed().as_secs_f64()) {
            self.stop(StopReason::MaxSeconds);
        }
    }

    /// Ends the fit for `reason` unless it has ended already.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.reason.get_or_insert(reason);
    }

    /// The reason to stop, once there is one.
    pub fn stopped(&self) -> Option<StopReason> {
        self.reason
    }

    /// Time since the start, including that before an interruption.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed() + Duration::from_secs_f64(self.before)
    }

    /// Returns the number of plateaus of the objective.
    pub fn plateaus(&self) -> usize {
        self.epochs.plateaus
    }

    /// The trace so far.
    pub fn records(&self) -> &[Record] {
        &self.epochs.records
    }

    /// Continues the stage that begins from its saved state, if there is one: that of the monitor, of the solver and of the objective.
    /// `restore` takes the latter two, and returns false if they do not suit; the fit then ends.
    pub(crate) fn begin_stage<S: DeserializeOwned>(&mut self, restore: impl FnOnce(S, &[u8]) -> bool) {
        let Some(saved) = self.session.checkpoint().and_then(Checkpoint::begin) else { return };
        let suits = match postcard::take_from_bytes::<(f64, (Epochs, Option<StopReason>), S)>(&saved) {
            Ok(((seconds, (epochs, reason), solver), objective)) if (0.0..1e12).contains(&seconds) => {
                (self.started, self.before) = (Instant::now(), seconds);
                let suits = epochs.are_possible() && restore(solver, objective);
                (self.epochs, self.reason) = (epochs, reason);
                suits
            }
            _ => false,
        };
        if !suits {
            if let Some(checkpoint) = self.session.checkpoint() {
                checkpoint.damaged = true;
            }
            self.reason = Some(StopReason::Interrupted);
        }
    }

    /// Saves the state of the current stage, of which `parts` returns those of the solver and of the objective, if a state is due or the fit
    /// was interrupted.
    pub(crate) fn save_if_due<S: Serialize>(&mut self, parts: impl FnOnce() -> (S, Vec<u8>)) {
        let interrupted = self.reason == Some(StopReason::Interrupted);
        if self.session.checkpoint().is_some_and(|checkpoint| interrupted || checkpoint.is_due()) {
            self.save(parts, Checkpoint::save);
        }
    }

    /// Saves the last state of a stage, as [`save_if_due`](Self::save_if_due) does, unless it was interrupted.
    pub(crate) fn end_stage<S: Serialize>(&mut self, parts: impl FnOnce() -> (S, Vec<u8>)) {
        if self.reason != Some(StopReason::Interrupted) {
            self.save(parts, Checkpoint::finish_stage);
        }
    }

    fn save<S: Serialize>(
        &mut self,
        parts: impl FnOnce() -> (S, Vec<u8>),
        keep: impl FnOnce(&mut Checkpoint, Vec<u8>),
    ) {
        let seconds = self.elapsed().as_secs_f64();
        let Some(checkpoint) = self.session.checkpoint().filter(|kept| kept.damage().is_none()) else {
            return;
        };
        let (solver, objective) = parts();
        // An interruption is not part of the state: the fit continues when it is resumed.
        let reason = self.reason.filter(|reason| *reason != StopReason::Interrupted);
        let mut state = encode(&(seconds, (&self.epochs, reason), solver));
        state.extend(objective);
        keep(checkpoint, state);
    }
}

word_option! {
    /// The reason why a fit ended.
    #[non_exhaustive]
    StopReason, "stop reason" {
        /// The smoothed objective no longer improved by more than the tolerance.
        Converged = "converged",
        /// The epoch limit was reached.
        MaxEpochs = "max_epochs",
        /// The limit of steps was reached.
        MaxSteps = "max_steps",
        /// The time limit was reached.
        MaxSeconds = "max_seconds",
        /// The validation score stopped improving.
        EarlyStop = "early_stop",
        /// The objective, or the validation score if there is one, reached the requested value.
        TargetReached = "target_reached",
        /// A callback requested the stop.
        Stopped = "stopped",
        /// No step that could be evaluated improved the objective.
        NoProgress = "no_progress",
        /// The user interrupted the fit.
        Interrupted = "interrupted",
    }
}

impl StopReason {
    /// The reason in a sentence for a reader.
    #[doc(hidden)]
    pub fn sentence(self) -> &'static str {
        match self {
            StopReason::Converged => "the objective no longer fell by more than the tolerance",
            StopReason::MaxEpochs => "the limit of epochs was reached",
            StopReason::MaxSteps => "the limit of steps was reached",
            StopReason::MaxSeconds => "the time limit was reached",
            StopReason::EarlyStop => "the validation score stopped improving; the best parameters were kept",
            StopReason::TargetReached => "the requested target was reached",
            StopReason::Stopped => "a callback requested the stop",
            StopReason::NoProgress => "no step improved the objective any more",
            StopReason::Interrupted => "it was interrupted",
        }
    }
}

/// Limits of a fit. An epoch is one pass over the data: one iteration of L-BFGS, n/b steps of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Limits {
    /// The largest number of epochs.
    pub epochs: usize,
    /// The largest number of mini-batch steps, if any.
    pub steps: Option<usize>,
    /// The largest number of seconds, if any.
    pub seconds: Option<f64>,
    /// Stop if the objective per row, averaged over two successive windows of [`Limits::window`] epochs, fell by less than this many nats
    /// per epoch; 0 disables the test. Nats per row have an absolute scale, so the test does not depend on the units of the data.
    pub tolerance: f64,
    /// Epochs per window.
    pub window: usize,
    /// Stop once the objective of this many epochs in a row stays within this many nats per row, if given.
    pub range: Option<StopRange>,
    /// The number of plateaus before the fit ends; a solver with a step size reduces it at each.
    pub plateaus: usize,
    /// Stop after this many epochs without a better validation score.
    pub patience: usize,
    /// Stop once the validation score is at most this; without validation, once the objective per row is.
    pub target: Option<f64>,
}

impl Limits {
    /// Creates limits of a number of epochs only.
    pub(crate) fn of_epochs(epochs: usize) -> Self {
        Limits {
            epochs,
            steps: None,
            seconds: None,
            tolerance: 0.0,
            window: 1,
            range: None,
            plateaus: 1,
            patience: usize::MAX,
            target: None,
        }
    }

    /// Returns true if the time limit has passed after this many seconds.
    pub(super) fn are_over_after(&self, seconds: f64) -> bool {
        self.seconds.is_some_and(|limit| seconds >= limit)
    }
}

/// A range within which the objective stays once training has converged: the stopping rule of Wei,
/// Sheth & Khardon 2021, who take 50 iterations for regression, 20 for classes and counts, and
/// 1e-4.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StopRange {
    /// The number of epochs, at least 2.
    pub epochs: usize,
    /// The difference of the largest and the smallest objective among them, in nats per datum.
    pub nats: f64,
}

impl fmt::Display for StopRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epochs, self.nats)
    }
}

impl FromStr for StopRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once(':').and_then(|(epochs, nats)| {
            let epochs = epochs.parse().ok().filter(|epochs| *epochs >= 2)?;
            let nats = nats.parse().ok().filter(|nats: &f64| *nats >= 0.0 && nats.is_finite())?;
            Some(StopRange { epochs, nats })
        });
        parts.ok_or_else(|| {
            Error::usage(format!(
                "range '{text}' is not EPOCHS:NATS with at least 2 epochs and NATS of at least 0, such as 50:1e-4"
            ))
        })
    }
}

stored_as_text!(StopRange);

/// The result of a minimisation so far, per row.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Reached {
    /// The value of the minimised function.
    pub(crate) value: f64,
    /// The part of the value that comes from priors.
    pub(crate) prior_terms: f64,
}

impl From<f64> for Reached {
    /// An objective without priors.
    fn from(value: f64) -> Self {
        Reached { value, prior_terms: 0.0 }
    }
}

/// One line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Epochs done.
    pub epoch: usize,
    /// Seconds since the start.
    pub seconds: f64,
    /// The objective per row, without priors; with several batches, their average over the epoch.
    pub objective: f64,
    /// The term `−Σ log p` per row, up to constants, that training adds if hyper-parameters have priors.
    #[serde(default)]
    pub prior_terms: f64,
    /// Validation NLL, if there are validation rows.
    pub validation_nll: Option<f64>,
}

impl Record {
    /// The line of an epoch.
    #[doc(hidden)]
    pub fn of(epoch: usize, seconds: f64, reached: Reached, validation_nll: Option<f64>) -> Self {
        let Reached { value, prior_terms } = reached;
        Record { epoch, seconds, objective: value - prior_terms, prior_terms, validation_nll }
    }

    /// Returns the minimised value, per row.
    fn minimised(&self) -> f64 {
        self.objective + self.prior_terms
    }
}

/// The epochs so far, and the state of the stopping rules.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Epochs {
    pub records: Vec<Record>,
    best_validation: Option<(usize, f64)>,
    pub plateaus: usize,
    window_start: usize,
}

impl Epochs {
    /// Adds an epoch; returns true if its validation score is the best so far, or without validation.
    pub fn take(&mut self, record: Record) -> bool {
        self.records.push(record);
        match (record.validation_nll, self.best_validation) {
            (None, _) => true,
            (Some(nll), Some((_, best))) if nll.is_nan() || nll >= best => false,
            (Some(nll), _) => {
                self.best_validation = Some((record.epoch, nll));
                true
            }
        }
    }

    /// Returns the reason for which the last epoch is the final one, if it is; `seconds` is the time until now.
    pub fn verdict(&mut self, limits: &Limits, seconds: f64) -> Option<StopReason> {
        let last = self.records.last()?;
        let epoch = self.records.len();
        if limits.target.is_some_and(|target| last.validation_nll.unwrap_or(last.objective) <= target) {
            return Some(StopReason::TargetReached);
        }
        if limits.are_over_after(seconds) {
            return Some(StopReason::MaxSeconds);
        }
        if self.best_validation.is_some_and(|(at, _)| epoch - at >= limits.patience) {
            return Some(StopReason::EarlyStop);
        }
        if epoch >= limits.epochs {
            return Some(StopReason::MaxEpochs);
        }
        if limits.range.is_some_and(|range| self.stays_in(range)) {
            return Some(StopReason::Converged);
        }
        if self.stands_still(limits) {
            self.plateaus += 1;
            self.window_start = epoch;
            return (self.plateaus > limits.plateaus).then_some(StopReason::Converged);
        }
        None
    }

    /// Returns true if the last epochs are within a range.
    fn stays_in(&self, StopRange { epochs, nats }: StopRange) -> bool {
        let Some(from) = self.records.len().checked_sub(epochs) else { return false };
        let values = self.records[from..].iter().map(Record::minimised);
        let (least, most) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        most - least <= nats
    }

    /// Returns true if the later of the last two windows is hardly better than the earlier one.
    fn stands_still(&self, limits: &Limits) -> bool {
        let (epoch, w) = (self.records.len(), limits.window);
        let is_time = limits.tolerance > 0.0 && epoch - self.window_start >= 2 * w;
        is_time && {
            let mean = |r: &[Record]| r.iter().map(Record::minimised).sum::<f64>() / w as f64;
            let (earlier, later) = self.records[epoch - 2 * w..].split_at(w);
            mean(earlier) - mean(later) < limits.tolerance * w as f64
        }
    }

    /// Returns true if the counts, read from a file, are possible.
    pub fn are_possible(&self) -> bool {
        let counts = [self.window_start, self.plateaus, self.best_validation.map_or(0, |(at, _)| at)];
        counts.iter().all(|&count| count <= self.records.len())
    }
}
