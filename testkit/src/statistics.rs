//! Means over random draws.

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
