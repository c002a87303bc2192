//! How gradients are computed: the choices, and those of log E p(y|f), which sample f for each datum; no steps.

use super::{LossScratch, PiecewiseBound, rejection};
use crate::error::{Error, Result};
use crate::likelihood::{Likelihood, Local, Observation};
use crate::words::stored_as_text;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How gradients are computed. Those of the log predictive density from samples of f for each datum (Wei, Sheth & Khardon
/// 2021; MATH, section 4); those of the expected log density from samples of w for all data of a batch (MATH, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Estimator {
    /// In closed form or by quadrature (both losses).
    Exact,
    /// bMC: the ratio of averages over samples of N(f; μ, v). Biased.
    Biased {
        /// Samples per datum.
        samples: usize,
    },
    /// smooth-bMC: the same with ν added to the average in the denominator.
    Smoothed {
        /// Samples per datum.
        samples: usize,
        /// The addition ν.
        nu: f64,
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

impl Estimator {
    /// How many samples of w a batch takes, for estimators that draw them.
    pub fn weight_samples(self) -> Option<usize> {
        match self {
            Estimator::Price { samples }
            | Estimator::Energy { samples }
            | Estimator::EnergyEntropy { samples }
            | Estimator::StickingTheLanding { samples } => Some(samples),
            _ => None,
        }
    }

    /// Whether gradients are random.
    pub fn is_sampled(self) -> bool {
        !matches!(self, Estimator::Exact | Estimator::Piecewise { .. })
    }

    /// Whether it is for the log predictive density alone.
    pub fn is_predictive(self) -> bool {
        self.is_sampled() && self.weight_samples().is_none()
    }

    /// `log E p(y|f)`, by quadrature, with derivatives as the estimator has them.
    pub(super) fn log_predictive(
        self,
        likelihood: &dyn Likelihood,
        at: Observation,
        marginal: (f64, f64),
        wanted: usize,
        (scratch, random): (&mut LossScratch, &mut ChaCha8Rng),
    ) -> Local {
        // Samples replace the derivatives of quadrature, in own parameters too.
        let by_quadrature = if self.is_predictive() { 0 } else { wanted };
        let (own, integrator) = (&mut scratch.own[..by_quadrature], &mut scratch.integrator);
        let exact = likelihood.log_predictive(at, marginal, own, integrator);
        let tools = (scratch, random);
        let sampled = match self {
            Estimator::Biased { samples } => biased(likelihood, at, marginal, (samples, 0.0), wanted, tools),
            Estimator::Smoothed { samples, nu } => {
                biased(likelihood, at, marginal, (samples, nu), wanted, tools)
            }
            Estimator::Product { samples } => product(likelihood, at, marginal, samples, wanted, tools),
            _ => return exact,
        };
        Local { value: exact.value, ..sampled }
    }
}

/// `E φ′ / (E φ + ν)` and `½ E φ″ / (E φ + ν)` with averages over samples, φ = p(y|f).
fn biased(
    likelihood: &dyn Likelihood,
    at: Observation,
    (mu, v): (f64, f64),
    (samples, nu): (usize, f64),
    wanted: usize,
    (scratch, random): (&mut LossScratch, &mut ChaCha8Rng),
) -> Local {
    let sd = v.max(0.0).sqrt();
    let LossScratch { own, samples: f, value, first, .. } = scratch;
    f.clear();
    f.extend((0..samples).map(|_| {
        let z: f64 = StandardNormal.sample(random);
        mu + sd * z
    }));
    value.resize(samples, 0.0);
    first.resize(samples, 0.0);
    likelihood.log_density(at, f, value, first);
    // φ/(mean φ + ν) per sample; the largest log density is taken out first, so that no ratio is 0/0.
    let top = value.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        return Local { value: f64::NAN, mean: f64::NAN, variance: f64::NAN };
    }
    value.iter_mut().for_each(|l| *l = (*l - top).exp());
    let smoothing = if nu > 0.0 { samples as f64 * nu * (-top).exp() } else { 0.0 };
    let total = value.iter().sum::<f64>() + smoothing;
    value.iter_mut().for_each(|w| *w /= total);
    let (mut mean, mut variance) = (0.0, 0.0);
    for ((w, slope), f) in value.iter().zip(&*first).zip(&*f) {
        mean += w * slope;
        // φ″/φ = (log φ)″ + ((log φ)′)²; a sample of no weight may have derivatives that overflow.
        if *w > 0.0 {
            variance += 0.5 * w * (likelihood.curvature(at, *f) + slope * slope);
        }
    }
    if wanted > 0 {
        likelihood.own_gradient(at, f, value, &mut own[..wanted]);
    }
    Local { value: f64::NAN, mean, variance }
}

/// `E (f − μ)/v` and `½ E ((f − μ)²/v − 1)/v` over samples of the product `N(f; μ, v) p(y|f)`.
fn product(
    likelihood: &dyn Likelihood,
    at: Observation,
    (mu, v): (f64, f64),
    samples: usize,
    wanted: usize,
    (scratch, random): (&mut LossScratch, &mut ChaCha8Rng),
) -> Local {
    let LossScratch { own, samples: f, value, counts, integrator, .. } = scratch;
    rejection::draw(likelihood, at, (mu, v), samples, (f, counts), (integrator, random));
    let share = 1.0 / samples as f64;
    let (mut mean, mut variance) = (0.0, 0.0);
    for f in f.iter() {
        let d = f - mu;
        mean += share * d / v;
        variance += share * 0.5 * (d * d / v - 1.0) / v;
    }
    if wanted > 0 {
        value.clear();
        value.resize(samples, share);
        likelihood.own_gradient(at, f, value, &mut own[..wanted]);
    }
    Local { value: f64::NAN, mean, variance }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Estimator::Exact => f.write_str("exact"),
            Estimator::Biased { samples } => write!(f, "bmc:{samples}"),
            Estimator::Smoothed { samples, nu } => write!(f, "smooth-bmc:{samples}:{nu}"),
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
                "estimator '{text}' is not one of exact, bmc:L, smooth-bmc:L:NU, ups:L, price:L, reparam:L, reparam-ent:L, stl:L, piecewise:R with L at least 1, NU positive and R from {} to {}",
                PiecewiseBound::PIECES.start(),
                PiecewiseBound::PIECES.end()
            ))
        };
        let count = |part: &str| part.parse().ok().filter(|l| *l > 0).ok_or_else(expected);
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["exact"] => Ok(Estimator::Exact),
            ["bmc", l] => Ok(Estimator::Biased { samples: count(l)? }),
            ["smooth-bmc", l, nu] => {
                let nu =
                    nu.parse().ok().filter(|nu: &f64| *nu > 0.0 && nu.is_finite()).ok_or_else(expected)?;
                Ok(Estimator::Smoothed { samples: count(l)?, nu })
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
