//! Theorems about fits with sparsegp, evaluated as numbers: rates of convergence, curvatures, admissible step sizes, and steps on q
//! with a proof of convergence.

mod conjugate;
mod convex;
mod curvature;
mod projected;
mod proven;
mod square_root;

pub use conjugate::{ConjugateAsymptotic, ConjugateBound, Sampling};
pub use convex::ConvexBound;
pub use curvature::{Curvature, DistanceBound, NoiseConstants};
pub use projected::{ProjectedBound, price_noise};
pub use proven::{Proven, Theorem, with_proven_steps};
pub use square_root::{SquareRootRate, square_root_step, square_root_step_bound};

use faer::{Mat, MatRef};
use sparsegp::linalg::{Factorizer, gram_of_inverse, symmetric_eigen};
use sparsegp::{Error, Result};

/// Checks that `value` is positive and finite; otherwise returns a usage error.
fn require_positive(what: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::usage(format!("{what} is {value}, expected a positive number")))
}

/// Checks that `value` is at least 0 and finite; otherwise returns a usage error.
fn require_non_negative(what: &str, value: f64) -> Result<()> {
    if value >= 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::usage(format!("{what} is {value}, expected 0 or more")))
}

/// Returns the inputs `x` (`n × D`) transposed, one contiguous column per row (`D × n`).
///
/// # Errors
///
/// Usage errors if there are no rows or no columns, or if a value is not finite.
fn columns_of(x: MatRef<'_, f64>) -> Result<Mat<f64>> {
    if x.nrows() == 0 || x.ncols() == 0 {
        return Err(Error::usage(format!(
            "the inputs are {} × {}, expected at least one row and one column",
            x.nrows(),
            x.ncols()
        )));
    }
    if !x.is_all_finite() {
        return Err(Error::usage("an input is not finite, expected finite numbers"));
    }
    Ok(x.transpose().to_owned())
}

/// Checks that `y` has one finite target for every column of `x` (`D × n`); otherwise returns a usage error.
fn require_targets(x: MatRef<'_, f64>, y: &[f64]) -> Result<()> {
    if y.len() != x.ncols() {
        return Err(Error::usage(format!(
            "there are {} targets for {} rows of inputs, expected one each",
            y.len(),
            x.ncols()
        )));
    }
    if !y.iter().all(|y| y.is_finite()) {
        return Err(Error::usage("a target is not finite, expected finite numbers"));
    }
    Ok(())
}

/// Checks that `a` is finite, `d × d` and symmetric up to rounding; otherwise returns a usage error.
fn require_symmetric(what: &str, a: MatRef<'_, f64>, d: usize) -> Result<()> {
    if a.shape() != (d, d) {
        let (rows, cols) = a.shape();
        return Err(Error::usage(format!("{what} is {rows} × {cols}, expected {d} × {d}")));
    }
    if !a.is_all_finite() {
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

/// Returns the lower Cholesky factor of `a` and its inverse; only the lower triangle of `a` is read. If `a` is not positive definite,
/// returns a usage error about `what`.
fn cholesky(what: &str, mut a: Mat<f64>) -> Result<(Mat<f64>, Mat<f64>)> {
    let mut inverse = Mat::zeros(a.nrows(), a.nrows());
    Factorizer::new(a.nrows())
        .cholesky_with_inverse(a.as_mut(), inverse.as_mut())
        .map_err(|e| Error::usage(format!("{what} is not positive definite (pivot {})", e.pivot)))?;
    Ok((a, inverse))
}

/// Checks the prior covariance P (`d × d`) and returns its inverse.
fn prior_precision(prior_cov: MatRef<'_, f64>, d: usize) -> Result<Mat<f64>> {
    const WHAT: &str = "the prior covariance";
    require_symmetric(WHAT, prior_cov, d)?;
    let (_, inverse) = cholesky(WHAT, prior_cov.to_owned())?;
    let mut precision = Mat::zeros(d, d);
    gram_of_inverse(inverse.as_ref(), precision.as_mut());
    Ok(precision)
}

/// Returns the smallest and the largest eigenvalue of the symmetric `a`; a usage error if they overflow.
fn extreme_eigenvalues(a: MatRef<'_, f64>) -> Result<(f64, f64)> {
    let values = symmetric_eigen(a).map(|(values, _)| values).unwrap_or_default();
    match (values.first(), values.last()) {
        (Some(&low), Some(&high)) if low.is_finite() && high.is_finite() => Ok((low, high)),
        _ => Err(Error::usage("the curvature is not a finite number, because the data are too large")),
    }
}
