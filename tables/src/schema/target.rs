//! The kind of target in a column, its task, and the numbers that represent its cells.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::role::Role;
use crate::readable::few;
use crate::tables::column::{Column, TextColumn, boolean, number_text};
use crate::tables::marker::are_markers;
use crate::tables::table::{Table, quoted, shown};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::{HIGHEST_WHOLE, TargetKind, Task};

/// The range of absolute values and spread of a target whose squares fit a 64-bit float.
const TARGET_RANGE: std::ops::RangeInclusive<f64> = 1e-150..=1e150;

/// The cells of a target that is written as numbers, NaN where missing.
fn numbers(kind: TargetKind, table: &Table, name: &str) -> Result<Vec<f64>> {
    table.numbers(name).map(Cow::into_owned).map_err(|error| advise(kind, error))
}

/// Adds a hint to the error for a target that cannot be read as numbers, unless it has a hint.
pub(crate) fn advise(kind: TargetKind, error: Error) -> Error {
    let hint = match kind {
        TargetKind::Ordinal => "number the levels 1, 2, 3, … in their order",
        _ => "correct or remove the row; a column of two classes needs a likelihood of two classes",
    };
    if error.advice().is_none() { error.hint(hint) } else { error }
}

/// The kind of a target and, if its cells are classes or levels, the number of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct TargetEncoding {
    pub(crate) kind: TargetKind,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) levels: Vec<String>,
}

/// A target of real numbers, the only kind in the oldest model files.
impl Default for TargetEncoding {
    fn default() -> Self {
        TargetEncoding { kind: TargetKind::Real, levels: Vec::new() }
    }
}

impl TargetEncoding {
    /// The task that the target makes.
    pub fn task(&self) -> Task {
        self.kind.task()
    }

    /// The kind of target.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// The names of the codes 0, 1, …: negative and positive class, the classes, or the levels in order; empty for other targets.
    pub fn levels(&self) -> &[String] {
        &self.levels
    }

    /// The class that is coded 1, of a target of two classes.
    pub fn positive(&self) -> Option<&str> {
        let levels = if self.kind == TargetKind::Binary { self.levels.as_slice() } else { &[] };
        levels.get(1).map(String::as_str)
    }

    /// The names of the constant means of classes for users, `mean.LABEL`, each with its internal name; empty for other targets.
    pub(crate) fn mean_names(&self) -> Vec<(String, String)> {
        let classes = if self.kind == TargetKind::Class { &self.levels[..] } else { &[] };
        let name =
            |(place, label): (usize, &String)| (format!("mean.{label}"), format!("mean.constant.{place}"));
        classes.iter().enumerate().map(name).collect()
    }

    /// Returns the number that represents each cell of a column, NaN if it is missing. It is 0 or 1 for two classes, the index of the class
    /// or ordered level, otherwise the number itself.
    ///
    /// # Errors
    ///
    /// When the column is absent or a cell is not a value of this kind of target, or a class or level that training did
    /// not see.
    pub fn encode(&self, table: &Table, name: &str) -> Result<Vec<f64>> {
        if matches!(self.kind, TargetKind::Binary | TargetKind::Class) {
            return self.encode_classes(table, name);
        }
        let mut values = numbers(self.kind, table, name)?;
        let known = values.iter_mut().enumerate().filter(|(_, value)| !value.is_nan());
        for (row, value) in known {
            if self.kind == TargetKind::Ordinal {
                *value = self.code_of_level(table, row, name, *value)?;
            } else {
                Role::Target(self.kind).check(table, row, name, *value)?;
            }
        }
        Ok(values)
    }

    /// Checks that a model can learn from a column: it has a value in every row, and the values vary.
    ///
    /// Fails as for [`TargetEncoding::encode`], and when a value is missing, all are equal, or their squares would be too large or too
    /// small for a 64-bit float.
    pub(crate) fn check_training(&self, table: &Table, name: &str) -> Result<()> {
        let codes = self.encode(table, name)?;
        if let Some(row) = codes.iter().position(|code| code.is_nan()) {
            return Err(table.missing(row, name));
        }
        let from = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = codes.iter().fold(from, |(low, high), &code| (low.min(code), high.max(code)));
        self.check_range(&format!("{}: the target {}", table.source(), quoted(name)), low, high)
    }

    /// Checks that the codes of a column, from `low` to `high`, vary, and that their squares can be represented.
    pub(crate) fn check_range(&self, column: &str, low: f64, high: f64) -> Result<()> {
        if low == high {
            return Err(constant(column, &self.spelling(low)));
        }
        // Variances and squared errors are reported in the units of the target, where they must be
        // representable.
        if low.abs().max(high.abs()) > *TARGET_RANGE.end() || high - low < *TARGET_RANGE.start() {
            return Err(Error::data(format!(
                "{column} ranges from {low:e} to {high:e}, whose squares a 64-bit float cannot hold"
            ))
            .hint("rescale the target by a power of ten"));
        }
        Ok(())
    }

    fn spelling(&self, code: f64) -> String {
        // The codes of classes and levels are indices into the list; other numbers are written as they are.
        match self.levels.get(code as usize) {
            Some(level) => level.clone(),
            None => number_text(code).into_owned(),
        }
    }

    /// Returns the index of a class, as a file or a user may spell it.
    pub(crate) fn class(&self, text: &str) -> Option<usize> {
        let same = |label: &String| truth(label).is_some() && truth(label) == truth(text);
        self.levels.iter().position(|label| label == text).or_else(|| self.levels.iter().position(same))
    }

    fn encode_classes(&self, table: &Table, name: &str) -> Result<Vec<f64>> {
        match table.require(name)? {
            Column::Unsupported { data_type, .. } => Err(table.unsupported(name, data_type)),
            Column::Time(_) => Err(table.unsupported(name, "date")),
            Column::Number(values) => self.classes_of_numbers(table, name, values),
            Column::Text(text) => self.classes_of_text(table, name, text),
        }
    }

    fn classes_of_numbers(&self, table: &Table, name: &str, values: &[f64]) -> Result<Vec<f64>> {
        let classes: Vec<Option<f64>> = self.levels.iter().map(|level| class_number(level)).collect();
        let code = |(row, &value): (usize, &f64)| {
            if value.is_nan() {
                return Ok(f64::NAN);
            }
            let exact = self.levels.iter().position(|level| level.parse() == Ok(value));
            let place = exact.or_else(|| classes.iter().position(|&class| class == Some(value)));
            place.map(|place| place as f64).ok_or_else(|| self.unseen(table, row, name, &number_text(value)))
        };
        values.iter().enumerate().map(code).collect()
    }

    fn classes_of_text(&self, table: &Table, name: &str, text: &TextColumn) -> Result<Vec<f64>> {
        let number = |level: &String| self.class(&number_text(level.parse().ok()?));
        let class = |level: &String| self.class(level).or_else(|| number(level));
        let classes: Vec<Option<usize>> = text.levels().iter().map(class).collect();
        let missing = are_markers(text.levels());
        let code = |(row, code): (usize, Option<usize>)| {
            let Some(code) = code.filter(|&code| classes[code].is_some() || !missing[code]) else {
                return Ok(f64::NAN);
            };
            let unseen = || self.unseen(table, row, name, &text.levels()[code]);
            classes[code].map(|place| place as f64).ok_or_else(unseen)
        };
        text.codes().enumerate().map(code).collect()
    }

    fn code_of_level(&self, table: &Table, row: usize, name: &str, value: f64) -> Result<f64> {
        let value = table.finite(row, name, value)?;
        let first = self.levels.first().and_then(|level| level.parse::<f64>().ok());
        let code = value - first.unwrap_or(f64::NAN);
        // Levels are consecutive whole numbers, so the index is the distance from the first level.
        if code.fract() == 0.0 && code >= 0.0 && code < self.levels.len() as f64 {
            return Ok(code);
        }
        Err(self.unseen(table, row, name, &number_text(value)))
    }

    /// The error for a class or level that training did not see.
    fn unseen(&self, table: &Table, row: usize, name: &str, found: &str) -> Error {
        let place = table.place(row, name);
        let (found, expected) = match (self.kind, self.levels.as_slice()) {
            (TargetKind::Ordinal, [first, .., last]) => {
                (found.to_owned(), format!("a level seen in training: {first} to {last}"))
            }
            (_, levels) => (shown(found), format!("a class seen in training: {}", values_listed(levels))),
        };
        Error::data(format!("{place}: found {found}, expected {expected}"))
            .hint("correct or remove the row, or fit a model to data that hold the value")
    }
}

/// An encoding as read from a model file, not yet checked.
#[derive(Deserialize)]
struct Stored {
    kind: TargetKind,
    #[serde(default)]
    levels: Vec<String>,
}

impl TryFrom<Stored> for TargetEncoding {
    type Error = String;

    fn try_from(stored: Stored) -> std::result::Result<Self, String> {
        let Stored { kind, levels } = stored;
        let fits = match kind {
            TargetKind::Binary => matches!(levels.as_slice(), [negative, positive] if negative != positive),
            TargetKind::Ordinal => levels.len() >= 3 && are_consecutive(&levels),
            TargetKind::Class => {
                levels.len() >= 2 && levels.iter().collect::<HashSet<_>>().len() == levels.len()
            }
            _ => levels.is_empty(),
        };
        if fits {
            Ok(TargetEncoding { kind, levels })
        } else {
            Err(format!("the levels {levels:?} do not suit a target of kind {kind}"))
        }
    }
}

fn are_consecutive(levels: &[String]) -> bool {
    let numbers: Option<Vec<f64>> = levels.iter().map(|level| level.parse().ok()).collect();
    numbers.is_some_and(|numbers| {
        numbers.iter().all(|number| number.fract() == 0.0 && number.abs() <= HIGHEST_WHOLE)
            && numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0)
    })
}

/// Returns the number of a class in a column of numbers; `true` and `false` are 1 and 0.
fn class_number(label: &str) -> Option<f64> {
    boolean(label).or_else(|| label.parse().ok())
}

/// Returns 1 or 0 for every spelling of true or false that a class may have; `None` for other classes.
fn truth(label: &str) -> Option<bool> {
    match boolean(label) {
        Some(value) => Some(value == 1.0),
        None if label == "1" => Some(true),
        None if label == "0" => Some(false),
        None => None,
    }
}

pub(crate) fn constant(column: &str, value: &str) -> Error {
    Error::data(format!("{column} is {value} in every row, expected values that vary"))
        .hint("a constant needs no model; check that ⟨target⟩ names the right column")
}

/// The first few values for a message.
pub(crate) fn values_listed(values: &[String]) -> String {
    few(values.iter().map(|value| shown(value)), 5)
}
