//! When to stop and what to record: limits, a smoothed scale-free test of progress, validation patience; no solver.

use serde::{Deserialize, Serialize};
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
    /// No step that could be evaluated improved the objective.
    NoProgress,
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
            StopReason::NoProgress => "no_progress",
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

/// Watches a fit: keeps the trace, tells a listener, decides when to stop.
pub struct Monitor<'a> {
    limits: Limits,
    started: Instant,
    records: Vec<Record>,
    best_validation: Option<(usize, f64)>,
    plateaus: usize,
    window_start: usize,
    listener: &'a mut dyn FnMut(&Record),
    stop: Option<StopReason>,
}

impl<'a> Monitor<'a> {
    /// A monitor whose clock starts now; `listener` hears every record.
    pub fn new(limits: Limits, listener: &'a mut dyn FnMut(&Record)) -> Self {
        Monitor {
            limits,
            started: Instant::now(),
            records: Vec::new(),
            best_validation: None,
            plateaus: 0,
            window_start: 0,
            listener,
            stop: None,
        }
    }

    /// Takes in one epoch; returns whether its validation score is the best so far (true without validation).
    pub fn record(&mut self, objective: f64, validation_nll: Option<f64>) -> bool {
        let epoch = self.records.len() + 1;
        let record = Record { epoch, seconds: self.elapsed().as_secs_f64(), objective, validation_nll };
        self.records.push(record);
        (self.listener)(&record);
        let best = match (validation_nll, self.best_validation) {
            (None, _) => true,
            (Some(nll), Some((_, best))) if nll.is_nan() || nll >= best => false,
            (Some(nll), _) => {
                self.best_validation = Some((epoch, nll));
                true
            }
        };
        if self.stop.is_none() {
            self.stop = self.verdict();
        }
        best
    }

    fn verdict(&mut self) -> Option<StopReason> {
        let epoch = self.records.len();
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

    /// Whether the time limit has passed, also between epochs.
    pub fn out_of_time(&self) -> bool {
        self.limits.seconds.is_some_and(|limit| self.elapsed().as_secs_f64() >= limit)
    }

    /// Ends the fit for `reason` unless it has ended already.
    pub fn stop(&mut self, reason: StopReason) {
        self.stop.get_or_insert(reason);
    }

    /// The reason to stop, once there is one.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stop
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
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
}
