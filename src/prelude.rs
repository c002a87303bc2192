//! The items that most programs use, for one `use sparsegp::prelude::*`.

pub use crate::error::{Error, Result};
pub use crate::hyper::{Event, Record, Session, Stage};
pub use crate::kernels::Kernel;
pub use crate::likelihood::{Likelihood, LikelihoodKind};
pub use crate::model::{Model, Prediction, Predictions};
pub use crate::options::{FitOptions, Hyper, ModelKind, ObjectiveKind, StepOptions};
pub use crate::registry::Registry;
pub use crate::rows::Rows;
#[cfg(feature = "training")]
pub use crate::training::{Fit, Inducing, Linear, Points, Trainer};
