//! Hyper-parameters as one vector with constraints, its solvers, and the monitoring of
//! minimisations.

mod adam;
mod constraints;
mod event;
mod impose;
#[cfg(feature = "training")]
mod lbfgs;
mod monitor;
mod session;
#[cfg(feature = "training")]
mod stochastic;
mod vector;

pub(crate) use adam::AdamMoments;
pub use adam::{Adam, AdamOptions, Pace, Taken};
pub use constraints::{BoundsFor, Columns, Constraints, FixFor, PriorFor, StartFor, Tie};
pub use event::{Event, Stage, time};
pub use impose::ValueSettings;
pub(crate) use impose::{PriorChoice, named, range_words};
#[cfg(feature = "training")]
pub use lbfgs::{LbfgsOptions, minimize_lbfgs};
pub use monitor::{Limits, Monitor, Reached, Record, StopRange, StopReason};
pub use session::{Clock, Listener, Session};
#[cfg(feature = "training")]
pub(crate) use stochastic::EpochMean;
#[cfg(feature = "training")]
pub use stochastic::minimize_adam;
pub(crate) use vector::INDUCING;
pub use vector::{Descriptor, FreeVector, stem};

/// A smooth function of an unconstrained vector, on all data or on one mini-batch at a time; it may keep state, such as q, from step to step.
#[doc(hidden)]
pub trait HyperObjective {
    /// Returns the number of evaluations in an epoch: 1 for an objective on all data.
    fn steps_per_epoch(&self) -> usize {
        1
    }

    /// Returns the value at `theta`, a sum over the data of the next batch, and writes its gradient to `gradient`, whose unwritten entries
    /// are zero. The value is not finite, and the state still valid, if the point cannot be evaluated.
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64;

    /// Returns the part of the value at `theta` that comes from priors; it is not part of the reported objective.
    fn prior_terms(&self, theta: &[f64]) -> f64 {
        let _ = theta;
        0.0
    }

    /// Returns the validation score at `theta`, where an iteration or an epoch ended, if there is one.
    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let _ = theta;
        None
    }

    /// Called when the point that was validated last has the best score so far.
    fn keep(&mut self, theta: &[f64]) {
        let _ = theta;
    }

    /// Returns true if no further values are available, which ends the minimisation like an interruption.
    fn exhausted(&self) -> bool {
        false
    }

    /// Returns true if no further step can make progress, which ends the minimisation without the last value.
    fn is_stuck(&self) -> bool {
        false
    }

    /// Returns the state behind the values, except `theta`, and the kept state, for a checkpoint.
    fn state(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Continues from a state that [`state`](Self::state) returned; returns false if `state` does not suit the objective.
    fn restore(&mut self, state: &[u8]) -> bool {
        state.is_empty()
    }
}

/// The outcome of a minimisation.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub struct Outcome {
    /// The best point found.
    pub theta: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// Iterations of the solver.
    pub iterations: usize,
    /// Evaluations of value and gradient.
    pub evaluations: usize,
    /// The number of trial points or steps that could not be evaluated and were rolled back.
    pub rollbacks: usize,
    /// The reason of the end.
    pub reason: StopReason,
}

impl Outcome {
    /// Creates the outcome of a fit without anything to minimise.
    pub(crate) fn at(theta: Vec<f64>, value: f64) -> Outcome {
        let reason = StopReason::Converged;
        Outcome { theta, value, iterations: 0, evaluations: 1, rollbacks: 0, reason }
    }
}
