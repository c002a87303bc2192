//! Special functions, vectorised and accurate in their tails: functions of the normal distribution, and the gamma function's relatives.

pub(crate) mod gamma;
pub mod normal;

use sparsegp_kernels::real::{Derivatives, Real};
use statrs::function::gamma::digamma;

/// Returns `log Γ(x)` for x > 0 in a [formula](crate::DensityFormula), of a number or a constant: `ln_gamma(at.y + 1.0)`.
pub fn ln_gamma<D: Derivatives>(x: impl Into<Real<D>>) -> Real<D> {
    let x: Real<D> = x.into();
    let at = x.value;
    let first = if D::ORDER > 0 { digamma(at) } else { 0.0 };
    let second = if D::ORDER > 1 { gamma::trigamma_1p(at) + at.powi(-2) } else { 0.0 };
    x.apply(statrs::function::gamma::ln_gamma(at), first, second)
}

/// Returns `log Φ(x)` of the standard normal distribution function in a [formula](crate::DensityFormula), accurate in the lower tail.
pub fn normal_log_cdf<D: Derivatives>(x: impl Into<Real<D>>) -> Real<D> {
    let x: Real<D> = x.into();
    let (value, slope) = normal::log_cdf_at(x.value);
    x.apply(value, slope, -slope * (x.value + slope))
}
