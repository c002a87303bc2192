//! Comparisons of numbers, vectors, matrices and of averages over draws.

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

/// Returns the mean of every entry over vectors of numbers, and its standard error.
pub fn moments(draws: impl IntoIterator<Item = Vec<f64>>) -> Vec<(f64, f64)> {
    let (mut sums, mut squares, mut n) = (Vec::new(), Vec::new(), 0.0);
    for draw in draws {
        sums.resize(draw.len(), 0.0);
        squares.resize(draw.len(), 0.0);
        sums.iter_mut().zip(&draw).for_each(|(sum, x)| *sum += x);
        squares.iter_mut().zip(&draw).for_each(|(sum, x)| *sum += x * x);
        n += 1.0;
    }
    let of = |(sum, square): (&f64, &f64)| {
        let variance = (square / n - (sum / n).powi(2)).max(0.0);
        (sum / n, (variance / n).sqrt())
    };
    sums.iter().zip(&squares).map(of).collect()
}

/// Checks that every mean is within five standard errors of its exact value, up to rounding.
pub fn assert_unbiased(got: &[(f64, f64)], want: &[f64], what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, ((mean, error), want)) in got.iter().zip(want).enumerate() {
        assert!((mean - want).abs() <= 5.0 * error + 1e-9, "{what} [{i}]: {mean} ± {error}, expected {want}");
    }
}
