//! Bayesian optimisation: each round fits the values so far, and evaluates the point of the largest expected improvement.

use sparsegp::faer::Mat;
use sparsegp::functions::normal;
use sparsegp::kernels::{Profile, Stationary};
use sparsegp::likelihood::Gaussian;
use sparsegp::prelude::*;

/// Minimises a function on [0, 1] by this many evaluations; returns the smallest value and its place.
pub fn minimise(function: impl Fn(f64) -> f64, evaluations: usize) -> Result<(f64, f64)> {
    let mut x = vec![[0.0], [0.5], [1.0]];
    let mut y: Vec<f64> = x.iter().map(|[x]| function(*x)).collect();
    let candidates = Mat::from_fn(501, 1, |i, _| i as f64 / 500.0);
    while y.len() < evaluations {
        let gp = Inducing::new(Stationary::ard(Profile::Matern52, 1));
        let model = Fit::new(gp, Gaussian::default()).fit(&x, &y)?;
        let least = y.iter().copied().fold(f64::INFINITY, f64::min);
        let predictions = model.predict(&candidates, &[])?;
        let improvements = predictions.iter().map(|at| {
            let sd = at.latent_variance.sqrt();
            let z = (least - at.latent_mean) / sd;
            sd * (z * normal::cdf(z) + normal::log_density(z, 0.0, 1.0).exp())
        });
        let best = improvements.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let next = candidates[(best.map_or(0, |(row, _)| row), 0)];
        x.push([next]);
        y.push(function(next));
    }
    let best = y.iter().zip(&x).min_by(|a, b| a.0.total_cmp(b.0));
    best.map(|(y, [x])| (*x, *y)).ok_or_else(|| Error::usage("expected at least one evaluation"))
}
