//! A table with only samples in memory: the survey that a fit needs, and the samples that it
//! returns.

use super::model::TableModel;
use super::resolve::{resolved, two_valued};
use super::rows::{CodedTable, TableRows};
use crate::schema::{Schema, SchemaOptions};
use crate::tabular::survey::{Sample, Survey, Surveyed};
use sparsegp::collapsed::Dataset;
use sparsegp::data::{Roles, Scaling};
use sparsegp::error::Result;
use sparsegp::hyper::Session;
use sparsegp::options::{FitOptions, Part};
use sparsegp::training::choices::{Chosen, choose};
use sparsegp::training::{TrainingData, WARM_ROWS, asks_for_warps, scaling_of, suited};

/// The number of training rows in memory that estimate the objective.
const CHECK_ROWS: usize = 20_480;

/// The maximum number of validation rows in memory.
const VALIDATION_ROWS: usize = 20_480;

/// The number of rows in memory for each inducing input that is chosen among them.
const ROWS_PER_INDUCING: usize = 20;

/// Returns the survey that a fit with these options needs.
pub(super) fn survey_of<'a>(
    columns: &'a SchemaOptions,
    known: Option<&'a Schema>,
    roles: &'a Roles,
    options: &FitOptions,
) -> Survey<'a> {
    let inducing = options.inducing.unwrap_or_default();
    Survey {
        columns,
        known,
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
    pub chosen: Chosen,
    /// Notes about the columns.
    pub notes: Vec<String>,
    /// The number of training rows.
    pub train: usize,
    pub levels: usize,
    start: TableRows,
    check: TableRows,
    /// The validation rows, in original units.
    pub validation: Option<TableRows>,
    scaled: Option<TableRows>,
}

impl Sampled {
    /// Creates the samples from the results of a pass over the table. `decide` completes the options for a number of training rows.
    ///
    /// # Errors
    ///
    /// Usage errors for options that do not suit the columns, data errors for samples that do not suit them.
    pub(super) fn of(
        surveyed: Surveyed,
        options: &FitOptions,
        start: Option<&TableModel>,
        decide: impl FnOnce(FitOptions, usize) -> FitOptions,
        session: &mut Session<'_>,
    ) -> Result<Sampled> {
        let options = resolved(options, &surveyed.schema, start)?;
        options.validate()?;
        let levels = surveyed.schema.encoding().levels().len();
        let Surveyed { schema, mut warnings, two_values, train, validation, .. } = surveyed;
        let options = schema.options_of(options)?;
        warnings.extend(two_values.and_then(|(low, high)| two_valued(&schema, low, high)));
        let part = |sample: Sample| -> Result<TableRows> {
            let mut part = CodedTable::of(&schema, &sample.table)?.part((0..sample.rows.len()).collect());
            part.rows = sample.rows;
            Ok(part)
        };
        let (mut start_rows, mut check_rows) = (part(surveyed.start)?, part(surveyed.check)?);
        let chosen = match start {
            Some(_) => Chosen::as_asked(options),
            // Options that need all rows in memory stay unchanged.
            None => {
                let open = options.open.without(&[Part::Neighbours, Part::Objective]);
                choose(
                    TrainingData { levels, ..TrainingData::of(start_rows.dataset()) },
                    &FitOptions { open, ..options },
                    session,
                )?
            }
        };
        let options = decide(chosen.options.clone(), train);
        let scaling = match start {
            Some(start) => start.scaling().clone(),
            None if asks_for_warps(&options) => {
                scaling_of(&options, start_rows.inputs(), &start_rows.targets)?
            }
            None => suited(&options, surveyed.scaling),
        };
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
            levels,
            start: start_rows,
            check: check_rows,
            validation: held_out,
            scaled,
        })
    }

    /// Returns the training rows that determine the start.
    pub(super) fn start(&self) -> Dataset<'_> {
        self.start.dataset()
    }

    /// Returns the training rows that estimate the objective: a sample, or all rows if there are at most 20,480.
    pub(super) fn check(&self) -> Dataset<'_> {
        self.check.dataset()
    }

    /// Returns the scaled validation rows.
    pub(super) fn held_out(&self) -> Option<Dataset<'_>> {
        self.scaled.as_ref().map(TableRows::dataset)
    }
}
