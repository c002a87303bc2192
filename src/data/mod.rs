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
use crate::likelihood::{EXPOSURES, TargetKind};

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

/// Refuses exposures of targets other than counts, which have none, and exposures outside [`EXPOSURES`]. `what` names the rows.
///
/// # Errors
///
/// Data errors that name the rows, and the likelihood or the position.
pub fn check_exposure(kind: TargetKind, what: &str, exposure: &[f64], likelihood: &str) -> Result<()> {
    if kind == TargetKind::Measured {
        return check_standard_errors(what, exposure);
    }
    if !exposure.is_empty() && kind != TargetKind::Count {
        return Err(Error::data(format!(
            "the {what} rows have exposures, but the {likelihood} likelihood is not for counts and uses none"
        ))
        .hint("leave the exposures out, or choose a likelihood of counts such as poisson"));
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

fn check_standard_errors(what: &str, errors: &[f64]) -> Result<()> {
    match errors.iter().position(|value| !(0.0..=f64::MAX).contains(value)) {
        None => Ok(()),
        Some(row) => Err(Error::data(format!(
            "the {what} standard errors have {:?} in row {row}, counted from 0, expected a number of 0 or more",
            errors[row]
        ))),
    }
}
