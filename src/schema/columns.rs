//! What each column means to a model: features, target, exposure and weights, and the inputs they make; no scaling.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use faer::Mat;
use serde::{Deserialize, Serialize};

use super::facts::{Positive, TableFacts};
use super::target::TargetEncoding;
use crate::error::{Error, Result};
use crate::likelihood::TargetKind;
use crate::tables::TableBlocks;
use crate::tables::column::{Column, TextColumn, number_text};
use crate::tables::table::{Table, absent, listed, quoted, shown};

/// A column that a model takes as input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Feature {
    /// One input: the number itself.
    Numeric {
        /// The name of the column.
        name: String,
    },
    /// One input per category, 1 where the row has it and 0 elsewhere; for linear models all but the first category.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchemaOptions {
    /// The column to predict.
    pub target: String,
    /// The features, in this order; `None` takes every column but the target, the exposure, the weights and the excluded
    /// ones.
    pub features: Option<Vec<String>>,
    /// Columns to leave out; they may hold anything.
    pub exclude: Vec<String>,
    /// Columns of categories although they look like numbers.
    pub categorical: Vec<String>,
    /// Whether the first category makes no input (for linear models, whose intercept stands for it).
    pub drop_first: bool,
    /// The kind of target; `None` takes counts where there is an exposure, and else finds it by the values (see [`TargetEncoding::infer`]).
    pub target_kind: Option<TargetKind>,
    /// Whether a target that is written as numbers is one of numbers, not of counts or classes, where no kind is asked for.
    pub numbers: bool,
    /// The class of a target of two classes that is coded 1; `None` chooses (see [`TargetEncoding::infer`]).
    pub positive_label: Option<String>,
    /// The column of exposures (time or area at risk), for a target of counts.
    pub exposure: Option<String>,
    /// The column of weights, which say how much each training row counts.
    pub weights: Option<String>,
    /// The schema of a table that this one is a part of, to be used as it is: a part need not have every category, or the
    /// kind of target by its values, that the whole has.
    #[serde(skip)]
    pub known: Option<Schema>,
}

/// What to do with a category that training did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnseenLevels {
    /// An error that names the row and the value.
    Error,
    /// All inputs of the column are zero.
    Zeros,
}

/// The columns a model was trained on; part of the model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    pub(crate) features: Vec<Feature>,
    pub(crate) target: String,
    // Model files of before there were other targets than numbers hold none of the following.
    #[serde(default)]
    pub(crate) encoding: TargetEncoding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weights: Option<String>,
    #[serde(default)]
    pub(crate) drop_first: bool,
}

impl Schema {
    /// Opens a file (or `-`) to read the features and the exposure, the target too where the file has one; other columns are
    /// skipped. Blocks have at most `block_rows` rows (0 counts as 1).
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is empty or has no readable header, or lacks a feature or the exposure.
    pub fn open(&self, path: &Path, block_rows: usize) -> Result<TableBlocks> {
        let blocks = TableBlocks::new(path, block_rows, &|name| self.uses(name), None)?;
        self.check_columns(blocks.source(), blocks.names().iter().map(String::as_str))?;
        Ok(blocks)
    }

    /// Finds the features of a training table and checks that it can be learned from.
    ///
    /// A column of numbers (or of `true` and `false`) is numeric and a column of text is categorical. A column that
    /// mixes both is categorical when it is declared so or when less than half of its values are numbers; otherwise the
    /// text is taken for a mistake in a numeric column, and its first row is reported.
    ///
    /// The kind of target is found as [`TargetEncoding::infer`] says where none is asked for.
    ///
    /// Returns the schema, and warnings about columns that can be used but look wrong.
    ///
    /// # Errors
    ///
    /// When the target or another named column is absent, no feature is left, a column holds what it cannot hold, there
    /// is only one row, or the target cannot be learned from (see [`TargetEncoding::infer`]). Usage errors when a column
    /// would be two things, or an exposure is given for a target that is not a count.
    pub fn infer(table: &Table, options: &SchemaOptions) -> Result<(Schema, Vec<String>)> {
        if let Some(known) = &options.known {
            known.check_training(table)?;
            return Ok((known.clone(), Vec::new()));
        }
        let names = table.columns().iter().map(|named| named.name.as_str());
        let mut facts = TableFacts::new(table.source(), names, &|name| options.demand(name));
        facts.push(table, None);
        Schema::of_facts(&facts, options)
    }

    /// The features, in the order of their inputs.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Whether the first category of a column makes no input.
    pub fn drops_first(&self) -> bool {
        self.drop_first
    }

    /// The name of the target column.
    pub fn target_name(&self) -> &str {
        &self.target
    }

    /// The kind of target, and the number that each of its cells stands for.
    pub fn encoding(&self) -> &TargetEncoding {
        &self.encoding
    }

    /// The name of the column of exposures, where there is one.
    pub fn exposure_name(&self) -> Option<&str> {
        self.exposure.as_deref()
    }

    /// The name of the column of weights, where there is one.
    pub fn weights_name(&self) -> Option<&str> {
        self.weights.as_deref()
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

    /// Whether a column is a feature, the target or the exposure: what predicting and comparing look at. Weights are for
    /// training alone.
    pub fn uses(&self, name: &str) -> bool {
        name == self.target
            || self.exposure.as_deref() == Some(name)
            || self.features.iter().any(|feature| feature.name() == name)
    }

    /// Whether training looks at a column.
    pub(crate) fn trains_on(&self, name: &str) -> bool {
        self.uses(name) || self.weights.as_deref() == Some(name)
    }

    /// The inputs of a table, `n × D`, a row per row of the table. Columns are matched by name, in any order;
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
        let mut design = Mat::zeros(table.rows(), offset);
        for row in 0..table.rows() {
            for (offset, input) in &inputs {
                match input {
                    Input::Number { name, values } => {
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

    /// The target of each row as a number (see [`TargetEncoding::encode`]), or `None` when the table has no such column.
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
        self.encoding.encode(table, &self.target).map(Some)
    }

    /// The exposure of each row, or `None` when the model has none.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0.
    pub fn exposure(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        self.exposure.as_ref().map(|name| positive_numbers(table, name, Positive::Exposure)).transpose()
    }

    /// The weight of each row, or `None` when the model has none.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0.
    pub fn weights(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        self.weights.as_ref().map(|name| positive_numbers(table, name, Positive::Weight)).transpose()
    }

    /// Checks that a table other than the one of the schema can be learned from: several rows, a target that is known and
    /// varies, and exposures and weights where the schema has them.
    ///
    /// # Errors
    ///
    /// As for [`Schema::infer`], and when a class or level is not one of the schema.
    pub fn check_training(&self, table: &Table) -> Result<()> {
        table.require(&self.target)?;
        check_rows(table.source(), table.rows())?;
        self.encoding.check_training(table, &self.target)?;
        self.exposure(table)?;
        self.weights(table).map(|_| ())
    }

    pub(crate) fn check_exposure_kind(&self) -> Result<()> {
        match (&self.exposure, self.encoding.kind()) {
            (None, _) | (Some(_), TargetKind::Count) => Ok(()),
            (Some(exposure), kind) => Err(Error::usage(format!(
                "the exposure {} is for a target of counts, the target {} is of kind {kind}",
                quoted(exposure),
                quoted(&self.target)
            ))
            .hint("ask for a likelihood of counts, or leave the exposure out")),
        }
    }

    /// Checks that every feature, and the exposure, is among the names of a file's columns.
    pub(crate) fn check_columns<'a>(
        &self,
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<()> {
        self.check_features(source, names.clone())?;
        match &self.exposure {
            Some(exposure) if !names.clone().any(|name| name == exposure) => {
                Err(absent(source, "column", exposure, names))
            }
            _ => Ok(()),
        }
    }

    /// Checks that every feature is among the names of a file's columns.
    fn check_features<'a>(&self, source: &str, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
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
    pub(crate) fn first_level(&self) -> usize {
        usize::from(self.drop_first)
    }

    fn width(&self, feature: &Feature) -> usize {
        match feature {
            Feature::Numeric { .. } => 1,
            Feature::Categorical { levels, .. } => levels.len().saturating_sub(self.first_level()),
        }
    }
}

pub(crate) fn check_rows(source: &str, rows: usize) -> Result<()> {
    if rows < 2 {
        return Err(Error::data(format!("{source}: has {rows} row of data, expected at least 2")));
    }
    Ok(())
}

/// The values of a column of which every one is above 0.
fn positive_numbers(table: &Table, name: &str, positive: Positive) -> Result<Vec<f64>> {
    let values = table.numbers(name)?;
    for (row, &value) in values.iter().enumerate() {
        positive.check(table, row, name, value)?;
    }
    Ok(values.into_owned())
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
        .hint("⟨unseen zeros⟩ treats unseen categories as none of the known ones"))
    }
}
