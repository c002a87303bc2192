//! Markers of missing cells, such as `N/A`, and codes that look like numbers; one cell at a time.

use std::collections::HashSet;

use super::column::{Column, boolean};
use sparsegp::likelihood::HIGHEST_WHOLE;

/// Markers of spreadsheets, pandas and databases, in small letters; they have no other meaning.
const SURE: [&str; 21] = [
    "n/a", "#n/a", "#na", "#n/a n/a", "<na>", "<n/a>", "na()", "#div/0!", "#value!", "#ref!", "#num!",
    "#name?", "#null!", "#error!", "nat", "(null)", "\\n", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
];

/// Words and signs, in small letters, with bars between them, that are markers where all other cells are numbers or dates.
const LIKELY: &str = "none|-|--|---|–|—|.|..|...|_|*|nil|missing|unknown|not available|n.a.|nd";

/// The minimum number of distinct numbers that turn the words among them into markers. With a single number, such as in `2` and `none`,
/// both may be classes.
const FEWEST_NUMBERS: usize = 2;

/// The columns in which a text is a marker of a missing cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    /// All columns.
    Sure,
    /// Columns of numbers or dates.
    Likely,
}

/// Returns how a text, without white space around it, marks a missing cell; `None` for other text.
pub(crate) fn marker(text: &str) -> Option<Marker> {
    const LONGEST: usize = 13;
    if text.len() > LONGEST {
        return None;
    }
    let is = |marker: &str| text.eq_ignore_ascii_case(marker);
    let likely = || LIKELY.split('|').any(is).then_some(Marker::Likely);
    if SURE.iter().copied().any(is) { Some(Marker::Sure) } else { likely() }
}

/// Returns the number of digits of a code: a whole number with a leading zero, as postal codes have it, which a number would lose.
pub(crate) fn code_digits(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let code = bytes.len() > 1 && bytes[0] == b'0' && bytes.iter().all(u8::is_ascii_digit);
    code.then_some(bytes.len())
}

/// Returns the digits, with a minus if there is one, of a whole number beyond 2^53, which a 64-bit float may change; `None` for other text.
pub(crate) fn long_whole(text: &str) -> Option<&str> {
    const SHORTEST: usize = 16;
    let text = text.strip_prefix('+').unwrap_or(text);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = digits.len() >= SHORTEST && digits.bytes().all(|byte| byte.is_ascii_digit());
    let beyond = || digits.parse().map_or(true, |value: u128| value > HIGHEST_WHOLE as u128);
    (whole && !digits.starts_with('0') && beyond()).then_some(text)
}

/// Reads a text as a number; a code is not a number.
pub(crate) fn plain_number(text: &str) -> Option<f64> {
    if code_digits(text).is_some() {
        return None;
    }
    text.parse().ok()
}

/// Returns for each distinct value of a column of text whether it marks a missing cell.
pub(crate) fn are_markers(levels: &[String]) -> Vec<bool> {
    let found: Vec<Option<Marker>> = levels.iter().map(|level| marker(level)).collect();
    let others = || levels.iter().zip(&found).filter(|(_, marker)| marker.is_none());
    let numbers =
        others().count() >= FEWEST_NUMBERS && others().all(|(level, _)| level.parse::<f64>().is_ok());
    found
        .into_iter()
        .map(|marker| matches!(marker, Some(Marker::Sure)) || (numbers && marker.is_some()))
        .collect()
}

/// The values that the user declared as markers of missing cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Markers {
    texts: HashSet<String>,
    numbers: Vec<f64>,
}

impl Markers {
    /// Collects the values; a number matches all of its spellings.
    pub(super) fn new(texts: &[String]) -> Markers {
        let numbers = texts.iter().filter_map(|text| text.trim().parse().ok()).collect();
        Markers { texts: texts.iter().map(|text| text.trim().to_owned()).collect(), numbers }
    }

    /// Returns the column with these values as missing cells.
    pub(super) fn without(&self, column: Column) -> Column {
        if self.texts.is_empty() {
            return column;
        }
        match column {
            Column::Number(values) => {
                let value = |value: f64| if self.numbers.contains(&value) { f64::NAN } else { value };
                Column::Number(values.into_iter().map(value).collect())
            }
            Column::Text(text) => {
                let is_number = |text: &str| text.parse().is_ok_and(|value| self.numbers.contains(&value));
                let is_marker = |level: &String| self.texts.contains(level) || is_number(level);
                let markers: Vec<bool> = text.levels().iter().map(is_marker).collect();
                if markers.contains(&true) {
                    Column::Text(text.without(&markers)).typed()
                } else {
                    Column::Text(text)
                }
            }
            other => other,
        }
    }
}

/// Returns the numbers of the distinct values of a column of text, NaN for markers of missing cells, if all others are numbers (codes too)
/// or all are true and false.
pub(crate) fn numbers_of(levels: &[String]) -> Option<Vec<f64>> {
    let read = |value: fn(&str) -> Option<f64>| -> Option<Vec<f64>> {
        let level = |level: &String| value(level).or(marker(level).map(|_| f64::NAN));
        levels.iter().map(level).collect()
    };
    read(boolean).or_else(|| read(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_go_by_what_else_a_column_holds() {
        let of =
            |levels: &[&str]| are_markers(&levels.iter().map(|&level| level.to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["1", "-", "N/A", "None", "2.5", "007"]), [false, true, true, true, false, false]);
        assert_eq!(of(&["+", "-", "#DIV/0!"]), [false, false, true]);
        assert_eq!(of(&["-", "."]), [false, false]);
        assert_eq!(of(&["2", "none"]), [false, false]);
        assert_eq!(of(&["brick", "None"]), [false, false]);
    }

    #[test]
    fn codes_are_no_numbers() {
        assert_eq!(
            ["01002", "0", "00", "-01", "0.5", "1002", ""].map(code_digits),
            [Some(5), None, Some(2), None, None, None, None]
        );
        assert_eq!(["01002", "1002", "0", "x"].map(plain_number), [None, Some(1002.0), Some(0.0), None]);
    }

    #[test]
    fn markers_of_the_user_are_texts_and_numbers() {
        let markers = Markers::new(&["-999".into(), "refused".into()]);
        let Column::Number(values) = markers.without(Column::Number(vec![1.0, -999.0])) else {
            panic!("no numbers")
        };
        assert!(values[0] == 1.0 && values[1].is_nan());
        let text = Column::from_text(["3", "refused", "-999.0"].map(Some));
        let Column::Number(values) = markers.without(text) else { panic!("no numbers") };
        assert!(values[0] == 3.0 && values[1].is_nan() && values[2].is_nan());
        let text = Column::from_text(["red", "refused"].map(Some));
        let Column::Text(text) = markers.without(text) else { panic!("no text") };
        assert_eq!((text.get(0), text.get(1)), (Some("red"), None));
    }
}
