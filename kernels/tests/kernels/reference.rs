//! Reproduces values and gradients computed by independent implementations (`kernels.json`).

use super::evaluation::{cross, evaluate_weighted};
use faer::Mat;
use sparsegp_kernels::{Gradient, Inputs, Scratch};
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

        let between = evaluate_weighted(kernel.as_ref(), cross(&x, &z), &matrix(input("W")));
        assert_matrix(&between.k, &outputs["K"], VALUE_TOLERANCE, &format!("{name} K"));
        assert_parameters(
            &between.parameters,
            &outputs["grad_params"],
            &paths,
            &format!("{name} grad_params"),
        );
        assert_matrix(&between.left, &outputs["grad_X"], GRADIENT_TOLERANCE, &format!("{name} grad_X"));
        assert_matrix(&between.right, &outputs["grad_X2"], GRADIENT_TOLERANCE, &format!("{name} grad_X2"));

        let gram = evaluate_weighted(kernel.as_ref(), Inputs::Gram(x.as_ref()), &matrix(input("WX")));
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
        let mut parameters = vec![0.0; gram.parameters.len()];
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
