//! Kernels of mapped points: selected columns, monotone warps, the levels of binary columns.

use crate::compose::{split, top_level};
use crate::dimension::{Dimension, DimensionError, is_category, is_number};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Part, Scratch, misfit};
use crate::matrix::Sides;
use crate::parameter::{Parameter, Transform};
use crate::random_feature::{Chance, RandomFeature};
use crate::stationary::Stationary;
use crate::units::Unit;
use faer::{MatMut, MatRef};
use std::fmt::Debug;

/// A map of points, row by row, that [`Mapped`] applies before its kernel.
pub trait InputMap: Clone + Debug + Send + Sync + 'static {
    /// The number of columns of mapped points, given that of the points.
    fn width(&self, dims: usize) -> usize;

    /// Writes the mapped points column by column, with one entry per row of `x`.
    fn map(&self, x: MatRef<'_, f64>, to: &mut [f64]);

    /// Given `bar = ∂F/∂(mapped points)`, column by column as in [`InputMap::map`], adds `∂F/∂x` to
    /// `target` and `∂F/∂parameters` to `parameters` (empty to skip).
    fn pull_back(
        &self,
        x: MatRef<'_, f64>,
        bar: &[f64],
        target: Option<MatMut<'_, f64>>,
        parameters: &mut [f64],
    );

    /// Returns the parameters of the map, which come before the parameters of the kernel. A map has none by default.
    fn parameters(&self) -> &[Parameter] {
        &[]
    }

    /// Returns the parameters of the map, mutably.
    fn parameters_mut(&mut self) -> &mut [Parameter] {
        &mut []
    }

    /// Returns the spread of mapped points, given that of the points; by default it is the same.
    fn spread(&self, spread: &[f64]) -> Vec<f64> {
        spread.to_vec()
    }

    /// Returns the expression, given that of the kernel inside.
    fn expression(&self, inner: &str) -> String;

    /// Returns the pieces, given the pieces of the kernel inside.
    fn parts(&self, inner: Vec<Part>) -> Vec<Part> {
        inner
    }

    /// Returns the number of columns of the points that are needed, given the number for the kernel inside.
    fn min_dims(&self, inner: usize) -> usize {
        inner
    }

    /// Sets the contents of the columns of the points, and returns those of the mapped points.
    fn learn(&mut self, dimensions: &[Dimension]) -> Vec<Dimension>;

    /// Returns the columns of the points that mapped points depend on; `None` for all of them.
    fn columns(&self) -> Option<Vec<usize>> {
        None
    }
}

/// The kernel `k(map(x), map(x'))`.
#[derive(Clone, Debug)]
pub struct Mapped<M> {
    map: M,
    inner: Box<dyn Kernel>,
    dimensions: Vec<Dimension>,
}

/// A map that selects columns, in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<usize>);

/// A kernel that sees only some columns of the points.
pub type ActiveDims = Mapped<Columns>;

impl ActiveDims {
    /// Creates a kernel that sees only `columns`, counted from 0.
    pub fn new(columns: Vec<usize>, inner: Box<dyn Kernel>) -> Self {
        Mapped { map: Columns(columns), inner, dimensions: Vec::new() }
    }
}

impl InputMap for Columns {
    fn width(&self, _: usize) -> usize {
        self.0.len()
    }

    fn map(&self, x: MatRef<'_, f64>, to: &mut [f64]) {
        for (run, &d) in to.chunks_exact_mut(x.nrows().max(1)).zip(&self.0) {
            run.iter_mut().zip(x.col(d).iter()).for_each(|(to, &x)| *to = x);
        }
    }

    fn pull_back(&self, x: MatRef<'_, f64>, bar: &[f64], target: Option<MatMut<'_, f64>>, _: &mut [f64]) {
        if let Some(mut target) = target {
            for (run, &d) in bar.chunks_exact(x.nrows().max(1)).zip(&self.0) {
                run.iter().enumerate().for_each(|(i, value)| target[(i, d)] += value);
            }
        }
    }

    fn spread(&self, spread: &[f64]) -> Vec<f64> {
        self.0.iter().map(|&d| spread[d]).collect()
    }

    fn expression(&self, inner: &str) -> String {
        let columns = match self.0[..] {
            [first, .., last] if self.0.windows(2).all(|pair| pair[1] == pair[0] + 1) => {
                format!("{first}:{}", last + 1)
            }
            _ => self.0.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        };
        if top_level(inner, &['+', '*']) {
            format!("({inner})[{columns}]")
        } else {
            format!("{inner}[{columns}]")
        }
    }

    fn min_dims(&self, _: usize) -> usize {
        self.0.iter().map(|&d| d + 1).max().unwrap_or(0)
    }

    fn columns(&self) -> Option<Vec<usize>> {
        Some(self.0.clone())
    }

    fn learn(&mut self, dimensions: &[Dimension]) -> Vec<Dimension> {
        self.0.iter().map(|&d| dimensions.get(d).copied().unwrap_or(Dimension::Number)).collect()
    }
}

/// A monotone map of each column: `w(x) = logit(1 − (1 − σ(x)^a)^b)`, where σ is the logistic
/// function. This is the distribution function of Kumaraswamy (1980), applied on the logit scale
/// (Snoek et al. 2014 use that of the beta distribution). Its slope is about `a` far to the left
/// and about `b` far to the right; with `a = b = 1` points are unchanged. Codes of categories and
/// coordinates of places are not warped.
#[derive(Clone, Debug, PartialEq)]
pub struct Warp {
    /// `a` of every column, then `b` of every column.
    parameters: [Parameter; 2],
    dimensions: Vec<Dimension>,
}

/// A kernel of warped points; the warp of every column has separate parameters.
pub type Warped = Mapped<Warp>;

impl Warped {
    /// The range of `a` and `b`.
    pub const RANGE: (f64, f64) = (0.02, 50.0);

    /// Creates a warp of points with `dims` columns, followed by the kernel `inner`. It starts with
    /// `a = b = 1`, which has no effect.
    pub fn new(dims: usize, inner: Box<dyn Kernel>) -> Self {
        let (lower, upper) = Self::RANGE;
        let slopes = |name| Parameter::new(name, vec![1.0; dims], Transform::Bounded { lower, upper });
        let parameters = [slopes("left_slopes"), slopes("right_slopes")];
        Mapped { map: Warp { parameters, dimensions: Vec::new() }, inner, dimensions: Vec::new() }
    }
}

/// `log(1 − e^x)` for `x ≤ 0` (Mächler 2012).
fn log_1m_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 { (-x.exp_m1()).ln() } else { (-x.exp()).ln_1p() }
}

/// A warp at a point, and its derivatives in the point, in `a` and in `b`.
struct Warping {
    value: f64,
    in_x: f64,
    in_a: f64,
    in_b: f64,
}

impl Warping {
    /// With `t = a log σ(x)`, `q = log(1 − e^t)` and `r = b q`: `w = log(1 − e^r) − r`.
    fn at(x: f64, a: f64, b: f64) -> Warping {
        /// Beyond this, `e^{−|x|}` is below the last digit of 1.
        const FAR: f64 = 40.0;
        // log σ(x) and 1 − σ(x).
        let (log_share, rest) = if x < 0.0 {
            (x - x.exp().ln_1p(), 1.0 / (1.0 + x.exp()))
        } else {
            (-(-x).exp().ln_1p(), (-x).exp() / (1.0 + (-x).exp()))
        };
        let t = a * log_share;
        if t < -FAR {
            // 1 − (1 − e^t)^b = b e^t.
            return Warping { value: b.ln() + t, in_x: a * rest, in_a: log_share, in_b: 1.0 / b };
        }
        // q and its derivatives in x and a.
        let (q, q_x, q_a) = if x > FAR {
            (a.ln() - x, -1.0, 1.0 / a)
        } else {
            let fall = -1.0 / (-t).exp_m1();
            (log_1m_exp(t), fall * a * rest, fall * log_share)
        };
        let r = b * q;
        let share = -r.exp_m1();
        Warping { value: log_1m_exp(r) - r, in_x: -b / share * q_x, in_a: -b / share * q_a, in_b: -q / share }
    }
}

impl InputMap for Warp {
    fn width(&self, dims: usize) -> usize {
        let own = self.parameters[0].values.len();
        assert_eq!(dims, own, "number of columns of points for a warp");
        dims
    }

    fn map(&self, x: MatRef<'_, f64>, to: &mut [f64]) {
        let [a, b] = &self.parameters;
        for (d, run) in to.chunks_exact_mut(x.nrows().max(1)).enumerate() {
            if !is_number(&self.dimensions, d) {
                run.iter_mut().zip(x.col(d).iter()).for_each(|(to, &same)| *to = same);
                continue;
            }
            let (a, b) = (a.values[d], b.values[d]);
            run.iter_mut().zip(x.col(d).iter()).for_each(|(to, &x)| *to = Warping::at(x, a, b).value);
        }
    }

    fn pull_back(
        &self,
        x: MatRef<'_, f64>,
        bar: &[f64],
        mut target: Option<MatMut<'_, f64>>,
        parameters: &mut [f64],
    ) {
        let [a, b] = &self.parameters;
        let (a_bar, b_bar) = parameters.split_at_mut(parameters.len() / 2);
        let runs = bar.chunks_exact(x.nrows().max(1)).enumerate();
        for (d, run) in runs.filter(|&(d, _)| !is_category(&self.dimensions, d)) {
            for (i, &bar) in run.iter().enumerate() {
                if !is_number(&self.dimensions, d) {
                    target.iter_mut().for_each(|target| target[(i, d)] += bar);
                    continue;
                }
                let warping = Warping::at(x[(i, d)], a.values[d], b.values[d]);
                if let Some(target) = &mut target {
                    target[(i, d)] += bar * warping.in_x;
                }
                if let (Some(a_bar), Some(b_bar)) = (a_bar.get_mut(d), b_bar.get_mut(d)) {
                    *a_bar += bar * warping.in_a;
                    *b_bar += bar * warping.in_b;
                }
            }
        }
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn parameters_mut(&mut self) -> &mut [Parameter] {
        &mut self.parameters
    }

    fn expression(&self, inner: &str) -> String {
        format!("warp({inner})")
    }

    fn parts(&self, inner: Vec<Part>) -> Vec<Part> {
        let parameters = self.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        std::iter::once(Part { label: "warp".to_owned(), parameters }).chain(inner).collect()
    }

    fn min_dims(&self, _: usize) -> usize {
        self.parameters[0].values.len()
    }

    fn learn(&mut self, dimensions: &[Dimension]) -> Vec<Dimension> {
        self.dimensions = dimensions.to_vec();
        dimensions.to_vec()
    }
}

/// A map to 1 for positive values and 0 for others: the levels of binary columns, standardised or
/// not. Codes of categories stay unchanged. All derivatives are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    dimensions: Vec<Dimension>,
}

/// `σ² exp(−½ Σ_d [x_d, x'_d differ in sign]/ℓ_d²)`, for categories in one-hot codes and other
/// binary columns: two different levels of a category differ in two of its columns. `lengthscales`
/// (one, or one per column) have no unit; `variance` is in squared units of the target.
pub fn hamming(variance: f64, lengthscales: &[f64]) -> Mapped<Signs> {
    let inner = Box::new(Stationary::rbf(variance, lengthscales));
    Mapped { map: Signs::default(), inner, dimensions: Vec::new() }
}

impl InputMap for Signs {
    fn width(&self, dims: usize) -> usize {
        dims
    }

    fn map(&self, x: MatRef<'_, f64>, to: &mut [f64]) {
        for (d, run) in to.chunks_exact_mut(x.nrows().max(1)).enumerate() {
            let is_category = is_category(&self.dimensions, d);
            for (to, &x) in run.iter_mut().zip(x.col(d).iter()) {
                *to = if x.is_nan() || is_category { x } else { f64::from(x > 0.0) };
            }
        }
    }

    fn pull_back(&self, _: MatRef<'_, f64>, _: &[f64], _: Option<MatMut<'_, f64>>, _: &mut [f64]) {}

    /// Returns the spread with which lengthscales start at 1, or for more than 8 columns at the
    /// value that gives two rows which differ in a quarter of the columns the covariance `e⁻¹`.
    fn spread(&self, spread: &[f64]) -> Vec<f64> {
        let dims = spread.len() as f64;
        vec![((dims / 8.0).max(1.0) / dims).sqrt(); spread.len()]
    }

    fn expression(&self, inner: &str) -> String {
        inner.replacen("rbf", "hamming", 1)
    }

    fn parts(&self, mut inner: Vec<Part>) -> Vec<Part> {
        inner.iter_mut().for_each(|part| part.label = "hamming".to_owned());
        inner
    }

    fn learn(&mut self, dimensions: &[Dimension]) -> Vec<Dimension> {
        self.dimensions = dimensions.to_vec();
        dimensions.to_vec()
    }
}

impl<M: InputMap> Mapped<M> {
    fn sides(&self, inputs: Inputs<'_>, scratch: &mut Scratch) -> Sides {
        Sides::of(inputs, self.map.width(inputs.dims()), scratch, |points, to| self.map.map(points, to))
    }

    /// Adds the gradients in the points and in all parameters, given the adjoint of the kernel inside at mapped points.
    fn through(
        &self,
        inputs: Inputs<'_>,
        grad: Gradient<'_>,
        scratch: &mut Scratch,
        adjoint: impl FnOnce(Inputs<'_>, Gradient<'_>, &mut Scratch),
    ) {
        let (x, z) = inputs.distinct_sides();
        let sides = self.sides(inputs, scratch);
        let mut bars = Sides::zeros(inputs, self.map.width(inputs.dims()), scratch);
        let (own, parameters) = split(grad.parameters, self.own());
        let mut inner = bars.gradient(inputs, parameters);
        // Both sides depend on the parameters of the map.
        inner.left = inner.left.filter(|_| grad.left.is_some() || !own.is_empty());
        inner.right = inner.right.filter(|_| grad.right.is_some() || !own.is_empty());
        adjoint(sides.inputs(inputs), inner, scratch);
        self.map.pull_back(x, &bars.left, grad.left, own);
        self.map.pull_back(z, &bars.right, grad.right, own);
        sides.release(scratch);
        bars.release(scratch);
    }

    /// The number of values of the map's parameters.
    fn own(&self) -> usize {
        self.map.parameters().iter().map(|parameter| parameter.values.len()).sum()
    }
}

impl<M: InputMap> Kernel for Mapped<M> {
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let sides = self.sides(inputs, scratch);
        self.inner.eval(sides.inputs(inputs), out, scratch);
        sides.release(scratch);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        self.through(at.inputs, grad, scratch, |mapped, inner, scratch| {
            self.inner.adjoint(mapped.evaluated(at.k, at.kbar), inner, scratch);
        });
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], scratch: &mut Scratch) {
        let inputs = Inputs::Gram(x);
        let sides = self.sides(inputs, scratch);
        self.inner.diag(sides.inputs(inputs).sides().0, out, scratch);
        sides.release(scratch);
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, scratch: &mut Scratch) {
        self.through(Inputs::Gram(x), grad, scratch, |mapped, inner, scratch| {
            self.inner.diag_adjoint(mapped.sides().0, kbar, inner, scratch);
        });
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        self.map.parameters().iter().for_each(&mut *visit);
        self.inner.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        self.map.parameters_mut().iter_mut().for_each(&mut *visit);
        self.inner.for_each_parameter_mut(visit);
    }

    fn parts(&self) -> Vec<Part> {
        self.map.parts(self.inner.parts())
    }

    fn columns(&self) -> Option<Vec<usize>> {
        self.map.columns()
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        let mut map = self.map.clone();
        self.inner.set_dimensions(&map.learn(dimensions))?;
        (self.map, self.dimensions) = (map, dimensions.to_vec());
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.inner.initialise(&self.map.spread(spread), target_variance);
    }

    fn fix_scale(&mut self) {
        self.inner.fix_scale();
    }

    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let (map, width) = (self.map.clone(), self.map.width(dims));
        let inner = self.inner.random_feature(width, chance)?;
        Some(Box::new(MappedFeature { map, width, inner }))
    }

    /// Returns the units along the selected columns; maps other than a selection have no units.
    fn units(&self, dims: usize) -> Vec<Unit> {
        let selected = self.map.columns().unwrap_or_default();
        let inner = self.inner.units(self.map.width(dims)).into_iter().map(|unit| {
            let columns = unit.columns.iter().filter_map(|&column| selected.get(column).copied()).collect();
            Unit { target: unit.target, position: unit.position, ..Unit::of_columns(unit.input, columns) }
        });
        std::iter::repeat_n(Unit::default(), self.own()).chain(inner).collect()
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        let wanted = self.min_dims();
        if wanted > dims || (self.own() > 0 && wanted != dims) {
            return Err(misfit(&self.expression(), wanted, dims));
        }
        self.inner.check(self.map.width(dims))
    }

    fn expression(&self) -> String {
        self.map.expression(&self.inner.expression())
    }

    fn min_dims(&self) -> usize {
        self.map.min_dims(self.inner.min_dims())
    }
}

/// A random feature of mapped points.
struct MappedFeature<M> {
    map: M,
    /// The number of columns of mapped points.
    width: usize,
    inner: Box<dyn RandomFeature>,
}

impl<M: InputMap> MappedFeature<M> {
    fn mapped(&self, x: &[f64]) -> Vec<f64> {
        let mut to = vec![0.0; self.width];
        self.map.map(MatRef::from_column_major_slice(x, 1, x.len()), &mut to);
        to
    }
}

impl<M: InputMap> RandomFeature for MappedFeature<M> {
    fn value(&self, x: &[f64]) -> f64 {
        self.inner.value(&self.mapped(x))
    }

    fn add_gradient(&self, x: &[f64], weight: f64, gradient: &mut [f64]) {
        let mut bar = vec![0.0; self.width];
        self.inner.add_gradient(&self.mapped(x), weight, &mut bar);
        let point = MatRef::from_column_major_slice(x, 1, x.len());
        let target = MatMut::from_column_major_slice_mut(gradient, 1, x.len());
        self.map.pull_back(point, &bar, Some(target), &mut []);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_are_monotone_with_the_stated_slopes_and_derivatives() {
        for (a, b) in [(1.0, 1.0), (0.02, 50.0), (50.0, 0.02), (3.0, 0.4), (0.7, 2.0)] {
            let mut last = f64::NEG_INFINITY;
            for x in [-1e4, -800.0, -41.0, -39.0, -5.0, -0.3, 0.0, 0.8, 6.0, 39.0, 41.0, 900.0, 1e4] {
                let at = Warping::at(x, a, b);
                assert!(
                    at.value.is_finite() && at.value > last && at.in_x > 0.0,
                    "{x} {a} {b}: {}",
                    at.value
                );
                last = at.value;
                if (a, b) == (1.0, 1.0) {
                    assert!((at.value - x).abs() < 1e-14 * (1.0 + x.abs()), "{x}: {}", at.value);
                }
                // Central differences, whose error is of the order h² and ε|w|/h.
                let difference = |of: &dyn Fn(f64) -> f64, h: f64| (of(h) - of(-h)) / (2.0 * h);
                let scale = 1.0 + x.abs();
                for (derivative, numeric) in [
                    (at.in_x, difference(&|h| Warping::at(x + h, a, b).value, 1e-5)),
                    (at.in_a, difference(&|h| Warping::at(x, a * (1.0 + h), b).value, 1e-5) / a),
                    (at.in_b, difference(&|h| Warping::at(x, a, b * (1.0 + h)).value, 1e-5) / b),
                ] {
                    let close = (derivative - numeric).abs() < 1e-6 * (derivative.abs() + scale / a.min(b));
                    assert!(close, "{x} {a} {b}: {derivative} and {numeric}");
                }
            }
            let slope = |x: f64| Warping::at(x, a, b).in_x;
            assert!((slope(-1e4) / a - 1.0).abs() < 1e-12 && (slope(1e4) / b - 1.0).abs() < 1e-12);
        }
    }
}
