//! Training rows that stay in a file: a separate thread reads them again in every pass, and
//! shuffles them through a buffer into batches.

use super::rows::TableRows;
use super::survey::{BLOCK_ROWS, BLOCKS_AHEAD};
use crate::schema::Schema;
use crate::tables::read::How;
use crate::tables::{Ahead, TableBlocks};
use faer::RowRef;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use sparsegp::data::{Purpose, Role, Roles, Scaling, generator};
use sparsegp::error::{Error, Result};
use sparsegp::likelihood::TargetKind;
use sparsegp::training::{AllRows, BatchSource, Portion, RowBuffer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of batches that are prepared in advance.
const BATCHES_AHEAD: usize = 2;

/// A file whose rows are known to be usable, with the role of each row.
pub(super) struct DataFile {
    pub path: PathBuf,
    /// The delimiter of columns, if the user gave one.
    pub delimiter: Option<u8>,
    pub schema: Schema,
    /// The scaling of the rows.
    pub scaling: Scaling,
    pub roles: Roles,
    /// The number of rows of each row group, if the file has row groups, which may be read in any order.
    pub groups: Option<Vec<usize>>,
    /// The number of rows of the file.
    pub rows: usize,
    /// The number of training rows.
    pub train: usize,
}

impl DataFile {
    /// Returns the number of values of a training row: inputs, target, exposure, weight, other end.
    pub(super) fn row_width(&self) -> usize {
        let others =
            [self.has_exposure(), self.schema.weights_name().is_some(), self.schema.censored().is_some()];
        self.schema.dims() + 1 + others.iter().filter(|has| **has).count()
    }

    /// Returns true if rows have an exposure. Measured targets have a standard error, if only 0.
    fn has_exposure(&self) -> bool {
        self.schema.exposure_name().is_some() || self.schema.encoding().kind() == TargetKind::Measured
    }

    /// Returns the maximum number of rows in memory while training uses a buffer of `buffer` rows and batches of `batch`: the buffer, one
    /// block in three forms (as read, as inputs, and its training rows alone), and the batches in use.
    pub(super) fn most_rows(buffer: usize, batch: usize) -> usize {
        buffer + 3 * BLOCK_ROWS + (BATCHES_AHEAD + 2) * batch
    }

    /// Reads the rows of a role in original units, block by block, in the order of the file or of these row groups.
    pub(super) fn parts(self: &Arc<Self>, role: Role, groups: Option<&[usize]>) -> Result<Parts> {
        let names = self.schema.training_names();
        let blocks = TableBlocks::new(
            &self.path,
            BLOCK_ROWS,
            &|name| names.contains(name),
            How {
                groups,
                delimiter: self.delimiter,
                missing: &self.schema.missing,
                interval: self.schema.interval(),
                copied: &[],
            },
        )?;
        self.schema.check_columns(blocks.source(), blocks.names().iter().map(String::as_str))?;
        Ok(Parts { file: Arc::clone(self), role, blocks, seen: 0, done: false })
    }
}

/// Creates the error about a file whose number of rows has changed.
pub(super) fn changed(path: &Path, found: usize, expected: usize) -> Error {
    let found = format!("{}: has {found} rows", path.display());
    Error::data(format!("{found}, expected {expected} as in the first pass: the file has changed"))
}

/// The rows of a file with one role, in blocks. The last item is an error if the file has more or fewer rows than expected.
pub(super) struct Parts {
    file: Arc<DataFile>,
    role: Role,
    blocks: TableBlocks,
    seen: usize,
    done: bool,
}

impl Parts {
    /// Returns the rows of the next block; `None` at the end of the file.
    fn block(&mut self) -> Result<Option<TableRows>> {
        let Some(block) = self.blocks.next().transpose()? else {
            let file = &self.file;
            return if self.seen == file.rows {
                Ok(None)
            } else {
                Err(changed(&file.path, self.seen, file.rows))
            };
        };
        self.seen += block.rows();
        TableRows::of_role(&self.file.schema, &block, &self.file.roles, self.role).map(Some)
    }
}

impl Iterator for Parts {
    type Item = Result<TableRows>;

    fn next(&mut self) -> Option<Result<TableRows>> {
        if self.done {
            return None;
        }
        let part = self.block().transpose();
        self.done = !matches!(part, Some(Ok(_)));
        part
    }
}

/// The training rows of a file.
#[derive(Clone)]
pub(super) struct FileRows(pub Arc<DataFile>);

impl AllRows for FileRows {
    fn count(&self) -> usize {
        self.0.train
    }

    fn for_each(&self, most: usize, visit: &mut dyn FnMut(Portion<'_>)) -> Result<()> {
        let mut parts = self.0.parts(Role::Train, None)?;
        for part in Ahead::new(BLOCKS_AHEAD, move || parts.next())? {
            let mut part = part?;
            part.scale(&self.0.scaling);
            part.dataset().for_each(most, visit)?;
        }
        Ok(())
    }
}

/// Shuffled batches of the training rows of a file. In every epoch each row is in one batch, which depends on the seed, the epoch and the
/// size of the buffer.
///
/// If the file has row groups, they are read in random order; a text file is read from its beginning. The rows go through a buffer, from
/// which random rows are taken. Batches have the same sizes as for rows in memory.
pub(super) struct FileBatches {
    batching: Batching,
    ready: Ahead<Result<RowBuffer>>,
    current: Option<RowBuffer>,
}

/// What determines the batches of a file.
#[derive(Clone)]
struct Batching {
    rows: FileRows,
    /// The maximum number of rows of a batch, at least 1.
    batch: usize,
    /// The number of rows of the buffer, at least 1.
    buffer: usize,
    seed: u64,
    /// The maximum number of rows in the buffer and the current block so far.
    held: Arc<AtomicUsize>,
}

impl FileBatches {
    /// Creates batches of at most `batch` rows, through a buffer of `buffer` rows (each at least 1).
    pub(super) fn new(file: Arc<DataFile>, batch: usize, buffer: usize, seed: u64) -> Result<Self> {
        let batching = Batching { rows: FileRows(file), batch, buffer, seed, held: Arc::default() };
        let ready = batching.start(0)?;
        Ok(FileBatches { batching, ready, current: None })
    }
}

impl BatchSource for FileBatches {
    fn all(&self) -> &dyn AllRows {
        &self.batching.rows
    }

    fn per_epoch(&self) -> usize {
        self.batching.rows.count().div_ceil(self.batching.batch)
    }

    fn next_batch(&mut self) -> Result<Portion<'_>> {
        let stopped = || {
            Error::data(format!("{}: the reading thread has stopped", self.batching.file().path.display()))
        };
        let batch = self.ready.next().unwrap_or_else(|| Err(stopped()))?;
        Ok(Portion::Here(self.current.insert(batch).data()))
    }

    fn seek(&mut self, batches: usize) -> Result<()> {
        // The current thread and its buffer are dropped first.
        std::mem::replace(&mut self.ready, Ahead::new(1, || None)?).stop();
        self.ready = self.batching.start(batches)?;
        Ok(())
    }
}

impl Batching {
    fn file(&self) -> &Arc<DataFile> {
        &self.rows.0
    }

    /// Starts a thread that makes all batches from number `first` on.
    fn start(&self, first: usize) -> Result<Ahead<Result<RowBuffer>>> {
        let file = self.file();
        let per_epoch = file.train.div_ceil(self.batch);
        let mut maker = Maker {
            batching: self.clone(),
            epoch: (first / per_epoch) as u64,
            rows_left: 0,
            batches_left: 0,
            parts: None,
            part: None,
            at: 0,
            random: generator(self.seed, Purpose::Batches, 0),
            buffer: ShuffleBuffer::new(file.row_width(), self.buffer.min(file.train)),
            failed: false,
        };
        let mut skip = first % per_epoch;
        Ahead::new(BATCHES_AHEAD, move || {
            if maker.failed {
                return None;
            }
            let mut made = maker.make();
            while skip > 0 && made.is_ok() {
                skip -= 1;
                made = maker.make();
            }
            maker.failed = made.is_err();
            Some(made)
        })
    }
}

/// The maker of batches, on its own thread.
struct Maker {
    batching: Batching,
    /// The epoch, and the numbers of its remaining rows and batches.
    epoch: u64,
    rows_left: usize,
    batches_left: usize,
    parts: Option<Parts>,
    part: Option<TableRows>,
    at: usize,
    random: ChaCha8Rng,
    buffer: ShuffleBuffer,
    failed: bool,
}

impl Maker {
    /// Makes the next batch.
    fn make(&mut self) -> Result<RowBuffer> {
        if self.batches_left == 0 {
            self.begin_epoch()?;
        }
        let size = self.rows_left.div_ceil(self.batches_left);
        let file = Arc::clone(self.batching.file());
        let dims = file.schema.dims();
        let mut batch = RowBuffer::of_dims(dims, size).with_offsets(file.scaling.offsets());
        let exposed = file.has_exposure();
        let weighted = file.schema.weights_name().is_some();
        for _ in 0..size {
            self.fill()?;
            if !self.buffer.pop(&mut self.random, |row| push_row(&mut batch, row, dims, exposed, weighted)) {
                let found = file.rows.saturating_sub(self.rows_left);
                return Err(changed(&file.path, found, file.rows));
            }
        }
        self.rows_left -= size;
        self.batches_left -= 1;
        if self.batches_left == 0 && self.next_row()? {
            return Err(changed(&file.path, file.rows + 1, file.rows));
        }
        Ok(batch)
    }

    fn begin_epoch(&mut self) -> Result<()> {
        self.random = generator(self.batching.seed, Purpose::Batches, self.epoch);
        self.epoch += 1;
        let file = Arc::clone(self.batching.file());
        let order = file.groups.as_ref().map(|groups| {
            let mut order: Vec<usize> = (0..groups.len()).collect();
            order.shuffle(&mut self.random);
            order
        });
        self.parts = Some(file.parts(Role::Train, order.as_deref())?);
        (self.part, self.at) = (None, 0);
        self.buffer.cells.clear();
        self.rows_left = file.train;
        self.batches_left = file.train.div_ceil(self.batching.batch);
        Ok(())
    }

    /// Fills the buffer, as far as there are rows.
    fn fill(&mut self) -> Result<()> {
        while !self.buffer.is_full() && self.next_row()? {
            let Some(part) = &self.part else { break };
            let (x, at) = (part.inputs().row(self.at), self.at);
            let others = [part.exposure.get(at), part.weights.get(at), part.other_ends.get(at)];
            let row = x.iter().chain([&part.targets[at]]).chain(others.into_iter().flatten());
            self.buffer.push(row.copied());
            self.at += 1;
        }
        Ok(())
    }

    /// Reads the next block if the current one is used up; returns `false` at the end of the file.
    fn next_row(&mut self) -> Result<bool> {
        while self.part.as_ref().is_none_or(|part| self.at == part.targets.len()) {
            // The current block is dropped before the next block is read.
            (self.part, self.at) = (None, 0);
            let Some(parts) = &mut self.parts else { return Ok(false) };
            let Some(part) = parts.next() else {
                self.parts = None;
                return Ok(false);
            };
            let mut part = part?;
            part.scale(&self.batching.file().scaling);
            self.batching.held.fetch_max(self.buffer.rows() + part.targets.len(), Ordering::Relaxed);
            self.part = Some(part);
        }
        Ok(true)
    }
}

/// A buffer of rows of one width, from which random rows are taken.
struct ShuffleBuffer {
    width: usize,
    most: usize,
    cells: Vec<f64>,
}

impl ShuffleBuffer {
    /// Creates a buffer for `most` rows (at least one) of `width` numbers (at least one).
    fn new(width: usize, most: usize) -> ShuffleBuffer {
        ShuffleBuffer { width, most: most.max(1), cells: Vec::with_capacity(width * most.max(1)) }
    }

    fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    fn is_full(&self) -> bool {
        self.rows() == self.most
    }

    fn push(&mut self, row: impl Iterator<Item = f64>) {
        let before = self.cells.len();
        self.cells.extend(row);
        debug_assert_eq!(self.cells.len(), before + self.width);
    }

    /// Removes a random row and passes it to `take`; returns `false` if the buffer is empty.
    fn pop(&mut self, random: &mut ChaCha8Rng, take: impl FnOnce(&[f64])) -> bool {
        let rows = self.rows();
        if rows == 0 {
            return false;
        }
        let at = random.random_range(0..rows) * self.width;
        take(&self.cells[at..at + self.width]);
        let last = self.cells.len() - self.width;
        self.cells.copy_within(last.., at);
        self.cells.truncate(last);
        true
    }
}

/// Adds a row of the shuffle buffer to a batch: `dims` inputs, the target, and the exposure and the weight if
/// the rows are `exposed` and `weighted`.
fn push_row(batch: &mut RowBuffer, row: &[f64], dims: usize, exposed: bool, weighted: bool) {
    let mut others = row[dims + 1..].iter().copied();
    let exposure = exposed.then(|| others.next()).flatten();
    let weight = weighted.then(|| others.next()).flatten();
    batch.push(RowRef::from_slice(&row[..dims]), row[dims], exposure, weight);
    others.for_each(|end| batch.push_other_end(end));
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use super::*;
    use crate::schema::SchemaOptions;
    use crate::tabular::survey::{Survey, survey};
    use sparsegp::options::FitOptions;
    use sparsegp_testkit::parquet::{Cells, write};
    use tempfile::TempDir;

    const ROWS: usize = 23_000;

    /// Creates a file in which the input `x` is the row, `y` is 10 times the row, and the weight is the row
    /// plus 1. A Parquet file has groups of 1,500 rows.
    fn file(folder: &TempDir, name: &str) -> PathBuf {
        let path = folder.path().join(name);
        if name.ends_with(".csv") {
            let lines = (0..ROWS).map(|row| format!("{row},{},{}\n", 10 * row, row + 1));
            std::fs::write(&path, format!("x,y,w\n{}", lines.collect::<String>())).expect("written");
            return path;
        }
        let column = |value: fn(f64) -> f64| (0..ROWS).map(|row| Some(value(row as f64))).collect();
        let values: [fn(f64) -> f64; 3] = [|row| row, |row| 10.0 * row, |row| row + 1.0];
        let columns = values.map(|value| Cells::Double(column(value)));
        let schema = "message m { optional double x; optional double y; optional double w; }";
        let schema = parquet::schema::parser::parse_message_type(schema).expect("a schema");
        let out = std::fs::File::create(&path).expect("a file");
        write(out, schema, &columns, (ROWS, 1500), Default::default()).expect("written");
        path
    }

    fn data_file(path: &Path, test: f64) -> Arc<DataFile> {
        let roles = Roles::new(ROWS, test, 0.0, 1).expect("roles");
        let columns =
            SchemaOptions { target: "y".into(), weights: Some("w".into()), ..SchemaOptions::default() };
        let found =
            survey(path, &Survey { columns: &columns, roles: &roles, options: &FitOptions::default() });
        let found = found.expect("usable");
        assert_eq!(found.rows, ROWS);
        Arc::new(DataFile {
            path: path.to_owned(),
            delimiter: None,
            scaling: Scaling::none(1),
            schema: found.schema,
            roles,
            groups: found.groups,
            rows: found.rows,
            train: found.train,
        })
    }

    /// The rows of the next batches.
    fn batches(source: &mut FileBatches, count: usize) -> Vec<Vec<usize>> {
        let mut next = || {
            let batch = source.next_batch().expect("a batch").here().expect("rows in memory");
            let rows: Vec<usize> = (0..batch.len()).map(|i| batch.x[(i, 0)] as usize).collect();
            for (i, row) in rows.iter().map(|&row| row as f64).enumerate() {
                assert_eq!((batch.targets.y[i], batch.targets.weights[i]), (10.0 * row, row + 1.0));
            }
            assert!(batch.targets.exposure.is_empty());
            rows
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_epoch_is_a_permutation_of_the_training_rows_within_the_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, test, buffer) in [
            ("t.parquet", 0.0, 2000),
            ("t.parquet", 0.3, 1),
            ("t.csv", 0.3, 5000),
            ("t.csv", 0.0, usize::MAX),
        ] {
            let file = data_file(&file(&folder, name), test);
            let training: Vec<usize> = (0..ROWS).filter(|&row| file.roles.of(row) == Role::Train).collect();
            assert_eq!(training.len(), file.train);
            let mut source = FileBatches::new(Arc::clone(&file), 1000, buffer, 7).expect("batches");
            let per_epoch = source.per_epoch();
            assert_eq!(per_epoch, file.train.div_ceil(1000));
            let epochs: Vec<Vec<Vec<usize>>> = (0..3).map(|_| batches(&mut source, per_epoch)).collect();
            for epoch in &epochs {
                let sizes = epoch.iter().map(Vec::len);
                let (least, most) = (sizes.clone().min().expect("batches"), sizes.max().expect("batches"));
                assert!(most <= 1000.min(least + 1), "{least} to {most}");
                let mut rows = epoch.concat();
                rows.sort_unstable();
                assert_eq!(rows, training, "{name} through {buffer}");
            }
            assert_ne!(epochs[0], epochs[1]);
            // The current block and the buffer together are within the documented bound.
            let buffer = buffer.min(file.train);
            let most = source.batching.held.load(Ordering::Relaxed);
            assert!(most <= buffer + BLOCK_ROWS, "{most}");
            assert!(most >= buffer.min(BLOCK_ROWS));
        }
    }

    #[test]
    fn any_batch_can_be_sought_and_depends_on_the_seed() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["t.parquet", "t.csv"] {
            let file = data_file(&file(&folder, name), 0.1);
            let mut source = FileBatches::new(Arc::clone(&file), 700, 3000, 7).expect("batches");
            let per_epoch = source.per_epoch();
            let all = batches(&mut source, 2 * per_epoch + 3);
            for t in [all.len() - 2, 0, 5, per_epoch, per_epoch - 1] {
                source.seek(t).expect("a place");
                assert_eq!(batches(&mut source, 2), all[t..t + 2], "{name} {t}");
            }
            let mut other = FileBatches::new(file, 700, 3000, 8).expect("batches");
            assert_ne!(batches(&mut other, 1), all[..1]);
        }
    }

    #[test]
    fn a_small_buffer_mixes_the_groups_of_parquet_and_neighbours_of_text() {
        let folder = tempfile::tempdir().expect("a folder");
        // The distance of the mean row of a batch from the middle, which is small in a good shuffle.
        let worst = |name: &str, buffer: usize| {
            let file = data_file(&file(&folder, name), 0.0);
            let mut source = FileBatches::new(file, 1000, buffer, 3).expect("batches");
            let mean = |batch: &Vec<usize>| batch.iter().sum::<usize>() as f64 / batch.len() as f64;
            let places: Vec<f64> = batches(&mut source, 23).iter().map(mean).collect();
            places.into_iter().map(|mean| (mean / ROWS as f64 - 0.5).abs()).fold(0.0, f64::max)
        };
        // A mean of 1000 uniform numbers deviates by 0.0091.
        assert!(worst("t.csv", ROWS) < 0.04);
        assert!(worst("t.csv", 3000) > 0.35);
        assert!(worst("t.parquet", 9000) < 0.3);
    }

    #[test]
    fn a_file_that_changes_or_disappears_ends_the_batches_with_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = file(&folder, "t.csv");
        let file = data_file(&path, 0.0);
        let rows = FileRows(Arc::clone(&file));
        let mut sum = 0.0;
        let mut add = |part: Portion<'_>| sum += part.here().map_or(0.0, |part| part.targets.y.iter().sum());
        rows.for_each(999, &mut add).expect("read");
        assert_eq!(sum, (10 * ROWS * (ROWS - 1) / 2) as f64);
        let text = std::fs::read_to_string(&path).expect("text");
        let short: String = text.split_inclusive('\n').take(15_001).collect();
        std::fs::write(&path, short).expect("written");
        let mut source = FileBatches::new(Arc::clone(&file), 1000, 100, 7).expect("batches");
        let error = (0..30).find_map(|_| source.next_batch().err()).expect("too few rows");
        assert!(error.to_string().contains("has 15000 rows, expected 23000"), "{error}");
        let error = source.next_batch().err().expect("ended").to_string();
        assert!(error.contains("the reading thread has stopped"), "{error}");
        assert!(rows.for_each(1000, &mut |_| {}).is_err());
        std::fs::write(&path, text.replace("17000,170000,17001", "17000,oops,17001")).expect("written");
        source.seek(10).expect("a place");
        let error = (0..30).find_map(|_| source.next_batch().err()).expect("a bad row");
        assert!(error.to_string().contains("row 17001 (line 17002), column 'y': found \"oops\""), "{error}");
        std::fs::remove_file(&path).expect("removed");
        source.seek(0).expect("a place");
        assert_eq!(source.next_batch().err().map(|error| error.exit_code()), Some(3));
    }
}
