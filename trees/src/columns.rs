//! Columns of numbers or levels, and their bins.

use serde::{Deserialize, Serialize};

/// The maximum number of bins of numbers, without the bin of missing cells.
const MOST_BINS: usize = 254;

/// The maximum number of levels that have separate bins.
const MOST_LEVELS: usize = 32_766;

/// The minimum number of rows of a level with a separate bin, and of a level that a split takes into account.
pub(crate) const LEVEL_ROWS: usize = 3;

/// The number of a bin.
pub(crate) type Bin = u16;

/// The values of a column, one per row.
#[derive(Clone, Debug)]
pub enum Values {
    /// Numbers, in which only the order matters; NaN is a missing cell.
    Numbers(Vec<f64>),
    /// Codes of levels without an order.
    Levels(Vec<u32>),
}

impl Values {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Values::Numbers(values) => values.len(),
            Values::Levels(codes) => codes.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bins of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Bins {
    /// The upper ends of all bins but the last, in ascending order.
    Numbers(Vec<f64>),
    /// The codes of the levels that have separate bins, in ascending order.
    Levels(Vec<u32>),
}

impl Bins {
    /// Returns bins of numbers with about equal numbers of rows, and a bin for each level that is not rare.
    pub(crate) fn of(values: &Values) -> Bins {
        match values {
            Values::Numbers(values) => Bins::Numbers(cuts(values)),
            Values::Levels(codes) => {
                let mut sorted = codes.clone();
                sorted.sort_unstable();
                let mut counts: Vec<(usize, u32)> =
                    sorted.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
                counts.retain(|(rows, _)| *rows >= LEVEL_ROWS);
                counts.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
                let mut kept: Vec<u32> = counts.into_iter().take(MOST_LEVELS).map(|(_, code)| code).collect();
                kept.sort_unstable();
                Bins::Levels(kept)
            }
        }
    }

    /// Returns the number of bins; the last one has missing cells and all levels without a separate bin.
    pub(crate) fn count(&self) -> usize {
        match self {
            Bins::Numbers(cuts) => cuts.len() + 2,
            Bins::Levels(codes) => codes.len() + 1,
        }
    }

    pub(crate) fn is_of_levels(&self) -> bool {
        matches!(self, Bins::Levels(_))
    }

    /// Returns the bin of every row.
    pub(crate) fn assign(&self, values: &Values) -> Vec<Bin> {
        let missing = self.count() - 1;
        let bin = |bin: usize| Bin::try_from(bin).unwrap_or(Bin::MAX);
        match (self, values) {
            (Bins::Numbers(cuts), Values::Numbers(values)) => {
                let of = |value: &f64| match value.is_nan() {
                    true => bin(missing),
                    false => bin(cuts.partition_point(|cut| cut < value)),
                };
                values.iter().map(of).collect()
            }
            (Bins::Levels(kept), Values::Levels(codes)) => {
                codes.iter().map(|code| bin(kept.binary_search(code).unwrap_or(missing))).collect()
            }
            // A column never changes its kind; cells of another kind are unknown.
            (_, values) => vec![bin(missing); values.len()],
        }
    }
}

/// Returns thresholds halfway between neighbouring values such that the bins have about equal numbers of rows.
fn cuts(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let runs: Vec<&[f64]> = sorted.chunk_by(|a, b| a == b).collect();
    let (mut left, mut bins) = (sorted.len(), MOST_BINS.min(runs.len()));
    let (mut cuts, mut filled) = (Vec::new(), 0);
    for pair in runs.windows(2) {
        filled += pair[0].len();
        // Runs of equal values longer than a bin shrink the bins of the rest.
        if filled * bins >= left || runs.len() <= MOST_BINS {
            cuts.push(0.5 * pair[0][0] + 0.5 * pair[1][0]);
            (left, bins, filled) = (left - filled, bins.saturating_sub(1).max(1), 0);
        }
        if cuts.len() + 1 == MOST_BINS {
            break;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_a_bin_each_and_many_share_them_evenly() {
        let few = Values::Numbers(vec![3.0, 1.0, 1.0, f64::NAN, 2.0]);
        let bins = Bins::of(&few);
        assert_eq!(bins, Bins::Numbers(vec![1.5, 2.5]));
        assert_eq!(bins.assign(&few), [2, 0, 0, 3, 1]);
        let many = Values::Numbers((0..10_000).map(|i| f64::from(i * i)).collect());
        let bins = Bins::of(&many);
        let assigned = bins.assign(&many);
        let mut counts = vec![0; bins.count()];
        assigned.iter().for_each(|&bin| counts[usize::from(bin)] += 1);
        assert_eq!(bins.count(), 255);
        assert!(counts[..254].iter().all(|&count| (30..=60).contains(&count)), "{counts:?}");
    }

    #[test]
    fn rare_and_unknown_levels_share_the_last_bin() {
        let codes: Vec<u32> = (0..3_000).map(|i| if i < 2_900 { i % 900 } else { i }).collect();
        let bins = Bins::of(&Values::Levels(codes));
        assert_eq!(bins.count(), 901);
        assert_eq!(bins.assign(&Values::Levels(vec![0, 899, 2_950, 4_000])), [0, 899, 900, 900]);
    }
}
