//! Fits to a table whose parts are on other machines: the work on one part, and the fit that
//! combines the results.

use super::model::TableModel;
use super::resolve::schema_options;
use super::rows::TableRows;
use super::survey::{PartSurvey, Sampled, Survey, Surveyed, in_passes};
use crate::schema::{Schema, SchemaOptions};
use crate::tables::{Readings, Table};
use serde::{Deserialize, Serialize};
use sparsegp::checkpoint::Identity;
use sparsegp::data::{BatchPlan, Role, Roles, Scaling};
use sparsegp::error::{Error, Result};
use sparsegp::hyper::{Clock, Session};
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp::training::{PartedRows, Parts, Sums, unreadable};

/// The default batch size of mini-batch training on parts. It is large because every round has the fixed cost of reaching all parts.
const BATCH_ROWS: usize = 32_768;

/// The request for a fit to a table in parts.
#[derive(Clone, Copy)]
pub struct PartsRequest<'a> {
    /// The columns to use.
    pub columns: &'a SchemaOptions,
    /// The options of the fit.
    pub options: &'a FitOptions,
    /// True if the user set the batch size; otherwise it is chosen to suit rounds to parts.
    pub batch_size_given: bool,
}

impl PartsRequest<'_> {
    /// Refuses fits that need all rows in one place.
    ///
    /// # Errors
    ///
    /// Usage errors that name the option.
    pub fn check(&self) -> Result<()> {
        let options = self.options;
        let whole = [
            ("⟨neighbours⟩", options.neighbours.is_some()),
            ("⟨inducing auto⟩", options.growth.is_some()),
            ("⟨restarts⟩", options.restarts > 1),
            ("⟨batch_schedule⟩", options.steps.batch_schedule.is_some()),
            ("⟨model glm⟩", options.model == ModelKind::Glm),
        ];
        match whole.into_iter().find(|(_, asked)| *asked) {
            Some((name, _)) => {
                Err(Error::usage(format!("{name} needs all rows in one place, but the rows are in parts"))
                    .hint("leave it out, or fit to a sample of the rows in one place"))
            }
            None => Ok(()),
        }
    }

    fn schema_options(&self, readings: Option<&Readings>) -> Result<SchemaOptions> {
        let columns = schema_options(self.columns, self.options)?;
        Ok(SchemaOptions { readings: readings.cloned(), ..columns })
    }

    fn roles(&self) -> Result<Roles> {
        Roles::scattered(self.options.validation_fraction, self.options.seed)
    }

    /// Returns the options with the defaults that follow from the number of rows.
    fn decided(&self, options: FitOptions, rows: usize) -> FitOptions {
        let inducing = Some(options.inducing_for(rows));
        let decided = FitOptions { inducing, ..options }.decided_for_parts(rows);
        if self.batch_size_given || decided.is_collapsed() {
            return decided;
        }
        FitOptions { steps: StepOptions { batch_size: BATCH_ROWS, ..decided.steps.clone() }, ..decided }
    }
}

/// A table in parts that are held elsewhere, numbered from 0 in the order of their rows. An implementation passes work to the holders of
/// all parts that have rows.
pub trait TableParts: Sync {
    /// Returns the number of parts.
    fn count(&self) -> usize;

    /// Returns the merged results of [`PartSurvey::of`] over all parts, in their order.
    ///
    /// # Errors
    ///
    /// If a part cannot be read; the fit ends with that error.
    fn survey(&self, readings: Option<&Readings>) -> Result<PartSurvey>;

    /// Sends the holders the preparation of their parts. All rounds refer to the rows that [`Preparation::rows`] makes.
    ///
    /// # Errors
    ///
    /// If the preparation is certain to fail.
    fn prepare(&self, preparation: &Preparation) -> Result<()>;

    /// Returns the merged answers of all parts to a [`Round`](sparsegp::training::Round).
    ///
    /// # Errors
    ///
    /// If an answer is missing.
    fn ask(&self, round: Vec<u8>) -> Result<Sums>;
}

impl PartSurvey {
    /// Surveys part number `part`, whose position in the whole table is set by [`Table::from_row`].
    /// `readings`, if there are any, determine how text columns are converted.
    ///
    /// # Errors
    ///
    /// If a cell does not suit the readings.
    pub fn of(
        request: PartsRequest<'_>,
        table: &Table,
        part: usize,
        readings: Option<&Readings>,
    ) -> Result<PartSurvey> {
        let (columns, roles) = (request.schema_options(readings)?, request.roles()?);
        let survey = Survey { columns: &columns, roles: &roles, options: request.options };
        let names = table.columns().iter().map(|named| named.name.as_str());
        let mut sums = PartSurvey::new(table.source(), names, &survey, part)?;
        sums.take(&survey, table)?;
        Ok(sums)
    }

    /// Serialises the survey.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(|error| unreadable(&error))
    }

    /// Reads a serialised survey.
    ///
    /// # Errors
    ///
    /// If the bytes are of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<PartSurvey> {
        postcard::from_bytes(bytes).map_err(|error| unreadable(&error))
    }
}

/// The conversion of a part of a table to scaled rows for the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preparation {
    schema: Schema,
    scaling: Scaling,
    validation_fraction: f64,
    seed: u64,
}

impl Preparation {
    /// Serialises the preparation as text.
    ///
    /// # Errors
    ///
    /// If it contains numbers that are not finite.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| unreadable(&error))
    }

    /// Reads the text of a preparation.
    ///
    /// # Errors
    ///
    /// If the text is of another version.
    pub fn from_text(text: &str) -> Result<Preparation> {
        serde_json::from_str(text).map_err(|error| unreadable(&error))
    }

    /// Returns the training rows of a part, whose position in the whole table is set.
    ///
    /// # Errors
    ///
    /// If it lacks a column, or a cell does not suit its column.
    pub fn rows(&self, table: &Table) -> Result<TableRows> {
        let names = table.columns().iter().map(|named| named.name.as_str());
        self.schema.check_columns(table.source(), names)?;
        let roles = Roles::scattered(self.validation_fraction, self.seed)?;
        let mut rows = TableRows::of_role(&self.schema, table, &roles, Role::Train)?;
        rows.scale(&self.scaling);
        Ok(rows)
    }
}

/// A fit to a table in parts with known columns.
pub struct PartsFit<'a> {
    request: PartsRequest<'a>,
    parts: &'a dyn TableParts,
    surveyed: Surveyed,
    counts: Vec<usize>,
}

impl<'a> PartsFit<'a> {
    /// Finds columns, scaling and samples in one pass over the parts, or in two if text columns turn out to be numbers or dates.
    ///
    /// # Errors
    ///
    /// As for [`fit_file`](super::fit_file), and if a part cannot be read.
    pub fn new(request: PartsRequest<'a>, parts: &'a dyn TableParts) -> Result<PartsFit<'a>> {
        request.options.validate()?;
        request.check()?;
        let roles = request.roles()?;
        let columns = request.schema_options(None)?;
        let survey = Survey { columns: &columns, roles: &roles, options: request.options };
        let surveyed = in_passes(&survey, &mut |survey| parts.survey(survey.columns.readings.as_ref()))?;
        let mut counts = vec![0; parts.count()];
        for &(part, rows) in &surveyed.parts {
            let count = counts.get_mut(part).ok_or_else(|| {
                Error::data(format!("found part {part}, expected a number below {}", parts.count()))
            })?;
            *count = rows;
        }
        Ok(PartsFit { request, parts, surveyed, counts })
    }

    /// Returns everything that determines the course of the fit; a checkpoint stores it to recognise its fit.
    ///
    /// # Errors
    ///
    /// If the options cannot be serialised.
    pub fn identity(&self) -> Result<Identity> {
        let Surveyed { start, check, scaling, .. } = &self.surveyed;
        let written = |value: serde_json::Result<serde_json::Value>| {
            value.map_err(|error| Error::usage(format!("the options cannot be serialised: {error}")))
        };
        let mut identity: Identity = vec![
            ("the program's version".into(), env!("CARGO_PKG_VERSION").into()),
            ("the digest of the rows to start from".into(), start.digest()),
            ("the digest of the rows to check by".into(), check.digest()),
            ("the scaling".into(), written(serde_json::to_value(scaling))?.to_string()),
            ("the rows of partitions".into(), format!("{:?}", self.counts)),
        ];
        let parts = [serde_json::to_value(self.request.options), serde_json::to_value(self.request.columns)];
        for part in parts {
            let part = written(part)?;
            let values = part.as_object().into_iter().flatten();
            // A time limit does not change the steps before it.
            let values = values.filter(|(name, _)| *name != "max_seconds");
            identity.extend(values.map(|(name, value)| (name.clone(), value.to_string())));
        }
        Ok(identity)
    }

    /// Fits the model. Starting values are computed here, on samples; everything else comes from rounds to the parts.
    ///
    /// # Errors
    ///
    /// As for [`fit_file`](super::fit_file), and if a round fails.
    pub fn fit(self, session: &mut Session<'_>) -> Result<TableModel> {
        let PartsFit { request, parts, surveyed, counts } = self;
        let decide = |options: FitOptions, rows: usize| request.decided(options, rows);
        let clock = session.clock(request.options.max_seconds);
        let choosing = &mut session.until(clock, Clock::CHOICES);
        let sampled = Sampled::of(surveyed, request.options, None, decide, choosing)?;
        let session = &mut session.until(clock, Clock::TRAINING);
        parts.prepare(&Preparation {
            schema: sampled.schema.clone(),
            scaling: sampled.scaling.clone(),
            validation_fraction: request.options.validation_fraction,
            seed: request.options.seed,
        })?;
        let holders = Holders { parts, counts };
        let all = Parts(&holders);
        let batches = |plan: BatchPlan, seed: u64| all.batches(plan, seed);
        sampled.train(&all, false, &batches, None, session)
    }
}

/// The parts, as holders of rows.
struct Holders<'a> {
    parts: &'a dyn TableParts,
    counts: Vec<usize>,
}

impl PartedRows for Holders<'_> {
    fn counts(&self) -> &[usize] {
        &self.counts
    }

    fn ask(&self, round: Vec<u8>) -> Result<Sums> {
        self.parts.ask(round)
    }
}
