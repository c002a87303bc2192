//! The raw results of the learning curves: a row per fit, a file, and the units of fits that write it.

use crate::paper::Paper;
use crate::{estimators, fits, flights, rules};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sparsegp::files::AtomicFile;
use sparsegp::{Error, Result};
use sparsegp_tables::compare::on_one_thread;
use std::fmt::Display;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A fit and its scores.
#[derive(Clone)]
pub struct Row {
    pub set: String,
    /// The number of training rows.
    pub n: usize,
    pub repeat: u64,
    /// The objective, the estimator of gradients or the update rule.
    pub method: String,
    pub beta: f64,
    /// The score of the validation rows that chooses β: NLL, or squared error for the square loss.
    pub validation: f64,
    /// The test NLL; NaN for the square loss.
    pub nll: f64,
    /// The squared error, the error rate or the mean relative error of the test rows.
    pub error: f64,
    /// The training objective per row.
    pub training: f64,
    pub iterations: usize,
    /// False if the limit on iterations ended the fit.
    pub converged: bool,
    pub seconds: f64,
}

const HEADER: &str = "set,n,repeat,method,beta,validation,nll,error,training,iterations,converged,seconds";

impl Row {
    /// Creates the record of a fit without scores.
    pub fn of(set: &str, n: usize, repeat: u64, method: impl Display, beta: f64) -> Row {
        let [validation, nll, error, training] = [f64::NAN; 4];
        let (set, method, iterations, converged, seconds) =
            (set.to_owned(), method.to_string(), 0, false, 0.0);
        Row { set, n, repeat, method, beta, validation, nll, error, training, iterations, converged, seconds }
    }

    fn to_line(&self) -> String {
        let Row { set, n, repeat, method, beta, validation, nll, error, training, .. } = self;
        let Row { iterations, converged, seconds, .. } = self;
        format!(
            "{set},{n},{repeat},{method},{beta},{validation:.4e},{nll:.4e},{error:.4e},{training:.4e},{iterations},{converged},{seconds:.3e}\n"
        )
    }

    fn parse(line: &str) -> Option<Row> {
        let mut cells = line.split(',');
        let mut next = || cells.next();
        Some(Row {
            set: next()?.to_owned(),
            n: next()?.parse().ok()?,
            repeat: next()?.parse().ok()?,
            method: next()?.to_owned(),
            beta: next()?.parse().ok()?,
            validation: next()?.parse().ok()?,
            nll: next()?.parse().ok()?,
            error: next()?.parse().ok()?,
            training: next()?.parse().ok()?,
            iterations: next()?.parse().ok()?,
            converged: next()?.parse().ok()?,
            seconds: next()?.parse().ok()?,
        })
    }
}

/// Reads the raw results; none if the file is absent.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let wrong = |what: String| Error::data(format!("{}: {what}", path.display()));
    let Ok(bytes) = std::fs::read(path) else { return Ok(Vec::new()) };
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let rows =
        text.lines().skip(1).map(|line| Row::parse(line).ok_or_else(|| wrong(format!("'{line}' is no fit"))));
    rows.collect()
}

/// Writes the raw results in the order of their lines.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let mut lines: Vec<String> = rows.iter().map(Row::to_line).collect();
    lines.sort();
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let text = format!("{HEADER}\n{}", lines.concat());
    let packed = packed.write_all(text.as_bytes()).and_then(|()| packed.finish());
    AtomicFile::write_all_to(path, &packed.map_err(|error| Error::data(error.to_string()))?)
}

/// Runs the fits of a unit.
type Task = dyn Fn(&Paper) -> Result<Vec<Row>> + Sync;

/// Fits that are written together.
pub struct Unit {
    /// The place in the order of the work.
    pub order: f64,
    pub name: String,
    /// Returns true for a row of the unit.
    pub has: Box<dyn Fn(&Row) -> bool + Sync>,
    pub fit: Box<Task>,
}

/// Runs the units that the file lacks, two at a time, and writes the file after each. Starts none after so many
/// minutes.
pub fn fit_all(paper: &Paper, path: &Path, minutes: f64) -> Result<()> {
    let known = read(path)?;
    let mut units: Vec<Unit> =
        fits::units().chain(flights::units()).chain(estimators::units()).chain(rules::units()).collect();
    units.retain(|unit| !known.iter().any(|row| (unit.has)(row)));
    units.sort_by(|a, b| a.order.total_cmp(&b.order));
    let (rows, next, clock) = (Mutex::new(known), AtomicUsize::new(0), Instant::now());
    let work = || -> Result<()> {
        while clock.elapsed().as_secs_f64() < 60.0 * minutes
            && let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let from = Instant::now();
            let found = on_one_thread(|| (unit.fit)(paper))?;
            paper.say(&format!(
                "{}: {} rows in {:.0} s",
                unit.name,
                found.len(),
                from.elapsed().as_secs_f64()
            ));
            let mut rows = rows.lock().unwrap_or_else(|broken| broken.into_inner());
            rows.extend(found);
            write(path, &rows)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(work));
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(Error::fit("a thread of fits panicked")))
        })
    })
}
