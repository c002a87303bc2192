//! Fits to tables in partitions: the work of the holders of partitions, and the fit that asks them.

use crate::convert::{LentMatrix, LentVector, Rows, Vector, python, raised};
use crate::custom::Custom;
use crate::fit::{Columns, hearing, options_of};
use crate::host::{self, Ears, Host};
use crate::model::Model;
use crate::table::Table;
use faer::MatRef;
use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use sparsegp::checkpoint::Checkpoint;
use sparsegp::collapsed::Dataset;
use sparsegp::hyper::Session;
use sparsegp::objective::Targets;
use sparsegp::options::FitOptions;
use sparsegp::training::{Round as Asked, Sums};
use sparsegp::{Error, Result};
use sparsegp_tables::schema::SchemaOptions;
use sparsegp_tables::tables::Readings;
use sparsegp_tables::tabular::{PartSurvey, PartsFit, PartsRequest, Preparation as Prepare, TableParts};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The columns and options of a fit.
struct Request {
    columns: SchemaOptions,
    options: FitOptions,
    batch_size_given: bool,
}

impl Request {
    fn of(columns: Columns, options: &str, batch_size_given: bool) -> PyResult<Request> {
        let options = options_of(options, &[], &Custom::default())?;
        let columns = columns.options().map_err(raised)?;
        // Rounds take inputs and targets as arrays, which do not tell offsets apart.
        columns.check_no_offset("a fit in partitions").map_err(raised)?;
        Ok(Request { columns, options, batch_size_given })
    }

    fn borrowed(&self) -> PartsRequest<'_> {
        PartsRequest {
            columns: &self.columns,
            options: &self.options,
            batch_size_given: self.batch_size_given,
        }
    }
}

fn readings_of(text: &[u8]) -> PyResult<Option<Readings>> {
    if text.is_empty() {
        return Ok(None);
    }
    let read = serde_json::from_slice(text);
    read.map(Some).map_err(|error| PyValueError::new_err(format!("readings: {error}")))
}

/// Returns the statistics of columns and scaling of partition `part`, with samples of its rows. `first_row`
/// is the number of rows before it.
#[pyfunction]
#[pyo3(signature = (table, part, first_row, columns, options, readings, *, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn survey_part<'py>(
    py: Python<'py>,
    table: &Table,
    part: usize,
    first_row: usize,
    columns: Columns,
    options: &str,
    readings: &[u8],
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (request, readings) = (Request::of(columns, options, true)?, readings_of(readings)?);
    let work = |_: Host<'_>| {
        let table = table.0.clone().from_row(first_row);
        PartSurvey::of(request.borrowed(), &table, part, readings.as_ref())?.to_bytes()
    };
    Ok(PyBytes::new(py, &host::run(py, threads, None, work)?.map_err(raised)?))
}

/// Merges the surveys of consecutive partitions.
#[pyfunction]
pub fn merge_surveys<'py>(
    py: Python<'py>,
    surveys: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, PyBytes>> {
    merged(py, &surveys, PartSurvey::from_bytes, PartSurvey::merge, PartSurvey::to_bytes)
}

/// Merges answers of partitions to one round.
#[pyfunction]
pub fn merge_sums<'py>(py: Python<'py>, sums: Vec<Bound<'py, PyBytes>>) -> PyResult<Bound<'py, PyBytes>> {
    merged(py, &sums, Sums::from_bytes, |all, one| all.merge(&one), Sums::to_bytes)
}

fn merged<'py, T: Send>(
    py: Python<'py>,
    parts: &[Bound<'py, PyBytes>],
    read: fn(&[u8]) -> Result<T>,
    merge: fn(&mut T, T) -> Result<()>,
    write: fn(&T) -> Result<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let Some((first, others)) = parts.split_first() else {
        return Err(PyValueError::new_err(
            "there is nothing to merge, expected the bytes of at least one partition",
        ));
    };
    let all = py.detach(|| {
        let mut all = read(first)?;
        others.iter().try_for_each(|one| merge(&mut all, read(one)?))?;
        write(&all)
    });
    Ok(PyBytes::new(py, &all.map_err(raised)?))
}

/// Converts a partition to scaled rows for the model.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Preparation(Prepare, String);

#[pymethods]
impl Preparation {
    /// Reads a preparation from the bytes that a fit sends.
    #[new]
    fn new(bytes: &[u8]) -> PyResult<Preparation> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        Ok(Preparation(Prepare::from_text(&text).map_err(raised)?, text))
    }

    /// Returns inputs (n × D) and targets of the training rows, and exposures and weights or None.
    #[pyo3(signature = (table, first_row, *, threads=None))]
    fn rows(
        &self,
        py: Python<'_>,
        table: &Table,
        first_row: usize,
        threads: Option<usize>,
    ) -> PyResult<(Rows, Vector, Option<Vector>, Option<Vector>)> {
        let work = |_: Host<'_>| self.0.rows(&table.0.clone().from_row(first_row));
        let rows = host::run(py, threads, None, work)?.map_err(raised)?;
        let x = rows.inputs();
        let x = Rows((0..x.nrows()).flat_map(|i| x.row(i).iter().copied()).collect(), x.ncols());
        let some = |values: Vec<f64>| (!values.is_empty()).then_some(Vector(values));
        Ok((x, Vector(rows.targets), some(rows.exposure), some(rows.weights)))
    }

    /// Returns the class and its only argument, from which pickle creates an equal object.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let bytes = PyBytes::new(slf.py(), slf.get().1.as_bytes());
        Ok((slf.get_type(), PyTuple::new(slf.py(), [bytes])?))
    }
}

/// A question to all partitions, with the current model, which is factorised once for all partitions in one
/// process.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Round(Asked);

#[pymethods]
impl Round {
    /// Reads a round from the bytes that a fit sends.
    #[new]
    #[pyo3(signature = (bytes, *, threads=None))]
    fn new(py: Python<'_>, bytes: &[u8], threads: Option<usize>) -> PyResult<Round> {
        let round = host::run(py, threads, None, |_: Host<'_>| Asked::from_bytes(bytes))?;
        round.map(Round).map_err(raised)
    }

    /// Returns the answer of partition `part`, given its inputs (n × D, row-major), targets, and exposures
    /// and weights or None. Arrays are not copied.
    #[pyo3(signature = (part, x, y, exposure, weights, *, threads=None))]
    #[allow(clippy::too_many_arguments)]
    fn sums<'py>(
        &self,
        py: Python<'py>,
        part: usize,
        x: LentMatrix<'py>,
        y: LentVector<'py>,
        exposure: Option<LentVector<'py>>,
        weights: Option<LentVector<'py>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (n, d) = (x.shape()[0], x.shape()[1]);
        let x = x.by_rows()?;
        let numbers = x.as_slice()?;
        let vector = |name: &str, values: LentVector<'py>| match values.len() {
            len if len == n => values.by_rows(),
            len => Err(PyValueError::new_err(format!("{name} has {len} numbers, X has {n} rows"))),
        };
        let y = vector("y", y)?;
        let exposure = exposure.map(|values| vector("exposure", values)).transpose()?;
        let weights = weights.map(|values| vector("weights", values)).transpose()?;
        let targets = Targets {
            exposure: exposure.as_ref().map_or(Ok(&[][..]), |values| values.as_slice())?,
            weights: weights.as_ref().map_or(Ok(&[][..]), |values| values.as_slice())?,
            ..Targets::of(y.as_slice()?)
        };
        let work = |_: Host<'_>| {
            let x = MatRef::from_row_major_slice(numbers, n, d);
            self.0.sums(part, Dataset { x, targets })?.to_bytes()
        };
        Ok(PyBytes::new(py, &host::run(py, threads, None, work)?.map_err(raised)?))
    }
}

/// Partitions that Python holds.
struct Partitions<'a> {
    count: usize,
    ask: &'a host::Ask<'a>,
}

impl Partitions<'_> {
    fn asked(&self, name: &'static str, work: Vec<u8>) -> Result<Vec<u8>> {
        // The exception is raised again once the fit has ended.
        (self.ask)(name, work).ok_or_else(|| Error::interrupted("a question to the partitions has no answer"))
    }
}

impl TableParts for Partitions<'_> {
    fn count(&self) -> usize {
        self.count
    }

    fn survey(&self, readings: Option<&Readings>) -> Result<PartSurvey> {
        let text = readings.map(serde_json::to_vec).transpose();
        let text = text.map_err(|error| Error::usage(format!("readings of columns: {error}")))?;
        PartSurvey::from_bytes(&self.asked("survey", text.unwrap_or_default())?)
    }

    fn prepare(&self, preparation: &Prepare) -> Result<()> {
        self.asked("prepare", preparation.to_text()?.into_bytes()).map(|_| ())
    }

    fn ask(&self, round: Vec<u8>) -> Result<Sums> {
        Sums::from_bytes(&self.asked("sums", round)?)
    }
}

/// Fits a model to `count` partitions. `answer` is called with the name of a question and its bytes, and returns the bytes of the merged
/// answer: `"survey"` ([`survey_part`], [`merge_surveys`]), `"prepare"` ([`Preparation`], no answer) and `"sums"` ([`Round`],
/// [`merge_sums`]). With a `checkpoint`, a file, the fit continues from its contents.
#[pyfunction]
#[pyo3(signature = (count, columns, options, answer, *, batch_size_given, listener=None, checkpoint=None, every=60.0, threads=None))]
#[allow(clippy::too_many_arguments)]
pub fn fit_parts(
    py: Python<'_>,
    count: usize,
    columns: Columns,
    options: &str,
    answer: Py<PyAny>,
    batch_size_given: bool,
    listener: Option<Py<PyAny>>,
    checkpoint: Option<PathBuf>,
    every: f64,
    threads: Option<usize>,
) -> PyResult<Model> {
    let request = Request::of(columns, options, batch_size_given)?;
    request.borrowed().check().map_err(raised)?;
    let every = Duration::try_from_secs_f64(every).map_err(|_| {
        PyValueError::new_err(format!("checkpoint_every is {every}, expected a number of seconds"))
    })?;
    let work = |host: Host<'_>| {
        let poll = || host.interrupted.load(Ordering::Relaxed);
        let parts = Partitions { count, ask: host.ask };
        let fit = PartsFit::new(request.borrowed(), &parts)?;
        let mut kept = match &checkpoint {
            Some(path) => Some(opened(path, &fit, every)?),
            None => None,
        };
        let mut session = Session::new(host.tell).with_poll(&poll).with_enough(host.enough);
        if let Some(kept) = &mut kept {
            session = session.with_checkpoint(kept);
        }
        let model = fit.fit(&mut session)?;
        if let Some(kept) = kept {
            kept.remove();
        }
        Ok(model)
    };
    let mut hear = hearing(listener);
    let mut answers = |py: Python<'_>, name: &'static str, work: &[u8]| -> PyResult<Vec<u8>> {
        let found = answer.call1(py, (name, PyBytes::new(py, work)))?;
        Ok(found.extract::<&[u8]>(py)?.to_vec())
    };
    let ears = Ears { hear: hear.as_deref_mut(), answer: Some(&mut answers) };
    host::run_with(py, threads, ears, work)?
        .map(|model| Model::new(Arc::new(model), Custom::default()))
        .map_err(raised)
}

/// Opens the checkpoint of a fit in a file, with the states that the file contains.
fn opened(path: &Path, fit: &PartsFit<'_>, every: Duration) -> Result<Checkpoint> {
    let mut checkpoint = Checkpoint::new(path, fit.identity()?, Some(every)).locked()?;
    if path.exists() {
        checkpoint = checkpoint.resume(path)?;
    }
    checkpoint.write();
    if let Some(failure) = checkpoint.failure() {
        return Err(failure.clone());
    }
    Ok(checkpoint.with_warning(|failure| {
        let failure = failure.message_with(&python);
        eprintln!(
            "sparsegp: the checkpoint was not written; the fit continues and will try again: {failure}"
        );
    }))
}
