//! Periodic and cosine kernels, through sines and cosines of each point.

use crate::distance::{Measure, PairGradient};
use crate::entry::Entry;
use crate::kernel::{
    Gradient, Inputs, Kernel, Scratch, check_each, constant_diag_adjoint, expression_with, units_along,
};
use crate::matrix::mirror_upper;
use crate::parameter::Parameter;
use crate::profile::{Coefficients, Profile, Scaled};
use crate::random_feature::{Chance, Line, RandomFeature, Wave};
use crate::units::Unit;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::f64::consts::PI;

pub(crate) const PERIODIC: Entry = Entry {
    names: &["periodic"],
    flags: &["ard", "ard_period"],
    arguments: &[],
    parameters: &["variance", "lengthscales", "period"],
    build: |options| {
        let (lengthscales, period) =
            (options.ones("lengthscales", "ard"), options.ones("period", "ard_period"));
        Ok(Box::new(Periodic::new(1.0, &lengthscales, &period)))
    },
};

pub(crate) const COSINE: Entry = Entry {
    names: &["cosine"],
    flags: &["ard"],
    arguments: &[],
    parameters: &["variance", "lengthscales"],
    build: |options| Ok(Box::new(Cosine::new(1.0, &options.ones("lengthscales", "ard")))),
};

/// Returns the mean of column `d`, which is subtracted first. Both kernels depend on differences
/// only, and small phases keep their digits.
fn centre(x: MatRef<'_, f64>, d: usize) -> f64 {
    let mean = x.col(d).iter().sum::<f64>() / x.nrows().max(1) as f64;
    if mean.is_finite() { mean } else { 0.0 }
}

/// `variance · exp(−½ Σ_d sin²(π (x_d − x'_d)/period_d) / ℓ_d²)`.
///
/// Because `4 sin²((a − b)/2) = ‖(cos a, sin a) − (cos b, sin b)‖²`, the kernel is a squared
/// exponential of the `2D` features `cos(2π x_d/period_d), sin(2π x_d/period_d)` with lengthscales
/// `2ℓ_d`, and it is computed as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Periodic {
    variance: Parameter,
    lengthscales: Parameter,
    period: Parameter,
}

impl Periodic {
    /// Creates the kernel with `variance` in squared units of the target, `lengthscales` without
    /// unit (the sine is 1 at half a period), `period` in units of the inputs. The last two hold
    /// one value for all dimensions or one per dimension.
    pub fn new(variance: f64, lengthscales: &[f64], period: &[f64]) -> Self {
        Periodic {
            variance: Parameter::start_at("variance", &[variance]),
            lengthscales: Parameter::start_at("lengthscales", lengthscales),
            period: Parameter::start_at("period", period),
        }
    }

    /// Cosines and sines of the `N` points, `N × 2D`, one contiguous run per feature.
    fn features(&self, x: MatRef<'_, f64>, origin: MatRef<'_, f64>, scratch: &mut Scratch) -> Vec<f64> {
        let (n, dims) = (x.nrows(), x.ncols());
        let mut features = scratch.take(2 * n * dims);
        for (d, pair) in features.chunks_exact_mut((2 * n).max(1)).enumerate() {
            let (centre, rate) = (centre(origin, d), 2.0 * PI / self.period.at(d));
            let (cosines, sines) = pair.split_at_mut(n);
            for ((cosine, sine), &x) in cosines.iter_mut().zip(sines).zip(x.col(d).iter()) {
                (*sine, *cosine) = ((x - centre) * rate).sin_cos();
            }
        }
        features
    }

    fn scales(&self, dims: usize, scratch: &mut Scratch) -> Vec<f64> {
        self.lengthscales.check_dims(dims);
        self.period.check_dims(dims);
        let mut scales = scratch.take(2 * dims);
        for (c, scale) in scales.iter_mut().enumerate() {
            *scale = 0.5 / self.lengthscales.at(c / 2);
        }
        scales
    }

    fn scaled<'a>(&self, scales: &'a [f64]) -> Scaled<'a> {
        let c = Coefficients { variance: self.variance.at(0), alpha: 1.0 };
        Scaled { profile: Profile::SquaredExponential, c, measure: Measure { scales, dimensions: &[] } }
    }

    /// Adds the gradient in the points and in the periods that follows from the gradient in the
    /// features of one side.
    fn chain(&self, side: Side<'_>, mut points: Option<MatMut<'_, f64>>, period: &mut [f64]) {
        let n = side.x.nrows();
        for d in 0..side.x.ncols() {
            let (centre, rate) = (centre(side.origin, d), 2.0 * PI / self.period.at(d));
            for i in 0..n {
                let (cosine, sine) = (2 * d * n + i, (2 * d + 1) * n + i);
                let phase =
                    side.features[cosine] * side.gradient[sine] - side.features[sine] * side.gradient[cosine];
                if let Some(points) = &mut points {
                    points[(i, d)] += phase * rate;
                }
                if let Some(period) = period.get_mut(self.period.slot(d)) {
                    *period -= phase * rate * (side.x[(i, d)] - centre) / self.period.at(d);
                }
            }
        }
    }
}

/// One argument of the kernel: its points, their centre, their features and the gradient in the features.
struct Side<'a> {
    x: MatRef<'a, f64>,
    origin: MatRef<'a, f64>,
    features: &'a [f64],
    gradient: &'a [f64],
}

/// Returns inputs of the same kind, made of features with `2D` columns.
fn feature_inputs<'a>(inputs: Inputs<'_>, left: &'a [f64], right: &'a [f64]) -> Inputs<'a> {
    let (rows, cols) = inputs.shape();
    let left = MatRef::from_column_major_slice(left, rows, 2 * inputs.dims());
    match inputs {
        Inputs::Gram(_) => Inputs::Gram(left),
        Inputs::Cross { .. } => {
            Inputs::Cross { left, right: MatRef::from_column_major_slice(right, cols, 2 * inputs.dims()) }
        }
    }
}

impl Kernel for Periodic {
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let (x, z) = inputs.distinct_sides();
        let scales = self.scales(inputs.dims(), scratch);
        let left = self.features(x, x, scratch);
        let right = self.features(z, x, scratch);
        self.scaled(&scales).evaluate(feature_inputs(inputs, &left, &right), out, scratch);
        for buffer in [scales, left, right] {
            scratch.give(buffer);
        }
    }

    fn adjoint(
        &self,
        inputs: Inputs<'_>,
        k: MatRef<'_, f64>,
        kbar: MatRef<'_, f64>,
        grad: Gradient<'_>,
        scratch: &mut Scratch,
    ) {
        let (x, z) = inputs.distinct_sides();
        let dims = inputs.dims();
        let scales = self.scales(dims, scratch);
        let left = self.features(x, x, scratch);
        let right = self.features(z, x, scratch);
        let mut left_bar = scratch.take(left.len());
        let mut right_bar = scratch.take(right.len());
        let mut log_scales = scratch.take(2 * dims);
        for buffer in [&mut left_bar, &mut right_bar, &mut log_scales] {
            buffer.fill(0.0);
        }
        let pair = PairGradient {
            log_scales: &mut log_scales,
            left: Some(MatMut::from_column_major_slice_mut(&mut left_bar, x.nrows(), 2 * dims)),
            right: Some(MatMut::from_column_major_slice_mut(&mut right_bar, z.nrows(), 2 * dims)),
        };
        let sums =
            self.scaled(&scales).adjoint(feature_inputs(inputs, &left, &right), k, kbar, pair, scratch);
        let mut period: &mut [f64] = &mut [];
        if let [variance, rest @ ..] = grad.parameters {
            *variance += sums.value / self.variance.at(0).max(f64::MIN_POSITIVE);
            let (lengthscales, periods) = rest.split_at_mut(self.lengthscales.values.len());
            for (c, log_scale) in log_scales.iter().enumerate() {
                lengthscales[self.lengthscales.slot(c / 2)] -= log_scale / self.lengthscales.at(c / 2);
            }
            period = periods;
        }
        self.chain(Side { x, origin: x, features: &left, gradient: &left_bar }, grad.left, period);
        self.chain(Side { x: z, origin: x, features: &right, gradient: &right_bar }, grad.right, period);
        for buffer in [scales, left, right, left_bar, right_bar, log_scales] {
            scratch.give(buffer);
        }
    }

    fn diag(&self, _x: MatRef<'_, f64>, out: &mut [f64], _scratch: &mut Scratch) {
        out.fill(self.variance.at(0));
    }

    fn diag_adjoint(&self, _x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _scratch: &mut Scratch) {
        constant_diag_adjoint(kbar, grad);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        [&self.variance, &self.lengthscales, &self.period].into_iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        [&mut self.variance, &mut self.lengthscales, &mut self.period].into_iter().for_each(visit);
    }

    /// Periods start at one spread (a uniform input then shows about 3.5 of them), lengthscales at `½√D`, where two
    /// random points correlate by about `exp(−1)`.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        self.lengthscales.start_from_spread(spread, |_, dims| 0.5 * dims.sqrt());
        self.period.start_from_spread(spread, |s, _| s);
    }

    /// Returns a wave whose phase has a random harmonic of the period in every column:
    /// `exp(κ cos θ) e^−κ = Σ_k e^−κ I_k(κ) e^{ikθ}` with `κ = 1/(4ℓ²)`.
    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let phase = Line::new(0.0, dims, &[], chance, |d, _, chance| {
            let rate = 0.25 / self.lengthscales.at(d).powi(2);
            2.0 * PI * chance.skellam(rate) / self.period.at(d)
        });
        Some(Box::new(Wave::new(self.variance.at(0).sqrt(), phase, chance)))
    }

    /// Only the period is a length; lengthscales are relative to it.
    fn units(&self, dims: usize) -> Vec<Unit> {
        let relative = vec![Unit::default(); self.lengthscales.values.len()];
        [vec![Unit::of_target(2.0)], relative, units_along(&self.period, 1.0, dims)].concat()
    }

    /// Lengthscales and periods each fit the columns.
    fn check(&self, dims: usize) -> Result<(), String> {
        check_each(self, &[&self.lengthscales, &self.period], dims)
    }

    fn expression(&self) -> String {
        let option = |parameter: &Parameter, name: &str| parameter.per_dimension().then(|| name.to_owned());
        expression_with("periodic", &[option(&self.lengthscales, "ard"), option(&self.period, "ard_period")])
    }

    fn min_dims(&self) -> usize {
        self.lengthscales.dims().max(self.period.dims())
    }

    fn boxed_clone(&self) -> Box<dyn Kernel> {
        Box::new(self.clone())
    }
}

/// `variance · cos(2π Σ_d (x_d − x'_d)/ℓ_d)`: with the phase `a = 2π Σ_d x_d/ℓ_d`, the product of
/// `(cos a, sin a)` with `(cos a', sin a')`. The kernel has rank two, so it is mostly used as a
/// factor or a term.
#[derive(Clone, Debug, PartialEq)]
pub struct Cosine {
    variance: Parameter,
    lengthscales: Parameter,
}

impl Cosine {
    /// Creates the kernel with `variance` in squared units of the target; `lengthscales`
    /// (wavelengths) in units of the inputs, one for all dimensions or one per dimension.
    pub fn new(variance: f64, lengthscales: &[f64]) -> Self {
        Cosine {
            variance: Parameter::start_at("variance", &[variance]),
            lengthscales: Parameter::start_at("lengthscales", lengthscales),
        }
    }

    /// `N × 2`: cosines, then sines of the phases of the points.
    fn features(&self, x: MatRef<'_, f64>, origin: MatRef<'_, f64>, scratch: &mut Scratch) -> Vec<f64> {
        self.lengthscales.check_dims(x.ncols());
        let n = x.nrows();
        let mut features = scratch.take(2 * n);
        let (cosines, sines) = features.split_at_mut(n);
        cosines.fill(0.0);
        for d in 0..x.ncols() {
            let (centre, rate) = (centre(origin, d), 2.0 * PI / self.lengthscales.at(d));
            for (phase, &x) in cosines.iter_mut().zip(x.col(d).iter()) {
                *phase += (x - centre) * rate;
            }
        }
        for (cosine, sine) in cosines.iter_mut().zip(sines) {
            (*sine, *cosine) = cosine.sin_cos();
        }
        features
    }

    /// Adds the contribution of one side, given the features and `products = kbar · (features of the other side)`.
    fn chain(&self, side: Side<'_>, mut points: Option<MatMut<'_, f64>>, lengthscales: &mut [f64]) {
        let n = side.x.nrows();
        let variance = self.variance.at(0);
        let (cosines, sines) = side.features.split_at(n);
        let (by_cosine, by_sine) = side.gradient.split_at(n);
        for d in 0..side.x.ncols() {
            let (centre, length) = (centre(side.origin, d), self.lengthscales.at(d));
            for i in 0..n {
                let phase =
                    variance * (cosines[i] * by_sine[i] - sines[i] * by_cosine[i]) * (2.0 * PI / length);
                if let Some(points) = &mut points {
                    points[(i, d)] += phase;
                }
                if let Some(slot) = lengthscales.get_mut(self.lengthscales.slot(d)) {
                    *slot -= phase * (side.x[(i, d)] - centre) / length;
                }
            }
        }
    }
}

fn two_columns(features: &[f64]) -> MatRef<'_, f64> {
    MatRef::from_column_major_slice(features, features.len() / 2, 2)
}

impl Kernel for Cosine {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let (x, z) = inputs.sides();
        let left = self.features(x, x, scratch);
        let right = self.features(z, x, scratch);
        let variance = self.variance.at(0);
        let transposed = two_columns(&right).transpose();
        matmul(out.as_mut(), Accum::Replace, two_columns(&left), transposed, variance, Par::Seq);
        if let Inputs::Gram(x) = inputs {
            for i in 0..x.nrows() {
                out[(i, i)] = variance;
            }
            mirror_upper(out);
        }
        scratch.give(left);
        scratch.give(right);
    }

    fn adjoint(
        &self,
        inputs: Inputs<'_>,
        _k: MatRef<'_, f64>,
        kbar: MatRef<'_, f64>,
        grad: Gradient<'_>,
        scratch: &mut Scratch,
    ) {
        let (x, z) = inputs.sides();
        let left = self.features(x, x, scratch);
        let right = self.features(z, x, scratch);
        let mut left_bar = scratch.take(left.len());
        let mut right_bar = scratch.take(right.len());
        for (bar, kbar, other) in [(&mut left_bar, kbar, &right), (&mut right_bar, kbar.transpose(), &left)] {
            let n = kbar.nrows();
            let bar = MatMut::from_column_major_slice_mut(bar, n, 2);
            matmul(bar, Accum::Replace, kbar, two_columns(other), 1.0, Par::Seq);
        }
        let mut lengthscales: &mut [f64] = &mut [];
        if let [variance, rest @ ..] = grad.parameters {
            *variance += left.iter().zip(&left_bar).map(|(feature, bar)| feature * bar).sum::<f64>();
            lengthscales = rest;
        }
        let mut left_points = grad.left;
        let right_side = Side { x: z, origin: x, features: &right, gradient: &right_bar };
        let right_points = match inputs {
            Inputs::Gram(_) => left_points.as_mut().map(|points| points.as_mut()),
            Inputs::Cross { .. } => grad.right,
        };
        self.chain(right_side, right_points, lengthscales);
        self.chain(Side { x, origin: x, features: &left, gradient: &left_bar }, left_points, lengthscales);
        for buffer in [left, right, left_bar, right_bar] {
            scratch.give(buffer);
        }
    }

    fn diag(&self, _x: MatRef<'_, f64>, out: &mut [f64], _scratch: &mut Scratch) {
        out.fill(self.variance.at(0));
    }

    fn diag_adjoint(&self, _x: MatRef<'_, f64>, kbar: &[f64], grad: Gradient<'_>, _scratch: &mut Scratch) {
        constant_diag_adjoint(kbar, grad);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        [&self.variance, &self.lengthscales].into_iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        [&mut self.variance, &mut self.lengthscales].into_iter().for_each(visit);
    }

    /// Wavelengths start at `4 · spread_d · √D`: one wavelength spans about the data.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        self.lengthscales.start_from_spread(spread, |s, dims| 4.0 * s * dims.sqrt());
    }

    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let rate = |d: usize, _: bool, _: &mut Chance<'_>| 2.0 * PI / self.lengthscales.at(d);
        let phase = Line::new(0.0, dims, &[], chance, rate);
        Some(Box::new(Wave::new(self.variance.at(0).sqrt(), phase, chance)))
    }

    fn expression(&self) -> String {
        expression_with("cosine", &[self.lengthscales.per_dimension().then(|| "ard".to_owned())])
    }

    fn min_dims(&self) -> usize {
        self.lengthscales.dims()
    }

    fn boxed_clone(&self) -> Box<dyn Kernel> {
        Box::new(self.clone())
    }
}
