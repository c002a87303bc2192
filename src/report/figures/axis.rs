//! The axes of figures: their scale, where the ticks are and what they say; no drawing.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use std::ops::Range;

/// About how many ticks an axis has, and how many at most.
const TICKS: usize = 6;
const MOST_TICKS: usize = 8;

/// The coordinates of an axis with its ticks. (The combinator of plotters that binds ticks has no labels for numbers.)
pub(super) struct Scale {
    inner: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.inner.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.inner.range()
    }
}

/// An axis.
pub(super) struct Axis<'a> {
    /// What stands beside it.
    pub(super) name: &'a str,
    /// The range that it shows.
    pub(super) range: Range<f64>,
    /// Whether the range, like everything drawn, is in logarithms to base 10; the ticks then name the numbers themselves.
    pub(super) logarithmic: bool,
}

impl<'a> Axis<'a> {
    /// An axis of the numbers themselves.
    pub(super) fn linear(name: &'a str, range: Range<f64>) -> Axis<'a> {
        Axis { name, range, logarithmic: false }
    }

    pub(super) fn scale(&self) -> Scale {
        let ticks = if self.logarithmic { log_ticks(&self.range) } else { ticks(&self.range) };
        Scale { inner: self.range.clone().into(), ticks }
    }

    /// What a tick says.
    pub(super) fn label(&self, value: f64) -> String {
        short(if self.logarithmic { 10f64.powf(value) } else { value })
    }
}

/// Round numbers in a range, evenly spaced.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    RangedCoordf64::from(range.clone()).key_points(TICKS)
}

/// The logarithms of round numbers: 1, 2, 5, 10, … over a short range of logarithms, powers of ten over a long one.
fn log_ticks(range: &Range<f64>) -> Vec<f64> {
    let leading = |digits: &[f64]| -> Vec<f64> {
        let powers = range.start.floor() as i32..=range.end.ceil() as i32;
        let all = powers.flat_map(|power| digits.iter().map(move |digit| f64::from(power) + digit.log10()));
        all.filter(|tick| range.contains(tick)).collect()
    };
    for digits in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let ticks = leading(digits);
        if (3..=MOST_TICKS).contains(&ticks.len()) {
            return ticks;
        }
    }
    let powers = leading(&[1.0]);
    if powers.len() > MOST_TICKS {
        // Every second, third, … decade, counted from 1.
        let stride = powers.len().div_ceil(MOST_TICKS) as f64;
        return powers.into_iter().filter(|power| power % stride == 0.0).collect();
    }
    // Well below a factor of ten: the scale is nearly linear.
    let numbers = ticks(&(10f64.powf(range.start)..10f64.powf(range.end)));
    numbers.into_iter().map(f64::log10).collect()
}

/// A number for a tick: few digits, an exponent where it would be long.
fn short(value: f64) -> String {
    let size = value.abs();
    // The bounds are where rounding gives 0.001 and 100000: a power of a logarithm misses these by a hair.
    if size != 0.0 && !(0.9995e-3..0.99995e5).contains(&size) {
        return format!("{value:.1e}").replace(".0e", "e");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        let axis = Axis { name: "", range: low.log10()..high.log10(), logarithmic: true };
        axis.scale().ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn logarithmic_ticks_are_round_and_few() {
        assert_eq!(labels(90.0, 2200.0), ["100", "200", "500", "1000", "2000"]);
        assert_eq!(labels(0.0009, 1.2), ["0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1"]);
        assert_eq!(labels(9.0, 2e5), ["10", "100", "1000", "10000", "1e5"]);
        assert_eq!(labels(1e-8, 1e3), ["1e-8", "1e-6", "1e-4", "0.01", "1", "100"]);
        assert_eq!(labels(110.0, 190.0), ["120", "140", "160", "180"]);
        for decades in 1..=300 {
            let count = labels(0.9, 1.1 * 10f64.powi(decades)).len();
            assert!((3..=MOST_TICKS).contains(&count), "{decades}: {count}");
        }
    }

    #[test]
    fn linear_ticks_name_themselves() {
        let axis = Axis::linear("x", 0.0..1.0);
        let labels: Vec<_> = axis.scale().ticks.iter().map(|&tick| axis.label(tick)).collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!([short(0.0), short(-1e-7), short(1.5e9)], ["0", "-1e-7", "1.5e9"]);
    }
}
