//! A named hyper-parameter: its natural values, the transform to the optimiser's space, its prior; no kernel.

use serde::{Deserialize, Serialize};

/// The map from an unconstrained number `u` (what an optimiser sees) to a natural value (what a formula uses).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Transform {
    /// `value = u`.
    Identity,
    /// `value = lower + exp(u)`; `lower` is a floor, 0 for most scales.
    Positive {
        /// The floor the value stays above.
        lower: f64,
    },
    /// `value = lower + (upper − lower) / (1 + exp(−u))`.
    Bounded {
        /// The value stays above this.
        lower: f64,
        /// The value stays below this.
        upper: f64,
    },
}

impl Transform {
    /// A scale that is positive without a floor.
    pub const POSITIVE: Transform = Transform::Positive { lower: 0.0 };

    /// The natural value at `u`.
    pub fn value(self, u: f64) -> f64 {
        match self {
            Transform::Identity => u,
            Transform::Positive { lower } => lower + u.exp(),
            Transform::Bounded { lower, upper } => lower + (upper - lower) / (1.0 + (-u).exp()),
        }
    }

    /// The unconstrained number whose natural value is `value`; not finite when `value` is outside the range.
    pub fn inverse(self, value: f64) -> f64 {
        match self {
            Transform::Identity => value,
            Transform::Positive { lower } => (value - lower).ln(),
            Transform::Bounded { lower, upper } => ((value - lower) / (upper - value)).ln(),
        }
    }

    /// `d value / d u`, written in the natural value.
    pub fn derivative(self, value: f64) -> f64 {
        match self {
            Transform::Identity => 1.0,
            Transform::Positive { lower } => value - lower,
            Transform::Bounded { lower, upper } => (value - lower) * (upper - value) / (upper - lower),
        }
    }

    /// Whether `value` is finite and strictly inside the transform's range.
    pub fn admits(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Transform::Identity => true,
                Transform::Positive { lower } => value > lower,
                Transform::Bounded { lower, upper } => value > lower && value < upper,
            }
    }
}

/// A prior density over the natural value; only its logarithm up to a constant enters an objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// One named hyper-parameter: a number, or one number per input dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The name within its owner, such as `lengthscales`.
    pub name: String,
    /// The natural values.
    pub values: Vec<f64>,
    /// The transform shared by all values.
    pub transform: Transform,
    /// An optional prior on every value.
    pub prior: Option<Prior>,
    /// A fixed parameter keeps its values during training.
    pub fixed: bool,
    /// The user gave the starting values: training moves them, [`crate::Kernel::initialise`] does not.
    #[serde(default)]
    pub given: bool,
}

impl Parameter {
    /// A free parameter without a prior.
    pub fn new(name: &str, values: Vec<f64>, transform: Transform) -> Self {
        Parameter { name: name.to_owned(), values, transform, prior: None, fixed: false, given: false }
    }

    /// A free, positive parameter without a prior.
    pub fn positive(name: &str, values: Vec<f64>) -> Self {
        Parameter::new(name, values, Transform::POSITIVE)
    }

    /// The value of input dimension `d`: its own, or the one that all dimensions share.
    pub fn at(&self, d: usize) -> f64 {
        self.values[self.slot(d)]
    }

    /// Where the value of dimension `d` stands among [`Parameter::values`].
    pub(crate) fn slot(&self, d: usize) -> usize {
        if self.per_dimension() { d } else { 0 }
    }

    /// Whether every input dimension has its own value.
    pub fn per_dimension(&self) -> bool {
        self.values.len() > 1
    }

    /// The number of dimensions the values determine; 0 when one value serves any number.
    pub(crate) fn dims(&self) -> usize {
        if self.per_dimension() { self.values.len() } else { 0 }
    }

    /// Panics unless points with `dims` columns fit.
    pub(crate) fn check_dims(&self, dims: usize) {
        let fits = !self.per_dimension() || self.values.len() == dims;
        assert!(fits, "points with {dims} columns meet a kernel with {} {}", self.values.len(), self.name);
    }

    /// Sets starting values that the transform admits, unless the parameter is fixed or its start was given.
    pub(crate) fn start(&mut self, value: impl Fn(usize) -> f64) {
        if self.fixed || self.given {
            return;
        }
        for (i, slot) in self.values.iter_mut().enumerate() {
            let value = value(i);
            if self.transform.admits(value) {
                *slot = value;
            }
        }
    }

    /// Sets starting values from the spread of each dimension and the number of dimensions; a shared value uses
    /// the root mean square spread, and a spread of zero counts as 1.
    pub(crate) fn start_from_spread(&mut self, spread: &[f64], value: impl Fn(f64, f64) -> f64) {
        let dims = spread.len().max(1) as f64;
        let usable = |s: f64| if s.is_finite() && s > 0.0 { s } else { 1.0 };
        let mean_square = spread.iter().map(|&s| usable(s) * (usable(s) / dims)).sum::<f64>();
        let shared = usable(mean_square.sqrt());
        let own = self.per_dimension();
        self.start(|d| value(if own { spread.get(d).map_or(1.0, |&s| usable(s)) } else { shared }, dims));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central difference with the step that balances truncation and rounding.
    fn slope(f: impl Fn(f64) -> f64, x: f64) -> f64 {
        let h = 6e-6 * x.abs().max(1e-3);
        (f(x + h) - f(x - h)) / (2.0 * h)
    }

    #[test]
    fn transforms_invert_and_differentiate() {
        let transforms = [
            Transform::Identity,
            Transform::POSITIVE,
            Transform::Positive { lower: 0.3 },
            Transform::Bounded { lower: -1.0, upper: 4.0 },
        ];
        for transform in transforms {
            for u in [-2.5, -0.1, 0.7, 3.0] {
                let value = transform.value(u);
                assert!(transform.admits(value));
                // Two roundings, amplified by at most a hundred where the transform is flat.
                assert!((transform.inverse(value) - u).abs() < 1e-13, "{transform:?} at {u}");
                let want = slope(|u| transform.value(u), u);
                assert!((transform.derivative(value) - want).abs() < 1e-8 * (1.0 + want.abs()));
            }
        }
        assert!(!Transform::POSITIVE.admits(0.0));
        assert!(!Transform::POSITIVE.admits(f64::INFINITY));
        assert!(!Transform::Bounded { lower: 0.0, upper: 1.0 }.admits(1.0));
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
                let want = slope(|x| prior.log_density(x).0, x);
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

    #[test]
    fn start_respects_fixed_given_and_the_transform() {
        let mut parameter = Parameter::positive("lengthscales", vec![2.0, 3.0]);
        parameter.start_from_spread(&[0.5, 0.0], |s, dims| s * dims);
        assert_eq!(parameter.values, [1.0, 2.0]);
        parameter.start(|_| -1.0);
        assert_eq!(parameter.values, [1.0, 2.0]);
        parameter.given = true;
        parameter.start(|_| 9.0);
        assert_eq!(parameter.values, [1.0, 2.0]);
    }
}
