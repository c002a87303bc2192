//! Fitted models: latent processes, posterior, predictions, the record of the fit, the model file.

mod arrays;
mod coefficients;
mod constraints;
mod covariance;
mod file;
mod fitted;
mod function_draws;
mod grouped;
mod inducing_curve;
mod latent;
mod leave_one_out;
mod linear;
mod local;
mod nearby;
mod posterior;
mod predictions;
mod residual_features;
mod slopes;
mod summary;
mod warning;

pub use arrays::damaged_model;
pub use coefficients::Coefficient;
pub use file::{SEVERAL, read_model_file};
pub use fitted::Model;
pub use function_draws::{FunctionDraws, Stopped};
pub use grouped::{IntraclassCorrelation, LevelEffect};
pub use inducing_curve::{Certificate, Criterion, GrowthEnd, InducingCurve, InducingPoint};
pub(crate) use latent::unit_of;
pub use latent::{Hyperparameter, LatentModel, LatentPrior};
pub use nearby::Nearby;
pub(crate) use nearby::NearbyRows;
pub use posterior::{Marginals, Posterior, Score};
pub use predictions::{ConstantModel, Prediction, Predictions};
pub use slopes::Slopes;
pub use summary::{BetaCurve, BetaPoint, Choice, Choices, FitSummary, Restart, Search, Tried, Update};
pub use warning::{Input, Severity, Warning};
