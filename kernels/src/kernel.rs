//! The interface every covariance function meets: inputs, values, adjoints, named parameters; no formulae.

use crate::parameter::Parameter;
use faer::{MatMut, MatRef};
use std::fmt::Debug;

/// The two arguments of a covariance matrix. Rows are points (`N × D`, any strides).
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// `K[i, j] = k(left_i, right_j)`; equal rows are still different draws (a white kernel gives 0).
    Cross {
        /// The points behind the rows of `K`.
        left: MatRef<'a, f64>,
        /// The points behind the columns of `K`.
        right: MatRef<'a, f64>,
    },
    /// `K[i, j] = k(x_i, x_j)`, symmetric, the diagonal exactly [`Kernel::diag`].
    Gram(MatRef<'a, f64>),
}

impl<'a> Inputs<'a> {
    /// Shape of the covariance matrix.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Inputs::Cross { left, right } => (left.nrows(), right.nrows()),
            Inputs::Gram(x) => (x.nrows(), x.nrows()),
        }
    }

    /// The points behind the rows and those behind the columns.
    pub fn sides(&self) -> (MatRef<'a, f64>, MatRef<'a, f64>) {
        match *self {
            Inputs::Cross { left, right } => (left, right),
            Inputs::Gram(x) => (x, x),
        }
    }
}

/// Where an adjoint accumulates (adds to) its results. Natural units; every field is added to, never overwritten.
pub struct Gradient<'a> {
    /// One entry per natural parameter value, in the order of [`Kernel::for_each_parameter`]; empty to skip.
    pub parameters: &'a mut [f64],
    /// Gradient with respect to the left points (`N_left × D`); for [`Inputs::Gram`] both arguments collect here.
    pub left: Option<MatMut<'a, f64>>,
    /// Gradient with respect to the right points (`N_right × D`); unused for [`Inputs::Gram`].
    pub right: Option<MatMut<'a, f64>>,
}

/// A pool of buffers so that a warm evaluation allocates nothing. One per thread.
#[derive(Default, Debug)]
pub struct Scratch {
    free: Vec<Vec<f64>>,
}

impl Scratch {
    /// An empty pool.
    pub fn new() -> Self {
        Scratch::default()
    }

    /// A buffer of exactly `len` numbers with unspecified contents.
    pub fn take(&mut self, len: usize) -> Vec<f64> {
        let best = (0..self.free.len())
            .filter(|&i| self.free[i].capacity() >= len)
            .min_by_key(|&i| self.free[i].capacity());
        let mut buffer = best.map(|i| self.free.swap_remove(i)).unwrap_or_default();
        buffer.resize(len, 0.0);
        buffer
    }

    /// Hands a buffer back to the pool.
    pub fn give(&mut self, buffer: Vec<f64>) {
        self.free.push(buffer);
    }
}

/// A covariance function. Matrices handed in for results are column-major with unit row stride.
pub trait Kernel: Send + Sync + Debug {
    /// Writes the covariance matrix of `inputs` into `out`.
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch);

    /// Given `kbar = ∂F/∂K` and `k` = what [`Kernel::eval`] wrote, adds `∂F/∂parameters` and `∂F/∂points` to `grad`.
    /// For [`Inputs::Gram`] every entry of `kbar` counts once, symmetric or not, and both arguments move.
    fn adjoint(
        &self,
        inputs: Inputs<'_>,
        k: MatRef<'_, f64>,
        kbar: MatRef<'_, f64>,
        grad: Gradient<'_>,
        scratch: &mut Scratch,
    );

    /// Writes `k(x_i, x_i)` into `out`.
    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], scratch: &mut Scratch);

    /// Adds the gradient of `Σ kbar_i k(x_i, x_i)`; the points' part goes to `grad.left`.
    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, scratch: &mut Scratch);

    /// Visits every parameter in the fixed order that flat gradients use.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter));

    /// Visits every parameter mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter));

    /// Full names in the same order, unique within the kernel: `lengthscales`, or `periodic.period` inside a sum.
    fn parameter_names(&self) -> Vec<String>;

    /// A sensible start: lengthscales from the spread (standard deviation) of each of the `D` inputs, variances
    /// such that the prior variance is about `target_variance`. Fixed parameters keep their values.
    fn initialise(&mut self, spread: &[f64], target_variance: f64);

    /// The kernel in the text grammar of [`crate::parse`], without parameter values.
    fn expression(&self) -> String;

    /// The number of input dimensions the kernel needs, when it is not indifferent.
    fn min_dims(&self) -> usize;

    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn Kernel>;
}

impl Clone for Box<dyn Kernel> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
