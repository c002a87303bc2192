//! Projected gradient descent (proj-SGD) on (m, C) with C symmetric.
//!
//! Domke, Gower & Garrigos 2023: a gradient step on the whole objective, then the projection on a
//! set of factors that contains the optimum. With the smoothness 𝓜 of the negative log joint,
//!
//! ```text
//! m₊ = m − γ ĝ,    C ← C − γ (½ (H C + C H) − β C⁻¹),    C ← V max(D, √(β/𝓜)) Vᵀ  where  C = V D Vᵀ
//! ```
//!
//! Symbols are those of [`variational`](crate::variational).
//! The projected factors are symmetric and positive definite, as samplers require (Lemma 32).

use super::smoothness::Smoothness;
use crate::linalg::{self, EigenSolver, Operand, Part};
use crate::variational::factor::energy_gradient;
use crate::variational::rules::Rule;
use crate::variational::{
    CONDITION, DataGradient, Factor, Matrix, Normal, RuleOptions, StepInfo, UpdateRule, is_sane_matrix,
    mean_gradient, move_mean,
};
use faer::Mat;

pub(in crate::variational) const RULE: Rule = Rule {
    entropy_gradient: true,
    sticks_the_landing: true,
    floors_at_smoothness: true,
    takes_smoothness: true,
    default_step: Some(0.5),
    ..Rule::new(
        "proj-sgd",
        |q, options| Box::new(Projected::new(q, options)),
        |rule, gradient, beta, step| {
            rule.descend(gradient, beta, step, |x, gamma, floor| {
                let c = x.deviation;
                (c - gamma * (x.hessian * c - beta / c)).max(floor)
            })
        },
    )
};

/// The rule, with the factor C it carries, its inverse and its buffers.
pub(crate) struct Projected {
    factor: Mat<f64>,
    inverse: Mat<f64>,
    candidate: Mat<f64>,
    /// `H C`.
    energy: Mat<f64>,
    gradient: Vec<f64>,
    eigen: EigenSolver,
    smoothness: Smoothness,
}

impl Projected {
    /// Creates the rule for `q` of dimension M with a full covariance; it uses the options
    /// `smoothness` and `relative`.
    pub fn new(q: &Normal, options: &RuleOptions) -> Self {
        let m = q.dim();
        let mut rule = Projected {
            factor: linalg::spread(m, m),
            inverse: linalg::spread(m, m),
            candidate: linalg::spread(m, m),
            energy: linalg::spread(m, m),
            gradient: vec![0.0; m],
            eigen: EigenSolver::new(m),
            smoothness: Smoothness::new(options.smoothness, options.relative, m),
        };
        rule.restart(q);
        rule
    }

    fn observe(&mut self, gradient: &DataGradient<'_>, beta: f64) {
        let inverse = self.inverse.as_ref();
        match gradient.path {
            None => self.smoothness.observe(gradient, beta),
            Some(path) => self.smoothness.observe_path(path.full(), beta, |_, x, buffer| {
                buffer.copy_from_slice(x);
                linalg::matvec(inverse, buffer, x);
            }),
        }
    }

    /// `C − γ (sym(H C) − β C⁻¹)`, both triangles.
    fn descend(&mut self, gamma: f64, beta: f64) {
        for j in 0..self.candidate.ncols() {
            for i in j..self.candidate.nrows() {
                let energy = 0.5 * (self.energy[(i, j)] + self.energy[(j, i)]);
                let new = self.factor[(i, j)] - gamma * (energy - beta * self.inverse[(i, j)]);
                self.candidate[(i, j)] = new;
                self.candidate[(j, i)] = new;
            }
        }
    }

    /// Sets C to the matrix whose decomposition is in `eigen`.
    fn adopt(&mut self, clipped: bool) {
        if clipped {
            self.eigen.rebuild(|d| d, self.factor.as_mut());
        } else {
            std::mem::swap(&mut self.factor, &mut self.candidate);
        }
        self.eigen.rebuild(|d| 1.0 / d, self.inverse.as_mut());
    }
}

/// Returns the least eigenvalue that C may have: at least `floor`, and large enough relative to the
/// largest one that S is not singular.
fn attainable(floor: f64, values: &[f64]) -> f64 {
    values.iter().fold(floor, |a, d| a.max(CONDITION * d.abs()))
}

impl UpdateRule for Projected {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let symmetric = Operand::full(self.factor.as_ref());
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient)
            && energy_gradient(&gradient, symmetric, beta, Part::All, &mut self.energy))
        {
            return StepInfo::REJECTED;
        }
        if !self.smoothness.is_given() {
            self.observe(&gradient, beta);
        }
        let gamma = self.smoothness.gamma(step, beta);
        self.descend(gamma, beta);
        if !(is_sane_matrix(self.candidate.as_ref()) && self.eigen.decompose(self.candidate.as_ref())) {
            return StepInfo::REJECTED;
        }
        let floor = attainable((beta / self.smoothness.value(beta)).sqrt(), self.eigen.values());
        let clipped = self.eigen.values().iter().any(|d| *d < floor);
        self.eigen.map_values(|d| d.max(floor));
        self.adopt(clipped);
        if let Matrix::Full(cov) = &mut q.cov {
            self.eigen.rebuild(|d| d * d, cov.as_mut());
        }
        q.log_det = 2.0 * self.eigen.values().iter().map(|d| d.ln()).sum::<f64>();
        move_mean(q, &self.gradient, gamma);
        StepInfo { step, rollbacks: 0 }
    }

    fn restart(&mut self, q: &Normal) {
        self.smoothness.reset();
        // The covariance of q is positive definite up to rounding.
        if self.eigen.decompose(q.cov().full()) {
            let least = attainable(0.0, self.eigen.values()) * CONDITION;
            self.eigen.map_values(|s| s.max(least).sqrt());
            self.adopt(true);
        } else {
            (self.factor, self.inverse) = (Mat::identity(q.dim(), q.dim()), Mat::identity(q.dim(), q.dim()));
        }
    }

    carries!(factor, inverse, smoothness);

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Symmetric(self.factor.as_ref()))
    }
}
