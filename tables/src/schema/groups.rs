//! Grouped effects: formulae such as `days | school`, the levels of groupings, and their codes in tables.

use super::columns::{Schema, SchemaOptions, UnseenLevels};
use super::design::UnseenColumn;
use super::offsets::write_numbers;
use super::table_facts::TableFacts;
use crate::tables::column::{Column, boolean, level_order};
use crate::tables::table::{Table, quoted};
use faer::Mat;
use serde::{Deserialize, Serialize};
use sparsegp::effects::{EffectTerm, POPULATION};
use sparsegp::error::{Error, Result};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::str::FromStr;

/// The separator of cells in a level of several columns.
pub(super) const SEPARATOR: char = '\u{1f}';

/// A formula of grouped effects, as in lme4: `school`, `days | subject`, `days || subject`, `0 + days | subject`, `batch/cask`, `batch:cask`.
///
/// The terms before the bar vary by level: an intercept, unless 0 removes it, and slopes in columns of numbers. `||` makes them
/// independent. `a/b` stands for the groupings `a` and `a:b`, whose levels are pairs of cells. Names of columns that contain one of the
/// signs of a formula are written in backticks, as in R.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupFormula(Vec<Grouping>);

impl FromStr for GroupFormula {
    type Err = Error;

    fn from_str(text: &str) -> Result<GroupFormula> {
        let wrong = || {
            Error::usage(format!("⟨group⟩: found {text:?}, expected a formula of grouped effects"))
                .hint("write a column, 'slope | column', 'slope || column' for independent effects, or 'outer/inner'")
        };
        let (left, right, correlated) = match *parts(text, '|').as_slice() {
            [right] => ("1", right, false),
            [left, right] => (left, right, true),
            [left, "", right] => (left, right, false),
            _ => return Err(wrong()),
        };
        let (mut intercept, mut slopes) = (true, Vec::new());
        for word in parts(left, '+') {
            match word {
                "" => return Err(wrong()),
                "0" => intercept = false,
                "1" => {}
                slope => slopes.push(unquoted(slope)),
            }
        }
        let mut groupings: Vec<Vec<String>> = Vec::new();
        for part in parts(right, '/') {
            let mut columns = groupings.last().cloned().unwrap_or_default();
            columns.extend(parts(part, ':').into_iter().map(unquoted));
            groupings.push(columns);
        }
        let bad = |column: &String| column.is_empty() || column.contains('`');
        let repeated = slopes.iter().enumerate().any(|(at, slope)| slopes[..at].contains(slope));
        if groupings.iter().flatten().chain(&slopes).any(bad) || repeated || (!intercept && slopes.is_empty())
        {
            return Err(wrong());
        }
        let correlated = correlated && usize::from(intercept) + slopes.len() > 1;
        let grouping = |columns| {
            let slopes = slopes.clone();
            Grouping { columns, levels: Vec::new(), intercept, slopes, correlated }
        };
        Ok(GroupFormula(groupings.into_iter().map(grouping).collect()))
    }
}

/// Splits a formula at a sign, except within backticks.
pub(super) fn parts(text: &str, sign: char) -> Vec<&str> {
    let mut quoted = false;
    let is_end = |c: char| {
        quoted ^= c == '`';
        c == sign && !quoted
    };
    text.split(is_end).map(str::trim).collect()
}

/// Returns a name without backticks around it.
fn unquoted(name: &str) -> String {
    name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(name).to_owned()
}

impl GroupFormula {
    pub(super) fn grouping_columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|grouping| &grouping.columns).map(String::as_str)
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.grouping_columns().chain(self.slopes())
    }

    fn slopes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().take(1).flat_map(|grouping| &grouping.slopes).map(String::as_str)
    }
}

/// A grouping of a fitted model: the columns and the levels that training knows, with the effects of each level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grouping {
    pub(super) columns: Vec<String>,
    /// The levels in the order of their codes; cells of several columns are separated by U+001F.
    pub(super) levels: Vec<String>,
    pub(super) intercept: bool,
    pub(super) slopes: Vec<String>,
    pub(super) correlated: bool,
}

impl Grouping {
    /// The name, such as `school` or `batch:cask`.
    ///
    /// Columns whose names contain a colon are in backticks.
    pub fn name(&self) -> String {
        let quoted = |name: &String| if name.contains(':') { format!("`{name}`") } else { name.clone() };
        self.columns.iter().map(quoted).collect::<Vec<_>>().join(":")
    }

    /// The columns whose cells are levels.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The names of the levels in the order of their codes.
    pub fn level_names(&self) -> impl Iterator<Item = String> + '_ {
        self.levels.iter().map(|level| level.replace(SEPARATOR, ":"))
    }
}

/// The name of missing cells among the levels of a grouping.
const MISSING: &str = "(missing)";

/// The levels of the groupings of some formulae, collected from tables.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct GroupLevels(Vec<BTreeSet<String>>);

/// Returns the groupings of all formulae, in their order and without levels.
fn groupings(options: &SchemaOptions) -> impl Iterator<Item = Grouping> {
    options.groups.iter().flat_map(|formula| formula.0.iter().cloned())
}

impl GroupLevels {
    pub(crate) fn push(&mut self, table: &Table, options: &SchemaOptions) -> Result<()> {
        self.0.resize_with(groupings(options).count(), BTreeSet::new);
        for (levels, grouping) in self.0.iter_mut().zip(groupings(options)) {
            levels.extend(LevelCells::of(table, &grouping.columns)?.texts);
        }
        Ok(())
    }

    pub(crate) fn merge(&mut self, other: GroupLevels) {
        self.0.resize_with(self.0.len().max(other.0.len()), BTreeSet::new);
        self.0.iter_mut().zip(other.0).for_each(|(levels, other)| levels.extend(other));
    }
}

impl Schema {
    /// The groupings of grouped effects.
    pub fn groups(&self) -> &[Grouping] {
        &self.groups
    }

    pub(super) fn slope_columns(&self) -> Vec<&str> {
        let mut seen = HashSet::new();
        let all = self.groups.iter().flat_map(|group| &group.slopes);
        all.map(String::as_str).filter(|slope| seen.insert(*slope)).collect()
    }

    /// The columns that grouped effects use.
    pub fn group_names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| group.columns.iter().chain(&group.slopes)).map(String::as_str)
    }

    /// The names of the inputs that follow the features: one code for each grouping, then the slopes' values.
    pub(super) fn group_inputs(&self) -> Vec<String> {
        let codes = self.groups.iter().map(|group| format!("level of {}", group.name()));
        codes.chain(self.slope_columns().into_iter().map(|slope| format!("slope of {slope}"))).collect()
    }

    pub(crate) fn effect_terms(&self) -> Vec<EffectTerm> {
        let slopes = self.slope_columns();
        let term = |(code, group): (usize, &Grouping)| EffectTerm {
            name: group.name(),
            levels: group.levels.len(),
            code,
            intercept: group.intercept,
            slopes: group.slopes.clone(),
            values: group
                .slopes
                .iter()
                .filter_map(|slope| slopes.iter().position(|known| known == slope))
                .map(|place| self.groups.len() + place)
                .collect(),
            origins: Vec::new(),
            correlated: group.correlated,
        };
        self.groups.iter().enumerate().map(term).collect()
    }

    /// Adds the groupings of the formulae, with these levels.
    pub(crate) fn take_groups(&mut self, levels: &GroupLevels, options: &SchemaOptions) -> Result<()> {
        for (grouping, levels) in groupings(options).zip(&levels.0) {
            if self.groups.iter().any(|group| group.columns == grouping.columns) {
                let name = grouping.name();
                return Err(Error::usage(format!("⟨group⟩: the grouping {} is given twice", quoted(&name)))
                    .hint(format!("write all effects in one formula, such as 'slope || {name}'")));
            }
            let mut levels: Vec<String> = levels.iter().cloned().collect();
            levels.sort_by(|a, b| by_cells(a, b));
            self.groups.push(Grouping { levels, ..grouping });
        }
        Ok(())
    }

    pub(crate) fn has_groups(&self, options: &SchemaOptions) -> bool {
        let known = self.groups.iter().map(|group| Grouping { levels: Vec::new(), ..group.clone() });
        known.eq(groupings(options))
    }

    pub(crate) fn add_levels(&mut self, table: &Table) -> Result<()> {
        for group in &mut self.groups {
            let known: HashSet<&String> = group.levels.iter().collect();
            let cells = LevelCells::of(table, &group.columns)?;
            let mut new: Vec<String> = cells.texts.into_iter().filter(|text| !known.contains(text)).collect();
            new.sort_by(|a, b| by_cells(a, b));
            group.levels.append(&mut new);
        }
        Ok(())
    }

    /// Writes the codes of levels and the slopes' values of a table behind the inputs of the features.
    pub(super) fn write_groups(
        &self,
        table: &Table,
        unseen: UnseenLevels,
        design: &mut Mat<f64>,
    ) -> Result<()> {
        let first = self.feature_dims();
        for (index, group) in self.groups.iter().enumerate() {
            if unseen == UnseenLevels::Population {
                design.col_mut(first + index).fill(POPULATION);
                continue;
            }
            let cells = LevelCells::of(table, &group.columns)?;
            let codes = group.codes(&cells);
            for row in 0..table.rows() {
                let code = codes[cells.codes[row] as usize];
                if code >= group.levels.len() && unseen == UnseenLevels::Error {
                    let level = cells.texts[cells.codes[row] as usize].replace(SEPARATOR, ":");
                    let place = table.place(row, &group.name());
                    return Err(Error::data(format!(
                        "{place}: the level {level:?} does not occur in the training data, expected one that does"
                    ))
                    .hint("⟨unseen new⟩ treats it as a new level"));
                }
                design[(row, first + index)] = code as f64;
            }
        }
        for (index, slope) in self.slope_columns().into_iter().enumerate() {
            let column = first + self.groups.len() + index;
            if unseen == UnseenLevels::Population && table.column(slope).is_none() {
                continue;
            }
            write_numbers(table, slope, design.col_mut(column))?;
        }
        Ok(())
    }

    pub(super) fn unseen_groups(&self, table: &Table) -> Result<Vec<UnseenColumn>> {
        let mut found = Vec::new();
        // Population predictions work without these columns.
        let present = |group: &&Grouping| group.columns.iter().all(|name| table.column(name).is_some());
        for group in self.groups.iter().filter(present) {
            let cells = LevelCells::of(table, &group.columns)?;
            let codes = group.codes(&cells);
            let new = |code: &&u32| codes[**code as usize] >= group.levels.len();
            let rows = cells.codes.iter().filter(new).count();
            let texts = cells.texts.iter().zip(&codes).filter(|(_, code)| **code >= group.levels.len());
            let levels =
                texts.take(UnseenColumn::MOST).map(|(text, _)| text.replace(SEPARATOR, ":")).collect();
            found.extend((rows > 0).then(|| UnseenColumn { column: group.name(), rows, levels }));
        }
        Ok(found)
    }
}

impl Grouping {
    /// The code of every distinct level of a table. Levels that training did not see have the next codes.
    fn codes(&self, cells: &LevelCells) -> Vec<usize> {
        let known: HashMap<&str, usize> =
            self.levels.iter().enumerate().map(|(code, level)| (level.as_str(), code)).collect();
        let mut next = self.levels.len()..;
        cells
            .texts
            .iter()
            .filter_map(|text| known.get(text.as_str()).copied().or_else(|| next.next()))
            .collect()
    }
}

impl SchemaOptions {
    /// Refuses grouped effects.
    ///
    /// # Errors
    ///
    /// A usage error that names `what`, which they cannot be combined with.
    pub fn check_no_groups(&self, what: &str) -> Result<()> {
        if self.groups.is_empty() {
            return Ok(());
        }
        Err(Error::usage(format!("{what} cannot be combined with ⟨group⟩")))
    }
}

/// Checks that the columns of formulae exist and have no other role.
pub(super) fn check_groups(facts: &TableFacts, options: &SchemaOptions) -> Result<()> {
    for name in options.groups.iter().flat_map(GroupFormula::columns) {
        let quotes = |error: Error| {
            let whole = facts.names().find(|known| known.contains(':') && parts(known, ':').contains(&name));
            whole.map_or(error.clone(), |known| {
                error.hint(format!("write the column in backticks: `{known}`"))
            })
        };
        facts.require_name(name).map_err(quotes)?;
        if name == options.target {
            return Err(Error::usage(format!("the target {} cannot be in ⟨group⟩ too", quoted(name))));
        }
    }
    for slope in options.groups.iter().flat_map(GroupFormula::slopes) {
        let column = facts.require(slope)?;
        if column.has_text() {
            return Err(column.not_a_number().hint("a slope varies with a column of numbers"));
        }
    }
    Ok(())
}

/// The order of levels: by the first cell, then by the next.
fn by_cells(a: &str, b: &str) -> std::cmp::Ordering {
    let mut pairs = a.split(SEPARATOR).zip(b.split(SEPARATOR)).map(|(a, b)| level_order(a, b));
    pairs.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

/// The level of every row of a table, as an index into the distinct levels, which have the order of their first rows.
#[derive(Default)]
struct LevelCells {
    codes: Vec<u32>,
    texts: Vec<String>,
}

impl LevelCells {
    fn of(table: &Table, columns: &[String]) -> Result<LevelCells> {
        let columns = columns.iter().map(|name| table.supported(name)).collect::<Result<Vec<_>>>()?;
        let (mut cells, mut known) = (LevelCells::default(), HashMap::new());
        for row in 0..table.rows() {
            let mut text = String::new();
            for (place, column) in columns.iter().enumerate() {
                text.extend((place > 0).then_some(SEPARATOR));
                text.push_str(&label(column, row));
            }
            let next = cells.texts.len() as u32;
            let code = *known.entry(text).or_insert_with_key(|text| {
                cells.texts.push(text.clone());
                next
            });
            cells.codes.push(code);
        }
        Ok(cells)
    }
}

/// Returns the text of a cell by which rows are grouped.
pub(crate) fn label(column: &Column, row: usize) -> Cow<'_, str> {
    match (column.spelling(row), column) {
        (None, _) => MISSING.into(),
        (Some(instant), Column::Time(_)) => instant.trim_end_matches("T00:00:00").to_owned().into(),
        // True and false have one spelling in all formats of files.
        (Some(text), _) if boolean(&text).is_some() => text.to_lowercase().into(),
        (Some(text), _) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::read_csv;

    #[test]
    fn formulae_are_those_of_lme4() {
        for (text, intercept, slopes, correlated, names) in [
            ("school", true, "", false, "school"),
            (" 1 | school ", true, "", false, "school"),
            ("days | g", true, "days", true, "g"),
            ("1 + days | g", true, "days", true, "g"),
            ("days||g", true, "days", false, "g"),
            ("0 + days | g", false, "days", false, "g"),
            ("batch/cask", true, "", false, "batch batch:cask"),
            ("`x|y` || `a:b`/c", true, "x|y", false, "`a:b` `a:b`:c"),
        ] {
            let GroupFormula(groupings) = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(groupings.iter().map(Grouping::name).collect::<Vec<_>>().join(" "), names);
            for group in groupings {
                let found = (group.intercept, group.slopes.join(" "), group.correlated);
                assert_eq!(found, (intercept, slopes.to_owned(), correlated), "{text}");
            }
        }
        for wrong in ["`a", "", "|", "days |", "| g", "0 | g", "a + a | g", "a | b | c", "a//b", "a:"] {
            assert!(wrong.parse::<GroupFormula>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn levels_are_cells_and_pairs_of_them_and_keep_their_codes_in_other_tables() {
        let text = "batch,cask,y\nB,1,1\nA,1,2\nA,2,3\n,2,4\nB,1,5\n";
        let table = read_csv("casks", std::io::Cursor::new(text)).expect("a table");
        let options = SchemaOptions {
            target: "y".into(),
            groups: vec!["batch/cask".parse().expect("a formula")],
            drop_first: true,
            ..SchemaOptions::default()
        };
        let (schema, _) = Schema::infer(&table, &options).expect("a schema");
        let levels: Vec<Vec<String>> =
            schema.groups().iter().map(|group| group.level_names().collect()).collect();
        assert_eq!(levels, [vec!["(missing)", "A", "B"], vec!["(missing):2", "A:1", "A:2", "B:1"]]);
        let other = read_csv("more", std::io::Cursor::new("batch,cask\nA,2\nC,1\nA,9\n")).expect("a table");
        let design = schema.design(&other, UnseenLevels::New).expect("codes");
        assert_eq!((design[(0, 0)], design[(0, 1)]), (1.0, 2.0));
        assert!(design[(1, 0)] >= 3.0 && design[(2, 1)] >= 4.0 && design[(2, 0)] == 1.0);
        let error = schema.design(&other, UnseenLevels::Error).expect_err("a new level");
        assert!(error.to_string().contains("\"C\""), "{error}");
        let nobody = schema.design(&other, UnseenLevels::Population).expect("no levels");
        assert_eq!((nobody[(0, 0)], nobody[(2, 1)]), (POPULATION, POPULATION));
    }
}
