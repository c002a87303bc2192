//! The events of a running fit: the stages before the training, and the epochs.

use super::monitor::{Limits, Record};
use std::fmt;

/// An event of a fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A stage begins.
    Stage(Stage),
    /// An epoch of training is done.
    Epoch {
        /// The record of the epoch in the trace.
        record: Record,
        /// The limits of the training.
        limits: Limits,
    },
}

/// A part of a fit that takes noticeable time: a search for a start, or one of several fits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// Hyper-parameters are found by L-BFGS on a sample of the rows, before the training.
    #[doc(hidden)]
    WarmStart {
        /// The rows of the sample.
        rows: usize,
        /// The number of finished iterations; the stage is reported again after each.
        done: usize,
        /// The maximum number of iterations.
        iterations: usize,
    },
    /// A short fit from one of several starts (`restarts`).
    #[doc(hidden)]
    Restart {
        /// The number of the start, from 0.
        start: usize,
        /// The number of this short fit within its round, from 1.
        number: usize,
        /// The number of short fits of the round.
        of: usize,
        /// The number of the round, from 1; each round takes the better half of the previous one.
        round: usize,
        /// The number of rounds.
        rounds: usize,
    },
    /// A fit with this number of inducing inputs, which may grow (`growth`).
    #[doc(hidden)]
    Growth {
        /// The number of inducing inputs.
        inducing: usize,
        /// The maximum number of inducing inputs.
        most: usize,
    },
    /// A short fit to a part of the rows, judged on held-out rows, that helps to choose one
    /// setting.
    #[doc(hidden)]
    Choice {
        /// The name of the setting.
        part: &'static str,
        /// The number of rows of the fit.
        rows: usize,
        /// The number of this short fit, from 1.
        number: usize,
        /// The number of short fits, as far as known.
        of: usize,
        /// The seconds that this and later fits may take, once one fit has been timed.
        left: Option<f64>,
    },
    /// A fit with one β of a grid (`betas`).
    #[doc(hidden)]
    Beta {
        /// The value.
        beta: f64,
        /// The number of this fit, from 1, in the order of the fits.
        number: usize,
        /// The number of fits of the grid.
        of: usize,
    },
    /// The fit to all training rows with the best β of the grid.
    #[doc(hidden)]
    Refit {
        /// The value.
        beta: f64,
    },
    /// Trees are boosted for the mean.
    #[doc(hidden)]
    Trees {
        /// The number of rows.
        rows: usize,
    },
    /// The uncertainty about hyper-parameters is computed.
    #[doc(hidden)]
    HyperPosterior,
    /// A fit without a part of the rows, which calibrates quantiles.
    #[doc(hidden)]
    HeldOut {
        /// The number of the part, from 1.
        part: usize,
        /// The number of parts.
        of: usize,
    },
}

/// Formats seconds for people.
#[doc(hidden)]
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
            Stage::Trees { rows } => write!(f, "boosting trees on {rows} rows"),
            Stage::HyperPosterior => f.write_str("the uncertainty about hyper-parameters"),
            Stage::HeldOut { part, of } => write!(f, "conformal calibration: part {part} of {of} held out"),
            Stage::Refit { beta } => write!(f, "β = {beta} is best: the fit to all training rows"),
        }
    }
}
