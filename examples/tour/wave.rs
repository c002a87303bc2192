//! An own kernel: waves of one period, `k(x, z) = variance · cos(2π (x − z)/period)`.

use sparsegp::faer::MatMut;
use sparsegp::kernels::units::Unit;
use sparsegp::kernels::{Evaluated, Gradient, Inputs, Kernel, Parameter, Scratch};
use std::f64::consts::TAU;

#[derive(Clone, Debug)]
pub struct Wave {
    variance: Parameter,
    period: Parameter,
}

impl Wave {
    /// Creates the kernel with starting values in the units of the target (squared) and of the input.
    pub fn new(variance: f64, period: f64) -> Wave {
        let one = |name: &str, value: f64| Parameter::positive(name, vec![value]).as_given();
        Wave { variance: one("variance", variance), period: one("period", period) }
    }
}

impl Kernel for Wave {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _: &mut Scratch) {
        let (x, z) = inputs.sides();
        for j in 0..z.nrows() {
            for i in 0..x.nrows() {
                let angle = TAU * (x[(i, 0)] - z[(j, 0)]) / self.period.at(0);
                out[(i, j)] = self.variance.at(0) * angle.cos();
            }
        }
    }

    /// The chain rule: `kbar` has the gradient in every covariance.
    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, _: &mut Scratch) {
        let Evaluated { inputs, k, kbar } = at;
        let Gradient { parameters, mut left, mut right } = grad;
        let (x, z) = inputs.sides();
        let (variance, period) = (self.variance.at(0), self.period.at(0));
        for j in 0..z.nrows() {
            for i in 0..x.nrows() {
                let angle = TAU * (x[(i, 0)] - z[(j, 0)]) / period;
                let by_angle = -kbar[(i, j)] * variance * angle.sin();
                // The slices are empty and the matrices absent if the caller does not need that gradient.
                if let [of_variance, of_period, ..] = parameters {
                    *of_variance += kbar[(i, j)] * k[(i, j)] / variance;
                    *of_period -= by_angle * angle / period;
                }
                if let Some(left) = &mut left {
                    left[(i, 0)] += by_angle * TAU / period;
                }
                // In K(Z, Z), both sides are the same points.
                let other = if matches!(inputs, Inputs::Gram(_)) { &mut left } else { &mut right };
                if let Some(other) = other {
                    other[(j, 0)] -= by_angle * TAU / period;
                }
            }
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
        visit(&self.period);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
        visit(&mut self.period);
    }

    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        self.period.start_from_spread(spread, |s, _| s);
    }

    fn units(&self, _: usize) -> Vec<Unit> {
        vec![Unit::of_target(2.0), Unit::of_columns(1.0, vec![0])]
    }

    fn expression(&self) -> String {
        "wave".to_owned()
    }
}
