//! The options of a fit, their checks, and the plan in which the defaults are resolved.

mod betas;
mod check;
mod fit;
mod grouped;
mod growth;
mod open;
mod plan;
mod refuse;
mod steps;
mod stored;
mod together;
mod words;

pub use betas::Betas;
pub(crate) use check::MOST_NEIGHBOURS;
pub use check::{check_threads, foreign};
pub use fit::FitOptions;
pub(crate) use grouped::MOST_IN_STEPS;
pub use growth::Growth;
pub use open::{Open, Part};
pub use plan::{GroupedBound, Keeping, NeighbourPlan};
pub(crate) use plan::{HyperPlan, LayerPlan, Plan, StepPlan, Way};
pub use steps::StepOptions;
pub(crate) use stored::of_model;
pub use words::{Hyper, HyperOptimizer, LossKind, MeanKind, ModelKind, ObjectiveKind};
