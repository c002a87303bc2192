//! Losses of rows with Gaussian noise that are quadratic in the latent mean: residual variances as noise, and squared errors.

use super::{Derivatives, LossInputs};
use std::f64::consts::TAU;

/// Returns `scale · Σ w_i ½ [log 2πV_i + ((y_i − μ_i)² + s_i)/V_i]` with `V_i = σ² + r_i` for the noise variance σ², and its derivatives.
pub(crate) fn fitc(noise: f64, scale: f64, rows: LossInputs<'_>, out: Derivatives<'_>) -> f64 {
    let LossInputs { targets, mean, variance, residual } = rows;
    let (mut sum, mut own) = (0.0, 0.0);
    for i in 0..targets.len() {
        let weight = scale * targets.weight(i);
        let precision = 1.0 / (noise + residual[i]);
        let error = targets.y[i] - mean[i];
        let square = (error * error + variance[i]) * precision;
        sum += weight * 0.5 * ((TAU / precision).ln() + square);
        out.mean[i] = -weight * error * precision;
        out.variance[i] = weight * 0.5 * precision;
        out.residual[i] = weight * 0.5 * precision * (1.0 - square);
        out.curvature[i] = weight * precision;
        own += out.residual[i];
    }
    out.own.iter_mut().for_each(|slope| *slope += own);
    sum
}

/// Returns `scale · Σ w_i ½ (y_i − μ_i)²` and its derivatives.
pub(super) fn square(scale: f64, rows: LossInputs<'_>, out: Derivatives<'_>) -> f64 {
    let LossInputs { targets, mean, .. } = rows;
    let mut sum = 0.0;
    for (i, (y, mean)) in targets.y.iter().zip(mean).enumerate() {
        let (weight, error) = (scale * targets.weight(i), y - mean);
        sum += weight * 0.5 * error * error;
        (out.mean[i], out.variance[i], out.curvature[i]) = (-weight * error, 0.0, weight);
        out.residual[i] = 0.0;
    }
    sum
}
