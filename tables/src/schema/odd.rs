//! Numbers far from all others of their column, which are probably mistakes if they are single, and markers of missing cells if they repeat
//! and look like -999. They are reported, not changed.

use super::check::folded;
use super::columns::{FeatureKind, Schema};
use super::facts::ColumnFacts;
use super::table_facts::TableFacts;
use crate::tables::column::{Column, number_text};
use crate::tables::table::{Table, quoted};
use sparsegp::error::Result;
use sparsegp::likelihood::TargetKind;

/// The minimum distance of such a number from the median, in units of the distance between the quartiles.
const FAR: f64 = 1e4;

/// Numbers that mark missing cells by convention.
const SENTINELS: [f64; 12] =
    [-9.0, -99.0, -999.0, -9999.0, -99999.0, -999.9, -99.9, 99.0, 999.0, 9999.0, 99999.0, 999999.0];

/// The minimum number of cells with a number far from all others for it to be a marker rather than a slip.
const FEWEST: usize = 2;

/// Returns one line about the single numbers and one about the markers that are far from all other numbers, among the numeric features and a
/// real target. `rows`, all rows or a sample, give the quartiles; the facts give the extreme numbers.
pub(crate) fn odd_values(facts: &TableFacts, schema: &Schema, rows: &Table) -> Result<Vec<String>> {
    let (mut singles, mut repeated, mut markers) = (Vec::new(), Vec::new(), Vec::new());
    let numeric = schema.features.iter().filter(|feature| feature.kind == FeatureKind::Numeric);
    let target = Some(schema.target.as_str()).filter(|_| schema.encoding.kind() == TargetKind::Real);
    for name in numeric.map(|feature| feature.name.as_str()).chain(target) {
        let column = facts.require(name)?;
        let Some(cells) = rows.column(name).and_then(Column::numbers) else { continue };
        if let Some((value, row)) = single(column, &cells) {
            singles.push(format!("{} in row {} of {}", number_text(value), row + 1, quoted(name)));
        }
        for value in <[f64; 2]>::from(column.plain.range).into_iter().filter(|end| SENTINELS.contains(end)) {
            let count = cells.iter().filter(|&&cell| cell == value).count();
            if count >= FEWEST && is_far(value, &cells) {
                repeated.push(format!("{} in {}", number_text(value), quoted(name)));
                markers.push(number_text(value).into_owned());
            }
        }
    }
    markers.sort();
    markers.dedup();
    let source = &facts.source;
    let told = |words: Vec<String>| (!words.is_empty()).then(|| folded(words.into_iter()));
    let singles = told(singles).map(|words| {
        format!("{source}: a number far from all others in its column, by more than 10000 times the distance between its quartiles: {words}; check it")
    });
    let repeated = told(repeated).map(|words| {
        let markers = markers.join(",");
        format!("{source}: numbers far from all others in several rows: {words}; if they mark missing cells, add ⟨missing {markers}⟩")
    });
    Ok(singles.into_iter().chain(repeated).collect())
}

/// Returns the number of a column that is far from all others, with its row.
fn single(column: &ColumnFacts, cells: &[f64]) -> Option<(f64, usize)> {
    let (extremes, affine) = (&column.extremes, column.affine());
    // A number that is far from all others is also far from their mean. Only columns for which this may hold need their quartiles.
    let deviations = |(value, _): (f64, usize)| (value - affine.shift).abs() / affine.scale;
    let most = deviations(extremes.low[0]).max(deviations(extremes.high[0]));
    if !(most > 0.25 * (column.present as f64).sqrt() && column.present > 8) {
        return None;
    }
    let mut values: Vec<f64> = cells.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(f64::NAN);
    let (median, range) = (at(0.5), at(0.75) - at(0.25));
    extremes.alone(median).filter(|(value, _)| range > 0.0 && (value - median).abs() > FAR * range)
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
