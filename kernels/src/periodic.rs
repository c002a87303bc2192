//! Periodic and cosine kernels, through sines and cosines of each point.

use crate::distance::Measure;
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, check_each, expression_with, units_along};
use crate::matrix::{Sides, mirror_upper};
use crate::parameter::Parameter;
use crate::profile::{Coefficients, Profile, Scaled};
use crate::random_feature::{Chance, Line, RandomFeature, Wave};
use crate::units::Unit;
use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use std::f64::consts::PI;

/// The phases `2π (x_d − centre_d)/length_d` of points. Kernels of them depend on differences only, so the centres are subtracted, and small
/// phases keep their digits.
#[derive(Clone, Copy)]
struct Phases<'a> {
    /// The points whose means are the centres.
    origin: MatRef<'a, f64>,
    lengths: &'a Parameter,
}

impl Phases<'_> {
    /// Returns the centre and `2π/length` of column `d`.
    fn column(self, d: usize) -> (f64, f64) {
        let mean = self.origin.col(d).iter().sum::<f64>() / self.origin.nrows().max(1) as f64;
        (if mean.is_finite() { mean } else { 0.0 }, 2.0 * PI / self.lengths.at(d))
    }

    /// Adds the gradients in the points and in the lengths, given `bar(d, i)`, the gradient in the phase of column `d` of point `i`.
    fn adjoint(
        self,
        x: MatRef<'_, f64>,
        bar: impl Fn(usize, usize) -> f64,
        mut points: Option<MatMut<'_, f64>>,
        lengths: &mut [f64],
    ) {
        for d in 0..x.ncols() {
            let (centre, rate) = self.column(d);
            for i in 0..x.nrows() {
                let bar = bar(d, i) * rate;
                if let Some(points) = &mut points {
                    points[(i, d)] += bar;
                }
                if let Some(length) = lengths.get_mut(self.lengths.slot(d)) {
                    *length -= bar * (x[(i, d)] - centre) / self.lengths.at(d);
                }
            }
        }
    }
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

    fn phases<'a>(&'a self, inputs: Inputs<'a>) -> Phases<'a> {
        Phases { origin: inputs.sides().0, lengths: &self.period }
    }

    /// Cosines and sines of the points, one contiguous run of each per column.
    fn features(&self, inputs: Inputs<'_>, scratch: &mut Scratch) -> Sides {
        let phases = self.phases(inputs);
        Sides::of(inputs, 2 * inputs.dims(), scratch, |x, features| {
            for (d, pair) in features.chunks_exact_mut((2 * x.nrows()).max(1)).enumerate() {
                let (centre, rate) = phases.column(d);
                let (cosines, sines) = pair.split_at_mut(x.nrows());
                for ((cosine, sine), &x) in cosines.iter_mut().zip(sines).zip(x.col(d).iter()) {
                    (*sine, *cosine) = ((x - centre) * rate).sin_cos();
                }
            }
        })
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
}

impl Kernel for Periodic {
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let scales = self.scales(inputs.dims(), scratch);
        let features = self.features(inputs, scratch);
        self.scaled(&scales).evaluate(features.inputs(inputs), out, scratch);
        features.release(scratch);
        scratch.give(scales);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let inputs = at.inputs;
        let dims = inputs.dims();
        let scales = self.scales(dims, scratch);
        let features = self.features(inputs, scratch);
        let mut bars = Sides::zeros(inputs, 2 * dims, scratch);
        let mut log_scales = scratch.zeros(2 * dims);
        let pair = bars.gradient(inputs, &mut log_scales);
        let of_features = features.inputs(inputs).evaluated(at.k, at.kbar);
        let sums = self.scaled(&scales).adjoint(of_features, pair, scratch);
        let mut period: &mut [f64] = &mut [];
        if let [variance, rest @ ..] = grad.parameters {
            *variance += sums.value / self.variance.at(0).max(f64::MIN_POSITIVE);
            let (lengthscales, periods) = rest.split_at_mut(self.lengthscales.values.len());
            for (c, log_scale) in log_scales.iter().enumerate() {
                lengthscales[self.lengthscales.slot(c / 2)] -= log_scale / self.lengthscales.at(c / 2);
            }
            period = periods;
        }
        let (x, z) = inputs.distinct_sides();
        let left = (x, &features.left, &bars.left, grad.left);
        for (x, features, bars, points) in [left, (z, &features.right, &bars.right, grad.right)] {
            let bar = |d: usize, i: usize| {
                let (cosine, sine) = (2 * d * x.nrows() + i, (2 * d + 1) * x.nrows() + i);
                features[cosine] * bars[sine] - features[sine] * bars[cosine]
            };
            self.phases(inputs).adjoint(x, bar, points, period);
        }
        [features, bars].into_iter().for_each(|sides| sides.release(scratch));
        scratch.give_all([scales, log_scales]);
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
        check_each(&self.expression(), &[&self.lengthscales, &self.period], dims)
    }

    fn expression(&self) -> String {
        let option = |parameter: &Parameter, name: &str| parameter.per_dimension().then(|| name.to_owned());
        expression_with("periodic", &[option(&self.lengthscales, "ard"), option(&self.period, "ard_period")])
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

    fn phases<'a>(&'a self, inputs: Inputs<'a>) -> Phases<'a> {
        Phases { origin: inputs.sides().0, lengths: &self.lengthscales }
    }

    /// Cosines, then sines of the phases of the points.
    fn features(&self, inputs: Inputs<'_>, scratch: &mut Scratch) -> Sides {
        self.lengthscales.check_dims(inputs.dims());
        let phases = self.phases(inputs);
        Sides::of(inputs, 2, scratch, |x, features| {
            let (cosines, sines) = features.split_at_mut(x.nrows());
            cosines.fill(0.0);
            for d in 0..x.ncols() {
                let (centre, rate) = phases.column(d);
                for (phase, &x) in cosines.iter_mut().zip(x.col(d).iter()) {
                    *phase += (x - centre) * rate;
                }
            }
            for (cosine, sine) in cosines.iter_mut().zip(sines) {
                (*sine, *cosine) = cosine.sin_cos();
            }
        })
    }
}

impl Kernel for Cosine {
    fn eval(&self, inputs: Inputs<'_>, mut out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let features = self.features(inputs, scratch);
        let (left, right) = features.inputs(inputs).sides();
        let variance = self.variance.at(0);
        matmul(out.as_mut(), Accum::Replace, left, right.transpose(), variance, Par::Seq);
        if let Inputs::Gram(_) = inputs {
            mirror_upper(out, |_| variance);
        }
        features.release(scratch);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let Evaluated { inputs, kbar, .. } = at;
        let features = self.features(inputs, scratch);
        let (left, right) = features.inputs(inputs).sides();
        let mut bars = Sides::zeros(inputs, 2, scratch);
        let [left_bar, _] = bars.matrices(inputs);
        matmul(left_bar, Accum::Add, kbar, right, 1.0, Par::Seq);
        let mut lengthscales: &mut [f64] = &mut [];
        if let [variance, rest @ ..] = grad.parameters {
            *variance +=
                features.left.iter().zip(&bars.left).map(|(feature, bar)| feature * bar).sum::<f64>();
            lengthscales = rest;
        }
        let [left_bar, right_bar] = bars.matrices(inputs);
        let other_bar = if matches!(inputs, Inputs::Gram(_)) { left_bar } else { right_bar };
        matmul(other_bar, Accum::Add, kbar.transpose(), left, 1.0, Par::Seq);
        // The gradient in the features is the variance times `bars`.
        let (variance, (x, z)) = (self.variance.at(0), inputs.distinct_sides());
        let left = (x, &features.left, &bars.left, grad.left);
        for (x, features, bars, points) in [left, (z, &features.right, &bars.right, grad.right)] {
            let n = x.nrows();
            let bar = |_: usize, i: usize| variance * (features[i] * bars[n + i] - features[n + i] * bars[i]);
            self.phases(inputs).adjoint(x, bar, points, lengthscales);
        }
        [features, bars].into_iter().for_each(|sides| sides.release(scratch));
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
}
