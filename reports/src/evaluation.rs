//! The scores of a model on rows that it was not trained on, with a sample of these rows to explain
//! it.

use super::baselines::{BaselineReport, BesideModel, TrainFigures};
use super::figures::Observed;
use super::next::{Facts, Suggestion, next};
use faer::MatRef;
use sparsegp::error::{Result, Say, spoken};
use sparsegp::metrics::{Metrics, Report, SurvivalGroup};
use sparsegp::model::{Predictions, integrated_brier_score, survival_curves};
use sparsegp_tables::explain::Rows;
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tables::Table;
use sparsegp_tables::tabular::{Baselines, TableModel, TableRows};

/// The maximum number of sampled rows, and of values in them.
const MOST_ROWS: usize = 2000;
const MOST_NUMBERS: usize = 4_000_000;

/// The scores on a file, with the points of its plots.
pub struct Evaluation {
    /// The number of rows.
    pub rows: u64,
    /// The figures.
    pub report: Report,
    /// The points.
    pub observed: Observed,
    /// Observed and predicted survival of groups of rows, if some are censored and rows were kept.
    pub survival: Vec<SurvivalGroup>,
    /// The sums behind the scores.
    pub metrics: Metrics,
    /// A sample of the rows, if it was requested.
    pub kept: Option<KeptRows>,
    /// The figures of training rows.
    pub train: Option<TrainFigures>,
    /// The figures of baselines on the same rows.
    pub baselines: Option<BaselineReport>,
}

impl Evaluation {
    /// Scores rows as the model sees them, and samples them.
    pub fn of_part(model: &TableModel, part: &TableRows) -> Evaluation {
        let mut evaluator = Evaluator::new(model, None).keeping_rows();
        evaluator.push_part(part);
        evaluator.finish()
    }

    /// Scores the rows of a table that have a target, and samples them.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::rows`].
    pub fn of_table(
        model: &TableModel,
        baselines: Option<&Baselines>,
        table: &Table,
        unseen: UnseenLevels,
    ) -> Result<Evaluation> {
        let mut evaluator = Evaluator::new(model, baselines).keeping_rows();
        evaluator.push_table(&table.with_values(model.schema().target_name()), unseen)?;
        Ok(evaluator.finish())
    }

    /// Returns suggestions for the next fit. `say` returns the spelling of options.
    pub fn next(&self, model: &TableModel, say: &Say<'_>) -> Vec<Suggestion> {
        let facts = Facts::of(model, &self.metrics, self.baselines.clone());
        let said = |next: Suggestion| Suggestion { text: spoken(&next.text, say), ..next };
        next(&facts).into_iter().map(said).collect()
    }
}

/// Scores held-out rows part by part, for a model and its baselines, if there are any.
pub struct Evaluator<'a> {
    model: &'a TableModel,
    kept: Option<KeptRows>,
    baselines: Option<&'a Baselines>,
    beside: Option<BesideModel<'a>>,
    metrics: Metrics,
    /// Predictions of censored targets, whose Brier scores need all of them.
    censored: Vec<(Predictions, Vec<f64>)>,
    observed: Observed,
}

impl<'a> Evaluator<'a> {
    /// Creates an evaluator without rows.
    pub fn new(model: &'a TableModel, baselines: Option<&'a Baselines>) -> Self {
        Evaluator {
            model,
            kept: None,
            baselines,
            beside: baselines.map(|baselines| BesideModel::new(model, baselines)),
            metrics: Metrics::new(model.task()),
            censored: Vec::new(),
            observed: Observed::default(),
        }
    }

    /// Enables sampling of rows, to explain the model.
    pub fn keeping_rows(self) -> Self {
        Evaluator { kept: Some(KeptRows::new(self.model)), ..self }
    }

    /// Adds rows as the model sees them.
    pub fn push_part(&mut self, part: &TableRows) {
        if let Some(kept) = &mut self.kept {
            kept.push_part(part);
        }
        let predictions = self.model.predict_part(part);
        let own = predictions.compare(&part.targets);
        own.iter().for_each(|row| {
            self.metrics.push(row);
            self.observed.push(row);
        });
        if let Some(beside) = &mut self.beside {
            beside.push_part(&own, part);
        }
        if self.model.schema().censored().is_some() {
            self.censored.push((predictions, part.targets.clone()));
        }
    }

    /// Adds the rows of a table, all of which have a target.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::rows`].
    pub fn push_table(&mut self, table: &Table, unseen: UnseenLevels) -> Result<()> {
        self.push_part(&self.model.rows(table, unseen)?);
        Ok(())
    }

    /// Returns the scores of all rows.
    pub fn finish(self) -> Evaluation {
        let censored: Vec<_> = self.censored.iter().map(|(of, targets)| (of, &targets[..])).collect();
        let integrated_brier = integrated_brier_score(&censored);
        let survival = if self.kept.is_some() { survival_curves(&censored) } else { Vec::new() };
        Evaluation {
            rows: self.metrics.rows(),
            report: Report { integrated_brier, ..self.metrics.report() },
            observed: self.observed,
            survival,
            metrics: self.metrics,
            kept: self.kept,
            train: self.baselines.and_then(|baselines| baselines.training.as_ref()).map(TrainFigures::of),
            baselines: self.beside.map(|beside| beside.report()),
        }
    }
}

/// An evenly spaced sample of many rows, with their targets.
#[derive(Clone, Debug, Default)]
pub struct KeptRows {
    width: usize,
    most: usize,
    /// The inputs, row after row.
    inputs: Vec<f64>,
    targets: Vec<f64>,
    exposure: Vec<f64>,
    other_ends: Vec<f64>,
    seen: usize,
    /// The number of times that every other row was dropped.
    halvings: u32,
}

impl KeptRows {
    /// Creates an empty sample.
    pub fn new(model: &TableModel) -> KeptRows {
        let width = model.inputs();
        let most = (MOST_NUMBERS / width.max(1)).clamp(2, MOST_ROWS);
        KeptRows { width, most, ..KeptRows::default() }
    }

    /// Adds rows as the model sees them.
    pub fn push_part(&mut self, part: &TableRows) {
        self.push(part.inputs(), &part.targets, &part.exposure, &part.other_ends);
    }

    /// Adds at most `most` of these rows without their targets: for figures of the function, but not for relevance.
    pub fn push_inputs(&mut self, part: &TableRows, most: usize) {
        let count = part.targets.len().min(most);
        let exposure = &part.exposure[..part.exposure.len().min(count)];
        self.push(part.inputs().subrows(0, count), &vec![f64::NAN; count], exposure, &[]);
    }

    /// Adds the rows of a table, and their targets if the table has all of them.
    ///
    /// # Errors
    ///
    /// If the table does not suit the model.
    pub fn push_table(&mut self, model: &TableModel, table: &Table, unseen: UnseenLevels) -> Result<()> {
        let schema = model.schema();
        let inputs = schema.design(table, unseen)?;
        let targets = schema.target_where_known(table)?.unwrap_or_else(|| vec![f64::NAN; table.rows()]);
        let exposure = schema.exposure(table)?.unwrap_or_default();
        self.push(inputs.as_ref(), &targets, &exposure, &schema.other_ends(table)?.unwrap_or_default());
        Ok(())
    }

    fn push(&mut self, inputs: MatRef<'_, f64>, targets: &[f64], exposure: &[f64], other_ends: &[f64]) {
        for (row, &target) in targets.iter().enumerate() {
            if self.seen.is_multiple_of(1 << self.halvings) {
                self.inputs.extend(inputs.row(row).iter());
                self.targets.push(target);
                self.exposure.extend(exposure.get(row));
                self.other_ends.extend(other_ends.get(row));
            }
            self.seen += 1;
            if self.targets.len() > self.most {
                self.thin();
            }
        }
    }

    /// Drops every other row, and halves the sampling rate from here on.
    fn thin(&mut self) {
        let every_other = |values: &[f64], width: usize| -> Vec<f64> {
            values.chunks(width.max(1)).step_by(2).flatten().copied().collect()
        };
        self.inputs = every_other(&self.inputs, self.width);
        self.targets = every_other(&self.targets, 1);
        self.exposure = every_other(&self.exposure, 1);
        self.other_ends = every_other(&self.other_ends, 1);
        self.halvings += 1;
    }

    /// Returns the rows.
    pub fn rows(&self) -> Rows<'_> {
        let x = MatRef::from_row_major_slice(&self.inputs, self.targets.len(), self.width);
        Rows { x, exposure: &self.exposure, targets: &self.targets, other_ends: &self.other_ends }
    }

    pub(crate) fn labelled(&self) -> KeptRows {
        let (width, most) = (self.width, self.targets.len());
        let (mut known, rows) = (KeptRows { width, most, ..KeptRows::default() }, self.rows());
        for row in (0..most).filter(|&row| !self.targets[row].is_nan()) {
            let own = |values: &'_ [f64]| values.get(row..=row).unwrap_or_default().to_vec();
            let (exposure, other_ends) = (own(rows.exposure), own(rows.other_ends));
            known.push(rows.x.subrows(row, 1), &rows.targets[row..=row], &exposure, &other_ends);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_rows_are_thinned_evenly() {
        let mut kept = KeptRows { width: 1, most: 100, ..KeptRows::default() };
        let rows: Vec<f64> = (0..1000).map(f64::from).collect();
        for part in rows.chunks(37) {
            kept.push(MatRef::from_row_major_slice(part, part.len(), 1), part, &[], &[]);
        }
        let rows = kept.rows();
        assert!((50..=100).contains(&rows.len()));
        let expected: Vec<f64> = (0..rows.len()).map(|row| (row << kept.halvings) as f64).collect();
        assert_eq!((rows.targets, kept.inputs.as_slice()), (&expected[..], &expected[..]));
        let mut gaps = kept.clone();
        gaps.targets[1] = f64::NAN;
        assert_eq!(gaps.labelled().rows().targets[..2], [expected[0], expected[2]]);
        assert_eq!(gaps.labelled().rows().x[(1, 0)], expected[2]);
    }
}
