//! The rows of a grouped objective that are not in memory, but on disk or in parts elsewhere: the
//! questions about them.

use super::super::parts::{Question, Sums, sums_of_all, unlike};
use super::super::rows::AllRows;
use crate::collapsed::{
    BoundAdjoint, BoundGradient, DataStream, Dataset, EffectSweep, Statistics, StatisticsAdjoint, Weighting,
};
use crate::effects::{EffectSums, Effects, Moments, RowAdjoint, RowMoments};
use crate::error::{Error, Result};
use crate::gradient::Form;
use crate::latent::LatentLayer;
use crate::model::LatentModel;
use serde::{Deserialize, Serialize};

/// Sums over rows with grouped effects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GroupedRows {
    /// Sums over features.
    pub(crate) statistics: Statistics,
    /// Sums by level.
    pub(crate) effects: EffectSums,
}

impl GroupedRows {
    /// Adds the sums over other rows.
    pub(in crate::training) fn merge(&mut self, other: &GroupedRows) -> Result<()> {
        self.statistics.merge(&other.statistics)?;
        self.effects.merge(&other.effects)
    }
}

/// The derivatives of a grouped objective with respect to its sums, and the posterior moments in the gradient of every row.
#[derive(Serialize, Deserialize)]
pub(in crate::training) struct GroupedAdjoint {
    pub by: GroupedBy,
    pub moments: Moments,
}

/// The bound that is differentiated, with its noise variance.
#[derive(Serialize, Deserialize)]
pub(in crate::training) enum GroupedBy {
    Unweighted { adjoint: StatisticsAdjoint, form: Form, noise: f64 },
    Fitc { noise: f64 },
}

impl GroupedAdjoint {
    /// Adds the contribution of rows to a gradient.
    pub fn add_rows(
        &self,
        layer: &dyn LatentLayer,
        effects: &Effects,
        rows: Dataset<'_>,
        stream: &mut DataStream,
        gradient: &mut BoundGradient,
    ) {
        let moments = &self.moments;
        match &self.by {
            GroupedBy::Unweighted { adjoint, form, noise } => {
                let own = RowAdjoint::new(layer, effects, moments, 1.0 / noise);
                let by = BoundAdjoint::Unweighted { adjoint, form: *form };
                stream.add_rows_with(layer, rows, by, Some(EffectSweep::Unweighted(&own)), gradient);
            }
            GroupedBy::Fitc { noise } => {
                let own = EffectSweep::Fitc(RowMoments { effects, moments });
                let posterior = (&moments.weights[..], moments.covariance.as_ref());
                let by = BoundAdjoint::Fitc { noise: *noise, posterior };
                stream.add_rows_with(layer, rows, by, Some(own), gradient);
            }
        }
    }
}

/// Rows that are not in memory, and the error of the first sums over them that failed.
pub(super) struct RowsElsewhere<'a> {
    pub rows: &'a dyn AllRows,
    pub error: Option<Error>,
}

impl RowsElsewhere<'_> {
    /// Returns the sums under a model; `None` after an error.
    pub fn sums(&mut self, model: &LatentModel, weighting: Weighting) -> Option<GroupedRows> {
        match self.ask(model, Question::Grouped(weighting))? {
            Sums::Grouped(sums) => Some(*sums),
            _ => self.failed(unlike()),
        }
    }

    /// Returns the contribution of all rows to a gradient; `None` after an error.
    pub fn gradient(&mut self, model: &LatentModel, adjoint: GroupedAdjoint) -> Option<BoundGradient> {
        match self.ask(model, Question::GroupedGradient(Box::new(adjoint)))? {
            Sums::Gradient(sums) => Some(sums),
            _ => self.failed(unlike()),
        }
    }

    fn ask(&mut self, model: &LatentModel, question: Question) -> Option<Sums> {
        if self.error.is_some() {
            return None;
        }
        match sums_of_all(self.rows, model, question) {
            Ok(sums) => Some(sums),
            Err(error) => self.failed(error),
        }
    }

    fn failed<T>(&mut self, error: Error) -> Option<T> {
        self.error = Some(error);
        None
    }
}
