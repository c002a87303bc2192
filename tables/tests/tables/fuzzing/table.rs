//! From CSV text to the data of a fit: columns, encodings, splits, scaling.

use sparsegp::data::{Scaling, split};
use sparsegp::likelihood::TargetKind;
use sparsegp_tables::schema::{Schema, SchemaOptions, TargetEncoding, UnseenLevels, input_warnings};
use sparsegp_tables::tables::{Table, read_csv};
use std::io::Cursor;

/// The kinds of target to request; `None` is the kind that the values suggest.
const KINDS: [Option<TargetKind>; 7] = [
    None,
    Some(TargetKind::Real),
    Some(TargetKind::Positive),
    Some(TargetKind::UnitInterval),
    Some(TargetKind::Count),
    Some(TargetKind::Binary),
    Some(TargetKind::Ordinal),
];

/// Reads a text and uses its first and its last column as the target, of every kind. A text is accepted if at
/// least one of these can be trained on.
pub fn run(text: &[u8]) -> bool {
    let Ok(table) = read_csv("table", Cursor::new(text.to_vec())) else { return false };
    let names: Vec<&str> = table.columns().iter().map(|named| named.name.as_str()).collect();
    assert!(table.rows() > 0, "a table without rows was read");
    // A fuzzer spends its time better on many small tables than on the quadratic work of a wide one.
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return false };
    if names.len() > 64 {
        return false;
    }
    let mut accepted = false;
    for kind in KINDS {
        for target in [first, last] {
            accepted |= prepare(&table, &options(target, kind));
        }
    }
    for odd in hostile_options(&names) {
        accepted |= prepare(&table, &odd);
    }
    accepted
}

fn options(target: &str, target_kind: Option<TargetKind>) -> SchemaOptions {
    SchemaOptions { target: target.to_owned(), target_kind, ..SchemaOptions::default() }
}

/// Returns options that give columns other roles: categories, exposure, weights, a positive class.
fn hostile_options(names: &[&str]) -> Vec<SchemaOptions> {
    let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let (first, last) = (all[0].clone(), all[all.len() - 1].clone());
    vec![
        SchemaOptions { categorical: all.clone(), drop_first: true, ..options(&last, None) },
        SchemaOptions { exposure: Some(first.clone()), ..options(&last, Some(TargetKind::Count)) },
        SchemaOptions { weights: Some(first.clone()), exclude: all[1..].to_vec(), ..options(&last, None) },
        SchemaOptions { positive_label: Some(first), ..options(&last, Some(TargetKind::Binary)) },
        SchemaOptions { features: Some(all), ..options("absent", None) },
    ]
}

/// The work of a fit before it trains.
fn prepare(table: &Table, columns: &SchemaOptions) -> bool {
    let table = &*table.with_values(&columns.target);
    let Ok((schema, _)) = Schema::infer(table, columns) else { return false };
    let Ok(design) = schema.design(table, UnseenLevels::Error) else { return false };
    let targets =
        schema.target(table).expect("an inferred target can be encoded").expect("the target is there");
    assert_eq!((design.nrows(), design.ncols()), (table.rows(), schema.dims()));
    assert_eq!(schema.input_names().len(), schema.dims());
    assert_eq!(targets.len(), table.rows());
    assert!(targets.iter().all(|target| target.is_finite()), "{targets:?}");
    assert!(design.col_iter().all(|input| input.iter().all(|value| value.is_finite())));
    for extra in [schema.exposure(table), schema.weights(table)] {
        let extra = extra.expect("checked when inferred").unwrap_or_default();
        assert!(extra.iter().all(|value| *value > 0.0 && value.is_finite()), "{extra:?}");
    }
    input_warnings(&schema.input_names(), design.as_ref());
    reread(&schema);
    let Ok(rows) = split(table.rows(), 0.3, 0.2, 7) else { return true };
    let part = table.take(&rows.test);
    let again = schema.target(&part).expect("a part has known values").expect("the target is there");
    assert!(again.iter().zip(&rows.test).all(|(value, &row)| *value == targets[row]));
    check_scaling(&design, targets);
    true
}

/// Checks that the description of columns in a model file reads back unchanged.
fn reread(schema: &Schema) {
    let text = serde_json::to_string(schema).expect("a schema can be written");
    let read: Schema = serde_json::from_str(&text).expect("a written schema can be read");
    assert_eq!(&read, schema);
    let encoding = serde_json::to_value(schema.encoding()).expect("an encoding can be written");
    serde_json::from_value::<TargetEncoding>(encoding).expect("a written encoding can be read");
}

fn check_scaling(design: &faer::Mat<f64>, mut targets: Vec<f64>) {
    let scaling = Scaling::standardise(design.as_ref(), &targets);
    let mut scaled = design.clone();
    scaling.scale_inputs(scaled.as_mut());
    scaling.scale_target(&mut targets);
    assert!(scaling.inputs.iter().all(|affine| affine.scale > 0.0 && affine.scale.is_finite()));
    assert!(scaled.col_iter().all(|input| input.iter().all(|value| value.is_finite())));
    assert!(targets.iter().all(|target| target.is_finite()), "{targets:?}");
}
