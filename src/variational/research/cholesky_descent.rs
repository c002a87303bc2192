//! Gradient steps on (m, C) with C lower triangular, followed by a map of the diagonal of C:
//! proximal (prox-SGD) or clamped (SGD).
//!
//! Prox-SGD (Domke, Gower & Garrigos 2023) takes a gradient step on the energy (everything except the entropy `−β log det C`), then the
//! proximal operator of the entropy. SGD is the baseline of Wu & Gardner 2024.
//!
//! ```text
//! m₊ = m − γ ĝ,    C ← C − γ tril(H C)
//! prox-sgd    C_ii ← ½ (C_ii + √(C_ii² + 4γβ))
//! sgd         C_ii ← max(C_ii + γβ/c_ii, 1e-10),  c the diagonal before the step
//! ```
//!
//! Symbols are those of [`variational`](crate::variational).

use super::smoothness::Smoothness;
use crate::columns;
use crate::linalg::{self, Operand, Part};
use crate::variational::factor::{descend, energy_gradient, is_valid_lower, lower_factor, set_covariance};
use crate::variational::rules::Rule;
use crate::variational::{
    CONDITION, DataGradient, DiagonalRule, Factor, Normal, RuleOptions, StepInfo, UpdateRule, halved,
    mean_gradient, move_mean,
};
use faer::{Mat, MatMut, MatRef};

pub(in crate::variational) const PROX_SGD: Rule = Rule {
    takes_smoothness: true,
    default_step: Some(0.5),
    ..Rule::new(
        "prox-sgd",
        |q, options| Box::new(CholeskyDescent::new(q, options, Finish::Proximal)),
        |rule, gradient, beta, step| Finish::Proximal.diagonal(rule, gradient, beta, step),
    )
};

pub(in crate::variational) const SGD: Rule = Rule {
    entropy_gradient: true,
    sticks_the_landing: true,
    takes_smoothness: true,
    default_step: Some(0.5),
    ..Rule::new(
        "sgd",
        |q, options| Box::new(CholeskyDescent::new(q, options, Finish::Clamped)),
        |rule, gradient, beta, step| Finish::Clamped.diagonal(rule, gradient, beta, step),
    )
};

/// The treatment of the entropy `−β Σ log C_ii` in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// By its proximal operator (Domke, Garrigos & Gower 2023).
    Proximal,
    /// By its gradient, and the diagonal clamped to at least 1e-10 (Wu & Gardner 2024, appendix F).
    Clamped,
}

impl Finish {
    /// The least diagonal entry of a clamped C.
    const LEAST: f64 = 1e-10;

    /// Returns the new diagonal entry of C from the old one, the one after the gradient step on the
    /// energy, and γβ.
    fn entry(self, old: f64, stepped: f64, weight: f64) -> f64 {
        match self {
            Finish::Proximal => prox_entry(stepped, weight),
            Finish::Clamped => (stepped + weight / old).max(Self::LEAST),
        }
    }

    /// Takes a step of a diagonal C.
    fn diagonal(
        self,
        rule: &mut DiagonalRule,
        gradient: &DataGradient<'_>,
        beta: f64,
        step: f64,
    ) -> StepInfo {
        rule.descend(gradient, beta, step, |x, gamma, _| {
            self.entry(x.deviation, x.deviation - gamma * x.hessian * x.deviation, gamma * beta)
        })
    }

    /// Maps the diagonal of a lower C after the gradient step, given C before it.
    fn apply(self, mut c: MatMut<'_, f64>, before: MatRef<'_, f64>, weight: f64) {
        (0..c.ncols()).for_each(|i| c[(i, i)] = self.entry(before[(i, i)], c[(i, i)], weight));
        if self == Finish::Clamped {
            // Relative to the largest entry, the diagonal must not become so small that S is singular.
            let least = 2.0 * CONDITION * columns::largest(c.as_ref());
            (0..c.ncols()).for_each(|i| c[(i, i)] = c[(i, i)].max(least));
        }
    }
}

/// Applies the proximal operator of `−weight · Σ log C_ii` to a square C: the diagonal becomes
/// positive, and the other entries stay (Domke, Gower & Garrigos 2023).
pub fn prox_negative_entropy(mut c: MatMut<'_, f64>, weight: f64) {
    for i in 0..c.nrows().min(c.ncols()) {
        c[(i, i)] = prox_entry(c[(i, i)], weight);
    }
}

/// Returns `½ (c + √(c² + 4w))`, the positive root of `x² − c x − w`, without cancellation where c
/// < 0.
fn prox_entry(c: f64, weight: f64) -> f64 {
    let root = c.hypot(2.0 * weight.sqrt());
    if c < 0.0 { 2.0 * weight / (root - c) } else { 0.5 * (c + root) }
}

/// The rule, with the factor C it carries and its buffers.
pub(crate) struct CholeskyDescent {
    finish: Finish,
    factor: Mat<f64>,
    candidate: Mat<f64>,
    /// `tril(H C)`.
    energy: Mat<f64>,
    gradient: Vec<f64>,
    smoothness: Smoothness,
}

impl CholeskyDescent {
    /// Creates the rule for `q` of dimension M, whose covariance (`M × M`, full) is factorised once
    /// here; it uses the options `smoothness` and `relative`.
    pub fn new(q: &Normal, options: &RuleOptions, finish: Finish) -> Self {
        let m = q.dim();
        let mut rule = CholeskyDescent {
            finish,
            factor: linalg::spread(m, m),
            candidate: linalg::spread(m, m),
            energy: linalg::spread(m, m),
            gradient: vec![0.0; m],
            smoothness: Smoothness::new(options.smoothness, options.relative, m),
        };
        rule.restart(q);
        rule
    }

    fn observe(&mut self, gradient: &DataGradient<'_>, beta: f64) {
        let c = self.factor.as_ref();
        match gradient.path {
            None => self.smoothness.observe(gradient, beta),
            Some(path) => self.smoothness.observe_path(path.full(), beta, |transposed, x, _| {
                if transposed { linalg::solve_lower_transposed(c, x) } else { linalg::solve_lower(c, x) }
            }),
        }
    }

    /// Forms C₊ for γ; returns false if it is not valid.
    fn moves_to(&mut self, gamma: f64, beta: f64) -> bool {
        descend(&mut self.candidate, &self.factor, gamma, &self.energy);
        self.finish.apply(self.candidate.as_mut(), self.factor.as_ref(), gamma * beta);
        is_valid_lower(self.candidate.as_ref())
    }
}

impl UpdateRule for CholeskyDescent {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let lower = Operand::lower(self.factor.as_ref());
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient)
            && energy_gradient(&gradient, lower, beta, Part::Lower, &mut self.energy))
        {
            return StepInfo::REJECTED;
        }
        if self.smoothness.scales_steps() {
            self.observe(&gradient, beta);
        }
        let info = halved(step, |step| self.moves_to(self.smoothness.gamma(step, beta), beta));
        if info.step > 0.0 {
            std::mem::swap(&mut self.factor, &mut self.candidate);
            move_mean(q, &self.gradient, self.smoothness.gamma(info.step, beta));
            set_covariance(q, self.factor.as_ref());
        }
        info
    }

    fn restart(&mut self, q: &Normal) {
        lower_factor(q, &mut self.factor);
        self.smoothness.reset();
    }

    carries!(factor, smoothness);

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Lower(self.factor.as_ref()))
    }
}
