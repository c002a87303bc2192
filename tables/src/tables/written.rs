//! Numbers as people write them: thousands separators, decimal commas, percent and currency signs; one cell at a time.

use std::borrow::Cow;
use std::ops::Range;

/// Signs and codes of currencies that may stand before or after a number.
const CURRENCIES: [&str; 22] = [
    "$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "JPY", "CHF", "CNY", "CAD", "AUD", "NZD", "SEK", "NOK",
    "DKK", "PLN", "CZK", "INR", "BRL", "MXN",
];

/// A number, and the unit that was written around it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub value: f64,
    /// The sign or code of a currency, or "%".
    pub unit: Option<&'static str>,
}

/// The position of a number in a cell, and the text around it.
struct Parts {
    negative: bool,
    digits: Range<usize>,
    unit: Option<&'static str>,
}

/// Parses a cell, with a decimal comma if `comma` is true and a decimal point otherwise. The other mark,
/// spaces or apostrophes may separate thousands.
pub(crate) fn parse(text: &str, comma: bool) -> Option<Written> {
    let Parts { negative, digits, unit } = parts(text)?;
    let value: f64 = plain_digits(&text[digits], comma)?.parse().ok()?;
    Some(Written { value: if negative { -value } else { value }, unit })
}

/// Converts a cell with a decimal comma to a decimal point without separators; other cells stay unchanged.
pub(crate) fn with_point(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte == b',' || byte == b'.') {
        return Cow::Borrowed(text);
    }
    let digits = parts(text).map(|parts| parts.digits);
    let plain = digits.clone().and_then(|digits| plain_digits(&text[digits], true));
    match (digits, plain) {
        (Some(at), Some(plain)) => Cow::Owned([&text[..at.start], &plain, &text[at.end..]].concat()),
        _ => Cow::Borrowed(text),
    }
}

/// The evidence that a cell gives for a decimal mark. A comma may be decimal or separate thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Comma,
    Point,
    Either,
    Neither,
}

/// Returns the evidence of a cell for a decimal mark.
pub(crate) fn mark(text: &str) -> Mark {
    let has = |mark: u8| text.bytes().any(|byte| byte == mark);
    if !has(b',') && !has(b'.') {
        return Mark::Neither;
    }
    match (parse(text, false), parse(text, true)) {
        (Some(a), Some(b)) if a != b => Mark::Either,
        (Some(_), None) => Mark::Point,
        (None, Some(_)) => Mark::Comma,
        _ => Mark::Neither,
    }
}

fn parts(text: &str) -> Option<Parts> {
    let start = text.len() - text.trim_start().len();
    let mut at = start..start + text.trim().len();
    let mut negative = sign(text, &mut at);
    let mut unit = CURRENCIES.into_iter().find(|unit| text[at.clone()].starts_with(unit));
    if let Some(unit) = unit {
        at.start += unit.len();
        shrink(text, &mut at);
        negative |= sign(text, &mut at);
    } else {
        unit = CURRENCIES.into_iter().chain(["%"]).find(|unit| text[at.clone()].ends_with(unit));
        at.end -= unit.map_or(0, str::len);
        shrink(text, &mut at);
    }
    let first = text[at.clone()].chars().next()?;
    (first.is_ascii_digit() || first == '.' || first == ',').then_some(Parts { negative, digits: at, unit })
}

/// Removes a sign from the beginning; returns true if it was a minus.
fn sign(text: &str, at: &mut Range<usize>) -> bool {
    let Some(sign) = text[at.clone()].chars().next().filter(|sign| matches!(sign, '+' | '-' | '−')) else {
        return false;
    };
    at.start += sign.len_utf8();
    shrink(text, at);
    sign != '+'
}

/// Excludes white space at both ends.
fn shrink(text: &str, at: &mut Range<usize>) {
    let inner = &text[at.clone()];
    at.start += inner.len() - inner.trim_start().len();
    at.end = at.start + inner.trim().len();
}

/// Returns the digits with a decimal point and without separators; an exponent is kept.
fn plain_digits(digits: &str, comma: bool) -> Option<String> {
    let Some(at) = digits.find(['e', 'E']) else { return plain_mantissa(digits, comma) };
    let power = digits[at + 1..].strip_prefix(['+', '-']).unwrap_or(&digits[at + 1..]);
    let mantissa = plain_mantissa(&digits[..at], comma).filter(|_| are_digits(power))?;
    Some(mantissa + &digits[at..])
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the digits before an exponent with a decimal point and without separators.
fn plain_mantissa(digits: &str, comma: bool) -> Option<String> {
    let (mark, other) = if comma { (',', '.') } else { ('.', ',') };
    let (whole, fraction) = match digits.split_once(mark) {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    if fraction.is_some_and(|fraction| !are_digits(fraction)) {
        return None;
    }
    let separator = whole.chars().find(|c| !c.is_ascii_digit());
    let whole = match separator {
        None if whole.is_empty() => "0".to_owned(),
        None => whole.to_owned(),
        Some(separator)
            if separator == other || matches!(separator, ' ' | '\u{a0}' | '\u{202f}' | '\'' | '’') =>
        {
            let mut groups = whole.split(separator);
            let first = groups.next().filter(|first| are_digits(first) && first.len() <= 3)?;
            let rest: Vec<&str> = groups.collect();
            let threes = rest.iter().all(|group| group.len() == 3 && are_digits(group));
            threes.then(|| format!("{first}{}", rest.concat()))?
        }
        Some(_) => return None,
    };
    Some(match fraction {
        Some(fraction) => format!("{whole}.{fraction}"),
        None => whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let point = |text| parse(text, false).map(|written| (written.value, written.unit));
        let comma = |text| parse(text, true).map(|written| (written.value, written.unit));
        for (text, value) in [
            ("1,234,567", 1234567.0),
            ("1 234 567", 1234567.0),
            ("1'234'567", 1234567.0),
            ("-1,234.5", -1234.5),
        ] {
            assert_eq!(point(text), Some((value, None)), "{text}");
        }
        assert_eq!(comma("1.234,5"), Some((1234.5, None)));
        assert_eq!(comma(",5"), Some((0.5, None)));
        assert_eq!(comma("-1.234,5e-3"), Some((-1.2345, None)));
        assert_eq!(comma("6,02E+23"), Some((6.02e23, None)));
        assert_eq!(comma("1,5e3 %"), Some((1500.0, Some("%"))));
        assert_eq!(point("12.5 %"), Some((12.5, Some("%"))));
        assert_eq!(point("-$1,200"), Some((-1200.0, Some("$"))));
        assert_eq!(point("$ -3"), Some((-3.0, Some("$"))));
        assert_eq!(comma("3,50 €"), Some((3.5, Some("€"))));
        assert_eq!(point("USD 12"), Some((12.0, Some("USD"))));
        assert_eq!(point("1\u{a0}000EUR"), Some((1000.0, Some("EUR"))));
        let none = "12,34|1,2345|1,234 567|%|$||1.2.3|12 kg|x1|1,234,56|--1|1,234e|e5|1,234e+|1,234e1.5";
        for text in none.split('|') {
            assert_eq!(point(text), None, "{text}");
        }
    }

    #[test]
    fn cells_are_evidence_for_a_decimal_mark() {
        for (text, expected) in [
            ("3,14", Mark::Comma),
            ("1,5e-3", Mark::Comma),
            ("1.234,5", Mark::Comma),
            ("3.14", Mark::Point),
            ("1,234.5", Mark::Point),
            ("1,234,567", Mark::Point),
            ("1,234", Mark::Either),
            ("1.234 €", Mark::Either),
            ("12", Mark::Neither),
            ("31.01.2024", Mark::Neither),
            ("a,b", Mark::Neither),
        ] {
            assert_eq!(mark(text), expected, "{text}");
        }
        assert_eq!(with_point("1.234,50 €"), "1234.50 €");
        assert_eq!(with_point("31.01.2024"), "31.01.2024");
        assert_eq!(with_point("7"), "7");
        assert_eq!(with_point("1,5e-3"), "1.5e-3");
    }
}
