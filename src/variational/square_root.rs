//! Square-root variational Newton (SR-VN): natural gradients on the Cholesky factor of S, without
//! an inverse.
//!
//! Kumar, Möllenhoff, Khan & Lucchi 2025; Tan 2025. With `S = C Cᵀ`, C lower with a positive diagonal, and
//! the symbols of [`variational`](crate::variational),
//!
//! ```text
//! m₊ = m − (ρ/β) C Cᵀ ĝ,    C₊ = C − (ρ/β) C tril½(Cᵀ Ĝ C),    Cᵀ Ĝ C = Cᵀ H C − β I
//! ```
//!
//! Steps are shortened if the change of C would be large relative to C. With [`Guard::None`] they
//! are not: that is the algorithm of the paper, which diverges if ρ is too large for the curvature.
//!
//! tril½ keeps the strict lower triangle and half the diagonal. If samples give the gradient G of the
//! losses in C, its mean is `2 B C`, so `sym(Cᵀ G)` estimates `2 Cᵀ B C`. For the
//! predictive log loss H is not the Hessian in m, so m takes Newton's step with a factorisation of
//! that Hessian, as for [`natural`](super::natural) gradients.

use super::diagonal::DiagonalRule;
use super::factor::{energy_gradient, is_valid_lower, lower_factor, set_covariance};
use super::mean_newton::MeanNewton;
use super::rules::Rule;
use super::{
    DataGradient, Factor, Guard, Normal, StepInfo, UpdateRule, is_sane, is_sane_matrix, mean_gradient,
    move_mean,
};
use crate::linalg::{self, Operand, Part, product};
use faer::{Accum, Mat};

pub(super) const RULE: Rule = Rule {
    sticks_the_landing: true,
    guards: &[Guard::Trust, Guard::None],
    default_step: Some(0.1),
    ..Rule::new(
        "sr-vn",
        |q, options| Box::new(SquareRoot { guard: options.guard, ..SquareRoot::new(q) }),
        DiagonalRule::square_root,
    )
};

/// The factor by which an estimate of a norm from below may be too small.
const ESTIMATE: f64 = 1.1;

/// The rule, with the factor C it carries and its buffers.
#[doc(hidden)]
pub struct SquareRoot {
    /// Steps are shortened for every guard except [`Guard::None`], which gives the algorithm of the paper.
    guard: Guard,
    factor: Mat<f64>,
    candidate: Mat<f64>,
    /// `H C`.
    energy: Mat<f64>,
    /// `X = tril½(Cᵀ H C − β I)`.
    change: Mat<f64>,
    gradient: Vec<f64>,
    half: Vec<f64>,
    direction: Vec<f64>,
    newton: MeanNewton,
}

impl SquareRoot {
    /// The limits on the size of the diagonal entries of `(ρ/β) X`, and on its norm. With the first
    /// limit no diagonal entry of C falls below half. The second limit matters if `Cᵀ H C` has a
    /// large eigenvalue Λ along a direction of many coordinates: every entry of X may then be small
    /// although `ρΛ/β` is as large as M. If `ρΛ/β` exceeds 2, the step in m overshoots, and the
    /// second-order part of S grows.
    const LIMITS: (f64, f64) = (0.5, 1.0);

    /// Creates the rule for `q` of dimension M, whose covariance (`M × M`, full) is factorised once
    /// here.
    pub fn new(q: &Normal) -> Self {
        let m = q.dim();
        let mut rule = SquareRoot {
            guard: Guard::Trust,
            factor: linalg::spread(m, m),
            candidate: linalg::spread(m, m),
            energy: linalg::spread(m, m),
            change: linalg::spread(m, m),
            gradient: vec![0.0; m],
            half: vec![0.0; m],
            direction: vec![0.0; m],
            newton: MeanNewton::new(m),
        };
        rule.restart(q);
        rule
    }

    /// Makes the diagonal of `candidate` positive by changing the signs of whole columns, which
    /// leaves `C Cᵀ` unchanged.
    fn fix_signs(&mut self) {
        for j in 0..self.candidate.ncols() {
            if self.candidate[(j, j)] < 0.0 {
                self.candidate.col_mut(j).iter_mut().for_each(|c| *c = -*c);
            }
        }
    }

    /// Fills `change` from `energy`; returns false if it is not finite.
    fn form_change(&mut self, beta: f64, sampled: bool) -> bool {
        // Cᵀ(H C) is symmetric unless the gradient comes from samples.
        let part = if sampled { Part::All } else { Part::Lower };
        let (left, right) = (Operand::upper(self.factor.transpose()), Operand::full(self.energy.as_ref()));
        product(self.change.as_mut(), part, Accum::Replace, left, right, 1.0);
        let x = &mut self.change;
        for j in 0..x.ncols() {
            x[(j, j)] = 0.5 * (x[(j, j)] - beta);
            for i in j + 1..x.nrows() {
                if sampled {
                    x[(i, j)] = 0.5 * (x[(i, j)] + x[(j, i)]);
                }
                x[(j, i)] = 0.0;
            }
        }
        is_sane_matrix(x.as_ref())
    }

    /// Returns the largest share of `scale` = ρ/β that keeps the change of C within the limits. The
    /// norm is bounded by the geometric mean of the largest sums of rows and columns, and estimated where this bound, which may be √M times
    /// too large, exceeds the limit.
    fn admissible(&mut self, scale: f64) -> f64 {
        let (diagonal, norm) = Self::LIMITS;
        let (mut share, mut columns) = (1.0f64, 0.0f64);
        let rows = &mut self.half;
        rows.fill(0.0);
        for (j, column) in self.change.as_ref().col_iter().enumerate() {
            let sizes = rows.iter_mut().zip(column.iter()).skip(j);
            columns = columns.max(sizes.map(|(row, x)| (*row += x.abs(), x.abs()).1).sum());
            share = share.min(diagonal / (scale * self.change[(j, j)].abs()));
        }
        let rows = rows.iter().fold(0.0f64, |a, row| a.max(*row));
        let mut size = (rows * columns).sqrt();
        if scale * size > norm {
            size = size.min(ESTIMATE * linalg::gram_norm(self.change.as_ref()).sqrt());
        }
        share.min(norm / (scale * size))
    }
}

impl UpdateRule for SquareRoot {
    fn step(&mut self, q: &mut Normal, gradient: DataGradient<'_>, beta: f64, step: f64) -> StepInfo {
        let lower = Operand::lower(self.factor.as_ref());
        if !(mean_gradient(&gradient, q, beta, &mut self.gradient)
            && energy_gradient(&gradient, lower, beta, Part::All, &mut self.energy)
            && self.form_change(beta, gradient.path.is_some())
            && self.newton.take(&gradient, beta, step))
        {
            return StepInfo::REJECTED;
        }
        let share = if self.guard == Guard::None { 1.0 } else { self.admissible(step / beta) };
        let rho = share * step;
        self.candidate.copy_from(&self.factor);
        let (left, right) = (Operand::lower(self.factor.as_ref()), Operand::lower(self.change.as_ref()));
        product(self.candidate.as_mut(), Part::Lower, Accum::Add, left, right, -rho / beta);
        self.fix_signs();
        linalg::matvec(self.factor.transpose(), &self.gradient, &mut self.half);
        linalg::matvec(self.factor.as_ref(), &self.half, &mut self.direction);
        if !(is_valid_lower(self.candidate.as_ref()) && is_sane(&self.direction)) {
            return StepInfo::REJECTED;
        }
        std::mem::swap(&mut self.factor, &mut self.candidate);
        set_covariance(q, self.factor.as_ref());
        let rollbacks = usize::from(share < 1.0);
        if gradient.curvature.is_some() {
            let moved = self.newton.move_mean(q, &self.gradient, step / beta);
            return StepInfo { step, rollbacks: rollbacks + usize::from(!moved) };
        }
        move_mean(q, &self.direction, rho / beta);
        StepInfo { step: rho, rollbacks }
    }

    fn restart(&mut self, q: &Normal) {
        lower_factor(q, &mut self.factor);
        self.newton.reset();
    }

    carries!(factor, newton);

    fn factor(&self) -> Option<Factor<'_>> {
        Some(Factor::Lower(self.factor.as_ref()))
    }
}
