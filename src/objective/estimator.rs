//! Estimators of gradients: the choices with their text, and the facts about each.

use super::{PiecewiseBound, piecewise};
use crate::error::{Error, Result};
use crate::likelihood::LikelihoodKind;
use crate::words::{either, stored_as_text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The estimator of gradients. Some estimate gradients of the log predictive density from samples of f for each row (Wei, Sheth & Khardon
/// 2021; [docs/objectives.md#monte-carlo-gradients-of-the-log-loss](crate::book::objectives#monte-carlo-gradients-of-the-log-loss)), others gradients of the expected log density from samples of w for all
/// rows of a batch ([docs/update-rules.md#the-rules](crate::book::update_rules#the-rules)).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Estimator {
    /// Exact gradients, in closed form or by quadrature (for both losses).
    Exact,
    /// bMC: `log ((1/L) Σ_l p(y|f_l))` over samples `f_l = μ + √v ε_l`, differentiated along the samples (the first form of the paper's
    /// eq. 6). Biased for `log E p`: it is exact for the bound `E log ((1/L) Σ_l p(y|f_l))`, which is the ELBO's term for one sample and
    /// rises to `log E p` with L.
    Biased {
        /// Samples per datum.
        samples: usize,
    },
    /// bMC with `∂/∂v` from second derivatives (the second form of eq. 6, and eq. 8). Biased, and the gradient of no objective: for
    /// Poisson counts with few samples it drives v up without bound.
    BiasedPrice {
        /// Samples per datum.
        samples: usize,
    },
    /// smooth-bMC: bMC with ν added to the average, `log (ν + (1/L) Σ_l p(y|f_l))`.
    Smoothed {
        /// Samples per datum.
        samples: usize,
        /// The addition ν.
        nu: f64,
        /// True if ν is divided by t + 1 at iteration t = 0, 1, …. With steps γ_t = 1/(t + 1) this is the `ν_t = γ_t ζ` of the paper's
        /// corollary 9, where ζ is a lower bound on E p(y|f).
        decays: bool,
    },
    /// uPS: samples of N(f; μ, v) p(y|f), normalised, by rejection. Unbiased.
    Product {
        /// Samples per datum.
        samples: usize,
    },
    /// Bonnet–Price: slopes and curvatures of the log density, averaged over samples of w.
    Price {
        /// Samples of w per batch.
        samples: usize,
    },
    /// Reparameterised samples of the energy (minus the log joint), for rules that handle the
    /// entropy without a gradient: proximal and mixing rules (Domke, Gower & Garrigos 2023).
    Energy {
        /// Samples of w per batch.
        samples: usize,
    },
    /// Like [`Energy`](Self::Energy), with the entropy's gradient in closed form, for rules that take a gradient step on it.
    EnergyEntropy {
        /// Samples of w per batch.
        samples: usize,
    },
    /// Sticking the landing (Roeder, Wu & Duvenaud 2017): log q is differentiated only along the sample path, so the noise vanishes if q
    /// is the posterior.
    StickingTheLanding {
        /// Samples of w per batch.
        samples: usize,
    },
    /// The expectation of a piecewise quadratic bound on the logistic log-partition function, in closed form (Marlin, Khan
    /// & Murphy 2011).
    Piecewise {
        /// Pieces of the bound.
        pieces: usize,
    },
}

const BIASED: EstimatorFacts =
    EstimatorFacts { usage: "bmc:L", draws: Draws::LatentValues, ..EstimatorFacts::EXACT };
const BIASED_PRICE: EstimatorFacts = EstimatorFacts { usage: "bmc-price:L", ..BIASED };
const SMOOTHED: EstimatorFacts = EstimatorFacts { usage: "smooth-bmc:L:NU or smooth-bmc:L:NU/t", ..BIASED };
const PRODUCT: EstimatorFacts = EstimatorFacts { usage: "ups:L", ..BIASED };
const PRICE: EstimatorFacts = EstimatorFacts::of_weights("price:L", EntropyPart::Exact);
const ENERGY: EstimatorFacts = EstimatorFacts::of_weights("reparam:L", EntropyPart::LeftOut);
const ENERGY_ENTROPY: EstimatorFacts = EstimatorFacts::of_weights("reparam-ent:L", EntropyPart::Added);
const LANDING: EstimatorFacts = EstimatorFacts::of_weights("stl:L", EntropyPart::AlongThePath);

/// Every estimator, in the order in which they are listed to users.
const ALL: [&EstimatorFacts; 10] = [
    &EstimatorFacts::EXACT,
    &BIASED,
    &BIASED_PRICE,
    &SMOOTHED,
    &PRODUCT,
    &PRICE,
    &ENERGY,
    &ENERGY_ENTROPY,
    &LANDING,
    &piecewise::FACTS,
];

/// The maximum number of samples for a gradient. The error falls with the square root of the number, and memory rises with it.
pub(crate) const MOST_SAMPLES: usize = 10_000;

impl Estimator {
    /// Returns the number of samples, of w per batch or of f per row; `None` without samples.
    fn samples(&mut self) -> Option<&mut usize> {
        match self {
            Estimator::Biased { samples }
            | Estimator::BiasedPrice { samples }
            | Estimator::Smoothed { samples, .. }
            | Estimator::Product { samples }
            | Estimator::Price { samples }
            | Estimator::Energy { samples }
            | Estimator::EnergyEntropy { samples }
            | Estimator::StickingTheLanding { samples } => Some(samples),
            Estimator::Exact | Estimator::Piecewise { .. } => None,
        }
    }

    /// Returns the number of samples of w per batch, for estimators that draw them.
    pub(crate) fn weight_samples(mut self) -> Option<usize> {
        if self.is_predictive() { None } else { self.samples().copied() }
    }

    /// Returns the number of samples of f per row, for estimators that draw them.
    pub(crate) fn latent_samples(mut self) -> Option<usize> {
        if self.is_predictive() { self.samples().copied() } else { None }
    }

    /// Returns the estimator with another number of samples of f per row, if it draws any.
    pub(super) fn with_latent_samples(mut self, count: usize) -> Self {
        if self.is_predictive() {
            self.samples().into_iter().for_each(|samples| *samples = count);
        }
        self
    }

    /// Returns the estimator at iteration `t`, with the ν of that iteration.
    pub(super) fn at(self, t: usize) -> Self {
        match self {
            Estimator::Smoothed { samples, nu, decays: true } => {
                Estimator::Smoothed { samples, nu: nu / (t as f64 + 1.0), decays: false }
            }
            other => other,
        }
    }

    /// Returns the facts about the estimator.
    #[doc(hidden)]
    pub const fn facts(self) -> &'static EstimatorFacts {
        match self {
            Estimator::Exact => &EstimatorFacts::EXACT,
            Estimator::Biased { .. } => &BIASED,
            Estimator::BiasedPrice { .. } => &BIASED_PRICE,
            Estimator::Smoothed { .. } => &SMOOTHED,
            Estimator::Product { .. } => &PRODUCT,
            Estimator::Price { .. } => &PRICE,
            Estimator::Energy { .. } => &ENERGY,
            Estimator::EnergyEntropy { .. } => &ENERGY_ENTROPY,
            Estimator::StickingTheLanding { .. } => &LANDING,
            Estimator::Piecewise { .. } => &piecewise::FACTS,
        }
    }

    /// Lists the text forms of the estimators with a property, as in `price:L, reparam:L or stl:L`.
    pub(crate) fn those(states: impl Fn(&EstimatorFacts) -> bool) -> String {
        let usages: Vec<&str> = ALL.iter().filter(|facts| states(facts)).map(|facts| facts.usage).collect();
        either(&usages)
    }

    /// Returns true if gradients are random.
    #[doc(hidden)]
    pub fn is_sampled(self) -> bool {
        self.facts().draws != Draws::Nothing
    }

    /// Returns true if the estimator works only for the log predictive density.
    #[doc(hidden)]
    pub fn is_predictive(self) -> bool {
        self.facts().draws == Draws::LatentValues
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.facts().usage.split(':').next().unwrap_or_default();
        let mut estimator = *self;
        match (estimator, estimator.samples()) {
            (Estimator::Piecewise { pieces }, _) => write!(f, "{word}:{pieces}"),
            (Estimator::Smoothed { samples, nu, decays }, _) => {
                write!(f, "{word}:{samples}:{nu}{}", if decays { "/t" } else { "" })
            }
            (_, Some(samples)) => write!(f, "{word}:{samples}"),
            (_, None) => f.write_str(word),
        }
    }
}

impl FromStr for Estimator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parsed(text).ok_or_else(|| {
            Error::usage(format!(
                "estimator '{text}' is not one of {} with L from 1 to {MOST_SAMPLES}, NU positive and R from {} to {}",
                ALL.map(|facts| facts.usage).join(", "),
                PiecewiseBound::PIECES.start(),
                PiecewiseBound::PIECES.end()
            ))
        })
    }
}

/// Reads the text form of an estimator.
fn parsed(text: &str) -> Option<Estimator> {
    let count = |part: &str| part.parse().ok().filter(|samples| (1..=MOST_SAMPLES).contains(samples));
    let parts: Vec<&str> = text.split(':').collect();
    Some(match parts.as_slice() {
        ["exact"] => Estimator::Exact,
        ["bmc", l] => Estimator::Biased { samples: count(l)? },
        ["bmc-price", l] => Estimator::BiasedPrice { samples: count(l)? },
        ["smooth-bmc", l, nu] => {
            let (number, decays) = nu.strip_suffix("/t").map_or((*nu, false), |number| (number, true));
            let nu = number.parse().ok().filter(|nu: &f64| *nu > 0.0 && nu.is_finite())?;
            Estimator::Smoothed { samples: count(l)?, nu, decays }
        }
        ["ups", l] => Estimator::Product { samples: count(l)? },
        ["price", l] => Estimator::Price { samples: count(l)? },
        ["reparam", l] => Estimator::Energy { samples: count(l)? },
        ["reparam-ent", l] => Estimator::EnergyEntropy { samples: count(l)? },
        ["stl", l] => Estimator::StickingTheLanding { samples: count(l)? },
        ["piecewise", r] => {
            let pieces = r.parse().ok().filter(|pieces| PiecewiseBound::PIECES.contains(pieces))?;
            Estimator::Piecewise { pieces }
        }
        _ => return None,
    })
}

stored_as_text!(Estimator);

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
#[doc(hidden)]
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
#[doc(hidden)]
pub struct EstimatorCounts {
    /// The number of proposals of the rejection sampler.
    pub proposals: u64,
    /// The number of accepted samples.
    pub accepted: u64,
    /// The number of samples drawn by inverting the distribution function on a grid, because rejection took too many proposals.
    pub starved: u64,
}

impl EstimatorCounts {
    pub(crate) fn add(&mut self, other: EstimatorCounts) {
        self.proposals += other.proposals;
        self.accepted += other.accepted;
        self.starved += other.starved;
    }
}
