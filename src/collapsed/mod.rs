//! The best q in closed form for losses that are quadratic in the latent mean (VFE, collapsed β-ELBO, FITC, square-loss
//! DLM), with grouped effects, and upper bounds on the evidence.
//!
//! Comments use these symbols. A has the whitened features a_i of a row in each column. A row has the
//! target y_i, the offset o_i, `c_i = y_i − o_i`, the residual variance r_i and the precision ω_i. W and κ are those of
//! [`LatentLayer`](crate::latent::LatentLayer), σ² is the noise variance, and q(w) = N(m, S). Sums over rows are those of a
//! [pass](crate::gradient::BatchPass) at the origin.

mod bounds;
mod conditional;
mod dataset;
mod evidence;
mod grouped;

pub(crate) use bounds::upper_bound;
pub use bounds::{Solution, noise_derivative, solve};
pub(crate) use conditional::tangent;
pub use dataset::Dataset;
pub use evidence::dense_upper_bound;
pub use grouped::WeightPrior;
pub(crate) use grouped::{GroupedEvidence, GroupedSums, grouped_evidence};
