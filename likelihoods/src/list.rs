//! The list of the built-in likelihoods: names, targets, constructors and defaults.

use super::{
    Bernoulli, BetaBinomial, BetaLogit, BetaPrecise, BetaProbit, Binomial, Censored, CensoredGaussian, Gamma,
    GammaShaped, Gaussian, GaussianHeteroskedastic, Likelihood, LogLogistic, LogNormal, NegativeBinomial,
    NegativeBinomialDispersed, OrderedBeta, Ordinal, Poisson, Softmax, StudentT, StudentTHeteroskedastic,
    TargetKind, Task, Tweedie, Weibull, ZeroAltered,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A name that is not one of those it could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} '{name}' is not one of {}", .known.join(", "))]
pub struct NameError {
    what: &'static str,
    name: String,
    known: &'static [&'static str],
}

impl NameError {
    pub(crate) fn new(what: &'static str, name: &str, known: &'static [&'static str]) -> NameError {
        NameError { what, name: name.to_owned(), known }
    }
}

/// The kind of a likelihood: its name, its targets, and the facts that a fit needs before there is a likelihood.
///
/// The built-in kinds are constants, and are serialised as their names. A custom likelihood has the kind from [`LikelihoodKind::of`],
/// which a `Registry` of the crate `sparsegp` finds by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LikelihoodKind {
    name: &'static str,
    target_kind: TargetKind,
    covariate: Option<&'static str>,
    scales_target: bool,
    has_gaussian_noise: bool,
    is_joint: bool,
}

struct Entry {
    kind: LikelihoodKind,
    build: fn(usize) -> Box<dyn Likelihood>,
}

/// Builds the list: for every likelihood its documentation, constant, name, targets, further facts and constructor, which receives
/// the number of ordered levels or classes.
macro_rules! built_in {
    ($(#[doc = $description:literal] $name:ident = $word:literal, $target:ident $(.$fact:ident())? => $build:expr;)+) => {
        #[allow(non_upper_case_globals)] // they are used like the variants of an enum
        impl LikelihoodKind {
            $(#[doc = $description] pub const $name: LikelihoodKind =
                LikelihoodKind::new($word, TargetKind::$target)$(.$fact())?;)+

            /// The names of the built-in likelihoods, the first one being the default.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        const BUILT_IN: &[Entry] = &[
            $(Entry { kind: LikelihoodKind::$name, build: $build }),+
        ];
    };
}

built_in! {
    /// y = f + noise with variance σ².
    Gaussian = "gaussian", Real.gaussian() => |_| Box::new(Gaussian::new(1.0));
    /// Class 1 with probability Φ(f).
    BernoulliProbit = "bernoulli-probit", Binary => |_| Box::new(Bernoulli::Probit);
    /// Class 1 with probability 1/(1 + e^{−f}).
    BernoulliLogit = "bernoulli-logit", Binary => |_| Box::new(Bernoulli::Logit);
    /// A count with rate e^f.
    Poisson = "poisson", Count => |_| Box::new(Poisson::Exp);
    /// A count with rate log(1 + e^f).
    PoissonSoftplus = "poisson-softplus", Count => |_| Box::new(Poisson::Softplus);
    /// A count with mean m = e^f and variance m + αm².
    NegativeBinomial = "negative-binomial", Count => |_| Box::new(NegativeBinomial::new(0.5));
    /// y = f + noise with heavy tails: a scale times Student's t.
    StudentT = "student-t", Real => |_| Box::new(StudentT::new(1.0, 4.0));
    /// y = f + noise with variance σ² + s², where s is the known standard error of the row.
    GaussianKnownNoise = "gaussian-known-noise", Measured => |_| Box::new(Gaussian::new(1.0).with_known_noise());
    /// y = f + noise with heavy tails: √(scale² + s²) times Student's t, where s is the known standard error of the row.
    StudentTKnownNoise = "student-t-known-noise", Measured => |_| Box::new(StudentT::new(1.0, 4.0).with_known_noise());
    /// y = f + noise with variance s², where s is the known standard error of the row.
    GaussianKnownNoiseOnly = "gaussian-known-noise-only", Measured => |_| Box::new(Gaussian::known_noise_only());
    /// y = f + noise with heavy tails: s times Student's t, where s is the known standard error of the row.
    StudentTKnownNoiseOnly = "student-t-known-noise-only", Measured => |_| Box::new(StudentT::known_noise_only(4.0));
    /// y = f + normal noise, known or censored.
    GaussianCensored = "gaussian-censored", Censored => |_| Box::new(CensoredGaussian::new(1.0));
    /// y = f + noise with heavy tails, known or censored.
    StudentTCensored = "student-t-censored", Censored => |_| Box::new(Censored::new(StudentT::new(1.0, 4.0)));
    /// A time, known or censored, whose logarithm is f plus normal noise.
    LogNormal = "log-normal", Lifetime => |_| Box::new(LogNormal::new(1.0));
    /// A time, known or censored, that survives t with probability exp(−(t/e^f)^{1/s}).
    Weibull = "weibull", Lifetime => |_| Box::new(Weibull::new(1.0));
    /// A time, known or censored, that survives t with probability 1/(1 + (t/e^f)^{1/s}).
    LogLogistic = "log-logistic", Lifetime => |_| Box::new(LogLogistic::new(0.5));
    /// A positive number, gamma distributed with shape k and scale e^f.
    Gamma = "gamma", Positive => |_| Box::new(Gamma::new(1.0));
    /// A positive number, exponentially distributed with mean e^f.
    Exponential = "exponential", Positive => |_| Box::new(Gamma::exponential());
    /// A time, known or censored, gamma distributed with shape k and scale e^f.
    GammaCensored = "gamma-censored", Lifetime => |_| Box::new(Censored::new(Gamma::new(1.0)));
    /// A time, known or censored, exponentially distributed with mean e^f.
    ExponentialCensored = "exponential-censored", Lifetime => |_| Box::new(Censored::new(Gamma::exponential()));
    /// A count with rate e^f, known or censored.
    PoissonCensored = "poisson-censored", CensoredCount => |_| Box::new(Censored::new(Poisson::Exp));
    /// A count with mean m = e^f and variance m + αm², known or censored.
    NegativeBinomialCensored = "negative-binomial-censored", CensoredCount
        => |_| Box::new(Censored::new(NegativeBinomial::new(0.5)));
    /// A number between 0 and 1, beta distributed with mean 1/(1 + e^{−f}).
    BetaLogit = "beta-logit", UnitInterval => |_| Box::new(BetaLogit::new(4.0));
    /// A number between 0 and 1, beta distributed with mean Φ(f).
    BetaProbit = "beta-probit", UnitInterval => |_| Box::new(BetaProbit::new(4.0));
    /// A number of successes in n trials, each with probability 1/(1 + e^{−f}).
    Binomial = "binomial", Trials => |_| Box::new(Binomial);
    /// A number of successes in n trials, whose common probability is beta distributed with mean 1/(1 + e^{−f}).
    BetaBinomial = "beta-binomial", Trials => |_| Box::new(BetaBinomial::new(10.0));
    /// A number from 0 to 1: exactly 0, exactly 1, or between them and beta distributed with mean 1/(1 + e^{−f}).
    OrderedBeta = "ordered-beta", Share => |_| Box::new(OrderedBeta::new(-2.0, 4.0, 4.0));
    /// An amount of mean e^f that may be exactly 0: the sum of a Poisson number of gamma distributed amounts.
    Tweedie = "tweedie", Amount => |_| Box::new(Tweedie::new(1.5, 1.0));
    /// A level: the interval between edges that f plus normal noise falls in.
    Ordinal = "ordinal", Ordinal => |levels| Box::new(Ordinal::new(levels));
    /// One of several classes: class c has a probability proportional to e^{f_c}.
    Softmax = "softmax", Class.joint() => |classes| Box::new(Softmax::new(classes));
    /// y = f₁ + normal noise whose standard deviation is e^{f₂}.
    GaussianHeteroskedastic = "gaussian-heteroskedastic", Real.joint() => |_| Box::new(GaussianHeteroskedastic::new());
    /// y = f₁ + noise with heavy tails: e^{f₂} times Student's t.
    StudentTHeteroskedastic = "student-t-heteroskedastic", Real.joint() => |_| Box::new(StudentTHeteroskedastic::new());
    /// A count with mean m = e^{f₁} and variance m + αm², α = e^{f₂}.
    NegativeBinomialDispersed = "negative-binomial-dispersed", Count.joint() => |_| Box::new(NegativeBinomialDispersed::new());
    /// A positive number, gamma distributed with scale e^{f₁} and shape e^{f₂}.
    GammaShaped = "gamma-shaped", Positive.joint() => |_| Box::new(GammaShaped::new());
    /// A number between 0 and 1, beta distributed with mean 1/(1 + e^{−f₁}) and a + b = e^{f₂}.
    BetaPrecise = "beta-precise", UnitInterval.joint() => |_| Box::new(BetaPrecise::new());
    /// A Poisson count with rate e^{f₁}, or an additional 0 with probability 1/(1 + e^{−f₂}).
    ZeroInflatedPoisson = "zero-inflated-poisson", Count.joint() => |_| Box::new(ZeroAltered::inflated_poisson());
    /// A negative binomial count with mean e^{f₁}, or an additional 0 with probability 1/(1 + e^{−f₂}).
    ZeroInflatedNegativeBinomial = "zero-inflated-negative-binomial", Count.joint()
        => |_| Box::new(ZeroAltered::inflated_negative_binomial(0.5));
    /// 0 with probability 1/(1 + e^{−f₂}), otherwise a Poisson count of rate e^{f₁} above 0.
    HurdlePoisson = "hurdle-poisson", Count.joint() => |_| Box::new(ZeroAltered::hurdle_poisson());
    /// 0 with probability 1/(1 + e^{−f₂}), otherwise a negative binomial count of mean e^{f₁} above 0.
    HurdleNegativeBinomial = "hurdle-negative-binomial", Count.joint()
        => |_| Box::new(ZeroAltered::hurdle_negative_binomial(0.5));
    /// 0 with probability 1/(1 + e^{−f₂}), otherwise a positive amount, gamma distributed with shape k and scale e^{f₁}.
    HurdleGamma = "hurdle-gamma", Amount.joint() => |_| Box::new(ZeroAltered::hurdle_gamma(1.0));
    /// 0 with probability 1/(1 + e^{−f₂}), otherwise a positive amount, whose logarithm is f₁ plus normal noise.
    HurdleLogNormal = "hurdle-log-normal", Amount.joint() => |_| Box::new(ZeroAltered::hurdle_log_normal(1.0));
}

impl LikelihoodKind {
    /// Creates the kind of a likelihood with this name and kind of target, with defaults for all other facts.
    pub const fn new(name: &'static str, target_kind: TargetKind) -> Self {
        let scales_target = target_kind.is_standardised();
        let (covariate, has_gaussian_noise, is_joint) = (None, false, false);
        LikelihoodKind { name, target_kind, covariate, scales_target, has_gaussian_noise, is_joint }
    }

    /// Adds a covariate with this name: a finite number of every row, in place of an exposure, that the density of y depends on as
    /// [`Observation::exposure`](crate::Observation::exposure).
    #[must_use]
    pub const fn with_covariate(self, name: &'static str) -> Self {
        LikelihoodKind { covariate: Some(name), ..self }
    }

    /// Adds the fact that the likelihood has normal noise around f.
    const fn gaussian(self) -> Self {
        LikelihoodKind { has_gaussian_noise: true, ..self }
    }

    /// Adds the fact that the likelihood has several latent functions.
    const fn joint(self) -> Self {
        LikelihoodKind { is_joint: true, ..self }
    }

    /// Returns the kind of a likelihood.
    pub fn of(likelihood: &dyn Likelihood) -> Self {
        LikelihoodKind {
            name: likelihood.name(),
            target_kind: likelihood.target_kind(),
            covariate: likelihood.kind().covariate,
            scales_target: likelihood.scales_target(),
            has_gaussian_noise: likelihood.gaussian_noise().is_some(),
            is_joint: likelihood.one().is_none(),
        }
    }

    /// Returns the name in options and model files.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The targets it is defined on.
    pub const fn target_kind(self) -> TargetKind {
        self.target_kind
    }

    /// Returns the name of its covariate, if it has one.
    pub const fn covariate(self) -> Option<&'static str> {
        self.covariate
    }

    /// Returns true if the target is standardised: location and scale of f then absorb it.
    pub fn scales_target(self) -> bool {
        self.scales_target
    }

    /// Returns true if it has several latent functions.
    pub fn is_joint(self) -> bool {
        self.is_joint
    }

    /// Returns true if it has a [noise variance](super::OneFunction::gaussian_noise), so that the best q has a closed form.
    pub fn has_gaussian_noise(self) -> bool {
        self.has_gaussian_noise
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
            TargetKind::Trials => LikelihoodKind::Binomial,
            TargetKind::Measured => LikelihoodKind::GaussianKnownNoise,
            TargetKind::Censored => LikelihoodKind::GaussianCensored,
            TargetKind::Lifetime => LikelihoodKind::Weibull,
            TargetKind::CensoredCount => LikelihoodKind::PoissonCensored,
            TargetKind::Share => LikelihoodKind::OrderedBeta,
            TargetKind::Amount => LikelihoodKind::HurdleGamma,
            kind => LikelihoodKind::default_for(kind.task()),
        }
    }

    /// Returns the likelihood with the same noise for another kind of target, if there is one: that of numbers with known standard errors, or
    /// of censored targets.
    pub fn for_target(self, kind: TargetKind) -> Self {
        match (self, kind) {
            (LikelihoodKind::Gaussian, TargetKind::Measured) => LikelihoodKind::GaussianKnownNoise,
            (LikelihoodKind::StudentT, TargetKind::Measured) => LikelihoodKind::StudentTKnownNoise,
            (LikelihoodKind::Gaussian, TargetKind::Censored) => LikelihoodKind::GaussianCensored,
            (LikelihoodKind::StudentT, TargetKind::Censored) => LikelihoodKind::StudentTCensored,
            (LikelihoodKind::Gamma, TargetKind::Lifetime) => LikelihoodKind::GammaCensored,
            (LikelihoodKind::Exponential, TargetKind::Lifetime) => LikelihoodKind::ExponentialCensored,
            (LikelihoodKind::Poisson, TargetKind::CensoredCount) => LikelihoodKind::PoissonCensored,
            (LikelihoodKind::NegativeBinomial, TargetKind::CensoredCount) => {
                LikelihoodKind::NegativeBinomialCensored
            }
            _ => self,
        }
    }

    /// Returns the likelihood whose only noise is that of known standard errors, if there is one.
    #[doc(hidden)]
    pub fn known_noise_only(self) -> Option<Self> {
        match self.for_target(TargetKind::Measured) {
            LikelihoodKind::GaussianKnownNoise | LikelihoodKind::GaussianKnownNoiseOnly => {
                Some(LikelihoodKind::GaussianKnownNoiseOnly)
            }
            LikelihoodKind::StudentTKnownNoise | LikelihoodKind::StudentTKnownNoiseOnly => {
                Some(LikelihoodKind::StudentTKnownNoiseOnly)
            }
            _ => None,
        }
    }

    /// Returns the constructor of a built-in likelihood, which takes the number of ordered levels or classes.
    pub fn maker(self) -> Option<fn(usize) -> Box<dyn Likelihood>> {
        self.entry().map(|entry| entry.build)
    }

    /// Builds a built-in likelihood for targets with `levels` ordered levels or classes (ignored for other targets).
    ///
    /// # Panics
    ///
    /// If this is not a built-in likelihood; `Registry::likelihood` of the crate `sparsegp` builds every likelihood.
    pub fn build(self, levels: usize) -> Box<dyn Likelihood> {
        self.maker().unwrap_or_else(|| panic!("the {self} likelihood is not built in"))(levels)
    }

    fn entry(self) -> Option<&'static Entry> {
        BUILT_IN.iter().find(|entry| entry.kind == self)
    }
}

impl fmt::Display for LikelihoodKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for LikelihoodKind {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let known = BUILT_IN.iter().find(|entry| entry.kind.name() == text);
        known.map(|entry| entry.kind).ok_or_else(|| NameError::new("likelihood", text, LikelihoodKind::WORDS))
    }
}

impl Serialize for LikelihoodKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// Reads the name of a built-in likelihood.
impl<'de> Deserialize<'de> for LikelihoodKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_agree_with_their_likelihoods() {
        for (entry, word) in BUILT_IN.iter().zip(LikelihoodKind::WORDS) {
            assert_eq!(LikelihoodKind::of(&*(entry.build)(3)), entry.kind);
            assert_eq!(word.parse(), Ok(entry.kind));
        }
    }
}
