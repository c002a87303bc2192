//! Known guarantees on fits as numbers to print and to check: rates, curvatures, admissible steps; no fitting.

mod conjugate;
mod convex;
mod curvature;
mod projected;
mod square_root;
mod square_root_rate;

pub use conjugate::{ConjugateAsymptotic, ConjugateBound, Sampling};
pub use convex::ConvexBound;
pub use curvature::{Curvature, DistanceBound};
pub use projected::{ProjectedBound, price_noise};
pub use square_root::{square_root_step, square_root_step_bound};
pub use square_root_rate::SquareRootRate;

use crate::error::{Error, Result};
use crate::linalg::{Factorizer, all_finite, gram_of_inverse, symmetric_eigen};
use faer::{Mat, MatRef};

/// A usage error unless `value` is positive and finite.
fn require_positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::usage(format!("{what} must be positive, not {value}")))
}

/// A usage error unless `value` is at least 0 and finite.
fn require_non_negative(what: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::usage(format!("{what} must not be negative, got {value}")))
}

/// The inputs `x` (`n × D`) as contiguous columns (`D × n`); a usage error unless they hold at least one datum, and finite ones.
fn columns_of(x: MatRef<'_, f64>) -> Result<Mat<f64>> {
    if x.nrows() == 0 || x.ncols() == 0 {
        return Err(Error::usage(format!("{} inputs of {} dimensions hold no datum", x.nrows(), x.ncols())));
    }
    if !all_finite(x) {
        return Err(Error::usage("an input is not finite"));
    }
    Ok(x.transpose().to_owned())
}

/// A usage error unless `y` has one finite target for every column of `x` (`D × n`).
fn require_targets(x: MatRef<'_, f64>, y: &[f64]) -> Result<()> {
    if y.len() != x.ncols() {
        return Err(Error::usage(format!("{} targets for {} inputs", y.len(), x.ncols())));
    }
    if !y.iter().all(|y| y.is_finite()) {
        return Err(Error::usage("a target is not finite"));
    }
    Ok(())
}

/// A usage error unless `a` is finite, `d × d` and symmetric up to rounding.
fn require_symmetric(what: &str, a: MatRef<'_, f64>, d: usize) -> Result<()> {
    if a.shape() != (d, d) {
        let (rows, cols) = a.shape();
        return Err(Error::usage(format!("{what} is {rows} × {cols}, expected {d} × {d}")));
    }
    if !all_finite(a) {
        return Err(Error::usage(format!("{what} is not finite")));
    }
    for j in 0..d {
        for i in j + 1..d {
            let room = 1e-8 * (a[(i, i)].abs() + a[(j, j)].abs());
            if (a[(i, j)] - a[(j, i)]).abs() > room {
                return Err(Error::usage(format!("{what} is not symmetric at row {i}, column {j}")));
            }
        }
    }
    Ok(())
}

/// The inverse lower Cholesky factor of `a`, whose lower triangle is read; a usage error naming `what` if `a` has no such factor.
fn inverse_factor(what: &str, mut a: Mat<f64>) -> Result<Mat<f64>> {
    let d = a.nrows();
    let mut inverse = Mat::zeros(d, d);
    Factorizer::new(d)
        .cholesky_with_inverse(a.as_mut(), inverse.as_mut())
        .map_err(|e| Error::usage(format!("{what} is not positive definite (pivot {})", e.pivot)))?;
    Ok(inverse)
}

/// `P⁻¹` of a prior covariance, checked.
fn prior_precision(prior_cov: MatRef<'_, f64>, d: usize) -> Result<Mat<f64>> {
    const WHAT: &str = "the prior covariance";
    require_symmetric(WHAT, prior_cov, d)?;
    let factor = inverse_factor(WHAT, prior_cov.to_owned())?;
    let mut precision = Mat::zeros(d, d);
    gram_of_inverse(factor.as_ref(), precision.as_mut());
    Ok(precision)
}

/// The smallest and the largest eigenvalue of the symmetric `a`; a usage error where the numbers overflowed.
fn extreme_eigenvalues(a: MatRef<'_, f64>) -> Result<(f64, f64)> {
    let values = symmetric_eigen(a).map(|(values, _)| values).unwrap_or_default();
    match (values.first(), values.last()) {
        (Some(&low), Some(&high)) if low.is_finite() && high.is_finite() => Ok((low, high)),
        _ => Err(Error::usage("the data are too large for their curvature to be a finite number")),
    }
}
