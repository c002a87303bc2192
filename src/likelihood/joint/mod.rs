//! Observation models with several latent functions, p(y | f_1, …, f_C): expectations under
//! independent normal marginals with derivatives, and predictions.

mod dispersed;
mod mixed;
mod noise;
mod outputs;
mod rule;
mod shaped;
mod softmax;
pub mod testkit;
mod truncated;
mod zeros;

pub use dispersed::{Density, Dispersed, Driven};
pub use mixed::Mixed;
pub use noise::{GaussianHeteroskedastic, NormalNoise, StudentNoise, StudentTHeteroskedastic};
pub use outputs::Outputs;
pub use shaped::{BetaPrecise, Dispersion, GammaShaped, NegativeBinomialDispersed, Precision, Shape};
pub use softmax::Softmax;
pub use zeros::ZeroAltered;

use super::{LatentMarginal, Likelihood, Observation, TargetKind, crps, quantile};
use crate::quadrature::Integrator;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;
use std::fmt::Debug;

/// The marginals of one datum's functions, independent of each other: `f_c ~ N(μ_c, v_c)`, c = 1..C.
#[derive(Clone, Copy, Debug)]
pub struct Marginal<'a> {
    /// `μ_c`.
    pub mean: &'a [f64],
    /// `v_c`.
    pub variance: &'a [f64],
}

impl Marginal<'_> {
    /// Returns `N(μ_c, v_c)`.
    pub fn of(&self, function: usize) -> LatentMarginal {
        LatentMarginal::new(self.mean[function], self.variance[function])
    }
}

/// The destination of the derivatives of one row's term; all slices are overwritten, except `own`, which accumulates.
#[derive(Debug)]
pub struct Slopes<'a> {
    /// `∂/∂μ_c`, C numbers, or empty if derivatives are not requested.
    pub mean: &'a mut [f64],
    /// `∂/∂v_c`, as many numbers as in `mean`.
    pub variance: &'a mut [f64],
    /// `∂/∂ψ` of the likelihood's own parameters, unless empty.
    pub own: &'a mut [f64],
}

impl Slopes<'_> {
    /// No derivatives.
    pub fn none() -> Slopes<'static> {
        Slopes { mean: &mut [], variance: &mut [], own: &mut [] }
    }

    /// Returns true if derivatives in the marginals are requested.
    pub fn wanted(&self) -> bool {
        !self.mean.is_empty()
    }

    /// Sets the derivatives in the marginals to 0.
    fn clear(&mut self) {
        self.mean.fill(0.0);
        self.variance.fill(0.0);
    }

    /// Sets `(∂/∂μ_c, ∂/∂v_c)` of two functions, if they are requested.
    fn set(&mut self, [first, second]: [(f64, f64); 2]) {
        if let ([mean1, mean2], [variance1, variance2]) = (&mut *self.mean, &mut *self.variance) {
            ((*mean1, *variance1), (*mean2, *variance2)) = (first, second);
        }
    }
}

/// The buffers of expectations over several functions, one per thread of work.
#[derive(Clone, Debug, Default)]
pub struct JointIntegrator {
    /// Buffers for expectations over one function, including those inside another expectation.
    pub(crate) outer: Integrator,
    inner: Integrator,
    /// The nodes of an expectation of expectations.
    nodes: rule::Nodes,
    /// The family whose parameters an expectation of expectations sets.
    family: Option<Box<dyn Likelihood>>,
    /// Buffers for integrals over classes.
    classes: softmax::Scratch,
    /// True if errors of 1e-6 are small enough.
    coarse: bool,
}

impl JointIntegrator {
    /// Creates an integrator that uses `nodes` nodes for every function, or chooses the number
    /// itself.
    pub fn new(nodes: Option<usize>) -> Self {
        JointIntegrator { outer: Integrator::new(nodes), inner: Integrator::new(nodes), ..Default::default() }
    }

    /// Lets expected log densities of classes have errors up to 1e-6, which makes them cheaper.
    #[must_use]
    pub fn coarsely(self, coarse: bool) -> Self {
        JointIntegrator { coarse, ..self }
    }
}

/// A likelihood with several latent functions, which are independent under q (docs/mathematics.md#several-functions-several-outputs).
///
/// The functions are on the scale the model sees: that of the [standardised](JointLikelihood::scales_target) target for real targets.
/// `own` slices follow the order of [`JointLikelihood::for_each_parameter`], in natural units. No input may cause a panic; numerical
/// trouble gives NaN or infinity.
pub trait JointLikelihood: Send + Sync + Debug {
    /// Returns the name in options, reports and model files.
    fn name(&self) -> &'static str;

    /// Returns the kind of target.
    fn target_kind(&self) -> TargetKind;

    /// Returns the names of the functions in parameters and predictions, in order: C words, such as `location` and `scale`.
    fn functions(&self) -> Vec<String>;

    /// Returns true if its functions are of the same kind, so that they share a kernel and inducing inputs by default.
    fn alike(&self) -> bool {
        false
    }

    /// Returns one output, if the functions are processes that outputs mix; with one output, the likelihood itself.
    fn output(&self, which: usize) -> Option<Mixed> {
        let _ = which;
        None
    }

    /// Returns true if fits standardise the target.
    fn scales_target(&self) -> bool {
        self.target_kind() == TargetKind::Real
    }

    /// `log p(y|f)`, with `∂/∂f_c` in `slope` unless that is empty.
    fn log_density(&self, at: Observation, f: &[f64], slope: &mut [f64]) -> f64;

    /// `∂²_{f_c} log p(y|f)` for every c: the diagonal of the Hessian.
    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]);

    /// Adds `weight · ∂_ψ log p(y|f)` to `own`, natural units.
    fn own_gradient(&self, at: Observation, f: &[f64], weight: f64, own: &mut [f64]) {
        let _ = (at, f, weight, own);
    }

    /// Returns the largest `log p(y|f)` over all f, if it is bounded; rejection sampling from `N(f) p(y|f)` needs it.
    fn peak(&self, at: Observation) -> Option<f64> {
        let _ = at;
        None
    }

    /// `E log p(y|f)` with its derivatives.
    fn expected_log_density(
        &self,
        at: Observation,
        marginal: Marginal<'_>,
        slopes: Slopes<'_>,
        integrator: &mut JointIntegrator,
    ) -> f64;

    /// `log E p(y|f)` with its derivatives.
    fn log_predictive(
        &self,
        at: Observation,
        marginal: Marginal<'_>,
        slopes: Slopes<'_>,
        integrator: &mut JointIntegrator,
    ) -> f64;

    /// Returns mean and variance of y under the predictive distribution; NaN for classes.
    fn predictive_moments(
        &self,
        marginal: Marginal<'_>,
        exposure: f64,
        integrator: &mut JointIntegrator,
    ) -> (f64, f64);

    /// `P(Y ≤ y)` under the predictive distribution; NaN for classes, which have no order.
    fn predictive_cdf(
        &self,
        y: f64,
        marginal: Marginal<'_>,
        exposure: f64,
        integrator: &mut JointIntegrator,
    ) -> f64;

    /// The smallest y with `P(Y ≤ y) ≥ p`, for p in (0, 1); NaN for classes.
    fn predictive_quantile(
        &self,
        p: f64,
        marginal: Marginal<'_>,
        exposure: f64,
        integrator: &mut JointIntegrator,
    ) -> f64 {
        let mut cdf = |y| self.predictive_cdf(y, marginal, exposure, integrator);
        quantile::search(self.target_kind(), p, self.levels(), &mut cdf)
    }

    /// The probability of every class, [`levels`](Self::levels) of them; families without classes
    /// do not write it.
    fn probabilities(&self, marginal: Marginal<'_>, integrator: &mut JointIntegrator, out: &mut [f64]) {
        let _ = (marginal, integrator, out);
    }

    /// The continuous ranked probability score of an observation, as [`crps`](super::Likelihood::crps); NaN for classes.
    fn crps(&self, at: Observation, marginal: Marginal<'_>, integrator: &mut JointIntegrator) -> f64 {
        let Observation { y, exposure, .. } = at;
        if !y.is_finite() || !marginal.mean.iter().chain(marginal.variance).all(|value| value.is_finite()) {
            return f64::NAN;
        }
        let mut cdf = |y: f64| self.predictive_cdf(y, marginal, exposure, integrator);
        match self.target_kind() {
            TargetKind::Binary | TargetKind::Ordinal | TargetKind::Class => f64::NAN,
            TargetKind::Count => crps::counts(y, &mut |y| crps::between(y, &mut cdf)),
            kind => crps::continuous(kind, y, &mut cdf),
        }
    }

    /// Returns the weights `w` of a likelihood that depends on its functions g only through
    /// `b + Σ_l w_l g_l`.
    fn mixing(&self) -> Option<&[f64]> {
        None
    }

    /// Returns the names of the values in a prediction other than the moments of y: `probability_of_zero`, `noise_sd`, …
    fn details(&self) -> &'static [&'static str] {
        &[]
    }

    /// The values of the [`details`](Self::details) at a row with this exposure.
    fn detail(
        &self,
        which: usize,
        exposure: f64,
        marginal: Marginal<'_>,
        integrator: &mut JointIntegrator,
    ) -> f64 {
        let _ = (which, exposure, marginal, integrator);
        f64::NAN
    }

    /// A draw of y given f.
    fn sample(&self, f: &[f64], exposure: f64, random: &mut ChaCha8Rng) -> f64;

    /// The unit deviance of a count, as [`unit_deviance`](super::Likelihood::unit_deviance).
    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        let _ = (y, mean);
        f64::NAN
    }

    /// The number of classes; 2 for families without classes.
    fn levels(&self) -> usize {
        2
    }

    /// Returns values of the functions that explain the observation well; regressions for a start use them.
    fn working_response(&self, at: Observation, out: &mut [f64]);

    /// Chooses starting values of own parameters, other than fixed or given ones, from the targets (and exposures, none for all
    /// 1); returns the constant latent means that fit them best, one per function.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64>;

    /// Visits the own parameters in the fixed order that flat gradients use.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        let _ = visit;
    }

    /// Visits the own parameters mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        let _ = visit;
    }

    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn JointLikelihood>;
}

impl dyn JointLikelihood + '_ {
    /// The number of own parameter values.
    pub fn own_len(&self) -> usize {
        let mut own = 0;
        self.for_each_parameter(&mut |p| own += p.values.len());
        own
    }
}

impl Clone for Box<dyn JointLikelihood> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
