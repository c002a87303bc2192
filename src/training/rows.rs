//! The rows of a fit: all of them in order, batches, and samples; and rows copied side by side.

use super::round::{PartedPortion, PartedRows};
use crate::collapsed::Dataset;
use crate::data::{BatchPlan, BatchStream, Offsets, Purpose, Scaling, generator};
use crate::error::{Error, Result};
use crate::objective::Targets;
use faer::{Mat, RowRef};
use rand::seq::SliceRandom;
use std::sync::Arc;

/// The rows that train and judge a fit, in memory or elsewhere, on the scale the model sees.
#[doc(hidden)]
pub trait TrainingRows {
    /// Returns all training rows, for passes over them.
    fn all(&self) -> &dyn AllRows;

    /// Returns all training rows at once, if they are in memory.
    fn in_memory(&self) -> Option<Dataset<'_>>;

    /// Returns the training rows that determine starting values.
    fn start_sample(&self) -> Dataset<'_>;

    /// Returns the training rows that judge a fit before and after training: all rows if they are in memory.
    fn check_sample(&self) -> Dataset<'_>;

    /// Returns the validation rows, if any.
    fn validation(&self) -> Option<Dataset<'_>>;

    /// Returns the number of ordered levels of the target; 0 for other targets.
    fn levels(&self) -> usize;

    /// Returns the batches of a plan.
    ///
    /// # Errors
    ///
    /// If the rows cannot be read in such batches.
    fn batches(&self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + '_>>;
}

/// Rows that are evaluated together, on the scale the model sees.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub enum Portion<'a> {
    /// In memory.
    Here(Dataset<'a>),
    /// Rows in parts elsewhere, which return only sums.
    There(PartedPortion<'a>),
}

impl<'a> Portion<'a> {
    /// Returns the rows, if they are in memory.
    pub fn here(self) -> Option<Dataset<'a>> {
        match self {
            Portion::Here(rows) => Some(rows),
            Portion::There(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Portion::Here(rows) => rows.len(),
            Portion::There(rows) => rows.len(),
        }
    }
}

/// All training rows on the scale the model sees.
#[doc(hidden)]
pub trait AllRows {
    /// Returns the number of rows.
    fn count(&self) -> usize;

    /// Passes every row to `visit` once, always in the same order; rows in memory at most `most` at a time.
    ///
    /// # Errors
    ///
    /// If the rows cannot be read to the end.
    fn for_each(&self, most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()>;

    /// Returns true if [`for_each`](AllRows::for_each) with the same `most` passes all rows at
    /// once.
    fn is_one_part(&self, most: usize) -> bool {
        let _ = most;
        false
    }

    /// Returns the parts of the rows, if they are held elsewhere.
    fn elsewhere(&self) -> Option<&dyn PartedRows> {
        None
    }
}

impl<R: AllRows + ?Sized> AllRows for &R {
    fn count(&self) -> usize {
        (**self).count()
    }

    fn for_each(&self, most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        (**self).for_each(most, visit)
    }

    fn is_one_part(&self, most: usize) -> bool {
        (**self).is_one_part(most)
    }

    fn elsewhere(&self) -> Option<&dyn PartedRows> {
        (**self).elsewhere()
    }
}

impl AllRows for Dataset<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn for_each(&self, most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        self.parts(most).for_each(|part| visit(Portion::Here(part)));
        Ok(())
    }

    fn is_one_part(&self, most: usize) -> bool {
        self.len() <= most
    }
}

/// All rows at once.
impl AllRows for Portion<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn for_each(&self, _most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        visit(*self);
        Ok(())
    }

    fn is_one_part(&self, _most: usize) -> bool {
        true
    }
}

/// The batches of a fit, which depend only on its seed.
#[doc(hidden)]
pub trait BatchSource: Send {
    /// Returns the rows that batches are drawn from.
    fn all(&self) -> &dyn AllRows;

    /// Returns the number of batches in the first pass over the rows.
    fn per_epoch(&self) -> usize;

    /// Returns the next batch.
    ///
    /// # Errors
    ///
    /// If rows cannot be read; after such an error there are no further batches.
    fn next_batch(&mut self) -> Result<Portion<'_>>;

    /// Moves to the position after `batches` batches from the first one, from any position.
    ///
    /// # Errors
    ///
    /// If rows cannot be read again.
    fn seek(&mut self, batches: usize) -> Result<()>;
}

/// Returns the rows of a method that needs all of them at once.
pub(super) fn whole<'a>(rows: &'a dyn TrainingRows, what: &str) -> Result<Dataset<'a>> {
    rows.in_memory().ok_or_else(|| Error::usage(format!("{what} needs all rows in memory")))
}

/// Rows in memory: inputs (`n × D`, a row per datum) and targets on the scale the model sees.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct TrainingData<'a> {
    /// The training rows.
    pub train: Dataset<'a>,
    /// The validation rows, if any.
    pub validation: Option<Dataset<'a>>,
    /// The number of ordered levels of the target, for ordinal targets.
    pub levels: usize,
}

impl<'a> TrainingData<'a> {
    /// Creates training data without validation rows.
    pub fn of(train: Dataset<'a>) -> Self {
        TrainingData { train, validation: None, levels: 0 }
    }

    /// Creates training data from buffered rows, for targets without levels.
    pub(super) fn of_buffers(train: &'a RowBuffer, validation: Option<&'a RowBuffer>) -> Self {
        TrainingData { validation: validation.map(RowBuffer::data), ..TrainingData::of(train.data()) }
    }
}

impl TrainingRows for TrainingData<'_> {
    fn all(&self) -> &dyn AllRows {
        &self.train
    }

    fn in_memory(&self) -> Option<Dataset<'_>> {
        Some(self.train)
    }

    fn start_sample(&self) -> Dataset<'_> {
        self.train
    }

    fn check_sample(&self) -> Dataset<'_> {
        self.train
    }

    fn validation(&self) -> Option<Dataset<'_>> {
        self.validation
    }

    fn levels(&self) -> usize {
        self.levels
    }

    fn batches(&self, plan: BatchPlan, seed: u64) -> Result<Box<dyn BatchSource + '_>> {
        Ok(Box::new(MemoryBatches::new(self.train, plan, seed)))
    }
}

/// Training rows in memory, owned or borrowed.
pub(super) trait HeldRows: AllRows + Send {
    fn dataset(&self) -> Dataset<'_>;
}

impl HeldRows for Dataset<'_> {
    fn dataset(&self) -> Dataset<'_> {
        *self
    }
}

impl AllRows for Arc<RowBuffer> {
    fn count(&self) -> usize {
        self.y.len()
    }

    fn for_each(&self, most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        self.data().for_each(most, visit)
    }
}

impl HeldRows for Arc<RowBuffer> {
    fn dataset(&self) -> Dataset<'_> {
        self.data()
    }
}

/// Batches of rows in memory.
pub(super) struct MemoryBatches<D> {
    data: D,
    stream: BatchStream,
    drawn: RowBuffer,
}

impl<D: HeldRows> MemoryBatches<D> {
    pub(super) fn new(data: D, plan: BatchPlan, seed: u64) -> Self {
        let rows = data.dataset();
        let stream = BatchStream::new(rows.len(), plan, seed);
        let drawn = RowBuffer::new(rows, plan.first(rows.len()));
        MemoryBatches { data, stream, drawn }
    }
}

impl<D: HeldRows> BatchSource for MemoryBatches<D> {
    fn all(&self) -> &dyn AllRows {
        &self.data
    }

    fn per_epoch(&self) -> usize {
        self.stream.per_epoch()
    }

    fn next_batch(&mut self) -> Result<Portion<'_>> {
        self.drawn.take(self.data.dataset(), self.stream.next_batch());
        Ok(Portion::Here(self.drawn.data()))
    }

    fn seek(&mut self, batches: usize) -> Result<()> {
        if self.stream.go_to(batches) {
            return Ok(());
        }
        Err(Error::data(format!(
            "the position after {batches} batches cannot be reached: the number is too large"
        )))
    }
}

/// A buffer of rows; it allocates only while the number of rows exceeds the largest one so far.
#[derive(Clone)]
#[doc(hidden)]
pub struct RowBuffer {
    /// A column per row; the first `len` columns are in use.
    columns: Mat<f64>,
    len: usize,
    pub(super) y: Vec<f64>,
    exposure: Vec<f64>,
    weights: Vec<f64>,
    other_ends: Vec<f64>,
    outputs: Vec<f64>,
    /// The offsets among the columns; none as long as the rows are in the user's units, and offsets are columns like others.
    offsets: Offsets,
}

impl RowBuffer {
    /// Creates a buffer for up to `most` rows of `data`.
    pub(crate) fn new(data: Dataset<'_>, most: usize) -> Self {
        let offsets = match data.targets.offsets.ncols() {
            0 => Offsets::None,
            count => Offsets::Added(count),
        };
        RowBuffer { offsets, ..RowBuffer::of_dims(data.x.ncols() + offsets.columns(), most) }
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
            other_ends: Vec::new(),
            outputs: Vec::new(),
            offsets: Offsets::None,
        }
    }

    /// Tells the offsets of rows on the scale the model sees from their inputs.
    #[must_use]
    pub fn with_offsets(self, offsets: Offsets) -> Self {
        RowBuffer { offsets, ..self }
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
        let Targets { y, exposure, weights, other_ends, outputs, .. } = data.targets;
        RowBuffer {
            columns: data.x.transpose().to_owned(),
            len: data.x.nrows(),
            y: y.to_vec(),
            exposure: exposure.to_vec(),
            weights: weights.to_vec(),
            other_ends: other_ends.to_vec(),
            outputs: outputs.to_vec(),
            offsets: Offsets::None,
        }
    }

    /// Changes the rows from the user's units to the scale the model sees.
    pub(super) fn scale(&mut self, scaling: &Scaling) {
        scaling.scale_rows(&mut self.columns, self.len, &mut self.y);
        scaling.scale_known(self.len, &mut self.exposure, &mut self.other_ends);
        self.offsets = scaling.offsets();
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.y.clear();
        self.exposure.clear();
        self.weights.clear();
        self.other_ends.clear();
        self.outputs.clear();
    }

    /// Adds a row: its inputs, its target, and its exposure and weight, if any. The buffer must not
    /// be full.
    pub fn push(&mut self, x: RowRef<'_, f64>, y: f64, exposure: Option<f64>, weight: Option<f64>) {
        self.columns.col_mut(self.len).subrows_mut(0, x.ncols()).copy_from(x.transpose());
        self.len += 1;
        self.y.push(y);
        self.exposure.extend(exposure);
        self.weights.extend(weight);
    }

    /// Adds the other end of the interval of the target of the row last pushed.
    pub fn push_other_end(&mut self, other_end: f64) {
        self.other_ends.push(other_end);
    }

    /// Copies `rows` of `data`.
    pub(crate) fn take(&mut self, data: Dataset<'_>, rows: &[usize]) {
        if rows.len() > self.columns.ncols() {
            self.columns = Mat::zeros(self.columns.nrows(), rows.len().max(2 * self.columns.ncols()));
        }
        self.clear();
        let Targets { y, exposure, weights, other_ends, outputs, offsets } = data.targets;
        let width = data.targets.width();
        for &row in rows {
            for function in 0..offsets.ncols() {
                self.columns[(data.x.ncols() + function, self.len)] = offsets[(row, function)];
            }
            self.push(data.x.row(row), y[row], exposure.get(row).copied(), weights.get(row).copied());
            self.other_ends.extend(other_ends.get(row));
            self.outputs.extend_from_slice(&outputs[row * width..(row + 1) * width]);
        }
    }

    /// Returns the rows last taken.
    pub fn data(&self) -> Dataset<'_> {
        let (x, offsets) = self.offsets.split(self.columns.transpose().subrows(0, self.len));
        let RowBuffer { y, exposure, weights, other_ends, outputs, .. } = self;
        Dataset { x, targets: Targets { y, exposure, weights, other_ends, outputs, offsets } }
    }
}
