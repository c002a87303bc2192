//! How gradients are computed: the choices, as text too, and what each states of itself; no formulae, no steps.

use super::facts::{Draws, EntropyPart, EstimatorFacts};
use super::latent_samples::{self, Averaging, LatentDatum};
use super::{Gain, LossScratch, PiecewiseBound, piecewise};
use crate::error::{Error, Result};
use crate::words::{either, stored_as_text};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How gradients are computed. Those of the log predictive density from samples of f for each datum (Wei, Sheth & Khardon
/// 2021; docs/objectives.md#monte-carlo-gradients-of-the-log-loss); those of the expected log density from samples of w for all data of a
/// batch (docs/update-rules.md#the-rules).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Estimator {
    /// In closed form or by quadrature (both losses).
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
        /// Whether ν is divided by t + 1 at iteration t = 0, 1, …: with steps γ_t = 1/(t + 1) that is the `ν_t = γ_t ζ` of the paper's
        /// corollary 9, ζ being a lower bound on E p(y|f).
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
    /// Reparameterised samples of the energy (minus the log joint), for rules that have the entropy's part without a
    /// gradient: proximal and mixing ones (Domke, Gower & Garrigos 2023).
    Energy {
        /// Samples of w per batch.
        samples: usize,
    },
    /// The same with the entropy's gradient in closed form, for rules that take a gradient step on it.
    EnergyEntropy {
        /// Samples of w per batch.
        samples: usize,
    },
    /// Sticking the landing (Roeder, Wu & Duvenaud 2017): log q is differentiated along the sample path alone, so that the
    /// noise vanishes where q is the posterior.
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

const PRICE: EstimatorFacts = EstimatorFacts::of_weights("price:L", EntropyPart::Exact);
const ENERGY: EstimatorFacts = EstimatorFacts::of_weights("reparam:L", EntropyPart::LeftOut);
const ENERGY_ENTROPY: EstimatorFacts = EstimatorFacts::of_weights("reparam-ent:L", EntropyPart::Added);
const LANDING: EstimatorFacts = EstimatorFacts::of_weights("stl:L", EntropyPart::AlongThePath);

/// Every estimator, in the order in which they are listed to users.
const ALL: [&EstimatorFacts; 10] = [
    &EstimatorFacts::EXACT,
    &latent_samples::BIASED,
    &latent_samples::BIASED_PRICE,
    &latent_samples::SMOOTHED,
    &latent_samples::PRODUCT,
    &PRICE,
    &ENERGY,
    &ENERGY_ENTROPY,
    &LANDING,
    &piecewise::FACTS,
];

/// The most samples that a gradient is computed from; their error falls with the root of their number, their memory rises with it.
pub(crate) const MOST_SAMPLES: usize = 10_000;

impl Estimator {
    /// How many samples of w a batch takes, for estimators that draw them.
    pub(crate) fn weight_samples(self) -> Option<usize> {
        match self {
            Estimator::Price { samples }
            | Estimator::Energy { samples }
            | Estimator::EnergyEntropy { samples }
            | Estimator::StickingTheLanding { samples } => Some(samples),
            _ => None,
        }
    }

    /// The number of samples of f for each datum, for estimators that draw them.
    pub fn latent_samples(self) -> Option<usize> {
        match self {
            Estimator::Biased { samples }
            | Estimator::BiasedPrice { samples }
            | Estimator::Smoothed { samples, .. }
            | Estimator::Product { samples } => Some(samples),
            _ => None,
        }
    }

    /// The estimator with another number of samples of f for each datum, if it draws any.
    pub(super) fn with_latent_samples(mut self, count: usize) -> Self {
        match &mut self {
            Estimator::Biased { samples }
            | Estimator::BiasedPrice { samples }
            | Estimator::Smoothed { samples, .. }
            | Estimator::Product { samples } => *samples = count,
            _ => {}
        }
        self
    }

    /// The estimator at iteration `t`, with the ν that is due then.
    pub(super) fn at(self, t: usize) -> Self {
        match self {
            Estimator::Smoothed { samples, nu, decays: true } => {
                Estimator::Smoothed { samples, nu: nu / (t as f64 + 1.0), decays: false }
            }
            other => other,
        }
    }

    /// What it states of itself.
    pub const fn facts(self) -> &'static EstimatorFacts {
        match self {
            Estimator::Exact => &EstimatorFacts::EXACT,
            Estimator::Biased { .. } => &latent_samples::BIASED,
            Estimator::BiasedPrice { .. } => &latent_samples::BIASED_PRICE,
            Estimator::Smoothed { .. } => &latent_samples::SMOOTHED,
            Estimator::Product { .. } => &latent_samples::PRODUCT,
            Estimator::Price { .. } => &PRICE,
            Estimator::Energy { .. } => &ENERGY,
            Estimator::EnergyEntropy { .. } => &ENERGY_ENTROPY,
            Estimator::StickingTheLanding { .. } => &LANDING,
            Estimator::Piecewise { .. } => &piecewise::FACTS,
        }
    }

    /// How the estimators that state something are written, `price:L, reparam:L or stl:L`.
    pub(crate) fn those(states: impl Fn(&EstimatorFacts) -> bool) -> String {
        let usages: Vec<&str> = ALL.iter().filter(|facts| states(facts)).map(|facts| facts.usage).collect();
        either(&usages)
    }

    /// Whether gradients are random.
    pub fn is_sampled(self) -> bool {
        self.facts().draws != Draws::Nothing
    }

    /// Whether it is for the log predictive density alone.
    pub fn is_predictive(self) -> bool {
        self.facts().draws == Draws::LatentValues
    }

    /// `log E p(y|f)` with its derivatives, by quadrature or, for estimators that draw samples of f, by samples alone.
    pub(super) fn log_predictive(
        self,
        datum: LatentDatum<'_>,
        (scratch, random): (&mut LossScratch, &mut ChaCha8Rng),
    ) -> Gain {
        match self {
            Estimator::Biased { samples } => datum.averaged(Averaging::path(samples), scratch, random),
            Estimator::BiasedPrice { samples } => datum.averaged(Averaging::price(samples), scratch, random),
            Estimator::Smoothed { samples, nu, .. } => {
                datum.averaged(Averaging { nu, ..Averaging::path(samples) }, scratch, random)
            }
            Estimator::Product { samples } => datum.of_product(samples, scratch, random),
            _ => {
                let LatentDatum { likelihood, at, marginal, wanted } = datum;
                let (own, integrator) = (&mut scratch.own[..wanted], &mut scratch.integrator);
                Gain::predictive(likelihood.log_predictive(at, marginal, own, integrator))
            }
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Estimator::Exact => f.write_str("exact"),
            Estimator::Biased { samples } => write!(f, "bmc:{samples}"),
            Estimator::BiasedPrice { samples } => write!(f, "bmc-price:{samples}"),
            Estimator::Smoothed { samples, nu, decays } => {
                write!(f, "smooth-bmc:{samples}:{nu}{}", if *decays { "/t" } else { "" })
            }
            Estimator::Product { samples } => write!(f, "ups:{samples}"),
            Estimator::Price { samples } => write!(f, "price:{samples}"),
            Estimator::Energy { samples } => write!(f, "reparam:{samples}"),
            Estimator::EnergyEntropy { samples } => write!(f, "reparam-ent:{samples}"),
            Estimator::StickingTheLanding { samples } => write!(f, "stl:{samples}"),
            Estimator::Piecewise { pieces } => write!(f, "piecewise:{pieces}"),
        }
    }
}

impl FromStr for Estimator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let expected = || {
            Error::usage(format!(
                "estimator '{text}' is not one of {} with L from 1 to {MOST_SAMPLES}, NU positive and R from {} to {}",
                ALL.map(|facts| facts.usage).join(", "),
                PiecewiseBound::PIECES.start(),
                PiecewiseBound::PIECES.end()
            ))
        };
        let count =
            |part: &str| part.parse().ok().filter(|l| (1..=MOST_SAMPLES).contains(l)).ok_or_else(expected);
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["exact"] => Ok(Estimator::Exact),
            ["bmc", l] => Ok(Estimator::Biased { samples: count(l)? }),
            ["bmc-price", l] => Ok(Estimator::BiasedPrice { samples: count(l)? }),
            ["smooth-bmc", l, nu] => {
                let (number, decays) = nu.strip_suffix("/t").map_or((*nu, false), |number| (number, true));
                let nu = number.parse().ok().filter(|nu: &f64| *nu > 0.0 && nu.is_finite());
                Ok(Estimator::Smoothed { samples: count(l)?, nu: nu.ok_or_else(expected)?, decays })
            }
            ["ups", l] => Ok(Estimator::Product { samples: count(l)? }),
            ["price", l] => Ok(Estimator::Price { samples: count(l)? }),
            ["reparam", l] => Ok(Estimator::Energy { samples: count(l)? }),
            ["reparam-ent", l] => Ok(Estimator::EnergyEntropy { samples: count(l)? }),
            ["stl", l] => Ok(Estimator::StickingTheLanding { samples: count(l)? }),
            ["piecewise", r] => match count(r)? {
                pieces if PiecewiseBound::PIECES.contains(&pieces) => Ok(Estimator::Piecewise { pieces }),
                _ => Err(expected()),
            },
            _ => Err(expected()),
        }
    }
}

stored_as_text!(Estimator);
