//! The kinds of values that options take, with their parsers.

use serde_json::{Number, Value};
use sparsegp::error::{Error, Result};
use sparsegp::words::either;
use std::str::FromStr;

/// A function that refuses a text that is not a valid value of an option.
pub type Check = fn(&str) -> Result<()>;

/// The values that an option takes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A flag: true if the option is given.
    Flag,
    /// A flag whose name on the command line starts with `no-`: true unless the option is given.
    Switch,
    /// `on` or `off`.
    OnOff,
    /// A finite number.
    Number,
    /// A number, or a text.
    NumberOr(Check),
    /// A whole number, 0 or more.
    Whole,
    /// A whole number, or one of these texts.
    WholeOr(&'static [&'static str]),
    /// Two numbers, the smaller one first: `LO,HI`.
    Range,
    /// One of these names.
    Words(&'static [&'static str]),
    /// A text.
    Text(Check),
    /// Names separated by commas, as one text or as a list.
    List(Check),
    /// A text that may be repeated.
    Texts(Check),
}

impl Kind {
    /// Parses a value on a command line. An option that may be repeated is parsed one value at a time.
    ///
    /// # Errors
    ///
    /// Returns a usage error that states the expected values.
    pub fn parse(self, text: &str) -> Result<Value> {
        match self {
            Kind::Flag | Kind::Switch => {
                text.parse().map(Value::Bool).map_err(|_| Error::usage("expected true or false"))
            }
            Kind::OnOff => one_of(&["on", "off"], text).map(|()| Value::Bool(text == "on")),
            Kind::Number => number(text),
            Kind::NumberOr(check) => number(text).or_else(|_| check(text).map(|()| text.into())),
            Kind::Whole => whole(text).ok_or_else(|| Error::usage("expected a whole number, 0 or more")),
            Kind::WholeOr(words) if words.contains(&text) => Ok(text.into()),
            Kind::WholeOr(words) => whole(text).ok_or_else(|| {
                Error::usage(format!("expected {} or a whole number, 0 or more", words.join(", ")))
            }),
            Kind::Range => {
                let (low, high) = text.split_once(',').ok_or_else(|| Error::usage("expected LO,HI"))?;
                let end = |text: &str| {
                    number(text.trim())
                        .map_err(|_| Error::usage(format!("'{}' is not a finite number", text.trim())))
                };
                Ok(Value::Array(vec![end(low)?, end(high)?]))
            }
            Kind::Words(words) => one_of(words, text).map(|()| text.into()),
            Kind::Text(check) | Kind::List(check) | Kind::Texts(check) => check(text).map(|()| text.into()),
        }
    }

    /// Returns the values that the option takes, if help texts list them.
    pub fn words(self) -> Option<&'static [&'static str]> {
        match self {
            Kind::Words(words) => Some(words),
            Kind::OnOff => Some(&["on", "off"]),
            _ => None,
        }
    }

    /// Returns the JSON types that the option takes: `bool`, `number`, `whole`, `text` and `list`.
    pub fn types(self) -> &'static [&'static str] {
        match self {
            Kind::Flag | Kind::Switch | Kind::OnOff => &["bool"],
            Kind::Number => &["number"],
            Kind::NumberOr(_) => &["number", "text"],
            Kind::Whole => &["whole"],
            Kind::WholeOr(_) => &["whole", "text"],
            Kind::Range => &["list", "text"],
            Kind::Words(_) | Kind::Text(_) => &["text"],
            Kind::List(_) | Kind::Texts(_) => &["text", "list"],
        }
    }
}

fn one_of(words: &[&str], text: &str) -> Result<()> {
    if words.contains(&text) { Ok(()) } else { Err(Error::usage(format!("expected {}", either(words)))) }
}

fn number(text: &str) -> Result<Value> {
    let number = text.parse().map_err(|_| Error::usage("expected a number"))?;
    let finite = Number::from_f64(number).ok_or_else(|| Error::usage("expected a finite number"))?;
    Ok(Value::Number(finite))
}

fn whole(text: &str) -> Option<Value> {
    text.parse::<u64>().ok().map(Value::from)
}

/// Accepts every text.
pub(super) fn any(_: &str) -> Result<()> {
    Ok(())
}

/// Accepts the texts that parse as a `T`.
pub(super) fn parses<T: FromStr<Err = Error>>(text: &str) -> Result<()> {
    text.parse::<T>().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_values_of_their_kind() {
        let words = Kind::WholeOr(&["auto"]);
        for (kind, text, value) in [
            (Kind::OnOff, "off", json!(false)),
            (Kind::Number, "-1e3", json!(-1000.0)),
            (Kind::Whole, "7", json!(7)),
            (words, "auto", json!("auto")),
            (words, "0", json!(0)),
            (Kind::Range, "1, 2.5", json!([1.0, 2.5])),
            (Kind::Words(&["a", "b"]), "b", json!("b")),
            (Kind::NumberOr(any), "abs:1", json!("abs:1")),
        ] {
            assert_eq!(kind.parse(text).expect(text), value);
        }
        for (kind, text, expected) in [
            (Kind::OnOff, "maybe", "expected on or off"),
            (Kind::Number, "inf", "expected a finite number"),
            (Kind::Whole, "1.5", "expected a whole number, 0 or more"),
            (words, "-1", "expected auto or a whole number, 0 or more"),
            (Kind::Range, "1", "expected LO,HI"),
            (Kind::Range, "1, x", "'x' is not a finite number"),
            (Kind::Words(&["a", "b"]), "c", "expected a or b"),
        ] {
            assert_eq!(kind.parse(text).expect_err(text).to_string(), expected);
        }
    }
}
