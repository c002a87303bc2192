//! Observation models p(y | f): expectations under N(f; μ, v) with derivatives, and predictions.
//!
//! A likelihood is a type that implements [`Likelihood`], which has any number of latent functions. A likelihood of one
//! function implements [`OneFunction`] instead, which is shorter: the log density and its derivatives suffice. A [`DensityFormula`] is
//! shorter still: five lines, without derivatives. The built-in likelihoods are listed by name as [`LikelihoodKind`]s. To fit with your own
//! likelihood, pass it to the fit, or add it to a `Registry` of the crate `sparsegp` and name it in the options.
//!
//! A likelihood with closed forms of its own, written by hand:
//!
//! ```
//! use rand::RngExt;
//! use sparsegp_likelihoods::{LikelihoodKind, Observation, OneFunction, TargetKind, testkit::check_likelihood};
//! use sparsegp_likelihoods::quadrature::Resolution;
//! use sparsegp_kernels::Parameter;
//!
//! /// y = f + s·ε with ε from the logistic distribution: `log p = −|r| − 2 log(1 + e^{−|r|}) − log s`, `r = (y − f)/s`.
//! #[derive(Clone, Debug)]
//! struct LogisticNoise {
//!     scale: Parameter,
//! }
//!
//! impl LogisticNoise {
//!     fn new(scale: f64) -> Self {
//!         LogisticNoise { scale: Parameter::positive("scale", vec![scale]) }
//!     }
//!
//!     fn s(&self) -> f64 {
//!         self.scale.values[0]
//!     }
//! }
//!
//! impl OneFunction for LogisticNoise {
//!     fn kind(&self) -> LikelihoodKind {
//!         LikelihoodKind::new("logistic-noise", TargetKind::Real)
//!     }
//!
//!     fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]) {
//!         for ((f, value), first) in f.iter().zip(value).zip(first) {
//!             let r = (at.y - f) / self.s();
//!             *value = -r.abs() - 2.0 * (-r.abs()).exp().ln_1p() - self.s().ln();
//!             *first = (0.5 * r).tanh() / self.s();
//!         }
//!     }
//!
//!     fn curvature(&self, at: Observation, f: f64) -> f64 {
//!         let r = (at.y - f) / self.s();
//!         -0.5 / (self.s() * (0.5 * r).cosh()).powi(2)
//!     }
//!
//!     fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
//!         for (f, weight) in f.iter().zip(weights) {
//!             let r = (at.y - f) / self.s();
//!             own[0] += weight * (r * (0.5 * r).tanh() - 1.0) / self.s();
//!         }
//!     }
//!
//!     /// The logarithm of 1 + e^{−r} is singular at r = ±iπ.
//!     fn resolution(&self, _: Observation) -> Resolution {
//!         Resolution { strip: 3.1 * self.s(), step: 0.4 * self.s(), concave: true, pole: None }
//!     }
//!
//!     fn conditional_moments(&self, _: Observation, f: f64) -> (f64, f64) {
//!         (f, (std::f64::consts::PI * self.s()).powi(2) / 3.0)
//!     }
//!
//!     fn conditional_cdf(&self, at: Observation, f: f64) -> f64 {
//!         1.0 / (1.0 + ((f - at.y) / self.s()).exp())
//!     }
//!
//!     fn sample(&self, _: Observation, f: f64, random: &mut rand_chacha::ChaCha8Rng) -> f64 {
//!         let u: f64 = random.random();
//!         f + self.s() * (u / (1.0 - u)).ln()
//!     }
//!
//!     fn initialise(&mut self, y: &[f64], _: &[f64]) -> f64 {
//!         let mean = y.iter().sum::<f64>() / y.len().max(1) as f64;
//!         let variance = y.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / y.len().max(1) as f64;
//!         self.scale.start(|_| 0.3 * variance.sqrt());
//!         mean
//!     }
//!
//!     fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
//!         visit(&self.scale);
//!     }
//!
//!     fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
//!         visit(&mut self.scale);
//!     }
//! }
//!
//! check_likelihood(&LogisticNoise::new(0.7), &[-2.0, 0.4, 3.0].map(Observation::of))?;
//! # Ok::<(), String>(())
//! ```

mod amounts;
mod bernoulli;
mod beta;
mod censored;
mod crps;
mod density_bounds;
mod dispersed;
mod distribution;
mod expectation;
mod formula;
pub mod functions;
mod gamma;
mod gaussian;
mod list;
mod location_scale;
mod moments;
mod negative_binomial;
mod noise;
mod one_function;
mod ordered_beta;
mod ordinal;
mod outputs;
mod poisson;
pub mod quadrature;
mod quantile;
mod shaped;
mod softmax;
mod student_t;
mod sums;
mod target;
pub mod testkit;
mod threshold;
mod trials;
mod truncated;
mod tweedie;
mod zeros;

pub use crate::quadrature::{Expectation, LatentMarginal};
pub use bernoulli::Bernoulli;
pub use beta::{Beta, BetaLogit, BetaProbit, Link, Logit, Probit};
pub use censored::Censored;
#[doc(hidden)]
pub use censored::Tails;
pub use crps::{continuous as continuous_crps, of_distribution as crps_of_distribution};
pub use density_bounds::DensityBounds;
pub use dispersed::{Density, Dispersed, Driven};
pub use expectation::{LatentRows, RowNodes};
pub use formula::{DensityFormula, FormulaLikelihood};
pub use gamma::Gamma;
pub use gaussian::Gaussian;
pub use list::{LikelihoodKind, NameError};
pub use location_scale::{CensoredGaussian, LocationScale, LogLogistic, LogNormal, Standard, Weibull};
pub use moments::Moments;
pub use negative_binomial::NegativeBinomial;
pub use noise::{GaussianHeteroskedastic, NormalNoise, StudentNoise, StudentTHeteroskedastic};
pub use one_function::{OneFunction, OneFunctionBox};
pub use ordered_beta::OrderedBeta;
pub use ordinal::Ordinal;
pub use outputs::{Mixed, Outputs};
pub use poisson::Poisson;
pub use quantile::search as quantile_of_distribution;
pub use shaped::{BetaPrecise, Dispersion, GammaShaped, NegativeBinomialDispersed, Precision, Shape};
pub use softmax::Softmax;
pub use student_t::StudentT;
pub use target::{EXPOSURES, HIGHEST_WHOLE, TargetKind, Task};
pub use trials::{BetaBinomial, Binomial};
pub use tweedie::Tweedie;
pub use zeros::ZeroAltered;

use crate::quadrature::Integrator;
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;
use std::fmt::{self, Debug};

/// What is known of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation<'a> {
    /// The target, coded as its kind says (classes 0 and 1, levels 0, 1, …).
    pub y: f64,
    /// The factor of a count's rate, the number of trials of a count of successes, or the known standard error of a measured target, as the
    /// kind of target says; 1 for other kinds.
    pub exposure: f64,
    /// The other end of the interval that is known to contain a [censored](TargetKind::is_censored) target, infinite for an interval without
    /// end; NaN if y itself is known.
    pub other_end: f64,
    /// The targets of several outputs, with NaN for an unobserved one; empty for one output.
    pub outputs: &'a [f64],
}

impl fmt::Display for Observation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outputs {
            [] => write!(f, "y = {}", self.y)?,
            outputs => write!(f, "y = {outputs:?}")?,
        }
        if !self.other_end.is_nan() {
            write!(f, " to {}", self.other_end)?;
        }
        if self.exposure == 1.0 { Ok(()) } else { write!(f, " with exposure {}", self.exposure) }
    }
}

impl Observation<'_> {
    /// An observation with exposure 1.
    pub fn of(y: f64) -> Self {
        Observation::exposed(y, 1.0)
    }

    /// An observation of one output.
    pub fn exposed(y: f64, exposure: f64) -> Self {
        Observation { y, exposure, other_end: f64::NAN, outputs: &[] }
    }

    /// An observation of a target between y and another end, which is infinite if the target is censored at y.
    pub fn between(y: f64, other_end: f64) -> Self {
        Observation { other_end, ..Observation::of(y) }
    }

    /// Returns the observation with another target of one output.
    #[must_use]
    pub fn with(self, y: f64) -> Self {
        Observation { y, ..self }
    }
}

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

/// A row: what is known of it, and the marginals of its functions.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, M = Marginal<'a>> {
    /// The observation; a prediction reads its target only if its documentation says so.
    pub at: Observation<'a>,
    /// The marginals.
    pub marginal: M,
}

/// A row of a likelihood with one function.
pub type LatentRow<'a> = Row<'a, LatentMarginal>;

impl<'a, M> Row<'a, M> {
    /// Creates a row.
    pub const fn new(at: Observation<'a>, marginal: M) -> Self {
        Row { at, marginal }
    }

    /// Returns the row with another target of one output.
    #[must_use]
    pub(crate) fn with(self, y: f64) -> Self {
        Row { at: self.at.with(y), ..self }
    }
}

impl<'a> Row<'a> {
    /// Returns the row as one of a single function.
    pub fn of(self, function: usize) -> LatentRow<'a> {
        Row { at: self.at, marginal: self.marginal.of(function) }
    }

    /// Returns true if the target and the marginals are finite numbers.
    fn is_finite(self) -> bool {
        let Marginal { mean, variance } = self.marginal;
        mean.iter().chain(variance).chain(&[self.at.y]).all(|value| value.is_finite())
    }
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}", self.at, self.marginal)
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expectation::ExpectedLog => "E log p",
            Expectation::LogPredictive => "log E p",
        })
    }
}

/// A term of one datum with its derivatives in the latent mean μ and variance v.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Local {
    /// The term.
    pub value: f64,
    /// `∂/∂μ`.
    pub mean: f64,
    /// `∂/∂v`.
    pub variance: f64,
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

    fn clear(&mut self) {
        self.mean.fill(0.0);
        self.variance.fill(0.0);
    }

    /// Sets `(∂/∂μ_c, ∂/∂v_c)` of all functions, if they are requested.
    fn set<const C: usize>(&mut self, slopes: [(f64, f64); C]) {
        let slots = self.mean.iter_mut().zip(&mut *self.variance);
        slots.zip(slopes).for_each(|((mean, variance), slopes)| (*mean, *variance) = slopes);
    }
}

/// A likelihood with C ≥ 1 latent functions, which are independent under q ([docs/mathematics.md#several-functions-several-outputs](https://docs.rs/sparsegp/latest/sparsegp/book/mathematics/index.html#several-functions-several-outputs)).
///
/// The functions are on the scale the model sees: that of the [standardised](Likelihood::scales_target) target for real targets.
/// `own` slices follow the order of [`Likelihood::for_each_parameter`], are in natural units, accumulate, and are empty if they are not
/// requested. Slices of nodes hold C numbers for each node. No input may cause a panic; numerical trouble gives NaN or infinity.
/// [`testkit::check_likelihood`] checks the methods against each other.
pub trait Likelihood: LikelihoodBox + Send + Sync + Debug {
    /// Returns the kind: the unique name in options, reports and model files, such as `softmax`, and the targets it is defined on.
    fn kind(&self) -> LikelihoodKind;

    /// Returns the name.
    fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns the targets it is defined on.
    fn target_kind(&self) -> TargetKind {
        self.kind().target_kind()
    }

    /// Returns the names of the functions in parameters and predictions, in order: C words, such as `location` and `scale`. A single
    /// function needs no name.
    fn function_names(&self) -> Vec<String> {
        vec![String::new()]
    }

    /// Returns the likelihood as one with a single function, if it is one. Some closed forms and estimators exist only for these.
    fn one(&self) -> Option<&dyn OneFunction> {
        None
    }

    /// Returns the likelihood of the one number through which y depends on the functions, if there is one: a single function or a mixture.
    /// This likelihood then gives the predictions for the [row of the number](Self::latent_row).
    fn of_mixture(&self) -> Option<&dyn OneFunction> {
        self.one()
    }

    /// Returns the row of the number that [`of_mixture`](Self::of_mixture) depends on.
    fn latent_row<'a>(&self, row: Row<'a>) -> LatentRow<'a> {
        row.of(0)
    }

    /// Returns true if its functions are of the same kind, so that they share a kernel and inducing inputs by default.
    fn alike(&self) -> bool {
        self.one().is_some()
    }

    /// Returns one output, if the functions are processes that outputs mix; with one output, the likelihood itself.
    fn output(&self, which: usize) -> Option<Mixed> {
        let _ = which;
        None
    }

    /// Returns the weights `w` of a likelihood that depends on its functions g only through
    /// `b + Σ_l w_l g_l`.
    fn mixing(&self) -> Option<&[f64]> {
        None
    }

    /// Returns true if fits standardise the target.
    fn scales_target(&self) -> bool {
        self.of_mixture().map_or(self.target_kind().is_standardised(), |one| one.scales_target())
    }

    /// `log p(y|f)` and its slopes `∂/∂f_c` at every node.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], slope: &mut [f64]);

    /// `∂²_{f_c} log p(y|f)` for every c at every node: the diagonals of the Hessians.
    fn curvature(&self, at: Observation, f: &[f64], out: &mut [f64]);

    /// Adds `Σ_k w_k ∂_ψ log p(y|f_k)` over the nodes to `own`.
    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        if let Some(one) = self.one() {
            one.own_gradient(at, f, weights, own);
        }
    }

    /// Returns the largest `log p(y|f)` over all f, if it is bounded; rejection sampling from `N(f) p(y|f)` needs it.
    fn highest(&self, at: Observation) -> Option<f64> {
        self.one().map(|one| one.value_and_slope(at, one.peak(at)).0)
    }

    /// Returns `E log p(y|f)` or `log E p(y|f)` of the row, and sets its derivatives.
    fn expectation(&self, of: Expectation, row: Row, slopes: Slopes, integrator: &mut Integrator) -> f64;

    /// Returns the log density of everything observed in a row, `log ∫ p(y|f) N(f; μ, diag v) df`, and sets its derivatives. It differs from
    /// the log predictive density only if several targets are observed.
    fn log_evidence(&self, row: Row, slopes: Slopes, integrator: &mut Integrator) -> f64 {
        self.expectation(Expectation::LogPredictive, row, slopes, integrator)
    }

    /// Returns mean and variance of y under the predictive distribution, for a row of unknown y; NaN for classes.
    fn predictive_moments(&self, row: Row, integrator: &mut Integrator) -> (f64, f64) {
        self.of_mixture()
            .map_or((f64::NAN, f64::NAN), |one| one.predictive_moments(self.latent_row(row), integrator))
    }

    /// `P(Y ≤ y)` under the predictive distribution, where y is the target of the row; NaN for classes, which have no order.
    fn predictive_cdf(&self, row: Row, integrator: &mut Integrator) -> f64 {
        self.of_mixture().map_or(f64::NAN, |one| one.predictive_cdf(self.latent_row(row), integrator))
    }

    /// The smallest y with `P(Y ≤ y) ≥ p`, for p in (0, 1) and a row of unknown y; NaN for classes.
    fn predictive_quantile(&self, p: f64, row: Row, integrator: &mut Integrator) -> f64 {
        if let Some(one) = self.of_mixture() {
            return one.predictive_quantile(p, self.latent_row(row), integrator);
        }
        let mut cdf = |y| self.predictive_cdf(row.with(y), integrator);
        quantile::search(self.target_kind(), p, self.levels(), &mut cdf)
    }

    /// The probability of every class, [`levels`](Self::levels) of them; families without classes do not write it.
    fn probabilities(&self, marginal: Marginal<'_>, integrator: &mut Integrator, out: &mut [f64]) {
        if let ([zero, one], TargetKind::Binary) = (out, self.target_kind()) {
            *one = self.predictive_moments(Row::new(Observation::of(1.0), marginal), integrator).0;
            *zero = 1.0 - *one;
        }
    }

    /// The continuous ranked probability score of a row, as [`OneFunction::crps`]; NaN for several classes.
    fn crps(&self, row: Row, integrator: &mut Integrator) -> f64 {
        match self.of_mixture() {
            Some(one) => one.crps(self.latent_row(row), integrator),
            None => crps::of(self, row, integrator),
        }
    }

    /// Returns the names of the values in a prediction other than the moments of y: `probability_of_zero`, `noise_sd`, …
    fn details(&self) -> &'static [&'static str] {
        &[]
    }

    /// The values of the [`details`](Self::details), for a row of unknown y.
    fn detail(&self, which: usize, row: Row, integrator: &mut Integrator) -> f64 {
        let _ = (which, row, integrator);
        f64::NAN
    }

    /// A draw of y given f, for a row like `at` of unknown y.
    fn sample(&self, at: Observation, f: &[f64], random: &mut ChaCha8Rng) -> f64;

    /// The unit deviance of a count, as [`OneFunction::unit_deviance`].
    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        self.of_mixture().map_or(f64::NAN, |one| one.unit_deviance(y, mean))
    }

    /// The number of levels or classes; 2 for families without them.
    fn levels(&self) -> usize {
        self.of_mixture().map_or(2, |one| one.levels())
    }

    /// Returns values of the functions that explain the observation well; regressions for a start use them.
    fn working_response(&self, at: Observation, out: &mut [f64]);

    /// Checks the likelihood at some rows of the data before a fit; by default it is not checked.
    ///
    /// # Errors
    /// What is wrong and expected, in words.
    fn check(&self, rows: &[Observation]) -> Result<(), String> {
        let _ = rows;
        Ok(())
    }

    /// Chooses starting values of own parameters, other than fixed or given ones, from the targets (and exposures, none for all
    /// 1); returns the constant latent means that fit them best, one per function.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> Vec<f64>;

    /// Visits the own parameters in the fixed order that flat gradients use; by default there are none.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        let _ = visit;
    }

    /// Visits the own parameters mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        let _ = visit;
    }
}

/// Copies of likelihoods behind a box, which all that are [`Clone`] have.
pub trait LikelihoodBox {
    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn Likelihood>;
}

impl<L: Likelihood + Clone + 'static> LikelihoodBox for L {
    fn boxed_clone(&self) -> Box<dyn Likelihood> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Likelihood> {
    fn clone(&self) -> Self {
        self.as_ref().boxed_clone()
    }
}

impl dyn Likelihood + '_ {
    /// The number C of latent functions.
    pub fn functions(&self) -> usize {
        self.function_names().len()
    }

    /// The number of own parameter values.
    pub fn own_len(&self) -> usize {
        let mut own = 0;
        self.for_each_parameter(&mut |p| own += p.values.len());
        own
    }

    /// σ² of normal noise around one function; see [`OneFunction::gaussian_noise`].
    pub fn gaussian_noise(&self) -> Option<f64> {
        self.one().and_then(|one| one.gaussian_noise())
    }
}

/// The likelihood of a model.
pub type ObservationModel = Box<dyn Likelihood>;

impl<L: Likelihood + 'static> From<L> for ObservationModel {
    fn from(likelihood: L) -> Self {
        Box::new(likelihood)
    }
}

/// The methods of a likelihood that visit the own parameters: the named fields.
macro_rules! own_parameters {
    ($($field:ident),*) => {
        fn for_each_parameter<'a>(&'a self, _visit: &mut dyn FnMut(&'a sparsegp_kernels::Parameter)) {
            $(_visit(&self.$field);)*
        }

        fn for_each_parameter_mut(&mut self, _visit: &mut dyn FnMut(&mut sparsegp_kernels::Parameter)) {
            $(_visit(&mut self.$field);)*
        }
    };
}
use own_parameters;
