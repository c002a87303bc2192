//! The monitor of a running minimisation: clock, trace, and the points at which it can end or be
//! saved.

use super::event::{Event, Stage};
use super::session::{Listener, Session};
use super::stopping::{Epochs, Limits, Reached, Record, StopReason};
use crate::checkpoint::{Checkpoint, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Watches a minimisation: keeps the trace, reports events to the session, and decides when to
/// stop.
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
            Ok(((seconds, (epochs, reason), solver), objective)) => {
                (self.started, self.before) = (Instant::now(), seconds);
                (self.epochs, self.reason) = (epochs, reason);
                restore(solver, objective)
            }
            Err(_) => false,
        };
        if !suits {
            if let Some(checkpoint) = self.session.checkpoint() {
                checkpoint.note_damage();
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
