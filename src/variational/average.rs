//! Averages of the iterates (m, S) of a fit: in expectation parameters, or over the tail.

use super::{Matrix, MatrixRef, Normal};
use crate::checkpoint::MOST;
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
#[doc(hidden)]
pub struct IterateAverage {
    rule: Average,
    count: usize,
    /// The expectation parameters, or the tail's older block.
    older: RunningMean,
    /// The tail's newer block.
    newer: RunningMean,
}

/// An average of `count` iterates.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunningMean {
    count: usize,
    mean: Vec<f64>,
    cov: Matrix,
}

impl RunningMean {
    /// Moves the averages towards an iterate that gets the share `weight`.
    fn mix(&mut self, mean: &[f64], cov: MatrixRef<'_>, weight: f64) {
        self.count += 1;
        blend(self.mean.iter_mut(), mean.iter(), weight);
        match (&mut self.cov, cov) {
            (Matrix::Full(own), MatrixRef::Full(cov)) => {
                let columns = own.col_iter_mut().zip(cov.col_iter());
                columns.for_each(|(own, cov)| blend(own.iter_mut(), cov.iter(), weight));
            }
            (own, cov) => blend(own.diagonal_mut().iter_mut(), cov.diagonal().iter(), weight),
        }
    }

    /// Adds `weight · (m − m̄)(m − m̄)ᵀ`, or its diagonal, to the averaged S.
    fn spread(&mut self, mean: &[f64], weight: f64) {
        let off: Vec<f64> = mean.iter().zip(&self.mean).map(|(m, average)| m - average).collect();
        match &mut self.cov {
            Matrix::Full(cov) => {
                for (column, scale) in cov.col_iter_mut().zip(&off) {
                    column.iter_mut().zip(&off).for_each(|(s, off)| *s += weight * scale * off);
                }
            }
            Matrix::Diagonal(cov) => cov.iter_mut().zip(&off).for_each(|(s, off)| *s += weight * off * off),
        }
    }
}

/// `x ← (1 − a) x + a y`. With a = 1, x is replaced, even if it is not finite.
fn blend<'a>(x: impl Iterator<Item = &'a mut f64>, y: impl Iterator<Item = &'a f64>, weight: f64) {
    x.zip(y).for_each(|(x, y)| *x = if weight == 1.0 { *y } else { (1.0 - weight) * *x + weight * y });
}

impl IterateAverage {
    /// Creates an average without iterates.
    pub fn new(rule: Average) -> Self {
        let empty = || RunningMean { count: 0, mean: Vec::new(), cov: Matrix::Diagonal(Vec::new()) };
        IterateAverage { rule, count: 0, older: empty(), newer: empty() }
    }

    /// Adds the next iterate: its mean (M) and its covariance, of the family and dimension of the first iterate.
    pub fn push(&mut self, mean: &[f64], cov: MatrixRef<'_>) {
        if self.count == 0 {
            for block in [&mut self.older, &mut self.newer] {
                (block.mean, block.cov) = (vec![0.0; mean.len()], cov.to_zeros());
            }
        }
        self.count += 1;
        match self.rule {
            Average::None => {}
            Average::Expectation => {
                // Iterate t = count − 1 has the share 2/(t + 2), the first one all of it.
                let weight = 2.0 / (self.count as f64 + 1.0);
                // The factor 1 − a of the scatter comes with the mixing.
                self.older.spread(mean, weight);
                self.older.mix(mean, cov, weight);
            }
            Average::Tail => {
                if self.count.is_power_of_two() {
                    std::mem::swap(&mut self.older, &mut self.newer);
                    self.newer.count = 0;
                }
                let weight = 1.0 / (self.newer.count as f64 + 1.0);
                self.newer.mix(mean, cov, weight);
            }
        }
    }

    /// Returns true if an average that was read is one of iterates like `q` by the same rule.
    pub(crate) fn suits(&self, rule: Average, q: &Normal) -> bool {
        let suits = |block: &RunningMean| {
            block.mean.len() == q.dim() && block.cov.as_ref().is_like(q.cov()) && block.count <= MOST
        };
        let begun = self.count <= MOST && suits(&self.older) && suits(&self.newer);
        self.rule == rule && (self.count == 0 || begun)
    }

    /// Returns the averages m̄ and S̄; `None` before the first iterate and for [`Average::None`].
    pub fn result(&self) -> Option<(Vec<f64>, Matrix)> {
        if self.count == 0 || self.rule == Average::None {
            return None;
        }
        let mut both = self.older.clone();
        if self.newer.count > 0 {
            let share = self.newer.count as f64 / (self.newer.count + both.count) as f64;
            both.mix(&self.newer.mean, self.newer.cov.as_ref(), share);
        }
        Some((both.mean, both.cov))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Mat;
    use proptest::prelude::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;
    use rand_distr::{Distribution, StandardNormal};

    type Iterate = (Vec<f64>, Matrix);

    /// Returns means far from 0 compared with the covariances R Rᵀ + 0.1 I (full) or their
    /// diagonals.
    fn iterates(count: usize, m: usize, full: bool, seed: u64) -> Vec<Iterate> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut random) };
        let mut one = || {
            let mean = (0..m).map(|_| 100.0 + normal()).collect();
            let r = Mat::from_fn(m, m, |_, _| normal());
            let cov = &r * r.transpose() + Mat::<f64>::identity(m, m) * faer::Scale(0.1);
            let diagonal = (0..m).map(|i| cov[(i, i)]).collect();
            (mean, if full { Matrix::Full(cov) } else { Matrix::Diagonal(diagonal) })
        };
        (0..count).map(|_| one()).collect()
    }

    fn averaged(rule: Average, iterates: &[Iterate]) -> Iterate {
        let mut average = IterateAverage::new(rule);
        iterates.iter().for_each(|(mean, cov)| average.push(mean, cov.as_ref()));
        assert_eq!(average.count, iterates.len());
        average.result().expect("an average")
    }

    /// Computes the averages of the means and of `S + scatter · m mᵀ`, without the scatter of the average, from their definition.
    fn defined(iterates: &[Iterate], weight: impl Fn(usize) -> f64, scatter: f64) -> (Vec<f64>, Mat<f64>) {
        let m = iterates[0].0.len();
        let weighted = |term: &dyn Fn(&Iterate) -> f64| -> f64 {
            iterates.iter().enumerate().map(|(t, iterate)| weight(t) * term(iterate)).sum()
        };
        let mean: Vec<f64> = (0..m).map(|i| weighted(&|(mean, _)| mean[i])).collect();
        let entry = |i: usize, j: usize| {
            let of_iterate =
                |(mean, cov): &Iterate| cov.as_ref().to_dense()[(i, j)] + scatter * mean[i] * mean[j];
            weighted(&of_iterate) - scatter * mean[i] * mean[j]
        };
        let second = Mat::from_fn(m, m, entry);
        (mean, second)
    }

    /// Compares an average with its definition, off the diagonal only if the iterates are full.
    fn assert_same((mean, cov): &Iterate, want: &(Vec<f64>, Mat<f64>), tolerance: f64) {
        let (own, m) = (cov.as_ref().to_dense(), mean.len());
        let is_kept = |i: usize, j: usize| i == j || matches!(cov, Matrix::Full(_));
        let entries = (0..m * m).map(|at| (at / m, at % m)).filter(|&(i, j)| is_kept(i, j));
        let entries = entries.map(|at| (own[at], want.1[at]));
        for (g, w) in mean.iter().copied().zip(want.0.iter().copied()).chain(entries) {
            assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{g} instead of {w}");
        }
        assert_eq!((mean.len(), own.shape()), (want.0.len(), want.1.shape()));
    }

    proptest! {
        #[test]
        fn expectation_parameters_are_averaged_with_growing_weights(
            count in 1usize..40, m in 1usize..5, full: bool, seed: u64
        ) {
            let iterates = iterates(count, m, full, seed);
            let weight = |t: usize| 2.0 * (t as f64 + 1.0) / (count * (count + 1)) as f64;
            // The definition subtracts squares of 100, so its result is the less accurate one.
            assert_same(&averaged(Average::Expectation, &iterates), &defined(&iterates, weight, 1.0), 1e-9);
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
            assert_same(&averaged(Average::Tail, &iterates), &defined(tail, |_| 1.0 / kept as f64, 0.0), 1e-12);
        }
    }
}
