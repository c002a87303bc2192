//! Several files of these tests use this prelude: the items of the crate, and covariances of a kernel with every adjoint.

pub use faer::{Mat, MatRef};
pub use rand::{RngExt, SeedableRng};
pub use rand_chacha::ChaCha8Rng;
pub use sparsegp_kernels::{testkit::check_kernel, *};

/// Covariances, and their adjoints for weights.
#[derive(PartialEq)]
pub struct Evaluation {
    pub k: Mat<f64>,
    pub parameters: Vec<f64>,
    pub left: Mat<f64>,
    pub right: Mat<f64>,
}

/// Returns irregular weights for the adjoint of covariances.
pub fn weights(rows: usize, cols: usize) -> Mat<f64> {
    Mat::from_fn(rows, cols, |i, j| ((3 * i + 7 * j) as f64 * 0.37 + 0.2).sin())
}

pub fn evaluate(kernel: &dyn Kernel, inputs: Inputs<'_>) -> Evaluation {
    let (rows, cols) = inputs.shape();
    evaluate_weighted(kernel, inputs, &weights(rows, cols))
}

pub fn evaluate_weighted(kernel: &dyn Kernel, inputs: Inputs<'_>, weights: &Mat<f64>) -> Evaluation {
    let (mut scratch, (rows, cols)) = (Scratch::new(), inputs.shape());
    let mut found = Evaluation {
        k: Mat::zeros(rows, cols),
        parameters: vec![0.0; value_names(kernel).len()],
        left: Mat::zeros(rows, inputs.dims()),
        right: Mat::zeros(cols, inputs.dims()),
    };
    kernel.eval(inputs, found.k.as_mut(), &mut scratch);
    let gradient = Gradient {
        parameters: &mut found.parameters,
        left: Some(found.left.as_mut()),
        right: Some(found.right.as_mut()),
    };
    kernel.adjoint(inputs.evaluated(found.k.as_ref(), weights.as_ref()), gradient, &mut scratch);
    found
}

/// Checks that a kernel keeps the contract on the rows of two matrices.
pub fn assert_contract(kernel: &dyn Kernel, left: &Mat<f64>, right: &Mat<f64>, what: &str) {
    check_kernel(kernel, left.as_ref(), right.as_ref()).unwrap_or_else(|why| panic!("{what}: {why}"));
}

/// Returns the covariances of the rows of two matrices.
pub fn cross<'a>(left: &'a Mat<f64>, right: &'a Mat<f64>) -> Inputs<'a> {
    Inputs::Cross { left: left.as_ref(), right: right.as_ref() }
}

/// Moves every value away from 1, so that a forgotten factor shows.
pub fn perturb(kernel: &mut dyn Kernel) {
    let mut count = 0;
    kernel.for_each_parameter_mut(&mut |parameter| {
        for value in &mut parameter.values {
            *value *= 0.8 + 0.13 * (count % 5) as f64;
            count += 1;
        }
    });
}
