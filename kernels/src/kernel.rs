//! The interface every covariance function meets: inputs, values, adjoints, named parameters.

use crate::dimension::{Dimension, DimensionError, any_category};
use crate::parameter::Parameter;
use crate::random_feature::{Chance, RandomFeature};
use crate::units::Unit;
use faer::{MatMut, MatRef};
use std::any::Any;
use std::fmt::Debug;

/// The two arguments of a covariance matrix. Rows are points (`N × D`, any strides).
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// `K[i, j] = k(left_i, right_j)`; equal rows count as different draws, so a white kernel gives 0.
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
        let (left, right) = self.sides();
        (left.nrows(), right.nrows())
    }

    /// Returns the argument of [`Kernel::adjoint`] for covariances of these inputs.
    pub fn evaluated(self, k: MatRef<'a, f64>, kbar: MatRef<'a, f64>) -> Evaluated<'a> {
        Evaluated { inputs: self, k, kbar }
    }

    /// The number of columns of the points.
    pub fn dims(&self) -> usize {
        self.sides().0.ncols()
    }

    /// Like [`Inputs::sides`], but the second side is empty (`0 × D`) when it repeats the first.
    pub(crate) fn distinct_sides(&self) -> (MatRef<'a, f64>, MatRef<'a, f64>) {
        match *self {
            Inputs::Cross { left, right } => (left, right),
            Inputs::Gram(x) => (x, x.subrows(0, 0)),
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

/// Covariances, and the gradient of a function F with respect to them.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated<'a> {
    /// The arguments of the covariances.
    pub inputs: Inputs<'a>,
    /// The covariances that [`Kernel::eval`] wrote.
    pub k: MatRef<'a, f64>,
    /// `∂F/∂K`.
    pub kbar: MatRef<'a, f64>,
}

/// The destination of the results of an adjoint, in natural units. Every field is added to, never overwritten.
pub struct Gradient<'a> {
    /// One entry per natural parameter value, in the order of [`Kernel::for_each_parameter`]; empty to skip.
    pub parameters: &'a mut [f64],
    /// Gradient with respect to the left points (`N_left × D`); for [`Inputs::Gram`] it is the sum over both arguments.
    pub left: Option<MatMut<'a, f64>>,
    /// Gradient with respect to the right points (`N_right × D`); unused for [`Inputs::Gram`].
    pub right: Option<MatMut<'a, f64>>,
}

/// A pool of buffers, so that evaluations after the first allocate no memory. Each thread needs a
/// separate pool.
#[derive(Default, Debug)]
pub struct Scratch {
    free: Vec<Vec<f64>>,
}

impl Scratch {
    /// An empty pool.
    pub fn new() -> Self {
        Scratch::default()
    }

    /// Returns a buffer of exactly `len` numbers with unspecified contents.
    pub fn take(&mut self, len: usize) -> Vec<f64> {
        let fitting = (0..self.free.len()).filter(|&i| self.free[i].capacity() >= len);
        // If no buffer fits, the largest one grows, so that the pool does not need another buffer.
        let best = fitting
            .min_by_key(|&i| self.free[i].capacity())
            .or_else(|| (0..self.free.len()).max_by_key(|&i| self.free[i].capacity()));
        let mut buffer = best.map(|i| self.free.swap_remove(i)).unwrap_or_default();
        buffer.resize(len, 0.0);
        buffer
    }

    /// Returns a buffer of `len` zeros.
    pub fn zeros(&mut self, len: usize) -> Vec<f64> {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }

    /// Hands a buffer back to the pool.
    pub fn give(&mut self, buffer: Vec<f64>) {
        self.free.push(buffer);
    }

    /// Hands several buffers back to the pool.
    pub fn give_all<const N: usize>(&mut self, buffers: [Vec<f64>; N]) {
        self.free.extend(buffers);
    }
}

/// A named piece of a kernel, such as one term of a sum: its label and the bare names of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The word that starts the piece's expression, `rbf` or `periodic`.
    pub label: String,
    /// Parameter names without the label, in the order of [`Kernel::for_each_parameter`].
    pub parameters: Vec<String>,
}

/// A covariance function. Matrices for results are column-major with unit row stride. Points (rows of the inputs), `k` and `kbar` may have
/// any strides; `k` and `kbar` are fastest with unit row stride.
///
/// # Panics
/// Evaluation panics if shapes do not fit together, or if a kernel has one lengthscale (or weight) per dimension and the points have
/// another number of columns. Check [`Kernel::min_dims`] first.
///
/// # Examples
///
/// Covariances of 3 points, and the gradient of their sum with respect to the parameters. The adjoint computes it from `kbar`, the gradient
/// with respect to the covariances:
///
/// ```
/// use faer::Mat;
/// use sparsegp_kernels::{Gradient, Inputs, Scratch, parse};
///
/// let kernel = parse("rbf(variance=2.0, lengthscales=0.5)", 1)?;
/// let x = Mat::from_fn(3, 1, |i, _| i as f64);
/// let (mut k, mut scratch) = (Mat::zeros(3, 3), Scratch::new());
/// kernel.eval(Inputs::Gram(x.as_ref()), k.as_mut(), &mut scratch);
/// assert!((k[(0, 1)] - 2.0 * (-2f64).exp()).abs() < 1e-12);
///
/// let (ones, mut gradient) = (Mat::full(3, 3, 1.0), [0.0; 2]);
/// let grad = Gradient { parameters: &mut gradient, left: None, right: None };
/// kernel.adjoint(Inputs::Gram(x.as_ref()).evaluated(k.as_ref(), ones.as_ref()), grad, &mut scratch);
/// // The sum is linear in the variance.
/// assert!((gradient[0] - k.as_ref().sum() / 2.0).abs() < 1e-12);
/// # Ok::<(), sparsegp_kernels::ParseError>(())
/// ```
pub trait Kernel: KernelBox + Send + Sync + Debug {
    /// Writes the covariance matrix of `inputs` into `out`.
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch);

    /// Adds `∂F/∂parameters` and `∂F/∂points` to `grad`, given `∂F/∂K` at evaluated covariances. For [`Inputs::Gram`] every entry of
    /// `kbar` counts once, symmetric or not, and the derivative is with respect to both arguments.
    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch);

    /// Writes `k(x_i, x_i)` into `out`. By default it is the first parameter value, the variance of a stationary kernel.
    fn diag(&self, _x: MatRef<'_, f64>, out: &mut [f64], _scratch: &mut Scratch) {
        let mut variance = None;
        self.for_each_parameter(&mut |parameter| _ = variance.get_or_insert(parameter.at(0)));
        out.fill(variance.unwrap_or(0.0));
    }

    /// Adds the gradient of `Σ kbar_i k(x_i, x_i)`; the gradient in the points is added to
    /// `grad.left`. By default it is the gradient of the default of [`Kernel::diag`].
    fn diag_adjoint(&self, _x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _scratch: &mut Scratch) {
        if let Some(variance) = grad.parameters.first_mut() {
            *variance += kbar.iter().sum::<f64>();
        }
    }

    /// Visits every parameter in the fixed order that flat gradients use.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter));

    /// Visits every parameter mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter));

    /// Returns every parameter, in the order of [`Kernel::for_each_parameter`].
    fn parameters(&self) -> Vec<&Parameter> {
        let mut parameters = Vec::new();
        self.for_each_parameter(&mut |parameter| parameters.push(parameter));
        parameters
    }

    /// Returns the pieces the kernel consists of, in parameter order; a kernel that is not composed
    /// of others is one piece.
    fn parts(&self) -> Vec<Part> {
        let label = self.expression();
        let end = label.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(label.len());
        let parameters = self.parameters().iter().map(|parameter| parameter.name.clone()).collect();
        vec![Part { label: label[..end].to_owned(), parameters }]
    }

    /// Returns the terms of the kernel if it is a sum, with nested sums flattened; empty otherwise. A Gaussian process with such a kernel
    /// is the sum of independent processes, one for each term.
    fn terms(&self) -> Vec<Box<dyn Kernel>> {
        Vec::new()
    }

    /// Returns a random function of points with `dims` columns; the expectation of its products is the kernel. Returns `None` if no such
    /// function is known.
    ///
    /// Draws of a prior that can be evaluated anywhere are sums of such functions; see [`RandomFeature`].
    fn random_feature(&self, _dims: usize, _chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        None
    }

    /// Returns the unit of every parameter value, in the order of [`Kernel::for_each_parameter`], for points with `dims` columns. By
    /// default, `lengthscales` are lengths, `weight_variances` are inverse squared lengths, and `variance` and `variances` are in squared units of the target.
    fn units(&self, dims: usize) -> Vec<Unit> {
        let of_parameter = |parameter: &Parameter| match parameter.name.as_str() {
            "lengthscales" => units_along(parameter, 1.0, dims),
            "weight_variances" => units_along(parameter, -2.0, dims),
            "variance" | "variances" => vec![Unit::of_target(2.0); parameter.values.len()],
            _ => vec![Unit::default(); parameter.values.len()],
        };
        self.parameters().into_iter().flat_map(of_parameter).collect()
    }

    /// Checks that the kernel can be evaluated at points with `dims` columns: the numbers of values and of columns.
    ///
    /// # Errors
    /// What was found and expected, in words.
    fn check(&self, dims: usize) -> Result<(), String> {
        if self.min_dims() > dims {
            return Err(misfit(&self.expression(), self.min_dims(), dims));
        }
        let mut units = self.units(dims).into_iter();
        let is_along = |parameter: &&Parameter| {
            let own: Vec<Unit> = units.by_ref().take(parameter.values.len()).collect();
            own.iter().any(|unit| unit.input != 0.0)
        };
        let along: Vec<&Parameter> = self.parameters().into_iter().filter(is_along).collect();
        check_each(&self.expression(), &along, dims)
    }

    /// Keeps all values of the kernel as they are during training.
    fn fixed(mut self) -> Self
    where
        Self: Sized,
    {
        self.for_each_parameter_mut(&mut |parameter| parameter.fixed = true);
        self
    }

    /// Returns the columns of the points that values depend on; `None` for all of them.
    fn columns(&self) -> Option<Vec<usize>> {
        None
    }

    /// Sets the contents of each column of the points. By default all columns are numbers.
    ///
    /// In a column of categories only equality matters: squared distances grow by 1 (in squared lengthscales) if codes differ, and
    /// products of inputs are 1 for equal codes and 0 otherwise, as with one-hot codes. Gradients in codes are 0. Coordinates of a place are
    /// numbers, for which stationary kernels have one lengthscale.
    ///
    /// # Errors
    /// If categories have no meaning for the kernel, which is the default, or the coordinates of a place were given different
    /// lengthscales; the kernel is unchanged then.
    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        if any_category(dimensions) {
            Err(DimensionError::NoCategories { kernel: self.expression() })
        } else {
            Ok(())
        }
    }

    /// Returns the contents of each column of the points, as set by [`Kernel::set_dimensions`]; empty if all are numbers.
    fn dimensions(&self) -> &[Dimension] {
        &[]
    }

    /// Returns the full names of all parameters, in the order of [`Kernel::for_each_parameter`] and
    /// unique within the kernel: `lengthscales` of a lone kernel, `periodic.period` or
    /// `rbf_2.variance` (the second `rbf`, counted from the left) of a composed one.
    fn parameter_names(&self) -> Vec<String> {
        let parts = self.parts();
        if let [only] = &parts[..] {
            return only.parameters.clone();
        }
        let mut names = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            let earlier = parts[..i].iter().filter(|other| other.label == part.label).count();
            let suffix = if earlier == 0 { String::new() } else { format!("_{}", earlier + 1) };
            names.extend(part.parameters.iter().map(|name| format!("{}{suffix}.{name}", part.label)));
        }
        names
    }

    /// Sets sensible starting values: lengthscales from the spread (standard deviation) of each of
    /// the `D` inputs, variances such that the prior variance is about `target_variance`.
    /// Parameters that are [fixed](Parameter::fixed) or whose start was [given](Parameter::given)
    /// keep their values.
    ///
    /// Lengthscales start at `spread_d · √D`, where `D` is the number of dimensions the kernel
    /// sees, so that two typical points are about `√2` lengthscales apart for any `D`; a shared
    /// lengthscale uses the root mean square spread. A sum divides `target_variance` evenly among
    /// its terms, a product gives it to its first factor.
    fn initialise(&mut self, spread: &[f64], target_variance: f64);

    /// Fixes the parameter that multiplies the whole kernel, if there is one: in a product only one factor can carry the scale. By default
    /// it is the first parameter, if its name is `variance`.
    fn fix_scale(&mut self) {
        let mut first = true;
        self.for_each_parameter_mut(&mut |parameter| {
            parameter.fixed |= first && parameter.name == "variance";
            first = false;
        });
    }

    /// The kernel in the text grammar of [`mod@crate::parse`], without parameter values.
    fn expression(&self) -> String;

    /// The number of input dimensions the kernel needs; 0 when it takes any number. By default, parameters of several values have one for
    /// every dimension.
    fn min_dims(&self) -> usize {
        self.parameters().iter().map(|parameter| parameter.dims()).max().unwrap_or(0)
    }
}

/// Copies of kernels behind a box, which all that are [`Clone`] have.
pub trait KernelBox: Any {
    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn Kernel>;
}

impl<K: Kernel + Clone + 'static> KernelBox for K {
    fn boxed_clone(&self) -> Box<dyn Kernel> {
        Box::new(self.clone())
    }
}

impl<K: Kernel + 'static> From<K> for Box<dyn Kernel> {
    fn from(kernel: K) -> Self {
        Box::new(kernel)
    }
}

/// Returns the units of values that belong to the columns: a power of the unit of each value's columns.
pub(crate) fn units_along(parameter: &Parameter, power: f64, dims: usize) -> Vec<Unit> {
    let of = |value| Unit::of_columns(power, (0..dims).filter(|&d| parameter.slot(d) == value).collect());
    (0..parameter.values.len()).map(of).collect()
}

/// Refuses parameters with one value per column if their numbers of values differ from the number of columns.
pub(crate) fn check_each(kernel: &str, parameters: &[&Parameter], dims: usize) -> Result<(), String> {
    let wrong = parameters.iter().find(|parameter| parameter.per_dimension() && parameter.dims() != dims);
    wrong.map_or(Ok(()), |parameter| Err(misfit(kernel, parameter.dims(), dims)))
}

/// The words for a kernel that needs another number of columns than the points have.
pub(crate) fn misfit(kernel: &str, wanted: usize, found: usize) -> String {
    format!("the kernel {kernel} is for {wanted} columns, but the inputs have {found}")
}

/// Checks that every value is one that training admits, and that the kernel fits points with `dims` columns; see [`Kernel::check`].
///
/// # Errors
/// What was found and expected, in words.
pub fn check_values(kernel: &dyn Kernel, dims: usize) -> Result<(), String> {
    for (name, parameter) in kernel.parameter_names().into_iter().zip(kernel.parameters()) {
        parameter.check(&name)?;
    }
    kernel.check(dims)
}

impl Clone for Box<dyn Kernel> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// The names of all parameter values in the order of flat gradients: `variance`, `lengthscales.0`, `lengthscales.1`.
pub fn value_names(kernel: &dyn Kernel) -> Vec<String> {
    let mut names = Vec::new();
    for (name, parameter) in kernel.parameter_names().into_iter().zip(kernel.parameters()) {
        match parameter.values.len() {
            1 => names.push(name),
            size => names.extend((0..size).map(|i| format!("{name}.{i}"))),
        }
    }
    names
}

/// Returns `name`, or `name(option, option)` with the options that are set.
pub(crate) fn expression_with(name: &str, options: &[Option<String>]) -> String {
    let options: Vec<&str> = options.iter().flatten().map(String::as_str).collect();
    if options.is_empty() { name.to_owned() } else { format!("{name}({})", options.join(", ")) }
}
