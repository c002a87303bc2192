//! Observation models p(y | f): expectations under N(f; μ, v) with derivatives, and predictions.
//!
//! A likelihood is a type that implements [`Likelihood`]. The built-in likelihoods are listed by
//! name as [`LikelihoodKind`]s. To fit with your own likelihood, start the fit from a model that
//! contains it, or add it to a [`Registry`](crate::Registry) and name it in the options.
//!
//! ```
//! use rand::RngExt;
//! use sparsegp::likelihood::{Likelihood, Observation, TargetKind, testkit::check_likelihood};
//! use sparsegp::quadrature::Resolution;
//! use sparsegp::kernels::Parameter;
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
//! impl Likelihood for LogisticNoise {
//!     fn name(&self) -> &'static str {
//!         "logistic-noise"
//!     }
//!
//!     fn target_kind(&self) -> TargetKind {
//!         TargetKind::Real
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
//!     fn conditional_moments(&self, f: f64, _: f64) -> (f64, f64) {
//!         (f, (std::f64::consts::PI * self.s()).powi(2) / 3.0)
//!     }
//!
//!     fn conditional_cdf(&self, y: f64, f: f64, _: f64) -> f64 {
//!         1.0 / (1.0 + ((f - y) / self.s()).exp())
//!     }
//!
//!     fn sample(&self, f: f64, _: f64, random: &mut rand_chacha::ChaCha8Rng) -> f64 {
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
//!
//!     fn boxed_clone(&self) -> Box<dyn Likelihood> {
//!         Box::new(self.clone())
//!     }
//! }
//!
//! check_likelihood(&LogisticNoise::new(0.7), &[-2.0, 0.4, 3.0].map(Observation::of))?;
//! # Ok::<(), String>(())
//! ```

mod bernoulli;
mod beta;
mod crps;
mod density_bounds;
mod expectation;
mod gamma;
mod gaussian;
pub mod joint;
mod joint_kinds;
mod kind;
mod list;
mod log_rate;
mod many_rows;
mod negative_binomial;
mod observation_model;
mod ordinal;
mod peak;
mod poisson;
mod quantile;
mod student_t;
mod sums;
mod target;
pub mod testkit;
mod threshold;

pub use bernoulli::{BernoulliLogit, BernoulliProbit};
pub use beta::{Beta, BetaLogit, BetaProbit, Link, Logit, Probit};
pub(crate) use crps::continuous as continuous_crps;
pub use density_bounds::DensityBounds;
pub use gamma::{Exponential, Gamma};
pub use gaussian::Gaussian;
pub(crate) use kind::Build;
use kind::Entry;
pub use kind::LikelihoodKind;
pub(crate) use many_rows::LatentRows;
pub use many_rows::RowNodes;
pub use negative_binomial::NegativeBinomial;
pub use observation_model::ObservationModel;
pub use ordinal::Ordinal;
pub use poisson::{PoissonExp, PoissonSoftplus};
pub use student_t::StudentT;
pub use target::{EXPOSURES, HIGHEST_WHOLE, TargetKind, Task};

use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;
use std::fmt::{self, Debug};

/// The observation of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation<'a> {
    /// The target, coded as its kind says (classes 0 and 1, levels 0, 1, …).
    pub y: f64,
    /// The factor of a count's rate; 1 for other kinds.
    pub exposure: f64,
    /// The targets of several outputs, with NaN for an unobserved one; empty for one output.
    pub outputs: &'a [f64],
}

impl fmt::Display for Observation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outputs {
            [] => write!(f, "y = {}", self.y)?,
            outputs => write!(f, "y = {outputs:?}")?,
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
        Observation { y, exposure, outputs: &[] }
    }
}

/// The normal distribution `N(f; μ, v)` of one latent function at one datum, under q.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentMarginal {
    /// μ.
    pub mean: f64,
    /// v.
    pub variance: f64,
}

impl LatentMarginal {
    /// The distribution `N(mean, variance)`.
    pub const fn new(mean: f64, variance: f64) -> Self {
        LatentMarginal { mean, variance }
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

/// A factorised likelihood with one latent function.
///
/// A family defines its log density in f. Expectations follow by quadrature unless it overrides them with closed forms, and predictions by
/// averages of its functions of y given f. [`testkit::check_likelihood`] compares them.
///
/// f is on the scale the model sees: that of the [standardised](Likelihood::scales_target) target for real targets. `own` slices follow
/// the order of [`Likelihood::for_each_parameter`], are in natural units, accumulate, and are empty if they are not requested. No input
/// may cause a panic; numerical trouble gives NaN or infinity.
pub trait Likelihood: Send + Sync + Debug {
    /// Returns the unique name in options, reports and model files, such as `gaussian`.
    fn name(&self) -> &'static str;

    /// The targets it is defined on.
    fn target_kind(&self) -> TargetKind;

    /// Returns true if fits standardise the target, which is valid if f and the own parameters absorb its location and scale.
    fn scales_target(&self) -> bool {
        self.target_kind() == TargetKind::Real
    }

    /// Returns σ² if `p(y|f) = N(y; f, σ²)` and σ² is the only own parameter. The best q, and
    /// bounds without a q, then have closed forms, which fits use. `None` for all other
    /// likelihoods.
    fn gaussian_noise(&self) -> Option<f64> {
        None
    }

    /// Returns the variance of an observation on the scale of f, given the mean of the targets: the variance of the noise, or the
    /// distribution-specific variance of Nakagawa & Schielzeth (2010). Intraclass correlations are shares in a sum with it. `None` if the
    /// family has no such variance.
    fn observation_variance(&self, mean: f64) -> Option<f64> {
        let _ = mean;
        self.gaussian_noise()
    }

    /// `log p(y|f_k)` and `∂_f log p(y|f_k)` at every `f_k`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]);

    /// `∂²_f log p(y|f)`, which must be exact: steps towards modes and estimators of gradients use
    /// it.
    fn curvature(&self, at: Observation, f: f64) -> f64;

    /// Returns bounds on p(y|f) and its first two derivatives over all f, or `None` if they are unknown or infinite.
    fn density_bounds(&self, at: Observation) -> Option<DensityBounds> {
        let _ = at;
        None
    }

    /// Returns θ_min and θ_max: the smallest and the largest `−∂²_f log p(y|f)` over all f and
    /// targets of the kind, or `None` if they are unknown or unbounded.
    fn loss_curvature(&self) -> Option<(f64, f64)> {
        None
    }

    /// Adds `Σ_k w_k ∂_ψ log p(y|f_k)` to `own` for the likelihood's own parameters ψ, natural units; nothing without any.
    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let _ = (at, f, weights, own);
    }

    /// Returns true if one call for the nodes of many rows is much quicker than a call per row, for example because every call is slow to begin.
    /// Losses then call [`log_densities`](Self::log_densities), [`own_gradients`](Self::own_gradients) and [`peaks`](Self::peaks), and
    /// integrate by quadrature even if closed forms exist.
    fn prefers_many_rows(&self) -> bool {
        false
    }

    /// Like [`log_density`](Self::log_density), at the nodes of many rows.
    fn log_densities(&self, nodes: RowNodes<'_>, value: &mut [f64], first: &mut [f64]) {
        for (row, at) in nodes.iter() {
            self.log_density(*row, &nodes.f[at.clone()], &mut value[at.clone()], &mut first[at]);
        }
    }

    /// Like [`own_gradient`](Self::own_gradient), at the nodes of many rows.
    fn own_gradients(&self, nodes: RowNodes<'_>, weights: &[f64], own: &mut [f64]) {
        for (row, at) in nodes.iter() {
            self.own_gradient(*row, &nodes.f[at.clone()], &weights[at], own);
        }
    }

    /// Like [`peak`](Self::peak), for many rows.
    fn peaks(&self, rows: &[Observation<'_>], out: &mut [f64]) {
        rows.iter().zip(out).for_each(|(row, out)| *out = self.peak(*row));
    }

    /// Returns the resolution that quadrature needs for this likelihood.
    fn resolution(&self, at: Observation) -> Resolution;

    /// Returns the f that maximises `p(y|f)`, which has a single peak, or a finite f near the
    /// supremum if that is at infinity. By default it is found by bisection of the slope; a formula
    /// is much quicker.
    fn peak(&self, at: Observation) -> f64 {
        peak::climb(&mut |f| {
            let (mut value, mut first) = ([0.0], [0.0]);
            self.log_density(at, &[f], &mut value, &mut first);
            first[0]
        })
    }

    /// `E_{N(f; μ, v)} log p(y|f)`.
    fn expected_log_density(
        &self,
        at: Observation,
        latent: LatentMarginal,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        integrator.expected_log_density(self, at, latent, own)
    }

    /// `log E_{N(f; μ, v)} p(y|f)`.
    fn log_predictive(
        &self,
        at: Observation,
        latent: LatentMarginal,
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        integrator.log_predictive(self, at, latent, own)
    }

    /// Returns mean and variance of y given f; infinite or NaN if they do not exist.
    fn conditional_moments(&self, f: f64, exposure: f64) -> (f64, f64);

    /// Returns the unit deviance of a count y from a mean: twice the log ratio of the density of y under the best mean to that under this
    /// mean. NaN for other families.
    fn unit_deviance(&self, y: f64, mean: f64) -> f64 {
        let _ = (y, mean);
        f64::NAN
    }

    /// `P(Y ≤ y | f)`.
    fn conditional_cdf(&self, y: f64, f: f64, exposure: f64) -> f64;

    /// A draw of y given f.
    fn sample(&self, f: f64, exposure: f64, random: &mut ChaCha8Rng) -> f64;

    /// Mean and variance of y under the predictive distribution.
    fn predictive_moments(
        &self,
        latent: LatentMarginal,
        exposure: f64,
        integrator: &mut Integrator,
    ) -> (f64, f64) {
        let LatentMarginal { mean: mu, variance: v } = latent;
        let strip = self.resolution(Observation::exposed(1.0, exposure)).strip;
        let mut average = |g: &mut dyn FnMut(f64) -> f64| integrator.average(mu, v, strip, g);
        let mean = average(&mut |f| self.conditional_moments(f, exposure).0);
        let variance = average(&mut |f| {
            let (m, v) = self.conditional_moments(f, exposure);
            v + (m - mean) * (m - mean)
        });
        (mean, variance)
    }

    /// `P(Y ≤ y)` under the predictive distribution.
    fn predictive_cdf(
        &self,
        y: f64,
        latent: LatentMarginal,
        exposure: f64,
        integrator: &mut Integrator,
    ) -> f64 {
        let LatentMarginal { mean: mu, variance: v } = latent;
        integrator
            .average(mu, v, self.cdf_strip(Observation::exposed(y, exposure)), &mut |f| {
                self.conditional_cdf(y, f, exposure)
            })
            .clamp(0.0, 1.0)
    }

    /// Returns the half-width of the strip in which `P(Y ≤ y | f)` is analytic in f, or practically
    /// so.
    fn cdf_strip(&self, at: Observation) -> f64 {
        self.resolution(at).strip
    }

    /// The smallest y with `P(Y ≤ y) ≥ p`, for p in (0, 1).
    fn predictive_quantile(
        &self,
        p: f64,
        latent: LatentMarginal,
        exposure: f64,
        integrator: &mut Integrator,
    ) -> f64 {
        let mut cdf = |y| self.predictive_cdf(y, latent, exposure, integrator);
        quantile::search(self.target_kind(), p, self.levels(), &mut cdf)
    }

    /// Returns the continuous ranked probability score of an observation under the predictive
    /// distribution, `∫ (F(t) − 1{y ≤ t})² dt` (Gneiting & Raftery 2007, eq. 20), in units of the
    /// target as the model sees it. For counts and levels it is the sum over them (Epstein 1969),
    /// for classes `(P(y = 1) − y)²`. By default it is computed by quadrature of the predictive
    /// distribution function; NaN if that function is NaN.
    fn crps(&self, at: Observation, marginal: LatentMarginal, integrator: &mut Integrator) -> f64 {
        let Observation { y, exposure, .. } = at;
        if ![y, marginal.mean, marginal.variance].iter().all(|value| value.is_finite()) {
            return f64::NAN;
        }
        let mut cdf = |y: f64| self.predictive_cdf(y, marginal, exposure, integrator);
        match self.target_kind() {
            TargetKind::Binary => (self.predictive_moments(marginal, exposure, integrator).0 - y).powi(2),
            TargetKind::Ordinal => crps::levels(y, self.levels(), &mut cdf),
            TargetKind::Count => {
                crps::counts(y, &mut |k| self.smooth_count_cdf(k, marginal, exposure, integrator))
            }
            kind => crps::continuous(kind, y, &mut cdf),
        }
    }

    /// `P(Y ≤ k)` of counts under the predictive distribution as a function of real numbers k,
    /// which must be smooth from 31 on.
    fn smooth_count_cdf(
        &self,
        k: f64,
        marginal: LatentMarginal,
        exposure: f64,
        integrator: &mut Integrator,
    ) -> f64 {
        crps::between(k, &mut |y| self.predictive_cdf(y, marginal, exposure, integrator))
    }

    /// The number of ordered levels, for likelihoods that have them; 2 for classes.
    fn levels(&self) -> usize {
        2
    }

    /// Returns a value of f that explains the observation well; regressions for a start use it.
    fn working_response(&self, at: Observation) -> f64 {
        self.peak(at)
    }

    /// Chooses starting values of own parameters, other than fixed or given ones, from the targets (and exposures, none for all
    /// 1); returns the latent mean that fits them best.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64;

    /// Visits the likelihood's own parameters in the fixed order that flat gradients use; by default there are no parameters.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter)) {
        let _ = visit;
    }

    /// Visits the own parameters mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter)) {
        let _ = visit;
    }

    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn Likelihood>;
}

/// The methods of [`Likelihood`] that follow from its [`LikelihoodKind`].
macro_rules! named {
    ($kind:expr) => {
        fn name(&self) -> &'static str {
            $kind.name()
        }

        fn target_kind(&self) -> TargetKind {
            $kind.target_kind()
        }
    };
}
use named;

/// The methods of [`Likelihood`] that visit the own parameters (the named fields), and that copy
/// the likelihood.
macro_rules! own_parameters {
    ($($field:ident),*) => {
        fn for_each_parameter<'a>(&'a self, _visit: &mut dyn FnMut(&'a sparsegp_kernels::Parameter)) {
            $(_visit(&self.$field);)*
        }

        fn for_each_parameter_mut(&mut self, _visit: &mut dyn FnMut(&mut sparsegp_kernels::Parameter)) {
            $(_visit(&mut self.$field);)*
        }

        fn boxed_clone(&self) -> Box<dyn Likelihood> {
            Box::new(self.clone())
        }
    };
}
use own_parameters;

/// Sets starting values that the parameter's transform admits, unless it is fixed or its start was given.
fn start(parameter: &mut Parameter, values: &[f64]) {
    let free = !parameter.fixed && !parameter.given;
    if free && values.iter().all(|&value| parameter.transform.admits(value)) {
        parameter.values.copy_from_slice(values);
    }
}

impl dyn Likelihood + '_ {
    /// The number of own parameter values.
    pub fn own_len(&self) -> usize {
        let mut own = 0;
        self.for_each_parameter(&mut |p| own += p.values.len());
        own
    }
}

impl Clone for Box<dyn Likelihood> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
