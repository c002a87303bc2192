//! Stationary kernels: a variance times a profile of the scaled distance, with their parameters.

use crate::dimension::{Dimension, DimensionError};
use crate::distance::Measure;
use crate::kernel::{Evaluated, Gradient, Inputs, Kernel, Scratch, expression_with};
use crate::parameter::Parameter;
use crate::profile::{Coefficients, Profile, Scaled};
use crate::random_feature::{Chance, Line, RandomFeature, Wave};
use faer::MatMut;

/// A stationary kernel `variance · profile(r²)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stationary {
    profile: Profile,
    variance: Parameter,
    lengthscales: Parameter,
    alpha: Option<Parameter>,
    dimensions: Vec<Dimension>,
}

impl Stationary {
    /// Creates a kernel of the given profile. `variance` is in squared units of the target;
    /// `lengthscales` are in units of the inputs, either one for all dimensions or one per
    /// dimension. The rational quadratic starts at `α = 1`.
    pub fn new(profile: Profile, variance: f64, lengthscales: &[f64]) -> Self {
        let alpha = profile == Profile::RationalQuadratic;
        Stationary {
            profile,
            variance: Parameter::start_at("variance", &[variance]),
            lengthscales: Parameter::start_at("lengthscales", lengthscales),
            alpha: alpha.then(|| Parameter::positive("alpha", vec![1.0])),
            dimensions: Vec::new(),
        }
    }

    /// Creates a kernel with a lengthscale for each of `dims` inputs. All values start from the data.
    pub fn ard(profile: Profile, dims: usize) -> Self {
        let mut kernel = Stationary::new(profile, 1.0, &vec![1.0; dims]);
        kernel.for_each_parameter_mut(&mut |parameter| parameter.given = false);
        kernel
    }

    /// Creates the squared exponential, `variance · exp(−r²/2)`; arguments as for
    /// [`Stationary::new`].
    pub fn rbf(variance: f64, lengthscales: &[f64]) -> Self {
        Stationary::new(Profile::SquaredExponential, variance, lengthscales)
    }

    /// Creates the Matérn-1/2 kernel, with continuous but nowhere smooth paths; arguments as for
    /// [`Stationary::new`].
    pub fn matern12(variance: f64, lengthscales: &[f64]) -> Self {
        Stationary::new(Profile::Matern12, variance, lengthscales)
    }

    /// Creates the Matérn-3/2 kernel, with once differentiable paths; arguments as for
    /// [`Stationary::new`].
    pub fn matern32(variance: f64, lengthscales: &[f64]) -> Self {
        Stationary::new(Profile::Matern32, variance, lengthscales)
    }

    /// Creates the Matérn-5/2 kernel, with twice differentiable paths; arguments as for
    /// [`Stationary::new`].
    pub fn matern52(variance: f64, lengthscales: &[f64]) -> Self {
        Stationary::new(Profile::Matern52, variance, lengthscales)
    }

    /// Creates the rational quadratic kernel, a mixture of squared exponentials, with `alpha > 0`.
    /// As `alpha → ∞` it becomes a squared exponential.
    pub fn rational_quadratic(variance: f64, lengthscales: &[f64], alpha: f64) -> Self {
        let mut kernel = Stationary::new(Profile::RationalQuadratic, variance, lengthscales);
        kernel.alpha = Some(Parameter::start_at("alpha", &[alpha]));
        kernel
    }

    /// The shape of the kernel.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    fn coefficients(&self, dims: usize) -> Coefficients {
        let alpha = self.alpha.as_ref().map(|alpha| alpha.at(0));
        let alpha = alpha.or(self.profile.exponent(dims)).unwrap_or(1.0);
        Coefficients { variance: self.variance.at(0), alpha }
    }

    fn scaled<'a>(&'a self, c: Coefficients, scales: &'a [f64]) -> Scaled<'a> {
        Scaled { profile: self.profile, c, measure: Measure { scales, dimensions: &self.dimensions } }
    }

    fn scales(&self, dims: usize, scratch: &mut Scratch) -> Vec<f64> {
        self.lengthscales.check_dims(dims);
        let mut scales = scratch.take(dims);
        for (d, scale) in scales.iter_mut().enumerate() {
            *scale = 1.0 / self.lengthscales.at(d);
        }
        scales
    }
}

impl Kernel for Stationary {
    fn eval(&self, inputs: Inputs<'_>, out: MatMut<'_, f64>, scratch: &mut Scratch) {
        let scales = self.scales(inputs.dims(), scratch);
        self.scaled(self.coefficients(inputs.dims()), &scales).evaluate(inputs, out, scratch);
        scratch.give(scales);
    }

    fn adjoint(&self, at: Evaluated<'_>, grad: Gradient<'_>, scratch: &mut Scratch) {
        let dims = at.inputs.dims();
        let scales = self.scales(dims, scratch);
        let mut log_scales = scratch.zeros(dims);
        let c = self.coefficients(dims);
        let pair = Gradient { parameters: &mut log_scales, left: grad.left, right: grad.right };
        let sums = self.scaled(c, &scales).adjoint(at, pair, scratch);
        if let [variance, rest @ ..] = grad.parameters {
            *variance += sums.value / c.variance.max(f64::MIN_POSITIVE);
            for (d, log_scale) in log_scales.iter().enumerate() {
                rest[self.lengthscales.slot(d)] -= log_scale * scales[d];
            }
            if self.alpha.is_some() {
                rest[self.lengthscales.values.len()] += sums.alpha;
            }
        }
        scratch.give_all([scales, log_scales]);
    }

    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        visit(&self.variance);
        visit(&self.lengthscales);
        self.alpha.iter().for_each(visit);
    }

    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        visit(&mut self.variance);
        visit(&mut self.lengthscales);
        self.alpha.iter_mut().for_each(visit);
    }

    fn set_dimensions(&mut self, dimensions: &[Dimension]) -> Result<(), DimensionError> {
        if !self.lengthscales.share(dimensions) {
            return Err(DimensionError::SeparateLengthscales { kernel: self.profile.name().to_owned() });
        }
        self.dimensions = dimensions.to_vec();
        Ok(())
    }

    fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// Wendland kernels are 0 beyond one lengthscale. Their lengthscales start longer by the factor
    /// with which they resemble the squared exponential (Matérn-1/2 for smoothness 0) at close
    /// points.
    fn initialise(&mut self, spread: &[f64], target_variance: f64) {
        self.variance.start(|_| target_variance);
        let profile = self.profile;
        self.lengthscales.start_from_spread(spread, |s, dims| s * dims.sqrt() * profile.reach(dims));
        if let Some(alpha) = &mut self.alpha {
            alpha.start(|_| 1.0);
        }
    }

    /// Returns a wave whose frequencies have the spectral density of the kernel (Rahimi & Recht
    /// 2007): normal, Student's t with 2ν degrees of freedom for Matérn-ν, and normal with a gamma
    /// precision for the rational quadratic. A category counts as one-hot codes, so all its levels
    /// are equally far apart.
    fn random_feature(&self, dims: usize, chance: &mut Chance<'_>) -> Option<Box<dyn RandomFeature>> {
        let student =
            |chance: &mut Chance<'_>, degrees: usize| (degrees as f64 / chance.chi_squared(degrees)).sqrt();
        let spread = match self.profile {
            Profile::SquaredExponential => 1.0,
            Profile::Matern12 => student(chance, 1),
            Profile::Matern32 => student(chance, 3),
            Profile::Matern52 => student(chance, 5),
            Profile::RationalQuadratic => {
                let alpha = self.alpha.as_ref()?.at(0);
                (chance.gamma(alpha) / alpha).sqrt()
            }
            Profile::Wendland0 | Profile::Wendland1 | Profile::Wendland2 => return None,
        };
        let phase = Line::new(0.0, dims, &self.dimensions, chance, |d, is_code, chance| {
            let rate = spread * chance.normal() / self.lengthscales.at(d);
            if is_code { rate * std::f64::consts::FRAC_1_SQRT_2 } else { rate }
        });
        Some(Box::new(Wave::new(self.variance.at(0).sqrt(), phase, chance)))
    }

    fn expression(&self) -> String {
        let ard = self.lengthscales.per_dimension().then(|| "ard".to_owned());
        let smoothness = self.profile.smoothness().map(|smoothness| format!("smoothness={smoothness}"));
        expression_with(self.profile.name(), &[ard, smoothness])
    }
}
