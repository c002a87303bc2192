//! Kernels from a formula: k(x, z) written once, with adjoints by forward differentiation.

use crate::dimension::{Dimension, DimensionError, any_category, is_category};
use crate::entry::Entry;
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, check_each, misfit, units_along};
use crate::parameter::{Parameter, Role};
use crate::random_feature::{Chance, Line, RandomFeature, Wave};
use crate::real::{Derivatives, Real};
use crate::units::Unit;
use faer::{Mat, MatMut, MatRef, Side};
use std::fmt::Debug;

/// A formula for k(x, z), which [`FormulaKernel`] turns into a kernel.
///
/// ```
/// use faer::mat;
/// use sparsegp_kernels::{FormulaKernel, KernelFormula, Parameter, Real, Stationary, real::Derivatives, testkit::check_kernel};
///
/// /// A smooth function whose amplitude grows away from 0: `variance · (1 + growth x²)(1 + growth z²) exp(−(x − z)²/2)`.
/// #[derive(Clone, Debug, Default)]
/// struct Growing;
///
/// impl KernelFormula for Growing {
///     const NAME: &'static str = "growing";
///
///     fn parameters(&self) -> Vec<Parameter> {
///         ["variance", "growth"].map(|name| Parameter::positive(name, vec![1.0])).to_vec()
///     }
///
///     fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
///         let amplitude = |x: Real<D>| 1.0 + p[1] * x * x;
///         p[0] * amplitude(x[0]) * amplitude(z[0]) * (-0.5 * (x[0] - z[0]).powi(2)).exp()
///     }
/// }
///
/// let kernel = FormulaKernel::new(Growing) + Stationary::rbf(1.0, &[1.0]);
/// check_kernel(&kernel, mat![[0.3], [-1.0], [0.8]].as_ref(), mat![[0.1], [1.2]].as_ref())?;
/// # Ok::<(), String>(())
/// ```
pub trait KernelFormula: Clone + Debug + Send + Sync + 'static {
    /// The name of the kernel in expressions and model files.
    const NAME: &'static str;

    /// Returns the parameters at their starting values. If the first one is called `variance`, it has to be a factor of the whole kernel.
    ///
    /// A [role](Parameter::role) gives a parameter its unit and, unless it is [given](Parameter::given), its start from the data: a
    /// lengthscale (one, or one for each column), a period or a variance. Other parameters keep their values.
    fn parameters(&self) -> Vec<Parameter>;

    /// Returns k(x, z), which has to be k(z, x), for the parameter values `p`, in the order of [`parameters`](Self::parameters), and two
    /// points.
    ///
    /// In a column of categories, two points have the numbers 1 and 1 if their categories are equal, and 1 and 0 otherwise: their difference is
    /// 0 or 1 and their product 1 or 0, as in the built-in kernels. A formula that is not a covariance of such numbers refuses categories.
    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D>;

    /// Returns a random frequency for each column, in radians per unit of the inputs, from the normalised spectral density of a stationary
    /// formula: `k(x, z) = k(0, 0) E[cos ωᵀ(x − z)]`. Draws of functions need it; without it, and with categories, they are refused.
    fn frequency(&self, p: &[f64], columns: usize, chance: &mut Chance<'_>) -> Option<Vec<f64>> {
        let _ = (p, columns, chance);
        None
    }

    /// Returns the number of columns that the points must have; `None` if the formula takes any number.
    fn columns(&self) -> Option<usize> {
        None
    }

    /// Returns the unit of every parameter value for points with `dims` columns; `None` if they follow from the roles: lengthscales and periods
    /// are lengths, variances are squared units of the target, and other parameters have no unit.
    fn units(&self, dims: usize) -> Option<Vec<Unit>> {
        let _ = dims;
        None
    }

    /// Returns the text form: the name, by default. A formula with options of its own, which an [`Entry`] reads, writes them in parentheses.
    fn expression(&self) -> String {
        Self::NAME.to_owned()
    }
}

/// The kernel of a [`KernelFormula`].
///
/// The adjoint evaluates the formula once for every eight derivatives, for each pair of points, so it takes several times as long as a
/// hand-written one.
#[derive(Clone, Debug)]
pub struct FormulaKernel<F> {
    formula: F,
    parameters: Vec<Parameter>,
    dimensions: Vec<Dimension>,
}

impl<F: KernelFormula> FormulaKernel<F> {
    /// Creates the kernel.
    pub fn new(formula: F) -> Self {
        FormulaKernel { parameters: formula.parameters(), formula, dimensions: Vec::new() }
    }
}

impl<F: KernelFormula + Default> FormulaKernel<F> {
    /// The entry of the kernel in a grammar or registry.
    pub const ENTRY: Entry =
        Entry { names: &[F::NAME], build: |_| Ok(Box::new(FormulaKernel::new(F::default()))) };
}

/// The number of derivatives that one evaluation of a formula computes at most.
const LANES: usize = 8;

/// The number of points at which a formula is tested with categories.
const PROBES: usize = 8;

/// Something that a covariance is differentiated in: a parameter value, or a coordinate of the left or of the right point.
#[derive(Clone, Copy)]
enum Direction {
    Parameter(usize),
    Left(usize),
    Right(usize),
}

/// The arguments of a formula for one pair of points.
struct Arguments<D> {
    p: Vec<Real<D>>,
    x: Vec<Real<D>>,
    z: Vec<Real<D>>,
    /// The columns of categories.
    codes: Vec<usize>,
}

impl<D: Derivatives> Arguments<D> {
    fn new<F: KernelFormula>(kernel: &FormulaKernel<F>, dims: usize) -> Self {
        let values = kernel.parameters.iter().flat_map(|parameter| &parameter.values);
        let point = vec![Real::constant(0.0); dims];
        let codes = (0..dims).filter(|&d| is_category(&kernel.dimensions, d)).collect();
        Arguments { p: values.map(|&value| value.into()).collect(), x: point.clone(), z: point, codes }
    }

    /// Sets both points to rows of matrices.
    fn set(&mut self, (x, i): (MatRef<'_, f64>, usize), (z, j): (MatRef<'_, f64>, usize)) {
        self.x.iter_mut().enumerate().for_each(|(d, slot)| slot.value = x[(i, d)]);
        self.z.iter_mut().enumerate().for_each(|(d, slot)| slot.value = z[(j, d)]);
        for &d in &self.codes {
            self.x[d].value = 1.0;
            self.z[d].value = f64::from(u8::from(x[(i, d)] == z[(j, d)]));
        }
    }

    fn value(&self, formula: &impl KernelFormula) -> Real<D> {
        formula.value(&self.p, &self.x, &self.z)
    }
}

/// A visit of pairs of rows: `(left, right, weight)`.
type Pairs<'a> = dyn Fn(&mut dyn FnMut(usize, usize, f64)) + 'a;

impl<F: KernelFormula> FormulaKernel<F> {
    /// Adds the gradient of `Σ weight · k(x_i, z_j)` over the pairs. Without `right`, both sides are the points of `left`.
    fn differentiate(
        &self,
        sides: [MatRef<'_, f64>; 2],
        is_gram: bool,
        mut grad: Gradient<'_>,
        pairs: &Pairs<'_>,
    ) {
        let dims = sides[0].ncols();
        let by_right = if is_gram { grad.left.is_some() } else { grad.right.is_some() };
        let parameters = (0..grad.parameters.len()).map(Direction::Parameter);
        let numbers = || (0..dims).filter(|&d| !is_category(&self.dimensions, d));
        let left = numbers().filter(|_| grad.left.is_some()).map(Direction::Left);
        let right = numbers().filter(|_| by_right).map(Direction::Right);
        let all: Vec<Direction> = parameters.chain(left).chain(right).collect();
        for some in all.chunks(LANES) {
            match some.len() {
                0..3 => self.pass::<2>(some, sides, is_gram, &mut grad, pairs),
                3..5 => self.pass::<4>(some, sides, is_gram, &mut grad, pairs),
                _ => self.pass::<LANES>(some, sides, is_gram, &mut grad, pairs),
            }
        }
    }

    /// Adds the derivatives in at most N directions.
    fn pass<const N: usize>(
        &self,
        directions: &[Direction],
        [x, z]: [MatRef<'_, f64>; 2],
        is_gram: bool,
        grad: &mut Gradient<'_>,
        pairs: &Pairs<'_>,
    ) {
        let mut arguments = Arguments::<[f64; N]>::new(self, x.ncols());
        for (lane, direction) in directions.iter().enumerate() {
            let number = match *direction {
                Direction::Parameter(i) => &mut arguments.p[i],
                Direction::Left(d) => &mut arguments.x[d],
                Direction::Right(d) => &mut arguments.z[d],
            };
            number.derivatives[lane] = 1.0;
        }
        pairs(&mut |i, j, weight| {
            arguments.set((x, i), (z, j));
            let slopes = arguments.value(&self.formula).derivatives;
            for (&direction, slope) in directions.iter().zip(slopes) {
                let slot = match direction {
                    Direction::Parameter(i) => Some(&mut grad.parameters[i]),
                    Direction::Left(d) => grad.left.as_mut().map(|left| &mut left[(i, d)]),
                    Direction::Right(d) if is_gram => grad.left.as_mut().map(|left| &mut left[(j, d)]),
                    Direction::Right(d) => grad.right.as_mut().map(|right| &mut right[(j, d)]),
                };
                slot.into_iter().for_each(|slot| *slot += weight * slope);
            }
        });
    }
}

impl<F: KernelFormula> Kernel for FormulaKernel<F> {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _: &mut Scratch) {
        let (x, z) = inputs.sides();
        let is_gram = matches!(inputs, Inputs::Gram(_));
        let mut arguments = Arguments::<()>::new(self, x.ncols());
        for j in 0..z.nrows() {
            for i in if is_gram { j } else { 0 }..x.nrows() {
                arguments.set((x, i), (z, j));
                let k = arguments.value(&self.formula).value;
                out[(i, j)] = k;
                if is_gram {
                    out[(j, i)] = k;
                }
            }
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, _: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let (x, z) = inputs.sides();
        let is_gram = matches!(inputs, Inputs::Gram(_));
        self.differentiate([x, z], is_gram, grad, &|visit| {
            for j in 0..z.nrows() {
                for i in if is_gram { j } else { 0 }..x.nrows() {
                    let mirrored = if is_gram && i != j { kbar[(j, i)] } else { 0.0 };
                    visit(i, j, kbar[(i, j)] + mirrored);
                }
            }
        });
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], _: &mut Scratch) {
        let mut arguments = Arguments::<()>::new(self, x.ncols());
        for (i, out) in out.iter_mut().enumerate() {
            arguments.set((x, i), (x, i));
            *out = arguments.value(&self.formula).value;
        }
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _: &mut Scratch) {
        self.differentiate([x, x], true, grad, &|visit| {
            kbar.iter().enumerate().for_each(|(i, &weight)| visit(i, i, weight));
        });
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.parameters.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.parameters.iter_mut().for_each(visit);
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        let before = std::mem::replace(&mut self.dimensions, dimensions.to_vec());
        if any_category(dimensions) && !self.is_covariance_of_categories() {
            self.dimensions = before;
            return Err(DimensionError::NoCategories { kernel: self.expression() });
        }
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        if any_category(&self.dimensions) {
            return None;
        }
        let Arguments { p, x, z, .. } = Arguments::<()>::new(self, dims);
        let amplitude = self.formula.value(&p, &x, &z).value.sqrt();
        let p: Vec<f64> = p.iter().map(|number| number.value).collect();
        let frequency = self.formula.frequency(&p, dims, chance)?;
        let phase = Line::new(0.0, dims, &[], chance, |d, _, _| frequency[d]);
        Some(Box::new(Wave::new(amplitude, phase, chance)))
    }

    /// Starts variances together such that k(x, x) is the target at a point one spread away from 0.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        for parameter in &mut self.parameters {
            match parameter.role() {
                Role::Lengthscale => parameter.start_from_spread(spread, |s, dims| s * dims.sqrt()),
                Role::Period => parameter.start_from_spread(spread, |s, _| s),
                Role::Variance => parameter.start(|_| 1.0),
                _ => {}
            }
        }
        let point: Vec<Real> = spread.iter().map(|&s| Real::from(if s > 0.0 { s } else { 1.0 })).collect();
        let Arguments { p, .. } = Arguments::<()>::new(self, 0);
        let start = target_variance / self.formula.value(&p, &point, &point).value;
        let start = if start > 0.0 && start.is_finite() { start } else { target_variance };
        let variances = self.parameters.iter_mut().filter(|parameter| parameter.role() == Role::Variance);
        variances.for_each(|variance| variance.start(|_| start));
    }

    fn units(&self, dims: usize) -> Vec<Unit> {
        let of_parameter = |parameter: &Parameter| match parameter.role() {
            Role::Lengthscale | Role::Period => units_along(parameter, 1.0, dims),
            Role::Variance => vec![Unit::of_target(2.0); parameter.values.len()],
            _ => vec![Unit::default(); parameter.values.len()],
        };
        let by_role = || self.parameters.iter().flat_map(of_parameter).collect();
        self.formula.units(dims).unwrap_or_else(by_role)
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        match self.formula.columns() {
            Some(columns) if columns != dims => Err(misfit(&self.expression(), columns, dims)),
            _ => check_each(&self.expression(), &self.along(), dims),
        }
    }

    fn expression(&self) -> String {
        self.formula.expression()
    }

    fn min_dims(&self) -> usize {
        let several = self.along().into_iter().map(Parameter::dims).max().unwrap_or(0);
        self.formula.columns().unwrap_or(0).max(several)
    }
}

impl<F: KernelFormula> FormulaKernel<F> {
    /// Tests at a few points, of equal and of different categories, whether the formula is symmetric and positive definite.
    fn is_covariance_of_categories(&self) -> bool {
        let of_column = |i: usize, d: usize| {
            let number = ((1 + i * (d + 2)) as f64 * 0.7).sin();
            if is_category(&self.dimensions, d) { (3.0 * number).round() } else { number }
        };
        let points = Mat::from_fn(PROBES, self.dimensions.len(), of_column);
        let mut k = Mat::zeros(PROBES, PROBES);
        self.eval(
            Inputs::Cross { left: points.as_ref(), right: points.as_ref() },
            k.as_mut(),
            &mut Scratch::new(),
        );
        let scale = k.norm_max();
        let is_symmetric = (&k - k.transpose()).norm_max() <= 1e-12 * scale;
        let values = k.self_adjoint_eigenvalues(Side::Lower);
        is_symmetric && values.is_ok_and(|values| values.iter().all(|&value| value >= -1e-10 * scale))
    }

    /// Returns the parameters that belong to columns; one with several values has one for each column.
    fn along(&self) -> Vec<&Parameter> {
        let is_along = |parameter: &&Parameter| matches!(parameter.role(), Role::Lengthscale | Role::Period);
        self.parameters.iter().filter(is_along).collect()
    }
}
