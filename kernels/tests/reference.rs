//! Reproduces values and gradients computed by independent implementations (`kernels.json`).

use faer::Mat;
use serde_json::Value;
use sparsegp_kernels::{
    ActiveDims, ArcCosine, Combination, Constant, Cosine, Gradient, Inputs, Kernel, Operation, Periodic,
    Polynomial, Profile, Scratch, Stationary,
};
use std::path::PathBuf;

/// The reference numbers are good to the last digit; this leaves room for the product form of distances.
const VALUE_TOLERANCE: f64 = 1e-8;
const GRADIENT_TOLERANCE: f64 = 1e-6;

fn load() -> Value {
    let folder = std::env::var_os("SPARSEGP_REFERENCE_DIR").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/reference")),
        PathBuf::from,
    );
    let path = folder.join("kernels.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// A number, or a list of them.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().map(number).collect(),
        _ => vec![number(value)],
    }
}

fn matrix(value: &Value) -> Mat<f64> {
    let rows: Vec<Vec<f64>> = value.as_array().expect("a list of rows").iter().map(numbers).collect();
    Mat::from_fn(rows.len(), rows.first().map_or(0, Vec::len), |i, j| rows[i][j])
}

/// The kernel a description in the reference files stands for.
fn build(description: &Value) -> Box<dyn Kernel> {
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

/// The parameter paths of the reference files, in this crate's order: depth first, as the children are listed.
fn paths(description: &Value, prefix: &str) -> Vec<String> {
    if let Some(children) = description.get("kernels").and_then(Value::as_array) {
        let child_paths = |(i, child)| paths(child, &format!("{prefix}kernels.{i}."));
        return children.iter().enumerate().flat_map(child_paths).collect();
    }
    let mut names = Vec::new();
    build(description).for_each_parameter(&mut |parameter| names.push(format!("{prefix}{}", parameter.name)));
    names
}

fn assert_close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance * (1.0 + want.abs()), "{what}: {got} instead of {want}");
}

fn assert_matrix(got: &Mat<f64>, want: &Value, tolerance: f64, what: &str) {
    let want = matrix(want);
    assert_eq!((got.nrows(), got.ncols()), (want.nrows(), want.ncols()), "shape of {what}");
    for i in 0..want.nrows() {
        for j in 0..want.ncols() {
            assert_close(got[(i, j)], want[(i, j)], tolerance, &format!("{what} ({i}, {j})"));
        }
    }
}

fn assert_parameters(got: &[f64], want: &Value, paths: &[String], what: &str) {
    let want_flat: Vec<f64> = paths.iter().flat_map(|path| numbers(&want[path])).collect();
    assert_eq!(want.as_object().map(|map| map.len()), Some(paths.len()), "parameters of {what}");
    assert_eq!(got.len(), want_flat.len(), "parameter values of {what}");
    for (i, (&got, &want)) in got.iter().zip(&want_flat).enumerate() {
        assert_close(got, want, GRADIENT_TOLERANCE, &format!("{what}, parameter value {i} of {paths:?}"));
    }
}

struct Result {
    k: Mat<f64>,
    parameters: Vec<f64>,
    left: Mat<f64>,
    right: Mat<f64>,
}

fn run(kernel: &dyn Kernel, inputs: Inputs<'_>, weights: &Mat<f64>, parameters: usize) -> Result {
    let mut scratch = Scratch::new();
    let (rows, cols) = inputs.shape();
    let mut result = Result {
        k: Mat::zeros(rows, cols),
        parameters: vec![0.0; parameters],
        left: Mat::zeros(rows, inputs.dims()),
        right: Mat::zeros(cols, inputs.dims()),
    };
    kernel.eval(inputs, result.k.as_mut(), &mut scratch);
    let gradient = Gradient {
        parameters: &mut result.parameters,
        left: Some(result.left.as_mut()),
        right: Some(result.right.as_mut()),
    };
    kernel.adjoint(inputs, result.k.as_ref(), weights.as_ref(), gradient, &mut scratch);
    result
}

#[test]
fn values_and_gradients_match_independent_implementations() {
    let file = load();
    let cases = file["cases"].as_array().expect("cases");
    assert!(!cases.is_empty());
    for case in cases {
        let name = case["name"].as_str().expect("name");
        // A case may bring inputs of its own.
        let input = |key: &str| case["inputs"].get(key).unwrap_or(&file["inputs"][key]);
        let (x, z) = (matrix(input("X")), matrix(input("X2")));
        let description = &case["inputs"]["kernel"];
        let kernel = build(description);
        let paths = paths(description, "");
        let outputs = &case["outputs"];
        let count = sparsegp_kernels::value_names(kernel.as_ref()).len();

        let inputs = Inputs::Cross { left: x.as_ref(), right: z.as_ref() };
        let cross = run(kernel.as_ref(), inputs, &matrix(input("W")), count);
        assert_matrix(&cross.k, &outputs["K"], VALUE_TOLERANCE, &format!("{name} K"));
        assert_parameters(&cross.parameters, &outputs["grad_params"], &paths, &format!("{name} grad_params"));
        assert_matrix(&cross.left, &outputs["grad_X"], GRADIENT_TOLERANCE, &format!("{name} grad_X"));
        assert_matrix(&cross.right, &outputs["grad_X2"], GRADIENT_TOLERANCE, &format!("{name} grad_X2"));

        let gram = run(kernel.as_ref(), Inputs::Gram(x.as_ref()), &matrix(input("WX")), count);
        assert_matrix(&gram.k, &outputs["KXX"], VALUE_TOLERANCE, &format!("{name} KXX"));
        assert_parameters(
            &gram.parameters,
            &outputs["grad_params_KXX"],
            &paths,
            &format!("{name} grad_params_KXX"),
        );
        assert_matrix(&gram.left, &outputs["grad_X_KXX"], GRADIENT_TOLERANCE, &format!("{name} grad_X_KXX"));

        let mut scratch = Scratch::new();
        let mut diag = vec![0.0; x.nrows()];
        kernel.diag(x.as_ref(), &mut diag, &mut scratch);
        for (i, (&got, want)) in diag.iter().zip(numbers(&outputs["Kdiag"])).enumerate() {
            assert_close(got, want, VALUE_TOLERANCE, &format!("{name} Kdiag {i}"));
        }
        let mut parameters = vec![0.0; count];
        let mut left = Mat::zeros(x.nrows(), x.ncols());
        let gradient = Gradient { parameters: &mut parameters, left: Some(left.as_mut()), right: None };
        kernel.diag_adjoint(x.as_ref(), &numbers(input("wd")), gradient, &mut scratch);
        assert_parameters(
            &parameters,
            &outputs["grad_params_Kdiag"],
            &paths,
            &format!("{name} grad_params_Kdiag"),
        );
        assert_matrix(&left, &outputs["grad_X_Kdiag"], GRADIENT_TOLERANCE, &format!("{name} grad_X_Kdiag"));
    }
}
