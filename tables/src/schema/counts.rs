//! Decides whether whole numbers are counts, levels or amounts, by the frequency of each.
//!
//! Counts begin at 0 or 1, repeat, and become rarer as they grow. Whole numbers from 0 to 10,000 without a common divisor are therefore
//! taken for counts if there are at least three distinct values, the smallest is 0 or 1, there are at least two rows per distinct value,
//! and
//!
//! - if the largest is at most 10 (so few values may be levels or classes): the smallest is 0, at least half of the rows are 0 or 1, and
//!   the largest occurs at most half as often as if all values were equally frequent;
//! - if the largest is 11 to 30: the median lies in the lower half of the range, and at most an eighth of the rows in its upper quarter;
//! - if the largest is above 30: 1, 2 and 3 occur at least three times as often as if all numbers of the range were equally frequent, and
//!   in at least a hundredth of the rows.

/// The most levels that may be classes or an ordered scale.
const FEW: f64 = 10.0;

/// The largest value of small numbers.
const SMALL: f64 = 30.0;

/// The interpretation of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// Counts.
    Counts,
    /// Numbers with so few distinct values that they may be levels.
    Few,
    /// Numbers: none is near 0.
    Far,
    /// Numbers: hardly any occurs twice.
    Single,
    /// Numbers: small ones are no more frequent than others.
    Even,
}

impl Whole {
    /// Returns the interpretation of these values, each given with its number of rows.
    pub fn of(mut values: Vec<(f64, u64)>) -> Whole {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(&(low, _)), Some(&(high, largest))) = (values.first(), values.last()) else {
            return Whole::Single;
        };
        let rows = values.iter().map(|(_, rows)| rows).sum::<u64>() as f64;
        let share = |least: f64, most: f64| {
            let inside = values.iter().filter(|(value, _)| (least..=most).contains(value));
            inside.map(|(_, rows)| rows).sum::<u64>() as f64 / rows
        };
        let few = high <= FEW;
        if few {
            let thins_out = share(0.0, 1.0) >= 0.5 && largest as f64 * 2.0 * values.len() as f64 <= rows;
            return if low == 0.0 && thins_out { Whole::Counts } else { Whole::Few };
        }
        if low > 1.0 {
            return Whole::Far;
        }
        if rows < 2.0 * values.len() as f64 {
            return Whole::Single;
        }
        let counts = if high <= SMALL {
            share(low, 0.5 * (low + high)) > 0.5 && share(0.25 * low + 0.75 * high, high) <= 0.125
        } else {
            share(1.0, 3.0) >= (9.0 / (high - low + 1.0)).max(0.01)
        };
        if counts { Whole::Counts } else { Whole::Even }
    }

    /// Returns the decision about numbers in this range in words, with its reason and the options that override it.
    pub fn words(self, low: f64, high: f64) -> String {
        let range = format!("whole numbers from {low} to {high}");
        let (why, options) = match self {
            Whole::Counts => {
                return format!(
                    "{range}, more small ones than large ones: they are taken for counts; ⟨task regression⟩ takes them for numbers"
                );
            }
            Whole::Few => ("so few that they may be levels", ", ⟨likelihood ordinal⟩ for ordered levels"),
            Whole::Far => ("none near 0", ""),
            Whole::Single => ("hardly any of them twice", ""),
            Whole::Even => ("no more small ones than large ones", ""),
        };
        // Held-out rows compare likelihoods of both kinds.
        let decided = if low == 0.0 && high > SMALL { " unless held-out rows favour counts" } else { "" };
        format!(
            "{range}, {why}: they are taken for numbers{decided}; ⟨task count⟩ takes them for counts{options}"
        )
    }
}
