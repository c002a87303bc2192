//! How a model is trained: rows, batches, steps, the loop and its diagnosis; no tables, no files.

mod alternating;
mod arrays;
mod batch_training;
mod builder;
mod check;
pub(crate) mod choices;
mod collapsed;
mod diagnose;
mod extrapolation;
mod failure;
mod geometry;
mod inference;
mod neighbours;
mod outcome;
mod outputs;
mod owned;
mod parts;
mod place;
mod record;
mod row_buffer;
mod rows;
mod run;
mod scaling;
pub mod search;
mod shared;
mod solve;
mod start;
mod theorem;
mod trainer;
mod update;
mod variational;

pub use arrays::{fit_arrays, fit_arrays_in};
pub use builder::ModelBuilder;
pub use collapsed::CollapsedObjective;
pub use inference::{Inference, InferenceOptions};
pub use neighbours::NeighbourObjective;
pub use outputs::{OutputRows, fit_outputs, fit_shared_outputs};
pub use parts::{PartedPortion, PartedRows, Parts, Round, Sums};
pub use rows::{AllRows, BatchSource, Portion, TrainingData, TrainingRows};
pub use run::Fitted;
pub use start::{Prototype, Start};
pub use trainer::Trainer;
pub use update::update;
pub use variational::VariationalModel;

/// What fits to tables and files need besides.
#[cfg(feature = "tables")]
pub(crate) use self::{
    arrays::{Origin, fit_rows},
    choices::{Chosen, choose},
    parts::unreadable,
    record::record,
    row_buffer::RowBuffer,
    scaling::{asks_for_warps, scaling_of, suited},
    start::WARM_ROWS,
};
