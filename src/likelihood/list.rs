//! The list of the built-in likelihoods, with their constants, names, descriptions and defaults.

use super::kind::{Build, Entry, LikelihoodKind};
use super::{
    Likelihood, TargetKind, Task, bernoulli, beta, gamma, gaussian, joint_kinds, negative_binomial, ordinal,
    poisson, student_t,
};
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, de};
use std::str::FromStr;

/// The list of the built-in likelihoods: their kinds as constants, their names and descriptions.
macro_rules! built_in {
    ($(#[doc = $description:literal] $name:ident = $file:ident::$entry:ident),+ $(,)?) => {
        #[allow(non_upper_case_globals)] // they are used like the variants of an enum
        impl LikelihoodKind {
            $(#[doc = $description] pub const $name: LikelihoodKind = $file::$entry.kind;)+

            /// The names of the built-in likelihoods, the first one being the default.
            pub const WORDS: &'static [&'static str] = &[$($file::$entry.kind.name()),+];
        }

        const BUILT_IN: &[(Entry, &str)] = &[$(($file::$entry, $description)),+];
    };
}

built_in! {
    /// y = f + noise with variance σ².
    Gaussian = gaussian::GAUSSIAN,
    /// Class 1 with probability Φ(f).
    BernoulliProbit = bernoulli::PROBIT,
    /// Class 1 with probability 1/(1 + e^{−f}).
    BernoulliLogit = bernoulli::LOGIT,
    /// A count with rate e^f.
    Poisson = poisson::EXPONENTIAL,
    /// A count with rate log(1 + e^f).
    PoissonSoftplus = poisson::SOFTPLUS,
    /// A count with mean m = e^f and variance m + αm².
    NegativeBinomial = negative_binomial::NEGATIVE_BINOMIAL,
    /// y = f + noise with heavy tails: a scale times Student's t.
    StudentT = student_t::STUDENT_T,
    /// A positive number, gamma distributed with shape k and scale e^f.
    Gamma = gamma::GAMMA,
    /// A positive number, exponentially distributed with mean e^f.
    Exponential = gamma::EXPONENTIAL,
    /// A number between 0 and 1, beta distributed with mean 1/(1 + e^{−f}).
    BetaLogit = beta::LOGIT,
    /// A number between 0 and 1, beta distributed with mean Φ(f).
    BetaProbit = beta::PROBIT,
    /// A level: the interval between edges that f plus normal noise falls in.
    Ordinal = ordinal::ORDINAL,
    /// One of several classes: class c has a probability proportional to e^{f_c}.
    Softmax = joint_kinds::SOFTMAX,
    /// y = f₁ + normal noise whose standard deviation is e^{f₂}.
    GaussianHeteroskedastic = joint_kinds::GAUSSIAN_NOISE,
    /// y = f₁ + noise with heavy tails: e^{f₂} times Student's t.
    StudentTHeteroskedastic = joint_kinds::STUDENT_NOISE,
    /// A count with mean m = e^{f₁} and variance m + αm², α = e^{f₂}.
    NegativeBinomialDispersed = joint_kinds::DISPERSED,
    /// A positive number, gamma distributed with scale e^{f₁} and shape e^{f₂}.
    GammaShaped = joint_kinds::SHAPED,
    /// A number between 0 and 1, beta distributed with mean 1/(1 + e^{−f₁}) and a + b = e^{f₂}.
    BetaPrecise = joint_kinds::PRECISE,
    /// A Poisson count with rate e^{f₁}, or an additional 0 with probability 1/(1 + e^{−f₂}).
    ZeroInflatedPoisson = joint_kinds::INFLATED_POISSON,
    /// A negative binomial count with mean e^{f₁}, or an additional 0 with probability 1/(1 + e^{−f₂}).
    ZeroInflatedNegativeBinomial = joint_kinds::INFLATED_BINOMIAL,
    /// 0 with probability 1/(1 + e^{−f₂}), otherwise a Poisson count of rate e^{f₁} above 0.
    HurdlePoisson = joint_kinds::HURDLE_POISSON,
    /// 0 with probability 1/(1 + e^{−f₂}), otherwise a negative binomial count of mean e^{f₁} above 0.
    HurdleNegativeBinomial = joint_kinds::HURDLE_BINOMIAL,
}

impl LikelihoodKind {
    /// Returns a one-line description of a built-in likelihood; empty for others.
    pub fn description(self) -> &'static str {
        self.entry().map_or("", |(_, description)| description.trim_ascii())
    }

    /// Returns the default likelihood of a task; classification means two classes.
    pub fn default_for(task: Task) -> Self {
        match task {
            Task::Classification => LikelihoodKind::BernoulliProbit,
            Task::Count => LikelihoodKind::Poisson,
            Task::Regression => LikelihoodKind::Gaussian,
            Task::Ordinal => LikelihoodKind::Ordinal,
        }
    }

    /// Returns the default likelihood for a kind of target.
    pub fn default_of(kind: TargetKind) -> Self {
        match kind {
            TargetKind::Class => LikelihoodKind::Softmax,
            kind => LikelihoodKind::default_for(kind.task()),
        }
    }

    /// Returns the constructor of a built-in likelihood.
    pub(crate) fn maker(self) -> Option<Build> {
        self.entry().map(|(entry, _)| entry.build)
    }

    /// Builds a built-in likelihood with one latent function, for targets with `levels` ordered
    /// levels (ignored for other targets).
    ///
    /// # Panics
    ///
    /// If this is not a built-in likelihood with one latent function;
    /// [`Registry::likelihood`](crate::Registry::likelihood) builds every likelihood.
    pub fn build(self, levels: usize) -> Box<dyn Likelihood> {
        match self.maker() {
            Some(Build::One(build)) => build(levels),
            _ => panic!("the {self} likelihood is not built in, or has several latent functions"),
        }
    }

    fn entry(self) -> Option<&'static (Entry, &'static str)> {
        BUILT_IN.iter().find(|(entry, _)| entry.kind == self)
    }
}

impl FromStr for LikelihoodKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = BUILT_IN.iter().find(|(entry, _)| entry.kind.name() == text);
        known.map(|(entry, _)| entry.kind).ok_or_else(|| {
            Error::usage(format!("likelihood '{text}' is not one of {}", LikelihoodKind::WORDS.join(", ")))
        })
    }
}

/// Reads the name of a built-in likelihood.
impl<'de> Deserialize<'de> for LikelihoodKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_agree_with_their_likelihoods() {
        for ((entry, _), word) in BUILT_IN.iter().zip(LikelihoodKind::WORDS) {
            assert_eq!(LikelihoodKind::of(&entry.build.make(3)), entry.kind);
            assert_eq!(word.parse(), Ok(entry.kind));
            assert!(!entry.kind.description().is_empty());
        }
    }
}
