//! Kernels whose values and gradients a Python object computes.

use super::{Own, keywords, parameters, set};
use crate::convert::{Matrix, Vector};
use faer::{MatMut, MatRef};
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
}

/// Adds gradients in the parameters, in the left points and in the right points; the former are NaN after an exception.
fn add(gradient: Gradient<'_>, found: Option<(Vector, Option<Matrix>, Option<Matrix>)>) {
    let Gradient { parameters, mut left, mut right } = gradient;
    let Some((own, x, z)) = found else {
        parameters.fill(f64::NAN);
        return;
    };
    parameters.iter_mut().zip(own.0).for_each(|(slot, own)| *slot += own);
    for (target, found) in [(&mut left, x), (&mut right, z)] {
        if let (Some(target), Some(found)) = (target, found) {
            *target += found.0;
        }
    }
}

/// Returns the left points, and the right points unless both sides are the same points.
fn points_of(inputs: Inputs<'_>) -> (Matrix, Option<Matrix>) {
    match inputs {
        Inputs::Cross { left, right } => (Matrix(left.to_owned()), Some(Matrix(right.to_owned()))),
        Inputs::Gram(x) => (Matrix(x.to_owned()), None),
    }
}

impl fmt::Debug for CustomKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.own.name).field("parameters", &self.parameters).finish()
    }
}

impl Kernel for CustomKernel {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _: &mut Scratch) {
        let (x, z) = points_of(inputs);
        let arguments = (x, z, keywords(&self.parameters));
        match self.own.call(|object| object.call_method1("_covariances", arguments)?.extract::<Matrix>()) {
            Some(found) => out.copy_from(found.0),
            None => out.fill(f64::NAN),
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, gradient: Gradient<'_>, _: &mut Scratch) {
        let (wants_left, wants_right) = (gradient.left.is_some(), gradient.right.is_some());
        let ((x, z), kbar) = (points_of(at.inputs), Matrix(at.kbar.to_owned()));
        let arguments = (x, z, kbar, wants_left, wants_right, keywords(&self.parameters));
        add(gradient, self.own.call(|object| object.call_method1("_gradients", arguments)?.extract()));
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], _: &mut Scratch) {
        let arguments = (Matrix(x.to_owned()), keywords(&self.parameters));
        self.own.fill([out], set, |object| Ok([object.call_method1("_variances", arguments)?.extract()?]));
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], gradient: Gradient<'_>, _: &mut Scratch) {
        let (x, weights, wants_left) = (Matrix(x.to_owned()), Vector(kbar.to_vec()), gradient.left.is_some());
        let arguments = (x, weights, wants_left, keywords(&self.parameters));
        add(
            gradient,
            self.own.call(|object| object.call_method1("_variance_gradients", arguments)?.extract()),
        );
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
