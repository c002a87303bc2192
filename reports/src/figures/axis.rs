//! The axes of figures: scale, positions of ticks and their labels.

use std::ops::Range;

use sparsegp_tables::readable::{grouped, trimmed};

/// The maximum number of ticks of a linear and of a logarithmic axis.
const TICKS: usize = 6;
const MOST_TICKS: usize = 8;

/// The minimum and the maximum number of digits of tick labels; the maximum distinguishes any two numbers.
const LEAST_DIGITS: usize = 3;
const MOST_DIGITS: usize = 18;

pub(super) struct Axis<'a> {
    pub(super) name: &'a str,
    pub(super) range: Range<f64>,
    /// True if the range, like everything drawn, is in logarithms to base 10; tick labels show the numbers themselves.
    pub(super) logarithmic: bool,
}

impl<'a> Axis<'a> {
    pub(super) fn linear(name: &'a str, range: Range<f64>) -> Axis<'a> {
        Axis { name, range, logarithmic: false }
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic { log_ticks(&self.range) } else { ticks(&self.range) }
    }

    /// Returns the positions of the ticks with their labels, which have as many digits as it takes to distinguish and locate them.
    pub(super) fn labelled_ticks(&self) -> Vec<(f64, String)> {
        let ticks = self.ticks();
        let number = |tick: &f64| if self.logarithmic { 10f64.powf(*tick) } else { *tick };
        let numbers: Vec<f64> = ticks.iter().map(number).collect();
        let gaps = numbers.windows(2).map(|pair| (pair[1] - pair[0]).abs());
        let step = gaps.fold(f64::INFINITY, f64::min);
        let close = |digits: &usize| {
            let near = |&number: &f64| {
                let said = plain(number, *digits).parse::<f64>();
                said.is_ok_and(|said| (said - number).abs() <= 0.02 * step.min(number.abs().max(step)))
            };
            numbers.iter().all(near)
        };
        let digits = (LEAST_DIGITS..MOST_DIGITS).find(close).unwrap_or(MOST_DIGITS);
        ticks.into_iter().zip(numbers.into_iter().map(|number| grouped(&plain(number, digits)))).collect()
    }
}

/// Returns the multiples of 1, 2 or 5 times a power of ten in a range, for the smallest step with at most six multiples.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    let decade = (range.end - range.start).log10().floor() as i32;
    let steps = (0..3).flat_map(|finer| [10.0, 5.0, 2.0].map(|leading| (leading, decade - finer)));
    let mut ticks = Vec::new();
    for (leading, power) in steps {
        // A multiple at an end of the range counts in spite of rounding errors.
        let multiple = |end: f64| scaled(end / leading, -power);
        let (first, last) = ((multiple(range.start) - 1e-9).ceil(), (multiple(range.end) + 1e-9).floor());
        if last - first >= TICKS as f64 {
            break;
        }
        let count = (last - first + 1.0) as usize;
        ticks = (0..count).map(|index| scaled(leading * (first + index as f64), power)).collect();
    }
    ticks
}

/// Multiplies by a power of ten. A quotient by ten is the nearest number, a product with 0.1 is not.
fn scaled(number: f64, power: i32) -> f64 {
    let scale = 10f64.powi(power.abs());
    if power < 0 { number / scale } else { number * scale }
}

/// Returns the logarithms of round numbers: 1, 2, 5, 10, … for a short range of logarithms, powers of ten for a long one.
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

/// Formats a number for a tick with at most `digits` decimals, with an exponent if it would be long.
fn plain(value: f64, digits: usize) -> String {
    let size = value.abs();
    // The bounds lie slightly outside 0.001 and 10⁹, because 10 to the power of a logarithm is inexact.
    if size != 0.0 && !(0.9995e-3..0.99995e9).contains(&size) {
        let text = format!("{value:.*e}", digits - LEAST_DIGITS + 1);
        let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(number));
    }
    let text = format!("{value:.digits$}");
    let text = trimmed(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn labels_of(axis: &Axis<'_>) -> Vec<String> {
        axis.labelled_ticks().into_iter().map(|(_, label)| label).collect()
    }

    fn labels(low: f64, high: f64) -> Vec<String> {
        labels_of(&Axis { name: "", range: low.log10()..high.log10(), logarithmic: true })
    }

    #[test]
    fn logarithmic_ticks_are_round_and_few() {
        assert_eq!(labels(90.0, 2200.0), ["100", "200", "500", "1000", "2000"]);
        assert_eq!(labels(0.0009, 1.2), ["0.001", "0.003", "0.01", "0.03", "0.1", "0.3", "1"]);
        assert_eq!(labels(9.0, 2e5), ["10", "100", "1000", "10,000", "100,000"]);
        assert_eq!(labels(1e-8, 1e3), ["1e-8", "1e-6", "1e-4", "0.01", "1", "100"]);
        assert_eq!(labels(110.0, 190.0), ["120", "140", "160", "180"]);
        for decades in 1..=300 {
            let count = labels(0.9, 1.1 * 10f64.powi(decades)).len();
            assert!((3..=MOST_TICKS).contains(&count), "{decades}: {count}");
        }
    }

    #[test]
    fn labels_of_linear_ticks_are_accurate_and_distinct() {
        assert_eq!(labels_of(&Axis::linear("x", 0.0..1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        // A multiple at an end of the range has its tick in spite of rounding errors.
        assert_eq!(labels_of(&Axis::linear("x", -1.4..-1.2)), ["-1.4", "-1.35", "-1.3", "-1.25", "-1.2"]);
        assert_eq!([0.0, -1e-7, 1.5e9, -1e-9].map(|value| plain(value, 3)), ["0", "-1e-7", "1.5e9", "-1e-9"]);
        for below in 1..100 {
            let labels = labels_of(&Axis::linear("x", -0.01 * f64::from(below)..0.55));
            assert!(labels.iter().any(|label| label == "0"), "{labels:?}");
        }
        let middles = [0.0, 1.0, -2.3, 700.0, 1e5, 123456.7, 1e9, 1e-4, 3e-9];
        let widths = [1e-6, 3e-4, 0.02, 1.0, 4.7, 900.0, 1e6];
        for (middle, width) in middles.iter().flat_map(|m| widths.iter().map(move |w| (m, w))) {
            let axis = Axis::linear("x", middle - width..middle + width);
            let labels = labels_of(&axis);
            let distinct: HashSet<&String> = labels.iter().collect();
            assert_eq!(distinct.len(), labels.len(), "{middle} ± {width}: {labels:?}");
            for (label, tick) in labels.iter().zip(axis.ticks()) {
                let said: f64 = label.replace(',', "").parse().expect("a number");
                assert!((said - tick).abs() < 0.05 * width, "{label} at {tick}");
            }
        }
    }
}
