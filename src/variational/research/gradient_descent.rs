//! Stochastic gradient descent (SGD) on (m, C) with C lower triangular, its diagonal clamped: the baseline of Wu & Gardner 2024.
//!
//! `cholesky_descent` takes its steps; this file declares the rule.

use super::cholesky_descent::{CholeskyDescent, Finish};
use crate::variational::rule::Rule;

pub(in crate::variational) const RULE: Rule = Rule {
    word: "sgd",
    mixes: false,
    entropy_gradient: true,
    sticks_the_landing: true,
    guards: &[],
    projects: false,
    floors_at_smoothness: false,
    takes_smoothness: true,
    default_step: Some(0.5),
    keeps_moments: false,
    build: |q, options| Box::new(CholeskyDescent::new(q, options, Finish::Clamped)),
    diagonal: |rule, gradient, beta, step| {
        rule.descend(gradient, beta, step, |x, gamma, _| {
            Finish::Clamped.entry(x.deviation, x.deviation - gamma * x.hessian * x.deviation, gamma * beta)
        })
    },
};
