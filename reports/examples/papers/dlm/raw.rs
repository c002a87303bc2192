//! The raw results of the learning curves: a row per fit, a file, and the units of fits that write it.

use crate::paper::prelude::*;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize, Serializer};
use sparsegp::files::AtomicFile;
use sparsegp_tables::compare::on_one_thread;
use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

#[derive(Clone, Serialize, Deserialize)]
pub struct Row {
    pub set: String,
    pub n: usize,
    pub repeat: u64,
    /// The objective, the estimator of gradients or the update rule.
    pub method: String,
    pub beta: f64,
    /// The score of the validation rows that chooses β: NLL, or squared error for the square loss.
    #[serde(serialize_with = "digits")]
    pub validation: f64,
    /// The test NLL; NaN for the square loss.
    #[serde(serialize_with = "digits")]
    pub nll: f64,
    /// The squared error, the error rate or the mean relative error of the test rows.
    #[serde(serialize_with = "digits")]
    pub error: f64,
    #[serde(serialize_with = "digits")]
    pub training: f64,
    pub iterations: usize,
    /// False if the limit on iterations ended the fit.
    pub converged: bool,
    #[serde(serialize_with = "digits")]
    pub seconds: f64,
}

/// Writes five significant digits, which keep the file small.
fn digits<S: Serializer>(value: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:.4e}"))
}

impl Row {
    pub fn of(set: &str, n: usize, repeat: u64, method: impl Display, beta: f64) -> Row {
        let [validation, nll, error, training] = [f64::NAN; 4];
        let (set, method, iterations, converged, seconds) =
            (set.to_owned(), method.to_string(), 0, false, 0.0);
        Row { set, n, repeat, method, beta, validation, nll, error, training, iterations, converged, seconds }
    }
}

/// Reads the raw results; none if the file is absent.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let Ok(file) = File::open(path) else { return Ok(Vec::new()) };
    let rows = csv::Reader::from_reader(GzDecoder::new(file)).into_deserialize();
    rows.collect::<csv::Result<_>>().map_err(|error| Error::data(format!("{}: {error}", path.display())))
}

/// Writes the raw results, sorted by set, rows, repeat, method and β.
fn write(path: &Path, rows: &mut [Row]) -> Result<()> {
    let key = |row: &Row| (row.set.clone(), row.n, row.repeat, row.method.clone());
    rows.sort_by(|a, b| key(a).cmp(&key(b)).then(a.beta.total_cmp(&b.beta)));
    let packed = pack(rows).map_err(|error| Error::data(error.to_string()))?;
    AtomicFile::write_all_to(path, &packed)
}

fn pack(rows: &[Row]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let mut table = csv::Writer::from_writer(&mut packed);
    rows.iter().try_for_each(|row| table.serialize(row))?;
    table.flush()?;
    drop(table);
    packed.finish()
}

type Task = dyn Fn(&Paper) -> Result<Vec<Row>> + Sync;

/// Fits that are written together.
pub struct Unit {
    pub name: String,
    /// Returns true for a row of the unit.
    pub has: Box<dyn Fn(&Row) -> bool + Sync>,
    pub fit: Box<Task>,
}

/// Runs the units that the file lacks, one per processor, and writes the file after each. Starts none after so many
/// minutes.
pub fn fit_all(paper: &Paper, mut units: Vec<Unit>, path: &Path, minutes: f64) -> Result<()> {
    let known = read(path)?;
    units.retain(|unit| !known.iter().any(|row| (unit.has)(row)));
    let (rows, next, clock) = (Mutex::new(known), AtomicUsize::new(0), Instant::now());
    let work = || -> Result<()> {
        while clock.elapsed().as_secs_f64() < 60.0 * minutes
            && let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let from = Instant::now();
            let found = on_one_thread(|| (unit.fit)(paper))?;
            let seconds = from.elapsed().as_secs_f64();
            paper.say(&format!("{}: {} rows in {seconds:.0} s", unit.name, found.len()));
            let mut rows = rows.lock().unwrap_or_else(|broken| broken.into_inner());
            rows.extend(found);
            write(path, &mut rows)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::fit("a thread of fits panicked")))
        })
    })
}
