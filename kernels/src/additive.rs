//! The additive kernel, all interactions of columns up to an order.

use crate::dimension::{Dimension, DimensionError};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, misfit};
use crate::mapped::ActiveDims;
use crate::pairwise::{self, LANES, OfDifferences, Run};
use crate::parameter::Parameter;
use crate::random_feature::{Chance, Joined, Line, RandomFeature, Wave};
use crate::stationary::Stationary;
use crate::vector_math::exp;
use faer::{MatMut, MatRef};
use pulp::Simd;

/// `Σ_o σ_o² e_o(z_1, …, z_D)`, `o = 1..=m`, with `z_d = exp(−(x_d − x'_d)²/(2ℓ_d²))` and the elementary symmetric polynomials `e_o`,
/// sums over all products of `o` different `z_d` (Duvenaud, Nickisch and Rasmussen, 2011).
///
/// They are computed by `e_o(z_1..z_d) = e_o(z_1..z_{d−1}) + z_d e_{o−1}(z_1..z_{d−1})`. All terms
/// are positive, so no digits are lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Additive {
    variances: Parameter,
    lengthscales: Parameter,
    dimensions: Vec<Dimension>,
}

impl Additive {
    /// The highest order.
    pub const MAX_ORDER: usize = 32;

    /// Creates the kernel with one variance `σ_o²` per order from 1 on, in squared units of the
    /// target, and one lengthscale per dimension, in units of the inputs.
    /// [`Kernel::check`] refuses no orders, more than [`Additive::MAX_ORDER`], and more orders than dimensions.
    pub fn new(variances: &[f64], lengthscales: &[f64]) -> Self {
        Additive {
            variances: Parameter::start_at("variances", variances),
            lengthscales: Parameter::start_at("lengthscales", lengthscales),
            dimensions: Vec::new(),
        }
    }

    fn dims(&self) -> usize {
        self.lengthscales.values.len()
    }

    fn order(&self) -> usize {
        self.variances.values.len()
    }

    /// `e_o(1, …, 1)`, the number of products of each order, from order 1 on.
    fn products(&self) -> impl Iterator<Item = f64> + use<> {
        let dims = self.dims();
        (0..self.order()).scan(1.0, move |count, o| {
            *count *= dims.saturating_sub(o) as f64 / (o + 1) as f64;
            Some(*count)
        })
    }
}

/// `z_d`.
#[inline(always)]
fn base<S: Simd>(tau: &Run, lengthscale: f64) -> Run {
    let mut z = *tau;
    // A closure would not be compiled for the vectors of `S`.
    for z in &mut z {
        let scaled = *z / lengthscale;
        *z = exp::<S>(-0.5 * scaled * scaled);
    }
    z
}

/// `to += a·b`.
#[inline(always)]
fn add_product(to: &mut Run, a: &Run, b: &Run) {
    for lane in 0..LANES {
        to[lane] += a[lane] * b[lane];
    }
}

/// Updates `e_0..=e_m` in place to include one more `z`.
#[inline(always)]
fn extend(polynomials: &mut [Run], z: &Run) {
    for o in (1..polynomials.len()).rev() {
        let (lower, upper) = polynomials.split_at_mut(o);
        add_product(&mut upper[0], z, &lower[o - 1]);
    }
}

/// Writes `e_0..=e_m` of no `z`: 1 and zeros.
#[inline(always)]
fn begin(polynomials: &mut [Run]) {
    polynomials.fill([0.0; LANES]);
    polynomials[0] = [1.0; LANES];
}

impl OfDifferences for Additive {
    /// `z_d`, the polynomials of every number of columns, and their adjoints.
    fn workspace(&self) -> usize {
        self.dims() + (self.dims() + 2) * (self.order() + 1)
    }

    fn at_zero(&self) -> f64 {
        self.variances.values.iter().zip(self.products()).map(|(variance, count)| variance * count).sum()
    }

    fn add_diagonal(&self, total: f64, parameters: &mut [f64]) {
        parameters.iter_mut().zip(self.products()).for_each(|(variance, count)| *variance += total * count);
    }

    #[inline(always)]
    fn value<S: Simd>(&self, tau: &[Run], work: &mut [Run]) -> Run {
        let polynomials = &mut work[..self.order() + 1];
        begin(polynomials);
        for (tau, &lengthscale) in tau.iter().zip(&self.lengthscales.values) {
            extend(polynomials, &base::<S>(tau, lengthscale));
        }
        let mut k = [0.0; LANES];
        for (&variance, polynomial) in self.variances.values.iter().zip(&polynomials[1..]) {
            add_product(&mut k, &[variance; LANES], polynomial);
        }
        k
    }

    #[inline(always)]
    fn pull_back<S: Simd>(
        &self,
        tau: &[Run],
        kbar: &Run,
        tau_bar: &mut [Run],
        parameters: &mut [Run],
        work: &mut [Run],
    ) {
        let (dims, order) = (self.dims(), self.order());
        let (variances, lengthscales) = (&self.variances.values[..order], &self.lengthscales.values[..dims]);
        let width = order + 1;
        let (z, rest) = work.split_at_mut(dims);
        let (bars, rest) = rest.split_at_mut(width);
        let polynomials = &mut rest[..(dims + 1) * width];
        begin(&mut polynomials[..width]);
        for d in 0..dims {
            z[d] = base::<S>(&tau[d], lengthscales[d]);
            polynomials.copy_within(d * width..(d + 1) * width, (d + 1) * width);
            extend(&mut polynomials[(d + 1) * width..][..width], &z[d]);
        }
        let (variances_bar, lengthscales_bar) = parameters.split_at_mut(order);
        for o in 0..order {
            add_product(&mut variances_bar[o], kbar, &polynomials[dims * width + o + 1]);
            bars[o + 1] = kbar.map(|kbar| kbar * variances[o]);
        }
        // The recursion backwards: `bars` are the adjoints of the polynomials of the first d + 1
        // columns, then of the first d.
        for d in (0..dims).rev() {
            let mut z_bar = [0.0; LANES];
            for o in 1..width {
                add_product(&mut z_bar, &bars[o], &polynomials[d * width + o - 1]);
                let (lower, upper) = bars.split_at_mut(o);
                // e_0 = 1 is constant, so its adjoint is not needed.
                if o > 1 {
                    add_product(&mut lower[o - 1], &z[d], &upper[0]);
                }
            }
            let lengthscale = lengthscales[d];
            for lane in 0..LANES {
                // A z of 0 times an infinite difference would be NaN.
                let scaled = if z[d][lane] == 0.0 { 0.0 } else { tau[d][lane] / lengthscale };
                let bar = z_bar[lane] * z[d][lane] * scaled / lengthscale;
                tau_bar[d][lane] = -bar;
                lengthscales_bar[d][lane] += bar * scaled;
            }
        }
    }
}

impl Kernel for Additive {
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        pairwise::evaluate(self, inputs, out, scratch);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        pairwise::adjoint(self, at, grad, scratch);
    }

    fn diag(&self, _: MatRef<'_, f64>, out: &mut [f64], _: &mut Scratch) {
        out.fill(self.at_zero());
    }

    fn diag_adjoint(&self, _: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _: &mut Scratch) {
        self.add_diagonal(kbar.iter().sum(), grad.parameters);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        [&self.variances, &self.lengthscales].into_iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        [&mut self.variances, &mut self.lengthscales].into_iter().for_each(visit);
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        self.dimensions = dimensions.to_vec();
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The orders share the variance equally, so `σ_o²` starts at an equal share divided by the
    /// number of products of order `o`. Lengthscales start at one spread, because the base kernels
    /// are one-dimensional.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        let order = self.order() as f64;
        let products: Vec<f64> = self.products().collect();
        self.variances.start(|o| target_variance / order / products[o]);
        self.lengthscales.start_from_spread(spread, |s, _| s);
    }

    /// Only a lone variance multiplies the whole kernel.
    fn fix_scale(&mut self) {
        self.variances.fixed |= self.order() == 1;
    }

    /// With order 1, the kernel is a sum over columns.
    fn terms(&self) -> Vec<Box<dyn Kernel>> {
        let [variance] = self.variances.values[..] else { return Vec::new() };
        let term = |(column, &lengthscale): (usize, &f64)| -> Box<dyn Kernel> {
            let inner = Box::new(Stationary::rbf(variance, &[lengthscale]));
            let mut term = ActiveDims::new(vec![column], inner);
            // A stationary kernel takes any column.
            term.set_dimensions(&self.dimensions).ok();
            Box::new(term)
        };
        self.lengthscales.values.iter().enumerate().map(term).collect()
    }

    /// Returns a sum over the orders `o` of waves in `o` randomly chosen columns, each times the
    /// square root of the number of such choices.
    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let mut of_order = |order: usize, variance: f64| -> Box<dyn RandomFeature> {
            let mut columns: Vec<usize> = (0..dims).collect();
            for i in 0..order {
                let rest = (dims - i) as f64;
                columns.swap(i, i + ((chance.uniform() * rest) as usize).min(dims - i - 1));
            }
            let chosen = &columns[..order];
            let phase = Line::new(0.0, dims, &self.dimensions, chance, |d, is_code, chance| {
                let rate = chance.normal() / self.lengthscales.at(d);
                let rate = if is_code { rate * std::f64::consts::FRAC_1_SQRT_2 } else { rate };
                if chosen.contains(&d) { rate } else { 0.0 }
            });
            Box::new(Wave::new(variance.sqrt(), phase, chance))
        };
        let orders = self.variances.values.iter().zip(self.products()).enumerate();
        let features = orders.map(|(o, (variance, count))| of_order(o + 1, variance * count)).collect();
        Some(Box::new(Joined { features, product: false }))
    }

    fn expression(&self) -> String {
        format!("additive(order={})", self.order())
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        let (order, most) = (self.order(), dims.min(Self::MAX_ORDER));
        if self.dims() != dims {
            return Err(misfit(&self.expression(), self.dims(), dims));
        }
        if !(1..=most).contains(&order) {
            return Err(format!(
                "an additive kernel has {order} variances, expected one for each order from 1 to at most {most}"
            ));
        }
        Ok(())
    }

    fn min_dims(&self) -> usize {
        self.dims()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::mat;

    #[test]
    fn values_are_sums_over_all_subsets_of_columns() {
        let (variances, lengthscales) = ([0.7, 1.3, 0.4], [0.5, 1.1, 2.0, 0.8]);
        let (x, z) = (mat![[0.1, -0.4, 0.9, 0.3]], mat![[0.5, 0.2, -0.6, 0.35]]);
        let mut k = mat![[f64::NAN]];
        let inputs = Inputs::Cross { left: x.as_ref(), right: z.as_ref() };
        Additive::new(&variances, &lengthscales).eval(inputs, k.as_mut(), &mut Scratch::new());
        let base = |d: usize| (-0.5 * ((x[(0, d)] - z[(0, d)]) / lengthscales[d]).powi(2)).exp();
        let mut want = 0.0;
        for subset in 1..16_usize {
            if let Some(variance) = variances.get(subset.count_ones() as usize - 1) {
                want += variance * (0..4).filter(|d| subset >> d & 1 == 1).map(base).product::<f64>();
            }
        }
        assert!((k[(0, 0)] - want).abs() < 1e-14, "{} and {want}", k[(0, 0)]);
    }
}
