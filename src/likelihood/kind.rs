//! The likelihoods by name: what a fit has to know of one before it is built, and the list of the built-in ones; no formulae.

use super::{
    Likelihood, TargetKind, Task, bernoulli, beta, gamma, gaussian, negative_binomial, ordinal, poisson,
    student_t,
};
use crate::error::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// What options say of a likelihood, and what a fit asks of it before there is one: its name, the targets it is for.
///
/// The built-in ones are constants, and read and written as their names. A likelihood from outside has the kind that
/// [`LikelihoodKind::of`] it says, which a [`Registry`](crate::Registry) finds by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LikelihoodKind {
    name: &'static str,
    target_kind: TargetKind,
    scales_target: bool,
    has_gaussian_noise: bool,
}

/// Makes a likelihood for targets with so many ordered levels (of no matter to other targets).
pub type Build = fn(usize) -> Box<dyn Likelihood>;

/// A line of the list of likelihoods, which each of them states in its file.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub kind: LikelihoodKind,
    pub build: Build,
}

/// The list of the built-in likelihoods: their kinds as constants, their words and descriptions.
macro_rules! built_in {
    ($(#[doc = $description:literal] $name:ident = $file:ident::$entry:ident),+ $(,)?) => {
        #[allow(non_upper_case_globals)] // they are used like the variants of an enum
        impl LikelihoodKind {
            $(#[doc = $description] pub const $name: LikelihoodKind = $file::$entry.kind;)+

            /// The names of the built-in likelihoods, the first one being the default.
            pub const WORDS: &'static [&'static str] = &[$($file::$entry.kind.name),+];
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
}

impl LikelihoodKind {
    /// A likelihood of this name that is defined on targets of this kind, with no more to say of itself than by default.
    pub const fn new(name: &'static str, target_kind: TargetKind) -> Self {
        let scales_target = matches!(target_kind, TargetKind::Real);
        LikelihoodKind { name, target_kind, scales_target, has_gaussian_noise: false }
    }

    /// The same with normal noise around f.
    pub(super) const fn with_gaussian_noise(self) -> Self {
        LikelihoodKind { has_gaussian_noise: true, ..self }
    }

    /// What a likelihood says of itself.
    pub fn of(likelihood: &dyn Likelihood) -> Self {
        LikelihoodKind {
            name: likelihood.name(),
            target_kind: likelihood.target_kind(),
            scales_target: likelihood.scales_target(),
            has_gaussian_noise: likelihood.gaussian_noise().is_some(),
        }
    }

    /// What options and model files call it.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The targets it is defined on.
    pub const fn target_kind(self) -> TargetKind {
        self.target_kind
    }

    /// Whether the target is standardised: location and scale of f then absorb it.
    pub fn scales_target(self) -> bool {
        self.scales_target
    }

    /// Whether it has a [noise variance](Likelihood::gaussian_noise), so that the best q has a closed form.
    pub fn has_gaussian_noise(self) -> bool {
        self.has_gaussian_noise
    }

    /// One line about a built-in likelihood; empty for others.
    pub fn description(self) -> &'static str {
        self.entry().map_or("", |(_, description)| description.trim_ascii())
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

    /// How a built-in likelihood is made.
    pub(crate) fn maker(self) -> Option<Build> {
        self.entry().map(|(entry, _)| entry.build)
    }

    /// A built-in likelihood of this kind for targets with `levels` ordered levels (of no matter elsewhere).
    ///
    /// # Panics
    ///
    /// When it is not a built-in one: [`Registry::likelihood`](crate::Registry::likelihood) makes all.
    pub fn build(self, levels: usize) -> Box<dyn Likelihood> {
        match self.maker() {
            Some(build) => build(levels),
            None => panic!("the {self} likelihood is not a built-in one"),
        }
    }

    fn entry(self) -> Option<&'static (Entry, &'static str)> {
        BUILT_IN.iter().find(|(entry, _)| entry.kind == self)
    }
}

impl fmt::Display for LikelihoodKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for LikelihoodKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = BUILT_IN.iter().find(|(entry, _)| entry.kind.name == text);
        known.map(|(entry, _)| entry.kind).ok_or_else(|| {
            Error::usage(format!("likelihood '{text}' is not one of {}", LikelihoodKind::WORDS.join(", ")))
        })
    }
}

impl Serialize for LikelihoodKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
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
    fn entries_say_what_their_likelihoods_say() {
        for ((entry, _), word) in BUILT_IN.iter().zip(LikelihoodKind::WORDS) {
            assert_eq!(LikelihoodKind::of((entry.build)(3).as_ref()), entry.kind);
            assert_eq!(word.parse(), Ok(entry.kind));
            assert!(!entry.kind.description().is_empty());
        }
    }
}
