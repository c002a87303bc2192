//! Special functions, vectorised and accurate in their tails: functions of the normal distribution, and the gamma function's relatives.

pub(crate) mod gamma;
pub mod normal;

use sparsegp_kernels::real::{Derivatives, Real};
use statrs::function::gamma::digamma;

/// Returns `log Γ(x)` for x > 0 in a [formula](crate::DensityFormula), of a number or a constant: `ln_gamma(at.y + 1.0)`.
pub fn ln_gamma<D: Derivatives>(x: impl Into<Real<D>>) -> Real<D> {
    let x: Real<D> = x.into();
    let (at, value) = (x.value, statrs::function::gamma::ln_gamma(x.value));
    if x.is_constant() {
        return value.into();
    }
    x.apply(value, digamma(at), gamma::trigamma_1p(at) + at.powi(-2))
}

/// Returns `log Φ(x)` of the standard normal distribution function in a [formula](crate::DensityFormula), accurate in the lower tail.
pub fn normal_log_cdf<D: Derivatives>(x: impl Into<Real<D>>) -> Real<D> {
    let x: Real<D> = x.into();
    let (value, slope) = normal::log_cdf_at(x.value);
    x.apply(value, slope, -slope * (x.value + slope))
}
