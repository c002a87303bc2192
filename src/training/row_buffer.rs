//! Rows of a data set, copied side by side: mini-batches, subsets, and rows that outlive the arrays of the caller.

use crate::collapsed::Dataset;
use crate::data::{Purpose, Scaling, generator};
use crate::objective::Targets;
use faer::{Mat, RowRef};
use rand::seq::SliceRandom;

/// A buffer of rows; it allocates only while the number of rows exceeds the largest one so far.
#[derive(Clone)]
pub struct RowBuffer {
    /// A column per row; the first `len` columns are in use.
    columns: Mat<f64>,
    len: usize,
    pub(super) y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    outputs: Vec<f64>,
}

impl RowBuffer {
    /// Creates a buffer for up to `most` rows of `data`.
    pub(crate) fn new(data: Dataset<'_>, most: usize) -> Self {
        RowBuffer::of_dims(data.x.ncols(), most)
    }

    /// Creates a buffer for up to `most` rows of `dims` inputs.
    pub fn of_dims(dims: usize, most: usize) -> Self {
        let room = || Vec::with_capacity(most);
        RowBuffer {
            columns: Mat::zeros(dims, most),
            len: 0,
            y: room(),
            exposure: room(),
            weights: room(),
            outputs: Vec::new(),
        }
    }

    /// Creates a buffer with `rows` of `data`.
    pub(super) fn taken(data: Dataset<'_>, rows: &[usize]) -> Self {
        let mut buffer = RowBuffer::new(data, rows.len());
        buffer.take(data, rows);
        buffer
    }

    /// Creates a buffer with at most `most` random rows of `data`, in their order.
    pub(super) fn subset(data: Dataset<'_>, most: usize, seed: u64) -> Self {
        let mut rows: Vec<usize> = (0..data.len()).collect();
        if rows.len() > most {
            rows.shuffle(&mut generator(seed, Purpose::WarmStart, 0));
            rows.truncate(most);
            rows.sort_unstable();
        }
        RowBuffer::taken(data, &rows)
    }

    /// Creates a buffer with all rows of `data`, whose numbers of inputs and targets need not match before they are checked.
    pub(super) fn of(data: Dataset<'_>) -> Self {
        let Targets { y, exposure, weights, outputs } = data.targets;
        RowBuffer {
            columns: data.x.transpose().to_owned(),
            len: data.x.nrows(),
            y: y.to_vec(),
            exposure: exposure.to_vec(),
            weights: weights.to_vec(),
            outputs: outputs.to_vec(),
        }
    }

    /// Changes the rows from the user's units to the scale the model sees.
    pub(super) fn scale(&mut self, scaling: &Scaling) {
        scaling.scale_inputs(self.columns.as_mut().transpose_mut());
        scaling.scale_target(&mut self.y);
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.y.clear();
        self.exposure.clear();
        self.weights.clear();
        self.outputs.clear();
    }

    /// Adds a row: its inputs, its target, and its exposure and weight, if any. The buffer must not
    /// be full.
    pub fn push(&mut self, x: RowRef<'_, f64>, y: f64, exposure: Option<f64>, weight: Option<f64>) {
        self.columns.col_mut(self.len).copy_from(x.transpose());
        self.len += 1;
        self.y.push(y);
        self.exposure.extend(exposure);
        self.weights.extend(weight);
    }

    /// Copies `rows` of `data`.
    pub(crate) fn take(&mut self, data: Dataset<'_>, rows: &[usize]) {
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
        Dataset { x: self.columns.transpose().subrows(0, self.len), targets }
    }
}
