//! Searches around a fit: growth of the inducing inputs, comparison of starts, the choice of β and of the prior of a linear model.

mod beta;
mod growth;
mod prior;
mod restarts;

pub use beta::{GridFit, beta_curve, fit_beta_grid, grid_validation, longer_options, refit_options};
pub(super) use growth::fit_grown;
pub(super) use prior::trained_prior_variance;
pub(super) use restarts::fit_restarted;

use crate::options::FitOptions;
use std::time::Instant;

/// Returns the options with the rest of the time limit.
fn within(options: &FitOptions, started: Instant) -> FitOptions {
    // A limit that has passed ends a fit after its first epoch, which leaves a usable model.
    let left = |seconds: f64| (seconds - started.elapsed().as_secs_f64()).max(1e-3);
    FitOptions { max_seconds: options.max_seconds.map(left), ..options.clone() }
}
