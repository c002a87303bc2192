//! Conformal calibration: quantiles and intervals that follow the scores of held-out rows, on the scale of the model's own quantiles.
//!
//! The score of a row with the predictive distribution function F is `s = |Φ⁻¹(F(y))|`, and the central interval of probability `1 − α` is
//! `[F⁻¹(Φ(−k)), F⁻¹(Φ(k))]`, where k is the `⌈(n + 1)(1 − α)⌉`-th smallest of n scores (conformalised quantiles: Romano, Patterson & Candès
//! 2019; the index: Vovk, Gammerman & Shafer 2005). With one list of scores, intervals of all probabilities are nested.
//!
//! If F jumps, as for counts, the score is `max(−Φ⁻¹(F(y)), Φ⁻¹(F(y−)))`. An interval contains y exactly if the score is at most k.

use super::fitted::Model;
use super::predictions::Predictions;
use crate::likelihood::TargetKind;
use crate::likelihood::functions::normal::{cdf, quantile};
use crate::likelihood::quadrature::Integrator;
use faer::MatRef;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The score from which quantiles continue along a straight line, because F is too close to 0 or 1 for 64-bit floats. For Gaussian predictions
/// the line is exact.
const STRAIGHT_FROM: f64 = 4.0;

/// The tolerance of ranks, and of scores where F jumps.
const ROUNDING: f64 = 1e-9;

/// The smallest number of scores with which a 95 % interval needs no larger score than those seen.
const ENOUGH: usize = 19;

/// The largest score.
const LARGEST: f64 = 1e100;

/// The scores of held-out rows, by which predictions are calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Conformal {
    /// The scores of all rows, in ascending order.
    scores: Vec<f64>,
    /// The scores of each level of the first grouping that has enough of them, in ascending order; the levels ascend too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    by_level: Vec<(usize, Vec<f64>)>,
}

impl Conformal {
    fn new(mut scores: Vec<f64>, codes: &[f64], levels: usize) -> Conformal {
        let sorted = |mut scores: Vec<f64>| {
            scores.sort_by(f64::total_cmp);
            scores
        };
        let mut of_levels = vec![Vec::new(); levels];
        // Where F jumps across ½, the score is negative: every interval contains such a target.
        let taken = |score: f64| if score.is_finite() { score.max(0.0) } else { LARGEST };
        scores.iter_mut().for_each(|score| *score = taken(*score));
        for (&code, &score) in codes.iter().zip(&scores) {
            // New levels have codes behind the known ones.
            if let Some(of_level) = of_levels.get_mut(code as usize).filter(|_| code >= 0.0) {
                of_level.push(score);
            }
        }
        let enough = of_levels.into_iter().enumerate().filter(|(_, scores)| scores.len() >= ENOUGH);
        Conformal {
            by_level: enough.map(|(code, scores)| (code, sorted(scores))).collect(),
            scores: sorted(scores),
        }
    }

    /// The number of scores.
    pub fn count(&self) -> usize {
        self.scores.len()
    }

    /// The number of levels with their own scores.
    pub fn levels(&self) -> usize {
        self.by_level.len()
    }

    /// Returns true if there are enough scores for 95 % intervals.
    pub fn is_enough(&self) -> bool {
        self.count() >= ENOUGH
    }

    /// The factor by which all scores together widen the 95 % intervals of Gaussian predictions.
    pub fn factor_95(&self) -> f64 {
        half_width(&self.scores, 0.05) / deviations(0.05)
    }

    /// Returns true if the lists are as [`Conformal::new`] makes them.
    pub(super) fn is_valid(&self, levels: usize) -> bool {
        let ascend =
            |scores: &[f64]| scores.iter().all(|score| (0.0..=LARGEST).contains(score)) && scores.is_sorted();
        let of_levels =
            |(code, scores): &(usize, Vec<f64>)| *code < levels && scores.len() >= ENOUGH && ascend(scores);
        !self.scores.is_empty()
            && ascend(&self.scores)
            && self.by_level.iter().all(of_levels)
            && self.by_level.is_sorted_by(|(one, _), (next, _)| one < next)
    }

    fn of_code(&self, code: f64) -> &[f64] {
        let found = self.by_level.binary_search_by(|(level, _)| (*level as f64).total_cmp(&code));
        found.map_or(&self.scores, |at| &self.by_level[at].1)
    }
}

/// Returns z where a standard normal variable leaves [−z, z] with this probability.
fn deviations(outside: f64) -> f64 {
    -quantile(0.5 * outside)
}

/// Returns the k of the central interval that leaves out a target with probability `outside`. Beyond the largest of the scores it grows as for
/// a normal distribution.
fn half_width(scores: &[f64], outside: f64) -> f64 {
    let (n, largest) = (scores.len() as f64, scores[scores.len() - 1]);
    let rank = ((n + 1.0) * (1.0 - outside) - ROUNDING).ceil().max(0.0);
    match rank as usize {
        0 => 0.0,
        rank if rank <= scores.len() => scores[rank - 1],
        _ => largest * deviations(outside) / deviations(1.0 / (n + 1.0)),
    }
}

/// Returns the largest probability `outside` for which [`half_width`] is at least `score`.
fn outside_at(scores: &[f64], score: f64) -> f64 {
    let (n, largest) = (scores.len() as f64, scores[scores.len() - 1]);
    match scores.partition_point(|other| *other < score) {
        below if below < scores.len() => 1.0 - (below as f64 + ROUNDING) / (n + 1.0),
        _ => 2.0 * cdf(-score / largest * deviations(1.0 / (n + 1.0))),
    }
}

/// The scores with the level of every predicted row.
#[derive(Clone, Debug)]
pub(super) struct RowScores {
    conformal: Arc<Conformal>,
    /// The codes of the first grouping, or empty without groups.
    codes: Vec<f64>,
}

impl RowScores {
    fn of_row(&self, row: usize) -> &[f64] {
        self.conformal.of_code(self.codes.get(row).copied().unwrap_or(f64::NAN))
    }
}

impl Model {
    /// The scores of held-out rows by which quantiles and intervals are calibrated, if there are any.
    #[doc(hidden)]
    pub fn conformal(&self) -> Option<&Conformal> {
        self.conformal.as_deref()
    }

    /// Calibrates quantiles and intervals by the [scores](Predictions::conformal_scores) of rows that the model, or models fitted in the same
    /// way, did not see. `x` has the inputs of these rows in original units (`n × D`). Without rows the model stays as it is.
    #[doc(hidden)]
    pub fn calibrate(&mut self, x: MatRef<'_, f64>, scores: Vec<f64>) {
        if !scores.is_empty() {
            let levels = self.latent.effects.terms().first().map_or(0, |term| term.levels);
            self.conformal = Some(Arc::new(Conformal::new(scores, &self.codes(x), levels)));
        }
    }

    pub(super) fn row_scores(&self, x: MatRef<'_, f64>) -> Option<RowScores> {
        let conformal = Arc::clone(self.conformal.as_ref()?);
        let codes = if conformal.by_level.is_empty() { Vec::new() } else { self.codes(x) };
        Some(RowScores { conformal, codes })
    }

    /// Returns the codes of the first grouping, or nothing without groups.
    fn codes(&self, x: MatRef<'_, f64>) -> Vec<f64> {
        let Some(term) = self.latent.effects.terms().first() else { return Vec::new() };
        let behind = self.latent.effects.columns() + self.scaling.offsets().columns();
        x.col(x.ncols() - behind + term.code).iter().copied().collect()
    }
}

impl Predictions {
    /// Returns the conformity score of every target: its distance from the median in standard deviations, on the scale on which the
    /// predictive distribution is normal.
    ///
    /// # Panics
    ///
    /// If the numbers of targets and rows differ.
    #[doc(hidden)]
    pub fn conformal_scores(&self, targets: &[f64]) -> Vec<f64> {
        assert_eq!(targets.len(), self.rows(), "one target per row");
        let mut tools = Integrator::default();
        let score = |(row, &target): (usize, &f64)| {
            let (before, at) = self.normal_scores(row, target, &mut tools);
            before.max(-at)
        };
        targets.iter().enumerate().map(score).collect()
    }

    /// Returns the quantile for `p`, in units of the target, by the scores of held-out rows.
    pub(super) fn conformal_quantile(
        &self,
        scores: &RowScores,
        row: usize,
        p: f64,
        tools: &mut Integrator,
    ) -> f64 {
        let jump = if self.jumps() { ROUNDING } else { 0.0 };
        let k = half_width(scores.of_row(row), 2.0 * p.min(1.0 - p)) + jump;
        let z = match p {
            _ if p < 0.5 => -k,
            _ if p > 0.5 => k,
            _ => 0.0,
        };
        self.scaling.unscaled_target(self.quantile_at(row, z, tools))
    }

    /// Returns P(Y < y) and P(Y ≤ y) on the scale of the quantiles: by the scores of held-out rows, if there are any.
    pub(super) fn transforms(&self, row: usize, target: f64, tools: &mut Integrator) -> (f64, f64) {
        let Some(scores) = &self.conformal else { return self.distribution_at(row, target, tools) };
        let calibrated = |z: f64| {
            let half = 0.5 * outside_at(scores.of_row(row), z.abs());
            if z < 0.0 { half } else { 1.0 - half }
        };
        let (before, at) = self.normal_scores(row, target, tools);
        (calibrated(before), calibrated(at))
    }

    /// Returns P(Y < y) and P(Y ≤ y) of the model.
    fn distribution_at(&self, row: usize, target: f64, tools: &mut Integrator) -> (f64, f64) {
        let at = self.cdf(row, target, tools);
        let before = if self.is_discrete() { target - 1.0 } else { self.kind().before(target) };
        (if before < target { self.cdf(row, before, tools) } else { at }, at)
    }

    fn is_discrete(&self) -> bool {
        self.kind().is_of_counts() || matches!(self.kind(), TargetKind::Binary | TargetKind::Ordinal)
    }

    fn jumps(&self) -> bool {
        self.is_discrete() || self.kind().has_ends()
    }

    /// Returns `Φ⁻¹(P(Y < y))` and `Φ⁻¹(P(Y ≤ y))`, far from the median along the straight lines of [`quantile_at`](Self::quantile_at).
    fn normal_scores(&self, row: usize, target: f64, tools: &mut Integrator) -> (f64, f64) {
        let (before, at) = self.distribution_at(row, target, tools);
        let y = self.scaling.scaled_target(target);
        let mut score = |p: f64| {
            let z = quantile(p);
            if z.abs() < STRAIGHT_FROM {
                return z;
            }
            let (end, unit) = self.straight_line(row, z.signum(), tools);
            z.signum() * (STRAIGHT_FROM + (z.signum() * (y - end) / unit).max(0.0))
        };
        (score(before), score(at))
    }

    /// Returns the quantile for Φ(z) on the scale the model sees.
    fn quantile_at(&self, row: usize, z: f64, tools: &mut Integrator) -> f64 {
        if z.abs() < STRAIGHT_FROM {
            return self.predicted.quantile((row, cdf(z)), self.at(row, 1.0), tools);
        }
        let (end, unit) = self.straight_line(row, z.signum(), tools);
        let far = end + z.signum() * (z.abs() - STRAIGHT_FROM) * unit;
        let far = match (self.is_discrete(), z < 0.0) {
            (false, _) => far,
            (true, true) => far.ceil(),
            (true, false) => far.floor(),
        };
        let (low, high) = match self.kind() {
            TargetKind::Positive
            | TargetKind::Lifetime
            | TargetKind::Amount
            | TargetKind::Count
            | TargetKind::CensoredCount => (0.0, f64::INFINITY),
            TargetKind::UnitInterval | TargetKind::Share => (0.0, 1.0),
            TargetKind::Trials => (0.0, self.at(row, 1.0).exposure),
            TargetKind::Ordinal => (0.0, self.likelihood().levels() as f64 - 1.0),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        far.clamp(low, high)
    }

    /// Returns the quantile at the score where the straight line below (`sign` −1) or above (1) the median begins, and its change per score.
    fn straight_line(&self, row: usize, sign: f64, tools: &mut Integrator) -> (f64, f64) {
        let mut at = |z: f64| self.predicted.quantile((row, cdf(sign * z)), self.at(row, 1.0), tools);
        let (end, before) = (at(STRAIGHT_FROM), at(STRAIGHT_FROM - 1.0));
        let least = if self.is_discrete() { 1.0 } else { f64::EPSILON * end.abs() + f64::MIN_POSITIVE };
        (end, (end - before).abs().max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By exchangeability, the rank of a new score among n + 1 is uniform: the k of an interval covers at least its share of the ranks, and no
    /// smaller score does.
    #[test]
    fn half_widths_are_the_smallest_scores_that_cover_enough_ranks() {
        for n in 1..60 {
            let scores: Vec<f64> = (1..=n).map(f64::from).collect();
            for outside in [0.5, 0.2, 0.1, 0.05, 0.025, 0.3333] {
                let covered =
                    |k: f64| (1..=n).filter(|rank| f64::from(*rank) <= k).count() as f64 / f64::from(n + 1);
                let enough = scores.iter().find(|k| covered(**k) >= 1.0 - outside - 1e-12);
                let found = half_width(&scores, outside);
                match enough {
                    Some(smallest) => assert_eq!(found, *smallest, "{n} scores, {outside}"),
                    None => assert!(found > f64::from(n), "{n} scores, {outside}: {found}"),
                }
            }
        }
    }

    #[test]
    fn a_score_is_inside_exactly_the_intervals_of_the_share_at_it() {
        let scores = [0.2, 0.5, 0.5, 0.9, 1.4, 3.0];
        for score in [0.0, 0.2, 0.3, 0.5, 0.8, 3.0, 3.1, 7.0] {
            for outside in (1..400).map(|i| f64::from(i) / 400.0) {
                let inside = score <= half_width(&scores, outside);
                assert_eq!(inside, outside <= outside_at(&scores, score), "{score} {outside}");
            }
        }
    }

    #[test]
    fn lists_that_no_calibration_makes_are_invalid() {
        let good = Conformal::new((0..40).map(|i| f64::from(i % 7)).collect(), &[1.0; 40], 3);
        assert!(good.is_valid(3) && good.levels() == 1 && !good.is_valid(1));
        let with = |scores: &[f64]| Conformal { scores: scores.to_vec(), by_level: Vec::new() };
        for bad in [&[][..], &[2.0, 1.0], &[-1.0, 1.0], &[f64::NAN], &[f64::INFINITY]] {
            assert!(!with(bad).is_valid(3), "{bad:?}");
        }
        let twice = Conformal { by_level: [good.by_level.clone(), good.by_level.clone()].concat(), ..good };
        assert!(!twice.is_valid(3));
    }
}
