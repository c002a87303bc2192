//! Warnings about inputs that can be used but deserve a look: constant and repeated columns and
//! rows.

use std::hash::{DefaultHasher, Hasher};

use faer::MatRef;

use crate::tables::table::quoted;

/// The most columns that a warning names.
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
    let constant: Vec<bool> = (0..d).map(|input| is_constant(x, input)).collect();
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

fn is_constant(x: MatRef<'_, f64>, column: usize) -> bool {
    let mut values = x.col(column).iter();
    let first = values.next();
    values.all(|value| Some(value) == first)
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
