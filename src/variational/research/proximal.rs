//! Proximal gradient descent (prox-SGD) on (m, C) with C lower triangular: the proximal operator; `cholesky_descent` takes the steps.
//!
//! Domke, Gower & Garrigos 2023: a gradient step on the energy (everything except the entropy `−β log det C`), then the proximal operator
//! of the entropy:
//!
//! ```text
//! m₊ = m − γ ĝ,    C ← C − γ tril(H C),    C_ii ← ½ (C_ii + √(C_ii² + 4γβ))
//! ```
//!
//! Symbols are those of [`variational`](crate::variational).

use super::cholesky_descent::{CholeskyDescent, Finish};
use crate::variational::rule::Rule;
use faer::MatMut;

pub(in crate::variational) const RULE: Rule = Rule {
    word: "prox-sgd",
    mixes: false,
    entropy_gradient: false,
    sticks_the_landing: false,
    guards: &[],
    projects: false,
    floors_at_smoothness: false,
    takes_smoothness: true,
    default_step: Some(0.5),
    keeps_moments: false,
    build: |q, options| Box::new(CholeskyDescent::new(q, options, Finish::Proximal)),
    diagonal: |rule, gradient, beta, step| {
        rule.descend(gradient, beta, step, |x, gamma, _| {
            Finish::Proximal.entry(x.deviation, x.deviation - gamma * x.hessian * x.deviation, gamma * beta)
        })
    },
};

/// Applies the proximal operator of `−weight · Σ log C_ii` to a square C: the diagonal becomes
/// positive, and the other entries stay (Domke, Gower & Garrigos 2023).
pub fn prox_negative_entropy(mut c: MatMut<'_, f64>, weight: f64) {
    for i in 0..c.nrows().min(c.ncols()) {
        c[(i, i)] = prox_entry(c[(i, i)], weight);
    }
}

/// Returns `½ (c + √(c² + 4w))`, the positive root of `x² − c x − w`, without cancellation where c
/// < 0.
pub(in crate::variational) fn prox_entry(c: f64, weight: f64) -> f64 {
    let root = c.hypot(2.0 * weight.sqrt());
    if c < 0.0 { 2.0 * weight / (root - c) } else { 0.5 * (c + root) }
}
