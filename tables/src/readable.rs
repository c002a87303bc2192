//! Formats numbers, times and lists for people. All rounding and shortening for summaries, logs, reports and messages is here.

/// The powers of ten of numbers that are written without an exponent, such as 20,000,000; 1.5e12 has an exponent.
const POWERS: std::ops::Range<i32> = -4..9;

/// The smallest number of digits with separators between thousands. 2024 has no separator, because it could be a year.
const LONG: usize = 5;

/// Returns a number with four significant digits.
pub fn number(value: f64) -> String {
    significant(value, 4)
}

/// Returns a number with `digits` significant digits, without zeros at the end of a fraction.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { value.to_string() };
    }
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let (Some((mantissa, power)), Ok(rounded)) = (text.split_once('e'), text.parse::<f64>()) else {
        return text;
    };
    let exponent: i32 = power.parse().unwrap_or_default();
    if !POWERS.contains(&exponent) {
        return format!("{}e{power}", trimmed(mantissa));
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    grouped(trimmed(&format!("{rounded:.decimals$}")))
}

/// Returns a whole number with commas between thousands.
pub fn count(value: usize) -> String {
    grouped(&value.to_string())
}

/// Returns a time in seconds, minutes or hours.
pub fn duration(seconds: f64) -> String {
    if seconds < 0.095 {
        return format!("{} s", significant(seconds, 1));
    }
    if seconds < 9.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Returns digits without the zeros at the end of a fraction.
pub fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Returns digits with commas between the thousands of the whole part.
pub fn grouped(text: &str) -> String {
    let start = text.len() - text.trim_start_matches('-').len();
    let end = text.find('.').unwrap_or(text.len());
    let whole = &text[start..end];
    if whole.len() < LONG || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut apart = String::with_capacity(text.len() + whole.len() / 3);
    apart.push_str(&text[..start]);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart + &text[end..]
}

/// Lists the first `most` items, separated by commas, and the number of further items.
pub fn few(items: impl Iterator<Item = String>, most: usize) -> String {
    let mut items: Vec<String> = items.collect();
    if items.len() > most {
        let more = items.len() - most;
        items.truncate(most);
        items.push(format!("{more} more"));
    }
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_keep_their_size() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.5, "-0.5"),
            (1234.5678, "1235"),
            (-75_472.3, "-75,470"),
            (2e5, "200,000"),
            (99_999.9, "100,000"),
            (0.000123456, "0.0001235"),
            (0.99999, "1"),
            (1e-9, "1e-9"),
            (1.23456e-5, "1.235e-5"),
            (2e7, "20,000,000"),
            (1.5e12, "1.5e12"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!((number(f64::NAN), number(f64::NEG_INFINITY)), ("NaN".into(), "-inf".into()));
        assert_eq!(
            (significant(75_472.0, 3), count(8034), count(1_234_567)),
            ("75,500".into(), "8034".into(), "1,234,567".into())
        );
    }

    #[test]
    fn times_are_in_the_unit_that_suits_them() {
        for (seconds, text) in [
            (0.0, "0 s"),
            (0.0123, "0.01 s"),
            (0.123, "0.1 s"),
            (1.36572, "1.4 s"),
            (9.96, "10 s"),
            (59.4, "59 s"),
            (59.6, "1 min 0 s"),
            (125.2, "2 min 5 s"),
            (3725.0, "1 h 2 min"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
