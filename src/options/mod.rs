//! The options of a fit, their checks, and the plan in which the defaults are resolved.

mod check;
mod fit;
mod growth;
mod open;
mod plan;
mod steps;
mod stored;
mod words;

#[doc(inline)]
pub use crate::data::{InputWarp, SizeSchedule, TargetWarp};
pub(crate) use check::{MOST_IN_STEPS, MOST_NEIGHBOURS};
pub use check::{check_threads, foreign};
pub use fit::FitOptions;
pub use growth::{Betas, Growth};
pub use open::{Open, Part};
pub use plan::{GroupedBound, Keeping, NeighbourPlan};
pub(crate) use plan::{Plan, Way};
pub use steps::StepOptions;
pub(crate) use stored::of_model;
pub use words::{Hyper, HyperOptimizer, HyperPosteriorKind, LossKind, MeanKind, ModelKind, ObjectiveKind};
