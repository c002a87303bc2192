//! Bounds with q solved in closed form for Gaussian noise (VFE, collapsed β-ELBO, FITC, square-loss
//! DLM, an upper bound).
//!
//! Comments use these symbols. A has the whitened features a_i of a row in each column. A row has the
//! target y_i, the offset o_i, `c_i = y_i − o_i`, the residual variance r_i and the weight ω_i. Sums over
//! rows are `Φ = A diag(ω) Aᵀ`, `φ = A diag(ω) c` and `t = Σ r_i` ([`Statistics`]). A bar marks derivatives
//! of the bound J: `Φ̄ = ∂J/∂Φ`. W and κ are those of [`LatentLayer`](crate::latent::LatentLayer), σ² is the
//! noise variance, and q(w) = N(m, S).

mod bounds;
mod conditional;
mod conditional_stream;
mod dataset;
mod evidence;
mod fitc;
mod grouped;
mod grouped_statistics;
mod stream;
mod sums;

pub use bounds::{
    BoundValue, OutputBounds, UpperBound, collapsed_elbo, collapsed_elbos, square_loss, upper_bound,
};
pub use conditional::{GaussianLoss, PredictiveLoss, RowLoss, conditional_dlm, conditional_elbo};
pub use conditional_stream::{ConditionalStream, Predictions, RowWeight, RowsAdjoint, Sweep};
pub use dataset::{Dataset, Weighting};
pub use evidence::dense_upper_bound;
pub use fitc::fitc;
pub use grouped::{GroupedEvidence, GroupedSums, WeightPrior, grouped_evidence};
pub use grouped_statistics::GroupedStatistics;
pub(crate) use grouped_statistics::{GroupedAdjoint, GroupedBy};
pub use stream::{DataStream, EffectPass, EffectSweep, RowMarginals};
pub use sums::{BoundAdjoint, BoundGradient, OutputSums, Statistics, StatisticsAdjoint};

/// The collapsed quantity that is minimised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CollapsedBound {
    /// The collapsed β-ELBO; Titsias' bound (VFE) at β = 1.
    Elbo {
        /// The weight of the KL term.
        beta: f64,
    },
    /// FITC's negative log evidence.
    Fitc,
    /// The square-loss DLM objective minimised over the mean of q.
    Square {
        /// The weight of the penalty ½ mᵀm.
        beta: f64,
    },
}
