//! Single numbers so far from all others of their column that they are probably mistakes. They are reported, not changed.

use serde::{Deserialize, Serialize};

use super::columns::{Feature, Schema};
use super::table_facts::TableFacts;
use crate::tables::column::{Column, number_text};
use crate::tables::table::{Table, quoted};
use sparsegp::error::Result;
use sparsegp::likelihood::TargetKind;

/// The minimum distance of such a number from the median, in units of the distance between the quartiles.
const FAR: f64 = 1e4;

/// The minimum ratio of its distance to that of any other number. The largest of heavy-tailed numbers does not reach it, because others are
/// nearly as large.
const ALONE: f64 = 100.0;

/// The two smallest and the two largest numbers of a column, with the rows of the first of each pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Extremes {
    low: [(f64, usize); 2],
    high: [(f64, usize); 2],
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes { low: [(f64::INFINITY, 0); 2], high: [(f64::NEG_INFINITY, 0); 2] }
    }
}

impl Extremes {
    pub(super) fn push(&mut self, value: f64, row: usize) {
        if value < self.low[0].0 {
            self.low = [(value, row), self.low[0]];
        } else if value < self.low[1].0 {
            self.low[1] = (value, row);
        }
        if value > self.high[0].0 {
            self.high = [(value, row), self.high[0]];
        } else if value > self.high[1].0 {
            self.high[1] = (value, row);
        }
    }

    pub(super) fn merge(&mut self, later: Extremes) {
        let ends = later.low.into_iter().chain(later.high);
        ends.filter(|(value, _)| value.is_finite()).for_each(|(value, row)| {
            // A column of one or two numbers has each of them at both ends.
            if !self.low.contains(&(value, row)) && !self.high.contains(&(value, row)) {
                self.push(value, row);
            }
        });
    }

    /// Returns true if all numbers are below the numbers of later rows.
    pub(super) fn end_below(&self, later: &Extremes) -> bool {
        self.high[0].0 < later.low[0].0
    }

    /// Returns the number that is far from all others, with its row.
    fn alone(&self, middle: f64) -> Option<(f64, usize)> {
        let far = |(value, _): (f64, usize)| (value - middle).abs();
        let (end, next, other) = if far(self.low[0]) > far(self.high[0]) {
            (self.low[0], self.low[1], self.high[0])
        } else {
            (self.high[0], self.high[1], self.low[0])
        };
        let rest = far(next).max(far(other));
        (far(end).is_finite() && far(end) > ALONE * rest).then_some(end)
    }
}

/// The columns that are checked: the numeric features and a real target.
pub(super) fn checked_columns(schema: &Schema) -> impl Iterator<Item = &str> {
    let numeric = schema.features.iter().filter(|feature| matches!(feature, Feature::Numeric { .. }));
    let target = Some(schema.target.as_str()).filter(|_| schema.encoding.kind() == TargetKind::Real);
    numeric.map(Feature::name).chain(target)
}

/// Returns one line about all columns in which a single number is far from all others. `rows`, all rows or a sample, give the quartiles;
/// the facts give the extreme numbers.
pub(crate) fn odd_values(facts: &TableFacts, schema: &Schema, rows: &Table) -> Result<Option<String>> {
    let mut words = Vec::new();
    for name in checked_columns(schema) {
        let column = facts.require(name)?;
        let (extremes, affine) = (column.extremes(), column.affine());
        // A number that is far from all others is also far from their mean. Only columns for which this may hold need their quartiles.
        let deviations = |(value, _): (f64, usize)| (value - affine.shift).abs() / affine.scale;
        let most = deviations(extremes.low[0]).max(deviations(extremes.high[0]));
        if !(most > 0.25 * (column.present as f64).sqrt() && column.present > 8) {
            continue;
        }
        let Some(values) = rows.column(name).and_then(Column::numbers) else { continue };
        let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(f64::NAN);
        let (median, range) = (at(0.5), at(0.75) - at(0.25));
        if let Some((value, row)) =
            extremes.alone(median).filter(|(value, _)| range > 0.0 && (value - median).abs() > FAR * range)
        {
            words.push(format!("{} in row {} of {}", number_text(value), row + 1, quoted(name)));
        }
    }
    let told = || {
        format!(
            "{}: a number far from all others in its column, by more than 10000 times the distance between its quartiles: {}; check it",
            facts.source(),
            super::check::folded(words.iter().cloned())
        )
    };
    Ok((!words.is_empty()).then(told))
}
