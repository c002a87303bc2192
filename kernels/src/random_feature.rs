//! Random features: random functions whose products have a kernel as their mean. Draws of priors
//! are sums of such functions.

use crate::dimension::{Dimension, is_category};
use std::f64::consts::{PI, SQRT_2};

/// A random function φ with `E[φ(x) φ(x')] = k(x, x')` and mean zero (Rahimi & Recht 2007). With m
/// independent features and standard normal ε, `Σ_j ε_j φ_j / √m` is a draw of the Gaussian process
/// with covariance k, approximately so for finite m and without bias in its covariance.
pub trait RandomFeature: Send + Sync {
    /// The value at a point (D numbers).
    fn value(&self, x: &[f64]) -> f64;

    /// Adds `weight` times the gradient at a point to `gradient` (D numbers). The gradient in codes of categories is 0.
    fn add_gradient(&self, x: &[f64], weight: f64, gradient: &mut [f64]);
}

/// A source of random numbers for features, computed from standard normal numbers.
pub struct Chance<'a> {
    normals: &'a mut dyn FnMut() -> f64,
}

impl<'a> Chance<'a> {
    /// Creates a source from `normals`, which returns independent standard normal numbers.
    pub fn new(normals: &'a mut dyn FnMut() -> f64) -> Self {
        Chance { normals }
    }

    /// Returns a standard normal number.
    pub fn normal(&mut self) -> f64 {
        (self.normals)()
    }

    /// Returns a number that is uniform between 0 and 1.
    pub fn uniform(&mut self) -> f64 {
        0.5 + self.normal().atan2(self.normal()) / (2.0 * PI)
    }

    /// Returns a draw of the χ² distribution with this number of degrees of freedom.
    pub(crate) fn chi_squared(&mut self, degrees: usize) -> f64 {
        (0..degrees).map(|_| self.normal().powi(2)).sum()
    }

    /// Returns a draw of the gamma distribution with this shape and scale 1 (Marsaglia & Tsang
    /// 2000).
    pub(crate) fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.uniform().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        loop {
            let (z, u) = (self.normal(), self.uniform());
            let v = (1.0 + z / (9.0 * d).sqrt()).powi(3);
            if v > 0.0 && u.ln() < 0.5 * z * z + d * (1.0 - v + v.ln()) {
                return d * v;
            }
        }
    }

    /// Returns the difference of two Poisson numbers with means `rate/2`:
    /// `P(k) = e^−rate I_k(rate)`.
    pub(crate) fn skellam(&mut self, rate: f64) -> f64 {
        /// Beyond this rate the normal distribution is as good.
        const MANY: f64 = 400.0;
        if rate > MANY {
            return (rate.sqrt() * self.normal()).round();
        }
        let mut poisson = || {
            let (mut count, mut time) = (0.0, 0.5 * self.chi_squared(2));
            while time < 0.5 * rate {
                count += 1.0;
                time += 0.5 * self.chi_squared(2);
            }
            count
        };
        poisson() - poisson()
    }
}

/// A linear function of columns of numbers, plus a separate effect for every level of columns of
/// categories.
pub(crate) struct Line {
    offset: f64,
    columns: Vec<Effect>,
}

/// The addend of a column in a linear function.
enum Effect {
    /// The slope of a number.
    Slope(f64),
    /// One addend for every known level, then one for all levels that were never seen.
    Levels(Vec<f64>),
}

impl Line {
    /// Creates a constant function.
    pub fn constant(offset: f64) -> Line {
        Line { offset, columns: Vec::new() }
    }

    /// Creates a function; `of` returns the slopes and the addends of levels, column by column.
    pub fn new(
        offset: f64,
        dims: usize,
        dimensions: &[Dimension],
        chance: &mut Chance<'_>,
        mut of: impl FnMut(usize, bool, &mut Chance<'_>) -> f64,
    ) -> Line {
        let effect = |d: usize| {
            if !is_category(dimensions, d) {
                return Effect::Slope(of(d, false, chance));
            }
            Effect::Levels((0..=dimensions[d].levels()).map(|_| of(d, true, chance)).collect())
        };
        Line { offset, columns: (0..dims).map(effect).collect() }
    }
}

impl RandomFeature for Line {
    fn value(&self, x: &[f64]) -> f64 {
        let of = |(effect, &x): (&Effect, &f64)| match effect {
            Effect::Slope(slope) => slope * x,
            Effect::Levels(levels) => {
                let known = levels.len() - 1;
                levels[if x >= 0.0 && x < known as f64 { x as usize } else { known }]
            }
        };
        self.offset + self.columns.iter().zip(x).map(of).sum::<f64>()
    }

    fn add_gradient(&self, _: &[f64], weight: f64, gradient: &mut [f64]) {
        for (effect, gradient) in self.columns.iter().zip(gradient) {
            if let Effect::Slope(slope) = effect {
                *gradient += weight * slope;
            }
        }
    }
}

/// `amplitude · √2 cos(phase(x))` with a linear phase.
pub(crate) struct Wave {
    amplitude: f64,
    phase: Line,
}

impl Wave {
    /// Creates a wave of this phase, shifted by a uniform angle.
    pub fn new(amplitude: f64, mut phase: Line, chance: &mut Chance<'_>) -> Wave {
        phase.offset += 2.0 * PI * chance.uniform();
        Wave { amplitude, phase }
    }
}

impl RandomFeature for Wave {
    fn value(&self, x: &[f64]) -> f64 {
        self.amplitude * SQRT_2 * self.phase.value(x).cos()
    }

    fn add_gradient(&self, x: &[f64], weight: f64, gradient: &mut [f64]) {
        let slope = -self.amplitude * SQRT_2 * self.phase.value(x).sin();
        self.phase.add_gradient(x, weight * slope, gradient);
    }
}

/// A sum of independent features, or their product: the feature of a sum, or a product, of kernels.
pub(crate) struct Joined {
    /// The features.
    pub features: Vec<Box<dyn RandomFeature>>,
    /// True for a product, false for a sum.
    pub product: bool,
}

impl RandomFeature for Joined {
    fn value(&self, x: &[f64]) -> f64 {
        let values = self.features.iter().map(|feature| feature.value(x));
        if self.product { values.product() } else { values.sum() }
    }

    fn add_gradient(&self, x: &[f64], weight: f64, gradient: &mut [f64]) {
        for (i, feature) in self.features.iter().enumerate() {
            let others = self.features.iter().enumerate().filter(|(j, _)| self.product && *j != i);
            let others: f64 = others.map(|(_, other)| other.value(x)).product();
            feature.add_gradient(x, weight * others, gradient);
        }
    }
}
