//! The values of an explained row in words, by column.

use sparsegp_tables::explain::{InputColumn, InputKind};
use sparsegp_tables::readable::number;
use sparsegp_tables::schema::{Feature, FeatureKind, Schema, after};
use sparsegp_tables::tables::spelled;

/// The maximum number of letters of a column name and its value beside a bar.
const MOST_LETTERS: usize = 26;

/// Returns the value of every column of a row with these inputs, in original units.
pub(super) fn of_row(schema: &Schema, columns: &[InputColumn], inputs: &[f64]) -> Vec<String> {
    let value_of = |(index, column): (usize, &InputColumn)| {
        let feature = schema.features().get(index);
        value(schema, column, feature, &inputs[column.inputs.clone()])
    };
    columns.iter().enumerate().map(value_of).collect()
}

/// Returns the value of a column with these inputs; empty for a place, whose inputs are coordinates on a sphere.
fn value(schema: &Schema, column: &InputColumn, feature: Option<&Feature>, own: &[f64]) -> String {
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
        InputKind::Date => match feature.map(|feature| &feature.kind) {
            Some(FeatureKind::Date { origin, .. }) => spelled(after(*origin, first)),
            _ => number(first),
        },
        InputKind::Place => String::new(),
    }
}

/// Returns `name = value`, shortened to fit beside a bar.
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
