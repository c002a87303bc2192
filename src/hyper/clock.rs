//! The total time limit of a command, and when its stages have to end to keep it.

use std::time::{Duration, Instant};

/// The time limit of a whole command: choices, training, and the figures and files that follow.
#[derive(Clone, Copy, Debug)]
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
