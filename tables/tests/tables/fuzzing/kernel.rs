//! The text of a kernel: a kernel that is read can be evaluated, and its text reads back to the same kernel.

use faer::Mat;
use sparsegp::kernels::kernel::{Gradient, Inputs, Kernel, Scratch, value_names};
use sparsegp::kernels::parse;

/// Reads a text as a kernel of one, two and four inputs. A text is accepted if at least one of these
/// succeeds.
pub fn run(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let mut accepted = false;
    for dims in [1, 2, 4] {
        match parse(text, dims) {
            Ok(kernel) => {
                check(kernel.as_ref(), dims);
                accepted = true;
            }
            Err(error) => {
                assert!((1..=text.chars().count() + 1).contains(&error.column), "{error}");
                assert!(!error.message.contains('\n'), "{error}");
            }
        }
    }
    accepted
}

fn check(kernel: &dyn Kernel, dims: usize) {
    let expression = kernel.expression();
    let again = parse(&expression, dims).unwrap_or_else(|error| panic!("'{expression}': {error}"));
    assert_eq!(again.expression(), expression);
    assert_eq!(value_names(again.as_ref()), value_names(kernel));
    assert!(kernel.min_dims() <= dims, "'{expression}' needs {} inputs", kernel.min_dims());
    evaluate(kernel, dims);
}

/// Evaluates the kernel and its gradients at a few points, two of which are equal. Large parameters may
/// overflow, but not panic.
fn evaluate(kernel: &dyn Kernel, dims: usize) {
    let points = |n: usize| Mat::from_fn(n, dims, |i, d| (((3 * i) % 7 + d) as f64).sin());
    let (left, right) = (points(8), points(3));
    let mut scratch = Scratch::new();
    let cross = Inputs::Cross { left: left.as_ref(), right: right.as_ref() };
    for inputs in [cross, Inputs::Gram(left.as_ref())] {
        let (rows, columns) = inputs.shape();
        let mut k = Mat::zeros(rows, columns);
        kernel.eval(inputs, k.as_mut(), &mut scratch);
        let mut parameters = vec![0.0; value_names(kernel).len()];
        let gradient = Gradient { parameters: &mut parameters, left: None, right: None };
        kernel.adjoint(inputs.evaluated(k.as_ref(), k.as_ref()), gradient, &mut scratch);
        if let Inputs::Gram(_) = inputs {
            check_gram(kernel, &left, &k, &mut scratch);
        }
    }
}

/// Checks that the matrix is symmetric and has the diagonal of the kernel.
fn check_gram(kernel: &dyn Kernel, x: &Mat<f64>, k: &Mat<f64>, scratch: &mut Scratch) {
    let mut diagonal = vec![0.0; x.nrows()];
    kernel.diag(x.as_ref(), &mut diagonal, scratch);
    let close = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs());
    for i in 0..x.nrows() {
        if !diagonal[i].is_finite() {
            continue;
        }
        assert!(close(diagonal[i], k[(i, i)]), "diagonal {} and {}", diagonal[i], k[(i, i)]);
        for j in 0..i {
            let (a, b) = (k[(i, j)], k[(j, i)]);
            assert!(close(a, b) || a.is_nan() && b.is_nan(), "({i}, {j}): {a} and {b}");
        }
    }
}
