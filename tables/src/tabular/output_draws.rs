//! Draws of several outputs: joint draws of outputs that mix processes, independent draws of
//! others.

use super::model::TableModel;
use super::outputs::TableOutputs;
use crate::schema::UnseenLevels;
use crate::tables::Table;
use rayon::prelude::*;
use sparsegp::data::{Purpose, part_generator};
use sparsegp::error::Result;
use sparsegp::model::Predictions;

/// The draws of one output: a vector over rows for each draw.
pub type OutputDraws = Vec<Vec<f64>>;

/// A request for draws.
#[derive(Clone, Copy, Debug)]
pub struct DrawRequest {
    /// The number of draws.
    pub count: usize,
    /// The random seed.
    pub seed: u64,
    /// The index of the first row among all rows with draws. Draws of targets depend on the seed and this index.
    pub first_row: u64,
    /// The treatment of categories that training did not see.
    pub unseen: UnseenLevels,
}

impl TableOutputs {
    /// Draws the targets of every output at the rows of a table, independently for each row.
    ///
    /// Outputs that mix processes share the draws of the processes, so the covariance of two targets equals
    /// [`covariances`](TableOutputs::covariances). All other outputs have independent random numbers.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::predict`].
    pub fn draws(&self, table: &Table, request: &DrawRequest) -> Result<Vec<OutputDraws>> {
        let mixed = self.are_mixed();
        let of_output = |(output, model): (usize, &TableModel)| {
            let predictions = model.predict(table, request.unseen)?;
            let of_row = |row: usize| row_draws(&predictions, row, output, mixed, request);
            let rows: Vec<Vec<f64>> = (0..predictions.rows()).into_par_iter().map(of_row).collect();
            Ok((0..request.count).map(|draw| rows.iter().map(|row| row[draw]).collect()).collect())
        };
        self.models().enumerate().map(of_output).collect()
    }

    /// Draws the function of every output at all rows of a table together, as [`TableModel::samples`] does for one output.
    ///
    /// Outputs that mix processes combine the same draws of the processes. All other outputs have independent random numbers.
    ///
    /// # Errors
    ///
    /// As for [`TableModel::samples`].
    pub fn samples(&self, table: &Table, request: &DrawRequest) -> Result<Vec<OutputDraws>> {
        let of_output = |(output, model): (usize, &TableModel)| {
            model.output_samples(table, request.unseen, request.count, request.seed, output as u64)
        };
        self.models().enumerate().map(of_output).collect()
    }
}

/// Draws the target of an output at a row; the output may mix processes with the other outputs.
fn row_draws(
    predictions: &Predictions,
    row: usize,
    output: usize,
    mixed: bool,
    request: &DrawRequest,
) -> Vec<f64> {
    let place = request.first_row + row as u64;
    let stream = |part: usize| part_generator(request.seed, Purpose::Prediction, place, part as u64);
    if !mixed {
        let mut random = stream(output);
        return (0..request.count).map(|_| predictions.draw(row, &mut random)).collect();
    }
    // All outputs draw the processes from the first stream; each output has a separate stream for its noise.
    let (mut processes, mut noise) = (stream(0), stream(1 + output));
    let mut draw = |_| {
        let functions = predictions.draw_functions(row, &mut processes);
        predictions.draw_given(row, &functions, &mut noise)
    };
    (0..request.count).map(&mut draw).collect()
}
