//! Metrics of times until an event, for times that may be censored on the right: concordance, calibration and Brier scores.

use super::{Compared, Report};
use crate::parallel::*;

/// The time of an event, or a time before which it was not observed.
#[derive(Clone, Copy, Debug)]
struct Time {
    time: f64,
    /// True if the event was observed at this time.
    is_event: bool,
}

/// The times of some rows, with their predicted means and probability integral transforms.
#[derive(Clone, Debug, Default)]
pub(super) struct Survivals {
    times: Vec<Time>,
    means: Vec<f64>,
    /// True if some targets are censored, in any way.
    pub(super) some_censored: bool,
    transforms: Vec<Time>,
}

impl Survivals {
    /// Adds a row. Times that are known to lie in another interval than from y to infinity do not count.
    pub(super) fn push(&mut self, row: &Compared, other_end: f64) {
        self.some_censored |= !other_end.is_nan();
        if !other_end.is_nan() && other_end != f64::INFINITY {
            return;
        }
        let is_event = other_end.is_nan();
        self.times.push(Time { time: row.target, is_event });
        self.means.push(row.mean);
        // The transforms of discrete targets are not uniform.
        let is_continuous = !is_event || row.pit.0 == row.pit.1;
        self.transforms.push(Time { time: if is_continuous { row.pit.1 } else { f64::NAN }, is_event });
    }

    /// Sets the metrics if some rows are censored.
    pub(super) fn report(&self, report: &mut Report) {
        if self.times.iter().all(|time| time.is_event) {
            return;
        }
        report.concordance = self.concordance();
        report.survival_gap = self.gap();
    }

    /// Returns the share of pairs of rows with a known order whose means are in this order; equal means count one half (Harrell et al. 1982).
    /// A row censored at the time of an event is the later one.
    fn concordance(&self) -> Option<f64> {
        let mut sorted = self.means.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = |mean: &f64| sorted.partition_point(|other| other < mean);
        let ranks: Vec<usize> = self.means.iter().map(rank).collect();
        let order = |row: usize| (self.times[row].time, self.times[row].is_event);
        let mut latest: Vec<usize> = (0..ranks.len()).collect();
        latest.sort_unstable_by(|&a, &b| {
            let (a, b) = (order(a), order(b));
            b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
        });
        let (mut later, mut total, mut pairs, mut right) = (RankCounts::new(ranks.len()), 0, 0, 0.0);
        for tied in latest.chunk_by(|&a, &b| order(a) == order(b)) {
            for &row in tied.iter().filter(|&&row| self.times[row].is_event) {
                let (below, up_to) = (later.below(ranks[row]), later.below(ranks[row] + 1));
                pairs += total;
                right += (total - up_to) as f64 + 0.5 * (up_to - below) as f64;
            }
            tied.iter().for_each(|&row| later.add(ranks[row]));
            total += tied.len();
        }
        (pairs > 0).then(|| right / pairs as f64)
    }

    /// Returns the largest distance between the Kaplan–Meier curve of the probability integral transforms and `1 − u`, the curve of predictions
    /// that are calibrated.
    fn gap(&self) -> Option<f64> {
        let unusable = self.transforms.iter().any(|of| !(0.0..=1.0).contains(&of.time));
        if unusable {
            return None;
        }
        let (mut gap, mut before): (f64, f64) = (0.0, 1.0);
        for (u, after) in KaplanMeier::of(self.transforms.clone()).steps {
            gap = gap.max((before - (1.0 - u)).abs()).max((after - (1.0 - u)).abs());
            before = after;
        }
        Some(gap)
    }
}

/// Numbers of rows by rank. Sums over lower ranks take logarithmic time (Fenwick 1994).
struct RankCounts(Vec<usize>);

impl RankCounts {
    fn new(ranks: usize) -> RankCounts {
        RankCounts(vec![0; ranks + 1])
    }

    fn add(&mut self, rank: usize) {
        let mut node = rank + 1;
        while node < self.0.len() {
            self.0[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// The number of rows of lower ranks.
    fn below(&self, rank: usize) -> usize {
        let (mut node, mut sum) = (rank, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        sum
    }
}

/// The Kaplan–Meier estimate (1958) of P(T > t).
struct KaplanMeier {
    /// The times of events, in order, and the estimate from each of them on.
    steps: Vec<(f64, f64)>,
    /// The standard error of each estimate (Greenwood 1926).
    errors: Vec<f64>,
}

impl KaplanMeier {
    fn of(mut times: Vec<Time>) -> KaplanMeier {
        times.sort_unstable_by(|a, b| a.time.total_cmp(&b.time));
        let (mut steps, mut errors, mut alive, mut sum, mut at_risk) =
            (Vec::new(), Vec::new(), 1.0, 0.0, times.len());
        for tied in times.chunk_by(|a, b| a.time == b.time) {
            let events = tied.iter().filter(|time| time.is_event).count();
            if events > 0 {
                let (died, left) = (events as f64, (at_risk - events) as f64);
                alive *= left / at_risk as f64;
                sum += died / (at_risk as f64 * left);
                steps.push((tied[0].time, alive));
                errors.push(if left > 0.0 { alive * f64::sqrt(sum) } else { 0.0 });
            }
            at_risk -= tied.len();
        }
        KaplanMeier { steps, errors }
    }

    /// The estimate of P(T > t).
    fn at(&self, t: f64) -> f64 {
        self.value(self.steps.partition_point(|step| step.0 <= t))
    }

    /// The estimate of P(T ≥ t).
    fn before(&self, t: f64) -> f64 {
        self.value(self.steps.partition_point(|step| step.0 < t))
    }

    fn value(&self, steps: usize) -> f64 {
        steps.checked_sub(1).map_or(1.0, |last| self.steps[last].1)
    }
}

/// Returns P(T > t) of a row.
pub(crate) type Survives<'a> = dyn Fn(usize, f64) -> f64 + Sync + 'a;

/// The number of times over which the Brier score is averaged.
const TIMES: usize = 33;

/// Returns the Brier score of survival probabilities, averaged over 33 equally spaced times from the first to the last decile of the observed
/// events, with weights by the inverse probability of not being censored (Graf et al. 1999). `survival` returns P(T > t) of a row. Rows
/// whose `other_ends` are neither NaN nor infinite do not count; `None` without events or without censored rows.
pub(crate) fn integrated_brier(times: &[f64], other_ends: &[f64], survival: &Survives<'_>) -> Option<f64> {
    let known = |row: &usize| other_ends[*row].is_nan() || other_ends[*row] == f64::INFINITY;
    let rows: Vec<usize> = (0..times.len()).filter(known).collect();
    let is_event = |row: usize| other_ends[row].is_nan();
    let mut events: Vec<f64> = rows.iter().filter(|&&row| is_event(row)).map(|&row| times[row]).collect();
    if events.is_empty() || events.len() == rows.len() {
        return None;
    }
    events.sort_unstable_by(f64::total_cmp);
    let decile = |tenths: usize| events[(events.len() - 1) * tenths / 10];
    // The time until censoring is itself censored by the event.
    let censoring = |&row: &usize| Time { time: times[row], is_event: !is_event(row) };
    let censoring = KaplanMeier::of(rows.iter().map(censoring).collect());
    let score = |t: f64| {
        let of_row = |&row: &usize| match (times[row] > t, is_event(row)) {
            (true, _) => (1.0 - survival(row, t)).powi(2) / censoring.at(t),
            (false, true) => survival(row, t).powi(2) / censoring.before(times[row]),
            (false, false) => 0.0,
        };
        rows.iter().map(of_row).sum::<f64>() / rows.len() as f64
    };
    let (first, last) = (decile(1), decile(9));
    let at = |k: usize| first + (last - first) * k as f64 / (TIMES - 1) as f64;
    let scores: Vec<f64> = (0..TIMES).into_par_iter().map(|k| score(at(k))).collect();
    let ends = 0.5 * (scores[0] + scores[TIMES - 1]);
    let mean = (scores.iter().sum::<f64>() - ends) / (TIMES - 1) as f64;
    Some(mean).filter(|mean| mean.is_finite())
}

/// Rows with similar predictions: the Kaplan–Meier estimate of P(T > t) beside the mean predicted one.
#[derive(Clone, Debug, PartialEq)]
#[doc(hidden)]
pub struct SurvivalGroup {
    /// The number of rows.
    pub rows: usize,
    /// The times of events in order, each with the estimate from there on and its standard error (Greenwood 1926).
    pub observed: Vec<(f64, f64, f64)>,
    /// Equally spaced times up to the last one of the group, each with the mean predicted probability.
    pub predicted: Vec<(f64, f64)>,
}

/// The largest number of groups, the fewest events of each on average, and the numbers of times and of rows that a mean prediction takes.
const GROUPS: usize = 4;
const EVENTS: usize = 10;
const POINTS: usize = 60;
const MOST_ROWS: usize = 500;

/// Returns groups of nearly equal size of rows that are known or censored on the right, by their predicted P(T > t) at the median time,
/// the lowest first; none without events or without censored rows. `survival` returns P(T > t) of a row.
pub(crate) fn survival_groups(
    times: &[f64],
    other_ends: &[f64],
    survival: &Survives<'_>,
) -> Vec<SurvivalGroup> {
    let is_event = |row: usize| other_ends[row].is_nan();
    let known = |row: &usize| is_event(*row) || other_ends[*row] == f64::INFINITY;
    let mut rows: Vec<usize> = (0..times.len()).filter(known).collect();
    let events = rows.iter().filter(|&&row| is_event(row)).count();
    if events == 0 || events == rows.len() {
        return Vec::new();
    }
    rows.sort_unstable_by(|&a, &b| times[a].total_cmp(&times[b]));
    let (first, median) = (times[rows[0]].min(0.0), times[rows[rows.len() / 2]]);
    let mut ranked: Vec<(f64, usize)> =
        rows.into_par_iter().map(|row| (survival(row, median), row)).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let size = ranked.len().div_ceil((events / EVENTS).clamp(1, GROUPS));
    let of_group = |group: &[(f64, usize)]| {
        let time = |&(_, row): &(f64, usize)| Time { time: times[row], is_event: is_event(row) };
        let observed = KaplanMeier::of(group.iter().map(time).collect());
        let last = group.iter().fold(first, |last, &(_, row)| times[row].max(last));
        let few: Vec<usize> =
            group.iter().step_by(group.len().div_ceil(MOST_ROWS)).map(|&(_, row)| row).collect();
        let predicted = (0..=POINTS).into_par_iter().map(|point| {
            let t = first + (last - first) * point as f64 / POINTS as f64;
            (t, few.iter().map(|&row| survival(row, t)).sum::<f64>() / few.len() as f64)
        });
        let observed = observed.steps.iter().zip(&observed.errors);
        SurvivalGroup {
            rows: group.len(),
            observed: observed.map(|(&(t, alive), &error)| (t, alive, error)).collect(),
            predicted: predicted.collect(),
        }
    };
    ranked.chunks(size).map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: f64, other_end: f64, mean: f64, u: f64) -> Compared {
        let nan = f64::NAN;
        Compared {
            target,
            other_end: Some(other_end),
            mean,
            pit: (u, u),
            log_density: nan,
            interval_95: (nan, nan),
            crps: nan,
            deviance: nan,
            most_probable: nan,
            classes: None,
        }
    }

    /// By counting: of times 1 (event), 2 (censored), 3 (event), 3 (censored) and 4 (event), the pairs (1, all later), (3, 3 censored) and (3, 4)
    /// can be ordered.
    #[test]
    fn concordance_counts_pairs_with_a_known_order() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let mut rows = Survivals::default();
        for (time, end, mean) in
            [(1.0, nan, 2.0), (2.0, inf, 1.0), (3.0, nan, 5.0), (3.0, inf, 5.0), (4.0, nan, 3.0)]
        {
            rows.push(&row(time, end, mean, 0.5), end);
        }
        // An interval does not count.
        rows.push(&row(0.5, 2.5, 9.0, 0.5), 2.5);
        // Right: 1 before 3, 3+ and 4; half: 3 and 3+; wrong: 1 before 2+, and 3 before 4.
        assert_eq!(rows.concordance(), Some(3.5 / 6.0));
    }

    /// Figures of R's survival 3.7, `survfit(Surv(c(1, 2, 3, 3, 4), c(1, 0, 1, 0, 1)) ~ 1)`: 0.8 from 1, 0.5333 from 3, 0 from 4.
    #[test]
    fn the_kaplan_meier_curve_steps_down_at_events() {
        let events = [(1.0, true), (2.0, false), (3.0, true), (3.0, false), (4.0, true)];
        let curve = KaplanMeier::of(events.map(|(time, is_event)| Time { time, is_event }).to_vec());
        let found = [0.5, 1.0, 2.5, 3.0, 4.0].map(|t| curve.at(t));
        let expected = [1.0, 0.8, 0.8, 0.8 * 2.0 / 3.0, 0.0];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        assert_eq!(curve.before(1.0), 1.0);
        // By Greenwood's formula 0.8 √(1/20) and 0.5333 √(1/20 + 1/6), which R prints as 0.179 and 0.248.
        let errors = [0.8 * 0.05_f64.sqrt(), 1.6 / 3.0 * (0.05 + 1.0 / 6.0_f64).sqrt(), 0.0];
        assert!(curve.errors.iter().zip(errors).all(|(a, b)| (a - b).abs() < 1e-12), "{:?}", curve.errors);
    }

    /// Exponential times of four rates, censored at 2: groups are the rates, and the true curves are within four standard errors.
    #[test]
    fn groups_by_predictions_have_their_own_curves() {
        let rate = |row: usize| [0.2, 0.5, 1.0, 3.0][row % 4];
        let time = |row: usize| -(1.0 - (row as f64 * 0.618_033_988_75).fract()).ln() / rate(row);
        let times: Vec<f64> = (0..2000).map(|row| time(row).min(2.0)).collect();
        let ends: Vec<f64> = times.iter().map(|&t| if t < 2.0 { f64::NAN } else { f64::INFINITY }).collect();
        let groups = survival_groups(&times, &ends, &|row, t| (-rate(row) * t).exp());
        assert_eq!(groups.iter().map(|group| group.rows).collect::<Vec<_>>(), [500; 4]);
        for (group, rate) in groups.iter().zip([3.0, 1.0, 0.5, 0.2]) {
            for &(t, alive) in &group.predicted {
                assert!((alive - f64::exp(-rate * t)).abs() < 1e-12, "{t} {alive}");
            }
            for &(t, alive, error) in &group.observed {
                assert!((alive - f64::exp(-rate * t)).abs() < 4.0 * error + 0.01, "{rate} {t} {alive}");
            }
        }
        assert!(survival_groups(&times, &[f64::NAN; 2000], &|_, _| 0.5).is_empty());
    }

    /// Uniform transforms that are censored at random places leave a small gap; squared ones are far from the diagonal.
    #[test]
    fn the_gap_is_small_only_for_calibrated_transforms() {
        let gap = |power: i32| {
            let mut rows = Survivals::default();
            for i in 0..2000 {
                let (u, cut) = (
                    (f64::from(i) * 0.618_033_988_75).fract().powi(power),
                    (f64::from(i) * 0.754_877).fract(),
                );
                let end = if cut < u { f64::INFINITY } else { f64::NAN };
                rows.push(&row(1.0, end, 1.0, u.min(cut)), end);
            }
            rows.gap().expect("a gap")
        };
        assert!(gap(1) < 0.05, "{}", gap(1));
        assert!((gap(2) - 0.25).abs() < 0.05, "{}", gap(2));
    }

    /// If nothing is censored before the last time, all weights are 1, and the score is the plain mean of squares.
    #[test]
    fn the_brier_score_has_weights_of_one_without_early_censoring() {
        let times: Vec<f64> = (1..=50).map(f64::from).chain([100.0]).collect();
        let mut ends = vec![f64::NAN; 50];
        ends.push(f64::INFINITY);
        let survival = |row: usize, t: f64| (-t / (10.0 + row as f64)).exp();
        let found = integrated_brier(&times, &ends, &survival).expect("a score");
        let at = |t: f64| {
            let square = |row: usize| (survival(row, t) - f64::from(u8::from(times[row] > t))).powi(2);
            (0..51).map(square).sum::<f64>() / 51.0
        };
        // The first and the last decile of 1, …, 50 by rank are 5 and 45.
        let steps = 32;
        let at = |k: usize| at(5.0 + 40.0 * k as f64 / f64::from(steps));
        let expected = (0..32).map(|k| 0.5 * (at(k) + at(k + 1))).sum::<f64>() / f64::from(steps);
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected}");
    }
}
