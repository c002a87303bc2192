//! Facts about the cells of a column, gathered block by block in bounded memory: types, distinct values, ranges, unusable cells.

use super::calendar::Calendar;
use super::distinct::{Distinct, Level};
use super::extremes::Extremes;
use super::ratings::rating_order;
use super::spread::Spread;
use crate::tables::column::{Column, TextColumn, boolean, number_text};
use crate::tables::marker::{Marker, marker, plain_number};
use crate::tables::reading::{Forms, PlainNumbers, Reading};
use crate::tables::table::{Table, shown};
use crate::tables::written;
use serde::{Deserialize, Serialize};
use sparsegp::data::Affine;
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::{EXPOSURES, HIGHEST_WHOLE, TargetKind};
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// The target, of this kind.
    Target(TargetKind),
    Exposure,
    Trials,
    /// A known standard error.
    NoiseStd,
    Weight,
    /// Any finite number.
    Offset,
}

impl Role {
    pub(crate) fn check(self, table: &Table, row: usize, name: &str, value: f64) -> Result<()> {
        let value = table.finite(row, name, value)?;
        let (expected, hint) = match self {
            Role::Exposure if EXPOSURES.contains(&value) => return Ok(()),
            Role::Exposure => (
                if value > 0.0 { "an exposure from 1e-100 to 1e100" } else { "an exposure above 0" },
                "an exposure is the time, area or number of units that could have had events; remove rows without exposure",
            ),
            Role::Trials if value < 1.0 || value.fract() != 0.0 || value > HIGHEST_WHOLE => (
                "a number of trials (1, 2, …)",
                "the target is a number of successes in these trials; remove rows without trials",
            ),
            Role::NoiseStd if value < 0.0 => (
                "a standard error of 0 or more",
                "give the standard deviation of the noise of each target, in its units",
            ),
            Role::Weight if value <= 0.0 => {
                ("a weight above 0", "remove rows that should not count, instead of giving them the weight 0")
            }
            Role::Target(TargetKind::Lifetime) if value <= 0.0 => {
                ("a time above 0", "correct or remove the row, or use ⟨likelihood gaussian⟩ for any numbers")
            }
            Role::Target(TargetKind::Positive) if value <= 0.0 => {
                ("a number above 0", "correct or remove the row, or use a likelihood of any real number")
            }
            Role::Target(TargetKind::Amount) if value < 0.0 => {
                ("a number of 0 or more", "correct or remove the row, or use a likelihood of any real number")
            }
            Role::Target(TargetKind::Share) if !(0.0..=1.0).contains(&value) => {
                ("a number from 0 to 1", "correct or remove the row, or use a likelihood of any real number")
            }
            Role::Target(TargetKind::UnitInterval) if value <= 0.0 || value >= 1.0 => (
                "a number above 0 and below 1",
                "for targets of exactly 0 or 1 use ⟨likelihood ordered-beta⟩",
            ),
            Role::Target(TargetKind::Trials)
                if value < 0.0 || value.fract() != 0.0 || value > HIGHEST_WHOLE =>
            {
                ("a number of successes (0, 1, 2, …)", "correct or remove the row")
            }
            Role::Target(TargetKind::Count | TargetKind::CensoredCount)
                if value < 0.0 || value.fract() != 0.0 =>
            {
                ("a count (0, 1, 2, …)", "correct or remove the row, or use a likelihood of any real number")
            }
            Role::Target(TargetKind::Count | TargetKind::CensoredCount) if value > HIGHEST_WHOLE => (
                "a count of at most 2^53",
                "larger counts cannot be distinguished; use a likelihood of any real number",
            ),
            Role::Target(TargetKind::Ordinal) if value.fract() != 0.0 || value.abs() > HIGHEST_WHOLE => (
                "a level written as a whole number",
                "number the levels 1, 2, 3, … in their order, or use a likelihood of any real number",
            ),
            _ => return Ok(()),
        };
        Err(table.unfit(row, name, &number_text(value), expected).hint(hint))
    }
}

/// The largest value of numbers that may be counts; whole numbers beyond it are more likely amounts.
const HIGHEST_GUESS: f64 = 1e4;

/// The requirement for every value of a column, besides being a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Demand {
    /// No requirement.
    #[default]
    None,
    /// Values suit one of these roles.
    Role(Vec<Role>),
}

/// The first cell that cannot be used in some way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Misfit {
    /// Its row in the file, from 0.
    pub row: usize,
    /// The error about it.
    pub error: Error,
}

/// Fails with the error of the misfit in the first row, if there is one.
pub(super) fn check_first<'a>(misfits: impl IntoIterator<Item = Option<&'a Misfit>>) -> Result<()> {
    let first = misfits.into_iter().flatten().min_by_key(|misfit| misfit.row);
    first.map_or(Ok(()), |misfit| Err(misfit.error.clone()))
}

/// Keeps the first of the misfits that are offered.
fn keep_first(first: &mut Option<Misfit>, row: usize, check: impl FnOnce() -> Result<()>) {
    if first.is_none()
        && let Err(error) = check()
    {
        *first = Some(Misfit { row, error });
    }
}

/// Keeps the first misfit of earlier rows, or else that of later ones.
pub(super) fn keep_earlier<T>(first: &mut Option<T>, later: Option<T>) {
    *first = first.take().or(later);
}

/// The minimum number of cells that can show whether text is a mistake or names categories ...
const FEWEST_CELLS: usize = 20;

/// ... and the minimum share of numbers among them for text to be a mistake.
const NUMBERS_OF_A_NUMBER: f64 = 0.9;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ColumnFacts {
    pub(super) demand: Demand,
    /// The error for an unsupported type.
    unsupported: Option<Error>,
    /// The error for the first text, where a number is expected.
    text: Option<Error>,
    /// Cells of text that cannot be numbers, and the name of their table.
    pub(super) bad: BadCells,
    source: Option<String>,
    /// Cells that hold a value.
    pub present: usize,
    /// Cells that read as numbers.
    pub numbers: usize,
    /// The distinct values.
    pub distinct: Distinct,
    /// The first cell without a value.
    pub missing: Option<Misfit>,
    /// The number of cells without a value, in all rows and in the training rows.
    pub gaps: (usize, usize),
    /// The first infinite number.
    pub infinite: Option<Misfit>,
    /// For each role that values may have, the first value that does not suit it.
    unsuited: Vec<(Role, Option<Misfit>)>,
    /// The facts about its numbers.
    pub plain: PlainNumbers,
    /// True if a number does not look like a count.
    uncountable: bool,
    /// The greatest common divisor of whole numbers.
    divisor: u64,
    /// Mean and spread of the numbers of the training rows.
    spread: Spread,
    /// The possible readings of cells that are not plain numbers.
    forms: Forms,
    /// True if a number is not above the number in the row before; and the last number.
    pub(super) not_rising: bool,
    last: Option<f64>,
    /// The differences of a target between successive rows; for text, of the positions of its values.
    steps: Spread,
    pub(super) extremes: Extremes,
    pub(super) calendar: Option<Calendar>,
}

impl ColumnFacts {
    pub(crate) fn new(demand: Demand) -> ColumnFacts {
        let roles = if let Demand::Role(roles) = &demand { roles.as_slice() } else { &[] };
        let unsuited = roles.iter().map(|&role| (role, None)).collect();
        ColumnFacts { unsuited, demand, ..ColumnFacts::default() }
    }

    /// Merges the facts about later rows of the same column, with the same requirement.
    pub(super) fn merge(&mut self, later: ColumnFacts) {
        keep_earlier(&mut self.unsupported, later.unsupported);
        keep_earlier(&mut self.text, later.text);
        keep_earlier(&mut self.source, later.source);
        self.bad.merge(later.bad);
        self.present += later.present;
        self.numbers += later.numbers;
        self.distinct.merge(later.distinct);
        keep_earlier(&mut self.missing, later.missing);
        self.gaps = (self.gaps.0 + later.gaps.0, self.gaps.1 + later.gaps.1);
        keep_earlier(&mut self.infinite, later.infinite);
        for ((_, first), (_, later)) in self.unsuited.iter_mut().zip(later.unsuited) {
            keep_earlier(first, later);
        }
        self.uncountable |= later.uncountable;
        self.divisor = common_divisor(self.divisor, later.divisor);
        self.spread.merge(later.spread);
        self.forms.merge(later.forms);
        self.not_rising |= later.not_rising || !self.extremes.end_below(&later.extremes);
        self.plain.merge(later.plain);
        self.extremes.merge(later.extremes);
        self.last = later.last.or(self.last);
        self.steps.merge(later.steps);
        match (&mut self.calendar, later.calendar) {
            (Some(calendar), Some(later)) => calendar.merge(later),
            (own, later) => *own = own.take().or(later),
        }
    }

    /// Adds the next rows. `training` marks the training rows among them; `None` means all.
    pub(crate) fn push(&mut self, table: &Table, name: &str, column: &Column, training: Option<&[bool]>) {
        let trains = |row: usize| training.is_none_or(|training| training[row]);
        match column {
            Column::Unsupported { data_type, .. } => {
                self.unsupported.get_or_insert_with(|| table.unsupported(name, data_type));
            }
            Column::Number(values) => {
                for (row, &value) in values.iter().enumerate() {
                    if self.push_distinct(table, name, row, value, trains(row)) {
                        self.numbers += 1;
                        self.push_value(table, name, row, value, trains(row));
                    }
                }
            }
            Column::Text(text) => self.push_text(table, name, text, &trains),
            Column::Time(values) => self.push_times(table, name, values, &trains),
        }
    }

    fn push_times(&mut self, table: &Table, name: &str, values: &[f64], trains: &dyn Fn(usize) -> bool) {
        if self.demand != Demand::None {
            self.unsupported.get_or_insert_with(|| table.unsupported(name, "date"));
            return;
        }
        let mut calendar = self.calendar.take().unwrap_or_default();
        for (row, &seconds) in values.iter().enumerate() {
            if self.push_distinct(table, name, row, seconds, trains(row)) && trains(row) {
                calendar.push(seconds);
            }
        }
        self.calendar = Some(calendar);
    }

    /// Counts a number or an instant; returns `false` for a missing one.
    fn push_distinct(&mut self, table: &Table, name: &str, row: usize, value: f64, trains: bool) -> bool {
        if value.is_nan() {
            self.push_missing(table, name, row, trains);
            return false;
        }
        self.present += 1;
        let index = self.distinct.number(value, || table.place(row, name));
        self.count(index, trains);
        true
    }

    fn push_text(&mut self, table: &Table, name: &str, text: &TextColumn, trains: &dyn Fn(usize) -> bool) {
        if !text.are_numbers() {
            self.text.get_or_insert_with(|| table.not_a_number(name, text));
        }
        self.source.get_or_insert_with(|| table.source().to_owned());
        let numbers: Vec<Option<f64>> = text.levels().iter().map(|level| plain_number(level)).collect();
        let bad = |(level, number): (&String, &Option<f64>)| number.is_none() && BadCells::is_bad(level);
        let bad: Vec<bool> = text.levels().iter().zip(&numbers).map(bad).collect();
        let booleans: Vec<Option<f64>> = text.levels().iter().map(|level| boolean(level)).collect();
        // The index of each value of the block among the values of the file, once it has occurred.
        let mut places: Vec<Option<Option<usize>>> = vec![None; text.levels().len()];
        for (row, code) in text.codes().enumerate() {
            let Some(code) = code else {
                self.push_missing(table, name, row, trains(row));
                continue;
            };
            self.present += 1;
            self.numbers += usize::from(numbers[code].is_some());
            let index = match places[code] {
                Some(index) => index,
                None => {
                    if numbers[code].is_none() {
                        self.forms.push(&text.levels()[code]);
                    }
                    self.distinct.text(&text.levels()[code], || table.place(row, name))
                }
            };
            places[code] = Some(index);
            if bad[code] {
                self.bad.push(table, row, name, &text.levels()[code]);
            }
            self.count(index, trains(row));
            if numbers[code].is_none() {
                self.step_to(index.map_or(f64::NAN, |index| index as f64));
            }
            if let Some(value) = numbers[code].or(booleans[code]) {
                self.push_value(table, name, row, value, trains(row));
            }
        }
    }

    fn count(&mut self, level: Option<usize>, trains: bool) {
        if let Some(level) = level.and_then(|index| self.distinct.levels.get_mut(index)) {
            level.rows += 1;
            level.training += u64::from(trains);
        }
    }

    fn push_missing(&mut self, table: &Table, name: &str, row: usize, trains: bool) {
        self.gaps.0 += 1;
        self.gaps.1 += usize::from(trains);
        keep_first(&mut self.missing, table.row(row), || Err(table.missing(row, name)));
    }

    fn push_value(&mut self, table: &Table, name: &str, row: usize, value: f64, trains: bool) {
        let at = table.row(row);
        self.plain.push(value);
        self.extremes.push(value, at);
        self.step_to(value);
        if value.is_infinite() {
            keep_first(&mut self.infinite, at, || table.finite(row, name, value).map(|_| ()));
        } else if trains {
            self.spread.push(value);
        }
        for (role, first) in &mut self.unsuited {
            keep_first(first, at, || role.check(table, row, name, value));
        }
        if self.demand != Demand::None {
            self.uncountable |= !(0.0..=HIGHEST_GUESS).contains(&value) || value.fract() != 0.0;
            if !self.uncountable && self.divisor != 1 {
                self.divisor = common_divisor(self.divisor, value as u64);
            }
        }
    }

    /// Adds the number of the next row to the facts about successive rows.
    fn step_to(&mut self, value: f64) {
        if let Some(last) = self.last {
            self.not_rising |= value.partial_cmp(&last) != Some(Ordering::Greater);
            let step = value - last;
            if self.demand != Demand::None && step.is_finite() {
                self.steps.push(step);
            }
        }
        self.last = Some(value);
    }

    /// Returns true if the values of neighbouring rows are closer than the values of any two rows (von Neumann 1941), by at least three
    /// standard errors.
    pub(crate) fn follows_rows(&self) -> bool {
        let (steps, all) = (self.steps.affine(), self.spread.affine());
        let rows = self.steps.count() as f64;
        let classes = self.has_text() && !self.is_boolean();
        let spread = if classes { self.distinct.spread_of_places() } else { all.scale };
        let ratio = steps.scale / spread;
        rows > 2.0 && spread > 0.0 && (1.0 - 0.5 * ratio * ratio) * rows.sqrt() > 3.0
    }

    pub(crate) fn is_time(&self) -> bool {
        self.calendar.is_some()
    }

    /// Returns the reading of cells of text as numbers or dates, with an example in words.
    pub(crate) fn reading(&self) -> Option<(Reading, String)> {
        let dates = self.demand == Demand::None;
        let read = self.has_text() && self.supported().is_ok();
        let reading = self.forms.reading(self.plain_numbers()).filter(|_| read);
        let strays = || {
            let words = format!("({} taken as missing)", self.bad.words());
            (Reading::Number { decimal_comma: false, unit: None, open: true }, words)
        };
        reading
            .filter(|(reading, _)| dates || matches!(reading, Reading::Number { .. }))
            .or_else(|| (dates && read && self.has_strays()).then(strays))
    }

    /// True if nearly all cells are numbers of one kind: the other cells, which are text, count as missing.
    fn has_strays(&self) -> bool {
        self.is_mostly_numbers()
            && !self.holds_mistakes()
            && !self.forms.units_differ()
            && self.numbers as f64 >= NUMBERS_OF_A_NUMBER * self.present as f64
    }

    /// True if the user has to correct a column of mostly numbers. Its cells are too few to tell text by mistake from categories, or they
    /// are numbers in different units.
    pub(super) fn holds_mistakes(&self) -> bool {
        self.is_mostly_numbers() && (self.present < FEWEST_CELLS || self.bad.is_empty())
    }

    fn plain_numbers(&self) -> Option<PlainNumbers> {
        (self.numbers > 0).then_some(self.plain)
    }

    /// An example of the codes that the column holds: whole numbers, some with leading zeros.
    pub(crate) fn code(&self) -> Option<&str> {
        self.forms.code(self.plain_numbers()).filter(|_| self.has_text())
    }

    /// The levels of the column from low to high, if it is text whose levels have an order by their meaning.
    pub(crate) fn rating(&self) -> Option<Vec<String>> {
        let text = self.has_text() && self.numbers == 0 && !self.distinct.more;
        let mut levels = if text { self.distinct.texts() } else { Vec::new() };
        levels.retain(|text| marker(text) != Some(Marker::Sure));
        rating_order(&levels)
    }

    /// True if a column with text holds more numbers than other text.
    pub(super) fn is_mostly_numbers(&self) -> bool {
        self.numbers * 2 >= self.present && self.code().is_none()
    }

    /// Returns the error for an unsupported type, if the column has one.
    pub(crate) fn supported(&self) -> Result<()> {
        self.unsupported.clone().map_or(Ok(()), Err)
    }

    /// Returns true if some cell holds text.
    pub(crate) fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Returns the error for text in place of numbers. It names the cells that cannot be numbers, or else the first text.
    pub(crate) fn not_a_number(&self) -> Error {
        let several = self.source.as_deref().and_then(|source| self.bad.error(source));
        several.or(self.text.clone()).unwrap_or_else(|| Error::data("a column of numbers holds no text"))
    }

    /// Returns true if the column is text with only true and false, which are read as 1 and 0.
    pub(crate) fn is_boolean(&self) -> bool {
        let mut levels = self.distinct.levels.iter();
        self.has_text() && !self.distinct.more && levels.all(|level| boolean(&level.text).is_some())
    }

    pub(crate) fn check_numbers(&self) -> Result<()> {
        self.supported()?;
        if self.has_text() && !self.is_boolean() { Err(self.not_a_number()) } else { Ok(()) }
    }

    /// Returns the distinct numbers with the training rows of each, if all are small, whole and not negative. Returns `None` for numbers
    /// with a common divisor, which are rounded amounts, and if there are too many distinct values.
    pub(crate) fn whole_numbers(&self) -> Option<Vec<(f64, u64)>> {
        let value = |level: &Level| Some((level.text.parse().ok()?, level.training));
        let whole = !self.uncountable && self.divisor == 1 && !self.distinct.more;
        whole.then(|| self.distinct.levels.iter().filter_map(value).collect())
    }

    pub(crate) fn unsuited(&self, role: Role) -> Option<&Misfit> {
        self.unsuited.iter().find(|(known, _)| *known == role).and_then(|(_, first)| first.as_ref())
    }

    pub(crate) fn varies_in_training(&self) -> bool {
        let mut held = self.distinct.levels.iter().filter(|level| level.training > 0);
        let Some(first) = held.next() else { return false };
        let truth = boolean(&first.text).filter(|_| self.is_boolean());
        self.distinct.more || held.any(|level| truth.is_none() || boolean(&level.text) != truth)
    }

    /// Shift and scale that standardise the numbers of the training rows, with missing cells replaced by the mean.
    pub(crate) fn affine(&self) -> Affine {
        self.spread.affine_with(self.gaps.1)
    }

    /// Shift and scale that standardise, over `rows` training rows, an input that is 1 where the column has this level and
    /// 0 elsewhere.
    pub(crate) fn level_affine(&self, text: &str, rows: usize) -> Affine {
        let level = self.distinct.levels.iter().find(|level| level.text == text);
        share_affine(level.map_or(0, |level| level.training as usize), rows)
    }
}

/// Returns the scaling of an input that is 1 in `ones` of `rows` rows and 0 in the others.
pub(super) fn share_affine(ones: usize, rows: usize) -> Affine {
    let share = ones as f64 / rows.max(1) as f64;
    let scale = if share > 0.0 && share < 1.0 { (share * (1.0 - share)).sqrt() } else { 1.0 };
    Affine { shift: share, scale }
}

/// The greatest common divisor, 0 of two zeros.
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The most cells that an error names.
const MOST_NAMED: usize = 3;

/// The cells of a column that hold text other than numbers and markers of missing cells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct BadCells {
    /// The first few, in the order of rows.
    first: Vec<BadCell>,
    count: usize,
}

/// One cell: its row in the file, its position in words, and its text as messages show it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct BadCell {
    row: usize,
    place: String,
    text: String,
}

impl BadCells {
    /// Returns true if a text that is not a plain number cannot be a number in any spelling.
    pub(super) fn is_bad(text: &str) -> bool {
        marker(text).is_none() && [false, true].iter().all(|&comma| written::parse(text, comma).is_none())
    }

    pub(super) fn push(&mut self, table: &Table, row: usize, name: &str, text: &str) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(BadCell { row: table.row(row), place: table.cell(row, name), text: shown(text) });
        }
    }

    /// Adds the cells of later rows, or of another column.
    pub(super) fn merge(&mut self, other: BadCells) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.sort_by_key(|cell| cell.row);
        self.first.truncate(MOST_NAMED);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of cells and the text of the first one, in words.
    pub(super) fn words(&self) -> String {
        let text = self.first.first().map_or("", |cell| &cell.text);
        if self.count == 1 {
            format!("1 cell of text, {text},")
        } else {
            format!("{} cells of text such as {text}", self.count)
        }
    }

    /// Returns the error for several cells of a table; `None` for a single cell, which has a separate error.
    pub(super) fn error(&self, source: &str) -> Option<Error> {
        if self.count < 2 {
            return None;
        }
        let mut named: Vec<String> =
            self.first.iter().map(|cell| format!("{}: {}", cell.place, cell.text)).collect();
        if self.count > named.len() {
            named.push(format!("{} more", self.count - named.len()));
        }
        let (count, named) = (self.count, named.join("; "));
        Some(Error::data(format!("{source}: {count} cells hold text, expected numbers: {named}")))
    }
}
