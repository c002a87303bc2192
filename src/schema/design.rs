//! From the cells of a table to the numbers of a model: inputs, target, exposure and weights by a schema; nothing is inferred.

use std::borrow::Cow;
use std::collections::HashMap;

use faer::Mat;

use super::calendar::{Calendar, Cycle, years};
use super::columns::{Feature, Schema, UnseenLevels};
use super::facts::Positive;
use crate::data::Scaling;
use crate::data::spread::Spread;
use crate::error::{Error, Result};
use crate::tables::column::{Column, TextColumn, number_text};
use crate::tables::table::{Table, listed, quoted, shown};

impl Schema {
    /// The inputs of a table, `n × D`, a row per row of the table. Columns are matched by name, in any order;
    /// others are ignored. The mean of training stands in for a missing number; missing text is a category of its own where training
    /// had some, else one that training did not see.
    ///
    /// # Errors
    ///
    /// When a feature's column is absent, or a cell in it is infinite, text where a number is expected, or a category not seen in
    /// training (with [`UnseenLevels::Error`]); when one is missing in a model of before means were kept.
    pub fn design(&self, table: &Table, unseen: UnseenLevels) -> Result<Mat<f64>> {
        let names = self.training_names();
        let table = &*table.read(&self.readings, &|name| names.contains(name))?;
        self.check_features(table.source(), table.columns().iter().map(|named| named.name.as_str()))?;
        let mut inputs = Vec::with_capacity(self.features.len());
        let mut offset = 0;
        for (index, feature) in self.features.iter().enumerate() {
            inputs.push((offset, Input::new(table, feature, self.fills.get(index).copied())?));
            offset += self.width(feature);
        }
        let mut design = Mat::zeros(table.rows(), offset);
        for row in 0..table.rows() {
            for (offset, input) in &inputs {
                match input {
                    Input::Number { values, fill: Some(fill), missing, .. } if values[row].is_nan() => {
                        design[(row, *offset)] = *fill;
                        if *missing {
                            design[(row, offset + 1)] = 1.0;
                        }
                    }
                    Input::Time { values, origin, cycles, fill, missing } => {
                        let gap = values[row].is_nan();
                        let seconds = if gap { *fill } else { values[row] };
                        design[(row, *offset)] = years(*origin, seconds);
                        let phases = cycles.iter().flat_map(|cycle| cycle.phase(seconds));
                        for (phase, at) in phases.zip(offset + 1..) {
                            design[(row, at)] = if gap { 0.0 } else { phase };
                        }
                        if *missing && gap {
                            design[(row, offset + 1 + 2 * cycles.len())] = 1.0;
                        }
                    }
                    Input::Number { name, values, .. } => {
                        design[(row, *offset)] = table.finite(row, name, values[row])?
                    }
                    Input::Category(input) => {
                        if let Some(level) = input.level(table, row, unseen)?
                            && let Some(level) = level.checked_sub(self.first_level())
                        {
                            design[(row, offset + level)] = 1.0;
                        }
                    }
                }
            }
        }
        Ok(design)
    }

    /// Settles what the training rows alone decide of a schema that was found in a whole table: the means that stand in for missing cells,
    /// and, unless `whole` says that every part of the table is to have the same inputs, which columns have inputs for them.
    pub(crate) fn settle(&mut self, table: &Table, train: &[usize], whole: bool) -> Result<()> {
        self.fills.resize(self.features.len(), 0.0);
        for (feature, fill) in self.features.iter_mut().zip(&mut self.fills) {
            if matches!(feature, Feature::Date { .. }) {
                *fill = settle_date(feature, table, train, whole)?;
            }
            if !feature.tells_missing() {
                continue;
            }
            let column = table.require(feature.name())?;
            let gaps = train.iter().any(|&row| column.is_missing(row));
            match feature {
                Feature::Numeric { name, missing } => {
                    let values = table.numbers(name)?;
                    let mut spread = Spread::default();
                    let present = train.iter().map(|&row| values[row]).filter(|value| value.is_finite());
                    present.for_each(|value| spread.push(value));
                    *fill = spread.affine().shift;
                    *missing &= gaps || whole;
                }
                Feature::Categorical { missing, .. } | Feature::Date { missing, .. } => {
                    *missing &= gaps || whole;
                }
            }
        }
        Ok(())
    }

    /// Takes what standardises the training rows for what the mean of each numeric feature was.
    pub(crate) fn take_means(&mut self, scaling: &Scaling) {
        let mut offset = 0;
        for index in 0..self.features.len().min(self.fills.len()) {
            let feature = &self.features[index];
            if let (Feature::Numeric { .. }, Some(affine)) = (feature, scaling.inputs.get(offset)) {
                self.fills[index] = affine.shift;
            }
            offset += self.width(feature);
        }
    }

    /// The features of numbers in which training met no missing cell, with how many a table has, where it has any: the mean stands in
    /// for them, and no input says so.
    pub fn silent_gaps<'a>(&'a self, table: &Table) -> Vec<(&'a str, usize)> {
        let numbers = self.features.iter().filter(|feature| {
            matches!(feature, Feature::Numeric { missing: false, .. } | Feature::Date { missing: false, .. })
        });
        let gaps = numbers.map(|feature| {
            let column = table.column(feature.name());
            let lacking = |column: &Column| {
                let lacks = column.lacking();
                (0..table.rows()).filter(|&row| lacks(row)).count()
            };
            (feature.name(), column.map_or(0, lacking))
        });
        gaps.filter(|&(_, count)| count > 0).collect()
    }

    /// The target of each row as a number (see [`TargetEncoding::encode`](super::TargetEncoding::encode)), or `None` when the table has no such column.
    ///
    /// # Errors
    ///
    /// When a value is missing, not of the kind of target, or a class or level not seen in training.
    pub fn target(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        let Some(values) = self.target_where_known(table)? else { return Ok(None) };
        match values.iter().position(|value| value.is_nan()) {
            Some(row) => Err(table.missing(row, &self.target)),
            None => Ok(Some(values)),
        }
    }

    /// The target of each row as [`Schema::target`] gives it, NaN where it is missing (rows to predict), or `None` when the
    /// table has no such column.
    ///
    /// # Errors
    ///
    /// When a value is not of the kind of target, or a class or level not seen in training.
    pub fn target_where_known(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        if table.column(&self.target).is_none() {
            return Ok(None);
        }
        let table = table.read(&self.readings, &|name| name == self.target)?;
        self.encoding.encode(&table, &self.target).map(Some)
    }

    /// The exposure of each row, or `None` when the model has none.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0.
    pub fn exposure(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        self.exposure.as_ref().map(|name| self.positive_numbers(table, name, Positive::Exposure)).transpose()
    }

    /// The weight of each row, or `None` when the model has none.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0.
    pub fn weights(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        self.weights.as_ref().map(|name| self.positive_numbers(table, name, Positive::Weight)).transpose()
    }
}

impl Schema {
    /// The values of a column of which every one is above 0.
    fn positive_numbers(&self, table: &Table, name: &str, positive: Positive) -> Result<Vec<f64>> {
        let table = table.read(&self.readings, &|column| column == name)?;
        let values = table.numbers(name)?;
        for (row, &value) in values.iter().enumerate() {
            positive.check(&table, row, name, value)?;
        }
        Ok(values.into_owned())
    }
}

/// Settles the periods of a date by the training rows, unless every part of a `whole` table is to have the same ones; the mean instant.
fn settle_date(feature: &mut Feature, table: &Table, train: &[usize], whole: bool) -> Result<f64> {
    let Feature::Date { name, origin, cycles, .. } = feature else { return Ok(0.0) };
    let Column::Time(values) = table.require(name)? else { return Err(not_a_date(table, name)) };
    let mut calendar = Calendar::default();
    let present = train.iter().map(|&row| values[row]).filter(|value| !value.is_nan());
    present.for_each(|seconds| calendar.push(seconds));
    *origin = calendar.origin();
    if !whole {
        *cycles = calendar.cycles();
    }
    Ok(calendar.mean())
}

/// The error for a column of numbers, or of text that is none, where dates are expected.
fn not_a_date(table: &Table, name: &str) -> Error {
    Error::data(format!(
        "{}: column {} holds no dates, expected dates as in training",
        table.source(),
        quoted(name)
    ))
}

/// How one feature is read from a table.
enum Input<'a> {
    Number { name: &'a str, values: Cow<'a, [f64]>, fill: Option<f64>, missing: bool },
    Time { values: &'a [f64], origin: f64, cycles: &'a [Cycle], fill: f64, missing: bool },
    Category(CategoryInput<'a>),
}

impl<'a> Input<'a> {
    fn new(table: &'a Table, feature: &'a Feature, fill: Option<f64>) -> Result<Input<'a>> {
        match feature {
            Feature::Numeric { name, missing } => {
                Ok(Input::Number { name, values: table.numbers(name)?, fill, missing: *missing })
            }
            Feature::Date { name, origin, cycles, missing } => {
                let Column::Time(values) = table.require(name)? else { return Err(not_a_date(table, name)) };
                let fill = fill.unwrap_or(*origin);
                Ok(Input::Time { values, origin: *origin, cycles, fill, missing: *missing })
            }
            Feature::Categorical { name, levels, missing } => {
                let cells = Cells::new(table, name, levels)?;
                Ok(Input::Category(CategoryInput { name, levels, missing: *missing, cells }))
            }
        }
    }
}

/// How a categorical feature is read from a table.
struct CategoryInput<'a> {
    name: &'a str,
    levels: &'a [String],
    missing: bool,
    cells: Cells<'a>,
}

/// The cells of a categorical feature, with the category of each distinct value.
enum Cells<'a> {
    Text { text: &'a TextColumn, of_code: Vec<Option<usize>> },
    Numbers { values: &'a [f64], of_bits: HashMap<u64, usize> },
}

impl<'a> Cells<'a> {
    fn new(table: &'a Table, name: &str, levels: &[String]) -> Result<Cells<'a>> {
        match table.require(name)? {
            Column::Number(values) => {
                let numbers = levels.iter().enumerate();
                let of_bits = numbers.filter_map(|(index, level)| Some((bits(level.parse().ok()?), index)));
                Ok(Cells::Numbers { values, of_bits: of_bits.collect() })
            }
            Column::Text(text) => {
                let index: HashMap<&str, usize> =
                    levels.iter().enumerate().map(|(index, level)| (level.as_str(), index)).collect();
                let same = |level: &str| index.get(level).copied();
                // Model files of before codes kept their zeros have them as numbers.
                let number = |level: &String| same(&number_text(level.parse().ok()?));
                let of_code = text.levels().iter().map(|level| same(level).or_else(|| number(level)));
                Ok(Cells::Text { text, of_code: of_code.collect() })
            }
            Column::Time(_) => Err(table.unsupported(name, "date")),
            Column::Unsupported { data_type, .. } => Err(table.unsupported(name, data_type)),
        }
    }
}

/// The bits of a number by which equal numbers are equal: both zeros are one category.
fn bits(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

impl CategoryInput<'_> {
    /// The category of a row; `None` for one that training did not see and that may be ignored.
    fn level(&self, table: &Table, row: usize, unseen: UnseenLevels) -> Result<Option<usize>> {
        let (level, value) = match &self.cells {
            Cells::Text { text, of_code } => match text.code(row) {
                Some(code) => (of_code[code], Cow::Borrowed(text.get(row).unwrap_or_default())),
                None => return self.level_of_missing(table, row, unseen),
            },
            Cells::Numbers { values, .. } if values[row].is_nan() => {
                return self.level_of_missing(table, row, unseen);
            }
            Cells::Numbers { values, of_bits } => match of_bits.get(&bits(values[row])) {
                Some(&level) => (Some(level), Cow::Borrowed("")),
                None => (None, number_text(values[row])),
            },
        };
        if level.is_some() || unseen == UnseenLevels::Zeros {
            return Ok(level);
        }
        Err(self.unseen(format!("{}: found {}", table.place(row, self.name), shown(&value))))
    }

    /// The category of a missing cell, which comes after the others.
    fn level_of_missing(&self, table: &Table, row: usize, unseen: UnseenLevels) -> Result<Option<usize>> {
        match unseen {
            _ if self.missing => Ok(Some(self.levels.len())),
            UnseenLevels::Zeros => Ok(None),
            UnseenLevels::Error => {
                Err(self.unseen(format!("{}: the value is missing", table.place(row, self.name))))
            }
        }
    }

    fn unseen(&self, found: String) -> Error {
        let levels = listed(self.levels.iter().map(String::as_str));
        Error::data(format!("{found}, expected a category seen in training: {levels}"))
            .hint("⟨unseen zeros⟩ treats unseen categories as none of the known ones")
    }
}
