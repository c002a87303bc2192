//! What each column means to a model: features, categories and the target, and the inputs they make; no scaling.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use faer::Mat;
use serde::{Deserialize, Serialize};

use super::column::{Column, TextColumn, number_text};
use super::table::{Table, absent, listed, quoted, shown};
use crate::error::{Error, Result};

/// The most categories of one column; more are almost surely an identifier, and each would be an input.
const MOST_LEVELS: usize = 1000;

/// The range of a target's absolute values and spread whose squares a 64-bit float can hold.
const TARGET_RANGE: std::ops::RangeInclusive<f64> = 1e-150..=1e150;

/// A column that a model takes as input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Feature {
    /// One input: the number itself.
    Numeric {
        /// The name of the column.
        name: String,
    },
    /// One input per category, 1 where the row has it and 0 elsewhere.
    Categorical {
        /// The name of the column.
        name: String,
        /// The categories seen in training: numbers first, in order, then text.
        levels: Vec<String>,
    },
}

impl Feature {
    /// The name of the column.
    pub fn name(&self) -> &str {
        match self {
            Feature::Numeric { name } | Feature::Categorical { name, .. } => name,
        }
    }
}

/// Which columns to use and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchemaOptions {
    /// The column to predict.
    pub target: String,
    /// The features, in this order; `None` takes every column but the target and the excluded ones.
    pub features: Option<Vec<String>>,
    /// Columns to leave out; they may hold anything.
    pub exclude: Vec<String>,
    /// Columns of categories although they look like numbers.
    pub categorical: Vec<String>,
    /// Whether the first category makes no input (for models with an intercept and no prior to share it).
    pub drop_first: bool,
}

/// What to do with a category that training did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnseenLevels {
    /// An error that names the row and the value.
    Error,
    /// All inputs of the column are zero.
    Zeros,
}

/// The columns a model was trained on; part of the model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    features: Vec<Feature>,
    target: String,
    drop_first: bool,
}

impl Schema {
    /// Finds the features of a training table and checks that it can be learned from.
    ///
    /// A column of numbers (or of `true` and `false`) is numeric and a column of text is categorical. A column that
    /// mixes both is categorical when it is declared so or when less than half of its values are numbers; otherwise the
    /// text is taken for a mistake in a numeric column, and its first row is reported.
    ///
    /// Returns the schema, and warnings about columns that can be used but look wrong.
    ///
    /// # Errors
    ///
    /// When the target or another named column is absent, no feature is left, a column holds what it cannot hold, there
    /// is only one row, or the target is missing, infinite, constant, or too large or small to be squared.
    pub fn infer(table: &Table, options: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
        check_options(table, options)?;
        let names: Vec<&str> = match &options.features {
            Some(features) => features.iter().map(String::as_str).collect(),
            None => table.columns().iter().map(|named| named.name.as_str()).collect(),
        };
        let used = names.into_iter().filter(|&name| {
            name != options.target && !options.exclude.iter().any(|excluded| excluded == name)
        });
        let mut features = Vec::new();
        let mut warnings = Vec::new();
        for name in used {
            let declared = options.categorical.iter().any(|categorical| categorical == name);
            features.push(infer_feature(table, name, declared, &mut warnings)?);
        }
        if features.is_empty() {
            return Err(Error::data(format!(
                "{}: no feature is left besides the target {}",
                table.source(),
                quoted(&options.target)
            ))
            .hint("exclude fewer columns, or name features with --features"));
        }
        let schema = Schema { features, target: options.target.clone(), drop_first: options.drop_first };
        check_target(table, &schema.target)?;
        Ok((schema, warnings))
    }

    /// The features, in the order of their inputs.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The name of the target column.
    pub fn target_name(&self) -> &str {
        &self.target
    }

    /// The number of inputs D.
    pub fn dims(&self) -> usize {
        self.features.iter().map(|feature| self.width(feature)).sum()
    }

    /// The name of each input: the column's, or `column=category`.
    pub fn input_names(&self) -> Vec<String> {
        let mut names = Vec::with_capacity(self.dims());
        for feature in &self.features {
            match feature {
                Feature::Numeric { name } => names.push(name.clone()),
                Feature::Categorical { name, levels } => {
                    let levels = levels.iter().skip(self.first_level());
                    names.extend(levels.map(|level| format!("{name}={level}")));
                }
            }
        }
        names
    }

    /// Whether a column is a feature or the target.
    pub fn uses(&self, name: &str) -> bool {
        name == self.target || self.features.iter().any(|feature| feature.name() == name)
    }

    /// The inputs of a table, D × N with one contiguous column per row of data. Columns are matched by name, in any order;
    /// others are ignored.
    ///
    /// # Errors
    ///
    /// When a feature's column is absent, or a cell in it is missing, infinite, text where a number is expected, or a
    /// category not seen in training (with [`UnseenLevels::Error`]).
    pub fn design(&self, table: &Table, unseen: UnseenLevels) -> Result<Mat<f64>> {
        self.check_features(table.source(), table.columns().iter().map(|named| named.name.as_str()))?;
        let mut inputs = Vec::with_capacity(self.features.len());
        let mut offset = 0;
        for feature in &self.features {
            inputs.push((offset, Input::new(table, feature)?));
            offset += self.width(feature);
        }
        let mut design = Mat::zeros(offset, table.rows());
        for row in 0..table.rows() {
            let column = design.col_as_slice_mut(row);
            for (offset, input) in &inputs {
                match input {
                    Input::Number { name, values } => {
                        column[*offset] = table.finite(row, name, values[row])?
                    }
                    Input::Category(input) => {
                        if let Some(level) = input.level(table, row, unseen)?
                            && let Some(level) = level.checked_sub(self.first_level())
                        {
                            column[offset + level] = 1.0;
                        }
                    }
                }
            }
        }
        Ok(design)
    }

    /// The target of each row, or `None` when the table has no such column.
    ///
    /// # Errors
    ///
    /// When a value is missing, infinite or text.
    pub fn target(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        let Some(values) = self.target_where_known(table)? else { return Ok(None) };
        match values.iter().position(|value| value.is_nan()) {
            Some(row) => Err(table.missing(row, &self.target)),
            None => Ok(Some(values)),
        }
    }

    /// The target of each row, NaN where it is missing (rows to predict), or `None` when the table has no such column.
    ///
    /// # Errors
    ///
    /// When a value is infinite or text.
    pub fn target_where_known(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        if table.column(&self.target).is_none() {
            return Ok(None);
        }
        let values = table.numbers(&self.target)?;
        if let Some(row) = values.iter().position(|value| value.is_infinite()) {
            table.finite(row, &self.target, values[row])?;
        }
        Ok(Some(values.into_owned()))
    }

    /// Checks that every feature is among the names of a file's columns.
    pub(crate) fn check_features<'a>(
        &self,
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<()> {
        let present: HashSet<&str> = names.clone().collect();
        let missing: Vec<&str> =
            self.features.iter().map(Feature::name).filter(|name| !present.contains(name)).collect();
        match missing.as_slice() {
            [] => Ok(()),
            [only] => Err(absent(source, "column", only, names)),
            several => Err(Error::data(format!(
                "{source}: {} columns the model needs are absent: {}",
                several.len(),
                listed(several.iter().copied())
            ))
            .hint(format!("the columns are {}", listed(names)))),
        }
    }

    /// The first category that makes an input.
    fn first_level(&self) -> usize {
        usize::from(self.drop_first)
    }

    fn width(&self, feature: &Feature) -> usize {
        match feature {
            Feature::Numeric { .. } => 1,
            Feature::Categorical { levels, .. } => levels.len().saturating_sub(self.first_level()),
        }
    }
}

/// Checks that every column an option names is there, and that the options do not contradict each other.
fn check_options(table: &Table, options: &SchemaOptions) -> Result<()> {
    table.require(&options.target)?;
    let features = options.features.as_deref().unwrap_or_default();
    for name in features.iter().chain(&options.exclude).chain(&options.categorical) {
        table.require(name)?;
    }
    if features.contains(&options.target) {
        return Err(Error::usage(format!("the target {} cannot be a feature too", quoted(&options.target))));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = features.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(Error::usage(format!("the feature {} is given twice", quoted(twice))));
    }
    if table.rows() < 2 {
        return Err(Error::data(format!(
            "{}: has {} row of data, expected at least 2",
            table.source(),
            table.rows()
        )));
    }
    Ok(())
}

/// Checks that the target varies and that its variance can be represented.
fn check_target(table: &Table, name: &str) -> Result<()> {
    let values = table.numbers(name)?;
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (row, &value) in values.iter().enumerate() {
        let value = table.finite(row, name, value)?;
        (low, high) = (low.min(value), high.max(value));
    }
    let column = format!("{}: the target {}", table.source(), quoted(name));
    if low == high {
        return Err(Error::data(format!(
            "{column} is {} in every row, expected values that vary",
            number_text(low)
        ))
        .hint("a constant needs no model; check that --target names the right column"));
    }
    // Its variance and squared errors are reported in its own units and must be representable there.
    if low.abs().max(high.abs()) > *TARGET_RANGE.end() || high - low < *TARGET_RANGE.start() {
        return Err(Error::data(format!(
            "{column} ranges from {low:e} to {high:e}, whose squares a 64-bit float cannot hold"
        ))
        .hint("rescale the target by a power of ten"));
    }
    Ok(())
}

/// The meaning of one column; see [`Schema::infer`] for the rule.
fn infer_feature(table: &Table, name: &str, declared: bool, warnings: &mut Vec<String>) -> Result<Feature> {
    let levels = match table.require(name)? {
        Column::Unsupported { data_type, .. } => return Err(table.unsupported(name, data_type)),
        Column::Number(values) if declared => distinct_numbers(values),
        Column::Text(text) if declared => text.levels().to_vec(),
        Column::Text(text) if text.as_booleans().is_none() => {
            if text.numbers() * 2 >= text.present() {
                return Err(table.not_a_number(name, text).hint(format!(
                    "correct or remove the row; if the column holds categories, say --categorical {name}"
                )));
            }
            text.levels().to_vec()
        }
        Column::Number(_) | Column::Text(_) => return Ok(Feature::Numeric { name: name.to_owned() }),
    };
    categorical(table, name, levels, warnings)
}

fn categorical(
    table: &Table,
    name: &str,
    mut levels: Vec<String>,
    warnings: &mut Vec<String>,
) -> Result<Feature> {
    let column = format!("{}: column {}", table.source(), quoted(name));
    if levels.len() > MOST_LEVELS {
        return Err(Error::data(format!(
            "{column} has {} categories, expected at most {MOST_LEVELS}",
            levels.len()
        ))
        .hint(format!("leave it out with --exclude {name}, or group rare categories into one")));
    }
    if levels.len() > 2 && levels.len() == table.rows() {
        warnings.push(format!("{column} has a different category in every row; it is likely an identifier"));
    }
    if let Some(level) = levels.iter().find(|level| level.contains('\n')) {
        warnings.push(format!("{column} has a category of several lines, {}", shown(level)));
    }
    levels.sort_by(|a, b| level_order(a, b));
    Ok(Feature::Categorical { name: name.to_owned(), levels })
}

/// The categories of a column of numbers; missing cells are none.
fn distinct_numbers(values: &[f64]) -> Vec<String> {
    let mut distinct: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    distinct.into_iter().map(|value| number_text(value).into_owned()).collect()
}

/// Numbers by value, before text by its characters.
fn level_order(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// How one feature is read from a table.
enum Input<'a> {
    Number { name: &'a str, values: Cow<'a, [f64]> },
    Category(CategoryInput<'a>),
}

impl<'a> Input<'a> {
    fn new(table: &'a Table, feature: &'a Feature) -> Result<Input<'a>> {
        match feature {
            Feature::Numeric { name } => Ok(Input::Number { name, values: table.numbers(name)? }),
            Feature::Categorical { name, levels } => {
                let cells = Cells::new(table, name, levels)?;
                Ok(Input::Category(CategoryInput { name, levels, cells }))
            }
        }
    }
}

/// How a categorical feature is read from a table.
struct CategoryInput<'a> {
    name: &'a str,
    levels: &'a [String],
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
                let of_code = text.levels().iter().map(|level| index.get(level.as_str()).copied());
                Ok(Cells::Text { text, of_code: of_code.collect() })
            }
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
            Cells::Text { text, of_code } => {
                let Some(code) = text.code(row) else { return Err(table.missing(row, self.name)) };
                (of_code[code], Cow::Borrowed(text.get(row).unwrap_or_default()))
            }
            Cells::Numbers { values, of_bits } if values[row].is_nan() => {
                return Err(table.missing(row, self.name));
            }
            Cells::Numbers { values, of_bits } => match of_bits.get(&bits(values[row])) {
                Some(&level) => (Some(level), Cow::Borrowed("")),
                None => (None, number_text(values[row])),
            },
        };
        if level.is_some() || unseen == UnseenLevels::Zeros {
            return Ok(level);
        }
        Err(Error::data(format!(
            "{}: found {}, expected a category seen in training: {}",
            table.place(row, self.name),
            shown(&value),
            listed(self.levels.iter().map(String::as_str))
        ))
        .hint("--unseen zeros treats unseen categories as none of the known ones"))
    }
}
