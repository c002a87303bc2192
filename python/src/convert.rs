//! Conversion of errors and names of options to Python, and of arrays between faer and NumPy.

use faer::Mat;
use numpy::ndarray::{Dimension, Ix1, Ix2};
use numpy::{
    Element, IntoPyArray, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sparsegp::{Error, ErrorKind};
use sparsegp_tables::options::names;
use std::convert::Infallible;
use std::ops::Deref;

pyo3::create_exception!(
    sparsegp,
    FitError,
    PyRuntimeError,
    "The fit failed for numerical reasons, and no fallback helped."
);

/// Options whose names in Python follow the conventions of scikit-learn and differ from the command line.
const NAMES: [(&str, &str); 9] = [
    ("betas", "beta"),
    ("checkpoint", "folder"),
    ("features", "X"),
    ("group", "groups"),
    ("inducing", "n_inducing"),
    ("out", "folder"),
    ("seed", "random_state"),
    ("target", "y"),
    ("threads", "n_threads"),
];

/// Options whose values are classes or calls in Python.
const CLASSES: [(&str, &str, &str); 6] = [
    ("model", "gp", "SparseGPRegressor"),
    ("model", "glm", "BayesianLinearRegressor"),
    ("task", "classification", "SparseGPClassifier"),
    ("task", "count", "SparseGPCountRegressor"),
    ("task", "regression", "SparseGPRegressor"),
    ("test_fraction", "0.2", "report(path, X_test, y_test)"),
];

/// Options that are parameters of estimators with the same name. All other options of a fit are given in
/// `options`.
const PARAMETERS: [&str; 27] = [
    "auto",
    "batch_size",
    "beta",
    "bounds",
    "epochs",
    "fix",
    "hyper",
    "hyper_posterior",
    "kernel",
    "learning_rate",
    "likelihood",
    "max_seconds",
    "mean",
    "neighbours",
    "objective",
    "patience",
    "prior",
    "prior_mean",
    "prior_variance",
    "restarts",
    "standardize",
    "start",
    "tie",
    "tolerance",
    "validation_fraction",
    "warp_inputs",
    "warp_target",
];

/// Parameters that are lists of columns.
const LISTS: [&str; 3] = ["categorical", "exclude", "keep"];

/// Returns an option as a Python program writes it.
pub fn python(name: &str, value: Option<&str>) -> String {
    let class = CLASSES.iter().find(|(option, word, _)| (*option, Some(*word)) == (name, value));
    if let Some((_, _, class)) = class {
        return (*class).to_owned();
    }
    let called = NAMES.iter().find(|(word, _)| *word == name).map_or(name, |(_, name)| name);
    let inside = called == name && !PARAMETERS.contains(&name);
    let inside = inside && names().iter().any(|known| known == name);
    let Some(value) = value else {
        return if inside { format!("options={{'{name}': …}}") } else { called.to_owned() };
    };
    let value = match value {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        columns if LISTS.contains(&name) => {
            let quoted: Vec<String> =
                columns.trim_matches('\'').split(',').map(|column| format!("'{column}'")).collect();
            format!("[{}]", quoted.join(", "))
        }
        number if number.parse::<f64>().is_ok() => number.to_owned(),
        word => format!("'{word}'"),
    };
    if inside { format!("options={{'{name}': {value}}}") } else { format!("{called}={value}") }
}

/// Returns an option of a message, as a Python program writes it.
#[pyfunction]
#[pyo3(signature = (name, value=None))]
pub fn option_called(name: &str, value: Option<&str>) -> String {
    python(name, value)
}

/// Converts an error of the engine to an exception, with its hint after the message.
pub fn raised(error: Error) -> PyErr {
    let message = error.message_with(&python);
    let text = match error.advice_with(&python) {
        Some(hint) => format!("{message} ({hint})"),
        None => message,
    };
    match error.kind() {
        ErrorKind::Fit => FitError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(()),
        _ => PyValueError::new_err(text),
    }
}

/// Returns zeros for this many rows and columns.
///
/// # Errors
///
/// `MemoryError` when there is not enough memory.
pub fn zeros(rows: usize, columns: usize) -> PyResult<Vec<f64>> {
    let mut zeros = Vec::new();
    let count = rows.checked_mul(columns);
    let reserved = count.and_then(|count| zeros.try_reserve_exact(count).ok());
    if reserved.is_none() {
        return Err(PyMemoryError::new_err(format!(
            "there is not enough memory for {rows} × {columns} numbers"
        )));
    }
    zeros.resize(count.unwrap_or(0), 0.0);
    Ok(zeros)
}

/// Refuses numbers of rows and columns that do not fit into memory.
#[pyfunction]
pub fn check_room(rows: usize, columns: usize) -> PyResult<()> {
    // The table, its inputs as a matrix, its scaled inputs, and the predictions.
    let columns = columns.saturating_mul(3).saturating_add(4);
    let room = rows.checked_mul(columns).and_then(|count| Vec::<f64>::new().try_reserve_exact(count).ok());
    room.ok_or_else(|| PyMemoryError::new_err(format!("there is not enough memory for {rows} rows")))
}

/// Numbers of a matrix for Python row by row, and its number of columns.
pub struct Rows(pub Vec<f64>, pub usize);

impl<'py> IntoPyObject<'py> for Rows {
    type Target = PyArray2<f64>;
    type Output = Bound<'py, PyArray2<f64>>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let rows = self.0.len().checked_div(self.1).unwrap_or(0);
        PyArray1::from_vec(py, self.0).reshape([rows, self.1])
    }
}

/// A matrix, a row per point. An argument can be anything that NumPy converts to a matrix of floats.
pub struct Matrix(pub Mat<f64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Matrix {
    type Error = PyErr;

    fn extract(values: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let values = floats(values)?.extract::<LentMatrix<'_>>()?;
        let values = values.as_array();
        Ok(Matrix(Mat::from_fn(values.nrows(), values.ncols(), |i, j| values[(i, j)])))
    }
}

impl<'py> IntoPyObject<'py> for Matrix {
    type Target = PyArray2<f64>;
    type Output = Bound<'py, PyArray2<f64>>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let (rows, columns) = self.0.shape();
        let cells = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        cells.map(|at| self.0[at]).collect::<Vec<f64>>().into_pyarray(py).reshape([rows, columns])
    }
}

/// A vector. An argument can be anything that NumPy converts to a vector of floats.
pub struct Vector(pub Vec<f64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Vector {
    type Error = PyErr;

    fn extract(values: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Vector(floats(values)?.extract::<LentVector<'_>>()?.as_array().to_vec()))
    }
}

impl<'py> IntoPyObject<'py> for Vector {
    type Target = PyArray1<f64>;
    type Output = Bound<'py, PyArray1<f64>>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(PyArray1::from_vec(py, self.0))
    }
}

/// Converts an argument to a NumPy array of floats.
fn floats<'py>(values: Borrowed<'_, 'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    values.py().import("numpy")?.call_method1("asarray", (values, "float64"))
}

/// A read-only array of Python. All array arguments have this type.
///
/// Arrays that were received or read from a file may be unaligned, for which rust-numpy panics, so unaligned
/// arrays are copied first.
pub struct Lent<'py, T: Element, D: Dimension>(PyReadonlyArray<'py, T, D>);

/// A read-only vector of Python.
pub type LentVector<'py, T = f64> = Lent<'py, T, Ix1>;

/// A read-only matrix of Python, in any memory order.
pub type LentMatrix<'py, T = f64> = Lent<'py, T, Ix2>;

impl<'py, T: Element, D: Dimension> Lent<'py, T, D> {
    /// Returns the array in row-major order, copied if it is stored otherwise.
    pub fn by_rows(self) -> PyResult<Self> {
        if self.0.is_c_contiguous() { Ok(self) } else { Self::copied(&self.0) }
    }

    fn copied(array: &Bound<'py, PyArray<T, D>>) -> PyResult<Self> {
        let copy = array.call_method1("copy", ("C",))?;
        Ok(Lent(copy.cast::<PyArray<T, D>>()?.try_readonly()?))
    }
}

impl<'a, 'py, T: Element + 'a, D: Dimension + 'a> FromPyObject<'a, 'py> for Lent<'py, T, D> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array = object.cast::<PyArray<T, D>>()?;
        // NumPy reports every empty array as aligned, whatever its address.
        if array.is_aligned() && !array.is_empty() {
            return Ok(Lent(array.try_readonly()?));
        }
        Self::copied(&array)
    }
}

impl<'py, T: Element, D: Dimension> Deref for Lent<'py, T, D> {
    type Target = PyReadonlyArray<'py, T, D>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
