//! A kernel as a user would write it, outside the crate.

use faer::{MatMut, MatRef};
use sparsegp_kernels::{Entry, Evaluated, Gradient, Inputs, Kernel, Parameter, Scratch, Transform};

/// `variance · Σ_d (1 + Δ_d²/ℓ²)⁻ⁿ / D`: an additive kernel of inverse multiquadrics, positive definite for every power n.
#[derive(Clone, Debug)]
pub struct Additive {
    power: u32,
    variance: Parameter,
    lengthscale: Parameter,
}

impl Additive {
    pub const ENTRY: Entry = Entry {
        names: &["additive_imq", "imq"],
        build: |options| {
            let power = options.integer("power", 1, 1..=4)?;
            if options.dims() == 0 {
                return Err(options.refusal("power", "'additive_imq' needs a column"));
            }
            Ok(Box::new(Additive {
                power,
                variance: Parameter::positive("variance", vec![1.0]),
                lengthscale: Parameter::new(
                    "lengthscale",
                    vec![1.0],
                    Transform::Bounded { lower: 0.0, upper: 50.0 },
                ),
            }))
        },
    };

    fn base(&self, difference: f64) -> f64 {
        1.0 + (difference / self.lengthscale.at(0)).powi(2)
    }

    fn value(&self, x: MatRef<'_, f64>, i: usize, z: MatRef<'_, f64>, j: usize) -> f64 {
        let terms = (0..x.ncols()).map(|d| self.base(x[(i, d)] - z[(j, d)]).powi(-(self.power as i32)));
        self.variance.at(0) * terms.sum::<f64>() / x.ncols() as f64
    }
}

impl Kernel for Additive {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, _: &mut Scratch) {
        let (x, z) = inputs.sides();
        for j in 0..z.nrows() {
            for i in 0..x.nrows() {
                out[(i, j)] = self.value(x, i, z, j);
            }
        }
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, _: &mut Scratch) {
        let Evaluated { inputs, k, kbar } = at;
        let Gradient { parameters, mut left, mut right } = grad;
        let (x, z) = inputs.sides();
        let (variance, length) = (self.variance.at(0), self.lengthscale.at(0));
        for j in 0..z.nrows() {
            for i in 0..x.nrows() {
                if let Some(slot) = parameters.first_mut() {
                    *slot += kbar[(i, j)] * k[(i, j)] / variance;
                }
                for d in 0..x.ncols() {
                    let u = (x[(i, d)] - z[(j, d)]) / length;
                    let slope = self.base(u * length).powi(-(self.power as i32) - 1);
                    let bar = -2.0 * f64::from(self.power) * variance / x.ncols() as f64 * slope * u / length
                        * kbar[(i, j)];
                    if let Some(slot) = parameters.get_mut(1) {
                        *slot -= bar * u;
                    }
                    if let Some(left) = &mut left {
                        left[(i, d)] += bar;
                    }
                    let other = if matches!(inputs, Inputs::Gram(_)) { &mut left } else { &mut right };
                    if let Some(other) = other {
                        other[(j, d)] -= bar;
                    }
                }
            }
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
        visit(&self.lengthscale);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
        visit(&mut self.lengthscale);
    }

    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        self.lengthscale.start_from_spread(spread, |s, _| s);
    }

    fn expression(&self) -> String {
        format!("additive_imq(power={})", self.power)
    }
}
