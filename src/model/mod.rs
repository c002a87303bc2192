//! Models and their training: wiring of layers, objectives, updates and solvers; fitted models; no algebra.

mod alternating;
mod batches;
mod carry;
mod check;
mod coefficients;
mod collapsed;
mod constraints;
mod diagnose;
mod failure;
mod file;
mod fit;
mod fit_file;
mod fitted;
mod geometry;
mod growth;
mod inducing_curve;
mod inference;
mod latent;
mod linear;
mod mixed;
mod options;
mod posterior;
mod predictions;
mod restarts;
mod rows;
mod search;
mod select;
mod solve;
mod source;
mod start;
mod streamed;
mod summary;
mod training;
mod variational;
mod warning;

pub use batches::{BatchPlan, BatchStream};
pub use carry::Parameterization;

pub use check::foreign;
pub use coefficients::Coefficient;
pub use collapsed::{CollapsedBound, CollapsedObjective};
pub use fit::{Fitted, Start, TrainingData, fit_arrays, fit_arrays_in};
pub use fit_file::{FileFit, FileFitRequest, MemoryPlan, check_file_fit, fit_file};
pub(crate) use fitted::find_schema;
pub use fitted::{FitRequest, FittedModel, HeldOut, TableFit, fit_table, fit_table_in};
pub use inducing_curve::{Certificate, Criterion, Growth, GrowthEnd, InducingCurve, InducingPoint};
pub use inference::{Inference, InferenceOptions};
pub use latent::LatentModel;
pub use mixed::MixedUse;
pub use options::{FitOptions, Hyper, HyperOptimizer, MeanKind, ModelKind, ObjectiveKind};
pub use posterior::{Marginals, Posterior, Root, Roots, Score};
pub use predictions::{Prediction, Predictions};
pub use restarts::Restart;
pub use search::Search;
pub use select::{
    BetaCurve, BetaPoint, Betas, GridFit, curve, fit_grid, grid_validation, refit_best, select_beta,
};
pub use summary::FitSummary;
pub use variational::VariationalModel;
pub use warning::{Input, Warning};
