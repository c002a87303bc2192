//! The one pass over a table before training from disk: columns, scaling, checks of every row, and samples; no training.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::reservoir::Reservoir;
pub use super::reservoir::Sample;
use crate::schema::constant_inputs;
use crate::schema::facts::Demand;
use crate::schema::table_facts::TableFacts;
use crate::schema::{
    Schema, SchemaOptions, UnseenLevels, check_labelled, check_rows, odd_values, sentinels, unlabelled_note,
};
use crate::tables::read::{How, TableBlocks, groups_of};
use crate::tables::table::{Table, quoted};
use crate::tables::{Ahead, Readings};
use sparsegp::data::Scaling;
use sparsegp::data::{Role, Roles};
use sparsegp::error::{Error, Result};

/// Rows of a file that are read at once.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// Blocks that are read before they are asked for.
pub(crate) const BLOCKS_AHEAD: usize = 2;

/// What to find out about a table.
pub struct Survey<'a> {
    /// Which columns to use; with `known` only the target is looked at.
    pub columns: &'a SchemaOptions,
    /// Columns that are known already.
    pub known: Option<&'a Schema>,
    /// What each row is for.
    pub roles: &'a Roles,
    /// Training rows to keep as a start.
    pub start_rows: usize,
    /// Training rows to keep as a check.
    pub check_rows: usize,
    /// Validation rows to keep.
    pub validation_rows: usize,
    /// Seed of the samples.
    pub seed: u64,
}

/// What was found out.
pub struct Surveyed {
    /// The columns.
    pub schema: Schema,
    /// Columns that can be used but look wrong.
    pub warnings: Vec<String>,
    /// What standardises inputs and target over the training rows.
    pub scaling: Scaling,
    /// The two values of the target, where it has no more.
    pub two_values: Option<(f64, f64)>,
    /// Rows of the file.
    pub rows: usize,
    /// Rows to train on.
    pub train: usize,
    /// Rows to validate on.
    pub validation: usize,
    /// Rows of each row group, where the table is a file whose rows come in groups.
    pub groups: Option<Vec<usize>>,
    /// A uniform sample of the training rows.
    pub start: Sample,
    /// Another one, independent of it.
    pub check: Sample,
    /// A uniform sample of the validation rows, if there are any.
    pub validation_sample: Option<Sample>,
}

/// What a pass over some rows of a table finds out: the facts of columns and uniform samples of rows.
///
/// Those of parts of a table are merged in the order of their rows, and travel by serde in formats that hold every `f64`, as postcard
/// does. Blocks say where in the table they are ([`Table::from_row`]), and what a row is for depends on nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableSums {
    facts: TableFacts,
    start: Reservoir,
    check: Reservoir,
    validation: Reservoir,
    /// All rows, with a target and without.
    rows: usize,
    /// The range of the coded target, for columns that are known.
    codes: (f64, f64),
    #[serde(skip)]
    training: Vec<bool>,
}

/// Reads the file (not standard input) once.
///
/// # Errors
///
/// As for [`Schema::infer`] and [`Schema::design`] on the whole table (or [`Schema::check_training`] for columns that are
/// known), and when too few rows are left to train on or the target does not vary among them.
pub(crate) fn survey(path: &Path, survey: &Survey<'_>) -> Result<Surveyed> {
    let groups = groups_of(path)?;
    let missing = survey.known.map_or(&survey.columns.missing, |schema| &schema.missing);
    let how = How { delimiter: survey.columns.delimiter, missing, ..How::default() };
    let blocks = TableBlocks::new(path, BLOCK_ROWS, &|name| survey.demand(name).is_some(), how)?;
    let names = blocks.names().iter().map(String::as_str);
    let mut sums = TableSums::new(blocks.source(), names, survey, 0)?;
    for block in blocks.ahead()? {
        sums.take(survey, &block?)?;
    }
    let (readings, note) = sums.readings(survey)?;
    let mut surveyed = if readings.is_empty() {
        Surveyed { groups, ..sums.finish(survey)? }
    } else {
        // Columns whose text stands for numbers are looked at once more, as numbers.
        let columns = SchemaOptions { readings: Some(readings), ..survey.columns.clone() };
        self::survey(path, &Survey { columns: &columns, ..*survey })?
    };
    surveyed.warnings.splice(..0, note);
    Ok(surveyed)
}

impl Survey<'_> {
    /// The column to predict.
    fn target(&self) -> &str {
        self.known.map_or(&self.columns.target, |schema| schema.target_name())
    }

    /// What is asked of the values of a column, `None` of one that nobody looks at.
    fn demand(&self, name: &str) -> Option<Demand> {
        match self.known {
            Some(schema) => {
                (schema.uses(name) || schema.weights_name() == Some(name)).then_some(Demand::None)
            }
            None => self.columns.demand(name),
        }
    }
}

impl TableSums {
    /// Of no rows yet of part `part` of a table with these columns, which messages call `source`. Parts are numbered in the order of
    /// their rows; a whole table is part 0. Their samples are independent.
    ///
    /// # Errors
    ///
    /// When columns are known and one of them is not there.
    pub fn new<'a>(
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
        survey: &Survey<'_>,
        part: u64,
    ) -> Result<TableSums> {
        if let Some(schema) = survey.known {
            schema.check_columns(source, names.clone())?;
        }
        Ok(TableSums {
            facts: TableFacts::new(source, names, &|name| survey.demand(name)),
            start: Reservoir::new(survey.start_rows, survey.seed, 0, part),
            check: Reservoir::new(survey.check_rows, survey.seed, 1, part),
            validation: Reservoir::new(survey.validation_rows, survey.seed, 2, part),
            rows: 0,
            codes: (f64::INFINITY, f64::NEG_INFINITY),
            training: Vec::new(),
        })
    }

    /// Takes in the next rows.
    ///
    /// # Errors
    ///
    /// When columns are known and a cell does not suit them.
    pub fn take(&mut self, survey: &Survey<'_>, block: &Table) -> Result<()> {
        self.rows += block.rows();
        let block = block.with_values(survey.target());
        let readings = match survey.known {
            Some(schema) => Some(&schema.readings),
            None => survey.columns.readings.as_ref(),
        };
        let block = &*match readings {
            Some(readings) => block.read(readings, &|_| true)?,
            None => Cow::Borrowed(&*block),
        };
        if let Some(schema) = survey.known {
            self.check_known(schema, block)?;
        }
        self.training.clear();
        for row in 0..block.rows() {
            let role = survey.roles.of(block.row(row));
            self.training.push(role == Role::Train);
            match role {
                Role::Train => {
                    self.start.offer(block, row);
                    self.check.offer(block, row);
                }
                Role::Validation => self.validation.offer(block, row),
                Role::Test => {}
            }
        }
        self.facts.push(block, Some(&self.training));
        Ok(())
    }

    /// Checks every cell of a block against columns that are known.
    fn check_known(&mut self, schema: &Schema, block: &Table) -> Result<()> {
        block.require(schema.target_name())?;
        for code in schema.target(block)?.into_iter().flatten() {
            self.codes = (self.codes.0.min(code), self.codes.1.max(code));
        }
        schema.exposure(block)?;
        schema.weights(block)?;
        schema.design(block, UnseenLevels::New).map(|_| ())
    }

    /// The rows to train on that were taken in.
    pub(super) fn training_rows(&self) -> usize {
        self.start.offered()
    }

    /// Takes in what was found in later rows.
    ///
    /// # Errors
    ///
    /// When they were looked at in another way or are of no later part, in which case this is of no more use.
    pub fn merge(&mut self, later: TableSums) -> Result<()> {
        self.facts.merge(later.facts)?;
        self.start.merge(later.start)?;
        self.check.merge(later.check)?;
        self.validation.merge(later.validation)?;
        self.rows += later.rows;
        self.codes = (self.codes.0.min(later.codes.0), self.codes.1.max(later.codes.1));
        Ok(())
    }

    /// How columns of text are to be read as numbers or dates, where that is not known, with a line that says so: where there are some, the
    /// table is to be looked at again with these in [`SchemaOptions::readings`].
    pub fn readings(&self, survey: &Survey<'_>) -> Result<(Readings, Option<String>)> {
        if survey.known.is_some() || survey.columns.readings.is_some() {
            return Ok((Readings::new(), None));
        }
        survey.columns.readings_of(&self.facts)
    }

    /// What the rows say that were taken in.
    ///
    /// # Errors
    ///
    /// When columns cannot be used, too few rows are left to train on, or the target does not vary among them.
    pub fn finish(self, survey: &Survey<'_>) -> Result<Surveyed> {
        let facts = &self.facts;
        let counts = (facts.rows(), self.rows);
        check_labelled(survey.target(), facts.source(), counts)?;
        let mut odd = false;
        let (schema, mut warnings) = match survey.known {
            Some(schema) => {
                check_rows(facts.source(), facts.rows())?;
                let column = format!("{}: the target {}", facts.source(), quoted(schema.target_name()));
                schema.encoding().check_range(&column, self.codes)?;
                (schema.clone(), Vec::new())
            }
            None => {
                let (schema, warnings) = Schema::of_facts(facts, survey.columns)?;
                schema.check_facts(facts)?;
                odd = true;
                (schema, warnings)
            }
        };
        warnings.extend(unlabelled_note(survey.target(), facts.source(), counts));
        let (train, validation) = (self.start.offered(), self.validation.offered());
        let (Some(start), Some(check), 2..) =
            (self.start.finish(facts.source()), self.check.finish(facts.source()), train)
        else {
            return Err(Error::data(format!(
                "{}: of {} rows, {train} are left to train on, expected at least 2",
                facts.source(),
                facts.rows()
            ))
            .hint("make the test or validation fraction smaller"));
        };
        if odd {
            let rows = check.table.read(&schema.readings, &|_| true)?;
            warnings.extend(odd_values(facts, &schema, &rows)?);
            warnings.extend(sentinels(facts, &schema, &rows)?);
        }
        let target = facts.require(schema.target_name())?;
        if !target.varies_in_training() {
            return Err(constant_target(facts.source(), &schema, train));
        }
        let constant = schema.constant_inputs(facts, train)?;
        warnings.extend(constant_inputs(constant.iter().map(|name| quoted(name))));
        Ok(Surveyed {
            scaling: schema.scaling_of_facts(facts, train)?,
            two_values: (target.distinct.levels().len() == 2 && train > 2).then_some(target.range),
            rows: self.rows,
            train,
            validation,
            groups: None,
            start,
            check,
            validation_sample: self.validation.finish(facts.source()),
            schema,
            warnings,
        })
    }
}

/// The error for a target that does not vary among the training rows although it does in the file.
pub(crate) fn constant_target(source: &str, schema: &Schema, rows: usize) -> Error {
    Error::data(format!(
        "{source}: the target {} is the same in all {rows} training rows, expected values that vary",
        quoted(schema.target_name())
    ))
    .hint("hold out fewer rows, or try another ⟨seed⟩")
}

impl TableBlocks {
    /// The same blocks read by another thread, a few before they are asked for.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn ahead(mut self) -> Result<Ahead<Result<Table>>> {
        Ahead::new(BLOCKS_AHEAD, move || self.next())
    }
}

#[cfg(test)]
mod tests;
