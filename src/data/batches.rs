//! The indices of the rows of each step of a fit (epochs, schedules of sizes, independent draws), and random generators by seed and purpose.

use crate::data::SizeSchedule;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The plan that chooses the rows of each step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum BatchPlan {
    /// Every epoch uses every row once, in batches of at most this many rows (0 counts as 1). Batch sizes differ by at most one, so that
    /// no batch is so small that its gradient is mostly noise.
    Epochs(usize),
    /// The schedule sets the number of rows, at most all, taken from one shuffled order after the other.
    Sized(SizeSchedule),
    /// The schedule sets the number of rows, at most all, drawn independently and with replacement.
    Independent(SizeSchedule),
}

impl BatchPlan {
    /// Returns the number of batches of the first pass over `n` rows.
    pub(crate) fn per_epoch(self, n: usize) -> usize {
        match self {
            BatchPlan::Epochs(batch) => n.div_ceil(batch.max(1)).max(1),
            BatchPlan::Sized(sizes) | BatchPlan::Independent(sizes) => {
                let (mut rows, mut batches) = (0, 0);
                while rows < n.max(1) {
                    rows += sizes.at(batches, n).max(1);
                    batches += 1;
                }
                batches
            }
        }
    }

    /// Returns the number of rows of the first batch out of `n`, which is the largest of an epoch.
    pub fn first(self, n: usize) -> usize {
        match self {
            BatchPlan::Epochs(_) => n.div_ceil(self.per_epoch(n)),
            BatchPlan::Sized(sizes) | BatchPlan::Independent(sizes) => sizes.at(0, n),
        }
    }
}

/// The batches of a plan in order; once the largest is drawn, no memory is allocated.
///
/// The batches of an epoch depend only on the seed and the epoch, so the stream can jump to any batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchStream {
    plan: BatchPlan,
    per_epoch: usize,
    n: usize,
    seed: u64,
    /// The rows in the order of the current epoch, and the number of rows taken.
    order: Vec<usize>,
    taken: usize,
    /// The number of batches left in the current epoch, if it has a fixed number.
    left: usize,
    epoch: u64,
    iteration: usize,
    drawn: Vec<usize>,
}

impl BatchStream {
    /// Creates the batches of the rows `0..n` (at least one).
    pub fn new(n: usize, plan: BatchPlan, seed: u64) -> Self {
        let per_epoch = plan.per_epoch(n);
        BatchStream {
            plan,
            per_epoch,
            n,
            seed,
            order: Vec::new(),
            taken: 0,
            left: 0,
            epoch: 0,
            iteration: 0,
            drawn: Vec::new(),
        }
    }

    /// Returns the number of batches of the first pass over all rows.
    pub fn per_epoch(&self) -> usize {
        self.per_epoch
    }

    /// Continues after the first `batches` batches; returns false if that is more than any fit draws.
    pub(crate) fn go_to(&mut self, batches: usize) -> bool {
        const MOST: usize = 1 << 30;
        if batches > MOST {
            return false;
        }
        *self = BatchStream::new(self.n, self.plan, self.seed);
        match self.plan {
            // The rows of independent batches depend only on the number of the batch.
            BatchPlan::Independent(_) => {}
            BatchPlan::Epochs(_) => {
                self.epoch = (batches / self.per_epoch) as u64;
                self.shuffle();
                (0..batches % self.per_epoch).for_each(|_| {
                    self.next_of_epoch();
                });
            }
            BatchPlan::Sized(sizes) => {
                let drawn: usize = (0..batches).map(|t| sizes.at(t, self.n)).sum();
                self.epoch = (drawn / self.n.max(1)) as u64;
                self.shuffle();
                self.taken = drawn % self.n.max(1);
            }
        }
        self.iteration = batches;
        true
    }

    pub fn next_batch(&mut self) -> &[usize] {
        let t = self.iteration;
        self.iteration += 1;
        match self.plan {
            BatchPlan::Epochs(_) => self.next_of_epoch(),
            BatchPlan::Sized(sizes) => {
                let size = sizes.at(t, self.n);
                self.drawn.clear();
                while self.drawn.len() < size {
                    if self.taken == self.order.len() {
                        self.shuffle();
                    }
                    let end = (self.taken + size - self.drawn.len()).min(self.order.len());
                    self.drawn.extend_from_slice(&self.order[self.taken..end]);
                    self.taken = end;
                }
                &self.drawn
            }
            BatchPlan::Independent(sizes) => {
                let size = sizes.at(t, self.n);
                let mut random = generator(self.seed, Purpose::Batches, t as u64);
                self.drawn.clear();
                self.drawn.extend((0..size).map(|_| random.random_range(0..self.n)));
                &self.drawn
            }
        }
    }

    /// Draws a new order of all rows, for the next epoch.
    fn shuffle(&mut self) {
        self.order.clear();
        self.order.extend(0..self.n);
        self.order.shuffle(&mut generator(self.seed, Purpose::Batches, self.epoch));
        self.epoch += 1;
        (self.taken, self.left) = (0, self.per_epoch);
    }

    /// Returns the next batch of the epoch: an even share of its remaining rows.
    fn next_of_epoch(&mut self) -> &[usize] {
        if self.left == 0 {
            self.shuffle();
        }
        let from = self.taken;
        self.taken += (self.n - from).div_ceil(self.left);
        self.left -= 1;
        &self.order[from..self.taken]
    }
}

/// The purpose of a generator; generators of different purposes are independent for the same seed. The number of a purpose is a part of the
/// key, so it may never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The split of the rows into training, validation and test rows.
    Split = 1,
    /// The order of the rows in one epoch.
    Batches = 2,
    /// The rows that a fit starts on.
    WarmStart = 3,
    /// The samples of Monte Carlo gradients.
    Estimator = 4,
    /// Draws of a model's predictions.
    Prediction = 5,
    /// The choice of a smaller training set from the training rows.
    Subset = 6,
    /// The random starts of a fit.
    Restart = 7,
    /// The held-out rows by which the number of inducing inputs is judged.
    Growth = 8,
    /// The sample of the rows of a file that stays in memory.
    Sample = 9,
    /// The merging of two samples into one.
    Merge = 10,
    /// The order of rows in which each is conditioned on earlier neighbours, and the sample of rows that a model keeps.
    Neighbours = 11,
    /// The rows of short fits, and the rows that judge them.
    Choices = 12,
    /// The training rows that score a finished fit and train its baselines.
    Baselines = 13,
    /// The rows and the orders of columns by which predictions are explained.
    Explanation = 14,
    /// Draws of functions from a posterior.
    Functions = 15,
    /// The folds of cross-fitted trees.
    Trees = 16,
}

/// Returns the generator for a seed, a purpose and a step (for example an epoch). Its numbers are the same on every platform, so a run
/// resumes at any step without the saved state of a generator.
pub fn generator(seed: u64, purpose: Purpose, step: u64) -> ChaCha8Rng {
    part_generator(seed, purpose, step, 0)
}

/// Like [`generator`], for one of the parts that the rows of a step are divided into; part 0 equals the generator without parts. The part
/// is the fourth word of the key, so generators of different steps and parts always differ.
pub fn part_generator(seed: u64, purpose: Purpose, step: u64, part: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip([seed, purpose as u64, step, part]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::RngExt;

    fn drawn(plan: BatchPlan, n: usize, batches: usize) -> Vec<Vec<usize>> {
        let mut stream = BatchStream::new(n, plan, 5);
        (0..batches).map(|_| stream.next_batch().to_vec()).collect()
    }

    #[test]
    fn a_seed_gives_these_batches_on_every_platform() {
        let mut stream = BatchStream::new(7, BatchPlan::Epochs(3), 7);
        assert!(stream.go_to(6));
        let epoch: Vec<_> = (0..3).map(|_| stream.next_batch().to_vec()).collect();
        assert_eq!(epoch, [vec![1, 0, 2], vec![5, 3], vec![6, 4]]);
    }

    proptest! {
        #[test]
        fn an_epoch_uses_every_row_once_in_batches_of_nearly_one_size(
            n in 1usize..400, batch in 1usize..70, seed: u64, epoch in 0usize..5
        ) {
            let plan = BatchPlan::Epochs(batch);
            let mut stream = BatchStream::new(n, plan, seed);
            let per_epoch = stream.per_epoch();
            prop_assert_eq!(per_epoch, n.div_ceil(batch));
            prop_assert!(stream.go_to(epoch * per_epoch));
            let parts: Vec<Vec<usize>> = (0..per_epoch).map(|_| stream.next_batch().to_vec()).collect();
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            let (most, least) = (sizes.iter().max(), sizes.iter().min());
            prop_assert!(most <= Some(&batch) && most == Some(&plan.first(n)));
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1));
            let mut all = parts.concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn scheduled_batches_go_through_one_order_after_the_other() {
        let growing = SizeSchedule::Power { exponent: 1.0 };
        let batches = drawn(BatchPlan::Sized(growing), 10, 6);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        let all: Vec<usize> = batches.concat();
        for pass in all.chunks_exact(10) {
            let mut rows = pass.to_vec();
            rows.sort_unstable();
            assert_eq!(rows, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(all[..10], all[10..20]);
        assert_eq!(BatchStream::new(10, BatchPlan::Sized(growing), 0).per_epoch(), 4);
        let capped = drawn(BatchPlan::Sized(SizeSchedule::Constant(99)), 7, 3);
        assert!(capped.iter().all(|batch| batch.len() == 7));
    }

    #[test]
    fn going_to_a_batch_leads_to_the_batches_after_it() {
        let growing = SizeSchedule::Power { exponent: 1.0 };
        let plans = [BatchPlan::Epochs(3), BatchPlan::Sized(growing), BatchPlan::Independent(growing)];
        for plan in plans {
            let batches = drawn(plan, 10, 25);
            for from in [0, 1, 4, 5, 8, 19] {
                let mut stream = BatchStream::new(10, plan, 5);
                stream.next_batch();
                assert!(stream.go_to(from));
                let rest: Vec<Vec<usize>> = (from..25).map(|_| stream.next_batch().to_vec()).collect();
                assert_eq!(rest, batches[from..], "{plan:?} from {from}");
            }
            assert!(!BatchStream::new(10, plan, 5).go_to(usize::MAX));
        }
    }

    #[test]
    fn only_seed_purpose_step_and_part_change_the_numbers() {
        let first = |seed, purpose, step| generator(seed, purpose, step).random::<u64>();
        let numbers = [
            first(0, Purpose::Split, 0),
            first(1, Purpose::Split, 0),
            first(0, Purpose::Batches, 0),
            first(0, Purpose::Split, 1),
            part_generator(0, Purpose::Split, 0, 1).random::<u64>(),
        ];
        for (i, a) in numbers.iter().enumerate() {
            assert!(numbers[..i].iter().all(|b| a != b));
        }
        assert_eq!(numbers[0], first(0, Purpose::Split, 0));
    }
}
