//! The connection of a fit to its surroundings: listeners, interruption, the time of the whole command, and the checkpoint.

use super::event::{Event, Stage};
use super::monitor::{Limits, Monitor};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A listener of every stage and epoch. It is `Send`, so that a fit can run on a different thread
/// than its caller.
pub type Listener<'a> = dyn FnMut(&Event) + Send + 'a;

/// The source of an interruption.
enum Poll<'a> {
    Flag(&'a AtomicBool),
    Function(&'a (dyn Fn() -> bool + Sync)),
}

/// An interruption by the user. It is remembered, because the function of a host program may report it only once.
struct Interrupt<'a> {
    poll: Poll<'a>,
    heard: AtomicBool,
}

impl Interrupt<'_> {
    fn is_wanted(&self) -> bool {
        let wanted = self.heard.load(Ordering::Relaxed)
            || match self.poll {
                Poll::Flag(flag) => flag.load(Ordering::Relaxed),
                Poll::Function(ask) => ask(),
            };
        if wanted {
            self.heard.store(true, Ordering::Relaxed);
        }
        wanted
    }
}

/// The connection of a fit to its surroundings: the listener, the interruption, and the checkpoint.
///
/// ```
/// use faer::Mat;
/// use sparsegp::hyper::{Event, Session};
/// use sparsegp::{ErrorKind, training::Fit};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let x = Mat::from_fn(40, 1, |i, _| i as f64);
/// let y: Vec<f64> = (0..40).map(|i| (0.3 * i as f64).sin()).collect();
/// let enough = AtomicBool::new(false);
/// let mut listener = |event: &Event| match event {
///     Event::Epoch { record, .. } => enough.store(record.epoch >= 3, Ordering::Relaxed),
///     Event::Stage(stage) => eprintln!("{stage}"),
/// };
/// let mut session = Session::new(&mut listener).with_interrupt(&enough);
/// let error = Fit::default().fit_in(x.as_ref(), &y, &mut session).err().expect("the flag ends it");
/// assert_eq!(error.kind(), ErrorKind::Interrupted);
/// ```
pub struct Session<'a> {
    listener: Option<&'a mut Listener<'a>>,
    /// Shared by the monitors within the session, which all end once one of them saw the interruption.
    interrupt: Option<Arc<Interrupt<'a>>>,
    checkpoint: Option<&'a mut Checkpoint>,
    /// The flag that a listener sets to request the stop.
    enough: Option<&'a AtomicBool>,
    /// The time limit of the command that the session belongs to.
    clock: Option<Clock>,
    /// The time at which the work in this session has to end.
    end: Option<Instant>,
    /// True if fits compute intervals of variance components.
    pub(crate) has_intervals: bool,
}

impl<'a> Session<'a> {
    /// Creates a session without interruption and checkpoint; `listener` receives every event.
    pub fn new(listener: &'a mut Listener<'a>) -> Self {
        Session {
            listener: Some(listener),
            interrupt: None,
            checkpoint: None,
            enough: None,
            clock: None,
            end: None,
            has_intervals: true,
        }
    }

    /// Ends the fit with an error soon after `poll` returns true; the checkpoint, if there is one, is written before. `poll` is called
    /// between any two steps, iterations and trial points of a line search, until it returns true. It replaces an earlier poll or flag.
    pub fn with_poll(self, poll: &'a (dyn Fn() -> bool + Sync)) -> Self {
        self.with(Poll::Function(poll))
    }

    /// Ends the fit soon after `flag` becomes true, like [`Session::with_poll`].
    pub fn with_interrupt(self, flag: &'a AtomicBool) -> Self {
        self.with(Poll::Flag(flag))
    }

    fn with(mut self, poll: Poll<'a>) -> Self {
        self.interrupt = Some(Arc::new(Interrupt { poll, heard: AtomicBool::new(false) }));
        self
    }

    /// Stores the state of the fit in a checkpoint, and continues from the states in it.
    pub fn with_checkpoint(self, checkpoint: &'a mut Checkpoint) -> Self {
        Session { checkpoint: Some(checkpoint), ..self }
    }

    /// Ends the training, like a limit of epochs, once `flag` is true at the end of an epoch, and
    /// keeps its result. A listener can set the flag. Earlier short fits then end after their first
    /// epoch.
    ///
    /// ```
    /// use faer::Mat;
    /// use sparsegp::hyper::{Event, Session, StopReason};
    /// use sparsegp::training::Fit;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// let x = Mat::from_fn(40, 1, |i, _| i as f64);
    /// let y: Vec<f64> = (0..40).map(|i| (0.3 * i as f64).sin()).collect();
    /// let enough = AtomicBool::new(false);
    /// let mut listener = |event: &Event| {
    ///     if let Event::Epoch { record, .. } = event {
    ///         enough.store(record.epoch == 2, Ordering::Relaxed);
    ///     }
    /// };
    /// let mut session = Session::new(&mut listener).with_enough(&enough);
    /// let model = Fit::default().fit_in(x.as_ref(), &y, &mut session)?;
    /// assert_eq!((model.summary().stop_reason, model.summary().epochs), (StopReason::Stopped, 2));
    /// # Ok::<(), sparsegp::Error>(())
    /// ```
    pub fn with_enough(self, flag: &'a AtomicBool) -> Self {
        Session { enough: Some(flag), ..self }
    }

    /// Leaves out the intervals of variance components, which take about as long as the fit that estimates them.
    #[doc(hidden)]
    pub fn without_intervals(self) -> Self {
        Session { has_intervals: false, ..self }
    }

    /// Applies the time limit to all fits of a command together, from its start. Without a clock,
    /// every fit has the whole limit.
    #[doc(hidden)]
    pub fn with_clock(self, clock: Option<Clock>) -> Self {
        Session { clock, ..self }
    }

    /// Returns the clock of the command, or a clock that starts now, for a fit with a time limit in seconds.
    #[doc(hidden)]
    pub fn clock(&self, seconds: Option<f64>) -> Option<Clock> {
        self.clock.or_else(|| seconds.map(|seconds| Clock::since(Instant::now(), seconds)))
    }

    /// Returns this session for a part of its work that ends soon after a share of the time is over; training then keeps the best point so
    /// far.
    #[doc(hidden)]
    pub fn until(&mut self, clock: Option<Clock>, share: f64) -> Session<'_> {
        let end = clock.and_then(|clock| clock.at(share));
        let end = [end, self.end].into_iter().flatten().min();
        let listener = self.listener.as_mut().map(|listener| &mut **listener as &mut Listener<'_>);
        Session {
            listener,
            interrupt: self.interrupt.clone(),
            checkpoint: self.checkpoint.as_deref_mut(),
            enough: self.enough,
            clock: clock.or(self.clock),
            end,
            has_intervals: self.has_intervals,
        }
    }

    /// Returns the time at which the work in this session has to end, if there is one.
    #[doc(hidden)]
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Returns true if the time of the work in this session is over.
    #[doc(hidden)]
    pub fn is_late(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Returns the seconds left, if there is a limit.
    pub(super) fn seconds_left(&self) -> Option<f64> {
        self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// Returns true if a listener requested the stop.
    pub(super) fn has_seen_enough(&self) -> bool {
        self.enough.is_some_and(|enough| enough.load(Ordering::Relaxed))
    }

    /// Returns this session for a part of its work whose stages and epochs are not reported.
    #[doc(hidden)]
    pub fn silent(&mut self) -> Session<'_> {
        Session { listener: None, ..self.until(None, 1.0) }
    }

    /// Returns true if the stages, epochs and warnings of a fit reach the user.
    pub(crate) fn is_heard(&self) -> bool {
        self.listener.is_some()
    }

    /// Returns this session for fits that are not reported, not stored in the checkpoint, and not part of the result.
    pub(crate) fn aside(&mut self) -> Session<'_> {
        Session { checkpoint: None, enough: None, ..self.silent() }
    }

    /// A monitor within the session, whose clock starts now.
    pub(crate) fn monitor(&mut self, limits: Limits) -> Monitor<'_> {
        Monitor::within(limits, self.until(None, 1.0))
    }

    /// Returns the checkpoint of the fit.
    #[doc(hidden)]
    pub fn checkpoint(&mut self) -> Option<&mut Checkpoint> {
        self.checkpoint.as_deref_mut()
    }

    /// Returns true if the user interrupted the fit.
    #[doc(hidden)]
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_wanted())
    }

    /// Tells the listener that a stage begins.
    #[doc(hidden)]
    pub fn enter(&mut self, stage: Stage) {
        self.tell(&Event::Stage(stage));
    }

    pub(super) fn tell(&mut self, event: &Event) {
        if let Some(listener) = &mut self.listener {
            listener(event);
        }
    }

    /// Returns the error of a fit that was interrupted (after writing its checkpoint), or whose
    /// saved state did not fit.
    #[doc(hidden)]
    pub fn check(&mut self) -> Result<()> {
        if let Some(damage) = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.damage()) {
            return Err(damage);
        }
        if !self.is_interrupted() {
            return Ok(());
        }
        let Some(checkpoint) = &mut self.checkpoint else { return Err(Error::interrupted("interrupted")) };
        Err(checkpoint.interrupted())
    }
}

/// The time limit of a whole command: choices, training, and the figures and files that follow.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Clock {
    started: Instant,
    seconds: f64,
}

impl Clock {
    /// The share of the time after which choices end.
    pub const CHOICES: f64 = 0.4;
    /// The share after which training ends. The last epoch, q for all rows and the figures of test rows follow.
    pub const TRAINING: f64 = 0.85;
    /// The share after which baselines end.
    pub const BASELINES: f64 = 0.95;

    /// Creates a limit of this number of seconds after `started`.
    pub fn since(started: Instant, seconds: f64) -> Clock {
        Clock { started, seconds }
    }

    /// Returns the moment at which a share of the time is over; `None` if clocks cannot represent
    /// that moment.
    pub fn at(self, share: f64) -> Option<Instant> {
        self.started.checked_add(Duration::try_from_secs_f64(share * self.seconds).ok()?)
    }

    /// Returns an equal part of the time that is left, for the next of `fits` fits.
    pub fn for_next_of(self, fits: usize) -> Clock {
        let left = (self.seconds - self.started.elapsed().as_secs_f64()).max(0.0);
        Clock::since(Instant::now(), left / fits.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_time_and_of_what_is_left_add_up() {
        let now = Instant::now();
        let clock = Clock::since(now, 10.0);
        assert_eq!(clock.at(0.4), Some(now + Duration::from_secs(4)));
        assert_eq!(Clock::since(now, f64::INFINITY).at(0.4), None);
        assert_eq!(Clock::since(now, 1e300).at(1.0), None);
        let half = clock.for_next_of(2);
        assert!(half.seconds <= 5.0 && half.at(1.0) <= clock.at(1.0));
        let over = Clock::since(now - Duration::from_secs(1), 0.5).for_next_of(3);
        assert_eq!(over.seconds, 0.0);
    }
}
