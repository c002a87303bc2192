//! Training objectives as losses ℓ(y, μ, v) per row plus β·KL.

mod estimator;
mod piecewise;
mod rejection;
mod row;
mod sample_size;

pub(crate) use estimator::{Draws, EntropyPart, MOST_SAMPLES};
pub use estimator::{Estimator, EstimatorCounts, EstimatorFacts};
pub(crate) use piecewise::PiecewiseBound;
pub use sample_size::{DensityMoments, failure_at, samples_for_step};

use crate::data::{Offsets, offset_at};
use crate::likelihood::quadrature::Integrator;
use crate::likelihood::{Expectation, LatentRows, Local, Observation, ObservationModel, OneFunction};
use faer::MatRef;
use rand_chacha::ChaCha8Rng;
pub use row::LossScratch;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// The loss ℓ(y, μ, v) of a row ([docs/mathematics.md#objectives](crate::book::mathematics#objectives)).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[doc(hidden)]
pub enum Loss {
    /// `−E_{N(f; μ, v)} log p(y|f)`: with β = 1 the evidence lower bound. The estimator affects
    /// only gradients, except that `Estimator::Piecewise` replaces the expectation itself by a
    /// bound.
    ExpectedLog(Estimator),
    /// `−log E_{N(f; μ, v)} p(y|f)`: direct loss minimisation for the predictive log loss (Wei, Sheth & Khardon 2021;
    /// Jankowiak, Pleiss & Gardner 2020). Sampling estimators estimate values as well as gradients, without quadrature.
    LogPredictive(Estimator),
    /// `−E_{N(f; μ, s)} log N(y; f, σ² + r)` for Gaussian noise: the residual variance r is noise, and s is the variance that q gives. At the
    /// best q the objective is the negative log evidence of FITC (Snelson & Ghahramani 2006), and of rows given their neighbours.
    Fitc,
    /// `½ (y − μ)²`.
    Square,
}

/// The minimised function `(n/b) Σ ℓ_i + β KL(q ‖ p)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The loss of a row.
    #[doc(hidden)]
    pub loss: Loss,
    /// The weight of the KL term, positive.
    #[doc(hidden)]
    pub beta: f64,
    /// A fixed number of quadrature nodes, instead of as many as each row needs.
    #[doc(hidden)]
    pub nodes: Option<usize>,
    /// Lets expected log densities of classes have errors up to 1e-6, which makes them cheaper.
    #[serde(default)]
    #[doc(hidden)]
    pub coarse: bool,
}

impl Objective {
    /// The (β-)ELBO.
    pub fn elbo(beta: f64) -> Self {
        Objective { loss: Loss::ExpectedLog(Estimator::Exact), beta, nodes: None, coarse: false }
    }

    pub(crate) fn estimator(&self) -> Estimator {
        match self.loss {
            Loss::ExpectedLog(estimator) | Loss::LogPredictive(estimator) => estimator,
            Loss::Fitc | Loss::Square => Estimator::Exact,
        }
    }

    /// Returns the objective with losses in closed form or by quadrature, instead of samples of f.
    pub(crate) fn without_samples(self) -> Self {
        self.map_predictive(|_| Estimator::Exact)
    }

    /// Returns the objective at iteration `t` of training, with the smoothing of that iteration.
    pub(crate) fn at(self, t: usize) -> Self {
        self.map_predictive(|estimator| estimator.at(t))
    }

    /// Returns the objective with `samples` samples of f for each row, if its estimator draws any.
    pub(crate) fn with_latent_samples(self, samples: usize) -> Self {
        self.map_predictive(|estimator| estimator.with_latent_samples(samples))
    }

    /// Replaces the estimator of log predictive densities.
    fn map_predictive(mut self, other: impl Fn(Estimator) -> Estimator) -> Self {
        if let Loss::LogPredictive(estimator) = &mut self.loss {
            *estimator = other(*estimator);
        }
        self
    }

    /// Returns true if `∂²ℓ/∂μ²` differs from `2 ∂ℓ/∂v`; they are equal for expected losses (Price's theorem).
    pub(crate) fn has_own_curvature(&self) -> bool {
        matches!(self.loss, Loss::LogPredictive(_) | Loss::Square)
    }

    /// The evidence of Gaussian noise with the residual variances as noise.
    #[doc(hidden)]
    pub fn fitc() -> Self {
        Objective { loss: Loss::Fitc, ..Objective::elbo(1.0) }
    }

    /// Square-loss DLM.
    pub fn square(beta: f64) -> Self {
        Objective { loss: Loss::Square, ..Objective::elbo(beta) }
    }

    /// Log-loss DLM with exact gradients.
    pub fn dlm(beta: f64) -> Self {
        Objective { loss: Loss::LogPredictive(Estimator::Exact), ..Objective::elbo(beta) }
    }
}

/// The observations of some rows: coded targets, and exposures and weights if they differ from 1.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// Coded targets.
    pub y: &'a [f64],
    /// Exposures of counts or numbers of trials, or empty when all are 1.
    pub exposure: &'a [f64],
    /// Sample weights, which multiply the losses, or empty when all are 1.
    pub weights: &'a [f64],
    /// The other ends of the intervals of censored targets ([`Observation::other_end`]), NaN for known ones, or empty when all are known.
    pub other_ends: &'a [f64],
    /// The targets of P outputs, row by row, with NaN for an unobserved one; empty for one output. With several outputs, `y` holds
    /// arbitrary numbers.
    #[doc(hidden)]
    pub outputs: &'a [f64],
    /// Known additions to the functions, `n × C`; no columns without offsets.
    #[doc(hidden)]
    pub offsets: MatRef<'a, f64>,
}

impl<'a, T: AsRef<[f64]> + ?Sized> From<&'a T> for Targets<'a> {
    fn from(y: &'a T) -> Self {
        Targets::of(y.as_ref())
    }
}

impl<'a> Targets<'a> {
    /// Targets with exposures and weights of 1.
    pub fn of(y: &'a [f64]) -> Self {
        Targets { y, exposure: &[], weights: &[], other_ends: &[], outputs: &[], offsets: Offsets::none() }
    }

    /// Returns the number of rows.
    #[doc(hidden)]
    pub fn len(&self) -> usize {
        self.y.len()
    }

    /// Returns true if there are no rows.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.y.is_empty()
    }

    /// Returns rows `from..to`.
    #[doc(hidden)]
    pub fn range(&self, from: usize, to: usize) -> Targets<'a> {
        let part = |values: &'a [f64]| if values.is_empty() { values } else { &values[from..to] };
        Targets {
            y: &self.y[from..to],
            exposure: part(self.exposure),
            weights: part(self.weights),
            other_ends: part(self.other_ends),
            outputs: &self.outputs[from * self.width()..to * self.width()],
            offsets: if self.has_offsets() { self.offsets.subrows(from, to - from) } else { self.offsets },
        }
    }

    /// Returns true if there are known additions to the functions.
    pub(crate) fn has_offsets(&self) -> bool {
        self.offsets.ncols() > 0
    }

    /// Returns the known addition to a function in row `i`.
    #[doc(hidden)]
    pub fn offset(&self, i: usize, function: usize) -> f64 {
        offset_at(self.offsets, i, function)
    }

    /// Returns the sum of the weights.
    #[doc(hidden)]
    pub fn total_weight(&self) -> f64 {
        if self.weights.is_empty() { self.len() as f64 } else { self.weights.iter().sum() }
    }

    /// Returns the number P of outputs, or 0 for a single output.
    pub(crate) fn width(&self) -> usize {
        self.outputs.len().checked_div(self.y.len()).unwrap_or(0)
    }

    /// Returns the observation of row `i`.
    #[doc(hidden)]
    pub fn at(&self, i: usize) -> Observation<'a> {
        let exposure = self.exposure.get(i).copied().unwrap_or(1.0);
        let outputs = if self.outputs.is_empty() {
            self.outputs
        } else {
            let width = self.width();
            &self.outputs[i * width..(i + 1) * width]
        };
        let other_end = self.other_ends.get(i).copied().unwrap_or(f64::NAN);
        Observation { y: self.y[i], exposure, other_end, outputs }
    }

    /// Returns the weight of row `i`.
    #[doc(hidden)]
    pub fn weight(&self, i: usize) -> f64 {
        self.weights.get(i).copied().unwrap_or(1.0)
    }
}

/// The rows of a block: their observations and the marginals of their latent functions.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct LossInputs<'a> {
    /// The observations of n rows.
    pub targets: Targets<'a>,
    /// The latent means μ, n for each function: one function follows the other.
    pub mean: &'a [f64],
    /// The latent variances v, in the order of the means; with [`Loss::Fitc`] the variances s that q gives.
    pub variance: &'a [f64],
    /// The residual variances r, which only [`Loss::Fitc`] reads.
    pub residual: &'a [f64],
}

impl LossInputs<'_> {
    /// Returns the means of f + o, if there are offsets.
    fn with_offsets(&self) -> Option<Vec<f64>> {
        let (n, targets) = (self.targets.len(), self.targets);
        let raised = |(at, mean): (usize, &f64)| mean + targets.offset(at % n, at / n);
        targets.has_offsets().then(|| self.mean.iter().enumerate().map(raised).collect())
    }
}

/// The derivatives of the losses of a block by row. All slices except the last have the length of the block; with several functions, one
/// function follows the other.
#[doc(hidden)]
pub struct Derivatives<'a> {
    /// `g_i = ∂/∂μ_i`.
    pub mean: &'a mut [f64],
    /// `h_i = ∂/∂v_i`.
    pub variance: &'a mut [f64],
    /// `∂/∂r_i`, which only [`Loss::Fitc`] writes.
    pub residual: &'a mut [f64],
    /// `∂²/∂μ_i²`, or 0 if that is negative.
    pub curvature: &'a mut [f64],
    /// Accumulates `Σ_i ∂/∂ψ` for the likelihood's own parameters, unless it is empty.
    pub own: &'a mut [f64],
}

impl Objective {
    /// Returns `scale · Σ w_i ℓ_i` over a block with its derivatives g and h, all scaled by `scale = n/b` and the weights. Only sampling
    /// estimators draw from `random`.
    #[doc(hidden)]
    pub fn losses(
        &self,
        likelihood: &ObservationModel,
        scale: f64,
        rows: LossInputs<'_>,
        out: Derivatives<'_>,
        row: &mut LossScratch,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        match self.loss {
            Loss::Fitc => return fitc(likelihood.gaussian_noise().unwrap_or(f64::NAN), scale, rows, out),
            Loss::Square => return square(scale, rows, out),
            Loss::ExpectedLog(_) | Loss::LogPredictive(_) => {}
        }
        let raised = rows.with_offsets();
        let rows = LossInputs { mean: raised.as_deref().unwrap_or(rows.mean), ..rows };
        let exact = matches!(self.estimator(), Estimator::Exact);
        if let Some(one) = likelihood.one().filter(|one| exact && one.prefers_many_rows()) {
            return self.losses_at_once(one, scale, rows, out, &mut row.integrator);
        }
        let LossInputs { targets, mean, variance, .. } = rows;
        let n = targets.len();
        let functions = mean.len() / n.max(1);
        row.resize(functions, out.own.len());
        let mut sum = 0.0;
        for i in 0..n {
            for c in 0..functions {
                (row.mean[c], row.variance[c]) = (mean[c * n + i], variance[c * n + i]);
            }
            row.own.fill(0.0);
            let value = row.gain(self.loss, &**likelihood, targets.at(i), random);
            let weight = -scale * targets.weight(i);
            sum += weight * value;
            for c in 0..functions {
                out.mean[c * n + i] = weight * row.by_mean[c];
                out.variance[c * n + i] = weight * row.by_variance[c];
                out.curvature[c * n + i] = weight * row.by_mean_twice[c].min(0.0);
            }
            out.own.iter_mut().zip(&row.own).for_each(|(own, part)| *own += weight * part);
        }
        sum
    }

    /// Like [`losses`](Self::losses), with few calls of the likelihood for all rows.
    fn losses_at_once(
        &self,
        likelihood: &dyn OneFunction,
        scale: f64,
        LossInputs { targets, mean, variance, .. }: LossInputs<'_>,
        out: Derivatives<'_>,
        integrator: &mut Integrator,
    ) -> f64 {
        let rows: Vec<Observation<'_>> = (0..targets.len()).map(|i| targets.at(i)).collect();
        let weight: Vec<f64> = (0..targets.len()).map(|i| -scale * targets.weight(i)).collect();
        let mut local = vec![Local::default(); rows.len()];
        let block = LatentRows { likelihood, rows: &rows, mean, variance, weight: &weight };
        let of = match self.loss {
            Loss::LogPredictive(_) => Expectation::LogPredictive,
            _ => Expectation::ExpectedLog,
        };
        integrator.expectations(of, block, out.own, &mut local);
        let mut sum = 0.0;
        for (i, (local, weight)) in local.into_iter().zip(weight).enumerate() {
            sum += weight * local.value;
            out.mean[i] = weight * local.mean;
            out.variance[i] = weight * local.variance;
            out.curvature[i] = weight * row::curvature(of, local.mean, local.variance).min(0.0);
        }
        sum
    }
}

/// Returns `scale · Σ w_i ½ [log 2πV_i + ((y_i − μ_i)² + s_i)/V_i]` with `V_i = σ² + r_i` for the noise variance σ², and its derivatives.
pub(crate) fn fitc(noise: f64, scale: f64, rows: LossInputs<'_>, out: Derivatives<'_>) -> f64 {
    let LossInputs { targets, mean, variance, residual } = rows;
    let (mut sum, mut own) = (0.0, 0.0);
    for i in 0..targets.len() {
        let weight = scale * targets.weight(i);
        let precision = 1.0 / (noise + residual[i]);
        let error = targets.y[i] - mean[i];
        let square = (error * error + variance[i]) * precision;
        sum += weight * 0.5 * ((TAU / precision).ln() + square);
        out.mean[i] = -weight * error * precision;
        out.variance[i] = weight * 0.5 * precision;
        out.residual[i] = weight * 0.5 * precision * (1.0 - square);
        out.curvature[i] = weight * precision;
        own += out.residual[i];
    }
    out.own.iter_mut().for_each(|slope| *slope += own);
    sum
}

/// Returns `scale · Σ w_i ½ (y_i − μ_i)²` and its derivatives.
fn square(scale: f64, rows: LossInputs<'_>, out: Derivatives<'_>) -> f64 {
    let LossInputs { targets, mean, .. } = rows;
    let mut sum = 0.0;
    for (i, (y, mean)) in targets.y.iter().zip(mean).enumerate() {
        let (weight, error) = (scale * targets.weight(i), y - mean);
        sum += weight * 0.5 * error * error;
        (out.mean[i], out.variance[i], out.curvature[i]) = (-weight * error, 0.0, weight);
        out.residual[i] = 0.0;
    }
    sum
}
