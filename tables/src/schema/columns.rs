//! The meaning of columns to a model: features, target, exposure, offsets and weights, and the inputs made of them.

use super::calendar::Cycle;
use super::exposures::Censoring;
use super::groups::{GroupFormula, Grouping};
use super::places::Places;
use super::target::TargetEncoding;
use super::trees::TreeScores;
use crate::explain::{InputColumn, InputKind};
use crate::tables::read::How;
use crate::tables::reading::Readings;
use crate::tables::table::{Table, absent, listed, quoted};
use crate::tables::{Reading, TableBlocks};
use serde::{Deserialize, Serialize};
use sparsegp::error::{Error, Result};
use sparsegp::kernels::Dimension;
use sparsegp::likelihood::TargetKind;
use sparsegp::options::FitOptions;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// A column, or the two columns of a place, that a model takes as input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// The name of the column, or the names of both columns of a place with a comma between them.
    pub name: String,
    /// The meaning of the cells.
    #[serde(flatten)]
    pub kind: FeatureKind,
    /// True if training rows had missing cells. Numbers, dates and places then have the mean, and another input marks their rows; missing
    /// categories are a separate category, the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// The meaning of the cells of a feature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FeatureKind {
    /// One input: the number itself.
    Numeric,
    /// A date: the years since the first training row, and sine and cosine of the time of day, the day of the week and of the year, as far as
    /// the training rows show such periods. The trend of rows without a date is the mean trend, and their phases are 0.
    Date {
        /// The first instant of the training rows, in seconds since 1970.
        origin: f64,
        /// The periods.
        cycles: Vec<Cycle>,
    },
    /// A category. For Gaussian processes it is one input, the code of the level: levels of the training rows have the codes 0, 1, …,
    /// missing cells have the next code if training had some, and unseen levels have higher codes. For linear models it is one 0/1 input
    /// for each level except the first.
    Categorical {
        /// The categories seen in training: numbers first, in order, then text.
        levels: Vec<String>,
        /// True if the column makes one input, a code, instead of one input for each level.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        coded: bool,
        /// True if the last level stands for all values without a level of their own: the rarest ones of too many, and new ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rest: bool,
    },
    /// A place: the coordinates that [`Surface`](super::Surface) computes from two columns. The coordinates share one scale and, in kernels with a
    /// lengthscale for each input, one lengthscale.
    Place {
        /// The two columns and their surface.
        #[serde(flatten)]
        places: Places,
        /// The mean coordinates of the training rows, which stand in for a missing place.
        centre: Vec<f64>,
    },
    /// Scores that boosted trees predict from the features before it; see [`TreeScores`].
    Trees {
        /// The trees.
        scores: TreeScores,
    },
}

impl Feature {
    /// Returns true if the last of its inputs marks missing cells with 1.
    pub fn tells_missing(&self) -> bool {
        self.missing && !matches!(self.kind, FeatureKind::Categorical { coded: true, .. })
    }

    /// Returns true if cells of columns make it, and not trees.
    pub fn is_of_columns(&self) -> bool {
        !matches!(self.kind, FeatureKind::Trees { .. })
    }

    /// The names that select it in a kernel: those of its columns, or its own.
    pub(crate) fn selectors(&self) -> &[String] {
        if self.is_of_columns() { self.columns() } else { std::slice::from_ref(&self.name) }
    }

    pub(crate) fn is_categorical(&self) -> bool {
        matches!(self.kind, FeatureKind::Categorical { .. })
    }

    /// The number of codes in the training rows, if the input is a code.
    pub(crate) fn codes(&self) -> Option<usize> {
        match &self.kind {
            FeatureKind::Categorical { levels, coded: true, .. } => {
                Some(levels.len() + usize::from(self.missing))
            }
            _ => None,
        }
    }

    /// The columns that it is made of; none for trees.
    pub fn columns(&self) -> &[String] {
        match &self.kind {
            FeatureKind::Place { places, .. } => &places.columns,
            FeatureKind::Trees { .. } => &[],
            _ => std::slice::from_ref(&self.name),
        }
    }
}

/// The columns to use, and their roles.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchemaOptions {
    /// The column to predict.
    pub target: String,
    /// The features, in this order; `None` uses every column except the target, the exposure, the offsets, the weights and the
    /// excluded ones.
    pub features: Option<Vec<String>>,
    /// Columns to leave out; they may hold anything.
    pub exclude: Vec<String>,
    /// Columns of categories although they look like numbers.
    pub categorical: Vec<String>,
    /// Columns of text with ordered levels, and these levels from the lowest to the highest: the input is the number of the level, from 0.
    pub ordered: Vec<(String, Vec<String>)>,
    /// True if categories make one input for each level except the first, instead of a code. Linear models need this: their intercept
    /// represents the first level.
    pub drop_first: bool,
    /// The kind of target. `None` means counts if there is an exposure, and successes if there are trials; otherwise the values decide (see
    /// [`Schema::infer`]).
    pub target_kind: Option<TargetKind>,
    /// True if a target written as numbers is a regression target, not counts or classes, unless `target_kind` is set.
    pub numbers: bool,
    /// Like `numbers`, but numbers from 0 to 1 with a clear share of exact ends are shares, and numbers with exact zeros may be amounts.
    #[serde(skip)]
    pub continuous: bool,
    /// True if the target has classes, of any number, unless `target_kind` is set.
    pub classes: bool,
    /// With two classes, the class that is coded 1; `None` chooses one (see [`Schema::infer`]).
    pub positive_label: Option<String>,
    /// The column of exposures (time or area at risk), for a target of counts.
    pub exposure: Option<String>,
    /// The column of numbers of trials, for a target of successes; it excludes an exposure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials: Option<String>,
    /// The column of known standard errors of a target of numbers; it excludes an exposure and trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_std: Option<String>,
    /// What says which targets are censored: see [`Schema::other_ends`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub censored: Option<Censoring>,
    /// The columns of offsets, known additions to the latent functions: none, or one for each function. A column may be the offset of
    /// several functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offset: Vec<String>,
    /// The column of weights, which multiply the losses of training rows.
    pub weights: Option<String>,
    /// The column by which rows are held out, instead of at random.
    pub split: Option<SplitBy>,
    /// The two columns of a place, which make one input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
    /// Grouped effects; their groupings are inputs only if `features` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupFormula>,
    /// Columns to keep although they look like identifiers.
    pub keep: Vec<String>,
    /// The character between the columns of a CSV file; `None` detects it from the first lines.
    pub delimiter: Option<u8>,
    /// Further values that mark missing cells, in every column of a file.
    pub missing: Vec<String>,
    /// How columns of text are converted to numbers or dates, by name; `None` detects it.
    #[serde(skip)]
    pub readings: Option<Readings>,
    /// The schema of a whole table, if this table is a part of it. The schema is then used unchanged, because the part may lack categories,
    /// or suggest another kind of target.
    #[serde(skip)]
    pub known: Option<Schema>,
}

/// The column by which rows are held out, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum SplitBy {
    /// Holds out whole groups of rows with the same value; the column is an input only if `features` names it.
    Group(String),
    /// Holds out the latest rows, by a column of dates or numbers.
    Time(String),
}

impl SplitBy {
    /// The column.
    pub fn column(&self) -> &str {
        match self {
            SplitBy::Group(name) | SplitBy::Time(name) => name,
        }
    }
}

/// The treatment of a category level that training did not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnseenLevels {
    /// The level differs from all others, so predictions use only the part that all levels share, with wider intervals. If levels have
    /// separate inputs, as in linear models, all of them are zero.
    #[default]
    New,
    /// An error that names the row and the value.
    Error,
    /// Like [`UnseenLevels::New`], but all rows are predicted without grouped effects: at the mean over levels, without the variance of
    /// effects.
    Population,
}

/// The columns a model was trained on; part of the model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    pub(crate) features: Vec<Feature>,
    pub(crate) target: String,
    // Old model files, whose targets are always numbers, have none of the following fields.
    #[serde(default)]
    pub(crate) encoding: TargetEncoding,
    /// The column of exposures, of numbers of trials, or of known standard errors, as the kind of target says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exposure: Option<String>,
    /// What says which targets are censored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) censored: Option<Censoring>,
    /// The columns of offsets, one for each latent function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) offset: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weights: Option<String>,
    #[serde(default)]
    pub(crate) drop_first: bool,
    /// How columns of text are read as numbers or dates.
    #[serde(default, skip_serializing_if = "Readings::is_empty")]
    pub(crate) readings: Readings,
    /// Values that mark missing cells in files, in addition to the built-in markers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
    /// The mean of each numeric feature in training, which replaces missing cells; empty in old model files, which refuse missing cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fills: Vec<f64>,
    /// The groupings of grouped effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<Grouping>,
    /// Levels of coded columns that came with updates. Their codes follow the codes of the training levels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) later: BTreeMap<String, Vec<String>>,
}

impl Schema {
    /// Opens a file (or `-`) to read the features, the exposure, the offsets and, if the file has it, the target; other columns are skipped. Blocks have
    /// at most `block_rows` rows (0 counts as 1). The columns of a CSV file are separated by `delimiter` (`None` finds it in the first
    /// lines). The blocks have [copies](Table::copies) of the columns `copied`.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, is empty or has no readable header, or lacks a feature, the exposure or an offset, and when a column
    /// to be copied is absent or of a type that cannot be read.
    pub fn open_with(
        &self,
        path: &Path,
        block_rows: usize,
        delimiter: Option<u8>,
        copied: &[String],
    ) -> Result<TableBlocks> {
        Schema::open_all(&[self], path, block_rows, delimiter, copied)
    }

    /// Like [`Schema::open_with`], for the columns of several schemas.
    pub(crate) fn open_all(
        schemas: &[&Schema],
        path: &Path,
        block_rows: usize,
        delimiter: Option<u8>,
        copied: &[String],
    ) -> Result<TableBlocks> {
        let missing = schemas.first().map_or(&[][..], |schema| &schema.missing);
        let interval = schemas.iter().find_map(|schema| schema.interval());
        let how = How { groups: None, delimiter, copied, missing, interval };
        let used: HashSet<&str> = schemas.iter().flat_map(|schema| schema.used_names()).collect();
        let blocks = TableBlocks::new(path, block_rows, &|name| used.contains(name), how)?;
        for schema in schemas {
            schema.check_columns(blocks.source(), blocks.names().iter().map(String::as_str))?;
        }
        Ok(blocks)
    }

    /// Returns the values that mark missing cells in files, in addition to the built-in markers.
    pub fn missing_values(&self) -> &[String] {
        &self.missing
    }

    /// The features, in the order of their inputs.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Returns true if the first level of a category makes no input.
    pub fn drops_first(&self) -> bool {
        self.drop_first
    }

    /// The name of the target column.
    pub fn target_name(&self) -> &str {
        &self.target
    }

    /// Takes the kind of the target from the likelihood, which may be that of counts for whole numbers, and returns the options with its
    /// task.
    pub(crate) fn with_kind_of(&mut self, options: FitOptions) -> FitOptions {
        let kind = options.likelihood_kind().target_kind();
        if [TargetKind::Real, TargetKind::Count].contains(&self.encoding.kind) {
            self.encoding.kind = kind;
        }
        FitOptions { task: Some(kind.task()), ..options }
    }

    /// The kind of target, and the numbers that represent its cells.
    pub fn encoding(&self) -> &TargetEncoding {
        &self.encoding
    }

    /// The name of the column of exposures or, for a target of successes, of numbers of trials, where there is one.
    pub fn exposure_name(&self) -> Option<&str> {
        self.exposure.as_deref()
    }

    /// The name of the same column if it has this role: `exposure`, `trials` or `noise-std`.
    pub fn exposure_as(&self, role: &str) -> Option<&str> {
        self.exposure_name().filter(|_| self.encoding.kind().exposure() == Some(role))
    }

    /// The name of the column of weights, where there is one.
    pub fn weights_name(&self) -> Option<&str> {
        self.weights.as_deref()
    }

    /// The number of inputs, with the columns of grouped effects and of offsets.
    pub fn dims(&self) -> usize {
        self.feature_dims() + self.group_inputs().len() + self.offset.len()
    }

    /// The number of inputs of the features.
    pub fn feature_dims(&self) -> usize {
        self.features.iter().map(|feature| self.width(feature)).sum()
    }

    /// The contents of each input, such as numbers or codes; empty if all inputs are numbers.
    pub fn dimensions(&self) -> Vec<Dimension> {
        let of_feature = |feature: &Feature| match (&feature.kind, feature.codes()) {
            (_, Some(levels)) => vec![Dimension::Category { levels }],
            (FeatureKind::Place { places, .. }, None) => places
                .surface
                .dimensions()
                .chain(feature.tells_missing().then_some(Dimension::Number))
                .collect(),
            (_, None) => vec![Dimension::Number; self.width(feature)],
        };
        let all: Vec<Dimension> = self.features.iter().flat_map(of_feature).collect();
        if all.iter().any(|dimension| *dimension != Dimension::Number) { all } else { Vec::new() }
    }

    /// Returns the schema with one input for each level of a category, and without trees.
    pub(crate) fn without_codes(&self) -> Schema {
        let mut schema = self.without_trees();
        for feature in &mut schema.features {
            if let FeatureKind::Categorical { coded, .. } = &mut feature.kind {
                *coded = false;
            }
        }
        schema
    }

    /// The name of each input: the name of the column, or `column=category` if each category has an input.
    pub fn input_names(&self) -> Vec<String> {
        let mut names = Vec::with_capacity(self.dims());
        for feature in &self.features {
            let name = &feature.name;
            match &feature.kind {
                FeatureKind::Numeric | FeatureKind::Categorical { coded: true, .. } => {
                    names.push(name.clone());
                }
                FeatureKind::Date { cycles, .. } => {
                    names.push(format!("{name} (years)"));
                    for cycle in cycles {
                        let word = cycle.word();
                        names.extend(["sin", "cos"].map(|of| format!("{name} ({of} of {word})")));
                    }
                }
                FeatureKind::Place { places, .. } => names.extend(places.input_names()),
                FeatureKind::Trees { scores } => names.extend(scores.input_names(name)),
                FeatureKind::Categorical { levels, .. } => {
                    let levels = levels.iter().skip(usize::from(self.drop_first));
                    names.extend(levels.map(|level| format!("{name}={level}")));
                }
            }
            names.extend(feature.tells_missing().then(|| format!("{name} is missing")));
        }
        names.extend(self.group_inputs());
        names.extend(self.offset.iter().map(|name| format!("offset of {name}")));
        names
    }

    pub(crate) fn feature_columns(&self) -> impl Iterator<Item = &str> {
        self.features.iter().flat_map(Feature::columns).map(String::as_str)
    }

    /// The columns that predictions need, in the order of their inputs; columns of groupings only if `grouped`.
    pub(crate) fn needed_columns(&self, grouped: bool) -> Vec<&str> {
        let mut seen = HashSet::new();
        let groups = self.group_names().filter(|_| grouped);
        let offsets = self.offset.iter().map(String::as_str);
        let exposure = self.exposure.as_deref().filter(|_| self.needs_exposure());
        let all = self.feature_columns().chain(groups).chain(exposure).chain(offsets);
        all.filter(|name| seen.insert(*name)).collect()
    }

    /// Returns true if a column is a feature, the target, the exposure or an offset, which predictions and comparisons need. Only training needs
    /// weights.
    pub fn uses(&self, name: &str) -> bool {
        self.used_names().contains(name)
    }

    /// Returns all names for which [`Schema::uses`] returns true.
    pub fn used_names(&self) -> HashSet<&str> {
        let censored = self.censored.iter().flat_map(Censoring::columns).map(|(_, name)| name);
        let known = self.exposure.as_deref().into_iter().chain(censored);
        self.needed_columns(true).into_iter().chain([self.target.as_str()]).chain(known).collect()
    }

    pub(crate) fn training_names(&self) -> HashSet<&str> {
        let mut names = self.used_names();
        names.extend(self.weights.as_deref());
        names
    }

    /// Checks that a model with this schema can learn from another table: several rows, a target that is known and varies, and exposures
    /// and weights if the schema has them.
    ///
    /// # Errors
    ///
    /// As for [`Schema::infer`], and when a class or level is not one of the schema.
    pub fn check_training(&self, table: &Table) -> Result<()> {
        table.require(&self.target)?;
        check_rows(table.source(), table.rows())?;
        let read = table.read(&self.readings, &|name| name == self.target)?;
        self.encoding.check_training(&read, &self.target)?;
        self.exposure(table)?;
        self.weights(table).map(|_| ())
    }

    pub(crate) fn check_columns<'a>(
        &self,
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<()> {
        Schema::check_present(source, names, &self.needed_columns(true))
    }

    /// Checks that columns are among the names of a file's columns.
    pub(super) fn check_present<'a>(
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
        needed: &[&str],
    ) -> Result<()> {
        let present: HashSet<&str> = names.clone().collect();
        let missing: Vec<&str> = needed.iter().copied().filter(|name| !present.contains(name)).collect();
        match missing.as_slice() {
            [] => Ok(()),
            [only] => Err(absent(source, "column", only, names)),
            several => {
                let (count, absent) = (several.len(), listed(several.iter().copied()));
                Err(Error::data(format!("{source}: {count} columns the model needs are absent: {absent}"))
                    .hint(format!("the columns are {}", listed(names))))
            }
        }
    }

    /// The features, each with the inputs that it makes.
    pub(crate) fn feature_inputs(&self) -> impl Iterator<Item = (&Feature, Range<usize>)> {
        let mut from = 0;
        self.features.iter().map(move |feature| {
            let inputs = from..from + self.width(feature);
            from = inputs.end;
            (feature, inputs)
        })
    }

    /// The number of inputs that a feature makes.
    pub fn width(&self, feature: &Feature) -> usize {
        let own = match &feature.kind {
            FeatureKind::Numeric | FeatureKind::Categorical { coded: true, .. } => 1,
            FeatureKind::Date { cycles, .. } => 1 + 2 * cycles.len(),
            FeatureKind::Place { places, .. } => places.surface.dims(),
            FeatureKind::Trees { scores } => scores.count(),
            FeatureKind::Categorical { levels, .. } => {
                levels.len().saturating_sub(usize::from(self.drop_first))
            }
        };
        own + usize::from(feature.tells_missing())
    }
}

/// Refuses a table without targets, of whose `rows` rows `labelled` have one. Returns a note about rows without a target.
pub(crate) fn check_labelled(
    target: &str,
    source: &str,
    labelled: usize,
    rows: usize,
) -> Result<Option<String>> {
    let (target, missing) = (quoted(target), rows - labelled);
    if labelled == 0 && rows > 0 {
        return Err(Error::data(format!("{source}: the target {target} is missing in every row"))
            .hint("check that ⟨target⟩ names the right column"));
    }
    let note = || format!("{source}: {missing} of {rows} rows have no target {target} and are left out");
    Ok((missing > 0).then(note))
}

pub(crate) fn check_rows(source: &str, rows: usize) -> Result<()> {
    if rows < 2 {
        return Err(Error::data(format!("{source}: has {rows} row of data, expected at least 2")));
    }
    Ok(())
}

/// The columns that can never be features, each with its role: the target, the exposure, the weights and the offsets.
pub(super) fn special(options: &SchemaOptions) -> impl Iterator<Item = (&'static str, &str)> {
    let known =
        [("exposure", &options.exposure), ("trials", &options.trials), ("noise-std", &options.noise_std)];
    let known = known.into_iter().filter_map(|(role, name)| Some((role, name.as_deref()?)));
    let known = known.chain(options.censored.iter().flat_map(Censoring::columns));
    let weights = options.weights.iter().map(|name| ("weights", name.as_str()));
    // A column may be the offset of several functions.
    let offsets =
        options.offset.iter().enumerate().filter(|(at, name)| !options.offset[..*at].contains(name));
    let offsets = offsets.map(|(_, name)| ("offset", name.as_str()));
    std::iter::once(("target", options.target.as_str())).chain(known).chain(weights).chain(offsets)
}

impl Schema {
    /// Returns the columns that explanations of a model with this schema describe: one for each feature made of columns, one for each
    /// grouping, and one for each column of slopes that is not a feature.
    pub fn input_columns(&self) -> Vec<InputColumn> {
        let (of_f, slopes) = (self.feature_dims(), self.slope_columns());
        let slope = |name: &str| {
            slopes.iter().position(|slope| *slope == name).map(|at| of_f + self.groups().len() + at)
        };
        let column = |(feature, inputs): (&Feature, Range<usize>)| {
            let kind = match &feature.kind {
                FeatureKind::Numeric | FeatureKind::Trees { .. } => InputKind::Number,
                FeatureKind::Date { .. } => InputKind::Date,
                FeatureKind::Place { .. } => InputKind::Place,
                FeatureKind::Categorical { levels, coded, .. } => {
                    let missing = feature.missing.then(|| "(missing)".to_owned());
                    let names = levels.iter().cloned().chain(missing).collect();
                    match coded {
                        true => InputKind::Codes { names },
                        false => InputKind::Categories { names, first_is_none: self.drops_first() },
                    }
                }
            };
            InputColumn { name: feature.name.clone(), inputs, slope: slope(&feature.name), kind }
        };
        let own = self.feature_inputs().filter(|(feature, _)| feature.is_of_columns());
        let mut columns: Vec<InputColumn> = own.map(column).collect();
        let grouping = |(at, group): (usize, &Grouping)| {
            let (inputs, names) = (of_f + at..of_f + at + 1, group.level_names().collect());
            InputColumn { name: group.name(), inputs, slope: None, kind: InputKind::Codes { names } }
        };
        let alone = |name: &&str| columns.iter().all(|column| column.name != *name);
        let alone: Vec<InputColumn> = slopes
            .iter()
            .filter(|name| alone(name))
            .filter_map(|name| Some(InputColumn::number(name, slope(name)?)))
            .collect();
        columns.extend(self.groups().iter().enumerate().map(grouping));
        columns.extend(alone);
        columns
    }

    /// The levels of a column of ordered levels, lowest first; its input is the position of the level.
    pub fn ordered_levels(&self, name: &str) -> Option<&[String]> {
        match self.readings.get(name)? {
            Reading::Ordered { levels, .. } => Some(levels),
            Reading::Number { .. } | Reading::Date { .. } => None,
        }
    }
}
