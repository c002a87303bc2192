//! Prior densities of hyper-parameters and their text form.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A prior density over the natural value; only its logarithm up to a constant enters an objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Prior {
    /// `log x ~ N(mu, sigma²)`.
    LogNormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Gamma with density ∝ `x^(shape−1) exp(−rate·x)`.
    Gamma {
        /// Shape, positive.
        shape: f64,
        /// Rate, positive.
        rate: f64,
    },
    /// `x ~ N(mean, sd²)`.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sd: f64,
    },
    /// Half-Cauchy with density ∝ `1 / (1 + (x/scale)²)` on `x > 0`.
    HalfCauchy {
        /// Scale, positive: the median.
        scale: f64,
    },
}

impl Prior {
    /// `log p(x)` up to a constant, and its derivative in `x`.
    pub fn log_density(self, x: f64) -> (f64, f64) {
        match self {
            Prior::LogNormal { mu, sigma } => {
                let z = (x.ln() - mu) / sigma;
                (-0.5 * z * z - x.ln(), -(z / sigma + 1.0) / x)
            }
            Prior::Gamma { shape, rate } => ((shape - 1.0) * x.ln() - rate * x, (shape - 1.0) / x - rate),
            Prior::Normal { mean, sd } => {
                let z = (x - mean) / sd;
                (-0.5 * z * z, -z / sd)
            }
            Prior::HalfCauchy { scale } => {
                let z = x / scale;
                // −2z/(1+z²)/scale, written so that a large z does not overflow.
                let slope = if z.abs() > 1.0 { -2.0 / (1.0 / z + z) } else { -2.0 * z / (1.0 + z * z) };
                (-2.0 * z.hypot(1.0).ln(), slope / scale)
            }
        }
    }

    /// A description of the text forms, for messages.
    pub const FORMS: &'static str =
        "lognormal(mu,sigma), gamma(shape,rate), normal(mean,sd) or halfcauchy(scale)";

    /// Returns true if the numbers of the prior are finite and its scales positive.
    pub fn is_proper(self) -> bool {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        match self {
            Prior::LogNormal { mu: at, sigma: scale } | Prior::Normal { mean: at, sd: scale } => {
                at.is_finite() && positive(scale)
            }
            Prior::Gamma { shape, rate } => positive(shape) && positive(rate),
            Prior::HalfCauchy { scale } => positive(scale),
        }
    }

    /// Returns true if the prior is a density of positive numbers only.
    pub fn needs_positive(self) -> bool {
        !matches!(self, Prior::Normal { .. })
    }

    /// Returns the prior of `size · x` if this is the prior of `x`; `size` is above 0.
    pub fn scaled(self, size: f64) -> Prior {
        match self {
            Prior::LogNormal { mu, sigma } => Prior::LogNormal { mu: mu + size.ln(), sigma },
            Prior::Gamma { shape, rate } => Prior::Gamma { shape, rate: rate / size },
            Prior::Normal { mean, sd } => Prior::Normal { mean: mean * size, sd: sd * size },
            Prior::HalfCauchy { scale } => Prior::HalfCauchy { scale: scale * size },
        }
    }

    /// Returns the prior with its numbers rounded to six significant digits.
    pub fn rounded(self) -> Prior {
        let round = |x: f64| format!("{x:.5e}").parse().unwrap_or(x);
        match self {
            Prior::LogNormal { mu, sigma } => Prior::LogNormal { mu: round(mu), sigma: round(sigma) },
            Prior::Gamma { shape, rate } => Prior::Gamma { shape: round(shape), rate: round(rate) },
            Prior::Normal { mean, sd } => Prior::Normal { mean: round(mean), sd: round(sd) },
            Prior::HalfCauchy { scale } => Prior::HalfCauchy { scale: round(scale) },
        }
    }
}

impl fmt::Display for Prior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Prior::LogNormal { mu, sigma } => write!(f, "lognormal({mu},{sigma})"),
            Prior::Gamma { shape, rate } => write!(f, "gamma({shape},{rate})"),
            Prior::Normal { mean, sd } => write!(f, "normal({mean},{sd})"),
            Prior::HalfCauchy { scale } => write!(f, "halfcauchy({scale})"),
        }
    }
}

/// A problem in the text of a prior.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PriorError(String);

impl FromStr for Prior {
    type Err = PriorError;

    fn from_str(text: &str) -> Result<Self, PriorError> {
        let wrong = || PriorError(format!("'{text}' is not {}", Prior::FORMS));
        let (name, rest) = text.trim().split_once('(').ok_or_else(wrong)?;
        let inner = rest.strip_suffix(')').ok_or_else(wrong)?;
        let numbers: Result<Vec<f64>, _> = inner.split(',').map(|part| part.trim().parse()).collect();
        let numbers = numbers.map_err(|_| wrong())?;
        let prior = match (name.trim().to_lowercase().as_str(), &numbers[..]) {
            ("lognormal", &[mu, sigma]) => Prior::LogNormal { mu, sigma },
            ("gamma", &[shape, rate]) => Prior::Gamma { shape, rate },
            ("normal", &[mean, sd]) => Prior::Normal { mean, sd },
            ("halfcauchy", &[scale]) => Prior::HalfCauchy { scale },
            _ => return Err(wrong()),
        };
        if prior.is_proper() {
            Ok(prior)
        } else {
            Err(PriorError(format!("'{text}' needs finite numbers, and scales, shapes and rates above 0")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::central_difference;

    #[test]
    fn text_comes_back_and_nonsense_is_refused() {
        for text in ["lognormal(0.5,2)", "gamma(2,1.5)", "normal(-1,0.3)", "halfcauchy(0.8)"] {
            assert_eq!(text.parse::<Prior>().map(|prior| prior.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(" Gamma( 2, 3 )".parse(), Ok(Prior::Gamma { shape: 2.0, rate: 3.0 }));
        for text in ["", "flat", "gamma", "gamma(2)", "gamma(2,1,3)", "gamma(2,x)", "gamma(2,1", "beta(1,1)"]
        {
            let error = text.parse::<Prior>().expect_err(text).to_string();
            assert!(error.contains("lognormal(mu,sigma)"), "{error}");
        }
        for text in ["gamma(0,1)", "lognormal(0,-1)", "normal(inf,1)", "halfcauchy(nan)"] {
            assert!(text.parse::<Prior>().expect_err(text).to_string().contains("above 0"));
        }
    }

    #[test]
    fn rounded_numbers_are_as_people_write_them() {
        let prior = Prior::LogNormal { mu: 2.9999999999999996, sigma: 3f64.sqrt() };
        assert_eq!(prior.rounded().to_string(), "lognormal(3,1.73205)");
        let gamma = Prior::Gamma { shape: 1e-300, rate: 0.1 };
        assert_eq!(gamma.rounded(), gamma);
    }

    #[test]
    fn scaled_priors_have_the_density_of_the_scaled_number() {
        for text in ["lognormal(0.4,0.7)", "gamma(2.5,1.3)", "normal(0.2,1.7)", "halfcauchy(0.8)"] {
            let prior: Prior = text.parse().expect("prior");
            // Densities are known up to a constant.
            let shift = |x: f64| prior.scaled(40.0).log_density(40.0 * x).0 - prior.log_density(x).0;
            assert!((shift(0.3) - shift(2.0)).abs() < 1e-12, "{text}");
            assert_eq!(prior.scaled(1.0), prior);
        }
    }

    #[test]
    fn prior_slopes_match_finite_differences() {
        let priors = [
            Prior::LogNormal { mu: 0.4, sigma: 0.7 },
            Prior::Gamma { shape: 2.5, rate: 1.3 },
            Prior::Normal { mean: 0.2, sd: 1.7 },
            Prior::HalfCauchy { scale: 0.8 },
        ];
        for prior in priors {
            for x in [0.05, 0.9, 3.0, 40.0] {
                let want = central_difference(|x| prior.log_density(x).0, x);
                let got = prior.log_density(x).1;
                assert!(
                    (got - want).abs() < 1e-7 * (1.0 + want.abs()),
                    "{prior:?} at {x}: {got} against {want}"
                );
            }
        }
        let (value, slope) = Prior::HalfCauchy { scale: 1e-150 }.log_density(1e150);
        assert!(value.is_finite() && slope.is_finite());
    }
}
