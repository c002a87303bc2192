//! Bounds on a density p(y|f) and its first two derivatives in f (Wei, Sheth & Khardon 2021, Table
//! 1).

use serde::Serialize;

/// Bounds `0 ≤ φ ≤ B`, `b′ ≤ φ′ ≤ B′` and `b″ ≤ φ″ ≤ B″` for all f, where φ is p(y|f) of one observation: assumption 3 of Wei, Sheth &
/// Khardon 2021.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DensityBounds {
    /// The upper bound B.
    pub density: f64,
    /// The lower bound b′ and the upper bound B′.
    pub slope: (f64, f64),
    /// The lower bound b″ and the upper bound B″.
    pub curvature: (f64, f64),
}

impl DensityBounds {
    /// Creates bounds that are symmetric around 0.
    pub(super) fn symmetric(density: f64, slope: f64, curvature: f64) -> Self {
        DensityBounds { density, slope: (-slope, slope), curvature: (-curvature, curvature) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{LikelihoodKind, Observation, OneFunction};

    /// Returns the extremes of φ, φ′, φ″ and −(log φ)″ over a fine grid of f.
    fn extremes(likelihood: &dyn OneFunction, at: Observation) -> [(f64, f64); 4] {
        let mut out = [(f64::INFINITY, f64::NEG_INFINITY); 4];
        for i in -6000..=6000 {
            let f = 0.005 * f64::from(i);
            let (value, first) = likelihood.value_and_slope(at, f);
            let (density, curvature) = (value.exp(), likelihood.curvature(at, f));
            let second = density * (curvature + first * first);
            for ((low, high), x) in out.iter_mut().zip([density, density * first, second, -curvature]) {
                (*low, *high) = (low.min(x), high.max(x));
            }
        }
        out
    }

    /// All bounds of Table 1 hold, and bounds that are extremes are reached.
    #[test]
    fn the_bounds_of_table_1_hold() {
        use LikelihoodKind as Kind;
        let cases = [
            (Kind::BernoulliLogit, vec![0.0, 1.0], false),
            (Kind::BernoulliProbit, vec![0.0, 1.0], false),
            (Kind::Gaussian, vec![0.7], true),
            (Kind::StudentT, vec![-0.4], true),
            (Kind::Poisson, vec![0.0, 1.0, 6.0], false),
            (Kind::PoissonSoftplus, vec![0.0, 1.0, 6.0], false),
        ];
        for (kind, targets, sharp) in cases {
            for y in targets {
                for exposure in [1.0, 2.5] {
                    let at = Observation::exposed(y, exposure);
                    let family = kind.build(0);
                    let likelihood = family.one().expect("one function");
                    let bounds = likelihood.density_bounds(at).expect("bounds");
                    let [density, slope, curvature, loss] = extremes(likelihood, at);
                    let pairs = [
                        ((0.0, bounds.density), (0.0, density.1)),
                        (bounds.slope, slope),
                        (bounds.curvature, curvature),
                    ];
                    for ((low, high), (least, most)) in pairs {
                        assert!(low <= least + 1e-12 && high >= most - 1e-12, "{kind} {at}: {bounds:?}");
                        let close = |bound: f64, extreme: f64| (bound - extreme).abs() <= 1e-3 * bound.abs();
                        assert!(!sharp || close(high, most) && (low == 0.0 || close(low, least)), "{kind}");
                    }
                    if let Some((low, high)) = likelihood.loss_curvature() {
                        assert!(low <= loss.0 + 1e-9 && high >= loss.1 - 1e-9, "{kind}: {loss:?}");
                        assert!(
                            (high - loss.1).abs() < 2e-2 * high && (low - loss.0).abs() < 2e-2 * high,
                            "{kind}: {loss:?}"
                        );
                    }
                }
            }
        }
    }
}
