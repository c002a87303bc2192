//! Numbers such as -999 that often mark missing cells. They are reported if they are far from all others of their column, and not changed.

use super::check::folded;
use super::columns::Schema;
use super::odd::checked_columns;
use super::table_facts::TableFacts;
use crate::tables::column::{Column, number_text};
use crate::tables::table::{Table, quoted};
use sparsegp::error::Result;

/// Numbers that mark missing cells by convention.
const SENTINELS: [f64; 12] =
    [-9.0, -99.0, -999.0, -9999.0, -99999.0, -999.9, -99.9, 99.0, 999.0, 9999.0, 99999.0, 999999.0];

/// The minimum number of cells with a number far from all others for it to be a marker rather than a slip.
const FEWEST: usize = 2;

/// Returns one line about all columns that have such a number in several rows. `rows` are all rows or a
/// sample.
pub(crate) fn sentinels(facts: &TableFacts, schema: &Schema, rows: &Table) -> Result<Option<String>> {
    let (mut words, mut values): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for name in checked_columns(schema) {
        let (low, high) = facts.require(name)?.plain.range;
        let Some(cells) = rows.column(name).and_then(Column::numbers) else { continue };
        for value in [low, high].into_iter().filter(|value| SENTINELS.contains(value)) {
            let count = cells.iter().filter(|&&cell| cell == value).count();
            if count >= FEWEST && is_far(value, &cells) {
                words.push(format!("{} in {}", number_text(value), quoted(name)));
                values.push(number_text(value).into_owned());
            }
        }
    }
    if words.is_empty() {
        return Ok(None);
    }
    values.sort();
    values.dedup();
    Ok(Some(format!(
        "{}: numbers far from all others in several rows: {}; if they mark missing cells, add ⟨missing {}⟩",
        facts.source(),
        folded(words.into_iter()),
        values.join(",")
    )))
}

/// Returns true if the distance of a value from the nearest other value is at least the range of the others, without further sentinels.
fn is_far(value: f64, cells: &[f64]) -> bool {
    let others = || cells.iter().copied().filter(|cell| cell.is_finite() && *cell != value);
    let plain = || others().filter(|cell| !SENTINELS.contains(cell));
    let (low, high) =
        plain().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), cell| (low.min(cell), high.max(cell)));
    let gap = if value < low { low - value } else { value - high };
    low <= high && gap >= (high - low).max(1.0)
}
