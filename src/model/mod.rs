//! What a model is and tells: latent processes, posterior, predictions, the record of its fit, its file; no training, no tables.

mod arrays;
mod coefficients;
mod constant;
mod constraints;
mod file;
mod fitted;
mod inducing_curve;
mod latent;
mod linear;
mod mixed;
mod nearby;
mod posterior;
mod predictions;
mod restored;
mod search;
mod summary;
mod unusable;
mod warning;

pub use coefficients::Coefficient;
pub use constant::ConstantModel;
pub use file::{SEVERAL, read_model_file};
pub use fitted::Model;
pub use inducing_curve::{Certificate, Criterion, GrowthEnd, InducingCurve, InducingPoint};
pub use latent::{LatentModel, LatentPrior};
pub use mixed::MixedUse;
pub use nearby::{Nearby, NearbyRows};
pub use posterior::{Marginals, Posterior, Score};
pub use predictions::{Prediction, Predictions};
pub use search::{BetaCurve, BetaPoint, Choice, Choices, Restart, Search, Tried};
pub use summary::{FitSummary, StepGuarantee, Update};
pub use unusable::damaged_model;
pub use warning::{Input, Warning};
