//! The paths of the server: `/health`, `/model` and `/predict`.

use super::http::{Answer, Request};
use super::request::{Asked, SOURCE, named};
use crate::predict::Unfamiliar;
use crate::{inspect, output};
use serde_json::json;
use sparsegp::Result;
use sparsegp_tables::tables::{Column, PredictedRows, PredictedTable};
use sparsegp_tables::tabular::TableOutputs;
use std::cell::Cell;
use std::fmt::Write;

/// The maximum total number of quantiles and draws in the answer to a request.
const MOST_NUMBERS: usize = 1_000_000;

const SHOWN: &str = "GET, HEAD";

/// A model, its description for `/model`, and the limit on rows.
pub struct Service {
    outputs: TableOutputs,
    model: String,
    max_rows: usize,
}

impl Service {
    pub fn new(outputs: TableOutputs, max_rows: usize) -> Service {
        let model = inspect::json(&outputs);
        Service { outputs, model, max_rows }
    }

    pub fn answer(&self, request: &Request) -> Answer {
        match (request.path.as_str(), request.method.as_str()) {
            ("/health", "GET" | "HEAD") => Answer::ok(format!("{}\n", json!({ "status": "ok" }))),
            ("/model", "GET" | "HEAD") => Answer::ok(self.model.clone()),
            ("/predict", "POST") => self.predict(&request.body),
            ("/health" | "/model", method) => wrong_method(&request.path, method, SHOWN),
            ("/predict", method) => wrong_method(&request.path, method, "POST"),
            (path, _) => Answer::error(404, &format!("the path {path:?} does not exist"))
                .with_hint("the paths are GET /health, GET /model and POST /predict"),
        }
    }

    fn predict(&self, body: &[u8]) -> Answer {
        let asked = match Asked::read(body) {
            Ok(asked) => asked,
            Err(error) => return refusal(&error),
        };
        let (rows, most) = (asked.rows(), self.max_rows);
        let message = if rows > most {
            format!("{SOURCE}: {rows} rows, expected at most {most}")
        } else if asked.numbers_per_row().saturating_mul(rows) > MOST_NUMBERS {
            format!("{SOURCE}: more than {MOST_NUMBERS} quantiles and draws of all rows together")
        } else {
            return self.predict_rows(asked).map_or_else(|error| refusal(&error), Answer::ok);
        };
        Answer::error(413, &message).with_hint("send the rows in several requests")
    }

    /// Returns the JSON document with the predictions for the rows of a request, and with warnings about these rows.
    fn predict_rows(&self, asked: Asked) -> Result<String> {
        let contents = &asked.contents;
        contents.check(&named)?;
        contents.check_models(&self.outputs, &named)?;
        if asked.rows() == 0 {
            return Ok("{\"predictions\":[],\"warnings\":[]}\n".to_owned());
        }
        let used = |name: &str| self.outputs.models().any(|model| model.schema().uses(name));
        let (cells, rows) = (asked.cells(&used)?, asked.rows());
        let mut warnings = Vec::from_iter(self.unused(&cells));
        let table = self.outputs.table_of_cells(SOURCE, &cells, rows, contents.unseen())?;
        let names: Vec<String> = cells.into_iter().map(|(name, _)| name).collect();
        let columns = contents.columns(&self.outputs, &names);
        let rows = contents.rows(&self.outputs, &columns, &table, 0)?;
        let mut unfamiliar = Unfamiliar::default();
        self.outputs.models().next().map_or(Ok(()), |model| unfamiliar.add(model, &table))?;
        warnings.extend(unfamiliar.warnings(SOURCE));
        Ok(document(&columns.table(&[]), &rows, &warnings))
    }

    fn unused(&self, cells: &[(String, Vec<Option<String>>)]) -> Option<String> {
        const MOST: usize = 5;
        let known = |name: &str| {
            let mut schemas = self.outputs.models().map(|model| model.schema());
            schemas.any(|schema| schema.uses(name) || schema.weights_name() == Some(name))
        };
        let unused = cells.iter().map(|(name, _)| name).filter(|name| !known(name));
        let list = output::few(unused.map(|name| format!("'{}'", name.escape_debug())), MOST);
        (!list.is_empty()).then(|| format!("{SOURCE}: the model does not use the columns {list}"))
    }
}

fn wrong_method(path: &str, method: &str, methods: &'static str) -> Answer {
    let message = format!("{path} does not have the method {method:?}, expected {methods}");
    Answer::error(405, &message).with_methods(methods)
}

/// Returns the answer to a request that causes an error. A hint that names options of the command line is left out.
fn refusal(error: &sparsegp::Error) -> Answer {
    let foreign = Cell::new(false);
    let hint = error.advice_with(&|name, _| {
        foreign.set(true);
        named(name)
    });
    let answer = Answer::error(400, &error.message_with(&|name, _| named(name)));
    match hint.filter(|_| !foreign.get()) {
        Some(hint) => answer.with_hint(&hint),
        None => answer,
    }
}

/// Returns predictions and warnings as JSON. Each row is an object with the columns of `predict`, in the same order.
fn document(table: &PredictedTable, rows: &PredictedRows, warnings: &[String]) -> String {
    let names: Vec<String> = table.names().map(|name| format!("{}:", json!(name))).collect();
    let mut text = String::from("{\"predictions\":[");
    let width = table.numbers.len();
    for row in 0..rows.rows {
        text.push_str(if row == 0 { "{" } else { ",\n{" });
        let numbers = &rows.numbers[row * width..(row + 1) * width];
        let leading = rows.leading.iter().map(|column| cell(column, row));
        let values = leading.chain(numbers.iter().map(|&value| number(value)));
        for (index, (name, value)) in names.iter().zip(values).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{name}{value}");
        }
        text.push('}');
    }
    text.push_str(&format!("],\"warnings\":{}}}\n", json!(warnings)));
    text
}

fn cell(column: &Column, row: usize) -> String {
    match column {
        Column::Number(values) => values.get(row).map_or_else(|| "null".to_owned(), |&value| number(value)),
        Column::Text(text) => json!(text.get(row)).to_string(),
        _ => "null".to_owned(),
    }
}

/// Returns a number as JSON, with all digits. NaN is null. Infinite numbers, which JSON lacks, are text.
fn number(value: f64) -> String {
    if value.is_nan() {
        "null".to_owned()
    } else if value.is_infinite() {
        format!("\"{value}\"")
    } else {
        json!(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_kind_are_json() {
        let texts = [0.1, 1.0, -1e-300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(number);
        assert_eq!(texts, ["0.1", "1.0", "-1e-300", "null", "\"inf\"", "\"-inf\""]);
    }
}
