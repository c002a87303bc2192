//! Extreme inputs: tiny and huge lengthscales, far offsets, strided views, NaN.

use super::evaluation::*;

const ALL: [&str; 19] = [
    "rbf(ard)",
    "matern12(ard)",
    "matern32(ard)",
    "matern52(ard)",
    "rational_quadratic(ard)",
    "periodic(ard)",
    "cosine(ard)",
    "spectral_mixture(components=3)",
    "additive(order=2)",
    "linear(ard)",
    "polynomial(ard, degree=2)",
    "wendland(smoothness=0)",
    "wendland(ard, smoothness=1)",
    "wendland(ard, smoothness=2)",
    "arccosine(ard, order=0)",
    "arccosine(ard, order=1)",
    "arccosine(ard, order=2)",
    "scale(rbf + white) * constant",
    "(matern12 + linear)[0:2]",
];

fn assert_finite(text: &str, what: &str, e: &Evaluation) {
    let finite = |m: MatRef<'_, f64>| m.col_iter().all(|column| column.iter().all(|value| value.is_finite()));
    assert!(finite(e.k.as_ref()), "{text}, {what}: values {:?}", e.k);
    assert!(e.parameters.iter().all(|value| value.is_finite()), "{text}, {what}: {:?}", e.parameters);
    assert!(finite(e.left.as_ref()) && finite(e.right.as_ref()), "{text}, {what}: gradient in the points");
}

/// Both ways to compute distances.
const DIMS: [usize; 2] = [2, 6];

/// Returns kernels with their text, for points of both numbers of columns.
fn each<'a>(texts: &'a [&'a str]) -> impl Iterator<Item = (&'a str, usize, Box<dyn Kernel>)> {
    texts.iter().flat_map(|text| DIMS.map(|dims| (*text, dims, parse(text, dims).unwrap())))
}

fn points(n: usize, dims: usize) -> Mat<f64> {
    Mat::from_fn(n, dims, |i, d| ((i * dims + d) as f64 * 0.7).sin())
}

#[test]
fn cross_values_at_coincident_points_are_the_variance() {
    for (text, dims, kernel) in each(&[
        "rbf",
        "matern12",
        "matern32",
        "matern52",
        "rq",
        "periodic",
        "cosine",
        "wendland(smoothness=0)",
        "arccosine(order=0)",
    ]) {
        let x = points(7, dims);
        let e = evaluate(kernel.as_ref(), cross(&x, &x));
        for i in 0..7 {
            // The kinked kernels avoid the product form of distances, so none of them loses half its digits.
            assert!((e.k[(i, i)] - 1.0).abs() < 1e-14, "{text} in {dims} dimensions: {}", e.k[(i, i)]);
        }
    }
}

#[test]
fn extreme_parameters_and_inputs_stay_finite() {
    for (text, dims, kernel) in each(&ALL) {
        for value in [1e-6, 1e6] {
            for (factor, offset) in [(1.0, 0.0), (1e8, 0.0), (1.0, 1e8), (1e-8, 0.0)] {
                let mut kernel = kernel.clone();
                kernel.for_each_parameter_mut(&mut |parameter| {
                    if !parameter.name.contains("variance") {
                        parameter.values.fill(value);
                    }
                });
                let x = points(9, dims);
                let x = Mat::from_fn(9, dims, |i, d| x[(i, d)] * factor + offset);
                let left = x.as_ref().subrows(0, 5);
                let right = x.as_ref().subrows(4, 5);
                let what = format!("value {value:e}, factor {factor:e}, offset {offset:e}");
                assert_finite(text, &what, &evaluate(kernel.as_ref(), Inputs::Cross { left, right }));
                assert_finite(text, &what, &evaluate(kernel.as_ref(), Inputs::Gram(left)));
            }
        }
    }
}

#[test]
fn a_common_offset_costs_no_digits() {
    for (text, dims, kernel) in each(&[
        "rbf(ard)",
        "matern12(ard)",
        "matern52(ard)",
        "rq(ard)",
        "periodic(ard)",
        "cosine(ard)",
        "spectral_mixture",
    ]) {
        // Multiples of 1/64, so that the shifted points are exact too.
        let x = points(8, dims);
        let near = Mat::from_fn(8, dims, |i, d| (x[(i, d)] * 64.0).round() / 64.0);
        let far = Mat::from_fn(8, dims, |i, d| near[(i, d)] + 1e8);
        let a = evaluate(kernel.as_ref(), cross(&near, &near));
        let b = evaluate(kernel.as_ref(), cross(&far, &far));
        // The mean of the shifted points rounds at 1e-8, but alike for both sides, and every difference from it
        // is then exact to ε.
        assert!((&a.k - &b.k).norm_max() < 1e-13, "{text}: {}", (&a.k - &b.k).norm_max());
    }
}

#[test]
fn strided_inputs_give_the_same_numbers() {
    for (text, dims, kernel) in each(&ALL) {
        let (left, right) = (points(6, dims), points(9, dims));
        let (left_rows, right_rows) = (left.transpose().to_owned(), right.transpose().to_owned());
        let a = evaluate(kernel.as_ref(), cross(&left, &right));
        let inputs = Inputs::Cross { left: left_rows.transpose(), right: right_rows.transpose() };
        let mut scratch = Scratch::new();
        // A result inside a larger matrix, and k and kbar that run along the rows.
        let mut large = Mat::zeros(20, 20);
        kernel.eval(inputs, large.as_mut().submatrix_mut(3, 2, 6, 9), &mut scratch);
        let k = large.as_ref().submatrix(3, 2, 6, 9);
        assert_eq!(k.to_owned(), a.k, "{text}");
        let k_rows = k.transpose().to_owned();
        let kbar_rows = weights(6, 9).transpose().to_owned();
        let mut parameters = vec![0.0; a.parameters.len()];
        let mut left_grad = Mat::zeros(dims, 6);
        let gradient = Gradient {
            parameters: &mut parameters,
            left: Some(left_grad.as_mut().transpose_mut()),
            right: None,
        };
        kernel.adjoint(inputs.evaluated(k_rows.transpose(), kbar_rows.transpose()), gradient, &mut scratch);
        for (a, b) in a.parameters.iter().zip(&parameters) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{text}: {a} and {b}");
        }
        assert!((left_grad.transpose() - &a.left).norm_max() <= 1e-12 * (1.0 + a.left.norm_max()), "{text}");
    }
}

#[test]
fn nan_inputs_show_in_the_result() {
    for (text, dims, kernel) in each(&[
        "rbf",
        "matern12",
        "matern32",
        "matern52",
        "rq",
        "spectral_mixture",
        "additive",
        "wendland",
        "warp(matern32)",
        "hamming",
        "periodic",
        "cosine",
        "linear",
    ]) {
        let left = points(12, dims);
        let mut right = points(12, dims);
        right[(4, 1)] = f64::NAN;
        let mut k = Mat::zeros(12, 12);
        let inputs = cross(&left, &right);
        kernel.eval(inputs, k.as_mut(), &mut Scratch::new());
        for j in 0..12 {
            assert!(
                (0..12).all(|i| k[(i, j)].is_nan() == (j == 4)),
                "{text} in {dims} dimensions, column {j}"
            );
        }
    }
}
