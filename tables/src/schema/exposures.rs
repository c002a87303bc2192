//! The column of exposures of counts, or of numbers of trials of successes.

use super::columns::{Schema, SchemaOptions};
use super::facts::Role;
use crate::tables::column::number_text;
use crate::tables::table::{Table, quoted};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::TargetKind;

impl Schema {
    /// Refuses an exposure of a target other than counts, and trials of a target other than successes.
    pub(crate) fn check_exposure_kind(&self, options: &SchemaOptions) -> Result<()> {
        let kind = self.encoding.kind();
        let exposed = options.exposure.as_ref().map(|name| ("exposure", name, TargetKind::Count));
        let tried = options.trials.as_ref().map(|name| ("trials", name, TargetKind::Trials));
        let misused = [exposed, tried].into_iter().flatten().find(|(_, _, needed)| kind != *needed);
        let Some((role, name, needed)) = misused else { return Ok(()) };
        let (name, target) = (quoted(name), quoted(&self.target));
        let (verb, targets, likelihood) = match needed {
            TargetKind::Trials => ("need", "successes", "binomial or beta-binomial"),
            _ => ("needs", "counts", "counts"),
        };
        let of = if needed == TargetKind::Trials { "⟨likelihood⟩" } else { "a likelihood of" };
        Err(Error::usage(format!(
            "the {role} {name} {verb} a target of {targets}, but the target {target} is of kind {kind}"
        ))
        .hint(format!("choose {of} {likelihood}, or leave the {role} out")))
    }

    /// The role of the column of exposures.
    pub(crate) fn exposure_role(&self) -> Role {
        if self.encoding.kind() == TargetKind::Trials { Role::Trials } else { Role::Exposure }
    }

    /// The exposure or the number of trials of each row, or `None` when the model has none.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0; for trials also when a value is not whole, or less than
    /// the number of successes in the row.
    pub fn exposure(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        let Some(name) = &self.exposure else { return Ok(None) };
        let values = self.positive_numbers(table, name, self.exposure_role())?;
        if self.encoding.kind() == TargetKind::Trials {
            self.check_successes(table, name, &values)?;
        }
        Ok(Some(values))
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
