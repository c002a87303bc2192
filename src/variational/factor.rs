//! Common code of the rules that carry a factor C of `S = C Cᵀ`: the gradient in C, validity
//! checks, and q from C. Symbols are those of [`variational`](crate::variational).

use super::{CONDITION, DataGradient, Matrix, Normal, OVERFLOW, is_sane_matrix};
use crate::columns;
use crate::linalg::{self, Factorizer, Operand, Part, outer_of_lower, product};
use faer::{Accum, Mat, MatRef};

/// Writes the lower Cholesky factor of the covariance of q to `out`. The factorisation can fail
/// only by rounding, because q was valid when it was built; `out` is then the identity, the factor
/// of the prior.
pub(super) fn lower_factor(q: &Normal, out: &mut Mat<f64>) {
    let m = q.dim();
    out.copy_from(q.cov().full());
    if Factorizer::new(m).cholesky(out.as_mut()).is_err() {
        *out = Mat::identity(m, m);
    }
}

/// Writes `H C = 2 B C + β C` to `out`, or `G + β C` if samples give `G = ∇_C`; returns false if it
/// is not finite. Only `part` of the matrix is computed.
pub(super) fn energy_gradient(
    gradient: &DataGradient<'_>,
    c: Operand<'_>,
    beta: f64,
    part: Part,
    out: &mut Mat<f64>,
) -> bool {
    match gradient.path {
        Some(path) => out.copy_from(path.full()),
        None => product(out.as_mut(), part, Accum::Replace, Operand::full(gradient.cov.full()), c, 2.0),
    }
    for (out, c) in out.as_mut().col_iter_mut().zip(c.matrix.col_iter()) {
        out.iter_mut().zip(c.iter()).for_each(|(out, c)| *out += beta * c);
    }
    if part == Part::Lower {
        linalg::clear_upper(out.as_mut());
    }
    is_sane_matrix(out.as_ref())
}

/// Writes `C − γ X` to `out`.
pub(super) fn descend(out: &mut Mat<f64>, c: &Mat<f64>, gamma: f64, x: &Mat<f64>) {
    for (out, (c, x)) in out.col_iter_mut().zip(c.col_iter().zip(x.col_iter())) {
        out.iter_mut().zip(c.iter().zip(x.iter())).for_each(|(out, (c, x))| *out = c - gamma * x);
    }
}

/// Returns true if `C Cᵀ` of a lower C is finite and, judging by its entries, positive definite in
/// floating point: the condition of C is at least the ratio of its largest entry to its smallest
/// diagonal entry.
pub(super) fn is_valid_lower(c: MatRef<'_, f64>) -> bool {
    let largest = columns::largest(c);
    largest < OVERFLOW
        && (0..c.nrows()).all(|i| c[(i, i)] > CONDITION * largest && c[(i, i)] > 1.0 / OVERFLOW)
}

/// Sets the covariance of q to `S = C Cᵀ` for a valid lower C, and its log-determinant.
pub(super) fn set_covariance(q: &mut Normal, c: MatRef<'_, f64>) {
    if let Matrix::Full(cov) = &mut q.cov {
        outer_of_lower(c, cov.as_mut());
    }
    q.log_det = linalg::log_det(c);
}
