//! Observation models p(y | f): expectations under N(f; μ, v) with derivatives, and predictions; no q, no kernels.

mod gaussian;

pub use gaussian::Gaussian;

use sparsegp_kernels::Parameter;
use std::fmt::Debug;

/// Per-datum derivatives of a block's terms, written by a likelihood; all slices have the block's length.
pub struct Derivatives<'a> {
    /// `∂/∂μ_i`.
    pub mean: &'a mut [f64],
    /// `∂/∂v_i`.
    pub variance: &'a mut [f64],
    /// Accumulates `Σ_i ∂/∂ψ` for the likelihood's own parameters, in the order of `for_each_parameter`.
    pub parameters: &'a mut [f64],
}

/// A factorised likelihood with one latent function.
pub trait Likelihood: Send + Sync + Debug {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// `Σ_i E_{N(f; μ_i, v_i)} log p(y_i | f)` over a block, with its derivatives.
    fn expected_log_density(&self, y: &[f64], mu: &[f64], v: &[f64], out: Derivatives<'_>) -> f64;

    /// `log ∫ p(y | f) N(f; μ, v) df` for one datum.
    fn log_predictive(&self, y: f64, mu: f64, v: f64) -> f64;

    /// Mean and variance of y under the predictive distribution.
    fn predictive_moments(&self, mu: f64, v: f64) -> (f64, f64);

    /// `P(Y ≤ y)` under the predictive distribution.
    fn predictive_cdf(&self, y: f64, mu: f64, v: f64) -> f64;

    /// The value y with `P(Y ≤ y) = p`, for p in (0, 1).
    fn predictive_quantile(&self, p: f64, mu: f64, v: f64) -> f64;

    /// Visits the own parameters in the fixed order that flat gradients use.
    fn for_each_parameter<'a>(&'a self, visit: &mut dyn FnMut(&'a Parameter));

    /// Visits the own parameters mutably, in the same order.
    fn for_each_parameter_mut(&mut self, visit: &mut dyn FnMut(&mut Parameter));

    /// A copy behind a new box.
    fn boxed_clone(&self) -> Box<dyn Likelihood>;
}

impl Clone for Box<dyn Likelihood> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
