//! A table with only samples in memory: the survey that a fit needs, and the samples that it
//! returns.

use super::model::TableModel;
use super::resolve::{chosen_for, levels_of, resolved, scaling_for, two_valued};
use super::rows::TableRows;
use super::survey::{Sample, Survey, Surveyed};
use crate::schema::{Schema, SchemaOptions};
use sparsegp::collapsed::Dataset;
use sparsegp::data::{BatchPlan, Roles, Scaling};
use sparsegp::error::Result;
use sparsegp::hyper::Session;
use sparsegp::options::{FitOptions, Part};
use sparsegp::training::choices::Chosen;
use sparsegp::training::{AllRows, BatchSource, Origin, Prototype, Start, TrainingRows, WARM_ROWS, fit_rows};

/// The number of training rows in memory that estimate the objective.
const CHECK_ROWS: usize = 20_480;

/// The maximum number of validation rows in memory.
const VALIDATION_ROWS: usize = 20_480;

/// The number of rows in memory for each inducing input that is chosen among them.
const ROWS_PER_INDUCING: usize = 20;

/// Returns the survey that a fit with these options needs.
pub(super) fn survey_of<'a>(
    columns: &'a SchemaOptions,
    roles: &'a Roles,
    options: &FitOptions,
) -> Survey<'a> {
    let inducing = options.inducing.unwrap_or_default();
    Survey {
        columns,
        roles,
        start_rows: WARM_ROWS.max(inducing.saturating_mul(ROWS_PER_INDUCING)),
        check_rows: CHECK_ROWS,
        validation_rows: VALIDATION_ROWS,
        seed: options.seed,
    }
}

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
        let options = schema.options_of(options)?;
        warnings.extend(two_values.and_then(|(low, high)| two_valued(&schema, low, high)));
        let part = |sample: Sample| -> Result<TableRows> {
            Ok(TableRows { rows: sample.rows, ..TableRows::of(&schema, &sample.table)? })
        };
        let (mut start_rows, mut check_rows) = (part(surveyed.start)?, part(surveyed.check)?);
        // Options that need all rows in memory stay unchanged.
        let open = options.open.without(&[Part::Neighbours, Part::Objective]);
        let options = if start.is_none() { FitOptions { open, ..options } } else { options };
        let chosen = chosen_for(&options, start, &schema, &start_rows, session)?;
        let options = decide(chosen.options.clone(), train);
        let scaling = scaling_for(&options, start, &start_rows, || surveyed.scaling)?;
        let options = options.with_units_of(&scaling);
        start_rows.scale(&scaling);
        check_rows.scale(&scaling);
        let held_out = surveyed.validation_sample.map(part).transpose()?;
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
        let start = start.map(|from| Start::from_model(from, options, None, false));
        let origin = match &start {
            Some(start) => Origin::Start(start),
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
