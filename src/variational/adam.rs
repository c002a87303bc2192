//! Adam on (m, C) with S = C Cᵀ, where C is lower triangular; the logarithms of its diagonal are
//! moved, so the diagonal stays positive.
//!
//! This rule is the default of other libraries, kept as a baseline. With B as in
//! [`variational`](crate::variational) and `g_i = ∂ℓ_i/∂μ_i`, the gradients of F are `∇_m = A g + β m`,
//! `∇_C = tril(2 B C) + β (C − diag(1/C_ii))` and `∇_{log C_ii} = C_ii ∇_{C_ii}`.

use super::carried::Carried;
use super::diagonal::DiagonalRule;
use super::factor::{energy_gradient, lower_factor, set_covariance};
use super::rules::Rule;
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

/// The flat coordinates `(m, log C_11, C_21, …)` of q, column by column of C, with the buffers of their gradient.
pub(crate) struct Coordinates {
    factor: Mat<f64>,
    /// The gradient with respect to C without the entropy, `tril(2 B C) + β C`.
    energy: Mat<f64>,
}

impl Coordinates {
    /// Creates buffers for posteriors of dimension `m`, whose covariance is full.
    pub(crate) fn new(m: usize) -> Self {
        Coordinates { factor: linalg::spread(m, m), energy: linalg::spread(m, m) }
    }

    /// Returns the number of coordinates of a posterior of dimension `m`.
    pub(crate) fn count(m: usize) -> usize {
        m + m * (m + 1) / 2
    }

    /// Takes the factor of q, and writes its coordinates.
    pub(crate) fn pack(&mut self, q: &Normal, position: &mut [f64]) {
        lower_factor(q, &mut self.factor);
        let m = q.dim();
        position[..m].copy_from_slice(&q.mean);
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let c = self.factor[(i, j)];
                position[at] = if i == j { c.ln() } else { c };
                at += 1;
            }
        }
    }

    /// Sets q to the one with these coordinates.
    pub(crate) fn unpack(&mut self, position: &[f64], q: &mut Normal) {
        let m = q.dim();
        q.mean.copy_from_slice(&position[..m]);
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let c = position[at];
                self.factor[(i, j)] = if i == j { c.exp() } else { c };
                at += 1;
            }
        }
        set_covariance(q, self.factor.as_ref());
    }

    /// Writes the gradient of the objective in the coordinates of q, given its data part in (m, S); returns false if it is not finite.
    pub(crate) fn gradient(
        &mut self,
        data: &DataGradient<'_>,
        q: &Normal,
        beta: f64,
        out: &mut [f64],
    ) -> bool {
        let m = q.dim();
        let lower = Operand::lower(self.factor.as_ref());
        if !(mean_gradient(data, q, beta, &mut out[..m])
            && energy_gradient(data, lower, beta, Part::Lower, &mut self.energy))
        {
            return false;
        }
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let g = self.energy[(i, j)];
                out[at] = if i == j { g * self.factor[(i, j)] - beta } else { g };
                at += 1;
            }
        }
        is_sane(out)
    }
}

impl Carried for Coordinates {
    fn save(&self) -> Vec<u8> {
        self.factor.save()
    }

    fn load(&mut self, bytes: &[u8]) -> bool {
        self.factor.load(bytes)
    }
}

/// The rule, with the coordinates of q and their moments.
pub(crate) struct AdamRule {
    coordinates: Coordinates,
    moments: AdamMoments,
    position: Vec<f64>,
    gradient: Vec<f64>,
}

impl AdamRule {
    /// Creates the rule for `q`, whose covariance is factorised once here.
    pub fn new(q: &Normal) -> Self {
        let length = Coordinates::count(q.dim());
        let mut rule = AdamRule {
            coordinates: Coordinates::new(q.dim()),
            moments: AdamMoments::new(length),
            position: vec![0.0; length],
            gradient: vec![0.0; length],
        };
        rule.restart(q);
        rule
    }
}

impl UpdateRule for AdamRule {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        if !self.coordinates.gradient(&gradient, q, beta, &mut self.gradient) {
            return StepInfo::REJECTED;
        }
        self.moments.step(&mut self.position, &self.gradient, step);
        self.coordinates.unpack(&self.position, q);
        StepInfo { step, rollbacks: 0 }
    }

    fn restart(&mut self, q: &Normal) {
        self.moments.reset();
        self.coordinates.pack(q, &mut self.position);
    }

    carries!(coordinates, position, moments);

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Lower(self.coordinates.factor.as_ref()))
    }
}
