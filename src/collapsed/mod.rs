//! Bounds with q solved in closed form for Gaussian noise (VFE, collapsed β-ELBO, FITC, square-loss
//! DLM, an upper bound).

mod bounds;
mod conditional;
mod conditional_stream;
mod dataset;
mod evidence;
mod fitc;
mod grouped;
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
