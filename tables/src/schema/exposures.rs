//! What is known of a target: exposures of counts, numbers of trials of successes, standard errors, and which targets are censored.

use super::columns::{Schema, SchemaOptions};
use super::facts::Role;
use crate::tables::column::{Column, number_text};
use crate::tables::table::{Table, quoted};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::TargetKind;

impl Schema {
    /// Refuses a column whose role needs another kind of target.
    pub(crate) fn check_exposure_kind(&self, options: &SchemaOptions) -> Result<()> {
        let kind = self.encoding.kind();
        let roles: [(&str, &Option<String>, bool, &str, &str); 4] = [
            ("exposure", &options.exposure, kind == TargetKind::Count, "counts", "a likelihood of counts"),
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
            (
                "censored",
                &options.censored,
                kind.is_censored(),
                "times or numbers",
                "⟨likelihood⟩ weibull, log-normal, log-logistic or gaussian",
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

    /// The other end of the interval of each target, `None` without a column that says so: infinity in rows that are censored on the right (`1`,
    /// `true`, `right`), minus infinity in rows that are censored on the left (`left`), and NaN in rows whose target is known (`0`, `false`,
    /// `none`, or an empty cell).
    ///
    /// # Errors
    ///
    /// When a cell is anything else.
    pub fn other_ends(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        let Some(name) = self.censored.as_deref() else { return Ok(None) };
        let Some(column) = table.column(name) else { return Ok(None) };
        let end = |row: usize, text: &str| match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "right" => Ok(f64::INFINITY),
            "left" | "-1" => Ok(f64::NEG_INFINITY),
            "" | "0" | "false" | "no" | "none" => Ok(f64::NAN),
            _ => Err(table.unfit(row, name, text, "1 or right, left, or 0 or none")),
        };
        let ends: Result<Vec<f64>> = match column {
            Column::Number(values) => values
                .iter()
                .enumerate()
                .map(
                    |(row, &value)| if value.is_nan() { Ok(f64::NAN) } else { end(row, &number_text(value)) },
                )
                .collect(),
            Column::Text(cells) => {
                (0..table.rows()).map(|row| end(row, cells.get(row).unwrap_or_default())).collect()
            }
            _ => return Err(table.unfit(0, name, "a date", "1 or right, left, or 0 or none")),
        };
        ends.map(Some)
    }

    /// The name of the column that says which targets are censored, where there is one.
    pub fn censored_name(&self) -> Option<&str> {
        self.censored.as_deref()
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
