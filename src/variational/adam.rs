//! Adam on (m, C) with S = C Cᵀ, C lower triangular and its diagonal positive through a logarithm.
//!
//! The default of other libraries, kept as a baseline. With the data part `B` of `∇_S F`:
//! `∇_m = A g + β m`, `∇_C = tril(2 B C) + β (C − diag(1/C_ii))`, and `∇_{log C_ii} = C_ii ∇_{C_ii}`.

use super::{DataGradient, Factor, Matrix, Normal, StepInfo, UpdateRule};
use crate::linalg::{self, Factorizer, Part, Shape, outer_of_lower, product};
use crate::moments::Moments;
use faer::{Accum, Mat};

/// The rule, with the factor `C` it carries and its moments.
pub struct AdamRule {
    factor: Mat<f64>,
    factor_gradient: Mat<f64>,
    moments: Moments,
    position: Vec<f64>,
    gradient: Vec<f64>,
}

impl AdamRule {
    /// A rule for `q`, whose covariance is factorised once here.
    pub fn new(q: &Normal) -> Self {
        let m = q.dim();
        let length = m + m * (m + 1) / 2;
        let mut rule = AdamRule {
            factor: Mat::zeros(m, m),
            factor_gradient: Mat::zeros(m, m),
            moments: Moments::new(length),
            position: vec![0.0; length],
            gradient: vec![0.0; length],
        };
        rule.restart(q);
        rule
    }

    /// The flat position `(m, log C_11, C_21, …)`, column by column.
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
        if let Matrix::Full(cov) = &mut q.cov {
            outer_of_lower(self.factor.as_ref(), cov.as_mut());
        }
        q.log_det = linalg::log_det(self.factor.as_ref());
    }
}

impl UpdateRule for AdamRule {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let m = q.dim();
        match gradient.path {
            Some(path) => self.factor_gradient.copy_from(path.full()),
            None => {
                let (left, right) =
                    ((gradient.cov.full(), Shape::Full), (self.factor.as_ref(), Shape::Lower));
                product(self.factor_gradient.as_mut(), Part::Lower, Accum::Replace, left, right, 2.0);
            }
        }
        for ((g, data), mean) in self.gradient.iter_mut().zip(gradient.mean).zip(&q.mean) {
            *g = data + beta * mean;
        }
        let mut at = m;
        for j in 0..m {
            for i in j..m {
                let c = self.factor[(i, j)];
                let g = self.factor_gradient[(i, j)] + beta * c;
                self.gradient[at] = if i == j { g * c - beta } else { g };
                at += 1;
            }
        }
        if !self.gradient.iter().all(|g| g.is_finite()) {
            return StepInfo { step: 0.0, rollbacks: 1 };
        }
        self.moments.step(&mut self.position, &self.gradient, step);
        self.unpack(q);
        StepInfo { step, rollbacks: 0 }
    }

    fn restart(&mut self, q: &Normal) {
        let m = q.dim();
        self.factor.copy_from(q.cov().full());
        // As for the natural gradient: only rounding can fail here, and the prior is a valid start.
        if Factorizer::new(m).cholesky(self.factor.as_mut()).is_err() {
            self.factor = Mat::identity(m, m);
        }
        linalg::clear_upper(self.factor.as_mut());
        self.moments.reset();
        self.pack(q);
    }

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Lower(self.factor.as_ref()))
    }
}
