//! Numbers in rows: the roles of rows, batches, scaling, random draws.

mod batches;
mod offsets;
mod scaling;
mod size_schedule;
mod split;
mod warp;

pub use crate::likelihood::Moments;
pub(crate) use batches::BatchStream;
pub use batches::{BatchPlan, Purpose, generator, part_generator};
pub use offsets::Offsets;
pub(crate) use offsets::offset_at;
pub use scaling::{Affine, Scaling};
pub use size_schedule::SizeSchedule;
pub use split::{Role, Roles, Split, check_fractions, split};
pub use warp::{InputWarp, TargetMap, TargetWarp};

use crate::error::{Error, Result};
use crate::likelihood::{EXPOSURES, LikelihoodKind, TargetKind};

/// Refuses targets that the likelihood does not admit. `what` names the rows.
///
/// # Errors
///
/// A data error that names the rows, the value and its position.
pub(crate) fn check_targets(kind: TargetKind, what: &str, y: &[f64], likelihood: &str) -> Result<()> {
    match y.iter().position(|&y| !kind.admits(y)) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} targets have {} in row {row}, counted from 0, expected {} for the {likelihood} likelihood",
            y[row],
            kind.values()
        ))),
    }
}

/// Refuses targets that rows with these exposures or numbers of trials cannot have; `exposure` is empty if all are 1. `what` names the rows.
///
/// # Errors
///
/// A data error that names the rows, the value and its position.
pub(crate) fn check_successes(kind: TargetKind, what: &str, y: &[f64], exposure: &[f64]) -> Result<()> {
    let trials = |row: usize| exposure.get(row).copied().unwrap_or(1.0);
    match (0..y.len()).find(|&row| kind.admits(y[row]) && !kind.admits_with(y[row], trials(row))) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} targets have {} successes of {} trials in row {row}, counted from 0, expected at most as many as trials",
            y[row],
            trials(row)
        ))),
    }
}

/// Refuses exposures of targets that have none, covariates that are not finite, exposures of counts outside [`EXPOSURES`], and numbers of
/// trials that are not whole or below 1.
/// `what` names the rows.
///
/// # Errors
///
/// Data errors that name the rows, and the likelihood or the position.
pub fn check_exposure(likelihood: LikelihoodKind, what: &str, exposure: &[f64]) -> Result<()> {
    let kind = likelihood.target_kind();
    if let Some(covariate) = likelihood.covariate() {
        return check_covariate(covariate, what, exposure);
    }
    if !exposure.is_empty() && kind.exposure().is_none() {
        return Err(Error::data(format!(
            "the {what} rows have exposures, but the {likelihood} likelihood is not for counts and uses none"
        ))
        .hint("leave the exposures out, or choose a likelihood of counts such as poisson"));
    }
    match kind {
        TargetKind::Trials => return check_trials(what, exposure),
        TargetKind::Measured => return check_standard_errors(what, exposure),
        _ => {}
    }
    match exposure.iter().position(|value| !EXPOSURES.contains(value)) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} exposures have {:?} in row {row}, counted from 0, expected a number from {:e} to {:e}",
            exposure[row],
            EXPOSURES.start(),
            EXPOSURES.end()
        ))),
    }
}

fn check_covariate(name: &str, what: &str, values: &[f64]) -> Result<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} rows have {:?} for '{name}' in row {row}, counted from 0, expected a finite number",
            values[row]
        ))),
    }
}

fn check_standard_errors(what: &str, errors: &[f64]) -> Result<()> {
    match errors.iter().position(|value| !(0.0..=f64::MAX).contains(value)) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} standard errors have {:?} in row {row}, counted from 0, expected a number of 0 or more",
            errors[row]
        ))),
    }
}

fn check_trials(what: &str, trials: &[f64]) -> Result<()> {
    match trials.iter().position(|&n| n < 1.0 || !TargetKind::Trials.admits(n)) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} trials have {:?} in row {row}, counted from 0, expected a whole number, 1 or more",
            trials[row]
        ))),
    }
}
