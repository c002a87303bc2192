//! Parsing of the JSON body of a request for predictions, to rows and options.

use crate::args::parsers::MOST_DRAWS;
use crate::args::{Contents, UnseenArgs};
use serde::Deserialize;
use serde_json::Value;
use sparsegp::{Error, Result};
use sparsegp_tables::schema::UnseenLevels;
use std::collections::HashMap;

/// The name of a request in messages, in place of a file name.
pub const SOURCE: &str = "request";

#[derive(Debug, Default)]
pub struct Asked {
    rows: Vec<Value>,
    pub contents: Contents,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an array of rows or an object with \"rows\"")]
struct Body {
    rows: Vec<Value>,
    #[serde(default)]
    quantiles: Vec<f64>,
    #[serde(default)]
    latent: bool,
    #[serde(default)]
    covariance: bool,
    #[serde(default)]
    samples: usize,
    #[serde(default)]
    draws: usize,
    #[serde(default)]
    seed: u64,
    unseen: Option<Unseen>,
    #[serde(default)]
    population: bool,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Unseen {
    New,
    Error,
}

/// Returns an option as the request spells it.
pub fn named(name: &str) -> String {
    format!("\"{name}\"")
}

impl Asked {
    /// Reads a body: an array of rows, or an object with the rows and options.
    pub fn read(body: &[u8]) -> Result<Asked> {
        let Body { rows, quantiles, latent, covariance, samples, draws, seed, unseen, population } =
            match body.trim_ascii_start() {
                [b'[', ..] => serde_json::from_slice(body).map(|rows| Body { rows, ..Body::default() }),
                _ => serde_json::from_slice(body),
            }
            .map_err(|error| Error::usage(format!("{SOURCE}: the body cannot be read: {error}")))?;
        if population && unseen.is_some() {
            return Err(Error::usage("\"population\" cannot be combined with \"unseen\""));
        }
        if let Some(count) = [samples, draws].into_iter().find(|count| *count > MOST_DRAWS) {
            return Err(Error::usage(format!(
                "{SOURCE}: found {count} draws, expected at most {MOST_DRAWS}"
            )));
        }
        let strict = unseen == Some(Unseen::Error);
        let unseen = UnseenArgs { unseen: if strict { UnseenLevels::Error } else { UnseenLevels::New } };
        let contents = Contents { quantiles, latent, covariance, samples, draws, seed, population, unseen };
        Ok(Asked { rows, contents })
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    pub fn numbers_per_row(&self) -> usize {
        self.contents.quantiles.len() + self.contents.samples + self.contents.draws
    }

    /// Returns the names and cells of the columns, in the order in which the rows first name them. Cells are text. A row without a value
    /// for a column has a missing cell (`None`). Columns that are not `used` get no cells.
    pub fn cells(&self, used: &dyn Fn(&str) -> bool) -> Result<Vec<(String, Vec<Option<String>>)>> {
        let mut columns: Vec<(String, Vec<Option<String>>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (row, value) in self.rows.iter().enumerate() {
            let Value::Object(cells) = value else {
                return Err(Error::data(format!(
                    "{SOURCE}: row {} is {}, expected an object with a value for each column",
                    row + 1,
                    kind(value)
                )));
            };
            for (name, value) in cells {
                let place = *places.entry(name).or_insert_with(|| {
                    let cells = if used(name) { vec![None; self.rows.len()] } else { Vec::new() };
                    columns.push((name.clone(), cells));
                    columns.len() - 1
                });
                if let Some(text) = columns[place].1.get_mut(row) {
                    *text = cell(value, row, name)?;
                }
            }
        }
        Ok(columns)
    }
}

/// Returns a value as the text of a cell, or `None` for a missing cell.
fn cell(value: &Value, row: usize, name: &str) -> Result<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(value.to_string())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(_) | Value::Object(_) => Err(Error::data(format!(
            "{SOURCE}: row {}, column '{}': found {}, expected a number, a text, true, false or null",
            row + 1,
            name.escape_debug(),
            kind(value)
        ))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_need_not_have_the_same_columns() {
        let asked = Asked::read(br#"[{"b": 1, "a": "x"}, {"c": true, "b": null, "d": []}]"#).expect("rows");
        let mut cells = asked.cells(&|name| name != "d").expect("cells");
        cells.sort();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(cells[0], ("a".to_owned(), vec![some("x"), None]));
        assert_eq!(cells[1], ("b".to_owned(), vec![some("1"), None]));
        assert_eq!(cells[2], ("c".to_owned(), vec![None, some("true")]));
        assert_eq!(cells[3], ("d".to_owned(), vec![]));
        assert!(asked.cells(&|_| true).is_err());
    }
}
