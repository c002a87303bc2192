//! What a model is and tells: latent processes, posterior, predictions, the record of its fit, its file; no training, no tables.

mod arrays;
mod coefficients;
#[cfg(feature = "tables")]
mod constant;
mod constraints;
mod covariance;
mod file;
mod fitted;
mod function_draws;
mod inducing_curve;
mod latent;
mod linear;
mod local;
mod mixed;
mod nearby;
mod posterior;
mod predictions;
mod restored;
mod search;
mod slopes;
mod summary;
mod unusable;
mod warning;

pub use coefficients::Coefficient;
#[cfg(feature = "tables")]
pub(crate) use constant::ConstantModel;
#[cfg(feature = "tables")]
pub(crate) use file::{SEVERAL, read_model_file};
pub use fitted::Model;
pub use function_draws::FunctionDraws;
pub use inducing_curve::{Certificate, Criterion, GrowthEnd, InducingCurve, InducingPoint};
pub use latent::{LatentModel, LatentPrior};
pub use mixed::MixedUse;
pub use nearby::{Nearby, NearbyRows};
pub use posterior::{Marginals, Posterior, Root, Roots, Score};
pub use predictions::{Prediction, Predictions};
pub use search::{BetaCurve, BetaPoint, Choice, Choices, Restart, Search, Tried};
pub use slopes::Slopes;
pub use summary::{FitSummary, StepGuarantee, Update};
#[cfg(feature = "tables")]
pub(crate) use unusable::damaged_model;
pub use warning::{Input, Warning};
