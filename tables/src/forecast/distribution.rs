//! Predictive distributions as weighted values, which mix, scale and score in the same way for every likelihood.

use sparsegp::functions::normal;

/// The number of equally probable values that represent the distribution of one model.
pub(super) const ATOMS: usize = 200;

/// Returns the probability below the value with this index.
pub(super) fn level(index: usize) -> f64 {
    (index as f64 + 0.5) / ATOMS as f64
}

/// A distribution of one future value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Values in ascending order, each with its probability.
    atoms: Vec<(f64, f64)>,
}

impl Distribution {
    /// Mixes distributions, each given by its weight and [`ATOMS`] values of equal probability.
    pub(super) fn mixture(parts: &[(f64, Vec<f64>)]) -> Distribution {
        let total: f64 = parts.iter().map(|(weight, values)| weight * values.len() as f64).sum();
        let atoms =
            parts.iter().flat_map(|(weight, values)| values.iter().map(move |&x| (x, weight / total)));
        let mut atoms: Vec<(f64, f64)> = atoms.collect();
        atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
        Distribution { atoms }
    }

    /// Returns a normal distribution.
    pub(super) fn normal(mean: f64, deviation: f64) -> Distribution {
        let values = (0..ATOMS).map(|index| mean + deviation * normal::quantile(level(index)));
        Distribution::mixture(&[(1.0, values.collect())])
    }

    /// Returns the distribution of a function that rises with the value.
    pub(super) fn map(&self, rise: impl Fn(f64) -> f64) -> Distribution {
        Distribution { atoms: self.atoms.iter().map(|&(value, share)| (rise(value), share)).collect() }
    }

    /// Multiplies all distances from the median by a factor.
    pub(super) fn widened(&self, factor: f64) -> Distribution {
        let median = self.median();
        self.map(|value| median + factor * (value - median))
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        self.atoms.iter().map(|(value, share)| value * share).sum()
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the quantile of a probability, interpolated between the values.
    pub fn quantile(&self, p: f64) -> f64 {
        let (mut below, mut before) = (0.0, None::<(f64, f64)>);
        for &(value, share) in &self.atoms {
            let middle = below + 0.5 * share;
            if middle >= p {
                return before.map_or(value, |(at, last)| last + (value - last) * (p - at) / (middle - at));
            }
            before = Some((middle, value));
            below += share;
        }
        before.map_or(f64::NAN, |(_, last)| last)
    }

    /// Returns the continuous ranked probability score of an outcome, `E|Y − y| − ½ E|Y − Y'|`, in the unit of the target.
    pub fn crps(&self, outcome: f64) -> f64 {
        let (mut below, mut spread, mut distance) = (0.0, 0.0, 0.0);
        for &(value, share) in &self.atoms {
            distance += share * (value - outcome).abs();
            // Σ_ij p_i p_j |y_i − y_j| = 2 Σ_i p_i y_i (P(Y < y_i) − P(Y > y_i)).
            spread += share * value * (2.0 * below + share - 1.0);
            below += share;
        }
        distance - spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normal_distribution_has_its_quantiles_and_its_score() {
        let normal = Distribution::normal(3.0, 2.0);
        assert!((normal.median() - 3.0).abs() < 1e-9);
        assert!((normal.mean() - 3.0).abs() < 1e-9);
        assert!((normal.quantile(0.975) - (3.0 + 2.0 * 1.959_964)).abs() < 0.01);
        // σ (2φ(0) − 1/√π) for an outcome at the mean.
        let exact = 2.0 * (2.0 * 0.398_942 - 0.564_190);
        assert!((normal.crps(3.0) - exact).abs() < 0.005, "{}", normal.crps(3.0));
        let wide = normal.widened(1.5);
        assert!((wide.quantile(0.975) - 3.0 - 1.5 * (normal.quantile(0.975) - 3.0)).abs() < 1e-9);
    }

    #[test]
    fn mixtures_weigh_their_parts() {
        let mixed = Distribution::mixture(&[(3.0, vec![0.0; ATOMS]), (1.0, vec![8.0; ATOMS])]);
        assert!((mixed.mean() - 2.0).abs() < 1e-12);
        assert_eq!((mixed.quantile(0.5), mixed.quantile(0.9)), (0.0, 8.0));
    }
}
