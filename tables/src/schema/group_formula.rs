//! Formulae of grouped effects as the user writes them, and the groupings that they name.

use serde::{Deserialize, Serialize};
use sparsegp::error::{Error, Result};
use std::str::FromStr;

/// The separator of cells in a level of several columns.
pub(super) const SEPARATOR: char = '\u{1f}';

/// A formula of grouped effects, as in lme4: `school`, `days | subject`, `days || subject`, `0 + days | subject`, `batch/cask`, `batch:cask`.
///
/// The terms before the bar vary by level: an intercept, unless 0 removes it, and slopes in columns of numbers. `||` makes them
/// independent. `a/b` stands for the groupings `a` and `a:b`, whose levels are pairs of cells. Names of columns that contain one of the
/// signs of a formula are written in backticks, as in R.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupFormula {
    pub(super) intercept: bool,
    pub(super) slopes: Vec<String>,
    pub(super) correlated: bool,
    pub(super) groupings: Vec<Vec<String>>,
}

impl FromStr for GroupFormula {
    type Err = Error;

    fn from_str(text: &str) -> Result<GroupFormula> {
        let wrong = || {
            Error::usage(format!("⟨group⟩: found {text:?}, expected a formula of grouped effects"))
                .hint("write a column, 'slope | column', 'slope || column' for independent effects, or 'outer/inner'")
        };
        let (left, right, correlated) = match *parts(text, '|').as_slice() {
            [right] => ("1", right, false),
            [left, right] => (left, right, true),
            [left, "", right] => (left, right, false),
            _ => return Err(wrong()),
        };
        let (mut intercept, mut slopes) = (true, Vec::new());
        for word in parts(left, '+') {
            match word {
                "" => return Err(wrong()),
                "0" => intercept = false,
                "1" => {}
                slope => slopes.push(unquoted(slope)),
            }
        }
        let mut groupings: Vec<Vec<String>> = Vec::new();
        for part in parts(right, '/') {
            let mut columns = groupings.last().cloned().unwrap_or_default();
            columns.extend(parts(part, ':').into_iter().map(unquoted));
            groupings.push(columns);
        }
        let bad = |column: &String| column.is_empty() || column.contains('`');
        let repeated = slopes.iter().enumerate().any(|(at, slope)| slopes[..at].contains(slope));
        if groupings.iter().flatten().chain(&slopes).any(bad) || repeated || (!intercept && slopes.is_empty())
        {
            return Err(wrong());
        }
        let correlated = correlated && usize::from(intercept) + slopes.len() > 1;
        Ok(GroupFormula { intercept, slopes, correlated, groupings })
    }
}

/// Splits a formula at a sign, except within backticks.
pub(super) fn parts(text: &str, sign: char) -> Vec<&str> {
    let mut quoted = false;
    let is_end = |c: char| {
        quoted ^= c == '`';
        c == sign && !quoted
    };
    text.split(is_end).map(str::trim).collect()
}

/// Returns a name without backticks around it.
fn unquoted(name: &str) -> String {
    name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(name).to_owned()
}

impl GroupFormula {
    pub(super) fn grouping_columns(&self) -> impl Iterator<Item = &str> {
        self.groupings.iter().flatten().map(String::as_str)
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.grouping_columns().chain(self.slopes.iter().map(String::as_str))
    }
}

/// A grouping of a fitted model: the columns and the levels that training knows, with the effects of each level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grouping {
    pub(super) columns: Vec<String>,
    /// The levels in the order of their codes; cells of several columns are separated by U+001F.
    pub(super) levels: Vec<String>,
    pub(super) intercept: bool,
    pub(super) slopes: Vec<String>,
    pub(super) correlated: bool,
}

impl Grouping {
    /// The name, such as `school` or `batch:cask`.
    ///
    /// Columns whose names contain a colon are in backticks.
    pub fn name(&self) -> String {
        let quoted = |name: &String| if name.contains(':') { format!("`{name}`") } else { name.clone() };
        self.columns.iter().map(quoted).collect::<Vec<_>>().join(":")
    }

    /// The columns whose cells are levels.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The names of the levels in the order of their codes.
    pub fn level_names(&self) -> impl Iterator<Item = String> + '_ {
        self.levels.iter().map(|level| level.replace(SEPARATOR, ":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(text: &str) -> GroupFormula {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn formulae_are_those_of_lme4() {
        let names = |groupings: &[&[&str]]| -> Vec<Vec<String>> {
            groupings.iter().map(|columns| columns.iter().map(|c| (*c).to_owned()).collect()).collect()
        };
        let plain = GroupFormula {
            intercept: true,
            slopes: Vec::new(),
            correlated: false,
            groupings: names(&[&["school"]]),
        };
        assert_eq!(formula("school"), plain);
        assert_eq!(formula(" 1 | school "), plain);
        let slope = GroupFormula {
            slopes: vec!["days".into()],
            correlated: true,
            groupings: names(&[&["g"]]),
            ..plain.clone()
        };
        assert_eq!(formula("days | g"), slope);
        assert_eq!(formula("1 + days | g"), slope);
        assert_eq!(formula("days||g"), GroupFormula { correlated: false, ..slope.clone() });
        assert_eq!(formula("0 + days | g"), GroupFormula { correlated: false, intercept: false, ..slope });
        let nested = GroupFormula { groupings: names(&[&["batch"], &["batch", "cask"]]), ..plain };
        assert_eq!(formula("batch/cask"), nested);
        let quoted = formula("`x|y` || `a:b`/c");
        assert_eq!((quoted.slopes, quoted.correlated), (vec!["x|y".to_owned()], false));
        assert_eq!(quoted.groupings, names(&[&["a:b"], &["a:b", "c"]]));
        for wrong in ["`a", "", "|", "days |", "| g", "0 | g", "a + a | g", "a | b | c", "a//b", "a:"] {
            assert!(wrong.parse::<GroupFormula>().is_err(), "{wrong}");
        }
    }
}
