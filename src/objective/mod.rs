//! Training objectives as per-datum losses ℓ(y, μ, v) plus β·KL; no q-updates, no steps.

use crate::likelihood::{Derivatives, Likelihood};

/// The (β-)ELBO to minimise, `(n/b) Σ −E log p(y_i | f_i) + β KL(q ‖ p)`; β = 1 is the evidence lower bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BetaElbo {
    /// The weight of the KL term, positive.
    pub beta: f64,
}

impl BetaElbo {
    /// `scale · Σ ℓ_i` over a block with its derivatives `g = ∂/∂μ` and `h = ∂/∂v`, all scaled by `scale = n/b`.
    pub fn losses(
        &self,
        likelihood: &dyn Likelihood,
        scale: f64,
        (y, mu, v): (&[f64], &[f64], &[f64]),
        out: Derivatives<'_>,
    ) -> f64 {
        let Derivatives { mean, variance, parameters } = out;
        // The caller's accumulator starts at zero for every block, so it can be scaled in place.
        let fresh = Derivatives { mean: &mut *mean, variance: &mut *variance, parameters: &mut *parameters };
        let value = likelihood.expected_log_density(y, mu, v, fresh);
        for x in mean.iter_mut().chain(variance).chain(parameters) {
            *x *= -scale;
        }
        -scale * value
    }
}
