//! Gradients against finite differences.

use crate::problems::Normals;
use proptest::prelude::*;
use sparsegp::hyper::HyperObjective;

/// Steps of the finite differences, from the least rounding error to the least truncation error.
/// Matérn 1/2 has a kink where an input equals an inducing input, so only steps that stay on one
/// side of the kink give the derivative.
const STEPS: [f64; 3] = [1e-4, 1e-5, 1e-6];

/// Compares an analytic gradient with finite differences along random directions: central differences, extrapolated from steps h and 2 h
/// (Richardson).
pub fn check_gradient(
    value: &mut dyn FnMut(&[f64]) -> f64,
    at: &[f64],
    gradient: &[f64],
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut normals = Normals::new(seed);
    let size = 1.0 + value(at).abs();
    for _ in 0..3 {
        let direction = normals.vec(at.len());
        let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
        let mut central = |h: f64| {
            let mut moved = |h: f64| {
                let point: Vec<f64> = at.iter().zip(&direction).map(|(a, d)| a + h * d).collect();
                value(&point)
            };
            (moved(h) - moved(-h)) / (2.0 * h)
        };
        let mut seen = Vec::new();
        let agrees = STEPS.into_iter().any(|h| {
            let (coarse, fine) = (central(2.0 * h), central(h));
            let found = (4.0 * fine - coarse) / 3.0;
            seen.push(found);
            // The difference between the two steps, and the rounding error of a value, divided by the step.
            let error = 0.1 * (fine - coarse).abs() + 1e-13 / h * size;
            (found - expected).abs() <= 1e-6 * (1.0 + expected.abs()) + error
        });
        prop_assert!(agrees, "finite differences {seen:?}, analytic {expected}");
    }
    Ok(())
}

/// Compares the gradient of an objective in its free parameters with finite differences.
pub fn check_objective(
    objective: &mut dyn HyperObjective,
    theta: &[f64],
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut gradient = vec![0.0; theta.len()];
    objective.value_and_gradient(theta, &mut gradient);
    let mut ignored = gradient.clone();
    check_gradient(&mut |theta| objective.value_and_gradient(theta, &mut ignored), theta, &gradient, seed)
}
