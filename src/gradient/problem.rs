//! The inputs of a pass: the form of its products, the wanted results, the problem, and a batch.

use crate::effects::RowMoments;
use crate::latent::{Layer, Layers};
use crate::likelihood::ObservationModel;
use crate::objective::{Objective, Targets};
use crate::variational::{Factor, Normal};
use faer::MatRef;
use serde::{Deserialize, Serialize};

/// The order of the products of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Through `A = L⁻¹ K_uf`: 5·b·M² flops, accurate for any conditioning of `K_uu`.
    Stable,
    /// Through `W = L⁻ᵀ (S − I) L⁻¹`: 3·b·M² flops, but it loses about ε·cond(K_uu) of `k_ii` in the variances.
    Direct,
}

impl Form {
    /// Returns the form for the gradient at the best q with Gaussian noise of variance σ²: the direct one if its errors of about
    /// `ε·cond(K_uu)·√k_ii` in μ are at most a hundred-thousandth of σ.
    pub(crate) fn at_best_q(layer: &Layer, noise: f64) -> Form {
        const MOST: f64 = 1e11;
        let direct = layer.inducing().is_none_or(|layer| {
            let variance = layer.mean_prior_variance();
            layer.condition_is_at_most(MOST * (noise / variance).sqrt().min(0.1))
        });
        if direct { Form::Direct } else { Form::Stable }
    }
}

/// The results that a pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// The losses at w = 0, with the sums from which the best q follows in closed form if losses are quadratic in μ.
    Origin,
    /// The losses at q with their gradient in q.
    Losses,
    /// In addition the derivatives in the likelihood's own parameters.
    Own,
    /// In addition the gradient in θ and Z through the features, at any q.
    Gradient,
    /// The gradient in θ and Z at the q that minimises the objective. The gradient in q is zero there, and `A diag(h) Aᵀ` is known from the
    /// pass at the origin, so neither is computed. The derivatives in the likelihood's own parameters are right for [`Loss::Fitc`](crate::objective::Loss::Fitc) only; for
    /// other losses they have a closed form.
    Envelope,
}

impl Wanted {
    /// Returns the request for losses, with the gradient in θ and Z if `train_theta` is true.
    pub fn of(train_theta: bool) -> Wanted {
        if train_theta { Wanted::Gradient } else { Wanted::Losses }
    }

    /// Returns true if the gradient in θ and Z is wanted.
    pub(super) fn theta(self) -> bool {
        matches!(self, Wanted::Gradient | Wanted::Envelope)
    }

    /// Returns true if derivatives in the likelihood's own parameters are wanted.
    pub(super) fn own(self) -> bool {
        self.theta() || self == Wanted::Own
    }
}

/// Everything besides the batch that determines its loss.
#[derive(Clone, Copy)]
pub struct Problem<'a> {
    /// The layers that produce the features.
    pub layers: Layers<'a>,
    /// The observation model.
    pub likelihood: &'a ObservationModel,
    /// The loss and β.
    pub objective: Objective,
    /// The whitened posterior of every process.
    pub q: &'a [Normal],
    /// The factor C of the covariance, for samples of one process. If samples need it and it is absent, it is computed.
    pub factor: Option<Factor<'a>>,
    /// The moments of grouped effects, which are part of q, for one process.
    pub groups: Option<RowMoments<'a>>,
    /// The variances of Gaussian noise, one for each process, if losses are constant multiples of each other's: processes of one layer then
    /// share their products in passes at the origin and at the optimum. Otherwise empty.
    pub noises: &'a [f64],
}

impl<'a> Problem<'a> {
    /// Creates a problem without grouped effects, whose processes share no products.
    pub fn new(
        layers: Layers<'a>,
        likelihood: &'a ObservationModel,
        objective: Objective,
        q: &'a [Normal],
    ) -> Self {
        Problem { layers, likelihood, objective, q, factor: None, groups: None, noises: &[] }
    }
}

/// A batch: inputs `b × D`, a row per datum, targets, and the weight `n/b` of its sum.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// Inputs, `b × D`, any strides.
    pub x: MatRef<'a, f64>,
    /// The targets, b rows.
    pub targets: Targets<'a>,
    /// The weight `n/b` of the sum over rows.
    pub scale: f64,
}

impl<'a> Batch<'a> {
    /// A batch with exposures and weights of 1.
    pub fn of(x: MatRef<'a, f64>, y: &'a [f64], scale: f64) -> Self {
        Batch { x, targets: Targets::of(y), scale }
    }

    pub(super) fn part(&self, from: usize, len: usize) -> Self {
        Batch {
            x: self.x.subrows(from, len),
            targets: self.targets.range(from, from + len),
            scale: self.scale,
        }
    }
}
