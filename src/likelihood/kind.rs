//! The likelihoods by name: what a user writes, the targets each is for, and how to make one; no formulae.

use super::{
    BernoulliLogit, BernoulliProbit, BetaLogit, BetaProbit, Exponential, Gamma, Gaussian, Likelihood,
    NegativeBinomial, Ordinal, PoissonExp, PoissonSoftplus, StudentT,
};
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
        /// A count with rate log(1 + e^f).
        PoissonSoftplus = "poisson-softplus",
        /// A count with mean m = e^f and variance m + αm².
        NegativeBinomial = "negative-binomial",
        /// y = f + noise with heavy tails: a scale times Student's t.
        StudentT = "student-t",
        /// A positive number, gamma distributed with shape k and scale e^f.
        Gamma = "gamma",
        /// A positive number, exponentially distributed with mean e^f.
        Exponential = "exponential",
        /// A number between 0 and 1, beta distributed with mean 1/(1 + e^{−f}).
        BetaLogit = "beta-logit",
        /// A number between 0 and 1, beta distributed with mean Φ(f).
        BetaProbit = "beta-probit",
        /// A level: the interval between edges that f plus normal noise falls in.
        Ordinal = "ordinal",
    }
}

impl LikelihoodKind {
    /// The targets it is defined on.
    pub fn target_kind(self) -> TargetKind {
        match self {
            LikelihoodKind::Gaussian | LikelihoodKind::StudentT => TargetKind::Real,
            LikelihoodKind::BernoulliProbit | LikelihoodKind::BernoulliLogit => TargetKind::Binary,
            LikelihoodKind::Poisson | LikelihoodKind::PoissonSoftplus | LikelihoodKind::NegativeBinomial => {
                TargetKind::Count
            }
            LikelihoodKind::Gamma | LikelihoodKind::Exponential => TargetKind::Positive,
            LikelihoodKind::BetaLogit | LikelihoodKind::BetaProbit => TargetKind::UnitInterval,
            LikelihoodKind::Ordinal => TargetKind::Ordinal,
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
            Task::Regression => LikelihoodKind::Gaussian,
            Task::Ordinal => LikelihoodKind::Ordinal,
        }
    }

    /// A likelihood of this family for targets with `levels` ordered levels (of no matter elsewhere).
    pub fn build(self, levels: usize) -> Box<dyn Likelihood> {
        match self {
            LikelihoodKind::Gaussian => Box::new(Gaussian::new(1.0)),
            LikelihoodKind::BernoulliProbit => Box::new(BernoulliProbit),
            LikelihoodKind::BernoulliLogit => Box::new(BernoulliLogit),
            LikelihoodKind::Poisson => Box::new(PoissonExp),
            LikelihoodKind::PoissonSoftplus => Box::new(PoissonSoftplus),
            LikelihoodKind::NegativeBinomial => Box::new(NegativeBinomial::new(0.5)),
            LikelihoodKind::StudentT => Box::new(StudentT::new(1.0, 4.0)),
            LikelihoodKind::Gamma => Box::new(Gamma::new(1.0)),
            LikelihoodKind::Exponential => Box::new(Exponential),
            LikelihoodKind::BetaLogit => Box::new(BetaLogit::new(4.0)),
            LikelihoodKind::BetaProbit => Box::new(BetaProbit::new(4.0)),
            LikelihoodKind::Ordinal => Box::new(Ordinal::new(levels)),
        }
    }
}
