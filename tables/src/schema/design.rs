//! Converts the cells of a table into the numbers of a model by a schema: inputs, target, exposure
//! and weights.

use super::calendar::{Cycle, years};
use super::check::folded;
use super::columns::{Feature, FeatureKind, Schema, UnseenLevels};
use super::facts::{Demand, Role};
use super::places::PlaceCells;
use super::table_facts::TableFacts;
use crate::tables::column::{Column, number_text};
use crate::tables::marker::long_whole;
use crate::tables::table::{Table, listed, quoted, shown};
use faer::{Mat, MatRef, RowMut};
use sparsegp::data::Scaling;
use sparsegp::error::{Error, Result};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

impl Schema {
    /// Returns the inputs of a table, `n × D`, one row for each row of the table. Columns are matched by
    /// name, in any order; others are ignored. A missing number is replaced by the mean in training. Missing
    /// text is a level if training had missing cells, otherwise an unseen level. Different unseen levels have
    /// different codes within a table.
    ///
    /// # Errors
    ///
    /// If a feature's or an offset's column is absent, or a cell in it is infinite, text where a number is expected, or a
    /// category not seen in training (with [`UnseenLevels::Error`]). A missing number is an error in an offset, and if the
    /// model file is too old to hold means.
    pub fn design(&self, table: &Table, unseen: UnseenLevels) -> Result<Mat<f64>> {
        let names = self.training_names();
        let table = &*table.read(&self.readings, &|name| names.contains(name))?;
        let present = table.columns().iter().map(|named| named.name.as_str());
        let needed = self.needed_columns(unseen != UnseenLevels::Population);
        let exposure = self.exposure.as_deref();
        let needed: Vec<&str> = needed.into_iter().filter(|name| Some(*name) != exposure).collect();
        Schema::check_present(table.source(), present, &needed)?;
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
        self.write_trees(design.as_mut());
        self.write_groups(table, unseen, &mut design)?;
        self.write_offsets(table, &mut design)?;
        Ok(design)
    }

    /// Returns the inputs `x` (`n × D`) of these columns, with codes replaced by one input for each level, and without the scores of trees.
    pub(crate) fn spread_codes(&self, x: MatRef<'_, f64>) -> Mat<f64> {
        // The input that each column reads, and the level that it marks.
        let mut columns: Vec<(usize, Option<usize>)> = Vec::new();
        for (feature, own) in self.feature_inputs().filter(|(feature, _)| feature.is_of_columns()) {
            match feature.codes() {
                Some(codes) => columns.extend((0..codes).map(|level| (own.start, Some(level)))),
                None => columns.extend(own.map(|input| (input, None))),
            }
        }
        columns.extend((self.feature_dims()..x.ncols()).map(|of_groups| (of_groups, None)));
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
        let names = self.used_names();
        let table = &*table.read(&self.readings, &|name| names.contains(name))?;
        let mut found = Vec::new();
        for feature in self.features.iter().filter(|feature| feature.is_categorical()) {
            let cells = self.categories(table, feature)?;
            let mut unseen = UnseenColumn { column: feature.name.clone(), rows: 0, levels: Vec::new() };
            for (row, _) in cells.unseen_rows() {
                unseen.rows += 1;
                unseen.add(cells.cell(row).map_or_else(|| MISSING.to_owned(), Cow::into_owned));
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
        let table = &*table.read(&self.readings, &|name| coded.iter().any(|feature| feature.name == name))?;
        for feature in coded {
            let cells = self.categories(table, feature)?;
            let mut new = BTreeMap::new();
            for (row, code) in cells.unseen_rows() {
                if let Some(cell) = cells.cell(row) {
                    new.entry(code).or_insert_with(|| cell.into_owned());
                }
            }
            if !new.is_empty() {
                schema.later.entry(feature.name.clone()).or_default().extend(new.into_values());
            }
        }
        Ok(schema)
    }

    /// Prepares to read a feature from a table; `fill` replaces missing numbers.
    fn input<'a>(&'a self, table: &'a Table, feature: &'a Feature, fill: Option<f64>) -> Result<Input<'a>> {
        let name = &feature.name;
        Ok(match &feature.kind {
            FeatureKind::Numeric => Input::Number { name, values: table.numbers(name)?, fill },
            FeatureKind::Date { origin, cycles } => {
                let fill = fill.unwrap_or(*origin);
                Input::Time { values: dates(table, name)?, origin: *origin, cycles, fill }
            }
            FeatureKind::Place { places, centre } => {
                Input::Place { cells: PlaceCells::of(table, places)?, centre }
            }
            FeatureKind::Categorical { coded, .. } => {
                let cells = self.categories(table, feature)?;
                Input::Category { cells, coded: *coded, first_level: usize::from(self.drop_first) }
            }
            FeatureKind::Trees { .. } => {
                Input::Number { name, values: Cow::Owned(vec![0.0; table.rows()]), fill }
            }
        })
    }

    /// Returns the codes of the cells of a categorical feature. Levels that occur neither in training nor in updates have the code of the
    /// rest, or else the codes after all others.
    fn categories<'a>(&'a self, table: &'a Table, feature: &'a Feature) -> Result<CategoryCells<'a>> {
        let (levels, rest) = match &feature.kind {
            FeatureKind::Categorical { levels, rest, .. } => (levels.as_slice(), *rest),
            _ => (&[][..], false),
        };
        let later = self.later.get(&feature.name).map_or(&[][..], Vec::as_slice);
        let known = levels.len() + usize::from(feature.missing);
        let seen = known + later.len();
        let of_missing = if feature.missing { levels.len() } else { MISSING_CODE };
        let codes = levels.iter().map(String::as_str).zip(0..);
        let codes = codes.chain(later.iter().map(String::as_str).zip(known..));
        let mut next = seen..;
        let others = rest.then(|| levels.len().saturating_sub(1));
        let mut new = || others.or_else(|| next.next()).unwrap_or(MISSING_CODE);
        let column = table.require(&feature.name)?;
        let codes = match column {
            Column::Number(values) => {
                // A float beyond 2^53 may stand for several whole numbers, so it matches none of them.
                let exact = codes.filter(|(level, _)| long_whole(level).is_none());
                let numbers = exact.filter_map(|(level, code)| Some((bits(level.parse().ok()?), code)));
                let mut of_bits: HashMap<u64, usize> = numbers.collect();
                let code = |value: &f64| match value.is_nan() {
                    true => of_missing,
                    false => *of_bits.entry(bits(*value)).or_insert_with(&mut new),
                };
                values.iter().map(code).collect()
            }
            Column::Text(text) => {
                let codes: HashMap<&str, usize> = codes.collect();
                let same = |level: &str| codes.get(level).copied();
                // Old model files hold codes with leading zeros as numbers.
                let number = |level: &String| same(&number_text(level.parse().ok()?));
                let code = |level: &String| same(level).or_else(|| number(level)).unwrap_or_else(&mut new);
                let of_level: Vec<usize> = text.levels().iter().map(code).collect();
                text.codes().map(|level| level.map_or(of_missing, |level| of_level[level])).collect()
            }
            Column::Time(_) => return Err(table.unsupported(&feature.name, "date")),
            Column::Unsupported { data_type, .. } => return Err(table.unsupported(&feature.name, data_type)),
        };
        Ok(CategoryCells { name: &feature.name, column, levels, known, seen, codes })
    }

    /// Sets the parts of a schema that depend on the training rows alone, after a whole table was examined: the means that replace missing
    /// cells and, unless every part of the table must have the same inputs (`whole`), the columns with an input for missing cells.
    pub(crate) fn settle(&mut self, table: &Table, train: &[usize], whole: bool) -> Result<()> {
        let is_settled = |feature: &Feature| {
            let of_rows = matches!(feature.kind, FeatureKind::Date { .. } | FeatureKind::Place { .. });
            feature.tells_missing() || of_rows
        };
        let settled = self.features.iter().filter(|feature| is_settled(feature));
        let settled: HashSet<&str> = settled.flat_map(Feature::columns).map(String::as_str).collect();
        let names = table.columns().iter().map(|named| named.name.as_str());
        let demand = |name: &str| settled.contains(name).then_some(Demand::None);
        let mut facts = TableFacts::new(table.source(), names, &demand, self.places());
        let mut training = vec![false; table.rows()];
        train.iter().for_each(|&row| training[row] = true);
        facts.push(table, Some(&training));
        self.take_facts(&facts, whole)
    }

    /// Sets the parts of the features with known facts that the training rows determine; see [`Schema::settle`].
    pub(super) fn take_facts(&mut self, facts: &TableFacts, whole: bool) -> Result<()> {
        self.fills.resize(self.features.len(), 0.0);
        for (feature, fill) in self.features.iter_mut().zip(&mut self.fills) {
            if let FeatureKind::Place { centre, .. } = &mut feature.kind {
                let place = facts.require_place()?;
                *centre = place.centre();
                feature.missing &= whole || place.gaps.1 > 0;
            }
            let Some(column) = facts.get(&feature.name) else { continue };
            feature.missing &= whole || column.gaps.1 > 0;
            match &mut feature.kind {
                FeatureKind::Numeric => *fill = column.affine().shift,
                FeatureKind::Date { origin, cycles } => {
                    let calendar = column.calendar.clone().unwrap_or_default();
                    (*fill, *origin) = (calendar.seconds.affine().shift, calendar.seconds.range().0);
                    if !whole {
                        *cycles = calendar.cycles();
                    }
                }
                FeatureKind::Place { .. } | FeatureKind::Categorical { .. } | FeatureKind::Trees { .. } => {}
            }
        }
        Ok(())
    }

    /// Sets the mean of each numeric feature from the scaling of the training rows.
    pub(crate) fn take_means(&mut self, scaling: &Scaling) {
        let mut fills = std::mem::take(&mut self.fills);
        for (fill, (feature, inputs)) in fills.iter_mut().zip(self.feature_inputs()) {
            if let (FeatureKind::Numeric, Some(affine)) = (&feature.kind, scaling.inputs.get(inputs.start)) {
                *fill = affine.shift;
            }
        }
        self.fills = fills;
    }

    /// Returns the numeric features without missing cells in training that have missing cells in a table, with their number. The mean
    /// replaces these cells, and no input marks them.
    pub fn silent_gaps<'a>(&'a self, table: &Table) -> Vec<(&'a str, usize)> {
        let numbers = self.features.iter().filter(|feature| !feature.is_categorical() && !feature.missing);
        let gaps = numbers.map(|feature| {
            let columns = feature.columns().iter().filter_map(|name| table.column(name));
            let lacking: Vec<_> = columns.map(Column::lacking).collect();
            (
                feature.name.as_str(),
                (0..table.rows()).filter(|&row| lacking.iter().any(|lacks| lacks(row))).count(),
            )
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

    /// The weight of each row, or `None` when the model has none.
    ///
    /// # Errors
    ///
    /// When the column is absent, or a value is missing, infinite, text or not above 0.
    pub fn weights(&self, table: &Table) -> Result<Option<Vec<f64>>> {
        self.weights.as_ref().map(|name| self.positive_numbers(table, name, Role::Weight)).transpose()
    }

    pub(super) fn positive_numbers(&self, table: &Table, name: &str, role: Role) -> Result<Vec<f64>> {
        let table = table.read(&self.readings, &|column| column == name)?;
        let values = table.numbers(name)?;
        for (row, &value) in values.iter().enumerate() {
            role.check(&table, row, name, value)?;
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
        _ => {
            let found = format!("{}: column {} holds no dates", table.source(), quoted(name));
            Err(Error::data(format!("{found}, expected dates as in training")))
        }
    }
}

enum Input<'a> {
    Number {
        name: &'a str,
        values: Cow<'a, [f64]>,
        fill: Option<f64>,
    },
    Time {
        values: &'a [f64],
        origin: f64,
        cycles: &'a [Cycle],
        fill: f64,
    },
    Place {
        cells: PlaceCells<'a>,
        centre: &'a [f64],
    },
    /// Levels below `first_level` have no separate input.
    Category {
        cells: CategoryCells<'a>,
        coded: bool,
        first_level: usize,
    },
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
            Input::Category { cells, coded, first_level } => {
                let code = cells.code(table, row, unseen)?;
                if *coded {
                    values[0] = code as f64;
                } else if code < cells.known
                    && let Some(level) = code.checked_sub(*first_level)
                {
                    values[level] = 1.0;
                }
            }
        }
        Ok(false)
    }
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

/// The code of a missing cell if training had none. It is beyond the codes of all levels, and exact in single precision.
const MISSING_CODE: usize = 1 << 30;

/// The word for a missing cell in messages.
const MISSING: &str = "a missing cell";

/// Returns bits that are equal for equal numbers: both zeros are one category.
fn bits(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

struct CategoryCells<'a> {
    name: &'a str,
    column: &'a Column,
    levels: &'a [String],
    /// The number of codes in training.
    known: usize,
    /// The number of codes in training and updates.
    seen: usize,
    /// The code of every row. A missing cell has the code after the levels if training had missing cells.
    codes: Vec<usize>,
}

impl CategoryCells<'_> {
    /// The rows with a level that occurs neither in training nor in updates, with its code.
    fn unseen_rows(&self) -> impl Iterator<Item = (usize, usize)> {
        self.codes.iter().copied().enumerate().filter(|(_, code)| *code >= self.seen)
    }

    fn code(&self, table: &Table, row: usize, unseen: UnseenLevels) -> Result<usize> {
        let code = self.codes[row];
        if code < self.seen || unseen != UnseenLevels::Error {
            return Ok(code);
        }
        let found = match self.cell(row) {
            Some(cell) => format!("found {}", shown(&cell)),
            None => "the value is missing".to_owned(),
        };
        let (place, levels) = (table.place(row, self.name), listed(self.levels.iter().map(String::as_str)));
        Err(Error::data(format!("{place}: {found}, expected a category seen in training: {levels}"))
            .hint("⟨unseen new⟩ treats it as a level unlike all others"))
    }

    fn cell(&self, row: usize) -> Option<Cow<'_, str>> {
        self.column.spelling(row)
    }
}
