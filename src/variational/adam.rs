//! Adam on (m, C) with S = C Cᵀ, where C is lower triangular; the logarithms of its diagonal are
//! moved, so the diagonal stays positive.
//!
//! This rule is the default of other libraries, kept as a baseline. With B as in
//! [`variational`](crate::variational) and `g_i = ∂ℓ_i/∂μ_i`, the gradients of F are `∇_m = A g + β m`,
//! `∇_C = tril(2 B C) + β (C − diag(1/C_ii))` and `∇_{log C_ii} = C_ii ∇_{C_ii}`.

use super::diagonal::DiagonalRule;
use super::factor::{energy_gradient, lower_factor, set_covariance};
use super::rule::Rule;
use super::{DataGradient, Factor, Normal, StepInfo, UpdateRule, is_sane, mean_gradient};
use crate::hyper::AdamMoments;
use crate::linalg::{self, Operand, Part};
use faer::Mat;

pub(super) const RULE: Rule = Rule {
    entropy_gradient: true,
    sticks_the_landing: true,
    keeps_moments: true,
    ..Rule::new("adam", |q, _| Box::new(AdamRule::new(q)), DiagonalRule::adam)
};

/// The rule, with the factor `C` it carries and its moments.
pub(crate) struct AdamRule {
    factor: Mat<f64>,
    /// The gradient with respect to C without the entropy, `tril(2 B C) + β C`.
    energy: Mat<f64>,
    moments: AdamMoments,
    position: Vec<f64>,
    gradient: Vec<f64>,
}

impl AdamRule {
    /// Creates the rule for `q`, whose covariance is factorised once here.
    pub fn new(q: &Normal) -> Self {
        let m = q.dim();
        let length = m + m * (m + 1) / 2;
        let mut rule = AdamRule {
            factor: linalg::spread(m, m),
            energy: linalg::spread(m, m),
            moments: AdamMoments::new(length),
            position: vec![0.0; length],
            gradient: vec![0.0; length],
        };
        rule.restart(q);
        rule
    }

    /// Writes q to the flat position `(m, log C_11, C_21, …)`, column by column of C.
    fn pack(&mut self, q: &Normal) {
        let m = q.dim();
        self.position[..m].copy_from_slice(&q.mean);
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let c = self.factor[(i, j)];
                self.position[at] = if i == j { c.ln() } else { c };
                at += 1;
            }
        }
    }

    fn unpack(&mut self, q: &mut Normal) {
        let m = q.dim();
        q.mean.copy_from_slice(&self.position[..m]);
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let c = self.position[at];
                self.factor[(i, j)] = if i == j { c.exp() } else { c };
                at += 1;
            }
        }
        set_covariance(q, self.factor.as_ref());
    }
}

impl UpdateRule for AdamRule {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let m = q.dim();
        let lower = Operand::lower(self.factor.as_ref());
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient[..m])
            && energy_gradient(&gradient, lower, beta, Part::Lower, &mut self.energy))
        {
            return StepInfo::REJECTED;
        }
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let g = self.energy[(i, j)];
                self.gradient[at] = if i == j { g * self.factor[(i, j)] - beta } else { g };
                at += 1;
            }
        }
        if !is_sane(&self.gradient) {
            return StepInfo::REJECTED;
        }
        self.moments.step(&mut self.position, &self.gradient, step);
        self.unpack(q);
        StepInfo { step, rollbacks: 0 }
    }

    fn restart(&mut self, q: &Normal) {
        lower_factor(q, &mut self.factor);
        self.moments.reset();
        self.pack(q);
    }

    carries!(factor, position, moments);

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Lower(self.factor.as_ref()))
    }
}
