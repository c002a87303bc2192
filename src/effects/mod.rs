//! Grouped effects `z_iᵀb_l`, `b_l ~ N(0, Σ)`, in addition to the latent function: terms, sums over levels,
//! posterior moments, intervals.
//!
//! The model is `η_i = f(x_i) + Σ_j z_ijᵀ b_j,level(i,j)` with Gaussian noise. A term j has L_j levels, whose coefficients have the covariance
//! `Σ_j = F_j F_jᵀ` (`r_j × r_j`), and the whitened coefficients are `u = F⁻¹b ~ N(0, I)`, as in lme4 (Bates, Mächler, Bolker & Walker
//! 2015). One term, the one with the most coefficients, is
//! eliminated block by block; the Schur complement on all other coefficients and on the weights of f is factorised densely
//! (`collapsed::grouped_evidence`).
//!
//! Codes of levels and values of slopes are further columns of the inputs, behind the inputs of f. Splits, scaling and predictions therefore
//! treat them together with the rows.

mod features;
mod intervals;
mod moments;
mod posterior;
mod rows;
mod sums;
mod term;

pub(crate) use features::EffectFeatures;
pub(crate) use intervals::{Components, EffectIntervals, EffectSummary, Quantity, TermIntervals};
pub use intervals::{Ends, VarianceComponent};
pub use moments::Moments;
pub(crate) use moments::Sparse;
pub use posterior::{EffectPosterior, RowMoments};
pub(crate) use rows::EffectRows;
pub use rows::Entry;
pub(crate) use sums::EffectSums;
pub(crate) use term::columns_of;
pub use term::{EffectTerm, Effects, POPULATION};
