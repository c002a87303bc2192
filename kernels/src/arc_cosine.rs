//! Arc-cosine kernels: infinitely wide one-layer networks with step, ramp and squared-ramp units.

use crate::compose::split;
use crate::distance::{Measure, ScaledPair};
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, check_each, expression_with};
use crate::matrix::{Sides, column, column_mut};
use crate::parameter::Parameter;
use faer::{MatMut, MatRef};
use std::f64::consts::{FRAC_1_PI, PI};

/// `variance/π · J(θ) · (q(x) q(x'))^(order/2)` with `q(x) = Σ_d w_d x_d² + b`, `cos θ = (Σ_d w_d x_d x'_d + b)/√(q(x) q(x'))`
/// (Cho and Saul, 2009) and
/// `J₀ = π − θ`, `J₁ = sin θ + (π − θ) cos θ`, `J₂ = 3 sin θ cos θ + (π − θ)(1 + 2 cos² θ)`.
///
/// The angle comes from the chord between the unit vectors along `(√w_d x_d, √b)`, which keeps the digits of a small
/// angle that its cosine has lost. At `x = x'` order 0 has a kink, where the derivative in the angle is taken as 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ArcCosine {
    order: u32,
    variance: Parameter,
    weights: Parameter,
    bias: Parameter,
}

impl ArcCosine {
    /// The highest order with a formula.
    pub const MAX_ORDER: u32 = 2;

    /// Creates the kernel with `variance` in squared units of the target (for the higher orders,
    /// per `q^order`); `weight_variances` in inverse squared units of the inputs, one for all
    /// dimensions or one per dimension; `bias_variance > 0` without unit.
    /// [`Kernel::check`] refuses an order above [`ArcCosine::MAX_ORDER`].
    pub fn new(order: u32, variance: f64, weight_variances: &[f64], bias_variance: f64) -> Self {
        ArcCosine {
            order,
            variance: Parameter::start_at("variance", &[variance]),
            weights: Parameter::start_at("weight_variances", weight_variances),
            bias: Parameter::start_at("bias_variance", &[bias_variance]),
        }
    }

    /// `J(θ)` from the squared chord `4 sin²(θ/2)`.
    fn angular(&self, chord2: f64) -> f64 {
        let (angle, sin, cos) = angle(chord2);
        match self.order {
            0 => PI - angle,
            1 => sin + (PI - angle) * cos,
            _ => 3.0 * sin * cos + (PI - angle) * (1.0 + 2.0 * cos * cos),
        }
    }

    /// `dJ/d(chord²)`, from `dθ/d(chord²) = 1/(2 sin θ)`.
    fn angular_slope(&self, chord2: f64) -> f64 {
        let (angle, sin, cos) = angle(chord2);
        match self.order {
            0 if sin > 0.0 => -0.5 / sin,
            0 => 0.0,
            1 => -0.5 * (PI - angle),
            _ => -2.0 * (sin + (PI - angle) * cos),
        }
    }

    /// `q` of one point.
    fn square(&self, x: MatRef<'_, f64>, i: usize) -> f64 {
        self.bias.at(0) + (0..x.ncols()).map(|d| self.weights.at(d) * x[(i, d)] * x[(i, d)]).sum::<f64>()
    }

    /// `q^(order/2)`.
    fn radial(&self, square: f64) -> f64 {
        match self.order {
            0 => 1.0,
            1 => square.sqrt(),
            _ => square,
        }
    }

    /// `k(x, x)` of a point with this `q`.
    fn at_zero_angle(&self, square: f64) -> f64 {
        let radial = self.radial(square);
        self.variance.at(0) * FRAC_1_PI * self.angular(0.0) * (radial * radial)
    }

    /// Returns the unit vectors of the points (`D + 1` columns), and `q` of the points.
    fn sides(&self, inputs: Inputs<'_>, scratch: &mut Scratch) -> [Sides; 2] {
        let dims = inputs.dims();
        self.weights.check_dims(dims);
        let units = |x: MatRef<'_, f64>, units: &mut [f64]| {
            let n = x.nrows();
            for i in 0..n {
                let inverse = inverse_root(self.square(x, i));
                for d in 0..dims {
                    units[d * n + i] = self.weights.at(d).sqrt() * x[(i, d)] * inverse;
                }
                units[dims * n + i] = self.bias.at(0).sqrt() * inverse;
            }
        };
        let squares = |x: MatRef<'_, f64>, squares: &mut [f64]| {
            squares.iter_mut().enumerate().for_each(|(i, square)| *square = self.square(x, i));
        };
        [Sides::of(inputs, dims + 1, scratch, units), Sides::of(inputs, 1, scratch, squares)]
    }

    /// Returns `Σ_ij K̄_ij K_ij`, the gradient in the squared norms of both sides, and K̄ times the factors that do not depend on the angle.
    fn radial_adjoint(
        &self,
        at: Evaluated<'_>,
        squares: &Sides,
        scratch: &mut Scratch,
    ) -> (f64, Sides, Vec<f64>) {
        let Evaluated { inputs, k, kbar } = at;
        let (rows, cols) = inputs.shape();
        let gram = matches!(inputs, Inputs::Gram(_));
        let mut bars = Sides::zeros(inputs, 1, scratch);
        let mut angular_bar = scratch.take(rows * cols);
        let (mut k_buffer, mut kbar_buffer) = (scratch.take(rows), scratch.take(rows));
        let factor = self.variance.at(0) * FRAC_1_PI;
        let [left, right] = squares.pair(inputs);
        let mut total = 0.0;
        for (j, angular_bar) in angular_bar.chunks_exact_mut(rows).enumerate() {
            let radial = factor * self.radial(right[j]);
            let k = column(k, j, &mut k_buffer);
            let kbar = column(kbar, j, &mut kbar_buffer);
            let mut column_total = 0.0;
            for i in 0..rows {
                let product = kbar[i] * k[i];
                column_total += product;
                bars.left[i] += product;
                angular_bar[i] = kbar[i] * radial * self.radial(left[i]);
            }
            let right_bar = if gram { &mut bars.left } else { &mut bars.right };
            right_bar[j] += column_total;
            total += column_total;
        }
        let half_order = 0.5 * self.order as f64;
        for (bars, squares) in [(&mut bars.left, &squares.left), (&mut bars.right, &squares.right)] {
            for (bar, &square) in bars.iter_mut().zip(squares) {
                *bar *= half_order / square.max(f64::MIN_POSITIVE);
            }
        }
        scratch.give_all([k_buffer, kbar_buffer]);
        (total, bars, angular_bar)
    }

    /// Converts the gradients in unit vectors and squares of one side to gradients in its points, the weights and the bias.
    fn chain(
        &self,
        x: MatRef<'_, f64>,
        units: &[f64],
        [units_bar, squares_bar]: [&[f64]; 2],
        mut points: Option<MatMut<'_, f64>>,
        parameters: &mut [f64],
    ) {
        let (n, dims) = (x.nrows(), x.ncols());
        let (weights, bias) = split(parameters, self.weights.values.len());
        for i in 0..n {
            let inverse = inverse_root(self.square(x, i));
            let along: f64 = (0..=dims).map(|c| units[c * n + i] * units_bar[c * n + i]).sum();
            // Per unit of the vector (√w x, √b): its direction, then its length.
            let vector_bar = |c: usize, value: f64| {
                let direction = units_bar[c * n + i] - units[c * n + i] * along;
                direction * inverse + 2.0 * value * squares_bar[i]
            };
            for d in 0..dims {
                let root = self.weights.at(d).sqrt();
                let bar = vector_bar(d, root * x[(i, d)]);
                if let Some(points) = &mut points {
                    points[(i, d)] += bar * root;
                }
                if let Some(weight) = weights.get_mut(self.weights.slot(d)) {
                    *weight += bar * x[(i, d)] * 0.5 * inverse_root(self.weights.at(d));
                }
            }
            if let Some(bias) = bias.first_mut() {
                let root = self.bias.at(0).sqrt();
                *bias += vector_bar(dims, root) * 0.5 * inverse_root(self.bias.at(0));
            }
        }
    }
}

/// `θ, sin θ, cos θ` from `4 sin²(θ/2)`.
fn angle(chord2: f64) -> (f64, f64, f64) {
    let half = 0.5 * chord2.sqrt();
    let half = if half > 1.0 { 1.0 } else { half };
    (2.0 * half.asin(), 2.0 * half * (1.0 - half * half).sqrt(), 1.0 - 2.0 * half * half)
}

/// Returns `1/√v`, or 0 if that does not exist, so that the zero vector stays zero.
fn inverse_root(v: f64) -> f64 {
    if v > 0.0 { 1.0 / v.sqrt() } else { 0.0 }
}

impl Kernel for ArcCosine {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        if out.nrows() == 0 || out.ncols() == 0 {
            return;
        }
        let [units, squares] = self.sides(inputs, scratch);
        let mut scales = scratch.take(inputs.dims() + 1);
        scales.fill(1.0);
        let factor = self.variance.at(0) * FRAC_1_PI;
        let measure = Measure { scales: &scales, dimensions: &[] };
        let pair = ScaledPair::new(units.inputs(inputs), measure, self.order == 0, scratch);
        pair.evaluate(out.as_mut(), factor * self.angular(0.0), &|run| {
            for value in run {
                *value = factor * self.angular(*value);
            }
        });
        pair.release(scratch);
        if self.order > 0 {
            let [left, right] = squares.pair(inputs);
            for (j, &square) in right.iter().enumerate() {
                let radial = self.radial(square);
                for (value, &other) in column_mut(&mut out, j).iter_mut().zip(left) {
                    *value *= radial * self.radial(other);
                }
            }
        }
        [units, squares].into_iter().for_each(|sides| sides.release(scratch));
        scratch.give(scales);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let inputs = at.inputs;
        let (rows, cols) = inputs.shape();
        if rows == 0 || cols == 0 {
            return;
        }
        let (x, z) = inputs.distinct_sides();
        let [units, squares] = self.sides(inputs, scratch);
        let (total, squares_bar, angular_bar) = self.radial_adjoint(at, &squares, scratch);
        let mut units_bar = Sides::zeros(inputs, x.ncols() + 1, scratch);
        let mut scales = scratch.take(x.ncols() + 1);
        scales.fill(1.0);
        let measure = Measure { scales: &scales, dimensions: &[] };
        let of_units = units.inputs(inputs);
        let pair = ScaledPair::new(of_units, measure, self.order == 0, scratch);
        let mut weigh = |run: &mut [f64], _: &[f64], kbar: &[f64]| {
            run.iter_mut().zip(kbar).for_each(|(value, kbar)| *value = kbar * self.angular_slope(*value));
        };
        let angular = MatRef::from_column_major_slice(&angular_bar, rows, cols);
        let bars = units_bar.gradient(inputs, &mut []);
        pair.adjoint(of_units.evaluated(at.k, angular), true, &mut weigh, bars, scratch);
        pair.release(scratch);
        let (variance, rest) = split(grad.parameters, 1);
        variance.iter_mut().for_each(|bar| *bar += total / self.variance.at(0).max(f64::MIN_POSITIVE));
        self.chain(x, &units.left, [&units_bar.left, &squares_bar.left], grad.left, rest);
        self.chain(z, &units.right, [&units_bar.right, &squares_bar.right], grad.right, rest);
        for sides in [units, squares, units_bar, squares_bar] {
            sides.release(scratch);
        }
        scratch.give_all([angular_bar, scales]);
    }

    fn diag(&self, x: MatRef<'_, f64>, out: &mut [f64], _scratch: &mut Scratch) {
        self.weights.check_dims(x.ncols());
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.at_zero_angle(self.square(x, i));
        }
    }

    fn diag_adjoint(&self, x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _scratch: &mut Scratch) {
        let mut points = grad.left;
        for (i, &kbar) in kbar.iter().enumerate() {
            let square = self.square(x, i);
            let k = kbar * self.at_zero_angle(square);
            let square_bar = self.order as f64 * k / square.max(f64::MIN_POSITIVE);
            if let [variance, rest @ ..] = &mut *grad.parameters {
                *variance += k / self.variance.at(0).max(f64::MIN_POSITIVE);
                for d in 0..x.ncols() {
                    rest[self.weights.slot(d)] += square_bar * x[(i, d)] * x[(i, d)];
                }
                rest[self.weights.values.len()] += square_bar;
            }
            if let Some(points) = &mut points {
                for d in 0..x.ncols() {
                    points[(i, d)] += 2.0 * square_bar * self.weights.at(d) * x[(i, d)];
                }
            }
        }
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        [&self.variance, &self.weights, &self.bias].into_iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        [&mut self.variance, &mut self.weights, &mut self.bias].into_iter().for_each(visit);
    }

    /// For centred inputs: `Σ_d w_d x_d²` and the bias both about 1, the variance such that `k(x, x)` is the target
    /// there.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.weights.start_from_spread(spread, |s, dims| 1.0 / (dims * s * s));
        self.bias.start(|_| 1.0);
        let along = spread.iter().enumerate().map(|(d, s)| self.weights.at(d) * s * s);
        let square = self.bias.at(0) + along.sum::<f64>();
        let radial = self.radial(square);
        let unit = FRAC_1_PI * self.angular(0.0) * radial * radial;
        self.variance.start(|_| target_variance / unit);
    }

    fn check(&self, dims: usize) -> Result<(), String> {
        if self.order > Self::MAX_ORDER {
            let (order, most) = (self.order, Self::MAX_ORDER);
            return Err(format!(
                "the order of an arc-cosine kernel is {order}, expected one from 0 to {most}"
            ));
        }
        check_each(&self.expression(), &[&self.weights], dims)
    }

    fn expression(&self) -> String {
        let ard = self.weights.per_dimension().then(|| "ard".to_owned());
        expression_with("arccosine", &[ard, Some(format!("order={}", self.order))])
    }
}
