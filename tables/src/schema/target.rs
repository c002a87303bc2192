//! The kind of target in a column, its classes and levels, and the numbers that represent its cells.

use super::check::folded;
use super::columns::SchemaOptions;
use super::counts::Whole;
use super::distinct::Level;
use super::facts::{ColumnFacts, Role, check_first};
use super::table_facts::TableFacts;
use crate::readable::few;
use crate::tables::column::{Column, boolean, level_order, number_text};
use crate::tables::table::{Table, alike, quoted, shown};
use serde::{Deserialize, Serialize};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::{HIGHEST_WHOLE, TargetKind, Task};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

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
        let column = table.supported(name)?;
        if let Column::Time(_) = column {
            return Err(table.unsupported(name, "date"));
        }
        let (lacking, mut known) = (column.lacking(), HashMap::new());
        let code = |row: usize| {
            let Some(text) = column.spelling(row) else { return Ok(f64::NAN) };
            match *known.entry(text.clone()).or_insert_with(|| self.class_or_number(&text)) {
                Some(place) => Ok(place as f64),
                None if lacking(row) => Ok(f64::NAN),
                None => Err(self.unseen(table, row, name, &text)),
            }
        };
        (0..table.rows()).map(code).collect()
    }

    /// Returns the index of a class; numbers in any spelling are the class of that number.
    fn class_or_number(&self, text: &str) -> Option<usize> {
        let of_number = |value: f64| {
            let same = || self.levels.iter().position(|level| level.parse() == Ok(value));
            self.class(&number_text(value)).or_else(same)
        };
        self.class(text).or_else(|| of_number(text.parse().ok()?))
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
        let (found, expected) = match (self.kind, self.levels.as_slice()) {
            (TargetKind::Ordinal, [first, .., last]) => {
                (found.to_owned(), format!("a level seen in training: {first} to {last}"))
            }
            (_, levels) => (shown(found), format!("a class seen in training: {}", values_listed(levels))),
        };
        table
            .unfit(row, name, &found, &expected)
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

/// The most levels of an ordinal target; more are better treated as a number.
const MOST_LEVELS: usize = 100;

/// The most classes of a target; each of them has a latent function.
const MOST_CLASSES: usize = 1000;

/// The fewest distinct values of a target of shares; fewer may be levels or scores.
const INSIDE: usize = 20;

/// The fewest rows of a target of shares that are exactly 0 or exactly 1, as a number and as a share of the rows.
const ENDS: (u64, f64) = (5, 0.01);

/// Classes, in small letters, that are positive against one of [`NEGATIVE_WORDS`]; numbers are spelled in one way, so
/// "+1" is "1".
const POSITIVE_WORDS: [&str; 7] = ["yes", "y", "true", "t", "positive", "pos", "1"];

/// The opposites of [`POSITIVE_WORDS`].
const NEGATIVE_WORDS: [&str; 8] = ["no", "n", "false", "f", "negative", "neg", "0", "-1"];

impl TargetEncoding {
    /// Finds the encoding of the target by the rule of [`Schema::infer`](super::Schema::infer), from facts that were gathered with the same
    /// options. Returns notes too, if the choice of the positive class, or between counts and numbers, was a guess.
    pub(crate) fn of_facts(
        facts: &TableFacts,
        options: &SchemaOptions,
    ) -> Result<(TargetEncoding, Vec<String>)> {
        let (name, positive_label) = (&options.target, options.positive_label.as_deref());
        let target = Target {
            facts: facts.require(name)?,
            rows: facts.rows,
            column: format!("{}: the target {}", facts.source, quoted(name)),
        };
        let mut notes = Vec::new();
        let two = target.facts.is_boolean() || target.facts.distinct.levels.len() <= 2;
        let kind = match options.kind() {
            Some(kind) => kind,
            None if options.classes => {
                if two {
                    TargetKind::Binary
                } else {
                    TargetKind::Class
                }
            }
            None if options.numbers && !target.facts.has_text() => TargetKind::Real,
            None if options.continuous && !target.facts.has_text() => {
                target.guess_shares("⟨likelihood gaussian⟩", &mut notes).unwrap_or(TargetKind::Real)
            }
            None => target.guess(&mut notes)?,
        };
        let encoding = match (kind, positive_label) {
            (TargetKind::Binary, _) => target.classes(positive_label, &mut notes)?,
            (_, Some(label)) => return Err(target.no_positive(kind, label)),
            (TargetKind::Ordinal, None) => TargetEncoding { kind, levels: target.levels()? },
            (TargetKind::Class, None) => TargetEncoding { kind, levels: target.many_classes()? },
            _ => {
                let encoding = TargetEncoding { kind, levels: Vec::new() };
                target.facts.check_numbers().map_err(|error| advise(kind, error))?;
                let unsuited = target.facts.unsuited(Role::Target(kind));
                check_first([unsuited.or(target.facts.missing.as_ref())])?;
                let (low, high) = target.facts.plain.range;
                encoding.check_range(&target.column, low, high)?;
                encoding
            }
        };
        Ok((encoding, notes))
    }
}

struct Target<'a> {
    facts: &'a ColumnFacts,
    rows: usize,
    column: String,
}

impl Target<'_> {
    /// The kind of target by its values alone.
    fn guess(&self, notes: &mut Vec<String>) -> Result<TargetKind> {
        self.facts.supported()?;
        if self.facts.has_text() { self.guess_text() } else { Ok(self.guess_numbers(notes)) }
    }

    fn guess_numbers(&self, notes: &mut Vec<String>) -> TargetKind {
        let distinct = self.facts.distinct.levels.len();
        if distinct == 2 && self.rows > 2 {
            return TargetKind::Binary;
        }
        if distinct <= 2 {
            return TargetKind::Real;
        }
        if let Some(kind) = self.guess_shares("⟨task regression⟩", notes) {
            return kind;
        }
        let Some(values) = self.facts.whole_numbers() else { return TargetKind::Real };
        let whole = Whole::of(values);
        let (low, high) = self.facts.plain.range;
        notes.push(format!("{}: {}", self.column, whole.words(low, high)));
        if whole == Whole::Counts { TargetKind::Count } else { TargetKind::Real }
    }

    /// Recognises a target of shares, which may be exactly 0 or 1: all numbers lie from 0 to 1, [`INSIDE`] distinct ones lie
    /// between the ends, and a clear share of the rows is at an end. A column that was scaled to its range has one row at each end only.
    /// The note names the option that takes them for numbers.
    fn guess_shares(&self, option: &str, notes: &mut Vec<String>) -> Option<TargetKind> {
        let (low, high) = self.facts.plain.range;
        if low < 0.0 || high > 1.0 || self.facts.has_text() {
            return None;
        }
        let at = |end: f64| {
            let level = |level: &&Level| level.text.parse() == Ok(end);
            self.facts.distinct.levels.iter().find(level).map_or(0, |level| level.rows)
        };
        let (zeros, ones) = (at(0.0), at(1.0));
        let fewest = ENDS.0.max((ENDS.1 * self.facts.present as f64).ceil() as u64);
        let found = self.facts.distinct.levels.len() >= INSIDE && zeros + ones >= fewest;
        found.then(|| {
            notes.push(format!(
                "{}: numbers from 0 to 1, {zeros} of them exactly 0 and {ones} exactly 1: they are taken for shares; {option} takes them for numbers",
                self.column
            ));
            TargetKind::Share
        })
    }

    fn guess_text(&self) -> Result<TargetKind> {
        let facts = self.facts;
        let two = facts.distinct.levels.len() <= 2 && (facts.numbers == 0 || self.rows > 2);
        if two || facts.is_boolean() {
            return Ok(TargetKind::Binary);
        }
        // As for a feature, a column of mostly numbers is a column of numbers that contains a mistake.
        if facts.is_mostly_numbers() {
            return Err(facts.not_a_number().hint("correct or remove the row"));
        }
        let levels = &facts.distinct.levels;
        let twice = 2 * levels.len() <= facts.present;
        if levels.len() <= MOST_CLASSES && !facts.distinct.more && twice {
            // A text that comes once among classes is more likely a mistake than a class.
            let once: Vec<&Level> = levels.iter().filter(|level| level.training <= 1).collect();
            return if once.is_empty() { Ok(TargetKind::Class) } else { Err(self.lone_classes(&once)) };
        }
        let (count, values) = (facts.distinct.count(), values_listed(&facts.distinct.texts()));
        let found = format!("holds text with {count} distinct values ({values})");
        let expected = "expected numbers, or classes with at least two rows each";
        Err(self.error(&found, expected, "check that ⟨target⟩ names the right column"))
    }

    /// Returns the error for classes with one row each, and suggests a similar class for each.
    fn lone_classes(&self, lone: &[&Level]) -> Error {
        let others = self.facts.distinct.levels.iter().filter(|level| level.training > 1);
        let others = others.map(|level| level.text.as_str());
        let named = |level: &&Level| match alike(&level.text, others.clone()).first() {
            Some(class) => format!("{} (did you mean {}?)", shown(&level.text), shown(class)),
            None => shown(&level.text),
        };
        let found = format!("has {} in one row only", folded(lone.iter().map(named)));
        let hint = "correct or remove the row; ⟨task classification⟩ accepts it as a class";
        self.error(&found, "expected classes of several rows", hint)
    }

    fn error(&self, found: &str, expected: &str, hint: &str) -> Error {
        Error::data(format!("{} {found}, {expected}", self.column)).hint(hint)
    }

    /// Returns the classes of a target with any number of classes: numbers by value, then text in
    /// alphabetical order.
    fn many_classes(&self) -> Result<Vec<String>> {
        let facts = self.facts;
        self.check_classes()?;
        let mut classes = facts.distinct.texts();
        if classes.len() < 2 {
            return Err(self.one_class(classes.first().map(String::as_str)));
        }
        if facts.distinct.more || classes.len() > MOST_CLASSES {
            let found = format!("has {} distinct values", facts.distinct.count());
            let expected = format!("expected at most {MOST_CLASSES} classes");
            return Err(self.error(&found, &expected, "group the classes, or use a likelihood of numbers"));
        }
        classes.sort_by(|a, b| level_order(a, b));
        Ok(classes)
    }

    /// Checks that every cell can be a class.
    fn check_classes(&self) -> Result<()> {
        self.facts.supported()?;
        let text = self.facts.has_text();
        check_first([self.facts.missing.as_ref(), self.facts.infinite.as_ref().filter(|_| !text)])
    }

    fn no_positive(&self, kind: TargetKind, label: &str) -> Error {
        let (column, label) = (&self.column, shown(label));
        let of_kind = format!("{column} is of kind {kind}, which has no positive class");
        Error::usage(format!("{of_kind}, found the positive label {label}"))
            .hint("leave the positive label out, or ask for a likelihood of two classes")
    }

    fn classes(&self, positive_label: Option<&str>, notes: &mut Vec<String>) -> Result<TargetEncoding> {
        let found = self.first_classes()?;
        let (a, b) = match found.as_slice() {
            [a, b] => (a.text.clone(), b.text.clone()),
            [a, b, third, ..] => return Err(third_class([&a.text, &b.text], third)),
            _ => return Err(self.one_class(found.first().map(|class| class.text.as_str()))),
        };
        let known = is_positive(&a, &b);
        let numbers = [&a, &b].iter().all(|class| class.parse::<f64>().is_ok());
        let rarer = found[1].rows.cmp(&found[0].rows).then(level_order(&a, &b));
        let order = if numbers { level_order(&a, &b) } else { rarer };
        let a_is_positive = known.unwrap_or(order == Ordering::Greater);
        let levels = if a_is_positive { vec![b, a] } else { vec![a, b] };
        let mut encoding = TargetEncoding { kind: TargetKind::Binary, levels };
        if let Some(label) = positive_label {
            let place = positive_place(&encoding, label);
            if place.ok_or_else(|| self.not_a_class(&encoding, label))? == 0 {
                encoding.levels.reverse();
            }
        } else if known.is_none() {
            notes.push(format!(
                "{} takes only the values {}: they are two classes, with {} as the positive one",
                self.column,
                values_listed(&encoding.levels),
                shown(encoding.positive().unwrap_or_default())
            ));
        }
        Ok(encoding)
    }

    /// The first three classes at most.
    fn first_classes(&self) -> Result<Vec<Level>> {
        let facts = self.facts;
        self.check_classes()?;
        let levels = facts.distinct.levels.iter().take(3).cloned();
        if !facts.is_boolean() {
            return Ok(levels.collect());
        }
        // Every spelling of true is one class, and so is every one of false.
        let mut classes: Vec<Level> = Vec::with_capacity(2);
        for level in &facts.distinct.levels {
            let text = level.text.to_lowercase();
            if classes.iter().all(|class| class.text != text) {
                classes.push(Level { text, ..level.clone() });
            }
        }
        Ok(classes)
    }

    fn not_a_class(&self, encoding: &TargetEncoding, label: &str) -> Error {
        let (classes, label) = (values_listed(encoding.levels()), shown(label));
        let found = format!("has the classes {classes}, found the positive label {label}");
        self.error(&found, "expected one of them", "write the positive label as it is in the file")
    }

    fn one_class(&self, class: Option<&str>) -> Error {
        let class = class.map_or_else(String::new, |class| format!(", {}", shown(class)));
        let hint = "check that ⟨target⟩ names the right column and that the file has rows of both classes";
        self.error(&format!("has one class only{class}"), "expected two", hint)
    }

    fn levels(&self) -> Result<Vec<String>> {
        let (kind, facts) = (TargetKind::Ordinal, self.facts);
        facts.check_numbers().map_err(|error| advise(kind, error))?;
        check_first([facts.unsuited(Role::Target(kind)), facts.missing.as_ref()])?;
        let mut numbers: Vec<f64> = if facts.is_boolean() {
            vec![facts.plain.range.0, facts.plain.range.1]
        } else {
            facts.distinct.levels.iter().filter_map(|level| level.text.parse().ok()).collect()
        };
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        self.check_levels(&numbers, &facts.distinct.count())?;
        Ok(numbers.into_iter().map(|level| number_text(level).into_owned()).collect())
    }

    /// Checks the levels of an ordinal target, of which there are `count` in words.
    fn check_levels(&self, levels: &[f64], count: &str) -> Result<()> {
        let text = |level: f64| number_text(level).into_owned();
        let (found, expected, hint) = match *levels {
            [] => return Err(constant(&self.column, "0")),
            [only] => return Err(constant(&self.column, &text(only))),
            [low, high] => (
                format!("has the 2 levels {} and {}", text(low), text(high)),
                "expected at least 3 ordered levels".to_owned(),
                "two levels are two classes: use a Bernoulli likelihood",
            ),
            _ if levels.len() > MOST_LEVELS => (
                format!("has {count} levels"),
                format!("expected at most {MOST_LEVELS} ordered levels"),
                "use a likelihood of any real number, or group the levels",
            ),
            _ => match levels.windows(2).find(|pair| pair[1] - pair[0] > 1.0) {
                None => return Ok(()),
                Some(pair) => {
                    let [missing, low, high] = [pair[0] + 1.0, pair[0], pair[1]].map(text);
                    (
                        format!("has no row of level {missing} between {low} and {high}"),
                        "expected levels without gaps".to_owned(),
                        "number the levels that occur 1, 2, 3, … in their order",
                    )
                }
            },
        };
        Err(self.error(&found, &expected, hint))
    }
}

/// Returns true if `a` is the positive class and `b` its opposite, false for the reverse, and `None` for other words.
fn is_positive(a: &str, b: &str) -> Option<bool> {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let differ = |yes: &str, no: &str| POSITIVE_WORDS.contains(&yes) && NEGATIVE_WORDS.contains(&no);
    if differ(&a, &b) { Some(true) } else { differ(&b, &a).then_some(false) }
}

/// Returns the index of the class that the user named as positive. "1.0" and "+1" are the class "1", as in a
/// file.
fn positive_place(encoding: &TargetEncoding, label: &str) -> Option<usize> {
    let label = label.trim();
    match label.parse::<f64>() {
        Ok(value) => encoding.class(&number_text(value)),
        Err(_) => encoding.class(label),
    }
}

fn third_class(two: [&String; 2], third: &Level) -> Error {
    let ([a, b], place, found) = (two.map(|class| shown(class)), &third.place, shown(&third.text));
    Error::data(format!("{place}: found {found}, expected {a} or {b}, the two classes of the rows before"))
        .hint("correct or remove the row; for more than two classes use ⟨task classification⟩ without a likelihood of two classes")
}
