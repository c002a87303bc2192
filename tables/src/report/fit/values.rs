//! The values of an explained row in words, by column; no estimates.

use crate::readable::number;
use crate::schema::{Feature, Schema, after};
use crate::tables::instant;
use sparsegp::explain::{InputColumn, InputKind};

/// The maximum number of letters of a column with its value beside a bar.
const MOST_LETTERS: usize = 30;

/// Returns the value of every column of a row with these inputs, in original units.
pub(super) fn of_row(schema: &Schema, columns: &[InputColumn], inputs: &[f64]) -> Vec<String> {
    let features = schema.features().iter();
    columns.iter().zip(features).map(|(column, feature)| value(schema, column, (feature, inputs))).collect()
}

fn value(schema: &Schema, column: &InputColumn, (feature, inputs): (&Feature, &[f64])) -> String {
    let own = &inputs[column.inputs.clone()];
    let Some(&first) = own.first() else { return String::new() };
    match &column.kind {
        InputKind::Number if own.get(1) == Some(&1.0) => "(missing)".to_owned(),
        InputKind::Number => match schema.ordered_levels(&column.name) {
            Some(levels) if first.fract() == 0.0 => levels.get(first as usize).cloned().unwrap_or_default(),
            _ => number(first),
        },
        InputKind::Codes { .. } | InputKind::Categories { .. } => {
            column.category(own).unwrap_or("(new)").to_owned()
        }
        InputKind::Date => match feature {
            Feature::Date { origin, .. } => instant::spelled(after(*origin, first)),
            _ => number(first),
        },
        InputKind::Place => String::new(),
    }
}

/// Returns `name = value`, cut to the room beside a bar.
pub(super) fn beside(name: &str, value: &str) -> String {
    if value.is_empty() {
        return name.to_owned();
    }
    let value = cut(value, MOST_LETTERS / 2);
    format!("{} = {value}", cut(name, MOST_LETTERS - 3 - value.chars().count()))
}

fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
