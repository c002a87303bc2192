//! Columns that are inputs only on request: identifiers, and columns without a value or with a
//! single one.

use super::facts::ColumnFacts;
use crate::tables::{Column, Table};

/// The minimum number of rows for which ordered whole numbers count as identifiers, unless their name says so.
const FEWEST_ROWS: usize = 20;

/// The minimum share of rows with distinct values for text to be an identifier.
const NEARLY_ALL: f64 = 0.95;

/// Names of identifiers, in small letters.
const NAMES: [&str; 9] =
    ["id", "uuid", "guid", "index", "row", "rowid", "row_number", "rownames", "row.names"];

/// Returns the reason why a column is left out; `None` for an input. `follows` is true if the target follows the order of the rows, so that
/// a number that counts the rows is a time rather than a name.
///
/// A column is left out if all its cells hold one value. Text is left out if it has more than `most` categories, or distinct values in
/// nearly every row. Distinct whole numbers are left out in three cases: if the name of the column is that of an identifier; if there are
/// at least 20 of them, from 0 to n − 1 or from 1 to n; and if there are at least 20 of them, rising from row to row. The last two cases
/// need a target that does not follow them.
pub(super) fn reason(name: &str, column: &ColumnFacts, most: usize, follows: bool) -> Option<&'static str> {
    let (distinct, present) = (column.distinct.levels.len(), column.present);
    let (text, more) = (column.has_text(), column.distinct.more);
    let all = !more && distinct == present && present > 2;
    // Beyond the maximum number of distinct values, the rows of the values that are known stand for all.
    let rows =
        if more { column.distinct.levels.iter().map(|level| level.rows).sum() } else { present as u64 };
    let nearly = all || (present >= FEWEST_ROWS && distinct as f64 >= NEARLY_ALL * rows as f64);
    let rising = !column.not_rising && present > 2;
    let (low, high) = column.plain.range;
    let runs = (low == 0.0 || low == 1.0) && high - low < 1.05 * present as f64;
    // The first condition that holds decides.
    let rules = [
        (present == 0, column.supported().is_ok().then_some("no value in any row")),
        (distinct == 1 && column.gaps.0 == 0, Some("the same value in every row")),
        (text && (column.is_boolean() || column.holds_mistakes()), None),
        (text && nearly, Some("a different value in nearly every row")),
        (text && distinct > most, Some("too many categories")),
        (text || column.is_time() || !column.plain.whole || column.numbers == 0, None),
        (name.starts_with("Unnamed: "), Some("whole numbers without a name")),
        (
            is_named_so(name) && (all || rising || more),
            Some("distinct whole numbers, named as identifiers are"),
        ),
        (!(all || rising) || present < FEWEST_ROWS || (rising && follows), None),
        (runs, Some("whole numbers that count the rows")),
        (rising, Some("whole numbers in the order of the rows, which the target does not follow")),
    ];
    rules.into_iter().find(|(holds, _)| *holds)?.1
}

fn is_named_so(name: &str) -> bool {
    let small = name.trim().to_lowercase();
    let camel = name.strip_suffix("Id").or(name.strip_suffix("ID"));
    NAMES.contains(&small.as_str())
        || small.ends_with("_id")
        || small.ends_with(" id")
        || camel.is_some_and(|before| before.ends_with(|c: char| c.is_lowercase()))
}

/// Returns the columns of distinct whole numbers that help to predict the target, whatever their names are. In the order of such a column,
/// the target changes less between successive rows than between any two rows (von Neumann 1941), by at least three standard errors.
pub(crate) fn followed(table: &Table, target: &str, rows: &[usize]) -> Vec<String> {
    let Some(target) = table.column(target) else { return Vec::new() };
    let of_column = |named: &&crate::tables::NamedColumn| {
        named.column.numbers().is_some_and(|values| is_followed(&values, target, rows))
    };
    table.columns().iter().filter(of_column).map(|named| named.name.clone()).collect()
}

fn is_followed(values: &[f64], target: &Column, rows: &[usize]) -> bool {
    let lacking = target.lacking();
    let known = |row: &usize| !values[*row].is_nan() && !lacking(*row);
    let mut rows: Vec<usize> = rows.iter().copied().filter(known).collect();
    if rows.len() < FEWEST_ROWS || rows.iter().any(|&row| values[row].fract() != 0.0) {
        return false;
    }
    rows.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    if rows.windows(2).any(|pair| values[pair[0]] == values[pair[1]]) {
        return false;
    }
    let steps =
        |of: &dyn Fn(usize, usize) -> f64| rows.windows(2).map(|pair| of(pair[0], pair[1])).sum::<f64>();
    let n = rows.len() as f64;
    let (step, any) = match target {
        Column::Number(y) | Column::Time(y) => {
            let mean = rows.iter().map(|&row| y[row]).sum::<f64>() / n;
            let spread = rows.iter().map(|&row| (y[row] - mean).powi(2)).sum::<f64>();
            (steps(&|a, b| (y[a] - y[b]).powi(2)), 2.0 * spread)
        }
        Column::Text(text) => {
            let mut counts = std::collections::HashMap::new();
            rows.iter().for_each(|&row| *counts.entry(text.get(row)).or_insert(0.0) += 1.0);
            let same = counts.values().map(|count| count * count).sum::<f64>();
            (steps(&|a, b| f64::from(u8::from(text.get(a) != text.get(b)))), n - same / n)
        }
        Column::Unsupported { .. } => return false,
    };
    (1.0 - step / any) * n.sqrt() > 3.0
}
