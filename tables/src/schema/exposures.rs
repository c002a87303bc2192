//! What is known of a target: exposures of counts, numbers of trials of successes, standard errors, and which targets are censored.

use super::columns::{Schema, SchemaOptions};
use super::facts::Role;
use crate::tables::column::number_text;
use crate::tables::table::{Table, quoted};
use serde::{Deserialize, Serialize};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::TargetKind;
use std::borrow::Cow;
use std::fmt;

/// What says which targets are censored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Censoring {
    /// A column: `1`, `true` or `right` in rows whose target is above the given number, `left` where it is below, and `0`, `false`, `none` or an
    /// empty cell where it is known.
    Column(String),
    /// A largest number: targets that are not below it are only known to be above it.
    Cap {
        /// The number.
        cap: f64,
    },
    /// A column of the upper ends of intervals that begin at the target: equal to it where it is known, an empty cell for no upper end.
    Upper {
        /// The column.
        upper: String,
    },
}

impl Censoring {
    /// The column that training needs, if there is one.
    pub fn column(&self) -> Option<&str> {
        match self {
            Censoring::Column(name) | Censoring::Upper { upper: name } => Some(name),
            Censoring::Cap { .. } => None,
        }
    }

    /// The role of the column in messages.
    pub(super) fn role(&self) -> &'static str {
        if matches!(self, Censoring::Upper { .. }) { "upper" } else { "censored" }
    }
}

impl fmt::Display for Censoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Censoring::Column(name) | Censoring::Upper { upper: name } => {
                write!(f, "{} {}", self.role(), quoted(name))
            }
            Censoring::Cap { cap } => write!(f, "cap {cap}"),
        }
    }
}

/// Returns the other ends of intervals that a column says in words.
fn words_of_ends(table: &Table, name: &str) -> Result<Option<Vec<f64>>> {
    let Some(column) = table.column(name) else { return Ok(None) };
    let end = |row: usize| {
        let text =
            if column.is_missing(row) { Cow::Borrowed("") } else { column.spelling(row).unwrap_or_default() };
        match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "right" => Ok(f64::INFINITY),
            "left" | "-1" => Ok(f64::NEG_INFINITY),
            "" | "0" | "false" | "no" | "none" => Ok(f64::NAN),
            _ => Err(table.unfit(row, name, &text, "1 or right, left, or 0 or none")),
        }
    };
    (0..table.rows()).map(end).collect::<Result<_>>().map(Some)
}

impl Schema {
    /// Refuses a column whose role needs another kind of target.
    pub(crate) fn check_exposure_kind(&self, options: &SchemaOptions) -> Result<()> {
        let kind = self.encoding.kind();
        if let Some(censoring) = self.censored.as_ref().filter(|_| !kind.is_censored()) {
            let target = quoted(&self.target);
            return Err(Error::usage(format!(
                "the {censoring} needs a target of times, numbers or counts, but the target {target} is of kind {kind}"
            ))
            .hint("choose ⟨likelihood⟩ weibull, log-normal, log-logistic, gamma, exponential, gaussian, student-t, poisson or negative-binomial, or leave the censoring out"));
        }
        let roles: [(&str, &Option<String>, bool, &str, &str); 3] = [
            ("exposure", &options.exposure, kind.is_of_events(), "counts", "a likelihood of counts"),
            (
                "trials",
                &options.trials,
                kind == TargetKind::Trials,
                "successes",
                "⟨likelihood⟩ binomial or beta-binomial",
            ),
            (
                "noise-std",
                &options.noise_std,
                kind == TargetKind::Measured,
                "numbers",
                "⟨likelihood⟩ gaussian or student-t",
            ),
        ];
        let misused = roles.into_iter().find(|(_, name, suits, ..)| name.is_some() && !suits);
        let Some((role, Some(name), _, targets, likelihood)) = misused else { return Ok(()) };
        let (name, target) = (quoted(name), quoted(&self.target));
        let verb = if role == "trials" { "need" } else { "needs" };
        Err(Error::usage(format!(
            "the {role} {name} {verb} a target of {targets}, but the target {target} is of kind {kind}"
        ))
        .hint(format!("choose {likelihood}, or leave the {role} out")))
    }

    /// The role of the column of exposures.
    pub(crate) fn exposure_role(&self) -> Role {
        match self.encoding.kind() {
            TargetKind::Trials => Role::Trials,
            TargetKind::Measured => Role::NoiseStd,
            _ => Role::Exposure,
        }
    }

    /// Returns true if predictions need the column of exposures. Without standard errors they are of targets without known noise.
    pub(super) fn needs_exposure(&self) -> bool {
        self.encoding.kind() != TargetKind::Measured
    }

    /// The exposure, the number of trials or the standard error of each row, or `None` when the model has none, or the table has no standard
    /// errors.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0 (a standard error may be 0); for trials also when a
    /// value is not whole, or less than the number of successes in the row.
    pub fn exposure(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        let known = |name: &&String| self.needs_exposure() || table.column(name).is_some();
        let Some(name) = self.exposure.as_ref().filter(known) else { return Ok(None) };
        let values = self.positive_numbers(table, name, self.exposure_role())?;
        if self.encoding.kind() == TargetKind::Trials {
            self.check_successes(table, name, &values)?;
        }
        Ok(Some(values))
    }

    /// The other end of the interval of each target, `None` if nothing says which are censored: infinity in rows that are censored on the right,
    /// minus infinity in rows that are censored on the left, and NaN in rows whose target is known.
    ///
    /// # Errors
    ///
    /// When a cell does not say that, or the upper end of an interval lies below the target.
    pub fn other_ends(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        match &self.censored {
            None => Ok(None),
            Some(Censoring::Column(name)) => words_of_ends(table, name),
            Some(Censoring::Cap { cap }) => {
                let end = |&y: &f64| if y >= *cap { f64::INFINITY } else { f64::NAN };
                Ok(self.target_where_known(table)?.map(|targets| targets.iter().map(end).collect()))
            }
            Some(Censoring::Upper { upper }) => self.upper_ends(table, upper),
        }
    }

    /// What says which targets are censored, if anything does.
    pub fn censored(&self) -> Option<&Censoring> {
        self.censored.as_ref()
    }

    /// Returns the upper ends of the intervals that begin at the targets.
    fn upper_ends(&self, table: &Table, name: &str) -> Result<Option<Vec<f64>>> {
        if table.column(name).is_none() {
            return Ok(None);
        }
        let (uppers, targets) = (table.numbers(name)?, self.target_where_known(table)?);
        let Some(targets) = targets else { return Ok(None) };
        let end = |(row, &upper): (usize, &f64)| match targets[row] {
            _ if upper.is_nan() => Ok(f64::INFINITY),
            target if upper == target => Ok(f64::NAN),
            target if upper > target => Ok(upper),
            _ => {
                let expected = "a number not below the target, or an empty cell if there is no upper end";
                Err(table.unfit(row, name, &number_text(upper), expected))
            }
        };
        uppers.iter().enumerate().map(end).collect::<Result<_>>().map(Some)
    }

    /// Checks that no known target exceeds the trials of its row.
    fn check_successes(&self, table: &Table, name: &str, trials: &[f64]) -> Result<()> {
        let Some(targets) = self.target_where_known(table)? else { return Ok(()) };
        match (0..targets.len()).find(|&row| targets[row] > trials[row]) {
            None => Ok(()),
            Some(row) => {
                let expected = format!("at most the {} trials of {}", number_text(trials[row]), quoted(name));
                let found = number_text(targets[row]);
                Err(table
                    .unfit(row, &self.target, &found, &expected)
                    .hint("the target is the number of successes in the trials of the row"))
            }
        }
    }
}
