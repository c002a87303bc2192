//! Errors and names as Python has them, and arrays between faer and NumPy; no work.

use faer::{Mat, MatRef};
use numpy::ndarray::{Dimension, Ix1, Ix2};
use numpy::{
    Element, IntoPyArray, PyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use sparsegp::options::FitOptions;
use sparsegp::{Error, ErrorKind};
use std::ops::Deref;

pyo3::create_exception!(
    sparsegp,
    FitError,
    PyRuntimeError,
    "The fit failed numerically although everything reasonable was tried."
);

/// Options that scikit-learn's habits call otherwise than the command line does.
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

/// Options whose values are classes or calls here.
const CLASSES: [(&str, &str, &str); 6] = [
    ("model", "gp", "SparseGPRegressor"),
    ("model", "glm", "BayesianLinearRegressor"),
    ("task", "classification", "SparseGPClassifier"),
    ("task", "count", "SparseGPCountRegressor"),
    ("task", "regression", "SparseGPRegressor"),
    ("test_fraction", "0.2", "report(path, X_test, y_test)"),
];

/// Options that are parameters of estimators by their own name; the others of a fit are given in `options`.
const PARAMETERS: [&str; 26] = [
    "auto",
    "batch_size",
    "beta",
    "bounds",
    "epochs",
    "fix",
    "hyper",
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

/// An option as a Python program writes it.
pub fn python(name: &str, value: Option<&str>) -> String {
    let class = CLASSES.iter().find(|(option, word, _)| (*option, Some(*word)) == (name, value));
    if let Some((_, _, class)) = class {
        return (*class).to_owned();
    }
    let called = NAMES.iter().find(|(word, _)| *word == name).map_or(name, |(_, name)| name);
    let inside = called == name && !PARAMETERS.contains(&name);
    let inside = inside && FitOptions::names().iter().any(|known| known == name);
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

/// An option of a message, as a Python program writes it.
#[pyfunction]
#[pyo3(signature = (name, value=None))]
pub fn option_called(name: &str, value: Option<&str>) -> String {
    python(name, value)
}

/// An error of the engine as an exception, its hint after the message.
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

/// Zeros for this many rows and columns.
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

/// Refuses rows and columns whose work has no room in memory.
#[pyfunction]
pub fn check_room(rows: usize, columns: usize) -> PyResult<()> {
    // The table, its inputs as a matrix and on the scale that the model sees, and what is predicted.
    let columns = columns.saturating_mul(3).saturating_add(4);
    let room = rows.checked_mul(columns).and_then(|count| Vec::<f64>::new().try_reserve_exact(count).ok());
    room.ok_or_else(|| PyMemoryError::new_err(format!("there is not enough memory for {rows} rows")))
}

/// The numbers of n rows and this number of columns, row-major.
pub fn rows_of(py: Python<'_>, numbers: Vec<f64>, columns: usize) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let rows = numbers.len().checked_div(columns).unwrap_or(0);
    PyArray1::from_vec(py, numbers).reshape([rows, columns])
}

/// A matrix, row-major.
pub fn matrix<'py>(py: Python<'py>, values: MatRef<'_, f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (rows, columns) = values.shape();
    let cells = (0..rows).flat_map(|i| (0..columns).map(move |j| values[(i, j)]));
    cells.collect::<Vec<f64>>().into_pyarray(py).reshape([rows, columns])
}

/// An array that Python lends, which nothing writes to. Every array comes in as this.
///
/// Numbers that came over a wire or from a file may lie where the processor does not expect them, and rust-numpy panics there: they are
/// copied first.
pub struct Lent<'py, T: Element, D: Dimension>(PyReadonlyArray<'py, T, D>);

/// A vector that Python lends.
pub type LentVector<'py, T = f64> = Lent<'py, T, Ix1>;

/// A matrix that Python lends, in any order.
pub type LentMatrix<'py, T = f64> = Lent<'py, T, Ix2>;

impl<'py, T: Element, D: Dimension> Lent<'py, T, D> {
    /// The same numbers row by row; copied unless they are stored so already.
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
        // NumPy calls an array without numbers aligned wherever it points to.
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

/// An array as a matrix, a row per point.
pub fn points(x: &LentMatrix<'_>) -> Mat<f64> {
    let x = x.as_array();
    Mat::from_fn(x.nrows(), x.ncols(), |i, j| x[(i, j)])
}
