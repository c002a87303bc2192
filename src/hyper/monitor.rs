//! When to stop and what to record: limits, a smoothed scale-free test of progress, validation patience; no solver.

use crate::checkpoint::{Archive, Checkpoint};
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why a fit ended, in the words of the metrics document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The smoothed objective no longer improved by more than the tolerance.
    Converged,
    /// The epoch limit was reached.
    MaxEpochs,
    /// The limit of steps was reached.
    MaxSteps,
    /// The time limit was reached.
    MaxSeconds,
    /// The validation score stopped improving.
    EarlyStop,
    /// The objective, or the validation score where there is one, is as good as was asked for.
    TargetReached,
    /// No step that could be evaluated improved the objective.
    NoProgress,
    /// The user interrupted it.
    Interrupted,
}

impl StopReason {
    /// The word used in files.
    pub fn word(self) -> &'static str {
        match self {
            StopReason::Converged => "converged",
            StopReason::MaxEpochs => "max_epochs",
            StopReason::MaxSteps => "max_steps",
            StopReason::MaxSeconds => "max_seconds",
            StopReason::EarlyStop => "early_stop",
            StopReason::TargetReached => "target_reached",
            StopReason::NoProgress => "no_progress",
            StopReason::Interrupted => "interrupted",
        }
    }

    /// The reason in a sentence for a reader.
    pub fn sentence(self) -> &'static str {
        match self {
            StopReason::Converged => "the objective no longer fell by more than the tolerance",
            StopReason::MaxEpochs => "the limit of epochs was reached",
            StopReason::MaxSteps => "the limit of steps was reached",
            StopReason::MaxSeconds => "the time limit was reached",
            StopReason::EarlyStop => "the validation score stopped improving; the best parameters were kept",
            StopReason::TargetReached => "the score that was asked for was reached",
            StopReason::NoProgress => "no step improved the objective any more",
            StopReason::Interrupted => "it was interrupted",
        }
    }
}

/// Limits of a fit. An epoch is one pass over the data: one iteration of L-BFGS, n/b steps of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The largest number of epochs.
    pub epochs: usize,
    /// The largest number of mini-batch steps, if any.
    pub steps: Option<usize>,
    /// The largest number of seconds, if any.
    pub seconds: Option<f64>,
    /// Stop when the per-datum objective, averaged over two successive windows of [`Limits::window`] epochs, fell by
    /// less than this many nats per epoch; 0 never stops so. Nats per datum have a scale of their own, so the test
    /// does not depend on the units of the data.
    pub tolerance: f64,
    /// Epochs per window.
    pub window: usize,
    /// How many times the test may find no progress before the fit ends; a solver with a step size cuts it each time.
    pub plateaus: usize,
    /// Stop after this many epochs without a better validation score.
    pub patience: usize,
    /// Stop once the validation score, or the per-datum objective where there is none, is no larger than this.
    pub target: Option<f64>,
}

/// One line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Epochs done.
    pub epoch: usize,
    /// Seconds since the start.
    pub seconds: f64,
    /// The objective per datum (averaged over the epoch's batches where there are several).
    pub objective: f64,
    /// Validation NLL, when a validation part exists.
    pub validation_nll: Option<f64>,
}

/// What a fit has to do with the world outside: who hears of its epochs, who may interrupt it, where its state is kept.
pub struct Session<'a> {
    listener: Option<&'a mut dyn FnMut(&Record)>,
    interrupt: Option<&'a AtomicBool>,
    checkpoint: Option<&'a mut Checkpoint>,
}

impl<'a> Session<'a> {
    /// A session that nobody interrupts and of which nothing is kept; `listener` hears every record.
    pub fn new(listener: &'a mut dyn FnMut(&Record)) -> Self {
        Session { listener: Some(listener), interrupt: None, checkpoint: None }
    }

    /// The same session for a part of its work, of whose epochs nobody hears.
    pub fn silent(&mut self) -> Session<'_> {
        Session { listener: None, interrupt: self.interrupt, checkpoint: self.checkpoint.as_deref_mut() }
    }

    /// Ends the fit soon after `interrupt` becomes true, with an error; the checkpoint, if there is one, is written before.
    pub fn with_interrupt(mut self, interrupt: &'a AtomicBool) -> Self {
        self.interrupt = Some(interrupt);
        self
    }

    /// Keeps the fit's state in a checkpoint, and goes on from the states that are in it.
    pub fn with_checkpoint(mut self, checkpoint: &'a mut Checkpoint) -> Self {
        self.checkpoint = Some(checkpoint);
        self
    }

    /// Where the fit's state is kept.
    pub fn checkpoint(&mut self) -> Option<&mut Checkpoint> {
        self.checkpoint.as_deref_mut()
    }

    /// A monitor within the session, whose clock starts now.
    pub fn monitor(&mut self, limits: Limits) -> Monitor<'_> {
        let listener = self.listener.as_mut().map(|listener| &mut **listener as &mut dyn FnMut(&Record));
        Monitor::within(limits, listener, self.interrupt, self.checkpoint.as_deref_mut())
    }
}

/// Watches a fit: keeps the trace, tells a listener, decides when to stop.
pub struct Monitor<'a> {
    limits: Limits,
    started: Instant,
    before: f64,
    records: Vec<Record>,
    best_validation: Option<(usize, f64)>,
    plateaus: usize,
    window_start: usize,
    listener: Option<&'a mut dyn FnMut(&Record)>,
    interrupt: Option<&'a AtomicBool>,
    checkpoint: Option<&'a mut Checkpoint>,
    stop: Option<StopReason>,
}

impl<'a> Monitor<'a> {
    /// A monitor whose clock starts now; `listener` hears every record.
    pub fn new(limits: Limits, listener: &'a mut dyn FnMut(&Record)) -> Self {
        Monitor::within(limits, Some(listener), None, None)
    }

    /// A monitor of a part of the same fit, of whose epochs nobody hears; its clock starts now.
    pub fn nested(&mut self, limits: Limits) -> Monitor<'_> {
        Monitor::within(limits, None, self.interrupt, self.checkpoint.as_deref_mut())
    }

    fn within(
        limits: Limits,
        listener: Option<&'a mut dyn FnMut(&Record)>,
        interrupt: Option<&'a AtomicBool>,
        checkpoint: Option<&'a mut Checkpoint>,
    ) -> Self {
        Monitor {
            limits,
            started: Instant::now(),
            before: 0.0,
            records: Vec::new(),
            best_validation: None,
            plateaus: 0,
            window_start: 0,
            listener,
            interrupt,
            checkpoint,
            stop: None,
        }
    }

    /// Takes in one epoch; returns whether its validation score is the best so far (true without validation).
    pub fn record(&mut self, objective: f64, validation_nll: Option<f64>) -> bool {
        let epoch = self.records.len() + 1;
        let record = Record { epoch, seconds: self.elapsed().as_secs_f64(), objective, validation_nll };
        self.records.push(record);
        if let Some(listener) = &mut self.listener {
            listener(&record);
        }
        let best = match (validation_nll, self.best_validation) {
            (None, _) => true,
            (Some(nll), Some((_, best))) if nll.is_nan() || nll >= best => false,
            (Some(nll), _) => {
                self.best_validation = Some((epoch, nll));
                true
            }
        };
        if self.stop.is_none() {
            self.stop = self.verdict(record);
        }
        best
    }

    fn verdict(&mut self, last: Record) -> Option<StopReason> {
        let epoch = self.records.len();
        if self.limits.target.is_some_and(|target| last.validation_nll.unwrap_or(last.objective) <= target) {
            return Some(StopReason::TargetReached);
        }
        if self.out_of_time() {
            return Some(StopReason::MaxSeconds);
        }
        if self.best_validation.is_some_and(|(at, _)| epoch - at >= self.limits.patience) {
            return Some(StopReason::EarlyStop);
        }
        if epoch >= self.limits.epochs {
            return Some(StopReason::MaxEpochs);
        }
        let w = self.limits.window;
        if self.limits.tolerance > 0.0 && epoch - self.window_start >= 2 * w {
            let mean = |r: &[Record]| r.iter().map(|r| r.objective).sum::<f64>() / w as f64;
            let (earlier, later) = self.records[epoch - 2 * w..].split_at(w);
            if mean(earlier) - mean(later) < self.limits.tolerance * w as f64 {
                self.plateaus += 1;
                self.window_start = epoch;
                return (self.plateaus > self.limits.plateaus).then_some(StopReason::Converged);
            }
        }
        None
    }

    /// Ends the fit between epochs if its time or its steps (so many were taken, where they count) are over, or the user wants
    /// it to end.
    pub fn look_around(&mut self, taken: Option<usize>) {
        if taken.zip(self.limits.steps).is_some_and(|(taken, most)| taken >= most) {
            self.stop(StopReason::MaxSteps);
        } else if self.is_interrupted() {
            self.stop(StopReason::Interrupted);
        } else if self.out_of_time() {
            self.stop(StopReason::MaxSeconds);
        }
    }

    /// Whether the time limit has passed, also between epochs.
    fn out_of_time(&self) -> bool {
        self.limits.seconds.is_some_and(|limit| self.elapsed().as_secs_f64() >= limit)
    }

    /// Whether the user wants the fit to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Ends the fit for `reason` unless it has ended already.
    pub fn stop(&mut self, reason: StopReason) {
        self.stop.get_or_insert(reason);
    }

    /// The reason to stop, once there is one.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stop
    }

    /// Time since the start, including that before an interruption.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed() + Duration::from_secs_f64(self.before)
    }

    /// How often the objective was found not to progress.
    pub fn plateaus(&self) -> usize {
        self.plateaus
    }

    /// The trace so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The saved state of the stage that begins, if there is one. What is read from it goes to [`Monitor::resumed`].
    pub fn begin_stage(&mut self) -> Option<Archive> {
        self.checkpoint.as_mut()?.begin()
    }

    /// Ends the fit if a saved state did not fit.
    pub fn resumed(&mut self, archive: &Archive) {
        if !archive.is_intact() {
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.note_damage();
            }
            self.stop = Some(StopReason::Interrupted);
        }
    }

    /// Saves the state of the stage under way as `write` writes it, if it is time to or the fit was interrupted.
    pub fn save_if_due(&mut self, write: impl FnOnce(&mut Monitor<'a>, &mut Archive)) {
        let interrupted = self.stop == Some(StopReason::Interrupted);
        if self.checkpoint.as_ref().is_some_and(|checkpoint| interrupted || checkpoint.is_due()) {
            self.save(write, Checkpoint::save);
        }
    }

    /// Keeps the last state of a stage as `write` writes it, unless it was interrupted.
    pub fn end_stage(&mut self, write: impl FnOnce(&mut Monitor<'a>, &mut Archive)) {
        if self.stop != Some(StopReason::Interrupted) {
            self.save(write, Checkpoint::finish_stage);
        }
    }

    fn save(
        &mut self,
        write: impl FnOnce(&mut Monitor<'a>, &mut Archive),
        keep: impl FnOnce(&mut Checkpoint, Vec<u8>),
    ) {
        if self.checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.damage().is_some()) {
            return;
        }
        let mut archive = Archive::writer();
        write(self, &mut archive);
        if let Some(checkpoint) = &mut self.checkpoint {
            keep(checkpoint, archive.into_bytes());
        }
    }

    /// The error of a fit that was interrupted, or whose saved state did not fit.
    pub fn check(&mut self) -> Result<()> {
        if let Some(damage) = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.damage()) {
            return Err(damage);
        }
        if !self.is_interrupted() {
            return Ok(());
        }
        let Some(checkpoint) = &mut self.checkpoint else { return Err(Error::interrupted("interrupted")) };
        checkpoint.write();
        let path = checkpoint.path().display();
        Err(match checkpoint.failure() {
            Some(failure) => Error::interrupted(format!("interrupted, and no checkpoint is left: {failure}")),
            None => Error::interrupted(format!("interrupted; a checkpoint is left in {path}"))
                .hint(format!("the same command with --resume {path} goes on from there")),
        })
    }

    /// Passes the trace and what decides about stopping through an archive.
    pub fn archive(&mut self, archive: &mut Archive) {
        let mut seconds = self.elapsed().as_secs_f64();
        archive.value(&mut seconds);
        archive.value(&mut self.records);
        archive.value(&mut self.best_validation);
        archive.value(&mut self.plateaus);
        archive.value(&mut self.window_start);
        // An interruption is not part of the state: the fit goes on where it is resumed.
        let mut stop = self.stop.filter(|reason| *reason != StopReason::Interrupted);
        archive.value(&mut stop);
        self.stop = self.stop.filter(|_| !archive.is_reading()).or(stop);
        if archive.is_reading() {
            let count = self.records.len();
            let sensible = (0.0..1e12).contains(&seconds)
                && self.window_start <= count
                && self.plateaus <= count
                && self.best_validation.is_none_or(|(at, _)| at <= count);
            if sensible {
                (self.started, self.before) = (Instant::now(), seconds);
            } else {
                archive.refuse();
                (self.window_start, self.best_validation) = (count, None);
            }
        }
    }
}
