//! What a listener hears of a fit while it runs: the stages on the way to its training, and the epochs; nobody who tells or hears.

use super::stopping::{Limits, Record};
use std::fmt;

/// What a listener hears of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A stage begins.
    Stage(Stage),
    /// An epoch of training is done.
    Epoch {
        /// What the trace says of it.
        record: Record,
        /// What ends the training at the latest.
        limits: Limits,
    },
}

/// A part of a fit that takes time of its own: a search for a start, or one of several fits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// Hyper-parameters are found by L-BFGS on a sample of the rows, before the training.
    WarmStart {
        /// The rows of the sample.
        rows: usize,
        /// The iterations done; the stage is told once more for each.
        done: usize,
        /// The most iterations.
        iterations: usize,
    },
    /// A short fit from one of several starts (`restarts`).
    Restart {
        /// Which start, counted from 0.
        start: usize,
        /// The place of this short fit among those of its round, counted from 1.
        number: usize,
        /// The short fits of the round.
        of: usize,
        /// The round, counted from 1; each takes the better half of the one before.
        round: usize,
        /// The rounds.
        rounds: usize,
    },
    /// A fit with so many inducing inputs, of which there may be more (`growth`).
    Growth {
        /// The inducing inputs.
        inducing: usize,
        /// The most there may be.
        most: usize,
    },
    /// A short fit to a part of the rows that held-out rows judge, to choose a part of the options.
    Choice {
        /// Which part.
        part: &'static str,
        /// The rows it is fitted to.
        rows: usize,
        /// The place of this short fit, counted from 1.
        number: usize,
        /// The short fits that there will be, as far as that is known.
        of: usize,
        /// The seconds that this fit and those after it may take, once one has been timed.
        left: Option<f64>,
    },
    /// A fit with one β of a grid (`betas`).
    Beta {
        /// The value.
        beta: f64,
        /// The place of this fit, counted from 1, in the order of the fits.
        number: usize,
        /// The fits of the grid.
        of: usize,
    },
    /// The fit to all training rows with the best β of the grid.
    Refit {
        /// The value.
        beta: f64,
    },
}

/// Seconds as people say them.
pub fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 99.5 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stage::WarmStart { rows, done: 0, iterations } => {
                write!(f, "warm start: hyper-parameters from {rows} rows, at most {iterations} iterations")
            }
            Stage::WarmStart { rows, done, iterations } => {
                write!(
                    f,
                    "warm start: hyper-parameters from {rows} rows, iteration {done} of at most {iterations}"
                )
            }
            Stage::Restart { start, number, of, round, rounds } => {
                write!(f, "restarts: start {start}, {number} of {of} in round {round} of {rounds}")
            }
            Stage::Growth { inducing, most } => {
                write!(f, "inducing inputs: {inducing} of at most {most}")
            }
            Stage::Choice { part, rows, number, of, left } => {
                write!(f, "choosing {part}: short fit {number} of about {of}, to {rows} rows")?;
                left.filter(|&left| left >= 1.0)
                    .map_or(Ok(()), |left| write!(f, ", about {} left", time(left)))
            }
            Stage::Beta { beta, number, of } => write!(f, "β = {beta}, {number} of {of}"),
            Stage::Refit { beta } => write!(f, "β = {beta} is best: the fit to all training rows"),
        }
    }
}
