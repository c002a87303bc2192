//! The monitor of a running minimisation: clock, trace, and the points at which it can end or be
//! saved.

use super::event::{Event, Stage};
use super::session::{Listener, Session};
use super::stopping::{Epochs, Limits, Reached, Record, StopReason, Stopping};
use crate::checkpoint::{Checkpoint, encode};
use crate::error::Result;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// Watches a minimisation: keeps the trace, reports events to the session, and decides when to
/// stop.
pub struct Monitor<'a> {
    stopping: Stopping,
    started: Instant,
    /// Time before an interruption, in seconds.
    before: f64,
    session: Session<'a>,
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
        self.enter(Stage::WarmStart { rows, done: 0, iterations });
        Monitor { warm: Some((rows, iterations)), ..self.session.monitor(limits) }
    }

    pub(super) fn within(limits: Limits, session: Session<'a>) -> Self {
        let stopping = Stopping { limits, epochs: Epochs::default(), reason: None };
        Monitor { stopping, started: Instant::now(), before: 0.0, session, warm: None }
    }

    /// Records one epoch; returns true if its validation score is the best so far, or without validation.
    pub fn record(&mut self, reached: impl Into<Reached>, validation_nll: Option<f64>) -> bool {
        let epoch = self.records().len() + 1;
        let record = Record::of(epoch, self.elapsed().as_secs_f64(), reached.into(), validation_nll);
        let best = self.stopping.take(record);
        self.session.tell(&match self.warm {
            Some((rows, iterations)) => Event::Stage(Stage::WarmStart { rows, done: epoch, iterations }),
            None => Event::Epoch { record, limits: self.told_limits() },
        });
        if self.session.has_seen_enough() {
            self.stop(StopReason::Stopped);
        }
        self.stopping.decide(self.elapsed().as_secs_f64());
        if self.session.is_late() {
            self.stop(StopReason::MaxSeconds);
        }
        best
    }

    /// Returns the limits, with the seconds that the whole command leaves to this minimisation.
    fn told_limits(&self) -> Limits {
        let end = self.session.seconds_left().map(|left| self.elapsed().as_secs_f64() + left);
        let seconds = [end, self.limits().seconds].into_iter().flatten().reduce(f64::min);
        Limits { seconds, ..*self.limits() }
    }

    /// Ends the fit between epochs if the limit of time or steps is reached, or if the user
    /// interrupted it. `taken` is the number of steps, if they are limited.
    pub fn look_around(&mut self, taken: Option<usize>) {
        if taken.is_some_and(|taken| self.stopping.out_of_steps(taken)) {
            self.stop(StopReason::MaxSteps);
        } else if self.session.is_interrupted() {
            self.stop(StopReason::Interrupted);
        } else if self.session.is_late() || self.stopping.out_of_time(self.elapsed().as_secs_f64()) {
            self.stop(StopReason::MaxSeconds);
        }
    }

    /// Returns true if fits compute intervals of variance components.
    pub(crate) fn has_intervals(&self) -> bool {
        self.session.has_intervals()
    }

    /// Tells the session's listener that a stage begins.
    pub(crate) fn enter(&mut self, stage: Stage) {
        self.session.enter(stage);
    }

    /// Returns true if the user interrupted the fit.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.session.is_interrupted()
    }

    /// Returns the time at which the whole fit has to end, if there is one, for work between minimisations.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.session.end()
    }

    /// Returns true if that time is over.
    pub(crate) fn is_late(&self) -> bool {
        self.session.is_late()
    }

    /// Ends the fit for `reason` unless it has ended already.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.stopping.reason.get_or_insert(reason);
    }

    /// The reason to stop, once there is one.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stopping.reason
    }

    /// Time since the start, including that before an interruption.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed() + Duration::from_secs_f64(self.before)
    }

    /// Returns the number of plateaus of the objective.
    pub fn plateaus(&self) -> usize {
        self.stopping.epochs.plateaus
    }

    /// The trace so far.
    pub fn records(&self) -> &[Record] {
        &self.stopping.epochs.records
    }

    /// The limits.
    pub(crate) fn limits(&self) -> &Limits {
        &self.stopping.limits
    }

    /// Continues the stage that begins from its saved state, if there is one: that of the monitor, of the solver and of the objective.
    /// `restore` takes the latter two, and returns false if they do not suit; the fit then ends.
    pub(crate) fn begin_stage<S: DeserializeOwned>(&mut self, restore: impl FnOnce(S, &[u8]) -> bool) {
        let Some(saved) = self.session.checkpoint().and_then(Checkpoint::begin) else { return };
        let suits = match postcard::take_from_bytes::<(f64, (Epochs, Option<StopReason>), S)>(&saved) {
            Ok(((seconds, (epochs, reason), solver), objective)) if (0.0..1e12).contains(&seconds) => {
                (self.started, self.before) = (Instant::now(), seconds);
                self.stopping.restore(epochs, reason) && restore(solver, objective)
            }
            _ => false,
        };
        if !suits {
            if let Some(checkpoint) = self.session.checkpoint() {
                checkpoint.note_damage();
            }
            self.stopping.reason = Some(StopReason::Interrupted);
        }
    }

    /// Saves the state of the current stage, of which `parts` returns those of the solver and of the objective, if a state is due or the fit
    /// was interrupted.
    pub(crate) fn save_if_due<S: Serialize>(&mut self, parts: impl FnOnce() -> (S, Vec<u8>)) {
        let interrupted = self.stopped() == Some(StopReason::Interrupted);
        if self.session.checkpoint().is_some_and(|checkpoint| interrupted || checkpoint.is_due()) {
            self.save(parts, Checkpoint::save);
        }
    }

    /// Saves the last state of a stage, as [`save_if_due`](Self::save_if_due) does, unless it was interrupted.
    pub(crate) fn end_stage<S: Serialize>(&mut self, parts: impl FnOnce() -> (S, Vec<u8>)) {
        if self.stopped() != Some(StopReason::Interrupted) {
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
        let mut state = encode(&(seconds, self.stopping.state(), solver));
        state.extend(objective);
        keep(checkpoint, state);
    }

    /// Returns the error of a fit that was interrupted (after writing its checkpoint), or whose
    /// saved state did not fit.
    ///
    /// # Errors
    /// `Interrupted` and `Data`.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.session.check()
    }
}
