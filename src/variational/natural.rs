//! Natural gradients in natural parameters, which for a Gaussian is the variational Newton step.
//!
//! Hensman, Fusi & Lawrence 2013; Salimbeni, Eleftheriadis & Hensman 2018; Khan & Rue 2023. With
//! `Ĝ = 2 ∇_S F = H − β S⁻¹` and `ĝ = ∇_m F`, a step of mixing weight ρ is
//!
//! ```text
//! S₊⁻¹ = (1 − ρ) S⁻¹ + (ρ/β) H,    m₊ = m − (ρ/β) S₊ ĝ,    H = 2 A diag(h) Aᵀ + β I
//! ```

use super::{DataGradient, FullGaussian, StepInfo, UpdateRule};
use crate::linalg::{self, Factorizer, gram_of_inverse};
use faer::Mat;

/// The rule, with the precision `S⁻¹` it carries from step to step and its buffers.
pub struct NaturalGradient {
    precision: Mat<f64>,
    candidate: Mat<f64>,
    inverse_factor: Mat<f64>,
    gradient: Vec<f64>,
    direction: Vec<f64>,
    factorizer: Factorizer,
}

impl NaturalGradient {
    /// How often a step may be halved before it is rejected.
    const MAX_HALVINGS: usize = 30;

    /// A rule for `q`, whose precision is computed once here.
    pub fn new(q: &FullGaussian) -> Self {
        let m = q.dim();
        let mut rule = NaturalGradient {
            precision: Mat::zeros(m, m),
            candidate: Mat::zeros(m, m),
            inverse_factor: Mat::zeros(m, m),
            gradient: vec![0.0; m],
            direction: vec![0.0; m],
            factorizer: Factorizer::new(m),
        };
        rule.candidate.copy_from(q.cov());
        // q's covariance was positive definite when q was built, so only rounding can make this fail; the
        // prior's precision is then as good a start as any.
        if rule.factorizer.cholesky(rule.candidate.as_mut()).is_ok() {
            linalg::invert_lower(rule.candidate.as_ref(), rule.inverse_factor.as_mut());
            gram_of_inverse(rule.inverse_factor.as_ref(), rule.precision.as_mut());
        } else {
            rule.precision = Mat::identity(m, m);
        }
        rule
    }

    /// Writes `(1 − ρ) S⁻¹ + (ρ/β) H` into `candidate` and factorises it.
    fn try_precision(&mut self, gradient: &DataGradient<'_>, beta: f64, rho: f64) -> bool {
        let m = self.precision.nrows();
        let weight = 2.0 * rho / beta;
        for j in 0..m {
            let (old, data) = (self.precision.col(j), gradient.cov.col(j));
            let both = old.iter().zip(data.iter()).skip(j);
            for (new, (old, data)) in self.candidate.col_mut(j).iter_mut().skip(j).zip(both) {
                *new = (1.0 - rho) * old + weight * data;
            }
            self.candidate[(j, j)] += rho;
        }
        let kept = &mut self.inverse_factor;
        kept.copy_from(&self.candidate);
        self.factorizer.cholesky(kept.as_mut()).is_ok()
    }
}

impl UpdateRule for NaturalGradient {
    fn step(&mut self, q: &mut FullGaussian, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let mut rho = step;
        let mut rollbacks = 0;
        while !self.try_precision(&gradient, beta, rho) {
            rollbacks += 1;
            rho *= 0.5;
            if rollbacks > Self::MAX_HALVINGS {
                return StepInfo { step: 0.0, rollbacks };
            }
        }
        for ((g, data), m) in self.gradient.iter_mut().zip(gradient.mean).zip(&q.mean) {
            *g = data + beta * m;
        }
        if !self.gradient.iter().all(|g| g.is_finite()) {
            return StepInfo { step: 0.0, rollbacks: rollbacks + 1 };
        }
        // `inverse_factor` holds the factor of the new precision; `precision` becomes scratch for its inverse.
        q.log_det = -linalg::log_det(self.inverse_factor.as_ref());
        linalg::invert_lower(self.inverse_factor.as_ref(), self.precision.as_mut());
        gram_of_inverse(self.precision.as_ref(), q.cov.as_mut());
        std::mem::swap(&mut self.precision, &mut self.candidate);
        linalg::matvec(q.cov.as_ref(), &self.gradient, &mut self.direction);
        for (m, d) in q.mean.iter_mut().zip(&self.direction) {
            *m -= rho / beta * d;
        }
        StepInfo { step: rho, rollbacks }
    }
}
