//! The role of a column of numbers, and the values that suit it.

use serde::{Deserialize, Serialize};

use crate::tables::column::number_text;
use crate::tables::table::Table;
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::{EXPOSURES, HIGHEST_WHOLE, TargetKind};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// The target, of this kind.
    Target(TargetKind),
    Exposure,
    Weight,
}

impl Role {
    /// Checks a value that is not missing; `row` counts from 0 within the table.
    pub(crate) fn check(self, table: &Table, row: usize, name: &str, value: f64) -> Result<()> {
        let value = table.finite(row, name, value)?;
        let (expected, hint) = match self {
            Role::Exposure if EXPOSURES.contains(&value) => return Ok(()),
            Role::Exposure => (
                if value > 0.0 { "an exposure from 1e-100 to 1e100" } else { "an exposure above 0" },
                "an exposure is the time, area or number of units that could have had events; remove rows without exposure",
            ),
            Role::Weight if value <= 0.0 => {
                ("a weight above 0", "remove rows that should not count, instead of giving them the weight 0")
            }
            Role::Target(TargetKind::Positive) if value <= 0.0 => {
                ("a number above 0", "correct or remove the row, or use a likelihood of any real number")
            }
            Role::Target(TargetKind::UnitInterval) if value <= 0.0 || value >= 1.0 => (
                "a number above 0 and below 1",
                "to keep targets of exactly 0 or 1, shrink all of them inside with (y(n−1)+0.5)/n for n rows \
                 (Smithson & Verkuilen 2006)",
            ),
            Role::Target(TargetKind::Count) if value < 0.0 || value.fract() != 0.0 => {
                ("a count (0, 1, 2, …)", "correct or remove the row, or use a likelihood of any real number")
            }
            Role::Target(TargetKind::Count) if value > HIGHEST_WHOLE => (
                "a count of at most 2^53",
                "larger counts cannot be distinguished; use a likelihood of any real number",
            ),
            Role::Target(TargetKind::Ordinal) if value.fract() != 0.0 || value.abs() > HIGHEST_WHOLE => (
                "a level written as a whole number",
                "number the levels 1, 2, 3, … in their order, or use a likelihood of any real number",
            ),
            _ => return Ok(()),
        };
        let (place, found) = (table.place(row, name), number_text(value));
        Err(Error::data(format!("{place}: found {found}, expected {expected}")).hint(hint))
    }
}
