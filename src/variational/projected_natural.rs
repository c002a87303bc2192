//! Natural gradients with a Bregman projection on bounded covariances (projected NGVI).
//!
//! Guilmeau, Hendrikx & Forbes 2026. A step of variational Newton, `S₊⁻¹ = (1 − ρ) S⁻¹ + (ρ/β) H`
//! and `m₊ = m − (ρ/β) S₊ ĝ`, is followed by the projection on `lo I ⪯ S ⪯ hi I`, which in either
//! divergence clips the eigenvalues of S and keeps m. If the new precision is not positive
//! definite, there is no S₊ to project: the eigenvalues of the precision are clipped to
//! `[1/hi, 1/lo]`, and the step in m uses the result. For the predictive log loss m takes Newton's
//! step, and the change of S stays within a trust region, as for [`natural`](super::natural)
//! gradients. Symbols are those of [`variational`](crate::variational).

use super::diagonal::DiagonalRule;
use super::limits::{Guard, TrustRegion, add_second_order, clip, usable};
use super::mean_newton::MeanNewton;
use super::rules::Rule;
use super::{
    CONDITION, DataGradient, Matrix, Normal, RuleOptions, StepInfo, UpdateRule, is_sane, is_sane_matrix,
    mean_gradient, move_mean,
};
use crate::linalg::{self, EigenSolver};
use faer::{Mat, MatRef};

pub(super) const RULE: Rule = Rule {
    mixes: true,
    sticks_the_landing: true,
    projects: true,
    default_step: Some(0.1),
    ..Rule::new(
        "projected-ngvi",
        |q, options| Box::new(ProjectedNatural::new(q, options)),
        DiagonalRule::projected_natural,
    )
};

/// Returns the symmetric `sigma` with its eigenvalues clipped to `[low, high]`, the covariance of
/// the projection of `N(m, Σ)` (Guilmeau, Hendrikx & Forbes 2026); `None` if it is not finite.
#[doc(hidden)]
pub fn clip_eigenvalues(sigma: MatRef<'_, f64>, low: f64, high: f64) -> Option<Mat<f64>> {
    let mut eigen = EigenSolver::new(sigma.nrows());
    if !(is_sane_matrix(sigma) && eigen.decompose(sigma)) {
        return None;
    }
    let mut out = Mat::zeros(sigma.nrows(), sigma.nrows());
    eigen.rebuild(|s| clip(s, low, high), out.as_mut());
    Some(out)
}

/// The rule, with the precision `S⁻¹` it carries and its buffers.
#[doc(hidden)]
pub struct ProjectedNatural {
    bounds: (f64, f64),
    /// True if gradients from slopes, whose curvature is mostly noise, stay within the trust region.
    trusts: bool,
    precision: Mat<f64>,
    candidate: Mat<f64>,
    gradient: Vec<f64>,
    rotated: Vec<f64>,
    direction: Vec<f64>,
    newton: MeanNewton,
    trust: TrustRegion,
    eigen: EigenSolver,
}

impl ProjectedNatural {
    /// Creates the rule for `q` of dimension M with a full covariance; it uses the option `bounds`.
    pub fn new(q: &Normal, options: &RuleOptions) -> Self {
        let m = q.dim();
        let mut rule = ProjectedNatural {
            bounds: usable(options.bounds.0, options.bounds.1),
            trusts: options.guard == Guard::Trust,
            precision: linalg::spread(m, m),
            candidate: linalg::spread(m, m),
            gradient: vec![0.0; m],
            rotated: vec![0.0; m],
            direction: vec![0.0; m],
            newton: MeanNewton::new(m),
            trust: TrustRegion::new(m),
            eigen: EigenSolver::new(m),
        };
        rule.restart(q);
        rule
    }

    /// Writes `(1 − ρ) S⁻¹ + (ρ/β) H` into `candidate`, with the second-order term if H comes from
    /// slopes, and decomposes it. Returns false if it is not finite.
    fn mix(&mut self, q: &Normal, gradient: &DataGradient<'_>, beta: f64, rho: f64) -> bool {
        let columns = self.precision.col_iter().zip(gradient.cov.full().col_iter());
        for (new, (old, b)) in self.candidate.as_mut().col_iter_mut().zip(columns) {
            let both = old.iter().zip(b.iter());
            new.iter_mut().zip(both).for_each(|(new, (old, b))| {
                *new = (1.0 - rho) * old + 2.0 * rho / beta * b;
            });
        }
        linalg::add_diagonal(self.candidate.as_mut(), rho);
        if self.trusts && gradient.path.is_some() {
            add_second_order(self.candidate.as_mut(), self.precision.as_ref(), q.cov().full());
            linalg::reflect_lower(self.candidate.as_mut());
        }
        is_sane_matrix(self.candidate.as_ref()) && self.eigen.decompose(self.candidate.as_ref())
    }

    /// Writes `S₊ ĝ` to `direction`; `variance` computes the eigenvalues of S₊ from those of the
    /// precision. Returns false if the result overflows.
    fn precondition(&mut self, variance: impl Fn(f64) -> f64) -> bool {
        let vectors = self.eigen.vectors.as_ref();
        linalg::matvec(vectors.transpose(), &self.gradient, &mut self.rotated);
        self.rotated.iter_mut().zip(self.eigen.values()).for_each(|(g, p)| *g *= variance(*p));
        linalg::matvec(vectors, &self.rotated, &mut self.direction);
        is_sane(&self.direction)
    }
}

impl UpdateRule for ProjectedNatural {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let curved = gradient.curvature.is_some();
        let noisy = self.trusts && gradient.path.is_some();
        let rho = if curved || noisy { self.trust.limit(q, &gradient, beta, step) } else { step };
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient)
            && self.newton.take(&gradient, beta, step)
            && self.mix(q, &gradient, beta, rho))
        {
            return StepInfo::REJECTED;
        }
        let singular = CONDITION * CONDITION;
        let largest = self.eigen.values().iter().fold(0.0f64, |a, p| a.max(p.abs()));
        let definite = self.eigen.values().iter().all(|p| *p > singular * largest);
        let (low, high) = self.bounds;
        let bounded = |p: f64| if p > 0.0 { clip(1.0 / p, low, high) } else { high };
        // Even if the bounds are far apart, S must not become singular.
        let widest = self.eigen.values().iter().fold(low, |a, p| a.max(bounded(*p)));
        let variance = |p: f64| bounded(p).max(singular * widest);
        if !(if definite { self.precondition(|p| 1.0 / p) } else { self.precondition(variance) }) {
            return StepInfo::REJECTED;
        }
        let mut rollbacks = usize::from(!definite);
        if curved {
            rollbacks += usize::from(!self.newton.move_mean(q, &self.gradient, step / beta));
        } else {
            move_mean(q, &self.direction, rho / beta);
        }
        let clipped = !definite || self.eigen.values().iter().any(|p| variance(*p) != 1.0 / p);
        self.eigen.map_values(variance);
        if let Matrix::Full(cov) = &mut q.cov {
            self.eigen.rebuild(|s| s, cov.as_mut());
        }
        q.log_det = self.eigen.values().iter().map(|s| s.ln()).sum();
        if clipped {
            self.eigen.rebuild(|s| 1.0 / s, self.precision.as_mut());
        } else {
            std::mem::swap(&mut self.precision, &mut self.candidate);
        }
        StepInfo { step, rollbacks }
    }

    fn restart(&mut self, q: &Normal) {
        self.newton.reset();
        // The covariance of q is positive definite up to rounding.
        if self.eigen.decompose(q.cov().full()) {
            let largest = self.eigen.values().iter().fold(0.0f64, |a, s| a.max(*s));
            let least = CONDITION * CONDITION * largest;
            self.eigen.rebuild(|s| 1.0 / s.max(least), self.precision.as_mut());
        } else {
            self.precision = Mat::identity(q.dim(), q.dim());
        }
    }

    carries!(precision, newton);
}
