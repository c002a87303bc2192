//! Slices and the arrays of other crates give the fits and predictions of faer's matrices, in every layout.

use faer::Mat;
use nalgebra::{DMatrix, SMatrix};
use sparsegp::prelude::*;

const COUNT: usize = 40;

fn value(i: usize, d: usize) -> f64 {
    ((7 * i + 3 * d) as f64 * 0.31).sin()
}

/// Arrays of one version of ndarray: by rows, by columns, reversed, and every second row and column of a larger array.
macro_rules! arrays {
    ($version:ident, $check:ident) => {{
        use $version::ShapeBuilder;
        let of = |(i, d): (usize, usize)| value(i, d);
        let by_rows = $version::Array2::from_shape_fn((COUNT, 2), of);
        $check(Rows::from(&by_rows), true);
        $check(Rows::from(by_rows.view()), true);
        $check(Rows::from(&$version::Array2::from_shape_fn((COUNT, 2).f(), of)), true);
        let larger = $version::Array2::from_shape_fn((2 * COUNT, 4), |(i, d)| value(i / 2, d / 2));
        $check(Rows::from(larger.slice($version::s![..;2, ..;2])), false);
        let reversed = $version::Array2::from_shape_fn((COUNT, 2), |(i, d)| value(COUNT - 1 - i, 1 - d));
        $check(Rows::from(reversed.slice($version::s![..;-1, ..;-1])), false);
        assert_eq!(Rows::from(&$version::Array2::<f64>::zeros((0, 3))).as_ref().shape(), (0, 3));
    }};
}

/// Compares numbers and shape with the formula.
fn check(rows: Rows<'_>, view: bool) {
    let expected = Mat::from_fn(COUNT, 2, value);
    assert_eq!(rows.as_ref(), expected.as_ref());
    let numbers = rows.as_ref().as_ptr();
    // Numbers that are not copied keep their place.
    assert_eq!(rows.clone().as_ref().as_ptr() == numbers, view);
    assert_eq!(rows.into_mat(), expected);
}

#[test]
fn arrays_of_every_layout_have_the_numbers_of_their_formula() {
    arrays!(ndarray, check);
    arrays!(ndarray_0_17, check);
    let matrix = DMatrix::from_fn(COUNT, 2, value);
    check(Rows::from(&matrix), true);
    check(Rows::from(&SMatrix::<f64, COUNT, 2>::from_fn(value)), true);
    let larger = DMatrix::from_fn(COUNT + 3, 5, value);
    check(Rows::from(larger.view((0, 0), (COUNT, 2))), false);
}

#[test]
fn slices_and_matrices_have_the_numbers_of_their_formula() {
    let by_rows: Vec<f64> = (0..2 * COUNT).map(|k| value(k / 2, k % 2)).collect();
    let by_columns: Vec<f64> = (0..2 * COUNT).map(|k| value(k % COUNT, k / COUNT)).collect();
    check(Rows::from_row_major(&by_rows, 2).expect("rows"), true);
    check(Rows::from_column_major(&by_columns, 2).expect("rows"), true);
    let pairs: Vec<[f64; 2]> = (0..COUNT).map(|i| [value(i, 0), value(i, 1)]).collect();
    check(Rows::from(&pairs), true);
    check(Rows::from(&pairs[..]), true);
    check(Rows::from(pairs.first_chunk::<COUNT>().expect("an array")), true);
    let matrix = Mat::from_fn(COUNT, 2, value);
    check(Rows::from(&matrix), true);
    check(Rows::from(matrix.as_ref()), true);
    check(Rows::from(matrix), false);
    assert_eq!(Rows::from_row_major(&[], 3).expect("rows").as_ref().shape(), (0, 3));
}

#[test]
fn slices_of_partial_rows_are_refused() {
    let message = |rows: Result<Rows<'_>>| rows.expect_err("an error").to_string();
    let expected = "found a slice of 7 numbers for rows of 2 columns, expected a multiple of 2";
    assert_eq!(message(Rows::from_row_major(&[0.0; 7], 2)), expected);
    assert_eq!(message(Rows::from_column_major(&[0.0; 7], 2)), expected);
    assert!(message(Rows::from_row_major(&[1.0], 0)).contains("0 columns"));
}

#[test]
fn fits_and_predictions_take_all_of_them() {
    let y: Vec<f64> = (0..COUNT).map(|i| value(i, 0).sin() + 0.3 * value(i, 1)).collect();
    let options = FitOptions { inducing: Some(10), epochs: Some(5), ..FitOptions::default() };
    let fit = Fit::of(options);
    let x = Mat::from_fn(COUNT, 2, value);
    let expected =
        fit.fit(x.as_ref(), &y).expect("a fit").predict(x.as_ref(), &[]).expect("predictions").means();

    let array = ndarray::Array2::from_shape_fn((COUNT, 2), |(i, d)| value(i, d));
    let newer = ndarray_0_17::Array2::from_shape_fn((COUNT, 2), |(i, d)| value(i, d));
    let matrix = DMatrix::from_fn(COUNT, 2, value);
    let pairs: Vec<[f64; 2]> = (0..COUNT).map(|i| [value(i, 0), value(i, 1)]).collect();
    for model in [fit.fit(&array, &y), fit.fit(&newer, &y), fit.fit(&matrix, &y), fit.fit(&pairs, &y)] {
        let model = model.expect("a fit");
        assert_eq!(model.predict(&newer, &[]).expect("predictions").means(), expected);
        assert_eq!(model.predict(&matrix, &[]).expect("predictions").means(), expected);
    }
    let mut trainer = fit.trainer(&array, &y).expect("a trainer");
    assert!(trainer.step(&pairs[..20], &y[..20]).expect("a step").is_finite());

    let model = fit.fit(&array, &y).expect("a fit");
    let error = model.predict(&[[0.0, f64::NAN]], &[]).expect_err("an error").to_string();
    assert!(error.contains("NaN in row 0, column 1"), "{error}");
    let error = fit.fit(&[[f64::NAN]; 3], &[1.0, 2.0, 3.0]).expect_err("an error").to_string();
    assert!(error.contains("row 0"), "{error}");
}
