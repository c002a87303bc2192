//! The latent function of a fit as values: a sparse GP of a kernel and points, a linear model, or features of another approximation.

use super::start::Function;
use crate::data::Scaling;
use crate::error::{Error, Result};
use crate::latent::{FeatureMap, InducingInit};
use crate::options::{FitOptions, ModelKind};
use faer::Mat;
use sparsegp_kernels::Kernel;
use sparsegp_kernels::units::to_scale;

/// The inducing inputs from which a fit starts. Unless [`FitOptions::fix_inducing`] is set, training moves them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Points {
    /// The default number for the rows; every row of small data with Gaussian noise.
    #[default]
    Automatic,
    /// This number of centres of k-means.
    KMeans(usize),
    /// This number of rows, each where the prior variance given the earlier ones is largest.
    Greedy(usize),
    /// This number of random rows.
    Random(usize),
    /// These points (`M × D`), in the user's units.
    Given(Mat<f64>),
}

/// A sparse GP: its kernel and inducing inputs. The values given to the kernel's constructor are starting values in the user's units, or
/// stay if they are [fixed](Kernel::fixed); for warped columns they are on the scale the model sees. Values that were not
/// [given](sparsegp_kernels::Parameter::given) start from the data.
#[derive(Clone, Debug)]
pub struct Inducing {
    kernel: Box<dyn Kernel>,
    points: Points,
}

impl Inducing {
    /// Creates a sparse GP with as many inducing inputs as suit the number of rows.
    pub fn new(kernel: impl Into<Box<dyn Kernel>>) -> Inducing {
        Inducing { kernel: kernel.into(), points: Points::Automatic }
    }

    /// The kernel.
    pub fn kernel(&self) -> &dyn Kernel {
        self.kernel.as_ref()
    }

    /// Sets the inducing inputs.
    pub fn points(self, points: Points) -> Inducing {
        Inducing { points, ..self }
    }
}

/// A Bayesian linear model with an intercept.
#[derive(Clone, Copy, Debug)]
pub struct Linear {
    /// The prior mean of the coefficients, on the standardised scale.
    pub prior_mean: f64,
    /// The prior variance of the coefficients, on the standardised scale.
    pub prior_variance: f64,
}

impl Default for Linear {
    fn default() -> Self {
        Linear { prior_mean: 0.0, prior_variance: 1.0 }
    }
}

/// The latent function of a fit.
#[derive(Clone)]
#[non_exhaustive]
pub enum Latent {
    /// A sparse GP.
    Inducing(Inducing),
    /// A linear model.
    Linear(Linear),
    /// Features of another approximation.
    Features(Box<dyn FeatureMap>),
}

impl From<Inducing> for Latent {
    fn from(inducing: Inducing) -> Self {
        Latent::Inducing(inducing)
    }
}

impl From<Linear> for Latent {
    fn from(linear: Linear) -> Self {
        Latent::Linear(linear)
    }
}

impl<F: FeatureMap + 'static> From<F> for Latent {
    fn from(map: F) -> Self {
        Latent::Features(Box::new(map))
    }
}

impl Latent {
    /// Writes what the options say of the function.
    pub(super) fn write_to(&self, options: &mut FitOptions) {
        options.model = if matches!(self, Latent::Linear(_)) { ModelKind::Glm } else { ModelKind::Gp };
        match self {
            Latent::Inducing(Inducing { points, .. }) => {
                (options.inducing, options.inducing_init) = match points {
                    Points::Automatic => (options.inducing, options.inducing_init),
                    Points::KMeans(count) => (Some(*count), InducingInit::KMeans),
                    Points::Greedy(count) => (Some(*count), InducingInit::Greedy),
                    Points::Random(count) => (Some(*count), InducingInit::Random),
                    Points::Given(z) => (Some(z.nrows()), options.inducing_init),
                };
            }
            Latent::Linear(Linear { prior_mean, prior_variance }) => {
                (options.prior_mean, options.prior_variance) = (*prior_mean, *prior_variance);
            }
            Latent::Features(map) => options.inducing = Some(map.count()),
        }
    }

    /// Returns the function for `d` inputs on the scale the model sees.
    ///
    /// # Errors
    ///
    /// Usage errors if it does not suit the inputs.
    pub(super) fn function(&self, options: &FitOptions, d: usize, scaling: &Scaling) -> Result<Function> {
        let columns = |what: &str, has: usize| match has == d {
            true => Ok(()),
            false => Err(Error::usage(format!("{what} have {has} columns, the inputs have {d}"))),
        };
        match self {
            Latent::Inducing(Inducing { kernel, points }) => {
                let mut kernel = options.told(kernel.clone(), d)?;
                let (axes, target) = scaling.axes(d);
                to_scale(kernel.as_mut(), &axes, target)
                    .map_err(|error| Error::usage(format!("⟨kernel⟩: {error}")))?;
                let points = match points {
                    Points::Given(z) => {
                        columns("the given inducing inputs", z.ncols())?;
                        // Columns of grouped effects follow the inputs.
                        let mut all = Mat::zeros(z.nrows(), scaling.dims());
                        all.as_mut().subcols_mut(0, d).copy_from(z);
                        scaling.scale_inputs(all.as_mut());
                        Some(all.subcols(0, d).to_owned())
                    }
                    _ => None,
                };
                Ok(Function::Sparse { kernel, points })
            }
            Latent::Linear(_) => Ok(Function::Linear),
            Latent::Features(map) => {
                columns("the features", map.inputs())?;
                if options.growth.is_some() || options.neighbours.is_some() {
                    return Err(Error::usage(
                        "⟨inducing auto⟩ and ⟨neighbours⟩ need a kernel, but this fit has features of another approximation",
                    ));
                }
                Ok(Function::Features(map.clone()))
            }
        }
    }
}
