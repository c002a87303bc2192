//! Columns that are no inputs unless they are asked for: identifiers, and columns without a value or with a single one; no other meaning.

use super::facts::ColumnFacts;

/// Rows below which whole numbers in order are not taken for identifiers, unless they are named so.
const FEWEST_ROWS: usize = 20;

/// The share of rows with a value of their own from which on text is an identifier.
const NEARLY_ALL: f64 = 0.95;

/// Names of identifiers, in small letters.
const NAMES: [&str; 9] =
    ["id", "uuid", "guid", "index", "row", "rowid", "row_number", "rownames", "row.names"];

/// Why a column is left out; nothing for an input. `follows` says whether the target follows the order of the rows, so that a number that
/// counts them is a time rather than a name.
///
/// A column is left out when all its cells hold one value. Text is left out when it has more than `most` categories or a value of its own in nearly every row. Whole numbers that are all distinct
/// are left out when they are named as identifiers are; when there are 20 or more that run through 0 to n − 1 or 1 to n; or when as many
/// rise from row to row. The last two only where they are no time that the target follows.
pub(super) fn reason(name: &str, column: &ColumnFacts, most: usize, follows: bool) -> Option<&'static str> {
    if column.present == 0 {
        return column.supported().is_ok().then_some("no value in any row");
    }
    let (distinct, present) = (column.distinct.levels().len(), column.present);
    if distinct == 1 && column.gaps.0 == 0 {
        return Some("the same value in every row");
    }
    let all = !column.distinct.is_cut() && distinct == present && present > 2;
    if column.has_text() {
        let mostly_numbers = column.is_boolean() || (column.is_mostly_numbers() && !column.shows_a_kind());
        let nearly = all || (present >= FEWEST_ROWS && distinct as f64 >= NEARLY_ALL * present as f64);
        return match () {
            () if mostly_numbers => None,
            () if nearly => Some("a value of its own in nearly every row"),
            () if distinct > most => Some("too many categories"),
            () => None,
        };
    }
    if column.is_time() || !column.is_whole() {
        return None;
    }
    let rising = column.is_rising() && present > 2;
    if name.starts_with("Unnamed: ") && column.is_whole() {
        return Some("whole numbers without a name");
    }
    if is_named_so(name) && (all || rising || column.distinct.is_cut()) {
        return Some("distinct whole numbers, named as identifiers are");
    }
    if !(all || rising) || present < FEWEST_ROWS || (rising && follows) {
        return None;
    }
    let (low, high) = column.range;
    let runs = (low == 0.0 || low == 1.0) && high - low < 1.05 * present as f64;
    if runs {
        Some("whole numbers that count the rows")
    } else if rising {
        Some("whole numbers in the order of the rows, which the target does not follow")
    } else {
        None
    }
}

fn is_named_so(name: &str) -> bool {
    let small = name.trim().to_lowercase();
    let camel = name.strip_suffix("Id").or(name.strip_suffix("ID"));
    NAMES.contains(&small.as_str())
        || small.ends_with("_id")
        || small.ends_with(" id")
        || camel.is_some_and(|before| before.ends_with(|c: char| c.is_lowercase()))
}
