//! Models and their training: wiring of layers, objectives, updates and solvers; fitted models; no algebra.

mod batches;
mod check;
mod coefficients;
mod collapsed;
mod diagnose;
mod file;
mod fit;
mod fit_file;
mod fitted;
mod inference;
mod latent;
mod linear;
mod options;
mod posterior;
mod predictions;
mod rows;
mod select;
mod solve;
mod source;
mod start;
mod streamed;
mod training;
mod variational;

pub use batches::{BatchPlan, BatchStream};
pub use check::foreign;
pub use coefficients::Coefficient;
pub use collapsed::{CollapsedBound, CollapsedObjective};
pub use fit::{FitSummary, Fitted, Start, TrainingData, fit_arrays};
pub use fit_file::{FileFit, FileFitRequest, MemoryPlan, check_file_fit, fit_file};
pub(crate) use fitted::find_schema;
pub use fitted::{FitRequest, FittedModel, HeldOut, TableFit, fit_table};
pub use inference::{Inference, InferenceOptions};
pub use latent::LatentModel;
pub use options::{FitOptions, Hyper, HyperOptimizer, MeanKind, ModelKind, ObjectiveKind};
pub use posterior::{Marginals, Posterior, Root, Roots, Score};
pub use predictions::{Prediction, Predictions};
pub use select::{
    BetaCurve, BetaPoint, Betas, GridFit, curve, fit_grid, grid_validation, refit_best, select_beta,
};
pub use variational::{Parameterization, VariationalModel};
