//! Kernels for Python: created from text, evaluated at arrays, and checked by the test kits.

use crate::convert::{Matrix, Vector, raised};
use crate::custom::Custom;
use crate::host;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sparsegp::kernels::testkit::check_kernel_in;
use sparsegp::kernels::{Inputs, Scratch, value_names};
use sparsegp::likelihood::{Observation, testkit};

/// A kernel for points with a given number of columns.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Kernel {
    kernel: Box<dyn sparsegp::kernels::Kernel>,
    dims: usize,
    custom: Custom,
}

/// Returns the values of a kernel by name, in their order.
pub fn named_values(kernel: &dyn sparsegp::kernels::Kernel) -> Vec<(String, f64)> {
    let values = kernel.parameters().into_iter().flat_map(|parameter| parameter.values.iter().copied());
    value_names(kernel).into_iter().zip(values).collect()
}

/// Returns the first problem that the test kit finds with a custom likelihood at targets and their exposures,
/// or `None` if it passes.
#[pyfunction]
pub fn check_likelihood(
    py: Python<'_>,
    custom: &Custom,
    name: &str,
    observations: Vec<(f64, f64)>,
) -> PyResult<Option<String>> {
    let registry = &custom.registry;
    let kind = registry.likelihood_kind(name);
    let kind = kind.ok_or_else(|| PyValueError::new_err(format!("there is no likelihood named '{name}'")))?;
    let likelihood = registry.likelihood(kind, 2).map_err(raised)?;
    let observations: Vec<Observation> =
        observations.into_iter().map(|(y, exposure)| Observation::exposed(y, exposure)).collect();
    let check = |_: host::Host<'_>| testkit::check_likelihood(&*likelihood, &observations).err();
    custom.watch(py, || host::run(py, Some(1), None, check))
}

impl Kernel {
    fn check_columns(&self, x: &Matrix) -> PyResult<()> {
        let columns = x.0.ncols();
        if columns == self.dims {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("X has {columns} columns, expected {}", self.dims)))
    }
}

#[pymethods]
impl Kernel {
    #[new]
    #[pyo3(signature = (text, dims, custom=None))]
    fn new(py: Python<'_>, text: &str, dims: usize, custom: Option<Custom>) -> PyResult<Kernel> {
        let custom = custom.unwrap_or_default();
        let parsed = custom.watch(py, || Ok(custom.registry.grammar().parse(text, dims)))?;
        let kernel = parsed.map_err(|error| PyValueError::new_err(format!("kernel '{text}': {error}")))?;
        if kernel.min_dims() > dims {
            let needed = kernel.min_dims();
            return Err(PyValueError::new_err(format!(
                "kernel '{text}' needs {needed} columns, X has {dims}"
            )));
        }
        Ok(Kernel { kernel, dims, custom })
    }

    /// Returns the covariances of the rows of `left` with the rows of `right`, or with each other if `right`
    /// is absent.
    #[pyo3(signature = (left, right=None))]
    fn covariance(&self, py: Python<'_>, left: Matrix, right: Option<Matrix>) -> PyResult<Matrix> {
        self.check_columns(&left)?;
        right.as_ref().map_or(Ok(()), |right| self.check_columns(right))?;
        let inputs = match &right {
            Some(right) => Inputs::Cross { left: left.0.as_ref(), right: right.0.as_ref() },
            None => Inputs::Gram(left.0.as_ref()),
        };
        let (rows, columns) = inputs.shape();
        let mut out = faer::Mat::zeros(rows, columns);
        self.custom.watch(py, || {
            self.kernel.eval(inputs, out.as_mut(), &mut Scratch::new());
            Ok(Matrix(out))
        })
    }

    /// Returns the variance at every row.
    fn diagonal(&self, py: Python<'_>, x: Matrix) -> PyResult<Vector> {
        self.check_columns(&x)?;
        let mut out = vec![0.0; x.0.nrows()];
        self.custom.watch(py, || {
            self.kernel.diag(x.0.as_ref(), &mut out, &mut Scratch::new());
            Ok(Vector(out))
        })
    }

    /// Returns all values by name, in their order.
    fn values(&self) -> Vec<(String, f64)> {
        named_values(&*self.kernel)
    }

    /// Returns the first problem that the test kit finds at two sets of points, or `None` if it passes.
    fn check(&self, py: Python<'_>, left: Matrix, right: Matrix) -> PyResult<Option<String>> {
        self.check_columns(&left)?;
        self.check_columns(&right)?;
        let (grammar, left, right) = (self.custom.registry.grammar(), left.0.as_ref(), right.0.as_ref());
        let check = |_: host::Host<'_>| check_kernel_in(grammar, &*self.kernel, left, right).err();
        self.custom.watch(py, || host::run(py, Some(1), None, check))
    }
}
