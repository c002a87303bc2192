//! The distinct values of a column in the order of their first row, up to a maximum number.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::tables::column::number_text;
use crate::tables::marker::{long_whole, plain_number};

/// The maximum number of distinct values that are counted for a column, far more than categories, levels or classes may have.
const MOST_DISTINCT: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Level {
    /// The spelling in a column of text.
    pub text: String,
    /// The position of its first row, for the first three values.
    pub place: String,
    /// The training rows that hold it.
    pub training: u64,
    /// All rows that hold it.
    pub rows: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Levels")]
pub(crate) struct Distinct {
    #[serde(skip)]
    numbers: HashMap<u64, usize>,
    #[serde(skip)]
    texts: HashMap<String, usize>,
    /// The values, at most 10,000.
    pub levels: Vec<Level>,
    /// True if there are more values than the maximum.
    pub more: bool,
    #[serde(skip)]
    last: Option<(u64, usize)>,
}

/// The distinct values without their lookup tables.
#[derive(Deserialize)]
struct Levels {
    levels: Vec<Level>,
    more: bool,
}

impl From<Levels> for Distinct {
    fn from(Levels { levels, more }: Levels) -> Self {
        let mut distinct = Distinct::default();
        distinct.take_in(levels);
        distinct.more |= more;
        distinct
    }
}

impl Distinct {
    pub(crate) fn take_in(&mut self, levels: Vec<Level>) {
        for Level { text, place, training, rows } in levels {
            if let Some(index) = self.text(&text, || place) {
                self.levels[index].training += training;
                self.levels[index].rows += rows;
            }
        }
    }

    /// Merges the values of later rows, which may exceed the maximum.
    pub fn merge(&mut self, later: Distinct) {
        self.take_in(later.levels);
        self.more |= later.more;
        if self.more {
            self.last = None;
        }
    }

    /// Returns the standard deviation of the index of the value over the training rows.
    pub(crate) fn spread_of_places(&self) -> f64 {
        let rows = self.levels.iter().map(|level| level.training).sum::<u64>().max(1) as f64;
        let moment = |power: i32| -> f64 {
            let each = self.levels.iter().enumerate();
            each.map(|(place, level)| (place as f64).powi(power) * level.training as f64).sum::<f64>() / rows
        };
        (moment(2) - moment(1) * moment(1)).max(0.0).sqrt()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.levels.iter().map(|level| level.text.clone()).collect()
    }

    /// The number of values, in words if it exceeds the maximum.
    pub(crate) fn count(&self) -> String {
        if self.more { format!("more than {MOST_DISTINCT}") } else { self.levels.len().to_string() }
    }

    /// The index of a number; `None` once there are too many values. All zeros are one value.
    pub fn number(&mut self, value: f64, place: impl FnOnce() -> String) -> Option<usize> {
        let bits = if value == 0.0 { 0 } else { value.to_bits() };
        if let Some((_, index)) = self.last.filter(|&(last, _)| last == bits) {
            return Some(index);
        }
        if self.more {
            return None;
        }
        let index = match self.numbers.get(&bits) {
            Some(&index) => index,
            None => {
                let index = self.add(number_text(value).into_owned(), place)?;
                self.numbers.insert(bits, index);
                index
            }
        };
        self.last = Some((bits, index));
        Some(index)
    }

    /// The index of a text; `None` once there are too many values.
    pub fn text(&mut self, text: &str, place: impl FnOnce() -> String) -> Option<usize> {
        if let Some(value) = plain_number(text).filter(|_| long_whole(text).is_none()) {
            return self.number(value, place);
        }
        if let Some(&index) = self.texts.get(text) {
            return Some(index);
        }
        let index = self.add(text.to_owned(), place)?;
        self.texts.insert(text.to_owned(), index);
        Some(index)
    }

    pub fn add(&mut self, text: String, place: impl FnOnce() -> String) -> Option<usize> {
        if self.levels.len() == MOST_DISTINCT {
            self.more = true;
            self.last = None;
            return None;
        }
        let place = if self.levels.len() < 3 { place() } else { String::new() };
        self.levels.push(Level { text, place, training: 0, rows: 0 });
        Some(self.levels.len() - 1)
    }
}
