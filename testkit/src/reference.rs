//! Reading the reference files: numbers, matrices, kernels from their descriptions, comparisons.

use faer::Mat;
use serde_json::Value;
use sparsegp_kernels::{
    ActiveDims, ArcCosine, Combination, Constant, Cosine, Kernel, Operation, Periodic, Polynomial, Profile,
    Stationary,
};
use std::path::PathBuf;

pub use crate::compare::{assert_all_close, assert_close};

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

/// Returns the kernel of a description in the reference files.
pub fn build(description: &Value) -> Box<dyn Kernel> {
    let values = |key: &str| numbers(&description[key]);
    let scalar = |key: &str| number(&description[key]);
    let stationary = |profile| Stationary::new(profile, scalar("variance"), &values("lengthscales"));
    let combination = |operation| {
        let children = description["kernels"].as_array().expect("kernels").iter().map(build).collect();
        Combination::new(operation, children)
    };
    let kind = description["type"].as_str().expect("type");
    let kernel: Box<dyn Kernel> = match kind {
        "rbf" => Box::new(stationary(Profile::SquaredExponential)),
        "matern12" => Box::new(stationary(Profile::Matern12)),
        "matern32" => Box::new(stationary(Profile::Matern32)),
        "matern52" => Box::new(stationary(Profile::Matern52)),
        "rational_quadratic" => Box::new(Stationary::rational_quadratic(
            scalar("variance"),
            &values("lengthscales"),
            scalar("alpha"),
        )),
        "periodic" => Box::new(Periodic::new(scalar("variance"), &values("lengthscales"), &values("period"))),
        "cosine" => Box::new(Cosine::new(scalar("variance"), &values("lengthscales"))),
        "linear" => Box::new(Polynomial::linear(&values("variance"))),
        "polynomial" => {
            Box::new(Polynomial::new(scalar("degree") as u32, &values("variance"), scalar("offset")))
        }
        "arccosine" => Box::new(ArcCosine::new(
            scalar("order") as u32,
            scalar("variance"),
            &values("weight_variances"),
            scalar("bias_variance"),
        )),
        "constant" => Box::new(Constant::new(scalar("variance"))),
        "white" => Box::new(Constant::white(scalar("variance"))),
        "sum" => Box::new(combination(Operation::Sum)),
        "product" => Box::new(combination(Operation::Product)),
        other => panic!("unknown kernel type {other}"),
    };
    match description.get("active_dims") {
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
    let want = matrix(want);
    assert_eq!((got.nrows(), got.ncols()), (want.nrows(), want.ncols()), "shape of {what}");
    for i in 0..want.nrows() {
        for j in 0..want.ncols() {
            assert_close(got[(i, j)], want[(i, j)], tolerance, &format!("{what} ({i}, {j})"));
        }
    }
}

/// Compares within `tolerance · (1 + |want|)`.
pub fn assert_parameters(got: &[f64], want: &Value, paths: &[String], what: &str) {
    let want_flat: Vec<f64> = paths.iter().flat_map(|path| numbers(&want[path])).collect();
    assert_eq!(want.as_object().map(|map| map.len()), Some(paths.len()), "parameters of {what}");
    assert_eq!(got.len(), want_flat.len(), "parameter values of {what}");
    for (i, (&got, &want)) in got.iter().zip(&want_flat).enumerate() {
        assert_close(got, want, GRADIENT_TOLERANCE, &format!("{what}, parameter value {i} of {paths:?}"));
    }
}
