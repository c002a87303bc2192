//! Bures–Wasserstein gradient descent (BW-GD) on (m, S), a baseline.
//!
//! Lambert, Chewi, Bach, Bonnabel & Rigollet 2022:
//!
//! ```text
//! m₊ = m − γ ĝ,    S₊ = (I − γĜ) S (I − γĜ),    Ĝ = H − β S⁻¹
//! ```
//!
//! Symbols are those of [`variational`](crate::variational).
//! With the Cholesky factor L of S, `(I − γĜ) L = L − γ (H L − β L⁻ᵀ)` is a root of S₊. So no
//! inverse of S is needed, and the computed S₊ is symmetric and positive semi-definite.

use super::smoothness::Smoothness;
use crate::linalg::{self, Factorizer, Operand, Part, product, reflect_lower};
use crate::variational::rules::Rule;
use crate::variational::{
    DataGradient, Matrix, Normal, RuleOptions, StepInfo, UpdateRule, factor, halved, is_sane_matrix,
    mean_gradient, move_mean,
};
use faer::{Accum, Mat};

pub(in crate::variational) const RULE: Rule = Rule {
    entropy_gradient: true,
    sticks_the_landing: true,
    takes_smoothness: true,
    default_step: Some(0.5),
    ..Rule::new(
        "bw-gd",
        |q, options| Box::new(Wasserstein::new(q, options)),
        |rule, gradient, beta, step| {
            rule.descend(gradient, beta, step, |x, gamma, _| {
                let c = x.deviation;
                (c - gamma * (x.hessian * c - beta / c)).abs()
            })
        },
    )
};

/// The rule, with the Cholesky factor of S that it carries and its buffers.
pub struct Wasserstein {
    factor: Mat<f64>,
    inverse: Mat<f64>,
    /// `Ĝ L`.
    change: Mat<f64>,
    /// `(I − γĜ) L`.
    root: Mat<f64>,
    cov: Mat<f64>,
    candidate: Mat<f64>,
    gradient: Vec<f64>,
    factorizer: Factorizer,
    smoothness: Smoothness,
}

impl Wasserstein {
    /// Creates the rule for `q` of dimension M with a full covariance; it uses the options
    /// `smoothness` and `relative`.
    pub fn new(q: &Normal, options: &RuleOptions) -> Self {
        let m = q.dim();
        let square = || linalg::spread(m, m);
        let mut rule = Wasserstein {
            factor: square(),
            inverse: square(),
            change: square(),
            root: square(),
            cov: square(),
            candidate: square(),
            gradient: vec![0.0; m],
            factorizer: Factorizer::new(m),
            smoothness: Smoothness::new(options.smoothness, options.relative, m),
        };
        rule.restart(q);
        rule
    }

    /// Fills `change` with `Ĝ L = 2 B L + β (L − L⁻ᵀ)`, where B is `gradient.cov`. Returns false if it is
    /// not finite.
    fn form_change(&mut self, gradient: &DataGradient<'_>, beta: f64) -> bool {
        let (left, right) = (Operand::full(gradient.cov.full()), Operand::lower(self.factor.as_ref()));
        product(self.change.as_mut(), Part::All, Accum::Replace, left, right, 2.0);
        let (l, linv) = (self.factor.as_ref(), self.inverse.as_ref());
        for j in 0..l.ncols() {
            let column = self.change.col_mut(j).iter_mut();
            let both = l.col(j).iter().zip(linv.row(j).iter());
            column.zip(both).for_each(|(x, (l, back))| *x += beta * (l - back));
        }
        is_sane_matrix(self.change.as_ref())
    }

    /// Forms S₊ and its factor for γ; returns false if it is not positive definite.
    fn moves_to(&mut self, gamma: f64) -> bool {
        factor::descend(&mut self.root, &self.factor, gamma, &self.change);
        let (left, right) = (Operand::full(self.root.as_ref()), Operand::full(self.root.transpose()));
        product(self.cov.as_mut(), Part::Lower, Accum::Replace, left, right, 1.0);
        reflect_lower(self.cov.as_mut());
        self.candidate.copy_from(&self.cov);
        is_sane_matrix(self.cov.as_ref()) && self.factorizer.cholesky(self.candidate.as_mut()).is_ok()
    }
}

impl UpdateRule for Wasserstein {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient) && self.form_change(&gradient, beta)) {
            return StepInfo::REJECTED;
        }
        if self.smoothness.scales_steps() {
            self.smoothness.observe(&gradient, beta);
        }
        let info = halved(step, |step| self.moves_to(self.smoothness.gamma(step, beta)));
        if let (Matrix::Full(cov), true) = (&mut q.cov, info.step > 0.0) {
            std::mem::swap(cov, &mut self.cov);
            std::mem::swap(&mut self.factor, &mut self.candidate);
            linalg::invert_lower(self.factor.as_ref(), self.inverse.as_mut());
            q.log_det = linalg::log_det(self.factor.as_ref());
            move_mean(q, &self.gradient, self.smoothness.gamma(info.step, beta));
        }
        info
    }

    fn restart(&mut self, q: &Normal) {
        factor::lower_factor(q, &mut self.factor);
        linalg::invert_lower(self.factor.as_ref(), self.inverse.as_mut());
        self.smoothness.reset();
    }

    carries!(factor, inverse, smoothness);
}
