//! How the kind of a target, its classes and its levels are found in a training column; no later data.

use std::cmp::Ordering;

use super::column::{Column, TextColumn, level_order, number_text};
use super::table::{Table, shown};
use super::target::{TargetEncoding, TargetKind, constant, target, values_listed};
use crate::error::{Error, Result};

/// The most levels of an ordinal target; more are better treated as a number.
const MOST_LEVELS: usize = 100;

/// The highest count that is guessed to be one; whole numbers that go higher are more likely amounts.
const HIGHEST_GUESS: f64 = 1e4;

/// Classes, in small letters, that are positive against one of [`NEGATIVE_WORDS`]; numbers are spelled in one way, so
/// "+1" is "1".
const POSITIVE_WORDS: [&str; 7] = ["yes", "y", "true", "t", "positive", "pos", "1"];

/// The opposites of [`POSITIVE_WORDS`].
const NEGATIVE_WORDS: [&str; 8] = ["no", "n", "false", "f", "negative", "neg", "0", "-1"];

impl TargetEncoding {
    /// Finds the encoding of the target of a training table.
    ///
    /// Where no kind is asked for: text, or true and false, of two distinct values and more than two rows of numbers of
    /// two distinct values are binary; whole numbers from 0 to 10000 with no common divisor and at least three distinct
    /// values are counts; other numbers are real.
    ///
    /// The positive class is the one asked for; else the one that says yes where the other says no (as in yes and no, true
    /// and false, 1 and -1); else the larger number or the later text in sorted order.
    ///
    /// Returns the encoding, and a note where the choice of the positive class was a guess.
    ///
    /// # Errors
    ///
    /// When a value is missing or none of the kind, the values do not vary, there are not exactly two classes, the levels
    /// have a gap or are too few or too many, or the positive class asked for is not in the column; a usage error when one
    /// is asked for of a target that has no classes.
    pub fn infer(
        table: &Table,
        name: &str,
        kind: Option<TargetKind>,
        positive_label: Option<&str>,
    ) -> Result<(TargetEncoding, Vec<String>)> {
        let kind = match kind {
            Some(kind) => kind,
            None => guess(table, name)?,
        };
        let mut notes = Vec::new();
        let encoding = match (kind, positive_label) {
            (TargetKind::Binary, _) => classes(table, name, positive_label, &mut notes)?,
            (_, Some(label)) => return Err(no_positive(table, name, kind, label)),
            (TargetKind::Ordinal, None) => TargetEncoding { kind, levels: levels(table, name)? },
            _ => TargetEncoding { kind, levels: Vec::new() },
        };
        encoding.check_training(table, name)?;
        Ok((encoding, notes))
    }
}

fn no_positive(table: &Table, name: &str, kind: TargetKind, label: &str) -> Error {
    let column = target(table, name);
    Error::usage(format!(
        "{column} is of kind {kind}, which has no positive class, found the positive label {}",
        shown(label)
    ))
    .hint("leave the positive label out, or ask for a likelihood of two classes")
}

/// The kind of a target by its values alone.
fn guess(table: &Table, name: &str) -> Result<TargetKind> {
    match table.require(name)? {
        Column::Unsupported { data_type, .. } => Err(table.unsupported(name, data_type)),
        Column::Number(values) => Ok(guess_numbers(values)),
        Column::Text(text) => guess_text(table, name, text),
    }
}

fn guess_numbers(values: &[f64]) -> TargetKind {
    let distinct = first_distinct(values).len();
    if distinct == 2 && values.len() > 2 {
        return TargetKind::Binary;
    }
    let countable = |&value: &f64| (0.0..=HIGHEST_GUESS).contains(&value) && value.fract() == 0.0;
    if distinct > 2 && values.iter().filter(|value| !value.is_nan()).all(countable) {
        // Whole numbers in steps of ten are amounts that were rounded; a cell that is missing is cast to 0.
        let divisor = values.iter().fold(0, |divisor, &value| common_divisor(divisor, value as u64));
        if divisor == 1 {
            return TargetKind::Count;
        }
    }
    TargetKind::Real
}

fn guess_text(table: &Table, name: &str, text: &TextColumn) -> Result<TargetKind> {
    let two = text.levels().len() <= 2 && (text.numbers() == 0 || table.rows() > 2);
    if two || text.as_booleans().is_some() {
        return Ok(TargetKind::Binary);
    }
    // As for a feature: mostly numbers are a column of numbers with a mistake in it.
    if text.numbers() * 2 >= text.present() {
        return Err(table.not_a_number(name, text).hint("correct or remove the row"));
    }
    Err(Error::data(format!(
        "{} is text of {} distinct values, {}, expected numbers or two classes",
        target(table, name),
        text.levels().len(),
        values_listed(text.levels())
    ))
    .hint(
        "more than two classes are not supported; ordered levels can be fitted as ordinal when they are written as numbers",
    ))
}

/// The greatest common divisor, 0 of two zeros.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The first three distinct values at most, each with its first row; missing cells are none.
fn first_distinct(values: &[f64]) -> Vec<(usize, f64)> {
    let mut distinct: Vec<(usize, f64)> = Vec::with_capacity(3);
    for (row, &value) in values.iter().enumerate() {
        if !value.is_nan() && distinct.iter().all(|&(_, seen)| seen != value) {
            distinct.push((row, value));
            if distinct.len() == 3 {
                break;
            }
        }
    }
    distinct
}

/// The encoding of a target of two classes.
fn classes(
    table: &Table,
    name: &str,
    positive_label: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<TargetEncoding> {
    let found = first_classes(table, name)?;
    let (a, b) = match found.as_slice() {
        [(_, a), (_, b)] => (a.clone(), b.clone()),
        [(_, a), (_, b), (row, third), ..] => return Err(third_class(table, name, [a, b], *row, third)),
        _ => return Err(one_class(table, name, found.first().map(|(_, class)| class.as_str()))),
    };
    let known = is_positive(&a, &b);
    let a_is_positive = known.unwrap_or_else(|| level_order(&a, &b) == Ordering::Greater);
    let levels = if a_is_positive { vec![b, a] } else { vec![a, b] };
    let mut encoding = TargetEncoding { kind: TargetKind::Binary, levels };
    if let Some(label) = positive_label {
        let place = positive_place(&encoding, label);
        if place.ok_or_else(|| not_a_class(table, name, &encoding, label))? == 0 {
            encoding.levels.reverse();
        }
    } else if known.is_none() {
        notes.push(format!(
            "{} takes only the values {}: they are two classes, with {} as the positive one",
            target(table, name),
            values_listed(&encoding.levels),
            shown(encoding.positive().unwrap_or_default())
        ));
    }
    Ok(encoding)
}

/// The first three classes at most, each with its first row.
fn first_classes(table: &Table, name: &str) -> Result<Vec<(usize, String)>> {
    let spelled = |values: &[f64], spell: &dyn Fn(f64) -> String| {
        first_distinct(values).into_iter().map(|(row, value)| (row, spell(value))).collect()
    };
    match table.require(name)? {
        Column::Unsupported { data_type, .. } => Err(table.unsupported(name, data_type)),
        Column::Number(values) => {
            for (row, &value) in values.iter().enumerate() {
                table.finite(row, name, value)?;
            }
            Ok(spelled(values, &|value| number_text(value).into_owned()))
        }
        Column::Text(text) => {
            if let Some(row) = text.codes().position(|code| code.is_none()) {
                return Err(table.missing(row, name));
            }
            if let Some(values) = text.as_booleans() {
                return Ok(spelled(&values, &|value| (value == 1.0).to_string()));
            }
            let first_row = |class: usize| text.codes().position(|code| code == Some(class)).unwrap_or(0);
            let classes = text.levels().iter().take(3).enumerate();
            Ok(classes.map(|(class, level)| (first_row(class), level.clone())).collect())
        }
    }
}

/// Whether `a` is the positive class and `b` its opposite, or the other way round; nothing for other words.
fn is_positive(a: &str, b: &str) -> Option<bool> {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let positive = |word: &str| POSITIVE_WORDS.contains(&word);
    let negative = |word: &str| NEGATIVE_WORDS.contains(&word);
    if positive(&a) && negative(&b) {
        Some(true)
    } else if negative(&a) && positive(&b) {
        Some(false)
    } else {
        None
    }
}

/// The place of the class that a user calls positive; "1.0" and "+1" are the class "1", as in a file.
fn positive_place(encoding: &TargetEncoding, label: &str) -> Option<usize> {
    let label = label.trim();
    match label.parse::<f64>() {
        Ok(value) => encoding.class(&number_text(value)),
        Err(_) => encoding.class(label),
    }
}

fn not_a_class(table: &Table, name: &str, encoding: &TargetEncoding, label: &str) -> Error {
    Error::data(format!(
        "{} has the classes {}, found the positive label {}, expected one of them",
        target(table, name),
        values_listed(encoding.levels()),
        shown(label)
    ))
    .hint("write the positive label as it is in the file")
}

fn third_class(table: &Table, name: &str, two: [&String; 2], row: usize, third: &str) -> Error {
    let [a, b] = two.map(|class| shown(class));
    Error::data(format!(
        "{}: found {}, expected {a} or {b}, the two classes of the rows before",
        table.place(row, name),
        shown(third)
    ))
    .hint("more than two classes are not supported; correct or remove the row, or fit ordered levels as ordinal")
}

fn one_class(table: &Table, name: &str, class: Option<&str>) -> Error {
    let class = class.map_or_else(String::new, |class| format!(", {}", shown(class)));
    Error::data(format!("{} has one class only{class}, expected two", target(table, name)))
        .hint("check that --target names the right column and that the file has rows of both classes")
}

/// The levels of an ordinal target, in order.
fn levels(table: &Table, name: &str) -> Result<Vec<String>> {
    let values = TargetKind::Ordinal.numbers(table, name)?;
    for (row, &value) in values.iter().enumerate() {
        TargetKind::Ordinal.check(table, row, name, value)?;
    }
    let mut distinct = values.into_owned();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    check_levels(&target(table, name), &distinct)?;
    Ok(distinct.into_iter().map(|level| number_text(level).into_owned()).collect())
}

fn check_levels(column: &str, levels: &[f64]) -> Result<()> {
    match levels {
        [] | [_] => {
            return Err(constant(column, &number_text(levels.first().copied().unwrap_or_default())));
        }
        [low, high] => {
            let (low, high) = (number_text(*low), number_text(*high));
            return Err(Error::data(format!(
                "{column} has the 2 levels {low} and {high}, expected at least 3 ordered levels"
            ))
            .hint("two levels are two classes: use a Bernoulli likelihood"));
        }
        _ => {}
    }
    if levels.len() > MOST_LEVELS {
        return Err(Error::data(format!(
            "{column} has {} levels, expected at most {MOST_LEVELS} ordered levels",
            levels.len()
        ))
        .hint("use a likelihood of any real number, or group the levels"));
    }
    match levels.windows(2).find(|pair| pair[1] - pair[0] > 1.0) {
        None => Ok(()),
        Some(pair) => {
            let missing = number_text(pair[0] + 1.0);
            let (low, high) = (number_text(pair[0]), number_text(pair[1]));
            Err(Error::data(format!(
                "{column} has no row of level {missing} between {low} and {high}, expected levels without gaps"
            ))
            .hint("number the levels that occur 1, 2, 3, … in their order"))
        }
    }
}
