//! A table with only samples in memory: the single pass before training, which finds columns, scaling, bad rows and samples, and the training on them.

use super::model::TableModel;
use super::reservoir::Reservoir;
use super::resolve::{chosen_for, levels_of, resolved, scaling_for, two_valued};
use super::rows::TableRows;
use super::trees::{cross_fitted, folds_of_numbers, try_trees, with_held_out_scores};
use crate::schema::table_facts::TableFacts;
use crate::schema::{
    GroupLevels, Schema, SchemaOptions, UnseenLevels, check_labelled, check_rows, constant_inputs, odd_values,
};
use crate::tables::read::{How, TableBlocks, groups_of};
use crate::tables::table::{Table, quoted};
use crate::tables::{Ahead, Readings};
use serde::{Deserialize, Serialize};
use sparsegp::collapsed::Dataset;
use sparsegp::data::{BatchPlan, Role, Roles, Scaling};
use sparsegp::error::{Error, Result};
use sparsegp::hyper::Session;
use sparsegp::options::{FitOptions, MeanKind, Part};
use sparsegp::training::choices::Chosen;
use sparsegp::training::{AllRows, BatchSource, Origin, Prototype, Start, TrainingRows, WARM_ROWS, fit_rows};
use std::borrow::Cow;
use std::path::Path;

/// The number of training rows to sample for estimates of the objective.
const CHECK_ROWS: usize = 20_480;

/// The number of validation rows to sample.
const VALIDATION_ROWS: usize = 20_480;

/// The number of training rows to sample for each inducing input that is chosen among them.
const ROWS_PER_INDUCING: usize = 20;

/// Everything that a fit needs, except access to all rows.
pub(super) struct Sampled {
    pub schema: Schema,
    /// The scaling of the rows.
    pub scaling: Scaling,
    /// The options, with all defaults resolved.
    pub options: FitOptions,
    chosen: Chosen,
    notes: Vec<String>,
    /// The number of training rows.
    pub train: usize,
    /// The training rows that determine the start.
    start: TableRows,
    /// The training rows that estimate the objective: a sample, or all rows if there are at most 20,480.
    check: TableRows,
    /// The validation rows, in original units.
    pub validation: Option<TableRows>,
    /// The validation rows on the scale of the model.
    scaled: Option<TableRows>,
}

impl Sampled {
    /// Creates the samples from the results of a pass over the table. `decide` completes the options for a number of training rows.
    pub(super) fn of(
        surveyed: Surveyed,
        options: &FitOptions,
        start: Option<&TableModel>,
        decide: impl FnOnce(FitOptions, usize) -> FitOptions,
        session: &mut Session<'_>,
    ) -> Result<Sampled> {
        let options = resolved(options, &surveyed.schema, start)?;
        options.validate()?;
        let Surveyed { schema, mut warnings, two_values, train, validation, .. } = surveyed;
        warnings.extend(two_values.and_then(|(low, high)| two_valued(&schema, low, high)));
        let samples = (&surveyed.start, &surveyed.check);
        let Begun { schema, chosen, start: mut start_rows, check: mut check_rows } =
            Begun::of(schema.without_trees(), samples, options, start, session)?;
        let options = decide(chosen.options.clone(), train);
        let plain = || with_scores_scaled(surveyed.scaling, &schema, &check_rows);
        let scaling = scaling_for(&options, start, &start_rows, plain)?;
        let options = options.with_units_of(&scaling);
        start_rows.scale(&scaling);
        check_rows.scale(&scaling);
        let held_out = surveyed.validation_sample.map(|sample| numbered(&schema, &sample)).transpose()?;
        let scaled = held_out.as_ref().map(|part| part.scaled(&scaling));
        if held_out.as_ref().is_some_and(|part| part.targets.len() < validation) {
            warnings
                .push(format!("of {validation} validation rows, {VALIDATION_ROWS} random ones are scored"));
        }
        Ok(Sampled {
            schema,
            scaling,
            options,
            chosen,
            notes: warnings,
            train,
            start: start_rows,
            check: check_rows,
            validation: held_out,
            scaled,
        })
    }

    /// Returns the number of rows in memory.
    pub(super) fn rows(&self) -> usize {
        // Validation rows are kept in their own units too.
        let validation = 2 * self.scaled.as_ref().map_or(0, |rows| rows.targets.len());
        self.start.targets.len() + self.check.targets.len() + validation
    }

    /// Trains on all rows, from a model or from a start that the samples determine. A sample that contains all rows replaces them if it
    /// `may_replace` them.
    pub(super) fn train<'a>(
        self,
        all: &'a dyn AllRows,
        may_replace: bool,
        batches: &'a Batches<'a>,
        start: Option<&TableModel>,
        session: &mut Session<'_>,
    ) -> Result<TableModel> {
        let options = &self.options;
        let origin = match start {
            Some(from) => Origin::Start(Start::from_model(from, options, None, false)),
            None => Origin::Prototype(Prototype::of(
                options,
                self.schema.feature_dims(),
                levels_of(&self.schema),
            )?),
        };
        let rows = SampledRows { sampled: &self, all, may_replace, batches };
        let mut fitted = fit_rows(&rows, options, origin, session)?;
        fitted.decided_by(self.chosen);
        Ok(TableModel::of(fitted, self.schema, self.scaling, &self.options, self.train, self.notes))
    }
}

/// What the samples of training rows decide: the trees and all other unset options.
struct Begun {
    schema: Schema,
    chosen: Chosen,
    start: TableRows,
    check: TableRows,
}

impl Begun {
    fn of(
        mut schema: Schema,
        (start_sample, check_sample): (&Table, &Table),
        options: FitOptions,
        from: Option<&TableModel>,
        session: &mut Session<'_>,
    ) -> Result<Begun> {
        let training = |schema: &Schema, sample: &Table| {
            numbered(schema, sample).map(|rows| with_held_out_scores(schema, rows))
        };
        let mut check = numbered(&schema, check_sample)?;
        let folds = folds_of_numbers(&check.rows);
        if options.mean == MeanKind::Trees {
            schema = cross_fitted(&schema, &check, &folds, &options, session)?.0;
        }
        let mut start = training(&schema, start_sample)?;
        let options = schema.options_of(options)?;
        // Options that need all rows in memory stay unchanged.
        let open = options.open.without(&[Part::Neighbours, Part::Objective]);
        let options = if from.is_none() { FitOptions { open, ..options } } else { options };
        let mut chosen = chosen_for(&options, from, &schema, &start, session)?;
        if from.is_none()
            && options.open.contains(Part::Mean)
            && !session.is_late()
            && let Some((choice, options)) = try_trees(&schema, &check, &folds, &chosen, session)?
        {
            if options.is_some() {
                schema = cross_fitted(&schema, &check, &folds, &chosen.options, session)?.0;
                start = training(&schema, start_sample)?;
            }
            chosen = chosen.then(choice, options);
        }
        if schema.trees().is_some() {
            check = training(&schema, check_sample)?;
        }
        Ok(Begun { schema, chosen, start, check })
    }
}

/// Reads a sample of rows, numbered as in the table.
fn numbered(schema: &Schema, sample: &Table) -> Result<TableRows> {
    TableRows::of(schema, sample).map(|rows| rows.numbered_in(sample))
}

/// Returns a scaling of the inputs without scores of trees, completed by that of the scores of some rows.
fn with_scores_scaled(mut scaling: Scaling, schema: &Schema, rows: &TableRows) -> Scaling {
    if let Some((_, own)) = schema.trees() {
        let of_rows = Scaling::standardise(rows.inputs(), &rows.targets);
        scaling.inputs.splice(own.start..own.start, of_rows.inputs[own].iter().copied());
    }
    scaling
}

/// Makes the batches of a plan with a seed.
type Batches<'a> = dyn Fn(BatchPlan, u64) -> Result<Box<dyn BatchSource + 'a>> + 'a;

/// The rows of a fit, on the scale of the model.
struct SampledRows<'a, 'b> {
    sampled: &'b Sampled,
    all: &'a dyn AllRows,
    may_replace: bool,
    batches: &'a Batches<'a>,
}

impl TrainingRows for SampledRows<'_, '_> {
    fn all(&self) -> &dyn AllRows {
        self.all
    }

    fn in_memory(&self) -> Option<Dataset<'_>> {
        let all = |check: &Dataset<'_>| self.may_replace && check.len() == self.all.count();
        Some(self.check_sample()).filter(all)
    }

    fn start_sample(&self) -> Dataset<'_> {
        self.sampled.start.dataset()
    }

    fn check_sample(&self) -> Dataset<'_> {
        self.sampled.check.dataset()
    }

    fn validation(&self) -> Option<Dataset<'_>> {
        self.sampled.scaled.as_ref().map(TableRows::dataset)
    }

    fn levels(&self) -> usize {
        levels_of(&self.sampled.schema)
    }

    fn batches(&self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + '_>> {
        (self.batches)(plan, seed)
    }
}

/// The number of rows of a file to read at once.
pub(crate) const BLOCK_ROWS: usize = 8192;

/// The number of blocks to read ahead.
pub(crate) const BLOCKS_AHEAD: usize = 2;

/// A request for a survey of a table.
pub(super) struct Survey<'a> {
    /// The columns to use; if they are known, only the target is read from here besides the schema.
    pub columns: &'a SchemaOptions,
    pub roles: &'a Roles,
    /// The options of the fit.
    pub options: &'a FitOptions,
}

pub(super) struct Surveyed {
    pub schema: Schema,
    /// Warnings about columns that can be used but look wrong.
    pub warnings: Vec<String>,
    /// The scaling that standardises inputs and target over the training rows.
    pub scaling: Scaling,
    /// The two values of the target, if it has exactly two.
    pub two_values: Option<(f64, f64)>,
    /// The number of rows of the file.
    pub rows: usize,
    pub train: usize,
    pub validation: usize,
    /// The numbers of the parts, each with its number of training rows.
    pub parts: Vec<(usize, usize)>,
    /// The number of rows of each row group, if the table is a file with row groups.
    pub groups: Option<Vec<usize>>,
    /// A uniform sample of the training rows.
    pub start: Table,
    /// Another uniform sample of the training rows, independent of `start`.
    pub check: Table,
    /// A uniform sample of the validation rows, if there are any.
    pub validation_sample: Option<Table>,
}

/// The results of a pass over some parts of a table: the facts of columns, and uniform samples of rows.
///
/// Results are merged in the order of their rows. They are serialised in formats that preserve every `f64`, such as
/// postcard. A block knows its position in the table ([`Table::from_row`]), and the role of a row depends only on that position.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartSurvey {
    facts: TableFacts,
    start: Reservoir,
    check: Reservoir,
    validation: Reservoir,
    /// The number of all rows, with and without a target.
    rows: usize,
    /// The range of the coded target, for known columns.
    codes: (f64, f64),
    /// The levels of groupings in training rows.
    levels: GroupLevels,
    /// The numbers of the parts, each with its number of training rows.
    parts: Vec<(usize, usize)>,
}

/// Reads the file (not standard input) once, or twice if text columns turn out to hold numbers or dates.
///
/// Fails as for [`Schema::infer`] and [`Schema::design`] on the whole table (or [`Schema::check_training`] for known columns), and if too
/// few training rows are left or the target is constant among them.
pub(super) fn survey(path: &Path, survey: &Survey<'_>) -> Result<Surveyed> {
    let groups = groups_of(path)?;
    Ok(Surveyed { groups, ..in_passes(survey, &mut |survey| one_pass(path, survey))? })
}

fn one_pass(path: &Path, survey: &Survey<'_>) -> Result<PartSurvey> {
    let columns = survey.columns;
    let missing = columns.known.as_ref().map_or(&columns.missing, |schema| &schema.missing);
    let interval = columns.interval();
    let how = How { delimiter: columns.delimiter, missing, interval, ..How::default() };
    let blocks = TableBlocks::new(path, BLOCK_ROWS, &|name| columns.uses(name), how)?;
    let names = blocks.names().iter().map(String::as_str);
    let mut sums = PartSurvey::new(blocks.source(), names, survey, 0)?;
    for block in blocks.ahead()? {
        sums.take(survey, &block?)?;
    }
    Ok(sums)
}

/// Surveys a table by `pass`, and by another pass if text columns turn out to hold numbers or dates.
pub(super) fn in_passes(
    survey: &Survey<'_>,
    pass: &mut dyn FnMut(&Survey<'_>) -> Result<PartSurvey>,
) -> Result<Surveyed> {
    let sums = pass(survey)?;
    let (readings, note) = sums.readings(survey)?;
    let mut surveyed = if readings.is_empty() {
        sums.finish(survey)?
    } else {
        let columns = SchemaOptions { readings: Some(readings), ..survey.columns.clone() };
        let survey = Survey { columns: &columns, ..*survey };
        pass(&survey)?.finish(&survey)?
    };
    surveyed.warnings.splice(..0, note);
    Ok(surveyed)
}

impl PartSurvey {
    /// Creates empty results for part `part` of a table with the columns `names`. Messages call the table `source`. Parts are numbered in the
    /// order of their rows; a whole table is part 0. The samples of parts are independent. Fails if columns are known and one of them is absent.
    pub(super) fn new<'a>(
        source: &str,
        names: impl Iterator<Item = &'a str> + Clone,
        survey: &Survey<'_>,
        part: usize,
    ) -> Result<PartSurvey> {
        let columns = survey.columns;
        let places = match &columns.known {
            Some(schema) => {
                schema.check_columns(source, names.clone())?;
                schema.places()
            }
            None => columns.places.as_ref(),
        };
        let inducing = survey.options.inducing.unwrap_or_default();
        let seed = survey.options.seed;
        let sample = |most: usize, number: u64| Reservoir::new(most, seed, number, part as u64);
        Ok(PartSurvey {
            facts: TableFacts::new(source, names, &|name| columns.demand(name), places),
            start: sample(WARM_ROWS.max(inducing.saturating_mul(ROWS_PER_INDUCING)), 0),
            check: sample(CHECK_ROWS, 1),
            validation: sample(VALIDATION_ROWS, 2),
            rows: 0,
            codes: (f64::INFINITY, f64::NEG_INFINITY),
            levels: GroupLevels::default(),
            parts: vec![(part, 0)],
        })
    }

    /// Adds the next rows. Fails if columns are known and a cell does not suit them.
    pub(super) fn take(&mut self, survey: &Survey<'_>, block: &Table) -> Result<()> {
        self.rows += block.rows();
        let SchemaOptions { target, known, readings, groups, .. } = survey.columns;
        let block = block.with_values(target);
        let readings = known.as_ref().map(|schema| &schema.readings).or(readings.as_ref());
        let block = &*match readings {
            Some(readings) => block.read(readings, &|_| true)?,
            None => Cow::Borrowed(&*block),
        };
        if let Some(schema) = known {
            self.check_known(schema, block)?;
        }
        let mut training = Vec::with_capacity(block.rows());
        for row in 0..block.rows() {
            let role = survey.roles.of(block.row(row));
            training.push(role == Role::Train);
            match role {
                Role::Train => {
                    self.start.offer(block, row);
                    self.check.offer(block, row);
                    self.parts[0].1 += 1;
                }
                Role::Validation => self.validation.offer(block, row),
                Role::Test => {}
            }
        }
        self.facts.push(block, Some(&training));
        if known.is_none() && !groups.is_empty() {
            let train: Vec<usize> = (0..block.rows()).filter(|&row| training[row]).collect();
            self.levels.push(&block.take(&train), survey.columns)?;
        }
        Ok(())
    }

    /// Checks every cell of a block against the known columns.
    fn check_known(&mut self, schema: &Schema, block: &Table) -> Result<()> {
        block.require(schema.target_name())?;
        for code in schema.target(block)?.into_iter().flatten() {
            self.codes = (self.codes.0.min(code), self.codes.1.max(code));
        }
        schema.exposure(block)?;
        schema.weights(block)?;
        schema.design(block, UnseenLevels::New).map(|_| ())
    }

    /// Merges the results of later rows.
    ///
    /// # Errors
    ///
    /// If they come from another survey or are not of a later part. The results are unusable then.
    pub fn merge(&mut self, later: PartSurvey) -> Result<()> {
        self.facts.merge(later.facts)?;
        self.start.merge(later.start)?;
        self.check.merge(later.check)?;
        self.validation.merge(later.validation)?;
        self.levels.merge(later.levels);
        self.parts.extend(later.parts);
        self.rows += later.rows;
        self.codes = (self.codes.0.min(later.codes.0), self.codes.1.max(later.codes.1));
        Ok(())
    }

    /// Returns, for each text column that turned out to hold numbers or dates, how to convert it, and one line about these columns for the
    /// user. If there are any, the table has to be surveyed again with these [`SchemaOptions::readings`].
    fn readings(&self, survey: &Survey<'_>) -> Result<(Readings, Option<String>)> {
        if survey.columns.known.is_some() || survey.columns.readings.is_some() {
            return Ok((Readings::new(), None));
        }
        survey.columns.readings_of(&self.facts)
    }

    /// Evaluates the results of all rows. Fails if columns cannot be used, too few training rows are left, or the target is constant among them.
    fn finish(self, survey: &Survey<'_>) -> Result<Surveyed> {
        let facts = &self.facts;
        let unlabelled = check_labelled(&survey.columns.target, &facts.source, facts.rows, self.rows)?;
        let (schema, mut warnings) = match &survey.columns.known {
            Some(schema) => {
                check_rows(&facts.source, facts.rows)?;
                let column = format!("{}: the target {}", facts.source, quoted(schema.target_name()));
                schema.encoding().check_range(&column, self.codes.0, self.codes.1)?;
                (schema.clone(), Vec::new())
            }
            None => {
                let (mut schema, warnings) = Schema::of_facts(facts, survey.columns)?;
                schema.take_groups(&self.levels, survey.columns)?;
                schema.check_facts(facts)?;
                (schema, warnings)
            }
        };
        warnings.extend(unlabelled);
        let (train, validation) = (self.start.offered(), self.validation.offered());
        let (Some(start), Some(check), 2..) =
            (self.start.finish(&facts.source), self.check.finish(&facts.source), train)
        else {
            let found =
                format!("{}: only {train} of {} rows are left for training", facts.source, facts.rows);
            return Err(Error::data(format!("{found}, expected at least 2"))
                .hint("make the test or validation fraction smaller"));
        };
        if survey.columns.known.is_none() {
            let rows = check.read(&schema.readings, &|_| true)?;
            warnings.extend(odd_values(facts, &schema, &rows)?);
        }
        let target = facts.require(schema.target_name())?;
        if !target.varies_in_training() {
            return Err(constant_target(&facts.source, &schema, train));
        }
        let (scaling, constant) = schema.scaling_of_facts(facts, train)?;
        warnings.extend(constant_inputs(constant.iter().map(|name| quoted(name))));
        Ok(Surveyed {
            scaling,
            two_values: (target.distinct.levels.len() == 2 && train > 2).then_some(target.plain.range),
            rows: self.rows,
            train,
            validation,
            parts: self.parts,
            groups: None,
            start,
            check,
            validation_sample: self.validation.finish(&facts.source),
            schema,
            warnings,
        })
    }
}

/// Creates the error for a target that is constant among the training rows although it varies in the file.
pub(crate) fn constant_target(source: &str, schema: &Schema, rows: usize) -> Error {
    let found = format!("{source}: the target {} is the same", quoted(schema.target_name()));
    Error::data(format!("{found} in all {rows} training rows, expected values that vary"))
        .hint("hold out fewer rows, or try another ⟨seed⟩")
}

impl TableBlocks {
    /// Reads the blocks on another thread, a few ahead.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn ahead(mut self) -> Result<Ahead<Result<Table>>> {
        Ahead::new(BLOCKS_AHEAD, move || self.next())
    }
}

#[cfg(test)]
mod tests;
