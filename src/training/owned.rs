//! Rows in memory that the training owns, so that it borrows nothing.

use super::rows::{AllRows, BatchSource, HeldRows, MemoryBatches, Portion, TrainingData, TrainingRows};
use crate::collapsed::Dataset;
use crate::data::{BatchPlan, Scaling};
use crate::error::Result;
use crate::objective::Targets;
use faer::{Mat, MatRef};
use std::sync::Arc;

/// Some rows: inputs (`D × n`, contiguous for every row) and their [`Targets`].
#[derive(Clone)]
pub(super) struct OwnedRows {
    columns: Mat<f64>,
    pub y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    outputs: Vec<f64>,
}

impl OwnedRows {
    /// Copies inputs `n × D`, one row per datum, and targets.
    pub(super) fn of(x: MatRef<'_, f64>, targets: Targets<'_>) -> OwnedRows {
        OwnedRows {
            columns: x.transpose().to_owned(),
            y: targets.y.to_vec(),
            exposure: targets.exposure.to_vec(),
            weights: targets.weights.to_vec(),
            outputs: targets.outputs.to_vec(),
        }
    }

    pub(super) fn scale(&mut self, scaling: &Scaling) {
        scaling.scale_inputs(self.columns.as_mut().transpose_mut());
        scaling.scale_target(&mut self.y);
    }

    pub(super) fn dataset(&self) -> Dataset<'_> {
        let OwnedRows { y, exposure, weights, outputs, .. } = self;
        Dataset { x: self.columns.transpose(), targets: Targets { y, exposure, weights, outputs } }
    }
}

/// The rows of a fit.
pub(super) struct OwnedData {
    pub train: OwnedRows,
    pub validation: Option<OwnedRows>,
}

impl OwnedData {
    pub(super) fn scale(&mut self, scaling: &Scaling) {
        self.train.scale(scaling);
        self.validation.iter_mut().for_each(|rows| rows.scale(scaling));
    }

    pub(super) fn borrowed(&self) -> TrainingData<'_> {
        let validation = self.validation.as_ref().map(OwnedRows::dataset);
        TrainingData { train: self.train.dataset(), validation, levels: 0 }
    }
}

impl AllRows for Arc<OwnedData> {
    fn count(&self) -> usize {
        self.train.y.len()
    }

    fn for_each(&self, most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        self.train.dataset().for_each(most, visit)
    }
}

impl HeldRows for Arc<OwnedData> {
    fn dataset(&self) -> Dataset<'_> {
        self.train.dataset()
    }
}

impl TrainingRows for Arc<OwnedData> {
    fn all(&self) -> &dyn AllRows {
        self
    }

    fn in_memory(&self) -> Option<Dataset<'_>> {
        Some(self.train.dataset())
    }

    fn start_sample(&self) -> Dataset<'_> {
        self.train.dataset()
    }

    fn check_sample(&self) -> Dataset<'_> {
        self.train.dataset()
    }

    fn validation(&self) -> Option<Dataset<'_>> {
        self.validation.as_ref().map(OwnedRows::dataset)
    }

    fn levels(&self) -> usize {
        0
    }

    fn batches(&self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + '_>> {
        Ok(Box::new(MemoryBatches::new(Arc::clone(self), plan, seed)))
    }
}
