//! What an estimator of gradients states of itself, and the counts of what its sampling did.

use crate::likelihood::LikelihoodKind;
use serde::{Deserialize, Serialize};

/// What an estimator draws to compute gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// Nothing: gradients are not random.
    Nothing,
    /// Values of f for each datum, for the log predictive density.
    LatentValues,
    /// Vectors w for all data of a batch, for the expected log density.
    Weights,
}

/// What becomes of the entropy of q in the gradient of an estimator, which the rule that moves q has to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntropyPart {
    /// Rules see to it themselves: gradients are of the data part, in (m, S).
    Exact,
    /// It is left out, for rules that have it without a gradient.
    LeftOut,
    /// Its gradient is added in closed form.
    Added,
    /// Its gradient is that of log q along the sample path.
    AlongThePath,
}

/// What an estimator states of itself, which decides about the options that go with it.
#[derive(Clone, Copy, Debug)]
pub struct EstimatorFacts {
    /// How it is written, with L samples and the like.
    pub usage: &'static str,
    /// What it draws.
    pub draws: Draws,
    /// Whether it replaces the expected log density by a bound, or estimates its gradient: then it is for the ELBO alone.
    pub of_expected_log: bool,
    /// Where q's entropy is.
    pub entropy: EntropyPart,
    /// The one likelihood that it is for, if there is one.
    pub likelihood: Option<LikelihoodKind>,
}

impl EstimatorFacts {
    /// In closed form or by quadrature, whatever the loss and the likelihood.
    pub(super) const EXACT: EstimatorFacts = EstimatorFacts {
        usage: "exact",
        draws: Draws::Nothing,
        of_expected_log: false,
        entropy: EntropyPart::Exact,
        likelihood: None,
    };

    /// From samples of w, which `gradient::sampling` draws.
    pub(super) const fn of_weights(usage: &'static str, entropy: EntropyPart) -> EstimatorFacts {
        EstimatorFacts {
            usage,
            draws: Draws::Weights,
            of_expected_log: true,
            entropy,
            ..EstimatorFacts::EXACT
        }
    }
}

/// What sampling did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimatorCounts {
    /// Proposals of the rejection sampler.
    pub proposals: u64,
    /// Samples it accepted.
    pub accepted: u64,
    /// Samples drawn by inverting the distribution function on a grid, because rejection starved.
    pub starved: u64,
}

impl EstimatorCounts {
    /// Adds the counts of another block.
    pub fn add(&mut self, other: EstimatorCounts) {
        self.proposals += other.proposals;
        self.accepted += other.accepted;
        self.starved += other.starved;
    }
}
