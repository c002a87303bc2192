//! Natural gradients in natural parameters (= variational Newton), with the curvature and guards
//! that DLM needs.
//!
//! Hensman, Fusi & Lawrence 2013; Salimbeni, Eleftheriadis & Hensman 2018; Khan & Rue 2023. With
//! the symbols of [`variational`](crate::variational), a step of mixing weight ρ is
//!
//! ```text
//! S₊⁻¹ = (1 − ρ) S⁻¹ + (ρ/β) H,    m₊ = m − (ρ/β) S₊ ĝ,    H = 2 A diag(h) Aᵀ + β I
//! ```
//!
//! Where the loss has negative curvature (h < 0, as for DLM and Student-t) the new precision may be indefinite; a
//! [`Guard`] decides how to repair it.
//!
//! For the expected losses of an ELBO `2 A diag(h) Aᵀ` is also the data's Hessian in m, so that the step in m is Newton's.
//! For the predictive log loss it is not: there `∂²ℓ/∂μ² = 2h + g²`, where 2h, averaged over calibrated predictions, is
//! near 0. A step `S₊ ĝ` is then too long by the ratio of the two and diverges, which is why other libraries declare this
//! loss incompatible with natural gradients. With [`DataGradient::curvature`] the step in m uses the Hessian in m, mixed
//! over the steps like the precision, and the change of S is kept within a trust region:
//!
//! ```text
//! P₊ = (1 − ρ) P + ρ (I + A diag(2h + g²) Aᵀ/β),    m₊ = m − (ρ/β) P₊⁻¹ ĝ,    S₊⁻¹ = S⁻¹ + (γ/β) Ĝ,  γ ≤ ρ
//! ```
//!
//! with γ such that no eigenvalue of `(γ/β) S^½ Ĝ S^½` exceeds ½ in size. Reparameterised gradients, whose curvature is mostly noise, have
//! the same trust region, and the second-order term of the retraction in every step, so that noise does not let S drift.

use super::diagonal::DiagonalRule;
use super::factor::is_valid_lower;
use super::limits::{Guard, PRECISION_RANGE, TrustRegion, add_second_order, needs_trust};
use super::mean_newton::MeanNewton;
use super::rules::Rule;
use super::{
    DataGradient, MAX_HALVINGS, Matrix, Normal, StepInfo, UpdateRule, is_sane_matrix, mean_gradient,
    move_mean,
};
use crate::linalg::{
    self, Factorizer, Operand, Part, gram_of_inverse, product, reflect_lower, symmetric_eigen,
};
use faer::{Accum, Mat, MatRef};

pub(super) const RULE: Rule = Rule {
    mixes: true,
    sticks_the_landing: true,
    guards: &[Guard::Trust, Guard::Backtrack, Guard::Retraction, Guard::Projection],
    default_step: Some(0.1),
    ..Rule::new(
        "ngd",
        |q, options| Box::new(NaturalGradient { guard: options.guard, ..NaturalGradient::new(q) }),
        DiagonalRule::natural,
    )
};

/// The rule, with the precision `S⁻¹` it carries from step to step and its buffers.
#[doc(hidden)]
pub struct NaturalGradient {
    /// What happens if the new precision is not positive definite.
    guard: Guard,
    precision: Mat<f64>,
    candidate: Mat<f64>,
    /// The Cholesky factor of `candidate`, and the inverse of that factor.
    factor: Mat<f64>,
    inverse: Mat<f64>,
    newton: MeanNewton,
    trust: TrustRegion,
    gradient: Vec<f64>,
    direction: Vec<f64>,
    factorizer: Factorizer,
}

impl NaturalGradient {
    /// Creates the rule for `q`, whose precision is computed once here, with the default guard.
    pub fn new(q: &Normal) -> Self {
        let m = q.dim();
        let mut rule = NaturalGradient {
            guard: Guard::Trust,
            precision: linalg::spread(m, m),
            candidate: linalg::spread(m, m),
            factor: linalg::spread(m, m),
            inverse: linalg::spread(m, m),
            newton: MeanNewton::new(m),
            trust: TrustRegion::new(m),
            gradient: vec![0.0; m],
            direction: vec![0.0; m],
            factorizer: Factorizer::new(m),
        };
        rule.restart(q);
        rule
    }

    /// Writes `(1 − ρ) S⁻¹ + (ρ/β) H` into the lower triangle of `candidate`.
    fn mix(&mut self, gradient: &DataGradient<'_>, beta: f64, rho: f64) {
        let (m, all) = (self.precision.nrows(), gradient.cov.full());
        let weight = 2.0 * rho / beta;
        for j in 0..m {
            let both = self.precision.col(j).iter().zip(all.col(j).iter()).skip(j);
            for (new, (old, data)) in self.candidate.col_mut(j).iter_mut().skip(j).zip(both) {
                *new = (1.0 - rho) * old + weight * data;
            }
            self.candidate[(j, j)] += rho;
        }
    }

    /// Factorises `candidate` and leaves it unchanged. Returns false if it is not positive definite, or so nearly singular that its
    /// computed inverse might not be.
    fn factorises(&mut self) -> bool {
        linalg::copy_lower(self.candidate.as_ref(), self.factor.as_mut());
        let (factor, inverse) = (self.factor.as_mut(), self.inverse.as_mut());
        self.factorizer.cholesky_with_inverse(factor, inverse).is_ok() && is_valid_lower(self.factor.as_ref())
    }

    /// Clips the eigenvalues of `candidate`; returns false if it is not finite.
    fn project(&mut self) -> bool {
        reflect_lower(self.candidate.as_mut());
        let Some((values, vectors)) = symmetric_eigen(self.candidate.as_ref()) else { return false };
        let m = values.len();
        let (low, high) = PRECISION_RANGE;
        let scaled = Mat::from_fn(m, m, |i, j| vectors[(i, j)] * values[j].clamp(low, high));
        let (left, right) = (Operand::full(scaled.as_ref()), Operand::full(vectors.transpose()));
        product(self.candidate.as_mut(), Part::Lower, Accum::Replace, left, right, 1.0);
        true
    }

    /// Finds a valid new precision and its factor. Returns its step size, or `None` if there is none, and the number of repairs and
    /// halvings.
    fn admissible(
        &mut self,
        q: &Normal,
        gradient: &DataGradient<'_>,
        beta: f64,
        step: f64,
    ) -> (Option<f64>, usize) {
        let mut step = step;
        if self.guard == Guard::Trust && needs_trust(gradient) {
            step = self.trust.limit(q, gradient, beta, step);
        }
        self.mix(gradient, beta, step);
        if self.guard == Guard::Trust && gradient.path.is_some() {
            add_second_order(self.candidate.as_mut(), self.precision.as_ref(), q.cov().full());
        }
        if self.factorises() {
            return (Some(step), 0);
        }
        let mut rollbacks = 1;
        let repaired = match self.guard {
            Guard::Trust | Guard::Backtrack | Guard::None => false,
            Guard::Retraction => {
                add_second_order(self.candidate.as_mut(), self.precision.as_ref(), q.cov().full());
                self.factorises()
            }
            Guard::Projection => self.project() && self.factorises(),
        };
        if repaired {
            return (Some(step), rollbacks);
        }
        let mut rho = 0.5 * step;
        for _ in 0..MAX_HALVINGS {
            self.mix(gradient, beta, rho);
            if self.factorises() {
                return (Some(rho), rollbacks);
            }
            rollbacks += 1;
            rho *= 0.5;
        }
        (None, rollbacks)
    }
}

impl UpdateRule for NaturalGradient {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient)
            && is_sane_matrix(gradient.cov.full())
            && self.newton.take(&gradient, beta, step))
        {
            return StepInfo::REJECTED;
        }
        let (rho, rollbacks) = self.admissible(q, &gradient, beta, step);
        let Some(rho) = rho else { return StepInfo { step: 0.0, rollbacks } };
        q.log_det = -linalg::log_det(self.factor.as_ref());
        let Matrix::Full(cov) = &mut q.cov else { return StepInfo { step: 0.0, rollbacks } };
        gram_of_inverse(self.inverse.as_ref(), cov.as_mut());
        std::mem::swap(&mut self.precision, &mut self.candidate);
        if gradient.curvature.is_some() {
            let moved = self.newton.move_mean(q, &self.gradient, step / beta);
            return StepInfo { step, rollbacks: rollbacks + usize::from(!moved) };
        }
        linalg::matvec(q.cov().full(), &self.gradient, &mut self.direction);
        move_mean(q, &self.direction, rho / beta);
        StepInfo { step: rho, rollbacks }
    }

    fn restart(&mut self, q: &Normal) {
        let m = q.dim();
        self.newton.reset();
        self.candidate.copy_from(q.cov().full());
        // The covariance of q was positive definite when q was built, so this can fail only by
        // rounding. The rule then starts from the precision of the prior.
        let (factor, inverse) = (self.candidate.as_mut(), self.inverse.as_mut());
        if self.factorizer.cholesky_with_inverse(factor, inverse).is_ok() {
            gram_of_inverse(self.inverse.as_ref(), self.precision.as_mut());
        } else {
            self.precision = Mat::identity(m, m);
        }
    }

    fn precision(&self) -> Option<MatRef<'_, f64>> {
        Some(self.precision.as_ref())
    }

    fn restart_at(&mut self, _q: &Normal, precision: &mut Mat<f64>) {
        self.newton.reset();
        std::mem::swap(&mut self.precision, precision);
    }

    carries!(precision, newton);
}
