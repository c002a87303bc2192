//! Numbers in rows: the roles of rows, batches, scaling, moments, random draws.

mod batches;
mod moments;
mod scaling;
mod size_schedule;
mod split;
mod warp;

pub(crate) use batches::BatchStream;
pub use batches::{BatchPlan, Purpose, generator, part_generator};
pub use moments::Moments;
pub use scaling::{Affine, Scaling};
pub use size_schedule::SizeSchedule;
pub use split::{Role, Roles, Split, check_fractions, split};
pub use warp::{InputWarp, TargetMap, TargetWarp};
