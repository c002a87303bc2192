//! The hyper-parameters of a model as rows of text; long lists are shortened to the most relevant
//! values.

use super::number;
use sparsegp::data::Affine;
use sparsegp::hyper::stem;
use sparsegp_tables::schema::FeatureKind;
use sparsegp_tables::tabular::TableModel;

/// The maximum number of values of a list that are shown.
pub const MOST_SHOWN: usize = 10;

/// The minimum number of values of a list that are shown, even if the lines do not suffice.
pub const LEAST_SHOWN: usize = 3;

type Named = (String, f64);

/// Returns all hyper-parameters, with names, values and notes.
pub fn all(model: &TableModel) -> Vec<Vec<String>> {
    with_notes(model, model.hyperparameters().iter().map(row).collect())
}

/// Like [`all`], with long lists shortened.
pub fn shortened(model: &TableModel, where_all: &str) -> Vec<Vec<String>> {
    with_notes(model, shorten(&model.hyperparameters(), MOST_SHOWN, MOST_SHOWN, where_all))
}

/// Returns names and values with long lists shortened, to at most `lines` rows if possible.
pub fn within(model: &TableModel, lines: usize, where_all: &str) -> Vec<Vec<String>> {
    let values = model.hyperparameters();
    let whole = shorten(&values, MOST_SHOWN, MOST_SHOWN, where_all);
    let of_columns = |mut rows: Vec<Vec<String>>| {
        with_intervals(model, &mut rows);
        of_columns(model, rows)
    };
    if whole.len() <= lines {
        return of_columns(whole);
    }
    let bare = shorten(&values, 1, 0, where_all);
    let lists = bare.iter().filter(|row| row.len() > 2).count();
    let most = (lines.saturating_sub(bare.len()) / lists.max(1)).clamp(LEAST_SHOWN, MOST_SHOWN);
    of_columns(shorten(&values, most, most, where_all))
}

/// Adds 95 % intervals to the values that have one.
fn with_intervals(model: &TableModel, rows: &mut [Vec<String>]) {
    let intervals = model.hyperparameter_intervals();
    for row in rows.iter_mut().filter(|row| row.len() == 2 && !intervals.is_empty()) {
        let known = intervals.iter().find(|(name, _)| *name == row[0]);
        row.push(
            known.map_or(String::new(), |(_, [low, high])| format!("{} to {}", number(*low), number(*high))),
        );
    }
}

/// Adds the names of columns to lists with one value per column, and to lengths of a place, with lengths in units of their columns.
fn of_columns(model: &TableModel, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let (values, units) = (model.in_units(), units(model));
    let names = model.schema().input_names();
    for row in &mut rows {
        let Some((of, columns)) = values.iter().find(|(of, _)| of.name == row[0]) else { continue };
        let list = stem(&row[0]).filter(|list| list.split('.').any(|word| word == "kernel"));
        if columns.len() > 1 || (list.is_some() && !columns.is_empty()) {
            if let (Some(value), Some(unit)) = (of.value, units[of.inputs[0]]) {
                row.push(format!("{} {unit}", number(value)));
            }
            row[0] = format!("{} ({})", row[0], columns.join(", "));
        } else if let Some(list) = list {
            let length = values.iter().filter(|(of, _)| stem(&of.name) == Some(list)).count();
            let place = row[0][list.len()..].trim_start_matches('.').parse::<usize>().ok();
            if let Some(name) = place.and_then(|place| names.get(place)).filter(|_| length == names.len()) {
                row[0] = format!("{} ({name})", row[0]);
            }
        }
    }
    rows
}

/// Returns for each input the name of the units of its column, for numbers, dates and places.
fn units(model: &TableModel) -> Vec<Option<&'static str>> {
    let (schema, scaling) = (model.schema(), model.scaling());
    let mut units = Vec::with_capacity(schema.dims());
    for feature in schema.features() {
        let unit = match feature.kind {
            FeatureKind::Numeric => Some("in its own units"),
            FeatureKind::Date { .. } => Some("years"),
            FeatureKind::Place { .. } => schema.place_inputs().map(|(place, _)| place.surface.unit()),
            FeatureKind::Categorical { .. } | FeatureKind::Trees { .. } => None,
        };
        let scaled = scaling.inputs.get(units.len()).is_some_and(|affine| *affine != Affine::IDENTITY);
        let is_place = matches!(feature.kind, FeatureKind::Place { .. });
        let width = schema.width(feature);
        units.extend((0..width).map(|input| unit.filter(|_| input == 0 && (scaled || is_place))));
    }
    units
}

fn with_notes(model: &TableModel, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let notes = model.hyperparameter_notes();
    with_intervals(model, &mut rows);
    for row in &mut rows {
        row.extend(notes.iter().find(|note| note.0 == row[0]).map(|note| note.1.clone()));
    }
    of_columns(model, rows)
}

fn row((name, value): &Named) -> Vec<String> {
    vec![name.clone(), number(*value)]
}

/// Returns the last word of a numbered name, which all parts of a kernel share: `lengthscales` for `kernel.rbf.lengthscales.3`. The means
/// of classes form one list by their labels.
fn list(name: &str) -> Option<&str> {
    if name.starts_with("mean.") && name != "mean.constant" {
        return Some("mean");
    }
    stem(name).map(|stem| stem.rsplit_once('.').map_or(stem, |(_, last)| last))
}

/// Returns the relevance of the values in a list, and the words about its hidden values. Inputs are standardised, so the function varies
/// most along inputs with short lengthscales, or with large variances of their weights; other lists keep their order.
fn relevance(list: &str) -> (fn(f64) -> f64, &'static str) {
    match list {
        "lengthscales" => (|value| 1.0 / value, "longer"),
        "variance" | "weight_variances" => (|value| value, "smaller"),
        _ => (|_| 0.0, "later"),
    }
}

/// Returns rows of values in order, with the values of a list together at its first one, most relevant first. A list of more than
/// `longest` values is cut to its `most` most relevant values, and a row of three cells describes the rest; its last cell is `where_all`.
fn shorten(values: &[Named], longest: usize, most: usize, where_all: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for value in values {
        let Some(name) = list(&value.0) else {
            rows.push(row(value));
            continue;
        };
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let mut alike: Vec<&Named> = values.iter().filter(|other| list(&other.0) == Some(name)).collect();
        let (relevance, others) = relevance(name);
        // The sort is stable: equal values keep their order.
        alike.sort_by(|a, b| relevance(b.1).total_cmp(&relevance(a.1)));
        let shown = if alike.len() <= longest { alike.len() } else { most };
        rows.extend(alike.iter().take(shown).map(|value| row(value)));
        let left = alike.len() - shown;
        if left > 0 {
            rows.push(vec![format!("… {left} more {name}"), others.to_owned(), where_all.to_owned()]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_show_the_most_relevant_values_in_order() {
        let mut values = vec![("kernel.variance".to_owned(), 2.0)];
        // The lengthscales of two parts of a kernel form one list.
        for part in ["a", "b"] {
            values.extend((0..9).map(|i| (format!("kernel.{part}.lengthscales.{i}"), 9.0 - i as f64)));
        }
        values.extend((0..3).map(|i| (format!("likelihood.gaps.{i}"), i as f64)));
        values.push(("mean.constant".to_owned(), -1.0));
        let rows = shorten(&values, MOST_SHOWN, MOST_SHOWN, "all of them there");
        let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        let first =
            "kernel.variance, kernel.a.lengthscales.8, kernel.b.lengthscales.8, kernel.a.lengthscales.7";
        assert_eq!(names[..4].join(", "), first);
        let last =
            "… 8 more lengthscales, likelihood.gaps.0, likelihood.gaps.1, likelihood.gaps.2, mean.constant";
        assert_eq!(names[11..].join(", "), last);
        assert_eq!(rows[11][1..], ["longer", "all of them there"]);
        let short = &values[..10];
        assert_eq!(shorten(short, MOST_SHOWN, MOST_SHOWN, "").len(), 10, "nine are no long list");
    }
}
