//! Warnings about inputs that can be used but deserve a look: constant and repeated columns and rows, numbers far from all others.

use super::columns::{FeatureKind, Schema};
use super::facts::ColumnFacts;
use super::table_facts::TableFacts;
use crate::tables::column::{Column, number_text};
use crate::tables::table::{Table, quoted};
use faer::MatRef;
use sparsegp::error::Result;
use std::hash::{DefaultHasher, Hasher};

const MOST_NAMED: usize = 5;

/// Lists the first few items in words, and the number of further items.
pub(crate) fn folded(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    if items.len() > MOST_NAMED + 1 {
        let more = items.len() - MOST_NAMED;
        items.truncate(MOST_NAMED);
        items.push(format!("{more} more"));
    }
    match items.split_last() {
        Some((last, rest @ [_, ..])) => format!("{} and {last}", rest.join(", ")),
        Some((only, [])) => only.clone(),
        None => String::new(),
    }
}

/// Returns warnings about inputs `x` (`n × D`, a row per datum) with D `names`.
///
/// Constant inputs, inputs equal to another one in every row, and rows equal to another row are all handled by the
/// models; they are reported because they often mean a mistake in the data.
pub fn input_warnings(names: &[String], x: MatRef<'_, f64>) -> Vec<String> {
    let d = x.ncols();
    let is_constant = |input: usize| x.col(input).iter().all(|value| *value == x[(0, input)]);
    let constant: Vec<bool> = (0..d).map(is_constant).collect();
    let name = |input: usize| names.get(input).map_or_else(|| format!("{input}"), |name| quoted(name));
    let mut warnings = Vec::new();
    warnings.extend(constant_inputs((0..d).filter(|&input| constant[input]).map(name)));
    let pairs: Vec<(String, String)> = repeats(x)
        .into_iter()
        .filter(|&(later, _)| !constant[later])
        .map(|(later, earlier)| (name(later), name(earlier)))
        .collect();
    match pairs.as_slice() {
        [] => {}
        [(later, earlier)] => warnings.push(format!("input {later} equals input {earlier} in every row")),
        pairs => {
            let list = folded(pairs.iter().map(|(later, earlier)| format!("{later} (as {earlier})")));
            warnings.push(format!("inputs equal others in every row: {list}"));
        }
    }
    let repeated = repeats(x.transpose()).len();
    if repeated > 0 {
        warnings.push(format!("{repeated} of {} rows have the same inputs as another row", x.nrows()));
    }
    warnings
}

pub(crate) fn constant_inputs(names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [] => None,
        [name] => Some(format!("input {name} is the same in every row and cannot help")),
        _ => {
            let list = folded(names.into_iter());
            Some(format!("inputs {list} are the same in every row and cannot help"))
        }
    }
}

/// Returns every column that equals an earlier column, in order, with the first column that it equals.
fn repeats(x: MatRef<'_, f64>) -> Vec<(usize, usize)> {
    let mut hashes: Vec<(u64, usize)> =
        (0..x.ncols()).map(|column| (column_hash(x, column), column)).collect();
    hashes.sort_unstable();
    let mut found = Vec::new();
    for run in hashes.chunk_by(|a, b| a.0 == b.0) {
        // Columns that only share a hash are left out by the comparison.
        let (_, first) = run[0];
        let equal = run[1..].iter().filter(|&&(_, column)| x.col(column).iter().eq(x.col(first).iter()));
        found.extend(equal.map(|&(_, column)| (column, first)));
    }
    found.sort_unstable();
    found
}

fn column_hash(x: MatRef<'_, f64>, column: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    for &value in x.col(column).iter() {
        // Both zeros are equal and must have one hash.
        hasher.write_u64(if value == 0.0 { 0 } else { value.to_bits() });
    }
    hasher.finish()
}

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
    let target = Some(schema.target.as_str()).filter(|_| schema.encoding.kind().is_standardised());
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

#[cfg(test)]
mod tests {
    use super::*;
    use faer::mat;

    #[test]
    fn constant_and_repeated_columns_and_rows_are_named() {
        let names = ["a", "b", "c", "d", "e"].map(String::from);
        let x = mat![
            [1.0, 2.0, 1.0, 0.0],
            [5.0, 5.0, 5.0, 5.0],
            [1.0, 2.0, 1.0, -0.0],
            [1.0, 2.0, 1.0, 9.0],
            [5.0, 5.0, 5.0, 5.0],
        ];
        assert_eq!(
            input_warnings(&names, x.transpose()),
            [
                "inputs 'b' and 'e' are the same in every row and cannot help",
                "input 'c' equals input 'a' in every row",
                "1 of 4 rows have the same inputs as another row",
            ]
        );
        let x = mat![[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]];
        assert_eq!(input_warnings(&["a".into(), "b".into()], x.transpose()), [""; 0]);
    }
}
