//! Proximal gradient descent (prox-SGD) on (m, C) with C lower triangular; no losses.
//!
//! Domke, Gower & Garrigos 2023: a gradient step on the energy (everything but the entropy `−β log det C`), then the
//! proximal operator of the entropy:
//!
//! ```text
//! m₊ = m − γ ĝ,    C ← C − γ tril(H C),    C_ii ← ½ (C_ii + √(C_ii² + 4γβ))
//! ```

use super::factor::{energy_gradient, is_valid_lower, lower_factor, set_covariance};
use super::rule::Rule;
use super::smoothness::Smoothness;
use super::{DataGradient, Factor, MAX_HALVINGS, Normal, RuleOptions, StepInfo, UpdateRule};
use super::{mean_gradient, move_mean};
use crate::checkpoint::Archive;
use crate::linalg::{self, Part, Shape};
use faer::{Mat, MatMut};

pub(super) const RULE: Rule = Rule {
    word: "prox-sgd",
    mixes: false,
    entropy_gradient: false,
    sticks_the_landing: false,
    takes_guard: false,
    projects: false,
    takes_smoothness: true,
    default_step: Some(0.5),
    keeps_moments: false,
    build: |q, options| Box::new(Proximal::new(q, options)),
    diagonal: |rule, _, beta, step| {
        rule.descend(beta, step, |x, gamma, _| {
            prox_entry(x.deviation - gamma * x.hessian * x.deviation, gamma * beta)
        })
    },
};

/// The proximal operator of `−weight · Σ log C_ii` at a square C: its diagonal becomes positive, the rest stays
/// (Domke, Gower & Garrigos 2023).
pub fn prox_negative_entropy(mut c: MatMut<'_, f64>, weight: f64) {
    for i in 0..c.nrows().min(c.ncols()) {
        c[(i, i)] = prox_entry(c[(i, i)], weight);
    }
}

/// `½ (c + √(c² + 4w))`, the positive root of `x² − c x − w`, without cancellation where c < 0.
pub(super) fn prox_entry(c: f64, weight: f64) -> f64 {
    let root = c.hypot(2.0 * weight.sqrt());
    if c < 0.0 { 2.0 * weight / (root - c) } else { 0.5 * (c + root) }
}

/// The rule, with the factor C it carries and its buffers.
pub struct Proximal {
    factor: Mat<f64>,
    candidate: Mat<f64>,
    /// `tril(H C)`.
    energy: Mat<f64>,
    gradient: Vec<f64>,
    smoothness: Smoothness,
}

impl Proximal {
    /// A rule for `q` of dimension M, whose covariance (`M × M`, full) is factorised once here; of the options `smoothness`
    /// and `relative` concern it.
    pub fn new(q: &Normal, options: &RuleOptions) -> Self {
        let m = q.dim();
        let mut rule = Proximal {
            factor: linalg::spread(m, m),
            candidate: linalg::spread(m, m),
            energy: linalg::spread(m, m),
            gradient: vec![0.0; m],
            smoothness: Smoothness::new((options.smoothness, options.relative), m),
        };
        rule.restart(q);
        rule
    }

    fn observe(&mut self, gradient: &DataGradient<'_>, beta: f64) {
        let c = self.factor.as_ref();
        match gradient.path {
            None => self.smoothness.observe(gradient.cov.full(), beta),
            Some(path) => self.smoothness.observe_path(path.full(), beta, |transposed, x, _| {
                if transposed { linalg::solve_lower_transposed(c, x) } else { linalg::solve_lower(c, x) }
            }),
        }
    }

    /// Forms C₊ for γ; false when it is not valid.
    fn moves_to(&mut self, gamma: f64, beta: f64) -> bool {
        let columns =
            self.candidate.as_mut().col_iter_mut().zip(self.factor.col_iter().zip(self.energy.col_iter()));
        for (candidate, (c, energy)) in columns {
            let both = c.iter().zip(energy.iter());
            candidate.iter_mut().zip(both).for_each(|(new, (c, x))| *new = c - gamma * x);
        }
        prox_negative_entropy(self.candidate.as_mut(), gamma * beta);
        is_valid_lower(self.candidate.as_ref())
    }
}

impl UpdateRule for Proximal {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let lower = (self.factor.as_ref(), Shape::Lower);
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient)
            && energy_gradient(&gradient, lower, beta, Part::Lower, &mut self.energy))
        {
            return StepInfo::REJECTED;
        }
        if self.smoothness.scales_steps() {
            self.observe(&gradient, beta);
        }
        let mut step = step;
        for rollbacks in 0..=MAX_HALVINGS {
            let gamma = self.smoothness.gamma(step, beta);
            if !self.moves_to(gamma, beta) {
                step *= 0.5;
                continue;
            }
            std::mem::swap(&mut self.factor, &mut self.candidate);
            move_mean(q, &self.gradient, gamma);
            set_covariance(q, self.factor.as_ref());
            return StepInfo { step, rollbacks };
        }
        StepInfo { step: 0.0, rollbacks: MAX_HALVINGS + 1 }
    }

    fn restart(&mut self, q: &Normal) {
        lower_factor(q, &mut self.factor);
        self.smoothness.reset();
    }

    fn archive(&mut self, archive: &mut Archive) {
        archive.matrix(&mut self.factor);
        self.smoothness.archive(archive);
    }

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Lower(self.factor.as_ref()))
    }
}
