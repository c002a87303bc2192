//! Kernels made of kernels: sum, product (also by `+` and `*`), scale.

use crate::additive::Additive;
use crate::arc_cosine::ArcCosine;
use crate::changepoint::Changepoint;
use crate::dimension::{Dimension, DimensionError};
use crate::dot_product::{Constant, Polynomial};
use crate::formula::{FormulaKernel, KernelFormula};
use crate::index::Coregion;
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Part, Scratch};
use crate::mapped::{InputMap, Mapped};
use crate::matrix::{column, column_mut};
use crate::parameter::Parameter;
use crate::periodic::{Cosine, Periodic};
use crate::random_feature::{Chance, Joined, Line, RandomFeature};
use crate::spectral_mixture::SpectralMixture;
use crate::stationary::Stationary;
use crate::units::Unit;
use faer::{MatMut, MatRef};
use std::any::Any;
use std::ops::{Add, Mul};

/// The operation that combines the children of a [`Combination`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// `k = Σ_i k_i`.
    Sum,
    /// `k = Π_i k_i`.
    Product,
}

impl Operation {
    fn apply(self, to: &mut f64, value: f64) {
        match self {
            Operation::Sum => *to += value,
            Operation::Product => *to *= value,
        }
    }
}

/// The sum or the product of two or more kernels, entry by entry. Parameters come in the order of the children.
#[derive(Clone, Debug)]
pub struct Combination {
    operation: Operation,
    children: Vec<Box<dyn Kernel>>,
    dimensions: Vec<Dimension>,
}

impl Combination {
    /// Combines two or more children; [`Kernel::check`] refuses fewer.
    pub fn new(operation: Operation, children: Vec<Box<dyn Kernel>>) -> Self {
        Combination { operation, children, dimensions: Vec::new() }
    }

    /// Combines two kernels; one that is the same kind of combination adds its children.
    pub(crate) fn of(operation: Operation, left: Box<dyn Kernel>, right: Box<dyn Kernel>) -> Self {
        let children = |kernel: Box<dyn Kernel>| {
            let any: &dyn Any = kernel.as_ref();
            match any.downcast_ref::<Combination>() {
                Some(alike) if alike.operation == operation => alike.children.clone(),
                _ => vec![kernel],
            }
        };
        Combination::new(operation, [children(left), children(right)].concat())
    }

    /// The sum of two or more terms.
    pub fn sum(terms: Vec<Box<dyn Kernel>>) -> Self {
        Combination::new(Operation::Sum, terms)
    }

    /// The product of two or more factors.
    pub fn product(factors: Vec<Box<dyn Kernel>>) -> Self {
        Combination::new(Operation::Product, factors)
    }
}

/// Returns copies of the children after [`Kernel::set_dimensions`].
pub(crate) fn told(
    children: &[Box<dyn Kernel>],
    dimensions: &[Dimension],
) -> Result<Vec<Box<dyn Kernel>>, DimensionError> {
    let mut told = children.to_vec();
    told.iter_mut().try_for_each(|child| child.set_dimensions(dimensions))?;
    Ok(told)
}

/// Checks that there are two or more kernels, and each of them.
pub(crate) fn check_children(children: &[Box<dyn Kernel>], dims: usize) -> Result<(), String> {
    if children.len() < 2 {
        return Err(format!("a combination of kernels has {}, expected two or more", children.len()));
    }
    children.iter().try_for_each(|child| child.check(dims))
}

pub(crate) fn value_count(kernel: &dyn Kernel) -> usize {
    let mut count = 0;
    kernel.for_each_parameter(&mut |parameter| count += parameter.values.len());
    count
}

/// Splits a flat gradient, which may be empty, after the first `own` entries.
pub(crate) fn split(parameters: &mut [f64], own: usize) -> (&mut [f64], &mut [f64]) {
    let own = own.min(parameters.len());
    parameters.split_at_mut(own)
}

/// Returns every child with its slice of a flat gradient; all slices are empty if the gradient is
/// empty.
pub(crate) fn with_slots<'a>(
    children: &'a [Box<dyn Kernel>],
    mut parameters: &'a mut [f64],
) -> impl Iterator<Item = (&'a dyn Kernel, &'a mut [f64])> {
    children.iter().map(move |child| {
        let (own, rest) = split(std::mem::take(&mut parameters), value_count(child.as_ref()));
        parameters = rest;
        (child.as_ref(), own)
    })
}

/// Reborrows an optional target, so that another child can add to it.
pub(crate) fn reborrow<'a>(target: &'a mut Option<MatMut<'_, f64>>) -> Option<MatMut<'a, f64>> {
    target.as_mut().map(|target| target.as_mut())
}

impl Kernel for Combination {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let (rows, cols) = inputs.shape();
        self.children[0].eval(inputs, out.as_mut(), scratch);
        let mut other = scratch.take(rows * cols);
        for child in &self.children[1..] {
            child.eval(inputs, MatMut::from_column_major_slice_mut(&mut other, rows, cols), scratch);
            for (j, other) in other.chunks_exact(rows.max(1)).enumerate() {
                for (to, &value) in column_mut(&mut out, j).iter_mut().zip(other) {
                    self.operation.apply(to, value);
                }
            }
        }
        scratch.give(other);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let Gradient { parameters, mut left, mut right } = grad;
        let (rows, cols) = inputs.shape();
        let size = rows * cols;
        let is_product = self.operation == Operation::Product;
        // A factor's adjoint needs the values of all factors, a term's adjoint only the values of
        // that term.
        let mut values = scratch.take(if is_product { size * self.children.len() } else { size });
        if is_product {
            for (child, value) in self.children.iter().zip(values.chunks_exact_mut(size.max(1))) {
                child.eval(inputs, MatMut::from_column_major_slice_mut(value, rows, cols), scratch);
            }
        }
        let mut own_kbar = scratch.take(if is_product { size } else { 0 });
        let mut buffer = scratch.take(rows);
        for (i, (child, parameters)) in with_slots(&self.children, parameters).enumerate() {
            if is_product {
                for (j, to) in own_kbar.chunks_exact_mut(rows.max(1)).enumerate() {
                    to.copy_from_slice(column(kbar, j, &mut buffer));
                }
                for (other, value) in values.chunks_exact(size.max(1)).enumerate() {
                    if other != i {
                        own_kbar.iter_mut().zip(value).for_each(|(to, value)| *to *= value);
                    }
                }
            }
            let (child_kbar, value) = if is_product {
                (MatRef::from_column_major_slice(&own_kbar, rows, cols), &values[i * size..][..size])
            } else {
                child.eval(inputs, MatMut::from_column_major_slice_mut(&mut values, rows, cols), scratch);
                (kbar, &values[..])
            };
            let k = MatRef::from_column_major_slice(value, rows, cols);
            let grad = Gradient { parameters, left: reborrow(&mut left), right: reborrow(&mut right) };
            child.adjoint(inputs.evaluated(k, child_kbar), grad, scratch);
        }
        scratch.give_all([values, own_kbar, buffer]);
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], scratch: &mut Scratch) {
        self.children[0].diag(x, out, scratch);
        let mut other = scratch.take(out.len());
        for child in &self.children[1..] {
            child.diag(x, &mut other, scratch);
            for (to, &value) in out.iter_mut().zip(&other) {
                self.operation.apply(to, value);
            }
        }
        scratch.give(other);
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, scratch: &mut Scratch) {
        let Gradient { parameters, mut left, .. } = grad;
        let mut own_kbar = scratch.take(kbar.len());
        let mut value = scratch.take(kbar.len());
        for (i, (child, parameters)) in with_slots(&self.children, parameters).enumerate() {
            own_kbar.copy_from_slice(kbar);
            if self.operation == Operation::Product {
                for (other, kernel) in self.children.iter().enumerate() {
                    if other != i {
                        kernel.diag(x, &mut value, scratch);
                        own_kbar.iter_mut().zip(&value).for_each(|(to, value)| *to *= value);
                    }
                }
            }
            let grad = Gradient { parameters, left: reborrow(&mut left), right: None };
            child.diag_adjoint(x, &own_kbar, grad, scratch);
        }
        scratch.give_all([own_kbar, value]);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        for child in &self.children {
            child.for_each_parameter(visit);
        }
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        for child in &mut self.children {
            child.for_each_parameter_mut(visit);
        }
    }

    fn terms(&self) -> Vec<Box<dyn Kernel>> {
        if self.operation == Operation::Product {
            return Vec::new();
        }
        let terms = |child: &dyn Kernel| {
            let inner = child.terms();
            if inner.is_empty() { vec![child.boxed_clone()] } else { inner }
        };
        self.children.iter().flat_map(|child| terms(child.as_ref())).collect()
    }

    fn columns(&self) -> Option<Vec<usize>> {
        let all: Option<Vec<Vec<usize>>> = self.children.iter().map(|child| child.columns()).collect();
        let mut all = all?.concat();
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    fn parts(&self) -> Vec<Part> {
        self.children.iter().flat_map(|child| child.parts()).collect()
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        self.children = told(&self.children, dimensions)?;
        self.dimensions = dimensions.to_vec();
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        let count = self.children.len() as f64;
        for (i, child) in self.children.iter_mut().enumerate() {
            let target = match self.operation {
                Operation::Sum => target_variance / count,
                Operation::Product if i == 0 => target_variance,
                Operation::Product => 1.0,
            };
            child.initialise(spread, target);
        }
    }

    /// In a product, the first factor keeps the scale; in a sum, the scale of the first term is fixed.
    fn fix_scale(&mut self) {
        self.children.iter_mut().take(1).for_each(|child| child.fix_scale());
    }

    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let features: Option<Vec<_>> =
            self.children.iter().map(|child| child.random_feature(dims, chance)).collect();
        Some(Box::new(Joined { features: features?, product: self.operation == Operation::Product }))
    }

    /// In a product, the first factor has the unit of the target.
    fn units(&self, dims: usize) -> Vec<Unit> {
        let of_child = |(i, child): (usize, &dyn Kernel)| {
            let mut units = child.units(dims);
            if i > 0 && self.operation == Operation::Product {
                units.iter_mut().for_each(|unit| unit.target = 0.0);
            }
            units
        };
        self.children.iter().map(Box::as_ref).enumerate().flat_map(of_child).collect()
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        check_children(&self.children, dims)
    }

    fn expression(&self) -> String {
        let operator = match self.operation {
            Operation::Sum => " + ",
            Operation::Product => " * ",
        };
        let wrap = |child: &dyn Kernel| {
            let text = child.expression();
            // A product inside a sum needs no parentheses. A sum inside a sum, or a product inside
            // a product, keeps them, so that the text reads back with the same structure.
            let keeps = match self.operation {
                Operation::Sum => top_level(&text, &['+']),
                Operation::Product => top_level(&text, &['+', '*']),
            };
            if keeps { format!("({text})") } else { text }
        };
        self.children.iter().map(|child| wrap(child.as_ref())).collect::<Vec<_>>().join(operator)
    }

    fn min_dims(&self) -> usize {
        self.children.iter().map(|child| child.min_dims()).max().unwrap_or(0)
    }
}

/// Returns true if one of the operators is outside all parentheses.
pub(crate) fn top_level(text: &str, operators: &[char]) -> bool {
    let mut depth = 0;
    text.chars().any(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && operators.contains(&c)
    })
}

/// `variance · k`: adds a scale to a kernel without one, such as a sum.
#[derive(Clone, Debug)]
pub struct Scale {
    variance: Parameter,
    inner: Box<dyn Kernel>,
}

impl Scale {
    /// `variance` has no unit.
    pub fn new(variance: f64, inner: Box<dyn Kernel>) -> Self {
        Scale { variance: Parameter::start_at("variance", &[variance]), inner }
    }

    /// Creates a scale that starts from the data.
    pub(crate) fn from_data(inner: Box<dyn Kernel>) -> Self {
        Scale { variance: Parameter::positive("variance", vec![1.0]), inner }
    }
}

impl Kernel for Scale {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        self.inner.eval(inputs, out.as_mut(), scratch);
        for j in 0..out.ncols() {
            column_mut(&mut out, j).iter_mut().for_each(|value| *value *= self.variance.at(0));
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let (rows, cols) = inputs.shape();
        let mut value = scratch.take(rows * cols);
        self.inner.eval(inputs, MatMut::from_column_major_slice_mut(&mut value, rows, cols), scratch);
        let mut inner_kbar = scratch.take(rows * cols);
        let mut buffer = scratch.take(rows);
        let mut total = 0.0;
        let columns = value.chunks_exact(rows.max(1)).zip(inner_kbar.chunks_exact_mut(rows.max(1)));
        for (j, (value, to)) in columns.enumerate() {
            for ((to, &kbar), value) in to.iter_mut().zip(column(kbar, j, &mut buffer)).zip(value) {
                total += kbar * value;
                *to = kbar * self.variance.at(0);
            }
        }
        let (own, parameters) = split(grad.parameters, 1);
        if let Some(own) = own.first_mut() {
            *own += total;
        }
        let [k, kbar] = [&value, &inner_kbar].map(|all| MatRef::from_column_major_slice(all, rows, cols));
        self.inner.adjoint(inputs.evaluated(k, kbar), Gradient { parameters, ..grad }, scratch);
        scratch.give_all([value, inner_kbar, buffer]);
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], scratch: &mut Scratch) {
        self.inner.diag(x, out, scratch);
        out.iter_mut().for_each(|value| *value *= self.variance.at(0));
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, scratch: &mut Scratch) {
        let mut value = scratch.take(kbar.len());
        self.inner.diag(x, &mut value, scratch);
        let (own, parameters) = split(grad.parameters, 1);
        if let Some(own) = own.first_mut() {
            *own += kbar.iter().zip(&value).map(|(kbar, value)| kbar * value).sum::<f64>();
        }
        value.iter_mut().zip(kbar).for_each(|(to, kbar)| *to = kbar * self.variance.at(0));
        self.inner.diag_adjoint(x, &value, Gradient { parameters, left: grad.left, right: None }, scratch);
        scratch.give(value);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
        self.inner.for_each_parameter(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
        self.inner.for_each_parameter_mut(visit);
    }

    fn parts(&self) -> Vec<Part> {
        let own = Part { label: "scale".to_owned(), parameters: vec![self.variance.name.clone()] };
        std::iter::once(own).chain(self.inner.parts()).collect()
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        self.inner.set_dimensions(dimensions)
    }

    fn dimensions(&self) -> &[Dimension] {
        self.inner.dimensions()
    }

    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        self.inner.initialise(spread, target_variance / self.variance.at(0));
    }

    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let scale: Box<dyn RandomFeature> = Box::new(Line::constant(self.variance.at(0).sqrt()));
        let features = vec![scale, self.inner.random_feature(dims, chance)?];
        Some(Box::new(Joined { features, product: true }))
    }

    fn units(&self, dims: usize) -> Vec<Unit> {
        std::iter::once(Unit::default()).chain(self.inner.units(dims)).collect()
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        self.inner.check(dims)
    }

    fn expression(&self) -> String {
        format!("scale({})", self.inner.expression())
    }

    fn min_dims(&self) -> usize {
        self.inner.min_dims()
    }
}

macro_rules! operators {
    ($([$($of:tt)*] $kernel:ty;)*) => {$(
        impl<K: Into<Box<dyn Kernel>>, $($of)*> Add<K> for $kernel {
            type Output = Combination;

            fn add(self, other: K) -> Combination {
                Combination::of(Operation::Sum, self.into(), other.into())
            }
        }

        impl<K: Into<Box<dyn Kernel>>, $($of)*> Mul<K> for $kernel {
            type Output = Combination;

            fn mul(self, other: K) -> Combination {
                Combination::of(Operation::Product, self.into(), other.into())
            }
        }
    )*};
}

operators! {
    [] Additive;
    [] ArcCosine;
    [] Box<dyn Kernel>;
    [] Changepoint;
    [] Combination;
    [] Constant;
    [] Coregion;
    [] Cosine;
    [F: KernelFormula] FormulaKernel<F>;
    [M: InputMap + 'static] Mapped<M>;
    [] Periodic;
    [] Polynomial;
    [] Scale;
    [] SpectralMixture;
    [] Stationary;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_read_as_the_expression() {
        let rough = || Stationary::matern32(1.0, &[1.0]);
        let sum = rough() + Periodic::new(1.0, &[1.0], &[1.0]) * Constant::new(2.0) + Constant::new(1.0);
        assert_eq!(sum.expression(), "matern32 + periodic * constant + constant");
        let boxed: Box<dyn Kernel> = rough().into();
        assert_eq!((boxed * (rough() + rough())).expression(), "matern32 * (matern32 + matern32)");
        assert_eq!((rough() + (rough() + rough())).expression(), "matern32 + matern32 + matern32");
    }
}
