//! Constant, white, linear and polynomial kernels.

use crate::compose::split;
use crate::dimension::{Dimension, DimensionError, add_where_equal, is_category, sum_where_equal};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, check_each, expression_with, units_along};
use crate::matrix::{column, column_mut, mirror_upper};
use crate::parameter::Parameter;
use crate::random_feature::{Chance, Joined, Line, RandomFeature};
use crate::units::Unit;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// One variance for all points: shared by all draws (an unknown offset), or independent for each draw (white noise).
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    variance: Parameter,
    white: bool,
}

impl Constant {
    /// Creates a constant kernel: `variance` everywhere, in squared units of the target.
    pub fn new(variance: f64) -> Self {
        Constant { variance: Parameter::start_at("variance", &[variance]), white: false }
    }

    /// Creates a white kernel: `variance` on the diagonal of a Gram matrix, 0 between different
    /// draws, even at equal points.
    pub fn white(variance: f64) -> Self {
        Constant { white: true, ..Constant::new(variance) }
    }
}

impl Kernel for Constant {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _scratch: &mut Scratch) {
        out.fill(if self.white { 0.0 } else { self.variance.at(0) });
        if let Inputs::Gram(x) = inputs {
            for i in 0..x.nrows() {
                out[(i, i)] = self.variance.at(0);
            }
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, _scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        if let Some(variance) = grad.parameters.first_mut() {
            *variance += match inputs {
                Inputs::Gram(x) if self.white => (0..x.nrows()).map(|i| kbar[(i, i)]).sum::<f64>(),
                Inputs::Cross { .. } if self.white => 0.0,
                _ => kbar.col_iter().map(|column| column.iter().sum::<f64>()).sum::<f64>(),
            };
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
    }

    fn set_dimensions(&mut self, _: &[Dimension]) -> Result<(), DimensionError> {
        Ok(())
    }

    fn initialise(&mut self, _spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
    }

    fn columns(&self) -> Option<Vec<usize>> {
        Some(Vec::new())
    }

    fn random_feature(&self, _dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let offset = self.variance.at(0).sqrt() * chance.normal();
        (!self.white).then(|| Box::new(Line::constant(offset)) as Box<dyn RandomFeature>)
    }

    fn expression(&self) -> String {
        if self.white { "white".to_owned() } else { "constant".to_owned() }
    }
}

/// `(Σ_d v_d x_d x'_d + offset)^degree`; one matrix product computes the dot products. A shift of
/// the inputs changes the kernel, so the inputs are not centred. The linear kernel is the case of
/// degree 1 without an offset. In a column of categories, `x_d x'_d` is 1 for equal codes and 0
/// otherwise: each level has an effect, and all effects have the same variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Polynomial {
    degree: u32,
    variance: Parameter,
    offset: Option<Parameter>,
    dimensions: Vec<Dimension>,
}

impl Polynomial {
    /// The highest degree; kernels of higher degrees would overflow before they are useful.
    pub const MAX_DEGREE: u32 = 20;

    /// Creates the kernel `(Σ_d v_d x_d x'_d + offset)^degree` with `v` = `variance`, one value for
    /// all dimensions or one per dimension, in units of `target^(2/degree) / input²`; `offset > 0`
    /// in `target^(2/degree)`.
    ///
    /// [`Kernel::check`] refuses a degree of 0 or above [`Polynomial::MAX_DEGREE`].
    pub fn new(degree: u32, variance: &[f64], offset: f64) -> Self {
        Polynomial {
            degree,
            variance: Parameter::start_at("variance", variance),
            offset: Some(Parameter::start_at("offset", &[offset])),
            dimensions: Vec::new(),
        }
    }

    /// Creates the linear kernel `Σ_d v_d x_d x'_d` with `v` = `variance`, one value for all
    /// dimensions or one per dimension, in units of `(target / input)²`: the variances of the
    /// slopes.
    pub fn linear(variance: &[f64]) -> Self {
        let variance = Parameter::start_at("variance", variance);
        Polynomial { degree: 1, variance, offset: None, dimensions: Vec::new() }
    }

    fn offset(&self) -> f64 {
        self.offset.as_ref().map_or(0.0, |offset| offset.at(0))
    }

    fn power(&self, base: f64) -> f64 {
        base.powi(self.degree as i32)
    }

    /// The derivative of [`Polynomial::power`].
    fn power_slope(&self, base: f64) -> f64 {
        self.degree as f64 * base.powi(self.degree as i32 - 1)
    }

    fn base_at(&self, x: MatRef<'_, f64>, i: usize) -> f64 {
        let product = |d: usize| {
            let value = if self.is_category(d) { 1.0 } else { x[(i, d)] };
            self.variance.at(d) * value * value
        };
        self.offset() + (0..x.ncols()).map(product).sum::<f64>()
    }

    fn is_category(&self, d: usize) -> bool {
        is_category(&self.dimensions, d)
    }

    fn categories(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.dimensions.len()).filter(|&d| self.is_category(d))
    }

    /// Writes `Σ_d v_d x_d x'_d`, without the offset.
    fn products(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let (x, z) = inputs.sides();
        self.variance.check_dims(x.ncols());
        let mut weighted = scratch.take(x.nrows() * x.ncols());
        for (d, run) in weighted.chunks_exact_mut(x.nrows().max(1)).enumerate() {
            let variance = if self.is_category(d) { 0.0 } else { self.variance.at(d) };
            for (to, &x) in run.iter_mut().zip(x.col(d).iter()) {
                *to = variance * x;
            }
        }
        let left = MatRef::from_column_major_slice(&weighted, x.nrows(), x.ncols());
        matmul(out.as_mut(), Accum::Replace, left, z.transpose(), 1.0, Par::Seq);
        for d in self.categories() {
            let codes = &mut weighted[..x.nrows()];
            codes.iter_mut().zip(x.col(d).iter()).for_each(|(to, &code)| *to = code);
            for j in 0..z.nrows() {
                add_where_equal(codes, z[(j, d)], self.variance.at(d), column_mut(&mut out, j));
            }
        }
        scratch.give(weighted);
    }

    /// Adds the gradient of the dot products, given `weights = ∂F/∂(dot products)`.
    fn products_adjoint(
        &self,
        inputs: Inputs<'_>,
        weights: MatRef<'_, f64>,
        grad: Gradient<'_>,
        scratch: &mut Scratch,
    ) {
        let Gradient { parameters: variance, mut left, mut right } = grad;
        let (x, z) = inputs.sides();
        let gram = matches!(inputs, Inputs::Gram(_));
        let add = |to: &mut MatMut<'_, f64>, sums: &[f64]| {
            let n = to.nrows();
            for d in (0..to.ncols()).filter(|&d| !self.is_category(d)) {
                for (i, sum) in sums[d * n..][..n].iter().enumerate() {
                    to[(i, d)] += self.variance.at(d) * sum;
                }
            }
        };
        if !variance.is_empty() {
            self.categories_adjoint(inputs, weights, variance, scratch);
        }
        let mut sums = scratch.take(x.nrows().max(z.nrows()) * x.ncols());
        let by_left = &mut sums[..x.nrows() * x.ncols()];
        let target = MatMut::from_column_major_slice_mut(by_left, x.nrows(), x.ncols());
        matmul(target, Accum::Replace, weights, z, 1.0, Par::Seq);
        if !variance.is_empty() {
            for d in (0..x.ncols()).filter(|&d| !self.is_category(d)) {
                let sums = &by_left[d * x.nrows()..][..x.nrows()];
                variance[self.variance.slot(d)] +=
                    sums.iter().zip(x.col(d).iter()).map(|(a, b)| a * b).sum::<f64>();
            }
        }
        if let Some(left) = &mut left {
            add(left, by_left);
        }
        let right = if gram { &mut left } else { &mut right };
        if let Some(right) = right {
            let by_right = &mut sums[..z.nrows() * z.ncols()];
            let target = MatMut::from_column_major_slice_mut(by_right, z.nrows(), z.ncols());
            matmul(target, Accum::Replace, weights.transpose(), x, 1.0, Par::Seq);
            add(right, by_right);
        }
        scratch.give(sums);
    }

    /// Adds the gradient in the variances of the columns of categories.
    fn categories_adjoint(
        &self,
        inputs: Inputs<'_>,
        weights: MatRef<'_, f64>,
        variance: &mut [f64],
        scratch: &mut Scratch,
    ) {
        let (x, z) = inputs.sides();
        let (mut codes, mut buffer) = (scratch.take(x.nrows()), scratch.take(x.nrows()));
        for d in self.categories() {
            codes.iter_mut().zip(x.col(d).iter()).for_each(|(to, &code)| *to = code);
            for j in 0..z.nrows() {
                variance[self.variance.slot(d)] +=
                    sum_where_equal(&codes, z[(j, d)], column(weights, j, &mut buffer));
            }
        }
        scratch.give_all([codes, buffer]);
    }
}

impl Kernel for Polynomial {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        self.products(inputs, out.as_mut(), scratch);
        if self.offset.is_some() {
            for j in 0..out.ncols() {
                for value in column_mut(&mut out, j) {
                    *value = self.power(*value + self.offset());
                }
            }
        }
        if let Inputs::Gram(x) = inputs {
            mirror_upper(out, |i| self.power(self.base_at(x, i)));
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let (variance, offset) = split(grad.parameters, self.variance.values.len());
        if self.offset.is_none() {
            return self.products_adjoint(inputs, kbar, Gradient { parameters: variance, ..grad }, scratch);
        }
        let (rows, cols) = inputs.shape();
        let mut weights = scratch.take(rows * cols);
        let mut buffer = scratch.take(rows);
        let mut view = MatMut::from_column_major_slice_mut(&mut weights, rows, cols);
        self.products(inputs, view.as_mut(), scratch);
        let mut total = 0.0;
        for j in 0..cols {
            for (weight, &kbar) in column_mut(&mut view, j).iter_mut().zip(column(kbar, j, &mut buffer)) {
                *weight = kbar * self.power_slope(*weight + self.offset());
                total += *weight;
            }
        }
        if let Some(offset) = offset.first_mut() {
            *offset += total;
        }
        let grad = Gradient { parameters: variance, ..grad };
        self.products_adjoint(inputs, view.as_ref(), grad, scratch);
        scratch.give_all([weights, buffer]);
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], _scratch: &mut Scratch) {
        self.variance.check_dims(x.ncols());
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.power(self.base_at(x, i));
        }
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _scratch: &mut Scratch) {
        let (variance, offset) = split(grad.parameters, self.variance.values.len());
        let mut points = grad.left;
        for (i, &kbar) in kbar.iter().enumerate() {
            let weight = kbar * self.power_slope(self.base_at(x, i));
            for d in 0..x.ncols() {
                let value = if self.is_category(d) { 1.0 } else { x[(i, d)] };
                if let Some(variance) = variance.get_mut(self.variance.slot(d)) {
                    *variance += weight * value * value;
                }
                if let Some(points) = points.as_mut().filter(|_| !self.is_category(d)) {
                    points[(i, d)] += 2.0 * weight * self.variance.at(d) * x[(i, d)];
                }
            }
            if let Some(offset) = offset.first_mut() {
                *offset += weight;
            }
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
        self.offset.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
        self.offset.iter_mut().for_each(visit);
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        self.dimensions = dimensions.to_vec();
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// For centred inputs, the dot product and the offset each get half of
    /// `target_variance^(1/degree)` (the dot product all of it without an offset). Every dimension
    /// contributes equally.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        let base = target_variance.powf(1.0 / self.degree as f64);
        let share = if self.offset.is_some() { 0.5 * base } else { base };
        self.variance.start_from_spread(spread, |s, dims| share / (dims * s * s));
        if let Some(offset) = &mut self.offset {
            offset.start(|_| share);
        }
    }

    /// Fixes the variance of a linear kernel with one variance for all dimensions; the other
    /// kernels are not multiples of a single parameter.
    fn fix_scale(&mut self) {
        self.variance.fixed |= self.offset.is_none() && !self.variance.per_dimension();
    }

    /// Returns a product of `degree` random linear functions.
    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let mut line = || -> Box<dyn RandomFeature> {
            let offset = self.offset().sqrt() * chance.normal();
            Box::new(Line::new(offset, dims, &self.dimensions, chance, |d, _, chance| {
                self.variance.at(d).sqrt() * chance.normal()
            }))
        };
        let features = (0..self.degree).map(|_| line()).collect();
        Some(Box::new(Joined { features, product: true }))
    }

    fn units(&self, dims: usize) -> Vec<Unit> {
        let base = 2.0 / f64::from(self.degree.max(1));
        let mut units = units_along(&self.variance, -2.0, dims);
        units.iter_mut().for_each(|unit| unit.target = base);
        units.extend(self.offset.as_ref().map(|_| Unit::of_target(base)));
        units
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        if !(1..=Self::MAX_DEGREE).contains(&self.degree) {
            let (degree, most) = (self.degree, Self::MAX_DEGREE);
            return Err(format!(
                "the degree of a polynomial kernel is {degree}, expected one from 1 to {most}"
            ));
        }
        check_each(&self.expression(), &[&self.variance], dims)
    }

    fn expression(&self) -> String {
        let ard = self.variance.per_dimension().then(|| "ard".to_owned());
        match self.offset {
            None => expression_with("linear", &[ard]),
            Some(_) => expression_with("polynomial", &[ard, Some(format!("degree={}", self.degree))]),
        }
    }
}
