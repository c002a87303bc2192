//! What is asked of nearest neighbours beside inducing inputs, as a word or a number; no search.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How many nearest neighbours stand beside inducing inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// So many.
    Number(usize),
    /// As held-out rows decide: none, or a number of them.
    Auto,
}

/// Which training rows a model keeps, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// The most rows, drawn at random where there are more; all when absent.
    pub rows: Option<usize>,
    /// Whether numbers are rounded to single precision, which halves the file.
    pub single: bool,
}

impl Neighbours {
    /// The most neighbours: their covariance matrix is factorised for every row.
    pub const MOST: usize = 500;
}

impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Neighbours::Number(count) => write!(f, "{count}"),
            Neighbours::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Neighbours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(count) => Ok(Neighbours::Number(count)),
            Err(_) if text == "auto" => Ok(Neighbours::Auto),
            Err(_) => {
                Err(format!("unknown number of neighbours '{text}', expected auto or a number from 0 on"))
            }
        }
    }
}

impl Serialize for Neighbours {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Neighbours::Number(count) => serializer.serialize_u64(*count as u64),
            Neighbours::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Neighbours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Number(usize),
            Word(String),
        }
        match Raw::deserialize(deserializer)? {
            Raw::Number(count) => Ok(Neighbours::Number(count)),
            Raw::Word(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}
