//! The library without optional features: model files of fits to tables can be loaded and predict
//! from arrays.

use faer::Mat;
use sparsegp::prelude::*;
use std::path::Path;

/// Returns the numbers in some columns of a small CSV file, by rows.
fn numbers(path: &Path, columns: &[&str]) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let places = columns.iter().map(|name| header.iter().position(|h| h == name).expect("a column"));
    let places: Vec<usize> = places.collect();
    lines.map(|line| places.iter().map(|&at| line[at].parse().expect("a number")).collect()).collect()
}

/// Uses the same file and the same predictions as `tables/tests/tables/model_file.rs`, which reads
/// the rows as a table.
#[test]
fn a_model_of_a_table_is_a_model_of_its_columns() {
    let path =
        |end: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models/vfe").with_extension(end);
    let model = Model::load(&path("safetensors")).expect("a model");
    let inputs = numbers(&path("csv"), &["year"]);
    let x = Mat::from_fn(inputs.len(), 1, |i, d| inputs[i][d]);
    let predictions = model.predict(x.as_ref(), &[]).expect("predictions");
    let written = Model::from_bytes("m", &model.to_bytes().expect("bytes")).expect("a model");
    let again = written.predict(x.as_ref(), &[]).expect("predictions");
    for (row, expected) in numbers(&path("predictions.csv"), &["mean", "variance"]).iter().enumerate() {
        let at = predictions.row(row);
        for (found, expected) in [at.mean, at.variance].into_iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{row}: {found} {expected}");
        }
        assert_eq!(again.row(row), at);
    }
}
