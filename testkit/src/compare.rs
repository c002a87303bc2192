//! Comparisons of numbers, vectors and matrices.

use faer::{Mat, MatRef};

/// Compares within `tolerance · (1 + |want|)`.
pub fn assert_close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got - want).abs() <= tolerance * (1.0 + want.abs()), "{what}: {got} instead of {want}");
}

/// Compares entry by entry within `tolerance · (1 + |want|)`.
pub fn assert_all_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "length of {what}");
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert_close(*got, *want, tolerance, &format!("{what} [{i}]"));
    }
}

/// Compares matrices entry by entry within `tolerance · (1 + |want|)`.
pub fn assert_matrices_close(got: MatRef<'_, f64>, want: MatRef<'_, f64>, tolerance: f64, what: &str) {
    assert_eq!(got.shape(), want.shape(), "shape of {what}");
    assert_all_close(&entries(got), &entries(want), tolerance, what);
}

/// Returns the entries of a matrix, column by column.
pub fn entries(a: MatRef<'_, f64>) -> Vec<f64> {
    a.col_iter().flat_map(|column| column.iter().copied()).collect()
}

/// Returns the inverse of a positive definite matrix.
pub fn inverse(a: MatRef<'_, f64>) -> Mat<f64> {
    use faer::linalg::solvers::DenseSolveCore;
    a.llt(faer::Side::Lower).expect("positive definite").inverse()
}
