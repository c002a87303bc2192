//! The metric in which neighbours are near: each input in units of the distance at which the prior's correlation has halved; no search.

use faer::{Mat, MatRef};
use sparsegp_kernels::{Inputs, Kernel, Scratch};

/// Rows at which correlations are looked at.
const SAMPLE: usize = 24;

/// Distances that are looked at, in units of the inputs.
const RANGE: (f64, f64) = (1e-6, 1e6);

/// For every input the distance at which the correlation with a row that differs in this input alone is half of that at distance 0,
/// on average over some of the rows `x` (`n × D`); infinite where the correlation never falls so far. Of a stationary
/// kernel with a lengthscale for each input these are proportional to the lengthscales.
///
/// # Panics
///
/// When the kernel needs another number of inputs.
pub fn half_lengths(kernel: &dyn Kernel, x: MatRef<'_, f64>) -> Vec<f64> {
    let (n, dims) = x.shape();
    let count = n.min(SAMPLE);
    let rows = Mat::from_fn(count, dims, |i, d| x[(i * n / count.max(1), d)]);
    let mut at = Correlations::new(kernel, rows);
    (0..dims).map(|d| half_length(&mut |distance| at.mean(d, distance))).collect()
}

/// Where a correlation that starts at 1 is first seen to be ½, to six digits.
fn half_length(correlation: &mut dyn FnMut(f64) -> f64) -> f64 {
    let far = |correlation: f64| correlation < 0.5;
    let (mut near, mut distance) = (0.0, RANGE.0);
    while !far(correlation(distance)) {
        (near, distance) = (distance, 2.0 * distance);
        if distance > RANGE.1 {
            return f64::INFINITY;
        }
    }
    while distance - near > 1e-6 * distance && distance > RANGE.0 {
        let middle = 0.5 * (near + distance);
        if far(correlation(middle)) { distance = middle } else { near = middle }
    }
    distance
}

/// Correlations of some rows with themselves, moved.
struct Correlations<'a> {
    kernel: &'a dyn Kernel,
    rows: Mat<f64>,
    moved: Mat<f64>,
    k: Mat<f64>,
    variance: [Vec<f64>; 2],
    scratch: Scratch,
}

impl<'a> Correlations<'a> {
    fn new(kernel: &'a dyn Kernel, rows: Mat<f64>) -> Self {
        let n = rows.nrows();
        let mut new = Correlations {
            kernel,
            moved: rows.clone(),
            rows,
            k: Mat::zeros(n, n),
            variance: [vec![0.0; n], vec![0.0; n]],
            scratch: Scratch::new(),
        };
        new.variance[0] = new.cross(false);
        new
    }

    /// The covariance of every row with its moved self, or of two draws at the moved row, so that noise which is part of the
    /// kernel is none of it.
    fn cross(&mut self, both_moved: bool) -> Vec<f64> {
        let right = self.moved.as_ref();
        let left = if both_moved { right } else { self.rows.as_ref() };
        self.kernel.eval(Inputs::Cross { left, right }, self.k.as_mut(), &mut self.scratch);
        (0..self.k.nrows()).map(|i| self.k[(i, i)]).collect()
    }

    /// The mean correlation of the rows with themselves moved along input `d`.
    fn mean(&mut self, d: usize, distance: f64) -> f64 {
        let n = self.rows.nrows();
        (0..n).for_each(|i| self.moved[(i, d)] = self.rows[(i, d)] + distance);
        let between = self.cross(false);
        self.variance[1] = self.cross(true);
        (0..n).for_each(|i| self.moved[(i, d)] = self.rows[(i, d)]);
        let correlation = |i: usize| between[i] / (self.variance[0][i] * self.variance[1][i]).sqrt();
        (0..n).map(correlation).filter(|c| c.is_finite()).sum::<f64>() / n.max(1) as f64
    }
}

/// The rows `x` (`n × D`) in units of these distances; an input whose distance is infinite does not count.
pub fn in_units_of(x: MatRef<'_, f64>, distances: &[f64]) -> Mat<f64> {
    Mat::from_fn(x.nrows(), x.ncols(), |i, d| x[(i, d)] / distances[d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sparsegp_kernels::parse;

    fn lengths(expression: &str, values: &[f64]) -> Vec<f64> {
        let mut kernel = parse(expression, 2).expect("a kernel");
        let mut given = values.iter();
        kernel.for_each_parameter_mut(&mut |parameter| {
            parameter.values.iter_mut().for_each(|value| *value = *given.next().unwrap_or(&1.0));
        });
        let x = Mat::from_fn(100, 2, |i, d| ((i * (d + 3)) % 17) as f64 / 5.0);
        half_lengths(kernel.as_ref(), x.as_ref())
    }

    #[test]
    fn half_lengths_follow_lengthscales_and_noise_does_not_count() {
        let found = lengths("rbf(ard)", &[2.0, 0.3, 6.0]);
        let half = (2.0 * 2f64.ln()).sqrt();
        for (found, length) in found.iter().zip([0.3, 6.0]) {
            assert!((found / (half * length) - 1.0).abs() < 1e-5, "{found}");
        }
        let exponential = lengths("matern12(ard)", &[1.0, 0.5, 1.0]);
        assert!((exponential[0] - 0.5 * 2f64.ln()).abs() < 1e-5);
        let noisy = lengths("matern12(ard) + white", &[1.0, 0.5, 1.0, 3.0]);
        assert!((noisy[0] - exponential[0]).abs() < 1e-9);
        assert_eq!(lengths("constant", &[1.0]), [f64::INFINITY; 2]);
    }

    #[test]
    fn inputs_that_do_not_matter_have_no_distance() {
        let x = Mat::from_fn(3, 2, |i, d| (i + d) as f64);
        let scaled = in_units_of(x.as_ref(), &[2.0, f64::INFINITY]);
        assert_eq!((scaled[(2, 0)], scaled[(2, 1)]), (1.0, 0.0));
    }
}
