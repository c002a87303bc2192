//! Training objectives as losses ℓ(y, μ, v) per row plus β·KL.

mod estimator;
mod facts;
mod joint;
mod latent_samples;
mod piecewise;
mod rejection;
mod sample_size;

pub use estimator::Estimator;
pub(crate) use estimator::MOST_SAMPLES;
pub use facts::{Draws, EntropyPart, EstimatorCounts, EstimatorFacts};
pub(crate) use piecewise::PiecewiseBound;
pub use sample_size::{DensityMoments, failure_at, samples_for_step};

use crate::likelihood::{LatentMarginal, LatentRows, Likelihood, Local, Observation, ObservationModel};
use crate::quadrature::Integrator;
use joint::JointScratch;
use latent_samples::LatentDatum;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

/// The loss ℓ(y, μ, v) of a row (docs/mathematics.md#objectives).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Loss {
    /// `−E_{N(f; μ, v)} log p(y|f)`: with β = 1 the evidence lower bound. The estimator affects
    /// only gradients, except that `Estimator::Piecewise` replaces the expectation itself by a
    /// bound.
    ExpectedLog(Estimator),
    /// `−log E_{N(f; μ, v)} p(y|f)`: direct loss minimisation for the predictive log loss (Wei, Sheth & Khardon 2021;
    /// Jankowiak, Pleiss & Gardner 2020). Sampling estimators estimate values as well as gradients, without quadrature;
    /// [`Objective::without_samples`] gives exact values.
    LogPredictive(Estimator),
}

/// The minimised function `(n/b) Σ ℓ_i + β KL(q ‖ p)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The loss of a row.
    pub loss: Loss,
    /// The weight of the KL term, positive.
    pub beta: f64,
    /// A fixed number of quadrature nodes, instead of as many as each row needs.
    pub nodes: Option<usize>,
    /// Lets expected log densities of classes have errors up to 1e-6, which makes them cheaper.
    #[serde(default)]
    pub coarse: bool,
}

impl Objective {
    /// The (β-)ELBO.
    pub fn elbo(beta: f64) -> Self {
        Objective { loss: Loss::ExpectedLog(Estimator::Exact), beta, nodes: None, coarse: false }
    }

    /// Returns the estimator of gradients.
    pub fn estimator(&self) -> Estimator {
        match self.loss {
            Loss::ExpectedLog(estimator) | Loss::LogPredictive(estimator) => estimator,
        }
    }

    /// Returns the objective with losses in closed form or by quadrature, instead of samples of f.
    pub fn without_samples(self) -> Self {
        let loss = match self.loss {
            Loss::LogPredictive(_) => Loss::LogPredictive(Estimator::Exact),
            loss => loss,
        };
        Objective { loss, ..self }
    }

    /// Returns the objective at iteration `t` of training, with the smoothing of that iteration.
    pub fn at(self, t: usize) -> Self {
        let loss = match self.loss {
            Loss::LogPredictive(estimator) => Loss::LogPredictive(estimator.at(t)),
            loss => loss,
        };
        Objective { loss, ..self }
    }

    /// Returns the objective with `samples` samples of f for each row, if its estimator draws any.
    pub(crate) fn with_latent_samples(self, samples: usize) -> Self {
        let loss = match self.loss {
            Loss::LogPredictive(estimator) => Loss::LogPredictive(estimator.with_latent_samples(samples)),
            loss => loss,
        };
        Objective { loss, ..self }
    }

    /// Returns true if `∂²ℓ/∂μ²` differs from `2 ∂ℓ/∂v`; they are equal for expected losses (Price's theorem).
    pub(crate) fn has_own_curvature(&self) -> bool {
        matches!(self.loss, Loss::LogPredictive(_))
    }

    /// Log-loss DLM with exact gradients.
    pub fn dlm(beta: f64) -> Self {
        Objective { loss: Loss::LogPredictive(Estimator::Exact), beta, nodes: None, coarse: false }
    }
}

/// The observations of some rows: coded targets, and exposures and weights if they differ from 1.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// Coded targets.
    pub y: &'a [f64],
    /// Exposures, or empty when all are 1.
    pub exposure: &'a [f64],
    /// Sample weights, which multiply the losses, or empty when all are 1.
    pub weights: &'a [f64],
    /// The targets of P outputs, row by row, with NaN for an unobserved one; empty for one output. With several outputs, `y` holds
    /// arbitrary numbers.
    pub outputs: &'a [f64],
}

impl<'a> From<&'a [f64]> for Targets<'a> {
    fn from(y: &'a [f64]) -> Self {
        Targets::of(y)
    }
}

impl<'a> From<&'a Vec<f64>> for Targets<'a> {
    fn from(y: &'a Vec<f64>) -> Self {
        Targets::of(y)
    }
}

impl<'a, const N: usize> From<&'a [f64; N]> for Targets<'a> {
    fn from(y: &'a [f64; N]) -> Self {
        Targets::of(y)
    }
}

impl<'a> Targets<'a> {
    /// Targets with exposures and weights of 1.
    pub fn of(y: &'a [f64]) -> Self {
        Targets { y, exposure: &[], weights: &[], outputs: &[] }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// Returns rows `from..to`.
    pub fn range(&self, from: usize, to: usize) -> Targets<'a> {
        let part = |values: &'a [f64]| if values.is_empty() { values } else { &values[from..to] };
        Targets {
            y: &self.y[from..to],
            exposure: part(self.exposure),
            weights: part(self.weights),
            outputs: &self.outputs[from * self.width()..to * self.width()],
        }
    }

    /// Returns the sum of the weights.
    pub fn total_weight(&self) -> f64 {
        if self.weights.is_empty() { self.len() as f64 } else { self.weights.iter().sum() }
    }

    /// Returns the number P of outputs, or 0 for a single output.
    pub fn width(&self) -> usize {
        self.outputs.len().checked_div(self.y.len()).unwrap_or(0)
    }

    /// Returns the observation of row `i`.
    pub fn at(&self, i: usize) -> Observation<'a> {
        let exposure = self.exposure.get(i).copied().unwrap_or(1.0);
        let outputs = if self.outputs.is_empty() {
            self.outputs
        } else {
            let width = self.width();
            &self.outputs[i * width..(i + 1) * width]
        };
        Observation { y: self.y[i], exposure, outputs }
    }

    /// Returns the weight of row `i`.
    pub fn weight(&self, i: usize) -> f64 {
        self.weights.get(i).copied().unwrap_or(1.0)
    }
}

/// The rows of a block: their observations and the marginals of their latent functions.
#[derive(Clone, Copy, Debug)]
pub struct LossInputs<'a> {
    /// The observations of n rows.
    pub targets: Targets<'a>,
    /// The latent means μ, n for each function: one function follows the other.
    pub mean: &'a [f64],
    /// The latent variances v, in the order of the means.
    pub variance: &'a [f64],
}

/// The derivatives of the losses of a block by row. All slices except the last have the length of the block; with several functions, one
/// function follows the other.
pub struct Derivatives<'a> {
    /// `g_i = ∂/∂μ_i`.
    pub mean: &'a mut [f64],
    /// `h_i = ∂/∂v_i`.
    pub variance: &'a mut [f64],
    /// `∂²/∂μ_i²`, or 0 if that is negative.
    pub curvature: &'a mut [f64],
    /// Accumulates `Σ_i ∂/∂ψ` for the likelihood's own parameters, unless it is empty.
    pub own: &'a mut [f64],
}

/// The buffers of losses, one per thread of work.
#[derive(Clone, Debug)]
pub struct LossScratch {
    integrator: Integrator,
    piecewise: Option<PiecewiseBound>,
    own: Vec<f64>,
    samples: Vec<f64>,
    value: Vec<f64>,
    first: Vec<f64>,
    joint: JointScratch,
    /// The counts of sampling estimators since this was last cleared.
    pub counts: EstimatorCounts,
}

impl LossScratch {
    /// Buffers for an objective and a likelihood with `own` parameter values.
    pub fn new(objective: &Objective, own: usize) -> Self {
        let piecewise = match objective.estimator() {
            Estimator::Piecewise { pieces } => PiecewiseBound::new(pieces).ok(),
            _ => None,
        };
        LossScratch {
            integrator: Integrator::new(objective.nodes),
            piecewise,
            own: vec![0.0; own],
            samples: Vec::new(),
            value: Vec::new(),
            first: Vec::new(),
            joint: JointScratch::new(*objective),
            counts: EstimatorCounts::default(),
        }
    }
}

impl Objective {
    /// Returns `scale · Σ w_i ℓ_i` over a block with its derivatives g and h, all scaled by `scale = n/b` and the weights. Only sampling
    /// estimators draw from `random`.
    pub fn losses(
        &self,
        model: &ObservationModel,
        scale: f64,
        rows: LossInputs<'_>,
        out: Derivatives<'_>,
        scratch: &mut LossScratch,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        let likelihood = match model {
            ObservationModel::One(likelihood) => likelihood.as_ref(),
            ObservationModel::Joint(likelihood) => {
                return self.joint_losses(likelihood.as_ref(), scale, rows, out, scratch, random);
            }
        };
        let exact = matches!(self.estimator(), Estimator::Exact);
        if exact && likelihood.prefers_many_rows() {
            return self.losses_at_once(likelihood, scale, rows, out, &mut scratch.integrator);
        }
        let LossInputs { targets, mean, variance } = rows;
        let mut sum = 0.0;
        let wanted = out.own.len();
        for i in 0..targets.len() {
            scratch.own.fill(0.0);
            let latent = LatentMarginal::new(mean[i], variance[i]);
            let gain = self.gain(likelihood, targets.at(i), latent, wanted, scratch, random);
            let weight = -scale * targets.weight(i);
            sum += weight * gain.value;
            out.mean[i] = weight * gain.mean;
            out.variance[i] = weight * gain.variance;
            out.curvature[i] = weight * gain.curvature.min(0.0);
            out.own.iter_mut().zip(&scratch.own).for_each(|(own, part)| *own += weight * part);
        }
        sum
    }

    /// Like [`losses`](Self::losses), with few calls of the likelihood for all rows.
    fn losses_at_once(
        &self,
        likelihood: &dyn Likelihood,
        scale: f64,
        LossInputs { targets, mean, variance }: LossInputs<'_>,
        out: Derivatives<'_>,
        integrator: &mut Integrator,
    ) -> f64 {
        let rows: Vec<Observation<'_>> = (0..targets.len()).map(|i| targets.at(i)).collect();
        let weight: Vec<f64> = (0..targets.len()).map(|i| -scale * targets.weight(i)).collect();
        let mut local = vec![Local::default(); rows.len()];
        let of = LatentRows { rows: &rows, mean, variance, weight: &weight };
        let gain = match self.loss {
            Loss::ExpectedLog(_) => {
                integrator.expected_log_densities(likelihood, of, out.own, &mut local);
                Gain::expected
            }
            Loss::LogPredictive(_) => {
                integrator.log_predictives(likelihood, of, out.own, &mut local);
                Gain::predictive
            }
        };
        let mut sum = 0.0;
        for (i, (local, weight)) in local.into_iter().zip(weight).enumerate() {
            let gain = gain(local);
            sum += weight * gain.value;
            out.mean[i] = weight * gain.mean;
            out.variance[i] = weight * gain.variance;
            out.curvature[i] = weight * gain.curvature.min(0.0);
        }
        sum
    }

    /// Returns `−ℓ` of one row; the derivatives in the first `wanted` own parameters are written to
    /// the scratch.
    fn gain(
        &self,
        likelihood: &dyn Likelihood,
        at: Observation,
        latent: LatentMarginal,
        wanted: usize,
        scratch: &mut LossScratch,
        random: &mut ChaCha8Rng,
    ) -> Gain {
        match self.loss {
            Loss::ExpectedLog(_) => {
                if let Some(bound) = &scratch.piecewise {
                    return Gain::expected(bound.expectation(at.y, latent));
                }
                let (own, integrator) = (&mut scratch.own[..wanted], &mut scratch.integrator);
                Gain::expected(likelihood.expected_log_density(at, latent, own, integrator))
            }
            Loss::LogPredictive(estimator) => {
                let datum = LatentDatum { likelihood, at, latent, wanted };
                estimator.log_predictive(datum, scratch, random)
            }
        }
    }
}

/// `−ℓ` of a row with its derivatives in the latent mean μ and variance v.
#[derive(Clone, Copy, Debug)]
struct Gain {
    value: f64,
    /// `∂/∂μ`.
    mean: f64,
    /// `∂/∂v`.
    variance: f64,
    /// `∂²/∂μ²`.
    curvature: f64,
}

impl Gain {
    /// Creates the gain of an expected log density; its curvature is `2 ∂/∂v` (Price).
    fn expected(local: Local) -> Gain {
        let Local { value, mean, variance } = local;
        Gain { value, mean, variance, curvature: 2.0 * variance }
    }

    /// Creates the gain of a log predictive density `L = log E p`: `∂²L/∂μ² = 2 ∂L/∂v − (∂L/∂μ)²`,
    /// since `∂_v E p = ½ ∂²_μ E p`. For a log-concave likelihood it is never positive, even if
    /// `∂L/∂v` is.
    fn predictive(local: Local) -> Gain {
        let Local { value, mean, variance } = local;
        Gain { value, mean, variance, curvature: 2.0 * variance - mean * mean }
    }
}
