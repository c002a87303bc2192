//! A table that is in memory by samples alone: what a pass over all of it is to find, and what a fit makes of that; no reading.

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
use sparsegp::training::{WARM_ROWS, asks_for_warps, scaling_of, suited};

/// Training rows in memory that the objective is estimated on.
const CHECK_ROWS: usize = 20_480;

/// Validation rows in memory at most.
const VALIDATION_ROWS: usize = 20_480;

/// Rows in memory for each inducing input that is chosen among them.
const ROWS_PER_INDUCING: usize = 20;

/// What to find out for a fit with these options.
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

/// What a fit takes besides a way to all rows.
pub(super) struct Sampled {
    pub schema: Schema,
    /// How the model sees rows.
    pub scaling: Scaling,
    /// The options with everything decided.
    pub options: FitOptions,
    pub chosen: Chosen,
    /// What is said about the columns.
    pub notes: Vec<String>,
    /// Rows to train on.
    pub train: usize,
    pub levels: usize,
    start: TableRows,
    check: TableRows,
    /// In original units.
    pub validation: Option<TableRows>,
    scaled: Option<TableRows>,
}

impl Sampled {
    /// From what a pass over the table found; `decide` says what follows from the options for so many training rows.
    ///
    /// # Errors
    ///
    /// Usage errors for options that do not go with the columns, data errors for samples that do not suit them.
    pub(super) fn of(
        surveyed: Surveyed,
        (options, start): (&FitOptions, Option<&TableModel>),
        decide: impl FnOnce(FitOptions, usize) -> FitOptions,
        session: &mut Session<'_>,
    ) -> Result<Sampled> {
        let options = resolved(options, &surveyed.schema, start)?;
        options.validate()?;
        let levels = surveyed.schema.encoding().levels().len();
        let Surveyed { schema, mut warnings, two_values, train, validation, .. } = surveyed;
        let options = schema.options_of(options)?;
        warnings.extend(two_values.and_then(|values| two_valued(&schema, values)));
        let part = |sample: Sample| -> Result<TableRows> {
            let mut part = CodedTable::of(&schema, &sample.table)?.part((0..sample.rows.len()).collect());
            part.rows = sample.rows;
            Ok(part)
        };
        let (mut start_rows, mut check_rows) = (part(surveyed.start)?, part(surveyed.check)?);
        let chosen = match start {
            Some(_) => Chosen::as_asked(options),
            // What needs all rows in memory stays as it is.
            None => {
                let open = options.open.without(&[Part::Neighbours, Part::Objective]);
                choose((start_rows.dataset(), levels), &FitOptions { open, ..options }, session)?
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

    /// Training rows to find a start on.
    pub(super) fn start(&self) -> Dataset<'_> {
        self.start.dataset()
    }

    /// Training rows to estimate the objective on; all of them if they are no more than 20,480.
    pub(super) fn check(&self) -> Dataset<'_> {
        self.check.dataset()
    }

    /// Rows to choose by, on the scale the model sees.
    pub(super) fn held_out(&self) -> Option<Dataset<'_>> {
        self.scaled.as_ref().map(TableRows::dataset)
    }
}
