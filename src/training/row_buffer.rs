//! Chosen rows of a data set copied side by side, for mini-batches and subsets.

use crate::collapsed::Dataset;
use crate::objective::Targets;
use faer::{Mat, RowRef};

/// A buffer of rows; it allocates only while the number of rows exceeds the largest one so far.
pub struct RowBuffer {
    /// A column per row.
    columns: Mat<f64>,
    y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    outputs: Vec<f64>,
}

impl RowBuffer {
    /// Creates a buffer for up to `most` rows of `data`.
    pub fn new(data: Dataset<'_>, most: usize) -> Self {
        RowBuffer::of_dims(data.x.ncols(), most)
    }

    /// Creates a buffer for up to `most` rows of `dims` inputs.
    pub fn of_dims(dims: usize, most: usize) -> Self {
        let room = || Vec::with_capacity(most);
        RowBuffer {
            columns: Mat::zeros(dims, most),
            y: room(),
            exposure: room(),
            weights: room(),
            outputs: Vec::new(),
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.y.clear();
        self.exposure.clear();
        self.weights.clear();
        self.outputs.clear();
    }

    /// Adds a row: its inputs, its target, and its exposure and weight, if any. The buffer must not
    /// be full.
    pub fn push(&mut self, x: RowRef<'_, f64>, y: f64, exposure: Option<f64>, weight: Option<f64>) {
        self.columns.col_mut(self.y.len()).copy_from(x.transpose());
        self.y.push(y);
        self.exposure.extend(exposure);
        self.weights.extend(weight);
    }

    /// Copies `rows` of `data`.
    pub fn take(&mut self, data: Dataset<'_>, rows: &[usize]) {
        if rows.len() > self.columns.ncols() {
            self.columns = Mat::zeros(data.x.ncols(), rows.len().max(2 * self.columns.ncols()));
        }
        self.clear();
        let Targets { y, exposure, weights, outputs } = data.targets;
        let width = data.targets.width();
        for &row in rows {
            self.push(data.x.row(row), y[row], exposure.get(row).copied(), weights.get(row).copied());
            self.outputs.extend_from_slice(&outputs[row * width..(row + 1) * width]);
        }
    }

    /// Returns the rows last taken.
    pub fn data(&self) -> Dataset<'_> {
        let targets =
            Targets { y: &self.y, exposure: &self.exposure, weights: &self.weights, outputs: &self.outputs };
        Dataset { x: self.columns.transpose().subrows(0, self.y.len()), targets }
    }
}
