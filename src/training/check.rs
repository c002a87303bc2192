//! Checks of arrays before a fit: matching shapes, finite inputs, targets that suit the likelihood.

use super::rows::TrainingData;
use crate::collapsed::Dataset;
use crate::data::{check_exposure, check_successes, check_targets};
use crate::effects::{EffectTerm, columns_of};
use crate::error::{Error, Result};
use crate::likelihood::{LikelihoodKind, Moments, Observation, ObservationModel, TargetKind};
use crate::objective::Targets;
use faer::MatRef;

/// Refuses arrays that do not match each other or the inputs of a start model, or that do not suit the likelihood.
pub(super) fn check_data(
    data: &TrainingData<'_>,
    start_inputs: Option<usize>,
    likelihood: &ObservationModel,
) -> Result<()> {
    let d = data.train.x.ncols();
    let mut others = data.validation.map(|part| part.x.ncols()).into_iter().chain(start_inputs);
    if let Some(other) = others.find(|&other| other != d) {
        return Err(Error::data(format!(
            "the training inputs have {d} columns, the validation inputs or the start model have {other}, expected equal numbers"
        )));
    }
    check_part("training", data.train, likelihood)?;
    let Some(validation) = data.validation else { return Ok(()) };
    check_part("validation", validation, likelihood)?;
    let unweighted = Targets { weights: &[], ..data.train.targets };
    check_alike("validation", Targets { weights: &[], ..validation.targets }, unweighted)
}

/// Lets the likelihood check itself at the lowest target, the highest and some others, on the scale that the model sees.
///
/// # Errors
///
/// A data error with what the likelihood found.
pub(super) fn check_formula(targets: Targets<'_>, likelihood: &ObservationModel) -> Result<()> {
    const OTHERS: usize = 7;
    let Targets { y, exposure, .. } = targets;
    let scaled = Moments::of(y.iter().copied().filter(|_| likelihood.scales_target()));
    let mean = scaled.mean().unwrap_or(0.0);
    let scale = scaled.variance().filter(|&variance| variance > 0.0).unwrap_or(1.0).sqrt();
    let extreme = |sign: f64| (0..y.len()).min_by(|&a, &b| (sign * y[a]).total_cmp(&(sign * y[b])));
    let others = (0..OTHERS).map(|k| k * (y.len() - 1) / OTHERS);
    let row = |i: usize| Observation::exposed((y[i] - mean) / scale, exposure.get(i).copied().unwrap_or(1.0));
    let rows: Vec<_> = [1.0, -1.0].into_iter().filter_map(extreme).chain(others).map(row).collect();
    likelihood.check(&rows).map_err(Error::data)
}

/// Refuses rows without the exposures, weights or outputs that the training rows have, and the reverse.
pub(super) fn check_alike(what: &str, rows: Targets<'_>, training: Targets<'_>) -> Result<()> {
    for (name, own, known) in [
        ("exposures", rows.exposure, training.exposure),
        ("weights", rows.weights, training.weights),
        ("other ends", rows.other_ends, training.other_ends),
        ("outputs", rows.outputs, training.outputs),
    ] {
        if own.is_empty() != known.is_empty() {
            let has = |values: &[f64]| if values.is_empty() { "no" } else { "their" };
            return Err(Error::data(format!(
                "the {what} rows have {} {name} and the training rows have {} {name}, expected {name} of both or of neither",
                has(own),
                has(known)
            )));
        }
    }
    Ok(())
}

/// Refuses grouping codes that are not levels. In training rows each code is a whole number from 0
/// to the number of levels minus 1.
pub(super) fn check_groups(x: MatRef<'_, f64>, effects: &[EffectTerm]) -> Result<()> {
    let columns = columns_of(effects);
    if x.ncols() < columns {
        let found = x.ncols();
        return Err(Error::data(format!(
            "the training inputs have {found} columns, expected at least the {columns} of the grouped effects"
        )));
    }
    let inputs = x.ncols() - columns;
    for term in effects {
        let known = |code: &f64| code.fract() == 0.0 && (0.0..term.levels as f64).contains(code);
        if let Some(row) = x.col(inputs + term.code).iter().position(|code| !known(code)) {
            return Err(Error::data(format!(
                "grouping {}: the code in row {row}, counted from 0, is {}, expected a whole number from 0 to {}",
                term.name,
                x[(row, inputs + term.code)],
                term.levels.saturating_sub(1)
            )));
        }
    }
    Ok(())
}

/// Refuses other ends of intervals for likelihoods that have none.
fn check_other_ends(kind: TargetKind, what: &str, other_ends: &[f64], likelihood: &str) -> Result<()> {
    if !other_ends.is_empty() && !kind.is_censored() {
        return Err(Error::data(format!(
            "the {what} targets are censored, which the {likelihood} likelihood does not allow for"
        ))
        .hint("choose a likelihood of censored targets, such as weibull, log-normal or gaussian-censored"));
    }
    Ok(())
}

/// Checks the training rows or the validation rows; `what` names them in errors.
fn check_part(what: &str, part: Dataset<'_>, likelihood: &ObservationModel) -> Result<()> {
    let (kind, name) = (likelihood.target_kind(), likelihood.name());
    let (n, d) = (part.len(), part.x.ncols());
    if part.x.nrows() != n || n == 0 || d == 0 {
        return Err(Error::data(format!(
            "the {what} inputs are {} rows × {d} columns for {n} targets, expected one row per target, and at least one row and one column",
            part.x.nrows()
        )));
    }
    let Targets { exposure, weights, other_ends, .. } = part.targets;
    for (name, given) in [("exposures", exposure), ("weights", weights), ("other ends", other_ends)] {
        if !(given.is_empty() || given.len() == n) {
            let count = given.len();
            return Err(Error::data(format!(
                "there are {count} {name} for {n} {what} targets, expected one each, or none at all"
            )));
        }
    }
    check_exposure(LikelihoodKind::of(&**likelihood), what, exposure)?;
    check_other_ends(kind, what, other_ends, name)?;
    if let Some(row) = weights.iter().position(|&value| !(value > 0.0 && value.is_finite())) {
        return Err(Error::data(format!(
            "the {what} weights have {} in row {row}, counted from 0, expected a positive number",
            weights[row]
        )));
    }
    for column in 0..d {
        if let Some(row) = part.x.col(column).iter().position(|value| !value.is_finite()) {
            return Err(Error::data(format!(
                "the {what} inputs have {} in row {row}, column {column}, both counted from 0, expected a finite number",
                part.x[(row, column)]
            )));
        }
    }
    check_targets(kind, what, part.targets.y, name)?;
    check_successes(kind, what, part.targets.y, exposure)
}
