//! Fits to tables in parts that are held elsewhere: what their holders do with a part, and the fit that asks them; no transport.

use super::model::TableModel;
use super::resolve::schema_options;
use super::rows::{CodedTable, TableRows};
use super::sampled::{Sampled, survey_of};
use super::survey::{Surveyed, TableSums};
use crate::schema::{Schema, SchemaOptions};
use crate::tables::{Readings, Table};
use serde::{Deserialize, Serialize};
use sparsegp::checkpoint::Identity;
use sparsegp::collapsed::Dataset;
use sparsegp::data::{BatchPlan, Role, Roles, Scaling};
use sparsegp::error::{Error, Result};
use sparsegp::hyper::{Clock, Session};
use sparsegp::options::{FitOptions, ModelKind, StepOptions};
use sparsegp::training::{
    AllRows, BatchSource, Origin, PartedRows, Parts, Prototype, Sums, TrainingRows, fit_rows, unreadable,
};

/// A batch of mini-batch training where nobody says how large one is: a round costs as long as it takes to reach all parts and come back,
/// so that its work has to be worth that.
const BATCH_ROWS: usize = 32_768;

/// What to fit, and how, to a table in parts.
#[derive(Clone, Copy)]
pub struct PartsRequest<'a> {
    /// Which columns to use.
    pub columns: &'a SchemaOptions,
    /// How to fit.
    pub options: &'a FitOptions,
    /// Whether the batch size of the options was asked for, or is to suit rounds to parts.
    pub batch_size_given: bool,
}

impl PartsRequest<'_> {
    /// Refuses what needs all rows in one place.
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
            Some((name, _)) => Err(Error::usage(format!("{name} needs all rows in one place, not in parts"))
                .hint("leave it out, or fit a sample of the rows")),
            None => Ok(()),
        }
    }

    fn schema_options(&self, readings: Option<&Readings>) -> Result<SchemaOptions> {
        self.columns.check_no_groups("a fit to parts of a table")?;
        let columns = schema_options(self.columns, self.options)?;
        Ok(SchemaOptions { readings: readings.cloned(), ..columns })
    }

    fn roles(&self) -> Result<Roles> {
        Roles::scattered(self.options.validation_fraction, self.options.seed)
    }

    /// What follows from options for so many rows.
    fn decided(&self, options: FitOptions, rows: usize) -> FitOptions {
        let inducing = Some(options.inducing_for(rows));
        let decided = FitOptions { inducing, ..options }.decided_for_parts(rows);
        if self.batch_size_given || decided.is_collapsed() {
            return decided;
        }
        FitOptions { steps: StepOptions { batch_size: BATCH_ROWS, ..decided.steps.clone() }, ..decided }
    }
}

/// A table in parts, which are held elsewhere and numbered from 0 in the order of their rows. Whoever implements this hands work to the
/// holders of all parts that have rows.
pub trait TableParts: Sync {
    /// The number of parts.
    fn count(&self) -> usize;

    /// What [`PartSurvey::of`] finds in the parts, merged in their order.
    ///
    /// # Errors
    ///
    /// When a part cannot be looked at; the fit ends with that error, as for the others.
    fn survey(&self, readings: Option<&Readings>) -> Result<PartSurvey>;

    /// Lets the holders know how rows are made of a part: what [`Preparation::rows`] makes is what all rounds are about.
    ///
    /// # Errors
    ///
    /// When that is certain to fail.
    fn prepare(&self, preparation: &Preparation) -> Result<()>;

    /// The answers of all parts to a [`Round`](sparsegp::training::Round), merged.
    ///
    /// # Errors
    ///
    /// When an answer cannot be had.
    fn ask(&self, round: Vec<u8>) -> Result<Sums>;
}

/// What a pass over some parts of a table finds out.
#[derive(Debug, Serialize, Deserialize)]
pub struct PartSurvey {
    sums: TableSums,
    /// Parts with the number of their rows to train on.
    train: Vec<(usize, usize)>,
}

impl PartSurvey {
    /// Of part `part`, which says itself where in the whole table it is ([`Table::from_row`]); with `readings` columns are read so.
    ///
    /// # Errors
    ///
    /// When a cell does not suit the readings.
    pub fn of(
        request: PartsRequest<'_>,
        table: &Table,
        part: usize,
        readings: Option<&Readings>,
    ) -> Result<PartSurvey> {
        let (columns, roles) = (request.schema_options(readings)?, request.roles()?);
        let survey = survey_of(&columns, None, &roles, request.options);
        let names = table.columns().iter().map(|named| named.name.as_str());
        let mut sums = TableSums::new(table.source(), names, &survey, part as u64)?;
        sums.take(&survey, table)?;
        Ok(PartSurvey { train: vec![(part, sums.training_rows())], sums })
    }

    /// Takes in what was found in later parts.
    ///
    /// # Errors
    ///
    /// When they are no later ones, or have other columns.
    pub fn merge(&mut self, later: PartSurvey) -> Result<()> {
        self.sums.merge(later.sums)?;
        self.train.extend(later.train);
        Ok(())
    }

    /// All of it as bytes.
    ///
    /// # Errors
    ///
    /// When there is no memory for them.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(|error| unreadable(&error))
    }

    /// Reads the bytes of a survey.
    ///
    /// # Errors
    ///
    /// When they are of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<PartSurvey> {
        postcard::from_bytes(bytes).map_err(|error| unreadable(&error))
    }
}

/// How rows on the scale the model sees are made of a part of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preparation {
    schema: Schema,
    scaling: Scaling,
    validation_fraction: f64,
    seed: u64,
}

impl Preparation {
    /// All of it as text.
    ///
    /// # Errors
    ///
    /// When it holds numbers that are not finite.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| unreadable(&error))
    }

    /// Reads the text of a preparation.
    ///
    /// # Errors
    ///
    /// When it is of another version.
    pub fn from_text(text: &str) -> Result<Preparation> {
        serde_json::from_str(text).map_err(|error| unreadable(&error))
    }

    /// The training rows of a part, which says itself where in the whole table it is.
    ///
    /// # Errors
    ///
    /// When it lacks a column, or a cell is not what its column holds.
    pub fn rows(&self, table: &Table) -> Result<TableRows> {
        let names = table.columns().iter().map(|named| named.name.as_str());
        self.schema.check_columns(table.source(), names)?;
        let roles = Roles::scattered(self.validation_fraction, self.seed)?;
        let table = table.with_values(self.schema.target_name());
        let table = &*table.read(&self.schema.readings, &|_| true)?;
        let train = (0..table.rows()).filter(|&row| roles.of(table.row(row)) == Role::Train);
        let mut rows = CodedTable::of(&self.schema, table)?.part(train.collect());
        rows.scale(&self.scaling);
        Ok(rows)
    }
}

/// A fit to a table in parts whose columns are known.
pub struct PartsFit<'a> {
    request: PartsRequest<'a>,
    parts: &'a dyn TableParts,
    surveyed: Surveyed,
    counts: Vec<usize>,
}

impl<'a> PartsFit<'a> {
    /// Finds columns, scaling and samples by one pass over the parts, or by two where columns of text turn out to be numbers or dates.
    ///
    /// # Errors
    ///
    /// As for [`fit_file`](super::fit_file), and when a part cannot be looked at.
    pub fn new(request: PartsRequest<'a>, parts: &'a dyn TableParts) -> Result<PartsFit<'a>> {
        request.options.validate()?;
        request.check()?;
        let roles = request.roles()?;
        let columns = request.schema_options(None)?;
        let survey = survey_of(&columns, None, &roles, request.options);
        let found = parts.survey(None)?;
        let (readings, note) = found.sums.readings(&survey)?;
        let (surveyed, train) = if readings.is_empty() {
            (found.sums.finish(&survey)?, found.train)
        } else {
            let columns = request.schema_options(Some(&readings))?;
            let survey = survey_of(&columns, None, &roles, request.options);
            let found = parts.survey(Some(&readings))?;
            (found.sums.finish(&survey)?, found.train)
        };
        let mut counts = vec![0; parts.count()];
        for (part, rows) in train {
            let count = counts.get_mut(part).ok_or_else(|| {
                Error::data(format!("there is a part {part}, expected less than {}", parts.count()))
            })?;
            *count = rows;
        }
        let mut fit = PartsFit { request, parts, surveyed, counts };
        fit.surveyed.warnings.splice(..0, note);
        Ok(fit)
    }

    /// What the course of the fit depends on: by this a checkpoint knows its fit.
    ///
    /// # Errors
    ///
    /// When options cannot be written down.
    pub fn identity(&self) -> Result<Identity> {
        let Surveyed { start, check, scaling, .. } = &self.surveyed;
        let written = |value: serde_json::Result<serde_json::Value>| {
            value.map_err(|error| Error::usage(format!("the options cannot be written down: {error}")))
        };
        let mut identity: Identity = vec![
            ("the program's version".into(), env!("CARGO_PKG_VERSION").into()),
            ("the digest of the rows to start from".into(), start.table.digest()),
            ("the digest of the rows to check by".into(), check.table.digest()),
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

    /// Fits the model. Starting values are found here, on samples; all else comes from rounds to the parts.
    ///
    /// # Errors
    ///
    /// As for [`fit_file`](super::fit_file), and when a round has no answer.
    pub fn fit(self, session: &mut Session<'_>) -> Result<TableModel> {
        let PartsFit { request, parts, surveyed, counts } = self;
        let decide = |options: FitOptions, rows: usize| request.decided(options, rows);
        let clock = session.clock(request.options.max_seconds);
        let choosing = &mut session.until(clock, Clock::CHOICES);
        let sampled = Sampled::of(surveyed, (request.options, None), decide, choosing)?;
        let session = &mut session.until(clock, Clock::TRAINING);
        parts.prepare(&Preparation {
            schema: sampled.schema.clone(),
            scaling: sampled.scaling.clone(),
            validation_fraction: request.options.validation_fraction,
            seed: request.options.seed,
        })?;
        let holders = Holders { parts, counts };
        let rows = SampledParts { all: Parts(&holders), sampled: &sampled };
        let options = &sampled.options;
        let prototype = Prototype::of(options, sampled.schema.dims(), sampled.levels)?;
        let mut fitted = fit_rows(&rows, options, Origin::Prototype(prototype), session)?;
        fitted.decided_by(sampled.chosen);
        let columns = (sampled.schema, sampled.scaling);
        Ok(TableModel::of(fitted, columns, &sampled.options, sampled.train, sampled.notes))
    }
}

/// The parts as holders of rows.
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

/// The rows of all parts, with the samples of them that are in memory.
struct SampledParts<'a> {
    all: Parts<'a>,
    sampled: &'a Sampled,
}

impl TrainingRows for SampledParts<'_> {
    fn all(&self) -> &dyn AllRows {
        &self.all
    }

    fn in_memory(&self) -> Option<Dataset<'_>> {
        None
    }

    fn start_sample(&self) -> Dataset<'_> {
        self.sampled.start()
    }

    fn check_sample(&self) -> Dataset<'_> {
        self.sampled.check()
    }

    fn validation(&self) -> Option<Dataset<'_>> {
        self.sampled.held_out()
    }

    fn levels(&self) -> usize {
        self.sampled.levels
    }

    fn batches(&self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + '_>> {
        self.all.batches(plan, seed)
    }
}
