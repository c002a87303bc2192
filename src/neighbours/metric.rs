//! The metric of the search for neighbours: each input in units of the distance at which the prior
//! correlation has halved.

use crate::latent::Embedding;
use faer::{Mat, MatMut, MatRef};
use sparsegp_kernels::{Gradient, Inputs, Kernel, Scratch};

/// The number of rows at which correlations are evaluated.
const SAMPLE: usize = 24;

/// The range of distances, in units of the inputs.
const RANGE: (f64, f64) = (1e-6, 1e6);

/// The maximum number of inputs that are moved one by one; each move evaluates the kernel on all
/// inputs.
const MOST_ALONE: usize = 256;

/// Returns the half length of every input: the distance at which the correlation with a row that
/// differs only in this input is half of its value at distance 0, on average over some of the rows
/// `x` (`n × D`). It is infinite if the correlation never falls that far. For a stationary kernel
/// with a lengthscale for each input, half lengths are proportional to the lengthscales. With more
/// than 256 inputs, the half length of only one input is searched for. The others follow from the
/// slopes of the log correlation between rows that differ in all inputs, which one adjoint gives
/// for all inputs.
///
/// The half length h of a category says that two levels are 1/h apart: their correlation is
/// `ρ = 2^(−r²)` at the distance r = 1/h, as for a squared exponential.
///
/// # Panics
///
/// If the kernel needs another number of inputs.
pub fn half_lengths(kernel: &dyn Kernel, x: MatRef<'_, f64>) -> Vec<f64> {
    let (n, dims) = x.shape();
    let count = n.min(SAMPLE);
    let rows = Mat::from_fn(count, dims, |i, d| x[(i * n / count.max(1), d)]);
    let mut at = Correlations::new(kernel, rows);
    let is_category = |d: &usize| kernel.dimensions().get(*d).is_some_and(|of| of.is_category());
    let (codes, numbers): (Vec<usize>, Vec<usize>) = (0..dims).partition(is_category);
    let mut lengths = vec![f64::INFINITY; dims];
    if numbers.len() > MOST_ALONE {
        lengths = by_slopes(&mut at, &numbers);
    } else {
        numbers.iter().for_each(|&d| lengths[d] = half_length(&mut |distance| at.mean(&[d], distance)));
    }
    codes.iter().for_each(|&d| lengths[d] = length_of_levels(at.mean(&[d], 1.0)));
    lengths
}

/// Returns the half length of a category between whose levels rows have this correlation.
fn length_of_levels(correlation: f64) -> f64 {
    /// The correlation at the largest distance between levels.
    const LEAST: f64 = 1e-6;
    if correlation < 1.0 { 1.0 / (-correlation.max(LEAST).log2()).sqrt() } else { f64::INFINITY }
}

/// Returns half lengths in time linear in the number of inputs. With `r² = Σ_d (δ_d/ℓ_d)²` the
/// slope of `ln ρ(r²)` along input d is `2 (ln ρ)′ δ_d/ℓ_d²`, so at equal `δ_d` slopes are
/// proportional to squared inverse lengths.
fn by_slopes(at: &mut Correlations<'_>, numbers: &[usize]) -> Vec<f64> {
    let dims = at.rows.ncols();
    let mut lengths = vec![f64::INFINITY; dims];
    let together = half_length(&mut |distance| at.mean(numbers, distance));
    if together.is_infinite() {
        return lengths;
    }
    let falls = at.falls(numbers, together);
    let Some(steepest) = (0..dims).max_by(|&a, &b| falls[a].total_cmp(&falls[b])) else { return lengths };
    let shortest = half_length(&mut |distance| at.mean(&[steepest], distance));
    for (length, &fall) in lengths.iter_mut().zip(&falls).filter(|(_, fall)| **fall > 0.0) {
        *length = shortest * (falls[steepest] / fall).sqrt();
    }
    lengths
}

/// Returns the first distance found at which a correlation that starts at 1 is ½, to six digits;
/// infinite if there is none.
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

/// The correlations of some rows with moved copies of themselves.
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

    /// Returns the covariance of every row with its moved copy, or of two draws at the moved row,
    /// so that noise within the kernel is left out.
    fn cross(&mut self, both_moved: bool) -> Vec<f64> {
        let right = self.moved.as_ref();
        let left = if both_moved { right } else { self.rows.as_ref() };
        self.kernel.eval(Inputs::Cross { left, right }, self.k.as_mut(), &mut self.scratch);
        (0..self.k.nrows()).map(|i| self.k[(i, i)]).collect()
    }

    /// Moves every row along these inputs.
    fn shift(&mut self, inputs: &[usize], distance: f64) {
        for &d in inputs {
            (0..self.rows.nrows()).for_each(|i| self.moved[(i, d)] = self.rows[(i, d)] + distance);
        }
    }

    /// Returns the mean correlation of the rows with copies moved along these inputs.
    fn mean(&mut self, inputs: &[usize], distance: f64) -> f64 {
        let n = self.rows.nrows();
        self.shift(inputs, distance);
        let between = self.cross(false);
        self.variance[1] = self.cross(true);
        for &d in inputs {
            (0..n).for_each(|i| self.moved[(i, d)] = self.rows[(i, d)]);
        }
        let correlation = |i: usize| between[i] / (self.variance[0][i] * self.variance[1][i]).sqrt();
        (0..n).map(correlation).filter(|c| c.is_finite()).sum::<f64>() / n.max(1) as f64
    }

    /// Returns the rate at which the log correlation of the rows with copies moved along these
    /// inputs falls, for the move along each input, summed over the rows.
    fn falls(&mut self, inputs: &[usize], distance: f64) -> Vec<f64> {
        let dims = self.rows.ncols();
        self.shift(inputs, distance);
        let mut slopes = Mat::zeros(self.rows.nrows(), dims);
        // d ln ρ = dk(x, x′)/k(x, x′) − ½ dk(x′, x′)/k(x′, x′), and a move of both arguments of
        // k(x′, x′) counts twice.
        self.add_slopes(slopes.as_mut(), false, 1.0);
        self.add_slopes(slopes.as_mut(), true, -1.0);
        self.shift(inputs, 0.0);
        let fall = |d: usize| -slopes.col(d).iter().filter(|slope| slope.is_finite()).sum::<f64>();
        (0..dims).map(fall).collect()
    }

    /// Adds `share · ∂ ln k(x_i, x′_i)/∂x′_i`, or the same derivative of `k(x′_i, x′_i)` in its
    /// second argument only.
    fn add_slopes(&mut self, slopes: MatMut<'_, f64>, both_moved: bool, share: f64) {
        let own = self.cross(both_moved);
        let weigh = |i: usize, j: usize| if i == j { share / own[i] } else { 0.0 };
        let weights = Mat::from_fn(own.len(), own.len(), weigh);
        let right = self.moved.as_ref();
        let left = if both_moved { right } else { self.rows.as_ref() };
        let gradient = Gradient { parameters: &mut [], left: None, right: Some(slopes) };
        let inputs = Inputs::Cross { left, right };
        self.kernel.adjoint(inputs.evaluated(self.k.as_ref(), weights.as_ref()), gradient, &mut self.scratch);
    }
}

/// Returns the rows `x` (`n × D`) in units of these distances, one row per row. A number has one
/// column. A category has several columns, in which rows of different levels are one over its
/// distance apart. An input whose distance is infinite does not count.
pub fn in_units_of(kernel: &dyn Kernel, x: MatRef<'_, f64>, distances: &[f64]) -> Mat<f64> {
    Embedding::new(kernel.dimensions(), x.ncols()).coordinates(x, distances)
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
    fn slopes_give_the_half_lengths_of_inputs_moved_one_by_one() {
        let x = Mat::from_fn(30, 5, |i, d| ((i * (d + 3)) % 17) as f64 / 5.0);
        for expression in
            ["rbf(ard)", "matern12(ard)", "matern32(ard) + white", "rbf(ard) * constant", "constant"]
        {
            let mut kernel = parse(expression, 5).expect("a kernel");
            kernel.for_each_parameter_mut(&mut |parameter| {
                let values = parameter.values.iter_mut().enumerate();
                values.for_each(|(d, value)| *value = 0.4 * (d + 1) as f64);
            });
            let alone = half_lengths(kernel.as_ref(), x.as_ref());
            let mut at = Correlations::new(kernel.as_ref(), x.clone());
            for (slope, alone) in by_slopes(&mut at, &[0, 1, 2, 3, 4]).iter().zip(&alone) {
                let same = slope == alone || (slope / alone - 1.0).abs() < 1e-5;
                assert!(same, "{expression}: {slope} by slopes, {alone} alone");
            }
        }
    }
}
