//! Parsing of the JSON body of a request for predictions, to rows and options.

use crate::args::Contents;
use crate::args::parsers::MOST_DRAWS;
use serde_json::{Map, Value};
use sparsegp::{Error, Result};
use sparsegp_tables::schema::UnseenLevels;
use std::collections::HashMap;

/// The name of a request in messages, in place of a file name.
pub const SOURCE: &str = "request";

/// The keys of a request, in the order in which messages list them.
const KEYS: [&str; 11] = [
    "rows",
    "quantiles",
    "survival",
    "hazard",
    "latent",
    "covariance",
    "samples",
    "draws",
    "seed",
    "unseen",
    "population",
];

/// The rows and the options of a request.
#[derive(Debug, Default)]
pub struct Asked {
    rows: Vec<Value>,
    pub contents: Contents,
}

/// Returns an option as the request spells it.
pub fn named(name: &str) -> String {
    format!("\"{name}\"")
}

impl Asked {
    /// Reads a body: an array of rows, or an object with the rows and options.
    ///
    /// # Errors
    ///
    /// Returns a usage error for text that is not JSON, an unknown option, or an option with an invalid value.
    pub fn read(body: &[u8]) -> Result<Asked> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Error::usage(format!("{SOURCE}: the body is not JSON: {error}")))?;
        match value {
            Value::Array(rows) => Ok(Asked { rows, ..Asked::default() }),
            Value::Object(options) => Asked::of_options(options),
            other => Err(Error::usage(format!(
                "{SOURCE}: the body is {}, expected an array of rows or an object with \"rows\"",
                kind(&other)
            ))),
        }
    }

    fn of_options(mut options: Map<String, Value>) -> Result<Asked> {
        let rows = match options.remove("rows") {
            Some(Value::Array(rows)) => rows,
            Some(other) => return Err(wrong("rows", &other, "an array of objects")),
            None => {
                return Err(Error::usage(format!("{SOURCE}: the object has no \"rows\""))
                    .hint("a single row is an array of one object"));
            }
        };
        if options.contains_key("population") && options.contains_key("unseen") {
            return Err(Error::usage("\"population\" cannot be combined with \"unseen\""));
        }
        let mut asked = Asked { rows, ..Asked::default() };
        options.iter().try_for_each(|(name, value)| set(&mut asked.contents, name, value))?;
        Ok(asked)
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the total number of quantiles and draws per row.
    pub fn numbers_per_row(&self) -> usize {
        let Contents { quantiles, survival, hazard, .. } = &self.contents;
        quantiles.len() + survival.len() + hazard.len() + self.contents.samples + self.contents.draws
    }

    /// Returns the names and cells of the columns, in the order in which the rows first name them. Cells are text. A row without a value
    /// for a column has a missing cell (`None`). Columns that are not `used` get no cells.
    ///
    /// # Errors
    ///
    /// Returns a data error if a row is not an object, or if a cell of a used column is an array or an object.
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

fn set(contents: &mut Contents, name: &str, value: &Value) -> Result<()> {
    let refused = |expected: &str| wrong(name, value, expected);
    let flag = || value.as_bool().ok_or_else(|| refused("true or false"));
    let numbers = || {
        let all = value.as_array().ok_or_else(|| refused("an array of numbers"))?.iter();
        all.map(|value| value.as_f64().ok_or_else(|| wrong(name, value, "numbers"))).collect::<Result<_>>()
    };
    let draws = || {
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        let expected = || refused(&format!("a whole number from 0 to {MOST_DRAWS}"));
        number.filter(|&number| number <= MOST_DRAWS).ok_or_else(expected)
    };
    match name {
        "quantiles" => contents.quantiles = numbers()?,
        "survival" => contents.survival = numbers()?,
        "hazard" => contents.hazard = numbers()?,
        "latent" => contents.latent = flag()?,
        "covariance" => contents.covariance = flag()?,
        "population" => contents.population = flag()?,
        "samples" => contents.samples = draws()?,
        "draws" => contents.draws = draws()?,
        "seed" => contents.seed = value.as_u64().ok_or_else(|| refused("a whole number from 0"))?,
        "unseen" => {
            contents.unseen.unseen = match value.as_str() {
                Some("new") => UnseenLevels::New,
                Some("error") => UnseenLevels::Error,
                _ => return Err(refused("\"new\" or \"error\"")),
            }
        }
        _ => {
            let known = KEYS.join(", ");
            return Err(Error::usage(format!("{SOURCE}: unknown option {name:?}, expected one of {known}")));
        }
    }
    Ok(())
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

/// Returns the kind of a JSON value in words.
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

/// Creates the error for an option with an invalid value.
fn wrong(name: &str, found: &Value, expected: &str) -> Error {
    let found = match found {
        Value::Array(_) | Value::Object(_) => kind(found).to_owned(),
        simple => simple.to_string(),
    };
    Error::usage(format!("{SOURCE}: {name:?}: found {found}, expected {expected}"))
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
