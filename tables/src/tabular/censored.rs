//! The best distribution of censored targets that does not depend on the inputs, by maximum likelihood.

use sparsegp::likelihood::{
    Censored, CensoredGaussian, NegativeBinomial, ObservationModel, OneFunction, TargetKind, Weibull,
};
use sparsegp::objective::Targets;

/// The maximum number of Newton steps, and the largest change of f in scales and of log s in one of them.
const STEPS: usize = 100;
const LONGEST: f64 = 0.5;

/// The search ends at changes below this.
const CLOSE: f64 = 1e-10;

/// The difference of log s by which slopes in it are differentiated.
const APART: f64 = 1e-4;

/// Returns the likelihood of a kind of censored target with the best scale, and the best f.
pub(super) fn constant(kind: TargetKind, targets: Targets<'_>) -> (ObservationModel, Vec<f64>) {
    match kind {
        TargetKind::Lifetime => best(Weibull::new, targets),
        TargetKind::CensoredCount => best(|alpha| Censored::new(NegativeBinomial::new(alpha)), targets),
        _ => best(CensoredGaussian::new, targets),
    }
}

/// Maximises `Σ w log p(y | f, s)` over f and log s in turn, by steps of Newton's method that do not go too far.
fn best<L: OneFunction + Clone + 'static>(
    of_scale: fn(f64) -> L,
    targets: Targets<'_>,
) -> (ObservationModel, Vec<f64>) {
    let slope_in_scale = |log_scale: f64, f: f64| {
        let (likelihood, mut sum) = (of_scale(log_scale.exp()), [0.0]);
        for i in 0..targets.y.len() {
            likelihood.own_gradient(targets.at(i), &[f], &[targets.weight(i)], &mut sum);
        }
        sum[0] * log_scale.exp()
    };
    let mut start = of_scale(1.0);
    start.for_each_parameter_mut(&mut |scale| scale.given = false);
    let mut f = start.initialise(targets.y, targets.exposure);
    let mut log_scale = 0.0;
    start.for_each_parameter(&mut |scale| log_scale = scale.values[0].ln());
    for _ in 0..STEPS {
        let scale = log_scale.exp();
        let likelihood = of_scale(scale);
        let (mut slope, mut curvature) = (0.0, 0.0);
        for i in 0..targets.y.len() {
            let (at, weight) = (targets.at(i), targets.weight(i));
            slope += weight * likelihood.value_and_slope(at, f).1;
            curvature += weight * likelihood.curvature(at, f);
        }
        let moved = limited(slope, curvature, LONGEST * scale);
        f += moved;
        let slope = slope_in_scale(log_scale, f);
        let bend =
            (slope_in_scale(log_scale + APART, f) - slope_in_scale(log_scale - APART, f)) / (2.0 * APART);
        let widened = limited(slope, bend, LONGEST);
        log_scale += widened;
        if moved.abs() < CLOSE * scale && widened.abs() < CLOSE {
            break;
        }
    }
    (of_scale(log_scale.exp()).into(), vec![f])
}

/// Returns Newton's step towards a maximum, of at most this length; one of this length uphill if the function is not concave.
fn limited(slope: f64, curvature: f64, longest: f64) -> f64 {
    let step = if curvature < 0.0 { -slope / curvature } else { longest.copysign(slope) };
    if step.is_finite() { step.clamp(-longest, longest) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exponential times have a closed form only for s = 1, so this checks that both slopes vanish and neighbours are worse.
    #[test]
    fn the_likelihood_is_at_its_maximum() {
        let y = [0.4, 1.1, 2.0, 2.0, 0.9, 1.6, 2.0];
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let other_ends = [nan, nan, inf, inf, nan, nan, inf];
        let targets = Targets { other_ends: &other_ends, ..Targets::of(&y) };
        let (found, f) = constant(TargetKind::Lifetime, targets);
        let mut scale = 0.0;
        found.for_each_parameter(&mut |own| scale = own.values[0]);
        let value = |f: f64, scale: f64| -> f64 {
            let of = Weibull::new(scale);
            (0..y.len()).map(|i| of.value_and_slope(targets.at(i), f).0).sum()
        };
        let best = value(f[0], scale);
        for (moved, widened) in [(1e-3, 1.0), (-1e-3, 1.0), (0.0, 1.001), (0.0, 0.999)] {
            assert!(value(f[0] + moved, scale * widened) < best - 1e-7, "{moved} {widened}");
        }
        // Weibull's equation for the scale e^f: Σ (y/e^f)^{1/s} = the number of events.
        let hazards: f64 = y.iter().map(|y| ((y.ln() - f[0]) / scale).exp()).sum();
        assert!((hazards - 4.0).abs() < 1e-8, "{hazards}");
    }
}
