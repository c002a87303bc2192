//! The running mean, variance and range of a stream of numbers, without cancellation or overflow.

use serde::{Deserialize, Serialize};

/// Running moments, by Welford's recurrences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Returns the moments of these values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Moments {
        let mut moments = Moments::default();
        values.into_iter().for_each(|value| moments.push(value));
        moments
    }

    /// Adds a value.
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The population variance (divided by the count), `None` without values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 0).then(|| self.squares / self.count as f64)
    }

    /// The standard error of the mean, the root of `s²/n` with the sample variance s²; `None` for
    /// fewer than two values.
    pub fn standard_error(&self) -> Option<f64> {
        let fewer = self.count.checked_sub(1).filter(|&fewer| fewer > 0)?;
        self.variance().map(|variance| (variance / fewer as f64).sqrt())
    }

    /// Adds the values of `other` (Chan, Golub & LeVeque 1979).
    pub fn merge(&mut self, other: Moments) {
        if other.count == 0 {
            return;
        }
        let count = self.count + other.count;
        let (between, share) = (other.mean - self.mean, other.count as f64 / count as f64);
        self.mean += between * share;
        self.squares += other.squares + between * between * share * self.count as f64;
        self.count = count;
    }

    /// Returns the moments of the values after multiplication by `ratio` and addition of `shift`.
    pub fn mapped(self, ratio: f64, shift: f64) -> Moments {
        Moments { mean: self.mean * ratio + shift, squares: self.squares * ratio * ratio, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_offset_costs_no_accuracy() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.variance()), (None, None));
        for value in [1.0, 2.0, 3.0, 4.0] {
            moments.push(1e9 + value);
        }
        assert_eq!(moments.count(), 4);
        assert_eq!(moments.mean(), Some(1e9 + 2.5));
        assert_eq!(moments.variance(), Some(1.25));
    }
}
