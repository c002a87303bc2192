//! Log densities of the form s·u − e^u + c with u = ±f + offset, which Poisson and gamma families
//! share.

use super::sums::Terms;
use super::{LatentMarginal, Local};
use crate::quadrature::Resolution;
use pulp::Simd;
use sparsegp_kernels::vector_math::exp;

/// `log p(y|f) = slope·u − e^u + constant`, `u = sign·f + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRate {
    /// The multiple of u: a count, or a shape; not negative.
    pub slope: f64,
    /// +1 when u grows with f, −1 when it falls.
    pub sign: f64,
    /// The value of u at f = 0.
    pub offset: f64,
    /// The constant term c.
    pub constant: f64,
}

impl LogRate {
    /// `exp(k u − e^u)` is entire but grows beyond the strip of half-width π/2: the error of a rule is
    /// `|Γ(k + 2πi/step)|/Γ(k)`, 1e-13 for k = 1 and this step.
    pub(crate) const RESOLUTION: Resolution =
        Resolution { strip: 4.0, step: 0.28, concave: true, pole: None };

    /// Returns the expectation under N(f; μ, v), under which e^u is log-normal.
    pub fn expectation(self, latent: LatentMarginal) -> Local {
        let LatentMarginal { mean: mu, variance: v } = latent;
        let u = self.sign * mu + self.offset;
        let rate = (u + 0.5 * v).exp();
        Local {
            value: self.slope * u - rate + self.constant,
            mean: self.sign * (self.slope - rate),
            variance: -0.5 * rate,
        }
    }
}

impl Terms<2> for LogRate {
    #[inline(always)]
    fn at<S: Simd>(&self, f: f64) -> [f64; 2] {
        let LogRate { slope, sign, offset, constant } = *self;
        let u = sign * f + offset;
        let rate = exp::<S>(u);
        [slope * u - rate + constant, sign * (slope - rate)]
    }
}

/// Mean, mean square and variance of e^f for f ~ N(μ, v).
pub(super) fn log_normal(latent: LatentMarginal) -> (f64, f64, f64) {
    let LatentMarginal { mean: mu, variance: v } = latent;
    let square = (2.0 * (mu + v)).exp();
    let share = -(-v).exp_m1();
    // In this form 0·∞ arises only for v = 0.
    ((mu + 0.5 * v).exp(), square, if share > 0.0 { square * share } else { 0.0 })
}
