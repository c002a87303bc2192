//! Scores to compare with the scores of the test rows: those of training rows, and of baselines on
//! the same test rows.

use serde::Serialize;
use sparsegp::data::Moments;
use sparsegp::metrics::{Compared, Metrics, Report};
use sparsegp_tables::schema::Schema;
use sparsegp_tables::tabular::{Baselines, TableModel, TableRows};

/// The scores of training rows, each predicted as if it were new.
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
    /// Returns the scores of the collected training rows.
    pub fn of(metrics: &Metrics) -> TrainFigures {
        TrainFigures { rows: metrics.rows(), nll_error: metrics.nll_error(), report: metrics.report() }
    }
}

/// The test figures of a baseline.
#[derive(Clone, Debug, Serialize)]
pub struct BaselineFigures {
    /// The name of the baseline.
    pub name: &'static str,
    /// Its likelihood.
    pub likelihood: &'static str,
    /// The number of training rows that it was fitted to.
    pub training_rows: u64,
    /// The NLL of the baseline minus the NLL of the model.
    pub nll_gain: Option<f64>,
    /// The standard error of `nll_gain`, from the differences over test rows.
    pub nll_gain_error: Option<f64>,
    /// The figures.
    #[serde(flatten)]
    pub report: Report,
}

impl BaselineFigures {
    /// Returns true if its NLL is below the model's by more than the standard error of their difference.
    pub(crate) fn is_better(&self) -> bool {
        self.nll_gain.zip(self.nll_gain_error).is_some_and(|(gain, error)| gain < -error)
    }
}

/// The test figures of all baselines.
#[derive(Clone, Debug, Serialize)]
pub struct BaselineReport {
    /// The baseline that does not depend on the inputs.
    pub constant: BaselineFigures,
    /// The linear model of the same inputs, if there is one.
    pub linear: Option<BaselineFigures>,
}

impl BaselineReport {
    /// Returns all baselines.
    pub fn all(&self) -> impl Iterator<Item = &BaselineFigures> {
        std::iter::once(&self.constant).chain(&self.linear)
    }
}

/// Collects the scores of baselines on the rows that score the model.
pub(crate) struct BesideModel<'a> {
    baselines: &'a Baselines,
    schema: &'a Schema,
    constant: Tally,
    linear: Tally,
}

impl<'a> BesideModel<'a> {
    pub fn new(model: &'a TableModel, baselines: &'a Baselines) -> BesideModel<'a> {
        let tally = || Tally { metrics: Metrics::new(model.task()), gain: Moments::default() };
        BesideModel { baselines, schema: model.schema(), constant: tally(), linear: tally() }
    }

    pub fn push_part(&mut self, own: &[Compared], part: &TableRows) {
        self.constant.push(own, &self.baselines.constant.compare(part.observations()));
        if let Some(linear) = &self.baselines.linear {
            let part = part.without_codes(self.schema);
            self.linear.push(own, &linear.predict_part(&part).compare(&part.targets));
        }
    }

    pub fn report(&self) -> BaselineReport {
        let constant = &self.baselines.constant;
        let linear = self.baselines.linear.as_ref().map(|model| {
            let mixed = !model.latent().effects.is_empty();
            let name = if mixed { "linear mixed model" } else { "linear model" };
            self.linear.figures(name, model.latent().likelihood.name(), model.training_rows())
        });
        let constant =
            self.constant.figures(constant.name(), constant.likelihood(), constant.training_rows());
        BaselineReport { constant, linear }
    }
}

/// The scores of a baseline so far, and the differences between its losses and the model's.
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

    fn figures(&self, name: &'static str, likelihood: &'static str, rows: usize) -> BaselineFigures {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        BaselineFigures {
            name,
            likelihood,
            training_rows: rows as u64,
            nll_gain: finite(self.gain.mean()),
            nll_gain_error: finite(self.gain.standard_error()),
            report: self.metrics.report(),
        }
    }
}
