//! Reproduces values and gradients computed by independent implementations (`kernels.json`).

use faer::Mat;
use sparsegp_kernels::{Gradient, Inputs, Kernel, Scratch};
use sparsegp_testkit::reference::*;

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
