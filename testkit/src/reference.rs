//! Reading the reference files: numbers, matrices, kernels from their descriptions, comparisons.

use faer::Mat;
use serde_json::Value;
use sparsegp_kernels::{ActiveDims, Combination, Kernel, Operation, parse};
use std::path::PathBuf;

pub use crate::compare::{assert_all_close, assert_close, assert_matrices_close};

/// The relative tolerance for values. The reference numbers are accurate to the last digit; the
/// product form of distances is less accurate.
pub const VALUE_TOLERANCE: f64 = 1e-8;
/// The relative tolerance for gradients.
pub const GRADIENT_TOLERANCE: f64 = 1e-6;

/// Reads a reference file, from the folder SPARSEGP_REFERENCE_DIR or from the copy in the package
/// under test.
pub fn load(file: &str) -> Value {
    // Tests run in the folder of their package.
    let folder =
        std::env::var_os("SPARSEGP_REFERENCE_DIR").map_or_else(|| "tests/reference".into(), PathBuf::from);
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a number.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Returns a number, or a list of them.
pub fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().map(number).collect(),
        _ => vec![number(value)],
    }
}

/// Returns a matrix from nested row lists.
pub fn matrix(value: &Value) -> Mat<f64> {
    let rows: Vec<Vec<f64>> = value.as_array().expect("a list of rows").iter().map(numbers).collect();
    Mat::from_fn(rows.len(), rows.first().map_or(0, Vec::len), |i, j| rows[i][j])
}

/// Returns the kernel of a description in the reference files. Descriptions of leaves have the names of the grammar.
pub fn build(description: &Value) -> Box<dyn Kernel> {
    let fields = description.as_object().expect("a description");
    let kind = description["type"].as_str().expect("type");
    let kernel: Box<dyn Kernel> = if let Some(children) = fields.get("kernels").and_then(Value::as_array) {
        let operation = if kind == "sum" { Operation::Sum } else { Operation::Product };
        Box::new(Combination::new(operation, children.iter().map(build).collect()))
    } else {
        let values = fields.iter().filter(|(key, _)| !["type", "active_dims"].contains(&key.as_str()));
        let dims = values.clone().filter_map(|(_, value)| value.as_array().map(Vec::len)).max().unwrap_or(1);
        let values: Vec<String> = values.map(|(key, value)| format!("{key}={value}")).collect();
        let text = format!("{kind}({})", values.join(", "));
        parse(&text, dims).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    match fields.get("active_dims") {
        Some(columns) => {
            Box::new(ActiveDims::new(numbers(columns).into_iter().map(|d| d as usize).collect(), kernel))
        }
        None => kernel,
    }
}

/// Returns the parameter paths of the reference files in the order of this project: depth first, in
/// the order of the children.
pub fn paths(description: &Value, prefix: &str) -> Vec<String> {
    if let Some(children) = description.get("kernels").and_then(Value::as_array) {
        let child_paths = |(i, child)| paths(child, &format!("{prefix}kernels.{i}."));
        return children.iter().enumerate().flat_map(child_paths).collect();
    }
    let mut names = Vec::new();
    build(description).for_each_parameter(&mut |parameter| names.push(format!("{prefix}{}", parameter.name)));
    names
}

/// Compares within `tolerance · (1 + |want|)`.
pub fn assert_matrix(got: &Mat<f64>, want: &Value, tolerance: f64, what: &str) {
    assert_matrices_close(got.as_ref(), matrix(want).as_ref(), tolerance, what);
}

/// Compares within `tolerance · (1 + |want|)`.
pub fn assert_parameters(got: &[f64], want: &Value, paths: &[String], what: &str) {
    let want_flat: Vec<f64> = paths.iter().flat_map(|path| numbers(&want[path])).collect();
    assert_eq!(want.as_object().map(|map| map.len()), Some(paths.len()), "parameters of {what}");
    assert_all_close(got, &want_flat, GRADIENT_TOLERANCE, &format!("{what}, values of {paths:?}"));
}
