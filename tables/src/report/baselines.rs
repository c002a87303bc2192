//! Figures beside those of the test rows: of training rows, and of baselines on the same test rows; no fitting.

use crate::schema::{Schema, UnseenLevels};
use crate::tables::Table;
use crate::tabular::{Baselines, TableModel, TableRows};
use serde::Serialize;
use sparsegp::data::Moments;
use sparsegp::error::Result;
use sparsegp::metrics::{Compared, Metrics, Report};
use sparsegp::model::Model;

/// The figures of training rows, each predicted as if it were new.
#[derive(Clone, Debug, Serialize)]
pub struct TrainFigures {
    /// The number of these rows.
    pub rows: u64,
    /// The standard error of their NLL.
    pub nll_error: Option<f64>,
    /// The figures.
    #[serde(flatten)]
    pub report: Report,
}

impl TrainFigures {
    /// Of what was gathered of training rows.
    pub fn of(metrics: &Metrics) -> TrainFigures {
        TrainFigures { rows: metrics.rows(), nll_error: metrics.nll_error(), report: metrics.report() }
    }
}

/// The test figures of a baseline.
#[derive(Clone, Debug, Serialize)]
pub struct BaselineFigures {
    /// What it is called.
    pub name: &'static str,
    /// Its likelihood.
    pub likelihood: &'static str,
    /// The training rows that it was fitted to.
    pub training_rows: u64,
    /// What the NLL of the model is below its own.
    pub nll_gain: Option<f64>,
    /// The standard error of that, by the differences of the test rows.
    pub nll_gain_error: Option<f64>,
    /// The figures.
    #[serde(flatten)]
    pub report: Report,
}

impl BaselineFigures {
    /// Whether its NLL is below the model's by more than the standard error of their difference.
    pub(crate) fn is_better(&self) -> bool {
        self.nll_gain.zip(self.nll_gain_error).is_some_and(|(gain, error)| gain < -error)
    }
}

/// The test figures of all baselines.
#[derive(Clone, Debug, Serialize)]
pub struct BaselineReport {
    /// Of the distribution that knows no input.
    pub constant: BaselineFigures,
    /// Of a linear model of the same inputs.
    pub linear: Option<BaselineFigures>,
}

impl BaselineReport {
    /// All there are.
    pub fn all(&self) -> impl Iterator<Item = &BaselineFigures> {
        std::iter::once(&self.constant).chain(&self.linear)
    }
}

/// Gathers the figures of baselines on the rows that a model is judged on.
pub(crate) struct BesideModel<'a> {
    baselines: &'a Baselines,
    schema: &'a Schema,
    constant: Tally,
    linear: Tally,
}

impl<'a> BesideModel<'a> {
    /// No rows yet.
    pub fn new(model: &'a TableModel, baselines: &'a Baselines) -> BesideModel<'a> {
        let tally = || Tally { metrics: Metrics::new(model.task()), gain: Moments::default() };
        BesideModel { baselines, schema: model.schema(), constant: tally(), linear: tally() }
    }

    /// Adds rows with what the model makes of them.
    pub fn push_part(&mut self, own: &[Compared], part: &TableRows) {
        self.constant.push(own, &self.baselines.constant.compare(&part.targets, &part.exposure));
        if let Some(linear) = &self.baselines.linear {
            let part = part.without_codes(self.schema);
            self.linear.push(own, &linear.predict_part(&part).compare(&part.targets));
        }
    }

    /// Adds the rows of a table with what the model makes of them.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::compare`].
    pub fn push_table(&mut self, own: &[Compared], table: &Table, unseen: UnseenLevels) -> Result<()> {
        self.constant.push(own, &self.baselines.constant.compare_table(self.schema, table)?);
        if let Some(linear) = &self.baselines.linear {
            let mut rows = Vec::with_capacity(own.len());
            linear.compare(table, unseen, &mut |row| rows.push(*row))?;
            self.linear.push(own, &rows);
        }
        Ok(())
    }

    /// The figures of the rows so far.
    pub fn report(&self) -> BaselineReport {
        let (constant, linear) = (&self.baselines.constant, &self.baselines.linear);
        let about = (constant.name(), constant.likelihood(), constant.training_rows());
        let of_linear = |model: &Model| {
            self.linear.figures(("linear model", model.latent().likelihood.name(), model.training_rows()))
        };
        BaselineReport {
            constant: self.constant.figures(about),
            linear: linear.as_ref().map(|model| of_linear(model)),
        }
    }
}

/// The figures of a baseline so far, and the differences of its losses and the model's.
struct Tally {
    metrics: Metrics,
    gain: Moments,
}

impl Tally {
    fn push(&mut self, own: &[Compared], baseline: &[Compared]) {
        for (own, row) in own.iter().zip(baseline) {
            self.metrics.push(row);
            self.gain.push(own.log_density - row.log_density);
        }
    }

    fn figures(&self, (name, likelihood, rows): (&'static str, &'static str, usize)) -> BaselineFigures {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let others = self.gain.count() as f64 - 1.0;
        BaselineFigures {
            name,
            likelihood,
            training_rows: rows as u64,
            nll_gain: finite(self.gain.mean()),
            nll_gain_error: finite(self.gain.variance().map(|variance| (variance / others).sqrt())),
            report: self.metrics.report(),
        }
    }
}
