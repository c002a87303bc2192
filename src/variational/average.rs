//! Averages of the iterates (m, S) of a fit: in expectation parameters, or over the tail.

use crate::checkpoint::MOST;
use crate::error::{Error, Result};
use crate::words::word_option;
use serde::{Deserialize, Serialize};

word_option! {
    /// The q that a fit returns: its last iterate, or an average of its iterates.
    #[non_exhaustive]
    Average, "average of the iterates" {
        /// The last iterate.
        None = "none",
        /// The expectation parameters (m, S + m mᵀ) with weights 2(t+1)/((T+1)(T+2)), t = 0, …, T (Wu & Gardner 2024).
        Expectation = "expectation",
        /// Plain averages of m and of S over the later half to three quarters of the iterates (Polyak).
        Tail = "tail",
    }
}

/// A running average of iterates, which are added one by one.
///
/// An iterate is a mean (M) and a `second`: S column-major (`M × M`) or, for a diagonal S, its diagonal (M).
///
/// *Expectation.* With iterates t = 0, …, T, the average of (m, S + m mᵀ) with weights 2(t+1)/((T+1)(T+2)) is kept as
/// (m̄, S̄), so that S̄ = avg(S + m mᵀ) − m̄ m̄ᵀ. The newest iterate has weight a = 2/(t+2), and
///
/// ```text
/// m̄₊ = m̄ + a (m − m̄),    S̄₊ = (1 − a) S̄ + a S + a (1 − a) (m − m̄)(m − m̄)ᵀ
/// ```
///
/// which subtracts no squares, and is positive definite because every term is positive semi-definite.
///
/// *Tail.* After c iterates, 2^k ≤ c < 2^(k+1), the average is that of iterates 2^(k−1), …, c
/// counted from 1. For c = 1 that is the only iterate; for c > 1 it is a share of at least ½ + 1/c
/// and at most ¾ + 3/(4c) of all iterates. The average is combined from the blocks
/// [2^(k−1), 2^k) and [2^k, c], so that no older iterates have to be kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IterateAverage {
    rule: Average,
    count: usize,
    dim: usize,
    /// The expectation parameters, or the tail's older block.
    older: RunningMean,
    /// The tail's newer block.
    newer: RunningMean,
}

/// An average of `count` iterates.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct RunningMean {
    count: usize,
    mean: Vec<f64>,
    second: Vec<f64>,
}

impl RunningMean {
    fn resize(&mut self, mean: usize, second: usize) {
        self.mean.resize(mean, 0.0);
        self.second.resize(second, 0.0);
    }

    /// Moves the averages towards an iterate that gets the share `weight`.
    fn mix(&mut self, mean: &[f64], second: &[f64], weight: f64) {
        self.count += 1;
        blend(&mut self.mean, mean, weight);
        blend(&mut self.second, second, weight);
    }

    /// Adds `weight · (m − m̄)(m − m̄)ᵀ`, or its diagonal, to the averaged S.
    fn spread(&mut self, mean: &[f64], weight: f64) {
        let dim = mean.len();
        if self.second.len() == dim {
            for ((s, m), average) in self.second.iter_mut().zip(mean).zip(&self.mean) {
                *s += weight * (m - average) * (m - average);
            }
            return;
        }
        for ((column, m), average) in self.second.chunks_exact_mut(dim).zip(mean).zip(&self.mean) {
            let scale = weight * (m - average);
            for ((s, m), average) in column.iter_mut().zip(mean).zip(&self.mean) {
                *s += scale * (m - average);
            }
        }
    }
}

/// `x ← (1 − a) x + a y`. With a = 1, x is replaced, even if it is not finite.
fn blend(x: &mut [f64], y: &[f64], weight: f64) {
    if weight == 1.0 {
        return x.copy_from_slice(y);
    }
    for (x, y) in x.iter_mut().zip(y) {
        *x = (1.0 - weight) * *x + weight * y;
    }
}

impl IterateAverage {
    /// Creates an average without iterates.
    pub fn new(rule: Average) -> Self {
        IterateAverage {
            rule,
            count: 0,
            dim: 0,
            older: RunningMean::default(),
            newer: RunningMean::default(),
        }
    }

    /// Adds the next iterate: `mean` (M) and `second` (M², column-major, or M for a diagonal). Only the first call allocates.
    ///
    /// Returns a usage error if the lengths do not match each other or those of the first iterate.
    pub fn push(&mut self, mean: &[f64], second: &[f64]) -> Result<()> {
        self.check(mean, second)?;
        self.count += 1;
        match self.rule {
            Average::None => {}
            Average::Expectation => {
                // Iterate t = count − 1 has the share 2/(t + 2), the first one all of it.
                let weight = 2.0 / (self.count as f64 + 1.0);
                // The factor 1 − a of the scatter comes with the mixing.
                self.older.spread(mean, weight);
                self.older.mix(mean, second, weight);
            }
            Average::Tail => {
                if self.count.is_power_of_two() {
                    std::mem::swap(&mut self.older, &mut self.newer);
                    self.newer.count = 0;
                }
                let weight = 1.0 / (self.newer.count as f64 + 1.0);
                self.newer.mix(mean, second, weight);
            }
        }
        Ok(())
    }

    fn check(&mut self, mean: &[f64], second: &[f64]) -> Result<()> {
        let (m, s) = (mean.len(), second.len());
        if s != m && s != m * m {
            return Err(Error::usage(format!(
                "an iterate has {m} means and {s} covariances, expected {m} or {m}² covariances"
            )));
        }
        if self.count == 0 {
            self.dim = m;
            self.older.resize(m, s);
            self.newer.resize(m, s);
        } else if self.dim != m || self.older.second.len() != s {
            return Err(Error::usage(format!(
                "an iterate has {m} means and {s} covariances, expected {} and {} as in earlier iterates",
                self.dim,
                self.older.second.len()
            )));
        }
        Ok(())
    }

    /// Returns true if an average that was read is one of iterates with these numbers of means and covariances by the same rule.
    pub(crate) fn suits(&self, rule: Average, means: usize, covariances: usize) -> bool {
        let suits = |block: &RunningMean| {
            (block.mean.len(), block.second.len()) == (means, covariances) && block.count <= MOST
        };
        let begun = self.count <= MOST && self.dim == means && suits(&self.older) && suits(&self.newer);
        self.rule == rule && (self.count == 0 || begun)
    }

    /// Returns the number of iterates so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the averages m̄ (M) and S̄ (shaped like `second`); `None` before the first iterate
    /// and for [`Average::None`].
    pub fn result(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        if self.count == 0 || self.rule == Average::None {
            return None;
        }
        let mut both = self.older.clone();
        if self.newer.count > 0 {
            let share = self.newer.count as f64 / (self.newer.count + both.count) as f64;
            both.mix(&self.newer.mean, &self.newer.second, share);
        }
        Some((both.mean, both.second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::symmetric_eigen;
    use faer::MatRef;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};

    type Iterate = (Vec<f64>, Vec<f64>);

    /// Returns means far from 0 compared with the covariances R Rᵀ + 0.1 I (full) or their
    /// diagonals.
    fn iterates(count: usize, m: usize, full: bool, seed: u64) -> Vec<Iterate> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut random) };
        let mut one = || {
            let mean = (0..m).map(|_| 100.0 + normal()).collect();
            let r: Vec<f64> = (0..m * m).map(|_| normal()).collect();
            let entry = |i: usize, j: usize| -> f64 {
                let product: f64 = (0..m).map(|k| r[i + k * m] * r[j + k * m]).sum();
                product + if i == j { 0.1 } else { 0.0 }
            };
            let all = (0..m * m).filter(|at| full || at / m == at % m).map(|at| entry(at % m, at / m));
            (mean, all.collect())
        };
        (0..count).map(|_| one()).collect()
    }

    fn averaged(rule: Average, iterates: &[Iterate]) -> Iterate {
        let mut average = IterateAverage::new(rule);
        for (mean, second) in iterates {
            average.push(mean, second).expect("shapes go together");
        }
        assert_eq!(average.count(), iterates.len());
        average.result().expect("an average")
    }

    /// Returns the indices in m of the row and the column of entry `at` of S.
    fn indices(at: usize, m: usize, full: bool) -> (usize, usize) {
        if full { (at % m, at / m) } else { (at, at) }
    }

    /// Computes the average from its definition: Σ w m and Σ w (S + m mᵀ) − m̄ m̄ᵀ.
    fn expectation(iterates: &[Iterate], full: bool) -> Iterate {
        let (count, m) = (iterates.len() as f64, iterates[0].0.len());
        let weight = |t: usize| 2.0 * (t as f64 + 1.0) / (count * (count + 1.0));
        let weighted = |term: &dyn Fn(&Iterate) -> f64| -> f64 {
            iterates.iter().enumerate().map(|(t, iterate)| weight(t) * term(iterate)).sum()
        };
        let mean: Vec<f64> = (0..m).map(|i| weighted(&|(mean, _)| mean[i])).collect();
        let second = (0..iterates[0].1.len()).map(|at| {
            let (i, j) = indices(at, m, full);
            weighted(&|(mean, second)| second[at] + mean[i] * mean[j]) - mean[i] * mean[j]
        });
        (mean.clone(), second.collect())
    }

    fn plain(iterates: &[Iterate]) -> Iterate {
        let sum =
            |part: &dyn Fn(&Iterate) -> f64| iterates.iter().map(part).sum::<f64>() / iterates.len() as f64;
        let (m, s) = (iterates[0].0.len(), iterates[0].1.len());
        ((0..m).map(|i| sum(&|it| it.0[i])).collect(), (0..s).map(|i| sum(&|it| it.1[i])).collect())
    }

    fn assert_same(got: &Iterate, want: &Iterate, tolerance: f64) {
        let both = got.0.iter().zip(&want.0).chain(got.1.iter().zip(&want.1));
        for (g, w) in both {
            assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{g} instead of {w}");
        }
        assert_eq!((got.0.len(), got.1.len()), (want.0.len(), want.1.len()));
    }

    proptest! {
        #[test]
        fn expectation_parameters_are_averaged_with_growing_weights(
            count in 1usize..40, m in 1usize..5, full: bool, seed: u64
        ) {
            let iterates = iterates(count, m, full, seed);
            // The definition subtracts squares of 100, so its result is the less accurate one.
            let got = averaged(Average::Expectation, &iterates);
            assert_same(&got, &expectation(&iterates, full), 1e-9);
        }

        #[test]
        fn the_tail_starts_at_the_block_before_the_newest(
            count in 1usize..70, m in 1usize..4, full: bool, seed: u64
        ) {
            let iterates = iterates(count, m, full, seed);
            let first = (1 << count.ilog2()) / 2;
            let tail = &iterates[first.max(1) - 1..];
            let kept = tail.len();
            prop_assert!(count == 1 || (2 * kept >= count + 2 && 4 * kept <= 3 * (count + 1)));
            assert_same(&averaged(Average::Tail, &iterates), &plain(tail), 1e-12);
        }

        #[test]
        fn averages_of_covariances_are_positive_definite(count in 1usize..30, m in 1usize..5, seed: u64) {
            let iterates = iterates(count, m, true, seed);
            for rule in [Average::Expectation, Average::Tail] {
                let (_, second) = averaged(rule, &iterates);
                let s = MatRef::from_column_major_slice(&second, m, m);
                let (values, _) = symmetric_eigen(s).expect("finite");
                // No S has an eigenvalue below 0.1, and the scatter of the means can only increase
                // eigenvalues.
                prop_assert!(values[0] >= 0.1 * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn without_an_average_or_iterates_there_is_no_result() {
        let mut average = IterateAverage::new(Average::None);
        average.push(&[1.0], &[1.0]).expect("shapes go together");
        assert_eq!((average.result(), average.count()), (None, 1));
        assert_eq!(IterateAverage::new(Average::Tail).result(), None);
    }

    #[test]
    fn shapes_that_do_not_go_together_are_refused() {
        let mut average = IterateAverage::new(Average::Tail);
        assert!(average.push(&[1.0, 2.0], &[1.0, 0.0, 0.0]).is_err());
        average.push(&[1.0, 2.0], &[1.0, 1.0]).expect("a diagonal");
        assert!(average.push(&[1.0, 2.0], &[1.0, 0.0, 0.0, 1.0]).is_err());
        assert!(average.push(&[1.0], &[1.0]).is_err());
        assert_eq!(average.result(), Some((vec![1.0, 2.0], vec![1.0, 1.0])));
    }
}
