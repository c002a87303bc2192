//! Random generators derived from a seed, a purpose and a step.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The purpose of a generator; generators of different purposes are independent for the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// The split of the rows into training, validation and test rows.
    Split,
    /// The order of the rows in one epoch.
    Batches,
    /// The rows that a fit starts on.
    WarmStart,
    /// The samples of Monte Carlo gradients.
    Estimator,
    /// Draws of a model's predictions.
    Prediction,
    /// The choice of a smaller training set from the training rows.
    Subset,
    /// The random starts of a fit.
    Restart,
    /// The held-out rows by which the number of inducing inputs is judged.
    Growth,
    /// The sample of the rows of a file that stays in memory.
    Sample,
    /// The merging of two samples into one.
    Merge,
    /// The order of rows in which each is conditioned on earlier neighbours, and the sample of rows that a model keeps.
    Neighbours,
    /// The rows of short fits, and the rows that judge them.
    Choices,
    /// The training rows that score a finished fit and train its baselines.
    Baselines,
    /// The rows and the orders of columns by which predictions are explained.
    Explanation,
    /// Draws of functions from a posterior.
    Functions,
}

impl Purpose {
    /// Returns the number of the purpose in the key, which may never change for an existing
    /// purpose.
    fn tag(self) -> u64 {
        match self {
            Purpose::Split => 1,
            Purpose::Batches => 2,
            Purpose::WarmStart => 3,
            Purpose::Estimator => 4,
            Purpose::Prediction => 5,
            Purpose::Subset => 6,
            Purpose::Restart => 7,
            Purpose::Growth => 8,
            Purpose::Sample => 9,
            Purpose::Merge => 10,
            Purpose::Neighbours => 11,
            Purpose::Choices => 12,
            Purpose::Baselines => 13,
            Purpose::Explanation => 14,
            Purpose::Functions => 15,
        }
    }
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
    for (bytes, word) in key.chunks_exact_mut(8).zip([seed, purpose.tag(), step, part]) {
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
