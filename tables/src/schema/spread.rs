//! Range and standardisation of a stream of numbers of any size.

use serde::{Deserialize, Serialize};
use sparsegp::data::{Affine, Moments};

/// Range, mean and deviation of finite numbers of any size. The moments are those of half the distance from
/// the first number, in a unit that is a power of two and grows with this distance. Hence no square overflows
/// or underflows, and a change of unit is exact.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spread {
    low: f64,
    high: f64,
    pivot: f64,
    unit: f64,
    place: Moments,
}

impl Spread {
    pub(crate) fn push(&mut self, value: f64) {
        if self.place.count() == 0 {
            (self.low, self.high, self.pivot) = (value, value, value);
            self.unit = f64::MIN_POSITIVE;
        }
        (self.low, self.high) = (self.low.min(value), self.high.max(value));
        let distance = value / 2.0 - self.pivot / 2.0;
        self.reach(distance);
        self.place.push(distance / self.unit);
    }

    /// The smallest and the largest number, 0 if there are none.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    pub(crate) fn varies(&self) -> bool {
        self.low < self.high
    }

    pub(crate) fn count(&self) -> u64 {
        self.place.count()
    }

    pub(crate) fn merge(&mut self, other: Spread) {
        if other.place.count() == 0 {
            return;
        }
        if self.place.count() == 0 {
            *self = other;
            return;
        }
        (self.low, self.high) = (self.low.min(other.low), self.high.max(other.high));
        let between = other.pivot / 2.0 - self.pivot / 2.0;
        self.reach(between);
        self.reach(other.unit);
        self.place.merge(other.place.mapped(other.unit / self.unit, between / self.unit));
    }

    /// Increases the unit until it suits a distance.
    fn reach(&mut self, distance: f64) {
        if distance.abs() >= 2.0 * self.unit {
            let unit = power_of_two_below(distance.abs());
            self.place = self.place.mapped(self.unit / unit, 0.0);
            self.unit = unit;
        }
    }

    /// The mean and the population standard deviation; the scale is 1 when all numbers are equal (or there are none).
    pub(crate) fn affine(&self) -> Affine {
        let (Some(mean), Some(variance)) = (self.place.mean(), self.place.variance()) else {
            return Affine::IDENTITY;
        };
        if self.low >= self.high {
            return Affine { shift: self.low, scale: 1.0 };
        }
        let scale = self.unit * (2.0 * variance.sqrt());
        Affine {
            shift: 2.0 * (self.pivot / 2.0 + self.unit * mean),
            scale: if scale > 0.0 { scale } else { self.high - self.low },
        }
    }

    /// Like [`affine`](Self::affine), for these numbers and `missing` more rows that have their mean.
    pub(crate) fn affine_with(&self, missing: usize) -> Affine {
        let (Affine { shift, scale }, present) = (self.affine(), self.count() as f64);
        let share = present / (present + missing as f64);
        Affine { shift, scale: if self.varies() { scale * share.sqrt() } else { scale } }
    }
}

/// The largest power of two that is not above a positive normal number.
fn power_of_two_below(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & f64::INFINITY.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use proptest::prelude::*;

    #[test]
    fn a_spread_standardises_numbers_of_any_size_and_order() {
        let of = |values: &[f64]| {
            let mut spread = Spread::default();
            values.iter().for_each(|&value| spread.push(value));
            spread.affine()
        };
        assert_eq!(of(&[]), Affine::IDENTITY);
        assert_eq!(of(&[7.0, 7.0]), Affine { shift: 7.0, scale: 1.0 });
        for size in [1.0, 1e300, f64::MAX, 1e-300, 2.0 * f64::MIN_POSITIVE] {
            let affine = of(&[size, -size, -size, size]);
            assert!(affine.shift.abs() <= 1e-15 * size, "{affine:?}");
            assert_relative_eq!(affine.scale, size, max_relative = 1e-12);
        }
        assert!(of(&[5e-324, 1e-323]).scale > 0.0);
        // Units that grow on the way: 0, then a tiny, a small and a large number.
        let grown = of(&[0.0, 1e-200, 1.0, 1e6]);
        assert_relative_eq!(grown.shift, (1.0 + 1e6) / 4.0, max_relative = 1e-14);
        let deviation = (0.25 * (1.0 + 1e12) - grown.shift * grown.shift).sqrt();
        assert_relative_eq!(grown.scale, deviation, max_relative = 1e-12);
        let offset = of(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0, 1e9 + 4.0]);
        assert_eq!((offset.shift, offset.scale), (1e9 + 2.5, 1.25f64.sqrt()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Both results are within rounding of the exact moments. Their rounding errors are at most n ε times
        /// the largest distance from the mean.
        #[test]
        fn parts_in_any_order_have_the_moments_of_all(
            values in prop::collection::vec((-1.0f64..1.0, -3i32..4), 0..60),
            offset in prop_oneof![Just(0.0), Just(1e9), Just(-3e-9)],
            size in prop_oneof![Just(1.0), Just(1e-290), Just(1e290)],
            cuts in prop::collection::vec(0usize..60, 0..6),
            order in Just((0..7).collect::<Vec<usize>>()).prop_shuffle(),
        ) {
            let values: Vec<f64> = values.iter().map(|(v, e)| (offset + v * 10f64.powi(*e)) * size).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(values.len())).collect();
            cuts.extend([0, values.len()]);
            cuts.sort_unstable();
            let parts: Vec<Spread> = cuts.windows(2).map(|ends| {
                let mut part = Spread::default();
                values[ends[0]..ends[1]].iter().for_each(|&value| part.push(value));
                postcard::from_bytes(&postcard::to_allocvec(&part).expect("bytes")).expect("the same")
            }).collect();
            let (mut merged, mut whole) = (Spread::default(), Spread::default());
            order.iter().filter_map(|&i| parts.get(i)).for_each(|&part| merged.merge(part));
            values.iter().for_each(|&value| whole.push(value));
            prop_assert_eq!((merged.low, merged.high), (whole.low, whole.high));
            let (merged, whole) = (merged.affine(), whole.affine());
            let largest = values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
            let rounding = f64::EPSILON * values.len() as f64;
            // The error of the shift is relative to the numbers; that of the scale, to the scale and to the rounding of the distances.
            prop_assert!((merged.shift - whole.shift).abs() <= rounding * largest, "{merged:?}, {whole:?}");
            let error = (merged.scale - whole.scale).abs();
            prop_assert!(error <= rounding * (4.0 * whole.scale + largest), "{merged:?}, {whole:?}");
        }
    }
}
