//! A named hyper-parameter: its natural values and the transform to the optimiser's space.

use crate::{Dimension, Prior};
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
    /// `value = upper − exp(−u)`.
    Below {
        /// The ceiling the value stays below.
        upper: f64,
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
            Transform::Below { upper } => upper - (-u).exp(),
            Transform::Bounded { lower, upper } => lower + (upper - lower) / (1.0 + (-u).exp()),
        }
    }

    /// The unconstrained number whose natural value is `value`; not finite when `value` is outside the range.
    pub fn inverse(self, value: f64) -> f64 {
        match self {
            Transform::Identity => value,
            Transform::Positive { lower } => (value - lower).ln(),
            Transform::Below { upper } => -(upper - value).ln(),
            Transform::Bounded { lower, upper } => ((value - lower) / (upper - value)).ln(),
        }
    }

    /// `d value / d u`, written in the natural value.
    pub fn derivative(self, value: f64) -> f64 {
        match self {
            Transform::Identity => 1.0,
            Transform::Positive { lower } => value - lower,
            Transform::Below { upper } => upper - value,
            Transform::Bounded { lower, upper } => (value - lower) * (upper - value) / (upper - lower),
        }
    }

    /// Returns true if `value` is finite and strictly inside the range of the transform.
    pub fn admits(self, value: f64) -> bool {
        let (lower, upper) = self.range();
        value.is_finite() && value > lower && value < upper
    }

    /// Returns the lower and the upper end of the range; infinite if there is no end.
    pub fn range(self) -> (f64, f64) {
        match self {
            Transform::Identity => (f64::NEG_INFINITY, f64::INFINITY),
            Transform::Positive { lower } => (lower, f64::INFINITY),
            Transform::Below { upper } => (f64::NEG_INFINITY, upper),
            Transform::Bounded { lower, upper } => (lower, upper),
        }
    }

    /// Returns the transform to values within both ranges: that of this transform, and `lower` to `upper`, either of which may be
    /// infinite; `None` if there are no such values.
    pub fn within(self, lower: f64, upper: f64) -> Option<Transform> {
        let (own_lower, own_upper) = self.range();
        let (lower, upper) = (lower.max(own_lower), upper.min(own_upper));
        if lower.is_nan() || upper.is_nan() || lower >= upper {
            return None;
        }
        Some(match (lower.is_finite(), upper.is_finite()) {
            (false, false) => Transform::Identity,
            (true, false) => Transform::Positive { lower },
            (false, true) => Transform::Below { upper },
            (true, true) => Transform::Bounded { lower, upper },
        })
    }

    /// Returns `value` if the transform admits it, otherwise a value inside the range, near the end
    /// that `value` lies beyond. Its distance from that end is `share` of the range, or `share` of
    /// the size of the end if the range is infinite. NaN stays NaN.
    pub fn inside(self, value: f64, share: f64) -> f64 {
        if self.admits(value) {
            return value;
        }
        let (lower, upper) = self.range();
        let width = upper - lower;
        let reach = |end: f64| match end.abs() {
            _ if width.is_finite() => share * width,
            0.0 => share,
            size => share * size,
        };
        if value <= lower {
            lower + reach(lower)
        } else if value >= upper {
            upper - reach(upper)
        } else {
            value
        }
    }
}

/// The purpose of a parameter, as far as code outside a kernel has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// A factor of the prior variance of f.
    Variance,
    /// The variance of noise.
    Noise,
    /// A standard deviation, or another scale, of the target.
    Scale,
    /// A distance along inputs at which f changes.
    Lengthscale,
    /// The period of a periodic f.
    Period,
    /// Anything else.
    Other,
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
    /// True if the parameter keeps its values during training.
    pub fixed: bool,
    /// True if the user gave the starting values: training changes them, but
    /// [`crate::Kernel::initialise`] does not.
    #[serde(default)]
    pub given: bool,
    /// The index of the value of every dimension, if the coordinates of a place share one; otherwise empty. It follows from the contents of the
    /// columns, so it is not stored.
    #[serde(skip)]
    pub slots: Vec<usize>,
}

impl Parameter {
    /// A free parameter without a prior.
    pub fn new(name: &str, values: Vec<f64>, transform: Transform) -> Self {
        let (name, slots) = (name.to_owned(), Vec::new());
        Parameter { name, values, transform, prior: None, fixed: false, given: false, slots }
    }

    /// Returns what the parameter does. Kernels and likelihoods, also those from outside, name parameters of a role alike.
    pub fn role(&self) -> Role {
        match &*self.name {
            "variance" | "variances" => Role::Variance,
            "noise_variance" => Role::Noise,
            "scale" | "sd" => Role::Scale,
            "lengthscale" | "lengthscales" => Role::Lengthscale,
            "period" => Role::Period,
            _ => Role::Other,
        }
    }

    /// A free, positive parameter without a prior.
    pub fn positive(name: &str, values: Vec<f64>) -> Self {
        Parameter::new(name, values, Transform::POSITIVE)
    }

    /// A free, positive parameter whose starting values the caller gave.
    pub(crate) fn start_at(name: &str, values: &[f64]) -> Self {
        Parameter::positive(name, values.to_vec()).as_given()
    }

    /// Marks the values as starting values that the caller gave.
    pub fn as_given(self) -> Self {
        Parameter { given: true, ..self }
    }

    /// Checks that there are values, and that training admits them all; messages call the parameter `name`.
    ///
    /// # Errors
    /// What was found and expected, in words.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let (low, high) = self.transform.range();
        if self.values.is_empty() {
            return Err(format!("{name} has no value, expected one, or one for every column"));
        }
        match self.values.iter().find(|&&value| !self.transform.admits(value)) {
            Some(value) => {
                Err(format!("{name} is {value}, expected a number that is {}", range_words(low, high)))
            }
            None => Ok(()),
        }
    }

    /// Returns the value of input dimension `d`, which may be the value that all dimensions share.
    pub fn at(&self, d: usize) -> f64 {
        self.values[self.slot(d)]
    }

    /// Returns the index of the value of dimension `d` in [`Parameter::values`].
    pub(crate) fn slot(&self, d: usize) -> usize {
        match self.slots.get(d) {
            Some(&slot) => slot,
            None if self.per_dimension() => d,
            None => 0,
        }
    }

    /// Returns true if every input dimension has a separate value, except that the coordinates of a place share one.
    pub fn per_dimension(&self) -> bool {
        self.values.len() > 1 || !self.slots.is_empty()
    }

    /// Lets the coordinates of a place share the value of the first one, if every dimension has a separate value. Returns false, and changes
    /// nothing, if they were given different values.
    pub(crate) fn share(&mut self, dimensions: &[Dimension]) -> bool {
        let separate = self.slots.is_empty() && self.per_dimension() && self.values.len() == dimensions.len();
        if !separate || !dimensions.iter().any(|dimension| dimension.is_coordinate()) {
            return true;
        }
        let (mut slots, mut values) = (Vec::with_capacity(dimensions.len()), Vec::new());
        for (d, dimension) in dimensions.iter().enumerate() {
            let follows = *dimension == Dimension::Coordinate { first: false }
                && d > 0
                && dimensions[d - 1].is_coordinate();
            if !follows {
                values.push(self.values[d]);
            } else if values.last() != Some(&self.values[d]) {
                return false;
            }
            slots.push(values.len() - 1);
        }
        (self.slots, self.values) = (slots, values);
        true
    }

    /// The number of dimensions the values determine; 0 when one value serves any number.
    pub(crate) fn dims(&self) -> usize {
        match self.slots.len() {
            0 if self.per_dimension() => self.values.len(),
            dims => dims,
        }
    }

    /// Panics unless the parameter fits points with `dims` columns.
    pub(crate) fn check_dims(&self, dims: usize) {
        let fits = !self.per_dimension() || self.dims() == dims;
        assert!(fits, "{dims} columns do not fit a kernel with {} {}", self.values.len(), self.name);
    }

    /// Sets starting values that the transform admits, unless the parameter is fixed or its start was given.
    pub fn start(&mut self, value: impl Fn(usize) -> f64) {
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
    /// the root mean square spread of its dimensions, and a spread of zero counts as 1.
    pub fn start_from_spread(&mut self, spread: &[f64], value: impl Fn(f64, f64) -> f64) {
        let dims = spread.len().max(1) as f64;
        let usable = |s: f64| if s.is_finite() && s > 0.0 { s } else { 1.0 };
        let mut own = vec![Vec::new(); self.values.len()];
        for (d, &s) in spread.iter().enumerate() {
            own.get_mut(self.slot(d)).into_iter().for_each(|own: &mut Vec<f64>| own.push(usable(s)));
        }
        self.start(|slot| match own[slot][..] {
            [only] => value(only, dims),
            ref several => {
                let count = several.len() as f64;
                value(usable(several.iter().map(|&s| s * (s / count)).sum::<f64>().sqrt()), dims)
            }
        });
    }
}

pub(crate) fn range_words(low: f64, high: f64) -> String {
    match (low, high) {
        (f64::NEG_INFINITY, f64::INFINITY) => "finite".to_owned(),
        (0.0, f64::INFINITY) => "positive".to_owned(),
        (low, high) => format!("between {low} and {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::central_difference;

    #[test]
    fn transforms_invert_and_differentiate() {
        let transforms = [
            Transform::Identity,
            Transform::POSITIVE,
            Transform::Positive { lower: 0.3 },
            Transform::Below { upper: 5.0 },
            Transform::Bounded { lower: -1.0, upper: 4.0 },
        ];
        for transform in transforms {
            for u in [-2.5, -0.1, 0.7, 3.0] {
                let value = transform.value(u);
                assert!(transform.admits(value));
                // Two roundings, amplified by at most a hundred where the transform is flat.
                assert!((transform.inverse(value) - u).abs() < 1e-13, "{transform:?} at {u}");
                let want = central_difference(|u| transform.value(u), u);
                assert!((transform.derivative(value) - want).abs() < 1e-8 * (1.0 + want.abs()));
            }
        }
        assert!(!Transform::POSITIVE.admits(0.0));
        assert!(!Transform::POSITIVE.admits(f64::INFINITY));
        assert!(!Transform::Bounded { lower: 0.0, upper: 1.0 }.admits(1.0));
        assert!(!Transform::Below { upper: 1.0 }.admits(1.0));
    }

    #[test]
    fn ranges_meet_and_values_outside_are_moved_inside() {
        let (none, infinite) = (f64::NEG_INFINITY, f64::INFINITY);
        let floor = Transform::Positive { lower: 1e-6 };
        assert_eq!(floor.within(none, 0.5), Some(Transform::Bounded { lower: 1e-6, upper: 0.5 }));
        assert_eq!(floor.within(0.0, infinite), Some(floor), "a floor is kept");
        assert_eq!(Transform::Identity.within(none, 2.0), Some(Transform::Below { upper: 2.0 }));
        assert_eq!(Transform::POSITIVE.within(-3.0, -1.0), None);
        let bounded = Transform::Bounded { lower: 1.0, upper: 3.0 };
        for (transform, value, want) in [
            (bounded, 2.9, 2.9),
            (bounded, 0.0, 1.2),
            (bounded, 3.0, 2.8),
            (Transform::POSITIVE, 0.0, 0.1),
            (Transform::Positive { lower: -5.0 }, -7.0, -4.5),
            (Transform::Below { upper: 2.0 }, 2.0, 1.8),
        ] {
            let inside = transform.inside(value, 0.1);
            assert!(
                transform.admits(inside) && (inside - want).abs() < 1e-12,
                "{transform:?} {value}: {inside}"
            );
        }
        assert!(bounded.inside(f64::NAN, 0.1).is_nan());
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
