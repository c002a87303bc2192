//! Kernels as Python holds them: a text with values, evaluated at arrays; no meaning of names of columns.

use crate::convert::{matrix, points};
use numpy::{PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sparsegp::kernels::{Inputs, Scratch, parse, value_names};
use std::collections::BTreeMap;

/// A kernel for points of a number of columns.
#[pyclass(frozen, module = "sparsegp._sparsegp")]
pub struct Kernel {
    kernel: Box<dyn sparsegp::kernels::Kernel>,
    dims: usize,
}

impl Kernel {
    fn check(&self, x: &PyReadonlyArray2<'_, f64>) -> PyResult<()> {
        let columns = x.as_array().ncols();
        if columns == self.dims {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("X has {columns} columns, expected {}", self.dims)))
    }
}

#[pymethods]
impl Kernel {
    #[new]
    fn new(text: &str, dims: usize) -> PyResult<Kernel> {
        let kernel =
            parse(text, dims).map_err(|error| PyValueError::new_err(format!("kernel '{text}': {error}")))?;
        if kernel.min_dims() > dims {
            let needed = kernel.min_dims();
            return Err(PyValueError::new_err(format!(
                "kernel '{text}' needs {needed} columns, X has {dims}"
            )));
        }
        Ok(Kernel { kernel, dims })
    }

    /// The covariances of the rows of `left` with those of `right`, or among themselves.
    #[pyo3(signature = (left, right=None))]
    fn covariance<'py>(
        &self,
        py: Python<'py>,
        left: PyReadonlyArray2<'py, f64>,
        right: Option<PyReadonlyArray2<'py, f64>>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.check(&left)?;
        right.as_ref().map_or(Ok(()), |right| self.check(right))?;
        let (left, right) = (points(&left), right.map(|right| points(&right)));
        let columns = right.as_ref().map_or(left.nrows(), |right| right.nrows());
        let mut out = faer::Mat::zeros(left.nrows(), columns);
        let inputs = match &right {
            Some(right) => Inputs::Cross { left: left.as_ref(), right: right.as_ref() },
            None => Inputs::Gram(left.as_ref()),
        };
        self.kernel.eval(inputs, out.as_mut(), &mut Scratch::new());
        matrix(py, out.as_ref())
    }

    /// The variance at every row.
    fn diagonal<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.check(&x)?;
        let x = points(&x);
        let mut out = vec![0.0; x.nrows()];
        self.kernel.diag(x.as_ref(), &mut out, &mut Scratch::new());
        Ok(PyArray1::from_vec(py, out))
    }

    /// All values by name.
    fn values(&self) -> BTreeMap<String, f64> {
        let mut values = Vec::new();
        self.kernel.for_each_parameter(&mut |parameter| values.extend_from_slice(&parameter.values));
        value_names(&*self.kernel).into_iter().zip(values).collect()
    }

    /// Its text, without values.
    fn expression(&self) -> String {
        self.kernel.expression()
    }
}
