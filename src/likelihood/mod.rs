//! Observation models p(y | f): expectations under N(f; μ, v) with derivatives, and predictions; no q, no kernels.

mod bernoulli;
mod beta;
mod gamma;
mod gaussian;
mod kind;
mod log_rate;
mod negative_binomial;
pub mod normal;
mod ordinal;
mod poisson;
mod quantile;
mod special;
mod student_t;
mod sums;

pub use bernoulli::{BernoulliLogit, BernoulliProbit};
pub use beta::{Beta, BetaLogit, BetaProbit, Link, Logit, Probit};
pub use gamma::{Exponential, Gamma};
pub use gaussian::Gaussian;
pub use kind::LikelihoodKind;
pub use negative_binomial::NegativeBinomial;
pub use ordinal::Ordinal;
pub use poisson::{PoissonExp, PoissonSoftplus};
pub use student_t::StudentT;

use crate::quadrature::{Integrator, Resolution};
use rand_chacha::ChaCha8Rng;
use sparsegp_kernels::Parameter;
use std::fmt::Debug;

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The target, coded as its kind says (classes 0 and 1, levels 0, 1, …).
    pub y: f64,
    /// What a count's rate is multiplied by; 1 for other kinds.
    pub exposure: f64,
}

impl Observation {
    /// An observation with exposure 1.
    pub fn of(y: f64) -> Self {
        Observation { y, exposure: 1.0 }
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
/// A family states its log density in f; expectations follow by quadrature unless it overrides them in closed form.
/// `own` slices follow the order of `for_each_parameter`; they are accumulated into, and empty when not wanted.
pub trait Likelihood: Send + Sync + Debug {
    /// Which family this is.
    fn kind(&self) -> LikelihoodKind;

    /// `log p(y|f_k)` and `∂_f log p(y|f_k)` at every `f_k`.
    fn log_density(&self, at: Observation, f: &[f64], value: &mut [f64], first: &mut [f64]);

    /// `∂²_f log p(y|f)`.
    fn curvature(&self, at: Observation, f: f64) -> f64;

    /// Adds `Σ_k w_k ∂_ψ log p(y|f_k)` to `own` for the likelihood's own parameters ψ, natural units; nothing without any.
    fn own_gradient(&self, at: Observation, f: &[f64], weights: &[f64], own: &mut [f64]) {
        let _ = (at, f, weights, own);
    }

    /// How finely quadrature has to look at this likelihood.
    fn resolution(&self, at: Observation) -> Resolution;

    /// The f that maximises `p(y|f)`, which has a single peak; a finite f near the supremum when that is at infinity.
    fn peak(&self, at: Observation) -> f64;

    /// `E_{N(f; μ, v)} log p(y|f)`.
    fn expected_log_density(
        &self,
        at: Observation,
        (mu, v): (f64, f64),
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        integrator.expected_log_density(self, at, (mu, v), own)
    }

    /// `log E_{N(f; μ, v)} p(y|f)`.
    fn log_predictive(
        &self,
        at: Observation,
        (mu, v): (f64, f64),
        own: &mut [f64],
        integrator: &mut Integrator,
    ) -> Local {
        integrator.log_predictive(self, at, (mu, v), own)
    }

    /// Mean and variance of y given f.
    fn conditional_moments(&self, f: f64, exposure: f64) -> (f64, f64);

    /// `P(Y ≤ y | f)`.
    fn conditional_cdf(&self, y: f64, f: f64, exposure: f64) -> f64;

    /// A draw of y given f.
    fn sample(&self, f: f64, exposure: f64, random: &mut ChaCha8Rng) -> f64;

    /// Mean and variance of y under the predictive distribution.
    fn predictive_moments(
        &self,
        (mu, v): (f64, f64),
        exposure: f64,
        integrator: &mut Integrator,
    ) -> (f64, f64) {
        let strip = self.resolution(Observation { y: 1.0, exposure }).strip;
        let mut average = |g: &mut dyn FnMut(f64) -> f64| integrator.average(mu, v, strip, g);
        let mean = average(&mut |f| self.conditional_moments(f, exposure).0);
        let variance = average(&mut |f| {
            let (m, v) = self.conditional_moments(f, exposure);
            v + (m - mean) * (m - mean)
        });
        (mean, variance)
    }

    /// `P(Y ≤ y)` under the predictive distribution.
    fn predictive_cdf(&self, y: f64, (mu, v): (f64, f64), exposure: f64, integrator: &mut Integrator) -> f64 {
        integrator
            .average(mu, v, self.cdf_strip(Observation { y, exposure }), &mut |f| {
                self.conditional_cdf(y, f, exposure)
            })
            .clamp(0.0, 1.0)
    }

    /// The half-width of the strip in which `P(Y ≤ y | f)` is analytic, or as good as that, in f.
    fn cdf_strip(&self, at: Observation) -> f64 {
        self.resolution(at).strip
    }

    /// The smallest y with `P(Y ≤ y) ≥ p`, for p in (0, 1).
    fn predictive_quantile(&self, p: f64, at: (f64, f64), exposure: f64, integrator: &mut Integrator) -> f64 {
        let mut cdf = |y| self.predictive_cdf(y, at, exposure, integrator);
        crate::likelihood::quantile::search(self.kind().target_kind(), p, self.levels(), &mut cdf)
    }

    /// The number of ordered levels, for likelihoods that have them; 2 for classes.
    fn levels(&self) -> usize {
        2
    }

    /// A value of f that explains the observation about as well as any: what a regression is started on.
    fn working_response(&self, at: Observation) -> f64 {
        self.peak(at)
    }

    /// Chooses starting values of own parameters from the targets; returns the latent mean that fits them best.
    fn initialise(&mut self, y: &[f64], exposure: &[f64]) -> f64;

    /// Visits the own parameters in the fixed order that flat gradients use.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter));

    /// Visits the own parameters mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter));

    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn Likelihood>;
}

/// The methods of [`Likelihood`] that walk the own parameters, which are the named fields, and that copy.
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
