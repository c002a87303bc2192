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

/// Refuses exposures that the likelihood does not use, covariates that are not finite, exposures of counts outside [`EXPOSURES`], and numbers
/// of trials that are not whole or below 1. `what` names the rows.
///
/// # Errors
///
/// Data errors that name the rows, and the likelihood or the position.
pub fn check_exposure(likelihood: LikelihoodKind, what: &str, exposure: &[f64]) -> Result<()> {
    let kind = likelihood.target_kind();
    if let Some(name) = likelihood.covariate() {
        let told = |value| format!("the {what} rows have {value:?} for '{name}'");
        return check_each(exposure, f64::is_finite, told, "a finite number");
    }
    if !exposure.is_empty() && kind.exposure().is_none() {
        return Err(Error::data(format!(
            "the {what} rows have exposures, but the {likelihood} likelihood is not for counts and uses none"
        ))
        .hint("leave the exposures out, or choose a likelihood of counts such as poisson"));
    }
    match kind {
        TargetKind::Trials => {
            let admits = |n| n >= 1.0 && TargetKind::Trials.admits(n);
            let told = |value| format!("the {what} trials have {value:?}");
            check_each(exposure, admits, told, "a whole number, 1 or more")
        }
        TargetKind::Measured => {
            let told = |value| format!("the {what} standard errors have {value:?}");
            check_each(exposure, |value| (0.0..=f64::MAX).contains(&value), told, "a number of 0 or more")
        }
        _ => {
            let told = |value| format!("the {what} exposures have {value:?}");
            let expected = format!("a number from {:e} to {:e}", EXPOSURES.start(), EXPOSURES.end());
            check_each(exposure, |value| EXPOSURES.contains(&value), told, &expected)
        }
    }
}

/// Refuses the first value that is not admitted; `told` says what it is.
fn check_each(
    values: &[f64],
    admits: impl Fn(f64) -> bool,
    told: impl Fn(f64) -> String,
    expected: &str,
) -> Result<()> {
    match values.iter().position(|&value| !admits(value)) {
        None => Ok(()),
        Some(row) => {
            let found = told(values[row]);
            Err(Error::data(format!("{found} in row {row}, counted from 0, expected {expected}")))
        }
    }
}
