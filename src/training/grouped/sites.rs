//! Gaussian sites that replace the likelihood of every row in models with grouped effects: their
//! values, losses and steps.
//!
//! The best Gaussian q(w, b) for a sum of losses `ℓ(y_i, μ_i, v_i)` plus `β KL(q ‖ p)` is the prior times one Gaussian factor for each row, a
//! *site* with precision d and target ỹ (Khan & Lin 2017; Adam, Chang, Khan & Solin 2021):
//!
//! ```text
//! t_i(η) = exp(−½ d_i (ỹ_i − η)²),   β d_i = 2 ∂ℓ/∂v_i,   β d_i (ỹ_i − μ_i) = −∂ℓ/∂μ_i
//! ```
//!
//! Natural-gradient steps move `d` and `d ỹ` a fraction of the way to these values. Let `J(d, ỹ)` be
//! the negative log evidence of the sites as observations with Gaussian noise (the bound of VFE,
//! without the normalisers of the sites). The objective is
//!
//! ```text
//! F = Σ ℓ_i + β [ J(d, ỹ) − ½ Σ d_i ((ỹ_i − μ_i)² + v_i) ]
//!   = Σ ℓ_i + β ½ [ |E w|² + |E u|² + log|P| + Σ d_i (r_i − v_i) ]
//! ```
//!
//! The second form keeps its digits where a site of little precision has a distant target. Outliers have such sites.
//!
//! At the best sites the derivatives of F in μ and v vanish. The gradient in hyper-parameters is then β times the gradient of J at fixed sites,
//! plus the gradient of the losses in the likelihood's own parameters.

use crate::collapsed::Dataset;
use crate::likelihood::ObservationModel;
use crate::objective::{Objective, Targets};
use serde::{Deserialize, Serialize};

/// Precisions closer to 0 are moved to this distance from it, because the target ỹ of such a site would not be finite.
const LEAST_PRECISION: f64 = 1e-12;

/// The least and the largest precision that a site starts with.
const FIRST_PRECISION: (f64, f64) = (1e-3, 1e6);

pub(super) struct Sites {
    /// The objective whose losses the sites approximate.
    pub objective: Objective,
    pub values: SiteValues,
}

/// Targets ỹ and precisions d of all sites.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::training) struct SiteValues {
    targets: Vec<f64>,
    precision: Vec<f64>,
}

/// The means `E η_i` and variances `Var η_i` of all rows.
#[derive(Default)]
pub(super) struct RowMarginals {
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
}

/// The losses of all rows at their marginals.
#[derive(Default)]
pub(super) struct Losses {
    /// `Σ ℓ_i`, with the sample weights.
    pub value: f64,
    /// `∂ℓ_i/∂μ_i`.
    pub mean: Vec<f64>,
    /// `∂ℓ_i/∂v_i`.
    pub variance: Vec<f64>,
    /// `Σ ∂ℓ_i/∂ψ` for the likelihood's own parameters.
    pub own: Vec<f64>,
}

impl Sites {
    /// Creates sites at the values of η that explain the targets best, with the curvatures there.
    pub fn new(objective: Objective, likelihood: &ObservationModel, targets: Targets<'_>) -> Sites {
        Sites { objective, values: SiteValues::explaining(likelihood, targets, objective.beta) }
    }

    /// Returns the rows with the sites as observations: targets ỹ with the weights d.
    pub fn observed<'a>(&'a self, data: Dataset<'a>) -> Dataset<'a> {
        let SiteValues { targets, precision } = &self.values;
        Dataset { targets: Targets { weights: precision, ..Targets::of(targets) }, ..data }
    }

    /// Returns `½ Σ d_i v_i`.
    pub fn explained(&self, marginals: &RowMarginals) -> f64 {
        let of_rows = self.values.precision.iter().zip(&marginals.variance);
        of_rows.map(|(d, v)| 0.5 * d * v).sum()
    }

    /// Returns the values after a natural-gradient step, which covers the fraction `step` of the
    /// way to the best values.
    pub fn stepped(&self, losses: &Losses, marginals: &RowMarginals, step: f64) -> SiteValues {
        let (beta, kept) = (self.objective.beta, 1.0 - step);
        let mut values = self.values.clone();
        for (i, (target, d)) in values.targets.iter_mut().zip(&mut values.precision).enumerate() {
            let best = 2.0 * losses.variance[i] / beta;
            let pull = d_times(*d, *target - marginals.mean[i]);
            // The shift d (ỹ − μ) around the present mean has all digits that the step needs.
            let shift = kept * pull - step * losses.mean[i] / beta;
            let mut moved = kept * *d + step * best;
            if moved.abs() < LEAST_PRECISION && shift != 0.0 {
                moved = LEAST_PRECISION.copysign(moved);
            }
            *target = marginals.mean[i] + if moved == 0.0 { 0.0 } else { shift / moved };
            *d = moved;
        }
        values
    }

    /// Returns the distances of the sites from their best values in shift and precision, in standard deviations of η. Half the sum of their
    /// squares is about the number of nats that a step gains.
    pub fn residuals(&self, losses: &Losses, marginals: &RowMarginals) -> Vec<f64> {
        let SiteValues { targets, precision } = &self.values;
        let beta = self.objective.beta;
        let of_row = |i: usize| {
            let (v, d) = (marginals.variance[i], precision[i]);
            let shift = losses.mean[i] / beta + d_times(d, targets[i] - marginals.mean[i]);
            let precision = 2.0 * losses.variance[i] / beta - d;
            [-shift * v.sqrt(), precision * v * 0.5f64.sqrt()]
        };
        (0..targets.len()).flat_map(of_row).collect()
    }
}

/// Returns `d (ỹ − μ)`; 0 for a site without precision, whose target means nothing.
fn d_times(d: f64, difference: f64) -> f64 {
    if d == 0.0 { 0.0 } else { d * difference }
}

impl SiteValues {
    /// Returns true if both have values for the same number of rows.
    pub fn is_like(&self, other: &SiteValues) -> bool {
        let rows = other.targets.len();
        self.targets.len() == rows && self.precision.len() == rows
    }

    /// Returns the values of sites at the η that explain each target best.
    pub fn explaining(likelihood: &ObservationModel, targets: Targets<'_>, beta: f64) -> SiteValues {
        let mut values = SiteValues { targets: Vec::new(), precision: Vec::new() };
        for i in 0..targets.len() {
            let (at, mut response) = (targets.at(i), [0.0]);
            likelihood.working_response(at, &mut response);
            let curvature = likelihood.one().map_or(1.0, |one| -one.curvature(at, response[0]));
            let precision = curvature.clamp(FIRST_PRECISION.0, FIRST_PRECISION.1);
            values.targets.push(response[0] - targets.offset(i, 0));
            values.precision.push(targets.weight(i) * precision / beta);
        }
        values
    }
}
