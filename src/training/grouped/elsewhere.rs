//! The rows of a grouped objective that are not in memory, but on disk or in parts elsewhere: the
//! questions about them.

use super::super::parts::{Question, Sums, sums_of_all, unlike};
use super::super::rows::AllRows;
use crate::collapsed::{BoundGradient, GroupedAdjoint, GroupedStatistics, Weighting};
use crate::error::Error;
use crate::model::LatentModel;

/// Rows that are not in memory, and the error of the first sums over them that failed.
pub(super) struct RowsElsewhere<'a> {
    pub rows: &'a dyn AllRows,
    pub error: Option<Error>,
}

impl RowsElsewhere<'_> {
    /// Returns the sums under a model; `None` after an error.
    pub fn sums(&mut self, model: &LatentModel, weighting: Weighting) -> Option<GroupedStatistics> {
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
