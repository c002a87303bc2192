//! The conversion of text columns to numbers or dates, and how it is detected from the cells.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::column::Column;
use super::instant::{self, ALL_ORDERS, DateOrder, ORDERS};
use super::marker::{code_digits, marker};
use super::written;

/// How the cells of a text column are converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reading {
    /// Numbers with thousands separators, a percent sign or a currency sign.
    Number {
        /// True if the decimal mark is a comma.
        decimal_comma: bool,
        /// The currency, or "%": 12.5 % is 12.5.
        unit: Option<String>,
        /// True if other text counts as a missing cell, and false if it is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        open: bool,
    },
    /// Dates, with or without times of day.
    Date {
        /// The order of year, month and day.
        order: DateOrder,
    },
    /// Indices of ordered levels, from 0.
    Ordered {
        /// The levels, lowest first.
        levels: Vec<String>,
        /// True if other text counts as a missing cell, and false if it is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        open: bool,
    },
}

/// How columns are converted, by name.
pub type Readings = BTreeMap<String, Reading>;

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reading::Ordered { levels, .. } => return write!(f, "one of {}", levels.join(" < ")),
            Reading::Number { decimal_comma: true, .. } => "a number with a decimal comma",
            Reading::Number { .. } => "a number",
            Reading::Date { order: DateOrder::YearMonthDay } => "a date such as 2024-01-31",
            Reading::Date { order: DateOrder::DayMonthYear } => "a date such as 31/01/2024",
            Reading::Date { order: DateOrder::MonthDayYear } => "a date such as 01/31/2024",
        })
    }
}

impl Reading {
    /// Returns the value of a text that is not a plain number.
    fn value(&self, text: &str) -> Option<f64> {
        match self {
            Reading::Number { decimal_comma, open, .. } => {
                let value = written::parse(text, *decimal_comma).map(|written| written.value);
                value.or(open.then_some(f64::NAN))
            }
            Reading::Date { order } => instant::seconds(text, *order),
            Reading::Ordered { levels, open } => {
                let place = levels.iter().position(|level| level == text);
                place.map(|place| place as f64).or(open.then_some(f64::NAN))
            }
        }
    }

    /// Converts the column to numbers or instants, with NaN for markers of missing cells. Fails with the first row that cannot be read. A
    /// column without text is returned unchanged.
    pub(crate) fn read(&self, column: &Column) -> Result<Column, usize> {
        let Column::Text(text) = column else { return Ok(column.clone()) };
        let plain = matches!(self, Reading::Number { .. });
        let missing = |level: &String| marker(level).map(|_| f64::NAN);
        let number = |level: &String| level.parse().ok().filter(|_| plain);
        let value = |level: &String| number(level).or_else(|| self.value(level)).or_else(|| missing(level));
        let values: Vec<Option<f64>> = text.levels().iter().map(value).collect();
        let cell = |(row, code): (usize, Option<usize>)| match code {
            None => Ok(f64::NAN),
            Some(code) => values[code].ok_or(row),
        };
        let cells = text.codes().enumerate().map(cell).collect::<Result<Vec<f64>, usize>>()?;
        let dates = matches!(self, Reading::Date { .. });
        Ok(if dates { Column::Time(cells) } else { Column::Number(cells) })
    }
}

/// Facts about the plain numbers of a column.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct PlainNumbers {
    /// True if all of them are whole.
    pub whole: bool,
    /// The smallest and the largest number.
    pub range: (f64, f64),
}

impl Default for PlainNumbers {
    fn default() -> Self {
        PlainNumbers { whole: true, range: (f64::INFINITY, f64::NEG_INFINITY) }
    }
}

impl PlainNumbers {
    pub(crate) fn push(&mut self, value: f64) {
        self.merge(PlainNumbers { whole: value.fract() == 0.0, range: (value, value) });
    }

    pub(crate) fn merge(&mut self, other: PlainNumbers) {
        self.whole &= other.whole;
        self.range = (self.range.0.min(other.range.0), self.range.1.max(other.range.1));
    }
}

/// The possible readings of the cells of a column that are not plain numbers, collected cell by cell. A marker of missing cells allows
/// every reading.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Forms {
    /// True if a cell cannot be a number with a decimal point, or with a decimal comma.
    no_point: bool,
    no_comma: bool,
    /// The set of orders in which some cell is no date.
    no_orders: u8,
    /// A cell whose number depends on the decimal mark.
    either: Option<String>,
    /// The first cell with a fraction or thousands separators, otherwise the first cell.
    first: Option<String>,
    /// The unit of the first cell with a unit, and true if other cells have another one.
    unit: Option<String>,
    units_differ: bool,
    /// The first marker of missing cells.
    marker: Option<String>,
    /// The first code with a leading zero, the smallest number of digits of all codes, and true if there is other text.
    code: Option<String>,
    digits: Option<usize>,
    others: bool,
}

impl Forms {
    /// Returns true if no reading fits any more.
    fn is_settled(&self) -> bool {
        self.no_point && self.no_comma && self.no_orders == ALL_ORDERS
    }

    /// Adds a text that is not a plain number.
    pub(crate) fn push(&mut self, text: &str) {
        if marker(text).is_some() {
            self.marker.get_or_insert_with(|| text.to_owned());
            return;
        }
        match code_digits(text) {
            Some(digits) => {
                self.code.get_or_insert_with(|| text.to_owned());
                self.digits = Some(self.digits.map_or(digits, |known| known.min(digits)));
            }
            None => self.others = true,
        }
        if self.is_settled() {
            return;
        }
        if self.no_orders != ALL_ORDERS {
            self.no_orders |= ALL_ORDERS ^ instant::orders(text);
        }
        if !self.no_point || !self.no_comma {
            let (point, comma) = (written::parse(text, false), written::parse(text, true));
            self.no_point |= point.is_none();
            self.no_comma |= comma.is_none();
            if point.is_some() && comma.is_some() && point != comma {
                self.either.get_or_insert_with(|| text.to_owned());
            }
            self.take_unit(point.or(comma).and_then(|written| written.unit));
        }
        self.first.get_or_insert_with(|| text.to_owned());
    }

    fn take_unit(&mut self, unit: Option<&str>) {
        let Some(unit) = unit else { return };
        self.units_differ |= self.unit.as_deref().is_some_and(|known| known != unit);
        self.unit.get_or_insert_with(|| unit.to_owned());
    }

    pub(crate) fn merge(&mut self, later: Forms) {
        self.no_point |= later.no_point;
        self.no_comma |= later.no_comma;
        self.no_orders |= later.no_orders;
        self.units_differ |= later.units_differ;
        self.take_unit(later.unit.as_deref());
        self.either = self.either.take().or(later.either);
        self.first = self.first.take().or(later.first);
        self.marker = self.marker.take().or(later.marker);
        self.code = self.code.take().or(later.code);
        self.digits = [self.digits, later.digits].into_iter().flatten().min();
        self.others |= later.others;
    }

    /// Returns true if cells have different units, so that their numbers cannot be compared.
    pub(crate) fn units_differ(&self) -> bool {
        self.units_differ
    }

    /// Returns a code, if the column holds codes: whole numbers, some with leading zeros, none with fewer digits than these.
    pub(crate) fn code(&self, plain: Option<PlainNumbers>) -> Option<&str> {
        let least = 10f64.powi(self.digits.unwrap_or(300).min(300) as i32 - 1);
        let codes = !self.others && plain.is_none_or(|plain| plain.whole && plain.range.0 >= least);
        self.code.as_deref().filter(|_| codes)
    }

    /// Returns the reading of the column, with an example in words, or `None` if its cells are text or codes. `plain` describes the plain
    /// numbers, if there are any.
    pub(crate) fn reading(&self, plain: Option<PlainNumbers>) -> Option<(Reading, String)> {
        if self.code(plain).is_some() {
            return None;
        }
        let missing = self.marker.as_ref().map(|marker| format!("{marker:?} is missing"));
        let Some(first) = &self.first else {
            let reading = Reading::Number { decimal_comma: false, unit: None, open: false };
            return missing
                .filter(|_| plain.is_some_and(|plain| plain.range.0 < plain.range.1))
                .map(|words| (reading, format!("({words})")));
        };
        let missing = missing.map_or_else(String::new, |words| format!(", {words}"));
        if !self.units_differ && (!self.no_point || (!self.no_comma && plain.is_none_or(|plain| plain.whole)))
        {
            let decimal_comma = self.no_point;
            let shown = self.either.as_ref().unwrap_or(first);
            let value = written::parse(shown, decimal_comma)?.value;
            let also = match self.either {
                Some(_) if !self.no_point && !self.no_comma => {
                    ", although the separator could be a decimal mark"
                }
                _ => "",
            };
            let percent = if self.unit.as_deref() == Some("%") { ", in percent" } else { "" };
            let words = format!("({shown:?} is {value}{percent}{also}{missing})");
            return Some((Reading::Number { decimal_comma, unit: self.unit.clone(), open: false }, words));
        }
        if plain.is_some() {
            return None;
        }
        let order =
            ORDERS.iter().rev().find(|(_, bit)| self.no_orders & bit == 0).map(|(order, _)| *order)?;
        let spelled = instant::spelled(instant::seconds(first, order)?);
        let also = if self.no_orders.count_ones() < 2 {
            ", read month first, although the day could come first"
        } else {
            ""
        };
        Some((Reading::Date { order }, format!("({first:?} is {spelled}{also}{missing})")))
    }
}
