//! The one pass over a file before training from disk: columns, scaling, checks of every row, and samples; no training.

use std::path::Path;

use super::ahead::Ahead;
use super::check::constant_input;
use super::facts::{Demand, TableFacts};
use super::read::{TableBlocks, groups_of};
use super::reservoir::Reservoir;
pub(crate) use super::reservoir::Sample;
use super::roles::{Role, Roles};
use super::scaling::Scaling;
use super::schema::{Schema, SchemaOptions, UnseenLevels, check_rows};
use super::table::{Table, quoted};
use crate::error::{Error, Result};

/// Rows of a file that are read at once.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// Blocks that are read before they are asked for.
pub(crate) const BLOCKS_AHEAD: usize = 2;

/// What to find out about a file.
pub(crate) struct Survey<'a> {
    /// The file, not standard input.
    pub path: &'a Path,
    /// Which columns to use; with `known` only the target is looked at.
    pub columns: &'a SchemaOptions,
    /// Columns that are known already.
    pub known: Option<&'a Schema>,
    /// What each row is for.
    pub roles: Roles,
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
pub(crate) struct Surveyed {
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
    /// Rows of each row group, where rows come in groups.
    pub groups: Option<Vec<usize>>,
    /// A uniform sample of the training rows.
    pub start: Sample,
    /// Another one, independent of it.
    pub check: Sample,
    /// A uniform sample of the validation rows, if there are any.
    pub validation_sample: Option<Sample>,
}

/// The state of the pass.
struct Pass<'a> {
    survey: &'a Survey<'a>,
    facts: TableFacts,
    start: Reservoir,
    check: Reservoir,
    validation: Reservoir,
    /// The range of the coded target, for columns that are known.
    codes: (f64, f64),
    training: Vec<bool>,
}

/// Reads the file once.
///
/// # Errors
///
/// As for [`Schema::infer`] and [`Schema::design`] on the whole table (or [`Schema::check_training`] for columns that are
/// known), and when too few rows are left to train on or the target does not vary among them.
pub(crate) fn survey(survey: &Survey<'_>) -> Result<Surveyed> {
    let groups = groups_of(survey.path)?;
    let wanted = |name: &str| match survey.known {
        Some(schema) => schema.trains_on(name),
        None => survey.columns.demand(name).is_some(),
    };
    let blocks = TableBlocks::new(survey.path, BLOCK_ROWS, &wanted, None)?;
    let names = blocks.names().iter().map(String::as_str);
    if let Some(schema) = survey.known {
        schema.check_columns(blocks.source(), names.clone())?;
    }
    let demand = |name: &str| match survey.known {
        Some(schema) => schema.trains_on(name).then_some(Demand::None),
        None => survey.columns.demand(name),
    };
    let mut pass = Pass {
        facts: TableFacts::new(blocks.source(), names, &demand),
        start: Reservoir::new(survey.start_rows, survey.seed, 0),
        check: Reservoir::new(survey.check_rows, survey.seed, 1),
        validation: Reservoir::new(survey.validation_rows, survey.seed, 2),
        codes: (f64::INFINITY, f64::NEG_INFINITY),
        training: Vec::new(),
        survey,
    };
    for block in blocks.ahead()? {
        pass.take(&block?)?;
    }
    pass.finish(groups)
}

impl Pass<'_> {
    fn take(&mut self, block: &Table) -> Result<()> {
        if let Some(schema) = self.survey.known {
            self.check_known(schema, block)?;
        }
        self.training.clear();
        for row in 0..block.rows() {
            let role = self.survey.roles.of(block.first_row() + row);
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
        schema.design(block, UnseenLevels::Error).map(|_| ())
    }

    fn finish(self, groups: Option<Vec<usize>>) -> Result<Surveyed> {
        let facts = &self.facts;
        let (schema, mut warnings) = match self.survey.known {
            Some(schema) => {
                check_rows(facts.source(), facts.rows())?;
                let column = format!("{}: the target {}", facts.source(), quoted(schema.target_name()));
                schema.encoding().check_range(&column, self.codes)?;
                (schema.clone(), Vec::new())
            }
            None => {
                let (schema, warnings) = Schema::of_facts(facts, self.survey.columns)?;
                schema.check_facts(facts)?;
                (schema, warnings)
            }
        };
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
        let target = facts.require(schema.target_name())?;
        if !target.varies_in_training() {
            return Err(constant_target(facts.source(), &schema, train));
        }
        warnings
            .extend(schema.constant_inputs(facts, train)?.iter().map(|name| constant_input(&quoted(name))));
        Ok(Surveyed {
            scaling: schema.scaling_of_facts(facts, train)?,
            two_values: (target.distinct.levels().len() == 2 && train > 2).then_some(target.range),
            rows: facts.rows(),
            train,
            validation,
            groups,
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
    .hint("hold out fewer rows, or try another --seed")
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
