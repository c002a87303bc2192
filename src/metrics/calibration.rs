//! Calibration of predictive distributions: integral transforms, coverage, intervals.

use super::{BINS, Compared, Coverage, Report, bin, finite, unit};
use crate::data::Moments;

/// The probabilities of the central intervals whose coverage is reported.
const CENTRAL: [f64; 4] = [0.5, 0.8, 0.9, 0.95];

/// The metrics of the predictive distribution function and intervals, for any real or ordered
/// target.
#[derive(Clone, Debug, Default)]
pub(super) struct Calibration {
    mass: [f64; BINS],
    inside: [u64; 4],
    unusable: bool,
    width: Moments,
    score: Moments,
}

impl Calibration {
    pub(super) fn push(&mut self, row: &Compared) {
        let (lower, upper) = row.interval_95;
        self.width.push(upper - lower);
        self.score.push(interval_score(lower, upper, row.target));
        let (Some(low), Some(high)) = (unit(row.pit.0), unit(row.pit.1)) else {
            self.unusable = true;
            return;
        };
        let high = high.max(low);
        self.spread(low, high);
        for (inside, central) in self.inside.iter_mut().zip(CENTRAL) {
            *inside += u64::from(is_inside(low, high, central));
        }
    }

    /// Adds the mass of one row, uniform over [low, high]: the non-randomised histogram of Czado,
    /// Gneiting & Held (2009). Its expectation is flat for correct predictions, although the
    /// distribution function jumps at y.
    fn spread(&mut self, low: f64, high: f64) {
        if low == high {
            self.mass[bin(low)] += 1.0;
            return;
        }
        let edge = |index: usize| index as f64 / BINS as f64;
        for (index, mass) in self.mass.iter_mut().enumerate() {
            let overlap = high.min(edge(index + 1)) - low.max(edge(index));
            *mass += overlap.max(0.0) / (high - low);
        }
    }

    pub(super) fn report(&self, report: &mut Report) {
        report.interval_width_95 = finite(self.width.mean());
        report.interval_score_95 = finite(self.score.mean());
        let rows = self.width.count() as f64;
        if rows == 0.0 || self.unusable {
            return;
        }
        let [central_50, central_80, central_90, central_95] =
            self.inside.map(|count| Some(count as f64 / rows));
        report.pit = Some(self.mass.map(|mass| mass / rows));
        report.coverage = Some(Coverage { central_50, central_80, central_90, central_95 });
    }
}

/// `(u − l) + (2/α) (l − y)₊ + (2/α) (y − u)₊` with α = 0.05 (Gneiting & Raftery 2007, eq. 43).
fn interval_score(lower: f64, upper: f64, y: f64) -> f64 {
    let outside = match () {
        () if y < lower => lower - y,
        () if y > upper => y - upper,
        () => 0.0,
    };
    upper - lower + 2.0 / 0.05 * outside
}

/// True if y, with `low` = P(Y < y) and `high` = P(Y ≤ y), lies in the central interval of a probability.
fn is_inside(low: f64, high: f64, central: f64) -> bool {
    if low == high {
        // Without a jump, y is inside exactly if its distribution function is this close to one
        // half.
        return (low - 0.5).abs() <= central / 2.0;
    }
    // y is at or above the lower quantile if P(Y ≤ y) has reached the level of that quantile, and
    // at or below the upper quantile if no smaller value has reached the level of that one.
    high >= (1.0 - central) / 2.0 && low < (1.0 + central) / 2.0
}
