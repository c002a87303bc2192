//! Converts the cells of a table into the numbers of a model by a schema: inputs, target, exposure
//! and weights.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use faer::{Mat, MatRef, RowMut};

use super::calendar::{Cycle, years};
use super::check::folded;
use super::columns::{Feature, Schema, UnseenLevels};
use super::facts::{Demand, Positive};
use super::place_facts::PlaceCells;
use super::places::gaps;
use super::table_facts::TableFacts;
use crate::tables::column::{Column, TextColumn, number_text};
use crate::tables::marker::long_whole;
use crate::tables::table::{Table, listed, quoted, shown};
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};

impl Schema {
    /// Returns the inputs of a table, `n × D`, one row for each row of the table. Columns are matched by
    /// name, in any order; others are ignored. A missing number is replaced by the mean in training. Missing
    /// text is a level if training had missing cells, otherwise an unseen level. Different unseen levels have
    /// different codes within a table.
    ///
    /// # Errors
    ///
    /// If a feature's column is absent, or a cell in it is infinite, text where a number is expected, or a
    /// category not seen in training (with [`UnseenLevels::Error`]). A missing number is an error if the
    /// model file is too old to hold means.
    pub fn design(&self, table: &Table, unseen: UnseenLevels) -> Result<Mat<f64>> {
        let names = self.training_names();
        let table = &*table.read(&self.readings, &|name| names.contains(name))?;
        let present = table.columns().iter().map(|named| named.name.as_str());
        match unseen {
            UnseenLevels::Population => self.without_groups().check_features(table.source(), present)?,
            UnseenLevels::New | UnseenLevels::Error => self.check_features(table.source(), present)?,
        }
        let mut inputs = Vec::with_capacity(self.features.len());
        for (index, (feature, own)) in self.feature_inputs().enumerate() {
            let marker = feature.tells_missing().then(|| own.end - 1);
            inputs.push((own.start, marker, self.input(table, feature, self.fills.get(index).copied())?));
        }
        let mut design = Mat::zeros(table.rows(), self.dims());
        for row in 0..table.rows() {
            for (offset, marker, input) in &inputs {
                let values = design.as_mut().row_mut(row).split_at_col_mut(*offset).1;
                if let (true, Some(marker)) = (input.write(table, row, unseen, values)?, marker) {
                    design[(row, *marker)] = 1.0;
                }
            }
        }
        self.write_groups(table, unseen, &mut design)?;
        Ok(design)
    }

    /// Returns the inputs `x` (`n × D`) of these columns, with codes replaced by one input for each level.
    pub(crate) fn spread_codes(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        let columns: Vec<(usize, Option<usize>)> = self
            .features
            .iter()
            .flat_map(|feature| match feature.codes() {
                Some(codes) => (0..codes).map(Some).collect(),
                None => vec![None; self.width(feature)],
            })
            .scan(0, |next, level: Option<usize>| {
                // All levels of a category read one input.
                let at = match level {
                    None | Some(0) => std::mem::replace(next, *next + 1),
                    Some(_) => *next - 1,
                };
                Some((at, level))
            })
            .chain((self.feature_dims()..x.ncols()).map(|of_groups| (of_groups, None)))
            .collect();
        Mat::from_fn(x.nrows(), columns.len(), |row, column| match columns[column] {
            (input, None) => x[(row, input)],
            (input, Some(level)) => f64::from(x[(row, input)] == level as f64),
        })
    }

    /// The columns of categories in which a table has levels that training did not see, or missing cells where training had none.
    ///
    /// # Errors
    ///
    /// As for [`Schema::design`].
    pub fn unseen_levels(&self, table: &Table) -> Result<Vec<UnseenColumn>> {
        let table = &*table.read(&self.readings, &|name| self.uses(name))?;
        let mut found = Vec::new();
        for feature in self.features.iter().filter(|feature| matches!(feature, Feature::Categorical { .. })) {
            let Input::Category(input) = self.input(table, feature, None)? else { continue };
            let mut unseen = UnseenColumn { column: input.name.to_owned(), rows: 0, levels: Vec::new() };
            for row in 0..table.rows() {
                if input.level(table, row, UnseenLevels::New)? < input.seen() {
                    continue;
                }
                unseen.rows += 1;
                let level = input.cell(row).map_or_else(|| MISSING.to_owned(), Cow::into_owned);
                unseen.add(level);
            }
            found.extend(Some(unseen).filter(|unseen| unseen.rows > 0));
        }
        found.extend(self.unseen_groups(table)?);
        Ok(found)
    }

    /// Returns the schema after an update with the rows of a table. It stores the new levels of these rows with their codes: later rows
    /// with the same level count as equal, and rows with other new levels as different.
    pub(crate) fn after(&self, table: &Table) -> Result<Schema> {
        let mut schema = self.clone();
        let coded: Vec<&Feature> = self.features.iter().filter(|feature| feature.codes().is_some()).collect();
        let table =
            &*table.read(&self.readings, &|name| coded.iter().any(|feature| feature.name() == name))?;
        for feature in coded {
            let Input::Category(input) = self.input(table, feature, None)? else { continue };
            let mut new = BTreeMap::new();
            for row in 0..table.rows() {
                let code = input.level(table, row, UnseenLevels::New)?;
                if let Some(cell) = input.cell(row).filter(|_| code >= input.seen()) {
                    new.entry(code).or_insert_with(|| cell.into_owned());
                }
            }
            if !new.is_empty() {
                schema.later.entry(input.name.to_owned()).or_default().extend(new.into_values());
            }
        }
        Ok(schema)
    }

    /// Prepares to read a feature from a table; `fill` replaces missing numbers.
    fn input<'a>(&'a self, table: &'a Table, feature: &'a Feature, fill: Option<f64>) -> Result<Input<'a>> {
        match feature {
            Feature::Numeric { name, .. } => Ok(Input::Number { name, values: table.numbers(name)?, fill }),
            Feature::Date { name, origin, cycles, .. } => {
                let values = dates(table, name)?;
                let fill = fill.unwrap_or(*origin);
                Ok(Input::Time { values, origin: *origin, cycles, fill })
            }
            Feature::Place { columns, surface, centre, .. } => {
                Ok(Input::Place { cells: PlaceCells::of(table, columns, *surface)?, centre })
            }
            Feature::Categorical { name, levels, missing, coded, rest } => {
                let later = self.later.get(name).map_or(&[][..], Vec::as_slice);
                let later_from = levels.len() + usize::from(*missing);
                let codes = levels.iter().enumerate().map(|(code, level)| (level.as_str(), code));
                let codes: Vec<(&str, usize)> =
                    codes.chain(later.iter().map(String::as_str).zip(later_from..)).collect();
                let others = rest.then(|| levels.len().saturating_sub(1));
                let cells = Cells::new(table, name, &codes, others, later_from + later.len())?;
                Ok(Input::Category(CategoryInput {
                    name,
                    levels,
                    first_level: self.first_level(),
                    later: later.len(),
                    missing: *missing,
                    coded: *coded,
                    cells,
                }))
            }
        }
    }

    /// Sets the parts of a schema that depend on the training rows alone, after a whole table was examined: the means that replace missing
    /// cells and, unless every part of the table must have the same inputs (`whole`), the columns with an input for missing cells.
    pub(crate) fn settle(&mut self, table: &Table, train: &[usize], whole: bool) -> Result<()> {
        let is_settled = |feature: &Feature| {
            feature.tells_missing() || matches!(feature, Feature::Date { .. } | Feature::Place { .. })
        };
        let settled: HashSet<&str> = self
            .features
            .iter()
            .filter(|feature| is_settled(feature))
            .flat_map(Feature::columns)
            .map(String::as_str)
            .collect();
        let names = table.columns().iter().map(|named| named.name.as_str());
        let demand = |name: &str| settled.contains(name).then_some(Demand::None);
        let mut facts = TableFacts::new(table.source(), names, &demand).with_places(self.places().as_ref());
        let mut training = vec![false; table.rows()];
        train.iter().for_each(|&row| training[row] = true);
        facts.push(table, Some(&training));
        self.fills.resize(self.features.len(), 0.0);
        for (feature, fill) in self.features.iter_mut().zip(&mut self.fills) {
            if !is_settled(feature) {
                continue;
            }
            let marked = whole || gaps(&facts, feature)?.1 > 0;
            match feature {
                Feature::Numeric { name, missing } => {
                    *fill = facts.require(name)?.affine().shift;
                    *missing &= marked;
                }
                Feature::Date { name, origin, cycles, missing } => {
                    let calendar = facts.require(name)?.calendar.clone().unwrap_or_default();
                    (*fill, *origin) = (calendar.mean(), calendar.origin());
                    if !whole {
                        *cycles = calendar.cycles();
                    }
                    *missing &= marked;
                }
                Feature::Place { centre, missing, .. } => {
                    *centre = facts.require_place()?.centre();
                    *missing &= marked;
                }
                Feature::Categorical { missing, .. } => *missing &= marked,
            }
        }
        Ok(())
    }

    /// Sets the mean of each numeric feature from the scaling of the training rows.
    pub(crate) fn take_means(&mut self, scaling: &Scaling) {
        let mut fills = std::mem::take(&mut self.fills);
        for (fill, (feature, inputs)) in fills.iter_mut().zip(self.feature_inputs()) {
            if let (Feature::Numeric { .. }, Some(affine)) = (feature, scaling.inputs.get(inputs.start)) {
                *fill = affine.shift;
            }
        }
        self.fills = fills;
    }

    /// Returns the numeric features without missing cells in training that have missing cells in a table, with their number. The mean
    /// replaces these cells, and no input marks them.
    pub fn silent_gaps<'a>(&'a self, table: &Table) -> Vec<(&'a str, usize)> {
        let is_silent =
            |feature: &&Feature| !matches!(feature, Feature::Categorical { .. }) && !feature.tells_missing();
        let numbers = self.features.iter().filter(is_silent);
        let gaps = numbers.map(|feature| {
            let columns = feature.columns().iter().filter_map(|name| table.column(name));
            let lacking: Vec<_> = columns.map(Column::lacking).collect();
            (feature.name(), (0..table.rows()).filter(|&row| lacking.iter().any(|lacks| lacks(row))).count())
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

    /// Like [`Schema::target`], but missing targets (rows to predict) are NaN. Returns `None` if the table
    /// has no target column.
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

    /// Returns the values of a column, which must all be above 0.
    fn positive_numbers(&self, table: &Table, name: &str, positive: Positive) -> Result<Vec<f64>> {
        let table = table.read(&self.readings, &|column| column == name)?;
        let values = table.numbers(name)?;
        for (row, &value) in values.iter().enumerate() {
            positive.check(&table, row, name, value)?;
        }
        Ok(values.into_owned())
    }
}

/// Returns the instants of a column of dates. Without a cell that has a value, as in a block of a file, nothing shows that a column holds
/// dates.
fn dates<'a>(table: &'a Table, name: &str) -> Result<&'a [f64]> {
    match table.require(name)? {
        Column::Time(values) => Ok(values),
        Column::Number(values) if values.iter().all(|value| value.is_nan()) => Ok(values),
        _ => Err(Error::data(format!(
            "{}: column {} holds no dates, expected dates as in training",
            table.source(),
            quoted(name)
        ))),
    }
}

/// The reader of one feature of a table.
enum Input<'a> {
    Number { name: &'a str, values: Cow<'a, [f64]>, fill: Option<f64> },
    Time { values: &'a [f64], origin: f64, cycles: &'a [Cycle], fill: f64 },
    Place { cells: PlaceCells<'a>, centre: &'a [f64] },
    Category(CategoryInput<'a>),
}

impl Input<'_> {
    /// Writes the numbers of a row to the front of `values`, which must be 0. Returns true if the mean stands for a missing cell.
    fn write(
        &self,
        table: &Table,
        row: usize,
        unseen: UnseenLevels,
        mut values: RowMut<'_, f64>,
    ) -> Result<bool> {
        match self {
            Input::Number { values: cells, fill: Some(fill), .. } if cells[row].is_nan() => {
                values[0] = *fill;
                return Ok(true);
            }
            Input::Number { name, values: cells, .. } => values[0] = table.finite(row, name, cells[row])?,
            Input::Time { values: cells, origin, cycles, fill } => {
                let gap = cells[row].is_nan();
                let seconds = if gap { *fill } else { cells[row] };
                values[0] = years(*origin, seconds);
                let phases = cycles.iter().flat_map(|cycle| cycle.phase(seconds));
                for (phase, at) in phases.zip(1..) {
                    values[at] = if gap { 0.0 } else { phase };
                }
                return Ok(gap);
            }
            Input::Place { cells, centre } => {
                let place = cells.at(table, row)?;
                let coordinates = place.as_ref().map_or(*centre, |place| &place[..centre.len()]);
                for (at, &coordinate) in coordinates.iter().enumerate() {
                    values[at] = coordinate;
                }
                return Ok(place.is_none());
            }
            Input::Category(input) => {
                let level = input.level(table, row, unseen)?;
                if input.coded {
                    values[0] = level as f64;
                } else if level < input.known()
                    && let Some(level) = level.checked_sub(input.first_level)
                {
                    values[level] = 1.0;
                }
            }
        }
        Ok(false)
    }
}

/// The reader of a categorical feature of a table.
struct CategoryInput<'a> {
    name: &'a str,
    levels: &'a [String],
    /// The first level that has a separate input.
    first_level: usize,
    /// The number of levels that updates have added.
    later: usize,
    missing: bool,
    coded: bool,
    cells: Cells<'a>,
}

/// The cells of a categorical feature, with the code of each distinct value. The codes of values that occur neither in training nor in
/// updates follow all others.
enum Cells<'a> {
    Text { text: &'a TextColumn, of_code: Vec<usize> },
    Numbers { values: &'a [f64], of_bits: HashMap<u64, usize> },
}

/// A column of categories with levels that training did not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenColumn {
    /// The name of the column.
    pub column: String,
    /// The number of rows that have such a level, or a missing cell where training had none.
    pub rows: usize,
    /// Some of the levels, in the order of their first rows.
    pub levels: Vec<String>,
}

impl UnseenColumn {
    /// The most levels that are named.
    pub const MOST: usize = 3;

    /// Merges the unseen levels of later rows of the same column.
    pub fn merge(&mut self, later: UnseenColumn) {
        self.rows += later.rows;
        later.levels.into_iter().for_each(|level| self.add(level));
    }

    fn add(&mut self, level: String) {
        if self.levels.len() < UnseenColumn::MOST && !self.levels.contains(&level) {
            self.levels.push(level);
        }
    }

    /// Returns the one-line warning about such columns of a source; `None` if there are none.
    pub fn told(source: &str, columns: &[UnseenColumn]) -> Option<String> {
        let words = |unseen: &UnseenColumn| {
            let rows = if unseen.rows == 1 { "row" } else { "rows" };
            let levels = listed(unseen.levels.iter().map(String::as_str));
            format!("{} ({} {rows}, such as {levels})", quoted(&unseen.column), unseen.rows)
        };
        let told = folded(columns.iter().map(words));
        (!columns.is_empty()).then(|| {
            format!(
                "{source}: levels that do not occur in the training data: {told}; each is treated as a new level, unlike all others"
            )
        })
    }
}

impl<'a> Cells<'a> {
    /// The cells of a column; values without a code get the code `others`, if there is one, or else codes from `next` on.
    fn new(
        table: &'a Table,
        name: &str,
        codes: &[(&str, usize)],
        others: Option<usize>,
        next: usize,
    ) -> Result<Cells<'a>> {
        let mut next = next..;
        let mut new = || others.or_else(|| next.next()).unwrap_or(MISSING_CODE);
        match table.require(name)? {
            Column::Number(values) => {
                // A number in a file of floats is none of the whole numbers beyond 2^53 that it may have been rounded from.
                let exact = codes.iter().filter(|(level, _)| long_whole(level).is_none());
                let numbers = exact.filter_map(|(level, code)| Some((bits(level.parse().ok()?), *code)));
                let mut of_bits: HashMap<u64, usize> = numbers.collect();
                for &value in values.iter().filter(|value| !value.is_nan()) {
                    of_bits.entry(bits(value)).or_insert_with(&mut new);
                }
                Ok(Cells::Numbers { values, of_bits })
            }
            Column::Text(text) => {
                let codes: HashMap<&str, usize> = codes.iter().copied().collect();
                let same = |level: &str| codes.get(level).copied();
                // Old model files hold codes with leading zeros as numbers.
                let number = |level: &String| same(&number_text(level.parse().ok()?));
                let code = |level: &String| same(level).or_else(|| number(level)).unwrap_or_else(&mut new);
                let of_code = text.levels().iter().map(code).collect();
                Ok(Cells::Text { text, of_code })
            }
            Column::Time(_) => Err(table.unsupported(name, "date")),
            Column::Unsupported { data_type, .. } => Err(table.unsupported(name, data_type)),
        }
    }
}

/// The code of a missing cell if training had none. It is beyond the codes of all levels, and exact in single precision.
const MISSING_CODE: usize = 1 << 30;

/// The word for a missing cell in messages.
const MISSING: &str = "a missing cell";

/// Returns bits that are equal for equal numbers: both zeros are one category.
fn bits(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

impl CategoryInput<'_> {
    /// The number of codes in training.
    fn known(&self) -> usize {
        self.levels.len() + usize::from(self.missing)
    }

    /// The number of codes in training and updates.
    fn seen(&self) -> usize {
        self.known() + self.later
    }

    /// The code of a row, from [`CategoryInput::known`] on for a level that training did not see. Missing cells come after the levels.
    fn level(&self, table: &Table, row: usize, unseen: UnseenLevels) -> Result<usize> {
        let code = match &self.cells {
            Cells::Text { text, of_code } => text.code(row).map(|code| of_code[code]),
            Cells::Numbers { values, of_bits } => of_bits.get(&bits(values[row])).copied(),
        };
        // If training had no missing cells, a missing cell is a separate level, after all other levels of the
        // table.
        let code = code.unwrap_or(if self.missing { self.levels.len() } else { MISSING_CODE });
        if code < self.seen() || unseen != UnseenLevels::Error {
            return Ok(code);
        }
        let found = self
            .cell(row)
            .map_or_else(|| "the value is missing".to_owned(), |cell| format!("found {}", shown(&cell)));
        Err(self.unseen(format!("{}: {found}", table.place(row, self.name))))
    }

    /// The cell of a row, unless it is missing.
    fn cell(&self, row: usize) -> Option<Cow<'_, str>> {
        match &self.cells {
            Cells::Text { text, .. } => text.get(row).map(Cow::Borrowed),
            Cells::Numbers { values, .. } => (!values[row].is_nan()).then(|| number_text(values[row])),
        }
    }

    fn unseen(&self, found: String) -> Error {
        let levels = listed(self.levels.iter().map(String::as_str));
        Error::data(format!("{found}, expected a category seen in training: {levels}"))
            .hint("⟨unseen new⟩ treats it as a level unlike all others")
    }
}
