//! Parsers of option values.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sparsegp_tables::schema::UnseenLevels;
use sparsegp_tables::tabular::Sharing;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Returns a parser for a fixed set of values, which help texts list.
pub fn words<T: Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
    parse: impl Fn(&str) -> sparsegp::Result<T> + Clone + Send + Sync + 'static,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(move |word| parse(&word))
}

/// The sharing between several targets; `None` for `auto`. (An option within an option would mean an optional value to clap.)
pub type Outputs = Option<Sharing>;

pub fn sharing(text: &str) -> sparsegp::Result<Outputs> {
    if text == "auto" { Ok(None) } else { text.parse().map(Some) }
}

pub fn unseen(word: &str) -> sparsegp::Result<UnseenLevels> {
    Ok(if word == "error" { UnseenLevels::Error } else { UnseenLevels::New })
}

/// Parses a character that may separate columns.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n.-+".contains(&byte) => {
            Ok(byte)
        }
        _ => Err("expected one character such as , ; | or tab".to_owned()),
    }
}

/// Parses a finite number.
pub fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a finite number".to_owned())
}

/// Parses a column and its ordered levels: `size=S<M<L`.
pub fn ordered(text: &str) -> Result<(String, Vec<String>), String> {
    let (column, levels) = text.split_once('=').unwrap_or_default();
    let levels: Vec<String> = levels.split('<').map(|level| level.trim().to_owned()).collect();
    if column.is_empty() || levels.len() < 2 || levels.iter().any(String::is_empty) {
        return Err(
            "expected a column and two levels or more, the lowest first, such as 'size=S<M<L'".to_owned()
        );
    }
    Ok((column.trim().to_owned(), levels))
}

/// Parses the names of two columns: `lon,lat`.
pub fn places(text: &str) -> Result<[String; 2], String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let names = <[String; 2]>::try_from(names).ok();
    let names = names.filter(|names| names.iter().all(|name| !name.is_empty()));
    names.ok_or_else(|| "expected two columns with a comma between them, such as 'lon,lat'".to_owned())
}

/// Row numbers, counted from 1, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowNumbers(pub Vec<u64>);

/// The maximum number of rows in one range.
const MOST_ROWS: u64 = 100_000;

/// Parses row numbers and ranges, separated by commas (`1,7-9`), or `none`.
pub fn numbers(text: &str) -> Result<RowNumbers, String> {
    if text == "none" {
        return Ok(RowNumbers::default());
    }
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse().ok().filter(|&number: &u64| number > 0);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(format!("'{part}' is neither a number from 1 nor a range such as 7-9"));
        };
        if first > last || last - first >= MOST_ROWS {
            return Err(format!("'{part}' is not a range of at most {MOST_ROWS} rows"));
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(RowNumbers(all))
}

pub const MOST_DRAWS: usize = 10_000;

/// The maximum number of orders of columns.
pub const MOST_ORDERS: usize = 100_000;

pub fn whole(text: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("'{text}' is not a whole number from {} to {}", range.start(), range.end()))
}

/// Parses a whole number of at least 1.
pub fn positive(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| format!("'{text}' is not a whole number of at least 1"))
}

/// The maximum time limit in seconds, one day.
const MOST_SECONDS: f64 = 86_400.0;

/// The maximum size of a body in MiB.
pub const MOST_MIB: usize = 4096;

/// Parses an address with a port. The address is IPv4, IPv6 in brackets, or localhost.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let wrong = "expected an address and a port, such as 127.0.0.1:8000 or [::1]:8000";
    local.map_or_else(|| text.parse().map_err(|_| wrong.to_owned()), Ok)
}

/// Parses a time limit in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.1..=MOST_SECONDS).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number of seconds from 0.1 to {MOST_SECONDS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbers_and_ranges() {
        assert_eq!(numbers("7-9,1, 8"), Ok(RowNumbers(vec![1, 7, 8, 9])));
        assert_eq!(numbers("none"), Ok(RowNumbers::default()));
        for wrong in ["0", "a", "", "3-1", "1-", "1-999999999999", "-4", "1.5"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert_eq!((positive("3"), positive("0").is_err()), (Ok(3), true));
    }

    #[test]
    fn addresses_have_a_port() {
        for right in ["127.0.0.1:0", "[::1]:8000", "localhost:80", "0.0.0.0:8000"] {
            assert!(address(right).is_ok(), "{right}");
        }
        assert!(address("localhost:80").is_ok_and(|address| address.ip().is_loopback()));
        for wrong in ["", "8000", ":8000", "127.0.0.1", "localhost:99999", "example.org:80"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("nan").is_err() && seconds("0").is_err() && whole("0", 1..=MOST_MIB).is_err());
    }
}
