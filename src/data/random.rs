//! Random generators derived from a seed, a purpose and a step.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

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
    use rand::RngExt;

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
