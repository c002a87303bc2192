//! The training of a model: rows, batches, steps, the loop and its diagnosis.

mod arrays;
mod check;
#[doc(hidden)]
pub mod choices;
mod collapsed;
mod diagnose;
mod exact;
mod failure;
mod fit;
mod geometry;
mod grouped;
mod hyper_posterior;
mod lengths;
mod neighbours;
mod outputs;
mod round;
mod row_sums;
mod rows;
mod run;
mod scaled_outputs;
#[doc(hidden)]
pub mod search;
mod shared;
mod solver;
mod start;
mod steps;
mod trainer;
mod update;
mod warm_start;

#[doc(inline)]
pub use crate::collapsed::Dataset;
#[doc(inline)]
pub use crate::gradient::Batch;
pub use arrays::{Origin, fit_arrays, fit_arrays_in, fit_rows};
pub use collapsed::CollapsedObjective;
pub use fit::{Fit, Inducing, Latent, Linear, Points, asks_for_warps, scaling_of, suited};
pub use grouped::GroupedObjective;
pub use neighbours::NeighbourObjective;
pub use outputs::{OutputRows, fit_outputs, fit_shared_outputs};
pub use round::{PartSums, PartedPortion, PartedRows, Parts, Round, Sums, unreadable};
pub use rows::{AllRows, BatchSource, Portion, RowBuffer, TrainingData, TrainingRows};
pub use run::Fitted;
pub use scaled_outputs::ScaledOutputs;
pub use start::{Function, Prototype, Start};
pub use steps::{Inference, InferenceOptions, VariationalModel};
pub use trainer::Trainer;
pub use update::{update, update_outputs};
pub use warm_start::WARM_ROWS;
