//! The random numbers of a pass: the generators of its blocks and samples, and the state that a checkpoint keeps.

use super::BatchPass;
use super::sampling::Sampling;
use crate::checkpoint::MOST;
use crate::data::{Purpose, part_generator};
use crate::objective::EstimatorCounts;
use faer::Mat;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// A number of samples of w above that of any pass; a saved state with more samples is damaged.
const MOST_SAMPLES: usize = 1 << 20;

/// The numbers that determine the random numbers of a pass, besides their purpose.
///
/// A generator has a seed, a step of 64 bits and a part. The upper 32 bits of the step are the number of the pass. The lower bits are the
/// number of the block of rows within its part, or 2³² − 1 for the samples of w, which use part 0 in every part, so all parts have the
/// same samples. Part 0 draws the same numbers as a pass over all rows. A pass has fewer than 2³² − 1 blocks of at least 64 rows; after
/// 2³² passes the numbers repeat.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draws {
    pub seed: u64,
    pub pass: u64,
    pub part: u64,
}

impl Draws {
    /// The number of passes with different random numbers.
    pub(super) const PASSES: u64 = 1 << 32;

    /// The lower half of the step for the samples of w.
    const WEIGHTS: u64 = 0xFFFF_FFFF;

    pub(super) fn of_block(self, block: usize) -> ChaCha8Rng {
        let block = block as u64;
        debug_assert!(block < Draws::WEIGHTS, "block {block} of a pass");
        part_generator(self.seed, Purpose::Estimator, self.step(block), self.part)
    }

    pub(super) fn of_weights(self) -> ChaCha8Rng {
        part_generator(self.seed, Purpose::Estimator, self.step(Draws::WEIGHTS), 0)
    }

    fn step(self, lower: u64) -> u64 {
        ((self.pass % Draws::PASSES) << 32) | lower
    }
}

/// The state of a pass's random numbers, and its counts.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct DrawState {
    runs: u64,
    samples: usize,
    counts: EstimatorCounts,
}

impl BatchPass {
    /// Seeds the draws of sampling estimators. The numbers of each later run do not depend on the
    /// number of threads.
    pub fn seed(&mut self, seed: u64) {
        (self.seed, self.runs) = (seed, 0);
    }

    /// Goes to the random numbers of run `run`, counted from 0. They depend only on the seed and
    /// the run, not on earlier runs.
    pub fn go_to_run(&mut self, run: u64) {
        self.runs = run;
    }

    /// Returns the seed, and the number of the current or next run.
    pub(crate) fn next_run(&self) -> (u64, u64) {
        (self.seed, self.runs)
    }

    /// Sets the number of samples of w per later run, if the estimator draws any.
    pub(crate) fn set_samples(&mut self, count: usize) {
        if let Some(sampling) = &mut self.sampling {
            sampling.set_count(count);
            let (m, slopes) = (self.processes[0].mean.len(), sampling.slopes());
            if slopes != self.sums.slopes.ncols() {
                self.sums.slopes = Mat::zeros(m, slopes);
            }
        }
    }

    pub(crate) fn samples(&self) -> usize {
        self.sampling.as_ref().map_or(0, Sampling::count)
    }

    /// Continues the random numbers and the counts of `other`, which was used for the same problem
    /// with other buffers.
    pub(crate) fn go_on_from(&mut self, other: &BatchPass) {
        (self.seed, self.runs, self.counts) = (other.seed, other.runs, other.counts);
        self.set_samples(other.samples());
    }

    /// Returns the state of the random numbers, and the counts, for a checkpoint.
    pub(crate) fn draws(&self) -> DrawState {
        DrawState { runs: self.runs, samples: self.samples(), counts: self.counts }
    }

    /// Continues from the state of another pass; returns false if its counts are impossible.
    pub(crate) fn set_draws(&mut self, DrawState { runs, samples, counts }: DrawState) -> bool {
        let numbers = [runs, counts.proposals, counts.accepted, counts.starved];
        let suits = samples <= MOST_SAMPLES && numbers.iter().all(|&n| n <= MOST as u64);
        if suits {
            self.set_samples(samples);
            (self.runs, self.counts) = (runs, counts);
        }
        suits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::generator;
    use rand::RngExt;

    #[test]
    fn draws_depend_on_pass_block_and_part_and_those_of_w_on_the_pass_alone() {
        let draws = |pass, part| Draws { seed: 7, pass, part };
        let first = |mut random: ChaCha8Rng| random.random::<u64>();
        let known = |step| first(generator(7, Purpose::Estimator, step));
        assert_eq!(first(draws(3, 0).of_block(5)), known(3 << 32 | 5));
        assert_eq!(first(draws(3, 0).of_weights()), known(3 << 32 | 0xFFFF_FFFF));
        assert_eq!(first(draws(3, 9).of_weights()), known(3 << 32 | 0xFFFF_FFFF));
        let all = [(3, 5, 0), (3, 5, 1), (3, 5, u64::MAX), (3, 6, 1), (4, 5, 1), (Draws::PASSES - 1, 5, 1)];
        let numbers = all.map(|(pass, block, part)| first(draws(pass, part).of_block(block)));
        for (i, number) in numbers.iter().enumerate() {
            assert!(!numbers[..i].contains(number), "{:?}", all[i]);
        }
        // After 2³² passes the numbers repeat.
        assert_eq!(first(draws(3 + Draws::PASSES, 2).of_block(5)), first(draws(3, 2).of_block(5)));
    }
}
