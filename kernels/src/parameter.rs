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
}

impl Parameter {
    /// A free parameter without a prior.
    pub fn new(name: &str, values: Vec<f64>, transform: Transform) -> Self {
        Parameter { name: name.to_owned(), values, transform, prior: None, fixed: false }
    }

    /// A free, positive parameter without a prior.
    pub fn positive(name: &str, values: Vec<f64>) -> Self {
        Parameter::new(name, values, Transform::POSITIVE)
    }
}
