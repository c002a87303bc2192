//! Formulas of built-in kernels, and of kernels that are not built in.

use sparsegp_kernels::real::Derivatives;
use sparsegp_kernels::{Chance, KernelFormula, Parameter, Real, Unit};
use std::f64::consts::PI;

fn positive(names: &[&str]) -> Vec<Parameter> {
    names.iter().map(|name| Parameter::positive(name, vec![1.0])).collect()
}

/// The squared exponential with a lengthscale for each of some columns.
#[derive(Clone, Debug)]
pub struct Rbf {
    pub columns: usize,
}

impl KernelFormula for Rbf {
    const NAME: &'static str = "own_rbf";

    fn parameters(&self) -> Vec<Parameter> {
        let lengthscales = Parameter::positive("lengthscales", vec![1.0; self.columns]);
        positive(&["variance"]).into_iter().chain([lengthscales]).collect()
    }

    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        let square = (0..x.len()).map(|d| ((x[d] - z[d]) / p[1 + d]).powi(2)).sum::<Real<D>>();
        p[0] * (-0.5 * square).exp()
    }

    fn columns(&self) -> Option<usize> {
        Some(self.columns)
    }

    fn frequency(&self, p: &[f64], columns: usize, chance: &mut Chance<'_>) -> Option<Vec<f64>> {
        Some((0..columns).map(|d| chance.normal() / p[1 + d]).collect())
    }
}

/// The squared exponential of the sine of distances.
#[derive(Clone, Debug, Default)]
pub struct Periodic;

impl KernelFormula for Periodic {
    const NAME: &'static str = "own_periodic";

    fn parameters(&self) -> Vec<Parameter> {
        positive(&["variance", "lengthscales", "period"])
    }

    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        let wave = |d: usize| ((PI * (x[d] - z[d]) / p[2]).sin() / p[1]).powi(2);
        p[0] * (-0.5 * (0..x.len()).map(wave).sum::<Real<D>>()).exp()
    }
}

/// Products of inputs.
#[derive(Clone, Debug, Default)]
pub struct Linear;

impl KernelFormula for Linear {
    const NAME: &'static str = "own_linear";

    fn parameters(&self) -> Vec<Parameter> {
        positive(&["variance"])
    }

    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        p[0] * x.iter().zip(z).map(|(&x, &z)| x * z).sum::<Real<D>>()
    }

    fn units(&self, dims: usize) -> Option<Vec<Unit>> {
        Some(vec![Unit { target: 2.0, ..Unit::of_columns(-2.0, (0..dims).collect()) }])
    }
}

/// Matérn-1/2 or Matérn-3/2 by the distance, whose square root is steep where two points are equal.
#[derive(Clone, Debug)]
pub struct Matern {
    pub is_smooth: bool,
}

impl KernelFormula for Matern {
    const NAME: &'static str = "own_matern";

    fn parameters(&self) -> Vec<Parameter> {
        positive(&["variance", "lengthscale"])
    }

    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        let distance = (0..x.len()).map(|d| ((x[d] - z[d]) / p[1]).powi(2)).sum::<Real<D>>().sqrt();
        if !self.is_smooth {
            return p[0] * (-distance).exp();
        }
        let scaled = 3f64.sqrt() * distance;
        p[0] * (1.0 + scaled) * (-scaled).exp()
    }
}

/// A function whose lengthscale grows along the first input (Gibbs 1997), and its logarithm, which fails for inputs up to −`room`.
#[derive(Clone, Debug)]
pub struct Stretched {
    pub room: f64,
}

impl KernelFormula for Stretched {
    const NAME: &'static str = "stretched";

    fn parameters(&self) -> Vec<Parameter> {
        positive(&["variance", "growth"])
    }

    fn value<D: Derivatives>(&self, p: &[Real<D>], x: &[Real<D>], z: &[Real<D>]) -> Real<D> {
        let length = |x: Real<D>| (1.0 + p[1] * (x + self.room).ln().powi(2)).sqrt();
        let (a, b) = (length(x[0]), length(z[0]));
        let squares = a * a + b * b;
        p[0] * (2.0 * a * b / squares).sqrt() * (-(x[0] - z[0]).powi(2) / squares).exp()
    }
}
