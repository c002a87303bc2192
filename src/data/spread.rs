//! Range and standardisation of numbers that come one at a time, of whatever size; no storage of the numbers.

use super::moments::Moments;
use super::scaling::Affine;

/// Range, mean and deviation of finite numbers of any size: moments of half the distance from the first number, in units of
/// a power of two that grows with that distance, so that no square can overflow or vanish and no change of unit rounds.
#[derive(Clone, Copy, Debug, Default)]
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
        if distance.abs() >= 2.0 * self.unit {
            let unit = power_of_two_below(distance.abs());
            self.place = self.place.scaled(self.unit / unit);
            self.unit = unit;
        }
        self.place.push(distance / self.unit);
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
}

/// The largest power of two that is not above a positive normal number.
fn power_of_two_below(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & f64::INFINITY.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

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
}
