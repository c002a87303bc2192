//! The facts about an estimator of gradients, and the counts of its samples.

use crate::likelihood::LikelihoodKind;
use serde::{Deserialize, Serialize};

/// The random draws of an estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draws {
    /// No draws: gradients are not random.
    Nothing,
    /// Values of f for each row, for the log predictive density.
    LatentValues,
    /// Vectors w for all rows of a batch, for the expected log density.
    Weights,
}

/// The treatment of the entropy of q in the gradient of an estimator; the rule that moves q has to expect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntropyPart {
    /// The rule handles the entropy: gradients are of the data part, in (m, S).
    Exact,
    /// The entropy is left out, for rules that handle it without a gradient.
    LeftOut,
    /// The gradient of the entropy is added in closed form.
    Added,
    /// The gradient is that of log q along the sample path.
    AlongThePath,
}

/// The facts about an estimator, which determine the options that it can be combined with.
#[derive(Clone, Copy, Debug)]
pub struct EstimatorFacts {
    /// The text form, with L for samples and so on.
    pub(crate) usage: &'static str,
    /// The random draws.
    pub(crate) draws: Draws,
    /// True if it replaces the expected log density by a bound, or estimates its gradient; then it works only for the ELBO.
    pub of_expected_log: bool,
    /// The treatment of q's entropy.
    pub(crate) entropy: EntropyPart,
    /// The only likelihood that it works for, if it is limited to one.
    pub(crate) likelihood: Option<LikelihoodKind>,
}

impl EstimatorFacts {
    /// The exact estimator, in closed form or by quadrature, for every loss and likelihood.
    pub(super) const EXACT: EstimatorFacts = EstimatorFacts {
        usage: "exact",
        draws: Draws::Nothing,
        of_expected_log: false,
        entropy: EntropyPart::Exact,
        likelihood: None,
    };

    /// Returns the facts about an estimator from samples of w, which `gradient::sampling` draws.
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

/// The counts of a sampler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimatorCounts {
    /// The number of proposals of the rejection sampler.
    pub proposals: u64,
    /// The number of accepted samples.
    pub accepted: u64,
    /// The number of samples drawn by inverting the distribution function on a grid, because rejection took too many proposals.
    pub starved: u64,
}

impl EstimatorCounts {
    /// Adds the counts of another block.
    pub(crate) fn add(&mut self, other: EstimatorCounts) {
        self.proposals += other.proposals;
        self.accepted += other.accepted;
        self.starved += other.starved;
    }
}
