//! Reproduces values and gradients computed by independent implementations (`kernels.json`).

use super::evaluation::*;
use sparsegp_testkit::reference::*;

#[test]
fn values_and_gradients_match_independent_implementations() {
    let file = load("kernels.json");
    let cases = file["cases"].as_array().expect("cases");
    assert!(!cases.is_empty());
    for case in cases {
        let name = case["name"].as_str().expect("name");
        // A case may have its own inputs.
        let input = |key: &str| case["inputs"].get(key).unwrap_or(&file["inputs"][key]);
        let (x, z) = (matrix(input("X")), matrix(input("X2")));
        let description = &case["inputs"]["kernel"];
        let kernel = build(description);
        let paths = paths(description, "");
        let outputs = &case["outputs"];

        let values = |got: &[f64], key: &str| {
            assert_parameters(got, &outputs[key], &paths, &format!("{name} {key}"));
        };
        let matrices = |got: &Mat<f64>, key: &str, tolerance| {
            assert_matrix(got, &outputs[key], tolerance, &format!("{name} {key}"));
        };

        let between = evaluate_weighted(kernel.as_ref(), cross(&x, &z), &matrix(input("W")));
        matrices(&between.k, "K", VALUE_TOLERANCE);
        values(&between.parameters, "grad_params");
        matrices(&between.left, "grad_X", GRADIENT_TOLERANCE);
        matrices(&between.right, "grad_X2", GRADIENT_TOLERANCE);

        let gram = evaluate_weighted(kernel.as_ref(), Inputs::Gram(x.as_ref()), &matrix(input("WX")));
        matrices(&gram.k, "KXX", VALUE_TOLERANCE);
        values(&gram.parameters, "grad_params_KXX");
        matrices(&gram.left, "grad_X_KXX", GRADIENT_TOLERANCE);

        let mut scratch = Scratch::new();
        let mut diag = vec![0.0; x.nrows()];
        kernel.diag(x.as_ref(), &mut diag, &mut scratch);
        assert_all_close(&diag, &numbers(&outputs["Kdiag"]), VALUE_TOLERANCE, &format!("{name} Kdiag"));
        let mut parameters = vec![0.0; gram.parameters.len()];
        let mut left = Mat::zeros(x.nrows(), x.ncols());
        let gradient = Gradient { parameters: &mut parameters, left: Some(left.as_mut()), right: None };
        kernel.diag_adjoint(x.as_ref(), &numbers(input("wd")), gradient, &mut scratch);
        values(&parameters, "grad_params_Kdiag");
        matrices(&left, "grad_X_Kdiag", GRADIENT_TOLERANCE);
    }
}
