//! Kernels whose values and gradients a Python object computes.

use super::{Own, keywords, parameters, set};
use crate::convert::{LentMatrix, LentVector, matrix};
use faer::{MatMut, MatRef};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use sparsegp::kernels::{Evaluated, Gradient, Inputs, Kernel, Parameter, Scratch};
use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub struct CustomKernel {
    own: Arc<Own>,
    parameters: Vec<Parameter>,
}

impl CustomKernel {
    pub fn new(py: Python<'_>, own: Arc<Own>, columns: usize) -> PyResult<CustomKernel> {
        let parameters = parameters(own.object.bind(py), columns)?;
        Ok(CustomKernel { own, parameters })
    }

    /// Returns the kernel for points with this number of columns. It has no parameters if the object raises
    /// an exception.
    pub fn boxed(own: Arc<Own>, columns: usize) -> Box<dyn Kernel> {
        let parameters = own.call(|object| parameters(object, columns)).unwrap_or_default();
        Box::new(CustomKernel { own, parameters })
    }

    fn add(&self, gradient: Gradient<'_>, found: Option<Found<'_>>) {
        let Gradient { parameters, mut left, mut right } = gradient;
        let Some((own, x, z)) = found else {
            parameters.fill(f64::NAN);
            return;
        };
        parameters.iter_mut().zip(own.as_array()).for_each(|(slot, own)| *slot += own);
        for (target, found) in [(&mut left, x), (&mut right, z)] {
            let (Some(target), Some(found)) = (target, found) else { continue };
            let found = found.as_array();
            for d in 0..target.ncols() {
                (0..target.nrows()).for_each(|i| target[(i, d)] += found[(i, d)]);
            }
        }
    }
}

/// Arrays of the left points, and of the right points unless both sides are the same points.
type Points<'py> = (Bound<'py, PyArray2<f64>>, Option<Bound<'py, PyArray2<f64>>>);

fn points_of<'py>(py: Python<'py>, inputs: Inputs<'_>) -> PyResult<Points<'py>> {
    Ok(match inputs {
        Inputs::Cross { left, right } => (matrix(py, left)?, Some(matrix(py, right)?)),
        Inputs::Gram(x) => (matrix(py, x)?, None),
    })
}

/// Gradients in the parameters, in the left points and in the right points.
type Found<'py> = (LentVector<'py>, Option<LentMatrix<'py>>, Option<LentMatrix<'py>>);

impl fmt::Debug for CustomKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.own.name).field("parameters", &self.parameters).finish()
    }
}

impl Kernel for CustomKernel {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _: &mut Scratch) {
        let done = self.own.call(|object| {
            let py = object.py();
            let (x, z) = points_of(py, inputs)?;
            let values = keywords(py, &self.parameters)?;
            let found: LentMatrix<'_> = object.call_method1("_covariances", (x, z, values))?.extract()?;
            let found = found.as_array();
            for j in 0..out.ncols() {
                (0..out.nrows()).for_each(|i| out[(i, j)] = found[(i, j)]);
            }
            Ok(())
        });
        if done.is_none() {
            out.fill(f64::NAN);
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, gradient: Gradient<'_>, _: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        Python::attach(|py| {
            let wanted = (gradient.left.is_some(), gradient.right.is_some());
            let found = self.own.call(|_| {
                let (x, z) = points_of(py, inputs)?;
                let values = keywords(py, &self.parameters)?;
                let arguments = (x, z, matrix(py, kbar)?, wanted.0, wanted.1, values);
                self.own.object.bind(py).call_method1("_gradients", arguments)?.extract::<Found<'_>>()
            });
            self.add(gradient, found);
        });
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], _: &mut Scratch) {
        self.own.fill([out], set, |object| {
            let arguments = (matrix(object.py(), x)?, keywords(object.py(), &self.parameters)?);
            Ok([object.call_method1("_variances", arguments)?.extract()?])
        });
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], gradient: Gradient<'_>, _: &mut Scratch) {
        Python::attach(|py| {
            let wanted = gradient.left.is_some();
            let found = self.own.call(|_| {
                let weights = PyArray1::from_slice(py, kbar);
                let arguments = (matrix(py, x)?, weights, wanted, keywords(py, &self.parameters)?);
                self.own
                    .object
                    .bind(py)
                    .call_method1("_variance_gradients", arguments)?
                    .extract::<Found<'_>>()
            });
            self.add(gradient, found);
        });
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.parameters.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.parameters.iter_mut().for_each(visit);
    }

    /// Sets starting values as for built-in kernels: `variance` from the target, `lengthscales` from the
    /// spread of the inputs. Other parameters keep their values.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        for parameter in &mut self.parameters {
            match parameter.name.as_str() {
                "variance" => parameter.start(|_| target_variance),
                "lengthscales" => parameter.start_from_spread(spread, |s, dims| s * dims.sqrt()),
                _ => {}
            }
        }
    }

    fn expression(&self) -> String {
        self.own.name.to_owned()
    }
}
