//! The likelihoods by name: what a user writes, the targets each is for, and how to make one; no formulae.

use super::{BernoulliLogit, BernoulliProbit, Gaussian, Likelihood, PoissonExp};
use crate::data::{TargetKind, Task};
use crate::words::words;

words! {
    /// A family of likelihoods.
    LikelihoodKind, "likelihood" {
        /// y = f + noise with variance σ².
        Gaussian = "gaussian",
        /// Class 1 with probability Φ(f).
        BernoulliProbit = "bernoulli-probit",
        /// Class 1 with probability 1/(1 + e^{−f}).
        BernoulliLogit = "bernoulli-logit",
        /// A count with rate e^f.
        Poisson = "poisson",
    }
}

impl LikelihoodKind {
    /// The targets it is defined on.
    pub fn target_kind(self) -> TargetKind {
        match self {
            LikelihoodKind::Gaussian => TargetKind::Real,
            LikelihoodKind::BernoulliProbit | LikelihoodKind::BernoulliLogit => TargetKind::Binary,
            LikelihoodKind::Poisson => TargetKind::Count,
        }
    }

    /// Whether the target is standardised: location and scale of f then absorb it.
    pub fn scales_target(self) -> bool {
        self.target_kind() == TargetKind::Real
    }

    /// The likelihood of a task when none is named.
    pub fn default_for(task: Task) -> Self {
        match task {
            Task::Classification => LikelihoodKind::BernoulliProbit,
            Task::Count => LikelihoodKind::Poisson,
            Task::Regression | Task::Ordinal => LikelihoodKind::Gaussian,
        }
    }

    /// A likelihood of this family for targets with `levels` ordered levels (of no matter elsewhere).
    pub fn build(self, levels: usize) -> Box<dyn Likelihood> {
        let _ = levels;
        match self {
            LikelihoodKind::Gaussian => Box::new(Gaussian::new(1.0)),
            LikelihoodKind::BernoulliProbit => Box::new(BernoulliProbit),
            LikelihoodKind::BernoulliLogit => Box::new(BernoulliLogit),
            LikelihoodKind::Poisson => Box::new(PoissonExp),
        }
    }
}
