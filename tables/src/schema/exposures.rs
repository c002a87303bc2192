//! What is known of a target: exposures of counts, numbers of trials of successes, standard errors, and which targets are censored.

use super::columns::{Schema, SchemaOptions};
use super::facts::Role;
use crate::tables::column::number_text;
use crate::tables::interval_name;
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
    /// Columns of the other ends of intervals that begin or end at the target: equal to a known target, empty if the interval has no such
    /// end. Without one of the columns, the target is that end.
    Ends {
        /// The column of lower ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lower: Option<String>,
        /// The column of upper ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upper: Option<String>,
    },
}

impl Censoring {
    /// Returns the columns of the other ends of intervals, if either is named.
    pub fn of_ends(lower: Option<String>, upper: Option<String>) -> Option<Censoring> {
        (lower.is_some() || upper.is_some()).then_some(Censoring::Ends { lower, upper })
    }

    /// Returns the columns of the lower and the upper ends if a target of this name has no column of its own.
    fn interval(&self, target: &str) -> Option<[&str; 2]> {
        let Censoring::Ends { lower: Some(lower), upper: Some(upper) } = self else { return None };
        Some([lower.as_str(), upper]).filter(|ends| interval_name(*ends) == target)
    }

    /// The columns that training needs, each with its role in messages.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let columns = match self {
            Censoring::Column(name) => [Some(("censored", name)), None],
            Censoring::Cap { .. } => [None; 2],
            Censoring::Ends { lower, upper } => {
                [lower.as_ref().map(|name| ("lower", name)), upper.as_ref().map(|name| ("upper", name))]
            }
        };
        columns.into_iter().flatten().map(|(role, name)| (role, name.as_str()))
    }
}

impl fmt::Display for Censoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Censoring::Cap { cap } = self {
            return write!(f, "cap {cap}");
        }
        let columns: Vec<String> =
            self.columns().map(|(role, name)| format!("{role} {}", quoted(name))).collect();
        f.write_str(&columns.join(" and "))
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

impl SchemaOptions {
    /// The columns of the lower and the upper ends of the target, if it has no column of its own.
    pub fn interval(&self) -> Option<[&str; 2]> {
        let known = self.known.as_ref().and_then(Schema::interval);
        known.or_else(|| self.censored.as_ref()?.interval(&self.target))
    }
}

impl Schema {
    /// The columns of the lower and the upper ends of the target, if it has no column of its own.
    pub fn interval(&self) -> Option<[&str; 2]> {
        self.censored.as_ref()?.interval(&self.target)
    }

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
    /// When a cell does not say that, or the target is not one end of its interval.
    pub fn other_ends(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        match &self.censored {
            None => Ok(None),
            Some(Censoring::Column(name)) => words_of_ends(table, name),
            Some(Censoring::Cap { cap }) => {
                let end = |&y: &f64| if y >= *cap { f64::INFINITY } else { f64::NAN };
                Ok(self.target_where_known(table)?.map(|targets| targets.iter().map(end).collect()))
            }
            Some(Censoring::Ends { lower, upper }) => self.ends(table, lower.as_deref(), upper.as_deref()),
        }
    }

    /// What says which targets are censored, if anything does.
    pub fn censored(&self) -> Option<&Censoring> {
        self.censored.as_ref()
    }

    /// Returns the other ends of intervals that begin or end at the targets.
    fn ends(&self, table: &Table, lower: Option<&str>, upper: Option<&str>) -> Result<Option<Vec<f64>>> {
        if lower.into_iter().chain(upper).any(|name| table.column(name).is_none()) {
            return Ok(None);
        }
        let column = |name: Option<&str>| name.map(|name| table.numbers(name)).transpose();
        let (lowers, uppers) = (column(lower)?, column(upper)?);
        let Some(targets) = self.target_where_known(table)? else { return Ok(None) };
        let end = |(row, &target): (usize, &f64)| {
            let of = |ends: &Option<Cow<'_, [f64]>>, none: f64| match ends.as_ref().map(|ends| ends[row]) {
                None => target,
                Some(end) if end.is_nan() => none,
                Some(end) => end,
            };
            let (low, high) = (of(&lowers, f64::NEG_INFINITY), of(&uppers, f64::INFINITY));
            match (low == target, high == target) {
                _ if target.is_nan() => Ok(f64::NAN),
                (true, true) => Ok(f64::NAN),
                (true, false) if high > target => Ok(high),
                (false, true) if low < target => Ok(low),
                _ => {
                    let (name, found, expected) = match (lower, upper) {
                        (Some(name), None) => (
                            name,
                            low,
                            "a number not above the target, or an empty cell if there is no lower end",
                        ),
                        (None, Some(name)) => (
                            name,
                            high,
                            "a number not below the target, or an empty cell if there is no upper end",
                        ),
                        (Some(name), _) if low > high => {
                            (name, low, "a number not above the upper end of the interval")
                        }
                        _ => (self.target.as_str(), target, "the lower or the upper end of its interval"),
                    };
                    Err(table.unfit(row, name, &number_text(found), expected))
                }
            }
        };
        targets.iter().enumerate().map(end).collect::<Result<_>>().map(Some)
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
