//! Monotone maps of an input or the target to a scale that suits a Gaussian process better.

use crate::error::{Error, Result};
use crate::likelihood::functions::normal::quantile;
use crate::likelihood::quadrature::Integrator;
use crate::words::word_option;
use serde::{Deserialize, Serialize};

/// The maximum number of knots of a map; this many keep the map within a few per cent of a standard
/// deviation of the exact scores.
const KNOTS: usize = 200;

/// A column with fewer distinct values stays unchanged: the positions of its levels say more than their frequencies.
const DISTINCT: usize = 10;

/// The distance beyond the outermost scores at which a map stops.
const BEYOND: f64 = 1.0;

word_option! {
    /// The map of inputs before they are standardised.
    #[non_exhaustive]
    InputWarp, "input warp" {
        /// Nothing.
        None = "none",
        /// Every column of more than ten values is replaced by its normal scores.
        NormalScores = "normal-scores",
    }
}

word_option! {
    /// The map of a positive target before it is standardised.
    #[non_exhaustive]
    TargetWarp, "target warp" {
        /// Nothing.
        None = "none",
        /// The logarithm of the target.
        Log = "log",
        /// `y = s log(1 + e^z)`, where s is the median of y: z is like the logarithm below s and like `y/s` above.
        Softplus = "softplus",
    }
}

/// Normal scores of a column (B. L. van der Waerden 1952): `Φ⁻¹` of the share of training values
/// below a value, linear between knots. The mapped input has a standard normal distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")]
pub(crate) struct NormalScores {
    /// Values with their scores, both increasing; at least two.
    knots: Vec<(f64, f64)>,
}

impl NormalScores {
    /// Returns the scores of finite values; `None` if too few are distinct.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<NormalScores> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len() as f64;
        let mut before = 0.0;
        // Equal values share the middle of their ranks, which is below n and above 0.
        let scores: Vec<(f64, f64)> = sorted
            .chunk_by(|a, b| a == b)
            .map(|equal| {
                let share = (before + 0.5 * equal.len() as f64) / n;
                before += equal.len() as f64;
                (equal[0], quantile(share))
            })
            .collect();
        if scores.len() <= DISTINCT {
            return None;
        }
        let most = scores.len().min(KNOTS);
        let knots: Vec<(f64, f64)> =
            (0..most).map(|knot| scores[knot * (scores.len() - 1) / (most - 1)]).collect();
        NormalScores::try_from(knots).ok()
    }

    /// Returns the score of a value. Beyond the ends the map continues with its last slope, but at most by a score of one.
    pub fn apply(&self, value: f64) -> f64 {
        let ((x0, y0), (x1, y1)) = self.segment(|knot| knot.0, value);
        let score = interpolate([x0, x1], [y0, y1], value);
        score.clamp(self.knots[0].1 - BEYOND, self.knots[self.knots.len() - 1].1 + BEYOND)
    }

    /// Returns the value of a score; beyond the ends the map continues with its last slope.
    pub fn invert(&self, score: f64) -> f64 {
        let ((x0, y0), (x1, y1)) = self.segment(|knot| knot.1, score);
        interpolate([y0, y1], [x0, x1], score)
    }

    /// Returns the two knots around a coordinate, or the two at the nearer end.
    fn segment(&self, coordinate: impl Fn(&(f64, f64)) -> f64, at: f64) -> ((f64, f64), (f64, f64)) {
        let above = self.knots.partition_point(|knot| coordinate(knot) < at);
        let above = above.clamp(1, self.knots.len() - 1);
        (self.knots[above - 1], self.knots[above])
    }
}

/// Returns the value at x of the line through two points, exact at the second point.
fn interpolate([x0, x1]: [f64; 2], [y0, y1]: [f64; 2], x: f64) -> f64 {
    // Halves have differences that a float can represent for all values.
    let share = (0.5 * x - 0.5 * x1) / (0.5 * x1 - 0.5 * x0);
    y1 + share * (y1 - y0)
}

impl TryFrom<Vec<(f64, f64)>> for NormalScores {
    type Error = &'static str;

    fn try_from(knots: Vec<(f64, f64)>) -> std::result::Result<Self, Self::Error> {
        let increasing = |pair: &[(f64, f64)]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
        let finite = knots.iter().all(|knot| knot.0.is_finite() && knot.1.is_finite());
        if knots.len() < 2 || !finite || !knots.windows(2).all(increasing) {
            return Err("normal scores need at least two knots, finite and increasing");
        }
        Ok(NormalScores { knots })
    }
}

impl From<NormalScores> for Vec<(f64, f64)> {
    fn from(scores: NormalScores) -> Self {
        scores.knots
    }
}

/// The map of a positive target (E. Snelson, C. E. Rasmussen & Z. Ghahramani 2004), extended to a smooth map of the whole line: below half
/// of the smallest training value it continues along its tangent, so that no target is impossible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetMap {
    /// No map.
    #[default]
    None,
    /// `z = log y`.
    Log {
        /// Where the tangent begins.
        floor: f64,
    },
    /// `y = s log(1 + e^z)`: like the logarithm below s and like `y/s` above.
    Softplus {
        /// s.
        scale: f64,
        /// Where the tangent begins.
        floor: f64,
    },
}

impl TargetMap {
    /// The map of these targets.
    ///
    /// # Errors
    ///
    /// A data error for targets that are not above 0.
    pub(crate) fn of(warp: TargetWarp, y: &[f64]) -> Result<TargetMap> {
        if warp == TargetWarp::None || y.is_empty() {
            return Ok(TargetMap::None);
        }
        let mut sorted = y.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, scale) = (sorted[0], sorted[sorted.len() / 2]);
        if least <= 0.0 {
            return Err(Error::data(format!("⟨warp_target {warp}⟩ needs targets above 0, found {least}"))
                .hint("use ⟨warp_target none⟩"));
        }
        let floor = (0.5 * least).max(f64::MIN_POSITIVE);
        Ok(match warp {
            TargetWarp::None => TargetMap::None,
            TargetWarp::Log => TargetMap::Log { floor },
            TargetWarp::Softplus => TargetMap::Softplus { scale, floor },
        })
    }

    /// Returns true if the target stays unchanged.
    pub fn is_none(&self) -> bool {
        *self == TargetMap::None
    }

    /// Returns z of a target.
    pub(crate) fn apply(&self, y: f64) -> f64 {
        if self.is_none() {
            return y;
        }
        let at = self.on_curve(y);
        self.curve(at) + (y - at) * self.slope(at)
    }

    /// Returns the target of a z.
    pub(crate) fn invert(&self, z: f64) -> f64 {
        let (floor, curve) = match *self {
            TargetMap::None => return z,
            TargetMap::Log { floor } => (floor, z.exp()),
            TargetMap::Softplus { scale, floor } => (floor, scale * (z.max(0.0) + (-z.abs()).exp().ln_1p())),
        };
        let below = z - self.curve(floor);
        if below < 0.0 { floor + below / self.slope(floor) } else { curve }
    }

    /// Returns `log dz/dy`, which turns the log density of z into the log density of y.
    pub(crate) fn log_slope(&self, y: f64) -> f64 {
        if self.is_none() { 0.0 } else { self.slope(self.on_curve(y)).ln() }
    }

    /// Returns mean and variance of y for a normal z.
    pub(crate) fn moments(&self, mean: f64, variance: f64, integrator: &mut Integrator) -> (f64, f64) {
        match self {
            TargetMap::None => (mean, variance),
            TargetMap::Log { .. } => {
                let y = (mean + 0.5 * variance).exp();
                (y, y * y * variance.exp_m1())
            }
            TargetMap::Softplus { .. } => {
                let mut average = |g: &mut dyn FnMut(f64) -> f64| {
                    integrator.average(mean, variance, std::f64::consts::PI, g)
                };
                let y = average(&mut |z| self.invert(z));
                (y, average(&mut |z| (self.invert(z) - y).powi(2)))
            }
        }
    }

    /// Returns the target, or the floor if the target is below it.
    fn on_curve(&self, y: f64) -> f64 {
        match *self {
            TargetMap::None => y,
            TargetMap::Log { floor } | TargetMap::Softplus { floor, .. } => y.max(floor),
        }
    }

    fn curve(&self, y: f64) -> f64 {
        match *self {
            TargetMap::None => y,
            TargetMap::Log { .. } => y.ln(),
            TargetMap::Softplus { scale, .. } => {
                let part = y / scale;
                part + (-(-part).exp_m1()).ln()
            }
        }
    }

    fn slope(&self, y: f64) -> f64 {
        match *self {
            TargetMap::None => 1.0,
            TargetMap::Log { .. } => 1.0 / y,
            TargetMap::Softplus { scale, .. } => 1.0 / (-scale * (-y / scale).exp_m1()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;
    use proptest::prelude::*;

    fn scores(values: &[f64]) -> NormalScores {
        NormalScores::of(values.iter().copied()).expect("more than ten values")
    }

    #[test]
    fn ranks_become_quantiles_of_the_normal() {
        let values: Vec<f64> = (0..101).map(|i| f64::from(i).powi(3)).collect();
        let scores = scores(&values);
        assert_relative_eq!(scores.apply(50f64.powi(3)), 0.0, epsilon = 1e-12);
        assert_relative_eq!(scores.apply(values[0]), quantile(0.5 / 101.0), max_relative = 1e-12);
        assert_relative_eq!(scores.apply(values[100]), quantile(100.5 / 101.0), max_relative = 1e-12);
        // Halfway between two values it is halfway between their scores.
        let middle = 0.5 * (scores.apply(values[40]) + scores.apply(values[41]));
        assert_relative_eq!(scores.apply(0.5 * (values[40] + values[41])), middle, max_relative = 1e-12);
        // Far outside it ends.
        assert_relative_eq!(scores.apply(1e300), quantile(100.5 / 101.0) + BEYOND, max_relative = 1e-12);
        assert!(scores.apply(-f64::MAX).is_finite() && scores.apply(f64::MAX).is_finite());
        // Equal values share the middle of their ranks.
        let tied: Vec<f64> = (0..120).map(|i| f64::from((i % 12).max(3))).collect();
        assert_eq!(NormalScores::of(tied[..9].iter().copied()), None);
        assert_eq!(NormalScores::of((0..50).map(|i| f64::from(i % 10))), None);
        let ties: Vec<f64> = (0..200).map(|i| if i < 100 { 0.0 } else { f64::from(i) }).collect();
        assert_relative_eq!(
            super::NormalScores::apply(&self::scores(&ties), 0.0),
            quantile(0.25),
            max_relative = 1e-12
        );
    }

    /// The maps of positive targets, with one target that is far below the others.
    fn maps() -> [TargetMap; 2] {
        [TargetWarp::Log, TargetWarp::Softplus]
            .map(|warp| TargetMap::of(warp, &[0.02, 3.0, 5.0, 40.0]).expect("positive"))
    }

    #[test]
    fn moments_are_those_of_a_slow_integral() {
        let mut integrator = Integrator::default();
        for (map, at) in
            maps().into_iter().flat_map(|map| [(map, (0.4, 0.09)), (map, (2.0, 1.0)), (map, (-1.0, 0.25))])
        {
            let (mean, variance): (f64, f64) = at;
            let nodes = (-4000..=4000).map(|i| f64::from(i) * 0.0025);
            let slow = |g: &dyn Fn(f64) -> f64| -> f64 {
                nodes
                    .clone()
                    .map(|z| g(mean + variance.sqrt() * z) * (-0.5 * z * z).exp() * 0.0025)
                    .sum::<f64>()
                    / (2.0 * std::f64::consts::PI).sqrt()
            };
            let first = slow(&|z| map.invert(z));
            let second = slow(&|z| (map.invert(z) - first).powi(2));
            let found = map.moments(mean, variance, &mut integrator);
            assert_relative_eq!(found.0, first, max_relative = 1e-6);
            assert_relative_eq!(found.1, second, max_relative = 1e-6);
        }
    }

    proptest! {
        #[test]
        fn maps_rise_smoothly_and_can_be_undone(y in -10.0..100.0f64, which in 0usize..2) {
            let map = maps()[which];
            let z = map.apply(y);
            prop_assert!((map.invert(z) - y).abs() < 1e-9 * y.abs().max(1.0));
            let h = 1e-6 * y.abs().max(1e-3);
            let slope = (map.apply(y + h) - map.apply(y - h)) / (2.0 * h);
            prop_assert!((map.log_slope(y).exp() / slope - 1.0).abs() < 1e-4);
        }

        #[test]
        fn scores_rise_and_can_be_undone(
            values in proptest::collection::vec(-1e6..1e6f64, 30..400), share in 0.0..1.0f64
        ) {
            let scores = scores(&values);
            let (low, high) = (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(f64::MIN, f64::max));
            let at = low + share * (high - low);
            prop_assert!((scores.invert(scores.apply(at)) - at).abs() < 1e-6 * 1e6);
            prop_assert!(scores.apply(at) <= scores.apply(at + 1.0));
        }
    }
}
