//! Hyper-parameters as one vector with constraints, the solvers for it, and what goes on around them; no GP types.

mod adam;
mod adam_solver;
mod clock;
mod constraints;
mod curvature;
mod event;
mod impose;
mod lbfgs;
mod line_search;
mod monitor;
mod session;
mod settings;
mod stochastic;
mod stopping;
mod trials;
mod vector;

pub(crate) use adam::AdamMoments;
pub use adam::{Adam, AdamOptions, Pace, Taken};
pub use adam_solver::AdamSolver;
pub use clock::Clock;
pub use constraints::{BoundsFor, Constraints, FixFor, NamePattern, PriorFor, Tie};
pub use event::{Event, Stage, time};
pub use lbfgs::{LbfgsOptions, minimize_lbfgs};
pub use monitor::Monitor;
pub use session::{Listener, Session};
pub(crate) use settings::PriorChoice;
pub use settings::ValueSettings;
pub(crate) use settings::range_words;
pub use stochastic::{EpochMean, FullBatch, Reached, StochasticObjective, minimize_adam};
pub use stopping::{Limits, Record, StopRange, StopReason};
pub(crate) use vector::INDUCING;
pub use vector::{Descriptor, FreeVector, stem};

use crate::checkpoint::Archive;

/// A smooth function of an unconstrained vector.
pub trait HyperObjective {
    /// The value at `theta`, with its gradient written to `gradient`; not finite where it cannot be evaluated.
    fn value_and_gradient(&mut self, theta: &[f64], gradient: &mut [f64]) -> f64;

    /// The part of the value at `theta` that is of priors, and not of the objective that is reported.
    fn prior_terms(&self, theta: &[f64]) -> f64 {
        let _ = theta;
        0.0
    }

    /// The validation score at `theta`, where an iteration ended, if there is one.
    fn validate(&mut self, theta: &[f64]) -> Option<f64> {
        let _ = theta;
        None
    }

    /// Called when the point that was validated last has the best score so far.
    fn keep(&mut self, theta: &[f64]) {
        let _ = theta;
    }

    /// Whether no further value can be had, which ends the minimisation as an interruption would.
    fn exhausted(&self) -> bool {
        false
    }

    /// Passes what values depend on besides `theta`, and what was kept, through an archive.
    fn archive(&mut self, archive: &mut Archive) {
        let _ = archive;
    }
}

/// How a minimisation ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The best point found.
    pub theta: Vec<f64>,
    /// The value there.
    pub value: f64,
    /// Iterations of the solver.
    pub iterations: usize,
    /// Evaluations of value and gradient.
    pub evaluations: usize,
    /// Trial points or steps that could not be evaluated and were taken back.
    pub rollbacks: usize,
    /// Why it ended.
    pub reason: StopReason,
}
