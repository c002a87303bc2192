//! Noise of exact GPs that the evidence hardly determines: its expectation instead of its mode.
//!
//! If a kernel is rough enough to pass through all targets, the evidence is the same for any small noise. The mode is then arbitrary,
//! and a mode near 0 predicts targets at known inputs as if they could be measured without error.

use super::collapsed::CollapsedObjective;
use super::solver::Solved;
use crate::data::Moments;
use crate::likelihood::Gaussian;
use sparsegp_kernels::Role;

/// The largest noise variance that is in question, in units of the variance of the targets, …
const SMALL: f64 = 1e-3;

/// … and the least one that matters for predictions.
const MATTERS: f64 = 1e-6;

/// The expectation replaces a mode that is smaller by more than this factor.
const FAR: f64 = 3.0;

/// The ratio of consecutive variances at which the evidence is computed.
const RATIO: f64 = 3.162_277_660_168_379_5;

/// Variances whose evidence is lower by more than this many nats have no weight.
const DROP: f64 = 8.0;

/// Evidences that differ by less than this many nats continue so to variances near 0.
const FLAT: f64 = 1e-3;

/// Returns the expectation of the noise variance between `least` and `most`, for its mode `found`, under a flat prior of the standard
/// deviation (Gelman 2006). `evidence` returns the log
/// evidence of a variance.
fn expected(
    found: f64,
    (least, most): (f64, f64),
    mut evidence: impl FnMut(f64) -> Option<f64>,
) -> Option<f64> {
    let best = evidence(found)?;
    let mut points = vec![(found, best)];
    for k in 1.. {
        let variance = found * RATIO.powi(k);
        let value = if variance <= most { evidence(variance)? } else { f64::NEG_INFINITY };
        if value < best - DROP {
            break;
        }
        points.push((variance, value));
    }
    let mut last = best;
    for k in 1.. {
        let variance = found * RATIO.powi(-k);
        if variance < least || last < best - DROP {
            break;
        }
        // Below a level stretch all evidences are alike.
        let value = if k > 2 && (last - best).abs() < FLAT { last } else { evidence(variance)? };
        points.push((variance, value));
        last = value;
    }
    let top = points.iter().map(|point| point.1).fold(best, f64::max);
    // The prior of the logarithm is proportional to the standard deviation.
    let weights = || points.iter().map(|(variance, value)| (value - top).exp() * variance.sqrt());
    let sum: f64 = points.iter().zip(weights()).map(|((variance, _), weight)| variance * weight).sum();
    Some(sum / weights().sum::<f64>())
}

/// An exact GP at the expectation of its noise variance.
pub(super) struct Expected {
    /// The free vector.
    pub theta: Vec<f64>,
    /// The objective there.
    pub value: f64,
    /// The mode of the noise variance.
    pub mode: f64,
}

/// Solves an exact GP at the expectation of the noise variance, if the evidence hardly determines it at the other parameters of `theta`.
/// Otherwise the objective stays at `theta`.
pub(super) fn with_expected_noise(
    objective: &mut CollapsedObjective<'_>,
    theta: &[f64],
    targets: &[f64],
) -> Option<Expected> {
    let scale = Moments::of(targets.iter().copied()).variance()?;
    let descriptors = objective.place().model.descriptors();
    let noise = descriptors.iter().position(|d| d.role.0 == Role::Noise && !d.fixed && d.tie.is_none())?;
    let natural = objective.place().natural_at(theta);
    let found = natural[noise];
    if found > SMALL * scale {
        return None;
    }
    let moved = |objective: &CollapsedObjective<'_>, variance: f64| {
        let mut natural = natural.clone();
        natural[noise] = variance;
        descriptors[noise].transform.admits(variance).then(|| objective.place().pack(&natural))
    };
    let range = (Gaussian::NOISE_FLOOR * scale, scale);
    let mean = expected(found, range, |variance| {
        let theta = moved(objective, variance)?;
        objective.evidence_at(&theta)
    });
    let end = mean.filter(|mean| *mean >= MATTERS * scale && *mean >= FAR * found);
    let solved = end.and_then(|mean| {
        let theta = moved(objective, mean)?;
        Some(Expected { value: objective.solve(&theta)?, theta, mode: found })
    });
    if solved.is_none() {
        objective.evidence_at(theta);
    }
    solved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expectation_is_that_of_the_evidence() {
        // With the same evidence up to a variance, the sum over all variances up to it.
        let level = |variance: f64| Some(if variance <= 1.1e-2 { 3.0 } else { -9.0 });
        let mean = expected(1e-6, (0.9e-10, 1.0), level).expect("a mean");
        let points: Vec<f64> = (0..17).map(|k| 1e-10 * RATIO.powi(k)).collect();
        let moment = |power: f64| points.iter().map(|point| point.powf(power)).sum::<f64>();
        assert!((mean * moment(0.5) / moment(1.5) - 1.0).abs() < 1e-9, "{mean}");

        // A peak keeps its place, from above and from below.
        let peak = |variance: f64| Some(-200.0 * (variance / 1e-5).ln().powi(2));
        let mean = expected(1e-5, (1e-10, 1.0), peak).expect("a mean");
        assert!((mean / 1e-5 - 1.0).abs() < 1e-9, "{mean}");
        assert_eq!(expected(1e-5, (1e-10, 1.0), |_| None), None);
    }
}
