//! Likelihoods with one or several latent functions as one type, with the operations that both
//! have.

use super::joint::{JointIntegrator, JointLikelihood, Marginal, Slopes};
use super::{Likelihood, Observation, TargetKind};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;

/// The likelihood of a model, with the number of latent functions that it observes.
///
/// Training distinguishes the two cases, because some closed forms hold only for one function; predictions do not.
#[derive(Clone, Debug)]
pub enum ObservationModel {
    /// One function.
    One(Box<dyn Likelihood>),
    /// Several functions of one target.
    Joint(Box<dyn JointLikelihood>),
}

impl From<Box<dyn Likelihood>> for ObservationModel {
    fn from(likelihood: Box<dyn Likelihood>) -> Self {
        ObservationModel::One(likelihood)
    }
}

impl<L: Likelihood + 'static> From<L> for ObservationModel {
    fn from(likelihood: L) -> Self {
        ObservationModel::One(Box::new(likelihood))
    }
}

impl From<Box<dyn JointLikelihood>> for ObservationModel {
    fn from(likelihood: Box<dyn JointLikelihood>) -> Self {
        ObservationModel::Joint(likelihood)
    }
}

/// Calls the same method of either kind of likelihood.
macro_rules! either {
    ($model:expr, $likelihood:ident => $call:expr) => {
        match $model {
            ObservationModel::One($likelihood) => $call,
            ObservationModel::Joint($likelihood) => $call,
        }
    };
}

impl ObservationModel {
    /// Returns the likelihood if it has one function.
    pub fn one(&self) -> Option<&dyn Likelihood> {
        match self {
            ObservationModel::One(likelihood) => Some(likelihood.as_ref()),
            ObservationModel::Joint(_) => None,
        }
    }

    /// Returns the likelihood if it has several functions.
    pub fn joint(&self) -> Option<&dyn JointLikelihood> {
        match self {
            ObservationModel::One(_) => None,
            ObservationModel::Joint(likelihood) => Some(likelihood.as_ref()),
        }
    }

    /// The number C of latent functions.
    pub fn functions(&self) -> usize {
        self.joint().map_or(1, |joint| joint.functions().len())
    }

    /// Returns its name in options, reports and model files.
    pub fn name(&self) -> &'static str {
        either!(self, likelihood => likelihood.name())
    }

    /// The targets it is defined on.
    pub fn target_kind(&self) -> TargetKind {
        either!(self, likelihood => likelihood.target_kind())
    }

    /// Returns true if fits standardise the target.
    pub fn scales_target(&self) -> bool {
        either!(self, likelihood => likelihood.scales_target())
    }

    /// The number of levels or classes; 2 for others.
    pub fn levels(&self) -> usize {
        either!(self, likelihood => likelihood.levels())
    }

    /// σ² of normal noise around one function; see [`Likelihood::gaussian_noise`].
    pub fn gaussian_noise(&self) -> Option<f64> {
        self.one().and_then(|likelihood| likelihood.gaussian_noise())
    }

    /// The number of own parameter values.
    pub fn own_len(&self) -> usize {
        let mut own = 0;
        self.for_each_parameter(&mut |p| own += p.values.len());
        own
    }

    /// Visits the own parameters in the fixed order that flat gradients use.
    pub fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        either!(self, likelihood => likelihood.for_each_parameter(visit));
    }

    /// Visits the own parameters mutably, in the same order.
    pub fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        either!(self, likelihood => likelihood.for_each_parameter_mut(visit));
    }

    /// Chooses starting values of own parameters; returns the constant latent means that fit the targets best, one per function.
    pub fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64> {
        match self {
            ObservationModel::One(likelihood) => vec![likelihood.initialise(y, exposure)],
            ObservationModel::Joint(likelihood) => likelihood.initialise(y, exposure),
        }
    }

    /// Values of the functions that explain the observation about as well as any.
    pub fn working_response(&self, at: Observation, out: &mut [f64]) {
        match self {
            ObservationModel::One(likelihood) => out[0] = likelihood.working_response(at),
            ObservationModel::Joint(likelihood) => likelihood.working_response(at, out),
        }
    }

    /// `log E p(y|f)` under the marginals.
    pub fn log_predictive(
        &self,
        at: Observation,
        marginal: Marginal<'_>,
        tools: &mut JointIntegrator,
    ) -> f64 {
        match self {
            ObservationModel::One(likelihood) => {
                likelihood.log_predictive(at, marginal.of(0), &mut [], &mut tools.outer).value
            }
            ObservationModel::Joint(likelihood) => {
                likelihood.log_predictive(at, marginal, Slopes::none(), tools)
            }
        }
    }

    /// Mean and variance of y under the predictive distribution.
    pub fn predictive_moments(
        &self,
        marginal: Marginal<'_>,
        exposure: f64,
        tools: &mut JointIntegrator,
    ) -> (f64, f64) {
        match self {
            ObservationModel::One(likelihood) => {
                likelihood.predictive_moments(marginal.of(0), exposure, &mut tools.outer)
            }
            ObservationModel::Joint(likelihood) => likelihood.predictive_moments(marginal, exposure, tools),
        }
    }

    /// `P(Y ≤ y)` under the predictive distribution.
    pub fn predictive_cdf(
        &self,
        y: f64,
        marginal: Marginal<'_>,
        exposure: f64,
        tools: &mut JointIntegrator,
    ) -> f64 {
        match self {
            ObservationModel::One(likelihood) => {
                likelihood.predictive_cdf(y, marginal.of(0), exposure, &mut tools.outer)
            }
            ObservationModel::Joint(likelihood) => likelihood.predictive_cdf(y, marginal, exposure, tools),
        }
    }

    /// The smallest y with `P(Y ≤ y) ≥ p`, for p in (0, 1).
    pub fn predictive_quantile(
        &self,
        p: f64,
        marginal: Marginal<'_>,
        exposure: f64,
        tools: &mut JointIntegrator,
    ) -> f64 {
        match self {
            ObservationModel::One(likelihood) => {
                likelihood.predictive_quantile(p, marginal.of(0), exposure, &mut tools.outer)
            }
            ObservationModel::Joint(likelihood) => {
                likelihood.predictive_quantile(p, marginal, exposure, tools)
            }
        }
    }

    /// The continuous ranked probability score of an observation; see [`Likelihood::crps`].
    pub fn crps(&self, at: Observation, marginal: Marginal<'_>, tools: &mut JointIntegrator) -> f64 {
        match self {
            ObservationModel::One(likelihood) => likelihood.crps(at, marginal.of(0), &mut tools.outer),
            ObservationModel::Joint(likelihood) => likelihood.crps(at, marginal, tools),
        }
    }

    /// Writes the probability of every class, if the target is one of several classes.
    pub fn probabilities(&self, marginal: Marginal<'_>, tools: &mut JointIntegrator, out: &mut [f64]) {
        match self {
            ObservationModel::One(likelihood) => {
                if let ([zero, one], TargetKind::Binary) = (out, likelihood.target_kind()) {
                    *one = likelihood.predictive_moments(marginal.of(0), 1.0, &mut tools.outer).0;
                    *zero = 1.0 - *one;
                }
            }
            ObservationModel::Joint(likelihood) => likelihood.probabilities(marginal, tools, out),
        }
    }

    /// The unit deviance of a count; see [`Likelihood::unit_deviance`].
    pub fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        either!(self, likelihood => likelihood.unit_deviance(y, mean))
    }

    /// A draw of y given the functions.
    pub fn sample(&self, f: &[f64], exposure: f64, random: &mut ChaCha8Rng) -> f64 {
        match self {
            ObservationModel::One(likelihood) => likelihood.sample(f[0], exposure, random),
            ObservationModel::Joint(likelihood) => likelihood.sample(f, exposure, random),
        }
    }
}
